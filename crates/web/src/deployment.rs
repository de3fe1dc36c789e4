//! One worker deployment: its routing as a picture, and its versions.

use maud::{Markup, html};
use segno_proto::{
    deployment::{RoutingConfig, WorkerDeploymentInfo},
    workflowservice::DescribeWorkerDeploymentRequest,
};

use super::{
    Answer, PageError, PageRequest, Web,
    deployment_picture::picture,
    deployment_routing::{
        Target, build_of, current, last_change, may_change, pinned_address, ramping, routing_forms, share, status_badge,
    },
    deployments::{link, version_address},
    forms::encode,
    layout::{Page, action, facts},
    times,
    workflows::{grouped, note},
};

/// The versions with their pinned workflows, or why these could not be counted.
type PinnedCount = Result<std::collections::BTreeMap<String, i64>, tonic::Status>;

impl Web {
    pub(super) async fn deployment_page(
        &self,
        namespace: &str,
        name: &str,
        asked: &PageRequest<'_>,
    ) -> Result<Answer, PageError> {
        let request =
            DescribeWorkerDeploymentRequest { namespace: namespace.to_owned(), deployment_name: name.to_owned() };
        let (found, pinned) = tokio::join!(self.call(request), self.pinned(namespace, name));
        let found = found?;
        let info = found.worker_deployment_info.unwrap_or_default();
        let routing = info.routing_config.clone().unwrap_or_default();
        let content = html! {
            nav.crumbs aria-label="Breadcrumb" { a href={ "/ui/" (encode(namespace)) "/deployments" } { "Deployments" } " / " span { (name) } }
            h1 { (name) }
            div #facts data-live {
                (about(namespace, &info, &routing))
                @if may_change(asked, namespace) {
                    (forms(&info, &routing, &found.conflict_token))
                }
            }
            section aria-labelledby="picture-title" {
                h2 #picture-title { "Where workflows go" }
                div #picture data-live {
                    @match &pinned {
                        Ok(pinned) => (picture(namespace, name, &routing, &info.version_summaries, pinned)),
                        Err(status) => (note(status)),
                    }
                    p.faint {
                        "Pinned workflows stay on their version until they close or continue as new. A version is drained when none is left."
                    }
                }
            }
            section aria-labelledby="versions-title" {
                h2 #versions-title { "Versions" }
                div #versions data-live { (versions(namespace, &info, &routing, &pinned)) }
            }
        };
        Ok(Answer::Page(Page { title: name.to_owned(), area: "deployments", content, is_live: true }))
    }
}

fn about(namespace: &str, info: &WorkerDeploymentInfo, routing: &RoutingConfig) -> Markup {
    let or_none = |text: &str| html! { @if text.is_empty() { "–" } @else { (text) } };
    let ramp = ramping(routing);
    facts(&[
        ("Current", link(namespace, &info.name, &current(routing))),
        (
            "Ramping",
            html! {
                @match &ramp {
                    Some((target, percentage)) => { (link(namespace, &info.name, target)) " at " (percentage) " %" }
                    None => { "–" }
                }
            },
        ),
        ("Routing changed", times::shown(last_change(routing).as_ref())),
        ("By", or_none(&info.last_modifier_identity)),
        ("Manager", or_none(&info.manager_identity)),
        ("Revision", html! { (routing.revision_number) }),
        ("Created", times::shown(info.create_time.as_ref())),
    ])
}

fn forms(info: &WorkerDeploymentInfo, routing: &RoutingConfig, token: &[u8]) -> Markup {
    let builds: Vec<_> = info.version_summaries.iter().map(build_of).collect();
    html! {
        div.actions role="group" aria-label="Actions" {
            (routing_forms(routing, token, None, &builds))
            @if builds.is_empty() {
                (action("Delete", "danger", html! {
                    input type="hidden" name="do" value="delete";
                    p { "The deployment has no versions. It comes back when a worker of it polls." }
                    button.danger { "Delete" }
                }))
            }
        }
    }
}

fn versions(namespace: &str, info: &WorkerDeploymentInfo, routing: &RoutingConfig, pinned: &PinnedCount) -> Markup {
    html! {
        @if info.version_summaries.is_empty() { p.faint { "none yet" } } @else {
            table.list {
                caption.hidden { "Versions" }
                thead { tr {
                    th scope="col" { "Build id" } th scope="col" { "Status" } th.number scope="col" { "Share" } th.number scope="col" { "Pinned" }
                    th scope="col" { "Created" } th scope="col" { "Last current" } th scope="col" { "Drainage" }
                } }
                tbody { @for summary in &info.version_summaries {
                    @let build = build_of(summary);
                    @let share = share(routing, &Target::Build(build.to_owned()));
                    tr {
                        th scope="row" { a href=(version_address(namespace, &info.name, build)) { (build) } }
                        td { (status_badge(summary.status())) }
                        td.number data-label="Share" { @if share > 0.0 { (share) " %" } @else { span.faint { "–" } } }
                        td.number data-label="Pinned" {
                            @match pinned.as_ref().map(|pinned| pinned.get(build).copied().unwrap_or(0)) {
                                Ok(0) => "0",
                                Ok(count) => a href=(pinned_address(namespace, &info.name, build)) { (grouped(count)) },
                                Err(_) => span.faint { "–" },
                            }
                        }
                        td data-label="Created" { (times::relative(summary.create_time.as_ref())) }
                        td data-label="Last current" { (times::relative(summary.last_current_time.as_ref())) }
                        td data-label="Drainage" {
                            @match &summary.drainage_info {
                                Some(drainage) => { "since " (times::relative(drainage.last_changed_time.as_ref())) }
                                None => span.faint { "–" }
                            }
                        }
                    }
                } }
            }
        }
    }
}
