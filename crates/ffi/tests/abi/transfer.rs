//! Streams that are the program's own, and callbacks that stop them.

use std::ffi::{CStr, c_char, c_void};
use std::ptr;

use runledger_ffi::*;
use tempfile::tempdir;

use crate::kit::{Store, answer, append, read_on, url};

unsafe extern "C" fn refuse_bytes(_: *mut c_void, _: *const u8, _: usize) -> i32 {
    1
}

unsafe extern "C" fn refuse_to_read(_: *mut c_void, _: *mut u8, _: usize, _: *mut usize) -> i32 {
    -1
}

unsafe extern "C" fn stop(_: *mut c_void, _: *const c_char, _: u64, _: u64) -> i32 {
    1
}

unsafe extern "C" fn too_long(_: *mut c_void, _: *mut u8, capacity: usize, len: *mut usize) -> i32 {
    unsafe { *len = capacity + 1 };
    0
}

unsafe extern "C" fn stages(user: *mut c_void, stage: *const c_char, done: u64, total: u64) -> i32 {
    let stage = unsafe { CStr::from_ptr(stage) }.to_str().unwrap().to_owned();
    unsafe { &mut *user.cast::<Vec<(String, u64, u64)>>() }.push((stage, done, total));
    0
}

fn filled() -> Store {
    let store = Store::memory();
    (0..10).for_each(|n| drop(store.queue(&format!("r{n}")).unwrap()));
    store
}

#[test]
fn a_store_moves_through_callbacks() {
    let (from, to) = (filled(), Store::memory());
    let stream = from.export().unwrap();
    assert_eq!(to.import(&stream).unwrap(), r#"{"runs":10,"nodes":0,"agents":0,"skipped":0}"#);
    assert_eq!(to.import(&stream).unwrap(), r#"{"runs":0,"nodes":0,"agents":0,"skipped":10}"#);
    assert_eq!(to.export().unwrap(), stream);
    let third = Store::memory();
    let mut told: Vec<(String, u64, u64)> = Vec::new();
    let user = ptr::from_mut(&mut told).cast();
    let copied = answer(|out, err| unsafe { runledger_copy(from.0, third.0, Some(stages), user, out, err) });
    assert_eq!(copied.unwrap(), r#"{"runs":10,"nodes":0,"agents":0,"skipped":0}"#);
    for stage in ["exporting", "checking", "storing"] {
        assert!(told.iter().any(|(name, ..)| name == stage), "{stage}: {told:?}");
    }
    let snapshot = answer(|out, err| unsafe { runledger_snapshot(third.0, out, err) }).unwrap();
    third.queue("more").unwrap();
    let restored = answer(|out, err| unsafe { runledger_restore(third.0, snapshot.as_ptr().cast(), snapshot.len(), out, err) });
    assert!(restored.unwrap().starts_with(r#"{"runs":10,"#));
    assert_eq!(third.export().unwrap(), stream);
}

/// Whoever stops it hears `interrupted`, and nothing is kept.
#[test]
fn a_callback_that_answers_anything_but_0_interrupts() {
    let (from, to) = (filled(), Store::memory());
    let name = |outcome: Result<String, crate::kit::Refused>| outcome.unwrap_err().name;
    let none = ptr::null_mut;
    assert_eq!(name(answer(|out, err| unsafe { runledger_export(from.0, Some(refuse_bytes), None, none(), out, err) })), "interrupted");
    let mut taken: Vec<u8> = Vec::new();
    let user = ptr::from_mut(&mut taken).cast();
    assert_eq!(name(answer(|out, err| unsafe { runledger_export(from.0, Some(append), Some(stop), user, out, err) })), "interrupted");
    assert_eq!(name(answer(|out, err| unsafe { runledger_import(to.0, Some(refuse_to_read), None, none(), out, err) })), "interrupted");
    let stream = from.export().unwrap();
    let mut rest = &stream[..];
    let user = ptr::from_mut(&mut rest).cast();
    assert_eq!(name(answer(|out, err| unsafe { runledger_import(to.0, Some(read_on), Some(stop), user, out, err) })), "interrupted");
    assert_eq!(name(answer(|out, err| unsafe { runledger_copy(from.0, to.0, Some(stop), none(), out, err) })), "interrupted");
    assert_eq!(to.total(), 0);
    // A callback that says it gave more than there was room for is not believed.
    assert_eq!(name(answer(|out, err| unsafe { runledger_import(to.0, Some(too_long), None, none(), out, err) })), "io");
}

#[test]
fn a_stream_that_is_cut_short_is_corrupt() {
    let stream = filled().export().unwrap();
    let to = Store::memory();
    assert_eq!(to.import(&stream[..stream.len() - 1]).unwrap_err().name, "corrupt");
    assert_eq!(to.import(b"").unwrap_err().name, "corrupt");
    assert_eq!(to.total(), 0);
}

#[test]
fn a_backup_is_a_store_beside_the_one_in_use() {
    for scheme in ["sqlite", "redb"] {
        let dir = tempdir().unwrap();
        let store = Store::open(&url(scheme, &dir.path().join("store")));
        store.queue("r1").unwrap();
        let copy = dir.path().join("copy");
        let path = std::ffi::CString::new(copy.to_str().unwrap()).unwrap();
        let backup = || answer(|out, err| unsafe { runledger_backup(store.0, path.as_ptr(), None, ptr::null_mut(), out, err) });
        assert!(backup().unwrap().starts_with(r#"{"form":"store","#));
        assert_eq!(backup().unwrap_err().name, "io");
        assert_eq!(Store::open(&url(scheme, &copy)).total(), 1);
    }
}
