//! What `bench` measured, as one HTML page with charts.

use std::fmt::Write;

use runledger_page::{Bar, Bars, Frame, Lines, Scale, Series, escape, number};

use super::measured::{BackendMeasured, Latency, Measured};
use crate::screen::text::bytes;

const STYLE: &str = include_str!("page.css");

/// The page: it needs nothing else, and is light or dark as the reader has it.
pub(crate) fn page(measured: &Measured) -> String {
    let mut body = head(measured);
    body.push_str("<main class=\"page\">\n");
    body.push_str(&rates(&measured.backends));
    body.push_str(&sizes(&measured.backends));
    body.push_str(&latencies(&measured.backends));
    body.push_str(&lists(measured));
    body.push_str(&figures(measured));
    body.push_str("</main>\n");
    let frame = Frame { title: "runledger, measured", styles: &[STYLE], scripts: &[] };
    let written = frame.begin(Vec::new()).and_then(|mut page| page.markup(&body).and_then(|()| page.end()));
    let written = written.expect("writing to a vector does not fail");
    String::from_utf8(written).expect("a page is made of texts")
}

/// Adds to a text.
macro_rules! put {
    ($out:expr, $($part:tt)*) => {
        writeln!($out, $($part)*).expect("writing to a text does not fail")
    };
}

fn head(measured: &Measured) -> String {
    let Measured { library_version, machine, workload, .. } = measured;
    let callers = if workload.callers == 1 { "1 thread".to_owned() } else { format!("{} threads", workload.callers) };
    let facts = [
        ("Workload", format!("{callers}, each taking runs from the queue to their end")),
        ("A run", format!("{} commands", workload.transitions_per_run)),
        ("Payloads", bytes(workload.payload_bytes as u64)),
        ("Durability", workload.durability.clone()),
        ("Measured for", format!("{} s a backend", number(workload.seconds))),
        ("Machine", format!("{} cores, {} {}", machine.cores, machine.os, machine.arch)),
        ("Directory", machine.directory.clone()),
        ("Version", library_version.clone()),
    ];
    let mut out = String::from("<header class=\"top\"><div class=\"page\"><h1>runledger, measured</h1>\n<dl class=\"facts\">\n");
    for (name, value) in facts {
        put!(out, "<div><dt>{name}</dt><dd>{}</dd></div>", escape(&value));
    }
    out + "</dl></div></header>\n"
}

fn section(class: &str, title: &str, about: &str, content: &str) -> String {
    format!("<section class=\"card {class}\"><h2>{title}</h2>\n<p>{about}</p>\n{content}</section>\n")
}

fn bars(title: &str, unit: &str, backends: &[BackendMeasured], value: impl Fn(&BackendMeasured) -> f64) -> String {
    let labels: Vec<String> = backends.iter().map(|of| format!("{} · {}", of.backend, of.durability)).collect();
    let bars = backends.iter().zip(&labels).map(|(of, label)| Bar { subject: &of.backend, label, value: value(of), spread: None });
    Bars { title, unit, bars: bars.collect() }.svg()
}

fn rates(backends: &[BackendMeasured]) -> String {
    let chart = bars("Commands per second", "/s", backends, |of| of.transitions.per_second);
    section("", "Commands per second", "Acknowledged, with the durability that stands beside the name. More is better.", &chart)
}

fn sizes(backends: &[BackendMeasured]) -> String {
    const KIB: f64 = 1024.0;
    let chart = bars("Bytes for a run", "KiB", backends, |of| of.bytes_on_disk as f64 / of.runs.max(1) as f64 / KIB);
    section(
        "",
        "Bytes for a run",
        "All that the store took up in the end, on disk or in memory, by the runs in it. Less is better.",
        &chart,
    )
}

fn latencies(backends: &[BackendMeasured]) -> String {
    let places = PERCENTILES.map(|(name, _)| name.to_owned()).to_vec();
    let series = backends.iter().map(|of| Series { subject: &of.backend, values: each_percentile(&of.transitions.latency_us) });
    let lines = Lines { title: "How long a command took", unit: "µs", scale: Scale::Logarithmic, places, series: series.collect() };
    let about = "Half of the commands took no longer than p50, all but one of a hundred no longer than p99. Each rule is ten times \
                 the one below. Less is better.";
    section("", "How long a command took", about, &(lines.svg() + &lines.legend()))
}

type Percentile = fn(&Latency) -> f64;

const PERCENTILES: [(&str, Percentile); 5] =
    [("p50", |of| of.p50), ("p90", |of| of.p90), ("p99", |of| of.p99), ("p99.9", |of| of.p999), ("longest", |of| of.max)];

fn each_percentile(latency: &Latency) -> Vec<Option<f64>> {
    PERCENTILES.iter().map(|(_, of)| Some(of(latency))).collect()
}

fn lists(measured: &Measured) -> String {
    let sizes = &measured.workload.list_sizes;
    let median = |of: &BackendMeasured, runs: u64| of.lists.iter().find(|list| list.runs == runs).map(|list| list.latency_us.p50);
    let series =
        measured.backends.iter().map(|of| Series { subject: &of.backend, values: sizes.iter().map(|runs| median(of, *runs)).collect() });
    let places = sizes.iter().map(|runs| number(*runs as f64)).collect();
    let lines =
        Lines { title: "How long a list took, by runs in the store", unit: "µs", scale: Scale::Linear, places, series: series.collect() };
    let about = "A page of the 50 newest runs, by how many runs the store has; the median. A flat line means that a page costs the page, \
                 not the table.";
    section("", "A list as the store grows", about, &(lines.svg() + &lines.legend()))
}

/// All figures, for those who would rather read them.
fn figures(measured: &Measured) -> String {
    let mut out = String::new();
    let heads: Vec<&str> = ["Backend", "Engine", "Durability", "Commands/s"]
        .into_iter()
        .chain(PERCENTILES.iter().map(|(name, _)| *name))
        .chain(["Runs", "Size"])
        .collect();
    let rows = measured.backends.iter().map(|of| {
        let mut cells = vec![of.backend.clone(), of.engine.clone(), of.durability.clone(), number(of.transitions.per_second)];
        cells.extend(percentile_cells(&of.transitions.latency_us));
        cells.extend([number(of.runs as f64), bytes(of.bytes_on_disk)]);
        cells
    });
    out.push_str(&table("Commands; times in µs", &heads, rows));
    let heads: Vec<&str> = ["Backend", "Runs in the store"].into_iter().chain(PERCENTILES.iter().map(|(name, _)| *name)).collect();
    let rows = measured.backends.iter().flat_map(|of| {
        of.lists.iter().map(|list| {
            let mut cells = vec![of.backend.clone(), number(list.runs as f64)];
            cells.extend(percentile_cells(&list.latency_us));
            cells
        })
    });
    out.push_str(&table("Lists; times in µs", &heads, rows));
    for skipped in &measured.skipped {
        put!(out, "<p>{} was not measured: {}</p>", escape(&skipped.backend), escape(&skipped.why));
    }
    section("wide", "All figures", "The same are in what <code>bench --output json</code> prints.", &out)
}

fn percentile_cells(latency: &Latency) -> impl Iterator<Item = String> + use<> {
    let latency = *latency;
    PERCENTILES.into_iter().map(move |(_, of)| number(of(&latency)))
}

fn table(caption: &str, heads: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut out = format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"{caption}\"><table><caption>{caption}</caption>\n<thead><tr>"
    );
    for head in heads {
        put!(out, "<th scope=\"col\">{head}</th>");
    }
    out.push_str("</tr></thead>\n<tbody>");
    for row in rows {
        out.push_str("<tr>");
        for (place, cell) in row.iter().enumerate() {
            let cell = escape(cell);
            if place == 0 { put!(out, "<th scope=\"row\">{cell}</th>") } else { put!(out, "<td>{cell}</td>") }
        }
        out.push_str("</tr>\n");
    }
    out + "</tbody></table></div>\n"
}

#[cfg(test)]
mod tests {
    use super::super::measured::{FORMAT, ListMeasured, Machine, Skipped, Transitions, Workload};
    use super::*;

    fn latency(p50: f64) -> Latency {
        Latency { p50, p90: p50 * 2.0, p99: p50 * 9.0, p999: p50 * 40.0, max: p50 * 100.0, mean: p50 * 1.2 }
    }

    fn backend(name: &str, per_second: f64, bytes_on_disk: u64) -> BackendMeasured {
        let transitions =
            Transitions { count: 9000, seconds: 3.0, per_second, latency_us: latency(100.0), histogram_us: vec![(100.0, 9000)] };
        let lists = vec![ListMeasured { runs: 1000, latency_us: latency(80.0) }, ListMeasured { runs: 100_000, latency_us: latency(90.0) }];
        let (engine, durability) = ("An engine <1>".to_owned(), "full".to_owned());
        BackendMeasured { backend: name.to_owned(), engine, durability, transitions, lists, runs: 100_000, bytes_on_disk }
    }

    fn measured() -> Measured {
        Measured {
            format: FORMAT,
            library_version: "0.1.0".to_owned(),
            machine: Machine { cores: 2, os: "linux".to_owned(), arch: "x86_64".to_owned(), directory: "/tmp/a&b".to_owned() },
            workload: Workload {
                callers: 8,
                payload_bytes: 1024,
                durability: "full".to_owned(),
                seconds: 3.0,
                list_sizes: vec![1000, 100_000],
                transitions_per_run: 5,
            },
            backends: vec![backend("sqlite", 6000.0, 204_800_000), backend("memory", 60_000.0, 0)],
            skipped: vec![Skipped { backend: "redb".to_owned(), why: "no <room>".to_owned() }],
        }
    }

    #[test]
    fn every_figure_has_its_chart() {
        let page = page(&measured());
        assert!(page.contains("Commands per second. sqlite · full: 6,000/s; memory · full: 60,000/s"), "{page}");
        assert!(page.contains("Bytes for a run. sqlite · full: 2 KiB; memory · full: 0 KiB"), "{page}");
        assert!(page.contains("sqlite: p50: 100 µs, p90: 200 µs, p99: 900 µs, p99.9: 4,000 µs, longest: 10,000 µs."), "{page}");
        assert!(page.contains("memory: 1,000: 80 µs, 100,000: 90 µs."), "{page}");
        assert_eq!(page.matches("<svg").count(), 4);
    }

    #[test]
    fn what_the_machine_is_called_is_text() {
        let page = page(&measured());
        assert!(
            page.contains("/tmp/a&amp;b")
                && page.contains("redb was not measured: no &lt;room&gt;")
                && page.contains("An engine &lt;1&gt;")
        );
        assert!(!page.contains("<script") && !page.contains(" style="));
    }

    #[test]
    fn nothing_measured_is_a_page_too() {
        let nothing = Measured { backends: Vec::new(), ..measured() };
        assert_eq!(page(&nothing).matches("<svg").count(), 4);
    }
}
