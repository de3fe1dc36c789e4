//! One script: versions, and the source with the lines at which runs wait.

use std::collections::BTreeMap;

use maud::{Markup, html};
use segno_proto::{
    segno_flow::{ActivateRequest, DescribeRequest, DescribeRunRequest, GetSourceRequest, RollbackRequest},
    workflowservice::ListWorkflowExecutionsRequest,
};
use serde_json::Value;

use super::{
    Answer, IDENTITY, Outcome, PageError, PageRequest, Web,
    forms::{Form, encode},
    layout::{Page, button, facts, run_address},
    scripts::editor,
    times,
};

/// Open runs whose place in the source is shown.
const RUNS_MAX: i32 = 25;

/// The marks of each line.
pub(super) type LineMarks = BTreeMap<usize, Vec<Markup>>;

impl Web {
    pub(super) async fn script_page(
        &self,
        namespace: &str,
        name: &str,
        asked: &PageRequest<'_>,
    ) -> Result<Answer, PageError> {
        let request = DescribeRequest { namespace: namespace.to_owned(), name: name.to_owned() };
        let flow = self.call(request).await?.flow.unwrap_or_default();
        let version = match asked.query.get("version") {
            "" => flow.current.clone(),
            given => given.to_owned(),
        };
        let request =
            GetSourceRequest { namespace: namespace.to_owned(), name: name.to_owned(), version: version.clone() };
        let found = self.call(request).await?;
        let source = String::from_utf8_lossy(&found.source).into_owned();
        let marks = self.marks(namespace, name, &source).await;
        let content = html! {
            nav.crumbs aria-label="Breadcrumb" { a href={ "/ui/" (encode(namespace)) "/scripts" } { "Scripts" } " / " span { (name) } }
            div.title { h1 { (name) } a.button href={ "/ui/" (encode(namespace)) "/workflows?query=" (encode(&format!("WorkflowType = '{name}'"))) } { "Its runs" } }
            (facts(&[
                ("Current version", html! { code { (flow.current) } }),
                ("Schedule", html! { @if flow.schedule.is_empty() { "–" } @else { code { (flow.schedule) } } }),
                ("Queues", html! { @if flow.takes_over { "all" } @else { "those without workers" } }),
                ("Handlers", html! { @for handler in &flow.handlers { (handler.kind) " " code { (handler.name) } " " } @if flow.handlers.is_empty() { "–" } }),
            ]))
            section aria-labelledby="versions-title" {
                h2 #versions-title { "Versions" }
                div #versions data-live {
                    table.list {
                        caption.hidden { "Versions" }
                        thead { tr { th scope="col" { "Version" } th scope="col" { "Deployed" } th scope="col" { "By" } th.number scope="col" { "Open runs" } th scope="col" { "Actions" } } }
                        tbody { @for one in flow.versions.iter().rev() {
                            tr aria-current=[(one.version == version).then_some("true")] {
                                th scope="row" {
                                    a href={ "?version=" (one.version) } { code { (one.version.get(..12).unwrap_or(&one.version)) } }
                                    @if one.version == flow.current { " " span.badge.good { "current" } }
                                    @if !one.unusable.is_empty() { " " span.badge.warn title=(one.unusable) { "unusable" } p { (one.unusable) } }
                                }
                                td data-label="Deployed" { (times::shown(one.created.as_ref())) }
                                td data-label="By" { (one.identity) }
                                td.number data-label="Open runs" { (one.open_runs) }
                                td.buttons data-label="Actions" {
                                    @if one.version != flow.current { (button("Activate", "", &[("do", "activate"), ("version", &one.version)])) }
                                    @else if flow.versions.len() > 1 { (button("Roll back", "", &[("do", "rollback")])) }
                                }
                            }
                        } }
                    }
                }
            }
            section aria-labelledby="source-title" {
                h2 #source-title { "Source" }
                div #source-lines data-live { (lines(&source, &marks)) }
            }
            section aria-labelledby="edit-title" {
                h2 #edit-title { "Edit" }
                (editor(&source, &found.file_name))
            }
        };
        Ok(Answer::Page(Page { title: name.to_owned(), area: "scripts", content, is_live: true }))
    }

    pub(super) async fn script_action(&self, namespace: &str, name: &str, form: &Form) -> Result<Answer, PageError> {
        let (namespace_name, name, identity) = (namespace.to_owned(), name.to_owned(), IDENTITY.to_owned());
        match form.get("do") {
            "activate" => {
                let version = form.trimmed("version");
                let request = ActivateRequest { namespace: namespace_name, name, version, identity };
                let done = self.call(request).await?;
                Ok(Outcome::done(html! { "Version " (done.version) " is current" }))
            }
            "rollback" => {
                let request = RollbackRequest { namespace: namespace_name, name, identity };
                let done = self.call(request).await?;
                Ok(Outcome::done(html! { "Version " (done.version) " is current again" }))
            }
            _ => self.scripts_action(namespace, form).await,
        }
    }

    /// On which lines of a source open runs stand. Runs of other versions are left out.
    async fn marks(&self, namespace: &str, name: &str, source: &str) -> LineMarks {
        let request = ListWorkflowExecutionsRequest {
            namespace: namespace.to_owned(),
            page_size: RUNS_MAX,
            query: format!("WorkflowType = '{}' AND CloseTime IS NULL", name.replace('\'', "''")),
            ..Default::default()
        };
        let listed = self.call(request).await;
        let mut marks = LineMarks::new();
        for info in listed.map(|listed| listed.executions).unwrap_or_default() {
            let execution = info.execution.unwrap_or_default();
            let request = DescribeRunRequest {
                namespace: namespace.to_owned(),
                workflow_id: execution.workflow_id.clone(),
                run_id: execution.run_id.clone(),
                at_event: 0,
            };
            let Ok(seen) = self.call(request).await else { continue };
            if seen.source != source.as_bytes() {
                continue;
            }
            let Ok(state) = serde_json::from_str::<Value>(&seen.state_json) else { continue };
            let address = format!("{}/script", run_address(namespace, &execution.workflow_id, &execution.run_id));
            for line in lines_of(&state).keys() {
                marks.entry(*line).or_default().push(html! { a href=(address) { (execution.workflow_id) } });
            }
        }
        marks
    }
}

pub(super) fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// The operations on each line, from the state of a run.
pub(super) fn lines_of(state: &Value) -> BTreeMap<usize, Vec<String>> {
    let mut marks: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for piece in list(state, "code") {
        let waits: Vec<_> = list(piece, "waiting_for").iter().filter_map(Value::as_str).collect();
        for (place, frame) in list(piece, "frames").iter().enumerate() {
            let line = frame.get("line").and_then(Value::as_u64).unwrap_or(0) as usize;
            let note = match place {
                0 if waits.is_empty() => format!("{} stands here", text(piece, "id")),
                0 => format!("{} waits for {}", text(piece, "id"), waits.join(", ")),
                _ => format!("{} called from here", text(piece, "id")),
            };
            marks.entry(line).or_default().push(note);
        }
    }
    marks
}

/// A source with numbers and marks.
pub(super) fn lines(source: &str, marks: &LineMarks) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label="Source" {
            ol.source {
                @for (place, line) in source.lines().enumerate() {
                    @let notes = marks.get(&(place + 1));
                    li.stands[notes.is_some()] {
                        code { (line) }
                        @for note in notes.into_iter().flatten() { span.note { (note) } }
                    }
                }
            }
        }
    }
}
