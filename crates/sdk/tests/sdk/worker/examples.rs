//! The programs of `examples/rust`, as their readers run them: each against a server, and what it prints.

use std::{path::PathBuf, process::Command};

use super::server;

/// Each program with what it prints.
const PROGRAMS: [(&str, &str); 12] = [
    ("hello", "Hello, Ann!\n"),
    ("quote", "24\n"),
    ("digest", "6\n"),
    ("render", "forest.mp4\n"),
    ("trip", "cancelled acme/rome\ntask book failed: no seats\n"),
    ("cart", "450\n"),
    ("book", "6\n"),
    ("invoice", "paid\n"),
    ("crawl", "Some(3)\n"),
    ("approval", "Decision { by: \"Ann\", approved: true }\n"),
    ("backup", "cleaned up after /home\n"),
    ("payments", "charged 450\n"),
];

/// Where cargo puts a program: beside the directory of tests.
fn path(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let path = test.parent().and_then(|deps| deps.parent()).unwrap().join("examples").join(name);
    assert!(path.exists(), "{} is missing: cargo build -p segno-sdk --examples", path.display());
    path
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn programs_print_what_they_say() {
    let server = server().await;
    server.create_nexus_endpoint("payments", &server.client().queue("payments")).await.unwrap();
    for (name, expected) in PROGRAMS {
        let address = server.address().to_owned();
        let run = move || Command::new(path(name)).env("TEMPORAL_ADDRESS", address).output().unwrap();
        let output = tokio::task::spawn_blocking(run).await.unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}: {errors}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{name}: {errors}");
    }
}
