//! Rules about documents and other text: nothing of the machine it was written on, links that lead somewhere. That the
//! compatibility page agrees with the code is a test of `crates/server`, because it needs the protocol.

use crate::check::{Problem, Tree};

const README: &str = "README.md";
/// The README has fewer lines than this.
const README_LINES_END: usize = 120;

/// Places of a machine and package hosts. Put together from pieces, so that this file does not find itself.
const MACHINE: &[&str] = &[
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/"),
    concat!("/ho", "me/"),
    concat!("/Us", "ers/"),
    concat!("C:\\Us", "ers"),
    concat!("npm", "js.org"),
    concat!("npm", "js.com"),
    concat!("yarn", "pkg.com"),
    concat!("pypi", ".org"),
    concat!("python", "hosted.org"),
    concat!("index.", "crates.io"),
    concat!("static.", "crates.io"),
    concat!("arti", "factory"),
    concat!("proxy.", "golang.org"),
];

/// No text names the machine it was written on, or where packages come from.
pub fn machines(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    // Cargo's lock file names the public registry in its own fixed way.
    for file in tree.files.iter().filter(|file| file.path != "Cargo.lock") {
        for (number, line) in (1..).zip(file.text.lines()) {
            for pattern in MACHINE.iter().filter(|pattern| line.contains(*pattern)) {
                let text = format!("`{pattern}` belongs to a machine or a package host, not into the project");
                problems.push(Problem::at(&file.path, number, text));
            }
        }
    }
    problems
}

/// The README can be read in one go.
pub fn readme(tree: &Tree) -> Vec<Problem> {
    match tree.text(README).map(|text| text.lines().count()) {
        None => vec![Problem::of(README, "is missing")],
        Some(lines) if lines >= README_LINES_END => {
            vec![Problem::of(README, format!("{lines} lines, must be fewer than {README_LINES_END}"))]
        }
        Some(_) => Vec::new(),
    }
}

/// Lock files of npm say what is installed, not where it came from.
pub fn lock_files(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in tree.files.iter().filter(|file| file.path.ends_with("package-lock.json")) {
        for (number, line) in (1..).zip(file.text.lines()) {
            if line.contains("\"resolved\"") && line.contains("://") {
                problems.push(Problem::at(&file.path, number, "names a host: npm's omit-lockfile-registry-resolved"));
            }
        }
    }
    problems
}

/// Links between files lead to files, and to headings that exist.
pub fn links(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in tree.files.iter().filter(|file| file.path.ends_with(".md")) {
        for (number, line) in prose(&file.text) {
            for target in targets(line) {
                let (path, heading) = target.split_once('#').unwrap_or((target, ""));
                let Some(path) = (if path.is_empty() { Some(file.path.clone()) } else { resolve(&file.path, path) })
                else {
                    problems.push(Problem::at(&file.path, number, format!("`{target}` leads out of the project")));
                    continue;
                };
                if !tree.has(&path) {
                    problems.push(Problem::at(&file.path, number, format!("`{target}` leads nowhere")));
                } else if !heading.is_empty() && !tree.text(&path).is_some_and(|text| has_heading(text, heading)) {
                    problems.push(Problem::at(&file.path, number, format!("`{target}`: there is no such heading")));
                }
            }
        }
    }
    problems
}

/// Lines outside code blocks, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_code = false;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```");
        in_code ^= fence;
        !in_code && !fence
    })
}

/// Targets of `[text](target)` that are not addresses elsewhere.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    let parts = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    parts.filter(|target| !target.contains("://") && !target.starts_with("mailto:"))
}

/// A target seen from a file; `None` if it leads out of the project.
fn resolve(from: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

fn has_heading(text: &str, slug: &str) -> bool {
    let slug_of = |heading: &str| -> String {
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c }).flat_map(char::to_lowercase).collect()
    };
    prose(text)
        .filter(|(_, line)| line.starts_with('#'))
        .any(|(_, line)| slug_of(line.trim_start_matches('#').trim()) == slug)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(problems: Vec<Problem>) -> Vec<String> {
        problems.into_iter().map(|problem| problem.to_string()).collect()
    }

    #[test]
    fn every_place_of_a_machine_is_found() {
        for pattern in MACHINE {
            let text = format!("fine\nsee {pattern}x\n");
            let found = texts(machines(&Tree::of(&[("docs/a.md", &text), ("Cargo.lock", &text)])));
            assert!(found.iter().all(|line| line.starts_with("docs/a.md:2: ")) && !found.is_empty(), "{found:?}");
        }
        assert!(machines(&Tree::of(&[("a.md", "target/release, 127.0.0.1:7233, /proc/self")])).is_empty());
    }

    #[test]
    fn a_long_or_missing_readme_is_found() {
        let lines = |count: usize| "line\n".repeat(count);
        assert!(readme(&Tree::of(&[("README.md", &lines(119))])).is_empty());
        assert_eq!(readme(&Tree::of(&[("README.md", &lines(120))])).len(), 1);
        assert_eq!(readme(&Tree::default()).len(), 1);
    }

    #[test]
    fn a_host_in_a_lock_file_is_found() {
        let lock = |line: &str| lock_files(&Tree::of(&[("t/package-lock.json", line)])).len();
        assert_eq!(lock("\"resolved\": \"https://example.com/a.tgz\","), 1);
        assert_eq!(lock("\"integrity\": \"sha512-x\","), 0);
    }

    #[test]
    fn broken_links_are_found() {
        let tree = |link: &str| {
            let page = format!("# Page One\n[text]({link})\n```\n[code](nowhere)\n```\n");
            Tree::of(&[("docs/a.md", &page), ("docs/b.md", "# It's here: twice\n"), ("src/lib.rs", "")])
        };
        for good in ["b.md", "../src", "../src/lib.rs", "b.md#its-here-twice", "#page-one", "https://example.com/x"] {
            assert_eq!(texts(links(&tree(good))), Vec::<String>::new(), "{good}");
        }
        for bad in ["c.md", "../src/main.rs", "b.md#there", "#page-two", "../../outside"] {
            assert_eq!(links(&tree(bad)).len(), 1, "{bad}");
        }
    }
}
