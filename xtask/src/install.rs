//! Installs the C library: `cargo xtask install --prefix P`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::Result;
use crate::command::{root, run};
use crate::metadata::Metadata;

/// What a program needs that is linked against the static library, as rustc prints it.
const SYSTEM_LIBRARIES: [&str; 7] = ["gcc_s", "util", "rt", "pthread", "m", "dl", "c"];

const USAGE: &str = "usage: cargo xtask install --prefix FOLDER [--from FOLDER-WITH-BUILT-LIBRARIES]";

pub(crate) fn task(arguments: &[String]) -> ExitCode {
    let installed = match arguments {
        [flag, prefix] if flag == "--prefix" => build().and_then(|built| install(&built, Path::new(prefix))),
        [flag, prefix, from, built] if flag == "--prefix" && from == "--from" => install(Path::new(built), Path::new(prefix)),
        _ => Err(USAGE.to_owned()),
    };
    match installed {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("install: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Builds the library as it is shipped; gives the folder it is in.
fn build() -> Result<PathBuf> {
    run("cargo build --release --locked --package runledger-ffi")?;
    Ok(Metadata::read()?.target_directory()?.join("release"))
}

fn install(built: &Path, prefix: &Path) -> Result<()> {
    let package = root().join("crates/ffi");
    let abi = abi_version(&package)?;
    let (lib, include) = (prefix.join("lib"), prefix.join("include"));
    // On Apple systems the number stands before the suffix, as in the install name.
    let (built_name, shared, plain) = if cfg!(target_vendor = "apple") {
        ("librunledger_ffi.dylib", format!("librunledger.{abi}.dylib"), "librunledger.dylib")
    } else {
        ("librunledger_ffi.so", format!("librunledger.so.{abi}"), "librunledger.so")
    };
    put(&built.join(built_name), &lib.join(&shared))?;
    put(&built.join("librunledger_ffi.a"), &lib.join("librunledger.a"))?;
    link(&shared, &lib.join(plain))?;
    for header in ["runledger.h", "runledger.hpp"] {
        put(&package.join("include").join(header), &include.join(header))?;
    }
    let version = Metadata::read()?.package("runledger-ffi")?["version"].as_str().ok_or("the package has no version")?.to_owned();
    let (flags, names): (Vec<String>, Vec<&str>) = SYSTEM_LIBRARIES.iter().map(|name| (format!("-l{name}"), *name)).unzip();
    for (template, folder, libraries) in [
        ("runledger.pc", lib.join("pkgconfig"), flags.join(" ")),
        ("runledgerConfig.cmake", lib.join("cmake/runledger"), names.join(";")),
        ("runledgerConfigVersion.cmake", lib.join("cmake/runledger"), String::new()),
    ] {
        let path = package.join("install").join(format!("{template}.in"));
        let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        let text = text.replace("@VERSION@", &version).replace("@SHARED@", &shared).replace("@SYSTEM_LIBRARIES@", &libraries);
        write(&folder.join(template), &text)?;
    }
    println!("installed runledger {version} (ABI {abi}) under {}", prefix.display());
    Ok(())
}

fn abi_version(package: &Path) -> Result<u32> {
    let path = package.join("src/abi.rs");
    let source = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let number = source.split("RUNLEDGER_ABI_VERSION: u32 = ").nth(1).and_then(|rest| rest.split(';').next());
    number.and_then(|number| number.parse().ok()).ok_or_else(|| format!("{}: no ABI version", path.display()))
}

fn make_folder_of(path: &Path) -> Result<()> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))
}

/// Copies a file. One that is in use, as a library that is loaded, is replaced and not written to.
fn put(from: &Path, to: &Path) -> Result<()> {
    make_folder_of(to)?;
    remove(to)?;
    fs::copy(from, to).map(drop).map_err(|e| format!("{} to {}: {e}", from.display(), to.display()))
}

fn write(path: &Path, text: &str) -> Result<()> {
    make_folder_of(path)?;
    fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))
}

fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(format!("{}: {e}", path.display())),
        _ => Ok(()),
    }
}

#[cfg(unix)]
fn link(to: &str, path: &Path) -> Result<()> {
    remove(path)?;
    std::os::unix::fs::symlink(to, path).map_err(|e| format!("{}: {e}", path.display()))
}

#[cfg(not(unix))]
fn link(_: &str, path: &Path) -> Result<()> {
    Err(format!("{}: installing is for systems with symbolic links", path.display()))
}
