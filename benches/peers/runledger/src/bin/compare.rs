//! Has the stores take turns, and writes what came out as a table and as JSON. `cargo xtask peers-bench` builds them and calls this.

use std::collections::BTreeMap;
use std::env::consts::EXE_EXTENSION;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use clap::Parser;
use peers_harness::{Beside, Contender, Result, Take, Turn};
use runledger_benches::measure::Summary;
use runledger_page::number;
use serde::Serialize;

/// Our store that the others are held against.
const OURS: &str = "runledger, SQLite";

/// The programs that take turns, and the script that does.
const PROGRAMS: [&str; 4] = ["peers-runledger", "peers-duroxide", "peers-apalis", "peers-effectum"];
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../python/langgraph_saver.py");

/// Where the table goes, and between what.
const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/PERFORMANCE.md");
const MARKS: [&str; 2] = ["<!-- peers -->\n", "<!-- /peers -->\n"];

/// What all our stores' names begin with.
const OURS_ALL: &str = "runledger, ";

#[derive(Parser)]
#[command(name = "cargo xtask peers-bench", about = "Measures runledger beside other stores, on this machine")]
struct Options {
    /// How many rounds count; one more goes before them.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u16).range(5..))]
    rounds: u16,
    /// How long a turn takes, in milliseconds.
    #[arg(long, default_value_t = 1000)]
    each: u64,
    /// Only these numbers of callers.
    #[arg(long, value_delimiter = ',')]
    callers: Vec<usize>,
    /// Where the stores are put, on the disk that is meant; without it, beside what is built.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// A file for all figures, as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
    /// A file for the table, in Markdown; it is also printed.
    #[arg(long)]
    markdown: Option<PathBuf>,
    /// Writes the table into docs/PERFORMANCE.md, in place of the one that is there.
    #[arg(long)]
    docs: bool,
    /// Where the programs are built, and the environment of Python is.
    #[arg(long, hide = true)]
    built: PathBuf,
}

/// A process that takes turns.
struct Process {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Process {
    fn start(mut command: Command, directory: &Path) -> Result<Process> {
        let mut child = command.arg(directory).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let input = child.stdin.take().ok_or("there is no pipe to a process")?;
        let output = child.stdout.take().ok_or("there is no pipe from a process")?;
        Ok(Process { child, input, output: BufReader::new(output) })
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        if self.output.read_line(&mut line)? == 0 {
            return Err(format!("a process ended: {}", self.child.wait()?).into());
        }
        Ok(line)
    }

    fn take(&mut self, take: Take) -> Result<Turn> {
        serde_json::to_writer(&mut self.input, &take)?;
        self.input.write_all(b"\n")?;
        self.input.flush()?;
        Ok(serde_json::from_str(&self.line()?)?)
    }

    /// Its input ends, and so it does.
    fn end(self) -> Result<()> {
        let Process { mut child, input, .. } = self;
        drop(input);
        let status = child.wait()?;
        if status.success() { Ok(()) } else { Err(format!("a process ended: {status}").into()) }
    }
}

/// A contender, whose process it is, and its turns so far.
#[derive(Serialize)]
struct Measured {
    #[serde(flatten)]
    contender: Contender,
    #[serde(skip)]
    process: usize,
    #[serde(skip)]
    place: usize,
    turns: Vec<Turn>,
}

impl Measured {
    fn lifecycles(&self) -> impl Iterator<Item = f64> {
        self.turns.iter().map(|turn| turn.lifecycles as f64 / turn.seconds)
    }

    fn transitions(&self) -> Summary {
        Summary::of(self.lifecycles().map(|rate| rate * self.contender.transitions as f64))
    }

    /// How many times as many lifecycles another does, round by round, and how many times as many transitions.
    fn other_to_this(&self, other: &Measured) -> (Summary, f64) {
        let ratio = Summary::of(other.lifecycles().zip(self.lifecycles()).map(|(other, own)| other / own));
        (ratio, other.contender.transitions as f64 / self.contender.transitions as f64)
    }
}

fn main() -> Result<()> {
    let options = Options::parse();
    let stores = options.dir.clone().unwrap_or_else(|| options.built.clone()).join("stores");
    let mut processes = Vec::new();
    let mut measured = Vec::new();
    for command in commands(&options.built) {
        let directory = stores.join(processes.len().to_string());
        if directory.exists() {
            std::fs::remove_dir_all(&directory)?;
        }
        std::fs::create_dir_all(&directory)?;
        let mut process = Process::start(command, &directory)?;
        let contenders: Vec<Contender> = serde_json::from_str(&process.line()?)?;
        for (place, contender) in contenders.into_iter().enumerate() {
            if options.callers.is_empty() || options.callers.contains(&contender.callers) {
                measured.push(Measured { contender, process: processes.len(), place, turns: Vec::new() });
            }
        }
        processes.push(process);
    }
    let count = measured.len();
    // Each round begins with another one, so that nobody is always the one after the same other. The first does not count.
    for round in 0..=options.rounds {
        eprintln!("round {round} of {}", options.rounds);
        for place in 0..count {
            let measured = &mut measured[(place + usize::from(round)) % count];
            let milliseconds = if round == 0 { options.each / 2 } else { options.each };
            let turn = processes[measured.process].take(Take { contender: measured.place, milliseconds });
            let turn = turn.map_err(|error| format!("{}: {error}", measured.contender.store))?;
            if round > 0 {
                measured.turns.push(turn);
            }
        }
    }
    processes.into_iter().try_for_each(Process::end)?;
    std::fs::remove_dir_all(&stores)?;
    let table = table(&measured, &options)?;
    println!("{table}");
    if let Some(path) = &options.markdown {
        std::fs::write(path, &table)?;
    }
    if options.docs {
        document(&table)?;
    }
    if let Some(path) = &options.json {
        std::fs::write(path, serde_json::to_vec_pretty(&measured)?)?;
    }
    Ok(())
}

fn commands(built: &Path) -> impl Iterator<Item = Command> {
    let mut python = Command::new(built.join("venv/bin/python"));
    // The folder stays as it is: what is compiled would be written beside the sources.
    python.arg(SCRIPT).env("PYTHONDONTWRITEBYTECODE", "1");
    let programs = PROGRAMS.map(|name| Command::new(built.join("release").join(name).with_extension(EXE_EXTENSION)));
    programs.into_iter().chain([python])
}

fn document(table: &str) -> Result<()> {
    let text = std::fs::read_to_string(DOCUMENT)?;
    let parts = text.split_once(MARKS[0]).and_then(|(before, rest)| Some((before, rest.split_once(MARKS[1])?.1)));
    let (before, after) = parts.ok_or_else(|| format!("{DOCUMENT} has no place for the table"))?;
    Ok(std::fs::write(DOCUMENT, [before, MARKS[0], table, MARKS[1], after].concat())?)
}

/// A table for each durability, of who is as durable, the quickest first among those who call alike.
fn table(measured: &[Measured], options: &Options) -> Result<String> {
    let mut text = format!(
        "Medians of {} rounds of {} s, least and greatest in parentheses; times in µs.\n",
        options.rounds,
        options.each as f64 / 1000.0
    );
    for (beside, title) in [
        (Beside::Full, "A commit survives power loss"),
        (Beside::Relaxed, "A commit survives the process being killed, not always loss of power"),
        (Beside::RelaxedDelete, "The same without a write-ahead log"),
        (Beside::Memory, "In memory"),
    ] {
        write!(
            text,
            "\n**{title}**\n\n| store | callers | transitions a second | lifecycles a second | runledger's SQLite to it: lifecycles (rounds), transitions | p50 / p99 |\n|---|---|---|---|---|---|\n"
        )?;
        let mut groups: BTreeMap<(usize, usize), Vec<&Measured>> = BTreeMap::new();
        for one in measured.iter().filter(|one| one.contender.beside == beside) {
            groups.entry((one.contender.group, one.contender.callers)).or_default().push(one);
        }
        for ((group, callers), mut alike) in groups {
            alike.sort_by(|a, b| b.transitions().median.total_cmp(&a.transitions().median));
            let ours = alike.iter().copied().find(|one| one.contender.store == OURS);
            let callers = if group == 1 { callers.to_string() } else { format!("{callers}, {group} runs a call") };
            for one in alike {
                row(&mut text, one, &callers, ours)?;
            }
        }
        text.push('\n');
        let mut said = Vec::new();
        for one in measured.iter().filter(|one| one.contender.beside == beside) {
            let line = format!("- {}: {}", name(&one.contender), one.contender.durability);
            if !said.contains(&line) {
                writeln!(text, "{line}")?;
                said.push(line);
            }
        }
    }
    Ok(text)
}

fn name(contender: &Contender) -> String {
    if contender.setting.is_empty() { contender.store.clone() } else { format!("{} ({})", contender.store, contender.setting) }
}

fn row(text: &mut String, one: &Measured, callers: &str, ours: Option<&Measured>) -> Result<()> {
    let transitions = one.transitions();
    let lifecycles = Summary::of(one.lifecycles());
    let ratio = match ours {
        Some(ours) if !one.contender.store.starts_with(OURS_ALL) => {
            let (ratio, each) = one.other_to_this(ours);
            let wins = match (ratio.median < 1.0, ratio.median * each < 1.0) {
                (true, true) => ": **it wins**",
                (true, false) => ": **it wins by lifecycles**",
                (false, true) => ": **it wins by transitions**",
                (false, false) => "",
            };
            format!("{:.2} ({:.2}–{:.2}), {:.2}{wins}", ratio.median, ratio.low, ratio.high, ratio.median * each)
        }
        _ => String::new(),
    };
    let median = |figure: fn(&Turn) -> f64| number(Summary::of(one.turns.iter().map(figure)).median);
    writeln!(
        text,
        "| {} | {callers} | {} ({}–{}) | {} | {ratio} | {} / {} |",
        name(&one.contender),
        number(transitions.median),
        number(transitions.low),
        number(transitions.high),
        number(lifecycles.median),
        median(|turn| turn.p50_us),
        median(|turn| turn.p99_us),
    )?;
    Ok(())
}
