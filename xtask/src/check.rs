//! `cargo xtask check`: rules about the source itself, so that a broken one is a failing test, not a review comment.
//!
//! Everything that git would track is read once into a [`Tree`]; each check is a function from the tree to problems and
//! is tested on small trees that break its rule. Nothing is built, nothing is fetched. Checks of crates and their
//! dependencies are in `check_crates.rs`, of circles inside a crate in `check_circles.rs`, of what a node takes from the machine in `check_given.rs`, checks of documents in `check_docs.rs`, the reading of Rust in
//! `check_source.rs`.

use std::{fmt, fs, path::Path};

use anyhow::{Context, Result, bail};

use crate::{check_circles, check_crates, check_docs, check_given, check_source, workspace};

/// Directories that hold nothing of ours; the same ones that git ignores.
const IGNORED: [&str; 7] = [".git", "target", "node_modules", "dist", "__pycache__", ".venv", ".pytest_cache"];

/// One text file.
#[derive(Clone, Debug)]
pub struct File {
    /// Path from the workspace's directory, with `/` on every system.
    pub path: String,
    /// Its content.
    pub text: String,
}

impl File {
    /// Whether this is Rust.
    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Whether all of it is test code.
    pub fn is_test(&self) -> bool {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        // The kit is the test of every store, behind a feature so that other crates can run it.
        let kit = self.path.starts_with("crates/store/src/kit/") || self.path == "crates/store/src/kit.rs";
        kit || self.path.contains("/tests/") || name == "tests.rs" || name.ends_with("_tests.rs")
    }
}

/// All text files of the project, by path.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    /// The files.
    pub files: Vec<File>,
}

impl Tree {
    /// Reads a directory. Files that are not UTF-8, such as pictures, count as empty: links may lead to them.
    pub fn read(root: &Path) -> Result<Self> {
        let mut tree = Self::default();
        tree.add(root, root)?;
        tree.files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(tree)
    }

    fn add(&mut self, root: &Path, directory: &Path) -> Result<()> {
        for entry in fs::read_dir(directory).with_context(|| format!("reading {}", directory.display()))? {
            let (path, kind) = entry.and_then(|entry| Ok((entry.path(), entry.file_type()?)))?;
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            // In a work tree of git `.git` is a file.
            if IGNORED.contains(&name.as_str()) {
                continue;
            }
            if kind.is_dir() {
                self.add(root, &path)?;
            } else if kind.is_file() {
                let text = String::from_utf8(fs::read(&path)?).unwrap_or_default();
                let parts = path.strip_prefix(root)?.components();
                let parts: Vec<_> = parts.map(|part| part.as_os_str().to_string_lossy()).collect();
                self.files.push(File { path: parts.join("/"), text });
            }
        }
        Ok(())
    }

    /// The content of a file, if it is there.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.files.iter().find(|file| file.path == path).map(|file| file.text.as_str())
    }

    /// Whether a file or directory is there.
    pub fn has(&self, path: &str) -> bool {
        let inside = format!("{path}/");
        path.is_empty() || self.files.iter().any(|file| file.path == path || file.path.starts_with(&inside))
    }

    /// A tree from paths and contents.
    #[cfg(test)]
    pub fn of(files: &[(&str, &str)]) -> Self {
        let file = |(path, text): &(&str, &str)| File { path: (*path).to_owned(), text: (*text).to_owned() };
        Self { files: files.iter().map(file).collect() }
    }
}

/// A broken rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file.
    pub path: String,
    /// The line, from 1; 0 for the file as a whole.
    pub line: usize,
    /// What is wrong, and what to do.
    pub text: String,
}

impl Problem {
    /// A problem of a line.
    pub fn at(path: &str, line: usize, text: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, text: text.into() }
    }

    /// A problem of a file.
    pub fn of(path: &str, text: impl Into<String>) -> Self {
        Self::at(path, 0, text)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.text),
            line => write!(f, "{}:{line}: {}", self.path, self.text),
        }
    }
}

type Check = fn(&Tree) -> Vec<Problem>;

/// Every check, by name.
const CHECKS: &[(&str, Check)] = &[
    ("direction of dependencies", check_crates::direction),
    ("circles of files", check_circles::circles),
    ("module heads", check_source::heads),
    ("file length", check_source::length),
    ("nouns first in comments", check_source::nouns_first),
    ("no unwrap()", check_source::unwraps),
    ("nothing left undone", check_source::undone),
    ("pure engine", check_source::engine),
    ("a node takes nothing from the machine", check_given::given),
    ("requests in the server", check_source::requests),
    ("names that were given up", check_source::names),
    ("no machine in the text", check_docs::machines),
    ("README length", check_docs::readme),
    ("lock file without hosts", check_docs::lock_files),
    ("links", check_docs::links),
];

/// `cargo xtask check`.
pub fn command(words: &[String]) -> Result<()> {
    if let Some(word) = words.first() {
        bail!("unknown option `{word}`");
    }
    run(&workspace::root())
}

/// Runs every check on a workspace; prints one line per check and each problem.
pub fn run(root: &Path) -> Result<()> {
    let tree = Tree::read(root)?;
    let mut found = 0;
    for (name, check) in CHECKS {
        let problems = check(&tree);
        println!("{:<28} {}", name, if problems.is_empty() { "ok" } else { "FAILED" });
        for problem in &problems {
            println!("  {problem}");
        }
        found += problems.len();
    }
    match found {
        0 => Ok(()),
        1 => bail!("1 problem in the source"),
        many => bail!("{many} problems in the source"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The project keeps its own rules.
    #[test]
    fn this_tree_has_no_problem() {
        let tree = Tree::read(&workspace::root()).expect("readable");
        let problems: Vec<_> = CHECKS.iter().flat_map(|(_, check)| check(&tree)).map(|p| p.to_string()).collect();
        assert!(problems.is_empty(), "{}", problems.join("\n"));
    }

    #[test]
    fn trees_know_files_and_directories() {
        let tree = Tree::of(&[("docs/a.md", "text")]);
        assert!(tree.has("docs/a.md") && tree.has("docs") && tree.has(""));
        assert!(!tree.has("doc") && !tree.has("docs/b.md"));
        assert_eq!(tree.text("docs/a.md"), Some("text"));
    }
}
