//! Tables.

use comfy_table::presets::NOTHING;
use comfy_table::{Cell, CellAlignment, ColumnConstraint, ContentArrangement, Table, Width};

use crate::screen::paint::visible_width;
use crate::screen::text::clipped;

/// What stands between two columns.
const GAP_COLUMNS: usize = 2;

/// The least of a free text that is worth showing.
const LEAST_TEXT_COLUMNS: usize = 12;

/// Columns of free text, never painted, which may be cut at the end of a line.
const FREE_TEXTS: [&str; 3] = ["ERROR", "OWNER", "PROBLEM"];

/// A table in the making: cells are safe and painted already.
pub(crate) struct Sheet {
    headers: Vec<&'static str>,
    /// Columns of numbers.
    right: Vec<usize>,
    /// Columns that a narrow terminal can do without, the least needed first.
    spare: Vec<usize>,
    rows: Vec<Vec<String>>,
}

/// How a table is laid out, so that one that is printed in parts stands in line.
pub(crate) struct Layout {
    /// The columns that are shown.
    kept: Vec<usize>,
    /// How wide each of them is at least.
    widths: Vec<usize>,
}

impl Sheet {
    pub(crate) fn new(headers: &[&'static str]) -> Sheet {
        Sheet { headers: headers.to_vec(), right: Vec::new(), spare: Vec::new(), rows: Vec::new() }
    }

    /// Aligns columns to the right.
    pub(crate) fn right(mut self, columns: impl IntoIterator<Item = usize>) -> Sheet {
        self.right.extend(columns);
        self
    }

    /// Says which columns a narrow terminal can do without, the least needed first.
    pub(crate) fn spare(mut self, columns: impl IntoIterator<Item = usize>) -> Sheet {
        self.spare.extend(columns);
        self
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    fn cell(&self, row: &[String], column: usize) -> String {
        row.get(column).cloned().unwrap_or_default()
    }

    fn width_of(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column)).map(|cell| visible_width(cell));
        cells.chain([self.headers[column].len()]).max().unwrap_or(0)
    }

    /// Lays the table out. An identifier that is broken over two lines can't be copied: a terminal that is too narrow for
    /// all columns shows fewer, those without content first, and the end of a free text is cut.
    fn laid_out(&self, terminal_columns: Option<usize>) -> Layout {
        let mut kept: Vec<usize> = (0..self.headers.len()).collect();
        let Some(room) = terminal_columns else {
            return Layout { widths: kept.iter().map(|column| self.width_of(*column)).collect(), kept };
        };
        let is_blank = |column: &usize| self.rows.iter().all(|row| row.get(*column).is_none_or(String::is_empty));
        let blank: Vec<usize> = self.spare.iter().copied().filter(is_blank).collect();
        let mut spare = blank.iter().chain(self.spare.iter().filter(|column| !blank.contains(column)));
        loop {
            let mut widths: Vec<usize> = kept.iter().map(|column| self.width_of(*column)).collect();
            let total = widths.iter().map(|width| width + GAP_COLUMNS).sum::<usize>().saturating_sub(GAP_COLUMNS);
            let excess = total.saturating_sub(room);
            let is_free = kept.last().is_some_and(|column| FREE_TEXTS.contains(&self.headers[*column]));
            if let Some(last) = widths.last_mut().filter(|last| is_free && **last >= excess + LEAST_TEXT_COLUMNS) {
                *last -= excess;
                return Layout { kept, widths };
            }
            match spare.next() {
                Some(column) if excess > 0 => kept.retain(|other| other != column),
                _ => return Layout { kept, widths },
            }
        }
    }

    /// The lines of the table. It begins with the headers unless it is laid out already, being the next part of one.
    pub(crate) fn render(&self, terminal_columns: Option<usize>, layout: &mut Option<Layout>) -> String {
        let is_first = layout.is_none();
        let Layout { kept, widths } = layout.get_or_insert_with(|| self.laid_out(terminal_columns));
        let mut table = Table::new();
        table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        if is_first {
            table.set_header(kept.iter().map(|column| self.headers[*column]));
        }
        for row in &self.rows {
            let cells = kept.iter().zip(widths.iter()).map(|(column, width)| {
                let cell = self.cell(row, *column);
                let is_cut = terminal_columns.is_some() && FREE_TEXTS.contains(&self.headers[*column]);
                if is_cut { Cell::new(clipped(&cell, *width)) } else { Cell::new(cell) }
            });
            table.add_row(cells);
        }
        for ((column, number), width) in table.column_iter_mut().zip(kept.iter()).zip(widths.iter()) {
            column.set_padding((0, GAP_COLUMNS as u16));
            if self.right.contains(number) {
                column.set_cell_alignment(CellAlignment::Right);
            }
            let width = u16::try_from(width + GAP_COLUMNS).unwrap_or(u16::MAX);
            column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(width)));
        }
        // What is filled up to the width of a column is of no use at the end of a line.
        table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sheet() -> Sheet {
        let mut sheet = Sheet::new(&["ID", "NUMBER", "NOTHING", "STARTED", "ERROR"]).right([1]).spare([1, 2, 3, 4]);
        let row =
            |id: &str, number: &str, error: &str| vec![id.into(), number.into(), String::new(), "2026-03-01 10:00:00".into(), error.into()];
        sheet.row(row("run-1", "7", ""));
        sheet.row(row("run-22", "12", "it broke in the middle of the night"));
        sheet
    }

    #[test]
    fn a_terminal_that_is_wide_enough_shows_all() {
        let all = "ID      NUMBER  NOTHING  STARTED              ERROR\n\
                   run-1        7           2026-03-01 10:00:00\n\
                   run-22      12           2026-03-01 10:00:00  it broke in the middle of the night\n";
        assert_eq!(sheet().render(None, &mut None), all);
        assert_eq!(sheet().render(Some(200), &mut None), all);
    }

    #[test]
    fn a_narrow_one_cuts_texts_and_leaves_out_what_is_least_needed() {
        assert_eq!(
            sheet().render(Some(70), &mut None),
            "ID      NUMBER  NOTHING  STARTED              ERROR\n\
             run-1        7           2026-03-01 10:00:00\n\
             run-22      12           2026-03-01 10:00:00  it broke in the middle …\n"
        );
        assert_eq!(
            sheet().render(Some(50), &mut None),
            "ID      NUMBER  STARTED              ERROR\n\
             run-1        7  2026-03-01 10:00:00\n\
             run-22      12  2026-03-01 10:00:00  it broke in …\n"
        );
        assert_eq!(sheet().render(Some(30), &mut None).lines().last(), Some("run-22  it broke in the middl…"));
        assert_eq!(sheet().render(Some(10), &mut None).lines().last(), Some("run-22"), "an id is never cut");
    }

    #[test]
    fn parts_of_one_table_stand_in_line() {
        let mut layout = None;
        sheet().render(None, &mut layout);
        let mut next = Sheet::new(&["ID", "NUMBER", "NOTHING", "STARTED", "ERROR"]).right([1]);
        next.row(vec!["r".into(), "1".into(), String::new(), "2026".into(), "x".into()]);
        assert_eq!(next.render(None, &mut layout), "r            1           2026                 x\n");
    }
}
