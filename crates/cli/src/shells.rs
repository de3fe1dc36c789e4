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
        let script = with_ids(self.shell, &String::from_utf8_lossy(&script));
        io::Write::write_all(&mut io::stdout().lock(), script.as_bytes())?;
        Ok(())
    }
}

/// Flags with an id, whose values are those of the server.
const IDS: [&str; 4] = ["workflow-id", "schedule-id", "job-id", "activity-id"];
/// What zsh calls for them.
const ZSH_IDS: &str = "
_segno_ids() {
    local -a ids
    ids=(\"${(@f)$(segno complete-ids $1 \"$PREFIX\" 2>/dev/null)}\")
    compadd -a ids
}
";

/// A script in which values of flags with ids come from the server. Other shells than these complete no ids.
fn with_ids(shell: Shell, script: &str) -> String {
    let lines: Vec<&str> = script.lines().collect();
    let changed = lines.iter().enumerate().map(|(place, line)| match shell {
        Shell::Bash => {
            let before = place.checked_sub(1).map_or("", |before| lines[before].trim());
            let flag = IDS.iter().find(|flag| before == format!("--{flag})") || (before == "-w)" && **flag == IDS[0]));
            match flag {
                Some(flag) => line
                    .replace("compgen -f \"${cur}\"", &format!("segno complete-ids {flag} \"${{cur}}\" 2>/dev/null")),
                None => (*line).to_owned(),
            }
        }
        Shell::Zsh => match IDS.iter().find(|flag| line.contains(&format!("'--{flag}=["))) {
            Some(flag) => line.replace(":ID:_default", &format!(":ID:{{_segno_ids {flag}}}")),
            None if place == 0 => format!("{line}\n{ZSH_IDS}"),
            None => (*line).to_owned(),
        },
        Shell::Fish => match IDS.iter().find(|flag| line.contains(&format!(" -l {flag} "))) {
            Some(flag) => format!("{line} -f -a '(segno complete-ids {flag} (commandline -ct) 2>/dev/null)'"),
            None => (*line).to_owned(),
        },
        _ => (*line).to_owned(),
    });
    changed.map(|line| line + "\n").collect()
}

impl Man {
    /// Writes a page for each command.
    pub fn run(self, command: clap::Command) -> anyhow::Result<()> {
        fs::create_dir_all(&self.directory).with_context(|| format!("creating {}", self.directory.display()))?;
        clap_mangen::generate_to(command, &self.directory)
            .with_context(|| format!("writing to {}", self.directory.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shells_ask_for_ids() {
        let bash = "        --workflow-id)\n            COMPREPLY=($(compgen -f \"${cur}\"))\n        --reason)\n            COMPREPLY=($(compgen -f \"${cur}\"))\n";
        let told = with_ids(Shell::Bash, bash);
        assert!(told.contains(
            "--workflow-id)\n            COMPREPLY=($(segno complete-ids workflow-id \"${cur}\" 2>/dev/null))"
        ));
        assert!(told.contains("--reason)\n            COMPREPLY=($(compgen -f"), "{told}");
        let told = with_ids(Shell::Zsh, "#compdef segno\n'--job-id=[The job]:ID:_default' \\\n");
        assert!(
            told.contains("'--job-id=[The job]:ID:{_segno_ids job-id}' \\") && told.contains("_segno_ids() {"),
            "{told}"
        );
        let told = with_ids(Shell::Fish, "complete -c segno -s s -l schedule-id -d 'Id' -r\n");
        assert!(
            told.ends_with("-r -f -a '(segno complete-ids schedule-id (commandline -ct) 2>/dev/null)'\n"),
            "{told}"
        );
    }
}
