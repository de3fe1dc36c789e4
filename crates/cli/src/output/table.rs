//! Tables with aligned columns, printed page by page: columns grow when a later page needs it. On a terminal that is
//! too narrow, optional columns are left out; JSON always has all of them.

use std::io::IsTerminal;

use super::{plain, style::Style};

/// Columns that are shown on the narrowest screen.
const COLUMNS_MIN: usize = 2;
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
    /// Columns of the screen; `None` if there is none.
    room: Option<usize>,
    /// Columns that are left out if there is no room for all of them, the first ones first.
    optional: Vec<usize>,
    left_out: Vec<usize>,
}

impl Table {
    /// A table with these columns.
    pub fn new(headers: &[&str], colors: bool) -> Self {
        let headers: Vec<_> = headers.iter().map(|name| Cell::styled(name, Style::Bold)).collect();
        let widths = headers.iter().map(Cell::width).collect();
        Self { headers, widths, colors, begun: false, room: screen_width(), optional: Vec::new(), left_out: Vec::new() }
    }

    /// Says which columns may be left out on a narrow screen, the first ones first.
    pub fn optional(mut self, columns: &[usize]) -> Self {
        self.optional = columns.to_vec();
        self
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
        if !self.begun {
            self.fit();
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

    /// Leaves out columns until the table fits the screen: those that can be spared, then from the right. The first two stay, and
    /// are never cut: they have what a next command needs.
    fn fit(&mut self) {
        let Some(room) = self.room else { return };
        let from_the_right = (COLUMNS_MIN..self.widths.len()).rev().filter(|column| !self.optional.contains(column));
        for column in self.optional.iter().copied().chain(from_the_right).collect::<Vec<_>>() {
            let shown = self.widths.iter().enumerate().filter(|(column, _)| !self.left_out.contains(column));
            let (count, width) = shown.fold((0, 0), |(count, width), (_, column)| (count + 1, width + column));
            if width + GAP.len() * (count.max(1) - 1) <= room {
                return;
            }
            self.left_out.push(column);
        }
    }

    fn line(&self, cells: &[Cell], out: &mut String) {
        let shown = cells.iter().zip(&self.widths).enumerate().filter(|(column, _)| !self.left_out.contains(column));
        let shown: Vec<(&Cell, &usize)> = shown.map(|(_, cell)| cell).collect();
        // The last column and empty ends need no padding.
        let filled = shown.iter().rposition(|(cell, _)| !cell.text.is_empty()).map_or(0, |last| last + 1);
        for (index, (cell, width)) in shown.into_iter().take(filled).enumerate() {
            out.push_str(&cell.style.paint(&cell.text, self.colors));
            if index + 1 < filled {
                out.extend(std::iter::repeat_n(' ', width.saturating_sub(cell.width())));
                out.push_str(GAP);
            }
        }
        out.push('\n');
    }
}

/// Columns of the terminal on standard output; `None` if it is none.
fn screen_width() -> Option<usize> {
    let stdout = std::io::stdout();
    if !stdout.is_terminal() {
        return None;
    }
    rustix::termios::tcgetwinsize(&stdout).ok().map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_left_out_on_a_narrow_screen() {
        let table = |room| Table { room, ..Table::new(&["A", "B", "C"], false).optional(&[1, 2]) };
        let row = vec![vec!["aaaa".into(), "bbbb".into(), "cccc".into()]];
        assert_eq!(table(Some(16)).render(&row), "A     B     C\naaaa  bbbb  cccc\n");
        assert_eq!(table(Some(15)).render(&row), "A     C\naaaa  cccc\n");
        assert_eq!(table(Some(9)).render(&row), "A\naaaa\n");
        assert_eq!(table(Some(2)).render(&row), "A\naaaa\n");
        assert_eq!(table(None).render(&row), "A     B     C\naaaa  bbbb  cccc\n");
        let plain = |room| Table { room: Some(room), ..Table::new(&["A", "B", "C"], false) };
        assert_eq!(plain(15).render(&row), "A     B\naaaa  bbbb\n", "from the right");
        assert_eq!(plain(3).render(&row), "A     B\naaaa  bbbb\n", "two stay");
    }

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
