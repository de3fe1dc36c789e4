//! `segno flow test`.

use std::path::PathBuf;

use clap::Args;

use super::files;
use crate::{client::ClientError, output};

#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Example:\n  segno flow test flows/\n\nNo server is needed: time jumps whenever everything waits. Ends \
                        with 1 if a test failed."
)]
pub struct Test {
    /// Test files (*_test.flow), or directories of them.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Only tests with this text in their names.
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    filter: String,
}

impl Test {
    /// Runs the tests.
    pub fn run(self, _colors: bool) -> anyhow::Result<()> {
        let paths = files::tests(&self.paths)?;
        if paths.is_empty() {
            return Err(ClientError::Outcome("there is no *_test.flow".to_owned()).into());
        }
        let (mut passed, mut failed) = (0, 0);
        for path in paths {
            let file = files::read_one(&path)?;
            let directory = path.parent().map(PathBuf::from).unwrap_or_default();
            let mut load = |used: &str| std::fs::read(directory.join(used)).map_err(|error| error.to_string());
            let report = segno_flow::host::run_tests(&file.source, &path.to_string_lossy(), &mut load, &self.filter);
            let text = report.text();
            if !text.is_empty() {
                output::print(&text)?;
            }
            let bad = report.tests.iter().filter(|test| test.failure.is_some()).count();
            passed += report.tests.len() - bad;
            failed += bad + report.errors.len();
        }
        output::print(&format!("{passed} passed, {failed} failed"))?;
        match failed {
            0 => Ok(()),
            _ => Err(ClientError::Outcome(format!("{failed} test(s) failed")).into()),
        }
    }
}
