//! The life of two runs in a SQLite file, told step by step: `cargo run --example quickstart`.

use runledger::{
    CancelRun, ClaimRun, CreateAgent, EndStatus, Execution, FinishAgent, FinishNode, FinishRun, GetRunStats, GetStoreInfo, Ledger,
    ListRuns, Payload, QueueRun, Result, StartAgent, StartNode, Status, Time,
};
use std::time::SystemTime;

const PROJECT: &str = "shop";

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("runs.db");
    let ledger = runledger::open_sqlite(&path, &runledger::OpenOptions::new())?;
    let info = ledger.store_info(GetStoreInfo::new())?;
    println!("opened {} ({} {})\n", path.display(), info.engine_name, info.engine_version);

    queue_two_runs(&ledger)?;
    work_on_the_oldest(&ledger)?;
    stop_the_other(&ledger)?;
    look_back(&ledger)?;

    ledger.close()?;
    Ok(())
}

/// Somebody asks for work. Nobody does it yet.
fn queue_two_runs(ledger: &Ledger) -> Result<()> {
    for (id, order) in [("order-17", 17), ("order-18", 18)] {
        let input = Payload::from_json(format!(r#"{{"order":{order}}}"#))?;
        let run = ledger.queue_run(QueueRun::new(PROJECT, id, "checkout", input))?;
        println!("{id} is {} since {}", run.status, run.started_at);
    }
    Ok(())
}

/// A worker claims the oldest run. From then on it owns the run: its token must be in every call that changes the run.
fn work_on_the_oldest(ledger: &Ledger) -> Result<()> {
    let token = "worker-1/claim-1";
    let execution = Execution::new(token, in_seconds(30));
    let Some(run) = ledger.claim_run(ClaimRun::new(PROJECT, execution))? else {
        println!("nothing to do");
        return Ok(());
    };
    println!("\nworker-1 claimed {}, attempt {}", run.id, run.attempt);

    // The first step is a plain one.
    let input = Payload::from_json(r#"{"amount":4200}"#)?;
    let charge = StartNode::new(PROJECT, "order-17/charge", &run.id, "checkout", 0_u32, "http", "charge", "charge", input);
    let charge = ledger.start_node(charge.with_execution_token(token))?;
    let output = Payload::from_json(r#"{"receipt":"c-901"}"#)?;
    let finish = FinishNode::new(PROJECT, &charge.id, EndStatus::Succeeded).with_output(output).with_execution_token(token);
    println!("  step {} {}", charge.node_key, ledger.finish_node(finish)?.status);

    // The second is done by an agent, which has an owner and a lease of its own.
    let input = Payload::from_json(r#"{"tone":"friendly"}"#)?;
    let letter = StartNode::new(PROJECT, "order-17/letter", &run.id, "checkout", 1_u32, "agent", "letter", "letter", input);
    let letter = ledger.start_node(letter.with_execution_token(token))?;
    ledger.create_agent(CreateAgent::new(PROJECT, &letter.id, "writer", "Thank the customer.").with_execution_token(token))?;
    let agent_token = "writer-7/claim-1";
    ledger.start_agent(StartAgent::new(PROJECT, &letter.id, Execution::new(agent_token, in_seconds(30))).with_model_id("small-1"))?;
    let usage = Payload::from_json(r#"{"tokens":{"in":12,"out":48}}"#)?;
    let finish = FinishAgent::new(PROJECT, &letter.id, agent_token, EndStatus::Succeeded).with_usage(usage).with_finish_reason("stop");
    let agent = ledger.finish_agent(finish)?;
    println!("  agent {} {} on step {}", agent.agent_id, agent.status, letter.node_key);
    ledger.finish_node(FinishNode::new(PROJECT, &letter.id, EndStatus::Succeeded).with_execution_token(token))?;

    // Whoever does not own the run can't end it, and is told so by a stable code.
    let stranger = FinishRun::new(PROJECT, &run.id, EndStatus::Failed).with_execution_token("worker-2/claim-1");
    if let Err(error) = ledger.finish_run(stranger) {
        println!("  worker-2 is refused: {error}");
    }
    let output = Payload::from_json(r#"{"done":true}"#)?;
    let finish = FinishRun::new(PROJECT, &run.id, EndStatus::Succeeded).with_output(output).with_execution_token(token);
    println!("worker-1 finished {}: {}", run.id, ledger.finish_run(finish)?.status);
    Ok(())
}

/// An operator needs no token to stop a run.
fn stop_the_other(ledger: &Ledger) -> Result<()> {
    let run = ledger.cancel_run(CancelRun::new(PROJECT, "order-18").with_error("the customer changed her mind"))?;
    println!("\n{} is {}: {}", run.id, run.status, run.error.unwrap_or_else(|| "".into()));
    Ok(())
}

/// What happened stays there to be asked for.
fn look_back(ledger: &Ledger) -> Result<()> {
    let page = ledger.list_runs(ListRuns::new(PROJECT).with_statuses(vec![Status::Succeeded, Status::Cancelled]))?;
    println!("\n{} runs have ended, the newest first:", page.total.unwrap_or_default());
    for run in page.rows {
        println!("  {} {} with attempt {}", run.id, run.status, run.attempt);
    }
    for (workflow, counts) in ledger.run_stats(GetRunStats::new(PROJECT))?.by_workflow {
        println!("{workflow}: {} runs, {} of them succeeded", counts.total(), counts.of(Status::Succeeded));
    }
    Ok(())
}

fn in_seconds(seconds: i64) -> Time {
    Time::from(SystemTime::now()).plus_seconds(seconds)
}
