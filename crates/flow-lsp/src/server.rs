//! The conversation with an editor: its requests and notifications, in order.

use std::collections::BTreeMap;

use lsp_server::{Connection, ErrorCode, Message, Notification, Request, RequestId, Response};
use lsp_types::notification::{
    DidChangeTextDocument, DidCloseTextDocument, DidOpenTextDocument, LogMessage, Notification as _, PublishDiagnostics,
};
use lsp_types::request::{
    Completion, Formatting, GotoDefinition, HoverRequest, Initialize, Request as RequestOf, Shutdown,
};
use lsp_types::{
    CompletionOptions, CompletionResponse, GotoDefinitionResponse, HoverProviderCapability, InitializeParams,
    InitializeResult, LogMessageParams, MessageType, OneOf, PublishDiagnosticsParams, ServerCapabilities, ServerInfo,
    TextDocumentPositionParams, TextDocumentSyncCapability, TextDocumentSyncKind, TextDocumentSyncOptions, Uri,
};
use serde_json::Value;

use crate::document::Document;
use crate::text::Encoding;
use crate::{completion, diagnostics, hover};

/// How the conversation with an editor ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// By `exit` after `shutdown`.
    Shutdown,
    /// By `exit` or by the end of the connection, without `shutdown`.
    Abrupt,
}

/// Answers an editor until it sends `exit` or the connection ends.
pub fn run(connection: &Connection) -> Ending {
    let mut server =
        Server { connection, phase: Phase::New, encoding: Encoding::default(), documents: BTreeMap::new() };
    for message in &connection.receiver {
        match message {
            Message::Request(request) => server.request(request),
            Message::Notification(notification) if notification.method == "exit" => break,
            Message::Notification(notification) => server.notification(notification),
            // The server sends no requests.
            Message::Response(_) => {}
        }
    }
    if server.phase == Phase::ShutDown { Ending::Shutdown } else { Ending::Abrupt }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Before `initialize`.
    New,
    Running,
    /// After `shutdown`.
    ShutDown,
}

struct Server<'c> {
    connection: &'c Connection,
    phase: Phase,
    encoding: Encoding,
    /// Open documents by address.
    documents: BTreeMap<String, Document>,
}

/// Why a request has no answer.
struct Refusal {
    code: ErrorCode,
    message: String,
}

impl Refusal {
    fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

impl Server<'_> {
    fn request(&mut self, request: Request) {
        let Request { id, method, params } = request;
        let answer = self.answer(&method, params);
        self.respond(id, answer);
    }

    fn answer(&mut self, method: &str, params: Value) -> Result<Value, Refusal> {
        match (self.phase, method) {
            (Phase::New, Initialize::METHOD) => self.initialize(params),
            (Phase::New, _) => Err(Refusal::new(ErrorCode::ServerNotInitialized, "expected initialize first")),
            (Phase::ShutDown, _) => Err(Refusal::new(ErrorCode::InvalidRequest, "the server is shut down")),
            (Phase::Running, Initialize::METHOD) => {
                Err(Refusal::new(ErrorCode::InvalidRequest, "the server is initialized already"))
            }
            (Phase::Running, Shutdown::METHOD) => {
                self.phase = Phase::ShutDown;
                Ok(Value::Null)
            }
            (Phase::Running, HoverRequest::METHOD) => self.reply::<HoverRequest>(params, |server, params| {
                let (document, byte) = server.at(&params.text_document_position_params)?;
                Ok(hover::at(document, byte))
            }),
            (Phase::Running, GotoDefinition::METHOD) => self.reply::<GotoDefinition>(params, |server, params| {
                let (document, byte) = server.at(&params.text_document_position_params)?;
                Ok(document.definition(byte).map(GotoDefinitionResponse::Scalar))
            }),
            (Phase::Running, Completion::METHOD) => self.reply::<Completion>(params, |server, params| {
                let (document, byte) = server.at(&params.text_document_position)?;
                Ok(Some(CompletionResponse::Array(completion::at(document, byte))))
            }),
            (Phase::Running, Formatting::METHOD) => self.reply::<Formatting>(params, |server, params| {
                Ok(server.document(&params.text_document.uri)?.formatted())
            }),
            (Phase::Running, _) => Err(Refusal::new(ErrorCode::MethodNotFound, format!("there is no method {method}"))),
        }
    }

    fn initialize(&mut self, params: Value) -> Result<Value, Refusal> {
        let params: InitializeParams = parsed(params)?;
        let general = params.capabilities.general.unwrap_or_default();
        self.encoding = Encoding::negotiate(&general.position_encodings.unwrap_or_default());
        self.phase = Phase::Running;
        let sync = TextDocumentSyncOptions {
            open_close: Some(true),
            change: Some(TextDocumentSyncKind::FULL),
            ..TextDocumentSyncOptions::default()
        };
        let capabilities = ServerCapabilities {
            position_encoding: Some(self.encoding.kind()),
            text_document_sync: Some(TextDocumentSyncCapability::Options(sync)),
            hover_provider: Some(HoverProviderCapability::Simple(true)),
            definition_provider: Some(OneOf::Left(true)),
            completion_provider: Some(CompletionOptions {
                trigger_characters: Some(vec![".".to_owned()]),
                ..CompletionOptions::default()
            }),
            document_formatting_provider: Some(OneOf::Left(true)),
            ..ServerCapabilities::default()
        };
        let version = Some(env!("CARGO_PKG_VERSION").to_owned());
        let server_info = Some(ServerInfo { name: "segno flow lsp".to_owned(), version });
        value(InitializeResult { capabilities, server_info })
    }

    fn reply<R: RequestOf>(
        &self,
        params: Value,
        answer: impl FnOnce(&Self, R::Params) -> Result<R::Result, Refusal>,
    ) -> Result<Value, Refusal> {
        value(answer(self, parsed(params)?)?)
    }

    fn document(&self, uri: &Uri) -> Result<&Document, Refusal> {
        let refusal = || Refusal::new(ErrorCode::InvalidParams, format!("{} is not open", uri.as_str()));
        self.documents.get(uri.as_str()).ok_or_else(refusal)
    }

    /// A document and the byte of a position in it.
    fn at(&self, params: &TextDocumentPositionParams) -> Result<(&Document, usize), Refusal> {
        let document = self.document(&params.text_document.uri)?;
        Ok((document, document.text.byte_of(params.position)))
    }

    /// Notifications have no answer: what is wrong with one goes into the log of the editor.
    fn notification(&mut self, notification: Notification) {
        if self.phase != Phase::Running {
            return;
        }
        let Notification { method, params } = notification;
        let done = match method.as_str() {
            DidOpenTextDocument::METHOD => parsed::<lsp_types::DidOpenTextDocumentParams>(params).map(|params| {
                let document = params.text_document;
                self.show(document.uri, document.version, document.text);
            }),
            DidChangeTextDocument::METHOD => parsed(params).and_then(|params| self.change(params)),
            DidCloseTextDocument::METHOD => parsed::<lsp_types::DidCloseTextDocumentParams>(params).map(|params| {
                let uri = params.text_document.uri;
                self.documents.remove(uri.as_str());
                self.notify::<PublishDiagnostics>(PublishDiagnosticsParams::new(uri, Vec::new(), None));
            }),
            // Of no use here: `initialized`, `didSave`, `$/…`.
            _ => Ok(()),
        };
        if let Err(refusal) = done {
            let message = format!("{method}: {}", refusal.message);
            self.notify::<LogMessage>(LogMessageParams { typ: MessageType::ERROR, message });
        }
    }

    fn change(&mut self, params: lsp_types::DidChangeTextDocumentParams) -> Result<(), Refusal> {
        let document = params.text_document;
        self.document(&document.uri)?;
        let Some(change) = params.content_changes.into_iter().next_back() else { return Ok(()) };
        if change.range.is_some() {
            return Err(Refusal::new(ErrorCode::InvalidParams, "expected the whole text, found a part"));
        }
        self.show(document.uri, document.version, change.text);
        Ok(())
    }

    /// Checks the text of a document and sends what is wrong with it.
    fn show(&mut self, uri: Uri, version: i32, source: String) {
        let document = Document::new(uri, version, source, self.encoding);
        self.notify::<PublishDiagnostics>(diagnostics::of(&document));
        self.documents.insert(document.uri.as_str().to_owned(), document);
    }

    fn notify<N: lsp_types::notification::Notification>(&self, params: N::Params) {
        self.send(Notification::new(N::METHOD.to_owned(), params).into());
    }

    fn respond(&self, id: RequestId, answer: Result<Value, Refusal>) {
        let response = match answer {
            Ok(result) => Response::new_ok(id, result),
            Err(refusal) => Response::new_err(id, refusal.code as i32, refusal.message),
        };
        self.send(response.into());
    }

    fn send(&self, message: Message) {
        // If the editor is gone there is no reader; the end of the connection follows.
        let _ = self.connection.sender.send(message);
    }
}

fn parsed<P: serde::de::DeserializeOwned>(params: Value) -> Result<P, Refusal> {
    serde_json::from_value(params).map_err(|error| Refusal::new(ErrorCode::InvalidParams, error.to_string()))
}

fn value(result: impl serde::Serialize) -> Result<Value, Refusal> {
    serde_json::to_value(result).map_err(|error| Refusal::new(ErrorCode::InternalError, error.to_string()))
}
