//! Where the project's files are, and commands that run there.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    process::Command,
};

/// The workspace's directory.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new(".")).to_owned()
}

/// The cargo target directory.
pub fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// A command that runs in the workspace's directory. It does not get the variables with which cargo describes this package: build
/// scripts that read them, such as ring's, would run again, and everything above be compiled again, whenever a contributor calls
/// cargo without this program.
pub fn command(program: impl AsRef<OsStr>, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root());
    for (name, _) in std::env::vars_os() {
        if ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
            command.env_remove(name);
        }
    }
    command
}

/// The cargo that started this program.
pub fn cargo(arguments: &[&str]) -> Command {
    command(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()), arguments)
}
