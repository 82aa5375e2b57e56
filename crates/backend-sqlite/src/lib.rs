//! The sqlite backend of runledger.
