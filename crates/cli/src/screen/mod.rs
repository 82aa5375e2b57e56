//! What people see: text that is safe in a terminal, times and spans, tables.

pub(crate) mod out;
pub(crate) mod paint;
pub(crate) mod rows;
pub(crate) mod table;
pub(crate) mod text;
pub(crate) mod time;
