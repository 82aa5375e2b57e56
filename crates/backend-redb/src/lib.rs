//! The redb backend of runledger.
