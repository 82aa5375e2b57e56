//! Payloads come back byte for byte; what no reader could read back is refused at once. And the size limits.

use serde_json::{Value, json};

use crate::Context;
use crate::check::{Caller, ex, has, raw_at};

/// Each payload comes back as it was given: in the answer, by get, by list, and after closing and opening again.
fn kept(cx: &Context<'_>, payloads: &[&str]) {
    let s = cx.open();
    let id = |n: usize| format!("r{n:03}");
    for (n, payload) in payloads.iter().enumerate() {
        let answer = s.ok_raw("runs.start", json!({"id": id(n)}), &[("input", payload), ("source", payload)]);
        check(&answer, &["ok"], payload, &["input", "source"]);
        s.node(&id(n), &id(n));
        s.agent(&id(n));
        s.start_agent(&id(n), "g");
        let results = [("usage", *payload), ("trace", *payload), ("diagnostics", *payload)];
        let answer = s.ok_raw("agents.finish", json!({"nodeRunId": id(n), "executionToken": "g"}), &results);
        check(&answer, &["ok"], payload, &["usage", "trace", "diagnostics"]);
        check(&s.ok_raw("nodes.finish", json!({"id": id(n)}), &[("output", payload)]), &["ok"], payload, &["output"]);
        let answer = s.ok_raw("runs.finish", json!({"id": id(n)}), &[("output", payload)]);
        check(&answer, &["ok"], payload, &["input", "source", "output"]);
    }
    read_back(&s, payloads);
    read_back(&cx.reopen(&s), payloads);
}

fn read_back(s: &Caller, payloads: &[&str]) {
    let runs = s.ask("runs.list", json!({"order": "asc", "limit": 1000}));
    for (n, payload) in payloads.iter().enumerate() {
        let id = format!("r{n:03}");
        check(&s.ask("runs.get", json!({"id": id})), &["ok"], payload, &["input", "source", "output"]);
        check(&s.ask("nodes.get", json!({"id": id})), &["ok"], payload, &["output"]);
        check(&s.ask("agents.get", json!({"nodeRunId": id})), &["ok"], payload, &["usage", "trace", "diagnostics"]);
        check(&runs, &["ok", "runs", &n.to_string()], payload, &["input", "source", "output"]);
    }
}

fn check(answer: &str, record: &[&str], payload: &str, fields: &[&str]) {
    for field in fields {
        assert_eq!(raw_at(answer, &[record, &[field]].concat()).as_deref(), Some(payload), "{field}");
    }
}

pub(crate) fn numbers_keep_their_spelling(cx: &Context<'_>) {
    kept(
        cx,
        &[
            r#"{"x":117.63331139400017,"m":9007199254740991.0}"#,
            r#"{"a":9223372036854775807,"b":9223372036854775808,"c":18446744073709551615,"d":18446744073709551616,"e":-9223372036854775809}"#,
            r#"{"n":1606938044258990275541962092341162602522202993782792835301376,"k":1000000000000000001}"#,
            r#"{"a":1.0,"b":1,"c":1e2,"d":-0.0,"e":100}"#,
            "-0",
            "1E+2",
            "0.10",
            "1e-400",
            "0e0",
            "1.7976931348623157e308",
            "-1.7976931348623158e+308",
            "5e-324",
        ],
    );
}

pub(crate) fn key_order_and_repeated_keys_are_kept(cx: &Context<'_>) {
    kept(
        cx,
        &[
            r#"{"zeta":1,"a":2,"mm":{"y":1,"b":2}}"#,
            r#"{"A":"B","A":123}"#,
            r#"{"o":{"k":1,"k":2}}"#,
            r#"{"":1,"":2}"#,
            r#"{"id":"x","projectId":"y","op":"runs.delete"}"#,
        ],
    );
}

pub(crate) fn escapes_and_white_space_inside_are_kept(cx: &Context<'_>) {
    kept(
        cx,
        &[
            r#"{"q":"what\u0000now","k\u0000":1}"#,
            "[ 1 ,\t2 ]",
            r#""\u0041\/\b\f\n\r\t\"\\""#,
            r#""\ud83d\ude00""#,
            r#""\uD83D\uDE00""#,
            "\"\u{1f600}\u{7f}\u{2028}\u{feff}\"",
            "{ \"a\" : [ ] , \"b\":{ } }",
            r#""\\ud800""#,
            r#""<script>&amp;'""#,
        ],
    );
}

pub(crate) fn null_empty_and_false_values_are_kept(cx: &Context<'_>) {
    kept(cx, &["{}", r#"{"x":null}"#, "[]", "null", "\"\"", "0", "false", "true", "[null]", "\" \""]);
}

pub(crate) fn deep_nesting_is_kept(cx: &Context<'_>) {
    let nested = |open: &str, inner: &str, close: &str, depth: usize| open.repeat(depth) + inner + &close.repeat(depth);
    let payloads = [nested("[", "", "]", 100), nested("[", "", "]", 127), nested("{\"a\":", "1", "}", 127), nested("[[],", "1", "]", 126)];
    kept(cx, &payloads.iter().map(String::as_str).collect::<Vec<_>>());
}

pub(crate) fn sizes_around_every_inner_limit_are_kept(cx: &Context<'_>) {
    let sizes = [2, 100, 511, 1000, 1023, 1024, 1025, 2000, 4000, 4096, 8192, 65_535, 65_536, 300_000];
    let payloads: Vec<String> = sizes.iter().map(|size| format!("\"{}\"", "x".repeat(size - 2))).collect();
    kept(cx, &payloads.iter().map(String::as_str).collect::<Vec<_>>());
}

pub(crate) fn white_space_around_a_payload_is_not_part_of_it(cx: &Context<'_>) {
    let s = cx.open();
    let answer = s.ok_raw("runs.start", json!({"id": "r1"}), &[("input", " \t {\"a\" : 1} \t "), ("source", "\t5 ")]);
    assert_eq!(raw_at(&answer, &["ok", "input"]).as_deref(), Some("{\"a\" : 1}"));
    assert_eq!(raw_at(&answer, &["ok", "source"]).as_deref(), Some("5"));
    assert_eq!(raw_at(&s.ask("runs.get", json!({"id": "r1"})), &["ok", "input"]).as_deref(), Some("{\"a\" : 1}"));
}

pub(crate) fn a_line_break_between_tokens_becomes_a_space(cx: &Context<'_>) {
    let s = cx.open();
    let answer = s.ok_raw("runs.start", json!({"id": "r1"}), &[("input", "\n{\n\"a\":\r\n[1,\n2]\r}\n")]);
    assert_eq!(raw_at(&answer, &["ok", "input"]).as_deref(), Some("{ \"a\":  [1, 2] }"));
    assert_eq!(s.ask("runs.get", json!({"id": "r1"})), answer);
}

pub(crate) fn what_no_reader_could_read_back_is_invalid(cx: &Context<'_>) {
    let s = cx.open();
    s.start("r1", 0);
    let mut bad: Vec<String> =
        ["1e400", "-1e400", r#"{"x":1e400}"#, r#"{"x":[-1E+999]}"#, r#"{"t":"\ud800"}"#, r#"{"\udfff":1}"#, r#"["\ud83d\u0041"]"#]
            .map(String::from)
            .into();
    bad.push("1".to_owned() + &"0".repeat(400));
    for depth in [128, 129, 200, 500, 100_000] {
        bad.push("[".repeat(depth) + &"]".repeat(depth));
        bad.push("{\"a\":".repeat(depth) + "1" + &"}".repeat(depth));
    }
    for payload in &bad {
        s.invalid_raw("input", "runs.start", json!({"id": "bad"}), &[("input", payload)]);
        s.invalid_raw("source", "runs.queue", json!({"id": "bad"}), &[("source", payload)]);
        s.invalid_raw("output", "runs.finish", json!({"id": "r1"}), &[("output", payload)]);
        s.invalid_raw("trace", "agents.finish", json!({"nodeRunId": "n", "executionToken": "t"}), &[("trace", payload)]);
    }
    for no_json in
        [r#"{"loss":NaN}"#, r#"{"loss":Infinity}"#, "[-Infinity]", "[1,]", "{'a':1}", "undefined", "01", "\"\u{1}\"", "[\u{a0}1]", "/**/1"]
    {
        s.refused_line("invalid_input", &crate::check::raw_request("runs.start", json!({"id": "bad"}), &[("input", no_json)]));
    }
    assert_eq!(s.counts(), [1, 0, 0]);
    assert_eq!(s.run("r1")["status"], "running");
}

pub(crate) fn depth_is_counted_from_the_payloads_own_bracket(cx: &Context<'_>) {
    let s = cx.open();
    let deep = "[".repeat(127) + &"]".repeat(127);
    let queue = crate::check::raw_request("runs.queue", json!({"id": "r1"}), &[("input", &deep)]);
    let answer = s.line(&format!("{{\"op\":\"batch\",\"commands\":[{queue}]}}"));
    assert_eq!(raw_at(&answer, &["ok", "results", "0", "input"]), Some(deep.clone()));
    let too_deep = queue.replace(&deep, &format!("[{deep}]"));
    s.refused_line("invalid_input", &format!("{{\"op\":\"batch\",\"commands\":[{too_deep}]}}")).field("input").index(0);
}

pub(crate) fn an_absent_payload_stays_absent(cx: &Context<'_>) {
    let s = cx.open();
    s.start("r1", 0);
    s.node("n1", "r1");
    s.agent("n1");
    s.start_agent("n1", "t");
    s.ok("agents.finish", json!({"nodeRunId": "n1", "executionToken": "t"}));
    s.ok("nodes.finish", json!({"id": "n1"}));
    s.finish("r1", "succeeded");
    let s = cx.reopen(&s);
    assert!(!has(&s.run("r1"), "source") && !has(&s.run("r1"), "output") && !has(&s.node_run("n1"), "output"));
    assert!(["usage", "trace", "diagnostics"].iter().all(|field| !has(&s.agent_run("n1"), field)));
}

pub(crate) fn a_later_start_replaces_a_long_input_by_a_short_one(cx: &Context<'_>) {
    let s = cx.open();
    let long = json!("x".repeat(100_000));
    let pairs = [(long.clone(), json!(1)), (json!(1), long.clone()), (long, json!("y".repeat(100_000))), (json!(1), json!(2))];
    for (n, (first, second)) in pairs.iter().enumerate() {
        let id = format!("r{n}");
        s.ok("runs.queue", json!({"id": id, "input": first}));
        s.ok("runs.start", json!({"id": id, "input": second}));
        assert!(s.run(&id)["input"] == *second);
    }
    let s = cx.reopen(&s);
    for (n, (_, second)) in pairs.iter().enumerate() {
        assert!(s.run(&format!("r{n}"))["input"] == *second);
    }
}

/// A JSON string of so many bytes.
fn blob(size: usize) -> Value {
    json!("x".repeat(size - 2))
}

pub(crate) fn each_payload_and_text_has_a_limit(cx: &Context<'_>) {
    let limit = 65_536;
    let s = cx.open_with(&[("max_payload_bytes", "65536")]);
    let too_large = |field: &str, op: &str, fields: Value| {
        s.refused("too_large", op, fields).field(field).sizes(limit + 1, limit);
    };
    s.ok("runs.start", json!({"id": "r1", "input": blob(limit), "source": blob(limit)}));
    too_large("input", "runs.start", json!({"id": "r2", "input": blob(limit + 1)}));
    too_large("source", "runs.queue", json!({"id": "r2", "source": blob(limit + 1)}));
    s.node("n1", "r1");
    too_large("input", "nodes.start", json!({"id": "n2", "input": blob(limit + 1)}));
    too_large("prompt", "agents.create", json!({"nodeRunId": "n1", "prompt": "x".repeat(limit + 1)}));
    s.ok("agents.create", json!({"nodeRunId": "n1", "prompt": "x".repeat(limit)}));
    too_large("modelId", "agents.start", json!({"nodeRunId": "n1", "execution": ex("t", 60), "modelId": "x".repeat(limit + 1)}));
    s.start_agent("n1", "t");
    for field in ["usage", "trace", "diagnostics"] {
        too_large(field, "agents.finish", json!({"nodeRunId": "n1", "executionToken": "t", field: blob(limit + 1)}));
    }
    for field in ["modelId", "finishReason", "error"] {
        let fields = json!({"nodeRunId": "n1", "executionToken": "t", "status": "failed", field: "x".repeat(limit + 1)});
        too_large(field, "agents.finish", fields);
    }
    too_large("error", "agents.cancel", json!({"nodeRunId": "n1", "error": "x".repeat(limit + 1)}));
    too_large("output", "nodes.finish", json!({"id": "n1", "output": blob(limit + 1)}));
    too_large("error", "nodes.finish", json!({"id": "n1", "status": "failed", "error": "x".repeat(limit + 1)}));
    too_large("output", "runs.finish", json!({"id": "r1", "output": blob(limit + 1)}));
    too_large("error", "runs.cancel", json!({"id": "r1", "error": "x".repeat(limit + 1)}));
    assert_eq!((s.counts(), &s.agent_run("n1")["status"]), ([1, 1, 1], &json!("running")));
    let trace = json!({"nodeRunId": "n1", "executionToken": "t", "trace": blob(limit), "status": "failed", "error": "x".repeat(limit)});
    s.ok("agents.finish", trace);
    s.ok("nodes.finish", json!({"id": "n1", "output": blob(limit)}));
    s.ok("runs.finish", json!({"id": "r1", "output": blob(limit)}));
}

pub(crate) fn sizes_are_bytes_as_given(cx: &Context<'_>) {
    let s = cx.open_with(&[("max_payload_bytes", "20")]);
    let input = |raw: &str| crate::check::raw_request("runs.queue", json!({"id": "r1"}), &[("input", raw)]);
    // Of a payload the text counts: escapes as they are written, white space inside, characters in UTF-8.
    s.refused_line("too_large", &input("\"\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\"")).sizes(22, 20);
    s.refused_line("too_large", &input(r#""\u0041\u0041\u0041xx""#)).sizes(22, 20);
    let with_spaces = |count: usize| format!("  [1,{}2 ]  ", " ".repeat(count));
    s.refused_line("too_large", &input(&with_spaces(15))).sizes(21, 20);
    s.ok_line(&input(&with_spaces(14)));
    // Of a text its own bytes count, however it is written.
    s.start("r2", 0);
    s.refused("too_large", "runs.cancel", json!({"id": "r2", "error": "\u{e9}".repeat(11)})).field("error").sizes(22, 20);
    let error =
        r#""\u0041\u0041\u0041\u0041\u0041\u0041\u0041\u0041\u0041\u0041\u0041\u0041\u0041\u0041\u0041\u0041\u0041\u0041\u0041\u0041""#;
    s.ok_line(&crate::check::raw_request("runs.cancel", json!({"id": "r2"}), &[("error", error)]));
}

pub(crate) fn the_default_limit_is_16_mib(cx: &Context<'_>) {
    let s = cx.open();
    let limit = 16 * 1024 * 1024;
    s.start("r1", 0);
    s.node("n1", "r1");
    s.refused("too_large", "nodes.finish", json!({"id": "n1", "output": blob(limit + 1)})).field("output").sizes(limit + 1, limit);
    assert_eq!(s.node_run("n1")["status"], "running");
    let output = blob(limit);
    s.ok("nodes.finish", json!({"id": "n1", "output": output, "answer": "state"}));
    assert!(s.node_run("n1")["output"] == output);
    s.finish("r1", "failed");
}

pub(crate) fn a_request_over_256_mib_is_too_large(cx: &Context<'_>) {
    let s = cx.open();
    let limit = 256 * 1024 * 1024;
    let mut request = String::with_capacity(limit + 1);
    request.push_str(r#"{"op":"projects.list"}"#);
    request.extend(std::iter::repeat_n(' ', limit - request.len()));
    assert!(s.store.call(&request).starts_with(r#"{"ok":"#), "a request of exactly the limit is taken");
    request.push(' ');
    s.refused_line("too_large", &request).sizes(limit + 1, limit);
}
