//! What was measured, as a table, as JSON, and as a page.

use std::fmt::Write;

use hdrhistogram::Histogram;
use runledger_page::{Bar, Bars, Frame, escape, number};
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
        let mut body = String::from("<main class=\"page\">\n<h1>What runledger costs</h1>\n<dl>");
        for (name, value) in &self.setting {
            writeln!(body, "<dt>{}</dt><dd>{}</dd>", escape(name), escape(value))?;
        }
        writeln!(body, "</dl>")?;
        for section in self.sections() {
            writeln!(body, "<h2>{}</h2>", escape(section))?;
            let rows: Vec<&Row> = self.of(section).collect();
            let mut units: Vec<&str> = rows.iter().map(|row| row.unit.as_str()).collect();
            units.sort_unstable();
            units.dedup();
            for unit in units {
                body.push_str(&bars(section, unit, &rows));
            }
            write!(body, "<table><thead><tr>")?;
            HEADS.iter().try_for_each(|head| write!(body, "<th scope=\"col\">{head}</th>"))?;
            write!(body, "</tr></thead><tbody>")?;
            for row in &rows {
                write!(body, "\n<tr>")?;
                row.cells().iter().try_for_each(|cell| write!(body, "<td>{}</td>", escape(cell)))?;
                write!(body, "</tr>")?;
            }
            writeln!(body, "</tbody></table>")?;
        }
        body.push_str("</main>\n");
        let mut page = Frame { title: "What runledger costs", styles: &[STYLE], scripts: &[] }.begin(Vec::new())?;
        page.markup(&body)?;
        Ok(String::from_utf8(page.end()?)?)
    }
}

/// Bars of the figures that have one unit.
fn bars(section: &str, unit: &str, rows: &[&Row]) -> String {
    let rows: Vec<(&Row, String)> =
        rows.iter().filter(|row| row.unit == unit).map(|row| (*row, format!("{} · {}", row.subject, row.what))).collect();
    let bars = rows.iter().map(|(row, label)| Bar {
        subject: &row.subject,
        label,
        value: row.figure.median,
        spread: Some((row.figure.low, row.figure.high)),
    });
    Bars { title: section, unit, bars: bars.collect() }.svg()
}

/// What this page has beside what all pages have.
const STYLE: &str = "
h2 { margin: 2.5rem 0 .75rem; padding-bottom: .25rem; border-bottom: 1px solid var(--line); }
dl { display: grid; grid-template-columns: max-content auto; gap: 0 1rem; color: var(--soft); }
svg { max-width: 860px; margin-bottom: 1rem; }
table { border-collapse: collapse; font-size: 13px; display: block; overflow-x: auto; }
td, th { text-align: left; padding: .15rem .75rem .15rem 0; border-bottom: 1px solid var(--line); white-space: nowrap; }
";

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
}
