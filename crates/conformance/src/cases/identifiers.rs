//! Identifiers and texts: what they may be, and that they are kept and compared as they are.

use serde_json::{Value, json};

use crate::Context;
use crate::check::{absent, ex, has, raw_request, t};

pub(crate) fn an_empty_identifier_is_invalid_everywhere(cx: &Context<'_>) {
    let s = cx.open();
    s.start("r1", 0);
    s.node("n1", "r1");
    for field in ["projectId", "id", "workflowId"] {
        s.invalid(field, "runs.queue", json!({"id": "r", field: ""}));
    }
    for field in ["projectId", "id", "workflowRunId", "workflowId", "nodeType", "nodeId", "nodeKey", "executionToken"] {
        s.invalid(field, "nodes.start", json!({"id": "n", field: ""}));
    }
    for field in ["projectId", "nodeRunId", "agentId", "executionToken"] {
        s.invalid(field, "agents.create", json!({"nodeRunId": "n1", field: ""}));
    }
    s.invalid("execution.token", "runs.start", json!({"id": "r2", "execution": ex("", 60)}));
    s.invalid("requestedByPrincipal.id", "runs.queue", json!({"id": "r2", "requestedByPrincipal": {"type": "a", "id": ""}}));
    s.invalid("requestedByPrincipal.type", "runs.queue", json!({"id": "r2", "requestedByPrincipal": {"type": "", "id": "a"}}));
    s.invalid("executionToken", "runs.finish", json!({"id": "r1", "executionToken": ""}));
    s.invalid("id", "runs.get", json!({"id": ""}));
    s.invalid("nodeRunId", "agents.get", json!({"nodeRunId": ""}));
    assert_eq!(s.counts(), [1, 1, 0]);
    assert_eq!(s.run("r1")["status"], "running");
}

pub(crate) fn identifiers_have_up_to_512_bytes(cx: &Context<'_>) {
    let s = cx.open();
    for unit in ["a", "\u{4e2d}"] {
        for size in [1, 512] {
            let id = unit.repeat(size / unit.len()) + &"z".repeat(size % unit.len());
            assert_eq!(id.len(), size);
            let fields = json!({"projectId": id, "id": id, "workflowId": id, "execution": ex(&id, 60)});
            let run = s.ok("runs.start", fields);
            assert_eq!((&run["projectId"], &run["id"], &run["workflowId"]), (&json!(id), &json!(id), &json!(id)));
            let node = json!({
                "projectId": id, "id": id, "workflowRunId": id, "workflowId": id, "nodeType": "agent", "nodeId": id, "nodeKey": id,
                "executionToken": id,
            });
            assert_eq!(s.ok("nodes.start", node)["nodeKey"], id);
            s.ok("agents.create", json!({"projectId": id, "nodeRunId": id, "agentId": id}));
            s.ok("agents.start", json!({"projectId": id, "nodeRunId": id, "execution": ex(&id, 60)}));
            for op in ["runs.list", "nodes.list", "agents.list"] {
                assert_eq!(s.ids(op, json!({"projectId": id, "limit": 1})), [id.as_str()], "{op}");
            }
            assert_eq!(s.ids("runs.list", json!({"projectId": id, "workflowId": id, "statuses": ["running"]})), [id.as_str()]);
            assert_eq!(s.ids("runs.latest", json!({"projectId": id, "workflowIds": [id]})), [id.as_str()]);
            assert_eq!(s.ids("runs.expired", json!({"projectId": id, "expiredBy": t(60)})), [id.as_str()]);
        }
    }
}

pub(crate) fn longer_identifiers_are_invalid_and_not_repeated_in_the_error(cx: &Context<'_>) {
    let s = cx.open();
    s.start("r1", 0);
    for (unit, size) in [("a", 513), ("a", 4096), ("a", 1_000_000), ("\u{4e2d}", 513), ("\u{e9}", 514)] {
        let id = unit.repeat(size / unit.len()) + &"z".repeat(size % unit.len());
        for field in ["projectId", "id", "workflowId"] {
            s.invalid(field, "runs.start", json!({"id": "r2", field: id}));
        }
        for field in ["id", "nodeKey", "nodeId", "nodeType"] {
            s.invalid(field, "nodes.start", json!({"id": "n1", field: id}));
        }
        s.invalid("execution.token", "runs.start", json!({"id": "r2", "execution": ex(&id, 60)}));
        s.invalid("executionToken", "runs.wait", json!({"id": "r1", "executionToken": id}));
        s.invalid("id", "runs.get", json!({"id": id}));
        s.invalid("workflowId", "runs.list", json!({"workflowId": id}));
        // A field's name may be as long.
        s.refused("invalid_input", "runs.get", json!({"id": "r1", "x".repeat(300): 1}));
    }
    assert_eq!(s.counts(), [1, 0, 0]);
}

pub(crate) fn nul_in_an_identifier_is_invalid(cx: &Context<'_>) {
    let s = cx.open();
    s.queue("r", 0);
    s.queue("r1", 0);
    s.invalid("id", "runs.queue", json!({"id": "r\u{0}1"}));
    s.invalid("id", "runs.queue", json!({"id": "\u{0}"}));
    s.invalid("projectId", "runs.queue", json!({"id": "q", "projectId": "p\u{0}"}));
    s.invalid("workflowId", "runs.queue", json!({"id": "q", "workflowId": "w\u{0}"}));
    s.invalid("execution.token", "runs.start", json!({"id": "q", "execution": ex("t\u{0}", 60)}));
    s.invalid("workflowId", "runs.list", json!({"workflowId": "w\u{0}x"}));
    s.invalid("id", "runs.get", json!({"id": "r\u{0}"}));
    assert_eq!(s.ids("runs.list", json!({"order": "asc"})), ["r", "r1"]);
    assert_eq!(s.ok("runs.list", json!({"projectId": "p"}))["total"], 0);
}

pub(crate) fn every_other_character_is_allowed(cx: &Context<'_>) {
    let s = cx.open();
    let ids = [
        " ",
        "a b",
        " a",
        "a ",
        "\t",
        "\n",
        "\r\n",
        "\u{1}",
        "\u{7f}",
        "\"",
        "\\",
        "/",
        "'",
        ";--",
        "%",
        "_",
        ":",
        "a:b",
        "|",
        "\u{feff}",
        "\u{200b}",
        "\u{e000}",
        "\u{ffff}",
        "\u{10ffff}",
        "\u{1f600}",
        "null",
        "0",
        "{}",
        "..",
        "a/../b",
    ];
    for id in ids {
        s.start(id, 0);
        s.node(id, id);
        s.agent(id);
    }
    let mut sorted = ids.to_vec();
    sorted.sort_unstable();
    assert_eq!(s.ids("runs.list", json!({"order": "asc"})), sorted);
    let s = cx.reopen(&s);
    for id in ids {
        assert_eq!((&s.run(id)["id"], &s.node_run(id)["id"], &s.agent_run(id)["nodeRunId"]), (&json!(id), &json!(id), &json!(id)));
    }
}

pub(crate) fn identifiers_are_compared_byte_for_byte(cx: &Context<'_>) {
    let s = cx.open();
    for id in ["caf\u{e9}", "cafe\u{301}", "CAF\u{c9}", "caf\u{e9} ", "stra\u{df}e", "strasse", "\u{212a}", "K"] {
        s.ok("runs.start", json!({"id": id, "workflowId": id}));
    }
    for id in ["caf\u{e9}", "cafe\u{301}", "CAF\u{c9}", "caf\u{e9} ", "stra\u{df}e", "strasse", "\u{212a}", "K"] {
        assert_eq!(s.run(id)["id"], id);
        assert_eq!(s.ids("runs.list", json!({"workflowId": id})), [id]);
        assert_eq!(s.ids("runs.latest", json!({"workflowIds": [id]})), [id]);
    }
}

pub(crate) fn a_separator_in_an_identifier_joins_nothing(cx: &Context<'_>) {
    for (separator, other) in [(":", "b"), ("/", "b"), ("\u{1}", "b"), ("\u{ff}", "\u{1}"), ("|", "b"), ("\u{1f}", "b")] {
        let s = cx.open();
        let places = [(format!("a{separator}{other}"), "c".to_owned()), ("a".to_owned(), format!("{other}{separator}c"))];
        for (n, (project, id)) in places.iter().enumerate() {
            s.ok("runs.start", json!({"projectId": project, "id": id, "input": {"v": n}}));
            s.ok("nodes.start", json!({"projectId": project, "id": id, "workflowRunId": id, "nodeType": "agent"}));
            s.ok("agents.create", json!({"projectId": project, "nodeRunId": id}));
        }
        let [(project, id), (other_project, other_id)] = &places;
        s.ok("runs.finish", json!({"projectId": project, "id": id}));
        assert_eq!(s.ok("runs.get", json!({"projectId": project, "id": id}))["status"], "succeeded");
        assert_eq!(s.ok("runs.get", json!({"projectId": other_project, "id": other_id}))["status"], "running");
        for (project, id) in &places {
            for op in ["runs.list", "nodes.list", "agents.list"] {
                assert_eq!(s.ids(op, json!({"projectId": project})), [id.as_str()], "{op}");
            }
        }
    }
}

pub(crate) fn neighbours_of_a_project_or_workflow_stay_apart(cx: &Context<'_>) {
    let s = cx.open();
    let names = ["a", "a\u{1}", "a ", "aa", "ab", "b", "a\u{10ffff}", "a\u{ff}"];
    for name in names {
        s.ok("runs.start", json!({"projectId": name, "id": "r1", "workflowId": "w"}));
        s.ok("runs.start", json!({"id": name, "workflowId": name}));
    }
    for name in names {
        assert_eq!(s.ok("runs.list", json!({"projectId": name}))["total"], 1);
        assert_eq!(s.ids("runs.list", json!({"workflowId": name})), [name]);
        assert_eq!(s.ok("runs.stats", json!({"workflowIds": [name]}))["total"], 1);
    }
}

pub(crate) fn the_escape_of_a_lone_surrogate_is_invalid(cx: &Context<'_>) {
    let s = cx.open();
    s.start("r1", 0);
    s.node("n1", "r1");
    let raw = |op: &str, fields: Value, name: &str, value: &str| raw_request(op, fields, &[(name, value)]);
    for lone in [r#""x\ud83d""#, r#""\udfff""#, r#""\ud83d\ud83d""#, r#""\ud800x""#] {
        s.refused_line("invalid_input", &raw("runs.start", json!({}), "id", lone)).field("id");
        s.refused_line("invalid_input", &raw("agents.create", json!({"nodeRunId": "n1"}), "prompt", lone)).field("prompt");
        s.refused_line("invalid_input", &raw("runs.get", json!({}), "id", lone)).field("id");
        s.refused_line("invalid_input", &raw("runs.finish", json!({"id": "r1", "status": "failed"}), "error", lone)).field("error");
    }
    assert_eq!(s.counts(), [1, 1, 0]);
    let smile = s.ok_line(&raw("runs.start", json!({}), "id", r#""\ud83d\ude00""#));
    assert_eq!(smile["id"], "\u{1f600}");
}

pub(crate) fn texts_keep_nul_and_every_character(cx: &Context<'_>) {
    let s = cx.open();
    s.start("r1", 0);
    let text = "a\u{0}b\u{0}\n\t\r\"\\/\u{1}\u{7f}\u{feff}\u{1f600} ";
    s.node("n1", "r1");
    s.ok("agents.create", json!({"nodeRunId": "n1", "prompt": text}));
    s.ok("agents.start", json!({"nodeRunId": "n1", "execution": ex("t", 60), "modelId": text}));
    s.ok("agents.finish", json!({"nodeRunId": "n1", "executionToken": "t", "status": "failed", "finishReason": text, "error": text}));
    s.ok("nodes.finish", json!({"id": "n1", "status": "failed", "error": text}));
    s.ok("runs.finish", json!({"id": "r1", "status": "failed", "error": text}));
    let s = cx.reopen(&s);
    let agent = s.agent_run("n1");
    for field in ["prompt", "modelId", "finishReason", "error"] {
        assert_eq!(agent[field], text, "{field}");
    }
    assert_eq!((&s.run("r1")["error"], &s.node_run("n1")["error"]), (&json!(text), &json!(text)));
    s.ok("runs.start", json!({"id": "nul", "execution": null}));
    assert_eq!(s.ok("runs.finish", json!({"id": "nul", "status": "failed", "error": "x\u{0}"}))["error"], "x\u{0}");
}

pub(crate) fn an_empty_text_is_not_an_absent_one(cx: &Context<'_>) {
    let s = cx.open();
    s.start("host", 0);
    for (suffix, text) in [("empty", json!("")), ("absent", absent())] {
        let run = format!("r-{suffix}");
        s.start(&run, 0);
        s.ok("runs.finish", json!({"id": run, "status": "failed", "error": text}));
        for kind in ["cancel", "finish", "node"] {
            s.node(&format!("{kind}-{suffix}"), "host");
            s.ok("agents.create", json!({"nodeRunId": format!("{kind}-{suffix}"), "prompt": ""}));
        }
        s.ok("agents.cancel", json!({"nodeRunId": format!("cancel-{suffix}"), "error": text}));
        let node = format!("finish-{suffix}");
        s.ok("agents.start", json!({"nodeRunId": node, "execution": ex("t", 60), "modelId": text}));
        s.ok("agents.finish", json!({"nodeRunId": node, "executionToken": "t", "status": "failed", "finishReason": text, "error": text}));
        s.ok("nodes.finish", json!({"id": format!("node-{suffix}"), "status": "cancelled", "error": text}));
    }
    let s = cx.reopen(&s);
    for (suffix, is_there) in [("empty", true), ("absent", false)] {
        let agent = s.agent_run(&format!("finish-{suffix}"));
        assert_eq!(agent["prompt"], "");
        for (record, field) in [
            (&s.run(&format!("r-{suffix}")), "error"),
            (&s.agent_run(&format!("cancel-{suffix}")), "error"),
            (&s.node_run(&format!("node-{suffix}")), "error"),
            (&agent, "error"),
            (&agent, "modelId"),
            (&agent, "finishReason"),
        ] {
            assert_eq!(has(record, field), is_there, "{field} of {record}");
            assert!(!is_there || record[field] == "", "{field} of {record}");
        }
    }
}
