//! The memory backend of runledger.
