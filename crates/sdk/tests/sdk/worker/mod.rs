//! Workers against a real server: the program that `SEGNO_BIN` names.
//!
//! Plain `cargo test` ignores them, because it builds no server and has no Temporal to compare with. `cargo xtask test`
//! runs them all in its step `sdk`, against both servers; `--only build,venv,sdk` runs what they need and them alone.

mod arguments;
mod around;
mod caches;
mod client;
mod examples;
mod failing;
mod features;
mod lost;
mod nexus;
mod operations;
mod pages;
mod proxy;
mod python;
mod restarts;
mod segno_only;
mod shutdown;
mod standalone;
mod tasks;
mod versions;

use std::{
    path::PathBuf,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use segno_sdk::{Client, Queue, testing::TestServer};

/// Starts a server. Tests that need one fail if there is none.
async fn server() -> TestServer {
    // `RUST_LOG=debug` shows what workers do.
    let _ = tracing_subscriber::fmt().with_env_filter(tracing_subscriber::EnvFilter::from_default_env()).try_init();
    TestServer::start().await.expect("a server; SEGNO_BIN names one")
}

/// A queue that no other test has.
fn queue(client: &Client) -> Queue {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    client.queue(format!("queue-{}", COUNT.fetch_add(1, Ordering::Relaxed)))
}

/// A file of this test alone, for what tasks of several workers did. It does not exist yet.
fn scratch(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("segno-sdk-{}-{name}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    path
}

/// Waits until something is so, for at most 30 s.
async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let waited = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), waited).await.unwrap_or_else(|_| panic!("not within 30 s: {what}"));
}
