//! How commands are committed together, shown on a small backend whose commits can be held up, refused and broken.

#![allow(clippy::unwrap_used, clippy::panic, reason = "the lints' exception for tests does not reach their helpers")]

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::thread::ThreadId;

use runledger_core::*;

/// What the next commit does.
#[derive(Clone, Copy, PartialEq)]
enum Commit {
    Works,
    /// Fails as long as the group holds the run `big`.
    FullWithBig,
    FlushFails,
    Panics,
}

struct Shared {
    runs: Mutex<HashMap<Id, Run>>,
    commit: Mutex<Commit>,
    broken: Mutex<Option<Error>>,
    can_undo: bool,
    /// The size of every group that was begun, and the thread that did it.
    groups: Mutex<Vec<(usize, ThreadId)>>,
    hold: AtomicBool,
    is_held: AtomicBool,
    closes: AtomicUsize,
}

#[derive(Clone)]
struct Fake(Arc<Shared>);

impl Fake {
    fn new(can_undo: bool) -> Fake {
        Fake(Arc::new(Shared {
            runs: Mutex::default(),
            commit: Mutex::new(Commit::Works),
            broken: Mutex::new(None),
            can_undo,
            groups: Mutex::default(),
            hold: AtomicBool::new(false),
            is_held: AtomicBool::new(false),
            closes: AtomicUsize::new(0),
        }))
    }

    fn ledger(&self) -> Ledger {
        Ledger::new(self.clone(), &OpenOptions::new())
    }

    fn next(&self, commit: Commit) {
        *self.0.commit.lock().unwrap() = commit;
    }

    fn sizes(&self) -> Vec<usize> {
        self.0.groups.lock().unwrap().iter().map(|(size, _)| *size).collect()
    }

    fn ids(&self) -> Vec<String> {
        let mut ids: Vec<_> = self.0.runs.lock().unwrap().keys().map(ToString::to_string).collect();
        ids.sort();
        ids
    }
}

fn not_here<T>() -> Result<T> {
    Err(Error::new(Code::Unsupported, "the small backend has no such thing"))
}

struct FakeTx {
    runs: HashMap<Id, Run>,
    marked: HashMap<Id, Run>,
    can_undo: bool,
}

impl Tx for FakeTx {
    fn run(&mut self, _: &Id, id: &Id, _: AnswerForm) -> Result<Option<Stored<Run>>> {
        Ok(self.runs.get(id).cloned().map(Stored::new))
    }
    fn put_run(&mut self, put: &Put<Run>) -> Result<()> {
        self.runs.insert(put.after.record.id.clone(), put.after.record.clone());
        Ok(())
    }
    fn mark(&mut self) -> Result<bool> {
        self.marked = self.runs.clone();
        Ok(self.can_undo)
    }
    fn undo(&mut self) -> Result<()> {
        self.runs = self.marked.clone();
        Ok(())
    }
    fn node(&mut self, _: &Id, _: &Id, _: AnswerForm) -> Result<Option<Stored<NodeRun>>> {
        not_here()
    }
    fn agent(&mut self, _: &Id, _: &Id, _: AnswerForm) -> Result<Option<Stored<AgentRun>>> {
        not_here()
    }
    fn next_run(&mut self, _: &Id, _: Option<&[Id]>, _: AnswerForm) -> Result<Option<Stored<Run>>> {
        Ok(None)
    }
    fn next_agent(&mut self, _: &Id, _: Option<&[Id]>, _: AnswerForm) -> Result<Option<Stored<AgentRun>>> {
        not_here()
    }
    fn nodes_of(&mut self, _: &Stored<Run>) -> Result<Vec<Stored<NodeRun>>> {
        not_here()
    }
    fn ended_runs(&mut self, _: &EndedFilter, _: usize) -> Result<Vec<Stored<Run>>> {
        not_here()
    }
    fn put_node(&mut self, _: &Put<NodeRun>) -> Result<()> {
        not_here()
    }
    fn put_agent(&mut self, _: &Put<AgentRun>) -> Result<()> {
        not_here()
    }
    fn delete_run(&mut self, _: &Stored<Run>) -> Result<Deleted> {
        not_here()
    }
    fn clear(&mut self) -> Result<()> {
        not_here()
    }
}

impl Backend for Fake {
    fn write(&self, work: &mut dyn Work) -> Result<()> {
        let shared = &self.0;
        let size = work.commands().map_or(0, |commands| commands.len());
        shared.groups.lock().unwrap().push((size, std::thread::current().id()));
        shared.is_held.store(true, Ordering::SeqCst);
        while shared.hold.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        let runs = shared.runs.lock().unwrap().clone();
        let mut tx = FakeTx { runs, marked: HashMap::new(), can_undo: shared.can_undo };
        work.run(&mut tx)?;
        let commit = *shared.commit.lock().unwrap();
        match commit {
            Commit::FullWithBig if tx.runs.contains_key("big") => return Err(Error::new(Code::Full, "the disk is full")),
            Commit::FlushFails => {
                let error = Error::new(Code::Io, "the flush failed");
                *shared.broken.lock().unwrap() = Some(error.clone());
                return Err(error);
            }
            Commit::Panics => {
                self.next(Commit::Works);
                panic!("a planted defect");
            }
            Commit::Works | Commit::FullWithBig => {}
        }
        *shared.runs.lock().unwrap() = tx.runs;
        Ok(())
    }
    fn shares_commits(&self) -> bool {
        true
    }
    fn broken(&self) -> Option<Error> {
        self.0.broken.lock().unwrap().clone()
    }
    fn get_run(&self, _: &Id, id: &Id, _: AnswerForm) -> Result<Option<Run>> {
        Ok(self.0.runs.lock().unwrap().get(id).cloned())
    }
    fn get_node(&self, _: &Id, _: &Id, _: AnswerForm) -> Result<Option<NodeRun>> {
        not_here()
    }
    fn get_agent(&self, _: &Id, _: &Id, _: AnswerForm) -> Result<Option<AgentRun>> {
        not_here()
    }
    fn list_runs(&self, _: &RunFilter, _: &PageRequest) -> Result<Rows<Run>> {
        not_here()
    }
    fn list_nodes(&self, _: &NodeFilter, _: &PageRequest) -> Result<Rows<NodeRun>> {
        not_here()
    }
    fn list_agents(&self, _: &AgentFilter, _: &PageRequest) -> Result<Rows<AgentRun>> {
        not_here()
    }
    fn list_projects(&self, _: &PageRequest) -> Result<Rows<ProjectSummary>> {
        not_here()
    }
    fn latest_runs(&self, _: &Id, _: &[Id], _: AnswerForm) -> Result<Vec<Run>> {
        not_here()
    }
    fn expired_runs(&self, _: &ExpiredFilter, _: AnswerForm) -> Result<(Vec<Run>, bool)> {
        not_here()
    }
    fn expired_agents(&self, _: &ExpiredFilter, _: AnswerForm) -> Result<(Vec<AgentRun>, bool)> {
        not_here()
    }
    fn run_stats(&self, _: &Id, _: Option<&[Id]>) -> Result<RunStats> {
        not_here()
    }
    fn export(&self, _: &mut dyn FnMut(ExportRecord) -> Result<()>) -> Result<()> {
        not_here()
    }
    fn info(&self) -> Result<StoreInfo> {
        not_here()
    }
    fn is_read_only(&self) -> bool {
        false
    }
    fn verify(&self) -> Result<VerifyReport> {
        not_here()
    }
    fn compact(&self) -> Result<CompactReport> {
        not_here()
    }
    fn close(&self) -> Result<()> {
        self.0.closes.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

fn queue(id: &str) -> QueueRun {
    QueueRun::new("p", id, "w", Payload::from_json("{}").unwrap())
}

fn requests(ids: &[&str]) -> Vec<Request> {
    ids.iter().map(|id| Request::Command(queue(id).into())).collect()
}

fn codes(answers: &[Result<Answer>]) -> Vec<&'static str> {
    answers.iter().map(|answer| answer.as_ref().map_or_else(|error| error.code().as_str(), |_| "ok")).collect()
}

#[test]
fn a_caller_alone_commits_alone_and_on_its_own_thread() {
    let fake = Fake::new(true);
    let ledger = fake.ledger();
    for id in ["a", "b", "c"] {
        ledger.queue_run(queue(id)).unwrap();
    }
    assert_eq!(*fake.0.groups.lock().unwrap(), [(1, std::thread::current().id()); 3]);
}

#[test]
fn callers_that_arrive_during_a_commit_share_the_next_one() {
    const FOLLOWERS: usize = 12;
    let fake = Fake::new(true);
    let ledger = fake.ledger();
    fake.0.hold.store(true, Ordering::SeqCst);
    let arriving = Barrier::new(FOLLOWERS + 1);
    std::thread::scope(|scope| {
        scope.spawn(|| ledger.queue_run(queue("first")).unwrap());
        while !fake.0.is_held.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        for k in 0..FOLLOWERS {
            let (ledger, arriving) = (&ledger, &arriving);
            scope.spawn(move || {
                arriving.wait();
                ledger.queue_run(queue(&format!("follower-{k}"))).unwrap()
            });
        }
        arriving.wait();
        // All are on their way into the queue; none can be answered while the first commit is held.
        for _ in 0..20_000 {
            std::thread::yield_now();
        }
        fake.0.hold.store(false, Ordering::SeqCst);
    });
    assert_eq!(fake.ids().len(), FOLLOWERS + 1);
    let sizes = fake.sizes();
    assert_eq!(sizes.iter().sum::<usize>(), FOLLOWERS + 1, "every command is committed once");
    assert!(sizes.len() < FOLLOWERS, "{sizes:?}");
}

#[test]
fn many_callers_lose_nothing_and_do_nothing_twice() {
    let fake = Fake::new(true);
    let ledger = fake.ledger();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let ledger = &ledger;
            scope.spawn(move || {
                for k in 0..200 {
                    ledger.queue_run(queue(&format!("{thread}-{k}"))).unwrap();
                }
            });
        }
    });
    assert_eq!(fake.ids().len(), 1600);
    assert_eq!(fake.sizes().iter().sum::<usize>(), 1600);
}

#[test]
fn a_refusal_that_rests_on_a_neighbour_is_not_answered_before_the_flush() {
    let fake = Fake::new(true);
    let ledger = fake.ledger();
    fake.next(Commit::FlushFails);
    assert_eq!(codes(&ledger.execute_each(requests(&["a", "a"]))), ["io", "io"], "the second must not learn of a run that may not be");
}

#[test]
fn after_a_failed_flush_nothing_is_tried_again() {
    let fake = Fake::new(true);
    let ledger = fake.ledger();
    fake.next(Commit::FlushFails);
    assert_eq!(codes(&ledger.execute_each(requests(&["a", "b"]))), ["io", "io"]);
    fake.next(Commit::Works);
    assert_eq!(ledger.queue_run(queue("c")).unwrap_err().code(), Code::Io);
    assert_eq!(ledger.get_run(GetRun::new("p", "a")).unwrap_err().code(), Code::Io);
    assert_eq!(fake.sizes(), [2]);
}

#[test]
fn one_command_that_can_not_be_kept_does_not_fail_its_neighbours() {
    let fake = Fake::new(true);
    let ledger = fake.ledger();
    fake.next(Commit::FullWithBig);
    assert_eq!(codes(&ledger.execute_each(requests(&["a", "big", "b", "a"]))), ["ok", "full", "ok", "already_exists"]);
    assert_eq!(fake.ids(), ["a", "b"]);
    assert_eq!(fake.sizes(), [4, 1, 1, 1, 1], "each is tried alone, once");
}

#[test]
fn a_panic_answers_internal_and_the_next_call_works() {
    let fake = Fake::new(true);
    let ledger = fake.ledger();
    fake.next(Commit::Panics);
    assert_eq!(ledger.queue_run(queue("a")).unwrap_err().code(), Code::Internal);
    ledger.queue_run(queue("a")).unwrap();
    assert_eq!(fake.ids(), ["a"]);
}

#[test]
fn a_refused_batch_leaves_nothing_whether_the_engine_can_undo_or_not() {
    for can_undo in [true, false] {
        let fake = Fake::new(can_undo);
        let ledger = fake.ledger();
        let batch = |ids: [&str; 3]| Request::Batch(ids.iter().map(|id| queue(id).into()).collect());
        let mut asked = requests(&["a"]);
        asked.push(batch(["b", "c", "a"]));
        asked.push(batch(["b", "d", "e"]));
        asked.extend(requests(&["c"]));
        let answers = ledger.execute_each(asked);
        assert_eq!(codes(&answers), ["ok", "already_exists", "ok", "ok"], "{can_undo}");
        assert_eq!(answers[1].as_ref().unwrap_err().details().index, Some(2));
        assert_eq!(fake.ids(), ["a", "b", "c", "d", "e"], "{can_undo}");
    }
}

#[test]
fn a_group_is_bounded_by_steps_and_by_bytes() {
    let fake = Fake::new(true);
    let ledger = fake.ledger();
    let ids: Vec<String> = (0..1100).map(|k| format!("r{k}")).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    assert!(ledger.execute_each(requests(&ids)).iter().all(Result::is_ok));
    assert_eq!(fake.sizes(), [512, 512, 76]);

    let large = Payload::from_json(format!("\"{}\"", "x".repeat(3 << 20))).unwrap();
    let large = (0..5).map(|k| Request::Command(QueueRun::new("p", format!("large-{k}"), "w", large.clone()).into()));
    assert!(ledger.execute_each(large.collect()).iter().all(Result::is_ok));
    assert_eq!(fake.sizes()[3..], [2, 2, 1]);
}

#[test]
fn close_waits_for_the_calls_under_way_and_later_ones_are_closed() {
    let fake = Fake::new(true);
    let ledger = fake.ledger();
    fake.0.hold.store(true, Ordering::SeqCst);
    std::thread::scope(|scope| {
        let under_way = scope.spawn(|| ledger.queue_run(queue("a")));
        while !fake.0.is_held.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        let closing = scope.spawn(|| ledger.close());
        while ledger.get_run(GetRun::new("p", "a")).is_ok() {
            std::thread::yield_now();
        }
        assert_eq!(fake.0.closes.load(Ordering::SeqCst), 0, "the engine is open as long as a call is under way");
        fake.0.hold.store(false, Ordering::SeqCst);
        under_way.join().unwrap().unwrap();
        closing.join().unwrap().unwrap();
    });
    assert_eq!(fake.ids(), ["a"]);
    assert_eq!(ledger.queue_run(queue("b")).unwrap_err().code(), Code::Closed);
    ledger.close().unwrap();
    drop(ledger);
    assert_eq!(fake.0.closes.load(Ordering::SeqCst), 1);
}
