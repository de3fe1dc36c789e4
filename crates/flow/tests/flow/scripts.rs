//! The scripts of `examples/flow`, tested by their own tests.

use std::path::Path;

use segno_flow::host::run_tests;

fn directory() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/flow")
}

/// Names of files, sorted.
fn files() -> Vec<String> {
    let entries = std::fs::read_dir(directory()).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|name| name.ends_with(".flow"));
    names.sort();
    names
}

#[test]
fn examples_pass_their_tests() {
    let mut tested = Vec::new();
    for name in files().iter().filter(|name| name.ends_with("_test.flow")) {
        let source = std::fs::read(directory().join(name)).unwrap();
        let mut load = |path: &str| {
            tested.push(path.to_owned());
            std::fs::read(directory().join(path)).map_err(|error| error.to_string())
        };
        let report = run_tests(&source, name, &mut load, "");
        assert!(report.is_success(), "{name}\n{}", report.text());
        assert!(report.tests.len() > 1, "{name}");
    }
    for name in files().iter().filter(|name| !name.ends_with("_test.flow")) {
        assert!(tested.contains(name), "{name} has no test");
    }
}

#[test]
fn examples_have_no_warnings() {
    for name in files() {
        let source = std::fs::read(directory().join(&name)).unwrap();
        let is_test = name.ends_with("_test.flow");
        let checked = if is_test { segno_flow::types::check_test(&source) } else { segno_flow::types::check(&source) };
        assert!(checked.diagnostics.is_empty(), "{name}: {:?}", checked.diagnostics);
    }
}
