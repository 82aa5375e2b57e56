//! What was measured, as a table, as JSON, and as a page.

use std::fmt::Write;

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::Result;
use crate::measure::{Measured, Summary};

/// All that was measured in one run of the program.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    /// How it was measured: settings, machine, versions.
    pub setting: Vec<(String, String)>,
    /// The figures.
    pub rows: Vec<Row>,
}

/// A figure.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Which part it belongs to.
    pub section: String,
    /// What was measured: a backend or a floor.
    pub subject: String,
    /// Doing what.
    pub what: String,
    /// The figure itself.
    pub figure: Summary,
    /// Its unit.
    pub unit: String,
    /// What it is held against, and the ratio to that.
    pub against: Option<(String, Summary)>,
    /// How long the processor works for a call, in microseconds, where one thread does it all.
    pub busy: Option<Summary>,
    /// How long single calls took, in microseconds.
    pub latency: Option<Percentiles>,
    /// What it should be, and whether it is.
    pub goal: Option<Goal>,
}

/// How long single calls took, in microseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Percentiles {
    /// Half of them took no longer.
    pub p50: f64,
    /// All but one of 100.
    pub p99: f64,
    /// All but one of 1,000.
    pub p999: f64,
}

impl Percentiles {
    fn of(latency: &Histogram<u64>) -> Percentiles {
        let at = |percentile| latency.value_at_percentile(percentile) as f64 / 1000.0;
        Percentiles { p50: at(50.0), p99: at(99.0), p999: at(99.9) }
    }
}

/// What a figure should be.
#[derive(Clone, Debug, Serialize)]
pub struct Goal {
    /// In words.
    pub text: String,
    /// Whether it is so.
    pub is_met: bool,
}

impl Row {
    /// A figure of a subject.
    pub fn new(section: &str, subject: &str, what: impl Into<String>, figure: Summary, unit: &str) -> Row {
        let (section, subject, what, unit) = (section.to_owned(), subject.to_owned(), what.into(), unit.to_owned());
        Row { section, subject, what, figure, unit, against: None, busy: None, latency: None, goal: None }
    }

    /// A rate.
    pub fn rate(section: &str, subject: &str, what: impl Into<String>, measured: &Measured) -> Row {
        let row = Row::new(section, subject, what, measured.rate(), "/s");
        Row { busy: measured.busy_micros(), latency: measured.latency.as_ref().map(Percentiles::of), ..row }
    }

    /// The time of one call.
    pub fn micros(section: &str, subject: &str, what: impl Into<String>, measured: &Measured) -> Row {
        Row { busy: measured.busy_micros(), ..Row::new(section, subject, what, measured.micros(), "µs") }
    }

    /// Held against another.
    #[must_use]
    pub fn against(mut self, other: &str, ratio: Summary) -> Row {
        self.against = Some((other.to_owned(), ratio));
        self
    }

    /// With what the ratio, or else the figure, should at least be.
    #[must_use]
    pub fn at_least(self, least: f64) -> Row {
        let value = self.judged();
        self.goal(format!("≥ {least}"), value >= least)
    }

    /// With what the ratio, or else the figure, should at most be.
    #[must_use]
    pub fn at_most(self, most: f64) -> Row {
        let value = self.judged();
        self.goal(format!("≤ {most}"), value <= most)
    }

    /// With a goal in words.
    #[must_use]
    pub fn goal(mut self, text: impl Into<String>, is_met: bool) -> Row {
        self.goal = Some(Goal { text: text.into(), is_met });
        self
    }

    fn judged(&self) -> f64 {
        self.against.as_ref().map_or(self.figure.median, |(_, ratio)| ratio.median)
    }

    fn cells(&self) -> [String; 9] {
        let ratio =
            |(other, ratio): &(String, Summary)| (other.clone(), format!("{:.2} ({:.2}–{:.2})", ratio.median, ratio.low, ratio.high));
        let (other, ratio) = self.against.as_ref().map(ratio).unwrap_or_default();
        let latency = self.latency.map(|at| format!("{} / {} / {}", number(at.p50), number(at.p99), number(at.p999)));
        let goal = self.goal.as_ref().map(|goal| format!("{} {}", goal.text, if goal.is_met { "✓" } else { "✗" }));
        [
            self.subject.clone(),
            self.what.clone(),
            format!("{} {}", number(self.figure.median), self.unit),
            format!("{}–{}", number(self.figure.low), number(self.figure.high)),
            other,
            ratio,
            self.busy.map(|busy| number(busy.median)).unwrap_or_default(),
            latency.unwrap_or_default(),
            goal.unwrap_or_default(),
        ]
    }
}

/// A number with about three digits that say something.
fn number(value: f64) -> String {
    if value.abs() >= 1000.0 {
        let mut digits = format!("{value:.0}");
        let mut place = digits.len() as i32 - 3;
        while place > i32::from(digits.starts_with('-')) {
            digits.insert(place as usize, ',');
            place -= 3;
        }
        digits
    } else if value.abs() >= 100.0 {
        format!("{value:.0}")
    } else if value.abs() >= 10.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}

const HEADS: [&str; 9] = ["of", "what", "median", "spread", "to", "ratio", "processor µs", "p50 / p99 / p99.9 µs", "goal"];

impl Report {
    /// Adds a figure.
    pub fn push(&mut self, row: Row) {
        self.rows.push(row);
    }

    fn sections(&self) -> Vec<&str> {
        let mut sections: Vec<&str> = Vec::new();
        for row in &self.rows {
            if !sections.contains(&row.section.as_str()) {
                sections.push(&row.section);
            }
        }
        sections
    }

    fn of<'a>(&'a self, section: &'a str) -> impl Iterator<Item = &'a Row> {
        self.rows.iter().filter(move |row| row.section == section)
    }

    /// The table, one part under the other, as Markdown has it.
    ///
    /// # Errors
    /// None: writing to a text does not fail.
    pub fn table(&self) -> Result<String> {
        let mut out = String::new();
        for section in self.sections() {
            let rows: Vec<[String; 9]> = self.of(section).map(Row::cells).collect();
            let width = |column: usize| {
                let cells = rows.iter().map(|cells| cells[column].as_str()).chain([HEADS[column]]);
                cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
            };
            let widths: Vec<usize> = (0..HEADS.len()).map(width).collect();
            writeln!(out, "\n## {section}\n")?;
            let mut line = |cells: &[String; 9]| -> Result<()> {
                for (cell, width) in cells.iter().zip(&widths) {
                    write!(out, "| {cell}{} ", " ".repeat(width - cell.chars().count()))?;
                }
                Ok(writeln!(out, "|")?)
            };
            line(&HEADS.map(str::to_owned))?;
            let rule: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
            line(&rule.try_into().map_err(|_| "a column was lost")?)?;
            rows.iter().try_for_each(line)?;
        }
        Ok(out)
    }

    /// The figures as JSON.
    ///
    /// # Errors
    /// None: all of it can be written so.
    pub fn json(&self) -> Result<String> {
        Ok(serde_json::to_string_pretty(self)?)
    }

    /// One page that needs nothing else, with a bar for each figure, light or dark as the reader has it.
    ///
    /// # Errors
    /// None: writing to a text does not fail.
    pub fn page(&self) -> Result<String> {
        let mut out = String::from(PAGE_HEAD);
        writeln!(out, "<h1>What runledger costs</h1>\n<dl>")?;
        for (name, value) in &self.setting {
            writeln!(out, "<dt>{}</dt><dd>{}</dd>", escape(name), escape(value))?;
        }
        writeln!(out, "</dl>")?;
        for section in self.sections() {
            writeln!(out, "<h2>{}</h2>", escape(section))?;
            let rows: Vec<&Row> = self.of(section).collect();
            let mut units: Vec<&str> = rows.iter().map(|row| row.unit.as_str()).collect();
            units.sort_unstable();
            units.dedup();
            for unit in units {
                bars(&mut out, &rows.iter().filter(|row| row.unit == unit).copied().collect::<Vec<_>>())?;
            }
            write!(out, "<table><tr>")?;
            HEADS.iter().try_for_each(|head| write!(out, "<th>{head}</th>"))?;
            for row in &rows {
                write!(out, "</tr>\n<tr>")?;
                row.cells().iter().try_for_each(|cell| write!(out, "<td>{}</td>", escape(cell)))?;
            }
            writeln!(out, "</tr></table>")?;
        }
        out.push_str("</main></body></html>\n");
        Ok(out)
    }
}

/// Bars of figures that have one unit.
fn bars(out: &mut String, rows: &[&Row]) -> Result<()> {
    const ROW: usize = 22;
    const LABELS: f64 = 330.0;
    const BARS: f64 = 430.0;
    let most = rows.iter().map(|row| row.figure.high).fold(f64::MIN_POSITIVE, f64::max);
    let x = |value: f64| LABELS + value.max(0.0) / most * BARS;
    let height = rows.len() * ROW + 8;
    writeln!(out, "<svg viewBox=\"0 0 880 {height}\" role=\"img\">")?;
    for (place, row) in rows.iter().enumerate() {
        let top = place * ROW + 4;
        let (middle, text) = (top + ROW / 2 - 2, top + ROW / 2 + 2);
        let Summary { median, low, high } = row.figure;
        let label = escape(&format!("{} · {}", row.subject, row.what));
        writeln!(out, "<text x=\"{}\" y=\"{text}\" text-anchor=\"end\">{label}</text>", LABELS - 8.0)?;
        writeln!(
            out,
            "<rect class=\"bar {}\" x=\"{LABELS}\" y=\"{top}\" width=\"{:.1}\" height=\"{}\"/>",
            escape(&row.subject),
            x(median) - LABELS,
            ROW - 5
        )?;
        writeln!(out, "<path class=\"spread\" d=\"M{:.1} {middle}H{:.1}\"/>", x(low), x(high))?;
        writeln!(out, "<text x=\"{:.1}\" y=\"{text}\">{} {}</text>", x(high) + 6.0, number(median), escape(&row.unit))?;
    }
    Ok(writeln!(out, "</svg>")?)
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

const PAGE_HEAD: &str = r#"<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>What runledger costs</title>
<style>
:root { color-scheme: light dark; --paper: #fff; --ink: #1c1e21; --faint: #667; --line: #ddd; --sqlite: #3b76c4; --redb: #c4533b; --memory: #3f9661; --floor: #9aa0a8; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #16181b; --ink: #e6e6e6; --faint: #99a; --line: #33363b; --sqlite: #6ea3e8; --redb: #e8836e; --memory: #6cc48e; --floor: #71767d; }
}
body { background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; margin: 0; }
main { max-width: 1100px; margin: 0 auto; padding: 1.5rem; }
h2 { margin: 2.5rem 0 .5rem; border-bottom: 1px solid var(--line); }
dl { display: grid; grid-template-columns: max-content auto; gap: 0 1rem; color: var(--faint); }
dd { margin: 0; }
svg { width: 100%; max-width: 880px; font-size: 12px; }
svg text { fill: var(--ink); }
.bar { fill: var(--floor); }
.bar.sqlite { fill: var(--sqlite); } .bar.redb { fill: var(--redb); } .bar.memory { fill: var(--memory); }
.spread { stroke: var(--ink); stroke-width: 1.5; opacity: .55; }
table { border-collapse: collapse; font-size: 13px; display: block; overflow-x: auto; }
td, th { text-align: left; padding: .15rem .6rem .15rem 0; border-bottom: 1px solid var(--line); white-space: nowrap; font-variant-numeric: tabular-nums; }
</style></head><body><main>
"#;

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let figure = Summary { median: 6100.0, low: 5900.0, high: 6300.0 };
        let ratio = Summary { median: 0.96, low: 0.9, high: 1.0 };
        let mut report = Report::default();
        report.push(Row::new("One caller", "sqlite", "a < b", figure, "/s").against("by hand", ratio).at_least(0.92));
        report
    }

    #[test]
    fn a_table_says_whether_a_goal_is_met() -> Result<()> {
        let table = report().table()?;
        assert!(table.contains("| sqlite | a < b | 6,100 /s | 5,900–6,300 | by hand | 0.96 (0.90–1.00) |"), "{table}");
        assert!(table.contains("≥ 0.92 ✓"), "{table}");
        Ok(())
    }

    #[test]
    fn a_page_holds_no_stray_markup() -> Result<()> {
        let page = report().page()?;
        assert!(page.contains("sqlite · a &lt; b") && page.contains("<svg"), "{page}");
        Ok(())
    }

    #[test]
    fn numbers_are_short() {
        let written: Vec<String> = [1_234_567.0, -12_345.0, 999.4, 12.34, 0.055].into_iter().map(number).collect();
        assert_eq!(written, ["1,234,567", "-12,345", "999", "12.3", "0.06"]);
    }
}
