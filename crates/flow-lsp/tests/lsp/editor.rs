//! An editor with one document, connected in memory.

use std::thread::JoinHandle;
use std::time::Duration;

use lsp_server::{Connection, Message, Notification, Request, Response, ResponseError};
use segno_flow_lsp::{Ending, run};
use serde_json::{Value, json};

/// How long an answer may take.
const ANSWER_SECONDS: Duration = Duration::from_secs(60);

pub struct Editor {
    connection: Connection,
    server: JoinHandle<Ending>,
    requests: i32,
    /// What `initialize` answered.
    pub initialized: Value,
}

impl Editor {
    /// Not initialized yet.
    pub fn connect() -> Self {
        let (connection, server) = Connection::memory();
        let server = std::thread::spawn(move || run(&server));
        Self { connection, server, requests: 0, initialized: Value::Null }
    }

    /// Initialized with these encodings of positions.
    pub fn with_encodings(encodings: &Value) -> Self {
        let mut editor = Self::connect();
        let capabilities = json!({"general": {"positionEncodings": encodings}});
        editor.initialized = editor.request("initialize", json!({"capabilities": capabilities})).unwrap();
        editor.notify("initialized", json!({}));
        editor
    }

    pub fn start() -> Self {
        Self::with_encodings(&json!(["utf-16"]))
    }

    pub fn request(&mut self, method: &str, params: Value) -> Result<Value, ResponseError> {
        self.requests += 1;
        let id = self.requests.into();
        self.send(Request::new(id, method.to_owned(), params).into());
        match self.receive() {
            Message::Response(Response { id, response_result }) => {
                assert_eq!(id, self.requests.into());
                response_result
            }
            other => panic!("expected an answer, got {other:?}"),
        }
    }

    pub fn notify(&self, method: &str, params: Value) {
        self.send(Notification::new(method.to_owned(), params).into());
    }

    pub fn send(&self, message: Message) {
        self.connection.sender.send(message).unwrap();
    }

    pub fn receive(&self) -> Message {
        self.connection.receiver.recv_timeout(ANSWER_SECONDS).expect("a message of the server")
    }

    pub fn received(&self, method: &str) -> Value {
        match self.receive() {
            Message::Notification(notification) if notification.method == method => notification.params,
            other => panic!("expected {method}, got {other:?}"),
        }
    }

    /// Opens a document; what is wrong with it.
    pub fn open(&self, uri: &str, text: &str) -> Vec<Value> {
        let document = json!({"uri": uri, "languageId": "flow", "version": 1, "text": text});
        self.notify("textDocument/didOpen", json!({"textDocument": document}));
        self.diagnostics(uri, 1)
    }

    pub fn change(&self, uri: &str, version: i32, text: &str) -> Vec<Value> {
        let params = json!({"textDocument": {"uri": uri, "version": version}, "contentChanges": [{"text": text}]});
        self.notify("textDocument/didChange", params);
        self.diagnostics(uri, version)
    }

    fn diagnostics(&self, uri: &str, version: i32) -> Vec<Value> {
        let params = self.received("textDocument/publishDiagnostics");
        assert_eq!((params["uri"].as_str(), params["version"].as_i64()), (Some(uri), Some(version.into())));
        params["diagnostics"].as_array().unwrap().clone()
    }

    /// A request about a position.
    pub fn ask(&mut self, method: &str, uri: &str, (line, character): (u32, u32)) -> Value {
        let position = json!({"line": line, "character": character});
        self.request(method, json!({"textDocument": {"uri": uri}, "position": position})).unwrap()
    }

    /// Labels and details of completion.
    pub fn completion(&mut self, uri: &str, at: (u32, u32)) -> Vec<(String, String)> {
        let items = self.ask("textDocument/completion", uri, at);
        let text = |item: &Value, key: &str| item[key].as_str().unwrap_or_default().to_owned();
        items.as_array().unwrap().iter().map(|item| (text(item, "label"), text(item, "detail"))).collect()
    }

    pub fn hover(&mut self, uri: &str, at: (u32, u32)) -> Option<String> {
        let hover = self.ask("textDocument/hover", uri, at);
        hover["contents"]["value"].as_str().map(str::to_owned)
    }

    pub fn formatting(&mut self, uri: &str) -> Value {
        let options = json!({"tabSize": 8, "insertSpaces": false});
        self.request("textDocument/formatting", json!({"textDocument": {"uri": uri}, "options": options})).unwrap()
    }

    /// Without a message, as an editor that crashed.
    pub fn vanish(self) -> Ending {
        drop(self.connection);
        self.server.join().unwrap()
    }

    pub fn exit(self) -> Ending {
        self.notify("exit", Value::Null);
        self.server.join().unwrap()
    }
}

/// `line:column-line:column` of a range.
pub fn range(range: &Value) -> String {
    let position = |end: &str| format!("{}:{}", range[end]["line"], range[end]["character"]);
    format!("{}-{}", position("start"), position("end"))
}
