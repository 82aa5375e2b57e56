//! How a store is opened: options for every store, and the rules about files.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use serde_json::json;

use crate::check::{Caller, Refusal, ex, request, t};
use crate::{Context, Options, Place};

fn refused(code: &str, place: &Arc<dyn Place>, options: Options) -> Refusal {
    let refusal = Caller::open(Arc::clone(place), options).err().unwrap_or_else(|| panic!("the open must be {code}"));
    assert_eq!(refusal.code(), code, "{refusal}");
    refusal
}

/// That the refusal names the path, in its message and as data.
fn names(refusal: &Refusal, path: &Path) {
    let path = path.to_str().unwrap();
    assert!(refusal.message().contains(path) && refusal.at("path") == path, "the error names the path {path}: {refusal}");
}

pub(crate) fn an_unknown_option_is_named(cx: &Context<'_>) {
    let place = cx.place();
    for name in ["colour", "Mode", "", "busy_timeout", "maxPayloadBytes"] {
        refused("invalid_input", &place, cx.options().with(name, "1")).field(name);
    }
    if let Some(path) = place.path() {
        assert!(!path.exists(), "a refused open creates nothing");
    }
}

pub(crate) fn a_wrong_value_of_an_option_is_named(cx: &Context<'_>) {
    let place = cx.place();
    for (name, values) in [
        ("durability", &["", "none", "FULL"][..]),
        ("mode", &["", "rw", "readonly"]),
        ("busy_timeout_ms", &["", "-1", "1.5", "1s", "abc", "99999999999999999999999"]),
        ("max_payload_bytes", &["", "-1", "16MiB", "1e6"]),
        ("journal", &["", "off", "memory"]),
    ] {
        for value in values {
            refused("invalid_input", &place, cx.options().with(name, value)).field(name);
        }
    }
}

pub(crate) fn durability_and_busy_timeout_are_accepted(cx: &Context<'_>) {
    for durability in ["full", "relaxed"] {
        let s = cx.open_with(&[("durability", durability), ("busy_timeout_ms", "100"), ("mode", "create")]);
        s.queue("r1", 0);
        let info = s.ok("store.info", json!({}));
        match cx.traits().backend {
            "redb" => assert_eq!(info["durability"], "full", "redb has nothing weaker"),
            "sqlite" => assert_eq!(info["durability"], durability),
            _ => {}
        }
        assert_eq!(cx.reopen(&s).run("r1")["status"], "queued");
    }
}

pub(crate) fn memory_has_nothing_existing_to_open(cx: &Context<'_>) {
    if cx.traits().backend != "memory" {
        cx.skip("needs a store in memory");
        return;
    }
    for mode in ["existing", "read_only"] {
        refused("io", &cx.place(), cx.options().with("mode", mode));
    }
}

pub(crate) fn a_journal_is_an_option_of_sqlite_alone(cx: &Context<'_>) {
    if cx.traits().has_journal {
        cx.skip("needs a store without the option journal");
        return;
    }
    for journal in ["wal", "delete"] {
        refused("unsupported", &cx.place(), cx.options().with("journal", journal));
    }
}

pub(crate) fn a_journal_can_be_switched(cx: &Context<'_>) {
    if !cx.traits().has_journal {
        cx.skip("needs the option journal");
        return;
    }
    let Some((place, path)) = cx.file() else { return };
    let beside = |suffix: &str| path.with_file_name(format!("store{suffix}")).exists();
    let open = |journal: Option<&str>| {
        let options = cx.options();
        cx.open_at(Arc::clone(&place), journal.map_or(options.clone(), |journal| options.with("journal", journal)))
    };
    // What was decided at creation holds while nothing is given.
    for (n, (journal, has_log)) in
        [(Some("delete"), false), (None, false), (Some("wal"), true), (None, true), (Some("delete"), false), (None, false)]
            .iter()
            .enumerate()
    {
        let s = open(*journal);
        s.queue(&format!("r{n}"), 0);
        assert_eq!(beside("-wal"), *has_log, "{n}");
        assert_eq!(s.counts()[0], n as u64 + 1);
        s.verify();
        s.close();
    }
}

pub(crate) fn existing_and_read_only_create_nothing(cx: &Context<'_>) {
    let Some((place, path)) = cx.file() else { return };
    for mode in ["existing", "read_only"] {
        names(&refused("io", &place, cx.options().with("mode", mode)), &path);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 0, "{mode}");
    }
    let s = cx.open_at(Arc::clone(&place), cx.options());
    s.queue("r1", 0);
    s.verify();
    s.close();
    let s = cx.open_at(place, cx.options().with("mode", "existing"));
    assert_eq!((&s.ok("store.info", json!({}))["mode"], s.counts()), (&json!("existing"), [1, 0, 0]));
    s.queue("r2", 0);
}

pub(crate) fn a_missing_directory_is_io_and_not_created(cx: &Context<'_>) {
    let Some((place, path)) = cx.file() else { return };
    let parent = path.parent().unwrap();
    let missing = parent.join("no/such/dir/runs.db");
    for mode in ["create", "existing", "read_only"] {
        names(&refused("io", &place.at(&missing).into(), cx.options().with("mode", mode)), &missing);
    }
    assert_eq!(fs::read_dir(parent).unwrap().count(), 0);
}

pub(crate) fn a_directory_is_no_store(cx: &Context<'_>) {
    let Some((place, path)) = cx.file() else { return };
    let directory = path.with_file_name("directory");
    fs::create_dir(&directory).unwrap();
    for mode in ["create", "existing", "read_only"] {
        names(&refused("io", &place.at(&directory).into(), cx.options().with("mode", mode)), &directory);
    }
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
}

pub(crate) fn an_empty_path_is_invalid(cx: &Context<'_>) {
    let Some((place, _)) = cx.file() else { return };
    for mode in ["create", "existing", "read_only"] {
        refused("invalid_input", &place.at(Path::new("")).into(), cx.options().with("mode", mode));
    }
}

pub(crate) fn an_empty_file_is_a_fresh_store(cx: &Context<'_>) {
    let Some((place, path)) = cx.file() else { return };
    fs::write(&path, b"").unwrap();
    // To be read it would have to be made first.
    names(&refused("read_only", &place, cx.options().with("mode", "read_only")), &path);
    assert_eq!(fs::metadata(&path).unwrap().len(), 0);
    let s = cx.open_at(place, cx.options());
    assert_eq!(s.counts(), [0, 0, 0]);
    s.queue("r1", 0);
    assert_eq!(cx.reopen(&s).counts(), [1, 0, 0]);
}

pub(crate) fn any_file_name_makes_exactly_that_file(cx: &Context<'_>) {
    let Some((place, path)) = cx.file() else { return };
    for name in ["with space \u{e9}\u{4e2d}", "q?x=1", "h#ash", "per%41cent", "file:memory", ":memory:", "a&mode=ro", "-dash"] {
        let path = path.with_file_name(name);
        let s = cx.open_at(place.at(&path).into(), cx.options());
        s.queue("r1", 0);
        assert!(path.is_file(), "{name}");
        s.verify();
        s.close();
        let s = cx.open_at(place.at(&path).into(), cx.options().with("mode", "existing"));
        assert_eq!(s.counts(), [1, 0, 0]);
        s.close();
    }
}

pub(crate) fn a_read_only_store_answers_queries_and_refuses_commands(cx: &Context<'_>) {
    let Some((place, path)) = cx.file() else { return };
    let s = cx.open_at(Arc::clone(&place), cx.options());
    s.start_owned("r1", "tok-a");
    s.node_for_owner("n1", "tok-a");
    s.agent("n1");
    s.queue("r2", 0);
    let (before, stream) = (s.everything(), s.export());
    s.verify();
    s.close();
    let bytes = fs::read(&path).unwrap();

    let s = cx.open_at(place, cx.options().with("mode", "read_only"));
    assert_eq!(s.ok("store.info", json!({}))["mode"], "read_only");
    for (op, fields) in [
        ("runs.queue", json!({"id": "r3"})),
        ("runs.queue", json!({"id": "r1"})),
        ("runs.start", json!({"id": "r2"})),
        ("runs.claim", json!({"execution": ex("t", 9)})),
        ("runs.claim", json!({"execution": ex("t", 9), "workflowIds": []})),
        ("runs.reclaim", json!({"id": "nope", "execution": ex("t", 9)})),
        ("runs.confirm", json!({"id": "r1", "executionToken": "tok-x", "queueLeaseExpiresAt": t(9)})),
        ("runs.finish", json!({"id": "r1"})),
        ("runs.cancel", json!({"id": "r1"})),
        ("runs.delete", json!({"id": "r1"})),
        ("runs.purge", json!({"finishedBefore": t(0)})),
        ("nodes.start", json!({"id": "n2"})),
        ("nodes.finish", json!({"id": "nope"})),
        ("agents.create", json!({"nodeRunId": "n1"})),
        ("agents.claim", json!({"execution": ex("t", 9)})),
        ("store.compact", json!({})),
        ("batch", json!({"commands": [request("runs.queue", json!({"id": "r3"}))]})),
    ] {
        s.refused("read_only", op, fields);
    }
    assert_eq!(s.import_refused("read_only", &stream).code(), "read_only");
    assert_eq!(Refusal::of_object(&s.store.restore(&stream).unwrap_err()).code(), "read_only");
    // The shape comes first.
    s.invalid("id", "runs.queue", json!({"id": ""}));
    s.invalid("colour", "store.compact", json!({"colour": 1}));
    s.refused("invalid_input", "batch", json!({"commands": [json!({"op": "runs.get"})]})).field("op").index(0);
    assert_eq!((s.everything(), s.export()), (before, stream));
    s.verify();
    s.close();
    assert!(fs::read(&path).unwrap() == bytes, "reading changes nothing");
}

pub(crate) fn a_smaller_limit_hides_nothing_that_is_stored(cx: &Context<'_>) {
    if !cx.is_lasting() {
        return;
    }
    let s = cx.open();
    let input = json!("x".repeat(5000));
    s.ok("runs.queue", json!({"id": "r1", "input": input}));
    s.verify();
    s.close();
    let s = cx.open_at(s.place.clone(), cx.options().with("max_payload_bytes", "100"));
    assert_eq!(s.run("r1")["input"], input);
    assert_eq!(s.ok("runs.claim", json!({"execution": ex("t", 9)}))["input"], input);
    s.refused("too_large", "runs.queue", json!({"id": "r2", "input": input})).sizes(5002, 100);
}

pub(crate) fn a_file_of_another_program_is_left_untouched(cx: &Context<'_>) {
    let Some((place, path)) = cx.file() else { return };
    let noise: Vec<u8> = (0..20_000_u64).map(|n| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect();
    let png = [b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec(), vec![0; 3000]].concat();
    let files = [("notes.txt", b"hello".to_vec()), ("picture.png", png), ("noise", noise), ("zeros", vec![0; 8192]), ("one", vec![1])];
    for (name, content) in files {
        let path = path.with_file_name(name);
        fs::write(&path, &content).unwrap();
        let modified = fs::metadata(&path).unwrap().modified().unwrap();
        for mode in ["create", "existing", "read_only"] {
            let refusal = refused("not_a_ledger", &place.at(&path).into(), cx.options().with("mode", mode));
            names(&refusal, &path);
            assert!(fs::read(&path).unwrap() == content, "{name} {mode}");
            assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), modified, "{name} {mode}");
        }
        fs::remove_file(&path).unwrap();
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 0, "no file is left beside {name}");
    }
}

/// A closed store whose runs have inputs that can be found in the file.
fn closed_store(cx: &Context<'_>, place: &Arc<dyn Place>) {
    let s = cx.open_at(Arc::clone(place), cx.options());
    for n in 0..100 {
        let id = format!("r{n:03}");
        s.ok("runs.start", json!({"id": id, "input": format!("{}-needle-{n:03}", "x".repeat(3000)), "answer": "state"}));
    }
    s.verify();
    s.close();
}

pub(crate) fn a_damaged_payload_is_corrupt_and_never_an_answer(cx: &Context<'_>) {
    let Some((place, path)) = cx.file() else { return };
    closed_store(cx, &place);
    let mut bytes = fs::read(&path).unwrap();
    let needle = b"-needle-042";
    let found: Vec<usize> = bytes.windows(needle.len()).enumerate().filter(|(_, window)| window == needle).map(|(at, _)| at).collect();
    if found.is_empty() {
        cx.skip("the file does not hold payloads as they are");
        return;
    }
    for at in found {
        bytes[at] = b'+';
    }
    fs::write(&path, &bytes).unwrap();
    let s = match Caller::open(place, cx.options()) {
        Ok(s) => s,
        Err(refusal) => return assert_eq!(refusal.code(), "corrupt", "{refusal}"),
    };
    let refusal = s.refused("corrupt", "runs.get", json!({"id": "r042"}));
    assert!(!refusal.message().contains("needle"), "{refusal}");
    s.refused("corrupt", "runs.list", json!({"limit": 100}));
    s.ok("runs.get", json!({"id": "r041"}));
    let report = s.ok("store.verify", json!({}));
    assert_eq!(report["ok"], false);
    let problems = report["problems"].as_array().unwrap();
    assert!(problems.iter().any(|problem| problem["id"] == "r042" && problem["projectId"] == "shop"), "{report}");
    assert_eq!(Refusal::of_object(&s.store.export().unwrap_err()).code(), "corrupt");
    s.close();
}

pub(crate) fn a_store_that_was_cut_is_corrupt(cx: &Context<'_>) {
    let Some((place, path)) = cx.file() else { return };
    closed_store(cx, &place);
    let bytes = fs::read(&path).unwrap();
    for (part, whole) in [(1, 4), (1, 2), (3, 4)] {
        let cut = &bytes[..bytes.len() * part / whole];
        fs::write(&path, cut).unwrap();
        match Caller::open(Arc::clone(&place), cx.options()) {
            Err(refusal) => assert_eq!(refusal.code(), "corrupt", "{refusal}"),
            Ok(s) => {
                let list = s.ask("runs.list", json!({"limit": 1000}));
                assert!(list.contains(r#""code":"corrupt""#), "{}", crate::check::short(&list));
                s.close();
            }
        }
    }
}
