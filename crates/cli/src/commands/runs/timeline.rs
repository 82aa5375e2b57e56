//! A run as a tree with a bar for the time that each part took, drawn in characters.

use runledger::{AgentRun, NodeRun, Run, Status, Time};
use unicode_width::UnicodeWidthStr;

use super::show::{Family, folded};
use crate::outcome::Result;
use crate::screen::out::Out;
use crate::screen::paint::{Tone, tone_of};
use crate::screen::rows::Look;
use crate::screen::text::{fitted, shown};
use crate::screen::time::{local, span, us_between};

/// How wide the drawing is where there is no terminal.
const COLUMNS: usize = 110;

/// The columns of what stands behind a bar: how long it took, and its status.
const TOOK_COLUMNS: usize = 11;
const STATUS_COLUMNS: usize = 9;

/// The time that the bars are drawn on.
pub(super) struct Timeline {
    from: Time,
    until: Time,
    now: Time,
}

/// What a bar shows.
struct Bar {
    /// Queued from here on.
    queued: Option<Time>,
    started: Option<Time>,
    /// Waiting from here on.
    waiting: Option<Time>,
    ended: Option<Time>,
}

impl Bar {
    fn of_run(run: &Run) -> Bar {
        let started = (run.attempt > 0).then_some(run.started_at);
        Bar { queued: run.queued_at.or(Some(run.started_at)), started, waiting: run.waiting_since, ended: run.finished_at }
    }

    fn of_node(node: &NodeRun) -> Bar {
        Bar { queued: None, started: Some(node.started_at), waiting: node.waiting_since, ended: node.finished_at }
    }

    fn of_agent(agent: &AgentRun) -> Bar {
        Bar { queued: Some(agent.created_at), started: agent.started_at, waiting: None, ended: agent.completed_at }
    }

    fn times(&self) -> impl Iterator<Item = Time> {
        [self.queued, self.started, self.waiting, self.ended].into_iter().flatten()
    }
}

impl Timeline {
    /// From the first instant of a run and all under it to the last, which is the present where something goes on.
    pub(super) fn over(family: &Family, now: Time) -> Timeline {
        let mut bars = vec![Bar::of_run(&family.run)];
        for (node, agent) in &family.nodes {
            bars.push(Bar::of_node(node));
            bars.extend(agent.as_ref().map(Bar::of_agent));
        }
        let goes_on = bars.iter().any(|bar| bar.ended.is_none());
        let times = || bars.iter().flat_map(Bar::times).chain(goes_on.then_some(now));
        Timeline { from: times().min().unwrap_or(now), until: times().max().unwrap_or(now), now }
    }

    fn column(&self, time: Time, columns: usize) -> usize {
        let whole = i128::from(us_between(self.from, self.until)).max(1);
        let part = i128::from(us_between(self.from, time)).clamp(0, whole);
        usize::try_from(part * columns as i128 / whole).unwrap_or(0).min(columns.saturating_sub(1))
    }

    /// The bar: dots while queued, full while it runs, shaded while it waits, with an arrow where it goes on.
    fn draw(&self, bar: &Bar, columns: usize) -> String {
        let mut cells = vec![' '; columns];
        let mut fill = |from: Option<Time>, to: Time, cell: char| {
            if let Some(from) = from {
                let (from, to) = (self.column(from, columns), self.column(to, columns));
                cells.iter_mut().take(to + 1).skip(from).for_each(|place| *place = cell);
            }
        };
        let end = bar.ended.unwrap_or(self.now);
        fill(bar.queued, bar.started.unwrap_or(end), '·');
        fill(bar.started, end, '█');
        fill(bar.waiting, end, '░');
        if bar.ended.is_none()
            && let Some(last) = cells.iter_mut().rev().find(|cell| **cell != ' ')
        {
            *last = '▶';
        }
        cells.into_iter().collect()
    }
}

/// One line of the tree.
struct Line {
    /// The branch and the name.
    name: String,
    bar: Bar,
    status: Status,
    /// What stands under it: its owner, its error.
    notes: Vec<(Tone, String)>,
    /// What the branch looks like beside the notes.
    beside: &'static str,
}

/// Prints a run, its node runs and their agent runs.
pub(super) fn print_tree(out: &mut Out, look: Look, timeline: &Timeline, family: &Family, whole_errors: bool) -> Result<()> {
    let lines = lines(look, family, whole_errors);
    let columns = out.width.unwrap_or(COLUMNS);
    let longest = lines.iter().map(|line| line.name.width()).max().unwrap_or(0);
    let name_columns = longest.min(columns * 2 / 5);
    let bar_columns = columns.saturating_sub(name_columns + TOOK_COLUMNS + STATUS_COLUMNS + 5).max(8);
    let (from, until) = (local(timeline.from), span(us_between(timeline.from, timeline.until)));
    let room = bar_columns.saturating_sub(from.width());
    let head = if until.width() < room { format!("{from}{until:>room$}") } else { from };
    out.line(look.paint.tone(Tone::Dim, format!("{:name_columns$}  {head}", "")))?;
    for line in lines {
        let tone = tone_of(line.status);
        let bar = look.paint.tone(tone, timeline.draw(&line.bar, bar_columns));
        let took = look.took(line.bar.started, line.bar.ended);
        let status = look.paint.status(line.status);
        out.line(format!("{}  {bar}  {took:>TOOK_COLUMNS$} {status}", fitted(&line.name, name_columns)).trim_end())?;
        for (tone, note) in line.notes {
            out.line(format!("{}  {}", line.beside, look.paint.tone(tone, note)))?;
        }
    }
    Ok(())
}

fn lines(look: Look, family: &Family, whole_errors: bool) -> Vec<Line> {
    let run = &family.run;
    let beside = if family.nodes.is_empty() { "  " } else { "│ " };
    let mut lines = vec![Line { name: shown(&run.id).into_owned(), bar: Bar::of_run(run), status: run.status, notes: Vec::new(), beside }];
    let last = family.nodes.len().saturating_sub(1);
    for (at, (node, agent)) in family.nodes.iter().enumerate() {
        let is_last = at == last && !family.has_more;
        let (branch, stem) = if is_last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        let beside = match (is_last, agent.is_some()) {
            (true, true) => "   │ ",
            (true, false) => "     ",
            (false, true) => "│  │ ",
            (false, false) => "│    ",
        };
        let errors = folded(node.error.as_deref(), whole_errors).into_iter();
        lines.push(Line {
            name: format!("{branch}{} ({})", shown(&node.node_key), shown(&node.node_type)),
            bar: Bar::of_node(node),
            status: node.status,
            notes: errors.map(|error| (tone_of(node.status), error)).collect(),
            beside,
        });
        if let Some(agent) = agent {
            lines.push(Line {
                name: format!("{stem}└─ agent {}", shown(&agent.agent_id)),
                bar: Bar::of_agent(agent),
                status: agent.status,
                notes: agent_notes(look, agent, whole_errors),
                beside: if is_last { "        " } else { "│       " },
            });
        }
    }
    lines
}

fn agent_notes(look: Look, agent: &AgentRun, whole_errors: bool) -> Vec<(Tone, String)> {
    let mut notes = Vec::new();
    if agent.execution.is_some() || agent.attempt > 1 {
        let [owner, lease] = look.owner(agent.execution.as_ref());
        let owner = if owner.is_empty() { String::new() } else { format!(", owner {owner}, lease {lease}") };
        notes.push((Tone::Dim, format!("attempt {}{owner}", agent.attempt)));
    }
    let errors = folded(agent.error.as_deref(), whole_errors).into_iter();
    notes.extend(errors.map(|error| (tone_of(agent.status), error)));
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(second: i64) -> Time {
        Time::from_unix_us(second * 1_000_000).unwrap()
    }

    #[test]
    fn a_bar_shows_when_it_was_queued_ran_waited_and_goes_on() {
        let timeline = Timeline { from: time(0), until: time(10), now: time(10) };
        let bar = |queued: Option<i64>, started: Option<i64>, waiting: Option<i64>, ended: Option<i64>| {
            let [queued, started, waiting, ended] = [queued, started, waiting, ended].map(|at| at.map(time));
            timeline.draw(&Bar { queued, started, waiting, ended }, 10)
        };
        assert_eq!(bar(Some(0), Some(3), None, Some(6)), "···████   ");
        assert_eq!(bar(None, Some(2), Some(5), None), "  ███░░░░▶");
        assert_eq!(bar(Some(4), None, None, None), "    ·····▶");
        assert_eq!(bar(None, Some(7), None, Some(7)), "       █  ", "what took no time is seen too");
        assert_eq!(bar(None, Some(9), None, Some(1)), "          ", "clocks differ: it ended before it began");
        assert_eq!(bar(None, Some(-50), None, Some(500)), "██████████");
    }

    #[test]
    fn a_timeline_without_length_draws() {
        let timeline = Timeline { from: time(0), until: time(0), now: time(0) };
        assert_eq!(timeline.draw(&Bar { queued: None, started: Some(time(0)), waiting: None, ended: Some(time(0)) }, 4), "█   ");
    }
}
