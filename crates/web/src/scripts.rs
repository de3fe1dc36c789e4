//! The list of scripts, and deploying a new one.

use maud::{Markup, html};
use segno_proto::segno_flow::{CheckRequest, DeployRequest, Diagnostic, ListRequest};
use tonic::{Code, Status};

use super::{
    Answer, IDENTITY, Outcome, PageError, PageRequest, Web,
    forms::{Form, encode},
    layout::{Page, pager},
    times,
};

/// Scripts on a page.
const PAGE_SIZE: i32 = 100;

impl Web {
    pub(super) async fn scripts_page(&self, namespace: &str, asked: &PageRequest<'_>) -> Result<Answer, PageError> {
        let request = ListRequest {
            namespace: namespace.to_owned(),
            page_size: PAGE_SIZE,
            next_page_token: asked.query.get("page").to_owned(),
        };
        let listed = self.call(request).await?;
        let base = format!("/ui/{}/scripts", encode(namespace));
        let content = html! {
            h1 { "Scripts" }
            div #rows data-live {
                @if listed.flows.is_empty() {
                    div.empty { p { "There are no scripts in this namespace." } p { "Deploy one below, or with " code { "segno flow deploy" } "." } }
                } @else {
                    table.list {
                        caption.hidden { "Scripts" }
                        thead { tr {
                            th scope="col" { "Name" } th scope="col" { "Current version" } th scope="col" { "Deployed" }
                            th scope="col" { "Schedule" } th.number scope="col" { "Versions" } th.number scope="col" { "Open runs" }
                        } }
                        tbody { @for flow in &listed.flows {
                            @let current = flow.versions.iter().find(|version| version.version == flow.current);
                            tr {
                                th scope="row" { a href={ (base) "/" (encode(&flow.name)) } { (flow.name) } }
                                td data-label="Version" {
                                    code { (flow.current.get(..12).unwrap_or(&flow.current)) }
                                    @if current.is_some_and(|version| !version.unusable.is_empty()) { " " span.badge.warn { "unusable" } }
                                }
                                td data-label="Deployed" { (times::relative(current.and_then(|version| version.created.as_ref()))) }
                                td data-label="Schedule" { @if flow.schedule.is_empty() { span.faint { "–" } } @else { code { (flow.schedule) } } }
                                td.number data-label="Versions" { (flow.versions.len()) }
                                td.number data-label="Open runs" { (flow.versions.iter().map(|version| version.open_runs).sum::<i64>()) }
                            }
                        } }
                    }
                }
                (pager(None, (!listed.next_page_token.is_empty()).then(|| asked.query.with(&[("page", &listed.next_page_token)]))))
            }
            section aria-labelledby="new-title" {
                h2 #new-title { "New script" }
                (editor("", "script.flow"))
            }
        };
        Ok(Answer::Page(Page { title: "Scripts".to_owned(), area: "scripts", content, is_live: true }))
    }

    pub(super) async fn scripts_action(&self, namespace: &str, form: &Form) -> Result<Answer, PageError> {
        let source = bytes::Bytes::from(form.get("source").replace("\r\n", "\n"));
        let file_name = form.trimmed("file");
        match form.get("do") {
            "check" => {
                let request = CheckRequest { namespace: namespace.to_owned(), source, file_name };
                let checked = self.call(request).await?;
                let found = &checked.diagnostics;
                Ok(match (found.is_empty(), has_errors(found)) {
                    (true, _) => Outcome::done(html! { "No mistakes in " strong { (checked.name) } }),
                    (false, true) => Outcome::failed(html! { p { "It cannot be deployed:" } (findings(found)) }),
                    (false, false) => Outcome::done(html! { p { "It can be deployed; warnings:" } (findings(found)) }),
                })
            }
            "deploy" => {
                let checking = CheckRequest {
                    namespace: namespace.to_owned(),
                    source: source.clone(),
                    file_name: file_name.clone(),
                };
                let checked = self.call(checking).await?;
                if has_errors(&checked.diagnostics) {
                    return Ok(Outcome::failed(html! { p { "It is not deployed:" } (findings(&checked.diagnostics)) }));
                }
                let request = DeployRequest {
                    namespace: namespace.to_owned(),
                    source,
                    file_name,
                    activate: Some(true),
                    take_over: !form.get("take-over").is_empty(),
                    identity: IDENTITY.to_owned(),
                    ..Default::default()
                };
                let deployed = self.call(request).await.map_err(with_advice)?;
                let next = format!("/ui/{}/scripts/{}", encode(namespace), encode(&deployed.name));
                Ok(Outcome::then(html! { "Version " (deployed.version) " of " (deployed.name) " is deployed" }, next))
            }
            _ => Err(PageError::Missing),
        }
    }
}

/// A form to edit, check and deploy a source.
pub(super) fn editor(source: &str, file: &str) -> Markup {
    html! {
        form.stack.editor method="post" data-action {
            label { "File name" input name="file" value=(file); }
            label { "Source" textarea.source name="source" rows="16" spellcheck="false" required { (source) } }
            div.row {
                button name="do" value="check" { "Check" }
                button.primary name="do" value="deploy" { "Deploy and activate" }
                label.check { input type="checkbox" name="take-over" value="yes"; " Take over " small { "also what workers execute, on every task queue" } }
            }
            div.outcome aria-live="polite" {}
        }
    }
}

/// A refused deployment, with what to do if workers execute the type.
fn with_advice(refusal: Status) -> Status {
    match refusal.code() {
        Code::FailedPrecondition => Status::failed_precondition(format!(
            "{}. Give the script another name, or tick “Take over” and deploy it again",
            refusal.message()
        )),
        _ => refusal,
    }
}

fn has_errors(found: &[Diagnostic]) -> bool {
    found.iter().any(|one| one.severity == "error")
}

/// The findings of the checker.
fn findings(found: &[Diagnostic]) -> Markup {
    html! {
        ul.findings { @for one in found {
            li class=(one.severity) {
                strong { "line " (one.line) ", column " (one.column) ": " } (one.message)
                @if !one.hint.is_empty() { " " span.faint { (one.hint) } }
            }
        } }
    }
}
