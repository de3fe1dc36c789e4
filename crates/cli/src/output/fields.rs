//! Names and values one below the other, in sections. Fields without a value are left out.

use super::{plain, style::Style};

/// Sections of fields.
#[derive(Clone, Debug, Default)]
pub struct Fields {
    lines: Vec<(String, String, Style)>,
    text: String,
    colors: bool,
}

impl Fields {
    /// Nothing yet.
    pub fn new(colors: bool) -> Self {
        Self { colors, ..Self::default() }
    }

    /// Begins a section.
    pub fn section(&mut self, title: &str) {
        self.flush();
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.text.push_str(&Style::Bold.paint(title, self.colors));
        self.text.push('\n');
    }

    /// Adds a field, unless its value is empty.
    pub fn add(&mut self, name: &str, value: impl AsRef<str>) {
        self.styled(name, value, Style::Plain);
    }

    /// Adds a field in a style, unless its value is empty.
    pub fn styled(&mut self, name: &str, value: impl AsRef<str>, style: Style) {
        if !value.as_ref().is_empty() {
            self.lines.push((name.to_owned(), plain(value.as_ref()).into_owned(), style));
        }
    }

    /// Adds ready lines, such as a table, a step further in.
    pub fn block(&mut self, text: &str) {
        self.flush();
        for line in text.lines() {
            self.text.push_str("  ");
            self.text.push_str(line);
            self.text.push('\n');
        }
    }

    fn flush(&mut self) {
        let width = self.lines.iter().map(|(name, ..)| name.chars().count()).max().unwrap_or(0);
        for (name, value, style) in self.lines.drain(..) {
            let gap = " ".repeat(width - name.chars().count());
            self.text.push_str(&format!("  {name}{gap}  {}\n", style.paint(&value, self.colors)));
        }
    }

    /// Everything.
    pub fn finish(mut self) -> String {
        self.flush();
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_aligned_within_a_section() {
        let mut fields = Fields::new(false);
        fields.section("One");
        fields.add("A", "1");
        fields.add("Longer", "2");
        fields.add("Empty", "");
        fields.section("Two");
        fields.add("B", "3\n4");
        fields.block("x\ny");
        assert_eq!(fields.finish(), "One\n  A       1\n  Longer  2\n\nTwo\n  B  3\\n4\n  x\n  y\n");
    }
}
