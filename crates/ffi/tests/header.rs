//! The C header is made from the source, has what the library exports, and can be read by those who need it.

#![allow(clippy::unwrap_used, reason = "in tests a panic is how a case fails")]

use std::collections::BTreeSet;
use std::path::Path;

use cbindgen::{Bindings, Builder, Config};

/// What only a C compiler can read, and so is not in cbindgen.toml.
const LENGTH_OF_A_STRING: &str = "
/* A length that says: as far as the first NUL. */
#define RUNLEDGER_NTS ((size_t)-1)";

fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn made(change: impl FnOnce(&mut Config)) -> String {
    let mut config = Config::from_file(folder().join("cbindgen.toml")).unwrap();
    change(&mut config);
    let made: Bindings = Builder::new().with_crate(folder()).with_config(config).generate().unwrap();
    let mut header = Vec::new();
    made.write(&mut header);
    String::from_utf8(header).unwrap()
}

/// `RUNLEDGER_WRITE_DOCS=1` writes the header instead of comparing it.
#[test]
fn the_header_is_that_of_the_source() {
    let header = made(|config| {
        config.sys_includes = ["stdbool.h", "stddef.h", "stdint.h"].map(str::to_owned).into();
        config.cpp_compat = true;
        config.after_includes = Some(LENGTH_OF_A_STRING.to_owned());
    });
    let path = folder().join("include/runledger.h");
    if std::env::var_os("RUNLEDGER_WRITE_DOCS").is_some() {
        std::fs::write(path, header).unwrap();
    } else {
        let committed = std::fs::read_to_string(path).unwrap();
        assert!(committed == header, "include/runledger.h is not that of the source; `cargo xtask docs` writes it");
    }
}

/// Tools that bind other languages read declarations without a preprocessor.
#[test]
fn without_its_guard_the_header_needs_no_preprocessor() {
    let header = made(|config| config.include_guard = None);
    let mut kinds = BTreeSet::new();
    for directive in header.lines().filter_map(|line| line.strip_prefix('#')) {
        let (name, value) = directive.strip_prefix("define ").and_then(|define| define.split_once(' ')).expect(directive);
        assert!(name.starts_with("RUNLEDGER_") && value.parse::<u64>().is_ok(), "#{directive}");
        kinds.insert(name);
    }
    assert!(kinds.contains("RUNLEDGER_NOT_FOUND") && kinds.contains("RUNLEDGER_ABI_VERSION"));
}
