//! Which crate may use which. The table here is the drawing in `docs/internals/architecture.md`; Cargo.toml files must agree.

use crate::check::{Problem, Tree};

/// Crates and those of ours they may use, directly. A crate may always use itself (its tests do).
const MAY_USE: &[(&str, &[&str])] = &[
    ("segno-proto", &[]),
    ("segno-proto-json", &["segno-proto"]),
    ("segno-http2", &[]),
    ("segno-cron", &[]),
    // The language knows nothing of the server that executes it.
    ("segno-flow", &["segno-cron"]),
    ("segno-flow-lsp", &["segno-flow"]),
    ("segno-sdk-macros", &[]),
    // The wire only, so that it works against any server.
    ("segno-sdk", &["segno-proto", "segno-proto-json", "segno-sdk-macros"]),
    ("segno-engine", &["segno-cron", "segno-proto"]),
    ("segno-nexus", &["segno-engine", "segno-proto", "segno-proto-json"]),
    ("segno-store", &[]),
    ("segno-store-sqlite", &["segno-store"]),
    ("segno-tls", &[]),
    ("segno-http-client", &["segno-tls"]),
    ("segno-store-postgres", &["segno-store", "segno-tls"]),
    // The parts of a node: docs/internals/decisions/039-crates-of-a-node.md.
    ("segno-environment", &["segno-engine", "segno-proto", "segno-store"]),
    ("segno-deployments", &["segno-environment", "segno-proto", "segno-store"]),
    ("segno-matching", &["segno-deployments", "segno-environment", "segno-proto", "segno-store"]),
    ("segno-runs", &["segno-deployments", "segno-engine", "segno-environment", "segno-proto", "segno-store"]),
    (
        "segno-operations",
        &["segno-deployments", "segno-engine", "segno-environment", "segno-proto", "segno-runs", "segno-store"],
    ),
    (
        "segno-workers",
        &["segno-engine", "segno-environment", "segno-matching", "segno-proto", "segno-runs", "segno-store"],
    ),
    (
        "segno-dispatch",
        &[
            "segno-deployments",
            "segno-engine",
            "segno-environment",
            "segno-matching",
            "segno-proto",
            "segno-runs",
            "segno-store",
            "segno-workers",
        ],
    ),
    (
        "segno-http-sender",
        &[
            "segno-engine",
            "segno-environment",
            "segno-http-client",
            "segno-nexus",
            "segno-proto",
            "segno-runs",
            "segno-store",
        ],
    ),
    ("segno-scripts", &["segno-engine", "segno-environment", "segno-flow", "segno-proto", "segno-runs", "segno-store"]),
    (
        "segno-cluster",
        &[
            "segno-dispatch",
            "segno-deployments",
            "segno-engine",
            "segno-environment",
            "segno-matching",
            "segno-runs",
            "segno-store",
            "segno-tls",
            "segno-workers",
        ],
    ),
    (
        "segno-node",
        &[
            "segno-cluster",
            "segno-dispatch",
            "segno-deployments",
            "segno-engine",
            "segno-environment",
            "segno-http-sender",
            "segno-matching",
            "segno-operations",
            "segno-proto",
            "segno-runs",
            "segno-scripts",
            "segno-store",
            "segno-workers",
        ],
    ),
    ("segno-calls", &["segno-proto", "segno-engine", "segno-store", "segno-node"]),
    ("segno-security", &["segno-proto", "segno-node", "segno-calls", "segno-http-client", "segno-tls"]),
    // Calls reach the server through a port, so that these two compile beside it.
    ("segno-http-api", &["segno-proto", "segno-proto-json", "segno-flow", "segno-calls"]),
    (
        "segno-web",
        &["segno-proto", "segno-engine", "segno-flow", "segno-node", "segno-calls", "segno-security", "segno-http-api"],
    ),
    (
        "segno-server",
        &[
            "segno-proto",
            "segno-http2",
            "segno-calls",
            "segno-security",
            "segno-http-api",
            "segno-web",
            "segno-engine",
            "segno-flow",
            "segno-nexus",
            "segno-store",
            "segno-node",
        ],
    ),
    (
        "segno",
        &[
            "segno-proto",
            "segno-proto-json",
            "segno-flow",
            "segno-flow-lsp",
            "segno-store",
            "segno-store-postgres",
            "segno-store-sqlite",
            "segno-tls",
            "segno-node",
            "segno-server",
        ],
    ),
    (
        "segno-fuzz",
        &[
            "segno-proto",
            "segno-http2",
            "segno-engine",
            "segno-nexus",
            "segno-flow",
            "segno-store",
            "segno-node",
            "segno-server",
        ],
    ),
    // Has no code.
    ("segno-features", &["segno-proto", "segno-engine", "segno-sdk", "segno-store", "segno-store-postgres"]),
    // The real node and edge, over a simulated disk.
    ("segno-simulation", &["segno-proto", "segno-calls", "segno-engine", "segno-store", "segno-node", "segno-server"]),
    // Speaks to servers over the wire, so that what it proves holds for any server. The language and the SDK are for its examples, which
    // measure these alone.
    ("segno-harness", &["segno-proto", "segno-flow", "segno-sdk"]),
    // Temporal's own SDK, to measure ours against; not part of the workspace.
    ("official-worker", &[]),
    ("xtask", &[]),
];

/// Crates of others that a crate of ours must not use, and why.
const MUST_NOT_USE: &[(&str, &[&str], &str)] = &[
    (
        "segno-engine",
        &["tokio", "tonic", "rand", "getrandom", "rusqlite", "hyper", "tracing"],
        "the engine is pure: no waiting, no IO, no chance",
    ),
    (
        "segno-flow",
        &["tokio", "tonic", "prost", "rand", "getrandom", "rusqlite", "hyper", "tracing"],
        "the language is pure: no waiting, no IO, no chance",
    ),
    (
        "segno-flow-lsp",
        &["tokio", "tonic", "prost", "rand", "getrandom", "rusqlite", "hyper"],
        "editors wait for one answer after the other, and no server is asked",
    ),
    ("segno-store", &["tonic", "prost", "hyper"], "the contract knows bytes"),
    ("segno-store-sqlite", &["tokio", "tonic", "hyper"], "storage knows no requests, and its threads are its own"),
    ("segno-store-postgres", &["tonic", "hyper"], "storage knows no requests"),
    ("segno-environment", &["tonic", "hyper", "http", "rusqlite"], "only the server knows requests and statuses"),
    ("segno-matching", &["tonic", "hyper", "http", "rusqlite"], "only the server knows requests and statuses"),
    ("segno-operations", &["tonic", "hyper", "http", "rusqlite"], "only the server knows requests and statuses"),
    ("segno-runs", &["tonic", "hyper", "http", "rusqlite"], "only the server knows requests and statuses"),
    ("segno-workers", &["tonic", "hyper", "http", "rusqlite"], "only the server knows requests and statuses"),
    ("segno-dispatch", &["tonic", "hyper", "http", "rusqlite"], "only the server knows requests and statuses"),
    ("segno-scripts", &["tonic", "hyper", "http", "rusqlite"], "only the server knows requests and statuses"),
    ("segno-cluster", &["tonic", "hyper", "http", "rusqlite"], "only the server knows requests and statuses"),
    ("segno-node", &["tonic", "hyper", "http", "rusqlite"], "only the server knows requests and statuses"),
    ("xtask", &["clap", "prost", "serde_json", "tokio", "tonic"], "it must compile in seconds: see tools/harness"),
];

struct Manifest {
    name: String,
    /// Line and name of each dependency of any kind.
    dependencies: Vec<(usize, String)>,
}

/// Dependencies against the tables.
pub fn direction(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in tree.files.iter().filter(|file| file.path.ends_with("/Cargo.toml")) {
        let manifest = read(&file.text);
        let Some((_, allowed)) = MAY_USE.iter().find(|(name, _)| *name == manifest.name) else {
            let text = format!("`{}` has no place in the table of xtask/src/check_crates.rs", manifest.name);
            problems.push(Problem::of(&file.path, text));
            continue;
        };
        for (line, dependency) in &manifest.dependencies {
            let ours = dependency == "segno" || dependency == "xtask" || dependency.starts_with("segno-");
            if ours && *dependency != manifest.name && !allowed.contains(&dependency.as_str()) {
                let text = format!("`{}` may not use `{dependency}`", manifest.name);
                problems.push(Problem::at(&file.path, *line, text));
            }
            for (name, banned, why) in MUST_NOT_USE {
                if *name == manifest.name && banned.contains(&dependency.as_str()) {
                    let text = format!("`{name}` must not use `{dependency}`: {why}");
                    problems.push(Problem::at(&file.path, *line, text));
                }
            }
        }
    }
    problems
}

/// As much of a Cargo.toml as the check needs: its name and the names in its tables of dependencies.
fn read(text: &str) -> Manifest {
    let mut manifest = Manifest { name: String::new(), dependencies: Vec::new() };
    let mut section = String::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split(" #").next().unwrap_or_default().trim();
        if line.starts_with('#') || line.is_empty() {
            continue;
        }
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_matches(['[', ']']).to_owned();
            // `[dependencies.name]` is a dependency of its own.
            if let Some((table, name)) = section.rsplit_once('.')
                && table.ends_with("dependencies")
            {
                manifest.dependencies.push((number, name.to_owned()));
            }
            continue;
        }
        let Some((key, value)) = line.split_once('=') else { continue };
        let key = key.trim();
        if section == "package" && key == "name" {
            manifest.name = value.trim().trim_matches('"').to_owned();
        }
        if section.ends_with("dependencies") {
            let renamed = value.split("package = \"").nth(1).and_then(|rest| rest.split('"').next());
            let name = renamed.unwrap_or_else(|| key.split('.').next().unwrap_or(key));
            manifest.dependencies.push((number, name.to_owned()));
        }
    }
    manifest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(path: &str, text: &str) -> Vec<String> {
        direction(&Tree::of(&[(path, text)])).into_iter().map(|problem| problem.to_string()).collect()
    }

    #[test]
    fn allowed_directions_pass() {
        let text = "[package]\nname = \"segno-store-sqlite\"\n[dependencies]\nsegno-store.workspace = true\nbytes = \"1\"\n\
                    [dev-dependencies]\nsegno-store = { workspace = true, features = [\"kit\"] }\n";
        assert_eq!(problems("crates/store-sqlite/Cargo.toml", text), Vec::<String>::new());
    }

    #[test]
    fn a_wrong_direction_is_found_in_every_form() {
        for dependency in [
            "[dependencies]\nsegno-node.workspace = true",
            "[dev-dependencies]\nsegno-node = { path = \"../node\" }",
            "[build-dependencies]\nalias = { package = \"segno-node\", path = \"../node\" }",
            "[dependencies.segno-node]\npath = \"../node\"",
            "[target.'cfg(unix)'.dependencies]\nsegno-node = \"1\"",
        ] {
            let found =
                problems("crates/engine/Cargo.toml", &format!("[package]\nname = \"segno-engine\"\n{dependency}\n"));
            assert_eq!(found.len(), 1, "{dependency}: {found:?}");
            assert!(found[0].contains("`segno-engine` may not use `segno-node`"), "{found:?}");
        }
    }

    #[test]
    fn banned_crates_of_others_are_found() {
        let text = "[package]\nname = \"segno-engine\"\n[dependencies]\n# tonic = \"1\"\ntokio = \"1\"\n";
        let found = problems("crates/engine/Cargo.toml", text);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("crates/engine/Cargo.toml:5: ") && found[0].contains("tokio"), "{found:?}");
    }

    #[test]
    fn an_unknown_crate_must_be_placed() {
        assert!(problems("crates/x/Cargo.toml", "[package]\nname = \"segno-x\"\n")[0].contains("no place"));
    }
}
