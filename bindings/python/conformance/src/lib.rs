//! The conformance suite over the typed methods of the Python package: see `tests/suite.rs` and `bridge.py`.
