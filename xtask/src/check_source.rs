//! Rules about Rust files: heads, length, what must not be left in them, the purity of the engine, and where requests
//! are known.
//!
//! Code is looked at with comments and texts blanked out ([`code`]) and, where a rule is not for tests, without the
//! items behind `#[cfg(test)]` ([`without_tests`]). Both keep every line where it was.

use crate::check::{File, Problem, Tree};

/// Most lines of a file outside tests.
const LINES_MAX: usize = 800;

/// What the engine must not name, and why.
const ENGINE_BANNED: &[(&str, &str)] = &[
    ("async", "the engine does not wait"),
    ("tokio", "the engine does not wait"),
    ("SystemTime", "time comes in with the call"),
    ("Instant", "time comes in with the call"),
    ("HashMap", "its order is random: use BTreeMap"),
    ("HashSet", "its order is random: use BTreeSet"),
    ("rand", "ids and random bits come in with the call"),
    ("getrandom", "ids and random bits come in with the call"),
    ("thread", "the engine is pure"),
    ("fs", "the engine does no IO"),
    ("net", "the engine does no IO"),
    ("println", "the engine does no IO"),
    ("eprintln", "the engine does no IO"),
];

/// Where no request of the protocol is known.
const REQUEST_FREE: &[&str] = &[
    "crates/engine/src/",
    "crates/environment/src/",
    "crates/matching/src/",
    "crates/operations/src/",
    "crates/runs/src/",
    "crates/workers/src/",
    "crates/dispatch/src/",
    "crates/scripts/src/",
    "crates/cluster/src/",
    "crates/node/src/",
];
/// The modules of `segno-proto` that requests are in.
const REQUEST_MODULES: &[&str] = &["workflowservice", "operatorservice"];
/// Files that still name a request. Take out those that no longer do; never add one.
const REQUEST_EXCEPTIONS: &[&str] = &[];

/// Where no doc comment begins with "What": it names the thing. Add a directory when it has none left.
const NOUNS_FIRST: &[&str] = &[
    "calls",
    "cluster",
    "cron",
    "dispatch",
    "engine",
    "environment",
    "http-api",
    "http2",
    "matching",
    "node",
    "operations",
    "proto",
    "proto-json",
    "runs",
    "scripts",
    "security",
    "server",
    "store",
    "store-postgres",
    "store-sqlite",
    "tls",
    "web",
    "workers",
];

/// Names that had two meanings or no standard one, and what to say instead. The glossary is in `docs/internals/architecture.md`.
const REPLACED: &[(&str, &str)] = &[
    ("Refused", "`CommandError` in the engine, `RequestError` in the server"),
    ("greeted", "`preface_received`"),
    ("introduced", "`settings_received`"),
];

/// The doc comment of an item begins with the thing and not with "What".
pub fn nouns_first(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    let covered = |file: &&File| NOUNS_FIRST.iter().any(|name| file.path.starts_with(&format!("crates/{name}/src/")));
    for file in rust(tree).filter(covered) {
        let mut inside = false;
        for (number, line) in (1..).zip(file.text.lines()) {
            let doc = line.trim_start().strip_prefix("///");
            if !inside && doc.is_some_and(|text| text.starts_with(" What ")) {
                problems.push(Problem::at(&file.path, number, "begin with the thing: \"The version that ...\""));
            }
            inside = doc.is_some();
        }
    }
    problems
}

fn rust(tree: &Tree) -> impl Iterator<Item = &File> {
    tree.files.iter().filter(|file| file.is_rust())
}

/// Every file begins by saying what it is.
pub fn heads(tree: &Tree) -> Vec<Problem> {
    let headless = rust(tree).filter(|file| !file.text.trim_start().starts_with("//!"));
    headless.map(|file| Problem::at(&file.path, 1, "begin with a module head (`//!`): what is this?")).collect()
}

/// No file is too long to be read at once.
pub fn length(tree: &Tree) -> Vec<Problem> {
    let count = |file: &File| file.text.lines().count();
    let long = rust(tree).filter(|file| !file.is_test() && count(file) > LINES_MAX);
    long.map(|file| {
        Problem::of(&file.path, format!("{} lines; more than {LINES_MAX} want to be two files", count(file)))
    })
    .collect()
}

/// `unwrap()` says nothing about why it cannot fail.
pub fn unwraps(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in rust(tree).filter(|file| !file.is_test()) {
        for (number, line) in (1..).zip(without_tests(&code(&file.text)).lines()) {
            if line.contains(".unwrap()") {
                let text = "`unwrap()` outside tests: handle it, or `expect(\"why this cannot fail\")`";
                problems.push(Problem::at(&file.path, number, text));
            }
        }
    }
    problems
}

/// Nothing is left for later without a word to the user.
pub fn undone(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in rust(tree) {
        for (number, line) in (1..).zip(code(&file.text).lines()) {
            for name in ["todo", "unimplemented", "dbg"] {
                if words(line).any(|(word, rest)| word == name && rest.starts_with('!')) {
                    problems.push(Problem::at(&file.path, number, format!("`{name}!` is left in the code")));
                }
            }
        }
    }
    problems
}

/// The engine has no IO, no clock, no chance and no waiting, and neither has the crate in which it computes times.
pub fn engine(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in rust(tree)
        .filter(|file| ["crates/cron/src/", "crates/engine/src/"].iter().any(|pure| file.path.starts_with(pure)))
    {
        for (number, line) in (1..).zip(without_tests(&code(&file.text)).lines()) {
            for (banned, why) in ENGINE_BANNED {
                if words(line).any(|(word, _)| word == *banned) {
                    problems.push(Problem::at(&file.path, number, format!("`{banned}` in the engine: {why}")));
                }
            }
        }
    }
    problems
}

/// Names that were given up do not come back.
pub fn names(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in rust(tree) {
        for (number, line) in (1..).zip(code(&file.text).lines()) {
            for (name, instead) in REPLACED.iter().filter(|(name, _)| words(line).any(|(word, _)| word == *name)) {
                problems.push(Problem::at(&file.path, number, format!("`{name}` was given up: {instead}")));
            }
        }
    }
    problems
}

/// Requests are known to the server alone: engine and runtime name nothing of the modules they are in.
pub fn requests(tree: &Tree) -> Vec<Problem> {
    requests_except(tree, REQUEST_EXCEPTIONS)
}

fn requests_except(tree: &Tree, exceptions: &[&str]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in rust(tree).filter(|file| REQUEST_FREE.iter().any(|place| file.path.starts_with(place))) {
        let code = without_tests(&code(&file.text));
        let mut found = (1..).zip(code.lines()).filter_map(|(number, line)| {
            words(line).find(|(word, _)| REQUEST_MODULES.contains(word)).map(|(word, _)| (number, word))
        });
        if exceptions.contains(&file.path.as_str()) {
            if found.next().is_none() {
                let text = "no longer names requests: take it out of REQUEST_EXCEPTIONS in xtask/src/check_source.rs";
                problems.push(Problem::of(&file.path, text));
            }
            continue;
        }
        problems.extend(found.map(|(number, module)| {
            let text = format!("`{module}`: requests belong to the server; engine and runtime have types of their own");
            Problem::at(&file.path, number, text)
        }));
    }
    let gone = exceptions.iter().filter(|path| !tree.has(path));
    problems.extend(gone.map(|path| Problem::of(path, "does not exist: take it out of REQUEST_EXCEPTIONS")));
    problems
}

/// Each identifier of a line with what follows it.
pub fn words(line: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut rest = line;
    std::iter::from_fn(move || {
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        let start = rest.find(is_part)?;
        let tail = &rest[start..];
        let end = tail.find(|c| !is_part(c)).unwrap_or(tail.len());
        rest = &tail[end..];
        Some((&tail[..end], rest))
    })
}

/// The code of a file: comments, texts and characters become blanks, lines stay.
pub fn code(text: &str) -> String {
    let characters: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < characters.len() {
        let end = skipped(&characters, at);
        if end > at {
            out.extend(characters[at..end].iter().map(|c| if *c == '\n' { '\n' } else { ' ' }));
            at = end;
        } else {
            out.push(characters[at]);
            at += 1;
        }
    }
    out
}

/// Where the comment, text or character that begins at a place ends; the place itself if none does.
fn skipped(characters: &[char], at: usize) -> usize {
    let get = |index: usize| characters.get(index).copied().unwrap_or('\0');
    let inside_word = at > 0 && (get(at - 1).is_alphanumeric() || get(at - 1) == '_');
    match (get(at), get(at + 1)) {
        ('/', '/') => (at..characters.len()).find(|index| get(*index) == '\n').unwrap_or(characters.len()),
        ('/', '*') => block_comment_end(characters, at),
        ('"', _) => text_end(characters, at),
        ('r', '"' | '#') if !inside_word => raw_text_end(characters, at + 1).unwrap_or(at),
        ('b', 'r') if !inside_word => raw_text_end(characters, at + 2).unwrap_or(at),
        ('\'', '\\') => (at + 3..characters.len()).find(|index| get(*index) == '\'').map_or(at, |end| end + 1),
        // `'a'` is a character, `'a` a lifetime.
        ('\'', _) if get(at + 2) == '\'' => at + 3,
        _ => at,
    }
}

fn block_comment_end(characters: &[char], at: usize) -> usize {
    let (mut depth, mut index) = (0_usize, at);
    while index + 1 < characters.len() {
        match (characters[index], characters[index + 1]) {
            ('/', '*') => (depth, index) = (depth + 1, index + 2),
            ('*', '/') => {
                (depth, index) = (depth - 1, index + 2);
                if depth == 0 {
                    return index;
                }
            }
            _ => index += 1,
        }
    }
    characters.len()
}

fn text_end(characters: &[char], at: usize) -> usize {
    let mut index = at + 1;
    while index < characters.len() {
        match characters[index] {
            '\\' => index += 2,
            '"' => return index + 1,
            _ => index += 1,
        }
    }
    characters.len()
}

/// The end of `#*"..."#*` that begins at a place, if one does.
fn raw_text_end(characters: &[char], at: usize) -> Option<usize> {
    let hashes = characters[at..].iter().take_while(|c| **c == '#').count();
    if characters.get(at + hashes) != Some(&'"') {
        return None;
    }
    let mut index = at + hashes + 1;
    while index < characters.len() {
        let closes = characters[index + 1..].iter().take(hashes).filter(|c| **c == '#').count() == hashes;
        if characters[index] == '"' && closes {
            return Some(index + 1 + hashes);
        }
        index += 1;
    }
    Some(characters.len())
}

/// Code with the items behind `#[cfg(test)]` blanked.
pub fn without_tests(code: &str) -> String {
    const MARK: &str = "#[cfg(test)]";
    let mut out = String::with_capacity(code.len());
    let mut rest = code;
    while let Some(start) = rest.find(MARK) {
        out.push_str(&rest[..start]);
        let item = &rest[start..];
        let end = item_end(item);
        out.extend(item[..end].chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        rest = &item[end..];
    }
    out.push_str(rest);
    out
}

/// The end of an item: its first `;` or the brace that closes its first one.
fn item_end(item: &str) -> usize {
    let mut depth = 0_usize;
    for (at, character) in item.char_indices() {
        match character {
            '{' => depth += 1,
            '}' if depth == 1 => return at + 1,
            '}' => depth = depth.saturating_sub(1),
            ';' if depth == 0 => return at + 1,
            _ => {}
        }
    }
    item.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: [usize; 0] = [];

    fn lines(check: fn(&Tree) -> Vec<Problem>, path: &str, text: &str) -> Vec<usize> {
        check(&Tree::of(&[(path, text)])).into_iter().map(|problem| problem.line).collect()
    }

    #[test]
    fn a_file_without_a_head_is_found() {
        assert_eq!(lines(heads, "a.rs", "use std::fmt;\n"), [1]);
        assert_eq!(lines(heads, "a.rs", "//! What this is.\nuse std::fmt;\n"), NONE);
        assert_eq!(lines(heads, "a.py", "import os\n"), NONE);
    }

    #[test]
    fn a_doc_comment_that_begins_with_what_is_found() {
        let text =
            "/// What it does.\nfn a() {}\n/// The sum.\n/// What is left of it.\nfn b() {}\n//! What is this?\n";
        assert_eq!(lines(nouns_first, "crates/runs/src/a.rs", text), [1]);
        assert_eq!(lines(nouns_first, "crates/runs/tests/a.rs", text), NONE);
    }

    #[test]
    fn a_long_file_is_found_but_tests_may_be_long() {
        let long = "//!\n".repeat(LINES_MAX + 1);
        assert_eq!(lines(length, "crates/a/src/a.rs", &long), [0]);
        assert_eq!(lines(length, "crates/a/tests/a.rs", &long), NONE);
        assert_eq!(lines(length, "crates/a/src/a_tests.rs", &long), NONE);
        assert_eq!(lines(length, "crates/a/src/a.rs", &"//!\n".repeat(LINES_MAX)), NONE);
    }

    #[test]
    fn unwrap_is_found_in_code_alone() {
        assert_eq!(lines(unwraps, "a.rs", "fn a() {\n    b().unwrap();\n}\n"), [2]);
        assert_eq!(lines(unwraps, "a.rs", "// b().unwrap()\n/* .unwrap() /* .unwrap() */ .unwrap() */\n"), NONE);
        assert_eq!(lines(unwraps, "a.rs", "const A: &str = \".unwrap()\\\".unwrap()\";\n"), NONE);
        assert_eq!(lines(unwraps, "a.rs", "const A: &str = r#\"\".unwrap()\"#;\n"), NONE);
        assert_eq!(lines(unwraps, "a.rs", "fn a<'a>(b: &'a str, c: char) { c == '\"'; b.x().unwrap(); }\n"), [1]);
        assert_eq!(lines(unwraps, "a.rs", "fn a() { b().unwrap_or(1); }\n"), NONE);
    }

    #[test]
    fn unwrap_is_allowed_in_tests_and_found_after_them() {
        let text = "#[cfg(test)]\nmod tests {\n    fn a() { b().unwrap(); }\n}\nfn c() { d().unwrap(); }\n";
        assert_eq!(lines(unwraps, "a.rs", text), [5]);
        assert_eq!(lines(unwraps, "a.rs", "#[cfg(test)]\nmod tests;\nfn c() { d().unwrap(); }\n"), [3]);
        assert_eq!(lines(unwraps, "crates/a/tests/b.rs", "fn c() { d().unwrap(); }\n"), NONE);
        assert_eq!(lines(unwraps, "crates/store/src/kit/reads.rs", "fn c() { d().unwrap(); }\n"), NONE);
        assert_eq!(lines(unwraps, "crates/store/src/memory.rs", "fn c() { d().unwrap(); }\n"), [1]);
    }

    #[test]
    fn what_is_left_undone_is_found() {
        for name in ["todo", "unimplemented", "dbg"] {
            assert_eq!(lines(undone, "a.rs", &format!("fn a() {{\n    {name}!();\n}}\n")), [2]);
            assert_eq!(lines(undone, "a.rs", &format!("// {name}!()\nfn {name}() {{}}\n")), NONE);
        }
    }

    #[test]
    fn an_impure_engine_is_found() {
        for line in [
            "async fn a() {}",
            "use tokio::sync::Mutex;",
            "use std::time::SystemTime;",
            "use std::time::Instant;",
            "use std::collections::HashMap;",
            "use std::collections::HashSet;",
            "let a = rand::random();",
            "std::fs::read(path);",
        ] {
            assert_eq!(lines(engine, "crates/engine/src/a.rs", line), [1], "{line}");
            assert_eq!(lines(engine, "crates/runs/src/a.rs", line), NONE, "{line}");
        }
        assert_eq!(lines(engine, "crates/engine/src/a.rs", "// No HashMap, no async.\nlet random = operand;"), NONE);
    }
    #[test]
    fn names_that_were_given_up_are_found() {
        for (name, _) in REPLACED {
            assert_eq!(lines(names, "a.rs", &format!("fn a() {{\n    let b = {name}::new();\n}}\n")), [2]);
            assert_eq!(
                lines(names, "a.rs", &format!("// {name}\nconst A: &str = \"{name}\";\nlet {name}s = 1;")),
                NONE
            );
        }
    }

    #[test]
    fn requests_outside_the_server_are_found() {
        let line = "use segno_proto::{\n    workflowservice::StartWorkflowExecutionRequest,\n};\n";
        let found = |path: &str, text: &str, exceptions: &[&str]| {
            requests_except(&Tree::of(&[(path, text)]), exceptions).into_iter().map(|problem| problem.line).collect()
        };
        let lines = |path: &str, text: &str| -> Vec<usize> { found(path, text, &[]) };
        assert_eq!(lines("crates/engine/src/a.rs", line), [2]);
        assert_eq!(lines("crates/runs/src/a/b.rs", "fn a(b: segno_proto::operatorservice::C) {}"), [1]);
        assert_eq!(lines("crates/server/src/a.rs", line), NONE);
        assert_eq!(
            lines("crates/engine/src/a.rs", "// workflowservice\n#[cfg(test)]\nuse workflowservice::A;\n"),
            NONE
        );
        let excepted = |path: &str, text: &str| -> Vec<usize> { found(path, text, &["crates/engine/src/a.rs"]) };
        assert_eq!(excepted("crates/engine/src/a.rs", line), NONE);
        // An exception that is not needed must go.
        assert_eq!(excepted("crates/engine/src/a.rs", "fn a() {}"), [0]);
        assert_eq!(excepted("crates/engine/src/b.rs", "fn a() {}"), [0]);
    }
}
