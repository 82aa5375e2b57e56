//! The plans of the queries, as the server made them for a store of some size.

use std::fmt::Write as _;

use runledger_core::{
    AnswerForm, ClaimAgent, ClaimRun, Command, ConfirmRun, CreateAgent, EndStatus, ExpiredAgents, ExpiredRuns, FinishRun, GetAgent,
    GetNode, GetRun, GetRunStats, Id, LatestRuns, Ledger, ListAgents, ListNodes, ListProjects, ListRuns, Order, PurgeRuns, QueueRun,
    Request, StartAgent, StartNode, StartRun, Status, Time,
};
use runledger_postgres_kit::{Server, sql};

use crate::kit::{execution, memory, open, payload};

/// No sort may be of more rows than a few pages: one for each range that is merged.
const MAX_SORTED: u64 = 1000;

fn at(n: usize) -> Time {
    Time::from_unix_us(1_700_000_000_000_000 + n as i64 * 1_000_000).unwrap()
}

/// Runs of many workflows in every status, under a third of them a node, under some of those an agent run.
fn fill(ledger: &Ledger, runs: usize) {
    for chunk in (0..runs).collect::<Vec<_>>().chunks(500) {
        let mut commands: Vec<Command> = Vec::new();
        for n in chunk.iter().copied() {
            let (project, id, workflow) = (format!("p{}", n % 4), format!("r{n:07}"), format!("wf{:03}", n / 4 % 500));
            if n % 7 == 0 {
                commands.push(QueueRun::new(project, id, workflow, payload("{}")).with_queued_at(at(n)).into());
                continue;
            }
            let mut lease = execution("t");
            lease.lease_expires_at = at(n).plus_seconds(60);
            let start = StartRun::new(project.clone(), id.clone(), workflow.clone(), payload("{}")).with_started_at(at(n));
            commands.push(start.with_execution(lease.clone()).into());
            if n % 3 == 0 {
                let (node, kind) = (format!("n{n:07}"), if n % 2 == 0 { "agent" } else { "task" });
                let step = StartNode::new(project.clone(), node.clone(), id.clone(), workflow, 0_u32, kind, "a", "a", payload("1"));
                commands.push(step.with_execution_token("t").with_started_at(at(n)).into());
                if n % 2 == 0 {
                    let create = CreateAgent::new(project.clone(), node.clone(), format!("agent{}", n % 9), "do it");
                    commands.push(create.with_created_at(at(n)).into());
                    if n % 4 == 0 {
                        commands.push(StartAgent::new(project.clone(), node, lease).with_started_at(at(n)).into());
                    }
                }
            }
            if n % 4 != 0 || n % 5 != 0 {
                let status = [EndStatus::Succeeded, EndStatus::Failed, EndStatus::Cancelled][n % 3];
                commands.push(FinishRun::new(project, id, status).with_execution_token("t").with_finished_at(at(n + 30)).into());
            }
        }
        for answer in ledger.execute_each(commands.into_iter().map(Request::Command).collect()) {
            answer.unwrap();
        }
    }
}

/// Every query of the contract, and the commands that look for what they are about.
fn ask_everything(ledger: &Ledger, runs: usize) {
    let middle = at(runs / 2);
    let ids = |ids: &[&str]| ids.iter().map(|id| Id::from(*id)).collect::<Vec<_>>();
    let base = || ListRuns::new("p1");
    let first = ledger.list_runs(base()).unwrap();
    for list in [
        base(),
        base().with_order(Order::Asc),
        base().with_workflow_id("wf007"),
        base().with_workflow_ids(ids(&["wf001", "wf002", "wf003"])),
        base().with_statuses(vec![Status::Failed, Status::Running]),
        base().with_workflow_id("wf007").with_statuses(vec![Status::Succeeded]),
        base().with_started_after(middle).with_started_before(at(runs / 2 + 100)),
        base().with_cursor(first.next_cursor.clone().unwrap()),
        base().with_offset(100_u64),
        base().with_answer(AnswerForm::State).with_with_total(false),
    ] {
        ledger.list_runs(list).unwrap();
    }
    let (run, node) = ("r0000009", "n0000012");
    for list in [
        ListNodes::new("p1").with_workflow_run_id(run),
        ListNodes::new("p1").with_with_total(false),
        ListNodes::new("p1").with_with_total(false).with_started_before(middle),
    ] {
        ledger.list_nodes(list).unwrap();
    }
    for list in [
        ListAgents::new("p0"),
        ListAgents::new("p0").with_agent_id("agent3"),
        ListAgents::new("p0").with_statuses(vec![Status::Queued]).with_created_after(middle),
    ] {
        ledger.list_agents(list).unwrap();
    }
    ledger.get_run(GetRun::new("p1", run)).unwrap().unwrap();
    ledger.get_node(GetNode::new("p0", node)).unwrap().unwrap();
    ledger.get_agent(GetAgent::new("p0", node)).unwrap().unwrap();
    ledger.latest_runs(LatestRuns::new("p1", ids(&["wf001", "wf002", "nothing"]))).unwrap();
    ledger.expired_runs(ExpiredRuns::new(middle).with_limit(50_u32)).unwrap();
    ledger.expired_runs(ExpiredRuns::new(middle).with_limit(50_u32).with_project_id("p0")).unwrap();
    ledger.expired_agents(ExpiredAgents::new(middle).with_limit(50_u32)).unwrap();
    ledger.run_stats(GetRunStats::new("p1")).unwrap();
    ledger.run_stats(GetRunStats::new("p1").with_workflow_ids(ids(&["wf001"]))).unwrap();
    ledger.list_projects(ListProjects::new()).unwrap();
    ledger.claim_run(ClaimRun::new("p1", execution("c"))).unwrap().unwrap();
    ledger.claim_run(ClaimRun::new("p1", execution("d")).with_workflow_ids(ids(&["wf003", "wf004"]))).unwrap();
    ledger.claim_agent(ClaimAgent::new("p2", execution("c"))).unwrap().unwrap();
    ledger.confirm_run(ConfirmRun::new("p1", ledger_claimed(ledger), "e", execution("e").lease_expires_at)).unwrap();
    ledger.purge_runs(PurgeRuns::new("p1", at(40)).with_limit(10_u32)).unwrap();
}

fn ledger_claimed(ledger: &Ledger) -> Id {
    ledger.claim_run(ClaimRun::new("p1", execution("e"))).unwrap().unwrap().id
}

/// The number of rows that a line of a plan says there really were.
fn actual_rows(line: &str) -> Option<u64> {
    let actual = line.split("(actual").nth(1)?;
    actual.split("rows=").nth(1)?.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// What is wrong with a plan.
fn faults_of(plan: &str) -> String {
    let mut faults = String::new();
    let nodes: Vec<&str> = plan.lines().filter(|line| line.contains("(actual") || line.contains("never executed")).collect();
    for (n, line) in nodes.iter().enumerate() {
        if line.contains("Seq Scan on") && !line.contains("Seq Scan on ledger") {
            let _written = writeln!(faults, "reads a whole table: {}", line.trim());
        }
        let sorts = line.trim_start().trim_start_matches("->").trim_start().starts_with("Sort");
        // One bucket of leases is sorted at a time, however many leases end in it.
        if sorts && nodes.get(n + 1).and_then(|child| actual_rows(child)).is_some_and(|rows| rows > MAX_SORTED) {
            let _written = writeln!(faults, "sorts more than pages: {}", line.trim());
        }
    }
    faults
}

#[test]
fn every_query_takes_an_index_and_sorts_no_more_than_its_pages() {
    let runs = if runledger_faults::is_long() { 1_000_000 } else { 100_000 };
    let mut server = Server::start(&[("fsync", "off"), ("max_wal_size", "4GB")]);
    let memory = memory();
    fill(&memory, runs);
    let ledger = open(&server.url()).unwrap();
    assert_eq!(memory.copy_to(&ledger).unwrap().runs, runs as u64);
    ledger.close().unwrap();
    sql(&server.url(), "VACUUM ANALYZE");
    server.stop();
    server.configure(&[
        ("session_preload_libraries", "auto_explain"),
        ("log_min_messages", "log"),
        ("auto_explain.log_min_duration", "0"),
        ("auto_explain.log_analyze", "on"),
        ("auto_explain.log_timing", "off"),
    ]);
    server.run();
    let ledger = open(&format!("{}?pool_size=1", server.url())).unwrap();
    let before = server.log().len();
    ask_everything(&ledger, runs);
    ledger.close().unwrap();
    let log = server.log().split_off(before);
    let plans: Vec<&str> = log.split("Query Text:").skip(1).filter(|plan| plan.contains("\"runledger\".")).collect();
    assert!(plans.len() > 60, "{} plans were logged", plans.len());
    let faults: Vec<String> = plans
        .iter()
        .map(|plan| (faults_of(plan), plan))
        .filter(|(faults, _)| !faults.is_empty())
        .map(|(f, plan)| format!("{f}{plan}"))
        .collect();
    println!("{} plans", plans.len());
    assert!(faults.is_empty(), "{} of {} plans:\n{}", faults.len(), plans.len(), faults.join("\n----\n"));
}

#[test]
fn a_plan_that_reads_all_or_sorts_much_is_noticed() {
    let good =
        "Limit (actual rows=51 loops=1)\n ->  Sort (actual rows=51 loops=1)\n ->  Index Scan using x on run (actual rows=306 loops=1)";
    assert_eq!(faults_of(good), "");
    assert!(faults_of(&good.replace("Index Scan using x", "Seq Scan")).contains("whole table"));
    assert!(faults_of(&good.replace("rows=306", "rows=30600")).contains("sorts more"));
}
