//! ExecuteMultiOperation: update-with-start.

use segno_engine::{
    search_attributes::Rules,
    update::{abort::Abort, admit::Admit},
};
use segno_node::{CallError, Namespace, StartedAndUpdated, WaitFor, WithStartError};
use segno_proto::workflowservice::{
    ExecuteMultiOperationRequest, ExecuteMultiOperationResponse, StartWorkflowExecutionRequest,
    StartWorkflowExecutionResponse, UpdateWorkflowExecutionRequest,
    execute_multi_operation_request::operation::Operation,
    execute_multi_operation_response::{Response as Part, response::Response},
};
use tonic::{Request, Status};

use super::{Workflows, failed, links, refused, starting::options_of, updates};
use crate::{status, validate};

impl Workflows {
    pub(crate) async fn execute_multi_operation(
        &self,
        request: Request<ExecuteMultiOperationRequest>,
    ) -> Result<ExecuteMultiOperationResponse, Status> {
        let patience = updates::Patience::of(&request);
        let request = request.into_inner();
        let namespace = self.open_namespace(&request.namespace)?;
        let (mut start, mut update) = start_and_update(request.operations)?;
        if start.namespace.is_empty() {
            return Err(status::multi_operation(vec![Some(status::namespace_not_found("")), None]));
        }
        let errors = self.check(&namespace, &mut start, &mut update);
        if errors.iter().any(Option::is_some) {
            return Err(status::multi_operation(errors));
        }
        self.check_override(&namespace, &mut start.versioning_override, start.task_queue.as_ref())
            .map_err(|refused| status::multi_operation(vec![Some(refused), None]))?;
        let wait = updates::wait_for(update.wait_policy.as_ref());
        let content = update.request.unwrap_or_default();
        let (update_id, request_id) =
            (content.meta.as_ref().map(|meta| meta.update_id.clone()).unwrap_or_default(), content.request_id.clone());
        let workflow_id = start.workflow_id.clone();
        let start = namespace.start(options_of(start));
        let call = Admit::new(content, wait == WaitFor::Admitted, namespace.settings.updates);
        let done = self.node.runs.update_with_start(start, call, wait, patience.until).await;
        let StartedAndUpdated { start, update } = done.map_err(|error| match error {
            WithStartError::Start(error) => status::multi_operation(vec![Some(failed(error)), None]),
            WithStartError::Update(error) => status::multi_operation(vec![None, Some(failed(error))]),
            WithStartError::UpdateAfterStart(error) => {
                // The workflow that goes on as another run takes the start along.
                let start = match &error {
                    CallError::UpdateAborted(Abort::Continuing) => None,
                    _ => Some(Status::ok("")),
                };
                status::multi_operation(vec![start, Some(failed(error))])
            }
        })?;
        patience.check(&update, wait)?;
        let started = StartWorkflowExecutionResponse {
            run_id: start.run.info.run_id.clone(),
            first_execution_run_id: if start.started { start.run.info.first_run_id.clone() } else { String::new() },
            started: start.started,
            status: start.status as i32,
            eager_workflow_task: None,
            link: (!start.finished).then(|| links::to_start(&start.run)),
        };
        let finished = start.finished;
        let mut updated = updates::response(&namespace, &workflow_id, &update_id, &request_id, update);
        if finished {
            updated.link = None;
        }
        let parts = [Response::StartWorkflow(started), Response::UpdateWorkflow(updated)];
        let responses = parts.into_iter().map(|part| Part { response: Some(part) }).collect();
        Ok(ExecuteMultiOperationResponse { responses })
    }

    /// The mistakes in each of the two.
    fn check(
        &self,
        namespace: &Namespace,
        start: &mut StartWorkflowExecutionRequest,
        update: &mut UpdateWorkflowExecutionRequest,
    ) -> Vec<Option<Status>> {
        let rules = Rules { namespace: &namespace.name, custom: &namespace.search_attributes };
        let (sizes, callbacks) = (self.sizes(), &self.node.http_sender.settings.callback_targets);
        let new_id = || self.node.runs.uuid();
        let started = validate::multi_operation::start(&namespace.name, start, &rules, sizes, callbacks, &new_id);
        if let Some(search_attributes) = start.search_attributes.as_mut() {
            rules.apply_types(search_attributes);
        }
        // Only a start that is right says which workflow is meant.
        let workflow_id = started.is_ok().then_some(start.workflow_id.as_str());
        let targets = &self.node.http_sender.settings.callback_targets;
        let callbacks = self.node.runs.options.update_callbacks.then_some(targets);
        let new_id = || self.node.runs.uuid();
        let updated = validate::multi_operation::update(&namespace.name, workflow_id, update, callbacks, new_id);
        vec![started.err().map(refused), updated.err().map(refused)]
    }
}

/// Exactly one start and one update, in this order.
fn start_and_update(
    operations: Vec<segno_proto::workflowservice::execute_multi_operation_request::Operation>,
) -> Result<(StartWorkflowExecutionRequest, UpdateWorkflowExecutionRequest), Status> {
    let mut operations = operations.into_iter().map(|operation| operation.operation);
    match (operations.next().flatten(), operations.next().flatten(), operations.next()) {
        (Some(Operation::StartWorkflow(start)), Some(Operation::UpdateWorkflow(update)), None) => Ok((start, update)),
        _ => Err(Status::invalid_argument("Operations have to be exactly [Start, Update].")),
    }
}
