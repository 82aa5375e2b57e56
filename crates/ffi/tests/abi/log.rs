//! The log of the library, in a function of the program.

use std::ffi::{c_char, c_void};
use std::ptr;
use std::sync::Mutex;

use runledger_ffi::*;

use crate::kit::{Refused, Store, text};

type Lines = Mutex<Vec<(i32, String)>>;

unsafe extern "C" fn note(user: *mut c_void, level: i32, message: *const c_char, len: usize) {
    let message = text(|place| {
        unsafe { place.write(len) };
        message
    });
    unsafe { &*user.cast::<Lines>() }.lock().unwrap().push((level, message));
}

/// One test, since there is one log for the process.
#[test]
fn what_operators_should_see_reaches_the_program_until_it_wants_no_more() {
    let lines = Lines::default();
    let user = ptr::from_ref(&lines).cast_mut().cast();
    let mut err = ptr::null_mut();
    for level in [0, 6, -1] {
        let status = unsafe { runledger_set_log(Some(note), user, level, &mut err) };
        assert_eq!(unsafe { Refused::take(status, err) }.field().as_deref(), Some("max_level"));
    }
    let store = Store::memory();
    store.get("").unwrap_err();
    assert_eq!(unsafe { runledger_set_log(Some(note), user, RUNLEDGER_LOG_DEBUG, &mut err) }, RUNLEDGER_OK);
    store.queue("r1").unwrap();
    store.queue("r1").unwrap_err();
    {
        let told = lines.lock().unwrap();
        assert_eq!(told.len(), 1, "{told:?}");
        assert_eq!(told[0].0, RUNLEDGER_LOG_DEBUG);
        assert!(told[0].1.starts_with("refused") && told[0].1.contains("already_exists"), "{told:?}");
    }
    assert_eq!(unsafe { runledger_set_log(Some(note), user, RUNLEDGER_LOG_ERROR, &mut err) }, RUNLEDGER_OK);
    store.queue("r1").unwrap_err();
    assert_eq!(unsafe { runledger_set_log(None, ptr::null_mut(), 0, &mut err) }, RUNLEDGER_OK);
    store.queue("r1").unwrap_err();
    assert_eq!(lines.lock().unwrap().len(), 1);
}
