//! The JSON form: whatever is read is written as it is read, and whatever is asked is answered with JSON, and never with a
//! defect.
#![no_main]

use libfuzzer_sys::fuzz_target;
use runledger_backend_memory::MemoryBackend;
use runledger_core::{Ledger, OpenOptions, Request};
use serde_json::Value;

fuzz_target!(|bytes: &[u8]| {
    let options = OpenOptions::new();
    if let Ok(request) = Request::from_json(bytes, &options.limits()) {
        let written = request.to_json();
        let again = Request::from_json(written.as_bytes(), &options.limits()).expect("what was written can be read");
        assert_eq!(again, request);
        assert_eq!(again.to_json(), written);
    }
    let ledger = Ledger::new(MemoryBackend::open(&options).expect("memory can be opened"), &options);
    // One request a line, so that later ones find what earlier ones made.
    for line in bytes.split(|byte| *byte == b'\n') {
        let answer = ledger.call_json(line);
        let answer: Value = serde_json::from_str(&answer).expect("an answer is JSON");
        assert_eq!(answer.as_object().map(serde_json::Map::len), Some(1));
        assert_ne!(answer["error"]["code"], "internal");
    }
});
