//! How often a group waits for the server.

use runledger_core::{Code, Command, ConfirmRun, EndStatus, FinishNode, FinishRun, GetRun, Request, StartNode};
use runledger_postgres_kit::{Proxy, unique_schema};

use crate::kit::{claim, execution, memory, open, payload, queue, start, stream};

/// A store behind a proxy that counts, on the one server whose port is known.
fn through_proxy(server: &runledger_postgres_kit::Server) -> (Proxy, runledger_core::Ledger) {
    let proxy = Proxy::start(server.port());
    let url = format!("postgres://runledger@127.0.0.1:{}/postgres?schema={}&sslmode=disable&pool_size=1", proxy.port(), unique_schema());
    let ledger = open(&url).unwrap();
    (proxy, ledger)
}

#[test]
fn a_group_of_64_takes_at_most_6_round_trips() {
    let server = runledger_postgres_kit::Server::start(&[]);
    let (proxy, ledger) = through_proxy(&server);
    let turns_of = |commands: Vec<Command>| {
        let before = proxy.turns();
        let answers = ledger.execute_each(commands.into_iter().map(Request::Command).collect());
        answers.into_iter().for_each(|answer| drop(answer.unwrap()));
        proxy.turns() - before
    };
    let each = |make: &dyn Fn(usize) -> Command| (0..64).map(make).collect::<Vec<_>>();
    let kinds = ["starts", "nodes", "confirms", "ends", "finishes", "queues", "claims"];
    let turns_in = |project: &str| {
        let node = |n: usize| StartNode::new(project, format!("n{n}"), format!("r{n}"), "wf", 0_u32, "task", "a", "a", payload("1"));
        let confirm = |n: usize| ConfirmRun::new(project, format!("r{n}"), "t", execution("t").lease_expires_at);
        let end = |n: usize| FinishNode::new(project, format!("n{n}"), EndStatus::Succeeded).with_execution_token("t");
        let finish = |n: usize| FinishRun::new(project, format!("r{n}"), EndStatus::Succeeded).with_execution_token("t");
        [
            turns_of(each(&|n| start(project, &format!("r{n}")).into())),
            turns_of(each(&|n| node(n).with_execution_token("t").into())),
            turns_of(each(&|n| confirm(n).into())),
            turns_of(each(&|n| end(n).into())),
            turns_of(each(&|n| finish(n).into())),
            turns_of(each(&|n| queue(project, &format!("q{n}")).into())),
            turns_of(each(&|n| claim(project, &format!("t{n}")).into())),
        ]
    };
    // What is sent at once may come through the proxy in pieces, with an answer between them, on a machine that has other
    // things to do: the fewest of several are what it takes.
    let several = ["p", "p2", "p3", "p4"].map(turns_in);
    for (n, kind) in kinds.iter().enumerate() {
        let turns = several.iter().map(|turns| turns[n]).min().unwrap();
        println!("round trips of {kind}: {turns}");
        assert!((1..=6).contains(&turns), "{kind}: {turns}");
    }
    // A read takes one.
    let read = || {
        let before = proxy.turns();
        assert_eq!(ledger.get_run(GetRun::new("p", "r1")).unwrap().unwrap().attempt, 1);
        proxy.turns() - before
    };
    assert_eq!((0..20).map(|_| read()).min(), Some(1));
    assert_eq!(ledger.queue_run(queue("p", "r1")).unwrap_err().code(), Code::AlreadyExists);
}

#[test]
fn an_import_into_a_store_that_has_records_asks_for_many_at_once() {
    let server = runledger_postgres_kit::Server::start(&[]);
    let (proxy, ledger) = through_proxy(&server);
    let source = memory();
    let fill = |ledger: &runledger_core::Ledger, ids: std::ops::Range<usize>| {
        let commands: Vec<Command> =
            ids.map(|n| queue("p", &format!("r{n:05}")).with_queued_at(execution("").lease_expires_at).into()).collect();
        commands.chunks(1000).for_each(|commands| drop(ledger.batch(commands.to_vec()).unwrap()));
    };
    fill(&source, 0..4000);
    fill(&ledger, 2500..3500);
    let copies = || {
        let before = proxy.turns();
        let copied = source.copy_to(&ledger).unwrap();
        (copied.runs, copied.skipped, proxy.turns() - before)
    };
    let ((added, skipped, turns), (none, all, again)) = (copies(), copies());
    println!("round trips: {turns} for an import of {added} runs that skipped {skipped}, {again} for one that skipped {all}");
    assert_eq!((added, skipped, none, all), (3000, 1000, 0, 4000));
    // What is sent at once may come through the proxy in pieces.
    assert!(turns < 200 && again < 200, "{turns} and {again}");
    assert!(stream(&source) == stream(&ledger));
}
