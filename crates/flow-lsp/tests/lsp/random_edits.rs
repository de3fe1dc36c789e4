//! Random edits of scripts: every request has an answer, at every position.
//!
//! Seeded, so every run is the same. `FLOW_LSP_EDITS=n` sets how many edits are tried, `FLOW_LSP_SEED` where to begin.

use serde_json::json;

use crate::dice::{Dice, from_environment};
use crate::editor::Editor;
use crate::seeds::SCRIPTS;

const URI: &str = "file:///scripts/random.flow";

const PIECES: [&str; 30] = [
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    ".",
    "?.",
    ",",
    "\n",
    "\r\n",
    "\r",
    "\u{FEFF}",
    "\0",
    "👍",
    "größe",
    "\"",
    "`",
    "${",
    "/*",
    "//",
    "*/",
    "Task.",
    "workflow w() {",
    "function f(x) {",
    "x",
    "1",
    " ",
    "...",
    "'",
];

fn boundary(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

fn edit(source: &mut String, dice: &mut Dice) {
    let place = |source: &str, dice: &mut Dice| boundary(source, dice.below(source.len() as u64 + 1) as usize);
    let start = place(source, dice);
    let end = boundary(source, (start + dice.below(20) as usize).min(source.len()));
    match dice.below(4) {
        0 => source.replace_range(start..end, ""),
        1 => source.truncate(boundary(source, start.max(100).min(source.len()))),
        _ => source.insert_str(start, dice.pick(&PIECES)),
    }
}

#[test]
fn every_request_is_answered() {
    let mut dice = Dice(from_environment("FLOW_LSP_SEED", 1));
    let mut editor = Editor::start();
    editor.open(URI, "");
    let mut source = String::new();
    for version in 0..from_environment("FLOW_LSP_EDITS", 400) {
        if version % 20 == 0 {
            SCRIPTS[dice.below(SCRIPTS.len() as u64) as usize].clone_into(&mut source);
        }
        edit(&mut source, &mut dice);
        editor.change(URI, i32::try_from(version).unwrap() + 2, &source);
        // Also outside of the text.
        let line = dice.below(source.lines().count() as u64 + 3);
        let position = json!({"line": line, "character": dice.below(60)});
        let params = json!({"textDocument": {"uri": URI}, "position": position});
        for method in ["hover", "definition", "completion"] {
            let answer = editor.request(&format!("textDocument/{method}"), params.clone());
            assert!(answer.is_ok(), "{method} {params}: {answer:?}\n{source}");
        }
        editor.formatting(URI);
    }
    assert!(editor.request("shutdown", json!(null)).is_ok());
}
