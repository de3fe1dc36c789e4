//! Web pages at `/` and below `/ui`: rendered by the server, without resources of other servers.
//!
//! [`Web::answer`] is the one entry: a request's head and body in, a response out. The caller of it has authenticated
//! the request. Pages get all data by calls through [`Service`], so that validation and routing among nodes apply here,
//! too; only the metrics of the server are read from the node.
//!
//! A page is one function that returns [`Markup`]. Parts of it with an id and `data-live` are replaced in the browser
//! when [`live`] reports that they changed. Actions are forms that are posted to the address of their page; [`guard`]
//! refuses such requests from other sites. All texts are escaped by the template crate.

// The protocol carries fields that its authors have replaced but that tools still show and send.
#![allow(deprecated)]

mod assets;
mod batches;
mod cluster;
mod codec;
mod deployment;
mod deployment_picture;
mod deployment_routing;
mod deployment_version;
mod deployments;
mod endpoints;
mod fields;
mod figures;
mod forms;
pub mod guard;
mod layout;
mod live;
pub mod login;
mod namespaces;
mod payloads;
mod queues;
mod schedule;
mod schedule_form;
mod schedules;
mod script;
mod script_turns;
mod scripts;
mod severity;
mod times;
mod verification;
mod workers;
mod workflow;
mod workflow_actions;
mod workflow_calls;
mod workflow_history;
mod workflow_names;
mod workflow_now;
mod workflow_relations;
mod workflow_script;
mod workflow_spans;
mod workflow_timeline;
mod workflows;
mod workflows_actions;

pub use codec::Codec;

use std::{borrow::Cow, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Method, Response, StatusCode, header, request::Parts};
use http_body_util::{Either, Full};
use maud::Markup;
use segno_calls::{CallMetadata, Service};
use segno_node::{Latency, Node};
use segno_proto::{Rpc, workflowservice::ListNamespacesRequest};
use segno_security::Caller;
use tonic::{Code, Extensions, Status};

use forms::{Form, decode};
use layout::{Page, Shell};
pub use live::EventStream;

/// A body: all of it at once, or events as they happen.
pub type WebBody = Either<Full<Bytes>, EventStream>;

/// How long a page waits for a call, such as a query that no worker answers.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// Where pages begin.
pub const PREFIX: &str = "/ui";
/// The namespaces page under its address in Temporal's pages, by which programs see that pages are served.
const NAMESPACES: &str = "/namespaces";
/// The namespace of the first page.
const NAMESPACE: &str = "default";
/// Most namespaces in the list of the navigation.
const NAMESPACES_MAX: i32 = 200;
/// The header with which a script of a page posts a form.
pub const FORM_SCRIPT: &str = "x-segno-script";
/// The caller of actions, as the history and other places name it.
const IDENTITY: &str = "segno web pages";

/// The pages of a node.
#[derive(Clone)]
pub struct Web {
    node: Arc<Node>,
    service: Arc<dyn Service>,
    figures: ProcessFigures,
    is_tls: bool,
    /// Where browsers have payloads decoded, unless their readers say otherwise.
    codec: Option<Codec>,
}

/// Figures of the process that are shown with those of the node.
#[derive(Clone, Copy)]
pub struct ProcessFigures {
    /// How long calls took, those left out that wait for an event.
    pub call_times: fn() -> Vec<&'static Latency>,
    /// Bytes that are free on the disk with the data, if that is known.
    pub disk_free: fn() -> Option<u64>,
}

/// A request, taken apart.
struct PageRequest<'a> {
    /// Decoded parts of the path after `/ui/`.
    path: Vec<String>,
    /// Parameters behind the question mark.
    query: Form,
    /// Fields of a posted form.
    form: Form,
    /// Whether a script of ours asks, which wants the outcome of an action without a page around it.
    is_script: bool,
    method: &'a Method,
    /// Who asks, if that is known.
    caller: Option<Arc<Caller>>,
}

/// Why there is no page.
enum PageError {
    /// A call failed.
    Call(Status),
    /// There is no such address.
    Missing,
}

impl From<Status> for PageError {
    fn from(status: Status) -> Self {
        Self::Call(status)
    }
}

/// An answer that is no page.
enum Answer {
    /// A page, as a part of the shell.
    Page(Page),
    /// The outcome of an action.
    Outcome(Outcome),
    /// A file to keep.
    File {
        /// Its content type.
        kind: &'static str,
        /// The name of the file.
        name: String,
        /// The content of the file.
        content: Vec<u8>,
    },
    /// Another address.
    Elsewhere(String),
}

/// The outcome of an action.
struct Outcome {
    /// The message.
    said: Markup,
    /// Where to go on, if somewhere else.
    next: Option<String>,
    /// Whether the message is about a failure.
    is_failure: bool,
}

impl Outcome {
    /// It worked, and the page stays.
    fn done(said: Markup) -> Answer {
        Answer::Outcome(Self { said, next: None, is_failure: false })
    }

    /// It worked, and another page shows the result.
    fn then(said: Markup, next: String) -> Answer {
        Answer::Outcome(Self { said, next: Some(next), is_failure: false })
    }

    /// The call was answered, and the answer is a failure.
    fn failed(said: Markup) -> Answer {
        Answer::Outcome(Self { said, next: None, is_failure: true })
    }
}

impl Web {
    /// The pages of a node, whose calls `service` makes.
    pub fn new(
        node: Arc<Node>,
        service: Arc<dyn Service>,
        figures: ProcessFigures,
        is_tls: bool,
        codec: Option<Codec>,
    ) -> Self {
        Self { node, service, figures, is_tls, codec }
    }

    /// Makes a call as a tool does, with an end to waiting.
    async fn call<Q: Rpc>(&self, request: Q) -> Result<Q::Response, Status> {
        let mut extensions = Extensions::default();
        extensions.insert(CallMetadata { timeout: Some(CALL_TIMEOUT), is_tool: true, ..Default::default() });
        segno_calls::call(&*self.service, &request, extensions).await
    }

    /// Whether an address is one of these pages.
    pub fn has(path: &str) -> bool {
        path == "/" || path == "/favicon.ico" || path == PREFIX || path == NAMESPACES || path.starts_with("/ui/")
    }

    /// The answer for an address without a page. It needs no authentication: it says nothing about the server.
    pub fn nothing() -> Response<WebBody> {
        let mut response = html(StatusCode::NOT_FOUND, &layout::nothing());
        guard::protect(response.headers_mut());
        response
    }

    /// The parts of the address of the page that a request is about: the namespace, the area and so on. For a stream of
    /// changes it is the page that is followed.
    pub fn page_of(path: &str, query: &str) -> Vec<String> {
        let parts = live::path_of(path);
        match words(&parts)[..] {
            ["live", ..] => live::path_of(Form::parse(query).unwrap_or_default().get("page")),
            _ => parts,
        }
    }

    /// Answers a request.
    pub async fn answer(&self, head: &Parts, body: Bytes) -> Response<WebBody> {
        let mut response = match guard::check(head, self.is_tls) {
            Err(refused) => plain(refused.status, refused.text),
            Ok(()) => self.route(head, body).await,
        };
        guard::protect(response.headers_mut());
        if let Some(codec) = Codec::of(&head.headers, self.codec.as_ref()) {
            codec.allow(response.headers_mut());
        }
        response
    }

    async fn route(&self, head: &Parts, body: Bytes) -> Response<WebBody> {
        let path = head.uri.path();
        if let Some(name) = path.strip_prefix("/ui/assets/") {
            return assets::answer(name, &head.headers);
        }
        if path == "/favicon.ico" {
            return assets::answer("logo.svg", &head.headers);
        }
        if path == "/" || path == PREFIX || path == "/ui/" {
            return self.first_page(head).await;
        }
        let asked = match page_request(head, &body) {
            Ok(asked) => asked,
            Err(text) => return plain(StatusCode::BAD_REQUEST, text),
        };
        if let ["live", ..] = words(&asked.path)[..] {
            return live::answer(self.clone(), &asked.query);
        }
        let mut shell = Shell::of(self, &asked, Codec::of(&head.headers, self.codec.as_ref())).await;
        match self.page(&asked).await {
            Ok(Answer::Page(page)) => html(StatusCode::OK, &shell.around(page)),
            Ok(Answer::Outcome(outcome)) => shell.outcome(outcome, &asked, path),
            Ok(Answer::Elsewhere(place)) => redirect(&place),
            Ok(Answer::File { kind, name, content }) => file(kind, &name, content),
            Err(PageError::Missing) => html(StatusCode::NOT_FOUND, &shell.around(layout::missing(path))),
            Err(PageError::Call(status)) => shell.refused(&status, &asked),
        }
    }

    /// Leads to the workflows of a namespace that the caller may read.
    async fn first_page(&self, head: &Parts) -> Response<WebBody> {
        let caller = head.extensions.get::<Arc<Caller>>().cloned();
        if caller.as_ref().is_none_or(|caller| caller.may_read(NAMESPACE)) {
            return redirect(&format!("/ui/{NAMESPACE}/workflows"));
        }
        match self.readable_namespaces(caller.as_ref()).await.first() {
            Some(namespace) => redirect(&format!("/ui/{}/workflows", forms::encode(namespace))),
            None => {
                let status = Status::permission_denied("None of your grants allows to read a namespace that exists.");
                self.forbidden(head.clone(), caller, &status).await
            }
        }
    }

    /// The namespaces that a caller may read.
    async fn readable_namespaces(&self, caller: Option<&Arc<Caller>>) -> Vec<String> {
        let request = ListNamespacesRequest { page_size: NAMESPACES_MAX, ..Default::default() };
        let listed = self.call(request).await;
        let listed = listed.map(|listed| listed.namespaces).unwrap_or_default();
        let names = listed.into_iter().filter_map(|namespace| namespace.namespace_info).map(|info| info.name);
        // A caller that may see only some of them does not learn of the others.
        names.filter(|name| caller.is_none_or(|caller| caller.may_read(name))).collect()
    }

    /// The answer to a known caller that may not open a page, or not do what its form asks for.
    pub async fn forbidden(&self, mut head: Parts, caller: Option<Arc<Caller>>, status: &Status) -> Response<WebBody> {
        if let Some(caller) = caller {
            head.extensions.insert(caller);
        }
        let mut response = match page_request(&head, &Bytes::new()) {
            Ok(asked) => {
                let mut shell = Shell::of(self, &asked, Codec::of(&head.headers, self.codec.as_ref())).await;
                shell.forbidden(status, &asked)
            }
            Err(text) => plain(StatusCode::BAD_REQUEST, text),
        };
        guard::protect(response.headers_mut());
        response
    }

    /// The page or action of an address.
    async fn page(&self, asked: &PageRequest<'_>) -> Result<Answer, PageError> {
        let is_post = *asked.method == Method::POST;
        let path = words(&asked.path);
        let [namespace, rest @ ..] = &path[..] else { return Err(PageError::Missing) };
        match (is_post, rest) {
            (false, []) => Ok(Answer::Elsewhere(format!("/ui/{}/workflows", forms::encode(namespace)))),
            (false, ["workflows"]) => self.workflows_page(namespace, asked).await,
            (true, ["workflows"]) => self.workflows_action(namespace, &asked.form).await,
            (false, ["workflows", id]) => self.newest_run(namespace, id).await,
            (false, ["workflows", id, run]) => self.workflow_page(namespace, id, run, asked).await,
            // The head with the actions is on all pages of a run.
            (true, ["workflows", id, run] | ["workflows", id, run, "history" | "relations" | "calls" | "script"]) => {
                self.workflow_action(namespace, id, run, &asked.form).await
            }
            (false, ["workflows", id, run, "history"]) => self.history_page(namespace, id, run, asked).await,
            (false, ["workflows", id, run, "history.json"]) => self.history_file(namespace, id, run).await,
            (false, ["workflows", id, run, "names"]) => self.names_file(namespace, id, run).await,
            (false, ["workflows", id, run, "relations"]) => self.relations_page(namespace, id, run).await,
            (false, ["workflows", id, run, "calls"]) => self.calls_page(namespace, id, run).await,
            (false, ["workflows", id, run, "script"]) => self.run_script_page(namespace, id, run, asked).await,
            (false, ["scripts"]) => self.scripts_page(namespace, asked).await,
            (true, ["scripts"]) => self.scripts_action(namespace, &asked.form).await,
            (false, ["scripts", name]) => self.script_page(namespace, name, asked).await,
            (true, ["scripts", name]) => self.script_action(namespace, name, &asked.form).await,
            (false, ["schedules"]) => self.schedules_page(namespace, asked).await,
            (true, ["schedules"]) => self.schedules_action(namespace, &asked.form).await,
            (false, ["schedules", id]) => self.schedule_page(namespace, id, asked).await,
            (true, ["schedules", id]) => self.schedule_action(namespace, id, &asked.form).await,
            (false, ["task-queues"]) => self.queues_page(namespace, asked).await,
            (false, ["verification"]) => self.verification_page(namespace, asked).await,
            (true, ["verification"]) => self.verification_action(namespace, &asked.form).await,
            (false, ["workers"]) => self.workers_page(namespace).await,
            (false, ["workers", key]) => self.worker_page(namespace, key).await,
            (false, ["deployments"]) => self.deployments_page(namespace, asked).await,
            (false, ["deployments", name]) => self.deployment_page(namespace, name, asked).await,
            (false, ["deployments", name, build]) => self.deployment_version_page(namespace, name, build, asked).await,
            (true, ["deployments", name] | ["deployments", name, _]) => {
                self.deployment_action(namespace, name, &asked.form).await
            }
            (false, ["endpoints"]) => self.endpoints_page(namespace, asked).await,
            (true, ["endpoints"]) => self.endpoints_action(&asked.form).await,
            (false, ["batches"]) => self.batches_page(namespace, asked).await,
            (true, ["batches"]) => self.batches_action(namespace, &asked.form).await,
            (false, ["namespaces"]) => self.namespaces_page(namespace).await,
            (true, ["namespaces"]) => self.namespaces_action(namespace, &asked.form).await,
            (false, ["cluster"]) => Ok(Answer::Page(self.cluster_page())),
            (false, ["server"]) => Ok(Answer::Page(self.server_page().await)),
            _ => Err(PageError::Missing),
        }
    }
}

/// The part of an address behind `/ui/`.
fn below_prefix(path: &str) -> Cow<'_, str> {
    match path {
        NAMESPACES => format!("{NAMESPACE}{NAMESPACES}").into(),
        _ => path.strip_prefix("/ui/").unwrap_or_default().into(),
    }
}

fn words(path: &[String]) -> Vec<&str> {
    path.iter().map(String::as_str).collect()
}

fn page_request<'a>(head: &'a Parts, body: &Bytes) -> Result<PageRequest<'a>, &'static str> {
    let path = below_prefix(head.uri.path())
        .split('/')
        .filter(|part| !part.is_empty())
        .map(decode)
        .collect::<Option<Vec<_>>>();
    let path = path.ok_or("the address is not UTF-8\n")?;
    let query = Form::parse(head.uri.query().unwrap_or_default()).ok_or("the address is not UTF-8\n")?;
    let text = std::str::from_utf8(body).map_err(|_| "the form is not UTF-8\n")?;
    let form = Form::parse(text).ok_or("the form is not UTF-8\n")?;
    let is_script = head.headers.contains_key(FORM_SCRIPT);
    let caller = head.extensions.get::<Arc<Caller>>().cloned();
    Ok(PageRequest { path, query, form, is_script, method: &head.method, caller })
}

fn respond(status: StatusCode, kind: &'static str, content: impl Into<Bytes>) -> Response<WebBody> {
    let mut response = Response::new(Either::Left(Full::new(content.into())));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn plain(status: StatusCode, text: &'static str) -> Response<WebBody> {
    respond(status, "text/plain; charset=utf-8", text)
}

fn html(status: StatusCode, content: &Markup) -> Response<WebBody> {
    respond(status, "text/html; charset=utf-8", content.0.clone())
}

fn file(kind: &'static str, name: &str, content: Vec<u8>) -> Response<WebBody> {
    let mut response = respond(StatusCode::OK, kind, content);
    let safe: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() || "-._".contains(c) { c } else { '_' }).collect();
    if let Ok(value) = HeaderValue::from_str(&format!("attachment; filename=\"{safe}\"")) {
        response.headers_mut().insert(header::CONTENT_DISPOSITION, value);
    }
    response
}

fn redirect(place: &str) -> Response<WebBody> {
    let mut response = plain(StatusCode::SEE_OTHER, "");
    if let Ok(place) = HeaderValue::from_str(place) {
        response.headers_mut().insert(header::LOCATION, place);
    }
    response
}

/// The HTTP status of a failed call.
fn http_status(status: &Status) -> StatusCode {
    match status.code() {
        Code::InvalidArgument | Code::OutOfRange => StatusCode::BAD_REQUEST,
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::AlreadyExists | Code::Aborted | Code::FailedPrecondition => StatusCode::CONFLICT,
        Code::PermissionDenied => StatusCode::FORBIDDEN,
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
        Code::Unimplemented => StatusCode::NOT_IMPLEMENTED,
        Code::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
        Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
