//! Which runs are in a report, and in which order.

use std::collections::HashMap;

use runledger::transition::Stuck;
use runledger::{AnswerForm, Id, Ledger, ListRuns, Result, Run, Status, Time};

/// What the report is about.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// The projects whose runs are in it.
    pub projects: Vec<Id>,
    /// How many of the newest runs are in it, beside all that are active.
    pub limit: usize,
    /// When the report is made.
    pub now: Time,
    /// For how long a run may be queued or waiting before it counts as stuck, in microseconds.
    pub longer_than_us: i64,
}

impl Asked {
    /// The newest runs over all projects and every active one, without payloads, the most urgent first.
    pub(crate) fn runs(&self, ledger: &Ledger) -> Result<Vec<Run>> {
        let mut newest: Vec<Run> = Vec::new();
        for project in &self.projects {
            // Of each further project only those can count that are newer than the oldest that is kept.
            let kept = newest.len();
            let oldest = newest.get(self.limit.wrapping_sub(1)).map(|run| run.started_at);
            let list = ListRuns::new(project).with_answer(AnswerForm::State);
            for run in ledger.walk_runs(list).take(self.limit) {
                let run = run?;
                if oldest.is_some_and(|oldest| run.started_at < oldest) {
                    break;
                }
                newest.push(run);
            }
            if newest.len() > kept && kept > 0 {
                newest.sort_by_key(|run| std::cmp::Reverse(run.started_at));
            }
            newest.truncate(self.limit);
        }
        // A run that was written meanwhile may show in both lists; what was read last is the newer state.
        let mut all: HashMap<(Id, Id), Run> = newest.into_iter().map(keyed).collect();
        for project in &self.projects {
            let active = ListRuns::new(project).with_statuses(ACTIVE).with_answer(AnswerForm::State);
            for run in ledger.walk_runs(active) {
                all.extend([keyed(run?)]);
            }
        }
        let mut runs: Vec<Run> = all.into_values().collect();
        runs.sort_by_cached_key(|run| (self.urgency(run), std::cmp::Reverse(run.started_at), run.project_id.clone(), run.id.clone()));
        Ok(runs)
    }

    /// The smaller, the sooner somebody should look at the run.
    fn urgency(&self, run: &Run) -> u8 {
        let is_stuck = Stuck::of_run(run, self.now, self.longer_than_us).is_some();
        if is_stuck { 0 } else { URGENCY[run.status as usize] }
    }
}

/// How urgent a run of each status is: what is at work, then what failed, then the rest.
const URGENCY: [u8; Status::ALL.len()] = [1, 1, 1, 3, 2, 3];

const ACTIVE: [Status; 3] = [Status::Queued, Status::Running, Status::Waiting];

fn keyed(run: Run) -> ((Id, Id), Run) {
    ((run.project_id.clone(), run.id.clone()), run)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_US: i64 = 3_600_000_000;

    fn ledger(commands: &[&str]) -> Ledger {
        let ledger = runledger::open("memory:").unwrap();
        for command in commands {
            let answer = ledger.call_json(command.as_bytes());
            assert!(answer.starts_with(r#"{"ok":"#), "{command}: {answer}");
        }
        ledger
    }

    fn start(project: &str, id: &str, at: &str) -> String {
        format!(r#"{{"op":"runs.start","projectId":"{project}","id":"{id}","workflowId":"w","input":{{}},"startedAt":"{at}"}}"#)
    }

    fn finish(project: &str, id: &str, status: &str, at: &str) -> String {
        format!(r#"{{"op":"runs.finish","projectId":"{project}","id":"{id}","status":"{status}","finishedAt":"{at}"}}"#)
    }

    fn chosen(ledger: &Ledger, projects: &[&str], limit: usize) -> Vec<String> {
        let now = "2026-01-01T12:00:00Z".parse().unwrap();
        let projects = projects.iter().copied().map(Id::from).collect();
        let asked = Asked { projects, limit, now, longer_than_us: HOUR_US };
        asked.runs(ledger).unwrap().iter().map(|run| run.id.to_string()).collect()
    }

    fn ended(project: &str, id: &str, status: &str, minute: u32) -> [String; 2] {
        let at = format!("2026-01-01T10:{minute:02}:00Z");
        [start(project, id, &at), finish(project, id, status, &at)]
    }

    #[test]
    fn the_newest_over_all_projects_are_taken() {
        let mut commands = Vec::new();
        for (project, id, minute) in [("a", "a1", 1), ("a", "a5", 5), ("b", "b2", 2), ("b", "b6", 6), ("c", "c3", 3), ("c", "c4", 4)] {
            commands.extend(ended(project, id, "succeeded", minute));
        }
        let ledger = ledger(&commands.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(chosen(&ledger, &["a", "b", "c"], 4), ["b6", "a5", "c4", "c3"]);
        assert_eq!(chosen(&ledger, &["a", "b", "c"], 100), ["b6", "a5", "c4", "c3", "b2", "a1"]);
        assert_eq!(chosen(&ledger, &["c"], 1), ["c4"]);
        assert_eq!(chosen(&ledger, &["nothing"], 1), [""; 0]);
        assert_eq!(chosen(&ledger, &["a", "b", "c"], 0), [""; 0]);
    }

    #[test]
    fn what_is_active_is_there_however_old_and_what_is_stuck_comes_first() {
        let mut commands = Vec::new();
        commands.extend(ended("p", "well", "succeeded", 50));
        commands.extend(ended("p", "ill", "failed", 40));
        commands.push(start("p", "runs", "2026-01-01T01:00:00Z"));
        commands.push(
            r#"{"op":"runs.start","projectId":"p","id":"lost","workflowId":"w","input":{},"startedAt":"2026-01-01T00:30:00Z",
                "execution":{"token":"t","queueLeaseExpiresAt":"2026-01-01T12:00:00Z"}}"#
                .replace('\n', ""),
        );
        commands
            .push(r#"{"op":"runs.queue","projectId":"p","id":"old","workflowId":"w","input":{},"queuedAt":"2026-01-01T00:00:00Z"}"#.into());
        commands
            .push(r#"{"op":"runs.queue","projectId":"p","id":"new","workflowId":"w","input":{},"queuedAt":"2026-01-01T11:30:00Z"}"#.into());
        let ledger = ledger(&commands.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(chosen(&ledger, &["p"], 3), ["lost", "old", "new", "runs", "ill", "well"]);
        assert_eq!(chosen(&ledger, &["p"], 0), ["lost", "old", "new", "runs"]);
    }
}
