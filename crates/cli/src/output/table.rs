//! Tables with aligned columns, printed page by page: columns grow when a later page needs it.

use super::{plain, style::Style};

/// Space between columns.
const GAP: &str = "  ";

/// One cell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    /// A cell in a style.
    pub fn styled(text: impl AsRef<str>, style: Style) -> Self {
        Self { text: plain(text.as_ref()).into_owned(), style }
    }

    fn width(&self) -> usize {
        self.text.chars().count()
    }
}

impl<T: AsRef<str>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::styled(text, Style::Plain)
    }
}

/// A table under way.
#[derive(Clone, Debug)]
pub struct Table {
    headers: Vec<Cell>,
    widths: Vec<usize>,
    colors: bool,
    begun: bool,
}

impl Table {
    /// A table with these columns.
    pub fn new(headers: &[&str], colors: bool) -> Self {
        let headers: Vec<_> = headers.iter().map(|name| Cell::styled(name, Style::Bold)).collect();
        let widths = headers.iter().map(Cell::width).collect();
        Self { headers, widths, colors, begun: false }
    }

    /// Makes a column at least this wide, for values that later pages may bring.
    pub fn at_least(mut self, column: usize, width: usize) -> Self {
        self.widths[column] = width.max(self.widths[column]);
        self
    }

    /// The lines of some more rows; the first time with the headers above them.
    pub fn render(&mut self, rows: &[Vec<Cell>]) -> String {
        for row in rows {
            for (width, cell) in self.widths.iter_mut().zip(row) {
                *width = cell.width().max(*width);
            }
        }
        let mut text = String::new();
        if !std::mem::replace(&mut self.begun, true) {
            self.line(&self.headers, &mut text);
        }
        for row in rows {
            self.line(row, &mut text);
        }
        text
    }

    fn line(&self, cells: &[Cell], out: &mut String) {
        // The last column and empty ends need no padding.
        let filled = cells.iter().rposition(|cell| !cell.text.is_empty()).map_or(0, |last| last + 1);
        for (index, (cell, width)) in cells.iter().zip(&self.widths).take(filled).enumerate() {
            out.push_str(&cell.style.paint(&cell.text, self.colors));
            if index + 1 < filled {
                out.extend(std::iter::repeat_n(' ', width.saturating_sub(cell.width())));
                out.push_str(GAP);
            }
        }
        out.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_lines_have_no_tail() {
        let mut table = Table::new(&["Status", "WorkflowId", "Type"], false);
        let text = table.render(&[
            vec!["Running".into(), "ä".into(), "T".into()],
            vec!["x".into(), "a-long-workflow-id".into(), "".into()],
        ]);
        assert_eq!(
            text,
            "Status   WorkflowId          Type\nRunning  ä                   T\nx        a-long-workflow-id\n"
        );
        assert_eq!(table.render(&[vec!["y".into(), "b".into(), "U".into()]]), "y        b                   U\n");
    }

    #[test]
    fn columns_can_be_wider_than_needed() {
        let mut table = Table::new(&["A", "B"], false).at_least(0, 4);
        assert_eq!(table.render(&[vec!["a".into(), "b".into()]]), "A     B\na     b\n");
    }

    #[test]
    fn colours_do_not_count_as_width() {
        let mut table = Table::new(&["A", "B"], true);
        let text = table.render(&[vec![Cell::styled("ab", Style::Red), "c".into()]]);
        assert_eq!(text, "\x1b[1mA\x1b[0m   \x1b[1mB\x1b[0m\n\x1b[31mab\x1b[0m  c\n");
    }

    #[test]
    fn an_id_cannot_break_the_table() {
        let mut table = Table::new(&["A"], false);
        assert_eq!(table.render(&[vec!["x\ny\x1b[2J".into()]]), "A\nx\\ny\\u{1b}[2J\n");
    }
}
