//! The small pools that ids, times, payloads and texts are taken from, so that requests meet each other's records.

use std::sync::LazyLock;

use runledger_core::{Id, Payload, Text, Time};

/// The limit of a payload that the stores under test are opened with, in bytes.
pub(super) const MAX_PAYLOAD_BYTES: usize = 2000;

/// When everything begins.
pub(super) fn time(seconds: i64) -> Time {
    const T0_US: i64 = 1_767_607_200_000_000;
    Time::MIN.plus_us(T0_US - Time::MIN.unix_us()).plus_seconds(seconds)
}

fn ids(pool: &[&str]) -> Vec<Id> {
    pool.iter().map(|id| Id::from(*id)).collect()
}

// `a` with `b:c` and `a:b` with `c` are one record where keys are joined with a separator. U+FFFF sorts before U+10000 in
// UTF-8, after it in UTF-16. The last ones of some pools are not identifiers.
pub(super) static PROJECTS: LazyLock<Vec<Id>> = LazyLock::new(|| ids(&["p", "p", "p", "p", "q", "q", "a", "a:b", "P", "p "]));
pub(super) static RUNS: LazyLock<Vec<Id>> = LazyLock::new(|| {
    let mut pool = ids(&["r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8", "R1", "b:c", "c", "10", "9", "é", "e\u{301}", "r1 ", "%"]);
    pool.extend(ids(&["\u{ffff}", "\u{10000}", "\u{1}", "r\n1", "'\"\\"]));
    pool.extend([Id::from("x".repeat(512)), Id::from("é".repeat(256))]);
    pool
});
pub(super) static NODES: LazyLock<Vec<Id>> = LazyLock::new(|| {
    let mut pool = ids(&["n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8", "n9", "N1", "b:c", "c", "r1", "\u{ffff}", "\u{10000}"]);
    pool.push(Id::from("n".repeat(512)));
    pool
});
pub(super) static WORKFLOWS: LazyLock<Vec<Id>> = LazyLock::new(|| ids(&["wf", "wf", "wf2", "w", "WF", "w_f", "wf\u{1f}", "é"]));
pub(super) static AGENTS: LazyLock<Vec<Id>> = LazyLock::new(|| ids(&["ag", "ag", "ag2", "AG", "%"]));
pub(super) static TYPES: LazyLock<Vec<Id>> = LazyLock::new(|| ids(&["agent", "agent", "agent", "task", "Agent"]));
pub(super) static KEYS: LazyLock<Vec<Id>> = LazyLock::new(|| ids(&["k", "main.k", "K"]));
pub(super) static TOKENS: LazyLock<Vec<Id>> = LazyLock::new(|| ids(&["ta", "tb", "tc", "TA", "ta "]));
pub(super) static BAD_IDS: LazyLock<Vec<Id>> = LazyLock::new(|| vec![Id::from(""), Id::from("x".repeat(513)), Id::from("a\0b")]);

pub(super) static TIMES: LazyLock<Vec<Time>> = LazyLock::new(|| {
    let mut pool: Vec<Time> = [0, 0, 0, 1, 2, 30, 60, 86_400].map(time).into();
    pool.extend([time(0).plus_us(1), time(0).plus_us(-1), time(1).plus_us(500_000)]);
    pool.extend([Time::MIN, Time::MAX, time(-1_767_607_200), time(-1_767_607_200).plus_us(-1)]);
    pool
});

pub(super) static PAYLOADS: LazyLock<Vec<Payload>> = LazyLock::new(|| {
    let texts = [
        "{}",
        "null",
        "0",
        "-0.0",
        "\"\"",
        "false",
        r#"{"b":1.0,"a":1e2,"a":-0.0}"#,
        "18446744073709551616",
        r#""\u00e9\/\ud83d\ude00""#,
        "[1 , 2,\t3 ]",
        r#"{"o":{"k":1,"k":2}}"#,
        "1e-400",
        r#"{"k\u0000":"\u0000"}"#,
        "\"é\u{2028}😀\u{7f}\"",
        r#""{\"a\":1}""#,
        r#"{"nextCursor":"x"}"#,
    ];
    let mut texts: Vec<String> = texts.map(str::to_owned).into();
    texts.push("[".repeat(127) + &"]".repeat(127));
    // Just over a size at which a store may keep values elsewhere, the longest that is allowed, and one byte more.
    texts.extend([1100, MAX_PAYLOAD_BYTES, MAX_PAYLOAD_BYTES + 1].map(|bytes| format!("\"{}\"", "a".repeat(bytes - 2))));
    texts.iter().filter_map(|text| Payload::from_json(text).ok()).collect()
});

pub(super) static TEXTS: LazyLock<Vec<Text>> = LazyLock::new(|| {
    let long = "x".repeat(MAX_PAYLOAD_BYTES);
    ["e", "", "boom", "a\0b", "é😀\u{ffff}", "line\nbreak\ttab", "'; --", &long].map(Text::from).into()
});
