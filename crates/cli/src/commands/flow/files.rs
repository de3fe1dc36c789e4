//! Scripts on disk.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context;

/// The end of a script's file name.
const SCRIPT: &str = ".flow";
/// The end of a test's file name.
const TEST: &str = "_test.flow";

/// A script with its path.
pub struct File {
    /// Where it is.
    pub path: PathBuf,
    /// What stacks and diagnostics call it.
    pub name: String,
    /// Its text.
    pub source: Vec<u8>,
}

/// Reads these files.
pub fn read(paths: &[PathBuf]) -> anyhow::Result<Vec<File>> {
    paths.iter().map(|path| read_one(path)).collect()
}

/// Reads one file.
pub fn read_one(path: &Path) -> anyhow::Result<File> {
    let source = fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    Ok(File { path: path.to_owned(), name, source })
}

/// The scripts in these files and directories, tests left out.
pub fn scripts(paths: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    find(paths, |name| name.ends_with(SCRIPT) && !name.ends_with(TEST))
}

/// The tests in these files and directories.
pub fn tests(paths: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    find(paths, |name| name.ends_with(TEST))
}

/// Files that are named as they are, and what fits in directories, in the order of their paths.
fn find(paths: &[PathBuf], fits: impl Fn(&str) -> bool + Copy) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for path in paths {
        if !path.is_dir() {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            // A test that is named by itself is skipped where tests are not wanted, as in a directory.
            if fits(&name) || !name.ends_with(TEST) {
                found.push(path.clone());
            }
            continue;
        }
        let mut inside = Vec::new();
        let entries = fs::read_dir(path).with_context(|| format!("reading {}", path.display()))?;
        for entry in entries {
            inside.push(entry.with_context(|| format!("reading {}", path.display()))?.path());
        }
        inside.sort();
        for path in inside {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            if path.is_dir() && !name.starts_with('.') {
                found.extend(find(&[path], fits)?);
            } else if fits(&name) {
                found.push(path);
            }
        }
    }
    Ok(found)
}
