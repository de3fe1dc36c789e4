//! No large circles of files: sets of files of one crate that all use each other, directly or through others.
//!
//! Such a set can only be understood as a whole. Paths that begin with `crate`, `super` or `self` are followed, outside the tests at
//! the end of a file. A parent that only re-exports its children does not use them, and the root of a crate is no part of
//! a circle.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    check::{File, Problem, Tree},
    check_source::{code, without_tests},
};

/// Most files of a circle.
const CIRCLE_MAX: usize = 5;

/// Crates with larger circles, and the size of the largest. A value may only go down; a crate that keeps the rule has none.
const EXCEPTIONS: &[(&str, usize)] = &[];

/// A module as its path in the crate.
type Module = Vec<String>;
type Graph = BTreeMap<Module, BTreeSet<Module>>;

/// Circles that are too large.
pub fn circles(tree: &Tree) -> Vec<Problem> {
    circles_except(tree, EXCEPTIONS)
}

fn circles_except(tree: &Tree, exceptions: &[(&str, usize)]) -> Vec<Problem> {
    let mut crates: BTreeMap<&str, BTreeMap<Module, &File>> = BTreeMap::new();
    for file in tree.files.iter().filter(|file| file.is_rust() && !file.is_test()) {
        if let Some((name, path)) = file.path.strip_prefix("crates/").and_then(|rest| rest.split_once("/src/")) {
            crates.entry(name).or_default().insert(module(path), file);
        }
    }
    let mut problems = Vec::new();
    for (name, files) in &crates {
        let mut found = largest_first(&graph(files));
        found.retain(|circle| circle.len() > CIRCLE_MAX);
        let limit = exceptions.iter().find(|(excepted, _)| excepted == name).map_or(CIRCLE_MAX, |(_, limit)| *limit);
        let path = format!("crates/{name}");
        let size = found.first().map_or(0, Vec::len);
        if limit > CIRCLE_MAX && size < limit {
            let text =
                format!("largest circle {size} files: lower the {limit} of EXCEPTIONS in xtask/src/check_circles.rs");
            problems.push(Problem::of(&path, text));
        }
        for circle in found.iter().filter(|circle| circle.len() > limit) {
            let names: Vec<_> = circle.iter().map(|module| module.join("::")).collect();
            let text = format!("{} files use each other, at most {limit} may: {}", circle.len(), names.join(", "));
            problems.push(Problem::of(&path, text));
        }
    }
    let gone = exceptions.iter().filter(|(name, _)| !crates.contains_key(name));
    problems.extend(
        gone.map(|(name, _)| Problem::of(&format!("crates/{name}"), "does not exist: take it out of EXCEPTIONS")),
    );
    problems
}

/// The module of a file, by its path below `src`.
fn module(path: &str) -> Module {
    let mut parts: Module = path.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    if parts.last().is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str())) {
        parts.pop();
    }
    parts
}

/// Which files each file uses.
fn graph(files: &BTreeMap<Module, &File>) -> Graph {
    let used = |(module, file): (&Module, &&File)| {
        let code = without_tests(&code(&file.text));
        // Attributes name types in texts.
        let attributes = file.text.lines().filter(|line| line.trim_start().starts_with("#[")).flat_map(paths);
        let used = paths(&code).into_iter().chain(attributes).filter_map(|(path, is_reexport)| {
            let target = target(module, &path, files)?;
            let is_child = is_reexport && target.starts_with(module);
            (target != *module && !target.is_empty() && !is_child).then_some(target)
        });
        (module.clone(), used.collect())
    };
    files.iter().map(used).collect()
}

/// The file that a path leads to.
fn target(from: &Module, path: &[String], files: &BTreeMap<Module, &File>) -> Option<Module> {
    let mut full = from.clone();
    let mut parts = path.iter().peekable();
    match parts.next()?.as_str() {
        "crate" => full.clear(),
        "self" => {}
        _ => {
            full.pop();
            while parts.next_if(|part| *part == "super").is_some() {
                full.pop();
            }
        }
    }
    full.extend(parts.cloned());
    while !full.is_empty() && !files.contains_key(&full) {
        full.pop();
    }
    files.contains_key(&full).then_some(full)
}

/// The paths within the crate that a text names, and whether each is re-exported.
fn paths(code: &str) -> Vec<(Vec<String>, bool)> {
    let mut found = Vec::new();
    for start in ["crate", "super", "self"] {
        for (at, _) in code.match_indices(start) {
            let (before, rest) = code.split_at(at);
            if before.ends_with(is_part) || !rest[start.len()..].trim_start().starts_with("::") {
                continue;
            }
            let before = before.trim_end();
            // Within another path, or `$crate`.
            if before.ends_with("::") || before.ends_with('$') {
                continue;
            }
            let declaration = before.rsplit([';', '}', '{']).next().unwrap_or_default();
            let mut words = declaration.split_whitespace().rev();
            if words.next() == Some("use") {
                let is_reexport = words.next().is_some_and(|word| word.starts_with("pub"));
                let end = rest.find(';').unwrap_or(rest.len());
                found.extend(expanded(&rest[..end]).into_iter().map(|path| (path, is_reexport)));
            } else if start != "self" {
                let end = rest.find(|c| !is_part(c) && c != ':').unwrap_or(rest.len());
                found.push((segments(&rest[..end]), false));
            }
        }
    }
    found
}

fn is_part(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The parts of a path without braces; what it is renamed to is left out.
fn segments(path: &str) -> Vec<String> {
    let parts = path.split("::").filter_map(|part| part.split_whitespace().next());
    parts.filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

/// `a::{b, c::{d, e}}` as `a::b`, `a::c::d` and `a::c::e`.
fn expanded(path: &str) -> Vec<Vec<String>> {
    let Some((head, body)) = path.split_once('{') else { return vec![segments(path)] };
    let body = body.rsplit_once('}').map_or(body, |(body, _)| body);
    let head = segments(head);
    let mut depth = 0_usize;
    let parts = body.split(|c| {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    });
    let tails = parts.filter(|part| !part.trim().is_empty()).flat_map(expanded);
    tails.map(|tail| [head.clone(), tail].concat()).collect()
}

/// The circles of a graph: what can be reached from a file and from where it can be reached again.
fn largest_first(graph: &Graph) -> Vec<Vec<Module>> {
    let reached: BTreeMap<&Module, BTreeSet<&Module>> =
        graph.keys().map(|from| (from, reachable(graph, from))).collect();
    let mut circles: BTreeSet<Vec<Module>> = BTreeSet::new();
    for (from, reachable) in &reached {
        let back = reachable.iter().filter(|to| reached[**to].contains(*from));
        let circle: Vec<Module> = back.map(|module| (*module).clone()).collect();
        if circle.len() > 1 {
            circles.insert(circle);
        }
    }
    let mut circles: Vec<_> = circles.into_iter().collect();
    circles.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
    circles
}

fn reachable<'a>(graph: &'a Graph, from: &'a Module) -> BTreeSet<&'a Module> {
    let mut reached = BTreeSet::new();
    let mut waiting = vec![from];
    while let Some(module) = waiting.pop() {
        for used in graph.get(module).into_iter().flatten() {
            if reached.insert(used) {
                waiting.push(used);
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A crate whose files `m0` to `m{count-1}` use each the next, the last one the first.
    fn ring(count: usize) -> Tree {
        let texts: Vec<_> = (0..count)
            .map(|at| (format!("crates/a/src/m{at}.rs"), format!("use crate::m{}::B;\n", (at + 1) % count)))
            .collect();
        Tree::of(&texts.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect::<Vec<_>>())
    }

    #[test]
    fn large_circles_are_found_and_named() {
        assert_eq!(circles_except(&ring(CIRCLE_MAX), &[]), []);
        let found = circles_except(&ring(CIRCLE_MAX + 1), &[]);
        assert_eq!(found.len(), 1);
        assert!(
            found[0].to_string().starts_with("crates/a: 6 files use each other, at most 5 may: m0, m1,"),
            "{found:?}"
        );
    }

    #[test]
    fn exceptions_only_go_down() {
        assert_eq!(circles_except(&ring(8), &[("a", 8)]), []);
        assert_eq!(circles_except(&ring(9), &[("a", 8)]).len(), 1);
        assert_eq!(circles_except(&ring(7), &[("a", 8)]).len(), 1);
        assert_eq!(circles_except(&ring(3), &[("a", 8)]).len(), 1);
        assert_eq!(circles_except(&ring(3), &[("b", 8)]).len(), 1);
    }

    #[test]
    fn every_form_of_path_counts() {
        let size = |first: &str, second: &str| {
            let tree = Tree::of(&[
                ("crates/a/src/b/mod.rs", first),
                ("crates/a/src/b/c.rs", second),
                ("crates/a/src/lib.rs", "mod b;\nuse crate::b::c;\n"),
            ]);
            let files = tree.files.iter().map(|file| (module(&file.path["crates/a/src/".len()..]), file)).collect();
            largest_first(&graph(&files)).first().map_or(0, Vec::len)
        };
        for first in [
            "use self::c::D;",
            "use crate::{x, b::{c::{D as E}, f}};",
            "fn a() { crate::b::c::d(); }",
            "pub fn a() {}\nuse self::c;",
            "#[prost(enumeration = \"crate::b::c::D\", tag = \"1\")]",
        ] {
            for second in ["use super::X;", "fn d() { super::x(); }", "use crate::b;"] {
                assert_eq!(size(first, second), 2, "{first} {second}");
            }
        }
        for first in [
            "pub use self::c::D;",
            "pub(crate) use self::c::D;",
            "// crate::b::c::d()",
            "#[cfg(test)]\nmod t { use crate::b::c::D; }",
        ] {
            assert_eq!(size(first, "use super::X;"), 0, "{first}");
        }
        assert_eq!(size("use self::c::D;", "use crate::X;"), 0);
    }
}
