//! `segno doctor`: checks a data directory and the machine, and reports problems that exist or are near.
//!
//! It changes nothing and may run beside the server. Exit code 0: no problem; 1: warnings; 65: damaged or unusable.

use std::{
    fs,
    path::Path,
    process::ExitCode,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use clap::Args;
use segno_store_sqlite::{BackupError, Inspection};

use crate::{
    disk::Room,
    exit,
    keeping::{DataDir, size},
    output::{self, Format, Json, style::Style},
    running::open_files_max,
};

/// Checks a data directory, the disk, the clock and settings.
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Examples:\n  segno doctor --data-dir ./data\n  segno doctor --data-dir ./data --thorough --output json\n\n\
                        Exit code 0: nothing was found; 1: warnings; 65: something is broken."
)]
pub struct Doctor {
    #[command(flatten)]
    place: DataDir,
    /// Read all of the database, however large it is. One of up to 256 MiB is read whole in any case.
    #[arg(long)]
    thorough: bool,
    /// Format of the output.
    #[arg(short, long, value_enum, default_value_t, value_name = "FORM")]
    output: Format,
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Grade {
    Good,
    Warning,
    Broken,
}

/// What one check found.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Finding {
    check: &'static str,
    grade: Grade,
    text: String,
}

fn finding(check: &'static str, grade: Grade, text: impl Into<String>) -> Finding {
    Finding { check, grade, text: text.into() }
}

impl Doctor {
    /// Checks and tells. The exit code says how bad it is.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let directory = self.place.path()?;
        let mut found = directory_findings(
            &directory,
            segno_store_sqlite::inspect(&directory, self.thorough, segno_node::state_facts),
        );
        found.extend(disk(&directory));
        found.push(clock(SystemTime::now(), newest_file(&directory)));
        found.push(files(open_files_max()));
        found.extend(settings(std::env::vars_os().filter_map(|(name, _)| name.into_string().ok())));
        let worst = found.iter().map(|finding| finding.grade).max().unwrap_or(Grade::Good);
        match self.output {
            Format::Text => output::print(&text(&found, output::Color::Auto.is_on()))?,
            format => output::print(&format.render(&json(&found)))?,
        }
        Ok(match worst {
            Grade::Good => ExitCode::SUCCESS,
            Grade::Warning => ExitCode::from(exit::FAILED),
            Grade::Broken => ExitCode::from(exit::DATA),
        })
    }
}

fn word(grade: Grade) -> (&'static str, Style) {
    match grade {
        Grade::Good => ("ok", Style::Green),
        Grade::Warning => ("warning", Style::Yellow),
        Grade::Broken => ("broken", Style::Red),
    }
}

fn text(found: &[Finding], colors: bool) -> String {
    let line = |finding: &Finding| {
        let (word, style) = word(finding.grade);
        let padded = format!("{word:<7}");
        format!("{}  {:<9}  {}\n", style.paint(&padded, colors), finding.check, output::plain(&finding.text))
    };
    found.iter().map(line).collect()
}

fn json(found: &[Finding]) -> Json {
    let one = |finding: &Finding| {
        Json::object([
            ("check", Json::text(finding.check)),
            ("grade", Json::text(word(finding.grade).0)),
            ("text", Json::text(&finding.text)),
        ])
    };
    Json::Array(found.iter().map(one).collect())
}

/// What is in the directory.
fn directory_findings(directory: &Path, inspected: Result<Inspection, BackupError>) -> Vec<Finding> {
    let place = directory.display();
    let seen = match inspected {
        Ok(seen) => seen,
        Err(BackupError::Nothing(_)) if directory.is_file() => {
            let text =
                format!("{place} is a file, not a directory. The data directory is the one that has segno.db in it");
            return vec![finding("data", Grade::Broken, text)];
        }
        Err(BackupError::Nothing(_)) => {
            let text = format!("there is no database in {place}: a server would begin with an empty one");
            return vec![finding("data", Grade::Warning, text)];
        }
        Err(error) => return vec![finding("data", Grade::Broken, error.to_string())],
    };
    let used = if seen.in_use { "in use by a server" } else { "not in use" };
    let mut found = vec![finding("data", Grade::Good, format!("{place}: {}, {used}", size(seen.bytes)))];
    let newest = segno_store_sqlite::newest_schema();
    found.push(match seen.schema {
        schema if schema == newest => finding("schema", Grade::Good, format!("version {schema}")),
        schema => {
            let text = format!(
                "version {schema}; this binary brings it to {newest} when it starts, and older binaries refuse it then. Make a \
                 backup first"
            );
            finding("schema", Grade::Warning, text)
        }
    });
    if let Some(damage) = seen.log_damage {
        let text = format!("the write-ahead log is damaged: {damage}. docs/reference/errors.md says what to do");
        found.push(finding("log", Grade::Broken, text));
    } else {
        found.push(finding("log", Grade::Good, size(seen.log_bytes)));
    }
    found.extend(match (seen.is_read, &seen.damage[..]) {
        (true, []) => Some(finding("database", Grade::Good, "all of it was read, and its parts agree")),
        (true, damage) => {
            let text = format!("{}. docs/reference/errors.md says what to do", damage.join("; "));
            Some(finding("database", Grade::Broken, text))
        }
        (false, _) if seen.schema == newest => {
            Some(finding("database", Grade::Good, "only looked at: --thorough reads all of a database over 256 MiB"))
        }
        (false, _) => None,
    });
    if seen.free_bytes > 64 * 1024 * 1024 && seen.free_bytes > seen.bytes / 4 {
        let text = format!(
            "{} of the file hold nothing. They are used again; `segno compact` gives them back while the server is stopped",
            size(seen.free_bytes)
        );
        found.push(finding("space", Grade::Warning, text));
    }
    found
}

/// Room on the disk of a directory, or of the first of its parents that is there.
fn disk(directory: &Path) -> Option<Finding> {
    let place = directory.ancestors().find(|place| place.is_dir()).unwrap_or(Path::new("."));
    Room::of(place).map(graded)
}

fn graded(room: Room) -> Finding {
    let Room { free, total } = room;
    let text = format!("{} of {} are free", size(free), size(total));
    match free {
        0..0x400_0000 => finding("disk", Grade::Broken, format!("{text}: commits fail when there is no space")),
        _ if room.is_short() => finding("disk", Grade::Warning, format!("{text}: free some space before commits fail")),
        _ => finding("disk", Grade::Good, text),
    }
}

/// When the newest file of a directory was changed.
fn newest_file(directory: &Path) -> Option<SystemTime> {
    let files = fs::read_dir(directory).ok()?.flatten();
    files.filter_map(|file| file.metadata().ok()?.modified().ok()).max()
}

/// A clock that goes back makes timers late; one that is years off makes time-outs fire.
fn clock(now: SystemTime, newest: Option<SystemTime>) -> Finding {
    let plausible = UNIX_EPOCH + Duration::from_secs(1_704_067_200);
    if now < plausible {
        return finding("clock", Grade::Broken, "the clock says that it is before 2024: set it, for example with NTP");
    }
    match newest.and_then(|newest| newest.duration_since(now).ok()) {
        Some(ahead) if ahead > Duration::from_secs(2) => {
            let text = format!(
                "the data was changed {} seconds in the future: the clock went back. Timers wait until it has caught up",
                ahead.as_secs()
            );
            finding("clock", Grade::Warning, text)
        }
        _ => finding("clock", Grade::Good, "plausible, and not before the newest file"),
    }
}

fn files(limit: Option<u64>) -> Finding {
    match limit {
        None => finding("files", Grade::Good, "the limit of open files is not known here"),
        Some(limit) if limit < 4096 => {
            let text = format!("a process may open {limit} files; each connection needs one. 65536 is a good limit");
            finding("files", Grade::Warning, text)
        }
        Some(limit) => finding("files", Grade::Good, format!("a process may open {limit}")),
    }
}

/// Variables of the environment that look like settings and are none.
fn settings(names: impl Iterator<Item = String>) -> Vec<Finding> {
    let unknown: Vec<String> =
        names.filter(|name| name.starts_with("SEGNO_") && !crate::is_known_variable(name)).collect();
    match unknown.is_empty() {
        true => vec![finding("settings", Grade::Good, "no unknown SEGNO_ variable is set")],
        false => {
            let text = format!("these variables mean nothing to Segno: {}", unknown.join(", "));
            vec![finding("settings", Grade::Warning, text)]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_are_graded() {
        let gib = 0x4000_0000;
        assert_eq!(graded(Room { free: 50 * gib, total: 100 * gib }).grade, Grade::Good);
        assert_eq!(graded(Room { free: 4 * gib, total: 100 * gib }).grade, Grade::Warning);
        assert_eq!(graded(Room { free: 1, total: 100 * gib }).grade, Grade::Broken);
    }

    #[test]
    fn a_clock_that_went_back_is_noticed() {
        let now = SystemTime::now();
        assert_eq!(clock(now, Some(now)).grade, Grade::Good);
        assert_eq!(clock(now, Some(now + Duration::from_secs(60))).grade, Grade::Warning);
        assert_eq!(clock(UNIX_EPOCH, None).grade, Grade::Broken);
    }

    #[test]
    fn unknown_variables_are_named() {
        let found = settings(["SEGNO_PORT", "SEGNO_PROT", "HOME"].into_iter().map(str::to_owned));
        assert_eq!(found[0].text, "these variables mean nothing to Segno: SEGNO_PROT");
        assert_eq!(settings(["SEGNO_PORT".to_owned()].into_iter())[0].grade, Grade::Good);
    }

    #[test]
    fn a_directory_without_a_database_is_a_warning() {
        let directory = Path::new("/nonexistent");
        let found = directory_findings(directory, Err(BackupError::Nothing(directory.to_owned())));
        assert_eq!(found[0].grade, Grade::Warning);
        let damaged = Inspection::default();
        assert_eq!(directory_findings(directory, Ok(damaged))[1].grade, Grade::Warning);
    }
}
