//! What a call costs in C beside Rust, on a store in memory and in one run: `cargo bench --package runledger-ffi`.

use std::error::Error;
use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use runledger::{AnswerForm, ConfirmRun, Execution, GetRun, Ledger, ListRuns, Payload, QueueRun, StartRun, Time};

/// How many calls are measured; a tenth of a second and more for each figure.
const CALLS: u32 = 200_000;

fn main() -> Result<(), Box<dyn Error>> {
    let ledger = filled()?;
    let lease = |n: u32| Time::MIN.plus_us(1_893_456_000_000_000 - Time::MIN.unix_us() + i64::from(n));
    let get = br#"{"op":"runs.get","projectId":"shop","id":"run-500"}"#;
    let list = br#"{"op":"runs.list","projectId":"shop","limit":50}"#;
    let confirm = |n| ConfirmRun::new("shop", "owned", "worker-7/claim-1", lease(n)).with_answer(AnswerForm::State);
    let rust = [
        nanoseconds(CALLS, |n| drop(black_box(ledger.confirm_run(confirm(n))))),
        nanoseconds(CALLS, |_| drop(black_box(ledger.get_run(GetRun::new("shop", "run-500"))))),
        nanoseconds(CALLS / 50, |_| drop(black_box(ledger.list_runs(ListRuns::new("shop").with_limit(50_u32))))),
    ];
    let json = [
        None,
        Some(nanoseconds(CALLS, |_| drop(black_box(ledger.call_json(get))))),
        Some(nanoseconds(CALLS / 50, |_| drop(black_box(ledger.call_json(list))))),
    ];
    let c = in_c()?;
    println!("{:<16}{:>14}{:>18}{:>12}", "ns per call", "Rust, typed", "Rust, JSON form", "C");
    for (place, name) in ["confirm (typed)", "runs.get", "runs.list(50)"].iter().enumerate() {
        let json = json[place].map_or_else(|| "-".to_owned(), |json| format!("{json:.0}"));
        println!("{name:<16}{:>14.0}{json:>18}{:>12.0}", rust[place], c[place]);
    }
    Ok(())
}

fn filled() -> runledger::Result<Ledger> {
    let ledger = runledger::open("memory:")?;
    for n in 0..1000 {
        let input = Payload::from_json(format!(r#"{{"order":{n},"note":"{n:0200}"}}"#))?;
        ledger.queue_run(QueueRun::new("shop", format!("run-{n}"), "ship-order", input))?;
    }
    let execution = Execution::new("worker-7/claim-1", "2030-01-01T00:00:00Z".parse::<Time>()?);
    ledger.start_run(StartRun::new("shop", "owned", "ship-order", Payload::from_json("{}")?).with_execution(execution))?;
    Ok(ledger)
}

fn nanoseconds(calls: u32, mut once: impl FnMut(u32)) -> f64 {
    (0..calls / 10).for_each(&mut once);
    let began = Instant::now();
    (0..calls).for_each(|n| once(calls + n));
    began.elapsed().as_nanos() as f64 / f64::from(calls)
}

/// Builds the same in C against the library that was built with this program, and runs it.
fn in_c() -> Result<Vec<f64>, Box<dyn Error>> {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir()?;
    let built = std::env::current_exe()?.with_file_name("librunledger_ffi.so");
    for name in ["librunledger.so".to_owned(), format!("librunledger.so.{}", runledger_ffi::RUNLEDGER_ABI_VERSION)] {
        std::fs::copy(&built, folder.path().join(name))?;
    }
    let program = folder.path().join("calls");
    let mut build = Command::new("cc");
    build.args(["-O2", "-o"]).arg(&program).arg(package.join("benches/calls.c")).arg("-I").arg(package.join("include"));
    let is_built = build.arg("-L").arg(folder.path()).arg("-lrunledger").status()?.success();
    let run = Command::new(&program).arg(CALLS.to_string()).env("LD_LIBRARY_PATH", folder.path()).output()?;
    if !is_built || !run.status.success() {
        return Err(format!("the C program failed: {}", String::from_utf8_lossy(&run.stderr)).into());
    }
    let wrote = String::from_utf8(run.stdout)?;
    let figures: Result<Vec<f64>, _> = wrote.lines().filter_map(|line| line.split(' ').nth(1)).map(str::parse).collect();
    Ok(figures?)
}
