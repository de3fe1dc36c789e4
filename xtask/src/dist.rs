//! `cargo xtask dist`: all files of a release from one commit, see CONTRIBUTING.md.
//!
//! This builds static binaries; `deploy/packages` (Python, of whose standard library it needs archives and digests) packs them. A binary
//! for musl needs no file beside itself; where rustup has not installed that target, glibc is linked statically instead
//! (docs/internals/decisions/053-static-binaries.md).

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

use crate::workspace::{self, cargo, command};

const USAGE: &str = "usage: cargo xtask dist [--binary PATH]... [--to DIRECTORY]

  --binary   packs this binary instead of building; one for each architecture
  --to       where the files go, target/dist by default; an earlier release there is replaced

SEGNO_SIGNING_KEY (a private Ed25519 key in PEM) signs the checksums.";

/// A target that a release is built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Target {
    name: &'static str,
    architecture: &'static str,
    /// Compiler and linker for C on a machine of the same architecture, and on others.
    native_cc: &'static str,
    cross_cc: &'static str,
}

/// For each architecture the first one that can be built is.
const TARGETS: [Target; 4] = [
    Target {
        name: "x86_64-unknown-linux-musl",
        architecture: "x86_64",
        native_cc: "musl-gcc",
        cross_cc: "x86_64-linux-musl-gcc",
    },
    Target {
        name: "x86_64-unknown-linux-gnu",
        architecture: "x86_64",
        native_cc: "cc",
        cross_cc: "x86_64-linux-gnu-gcc",
    },
    Target {
        name: "aarch64-unknown-linux-musl",
        architecture: "aarch64",
        native_cc: "musl-gcc",
        cross_cc: "aarch64-linux-musl-gcc",
    },
    Target {
        name: "aarch64-unknown-linux-gnu",
        architecture: "aarch64",
        native_cc: "cc",
        cross_cc: "aarch64-linux-gnu-gcc",
    },
];

/// A static binary has a relocation for each address in its data. Packed they take a ninetieth of the space.
const PACKED_RELOCATIONS: &str = "link-arg=-Wl,-z,pack-relative-relocs";

#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    binaries: Vec<PathBuf>,
    to: Option<PathBuf>,
}

impl Options {
    fn from_words(words: &[String]) -> Result<Self> {
        let mut options = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let value = words.next().map(PathBuf::from);
            match (word.as_str(), value) {
                ("--binary", Some(path)) => options.binaries.push(path),
                ("--to", Some(path)) => options.to = Some(path),
                _ => bail!("{USAGE}"),
            }
        }
        Ok(options)
    }
}

/// `cargo xtask dist [--binary PATH]... [--to DIRECTORY]`.
pub fn command_line(words: &[String]) -> Result<()> {
    let options = Options::from_words(words)?;
    let mut binaries = options.binaries;
    if binaries.is_empty() {
        let changes = command("git", &["status", "--porcelain"]).output().context("git did not start")?;
        if !changes.status.success() || !changes.stdout.is_empty() {
            bail!("a release is made from a commit, and there are changes that are not committed");
        }
        for (mut build, binary) in builds()? {
            run(&mut build)?;
            binaries.push(binary);
        }
    }
    let here = std::env::current_dir()?;
    let binaries: Vec<PathBuf> = binaries.iter().map(|binary| here.join(binary)).collect();
    let to = options.to.map_or_else(release, |to| here.join(to));
    run(&mut pack(&binaries, &to))
}

/// Where a release goes.
pub fn release() -> PathBuf {
    workspace::target().join("dist")
}

/// The command that packs binaries.
pub fn pack(binaries: &[PathBuf], to: &Path) -> Command {
    let mut pack = command("python3", &["deploy/packages", "--to"]);
    pack.arg(to);
    for binary in binaries {
        pack.arg("--binary").arg(binary);
    }
    pack
}

/// The commands that build a static binary for each architecture whose toolchain is installed, and where each binary will be.
pub fn builds() -> Result<Vec<(Command, PathBuf)>> {
    let targets = available(std::env::consts::ARCH, |target| has_library(target.name), is_in_path);
    if targets.is_empty() {
        bail!("neither of {} can be built here", TARGETS.map(|target| target.name).join(", "));
    }
    Ok(targets.into_iter().map(|(target, cc)| build(target, cc)).collect())
}

/// For each architecture the first target that has a standard library and a compiler for C, with that compiler.
fn available(
    machine: &str,
    has_library: impl Fn(&Target) -> bool,
    is_in_path: impl Fn(&str) -> bool,
) -> Vec<(Target, &'static str)> {
    let mut found: Vec<(Target, &str)> = Vec::new();
    for target in TARGETS {
        let cc = if target.architecture == machine { target.native_cc } else { target.cross_cc };
        let is_first = found.iter().all(|(earlier, _)| earlier.architecture != target.architecture);
        if is_first && has_library(&target) && is_in_path(cc) {
            found.push((target, cc));
        }
    }
    found
}

fn has_library(target: &str) -> bool {
    let asked = command("rustc", &["--print", "target-libdir", "--target", target]).output();
    asked.is_ok_and(|asked| Path::new(String::from_utf8_lossy(&asked.stdout).trim()).is_dir())
}

fn is_in_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|place| place.join(program).is_file())
}

fn build(target: Target, cc: &str) -> (Command, PathBuf) {
    let mut build = cargo(&["rustc", "--locked", "--release", "--package", "segno", "--bin", "segno"]);
    let mut place = workspace::target();
    // Named, the target of this machine would have a directory of its own, and everything be compiled once more.
    if !is_host(target) {
        let variable = target.name.replace('-', "_");
        build.args(["--target", target.name]);
        build.env(format!("CC_{variable}"), cc).env(format!("CARGO_TARGET_{}_LINKER", variable.to_uppercase()), cc);
        place = place.join(target.name);
    }
    // Only for the last crate: the crates below it are compiled alike in both cases.
    build.args(["--", "-C", "target-feature=+crt-static", "-C", PACKED_RELOCATIONS]);
    (build, place.join("release/segno"))
}

/// Whether this program was built for the target, and cargo builds for it by default.
fn is_host(target: Target) -> bool {
    let environment = if cfg!(target_env = "musl") { "musl" } else { "gnu" };
    target.name == format!("{}-unknown-linux-{environment}", std::env::consts::ARCH)
}

fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("{command:?} did not start"))?;
    if !status.success() {
        bail!("{command:?} failed ({status})");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(machine: &str, libraries: &[&str], compilers: &[&str]) -> Vec<(&'static str, &'static str)> {
        let found =
            available(machine, |target| libraries.contains(&target.name), |compiler| compilers.contains(&compiler));
        found.into_iter().map(|(target, cc)| (target.name, cc)).collect()
    }

    #[test]
    fn each_architecture_with_a_toolchain_is_built_once() {
        let (musl, gnu) = ("x86_64-unknown-linux-musl", "x86_64-unknown-linux-gnu");
        let (arm, arm_gnu) = ("aarch64-unknown-linux-musl", "aarch64-unknown-linux-gnu");
        assert_eq!(names("x86_64", &[gnu], &["cc"]), [(gnu, "cc")]);
        assert_eq!(names("x86_64", &[gnu, musl], &["cc", "musl-gcc"]), [(musl, "musl-gcc")]);
        // Without its compiler for C a target cannot be built.
        assert_eq!(names("x86_64", &[gnu, musl, arm], &["cc"]), [(gnu, "cc")]);
        assert_eq!(
            names("x86_64", &[gnu, arm_gnu], &["cc", "aarch64-linux-gnu-gcc"]),
            [(gnu, "cc"), (arm_gnu, "aarch64-linux-gnu-gcc")]
        );
        assert_eq!(names("aarch64", &[arm], &["musl-gcc", "cc"]), [(arm, "musl-gcc")]);
        assert!(names("x86_64", &[], &["cc"]).is_empty());
    }

    #[test]
    fn options_name_binaries_and_a_directory() {
        let read =
            |words: &[&str]| Options::from_words(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        let options = read(&["--binary", "a", "--binary", "b", "--to", "c"]).expect("known");
        assert_eq!(options, Options { binaries: vec!["a".into(), "b".into()], to: Some("c".into()) });
        assert_eq!(read(&[]).expect("known"), Options::default());
        assert!(read(&["--binary"]).is_err() && read(&["--nonsense", "x"]).is_err());
    }

    #[test]
    fn binaries_are_linked_statically() {
        for target in TARGETS {
            let (build, binary) = build(target, "some-gcc");
            let words: Vec<_> = build.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
            let flags = ["--", "-C", "target-feature=+crt-static", "-C", PACKED_RELOCATIONS];
            assert!(words.ends_with(&flags.map(str::to_owned)), "{words:?}");
            let place = if is_host(target) { workspace::target() } else { workspace::target().join(target.name) };
            assert_eq!(binary, place.join("release/segno"));
            let linker = format!("CARGO_TARGET_{}_LINKER", target.name.replace('-', "_").to_uppercase());
            let linker = build.get_envs().find(|(name, _)| *name == linker.as_str());
            assert_eq!(linker.is_none(), is_host(target), "{linker:?}");
        }
    }
}
