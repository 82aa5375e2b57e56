//! The records as rows of tables and as lines of JSON, and how lists of them are printed.

use runledger::{AgentRun, Answer, Execution, NodeRun, Page, ProjectSummary, Run, Time};

use crate::context::{Context, Form};
use crate::outcome::Result;
use crate::screen::out::{Out, note, tell};
use crate::screen::paint::{Paint, Tone};
use crate::screen::table::Sheet;
use crate::screen::text::{clipped, counted, shown};
use crate::screen::time::{ago, local_and_ago, span, us_between};

/// The most of an error's text that a list shows.
const ERROR_COLUMNS: usize = 50;

/// How many rows of a walk are printed at once.
const ROWS_AT_ONCE: usize = 500;

/// How cells are made.
#[derive(Clone, Copy)]
pub(crate) struct Look {
    pub(crate) paint: Paint,
    pub(crate) now: Time,
}

impl Look {
    pub(crate) fn new(cx: &Context, out: &Out) -> Look {
        Look { paint: out.paint, now: cx.now }
    }

    /// Who owns it, and how its lease stands.
    pub(crate) fn owner(&self, execution: Option<&Execution>) -> [String; 2] {
        match execution {
            Some(execution) => [shown(&execution.token).into_owned(), self.lease(execution)],
            None => [String::new(), String::new()],
        }
    }

    fn lease(&self, execution: &Execution) -> String {
        let left_us = us_between(self.now, execution.lease_expires_at);
        let text = ago(execution.lease_expires_at, self.now);
        if left_us > 0 { format!("ends {text}") } else { self.paint.tone(Tone::Bad, format!("ended {text}")) }
    }

    /// How long it took, or takes until now.
    pub(crate) fn took(&self, started: Option<Time>, ended: Option<Time>) -> String {
        match (started, ended) {
            (None, _) => String::new(),
            (Some(started), Some(ended)) => span(us_between(started, ended)),
            (Some(started), None) => format!("{}…", span(us_between(started, self.now))),
        }
    }

    fn error(&self, error: Option<&str>) -> String {
        let first = error.and_then(|error| error.lines().next()).unwrap_or_default();
        clipped(&shown(first), ERROR_COLUMNS).into_owned()
    }
}

/// A record that lists show.
pub(crate) trait Row: Sized {
    /// What a page of them is called in JSON.
    const NAME: &'static str;
    const HEADERS: &'static [&'static str];
    /// The columns of numbers.
    const RIGHT: &'static [usize] = &[];
    /// The columns that a narrow terminal can do without, the least needed first.
    const SPARE: &'static [usize] = &[];
    fn json(&self) -> String;
    fn cells(&self, look: Look) -> Vec<String>;
}

impl Row for Run {
    const NAME: &'static str = "runs";
    const HEADERS: &'static [&'static str] = &["ID", "WORKFLOW", "STATUS", "ATTEMPT", "STARTED", "TOOK", "OWNER", "LEASE", "ERROR"];
    const RIGHT: &'static [usize] = &[3, 5];
    const SPARE: &'static [usize] = &[3, 7, 8, 6, 5, 4];

    fn json(&self) -> String {
        self.to_json()
    }

    fn cells(&self, look: Look) -> Vec<String> {
        let [owner, lease] = look.owner(self.execution.as_ref());
        vec![
            shown(&self.id).into_owned(),
            shown(&self.workflow_id).into_owned(),
            look.paint.status(self.status),
            self.attempt.to_string(),
            local_and_ago(self.started_at, look.now),
            look.took((self.attempt > 0).then_some(self.started_at), self.finished_at),
            owner,
            lease,
            look.error(self.error.as_deref()),
        ]
    }
}

impl Row for NodeRun {
    const NAME: &'static str = "nodes";
    const HEADERS: &'static [&'static str] = &["ID", "RUN", "INDEX", "TYPE", "KEY", "STATUS", "STARTED", "TOOK", "ERROR"];
    const RIGHT: &'static [usize] = &[2, 7];
    const SPARE: &'static [usize] = &[2, 3, 8, 1, 7, 6];

    fn json(&self) -> String {
        self.to_json()
    }

    fn cells(&self, look: Look) -> Vec<String> {
        vec![
            shown(&self.id).into_owned(),
            shown(&self.workflow_run_id).into_owned(),
            self.node_index.to_string(),
            shown(&self.node_type).into_owned(),
            shown(&self.node_key).into_owned(),
            look.paint.status(self.status),
            local_and_ago(self.started_at, look.now),
            look.took(Some(self.started_at), self.finished_at),
            look.error(self.error.as_deref()),
        ]
    }
}

impl Row for AgentRun {
    const NAME: &'static str = "agents";
    const HEADERS: &'static [&'static str] =
        &["NODE RUN", "AGENT", "STATUS", "ATTEMPT", "CREATED", "TOOK", "OWNER", "LEASE", "MODEL", "ERROR"];
    const RIGHT: &'static [usize] = &[3, 5];
    const SPARE: &'static [usize] = &[8, 3, 9, 7, 5, 6, 4];

    fn json(&self) -> String {
        self.to_json()
    }

    fn cells(&self, look: Look) -> Vec<String> {
        let [owner, lease] = look.owner(self.execution.as_ref());
        vec![
            shown(&self.node_run_id).into_owned(),
            shown(&self.agent_id).into_owned(),
            look.paint.status(self.status),
            self.attempt.to_string(),
            local_and_ago(self.created_at, look.now),
            look.took(self.started_at, self.completed_at),
            owner,
            lease,
            self.model_id.as_deref().map(|model| shown(model).into_owned()).unwrap_or_default(),
            look.error(self.error.as_deref()),
        ]
    }
}

impl Row for ProjectSummary {
    const NAME: &'static str = "projects";
    const HEADERS: &'static [&'static str] = &["PROJECT", "RUNS"];
    const RIGHT: &'static [usize] = &[1];

    fn json(&self) -> String {
        let id = serde_json::Value::from(&*self.project_id);
        format!(r#"{{"projectId":{id},"runs":{}}}"#, self.runs)
    }

    fn cells(&self, _look: Look) -> Vec<String> {
        vec![shown(&self.project_id).into_owned(), self.runs.to_string()]
    }
}

/// Prints records as a table.
pub(crate) fn print_table<'r, R: Row + 'r>(cx: &Context, out: &mut Out, rows: impl IntoIterator<Item = &'r R>) -> Result<()> {
    let sheet = sheet_of(Look::new(cx, out), rows);
    if sheet.is_empty() {
        note(out.form, format!("no {}", R::NAME));
        return Ok(());
    }
    out.table(&sheet)
}

fn sheet_of<'r, R: Row + 'r>(look: Look, rows: impl IntoIterator<Item = &'r R>) -> Sheet {
    let mut sheet = Sheet::new(R::HEADERS).right(R::RIGHT.iter().copied()).spare(R::SPARE.iter().copied());
    rows.into_iter().for_each(|row| sheet.row(row.cells(look)));
    sheet
}

/// Prints one page of a list.
pub(crate) fn print_page<R: Row>(cx: &Context, page: Page<R>) -> Result<()>
where
    Answer: From<Page<R>>,
{
    let mut out = cx.out();
    let (form, count, total, cursor) = (out.form, page.rows.len(), page.total, page.next_cursor.clone());
    match form {
        Form::Json => out.json(&Answer::from(page).to_json())?,
        Form::Ndjson => page.rows.iter().try_for_each(|row| out.json(&row.json()))?,
        Form::Table => print_table(cx, &mut out, &page.rows)?,
    }
    out.flush()?;
    // The JSON form has it in itself.
    if let (Some(cursor), true) = (cursor, form != Form::Json) {
        let of = total.map_or(String::new(), |total| format!(" of {total}"));
        tell(format!("{count}{of} {}; --all has them all, --cursor {cursor} those that follow", R::NAME));
    }
    Ok(())
}

/// Prints a whole list as it is walked, in bounded memory.
pub(crate) fn print_all<R: Row>(cx: &Context, walk: impl Iterator<Item = runledger::Result<R>>) -> Result<()> {
    let mut out = cx.out();
    let look = Look::new(cx, &out);
    let (mut count, mut layout) = (0_u64, None);
    let mut rows: Vec<R> = Vec::with_capacity(ROWS_AT_ONCE);
    if out.form == Form::Json {
        out.text(format!("{{\"{}\":[", R::NAME))?;
    }
    let mut print = |out: &mut Out, rows: &mut Vec<R>| -> Result<()> {
        if !rows.is_empty() {
            let text = sheet_of(look, rows.iter()).render(out.width, &mut layout);
            rows.clear();
            out.text(text)?;
        }
        Ok(())
    };
    for row in walk {
        let row = row?;
        match out.form {
            Form::Json => {
                let comma = if count > 0 { "," } else { "" };
                out.text(comma)?;
                out.json_part(&row.json())?;
            }
            Form::Ndjson => out.json(&row.json())?,
            Form::Table => {
                rows.push(row);
                if rows.len() == ROWS_AT_ONCE {
                    print(&mut out, &mut rows)?;
                }
            }
        }
        count += 1;
    }
    match out.form {
        Form::Json => out.line(format!("],\"total\":{count},\"hasMore\":false}}"))?,
        Form::Ndjson => {}
        Form::Table => {
            print(&mut out, &mut rows)?;
            out.flush()?;
            note(out.form, counted(count, R::NAME.trim_end_matches('s')));
        }
    }
    out.flush()
}
