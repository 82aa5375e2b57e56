//! Whether a program can use this library beside another one that brings SQLite.
//!
//! Cargo allows one package that links SQLite, so all that use it in one program must agree on its version. The range of
//! our rusqlite must hold one that the newest sqlx takes, and one that the newest diesel takes.

use std::fs;

use crate::Result;
use crate::command::{program, run_command};
use crate::metadata::Metadata;

/// The others, from the version on that is supported; without a lower end, an ancient one would do.
const PEERS: &[(&str, &str)] = &[("sqlx", ">=0.9"), ("diesel", ">=2.3")];

pub(crate) fn check(metadata: &Metadata) -> Result<()> {
    let backend = metadata.package("runledger-backend-sqlite")?;
    let dependencies = backend["dependencies"].as_array().into_iter().flatten();
    let rusqlite = dependencies.into_iter().find(|dependency| dependency["name"] == "rusqlite");
    let range = rusqlite.and_then(|rusqlite| rusqlite["req"].as_str()).ok_or("the SQLite backend does not use rusqlite")?;
    let folder = metadata.target_directory()?.join("peers");
    fs::create_dir_all(folder.join("src")).map_err(|e| e.to_string())?;
    fs::write(folder.join("src/lib.rs"), "").map_err(|e| e.to_string())?;
    for (peer, versions) in PEERS {
        let manifest = format!(
            "[package]\nname = \"peers\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n\n[dependencies]\n\
             rusqlite = {{ version = \"{range}\", features = [\"bundled\"] }}\n\
             {peer} = {{ version = \"{versions}\", default-features = false, features = [\"sqlite\"] }}\n"
        );
        fs::write(folder.join("Cargo.toml"), manifest).map_err(|e| e.to_string())?;
        println!("\n# rusqlite {range} beside {peer} {versions}");
        let resolve = "cargo generate-lockfile --quiet";
        run_command(resolve, program(resolve).current_dir(&folder))?;
        let chosen = locked(&fs::read_to_string(folder.join("Cargo.lock")).map_err(|e| e.to_string())?);
        println!("{}", chosen.join(", "));
    }
    Ok(())
}

/// The versions in a lock file of the packages that matter here.
fn locked(lock: &str) -> Vec<String> {
    let value = |line: &str, name: &str| Some(line.strip_prefix(name)?.strip_prefix(" = ")?.trim_matches('"').to_owned());
    let lines: Vec<&str> = lock.lines().collect();
    let packages = lines.windows(2).filter_map(|pair| Some((value(pair[0], "name")?, value(pair[1], "version")?)));
    let matters = |name: &str| name == "rusqlite" || name == "libsqlite3-sys" || PEERS.iter().any(|(peer, _)| name == *peer);
    packages.filter(|(name, _)| matters(name)).map(|(name, version)| format!("{name} {version}")).collect()
}
