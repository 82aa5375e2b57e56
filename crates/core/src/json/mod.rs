//! The JSON form: one scanner, one reader and one writer, without intermediate values.

pub(crate) mod read;
pub(crate) mod scan;
pub(crate) mod write;
