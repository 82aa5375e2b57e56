//! Standard output, in the form that was asked for.

use std::io::{self, BufWriter, IsTerminal, Stdout, Write};

use crate::context::Form;
use crate::outcome::Result;
use crate::screen::paint::Paint;
use crate::screen::table::Sheet;
use crate::screen::text::safe_json;

/// Where answers go.
pub(crate) struct Out {
    pub(crate) form: Form,
    pub(crate) paint: Paint,
    /// How wide the terminal is, if it is one.
    pub(crate) width: Option<usize>,
    is_terminal: bool,
    writer: BufWriter<Stdout>,
}

impl Out {
    pub(crate) fn new(form: Form) -> Out {
        let width = terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| usize::from(width.0));
        Out { form, paint: Paint::for_stdout(), width, is_terminal: io::stdout().is_terminal(), writer: BufWriter::new(io::stdout()) }
    }

    /// Writes text that is safe already.
    pub(crate) fn text(&mut self, text: impl AsRef<str>) -> Result<()> {
        Ok(self.writer.write_all(text.as_ref().as_bytes())?)
    }

    /// Writes a line of text that is safe already.
    pub(crate) fn line(&mut self, text: impl AsRef<str>) -> Result<()> {
        self.text(text)?;
        self.text("\n")
    }

    /// Writes JSON, byte for byte unless it goes to a terminal.
    pub(crate) fn json_part(&mut self, json: &str) -> Result<()> {
        if self.is_terminal { self.text(safe_json(json)) } else { self.text(json) }
    }

    /// Writes a line of JSON.
    pub(crate) fn json(&mut self, json: &str) -> Result<()> {
        self.json_part(json)?;
        self.text("\n")
    }

    pub(crate) fn table(&mut self, sheet: &Sheet) -> Result<()> {
        let text = sheet.render(self.width, &mut None);
        self.text(text)
    }

    /// Whether people read it on a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// Everything is written; without it an error could go unnoticed.
    pub(crate) fn flush(&mut self) -> Result<()> {
        Ok(self.writer.flush()?)
    }
}

/// Says on standard error what a reader of the data would otherwise not know, whatever form was asked for.
pub(crate) fn tell(text: impl AsRef<str>) {
    eprintln!("{}", text.as_ref());
}

/// Says something that is no data: on standard error, and only where a table was asked for.
pub(crate) fn note(form: Form, text: impl AsRef<str>) {
    if form == Form::Table {
        eprintln!("{}", text.as_ref());
    }
}
