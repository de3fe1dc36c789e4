//! Actions of the list: starting a workflow, and batches on a selection.

use maud::html;
use segno_proto::{
    batch::{BatchOperationCancellation, BatchOperationSignal, BatchOperationTermination},
    common::{WorkflowExecution, WorkflowType},
    taskqueue::TaskQueue,
    workflowservice::{
        StartBatchOperationRequest, StartWorkflowExecutionRequest, start_batch_operation_request::Operation,
    },
};
use tonic::Status;

use super::{
    Answer, IDENTITY, Outcome, PageError, Web,
    forms::{Form, encode},
    layout::run_address,
    payloads,
};

/// A new id for a workflow, a job or a request.
pub(super) fn new_id() -> String {
    uuid::Uuid::new_v4().to_string()
}

impl Web {
    pub(super) async fn workflows_action(&self, namespace: &str, form: &Form) -> Result<Answer, PageError> {
        match form.get("do") {
            "start" => self.start(namespace, form).await,
            "terminate" | "cancel" | "signal" => self.start_batch(namespace, form).await,
            _ => Err(PageError::Missing),
        }
    }

    async fn start(&self, namespace: &str, form: &Form) -> Result<Answer, PageError> {
        let given = form.trimmed("id");
        let workflow_id = if given.is_empty() { new_id() } else { given };
        let request = StartWorkflowExecutionRequest {
            namespace: namespace.to_owned(),
            workflow_id: workflow_id.clone(),
            workflow_type: Some(WorkflowType { name: form.trimmed("type") }),
            task_queue: Some(TaskQueue { name: form.trimmed("queue"), ..Default::default() }),
            input: payloads::typed(form.get("input"))?,
            identity: IDENTITY.to_owned(),
            request_id: new_id(),
            ..Default::default()
        };
        let started = self.call(request).await?;
        let said = html! { "Workflow " (workflow_id) " is started" };
        Ok(Outcome::then(said, run_address(namespace, &workflow_id, &started.run_id)))
    }

    async fn start_batch(&self, namespace: &str, form: &Form) -> Result<Answer, PageError> {
        let identity = IDENTITY.to_owned();
        let operation = match form.get("do") {
            "terminate" => {
                Operation::TerminationOperation(BatchOperationTermination { identity, ..Default::default() })
            }
            "cancel" => Operation::CancellationOperation(BatchOperationCancellation { identity }),
            _ => Operation::SignalOperation(BatchOperationSignal {
                signal: form.trimmed("signal"),
                input: payloads::typed(form.get("input"))?,
                identity,
                ..Default::default()
            }),
        };
        if matches!(&operation, Operation::SignalOperation(signal) if signal.signal.is_empty()) {
            return Err(Status::invalid_argument("a signal needs a name").into());
        }
        let all = !form.get("all").is_empty() && !form.get("query").is_empty();
        let runs = form.all("run").into_iter().filter_map(|run| run.split_once(' '));
        let executions: Vec<_> = runs
            .map(|(run_id, workflow_id)| WorkflowExecution {
                workflow_id: workflow_id.to_owned(),
                run_id: run_id.to_owned(),
            })
            .collect();
        if executions.is_empty() && !all {
            return Err(Status::invalid_argument("no workflow is selected").into());
        }
        let count = executions.len();
        let job_id = new_id();
        let request = StartBatchOperationRequest {
            namespace: namespace.to_owned(),
            job_id: job_id.clone(),
            reason: form.trimmed("reason"),
            visibility_query: if all { form.get("query").to_owned() } else { String::new() },
            executions: if all { Vec::new() } else { executions },
            operation: Some(operation),
            ..Default::default()
        };
        self.call(request).await?;
        let address = format!("/ui/{}/batches?job={}", encode(namespace), encode(&job_id));
        Ok(Outcome::done(html! {
            @if all { "A batch job on all matching workflows was started: " } @else { "A batch job on " (count) " workflows was started: " }
            a href=(address) { "see its progress" }
        }))
    }
}
