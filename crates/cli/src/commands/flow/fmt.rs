//! `segno flow fmt`.

use std::{fs, path::PathBuf};

use anyhow::Context;
use clap::Args;

use super::{check, files};
use crate::{client::ClientError, output};

#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Example:\n  segno flow fmt order.flow\n\nNo server is needed. Prints the names of the files that \
                        changed. With --check no file is changed, and the command ends with 1 if one would be."
)]
pub struct Fmt {
    /// Print the names of unformatted files and change nothing.
    #[arg(long)]
    check: bool,
    /// Scripts.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

impl Fmt {
    /// Rewrites the files.
    pub fn run(self) -> anyhow::Result<()> {
        let (mut changed, mut unread) = (0, Vec::new());
        for file in files::read(&self.files)? {
            // What is no text is not rewritten: the replacement characters would be.
            let formatted = match std::str::from_utf8(&file.source) {
                Ok(source) => segno_flow::format(source),
                Err(_) => Err(check::diagnostics(&file)),
            };
            let formatted = match formatted {
                Ok(formatted) => formatted,
                Err(found) => {
                    for one in &found {
                        eprintln!("{}", check::render(&file, one));
                    }
                    unread.push(file.path.display().to_string());
                    continue;
                }
            };
            if formatted.as_bytes() == file.source {
                continue;
            }
            changed += 1;
            output::print(&file.path.to_string_lossy())?;
            if !self.check {
                fs::write(&file.path, formatted).with_context(|| format!("writing {}", file.path.display()))?;
            }
        }
        if !unread.is_empty() {
            let text = format!("{} cannot be read, nothing was changed in it", unread.join(", "));
            return Err(ClientError::Outcome(text).into());
        }
        match self.check && changed > 0 {
            true => Err(ClientError::Outcome(format!("{changed} file(s) are not in the style")).into()),
            false => Ok(()),
        }
    }
}
