//! What the commands on runs keep, change and refuse.

use serde_json::json;

use crate::Context;
use crate::check::{absent, ex, has, system, t};

pub(crate) fn queue_keeps_every_field(cx: &Context<'_>) {
    let s = cx.open();
    let answer = s.ok(
        "runs.queue",
        json!({
            "id": "r1", "workflowId": "wf-b", "input": {"a": [1, 2]}, "queuedAt": t(3), "source": {"kind": "api"},
            "requestedByPrincipal": {"type": "user", "id": "u1"},
        }),
    );
    let want = json!({
        "projectId": "shop", "id": "r1", "workflowId": "wf-b", "status": "queued", "input": {"a": [1, 2]}, "queuedAt": t(3),
        "startedAt": t(3), "source": {"kind": "api"}, "requestedByPrincipal": {"type": "user", "id": "u1"}, "attempt": 0,
    });
    assert_eq!(answer, want);
    assert_eq!(s.run("r1"), want);
}

pub(crate) fn queue_leaves_out_what_is_not_given(cx: &Context<'_>) {
    let s = cx.open();
    let want = json!({
        "projectId": "shop", "id": "r1", "workflowId": "wf-a", "status": "queued", "input": {}, "queuedAt": t(0), "startedAt": t(0),
        "requestedByPrincipal": system(), "attempt": 0,
    });
    assert_eq!(s.queue("r1", 0), want);
    assert_eq!(s.run("r1"), want);
}

pub(crate) fn start_keeps_every_field(cx: &Context<'_>) {
    let s = cx.open();
    let answer = s.ok(
        "runs.start",
        json!({
            "id": "r1", "workflowId": "wf-b", "input": [null], "startedAt": t(3), "source": "cron",
            "requestedByPrincipal": {"type": "user", "id": "u1"}, "execution": ex("tok-a", 60),
        }),
    );
    let want = json!({
        "projectId": "shop", "id": "r1", "workflowId": "wf-b", "status": "running", "input": [null], "startedAt": t(3), "source": "cron",
        "requestedByPrincipal": {"type": "user", "id": "u1"}, "attempt": 1, "execution": ex("tok-a", 60),
    });
    assert_eq!(answer, want);
    assert_eq!(s.run("r1"), want);
}

pub(crate) fn start_leaves_out_what_is_not_given(cx: &Context<'_>) {
    let s = cx.open();
    let want = json!({
        "projectId": "shop", "id": "r1", "workflowId": "wf-a", "status": "running", "input": {}, "startedAt": t(0),
        "requestedByPrincipal": system(), "attempt": 1,
    });
    assert_eq!(s.start("r1", 0), want);
    assert_eq!(s.run("r1"), want);
}

pub(crate) fn start_of_a_queued_run_keeps_what_it_was_queued_with(cx: &Context<'_>) {
    let s = cx.open();
    s.ok(
        "runs.queue",
        json!({"id": "r1", "input": {"v": 1}, "source": {"from": "queue"}, "requestedByPrincipal": {"type": "user", "id": "u1"}}),
    );
    let answer = s.ok(
        "runs.start",
        json!({
            "id": "r1", "input": {"v": 2}, "startedAt": t(5), "source": {"from": "start"},
            "requestedByPrincipal": {"type": "user", "id": "u2"}, "execution": ex("tok-a", 60),
        }),
    );
    let want = json!({
        "projectId": "shop", "id": "r1", "workflowId": "wf-a", "status": "running", "input": {"v": 2}, "queuedAt": t(0),
        "startedAt": t(5), "source": {"from": "queue"}, "requestedByPrincipal": {"type": "user", "id": "u1"}, "attempt": 1,
        "execution": ex("tok-a", 60),
    });
    assert_eq!(answer, want);
    assert_eq!(s.run("r1"), want);
}

pub(crate) fn start_fills_a_source_only_where_there_was_none(cx: &Context<'_>) {
    let s = cx.open();
    s.queue("none", 0);
    s.ok("runs.queue", json!({"id": "null", "source": null}));
    s.queue("neither", 0);
    let source = json!({"from": "start"});
    assert_eq!(s.ok("runs.start", json!({"id": "none", "source": source}))["source"], source);
    let kept = s.ok("runs.start", json!({"id": "null", "source": source}));
    assert!(has(&kept, "source") && kept["source"].is_null(), "a source of null counts as having one: {kept}");
    assert!(!has(&s.start("neither", 1), "source"));
    assert_eq!(s.run("none")["source"], source);
    assert!(has(&s.run("null"), "source") && !has(&s.run("neither"), "source"));
}

pub(crate) fn start_refuses_a_taken_id_before_another_workflow(cx: &Context<'_>) {
    let s = cx.open();
    s.queue("queued", 0);
    s.start("running", 0);
    let other = |id: &str| json!({"id": id, "workflowId": "wf-b", "input": {"v": 9}});
    s.refused("workflow_mismatch", "runs.start", other("queued")).of("run", "queued");
    s.refused("already_exists", "runs.start", other("running")).of("run", "running");
    assert_eq!((&s.run("queued")["status"], &s.run("queued")["input"]), (&json!("queued"), &json!({})));
    assert_eq!(s.run("running")["input"], json!({}));
}

pub(crate) fn reclaim_replaces_the_execution(cx: &Context<'_>) {
    let s = cx.open();
    s.start_owned("r1", "tok-a");
    let run = s.ok("runs.reclaim", json!({"id": "r1", "execution": ex("tok-b", 40)}));
    assert_eq!((&run["attempt"], &run["execution"], &run["status"]), (&json!(2), &ex("tok-b", 40), &json!("running")));
    assert_eq!(run["startedAt"], t(0));
    s.start("r2", 0);
    let run = s.ok("runs.reclaim", json!({"id": "r2", "execution": ex("tok-b", 40)}));
    assert_eq!((&run["attempt"], &run["execution"]), (&json!(2), &ex("tok-b", 40)));
    assert_eq!(s.run("r2"), run);
}

pub(crate) fn reclaim_with_the_former_token_takes_the_new_lease(cx: &Context<'_>) {
    let s = cx.open();
    s.start_owned("r1", "tok-pod0");
    let s = cx.reopen(&s);
    s.ok("runs.reclaim", json!({"id": "r1", "execution": ex("tok-pod0", 40)}));
    let run = s.run("r1");
    assert_eq!((&run["attempt"], &run["execution"]), (&json!(2), &ex("tok-pod0", 40)));
}

pub(crate) fn guarded_reclaim_judges_the_lease_by_the_given_time(cx: &Context<'_>) {
    let s = cx.open();
    s.start_owned("r1", "tok-a");
    let reclaim = |by: String| json!({"id": "r1", "execution": ex("tok-b", 90), "leaseExpiredBy": by});
    s.refused("lease_active", "runs.reclaim", reclaim(t(59))).of("run", "r1");
    s.refused("lease_active", "runs.reclaim", reclaim("2026-01-05T10:00:59.999999Z".into()));
    assert_eq!(s.run("r1")["execution"], ex("tok-a", 60));
    let run = s.ok("runs.reclaim", reclaim(t(60)));
    assert_eq!((&run["attempt"], &run["execution"]), (&json!(2), &ex("tok-b", 90)));
    assert_eq!(s.ok("runs.reclaim", reclaim(t(91)))["attempt"], 3);
}

pub(crate) fn guarded_reclaim_of_a_run_without_a_lease_is_lease_active(cx: &Context<'_>) {
    let s = cx.open();
    s.start("r1", 0);
    let fields = json!({"id": "r1", "execution": ex("tok-b", 90), "leaseExpiredBy": "9999-12-31T23:59:59Z"});
    s.refused("lease_active", "runs.reclaim", fields.clone()).of("run", "r1");
    s.ok("runs.wait", json!({"id": "r1"}));
    s.refused("invalid_transition", "runs.reclaim", fields).of("run", "r1").status("waiting");
}

pub(crate) fn confirm_never_moves_a_lease_back(cx: &Context<'_>) {
    let s = cx.open();
    s.start_owned("r1", "tok-a");
    for (given, kept) in [(20, 60), (60, 60), (90, 90), (89, 90)] {
        let confirm = json!({"id": "r1", "executionToken": "tok-a", "queueLeaseExpiresAt": t(given)});
        let run = s.ok("runs.confirm", confirm);
        assert_eq!((&run["execution"], &run["attempt"]), (&ex("tok-a", kept), &json!(1)));
        assert_eq!(s.run("r1"), run);
    }
}

pub(crate) fn confirm_moves_a_lease_by_any_distance(cx: &Context<'_>) {
    let s = cx.open();
    s.start_owned("r1", "tok-a");
    for lease in
        ["2026-01-05T10:01:00.000001Z", "2026-01-05T10:03:00.000000Z", "2026-02-05T10:03:00.000000Z", "9999-12-31T23:59:59.999999Z"]
    {
        let run = s.ok("runs.confirm", json!({"id": "r1", "executionToken": "tok-a", "queueLeaseExpiresAt": lease}));
        assert_eq!(run["execution"]["queueLeaseExpiresAt"], lease);
        let expired = |by: &str| s.ids("runs.expired", json!({"expiredBy": by}));
        assert_eq!(expired(lease), ["r1"]);
        assert_eq!(expired("2026-01-05T10:01:00Z"), [""; 0]);
    }
}

pub(crate) fn an_ended_lease_alone_revokes_nothing(cx: &Context<'_>) {
    let s = cx.open();
    s.ok("runs.start", json!({"id": "r1", "execution": {"token": "tok-a", "queueLeaseExpiresAt": "2001-01-01T00:00:00Z"}}));
    let confirm = |token: &str, lease: &str| json!({"id": "r1", "executionToken": token, "queueLeaseExpiresAt": lease});
    let run = s.ok("runs.confirm", confirm("tok-a", "2001-01-01T00:00:10Z"));
    assert_eq!(run["execution"]["queueLeaseExpiresAt"], "2001-01-01T00:00:10.000000Z");
    s.ok("runs.reclaim", json!({"id": "r1", "execution": ex("tok-b", 30)}));
    s.refused("stale_token", "runs.confirm", confirm("tok-a", &t(60))).of("run", "r1");
    s.refused("stale_token", "runs.finish", json!({"id": "r1", "executionToken": "tok-a"})).of("run", "r1");
    assert_eq!(s.run("r1")["execution"], ex("tok-b", 30));
}

pub(crate) fn wait_clears_the_execution_and_notes_since_when(cx: &Context<'_>) {
    let s = cx.open();
    s.start_owned("r1", "tok-a");
    let run = s.ok("runs.wait", json!({"id": "r1", "executionToken": "tok-a", "waitingAt": t(7)}));
    let want = json!({
        "projectId": "shop", "id": "r1", "workflowId": "wf-a", "status": "waiting", "input": {}, "startedAt": t(0),
        "waitingSince": t(7), "requestedByPrincipal": system(), "attempt": 1,
    });
    assert_eq!(run, want);
    assert_eq!(s.run("r1"), want);
}

pub(crate) fn resume_keeps_what_the_run_had(cx: &Context<'_>) {
    let s = cx.open();
    let user = json!({"type": "user", "id": "u1"});
    s.ok("runs.queue", json!({"id": "r1", "source": {"kind": "api"}, "requestedByPrincipal": user}));
    s.ok("runs.start", json!({"id": "r1", "startedAt": t(5), "execution": ex("tok-a", 60)}));
    s.ok("runs.wait", json!({"id": "r1", "executionToken": "tok-a"}));
    let run = s.ok("runs.resume", json!({"id": "r1", "execution": ex("tok-b", 60)}));
    let want = json!({
        "projectId": "shop", "id": "r1", "workflowId": "wf-a", "status": "running", "input": {}, "queuedAt": t(0), "startedAt": t(5),
        "source": {"kind": "api"}, "requestedByPrincipal": user, "attempt": 2, "execution": ex("tok-b", 60),
    });
    assert_eq!(run, want);
    assert_eq!(s.run("r1"), want);
}

pub(crate) fn resume_without_execution_leaves_none(cx: &Context<'_>) {
    let s = cx.open();
    s.start_owned("r1", "tok-a");
    s.ok("runs.wait", json!({"id": "r1", "executionToken": "tok-a"}));
    let run = s.ok("runs.resume", json!({"id": "r1"}));
    assert!(!has(&run, "execution") && !has(&run, "waitingSince"), "{run}");
    assert_eq!(run["attempt"], 2);
    s.finish("r1", "succeeded");
}

pub(crate) fn a_second_resume_is_refused(cx: &Context<'_>) {
    let s = cx.open();
    s.start_owned("r1", "tok-a");
    s.ok("runs.wait", json!({"id": "r1", "executionToken": "tok-a"}));
    s.ok("runs.resume", json!({"id": "r1", "execution": ex("tok-b", 44)}));
    s.refused("invalid_transition", "runs.resume", json!({"id": "r1", "execution": ex("tok-c", 55)})).of("run", "r1").status("running");
    let run = s.run("r1");
    assert_eq!((&run["attempt"], &run["execution"]), (&json!(2), &ex("tok-b", 44)));
}

pub(crate) fn finish_keeps_the_output_only_of_success(cx: &Context<'_>) {
    let s = cx.open();
    for (status, output, error) in [("succeeded", true, false), ("failed", false, true), ("cancelled", false, true)] {
        s.start(status, 0);
        let run = s.ok("runs.finish", json!({"id": status, "status": status, "output": {"v": 1}, "error": "e", "finishedAt": t(9)}));
        assert_eq!((has(&run, "output"), has(&run, "error")), (output, error), "{run}");
        assert_eq!((&run["status"], &run["finishedAt"], &run["attempt"]), (&json!(status), &json!(t(9)), &json!(1)));
        assert_eq!(s.run(status), run);
    }
    s.start("bare", 0);
    let run = s.finish("bare", "succeeded");
    assert!(!has(&run, "output") && !has(&run, "error"), "{run}");
}

pub(crate) fn finish_clears_the_execution_and_leaves_the_node_runs(cx: &Context<'_>) {
    let s = cx.open();
    s.start_owned("r1", "tok-a");
    s.ok("nodes.start", json!({"id": "n1", "nodeType": "agent", "executionToken": "tok-a"}));
    s.agent("n1");
    let (node, agent) = (s.node_run("n1"), s.agent_run("n1"));
    let run = s.ok("runs.finish", json!({"id": "r1", "executionToken": "tok-a"}));
    assert!(!has(&run, "execution"), "{run}");
    assert_eq!((s.node_run("n1"), s.agent_run("n1")), (node, agent));
}

pub(crate) fn a_finish_before_its_start_is_kept_as_given(cx: &Context<'_>) {
    let s = cx.open();
    s.start("r1", 100);
    let run = s.ok("runs.finish", json!({"id": "r1", "finishedAt": t(-100)}));
    assert_eq!((&run["startedAt"], &run["finishedAt"]), (&json!(t(100)), &json!(t(-100))));
}

pub(crate) fn only_failed_or_cancelled_can_end_a_queued_or_waiting_run(cx: &Context<'_>) {
    let s = cx.open();
    for (status, attempt) in [("queued", 0), ("waiting", 1)] {
        for end in ["succeeded", "failed", "cancelled"] {
            let id = format!("{status}-{end}");
            s.run_in(status, &id);
            let fields = json!({"id": id, "status": end, "error": "e"});
            if end == "succeeded" {
                s.refused("invalid_transition", "runs.finish", fields).of("run", &id).status(status);
                continue;
            }
            let run = s.ok("runs.finish", fields);
            assert_eq!((&run["status"], &run["error"], &run["finishedAt"]), (&json!(end), &json!("e"), &json!(t(5))));
            assert_eq!(run["attempt"], attempt);
            assert!(!has(&run, "waitingSince"), "{run}");
        }
    }
}

pub(crate) fn a_later_end_never_overwrites_an_earlier_one(cx: &Context<'_>) {
    let s = cx.open();
    s.start("good", 0);
    s.finish("good", "succeeded");
    s.refused("invalid_transition", "runs.finish", json!({"id": "good", "status": "cancelled", "error": "user", "finishedAt": t(6)}));
    let run = s.run("good");
    assert_eq!((&run["status"], &run["finishedAt"], has(&run, "error")), (&json!("succeeded"), &json!(t(5)), false));

    s.start_owned("stopped", "tok-a");
    let stop = json!({"id": "stopped", "status": "cancelled", "error": "stop", "executionToken": "tok-a"});
    s.ok("runs.finish", stop);
    for token in [json!("tok-a"), absent()] {
        let refusal = s.refused("invalid_transition", "runs.finish", json!({"id": "stopped", "executionToken": token}));
        refusal.of("run", "stopped").status("cancelled");
    }
    assert_eq!((&s.run("stopped")["status"], &s.run("stopped")["error"]), (&json!("cancelled"), &json!("stop")));
}

pub(crate) fn a_rescuer_with_an_old_view_can_not_reclaim_an_ended_run(cx: &Context<'_>) {
    let s = cx.open();
    s.ok("runs.start", json!({"id": "r1", "execution": ex("tok-a", 30)}));
    s.ok("runs.finish", json!({"id": "r1", "executionToken": "tok-a", "finishedAt": t(31)}));
    s.refused("invalid_transition", "runs.reclaim", json!({"id": "r1", "execution": ex("tok-b", 90)})).of("run", "r1").status("succeeded");
    let run = s.run("r1");
    assert_eq!((&run["status"], &run["finishedAt"], &run["attempt"]), (&json!("succeeded"), &json!(t(31)), &json!(1)));
    assert!(!has(&run, "execution") && !has(&run, "error"), "{run}");
}

pub(crate) fn cancel_asks_no_token_and_stops_any_active_run(cx: &Context<'_>) {
    let s = cx.open();
    for status in ["queued", "running", "waiting"] {
        s.run_in(status, status);
        let run = s.ok("runs.cancel", json!({"id": status, "error": "stop", "finishedAt": t(9)}));
        assert_eq!((&run["status"], &run["error"], &run["finishedAt"]), (&json!("cancelled"), &json!("stop"), &json!(t(9))));
        assert!(!has(&run, "waitingSince") && !has(&run, "execution"), "{run}");
        assert_eq!(s.run(status), run);
    }
    s.start_owned("owned", "tok-a");
    let run = s.ok("runs.cancel", json!({"id": "owned", "finishedAt": t(9)}));
    assert!(!has(&run, "execution") && !has(&run, "error"), "{run}");
    s.refused("invalid_transition", "runs.finish", json!({"id": "owned", "executionToken": "tok-a"}));
}

pub(crate) fn cancel_takes_no_token(cx: &Context<'_>) {
    let s = cx.open();
    s.start_owned("r1", "tok-a");
    s.invalid("executionToken", "runs.cancel", json!({"id": "r1", "executionToken": "tok-a"}));
    assert_eq!(s.run("r1")["status"], "running");
}
