//! Diagnostics, hover, definitions, completion and formatting.

use serde_json::{Value, json};

use crate::editor::{Editor, range};

const URI: &str = "file:///scripts/order.flow";
const TEST: &str = "file:///scripts/order_test.flow";

const SOURCE: &str = "const LIMIT = 3\n\
    // Twice as much.\n\
    // For numbers.\n\
    function double(x) { return x * 2 }\n\
    workflow w(input) {\n\
    \x20 const order = { id: 1, items: [\"a\"] }\n\
    \x20 const paid = await Task.run(\"charge\", order)\n\
    \x20 if (double(order.id) == LIMIT) return order.items.join(\",\")\n\
    \x20 return [paid, input]\n\
    }\n";

/// Range, severity, code and message.
fn found(diagnostics: &[Value]) -> Vec<(String, u64, String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    diagnostics
        .iter()
        .map(|one| (range(&one["range"]), one["severity"].as_u64().unwrap(), text(&one["code"]), text(&one["message"])))
        .collect()
}

#[test]
fn diagnostics_follow_the_text() {
    let editor = Editor::start();
    let expected = ("1:9-1:14".to_owned(), 1, "F0201".to_owned(), "unknown name \"inpt\"".to_owned());
    let source = "workflow w(input) {\n  return inpt\n}\n";
    let opened = found(&editor.open(URI, source));
    assert_eq!(opened.len(), 1, "{opened:?}");
    assert_eq!((&*opened[0].0, opened[0].1, &*opened[0].2), ("1:9-1:13", expected.1, &*expected.2));
    assert_eq!(opened[0].3, "unknown name \"inpt\"\nhint: did you mean \"input\"?");
    assert_eq!(editor.change(URI, 2, "workflow w(input) {\n  return input\n}\n"), Vec::<Value>::new());
    // Errors about types, warnings, and errors that only compiling finds.
    let types = found(&editor.change(URI, 3, "workflow w(input) {\n  if (input.xs + 1 && [1].length) return 1\n}\n"));
    assert!(types.iter().any(|one| one.2 == "F0218"), "{types:?}");
    let unused = found(&editor.change(URI, 4, "workflow w(input) {\n}\n"));
    assert_eq!(unused, [("0:11-0:16".to_owned(), 2, "F0903".to_owned(), unused[0].3.clone())]);
    // A document that is closed has none.
    editor.notify("textDocument/didClose", json!({"textDocument": {"uri": URI}}));
    let closed = editor.received("textDocument/publishDiagnostics");
    assert_eq!(closed, json!({"uri": URI, "diagnostics": []}));
}

#[test]
fn tests_of_scripts_are_checked_as_tests() {
    let editor = Editor::start();
    let source = "use \"order.flow\"\ntest \"pays\" {\n  Test.start(1)\n  assertEqual(await Test.result(), 1)\n}\n";
    assert_eq!(editor.open(TEST, source), Vec::<Value>::new());
    assert_ne!(editor.open(URI, source), Vec::<Value>::new());
}

#[test]
fn a_document_that_is_too_large_has_a_diagnostic() {
    let mut editor = Editor::start();
    let source = format!("workflow w() {{}}\n{}", " ".repeat(segno_flow::SOURCE_BYTES_MAX));
    let large = found(&editor.open(URI, &source));
    assert_eq!(large, [("0:0-0:0".to_owned(), 1, "F0007".to_owned(), "source is over 262144 bytes".to_owned())]);
    assert_eq!(editor.hover(URI, (0, 9)), None);
    assert_eq!(editor.ask("textDocument/definition", URI, (0, 9)), Value::Null);
    editor.completion(URI, (0, 0));
    assert_eq!(editor.change(URI, 2, "workflow w() {\n  return 1\n}\n"), Vec::<Value>::new());
}

#[test]
fn hover_shows_types_and_documentation() {
    let mut editor = Editor::start();
    assert_eq!(editor.open(URI, SOURCE), Vec::<Value>::new());
    let shown = |editor: &mut Editor, at| editor.hover(URI, at).unwrap_or_default();
    assert_eq!(shown(&mut editor, (5, 9)), "```flow\norder: object with id, items\n```");
    assert_eq!(shown(&mut editor, (7, 13)), "```flow\norder: object with id, items\n```", "where it is read");
    assert_eq!(shown(&mut editor, (7, 20)), "```flow\nid: number\n```", "a field");
    assert_eq!(shown(&mut editor, (7, 27)), "```flow\nLIMIT: number\n```");
    assert_eq!(shown(&mut editor, (0, 7)), "```flow\nLIMIT\n```");
    let double = "```flow\nfunction double(x)\n```\n\nGives here: number\n\nTwice as much.\nFor numbers.";
    assert_eq!(shown(&mut editor, (7, 8)), double);
    let task = shown(&mut editor, (6, 26));
    assert!(task.starts_with("```flow\nTask.run(name: string, input?, options?: object) → promise\n```\n\n"), "{task}");
    assert!(task.contains("Starts a task on a worker.") && task.contains("Options: `args`, `queue`"), "{task}");
    let join = shown(&mut editor, (7, 55));
    assert!(join.contains("join(separator?: string) → string") && join.ends_with("Gives here: string"), "{join}");
    assert_eq!(editor.hover(URI, (1, 5)), None, "a comment");
    let range_of_task = editor.ask("textDocument/hover", URI, (6, 22))["range"].clone();
    assert_eq!(range(&range_of_task), "6:21-6:29");
}

#[test]
fn definitions() {
    let mut editor = Editor::start();
    editor.open(URI, SOURCE);
    let mut definition = |at| {
        let location = editor.ask("textDocument/definition", URI, at);
        if location.is_null() { None } else { Some((location["uri"].clone(), range(&location["range"]))) }
    };
    let at = |place: &str| Some((json!(URI), place.to_owned()));
    assert_eq!(definition((7, 7)), at("3:9-3:15"), "a function");
    assert_eq!(definition((7, 14)), at("5:8-5:13"), "a variable");
    assert_eq!(definition((7, 28)), at("0:6-0:11"), "a constant");
    assert_eq!(definition((8, 17)), at("4:11-4:16"), "a parameter");
    assert_eq!(definition((5, 9)), at("5:8-5:13"), "the declaration itself");
    assert_eq!(definition((6, 23)), None, "the library has no source");
    assert_eq!(definition((1, 5)), None, "a comment");
}

#[test]
fn definitions_beside_an_error() {
    let mut editor = Editor::start();
    assert_ne!(
        editor.open(URI, "workflow w(input) {\n  const a = 1\n  if (a ==\n  return a + input\n}\n"),
        Vec::<Value>::new()
    );
    assert_eq!(range(&editor.ask("textDocument/definition", URI, (3, 13))["range"]), "0:11-0:16");
}

#[test]
fn completion_of_names() {
    let mut editor = Editor::start();
    editor.open(URI, &SOURCE.replace("  return [paid, input]", "  return pa"));
    let names = editor.completion(URI, (8, 11));
    let has = |label: &str, detail: &str| names.contains(&(label.to_owned(), detail.to_owned()));
    assert!(has("Task", "") && has("LIMIT", "") && has("order", "object with id, items"), "{names:?}");
    assert!(has("uuid", "uuid() → string") && has("paid", "unknown"), "{names:?}");
    assert!(names.iter().any(|(label, _)| label == "double"));
    assert!(!names.iter().any(|(label, _)| label == "Task.run" || label == "assert" || label == "Test"));
    editor.open(TEST, "test \"a\" {\n  a\n}\n");
    assert!(editor.completion(TEST, (1, 3)).iter().any(|(label, _)| label == "assertEqual"));
}

#[test]
fn completion_after_a_point() {
    let mut editor = Editor::start();
    let mut labels = |line: &str| {
        let source = SOURCE.replace("  return [paid, input]", line);
        editor.open(URI, &source);
        let at = u32::try_from(line.find('|').unwrap()).unwrap();
        editor.open(URI, &source.replace('|', ""));
        let items = editor.completion(URI, (8, at));
        items.into_iter().map(|(label, _)| label).collect::<Vec<_>>()
    };
    assert!(labels("  Task.|").contains(&"run".to_owned()));
    assert_eq!(labels("  return Task.r|").iter().filter(|label| label.starts_with("ru")).count(), 1);
    assert!(labels("  await Test.|").is_empty() || !labels("  await Test.|").contains(&"start".to_owned()));
    assert_eq!(labels("  return order.|"), ["id", "items"]);
    assert_eq!(labels("  order.|"), ["id", "items"], "an expression alone");
    assert_eq!(labels("  if (order.id.|) { return 1 }"), ["toFixed"]);
    assert!(labels("  order.items.pu|(1)").contains(&"push".to_owned()));
    assert_eq!(labels("  return order?.i|"), ["id", "items"]);
    let list = labels("  return order.items.|");
    assert!(list.contains(&"length".to_owned()) && list.contains(&"push".to_owned()), "{list:?}");
    assert!(!list.contains(&"trim".to_owned()) && !list.contains(&"toFixed".to_owned()), "{list:?}");
    assert_eq!(labels("  return double(1).|"), ["toFixed"], "the result of a call");
    assert_eq!(labels("  if (order.id.|"), ["toFixed"], "in an expression that is not complete");
    assert_eq!(labels("  if (paid == [...order.items, ...order.|"), ["id", "items"]);
    assert_eq!(labels("  if (paid == [order.|"), ["id", "items"], "where the rest cannot be parsed");
    assert!(labels("  return \"a\".|").contains(&"trim".to_owned()));
    assert!(labels("  return input.|").contains(&"trim".to_owned()), "an unknown value may have every function");
    assert_eq!(labels("  return Task.run(\"a\").|"), Vec::<String>::new(), "a promise");
    for nothing in ["  // order.|", "  return \"order.|\"", "  return `order.|`", "  return 1.|", "  return [...order|"]
    {
        let found = labels(nothing);
        assert!(nothing.contains("...") || found.is_empty(), "{nothing}: {found:?}");
    }
    assert_eq!(labels("  return `${order.|}`"), ["id", "items"], "in a template");
}

#[test]
fn formatting() {
    let mut editor = Editor::start();
    editor.open(URI, "workflow w(){return 'a';}\n");
    let edits = editor.formatting(URI);
    assert_eq!(edits.as_array().map(Vec::len), Some(1));
    assert_eq!(range(&edits[0]["range"]), "0:0-1:0");
    let formatted = segno_flow::format("workflow w(){return 'a';}\n").unwrap();
    assert_eq!(edits[0]["newText"], json!(formatted));
    editor.change(URI, 2, &formatted);
    assert_eq!(editor.formatting(URI), json!([]), "it is in the style");
    editor.change(URI, 3, &format!("\u{FEFF}{}", formatted.replace('\n', "\r\n")));
    assert_eq!(editor.formatting(URI), json!([]), "line ends are up to the editor");
    editor.change(URI, 4, "\u{FEFF}workflow w(){return 'a';}\r\n");
    assert_eq!(range(&editor.formatting(URI)[0]["range"]), "0:1-1:0", "and so is the byte order mark");
    editor.change(URI, 5, "workflow {");
    assert_eq!(editor.formatting(URI), Value::Null, "what cannot be parsed stays");
}
