//! Which library this is.

use std::ffi::{CStr, c_char};

use crate::abi::RUNLEDGER_ABI_VERSION;
use crate::wall::quiet;

/// The first number of the version of this header.
pub const RUNLEDGER_VERSION_MAJOR: u32 = 0;
/// The second number of the version of this header.
pub const RUNLEDGER_VERSION_MINOR: u32 = 1;
/// The third number of the version of this header.
pub const RUNLEDGER_VERSION_PATCH: u32 = 0;
/// The version of this header as one number that can be compared: major * 1000000 + minor * 1000 + patch.
pub const RUNLEDGER_VERSION_NUMBER: u32 = 1000;

const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");

#[cfg(feature = "postgres")]
macro_rules! backends {
    () => {
        r#"["memory","sqlite","redb","postgres"]"#
    };
}
#[cfg(not(feature = "postgres"))]
macro_rules! backends {
    () => {
        r#"["memory","sqlite","redb"]"#
    };
}

const BUILD_INFO: &str = concat!(
    r#"{"version":""#,
    env!("CARGO_PKG_VERSION"),
    r#"","backends":"#,
    backends!(),
    r#","target":""#,
    env!("RUNLEDGER_TARGET"),
    r#"","profile":""#,
    env!("RUNLEDGER_PROFILE"),
    "\"}\0"
);

/// A constant of this library for C; all of them end in NUL.
pub(crate) fn terminated(text: &'static str) -> *const c_char {
    CStr::from_bytes_with_nul(text.as_bytes()).unwrap_or_default().as_ptr()
}

/// The version of the library that is loaded, such as "0.1.0". Never NULL, never freed.
#[unsafe(no_mangle)]
pub extern "C" fn runledger_version() -> *const c_char {
    quiet(c"".as_ptr(), || terminated(VERSION))
}

/// The version of the library that is loaded as a number, to compare with RUNLEDGER_VERSION_NUMBER.
#[unsafe(no_mangle)]
pub extern "C" fn runledger_version_number() -> u32 {
    quiet(0, || RUNLEDGER_VERSION_NUMBER)
}

/// The version of the ABI of the library that is loaded. A program that loads it at run time refuses one that differs from
/// its RUNLEDGER_ABI_VERSION; one that is linked against it need not ask, since the SONAME does.
#[unsafe(no_mangle)]
pub extern "C" fn runledger_abi_version() -> u32 {
    quiet(0, || RUNLEDGER_ABI_VERSION)
}

/// How the library that is loaded was built, as a JSON object: version, backends, target, profile. Never NULL, never freed.
#[unsafe(no_mangle)]
pub extern "C" fn runledger_build_info() -> *const c_char {
    quiet(c"".as_ptr(), || terminated(BUILD_INFO))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_macros_are_the_version_of_the_package() {
        let parts = [RUNLEDGER_VERSION_MAJOR, RUNLEDGER_VERSION_MINOR, RUNLEDGER_VERSION_PATCH];
        let [major, minor, patch] = parts;
        assert_eq!(format!("{major}.{minor}.{patch}"), env!("CARGO_PKG_VERSION"));
        assert_eq!(RUNLEDGER_VERSION_NUMBER, major * 1_000_000 + minor * 1000 + patch);
    }

    #[test]
    fn every_constant_text_ends_in_its_only_nul() {
        for text in [VERSION, BUILD_INFO] {
            assert!(CStr::from_bytes_with_nul(text.as_bytes()).is_ok(), "{text}");
        }
    }
}
