//! The rule that a node takes nothing from the machine but what it is given (decision 041): no clock, thread, random number or
//! socket, and nothing whose order is random.
//!
//! Tasks, sleeps and `tokio::time::Instant` belong to the runtime, which is given as well, so they are allowed. `clippy.toml` of these
//! crates bans the same things where names do not show them.

use crate::{
    check::{Problem, Tree},
    check_source::{code, without_tests, words},
};

/// The crates of a node.
const NODE: &[&str] = &[
    "environment",
    "matching",
    "runs",
    "operations",
    "workers",
    "dispatch",
    "scripts",
    "cluster",
    "node",
    "security",
    "server",
    "web",
];
/// Where the machine is asked, and maps get their seeds, for [`Environment`](../../crates/environment/src/environment.rs).
const MACHINE: &[&str] =
    &["crates/environment/src/hash.rs", "crates/environment/src/machine.rs", "crates/environment/src/system_time.rs"];
/// Files of the edge that still ask the machine themselves. Take out those that no longer do; never add one.
const EXCEPTIONS: &[&str] = &[
    // The edge's sockets and the threads for its two ports.
    "crates/server/src/connections/accept.rs",
    "crates/server/src/connections/mod.rs",
    "crates/server/src/http.rs",
    "crates/server/src/serve.rs",
    "crates/security/src/tls.rs",
    // The audit file, traces.
    "crates/security/src/audit.rs",
    "crates/server/src/otel/mod.rs",
    // Secrets of keys and their expiry by the wall clock, request ids and times of pages, the queues of fair shares.
    "crates/security/src/lib.rs",
    "crates/server/src/connections/fair_share.rs",
    "crates/web/src/times.rs",
    "crates/web/src/workflows_actions.rs",
];

/// What must not be reached by a path of the standard library.
const STD_BANNED: &[(&str, &str)] = &[
    ("Instant", "`tokio::time::Instant` follows the runtime"),
    ("SystemTime", "`Environment::clock` has the time"),
    ("thread", "`Environment::threads` starts threads"),
    ("HashMap", "its order is random: `segno_environment::HashMap` has a seed that is given"),
    ("HashSet", "its order is random: `segno_environment::hash::HashSet` has a seed that is given"),
    ("RandomState", "`segno_environment::hash::RandomState` has a seed that is given"),
];
/// Paths of `std::thread` that start nothing.
const STD_ALLOWED: &[&str] = &["std::thread::panicking", "std::thread::Result"];
/// What must not be named at all.
const BANNED: &[(&str, &str)] = &[
    ("TcpStream", "`Environment::network` connects"),
    ("TcpListener", "`Environment::network` listens"),
    ("UdpSocket", "`Environment::network` connects"),
    ("UnixStream", "`Environment::network` connects"),
    ("getrandom", "`Environment::random` has random bits"),
    ("SystemRandom", "`Environment::random` has random bits"),
    ("new_v4", "`Ids` makes ids"),
    ("spawn_blocking", "`Environment::threads` starts threads"),
    ("block_in_place", "`Environment::threads` starts threads"),
];

/// A node takes nothing from the machine.
pub fn given(tree: &Tree) -> Vec<Problem> {
    given_except(tree, EXCEPTIONS)
}

fn given_except(tree: &Tree, exceptions: &[&str]) -> Vec<Problem> {
    let of_node = |path: &str| NODE.iter().any(|name| path.starts_with(&format!("crates/{name}/src/")));
    let mut problems = Vec::new();
    for file in tree.files.iter().filter(|file| file.is_rust() && !file.is_test() && of_node(&file.path)) {
        if MACHINE.contains(&file.path.as_str()) {
            continue;
        }
        let mut found = violations(&without_tests(&code(&file.text)));
        if exceptions.contains(&file.path.as_str()) {
            if found.is_empty() {
                problems.push(Problem::of(
                    &file.path,
                    "no longer asks the machine: take it out of EXCEPTIONS in xtask/src/check_given.rs",
                ));
            }
            continue;
        }
        found.sort_unstable();
        problems.extend(found.into_iter().map(|(line, text)| Problem::at(&file.path, line, text)));
    }
    let gone = exceptions.iter().filter(|path| !tree.has(path));
    problems.extend(
        gone.map(|path| Problem::of(path, "does not exist: take it out of EXCEPTIONS in xtask/src/check_given.rs")),
    );
    problems
}

/// Lines and what is wrong with them.
fn violations(code: &str) -> Vec<(usize, String)> {
    let line_of = |at: usize| 1 + code[..at].matches('\n').count();
    let mut found = Vec::new();
    for (at, _) in code.match_indices("std::").filter(|(at, _)| !code[..*at].ends_with(is_part)) {
        let path = std_path(&code[at..]);
        if STD_ALLOWED.contains(&path) {
            continue;
        }
        for (word, rest) in words(path) {
            for (_, instead) in STD_BANNED.iter().filter(|(banned, _)| *banned == word) {
                let place = at + path.len() - rest.len();
                found.push((line_of(place), format!("`{word}` of the standard library in a node: {instead}")));
            }
        }
    }
    for (word, rest) in words(code) {
        let line = || line_of(code.len() - rest.len());
        for (_, instead) in BANNED.iter().filter(|(banned, _)| *banned == word) {
            found.push((line(), format!("`{word}` in a node: {instead}")));
        }
        if word == "select" && rest.starts_with("! {") && !rest[3..].trim_start().starts_with("biased;") {
            found.push((line(), "`select!` begins at a random branch: write `biased;` and the order".to_owned()));
        }
    }
    found
}

fn is_part(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// The path that a text begins with, up to its end or to the brace that closes its first one.
fn std_path(text: &str) -> &str {
    let mut depth = 0_usize;
    let end = text.char_indices().find_map(|(at, character)| {
        match character {
            '{' => depth += 1,
            '}' if depth <= 1 => return Some(at + depth),
            '}' => depth -= 1,
            _ if depth == 0 && !is_part(character) && character != ':' => return Some(at),
            _ => {}
        }
        None
    });
    &text[..end.unwrap_or(text.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: [usize; 0] = [];

    fn lines(path: &str, text: &str) -> Vec<usize> {
        given_except(&Tree::of(&[(path, text)]), &[]).into_iter().map(|problem| problem.line).collect()
    }

    #[test]
    fn what_a_node_takes_from_the_machine_is_found() {
        for line in [
            "use std::time::Instant;",
            "use std::{sync::Arc, time::{Duration, Instant}};",
            "let now = std::time::SystemTime::now();",
            "std::thread::spawn(work);",
            "std::thread::sleep(pause);",
            "use std::thread;",
            "use std::collections::{BTreeMap, HashMap};",
            "let seen = std::collections::HashSet::new();",
            "use std::hash::{BuildHasher, RandomState};",
            "use tokio::net::TcpStream;",
            "let listener = tokio::net::TcpListener::bind(address).await?;",
            "getrandom::fill(&mut bytes)?;",
            "let id = uuid::Uuid::new_v4();",
            "tokio::task::spawn_blocking(work);",
            "tokio::select! {\n    () = a => {}\n}",
        ] {
            assert_eq!(lines("crates/runs/src/a.rs", line), [1], "{line}");
            assert_eq!(lines("crates/cli/src/a.rs", line), NONE, "{line}");
            assert_eq!(lines("crates/environment/src/machine.rs", line), NONE, "{line}");
            assert_eq!(
                lines("crates/runs/src/a.rs", &format!("#[cfg(test)]\nmod tests {{\n{line}\n}}\n")),
                NONE,
                "{line}"
            );
        }
        assert_eq!(lines("crates/cluster/src/a.rs", "use std::{\n    sync::Arc,\n    time::Instant,\n};\n"), [3]);
    }

    #[test]
    fn what_the_runtime_gives_is_allowed() {
        for line in [
            "use tokio::time::Instant;",
            "use std::{sync::Arc, time::Duration};\nuse tokio::time::Instant;",
            "tokio::spawn(work);",
            "use segno_environment::HashMap;",
            "if std::thread::panicking() {}",
            "tokio::select! {\n    biased;\n    () = a => {}\n}",
            "// std::time::Instant\nlet a = \"std::thread\";",
            "use crate::{threads::Threads, std_names::Instant};",
        ] {
            assert_eq!(lines("crates/runs/src/a.rs", line), NONE, "{line}");
        }
    }

    #[test]
    fn an_exception_that_is_not_needed_must_go() {
        let found =
            |text: &str| given_except(&Tree::of(&[("crates/web/src/a.rs", text)]), &["crates/web/src/a.rs"]).len();
        assert_eq!(found("use std::time::Instant;"), 0);
        assert_eq!(found("use tokio::time::Instant;"), 1);
        assert_eq!(given_except(&Tree::of(&[]), &["crates/web/src/a.rs"]).len(), 1);
    }
}
