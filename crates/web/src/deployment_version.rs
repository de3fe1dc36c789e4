//! One version of a worker deployment: its task queues with their workers, its drainage and its metadata.

use maud::{Markup, html};
use segno_proto::{
    deployment::{RoutingConfig, WorkerDeploymentVersion, WorkerDeploymentVersionInfo},
    enums::{TaskQueueType, WorkerDeploymentVersionStatus as Status, WorkerVersioningMode},
    segno_verification::Candidate,
    taskqueue::{PollerInfo, TaskQueue},
    workflowservice::{
        DescribeTaskQueueRequest, DescribeWorkerDeploymentRequest, DescribeWorkerDeploymentVersionRequest,
        describe_worker_deployment_version_response::VersionTaskQueue,
    },
};

use super::{
    Answer, PageError, PageRequest, Web,
    deployment_routing::{Target, may_change, pinned_address, routing_forms, share, status_badge},
    deployments::deployment_address,
    fields::words,
    forms::encode,
    layout::{Page, action, facts},
    payloads, times, verification,
    workflow_now::queue_address,
    workflows::{grouped, note},
};

/// Task queues whose workers are looked up.
const QUEUES_MAX: usize = 50;
/// Workers of a queue that are listed.
const POLLERS_MAX: usize = 20;

/// Workers of a version at a queue, or why they are not known.
type Pollers = Result<Vec<PollerInfo>, tonic::Status>;

impl Web {
    pub(super) async fn deployment_version_page(
        &self,
        namespace: &str,
        name: &str,
        build: &str,
        asked: &PageRequest<'_>,
    ) -> Result<Answer, PageError> {
        let version = WorkerDeploymentVersion { deployment_name: name.to_owned(), build_id: build.to_owned() };
        let request = DescribeWorkerDeploymentVersionRequest {
            namespace: namespace.to_owned(),
            deployment_version: Some(version.clone()),
            report_task_queue_stats: true,
            ..Default::default()
        };
        let deployment =
            DescribeWorkerDeploymentRequest { namespace: namespace.to_owned(), deployment_name: name.to_owned() };
        let (found, deployment, pinned) =
            tokio::join!(self.call(request), self.call(deployment), self.pinned(namespace, name));
        let (found, deployment) = (found?, deployment?);
        let info = found.worker_deployment_version_info.unwrap_or_default();
        let routing = deployment.worker_deployment_info.and_then(|info| info.routing_config).unwrap_or_default();
        let mut queues = Vec::new();
        for queue in found.version_task_queues {
            let pollers = match queues.len() < QUEUES_MAX {
                true => Some(self.pollers_of(namespace, &queue, &version).await),
                false => None,
            };
            queues.push((queue, pollers));
        }
        let candidate =
            Candidate { deployment_name: name.to_owned(), build_id: build.to_owned(), ..Default::default() };
        let verification = self.last_verification(namespace, &candidate).await;
        let content = html! {
            nav.crumbs aria-label="Breadcrumb" {
                a href={ "/ui/" (encode(namespace)) "/deployments" } { "Deployments" } " / "
                a href=(deployment_address(namespace, name)) { (name) } " / " span { (build) }
            }
            div.title {
                h1 { (build) }
                div #status data-live aria-live="polite" { (status_badge(info.status())) }
            }
            div #facts data-live {
                (about(namespace, &version, &info, &routing, &pinned.map(|pinned| pinned.get(build).copied().unwrap_or(0))))
                @if may_change(asked, namespace) {
                    div.actions role="group" aria-label="Actions" {
                        (routing_forms(&routing, &deployment.conflict_token, Some(build), &[]))
                        (delete_form(build, info.status()))
                    }
                }
            }
            section aria-labelledby="queues-title" {
                h2 #queues-title { "Task queues" }
                div #queues data-live { (queue_rows(namespace, &queues)) }
            }
            section aria-labelledby="verification-title" {
                h2 #verification-title { "Last verification" }
                div #verification data-live { (verification) }
                p { a href=(verification::address(namespace, &candidate)) { "Let its workers replay open workflows" } }
            }
            section aria-labelledby="metadata-title" {
                h2 #metadata-title { "Metadata" }
                div #metadata data-live { (metadata(&info)) }
            }
        };
        Ok(Answer::Page(Page { title: build.to_owned(), area: "deployments", content, is_live: true }))
    }

    /// Workers of a version that poll one of its queues.
    async fn pollers_of(
        &self,
        namespace: &str,
        queue: &VersionTaskQueue,
        version: &WorkerDeploymentVersion,
    ) -> Pollers {
        let request = DescribeTaskQueueRequest {
            namespace: namespace.to_owned(),
            task_queue: Some(TaskQueue { name: queue.name.clone(), ..Default::default() }),
            task_queue_type: queue.r#type,
            ..Default::default()
        };
        let is_of_version = |poller: &PollerInfo| {
            poller.deployment_options.as_ref().is_some_and(|options| {
                options.worker_versioning_mode() == WorkerVersioningMode::Versioned
                    && options.deployment_name == version.deployment_name
                    && options.build_id == version.build_id
            })
        };
        Ok(self.call(request).await?.pollers.into_iter().filter(is_of_version).collect())
    }
}

fn about(
    namespace: &str,
    version: &WorkerDeploymentVersion,
    info: &WorkerDeploymentVersionInfo,
    routing: &RoutingConfig,
    pinned: &Result<i64, tonic::Status>,
) -> Markup {
    let build = &version.build_id;
    let drainage = info.drainage_info.as_ref();
    let filter = pinned_address(namespace, &version.deployment_name, build);
    facts(&[
        ("Share", html! { (share(routing, &Target::Build(build.clone()))) " %" }),
        (
            "Pinned workflows",
            html! {
                @match pinned {
                    Ok(count) => a href=(filter) { (grouped(*count)) },
                    Err(_) => "–",
                }
            },
        ),
        ("Created", times::shown(info.create_time.as_ref())),
        ("Current since", times::shown(info.current_since_time.as_ref())),
        ("Ramping since", times::shown(info.ramping_since_time.as_ref())),
        ("Last current", times::shown(info.last_current_time.as_ref())),
        ("Drainage changed", times::shown(drainage.and_then(|drainage| drainage.last_changed_time.as_ref()))),
        (
            "Changed by",
            html! { @if info.last_modifier_identity.is_empty() { "–" } @else { (info.last_modifier_identity) } },
        ),
    ])
}

fn delete_form(build: &str, status: Status) -> Markup {
    html! {
        @if !matches!(status, Status::Current | Status::Ramping) {
            (action("Delete", "danger", html! {
                input type="hidden" name="do" value="delete-version";
                input type="hidden" name="build" value=(build);
                p { "Its workers must have stopped. Workflows that are pinned to it wait until its workers poll again." }
                @if status == Status::Draining {
                    label { span { input type="checkbox" name="skip-drainage" value="yes"; " Even though it is draining" } }
                }
                button.danger { "Delete" }
            }))
        }
    }
}

fn queue_rows(namespace: &str, queues: &[(VersionTaskQueue, Option<Pollers>)]) -> Markup {
    html! {
        @if queues.is_empty() { p.faint { "No worker of it has polled." } } @else {
            table.list {
                caption.hidden { "Task queues" }
                thead { tr { th scope="col" { "Task queue" } th scope="col" { "Type" } th.number scope="col" { "Waiting" } th scope="col" { "Workers" } } }
                tbody { @for (queue, pollers) in queues {
                    tr {
                        th scope="row" { a href=(queue_address(namespace, &queue.name)) { (queue.name) } }
                        td data-label="Type" { (words(TaskQueueType::try_from(queue.r#type).unwrap_or_default().as_str_name(), "TASK_QUEUE_TYPE_")) }
                        td.number data-label="Waiting" { @match &queue.stats { Some(stats) => (grouped(stats.approximate_backlog_count)), None => "–" } }
                        td data-label="Workers" { (workers(pollers.as_ref())) }
                    }
                } }
            }
        }
    }
}

fn workers(pollers: Option<&Pollers>) -> Markup {
    html! {
        @match pollers {
            None => span.faint { "not looked up" },
            Some(Err(status)) => (note(status)),
            Some(Ok(pollers)) if pollers.is_empty() => strong.bad { "No worker polls it." },
            Some(Ok(pollers)) => {
                ul.pollers {
                    @for poller in pollers.iter().take(POLLERS_MAX) {
                        li { (poller.identity) " " span.faint { "polled " (times::relative(poller.last_access_time.as_ref())) } }
                    }
                    @if pollers.len() > POLLERS_MAX { li { (pollers.len() - POLLERS_MAX) " more" } }
                }
            }
        }
    }
}

fn metadata(info: &WorkerDeploymentVersionInfo) -> Markup {
    let entries = info.metadata.iter().flat_map(|metadata| &metadata.entries);
    let mut entries: Vec<_> = entries.map(|(key, value)| (key.as_str(), payloads::text(value))).collect();
    entries.sort_unstable();
    html! {
        @if entries.is_empty() {
            p.faint { "none; " code { "segno deployment update-metadata" } " adds some" }
        } @else {
            dl.facts { @for (key, value) in &entries { div { dt { (key) } dd { code { (value) } } } } }
        }
    }
}
