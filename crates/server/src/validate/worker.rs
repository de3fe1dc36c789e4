//! Requests of workers: polls, answers to workflow tasks and queries, shutdown.
//!
//! Polls are checked for names and versioning only; how long they may wait is the caller's business.

use segno_engine::script;
use segno_engine::validate::{Invalid, task_queue};
use segno_node::names;
use segno_proto::common::WorkerVersionCapabilities;
use segno_proto::deployment::WorkerDeploymentOptions;
use segno_proto::enums::{QueryResultType, TaskQueueKind, WorkerVersioningMode};
use segno_proto::taskqueue::TaskQueue;
use segno_proto::workflowservice::{
    PollActivityTaskQueueRequest, PollNexusTaskQueueRequest, PollWorkflowTaskQueueRequest,
    RespondQueryTaskCompletedRequest, RespondWorkflowTaskCompletedRequest, RespondWorkflowTaskFailedRequest,
    ShutdownWorkerRequest,
};

use super::{
    RequestError, identity,
    size::{self, Sizes},
};

const BUILD_ID_LENGTH_MAX: usize = 255;

/// PollWorkflowTaskQueue.
#[expect(deprecated, reason = "workers may still send versions in the old way")]
pub fn poll_workflow_task(request: &mut PollWorkflowTaskQueueRequest) -> Result<(), RequestError> {
    identity(&request.identity)?;
    poller_version(
        request.worker_version_capabilities.as_ref(),
        request.deployment_options.as_ref(),
        request.task_queue.as_ref(),
    )?;
    not_of_scripts(request.task_queue.as_ref())?;
    task_queue(request.task_queue.as_mut(), "").map_err(RequestError::from)
}

/// The server itself executes what is on the queue of scripts.
fn not_of_scripts(queue: Option<&TaskQueue>) -> Result<(), RequestError> {
    let normal = queue.is_some_and(|queue| queue.name == script::QUEUE || queue.normal_name == script::QUEUE);
    match normal {
        true => Err(Invalid(format!("task queue \"{}\" is served by the server itself", script::QUEUE)).into()),
        false => Ok(()),
    }
}

/// PollActivityTaskQueue.
#[expect(deprecated, reason = "workers may still send versions in the old way")]
pub fn poll_activity_task(request: &mut PollActivityTaskQueueRequest) -> Result<(), RequestError> {
    not_of_scripts(request.task_queue.as_ref())?;
    task_queue(request.task_queue.as_mut(), "")?;
    identity(&request.identity)?;
    poller_version(
        request.worker_version_capabilities.as_ref(),
        request.deployment_options.as_ref(),
        request.task_queue.as_ref(),
    )
}

/// PollNexusTaskQueue.
#[expect(deprecated, reason = "workers may still send versions in the old way")]
pub fn poll_nexus_task(request: &mut PollNexusTaskQueueRequest) -> Result<(), RequestError> {
    not_of_scripts(request.task_queue.as_ref())?;
    task_queue(request.task_queue.as_mut(), "")?;
    identity(&request.identity)?;
    poller_version(
        request.worker_version_capabilities.as_ref(),
        request.deployment_options.as_ref(),
        request.task_queue.as_ref(),
    )
}

/// RespondWorkflowTaskCompleted; the commands are checked by the engine, one by one.
#[expect(deprecated, reason = "workers may still send versions in the old way")]
pub fn workflow_task_completed(request: &mut RespondWorkflowTaskCompletedRequest) -> Result<(), RequestError> {
    identity(&request.identity)?;
    let build = request.worker_version_stamp.as_ref().map(|build| (build.build_id.as_str(), build.use_versioning));
    let sticky = request.sticky_attributes.as_ref().and_then(|sticky| sticky.worker_task_queue.as_ref());
    versioning(build, request.deployment_options.as_ref(), sticky)
}

/// RespondWorkflowTaskFailed. A failure that is too large is replaced by one that says so.
pub fn workflow_task_failed(request: &mut RespondWorkflowTaskFailedRequest, sizes: Sizes) -> Result<(), RequestError> {
    identity(&request.identity)?;
    sizes.replace(&mut request.failure);
    Ok(())
}

/// RespondQueryTaskCompleted. A result that is too large becomes a failed query.
pub fn query_task_completed(request: &mut RespondQueryTaskCompletedRequest, sizes: Sizes) -> Result<(), RequestError> {
    if sizes.is_too_large(request.query_result.as_ref()) {
        *request = RespondQueryTaskCompletedRequest {
            task_token: std::mem::take(&mut request.task_token),
            completed_type: QueryResultType::Failed as i32,
            error_message: size::BLOB_TOO_LARGE.into(),
            ..Default::default()
        };
    }
    Ok(())
}

/// ShutdownWorker. Nothing is refused: a worker that leaves is let go.
pub fn shutdown(_request: &mut ShutdownWorkerRequest) -> Result<(), RequestError> {
    Ok(())
}

/// Checks the version of a worker that polls. Older workers name their deployment in the capabilities, which counts as options unless they
/// send both.
fn poller_version(
    capabilities: Option<&WorkerVersionCapabilities>,
    options: Option<&WorkerDeploymentOptions>,
    queue: Option<&TaskQueue>,
) -> Result<(), RequestError> {
    let build = capabilities.map(|build| (build.build_id.as_str(), build.use_versioning));
    versioning(build, options, queue)?;
    match capabilities.filter(|build| build.use_versioning && !build.deployment_series_name.is_empty()) {
        Some(build) if options.is_none() => version_names(&build.deployment_series_name, &build.build_id),
        _ => Ok(()),
    }
}

/// Checks the version of a worker: `build` is build id and whether to use versioning.
fn versioning(
    build: Option<(&str, bool)>,
    options: Option<&WorkerDeploymentOptions>,
    queue: Option<&TaskQueue>,
) -> Result<(), RequestError> {
    let (build_id, use_versioning) = build.unwrap_or(("", false));
    let nameless = queue.is_some_and(|q| q.kind == TaskQueueKind::Sticky as i32 && q.normal_name.is_empty());
    if nameless && (use_versioning || options.is_some()) {
        return Err(RequestError::invalid(
            "NormalName must be set on sticky queue when UseVersioning is true or DeploymentOptions are set.",
        ));
    }
    if use_versioning && build_id.is_empty() {
        return Err(RequestError::invalid("WorkerVersionStamp must be present if UseVersioning is true."));
    }
    if build_id.len() > BUILD_ID_LENGTH_MAX {
        return Err(RequestError::invalid(
            "Build ID exceeds configured limit.workerBuildIdSize, use a shorter build ID.",
        ));
    }
    options.map_or(Ok(()), deployment)
}

fn deployment(options: &WorkerDeploymentOptions) -> Result<(), RequestError> {
    // Names are optional for a worker that is not versioned.
    if options.worker_versioning_mode != WorkerVersioningMode::Versioned as i32 {
        return Ok(());
    }
    let (name, build_id) = (&options.deployment_name, &options.build_id);
    if name.is_empty() || build_id.is_empty() {
        return Err(RequestError::invalid("Deployment name and build id must be set together."));
    }
    version_names(name, build_id)
}

fn version_names(name: &str, build_id: &str) -> Result<(), RequestError> {
    let checked = names::check_name(name).and_then(|()| names::check_build(build_id));
    checked.map_err(|refused| RequestError::invalid(refused.to_string()))
}
