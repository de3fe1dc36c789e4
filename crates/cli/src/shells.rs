//! `segno completions` and `segno man`: shell completions and manual pages, which packages install.

use std::{fs, io, path::PathBuf};

use anyhow::Context;
use clap::Args;
use clap_complete::Shell;

/// Prints completions for a shell.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  segno completions bash > ~/.local/share/bash-completion/completions/segno\n  \
                        segno completions zsh > \"${fpath[1]}/_segno\"\n  \
                        segno completions fish > ~/.config/fish/completions/segno.fish")]
pub struct Completions {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

/// Writes manual pages.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  segno man --directory man/man1")]
pub struct Man {
    /// Where to.
    #[arg(long, value_name = "DIR")]
    directory: PathBuf,
}

impl Completions {
    /// Prints them.
    pub fn run(self, mut command: clap::Command) -> anyhow::Result<()> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut command, "segno", &mut script);
        io::Write::write_all(&mut io::stdout().lock(), &script)?;
        Ok(())
    }
}

impl Man {
    /// Writes a page for each command.
    pub fn run(self, command: clap::Command) -> anyhow::Result<()> {
        fs::create_dir_all(&self.directory).with_context(|| format!("creating {}", self.directory.display()))?;
        clap_mangen::generate_to(command, &self.directory)
            .with_context(|| format!("writing to {}", self.directory.display()))
    }
}
