//! StartWorkflowExecution and SignalWithStartWorkflowExecution.

use segno_engine::{options, search_attributes::Rules, signal::Signal, start::StartOptions};
use segno_node::{Namespace, PollerVersion, SignalWithStart};
use segno_proto::{
    enums::{EventType, WorkflowExecutionStatus, WorkflowIdReusePolicy},
    taskqueue::TaskQueue,
    workflow::VersioningOverride,
    workflowservice::{
        SignalWithStartWorkflowExecutionRequest, SignalWithStartWorkflowExecutionResponse,
        StartWorkflowExecutionRequest, StartWorkflowExecutionResponse,
    },
};
use tonic::{Request, Response, Status};

use super::{Workflows, failed, links, refused, workflow_tasks};
use crate::validate;

impl Workflows {
    pub(crate) async fn start(
        &self,
        request: Request<StartWorkflowExecutionRequest>,
    ) -> Result<Response<StartWorkflowExecutionResponse>, Status> {
        let mut request = request.into_inner();
        let namespace = self.open_namespace(&request.namespace)?;
        let rules = Rules { namespace: &namespace.name, custom: &namespace.search_attributes };
        let callbacks = &self.node.http_sender.settings.callback_targets;
        validate::start::start_workflow(&mut request, &rules, self.sizes(), callbacks, &|| self.node.runs.uuid())
            .map_err(refused)?;
        if let Some(search_attributes) = request.search_attributes.as_mut() {
            rules.apply_types(search_attributes);
        }
        self.check_override(&namespace, &mut request.versioning_override, request.task_queue.as_ref())?;
        let request_id = request.request_id.clone();
        let start = namespace.start(options_of(request));
        let (outcome, eager_task) = self.node.dispatch.start_workflow(start).await.map_err(failed)?;
        let run = &outcome.run;
        let link = match outcome.attached {
            true => links::to_request(run, &request_id, EventType::WorkflowExecutionOptionsUpdated),
            false => links::to_start(run),
        };
        let delivery = eager_task.as_ref().map(|task| task.delivery.clone());
        let mut response = Response::new(StartWorkflowExecutionResponse {
            run_id: run.info.run_id.clone(),
            first_execution_run_id: run.info.first_run_id.clone(),
            started: outcome.started,
            // Of a paused run that is in the way Temporal says that it runs.
            status: match outcome.status {
                WorkflowExecutionStatus::Paused => WorkflowExecutionStatus::Running,
                status => status,
            } as i32,
            eager_workflow_task: eager_task.map(|task| workflow_tasks::task_response(&namespace, task, 0)),
            link: Some(link),
        });
        if let Some(delivery) = delivery {
            response.extensions_mut().insert(delivery);
        }
        Ok(response)
    }

    pub(crate) async fn signal_with_start(
        &self,
        request: SignalWithStartWorkflowExecutionRequest,
    ) -> Result<SignalWithStartWorkflowExecutionResponse, Status> {
        let call = self.checked_signal_with_start(request)?;
        let request_id = call.signal.request_id.clone();
        let outcome = self.node.runs.signal_with_start(call).await.map_err(failed)?;
        Ok(SignalWithStartWorkflowExecutionResponse {
            run_id: outcome.run.info.run_id.clone(),
            first_execution_run_id: outcome.run.info.first_run_id.clone(),
            started: outcome.started,
            signal_link: Some(links::to_request(&outcome.run, &request_id, EventType::WorkflowExecutionSignaled)),
        })
    }

    /// The signal and the start that a request asks for, once it is checked.
    pub(crate) fn checked_signal_with_start(
        &self,
        mut request: SignalWithStartWorkflowExecutionRequest,
    ) -> Result<SignalWithStart, Status> {
        let namespace = self.open_namespace(&request.namespace)?;
        let rules = Rules { namespace: &namespace.name, custom: &namespace.search_attributes };
        validate::start::signal_with_start(&mut request, &rules, self.sizes(), &|| self.node.runs.uuid())
            .map_err(refused)?;
        if let Some(search_attributes) = request.search_attributes.as_mut() {
            rules.apply_types(search_attributes);
        }
        self.check_override(&namespace, &mut request.versioning_override, request.task_queue.as_ref())?;
        let conflict_policy = request.workflow_id_conflict_policy();
        let signal = Signal {
            name: request.signal_name,
            input: request.signal_input,
            identity: request.identity.clone(),
            request_id: request.request_id.clone(),
            header: request.header.clone(),
            links: request.links.clone(),
            sender: None,
        };
        let options = StartOptions {
            reuse_policy: reuse_policy(request.workflow_id_reuse_policy),
            conflict_policy,
            namespace: request.namespace,
            workflow_id: request.workflow_id,
            workflow_type: request.workflow_type,
            task_queue: request.task_queue,
            input: request.input,
            workflow_execution_timeout: request.workflow_execution_timeout,
            workflow_run_timeout: request.workflow_run_timeout,
            workflow_task_timeout: request.workflow_task_timeout,
            identity: request.identity,
            request_id: request.request_id,
            retry_policy: request.retry_policy,
            cron_schedule: request.cron_schedule,
            memo: request.memo,
            search_attributes: request.search_attributes,
            header: request.header,
            start_delay: request.workflow_start_delay,
            user_metadata: request.user_metadata,
            links: request.links,
            versioning_override: request.versioning_override,
            priority: request.priority,
            ..Default::default()
        };
        Ok(SignalWithStart { start: namespace.start(options), signal })
    }

    /// Refuses a versioning override that cannot be, and spells it as history has it.
    pub(super) fn check_override(
        &self,
        namespace: &Namespace,
        versioning_override: &mut Option<VersioningOverride>,
        queue: Option<&TaskQueue>,
    ) -> Result<(), Status> {
        let Some(given) = versioning_override.take() else { return Ok(()) };
        let queue = queue.map_or("", |queue| queue.name.as_str());
        let is_member = |version: &_, queue: &str| self.node.runs.polls_workflow_queue(namespace.key, version, queue);
        options::check_override(queue, &given, &is_member).map_err(|refused| failed(refused.into()))?;
        *versioning_override = Some(options::newer_form(given));
        Ok(())
    }
}

/// The options of a request, in the engine's terms.
pub(crate) fn options_of(request: StartWorkflowExecutionRequest) -> StartOptions {
    StartOptions {
        reuse_policy: reuse_policy(request.workflow_id_reuse_policy),
        conflict_policy: request.workflow_id_conflict_policy(),
        on_conflict: request.on_conflict_options,
        namespace: request.namespace,
        workflow_id: request.workflow_id,
        workflow_type: request.workflow_type,
        task_queue: request.task_queue,
        input: request.input,
        workflow_execution_timeout: request.workflow_execution_timeout,
        workflow_run_timeout: request.workflow_run_timeout,
        workflow_task_timeout: request.workflow_task_timeout,
        identity: request.identity,
        request_id: request.request_id,
        retry_policy: request.retry_policy,
        cron_schedule: request.cron_schedule,
        memo: request.memo,
        search_attributes: request.search_attributes,
        header: request.header,
        eager: request.request_eager_execution,
        eager_version: PollerVersion { capabilities: None, deployment: request.eager_worker_deployment_options }
            .deployment_version()
            .as_deref()
            .cloned(),
        continued_failure: request.continued_failure,
        last_completion_result: request.last_completion_result,
        start_delay: request.workflow_start_delay,
        completion_callbacks: request.completion_callbacks,
        user_metadata: request.user_metadata,
        links: request.links,
        versioning_override: request.versioning_override,
        priority: request.priority,
        inherited: None,
        scheduled_by: None,
        schedule: None,
        standalone: None,
        operation: None,
    }
}

fn reuse_policy(policy: i32) -> WorkflowIdReusePolicy {
    WorkflowIdReusePolicy::try_from(policy).unwrap_or(WorkflowIdReusePolicy::AllowDuplicate)
}
