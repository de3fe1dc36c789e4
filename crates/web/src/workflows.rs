//! The list of workflows: filter, counts by status, pages, and forms to start and to act on a selection.

use std::time::Duration;

use maud::{Markup, html};
use segno_node::HashMap;
use segno_proto::{
    enums::{IndexedValueType, WorkflowExecutionStatus},
    operatorservice::ListSearchAttributesRequest,
    segno_workflow::ExplainRequest,
    workflow::WorkflowExecutionInfo,
    workflowservice::{CountWorkflowExecutionsRequest, ListWorkflowExecutionsRequest},
};
use tokio::time::{Instant, timeout_at};
use tonic::Status;

use super::{
    Answer, PageError, PageRequest, Web,
    fields::words,
    forms::{Form, hex, unhex},
    layout::{self, Page, action, badge, pager, run_address, spaced},
    payloads, severity, times,
};

/// Workflows on a page.
const PAGE_SIZE: i32 = 50;
/// How long a list waits for what its workflows wait for.
const WAITS_TIMEOUT: Duration = Duration::from_secs(1);
/// The statuses whose counts are shown, as queries spell them.
const STATUSES: [&str; 8] =
    ["Running", "Paused", "Completed", "Failed", "TimedOut", "Canceled", "Terminated", "ContinuedAsNew"];

/// Runs in which an activity, a workflow task or a Nexus operation fails and is tried again.
const RETRYING: &str = "(ActivityAttempts > 0 OR WorkflowTaskAttempts > 0 OR NexusAttempts > 0)";

impl Web {
    pub(super) async fn workflows_page(&self, namespace: &str, asked: &PageRequest<'_>) -> Result<Answer, PageError> {
        let query = asked.query.trimmed("query");
        let request = ListWorkflowExecutionsRequest {
            namespace: namespace.to_owned(),
            page_size: PAGE_SIZE,
            next_page_token: unhex(asked.query.get("page")).into(),
            query: query.clone(),
        };
        let counted = self.counts(namespace, without_status(&query));
        let (listed, counts, retrying, attributes) = tokio::join!(
            self.call(request),
            counted,
            self.count(namespace, narrowed(&without_status(&query), RETRYING)),
            self.attributes(namespace)
        );
        let listed = match listed {
            Ok(listed) => Ok(listed),
            // Only a wrong query is shown at its place.
            Err(status) if status.code() == tonic::Code::InvalidArgument && !query.is_empty() => Err(status),
            Err(status) => return Err(status.into()),
        };
        let waits = match &listed {
            Ok(listed) => self.waits(namespace, &listed.executions).await,
            Err(_) => HashMap::default(),
        };
        let content = html! {
            div.title {
                h1 { "Workflows" }
                (start_form())
            }
            (filter(&query, listed.as_ref().err(), &attributes))
            (status_links(&counts, retrying, &query, &asked.query))
            @if let Ok(listed) = &listed {
                form #selection method="post" data-action data-selection {
                    input type="hidden" name="query" value=(query);
                    div #rows data-live { (table(namespace, &listed.executions, &waits, &query)) }
                    (selection_bar(&query))
                }
                div #pages data-live {
                    (pager(
                        (!asked.query.get("page").is_empty()).then(|| first_page(&asked.query)),
                        (!listed.next_page_token.is_empty())
                            .then(|| asked.query.with(&[("page", &hex(&listed.next_page_token))])),
                    ))
                }
            }
        };
        Ok(Answer::Page(Page { title: "Workflows".to_owned(), area: "workflows", content, is_live: true }))
    }

    /// The reasons of the open workflows of a page in a few words, by their run ids. What takes too long to find out is left out.
    async fn waits(&self, namespace: &str, found: &[WorkflowExecutionInfo]) -> HashMap<String, Markup> {
        let end = Instant::now() + WAITS_TIMEOUT;
        let mut waits = HashMap::default();
        let is_open = |info: &&WorkflowExecutionInfo| {
            matches!(info.status(), WorkflowExecutionStatus::Running | WorkflowExecutionStatus::Paused)
        };
        for info in found.iter().filter(is_open) {
            let Some(execution) = &info.execution else { continue };
            let request = ExplainRequest {
                namespace: namespace.to_owned(),
                workflow_id: execution.workflow_id.clone(),
                run_id: execution.run_id.clone(),
                generations: Some(1),
                ..Default::default()
            };
            let Ok(answer) = timeout_at(end, self.call(request)).await else { break };
            if let Ok(explained) = answer {
                waits.insert(execution.run_id.clone(), severity::brief(&explained.reasons));
            }
        }
        waits
    }

    /// How many workflows have each status, among those that the rest of the query selects.
    async fn counts(&self, namespace: &str, query: String) -> Vec<(String, i64)> {
        let query = format!("{query} GROUP BY ExecutionStatus");
        let request =
            CountWorkflowExecutionsRequest { namespace: namespace.to_owned(), query: query.trim().to_owned() };
        let Ok(counted) = self.call(request).await else { return Vec::new() };
        let groups = counted.groups.into_iter();
        let named = groups.map(|group| {
            let name = group.group_values.first().and_then(payloads::json_of);
            (name.and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default(), group.count)
        });
        named.collect()
    }

    /// How many workflows a query selects.
    async fn count(&self, namespace: &str, query: String) -> i64 {
        let request = CountWorkflowExecutionsRequest { namespace: namespace.to_owned(), query };
        let counted = self.call(request).await;
        counted.map_or(0, |counted| counted.count)
    }

    /// Names and types of what can be searched for.
    async fn attributes(&self, namespace: &str) -> Vec<(String, String)> {
        let request = ListSearchAttributesRequest { namespace: namespace.to_owned() };
        let Ok(listed) = self.call(request).await else { return Vec::new() };
        let all = listed.custom_attributes.into_iter().chain(listed.system_attributes);
        let mut named: Vec<_> = all.map(|(name, kind)| (name, type_name(kind))).collect();
        named.sort();
        named
    }
}

/// The type of a search attribute in words.
pub(super) fn type_name(kind: i32) -> String {
    let kind = IndexedValueType::try_from(kind).unwrap_or(IndexedValueType::Unspecified);
    words(kind.as_str_name(), "INDEXED_VALUE_TYPE_")
}

fn first_page(query: &Form) -> String {
    match query.with(&[("page", "")]).as_str() {
        "" => "?".to_owned(),
        other => other.to_owned(),
    }
}

/// A query that the links above the list may have been added to: what is before `ExecutionStatus = '…'` or [`RETRYING`] at its
/// end.
fn without_status(query: &str) -> String {
    let of_statuses = STATUSES.iter().map(|status| format!("ExecutionStatus = '{status}'"));
    for part in of_statuses.chain([RETRYING.to_owned()]) {
        if let Some(rest) = query.strip_suffix(&part) {
            let rest = rest.trim_end();
            let rest = rest.strip_suffix("AND").unwrap_or(rest).trim_end();
            return rest.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')).unwrap_or(rest).to_owned();
        }
    }
    let lower = query.to_ascii_lowercase();
    match lower.find("order by") {
        Some(end) => query[..end].trim().to_owned(),
        None => query.to_owned(),
    }
}

/// The query for one status among those that are selected otherwise.
fn with_status(rest: &str, status: &str) -> String {
    narrowed(rest, &format!("ExecutionStatus = '{status}'"))
}

fn narrowed(rest: &str, part: &str) -> String {
    match rest.is_empty() {
        true => part.to_owned(),
        false => format!("({rest}) AND {part}"),
    }
}

/// Where in a query the server found a mistake, as far as it says so.
fn place_of(status: &Status) -> Option<usize> {
    let (place, _) = status.message().strip_prefix("invalid query: at ")?.split_once(':')?;
    place.parse().ok()
}

fn filter(query: &str, error: Option<&Status>, attributes: &[(String, String)]) -> Markup {
    let names: Vec<_> = attributes.iter().map(|(name, kind)| format!("{name}:{kind}")).collect();
    let place = error.and_then(place_of).map(|place| place.saturating_sub(1).min(query.len()));
    let place = place.filter(|place| query.is_char_boundary(*place));
    html! {
        form.filter role="search" method="get" {
            label for="query" { "Filter" }
            div.field {
                input #query name="query" value=(query) autocomplete="off" spellcheck="false" placeholder="WorkflowType = 'Order' AND StartTime > '2026-01-01T00:00:00Z'" role="combobox" aria-expanded="false" aria-controls="completions" aria-autocomplete="list"
                    aria-invalid=[error.map(|_| "true")] aria-describedby=[error.map(|_| "query-error")] data-attributes=(names.join(" "));
                ul #completions role="listbox" aria-label="Search attributes" hidden {}
            }
            button.primary { "Apply" }
            button type="button" data-save-view { "Save view" }
            div.views data-views role="group" aria-label="Saved views" {}
            @if let Some(error) = error {
                div #query-error .notice.bad role="alert" {
                    p { (error.message()) }
                    @if let Some(place) = place {
                        pre { (&query[..place]) mark { @if place < query.len() { (&query[place..]) } @else { "⏎" } } }
                    }
                }
            }
        }
    }
}

fn status_links(counts: &[(String, i64)], retrying: i64, query: &str, asked: &Form) -> Markup {
    let rest = without_status(query);
    let all: i64 = counts.iter().map(|(_, count)| count).sum();
    let count = |status: &str| counts.iter().find(|(name, _)| name == status).map_or(0, |(_, count)| *count);
    let address = |query: &str| match asked.with(&[("page", ""), ("query", query)]).as_str() {
        "" => "?".to_owned(),
        other => other.to_owned(),
    };
    html! {
        nav.counts #counts data-live aria-label="Counts by status" {
            a href=(address(&rest)) aria-current=[(rest == query).then_some("true")] { "All " strong { (grouped(all)) } }
            @for status in STATUSES {
                @let selected = with_status(&rest, status);
                @if count(status) > 0 || selected == query {
                    a class={ "status-" (status) } href=(address(&selected)) aria-current=[(selected == query).then_some("true")] {
                        (spaced(status)) " " strong { (grouped(count(status))) }
                    }
                }
            }
            @let selected = narrowed(&rest, RETRYING);
            @if retrying > 0 || selected == query {
                a class="status-Retrying" href=(address(&selected)) aria-current=[(selected == query).then_some("true")] title="An activity or a workflow task fails and is tried again" {
                    "Retrying " strong { (grouped(retrying)) }
                }
            }
        }
    }
}

/// A number with a thin space between thousands.
pub(super) fn grouped(number: i64) -> String {
    let digits = number.unsigned_abs().to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    if number < 0 { format!("-{text}") } else { text }
}

fn table(namespace: &str, found: &[WorkflowExecutionInfo], waits: &HashMap<String, Markup>, query: &str) -> Markup {
    html! {
        @if found.is_empty() {
            div.empty {
                @if query.is_empty() {
                    p { "There are no workflows in this namespace yet." }
                    p { "Start one with the button above, with an SDK, or with " code { "segno workflow start" } "." }
                } @else { p { "No workflow matches this filter." } }
            }
        } @else {
            table.list {
                caption.hidden { "Workflows, newest first" }
                thead {
                    tr {
                        th.check { input type="checkbox" aria-label="Select all on this page" data-select-all; }
                        th scope="col" { "Status" }
                        th scope="col" { "Workflow id" }
                        th scope="col" { "Waits for" }
                        th scope="col" { "Type" }
                        th scope="col" { "Task queue" }
                        th scope="col" { "Started" }
                        th scope="col" { "Duration" }
                        th.number scope="col" { "Events" }
                    }
                }
                tbody { @for info in found { (row(namespace, info, waits)) } }
            }
        }
    }
}

fn row(namespace: &str, info: &WorkflowExecutionInfo, waits: &HashMap<String, Markup>) -> Markup {
    let execution = info.execution.clone().unwrap_or_default();
    let name = info.r#type.as_ref().map(|kind| kind.name.as_str()).unwrap_or_default();
    let (started, closed) = (times::nanos(info.start_time.as_ref()), times::nanos(info.close_time.as_ref()));
    html! {
        tr {
            td.check {
                input type="checkbox" name="run" value={ (execution.run_id) " " (execution.workflow_id) } aria-label={ "Select " (execution.workflow_id) };
            }
            td { (badge(info.status)) }
            th.id scope="row" { a href=(run_address(namespace, &execution.workflow_id, &execution.run_id)) { (execution.workflow_id) } }
            td.waits data-label="Waits for" {
                @match waits.get(&execution.run_id) { Some(waits) => (waits), None => span.faint { "–" } }
            }
            td data-label="Type" { (name) }
            td data-label="Queue" { (info.task_queue) }
            td data-label="Started" { (times::relative(info.start_time.as_ref())) }
            td data-label="Duration" {
                @match (started, closed) {
                    (Some(started), Some(closed)) => (times::span(closed - started)),
                    (Some(started), None) => span data-since=(times::exact(started)) { "…" },
                    _ => "–",
                }
            }
            td.number data-label="Events" { @if info.history_length > 0 { (grouped(info.history_length)) } @else { span.faint { "–" } } }
        }
    }
}

fn selection_bar(query: &str) -> Markup {
    html! {
        div.selection hidden data-selection-bar {
            p { strong data-selection-count { "0" } " selected" }
            label { "Reason " input name="reason" value="from the web pages"; }
            label { "Signal " input name="signal" placeholder="name, for Signal"; }
            label { "Input " input name="input" placeholder="JSON, for Signal"; }
            @if !query.is_empty() {
                label { input type="checkbox" name="all" value="1"; " all that match the filter" }
            }
            button name="do" value="cancel" { "Cancel" }
            button name="do" value="signal" { "Signal" }
            button.danger name="do" value="terminate" data-confirm="Terminate the selected workflows?" { "Terminate" }
        }
        div.outcome aria-live="polite" {}
    }
}

fn start_form() -> Markup {
    action(
        "Start workflow",
        "primary",
        html! {
            input type="hidden" name="do" value="start";
            label { "Type" input name="type" required; }
            label { "Task queue" input name="queue" required; }
            label { "Workflow id " small { "(made up if empty)" } input name="id"; }
            label { "Input " small { "(JSON; one value per line for several arguments)" } textarea name="input" rows="4" spellcheck="false" {} }
            button.primary { "Start" }
        },
    )
}

/// Shown where a call of a page failed but the rest is of use.
pub(super) fn note(status: &Status) -> Markup {
    html! { div.notice.bad role="alert" { (layout::problem(status)) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_by_status_replace_each_other() {
        for rest in ["", "WorkflowType = 'a' OR WorkflowType = 'b'"] {
            for status in STATUSES {
                let query = with_status(rest, status);
                assert_eq!(without_status(&query), rest);
            }
            assert_eq!(without_status(&narrowed(rest, RETRYING)), rest);
        }
        assert_eq!(without_status("A = 1 ORDER BY StartTime"), "A = 1");
    }

    #[test]
    fn a_mistake_has_its_place() {
        let told = Status::invalid_argument(
            "invalid query: at 16: expected a value after =, found Order; put texts in quotes",
        );
        assert_eq!(place_of(&told), Some(16));
        let page = filter("WorkflowType = Order", Some(&told), &[]).0;
        assert!(page.contains("<pre>WorkflowType = <mark>Order</mark></pre>"), "{page}");
        for text in ["the namespace is not right", "there is no attribute that 7 names, at 3: x"] {
            assert_eq!(place_of(&Status::invalid_argument(text)), None);
        }
    }

    #[test]
    fn thousands() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(1_234_567), "1\u{202f}234\u{202f}567");
    }

    #[test]
    fn what_users_wrote_is_escaped() {
        let info = WorkflowExecutionInfo {
            execution: Some(segno_proto::common::WorkflowExecution {
                workflow_id: "<script>alert(1)</script>\"'".to_owned(),
                run_id: "r".to_owned(),
            }),
            ..Default::default()
        };
        let row = row("default", &info, &HashMap::default()).0;
        assert!(!row.contains("<script>") && row.contains("&lt;script&gt;"), "{row}");
    }
}
