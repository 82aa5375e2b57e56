//! Keys and values as redb has them: what can be read is written again as it was read.
#![no_main]

use libfuzzer_sys::fuzz_target;
use runledger_core::codec::{self, StateCodec};
use runledger_core::keys::{Key, KeyReader};
use runledger_core::{AgentRun, Id, NodeRun, Run};

fn value<R: StateCodec>(bytes: &[u8]) {
    let (project, id) = (Id::from("p"), Id::from("r"));
    let Ok((stored, rest)) = codec::decode::<R>(&project, &id, bytes) else { return };
    let mut written = Vec::new();
    codec::encode(&stored.record, stored.held, &mut written);
    let (again, nothing) = codec::decode::<R>(&project, &id, &written).expect("what was written can be read");
    assert!(nothing.is_empty() && rest.len() <= bytes.len());
    assert_eq!((again.record, again.held), (stored.record, stored.held));
}

fn key(bytes: &[u8]) {
    let mut reader = KeyReader(bytes);
    let Some((project, time, number, status, id)) =
        (|| Some((reader.id()?, reader.time()?, reader.u32()?, reader.status()?, reader.id()?)))()
    else {
        return;
    };
    let read = bytes.len() - reader.0.len();
    let written = Key::new().id(&project).time(time).u32(number).status(status).id(&id);
    assert_eq!(written.0.as_slice(), &bytes[..read]);
}

fuzz_target!(|bytes: &[u8]| {
    value::<Run>(bytes);
    value::<NodeRun>(bytes);
    value::<AgentRun>(bytes);
    key(bytes);
});
