//! Colours: only on a terminal, and only if the user allows them (`NO_COLOR`, `--color`).

use std::io::IsTerminal;

use clap::ValueEnum;

/// When to use colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Color {
    // On a terminal, unless NO_COLOR is set.
    #[default]
    Auto,
    Always,
    Never,
}

impl Color {
    /// Whether standard output gets colours.
    pub fn is_on(self) -> bool {
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::Auto => {
                let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
                !unwanted && std::io::stdout().is_terminal()
            }
        }
    }
}

/// How a piece of text looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// Like everything else.
    #[default]
    Plain,
    /// A heading.
    Bold,
    /// Went well.
    Green,
    /// Is under way.
    Blue,
    /// Ended otherwise.
    Yellow,
    /// Went wrong.
    Red,
}

impl Style {
    /// The text in this style.
    pub fn paint(self, text: &str, colors: bool) -> String {
        let code = match self {
            Self::Plain => return text.to_owned(),
            Self::Bold => 1,
            Self::Green => 32,
            Self::Blue => 34,
            Self::Yellow => 33,
            Self::Red => 31,
        };
        if colors { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_only_when_wanted() {
        assert_eq!(Style::Red.paint("x", false), "x");
        assert_eq!(Style::Red.paint("x", true), "\x1b[31mx\x1b[0m");
        assert!(Color::Always.is_on() && !Color::Never.is_on());
    }
}
