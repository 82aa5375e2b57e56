//! Answers in outline, for bindings that have a JSON reader of their own.

use std::ops::Range;

use crate::doc::runledger_doc;
use crate::wall::quiet;

/// The members of records that are payloads.
const PAYLOADS: [&[u8]; 6] = [b"input", b"output", b"source", b"usage", b"trace", b"diagnostics"];

/// The answer with every payload replaced by its place in the text of `doc`, as [offset, length] in bytes: a JSON reader that
/// is given this reads the records without their payloads, which may be large, and takes those as they are when they are
/// wanted. It is a doc of its own, to be freed; for NULL it is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn runledger_doc_outline(doc: *const runledger_doc) -> *mut runledger_doc {
    quiet(std::ptr::null_mut(), || {
        // SAFETY: the caller answers for the handle.
        let Some(doc) = (unsafe { doc.as_ref() }) else { return std::ptr::null_mut() };
        runledger_doc::give(&outline(doc.text()))
    })
}

/// `json` is an answer, so it is well-formed, and a member of one of these names is nowhere but in a record.
fn outline(json: &str) -> String {
    let bytes = json.as_bytes();
    let mut outline = String::with_capacity(json.len().min(4096));
    let (mut copied, mut at) = (0, 0);
    while at < bytes.len() {
        if bytes[at] != b'"' {
            at += 1;
            continue;
        }
        let name = at + 1..string_end(bytes, at) - 1;
        at = name.end + 1;
        // Only the name of a member has a colon behind it.
        if bytes.get(at) == Some(&b':') && PAYLOADS.contains(&&bytes[name]) {
            let payload = at + 1..value_end(bytes, at + 1);
            outline.push_str(&json[copied..payload.start]);
            outline.push_str(&place(&payload));
            (copied, at) = (payload.end, payload.end);
        }
    }
    outline.push_str(&json[copied..]);
    outline
}

fn place(payload: &Range<usize>) -> String {
    format!("[{},{}]", payload.start, payload.len())
}

/// Where the string ends that begins at `at`.
fn string_end(bytes: &[u8], mut at: usize) -> usize {
    at += 1;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// Where the value ends that begins at `at`.
fn value_end(bytes: &[u8], mut at: usize) -> usize {
    let mut depth = 0_usize;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => {
                at = string_end(bytes, at);
                continue;
            }
            b'[' | b'{' => depth += 1,
            b']' | b'}' | b',' if depth == 0 => return at,
            b']' | b'}' => depth -= 1,
            _ => {}
        }
        at += 1;
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_payload_is_replaced_by_its_place() {
        let payloads = [r#"{"input":[1,{"output":"]}\\"}]}"#, "null", r#""a\"b:,}""#, "-1.50e3", "[ ]", "{}"];
        let [input, output, source, usage, trace, diagnostics] = payloads;
        let json = format!(
            r#"{{"runs":[{{"id":"input","input":{input},"output":{output},"error":"\"source\":1","source":{source},"attempt":1}},{{"usage":{usage},"trace":{trace},"diagnostics":{diagnostics}}}],"hasMore":false}}"#
        );
        let read: serde_json::Value = serde_json::from_str(&outline(&json)).unwrap();
        assert_eq!(read["hasMore"], false);
        let [run, agent] = [&read["runs"][0], &read["runs"][1]];
        assert_eq!((&run["id"], &run["error"], &run["attempt"]), (&"input".into(), &"\"source\":1".into(), &1.into()));
        let places = [&run["input"], &run["output"], &run["source"], &agent["usage"], &agent["trace"], &agent["diagnostics"]];
        for (place, payload) in places.into_iter().zip(payloads) {
            let [start, length] = [0, 1].map(|index| place[index].as_u64().unwrap() as usize);
            assert_eq!(&json[start..start + length], payload);
        }
    }

    #[test]
    fn an_answer_without_payloads_is_its_own_outline() {
        for json in ["null", r#"{"runs":0,"nodes":0,"agents":0}"#, r#"{"projects":[{"projectId":"input","runs":1}]}"#, r#""input""#] {
            assert_eq!(outline(json), json);
        }
    }
}
