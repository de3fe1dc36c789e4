//! Types: what is refused, what is not, and what hover shows.

use segno_flow::diagnostic::Position;
use segno_flow::types;

#[track_caller]
fn found(source: &str) -> Vec<String> {
    let checked = types::check(source.as_bytes());
    let shown = checked.diagnostics.iter();
    shown.map(|one| format!("{}:{} {} {}", one.start.line, one.start.column, one.code, one.message)).collect()
}

#[test]
fn scratch() {
    let source = std::fs::read_to_string("/tmp/flow/scratch.flow").unwrap();
    let checked = types::check(source.as_bytes());
    for one in &checked.diagnostics {
        println!("{}", segno_flow::render(one, "scratch.flow", &source));
    }
    let _ = (found("workflow w() {}"), Position::default());
}
