//! `docs/reference/compatibility.md` lists exactly the calls of the protocol, each in the state the server has it in.

use std::collections::BTreeMap;

use crate::calls;

const PAGE: &str = include_str!("../../../docs/reference/compatibility.md");

/// The mistakes in the tables of a page.
fn problems(page: &str, methods: &[(&str, &str)], is_built: fn(&str, &str) -> bool) -> Vec<String> {
    let mut problems = Vec::new();
    let mut seen: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut service = "";
    for (number, line) in (1..).zip(page.lines()) {
        if let Some(heading) = line.strip_prefix('#') {
            let named = |full: &str| heading.contains(full.rsplit('.').next().unwrap_or(full));
            service = methods.iter().map(|(service, _)| *service).find(|full| named(full)).unwrap_or("");
        }
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let (Some(call), Some(state)) = (cells.get(1).and_then(|cell| quoted(cell)), cells.get(2)) else { continue };
        if service.is_empty() {
            continue;
        }
        if !methods.contains(&(service, call)) {
            problems.push(format!("line {number}: `{call}` is no call of {service}"));
            continue;
        }
        if let Some(first) = seen.insert((service, call), number) {
            problems.push(format!("line {number}: `{call}` is already in line {first}"));
        }
        let expected = if is_built(service, call) { "built" } else { "UNIMPLEMENTED" };
        if *state != expected {
            problems.push(format!("line {number}: `{call}` is {expected}, the page says {state}"));
        }
    }
    let missing = methods.iter().filter(|method| !seen.contains_key(*method));
    problems.extend(missing.map(|(service, call)| format!("`{call}` of {service} is missing")));
    problems
}

/// The text between a pair of backticks that is all of a cell.
fn quoted(cell: &str) -> Option<&str> {
    cell.strip_prefix('`')?.strip_suffix('`')
}

fn is_built(service: &str, call: &str) -> bool {
    calls::find(format!("/{service}/{call}").as_bytes()).is_some()
}

#[test]
fn the_compatibility_page_agrees_with_the_server() {
    assert_eq!(problems(PAGE, segno_proto::METHODS, is_built), Vec::<String>::new());
}

/// Otherwise the test above could not fail.
#[test]
fn every_wrong_line_of_a_page_is_found() {
    const METHODS: &[(&str, &str)] = &[("a.v1.Flows", "Start"), ("a.v1.Flows", "Stop"), ("b.v1.Admin", "Stop")];
    const TRUE: &str = "## Flows\n| call | state | remark |\n|---|---|---|\n| `Start` | built | |\n\
                        | `Stop` | UNIMPLEMENTED | |\n## Admin\n| `Stop` | UNIMPLEMENTED | |\n## Other\n| `x` | y |\n";
    let found = |page: &str| problems(page, METHODS, |_, call| call == "Start");
    assert_eq!(found(TRUE), Vec::<String>::new());
    let one = |page: String, part: &str| {
        let found = found(&page);
        assert!(found.len() == 1 && found[0].contains(part), "{part}: {found:?}");
    };
    one(TRUE.replacen("UNIMPLEMENTED", "built", 1), "`Stop` is UNIMPLEMENTED, the page says built");
    one(TRUE.replacen("| built", "| UNIMPLEMENTED", 1), "`Start` is built");
    one(TRUE.replacen("| `Start` | built | |\n", "", 1), "`Start` of a.v1.Flows is missing");
    one(format!("{TRUE}## Flows\n| `Pause` | built | |\n"), "`Pause` is no call");
    one(format!("{TRUE}## Flows\n| `Start` | built | |\n"), "already in line 4");
}
