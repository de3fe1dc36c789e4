//! `cargo xtask test`: everything, from the rules about the source to crashes under load, on a machine that has a
//! checkout, Rust, Python, Node and a C compiler.
//!
//! Steps that share nothing run beside each other (`test_schedule.rs`). Each line of output has the name of its step before it;
//! every minute the steps that are still running are named, and a table at the end lists all of them. A step whose preparation
//! failed counts as failed without being run: an old binary would prove nothing. Tests that fail are repeated once
//! (`test_flaky.rs`). Everything that is written goes below the target directory, except the packages of the TypeScript tests.
//! What single steps do is in `test_steps.rs`.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::{
    test_browser,
    test_commands::Commands,
    test_crate, test_h2spec,
    test_schedule::{self, Job, Load},
    test_sdks,
    test_steps::{self, Outcome},
};

/// How many tests of a run may fail and pass when they are repeated. It may only go down.
const FLAKY_MAX: usize = 3;
/// Commands at least this long are listed below a step that ran several, in the table at the end.
const LISTED_MIN: Duration = Duration::from_secs(5);

/// A step.
struct Step {
    name: &'static str,
    what: &'static str,
    /// Steps that must not have failed.
    needs: &'static [&'static str],
    load: Load,
    /// Run only with `--full` or when named by `--only`.
    full_only: bool,
    run: fn(&mut Commands) -> Result<Outcome>,
}

/// All steps. Of those that may start, the first one does.
const STEPS: &[Step] = &[
    Step {
        name: "check",
        what: "rules about the source",
        needs: &[],
        load: Load::Light,
        full_only: false,
        run: test_steps::check,
    },
    Step { name: "fmt", what: "cargo fmt", needs: &[], load: Load::Light, full_only: false, run: test_steps::fmt },
    Step {
        name: "postgres",
        what: "PostgreSQL, installed if it is missing",
        needs: &[],
        load: Load::Light,
        full_only: false,
        run: test_steps::postgres,
    },
    Step {
        name: "venv",
        what: "Python packages",
        needs: &[],
        load: Load::Light,
        full_only: false,
        run: test_steps::venv,
    },
    Step {
        name: "build",
        what: "the server and the harness",
        needs: &[],
        load: Load::Compiles,
        full_only: false,
        run: test_steps::build,
    },
    Step {
        name: "compile",
        what: "Rust tests and examples",
        needs: &[],
        load: Load::Compiles,
        full_only: false,
        run: test_steps::compile,
    },
    Step {
        name: "clippy",
        what: "cargo clippy",
        needs: &[],
        load: Load::Compiles,
        full_only: false,
        run: test_steps::clippy,
    },
    Step {
        name: "doc",
        what: "documentation of the crates that are published",
        needs: &[],
        load: Load::Compiles,
        full_only: false,
        run: test_steps::doc,
    },
    Step {
        name: "flows",
        what: "the tests of the example scripts",
        needs: &["build"],
        load: Load::Light,
        full_only: false,
        run: test_steps::flows,
    },
    Step {
        name: "python",
        what: "end to end with the Python SDK",
        needs: &["build", "venv", "postgres"],
        load: Load::Heavy,
        full_only: false,
        run: test_steps::python,
    },
    Step {
        name: "packages",
        what: "packages of a release, installed and run",
        needs: &["build", "venv"],
        load: Load::Heavy,
        full_only: false,
        run: test_steps::packages,
    },
    Step {
        name: "rust",
        what: "cargo test",
        needs: &["compile", "postgres"],
        load: Load::Heavy,
        full_only: false,
        run: test_steps::rust,
    },
    Step {
        name: "sdk",
        what: "the Rust SDK against this server and Temporal's",
        needs: &["build", "compile", "venv"],
        load: Load::Heavy,
        full_only: false,
        run: test_steps::sdk,
    },
    Step {
        name: "typescript",
        what: "end to end with the TypeScript SDK",
        needs: &["build"],
        load: Load::Heavy,
        full_only: false,
        run: test_steps::typescript,
    },
    Step {
        name: "browser",
        what: "the web pages in chromium, installed if it is missing",
        needs: &["build", "venv", "postgres"],
        load: Load::Heavy,
        full_only: false,
        run: test_browser::browser,
    },
    Step {
        name: "store",
        what: "the server on PostgreSQL",
        needs: &["postgres", "build", "compile"],
        load: Load::Heavy,
        full_only: false,
        run: test_steps::store,
    },
    Step {
        name: "docs",
        what: "the commands of the documentation, as they are written",
        needs: &["build", "compile", "venv", "typescript", "postgres"],
        load: Load::Heavy,
        full_only: false,
        run: test_steps::docs,
    },
    Step {
        name: "h2spec",
        what: "conformance of HTTP/2, where Go is installed",
        needs: &["build"],
        load: Load::Heavy,
        full_only: false,
        run: test_h2spec::h2spec,
    },
    Step {
        name: "simulate",
        what: "300 worlds, two minutes at most",
        needs: &["compile"],
        load: Load::Heavy,
        full_only: false,
        run: test_steps::simulate,
    },
    Step {
        name: "crash",
        what: "kills and power cuts under load",
        needs: &["build"],
        load: Load::Heavy,
        full_only: false,
        run: test_steps::crash,
    },
    Step {
        name: "storm",
        what: "three nodes on PostgreSQL to which something happens under load",
        needs: &["build", "postgres"],
        load: Load::Heavy,
        full_only: false,
        run: test_steps::storm,
    },
    Step {
        name: "lie",
        what: "a disk that forgets syncs must be noticed",
        needs: &["build"],
        load: Load::Heavy,
        full_only: false,
        run: test_steps::lie,
    },
    Step {
        name: "python-postgres",
        what: "the Python tests with servers on PostgreSQL",
        needs: &["postgres", "build", "venv"],
        load: Load::Heavy,
        full_only: true,
        run: test_steps::python_on_postgres,
    },
    Step {
        name: "fuzz",
        what: "fuzz targets, a minute each",
        needs: &["build"],
        load: Load::Alone,
        full_only: true,
        run: test_steps::fuzz,
    },
    Step {
        name: "go",
        what: "TLS, certificates and keys with the Go SDK, where Go is installed; the quick start in Go",
        needs: &["build", "compile", "venv", "typescript"],
        load: Load::Heavy,
        full_only: true,
        run: test_sdks::go,
    },
    Step {
        name: "java",
        what: "the same with the Java SDK, where Java and Maven are installed",
        needs: &["build", "compile", "venv", "typescript"],
        load: Load::Heavy,
        full_only: true,
        run: test_sdks::java,
    },
    Step {
        name: "transcripts",
        what: "answers compared with Temporal's, and the comparison's self-test",
        needs: &["build", "venv"],
        load: Load::Alone,
        full_only: false,
        run: test_steps::transcripts,
    },
    Step {
        name: "transcripts-postgres",
        what: "the same on PostgreSQL",
        needs: &["postgres", "build", "venv"],
        load: Load::Alone,
        full_only: false,
        run: test_steps::transcripts_on_postgres,
    },
    Step {
        name: "sabotage",
        what: "a server that acknowledges too early must be noticed",
        needs: &["build"],
        load: Load::Alone,
        full_only: true,
        run: test_steps::sabotage,
    },
    Step {
        name: "release",
        what: "the released build: transcripts, crashes and packages",
        needs: &["build", "venv"],
        load: Load::Alone,
        full_only: true,
        run: test_steps::release,
    },
];

#[derive(Clone, Debug, PartialEq, Eq)]
enum Verdict {
    Passed,
    Failed(String),
    Skipped(String),
}

/// Which steps are wanted.
#[derive(Clone, Debug, Default)]
struct Choice {
    only: Vec<String>,
    skip: Vec<String>,
    full: bool,
}

impl Choice {
    fn from_words(words: &[String]) -> Result<Self> {
        let mut choice = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let names = match word.as_str() {
                "--full" => {
                    choice.full = true;
                    continue;
                }
                "--only" => &mut choice.only,
                "--skip" => &mut choice.skip,
                _ => bail!("unknown option `{word}`"),
            };
            let Some(list) = words.next() else { bail!("{word} needs the names of steps, with commas between") };
            names.extend(list.split(',').filter(|name| !name.is_empty()).map(str::to_owned));
        }
        let unknown = |name: &&String| STEPS.iter().all(|step| step.name != **name);
        if let Some(name) = choice.only.iter().chain(&choice.skip).find(unknown) {
            let known: Vec<_> = STEPS.iter().map(|step| step.name).collect();
            bail!("there is no step `{name}`; there are {}", known.join(", "));
        }
        Ok(choice)
    }

    /// Why a step is left out, if it is.
    fn leaves_out(&self, step: &Step) -> Option<String> {
        let named = |names: &[String]| names.iter().any(|name| name == step.name);
        if named(&self.skip) {
            Some("--skip".to_owned())
        } else if !self.only.is_empty() {
            (!named(&self.only)).then(|| "not in --only".to_owned())
        } else if step.full_only && !self.full {
            Some("takes long: ask for it with --full".to_owned())
        } else {
            None
        }
    }
}

/// How a step went.
struct StepResult {
    step: &'static Step,
    verdict: Verdict,
    took: Duration,
    commands: Commands,
}

/// `cargo xtask test [--only STEP,...] [--skip STEP,...] [--full]`, or `cargo xtask test --crate NAME,...`.
pub fn command(words: &[String]) -> Result<()> {
    if let [option, names] = words
        && option == "--crate"
    {
        return test_crate::command(names);
    }
    let choice = Choice::from_words(words)?;
    let begun = Instant::now();
    let jobs: Vec<Job> = STEPS.iter().map(|step| step.job(&choice)).collect();
    let run = |job: usize, failed: Option<&str>| run(&STEPS[job], &choice, failed);
    let results = test_schedule::all(&jobs, run, |ran| matches!(ran.verdict, Verdict::Failed(_)));
    print_table(&results, begun.elapsed());
    let flaky =
        print_flaky(results.iter().flat_map(|ran| ran.commands.flaky().iter().map(|test| (ran.step.name, test))));
    let (passed, failed) = count(results.iter().map(|ran| &ran.verdict));
    println!("{passed} passed, {failed} failed");
    // The count is the last line, so the failure adds no words of its own.
    if failed > 0 || flaky > FLAKY_MAX {
        std::process::exit(1);
    }
    Ok(())
}

/// Names the tests that failed and then passed; how many there are.
pub fn print_flaky<'a>(flaky: impl Iterator<Item = (&'a str, &'a String)>) -> usize {
    let flaky: Vec<_> = flaky.collect();
    for (step, test) in &flaky {
        println!("FLAKY {step}: {test}");
    }
    if !flaky.is_empty() {
        let verdict = if flaky.len() > FLAKY_MAX { ": FAILED" } else { "" };
        println!("{} flaky, at most {FLAKY_MAX}{verdict}", flaky.len());
    }
    flaky.len()
}

impl Step {
    /// What the scheduler needs to know. A step that is left out takes no time.
    fn job(&self, choice: &Choice) -> Job {
        let load = if choice.leaves_out(self).is_some() { Load::Light } else { self.load };
        Job { name: self.name, needs: self.needs, load }
    }
}

/// Runs a step, unless it is left out or what it needs has failed, and says how it ended.
fn run(step: &'static Step, choice: &Choice, failed: Option<&str>) -> StepResult {
    let begun = Instant::now();
    let mut commands = Commands::of(step.name);
    let verdict = match (choice.leaves_out(step), failed) {
        (Some(why), _) => Verdict::Skipped(why),
        (None, Some(failed)) => Verdict::Failed(format!("not run: step `{failed}` failed")),
        (None, None) => {
            println!("=== {}: {}", step.name, step.what);
            let verdict = match (step.run)(&mut commands) {
                Ok(Outcome::Passed) => Verdict::Passed,
                Ok(Outcome::Skipped(why)) => Verdict::Skipped(why),
                Err(error) => Verdict::Failed(format!("{error:#}")),
            };
            println!("=== {}: {verdict:?} after {:.1} s", step.name, begun.elapsed().as_secs_f64());
            verdict
        }
    };
    StepResult { step, verdict, took: begun.elapsed(), commands }
}

/// Every step with its result and duration, and the long commands of those that ran several.
fn print_table(results: &[StepResult], total: Duration) {
    println!("\n{:<20} {:<8} {:>8}", "step", "result", "seconds");
    for ran in results {
        let (word, why) = match &ran.verdict {
            Verdict::Passed => ("passed", ""),
            Verdict::Failed(why) => ("FAILED", why.as_str()),
            Verdict::Skipped(why) => ("skipped", why.as_str()),
        };
        println!("{}", format!("{:<20} {word:<8} {:>8.1}  {why}", ran.step.name, ran.took.as_secs_f64()).trim_end());
        let several = ran.commands.count() > 1;
        for (line, took) in ran.commands.longer_than(LISTED_MIN).filter(|_| several) {
            println!("{:29} {:>8.1}    {line}", "", took.as_secs_f64());
        }
    }
    println!("{:<29} {:>8.1}", "all", total.as_secs_f64());
}

fn count<'a>(verdicts: impl Iterator<Item = &'a Verdict>) -> (usize, usize) {
    verdicts.fold((0, 0), |(passed, failed), verdict| match verdict {
        Verdict::Passed => (passed + 1, failed),
        Verdict::Failed(_) => (passed, failed + 1),
        Verdict::Skipped(_) => (passed, failed),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(words: &[&str]) -> Result<Vec<&'static str>> {
        let choice = Choice::from_words(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())?;
        Ok(STEPS.iter().filter(|step| choice.leaves_out(step).is_none()).map(|step| step.name).collect())
    }

    #[test]
    fn options_choose_steps() {
        assert_eq!(chosen(&["--only", "fmt,sabotage"]).expect("known"), ["fmt", "sabotage"]);
        let usual = STEPS.iter().filter(|step| !step.full_only).count();
        assert!(usual < STEPS.len());
        assert_eq!(chosen(&[]).expect("known").len(), usual);
        assert_eq!(chosen(&["--full"]).expect("known").len(), STEPS.len());
        assert_eq!(chosen(&["--skip", "fmt", "--skip", "crash,lie"]).expect("known").len(), usual - 3);
        assert!(chosen(&["--only", "nonsense"]).is_err());
        assert!(chosen(&["--nonsense"]).is_err());
        assert!(chosen(&["--only"]).is_err());
    }

    /// A test with time-outs of a second cannot be told from a defect beside what takes both cores.
    #[test]
    fn transcripts_run_alone() {
        for step in STEPS.iter().filter(|step| step.name.starts_with("transcripts") || step.name == "release") {
            assert_eq!(step.load, Load::Alone, "{}", step.name);
        }
    }

    #[test]
    fn steps_need_only_earlier_steps() {
        for (at, step) in STEPS.iter().enumerate() {
            assert!(
                step.needs.iter().all(|name| STEPS[..at].iter().any(|earlier| earlier.name == *name)),
                "{}",
                step.name
            );
        }
    }

    #[test]
    fn skipped_steps_do_not_count() {
        let verdicts = [Verdict::Passed, Verdict::Skipped(String::new()), Verdict::Failed(String::new())];
        assert_eq!(count(verdicts.iter()), (1, 1));
    }
}
