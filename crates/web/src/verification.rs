//! The last verification of a candidate: what came of replaying open runs on its workers, and a button to start one.

use maud::{Markup, html};
use segno_proto::segno_verification::{
    Candidate, DescribeRequest, ListRequest, RunFailure, StartRequest, State, StopRequest, Verification,
};
use tonic::{Code, Status};

use super::{
    Answer, IDENTITY, Outcome, PageError, PageRequest, Web,
    forms::{Form, encode},
    layout::{Page, action, button, problem, run_address},
    times,
    workflows::grouped,
};

/// The address of the page of a queue whose runs other workers try.
pub(super) fn address_of_queue(namespace: &str, queue: &str) -> String {
    address(namespace, &Candidate { task_queue: queue.to_owned(), ..Default::default() })
}

/// Names and values of what makes a candidate.
fn parts(candidate: &Candidate) -> [(&'static str, &str); 4] {
    [
        ("deployment", &candidate.deployment_name),
        ("build", &candidate.build_id),
        ("queue", &candidate.task_queue),
        ("on", &candidate.on_task_queue),
    ]
}

/// The address of the page of a candidate.
pub(super) fn address(namespace: &str, candidate: &Candidate) -> String {
    format!("/ui/{}/verification{}", encode(namespace), Form::default().with(&parts(candidate)))
}

fn candidate_of(form: &Form) -> Candidate {
    Candidate {
        deployment_name: form.trimmed("deployment"),
        build_id: form.trimmed("build"),
        task_queue: form.trimmed("queue"),
        on_task_queue: form.trimmed("on"),
    }
}

/// A candidate in words.
fn name(candidate: &Candidate) -> String {
    let Candidate { deployment_name, build_id, task_queue, on_task_queue } = candidate;
    match build_id.is_empty() {
        false => format!("{deployment_name}:{build_id}"),
        true => format!("{task_queue} on {on_task_queue}"),
    }
}

impl Web {
    /// The page of a candidate; without one, the verifications of the namespace.
    pub(super) async fn verification_page(
        &self,
        namespace: &str,
        asked: &PageRequest<'_>,
    ) -> Result<Answer, PageError> {
        let candidate = candidate_of(&asked.query);
        let is_version = !candidate.build_id.is_empty();
        let is_known = is_version || !candidate.on_task_queue.is_empty();
        let content = html! {
            h1 { "Verification" @if is_known { " of " (name(&candidate)) } }
            p.faint { "Workers of a candidate replay open runs, which do not change. So code that does not fit them is found before it gets their tasks." }
            div.actions role="group" aria-label="Actions" { (action("Verify", "", start_fields(&candidate))) }
            @if is_known {
                div #rows data-live { (self.last_verification(namespace, &candidate).await) }
            } @else {
                div #rows data-live { (self.verifications(namespace).await?) }
            }
        };
        Ok(Answer::Page(Page { title: "Verification".to_owned(), area: "task-queues", content, is_live: true }))
    }

    pub(super) async fn verification_action(&self, namespace: &str, form: &Form) -> Result<Answer, PageError> {
        if form.get("do") == "stop" {
            self.call(StopRequest { namespace: namespace.to_owned(), id: form.trimmed("id") }).await?;
            return Ok(Outcome::done(html! { "The verification is stopped" }));
        }
        let candidate = candidate_of(form);
        let request = StartRequest {
            namespace: namespace.to_owned(),
            candidate: Some(candidate.clone()),
            query: form.trimmed("filter"),
            sample_size: form.number("sample").unwrap_or_default(),
            include_pinned: !form.get("pinned").is_empty(),
            identity: IDENTITY.to_owned(),
            ..Default::default()
        };
        self.call(request).await?;
        Ok(Outcome::then(html! { "The verification is started" }, address(namespace, &candidate)))
    }

    /// A section with the last verification of a candidate, for this page and for that of a version.
    pub(super) async fn last_verification(&self, namespace: &str, candidate: &Candidate) -> Markup {
        let request = DescribeRequest { namespace: namespace.to_owned(), candidate: Some(candidate.clone()) };
        match self.call(request).await {
            Ok(found) => section(namespace, &found.verification.unwrap_or_default()),
            Err(status) if status.code() == Code::NotFound => {
                html! { div.empty { p { "No verification of this candidate is known. Results are kept for 30 days." } } }
            }
            Err(status) => html! { div.notice.bad { (problem(&status)) } },
        }
    }

    async fn verifications(&self, namespace: &str) -> Result<Markup, Status> {
        let all = self.call(ListRequest { namespace: namespace.to_owned() }).await?.verifications;
        Ok(html! {
            @if all.is_empty() {
                div.empty { p { "There are no verifications." } }
            } @else {
                table.list {
                    caption.hidden { "Verifications" }
                    thead { tr { th scope="col" { "Candidate" } th scope="col" { "State" } th scope="col" { "Runs" } th scope="col" { "Started" } } }
                    tbody { @for one in &all {
                        @let candidate = one.candidate.clone().unwrap_or_default();
                        tr {
                            th scope="row" { a href=(address(namespace, &candidate)) { (name(&candidate)) } }
                            td data-label="State" { (badge(one)) }
                            td data-label="Runs" { (counts(one)) }
                            td data-label="Started" { (times::relative(one.start_time.as_ref())) }
                        }
                    } }
                }
            }
        })
    }
}

/// The form that starts a verification.
fn start_fields(candidate: &Candidate) -> Markup {
    let is_version = !candidate.build_id.is_empty();
    html! {
        @if is_version {
            input type="hidden" name="deployment" value=(candidate.deployment_name);
            input type="hidden" name="build" value=(candidate.build_id);
        } @else {
            label { "Task queue of the runs" input name="queue" value=(candidate.task_queue) required; }
            label { "Task queue that workers with the new code poll" input name="on" value=(candidate.on_task_queue) required; }
        }
        label { "Filter " small { "(as in lists of workflows; empty for all)" } input name="filter" spellcheck="false"; }
        label { "Most runs " small { "(the oldest and the longest first)" } input name="sample" type="number" min="1" max="100000" placeholder="1000"; }
        @if is_version { label { input name="pinned" type="checkbox"; " also runs that are pinned to other versions" } }
        button.primary { "Verify" }
    }
}

fn badge(one: &Verification) -> Markup {
    let (class, word) = match one.state() {
        State::Running => ("running", "Running"),
        State::Completed if one.failed + one.unanswered == 0 => ("good", "All replay"),
        State::Completed if one.failed > 0 => ("bad", "Not all replay"),
        State::Completed => ("warn", "No answer"),
        State::Stopped => ("warn", "Stopped"),
        _ => ("bad", "Failed"),
    };
    html! { span class={ "badge " (class) } { (word) } }
}

fn counts(one: &Verification) -> Markup {
    html! {
        (grouped(one.total)) @if one.total == 1 { " run: " } @else { " runs: " }
        (grouped(one.replayed)) " replay, "
        span.bad[one.failed > 0] { (grouped(one.failed)) " do not" } ", "
        (grouped(one.unanswered)) " no answer"
    }
}

fn section(namespace: &str, one: &Verification) -> Markup {
    let done = one.replayed + one.failed + one.unanswered;
    html! {
        section.card aria-label="Last verification" {
            h2 { "Last verification " (badge(one)) }
            p {
                (counts(one)) ". Started " (times::relative(one.start_time.as_ref()))
                @if !one.query.is_empty() { ", with the filter " code { (one.query) } }
                "."
            }
            @if one.state() == State::Running {
                p {
                    progress max=(one.total.max(1)) value=(done.min(one.total.max(1))) aria-label="Progress" {}
                    " " (grouped(done)) " of " (grouped(one.total)) " "
                    (button("Stop", "danger", &[("do", "stop"), ("id", &one.id)]))
                }
            }
            @if !one.error.is_empty() { div.notice.bad { (one.error) } }
            @if one.restarts > 0 {
                p.faint {
                    "It began anew " @if one.restarts == 1 { "once" } @else { (one.restarts) " times" }
                    ", because the node that carried it out stopped."
                }
            }
            @if one.skipped > 0 { p.faint { (grouped(one.skipped)) " had nothing to replay." } }
            @if one.found > one.total + one.skipped { p.faint { (grouped(one.found)) " open runs would move to the candidate; not all were tried." } }
            @if !one.groups.is_empty() {
                table.list {
                    caption { "Failures by type and message" }
                    thead { tr { th scope="col" { "Runs" } th scope="col" { "Type" } th scope="col" { "Message" } } }
                    tbody {
                        @for group in &one.groups {
                            tr {
                                td data-label="Runs" { (grouped(group.count)) }
                                td data-label="Type" { (group.workflow_type) }
                                td data-label="Message" { code { (group.message) } }
                            }
                        }
                        @if one.others_failed > 0 { tr { td data-label="Runs" { (grouped(one.others_failed)) } td {} td { "others" } } }
                    }
                }
            }
            @if !one.failures.is_empty() {
                table.list {
                    caption { "Runs that do not replay" @if one.failed > one.failures.len() as i64 { ": the first " (one.failures.len()) } }
                    thead { tr { th scope="col" { "Workflow" } th scope="col" { "Type" } th scope="col" { "Event" } th scope="col" { "Failure" } } }
                    tbody { @for failed in &one.failures { (row(namespace, failed)) } }
                }
            }
        }
    }
}

fn row(namespace: &str, failed: &RunFailure) -> Markup {
    let failure = failed.failure.clone().unwrap_or_default();
    let mut lines = failure.message.splitn(2, '\n');
    let (first, rest) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    html! {
        tr {
            th scope="row" { a href=(run_address(namespace, &failed.workflow_id, &failed.run_id)) { (failed.workflow_id) } }
            td data-label="Type" { (failed.workflow_type) }
            td data-label="Event" { @if failure.event_id > 0 { (failure.event_id) " " (failure.event_type) } }
            td data-label="Failure" {
                code { (first) }
                @if !rest.is_empty() || !failure.stack_trace.is_empty() {
                    details { summary { "More" } pre { (rest) "\n" (failure.stack_trace) } }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_its_candidate() {
        let version =
            Candidate { deployment_name: "orders".to_owned(), build_id: "a:1".to_owned(), ..Default::default() };
        let address = address("default", &version);
        assert_eq!(address, "/ui/default/verification?deployment=orders&build=a%3A1");
        let query = address.split_once('?').expect("a query").1;
        let candidate = candidate_of(&Form::parse(query).expect("UTF-8"));
        assert_eq!(name(&candidate), "orders:a:1");
        assert_eq!(address_of_queue("a/b", "q"), "/ui/a%2Fb/verification?queue=q");
    }

    #[test]
    fn failures_are_shown_with_event_and_run() {
        let failure = segno_proto::segno_verification::Failure {
            message: "<differs>\nin full".to_owned(),
            event_id: 11,
            event_type: "TimerStarted".to_owned(),
            ..Default::default()
        };
        let failed = RunFailure {
            workflow_id: "w".to_owned(),
            run_id: "r".to_owned(),
            failure: Some(failure),
            ..Default::default()
        };
        let one = Verification {
            state: State::Completed as i32,
            total: 3,
            replayed: 2,
            failed: 1,
            restarts: 2,
            failures: vec![failed],
            ..Default::default()
        };
        let shown = section("default", &one).0;
        for part in [
            "Not all replay",
            "11 TimerStarted",
            "&lt;differs&gt;",
            "/ui/default/workflows/w/r",
            "3 runs: 2 replay",
            "began anew 2 times",
        ] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
    }
}
