//! Programs of others that the benchmark runs: what they need is installed under the target directory, by the tool.

use std::{
    fs,
    path::PathBuf,
    process::{Child, Command},
};

use anyhow::{Context, Result, ensure};

use crate::process;

/// A running program; killed when dropped.
pub struct Program(pub Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A folder of `bench/`, copied under the target directory, with the packages of its `package.json` installed.
pub fn installed(name: &str) -> Result<PathBuf> {
    let from = process::workspace_dir().join("bench").join(name);
    let to = process::target_dir().join(format!("bench-{name}"));
    fs::create_dir_all(&to)?;
    let wanted = fs::read(from.join("package.json")).with_context(|| format!("{}", from.display()))?;
    let fresh = fs::read(to.join("package.json")).is_ok_and(|had| had == wanted) && to.join("node_modules").is_dir();
    for entry in fs::read_dir(&from)?.flatten().filter(|entry| entry.path().is_file()) {
        fs::copy(entry.path(), to.join(entry.file_name()))?;
    }
    if !fresh {
        println!("installing packages into {}", to.display());
        let options = ["install", "--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error"];
        let status = Command::new("npm").args(options).current_dir(&to).status().context("npm is needed")?;
        if !status.success() {
            // The next run must not take what is there for all of it.
            let _ = fs::remove_dir_all(to.join("node_modules"));
        }
        ensure!(status.success(), "npm could not install what {name} needs");
    }
    Ok(fs::canonicalize(to)?)
}

/// The Python that has Temporal's SDK: given, or the project's virtual environment.
pub fn python(given: Option<PathBuf>) -> Result<PathBuf> {
    let beside =
        [process::target_dir(), process::workspace_dir().join("target")].map(|dir| dir.join("venv/bin/python"));
    let mut candidates = given.into_iter().chain(beside);
    candidates.find(|file| file.is_file()).context("no Python with the SDK: cargo xtask test --only venv, or --python")
}
