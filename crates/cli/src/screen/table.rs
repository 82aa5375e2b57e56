//! Tables.

use comfy_table::presets::NOTHING;
use comfy_table::{Cell, CellAlignment, ColumnConstraint, ContentArrangement, Table, Width};

/// A table in the making: cells are safe and painted already.
pub(crate) struct Sheet {
    headers: Vec<&'static str>,
    /// Columns of numbers.
    right: Vec<usize>,
    rows: Vec<Vec<String>>,
}

impl Sheet {
    pub(crate) fn new(headers: &[&'static str]) -> Sheet {
        Sheet { headers: headers.to_vec(), right: Vec::new(), rows: Vec::new() }
    }

    /// Aligns columns to the right.
    pub(crate) fn right(mut self, columns: impl IntoIterator<Item = usize>) -> Sheet {
        self.right.extend(columns);
        self
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The lines of the table, which begin with `headers` unless they were printed already. Columns are at least as wide
    /// as `widths` says, and it learns how wide they are, so that a table printed in parts stands in one line.
    pub(crate) fn render(&self, width: Option<usize>, widths: &mut Option<Vec<u16>>) -> String {
        let mut table = Table::new();
        table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        if let Some(width) = width {
            table.set_content_arrangement(ContentArrangement::Dynamic).set_width(u16::try_from(width).unwrap_or(u16::MAX));
        }
        let is_first = widths.is_none();
        if is_first {
            table.set_header(&self.headers);
        }
        for row in &self.rows {
            table.add_row(row.iter().map(Cell::new));
        }
        for (at, column) in table.column_iter_mut().enumerate() {
            column.set_padding((0, 2));
            if self.right.contains(&at) {
                column.set_cell_alignment(CellAlignment::Right);
            }
            if let Some(width) = widths.as_ref().and_then(|widths| widths.get(at)) {
                column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(*width)));
            }
        }
        if is_first {
            *widths = Some(table.column_max_content_widths().into_iter().map(|width| width + 2).collect());
        }
        // What is filled up to the width of a column is of no use at the end of a line.
        table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
    }
}
