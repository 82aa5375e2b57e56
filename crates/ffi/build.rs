//! Gives the shared library its SONAME, which plain cargo does not: programs that were linked against one version of the
//! ABI must never be loaded with another.

include!("src/abi.rs");

fn main() {
    println!("cargo:rerun-if-changed=src/abi.rs");
    let os = std::env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    match os.as_str() {
        "linux" | "android" | "freebsd" | "netbsd" | "openbsd" | "dragonfly" => {
            println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,librunledger.so.{RUNLEDGER_ABI_VERSION}");
        }
        "macos" | "ios" => {
            println!("cargo:rustc-cdylib-link-arg=-Wl,-install_name,@rpath/librunledger.{RUNLEDGER_ABI_VERSION}.dylib");
        }
        _ => {}
    }
    for (name, key) in [("RUNLEDGER_TARGET", "TARGET"), ("RUNLEDGER_PROFILE", "PROFILE")] {
        println!("cargo:rustc-env={name}={}", std::env::var(key).unwrap_or_default());
    }
}
