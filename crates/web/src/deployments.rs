//! The list of worker deployments.

use maud::{Markup, html};
use segno_proto::workflowservice::{
    ListWorkerDeploymentsRequest, list_worker_deployments_response::WorkerDeploymentSummary,
};

use super::{
    Answer, PageError, PageRequest, Web,
    deployment_routing::{Target, current, last_change, ramping},
    forms::{encode, hex, unhex},
    layout::{Page, pager},
    times,
};

/// Deployments on a page.
const PAGE_SIZE: i32 = 100;

/// The address of a deployment.
pub(super) fn deployment_address(namespace: &str, name: &str) -> String {
    format!("/ui/{}/deployments/{}", encode(namespace), encode(name))
}

/// The address of a version.
pub(super) fn version_address(namespace: &str, name: &str, build: &str) -> String {
    format!("{}/{}", deployment_address(namespace, name), encode(build))
}

impl Web {
    pub(super) async fn deployments_page(&self, namespace: &str, asked: &PageRequest<'_>) -> Result<Answer, PageError> {
        let request = ListWorkerDeploymentsRequest {
            namespace: namespace.to_owned(),
            page_size: PAGE_SIZE,
            next_page_token: unhex(asked.query.get("page")).into(),
        };
        let listed = self.call(request).await?;
        let content = html! {
            h1 { "Deployments" }
            div #rows data-live {
                @if listed.worker_deployments.is_empty() {
                    div.empty {
                        p { "There are no worker deployments in this namespace." }
                        p { "One appears when a worker with a deployment name and a build id polls." }
                    }
                } @else {
                    table.list {
                        caption.hidden { "Deployments" }
                        thead { tr {
                            th scope="col" { "Deployment" } th scope="col" { "Current" } th scope="col" { "Ramping" }
                            th scope="col" { "Newest version" } th scope="col" { "Routing changed" }
                        } }
                        tbody { @for summary in &listed.worker_deployments { (row(namespace, summary)) } }
                    }
                }
                (pager(None, (!listed.next_page_token.is_empty()).then(|| asked.query.with(&[("page", &hex(&listed.next_page_token))]))))
            }
        };
        Ok(Answer::Page(Page { title: "Deployments".to_owned(), area: "deployments", content, is_live: true }))
    }
}

fn row(namespace: &str, summary: &WorkerDeploymentSummary) -> Markup {
    let routing = summary.routing_config.clone().unwrap_or_default();
    let latest = summary.latest_version_summary.as_ref().and_then(|latest| latest.deployment_version.as_ref());
    let target = |target: Target| link(namespace, &summary.name, &target);
    html! {
        tr {
            th scope="row" { a href=(deployment_address(namespace, &summary.name)) { (summary.name) } }
            td data-label="Current" { (target(current(&routing))) }
            td data-label="Ramping" {
                @match ramping(&routing) {
                    Some((ramping, percentage)) => { (target(ramping)) " " (percentage) " %" }
                    None => span.faint { "–" }
                }
            }
            td data-label="Newest version" { @if let Some(latest) = latest { (target(Target::Build(latest.build_id.clone()))) } }
            td data-label="Routing changed" { (times::relative(last_change(&routing).as_ref())) }
        }
    }
}

/// A version as a link; workers without a version have no page.
pub(super) fn link(namespace: &str, name: &str, target: &Target) -> Markup {
    match target {
        Target::Build(build) => html! { a href=(version_address(namespace, name, build)) { (build) } },
        Target::Unversioned => html! { span.faint { "unversioned workers" } },
    }
}
