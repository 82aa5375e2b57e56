//! Programs in C and C++ against an installed copy of the library: they build without a warning, run, and leave nothing
//! behind.

#![allow(clippy::unwrap_used, clippy::panic, reason = "in tests a panic is how a case fails")]
#![cfg(target_os = "linux")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// What a warning costs, in C.
const C: &[&str] = &["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-Wconversion"];
/// What a warning costs, in C++.
const CPP: &[&str] = &["-std=c++17", "-Wall", "-Wextra", "-Werror", "-pedantic", "-Wconversion"];

fn package(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Runs a program that must succeed, and gives what it wrote.
fn run(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}; `cargo xtask install-tools`"));
    let (out, err) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{command:?}: {status}\n{out}\n{err}");
    out.into_owned()
}

/// A folder with an installed copy of the library that was built with this test, and room for programs.
struct Installed(TempDir);

impl Installed {
    fn new() -> Installed {
        let folder = TempDir::new().unwrap();
        let built = std::env::current_exe().unwrap().parent().unwrap().to_owned();
        let root = package("../..");
        let mut install = Command::new(env!("CARGO"));
        install.args(["run", "--quiet", "--package", "xtask", "--", "install", "--prefix"]).arg(folder.path());
        run(install.arg("--from").arg(built).current_dir(root));
        Installed(folder)
    }

    /// A copy without the shared library, so that programs are linked against the static one.
    fn only_static() -> Installed {
        let installed = Installed::new();
        for name in ["librunledger.so", "librunledger.so.1"] {
            fs::remove_file(installed.path("lib").join(name)).unwrap();
        }
        installed
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn pkg_config(&self, arguments: &[&str]) -> Vec<String> {
        let mut command = Command::new("pkg-config");
        command.env("PKG_CONFIG_PATH", self.path("lib/pkgconfig")).args(arguments).arg("runledger");
        run(&mut command).split_whitespace().map(str::to_owned).collect()
    }

    /// Builds a program as its author would, by pkg-config.
    fn build(&self, compiler: &str, flags: &[&str], source: &Path) -> PathBuf {
        let program = self.path(&format!("{compiler}-{}", source.file_name().unwrap().to_str().unwrap().replace('.', "-")));
        let is_static = !self.path("lib/librunledger.so").exists();
        let found = self.pkg_config(if is_static { &["--cflags", "--libs", "--static"] } else { &["--cflags", "--libs"] });
        run(Command::new(compiler).args(flags).args(["-g", "-o"]).arg(&program).arg(source).args(found));
        program
    }

    /// A program as it is run.
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env("LD_LIBRARY_PATH", self.path("lib"));
        command
    }
}

fn store(installed: &Installed, scheme: &str) -> String {
    if scheme == "memory" { "memory:".to_owned() } else { format!("{scheme}:{}", installed.path(&format!("store-{scheme}")).display()) }
}

#[test]
fn the_headers_stand_alone_and_may_be_included_twice() {
    let folder = TempDir::new().unwrap();
    let include = format!("-I{}", package("include").display());
    for (header, compilers, flags, suffix) in [
        ("runledger.h", ["gcc", "clang"], C, "c"),
        ("runledger.h", ["g++", "clang++"], CPP, "cpp"),
        ("runledger.hpp", ["g++", "clang++"], CPP, "cpp"),
    ] {
        let source = folder.path().join(format!("twice.{suffix}"));
        fs::write(&source, format!("#include <{header}>\n#include <{header}>\nextern int nothing;\nint nothing = 0;\n")).unwrap();
        for compiler in compilers {
            run(Command::new(compiler).args(flags).args(["-fsyntax-only", &include]).arg(&source));
        }
    }
}

/// Two files of one program may both use the C++ header.
#[test]
fn a_program_of_two_files_uses_the_cpp_header_in_both() {
    let installed = Installed::new();
    let [one, two] = ["one.cpp", "two.cpp"].map(|name| installed.path(name));
    fs::write(
        &one,
        "#include <runledger.hpp>\nvoid fill(const runledger::Ledger& ledger) { ledger.queue_run({\"p\", \"r\", \"w\", \"1\"}); }\n",
    )
    .unwrap();
    let main = "#include <runledger.hpp>\nvoid fill(const runledger::Ledger&);\n\
                int main() { auto ledger = runledger::Ledger::open(\"memory:\"); fill(ledger); return ledger.get_run({\"p\", \"r\"}) ? 0 : 1; }\n";
    fs::write(&two, main).unwrap();
    let program = installed.path("both");
    let found = installed.pkg_config(&["--cflags", "--libs"]);
    run(Command::new("g++").args(CPP).arg("-o").arg(&program).args([&one, &two]).args(found));
    run(&mut installed.command(&program));
}

#[test]
fn the_examples_build_by_pkg_config_shared_and_static() {
    for installed in [Installed::new(), Installed::only_static()] {
        for (compiler, flags, source) in [
            ("gcc", C, "examples/c/quickstart.c"),
            ("clang", C, "examples/c/quickstart.c"),
            ("g++", CPP, "examples/cpp/quickstart.cpp"),
            ("clang++", CPP, "examples/cpp/quickstart.cpp"),
        ] {
            let program = installed.build(compiler, flags, &package(source));
            let wrote = run(&mut installed.command(&program));
            assert!(wrote.contains("claimed run-1") && wrote.contains("succeeded"), "{wrote}");
        }
    }
}

#[test]
fn a_program_asks_for_the_abi_it_was_built_with() {
    let installed = Installed::new();
    let program = installed.build("gcc", C, &package("examples/c/quickstart.c"));
    let needed = run(Command::new("readelf").arg("-d").arg(&program));
    assert!(needed.contains("[librunledger.so.1]"), "{needed}");
    assert_eq!(installed.pkg_config(&["--modversion"]), [env!("CARGO_PKG_VERSION")]);
}

#[test]
fn the_cpp_example_builds_by_cmake() {
    for installed in [Installed::new(), Installed::only_static()] {
        let build = installed.path("build");
        let mut configure = Command::new("cmake");
        configure.arg("-S").arg(package("examples/cpp")).arg("-B").arg(&build);
        run(configure.arg(format!("-DCMAKE_PREFIX_PATH={}", installed.0.path().display())));
        run(Command::new("cmake").arg("--build").arg(&build));
        for scheme in ["memory", "sqlite", "redb"] {
            let wrote = run(installed.command(&build.join("quickstart")).arg(store(&installed, scheme)));
            assert!(wrote.contains("stale_token: ") && wrote.ends_with("1 run, which succeeded\n"), "{wrote}");
        }
    }
}

/// The programs whose every step is checked: all operations from C++, and sixteen threads on one store from C.
const CHECKED: [(&str, &str, &[&str], &str); 4] = [
    ("gcc", "examples/c/quickstart.c", C, ""),
    ("g++", "examples/cpp/quickstart.cpp", CPP, ""),
    ("g++", "tests/programs/every.cpp", CPP, ""),
    ("gcc", "tests/programs/threads.c", C, "-pthread"),
];

fn flags<'a>(flags: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    flags.iter().chain(more).copied().filter(|flag| !flag.is_empty()).collect()
}

#[test]
fn every_program_runs_on_every_backend() {
    let installed = Installed::new();
    for (compiler, source, warnings, more) in CHECKED {
        let program = installed.build(compiler, &flags(warnings, &[more]), &package(source));
        for scheme in ["memory", "sqlite", "redb"] {
            let place = TempDir::new().unwrap();
            let address = if scheme == "memory" { "memory:".to_owned() } else { format!("{scheme}:{}/store", place.path().display()) };
            run(installed.command(&program).arg(address));
        }
    }
}

#[test]
fn no_program_leaks_or_errs_under_valgrind() {
    let installed = Installed::new();
    for (compiler, source, warnings, more) in CHECKED {
        let program = installed.build(compiler, &flags(warnings, &[more]), &package(source));
        for scheme in ["memory", "sqlite"] {
            let place = TempDir::new().unwrap();
            let address = if scheme == "memory" { "memory:".to_owned() } else { format!("{scheme}:{}/store", place.path().display()) };
            let mut valgrind = installed.command(Path::new("valgrind"));
            // Not those that are only possibly lost: Rust's standard library keeps the main thread's handle by a pointer into it.
            const LEAKS: [&str; 2] = ["--show-leak-kinds=definite,indirect", "--errors-for-leak-kinds=definite,indirect"];
            valgrind.args(["--quiet", "--leak-check=full", "--error-exitcode=9"]).args(LEAKS);
            // The number of rounds, for those that take one: the watch slows everything down by twenty times.
            run(valgrind.arg(&program).arg(address).arg("2"));
        }
    }
}

#[test]
fn no_program_errs_under_the_sanitizers() {
    let installed = Installed::new();
    for (compiler, source, warnings, more) in CHECKED {
        let watched = flags(warnings, &["-fsanitize=address,undefined", "-fno-sanitize-recover=all", more]);
        let program = installed.build(compiler, &watched, &package(source));
        run(installed.command(&program).arg("memory:"));
    }
}

/// What the README shows of C and C++ is built and run as it stands there.
#[test]
fn the_programs_of_the_readme_build_and_run() {
    let readme = fs::read_to_string(package("../../README.md")).unwrap();
    let installed = Installed::new();
    for (language, compiler, warnings, name, shows) in
        [("c", "gcc", C, "readme.c", "r1"), ("cpp", "g++", CPP, "readme.cpp", "r1 of ship-order")]
    {
        let begin = format!("```{language}\n");
        let program = readme.split(&begin).nth(1).and_then(|rest| rest.split("```").next()).expect(language);
        let source = installed.path(name);
        fs::write(&source, program).unwrap();
        let program = installed.build(compiler, warnings, &source);
        let wrote = run(installed.command(&program).current_dir(installed.0.path()));
        assert!(wrote.contains(shows), "{wrote}");
        fs::remove_file(installed.path("runs.db")).unwrap();
    }
}

/// The C++ header has every operation of the contract, with every field and every code.
#[test]
fn the_cpp_header_has_every_operation_and_field() {
    let header = fs::read_to_string(package("include/runledger.hpp")).unwrap();
    let structs: Vec<&str> = header.split("\nstruct ").collect();
    let source = ["command.rs", "query.rs"].map(|name| fs::read_to_string(package("../core/src").join(name)).unwrap()).concat();
    for op in runledger::Command::OPS.iter().chain(runledger::Query::OPS) {
        let of_header = structs.iter().find(|text| text.contains(&format!("op = \"{op}\""))).unwrap_or_else(|| panic!("{op} is missing"));
        let of_source = source.split("\n}\n").find(|text| text.contains(&format!("= \"{op}\" ->"))).unwrap();
        let page: &[&str] = if of_source.contains("list! {") { &["order", "limit", "offset", "cursor", "withTotal"] } else { &[] };
        let named = of_source.lines().filter_map(|line| line.trim().strip_suffix("\",")?.rsplit_once(" = \"")).map(|(_, name)| name);
        for field in named.chain(page.iter().copied()) {
            assert!(of_header.contains(&format!("request.set(\"{field}\", ")), "{op} has no {field}");
        }
    }
    for code in runledger::Code::ALL {
        let name = code.as_str();
        assert!(header.contains(&format!("{name} = RUNLEDGER_{}", name.to_uppercase())), "{name}");
    }
}
