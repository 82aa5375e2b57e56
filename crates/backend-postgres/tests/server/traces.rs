//! What whole workflows ask for, in the JSON form: every backend answers the same bytes, and keeps the same.
//!
//! `RUNLEDGER_TRACES=FILE` takes the requests from a file, one a line, which may be compressed with gzip: those of real
//! workflows, say. Every time must be given in them, since what is taken from a clock differs. Without it they are of
//! workflows that are made up here.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::process::Command;

use runledger_core::Ledger;
use serde_json::Value;

use crate::kit::{copied_round, fresh_url, memory, open, redb, sqlite};

/// Payloads that a parser would give back spelled otherwise.
const SPELLINGS: &[&str] = &[
    r#"{"b":1.0,"a":1e2,"b":-0.0}"#,
    r#"[18446744073709551616, "\u00e9\u0000\/"]"#,
    "null",
    r#""""#,
    r#"{ "z" : [ ] , "y" : {"é":"𝄞"} }"#,
];

fn time(second: usize) -> String {
    format!("2026-01-01T{:02}:{:02}:{:02}.000000Z", second / 3600, second / 60 % 60, second % 60)
}

/// The requests of workflows whose tasks go out from one, in layers, and come together in one. One loses its owner on the
/// way, one is cancelled, and in each some tasks fail or wait.
fn made_up() -> String {
    const RUNS: usize = 8;
    const LAYERS: usize = 6;
    const WIDTH: usize = 7;
    let mut requests = String::new();
    for run in 0..RUNS {
        let (project, id, workflow) = (format!("science-{}", run % 3), format!("run/{run} ü"), format!("flow\\\"{}", run % 2));
        let (key, workflow) = (format!(r#""projectId":"{project}""#), format!(r#""workflowId":"{workflow}""#));
        let of_run = format!(r#"{key},"id":"{id}""#);
        let (mut token, mut second) = (format!("worker-{run}-1"), run * 400);
        let mut ask = |request: String| writeln!(requests, "{{{request}}}").unwrap();
        let lease =
            |token: &str, second: usize| format!(r#""execution":{{"token":"{token}","queueLeaseExpiresAt":"{}"}}"#, time(second + 60));
        let input = SPELLINGS[run % SPELLINGS.len()];
        let (queued_at, started_at) = (time(second), time(second + 1));
        ask(format!(r#""op":"runs.queue",{of_run},{workflow},"input":{input},"queuedAt":"{queued_at}","source":{input}"#));
        ask(format!(r#""op":"runs.start",{of_run},{workflow},"input":[{input}],"startedAt":"{started_at}",{}"#, lease(&token, second)));
        for layer in 0..LAYERS {
            let width = if layer == 0 || layer == LAYERS - 1 { 1 } else { WIDTH };
            second += 20;
            ask(format!(r#""op":"runs.confirm",{of_run},"executionToken":"{token}","queueLeaseExpiresAt":"{}""#, time(second + 60)));
            let of_task = |task: usize, token: &str| format!(r#"{key},"id":"{id}/{layer}-{task}","executionToken":"{token}""#);
            for task in 0..width {
                let index = layer * WIDTH + task;
                let kind = if index % 5 == 2 { "agent" } else { "step" };
                let (input, started_at) = (SPELLINGS[index % SPELLINGS.len()], time(second + task));
                let node = format!(r#""nodeIndex":{index},"nodeType":"{kind}","nodeId":"task","nodeKey":"{layer}.{task}""#);
                let of_node = format!(r#"{},"workflowRunId":"{id}",{workflow}"#, of_task(task, &token));
                ask(format!(r#""op":"nodes.start",{of_node},{node},"input":{input},"startedAt":"{started_at}""#));
                if kind == "agent" {
                    let agent = format!(r#"{key},"nodeRunId":"{id}/{layer}-{task}""#);
                    let (create, start) = (r#""agentId":"helper","prompt":"do\u0000it""#, lease("agent", second));
                    ask(format!(r#""op":"agents.create",{agent},{create},"createdAt":"{started_at}","executionToken":"{token}""#));
                    ask(format!(r#""op":"agents.start",{agent},"modelId":"m","startedAt":"{started_at}",{start}"#));
                    let end = format!(r#""status":"succeeded","usage":{input},"completedAt":"{}""#, time(second + task + 3));
                    ask(format!(r#""op":"agents.finish",{agent},"executionToken":"agent",{end}"#));
                }
            }
            if run == 3 && layer == 3 {
                // Another worker takes over, and the first one is told so.
                let lost = of_task(0, &token);
                token = format!("worker-{run}-2");
                ask(format!(r#""op":"runs.reclaim",{of_run},{}"#, lease(&token, second)));
                ask(format!(r#""op":"nodes.finish",{lost},"status":"succeeded","finishedAt":"{}""#, time(second + 9)));
            }
            // The last are through first.
            for task in (0..width).rev() {
                let of_task = of_task(task, &token);
                let ended = match (layer * WIDTH + task + run) % 11 {
                    0 => r#""status":"failed","error":"out of\u0000luck""#.to_owned(),
                    n => format!(r#""status":"succeeded","output":{}"#, SPELLINGS[n % SPELLINGS.len()]),
                };
                if task == 4 {
                    ask(format!(r#""op":"nodes.wait",{of_task},"waitingAt":"{}""#, time(second + 10)));
                }
                ask(format!(r#""op":"nodes.finish",{of_task},{ended},"finishedAt":"{}""#, time(second + 19 - task)));
            }
            ask(format!(r#""op":"nodes.list",{key},"workflowRunId":"{id}","limit":3,"order":"asc""#));
        }
        let finished_at = time(second + 30);
        match run {
            5 => ask(format!(r#""op":"runs.cancel",{of_run},"error":"enough","finishedAt":"{finished_at}""#)),
            _ => {
                let end = format!(r#""status":"succeeded","output":{input},"finishedAt":"{finished_at}""#);
                ask(format!(r#""op":"runs.finish",{of_run},"executionToken":"{token}",{end}"#));
            }
        }
    }
    requests
}

fn requests() -> String {
    let Some(path) = std::env::var_os("RUNLEDGER_TRACES") else { return made_up() };
    // With `-f` it hands on what is not compressed.
    let output = Command::new("gzip").arg("-dcf").arg(&path).output().unwrap();
    assert!(output.status.success(), "{}: {}", path.display(), String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// What is asked in the end of all that is there.
fn looks(requests: &str) -> Vec<String> {
    let asked = requests.lines().map(|request| serde_json::from_str::<Value>(request).unwrap());
    let projects: BTreeSet<String> = asked.filter_map(|request| request.get("projectId").map(Value::to_string)).collect();
    let of_project = |project: &String| {
        let list = |op: &str, rest: &str| format!(r#"{{"op":"{op}","projectId":{project},"limit":10000{rest}}}"#);
        vec![
            list("runs.list", ""),
            list("runs.list", r#","order":"asc","statuses":["succeeded"],"answer":"state""#),
            list("nodes.list", ""),
            list("nodes.list", r#","statuses":["failed","waiting"],"order":"asc""#),
            list("agents.list", ""),
            list("runs.expired", r#","expiredBy":"2100-01-01T00:00:00Z""#),
            format!(r#"{{"op":"runs.list","projectId":{project},"limit":2}}"#),
            format!(r#"{{"op":"runs.stats","projectId":{project}}}"#),
        ]
    };
    let projects_list = r#"{"op":"projects.list"}"#.to_owned();
    projects.iter().flat_map(of_project).chain([projects_list]).collect()
}

#[test]
fn whole_workflows_are_answered_the_same_on_every_backend_and_copied_round() {
    let directory = tempfile::tempdir().unwrap();
    let requests = requests();
    let looks = looks(&requests);
    let first = sqlite(&directory.path().join("first.db"));
    let others: [(&str, Ledger); 3] =
        [("postgres", open(&fresh_url()).unwrap()), ("redb", redb(&directory.path().join("first.redb"))), ("memory", memory())];
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for request in requests.lines().chain(looks.iter().map(String::as_str)) {
        let wanted = first.call_json(request);
        for (name, ledger) in &others {
            let answer = ledger.call_json(request);
            assert!(answer == wanted, "{name} answers {request}\nwith {answer}\nand sqlite with {wanted}");
        }
        let answer: Value = serde_json::from_str(&wanted).unwrap();
        let kind = answer["error"]["code"].as_str().unwrap_or("ok").to_owned();
        *counts.entry(kind).or_default() += 1;
    }
    println!("{} requests and {} looks at what they left: {counts:?}", requests.lines().count(), looks.len());
    assert!(counts.get("ok").is_some_and(|ok| *ok > 100), "these are no workflows: {counts:?}");
    copied_round(&first, directory.path());
}
