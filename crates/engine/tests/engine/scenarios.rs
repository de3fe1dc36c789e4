//! Scenarios: each file under `scenarios/` is a story of one run, with everything the engine makes of it.
//!
//! After a wanted change of behaviour `UPDATE=1 cargo test -p segno-engine --test engine scenarios::` writes the results anew;
//! read the difference before you keep it.

#[test]
#[allow(clippy::disallowed_methods, reason = "this is a test, which may look around")]
fn scenarios_come_out_as_written() {
    let update = std::env::var_os("UPDATE").is_some();
    let files = crate::common::scenario::files();
    assert!(files.len() >= 30, "only {} scenarios", files.len());
    let mut different = Vec::new();
    for path in files {
        // A scenario that breaks an invariant is named, and the others still run.
        let Ok((expected, actual)) = std::panic::catch_unwind(|| crate::common::scenario::run_file(&path)) else {
            different.push(format!("{}\n  breaks, see above", path.display()));
            continue;
        };
        if expected == actual {
            continue;
        }
        if update {
            std::fs::write(&path, actual).expect("a scenario can be written");
        } else {
            different.push(format!("{}\n{}", path.display(), difference(&expected, &actual)));
        }
    }
    assert!(different.is_empty(), "{}\nIf this is wanted: UPDATE=1", different.join("\n"));
}

/// The first lines that differ.
fn difference(expected: &str, actual: &str) -> String {
    let (expected, actual): (Vec<_>, Vec<_>) = (expected.lines().collect(), actual.lines().collect());
    let same = expected.iter().zip(&actual).take_while(|(a, b)| a == b).count();
    let part = |lines: &[&str]| lines.iter().skip(same).take(6).copied().collect::<Vec<_>>().join("\n    ");
    format!("  line {}\n  expected:\n    {}\n  actual:\n    {}", same + 1, part(&expected), part(&actual))
}
