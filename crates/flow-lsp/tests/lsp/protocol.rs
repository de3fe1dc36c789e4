//! The conversation: its beginning, errors, and its end.

use lsp_server::{ErrorCode, Message, Request};
use segno_flow_lsp::Ending;
use serde_json::{Value, json};

use crate::editor::Editor;

const URI: &str = "file:///scripts/order.flow";

/// The code of the error that a request is answered with.
fn refused(editor: &mut Editor, method: &str, params: Value) -> i32 {
    editor.request(method, params).expect_err(method).code
}

#[test]
fn what_the_server_can_is_announced() {
    let editor = Editor::start();
    let expected = json!({
        "positionEncoding": "utf-16",
        "textDocumentSync": {"openClose": true, "change": 1},
        "hoverProvider": true,
        "definitionProvider": true,
        "completionProvider": {"triggerCharacters": ["."]},
        "documentFormattingProvider": true,
    });
    assert_eq!(editor.initialized["capabilities"], expected);
    assert_eq!(editor.initialized["serverInfo"]["name"], "segno flow lsp");
}

#[test]
fn the_order_of_requests() {
    let mut editor = Editor::connect();
    let hover = json!({"textDocument": {"uri": URI}, "position": {"line": 0, "character": 0}});
    assert_eq!(refused(&mut editor, "textDocument/hover", hover.clone()), ErrorCode::ServerNotInitialized as i32);
    editor.notify("textDocument/didOpen", json!({"before": "initialize"}));
    assert_eq!(refused(&mut editor, "initialize", json!({"capabilities": 1})), ErrorCode::InvalidParams as i32);
    editor.request("initialize", json!({"capabilities": {}})).unwrap();
    assert_eq!(refused(&mut editor, "initialize", json!({"capabilities": {}})), ErrorCode::InvalidRequest as i32);
    assert_eq!(refused(&mut editor, "textDocument/hover", hover.clone()), ErrorCode::InvalidParams as i32);
    assert_eq!(editor.request("shutdown", Value::Null).unwrap(), Value::Null);
    assert_eq!(refused(&mut editor, "textDocument/hover", hover), ErrorCode::InvalidRequest as i32);
    editor.notify("textDocument/didOpen", json!({"after": "shutdown"}));
    assert_eq!(editor.exit(), Ending::Shutdown);
}

#[test]
fn errors_are_answered_and_the_server_goes_on() {
    let mut editor = Editor::start();
    assert_eq!(refused(&mut editor, "textDocument/rename", json!({})), ErrorCode::MethodNotFound as i32);
    for malformed in [json!(null), json!([1]), json!({"textDocument": {"uri": "%%"}}), json!({"position": -1})] {
        assert_eq!(refused(&mut editor, "textDocument/hover", malformed), ErrorCode::InvalidParams as i32);
    }
    let log = |editor: &Editor| editor.received("window/logMessage")["message"].as_str().unwrap().to_owned();
    editor.notify("textDocument/didOpen", json!({"textDocument": 1}));
    assert!(log(&editor).starts_with("textDocument/didOpen: "));
    let change = |changes: Value| json!({"textDocument": {"uri": URI, "version": 2}, "contentChanges": changes});
    editor.notify("textDocument/didChange", change(json!([{"text": "x"}])));
    assert_eq!(log(&editor), format!("textDocument/didChange: {URI} is not open"));
    editor.open(URI, "workflow w() {\n  return 1\n}\n");
    let part = json!({"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 1}});
    editor.notify("textDocument/didChange", change(json!([{"range": part, "text": "x"}])));
    assert_eq!(log(&editor), "textDocument/didChange: expected the whole text, found a part");
    editor.notify("$/setTrace", json!({"value": "off"}));
    editor.send(lsp_server::Response::new_ok(7.into(), json!(null)).into());
    assert_eq!(editor.change(URI, 3, "workflow w() {\n  return 2\n}\n"), Vec::<Value>::new());
}

#[test]
fn ids_may_be_strings() {
    let editor = Editor::start();
    editor.send(Request::new("a".to_owned().into(), "shutdown".to_owned(), Value::Null).into());
    match editor.receive() {
        Message::Response(response) => assert_eq!(response.id, "a".to_owned().into()),
        other => panic!("{other:?}"),
    }
    assert_eq!(editor.vanish(), Ending::Shutdown);
}

#[test]
fn an_end_without_shutdown_is_abrupt() {
    assert_eq!(Editor::start().exit(), Ending::Abrupt);
    assert_eq!(Editor::connect().exit(), Ending::Abrupt);
    assert_eq!(Editor::start().vanish(), Ending::Abrupt);
}
