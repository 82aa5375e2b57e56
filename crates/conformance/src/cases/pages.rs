//! Pages: limits, offsets, cursors, totals.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::Context;
use crate::check::{Caller, has, merged, rows, t};

/// Starts runs `r00`, `r01`, … a second apart.
fn runs(s: &Caller, count: i64) {
    for n in 0..count {
        s.start(&format!("r{n:02}"), n);
    }
}

fn page(s: &Caller, fields: Value) -> (Vec<String>, Value, Value) {
    let page = s.ok("runs.list", fields);
    assert_eq!(has(&page, "nextCursor"), page["hasMore"] == true && page["runs"] != json!([]), "{page}");
    (rows("runs.list", &page), page["total"].clone(), page["hasMore"].clone())
}

pub(crate) fn equal_times_page_without_repeats_or_gaps(cx: &Context<'_>) {
    let s = cx.open();
    for n in 0..30 {
        s.start(&format!("r-{:02}", n * 7 % 30), 0);
    }
    let ids: Vec<String> = (0..30).map(|n| format!("r-{n:02}")).collect();
    for order in ["asc", "desc"] {
        let mut walked = Vec::new();
        for (offset, more) in [(0, true), (7, true), (14, true), (21, true), (28, false)] {
            let (found, total, has_more) = page(&s, json!({"limit": 7, "offset": offset, "order": order}));
            assert_eq!((total, has_more), (json!(30), json!(more)));
            walked.extend(found);
        }
        if order == "desc" {
            walked.reverse();
        }
        assert_eq!(walked, ids, "{order}");
    }
}

pub(crate) fn has_more_at_the_exact_boundary(cx: &Context<'_>) {
    let s = cx.open();
    runs(&s, 50);
    for (fields, more, count) in [
        (json!({}), false, 50),
        (json!({"limit": 50}), false, 50),
        (json!({"limit": 49}), true, 49),
        (json!({"limit": 51}), false, 50),
        (json!({"limit": 10, "offset": 40}), false, 10),
        (json!({"limit": 10, "offset": 39}), true, 10),
        (json!({"limit": 10, "offset": 50}), false, 0),
        (json!({"offset": 1_000_000_000}), false, 0),
        (json!({"offset": i64::MAX}), false, 0),
        (json!({"offset": i64::MAX, "limit": 10000}), false, 0),
    ] {
        let (found, total, has_more) = page(&s, fields.clone());
        assert_eq!((found.len(), total, has_more), (count, json!(50), json!(more)), "{fields}");
    }
}

pub(crate) fn the_default_page_is_50_newest_first(cx: &Context<'_>) {
    let s = cx.open();
    runs(&s, 51);
    let (found, total, has_more) = page(&s, json!({}));
    assert_eq!((found.len(), total, has_more), (50, json!(51), json!(true)));
    assert_eq!((found[0].as_str(), found[49].as_str()), ("r50", "r01"));
    s.start("host", 0);
    for n in 0..51 {
        s.node(&format!("n{n:02}"), "host");
        s.agent(&format!("n{n:02}"));
        s.ok("runs.queue", json!({"projectId": format!("p{n:02}"), "id": "r"}));
    }
    for op in ["nodes.list", "agents.list"] {
        let found = s.ids(op, json!({}));
        assert_eq!((found.len(), found[0].as_str()), (50, "n50"), "{op}");
    }
    let projects = s.ids("projects.list", json!({}));
    assert_eq!((projects.len(), projects[0].as_str()), (50, "p00"), "projects come in ascending order by default");
}

pub(crate) fn limit_zero_counts_without_rows(cx: &Context<'_>) {
    let s = cx.open();
    assert_eq!(s.ok("runs.list", json!({"limit": 0})), json!({"runs": [], "total": 0, "hasMore": false}));
    runs(&s, 5);
    assert_eq!(s.ok("runs.list", json!({"limit": 0})), json!({"runs": [], "total": 5, "hasMore": true}));
    assert_eq!(s.ok("runs.list", json!({"limit": 0, "offset": 4})), json!({"runs": [], "total": 5, "hasMore": true}));
    assert_eq!(s.ok("runs.list", json!({"limit": 0, "offset": 5})), json!({"runs": [], "total": 5, "hasMore": false}));
    assert_eq!(s.ok("runs.list", json!({"limit": 0, "withTotal": false})), json!({"runs": [], "hasMore": true}));
    assert_eq!(s.ok("projects.list", json!({"limit": 0})), json!({"projects": [], "total": 1, "hasMore": true}));
}

pub(crate) fn limits_and_offsets_have_their_ranges(cx: &Context<'_>) {
    let s = cx.open();
    runs(&s, 3);
    for op in ["runs.list", "nodes.list", "agents.list", "projects.list"] {
        for limit in [json!(-1), json!(10_001), json!("5"), json!(5.0), json!(true), json!([5]), json!(u64::MAX)] {
            s.invalid("limit", op, json!({"limit": limit}));
        }
        for offset in [json!(-1), json!(9_223_372_036_854_775_808_u64), json!("0"), json!(0.0)] {
            s.invalid("offset", op, json!({"offset": offset}));
        }
        for order in [json!("ASC"), json!("up"), json!(""), json!(1)] {
            s.invalid("order", op, json!({"order": order}));
        }
        s.invalid("withTotal", op, json!({"withTotal": "yes"}));
        s.invalid("withTotal", op, json!({"withTotal": 1}));
        s.ok(op, json!({"limit": 10000, "offset": 0, "order": "asc", "withTotal": true}));
        s.ok(op, json!({"limit": null, "offset": null, "order": null, "cursor": null, "withTotal": null}));
    }
}

pub(crate) fn without_total_the_rest_is_the_same(cx: &Context<'_>) {
    let s = cx.open();
    runs(&s, 5);
    let with = s.ok("runs.list", json!({"limit": 2}));
    let without = s.ok("runs.list", json!({"limit": 2, "withTotal": false}));
    assert!(!has(&without, "total"), "{without}");
    assert_eq!((&with["runs"], &with["hasMore"], has(&without, "nextCursor")), (&without["runs"], &without["hasMore"], true));
}

/// More rows than any list here has: a cursor that gives its row again must not walk for ever.
const MAX_WALKED: usize = 10_000;

/// Every row of a list, walked by cursor.
fn walk(s: &Caller, op: &str, fields: Value) -> Vec<String> {
    let (mut walked, mut fields) = (Vec::new(), fields);
    loop {
        assert!(walked.len() <= MAX_WALKED, "the walk does not come to its end");
        let page = s.ok(op, fields.clone());
        walked.extend(rows(op, &page));
        if page["hasMore"] == false {
            assert!(!has(&page, "nextCursor"), "{page}");
            return walked;
        }
        fields["cursor"] = page["nextCursor"].clone();
    }
}

pub(crate) fn a_walk_by_cursor_gives_what_one_page_gives(cx: &Context<'_>) {
    let s = cx.open();
    for n in 0..23 {
        let id = format!("r{:02}", n * 5 % 23);
        s.start(&id, n / 4);
        let node = json!({"id": id, "workflowRunId": id, "nodeType": "agent", "nodeIndex": n % 3, "startedAt": t(n / 5)});
        s.ok("nodes.start", node);
        s.ok("agents.create", json!({"nodeRunId": id, "createdAt": t(n / 6)}));
        s.ok("runs.queue", json!({"projectId": format!("p{n}"), "id": "r"}));
    }
    for op in ["runs.list", "nodes.list", "agents.list", "projects.list"] {
        for order in ["asc", "desc"] {
            let whole = s.ids(op, json!({"order": order}));
            assert!(whole.len() >= 23);
            for limit in [1, 4, 22, 23, 24] {
                assert_eq!(walk(&s, op, json!({"order": order, "limit": limit})), whole, "{op} {order} {limit}");
            }
        }
    }
    let failed = json!({"statuses": ["running"], "workflowId": "wf-a", "startedBefore": t(3), "limit": 3});
    assert_eq!(walk(&s, "runs.list", failed).len(), 16);
}

pub(crate) fn a_total_counts_the_rows_before_the_cursor_too(cx: &Context<'_>) {
    let s = cx.open();
    runs(&s, 5);
    let first = s.ok("runs.list", json!({"limit": 2}));
    let second = s.ok("runs.list", json!({"limit": 2, "cursor": first["nextCursor"]}));
    assert_eq!((rows("runs.list", &second), &second["total"]), (vec!["r02".into(), "r01".into()], &json!(5)));
}

pub(crate) fn a_cursor_may_be_used_with_other_filters_and_limits(cx: &Context<'_>) {
    let s = cx.open();
    runs(&s, 10);
    s.finish("r03", "failed");
    let first = s.ok("runs.list", json!({"limit": 2, "order": "asc"}));
    let next = s.ok("runs.list", json!({"limit": 1, "order": "asc", "cursor": first["nextCursor"], "statuses": ["failed"]}));
    assert_eq!((rows("runs.list", &next), &next["total"], &next["hasMore"]), (vec!["r03".into()], &json!(1), &json!(false)));
}

pub(crate) fn a_cursor_outlives_its_row(cx: &Context<'_>) {
    let s = cx.open();
    runs(&s, 4);
    let first = s.ok("runs.list", json!({"limit": 2, "order": "asc"}));
    s.finish("r01", "failed");
    s.ok("runs.delete", json!({"id": "r01"}));
    let next = s.ids("runs.list", json!({"limit": 2, "order": "asc", "cursor": first["nextCursor"]}));
    assert_eq!(next, ["r02", "r03"]);
}

pub(crate) fn a_cursor_fits_its_op_project_and_order_only(cx: &Context<'_>) {
    let s = cx.open();
    runs(&s, 3);
    for n in 0..3 {
        s.node(&format!("n{n}"), "r00");
        s.agent(&format!("n{n}"));
        s.ok("runs.queue", json!({"projectId": format!("p{n}"), "id": "r"}));
    }
    let cursor = |op: &str, order: &str| s.ok(op, json!({"limit": 1, "order": order}))["nextCursor"].clone();
    let ops = ["runs.list", "nodes.list", "agents.list", "projects.list"];
    for made in ops {
        for used in ops {
            for (order, other) in [("asc", "desc"), ("desc", "asc")] {
                let given = json!({"cursor": cursor(made, order), "order": order});
                if made == used {
                    s.ok(used, given.clone());
                    s.invalid("cursor", used, merged(json!({"order": other}), given.clone()));
                    if used != "projects.list" {
                        s.invalid("cursor", used, merged(json!({"projectId": "shop2"}), given));
                    }
                } else {
                    s.invalid("cursor", used, given);
                }
            }
        }
    }
}

pub(crate) fn a_cursor_that_was_damaged_is_invalid(cx: &Context<'_>) {
    let s = cx.open();
    runs(&s, 3);
    let cursor = s.ok("runs.list", json!({"limit": 1}))["nextCursor"].as_str().unwrap().to_owned();
    assert!(cursor.is_ascii() && !cursor.is_empty());
    let cut = &cursor[..cursor.len() - 1];
    for bad in ["", "x", "r1", "\u{e9}", " ", "AAAA", "=", cut, &format!("{cursor}A"), &format!("{cursor}\0")] {
        s.invalid("cursor", "runs.list", json!({"cursor": bad}));
    }
    for bad in [json!(5), json!(true), json!([cursor]), json!({})] {
        s.invalid("cursor", "runs.list", json!({"cursor": bad}));
    }
    s.invalid("cursor", "runs.list", json!({"cursor": "x".repeat(1_000_000)}));
}

pub(crate) fn a_cursor_and_an_offset_exclude_each_other(cx: &Context<'_>) {
    let s = cx.open();
    runs(&s, 3);
    let cursor = s.ok("runs.list", json!({"limit": 1}))["nextCursor"].clone();
    for offset in [0, 1] {
        let refusal = s.refused("invalid_input", "runs.list", json!({"cursor": cursor, "offset": offset}));
        assert!(refusal.at("field") == "cursor" || refusal.at("field") == "offset", "{refusal}");
    }
    assert_eq!(s.ids("runs.list", json!({"cursor": cursor, "offset": null})), ["r01", "r00"]);
}

pub(crate) fn a_walk_sees_every_lasting_row_once_while_rows_are_written(cx: &Context<'_>) {
    let s = cx.open();
    for order in ["asc", "desc"] {
        let project = format!("walk-{order}");
        let start = |id: String, at: i64| s.ok("runs.start", json!({"projectId": project, "id": id, "startedAt": t(at)}));
        for n in 0..40 {
            start(format!("old-{n:02}"), n * 10);
        }
        let (mut walked, mut cursor, mut round) = (Vec::new(), Value::Null, 0);
        loop {
            assert!(walked.len() <= MAX_WALKED, "the walk does not come to its end");
            let page = s.ok("runs.list", json!({"projectId": project, "order": order, "limit": 7, "cursor": cursor}));
            walked.extend(rows("runs.list", &page));
            if page["hasMore"] == false {
                break;
            }
            cursor = page["nextCursor"].clone();
            // Rows come before, between and after; others end, are deleted or become something else.
            for (name, at) in [("before", -5), ("between", 195), ("after", 900)] {
                start(format!("{name}-{round}"), at);
            }
            let (gone, changed) = (format!("old-{:02}", 39 - round), format!("old-{:02}", 10 + round));
            s.ok("runs.finish", json!({"projectId": project, "id": gone}));
            s.ok("runs.delete", json!({"projectId": project, "id": gone}));
            s.ok("runs.wait", json!({"projectId": project, "id": changed}));
            round += 1;
        }
        let unique: BTreeSet<&String> = walked.iter().collect();
        assert_eq!(unique.len(), walked.len(), "no row comes twice");
        for n in 0..40 - round {
            assert!(unique.contains(&format!("old-{n:02}")), "{order}: old-{n:02} is missing");
        }
    }
}

pub(crate) fn rows_that_come_between_pages_shift_offsets(cx: &Context<'_>) {
    let s = cx.open();
    for order in ["desc", "asc"] {
        let project = format!("shift-{order}");
        let start = |id: &str, at: i64| s.ok("runs.start", json!({"projectId": project, "id": id, "startedAt": t(at)}));
        for n in 0..30 {
            start(&format!("r{n:02}"), n);
        }
        let list = |offset: i64| s.ok("runs.list", json!({"projectId": project, "order": order, "limit": 10, "offset": offset}));
        let mut pages = vec![rows("runs.list", &list(0))];
        start("new", 60);
        for offset in [10, 20, 30] {
            let page = list(offset);
            assert_eq!(page["total"], 31);
            pages.push(rows("runs.list", &page));
        }
        let flat: Vec<&String> = pages.iter().flatten().collect();
        let unique: BTreeSet<&String> = flat.iter().copied().collect();
        if order == "desc" {
            assert_eq!((unique.len(), &pages[0][9]), (30, &pages[1][0]));
        } else {
            assert_eq!((unique.len(), flat.len(), flat[30].as_str()), (31, 31, "new"));
        }
    }
}

pub(crate) fn filters_hold_on_every_page(cx: &Context<'_>) {
    let s = cx.open();
    for n in 0..100 {
        let id = format!("r{n:02}");
        s.start(&id, n);
        s.finish(&id, if n % 4 == 0 { "failed" } else { "succeeded" });
    }
    let mut walked = Vec::new();
    for (offset, more) in [(0, true), (10, true), (20, false)] {
        let fields = json!({"statuses": ["failed"], "startedBefore": t(80), "limit": 10, "offset": offset});
        let (found, total, has_more) = page(&s, fields);
        assert_eq!((total, has_more), (json!(21), json!(more)));
        walked.extend(found);
    }
    let want: Vec<String> = (0..=20).rev().map(|n| format!("r{:02}", n * 4)).collect();
    assert_eq!(walked, want);
}

pub(crate) fn a_limit_counts_runs_and_not_what_is_under_them(cx: &Context<'_>) {
    let s = cx.open();
    for (n, nodes) in [3, 2, 1, 2].iter().enumerate() {
        let run = format!("r{n}");
        s.start(&run, n as i64);
        for node in 0..*nodes {
            s.node(&format!("{run}-{node}"), &run);
        }
    }
    s.agent("r1-0");
    assert_eq!(page(&s, json!({"limit": 2, "offset": 1})), (vec!["r2".into(), "r1".into()], json!(4), json!(true)));
}
