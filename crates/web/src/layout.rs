//! What all pages have in common: head, navigation, notices, tables.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use http::{Method, Response, StatusCode};
use maud::{DOCTYPE, Markup, html};
use segno_proto::enums::WorkflowExecutionStatus;
use segno_security::{Caller, Proof};
use tonic::{Code, Status};

use super::{
    Outcome, PageRequest, Web, WebBody, codec::Codec, forms::encode, html as respond_html, http_status, login::LOGOUT,
    redirect,
};

/// A page without what is around it.
pub(super) struct Page {
    /// The title of the window.
    pub(super) title: String,
    /// Which entry of the navigation it belongs to.
    pub(super) area: &'static str,
    /// The content.
    pub(super) content: Markup,
    /// Whether it follows changes.
    pub(super) is_live: bool,
}

/// A number that changes when a page does.
pub(super) fn fingerprint(content: &Markup) -> u64 {
    let mut hasher = DefaultHasher::new();
    content.0.hash(&mut hasher);
    hasher.finish()
}

/// The frame of a page.
pub(super) struct Shell {
    namespace: String,
    namespaces: Vec<String>,
    address: String,
    has_cluster: bool,
    /// Who reads, if callers have to be known.
    caller: Option<Arc<Caller>>,
    /// Where the browser has payloads decoded.
    codec: Option<Codec>,
}

/// Areas about the whole server.
const SERVER_AREAS: [&str; 3] = ["namespaces", "cluster", "server"];

/// Address and name of the entries of the navigation.
const AREAS: [(&str, &str); 11] = [
    ("workflows", "Workflows"),
    ("schedules", "Schedules"),
    ("scripts", "Scripts"),
    ("task-queues", "Task queues"),
    ("workers", "Workers"),
    ("deployments", "Deployments"),
    ("endpoints", "Endpoints"),
    ("batches", "Batches"),
    ("namespaces", "Namespaces"),
    ("cluster", "Cluster"),
    ("server", "Server"),
];

impl Shell {
    pub(super) async fn of(web: &Web, asked: &PageRequest<'_>, codec: Option<Codec>) -> Self {
        let namespace = asked.path.first().cloned().unwrap_or_default();
        let mut namespaces = web.readable_namespaces(asked.caller.as_ref()).await;
        if !namespaces.contains(&namespace) {
            namespaces.push(namespace.clone());
        }
        let path: Vec<_> = asked.path.iter().map(|part| encode(part)).collect();
        let address = format!("/ui/{}{}", path.join("/"), asked.query.with(&[]));
        let caller = asked.caller.clone();
        Self { namespace, namespaces, address, has_cluster: web.node.cluster.is_some(), caller, codec }
    }

    /// Whether the navigation leads to an area.
    fn has_area(&self, area: &str) -> bool {
        let may_open = |caller: &Arc<Caller>| match SERVER_AREAS.contains(&area) {
            true => caller.may_read_server(),
            false => caller.may_read(&self.namespace),
        };
        (area != "cluster" || self.has_cluster) && self.caller.as_ref().is_none_or(may_open)
    }

    /// Whether the reader may change what is in the namespace.
    fn may_write(&self) -> bool {
        self.caller.as_ref().is_none_or(|caller| caller.may_write(&self.namespace))
    }

    /// The whole document.
    pub(super) fn around(&mut self, page: Page) -> Markup {
        let base = format!("/ui/{}", encode(&self.namespace));
        let live = page.is_live.then(|| format!("/ui/live?page={}", encode(&self.address)));
        html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    (head(&page.title))
                    script type="module" src="/ui/assets/main.js" {}
                }
                body class=[(!self.may_write()).then_some("read-only")] data-in-namespace=(self.namespace) data-codec=[self.codec.as_ref().map(|codec| &codec.endpoint)] data-live-source=[live] data-live-id=(format!("{:x}", fingerprint(&page.content))) {
                    a.skip href="#main" { "Skip to content" }
                    header.side {
                        a.brand href={ (base) "/workflows" } {
                            img src="/ui/assets/logo.svg" alt="" width="28" height="28";
                            span { "Segno" }
                        }
                        button.menu-button type="button" aria-expanded="false" aria-controls="navigation" { "Menu" }
                        div #navigation {
                            label.namespace {
                                span { "Namespace" }
                                select data-namespace {
                                    @for name in &self.namespaces {
                                        option value={ "/ui/" (encode(name)) "/" (page.area) } selected[*name == self.namespace] { (name) }
                                    }
                                }
                            }
                            nav aria-label="Areas" {
                                ul {
                                    @for (address, name) in AREAS {
                                        @if self.has_area(address) {
                                            li {
                                                a href={ (base) "/" (address) } aria-current=[(address == page.area).then_some("page")] { (name) }
                                            }
                                        }
                                    }
                                }
                            }
                            div.foot {
                                details.codec {
                                    summary { "Codec server" }
                                    form data-codec-form {
                                        label { "Address" input name="endpoint" type="url" placeholder="https://codec.example" value=(self.codec.as_ref().map_or("", |codec| codec.endpoint.as_str())); }
                                        label { input name="credentials" type="checkbox"; " send its cookies" }
                                        button type="submit" { "Use in this browser" }
                                    }
                                }
                                span role="status" data-codec-state {}
                                span.connection role="status" data-connection {}
                                button type="button" data-theme-toggle { "Theme: system" }
                                @if let Some(caller) = self.caller.as_ref().filter(|caller| caller.proof != Proof::Certificate) {
                                    form.logout method="post" action=(LOGOUT) {
                                        span { (caller.name) }
                                        button { "Log out" }
                                    }
                                }
                            }
                        }
                    }
                    main #main tabindex="-1" { (page.content) }
                }
            }
        }
    }

    /// The outcome of an action: alone for a script, or on a page.
    pub(super) fn outcome(&mut self, outcome: Outcome, asked: &PageRequest<'_>, path: &str) -> Response<WebBody> {
        let (class, role) = if outcome.is_failure { ("bad", "alert") } else { ("good", "status") };
        let notice = html! {
            div class={ "notice " (class) } role=(role) data-next=[outcome.next.as_deref()] { (outcome.said) }
        };
        if asked.is_script {
            return respond_html(StatusCode::OK, &notice);
        }
        match outcome.next {
            Some(next) => redirect(&next),
            None => {
                let title = if outcome.is_failure { "Not done" } else { "Done" };
                respond_html(StatusCode::OK, &self.around(alone(title, notice, path, "Back to the page")))
            }
        }
    }

    /// The caller may not open the page, or not do what its form asks for.
    pub(super) fn forbidden(&mut self, status: &Status, asked: &PageRequest<'_>) -> Response<WebBody> {
        let notice = html! { div.notice.bad role="alert" { (problem(status)) } };
        if asked.is_script {
            return respond_html(StatusCode::FORBIDDEN, &notice);
        }
        let is_readable = |name: &String| self.caller.as_ref().is_none_or(|caller| caller.may_read(name));
        self.namespaces.retain(is_readable);
        // The navigation leads to where the caller may go.
        if !self.namespaces.contains(&self.namespace) {
            self.namespace = self.namespaces.first().cloned().unwrap_or_default();
        }
        let content = html! {
            h1 { "You may not open this page" }
            (notice)
            p { "An admin of the server can give you the grant that is missing, with " code { "segno key create" } " or in your token." }
            @if self.namespaces.is_empty() {
                p { "There is no namespace that you may read." }
            } @else {
                h2 { "Namespaces that you may read" }
                ul { @for name in &self.namespaces { li { a href={ "/ui/" (encode(name)) "/workflows" } { (name) } } } }
            }
        };
        let page = Page { title: "Not allowed".to_owned(), area: "workflows", content, is_live: false };
        respond_html(StatusCode::FORBIDDEN, &self.around(page))
    }

    /// A call failed.
    pub(super) fn refused(&mut self, status: &Status, asked: &PageRequest<'_>) -> Response<WebBody> {
        let notice = html! { div.notice.bad role="alert" { (problem(status)) } };
        let content = if asked.is_script {
            notice
        } else {
            // A page that failed is no place to go back to.
            let workflows = format!("/ui/{}/workflows", encode(&self.namespace));
            let (path, words) = match *asked.method {
                Method::POST => (self.address.clone(), "Back to the page"),
                _ if self.address.split('?').next() == Some(&workflows) => ("/".to_owned(), "To the first page"),
                _ => (workflows, "To the workflows"),
            };
            self.around(alone(in_words(status.code()), notice, &path, words))
        };
        respond_html(http_status(status), &content)
    }
}

/// A page with nothing but a notice and a link.
fn alone(title: &str, notice: Markup, path: &str, words: &str) -> Page {
    Page {
        title: title.to_owned(),
        area: "workflows",
        content: html! { h1 { (title) } (notice) p { a href=(path) { (words) } } },
        is_live: false,
    }
}

/// The message of a failed call.
pub(super) fn problem(status: &Status) -> Markup {
    html! { strong { (in_words(status.code())) } " " (status.message()) }
}

/// A status code for people.
fn in_words(code: Code) -> &'static str {
    match code {
        Code::Ok => "Done",
        Code::NotFound => "Not found",
        Code::InvalidArgument | Code::OutOfRange => "Not accepted",
        Code::AlreadyExists => "It is there already",
        Code::FailedPrecondition | Code::Aborted => "Not possible now",
        Code::PermissionDenied | Code::Unauthenticated => "Not allowed",
        Code::ResourceExhausted => "A limit is reached",
        Code::Unavailable => "Not available at the moment",
        Code::DeadlineExceeded | Code::Cancelled => "No answer in time",
        Code::Unimplemented => "Not built",
        Code::Internal | Code::Unknown | Code::DataLoss => "The server failed",
    }
}

/// There is no such page.
pub(super) fn missing(path: &str) -> Page {
    Page {
        title: "Not found".to_owned(),
        area: "workflows",
        content: html! { h1 { "There is no such page" } p { code { (path) } } p { a href="/" { "To the workflows" } } },
        is_live: false,
    }
}

/// There is nothing at an address outside these pages.
pub(super) fn nothing() -> Markup {
    bare("Not found", &html! { p { "There is no such page." } p { a href="/" { "To the workflows" } } })
}

/// A page without navigation, which tells nothing about the server.
pub(super) fn bare(title: &str, content: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head { (head(title)) }
            body.login {
                main #main {
                    h1 { img src="/ui/assets/logo.svg" alt="" width="28" height="28"; " Segno" }
                    (content)
                }
            }
        }
    }
}

/// The head of every page.
fn head(title: &str) -> Markup {
    html! {
        meta charset="utf-8";
        meta name="viewport" content="width=device-width, initial-scale=1";
        meta name="color-scheme" content="light dark";
        title { (title) " · Segno" }
        link rel="icon" href="/ui/assets/logo.svg" type="image/svg+xml";
        link rel="stylesheet" href="/ui/assets/style.css";
        script src="/ui/assets/theme.js" {}
    }
}

/// The name of a status and the class of its badge.
pub(super) fn status_words(status: WorkflowExecutionStatus) -> (&'static str, &'static str) {
    match status {
        WorkflowExecutionStatus::Running => ("Running", "running"),
        WorkflowExecutionStatus::Completed => ("Completed", "good"),
        WorkflowExecutionStatus::Failed => ("Failed", "bad"),
        WorkflowExecutionStatus::Canceled => ("Canceled", "warn"),
        WorkflowExecutionStatus::Terminated => ("Terminated", "bad"),
        WorkflowExecutionStatus::ContinuedAsNew => ("ContinuedAsNew", "plain"),
        WorkflowExecutionStatus::TimedOut => ("TimedOut", "bad"),
        WorkflowExecutionStatus::Paused => ("Paused", "warn"),
        WorkflowExecutionStatus::Unspecified => ("Unspecified", "plain"),
    }
}

/// `TimedOut` for people: `Timed out`.
pub(super) fn spaced(name: &str) -> String {
    let mut text = String::new();
    for (place, c) in name.chars().enumerate() {
        if place > 0 && c.is_uppercase() {
            text.push(' ');
        }
        text.extend(if place > 0 { c.to_lowercase().collect::<Vec<_>>() } else { vec![c] });
    }
    text
}

/// A badge for a status.
pub(super) fn badge(status: i32) -> Markup {
    let status = WorkflowExecutionStatus::try_from(status).unwrap_or(WorkflowExecutionStatus::Unspecified);
    let (name, class) = status_words(status);
    html! { span class={ "badge " (class) } { (spaced(name)) } }
}

/// The address of a run.
pub(super) fn run_address(namespace: &str, workflow_id: &str, run_id: &str) -> String {
    let (namespace, workflow_id) = (encode(namespace), encode(workflow_id));
    match run_id {
        "" => format!("/ui/{namespace}/workflows/{workflow_id}"),
        _ => format!("/ui/{namespace}/workflows/{workflow_id}/{}", encode(run_id)),
    }
}

/// A list of names and values.
pub(super) fn facts(rows: &[(&str, Markup)]) -> Markup {
    html! {
        dl.facts {
            @for (name, value) in rows { div { dt { (name) } dd { (value) } } }
        }
    }
}

/// A form behind a button that opens it. It is posted to the page's own address.
pub(super) fn action(name: &str, class: &str, fields: Markup) -> Markup {
    html! {
        details class={ "action " (class) } name="actions" {
            summary { (name) }
            form method="post" data-action { (fields) div.outcome aria-live="polite" {} }
        }
    }
}

/// A button that posts these fields at once.
pub(super) fn button(name: &str, class: &str, fields: &[(&str, &str)]) -> Markup {
    html! {
        form.inline method="post" data-action {
            @for (field, value) in fields { input type="hidden" name=(field) value=(value); }
            button class=(class) { (name) }
            div.outcome aria-live="polite" {}
        }
    }
}

/// The link to the next page of a list, and to its beginning.
pub(super) fn pager(first: Option<String>, next: Option<String>) -> Markup {
    html! {
        @if first.is_some() || next.is_some() {
            nav.pager aria-label="Pages" {
                @if let Some(first) = first { a.button href=(first) { "First page" } }
                @if let Some(next) = next { a.button href=(next) rel="next" { "Next page" } }
            }
        }
    }
}
