//! What the documents and the transcripts beside this file show is what the command prints.
//!
//! A block marked `console` has commands after `$ `, which a shell runs in an empty directory, and what they write on both
//! outputs. `[..]` stands for what differs from run to run. With `RUNLEDGER_WRITE_DOCS=1` the output is written anew.
//! Transcripts are held against every backend with files; the documents speak of one.

#![allow(clippy::unwrap_used, clippy::panic, reason = "the lints' exception for tests does not reach their helpers")]

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The present time in all transcripts.
const NOW: &str = "2026-03-01T12:00:00Z";
/// The line between the outputs of two commands.
const MARK: &str = "%%% the next command of the transcript";
/// A document that is about one backend says so.
const ONE_BACKEND: &str = "<!-- one backend -->";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A piece of a document.
enum Piece {
    /// Anything that is no command.
    Text(String),
    /// A command as it is written, and the lines that it is to print.
    Command { lines: Vec<String>, output: Vec<String> },
}

fn pieces(document: &str) -> Vec<Piece> {
    let (mut pieces, mut is_console) = (Vec::new(), false);
    for line in document.lines() {
        match pieces.last_mut() {
            _ if line.starts_with("```") => {
                is_console = line == "```console";
                pieces.push(Piece::Text(line.to_owned()));
            }
            _ if is_console && line.starts_with("$ ") => pieces.push(Piece::Command { lines: vec![line.to_owned()], output: Vec::new() }),
            Some(Piece::Command { lines, output }) if is_console && output.is_empty() && line.starts_with("> ") => {
                lines.push(line.to_owned())
            }
            Some(Piece::Command { output, .. }) if is_console => output.push(line.to_owned()),
            _ => pieces.push(Piece::Text(line.to_owned())),
        }
    }
    pieces
}

/// Runs all commands in one shell, and gives what each printed.
fn run(pieces: &[Piece], scheme: &str) -> Vec<Vec<String>> {
    let mut script = String::from("exec 2>&1\n");
    for piece in pieces {
        if let Piece::Command { lines, .. } = piece {
            let text: Vec<&str> = lines.iter().map(|line| &line[2..]).collect();
            writeln!(script, "{}\necho '{MARK}'", text.join("\n").replace("sqlite:", &format!("{scheme}:"))).unwrap();
        }
    }
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("examples")).unwrap();
    std::fs::copy(root().join("examples/shop.jsonl"), directory.path().join("examples/shop.jsonl")).unwrap();
    let bin = Path::new(env!("CARGO_BIN_EXE_runledger")).parent().unwrap();
    let path = std::env::join_paths([bin, Path::new("/usr/bin"), Path::new("/bin")]).unwrap();
    let shell = Command::new("sh")
        .args(["-c", &script])
        .current_dir(directory.path())
        .env_clear()
        .envs([("RUNLEDGER_NOW", NOW), ("TZ", "UTC"), ("LC_ALL", "C.UTF-8")])
        .env("PATH", path)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let output = String::from_utf8(shell.stdout).unwrap();
    let mut outputs: Vec<Vec<String>> = vec![Vec::new()];
    for line in output.lines() {
        match line.strip_suffix(MARK) {
            Some("") => outputs.push(Vec::new()),
            // What the command wrote had no LF at its end.
            Some(rest) => {
                outputs.last_mut().unwrap().push(rest.to_owned());
                outputs.push(Vec::new());
            }
            None => outputs.last_mut().unwrap().push(line.trim_end().to_owned()),
        }
    }
    outputs.pop();
    outputs
}

/// Whether a line is as expected, where `[..]` stands for anything.
fn fits(expected: &str, line: &str) -> bool {
    let mut parts = expected.split("[..]");
    let Some(mut rest) = parts.next().and_then(|start| line.strip_prefix(start)) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// Holds a document against what its commands print with a backend; answers the document as it should be.
fn held_against(document: &str, scheme: &str) -> String {
    let pieces = pieces(document);
    let mut outputs = run(&pieces, scheme).into_iter();
    let mut right = String::new();
    for piece in pieces {
        match piece {
            Piece::Text(line) => writeln!(right, "{line}").unwrap(),
            Piece::Command { lines, output: expected } => {
                lines.iter().for_each(|line| writeln!(right, "{line}").unwrap());
                let printed = outputs.next().unwrap_or_default();
                for (at, line) in printed.iter().enumerate() {
                    let line = line.replace(&format!("{scheme}:"), "sqlite:");
                    let line = expected.get(at).filter(|expected| fits(expected, &line)).unwrap_or(&line);
                    writeln!(right, "{line}").unwrap();
                }
            }
        }
    }
    right
}

fn check(path: &Path) {
    let document = std::fs::read_to_string(path).unwrap();
    let schemes: &[&str] = if document.contains(ONE_BACKEND) { &["sqlite"] } else { &["sqlite", "redb"] };
    for scheme in schemes {
        let right = held_against(&document, scheme);
        if document != right && std::env::var_os("RUNLEDGER_WRITE_DOCS").is_some() {
            return std::fs::write(path, right).unwrap();
        }
        let differs = document.lines().zip(right.lines()).find(|(there, right)| there != right);
        assert!(document == right, "{} with {scheme}: {differs:#?}", path.display());
    }
}

#[test]
fn the_documents_show_what_the_command_prints() {
    for name in ["README.md", "docs/OPERATING.md"] {
        let document = std::fs::read_to_string(root().join(name)).unwrap();
        assert!(document.contains("```console") && document.contains(ONE_BACKEND), "{name} shows no commands");
        check(&root().join(name));
    }
}

macro_rules! transcripts {
    ($($name:ident),*) => {$(
        #[test]
        fn $name() {
            check(&Path::new(env!("CARGO_MANIFEST_DIR")).join(concat!("tests/transcripts/", stringify!($name), ".md")));
        }
    )*};
}

transcripts!(looking, acting, moving, refusing, hostile, choosing, tools);

#[test]
fn wildcards_fit_what_they_stand_for() {
    assert!(fits("a [..] c", "a b c") && fits("[..]", "") && fits("x", "x") && fits("[..]b[..]", "abc"));
    assert!(!fits("a [..] c", "a b d") && !fits("x", "xy") && !fits("", "x") && !fits("a[..]", "b"));
}
