//! Tells the binary which commit it was built from, for `segno --version`.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=SEGNO_COMMIT");
    println!("cargo:rerun-if-changed=../../.git/logs/HEAD");
    let given = std::env::var("SEGNO_COMMIT").ok().filter(|commit| !commit.is_empty());
    let commit = given.or_else(|| {
        let output = Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    });
    println!("cargo:rustc-env=SEGNO_BUILD_COMMIT={}", commit.unwrap_or_else(|| "unknown".to_owned()));
}
