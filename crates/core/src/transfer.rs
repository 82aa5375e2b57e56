//! Export, import, copy, snapshot and restore: the whole store as one stream of JSON lines.

use std::collections::HashSet;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, ErrorKind, Read, Seek, SeekFrom, Write};

use sha2::{Digest, Sha256};
use xxhash_rust::xxh3::xxh3_128;

use crate::json::read::Fields;
use crate::json::scan::{Kind, Raw};
use crate::json::write::Object;
use crate::shape::{Field, Shape};
use crate::*;

/// The format of the stream, in its first line.
pub const STREAM_FORMAT: u32 = 1;

/// How much of a stream is read at once, in bytes.
const BLOCK_BYTES: usize = 256 * 1024;

/// How many records of a stream are stored together: enough that an engine far away is seldom asked what it has of them.
const MAX_TOGETHER: usize = 500;

/// How long their lines may be together, about, in bytes: they are held in memory.
const MAX_TOGETHER_BYTES: usize = 2 << 20;

/// How many records a stream has of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Runs.
    pub runs: u64,
    /// Node runs.
    pub nodes: u64,
    /// Agent runs.
    pub agents: u64,
}

/// What an import did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Imported {
    /// Runs that were added.
    pub runs: u64,
    /// Node runs that were added.
    pub nodes: u64,
    /// Agent runs that were added.
    pub agents: u64,
    /// Records that were there already and equal.
    pub skipped: u64,
}

impl Counts {
    fn add(&mut self, record: &ExportRecord) {
        match record {
            ExportRecord::Run(_) => self.runs += 1,
            ExportRecord::Node(_) => self.nodes += 1,
            ExportRecord::Agent(_) => self.agents += 1,
        }
    }

    /// How many records in all.
    pub const fn total(&self) -> u64 {
        self.runs.saturating_add(self.nodes).saturating_add(self.agents)
    }

    /// In the JSON form.
    pub fn to_json(&self) -> String {
        format!(r#"{{"runs":{},"nodes":{},"agents":{}}}"#, self.runs, self.nodes, self.agents)
    }
}

impl Imported {
    /// In the JSON form.
    pub fn to_json(&self) -> String {
        let Imported { runs, nodes, agents, skipped } = self;
        format!(r#"{{"runs":{runs},"nodes":{nodes},"agents":{agents},"skipped":{skipped}}}"#)
    }
}

/// All that a store held at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot(Vec<u8>);

impl Snapshot {
    /// The bytes: an export stream.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// From the bytes of an earlier snapshot or export; they are checked when they are restored.
    pub fn from_bytes(bytes: Vec<u8>) -> Self {
        Snapshot(bytes)
    }
}

impl Ledger {
    /// Writes the whole store as one stream: one consistent state even while writes go on, in bounded memory. Equal
    /// stores give equal streams.
    ///
    /// # Errors
    /// `io` when the output can't be written, and those of the store.
    pub fn export(&self, output: &mut dyn Write) -> Result<Counts> {
        self.export_with(output, &mut unwatched())
    }

    /// As [`Ledger::export`], with a callback that is told the progress and can stop it.
    ///
    /// # Errors
    /// `interrupted` when the callback stopped it, else as [`Ledger::export`].
    pub fn export_with(&self, output: &mut dyn Write, on_progress: OnProgress<'_>) -> Result<Counts> {
        let backend = self.enter()?;
        ledger::without_panic(|| export(&*backend, output, on_progress))
    }

    /// Adds the records of a stream in one step. A record that is already there and equal is skipped.
    ///
    /// The stream is read to a temporary file and checked before the store is touched.
    ///
    /// # Errors
    /// `corrupt` for a stream that is cut short, altered, out of order, or has a node run or agent run without its
    /// parent; `schema_too_new` for one of a newer format; `too_large` for a value over the limit; `conflict` when the
    /// store has another record under the same key; `io` when the input or temporary file fails. Nothing is kept then.
    pub fn import(&self, input: &mut dyn Read) -> Result<Imported> {
        self.import_with(input, &mut unwatched())
    }

    /// As [`Ledger::import`], with a callback that is told the progress and can stop it.
    ///
    /// # Errors
    /// `interrupted` when the callback stopped it, else as [`Ledger::import`].
    pub fn import_with(&self, input: &mut dyn Read, on_progress: OnProgress<'_>) -> Result<Imported> {
        self.writable()?;
        let mut stream = CheckedStream::read_with(input, self.limits(), on_progress)?;
        self.import_checked_with(&mut stream, on_progress)
    }

    /// Adds the records of a stream that was checked before this store was opened, in one step.
    ///
    /// # Errors
    /// `conflict` when the store has another record under the same key; `too_large` for a value over its limit; and those
    /// of the store. Nothing is kept then.
    pub fn import_checked(&self, stream: &mut CheckedStream) -> Result<Imported> {
        self.import_checked_with(stream, &mut unwatched())
    }

    /// As [`Ledger::import_checked`], with a callback that is told the progress and can stop it.
    ///
    /// # Errors
    /// `interrupted` when the callback stopped it, else as [`Ledger::import_checked`].
    pub fn import_checked_with(&self, stream: &mut CheckedStream, on_progress: OnProgress<'_>) -> Result<Imported> {
        self.put_all(stream, Existing::Keep, on_progress)
    }

    /// Adds all records of this store to another one, as an export and an import do.
    ///
    /// # Errors
    /// Those of [`Ledger::export`] and [`Ledger::import`].
    pub fn copy_to(&self, target: &Ledger) -> Result<Imported> {
        self.copy_to_with(target, &mut unwatched())
    }

    /// As [`Ledger::copy_to`], with a callback that is told the progress and can stop it.
    ///
    /// # Errors
    /// `interrupted` when the callback stopped it, else as [`Ledger::copy_to`].
    pub fn copy_to_with(&self, target: &Ledger, on_progress: OnProgress<'_>) -> Result<Imported> {
        target.writable()?;
        let mut stream = CheckedStream::of_with(self, target.limits(), on_progress)?;
        target.import_checked_with(&mut stream, on_progress)
    }

    /// All that the store holds at this moment.
    ///
    /// # Errors
    /// Those of [`Ledger::export`].
    pub fn snapshot(&self) -> Result<Snapshot> {
        let mut bytes = Vec::new();
        self.export(&mut bytes)?;
        Ok(Snapshot(bytes))
    }

    /// Replaces all that the store holds, in one step.
    ///
    /// # Errors
    /// Those of [`Ledger::import`], but for `conflict`.
    pub fn restore(&self, snapshot: &Snapshot) -> Result<Imported> {
        self.writable()?;
        let mut stream = CheckedStream::read(&mut snapshot.as_bytes(), self.limits())?;
        self.put_all(&mut stream, Existing::Remove, &mut unwatched())
    }

    fn writable(&self) -> Result<()> {
        let _open = self.enter()?;
        if self.is_read_only() {
            return Err(Error::new(Code::ReadOnly, "the store was opened read-only").with_entity(Entity::Store));
        }
        Ok(())
    }

    fn put_all(&self, stream: &mut CheckedStream, existing: Existing, on_progress: OnProgress<'_>) -> Result<Imported> {
        self.writable()?;
        let backend = self.enter()?;
        let mut import = Import { stream, limits: self.limits(), existing, on_progress, imported: Imported::default() };
        ledger::without_panic(|| backend.write(&mut import))?;
        self.signal_all();
        Ok(import.imported)
    }
}

/// Writes all that a backend holds as a stream.
pub(crate) fn export(backend: &dyn Backend, output: &mut dyn Write, on_progress: OnProgress<'_>) -> Result<Counts> {
    let mut meter = Meter::start(on_progress, Stage::Exporting, None)?;
    let mut stream = StreamWriter::new(output)?;
    backend.export(&mut |record| {
        stream.record(&record)?;
        meter.advance(1)
    })?;
    meter.finish()?;
    stream.end()
}

fn file_error(e: &std::io::Error) -> Error {
    let code = if e.kind() == std::io::ErrorKind::StorageFull { Code::Full } else { Code::Io };
    Error::new(code, format!("a stream or its temporary file: {e}"))
}

fn temporary_file() -> Result<File> {
    tempfile::tempfile().map_err(|e| file_error(&e))
}

// ---- writing

/// Writes the lines of a stream and counts and hashes them.
pub(crate) struct StreamWriter<'a> {
    output: BufWriter<&'a mut dyn Write>,
    hash: Sha256,
    counts: Counts,
    line: Vec<u8>,
}

impl<'a> StreamWriter<'a> {
    pub(crate) fn new(output: &'a mut dyn Write) -> Result<Self> {
        let mut stream = StreamWriter { output: BufWriter::new(output), hash: Sha256::new(), counts: Counts::default(), line: Vec::new() };
        let mut object = Object::new(&mut stream.line);
        object.nested("runledger", |header| header.u64("format", u64::from(STREAM_FORMAT)));
        object.end();
        stream.write_line()?;
        Ok(stream)
    }

    pub(crate) fn record(&mut self, record: &ExportRecord) -> Result<()> {
        self.counts.add(record);
        let mut object = Object::new(&mut self.line);
        match record {
            ExportRecord::Run(run) => run.append_json(object.member("run")),
            ExportRecord::Node(node) => node.append_json(object.member("node")),
            ExportRecord::Agent(agent) => agent.append_json(object.member("agent")),
        }
        object.end();
        self.write_line()
    }

    pub(crate) fn end(mut self) -> Result<Counts> {
        let sha256 = hex(&self.hash.clone().finalize());
        let mut object = Object::new(&mut self.line);
        object.nested("end", |end| {
            end.u64("runs", self.counts.runs);
            end.u64("nodes", self.counts.nodes);
            end.u64("agents", self.counts.agents);
            end.str("sha256", &sha256);
        });
        object.end();
        self.write_line()?;
        self.output.flush().map_err(|e| file_error(&e))?;
        Ok(self.counts)
    }

    fn write_line(&mut self) -> Result<()> {
        self.line.push(b'\n');
        self.hash.update(&self.line);
        let written = self.output.write_all(&self.line);
        self.line.clear();
        written.map_err(|e| file_error(&e))
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

// ---- reading

/// A stream that has been read from end to end and found sound, in a temporary file from which it can be read again.
///
/// Making one before the store is opened that is to take it in has two uses: a store is not held while a slow stream
/// arrives, and none is created for a stream that is refused.
///
/// ```
/// use runledger_core::{CheckedStream, Code, Limits};
/// let cut_short = CheckedStream::read(&mut &b"{\"runledger\":{\"format\":1}}\n"[..], Limits::default());
/// assert_eq!(cut_short.unwrap_err().code(), Code::Corrupt);
/// ```
#[derive(Debug)]
pub struct CheckedStream {
    file: File,
    counts: Counts,
}

impl CheckedStream {
    /// Reads a stream to a temporary file and checks it. `limits` are those of the store that is to take it in.
    ///
    /// # Errors
    /// Those of [`Ledger::import`], but for `conflict`.
    pub fn read(input: &mut dyn Read, limits: Limits) -> Result<CheckedStream> {
        CheckedStream::read_with(input, limits, &mut unwatched())
    }

    /// As [`CheckedStream::read`], with a callback that is told the progress and can stop it.
    ///
    /// # Errors
    /// `interrupted` when the callback stopped it, else as [`CheckedStream::read`].
    pub fn read_with(input: &mut dyn Read, limits: Limits, on_progress: OnProgress<'_>) -> Result<CheckedStream> {
        let mut file = temporary_file()?;
        let mut meter = Meter::start(on_progress, Stage::Reading, None)?;
        let mut block = vec![0; BLOCK_BYTES];
        loop {
            match input.read(&mut block) {
                Ok(0) => break,
                Ok(len) => file.write_all(&block[..len]).map_err(|e| file_error(&e)).and_then(|()| meter.advance(len as u64))?,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(file_error(&error)),
            }
        }
        meter.finish()?;
        let total = promised(&mut file, &limits);
        CheckedStream::check(file, limits, total, on_progress)
    }

    /// All that a store holds, as a stream. `limits` are those of the store that is to take it in.
    ///
    /// # Errors
    /// Those of [`Ledger::export`] and [`CheckedStream::read`].
    pub fn of(source: &Ledger, limits: Limits) -> Result<CheckedStream> {
        CheckedStream::of_with(source, limits, &mut unwatched())
    }

    /// As [`CheckedStream::of`], with a callback that is told the progress and can stop it.
    ///
    /// # Errors
    /// `interrupted` when the callback stopped it, else as [`CheckedStream::of`].
    pub fn of_with(source: &Ledger, limits: Limits, on_progress: OnProgress<'_>) -> Result<CheckedStream> {
        let mut file = temporary_file()?;
        let counts = source.export_with(&mut file, on_progress)?;
        CheckedStream::check(file, limits, Some(counts.total()), on_progress)
    }

    fn check(mut file: File, limits: Limits, total: Option<u64>, on_progress: OnProgress<'_>) -> Result<CheckedStream> {
        let meter = Meter::start(on_progress, Stage::Checking, total)?;
        let counts = Check { limits, ..Check::default() }.stream(&mut lines(&mut file, &limits)?, meter)?;
        Ok(CheckedStream { file, counts })
    }

    /// How many records it has of each kind.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Hands all records to `sink`, some at a time.
    fn records(&mut self, limits: &Limits, sink: &mut dyn FnMut(Vec<ExportRecord>) -> Result<()>) -> Result<()> {
        let mut lines = lines(&mut self.file, limits)?;
        let (mut some, mut bytes) = (Vec::new(), 0);
        while let Some(line) = lines.next()? {
            match Line::read(line, limits)? {
                Line::Header => {}
                Line::Record(record) => {
                    bytes += line.len();
                    some.push(record);
                    if some.len() >= MAX_TOGETHER || bytes >= MAX_TOGETHER_BYTES {
                        bytes = 0;
                        sink(std::mem::take(&mut some))?;
                    }
                }
                Line::End { .. } => return sink(some),
            }
        }
        Err(unsound("it has no end"))
    }
}

/// How many records a stream's last line says that it has. It is believed only to show how much is left to check.
fn promised(file: &mut File, limits: &Limits) -> Option<u64> {
    const MORE_THAN_AN_END_BYTES: u64 = 512;
    let len = file.seek(SeekFrom::End(0)).ok()?;
    file.seek(SeekFrom::Start(len.saturating_sub(MORE_THAN_AN_END_BYTES))).ok()?;
    let mut tail = Vec::new();
    file.read_to_end(&mut tail).ok()?;
    let start = tail.iter().rev().skip(1).position(|byte| *byte == b'\n').map_or(0, |back| tail.len() - 1 - back);
    match Line::read(&tail[start..], limits) {
        Ok(Line::End { counts, .. }) => Some(counts.total()),
        _ => None,
    }
}

fn lines<'a>(file: &'a mut File, limits: &Limits) -> Result<Lines<BufReader<&'a mut File>>> {
    file.seek(SeekFrom::Start(0)).map_err(|e| file_error(&e))?;
    let max_line_bytes = (limits.max_payload_bytes as u64).saturating_mul(32).saturating_add(65_536);
    Ok(Lines { input: BufReader::new(file), line: Vec::new(), max_line_bytes })
}

struct Lines<R> {
    input: R,
    line: Vec<u8>,
    /// More than any record takes: escapes make each of its four texts up to six times as long, and payloads are as given.
    max_line_bytes: u64,
}

impl<R: BufRead> Lines<R> {
    /// The next line with its end, or `None` at the end of the stream.
    fn next(&mut self) -> Result<Option<&[u8]>> {
        self.line.clear();
        let mut bounded = (&mut self.input).take(self.max_line_bytes);
        bounded.read_until(b'\n', &mut self.line).map_err(|e| file_error(&e))?;
        if self.line.len() as u64 == self.max_line_bytes {
            return Err(unsound("a line is longer than any record"));
        }
        Ok(if self.line.is_empty() { None } else { Some(&self.line) })
    }
}

fn unsound(what: impl std::fmt::Display) -> Error {
    Error::corrupt(format!("the stream is unsound: {what}"))
}

/// One line of a stream.
#[allow(clippy::large_enum_variant, reason = "one is alive at a time")]
enum Line {
    Header,
    Record(ExportRecord),
    End { counts: Counts, sha256: String },
}

impl Line {
    fn read(line: &[u8], limits: &Limits) -> Result<Line> {
        Line::parse(line, limits).map_err(|e| match e.code() {
            Code::InvalidInput => unsound(e.message()),
            _ => e,
        })
    }

    fn parse(line: &[u8], limits: &Limits) -> Result<Line> {
        let Some(text) = line.strip_suffix(b"\n").and_then(|line| std::str::from_utf8(line).ok()) else {
            return Err(unsound("a line is cut short or not UTF-8"));
        };
        let mut fields = Fields::of_text(text)?;
        let read = if let Some(raw) = fields.take("run") {
            Line::Record(ExportRecord::Run(record("run", &raw, limits)?))
        } else if let Some(raw) = fields.take("node") {
            Line::Record(ExportRecord::Node(record("node", &raw, limits)?))
        } else if let Some(raw) = fields.take("agent") {
            Line::Record(ExportRecord::Agent(record("agent", &raw, limits)?))
        } else if let Some(raw) = fields.take("runledger") {
            header(&raw)?
        } else if let Some(raw) = fields.take("end") {
            end(&raw)?
        } else {
            return Err(unsound("a line is none that a stream has"));
        };
        fields.finish()?;
        Ok(read)
    }
}

fn record<R: Record + Shape>(name: &str, raw: &Raw<'_>, limits: &Limits) -> Result<R> {
    let record = R::of_value(name, raw)?;
    record.check(limits)?;
    if record.large(0).is_none() {
        return Err(unsound(format_args!("{} '{}' has no {}", name, record.key_id(), R::LARGE[0])));
    }
    record.coherence().map_err(|broken| unsound(format_args!("{name} '{}': {broken}", record.key_id())))?;
    Ok(record)
}

fn header(raw: &Raw<'_>) -> Result<Line> {
    let mut fields = Fields::of_value("runledger", raw)?;
    let format = fields.take("format").and_then(|raw| raw.as_integer()).ok_or_else(|| unsound("its first line has no format"))?;
    if format > i128::from(STREAM_FORMAT) {
        let text = format!("the stream has format {format}; this version reads {STREAM_FORMAT}");
        return Err(Error::new(Code::SchemaTooNew, text).with_entity(Entity::Store));
    }
    if format < i128::from(STREAM_FORMAT) {
        return Err(unsound(format_args!("there is no format {format}")));
    }
    fields.finish()?;
    Ok(Line::Header)
}

fn end(raw: &Raw<'_>) -> Result<Line> {
    if raw.kind != Kind::Object {
        return Err(unsound("its end is no object"));
    }
    let mut fields = Fields::of_value("end", raw)?;
    let counts = Counts {
        runs: Field::read(&mut fields, "runs")?,
        nodes: Field::read(&mut fields, "nodes")?,
        agents: Field::read(&mut fields, "agents")?,
    };
    let sha256 = Field::read(&mut fields, "sha256")?;
    fields.finish()?;
    Ok(Line::End { counts, sha256 })
}

/// What has been seen of a stream that is being checked.
#[derive(Default)]
struct Check {
    limits: Limits,
    hash: Sha256,
    counts: Counts,
    /// The kind and key of the record before: the order of a stream is the order of these.
    last: Option<(u8, Id, Id)>,
    /// The runs that were there, as hashes of their keys with their workflows, 128 bits each.
    runs: HashSet<u128>,
    /// The node runs that can have an agent run, likewise.
    agent_nodes: HashSet<u128>,
}

impl Check {
    fn stream(mut self, lines: &mut Lines<impl BufRead>, mut meter: Meter<'_>) -> Result<Counts> {
        let mut is_first = true;
        loop {
            let Some(line) = lines.next()? else { return Err(unsound("it is cut short")) };
            let read = Line::read(line, &self.limits)?;
            match read {
                Line::Header if is_first => {}
                _ if is_first => return Err(unsound("its first line is not that of a stream")),
                Line::Header => return Err(unsound("its first line comes again")),
                Line::Record(record) => {
                    self.record(&record)?;
                    self.counts.add(&record);
                    meter.advance(1)?;
                }
                Line::End { counts, sha256 } => {
                    if counts != self.counts {
                        return Err(unsound("its end counts other records"));
                    }
                    if sha256 != hex(&self.hash.finalize()) {
                        return Err(unsound("its checksum does not match"));
                    }
                    if lines.next()?.is_some() {
                        return Err(unsound("it goes on after its end"));
                    }
                    meter.finish()?;
                    return Ok(counts);
                }
            }
            is_first = false;
            self.hash.update(line_of(lines));
        }
    }

    fn record(&mut self, record: &ExportRecord) -> Result<()> {
        let key = match record {
            ExportRecord::Run(run) => (0, run.project_id.clone(), run.id.clone()),
            ExportRecord::Node(node) => (1, node.project_id.clone(), node.id.clone()),
            ExportRecord::Agent(agent) => (2, agent.project_id.clone(), agent.node_run_id.clone()),
        };
        if self.last.as_ref().is_some_and(|last| *last >= key) {
            return Err(unsound(format_args!("'{}' in project '{}' is out of order", key.2, key.1)));
        }
        match record {
            ExportRecord::Run(run) => {
                self.runs.insert(key_hash(&[&run.project_id, &run.id, &run.workflow_id]));
            }
            ExportRecord::Node(node) => {
                if !self.runs.contains(&key_hash(&[&node.project_id, &node.workflow_run_id, &node.workflow_id])) {
                    return Err(unsound(format_args!("node '{}' in project '{}' has no run of its workflow", node.id, node.project_id)));
                }
                if node.is_agent_node() {
                    self.agent_nodes.insert(key_hash(&[&node.project_id, &node.id]));
                }
            }
            ExportRecord::Agent(agent) => {
                if !self.agent_nodes.contains(&key_hash(&[&agent.project_id, &agent.node_run_id])) {
                    let (id, project) = (&agent.node_run_id, &agent.project_id);
                    return Err(unsound(format_args!("agent '{id}' in project '{project}' has no node run of type agent")));
                }
            }
        }
        self.last = Some(key);
        Ok(())
    }
}

fn line_of<R>(lines: &Lines<R>) -> &[u8] {
    &lines.line
}

/// A hash of identifiers, none of which holds a NUL. With 128 bits, two keys in a store with one hash are not met.
fn key_hash(ids: &[&Id]) -> u128 {
    let mut bytes = Vec::with_capacity(128);
    for id in ids {
        bytes.extend_from_slice(id.as_bytes());
        bytes.push(0);
    }
    xxh3_128(&bytes)
}

// ---- storing

/// What becomes of the records that the store has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Existing {
    Keep,
    Remove,
}

struct Import<'a> {
    stream: &'a mut CheckedStream,
    limits: Limits,
    existing: Existing,
    on_progress: OnProgress<'a>,
    imported: Imported,
}

impl Work for Import<'_> {
    fn commands(&self) -> Option<Vec<&Command>> {
        None
    }

    fn run(&mut self, tx: &mut dyn Tx) -> Result<()> {
        self.imported = Imported::default();
        if self.existing == Existing::Remove {
            tx.clear()?;
        }
        let mut meter = Meter::start(self.on_progress, Stage::Storing, Some(self.stream.counts.total()))?;
        let imported = &mut self.imported;
        let mut store = |tx: &mut dyn Tx, record| {
            let added = match record {
                ExportRecord::Run(run) => {
                    let there = tx.run(&run.project_id, &run.id, AnswerForm::Record)?;
                    is_new(there, &run)?.then(|| tx.put_run(&Put::insert(run))).map(|put| put.map(|()| &mut imported.runs))
                }
                ExportRecord::Node(node) => {
                    let there = tx.node(&node.project_id, &node.id, AnswerForm::Record)?;
                    is_new(there, &node)?.then(|| tx.put_node(&Put::insert(node))).map(|put| put.map(|()| &mut imported.nodes))
                }
                ExportRecord::Agent(agent) => {
                    let there = tx.agent(&agent.project_id, &agent.node_run_id, AnswerForm::Record)?;
                    is_new(there, &agent)?.then(|| tx.put_agent(&Put::insert(agent))).map(|put| put.map(|()| &mut imported.agents))
                }
            };
            match added {
                Some(count) => *count? += 1,
                None => imported.skipped += 1,
            }
            meter.advance(1)
        };
        self.stream.records(&self.limits, &mut |records| {
            tx.expect(&records)?;
            records.into_iter().try_for_each(|record| store(tx, record))
        })?;
        meter.finish()
    }
}

/// Whether a record is to be added: it is not there. An equal one is skipped, another one is a conflict.
fn is_new<R: Record>(there: Option<Stored<R>>, record: &R) -> Result<bool> {
    match there {
        None => Ok(true),
        Some(there) if there.record == *record => Ok(false),
        Some(_) => {
            let (project, id) = (record.project_id(), record.key_id());
            Err(Error::refused(Code::Conflict, R::ENTITY, project, id, "the store has another record under the same key"))
        }
    }
}
