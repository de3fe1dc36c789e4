//! Options of a command: `--name value` and `--name`, nothing more.

use std::str::FromStr;

use anyhow::{Context, Result, bail};

/// The words after the command, taken out one option at a time; what is left at the end is a mistake.
pub struct Args {
    words: Vec<String>,
}

impl Args {
    /// Options from the words after the command.
    pub fn new(words: Vec<String>) -> Self {
        Self { words }
    }

    /// Takes `--name`; whether it was there.
    pub fn flag(&mut self, name: &str) -> bool {
        let found = self.words.iter().position(|word| word == name);
        found.map(|at| self.words.remove(at)).is_some()
    }

    /// Takes `--name value`.
    pub fn option<T: FromStr>(&mut self, name: &str) -> Result<Option<T>> {
        let Some(at) = self.words.iter().position(|word| word == name) else { return Ok(None) };
        if at + 1 >= self.words.len() {
            bail!("{name} needs a value");
        }
        self.words.remove(at);
        let value = self.words.remove(at);
        value.parse().ok().with_context(|| format!("{name} cannot be `{value}`")).map(Some)
    }

    /// Takes `--name value`, with a value for when it is absent.
    pub fn option_or<T: FromStr>(&mut self, name: &str, otherwise: T) -> Result<T> {
        Ok(self.option(name)?.unwrap_or(otherwise))
    }

    /// Refuses options that were not taken.
    pub fn finish(self) -> Result<()> {
        match self.words.first() {
            Some(word) => bail!("unknown option `{word}`"),
            None => Ok(()),
        }
    }
}
