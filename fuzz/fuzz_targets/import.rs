//! The stream of an import: it is taken whole or not at all, and what was taken is exported again as it came.
#![no_main]

use libfuzzer_sys::fuzz_target;
use runledger_backend_memory::MemoryBackend;
use runledger_core::{Code, Ledger, OpenOptions};
use sha2::{Digest, Sha256};

fn open() -> Ledger {
    let options = OpenOptions::new();
    Ledger::new(MemoryBackend::open(&options).expect("memory can be opened"), &options)
}

fn export(ledger: &Ledger) -> Vec<u8> {
    let mut stream = Vec::new();
    ledger.export(&mut stream).expect("memory can be exported");
    stream
}

/// The lines as a stream whose end says what is in it, so that more than the checksum is tried.
fn sealed(lines: &[u8]) -> Vec<u8> {
    let mut stream = b"{\"runledger\":{\"format\":1}}\n".to_vec();
    stream.extend_from_slice(lines);
    if !stream.ends_with(b"\n") {
        stream.push(b'\n');
    }
    let count = |kind: &[u8]| stream.split(|byte| *byte == b'\n').filter(|line| line.starts_with(kind)).count();
    let (runs, nodes, agents) = (count(b"{\"run\":"), count(b"{\"node\":"), count(b"{\"agent\":"));
    let digest: String = Sha256::digest(&stream).iter().map(|byte| format!("{byte:02x}")).collect();
    let end = format!("{{\"end\":{{\"runs\":{runs},\"nodes\":{nodes},\"agents\":{agents},\"sha256\":\"{digest}\"}}}}\n");
    stream.extend_from_slice(end.as_bytes());
    stream
}

fuzz_target!(|bytes: &[u8]| {
    for stream in [bytes.to_vec(), sealed(bytes)] {
        let ledger = open();
        let empty = export(&ledger);
        match ledger.import(&mut stream.as_slice()) {
            Err(error) => {
                assert_ne!(error.code(), Code::Internal, "{error}");
                assert_eq!(export(&ledger), empty, "a refused import has left something");
            }
            Ok(imported) => {
                let exported = export(&ledger);
                let again = open();
                let twice = again.import(&mut exported.as_slice()).expect("what was exported can be imported");
                assert_eq!((twice.runs, twice.nodes, twice.agents), (imported.runs, imported.nodes, imported.agents));
                assert_eq!(export(&again), exported);
            }
        }
    }
});
