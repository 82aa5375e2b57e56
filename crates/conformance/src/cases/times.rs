//! Times: how they are read, kept, written and compared; and the clock.

use serde_json::{Value, json};

use crate::Context;
use crate::check::{absent, ex, t};

/// Starts a run at a time as it is written.
fn start(s: &crate::check::Caller, id: &str, at: &str) -> Value {
    s.ok("runs.start", json!({"id": id, "startedAt": at}))["startedAt"].take()
}

pub(crate) fn offsets_are_instants_and_not_text(cx: &Context<'_>) {
    let s = cx.open();
    start(&s, "r1", "2026-01-15T23:00:00+05:30");
    start(&s, "r2", "2026-01-15T18:00:00Z");
    assert_eq!(s.ids("runs.list", json!({"order": "asc"})), ["r1", "r2"]);
    assert_eq!(s.ids("runs.list", json!({"startedAfter": "2026-01-15T17:45:00Z"})), ["r2"]);
    assert_eq!(s.ids("runs.list", json!({"startedBefore": "2026-01-15T12:30:00-05:00"})), ["r1"]);
    assert_eq!(
        (&s.run("r1")["startedAt"], &s.run("r2")["startedAt"]),
        (&json!("2026-01-15T17:30:00.000000Z"), &json!("2026-01-15T18:00:00.000000Z"))
    );
}

pub(crate) fn fractions_of_any_length_sort_as_numbers(cx: &Context<'_>) {
    let s = cx.open();
    for (n, fraction) in ["", ".002", ".1", ".102"].iter().enumerate() {
        start(&s, &format!("r{n}"), &format!("2026-01-15T23:47:07{fraction}Z"));
    }
    assert_eq!(s.ids("runs.list", json!({"order": "asc"})), ["r0", "r1", "r2", "r3"]);
    assert_eq!(s.ids("runs.list", json!({"order": "asc", "startedAfter": "2026-01-15T23:47:07.050Z"})), ["r2", "r3"]);
}

pub(crate) fn finer_times_are_rounded_down_to_microseconds(cx: &Context<'_>) {
    let s = cx.open();
    assert_eq!(start(&s, "r2", "2026-01-05T10:00:00.0000004Z"), t(0));
    assert_eq!(start(&s, "r1", "2026-01-05T10:00:00.0000006Z"), t(0));
    assert_eq!(start(&s, "r3", "2026-01-05T10:00:00.000001Z"), "2026-01-05T10:00:00.000001Z");
    assert_eq!(start(&s, "old", "1969-12-31T23:59:59.9999999Z"), "1969-12-31T23:59:59.999999Z");
    assert_eq!(s.ids("runs.list", json!({"order": "asc"})), ["old", "r1", "r2", "r3"]);
    assert_eq!(s.ids("runs.list", json!({"order": "asc", "startedAfter": "2026-01-05T10:00:00.0000005Z"})), ["r1", "r2", "r3"]);
}

pub(crate) fn times_before_1970_are_kept_exactly(cx: &Context<'_>) {
    let s = cx.open();
    for (id, at) in [("a", "1969-12-31T23:59:59.500Z"), ("b", "1901-02-03T04:05:06.007Z"), ("c", "1970-01-01T00:00:00.000Z")] {
        start(&s, id, at);
    }
    let check = |s: &crate::check::Caller| {
        assert_eq!(s.ids("runs.list", json!({"order": "asc"})), ["b", "a", "c"]);
        assert_eq!(s.ids("runs.list", json!({"order": "asc", "startedBefore": "1969-12-31T23:59:59.999Z"})), ["b", "a"]);
        assert_eq!(
            (&s.run("a")["startedAt"], &s.run("b")["startedAt"]),
            (&json!("1969-12-31T23:59:59.500000Z"), &json!("1901-02-03T04:05:06.007000Z"))
        );
    };
    check(&s);
    check(&cx.reopen(&s));
}

pub(crate) fn the_ends_of_the_range_are_kept(cx: &Context<'_>) {
    let s = cx.open();
    let rows = [
        ("first", "0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000000Z"),
        ("local-0000", "0000-12-31T23:59:59-00:01", "0001-01-01T00:00:59.000000Z"),
        ("last", "9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59.999999Z"),
        ("last-cut", "9999-12-31T23:59:59.999999999Z", "9999-12-31T23:59:59.999999Z"),
        ("odd", "2026-01-05T10:00:00.123999Z", "2026-01-05T10:00:00.123999Z"),
    ];
    for (id, given, kept) in rows {
        assert_eq!(start(&s, id, given), kept);
        let lease = json!({"id": format!("{id}-lease"), "execution": {"token": "t", "queueLeaseExpiresAt": given}});
        assert_eq!(s.ok("runs.start", lease)["execution"]["queueLeaseExpiresAt"], kept);
    }
    let s = cx.reopen(&s);
    for (id, _, kept) in rows {
        assert_eq!(s.run(id)["startedAt"], kept);
    }
    assert_eq!(s.ids("runs.list", json!({"order": "asc", "limit": 2})), ["first", "local-0000"]);
    assert_eq!(s.ids("runs.list", json!({"limit": 2})), ["last-cut", "last"]);
    assert_eq!(s.ids("runs.expired", json!({"expiredBy": "0001-01-01T00:00:00Z"})), ["first-lease"]);
    assert_eq!(
        s.ok("runs.list", json!({"startedAfter": "0001-01-01T00:00:00Z", "startedBefore": "9999-12-31T23:59:59.999999Z"}))["total"],
        10
    );
}

pub(crate) fn every_form_of_rfc_3339_is_read(cx: &Context<'_>) {
    let s = cx.open();
    for (n, (given, kept)) in [
        ("2026-01-15t23:00:00z", "2026-01-15T23:00:00.000000Z"),
        ("2026-01-15T23:00:00.1-23:59", "2026-01-16T22:59:00.100000Z"),
        ("2026-01-15T23:00:00.123456789+23:59", "2026-01-14T23:01:00.123456Z"),
        ("2026-01-15T23:00:00+00:00", "2026-01-15T23:00:00.000000Z"),
        ("2026-01-15T23:00:00-00:00", "2026-01-15T23:00:00.000000Z"),
        ("2024-02-29T12:00:00Z", "2024-02-29T12:00:00.000000Z"),
        ("2000-02-29T12:00:00Z", "2000-02-29T12:00:00.000000Z"),
    ]
    .iter()
    .enumerate()
    {
        assert_eq!(start(&s, &format!("r{n}"), given), *kept);
    }
}

pub(crate) fn what_is_no_time_is_invalid(cx: &Context<'_>) {
    let s = cx.open();
    for bad in [
        "",
        "now",
        "2026-01-05",
        "2026-01-05T10:00:00",
        "2026-01-05 10:00:00Z",
        "2026-01-05T10:00:60Z",
        "2026-01-05T24:00:00Z",
        "2026-01-05T10:60:00Z",
        "2025-02-29T00:00:00Z",
        "2026-13-01T00:00:00Z",
        "2026-00-01T00:00:00Z",
        "2026-01-00T00:00:00Z",
        "2026-04-31T00:00:00Z",
        "1900-02-29T00:00:00Z",
        "2026-01-05T10:00:00.Z",
        "2026-01-05T10:00:00,5Z",
        "2026-01-05T10:00:00.0123456789Z",
        "2026-01-05T10:00:00+24:00",
        "2026-01-05T10:00:00+01:60",
        "2026-01-05T10:00:00+0100",
        "2026-01-05T10:00:00+01",
        "0001-01-01T00:00:00+00:01",
        "9999-12-31T23:59:59-00:01",
        "0000-01-01T00:00:00Z",
        "10000-01-01T00:00:00Z",
        "-0001-01-01T00:00:00Z",
        "26-01-05T10:00:00Z",
        "2026-1-5T10:00:00Z",
        " 2026-01-05T10:00:00Z",
        "2026-01-05T10:00:00Z ",
        "2026-01-05T10:00:00Z\u{0}",
        "2026-01-05T10:00Z",
        "\u{662}026-01-05T10:00:00Z",
        "1767607200",
    ] {
        s.invalid("startedAt", "runs.start", json!({"id": "r1", "startedAt": bad}));
    }
    s.invalid("startedAt", "runs.start", json!({"id": "r1", "startedAt": 1_767_607_200}));
    s.invalid("queuedAt", "runs.queue", json!({"id": "r1", "queuedAt": "x"}));
    s.invalid("waitingAt", "runs.wait", json!({"id": "r1", "waitingAt": "x"}));
    s.invalid("finishedAt", "runs.cancel", json!({"id": "r1", "finishedAt": "x"}));
    s.invalid("completedAt", "agents.cancel", json!({"nodeRunId": "n1", "completedAt": "x"}));
    s.invalid("createdAt", "agents.create", json!({"nodeRunId": "n1", "createdAt": "x"}));
    s.invalid("leaseExpiredBy", "runs.reclaim", json!({"id": "r1", "execution": ex("t", 0), "leaseExpiredBy": "x"}));
    s.invalid("startedAfter", "runs.list", json!({"startedAfter": "x"}));
    s.invalid("createdBefore", "agents.list", json!({"createdBefore": "x"}));
    assert_eq!(s.counts(), [0, 0, 0]);
}

pub(crate) fn times_that_are_not_given_come_from_the_clock(cx: &Context<'_>) {
    if !cx.has_clock() {
        return;
    }
    let s = cx.open();
    let mut steps = 0;
    let mut at = |op: &str, fields: Value, names: &[&str]| {
        steps += 1;
        s.clock().advance_us(1_000_001);
        let want = json!(format!("2026-01-05T10:00:{steps:02}.{steps:06}Z"));
        let mut fields = fields;
        for name in ["queuedAt", "startedAt", "createdAt", "finishedAt", "completedAt"] {
            fields[name] = absent();
        }
        let answer = s.ok(op, fields);
        for name in names {
            assert_eq!(answer[*name], want, "{name} of {op}: {answer}");
        }
    };
    at("runs.queue", json!({"id": "r1"}), &["queuedAt", "startedAt"]);
    at("runs.claim", json!({"execution": ex("t", 60)}), &["startedAt"]);
    at("nodes.start", json!({"id": "n1", "nodeType": "agent", "executionToken": "t"}), &["startedAt"]);
    at("agents.create", json!({"nodeRunId": "n1"}), &["createdAt"]);
    at("agents.claim", json!({"execution": ex("g", 60)}), &["startedAt"]);
    at("agents.finish", json!({"nodeRunId": "n1", "executionToken": "g"}), &["completedAt"]);
    at("nodes.wait", json!({"id": "n1", "executionToken": "t"}), &["waitingSince"]);
    at("nodes.finish", json!({"id": "n1", "executionToken": "t"}), &["finishedAt"]);
    at("runs.wait", json!({"id": "r1", "executionToken": "t"}), &["waitingSince"]);
    at("runs.finish", json!({"id": "r1", "status": "failed"}), &["finishedAt"]);
    at("runs.start", json!({"id": "r2"}), &["startedAt"]);
    at("nodes.start", json!({"id": "n2", "workflowRunId": "r2", "nodeType": "agent"}), &["startedAt"]);
    at("agents.create", json!({"nodeRunId": "n2"}), &["createdAt"]);
    at("agents.start", json!({"nodeRunId": "n2", "execution": ex("g", 60)}), &["startedAt"]);
    at("agents.cancel", json!({"nodeRunId": "n2"}), &["completedAt"]);
    at("runs.cancel", json!({"id": "r2"}), &["finishedAt"]);
    at("runs.queue", json!({"id": "r3"}), &["queuedAt", "startedAt"]);
    at("runs.start", json!({"id": "r3"}), &["startedAt"]);
    assert_eq!(s.run("r3")["queuedAt"], "2026-01-05T10:00:17.000017Z");
}

pub(crate) fn a_clock_that_is_set_back_is_believed(cx: &Context<'_>) {
    if !cx.has_clock() {
        return;
    }
    let s = cx.open();
    s.start("r1", 0);
    s.clock().set("1999-12-31T23:59:59.999999Z".parse().unwrap());
    let run = s.ok("runs.finish", json!({"id": "r1", "finishedAt": absent()}));
    assert_eq!(run["finishedAt"], "1999-12-31T23:59:59.999999Z");
}

pub(crate) fn clock_times_and_given_times_are_one_kind(cx: &Context<'_>) {
    let s = cx.open_at(cx.place(), crate::Options::new());
    for (id, at) in [("r1", absent()), ("r2", json!("2020-01-01T00:00:00Z")), ("r3", json!("2099-01-01T00:00:00Z"))] {
        s.ok("runs.start", json!({"id": id, "startedAt": at}));
        s.ok("nodes.start", json!({"id": id, "startedAt": at}));
    }
    for op in ["runs.list", "nodes.list"] {
        assert_eq!(s.ids(op, json!({})), ["r3", "r1", "r2"], "{op}");
    }
    let at = s.run("r1")["startedAt"].as_str().unwrap().to_owned();
    assert!(at.len() == 27 && at.ends_with('Z') && at.starts_with("20"), "{at}");
}

pub(crate) fn time_bounds_are_inclusive(cx: &Context<'_>) {
    let s = cx.open();
    s.start("r1", 0);
    s.node("n1", "r1");
    s.agent("n1");
    let (just_before, just_after) = ("2026-01-05T09:59:59.999999Z", "2026-01-05T10:00:00.000001Z");
    for (op, after, before) in [
        ("runs.list", "startedAfter", "startedBefore"),
        ("nodes.list", "startedAfter", "startedBefore"),
        ("agents.list", "createdAfter", "createdBefore"),
    ] {
        for (fields, count) in [
            (json!({after: t(0), before: t(0)}), 1),
            (json!({after: just_after}), 0),
            (json!({before: just_before}), 0),
            (json!({after: just_before, before: just_after}), 1),
        ] {
            let page = s.ok(op, fields.clone());
            assert_eq!(page["total"], count, "{op} {fields}");
            assert_eq!(s.ids(op, fields).len(), count);
        }
    }
}
