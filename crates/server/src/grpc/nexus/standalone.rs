//! Standalone Nexus operations: start, describe, wait for the outcome, list, count, cancel, terminate, delete.
//!
//! Such an operation is a run (see `segno_engine::standalone_nexus`). Its handler polls and answers as for operations of workflows. The
//! server refuses all these calls unless it is configured otherwise, as Temporal's does.

use std::sync::Arc;

use segno_engine::{
    Rejection, Run,
    search_attributes::Rules,
    standalone::{calls::Terminate, state::CancelRequest},
    standalone_nexus::{
        NewOperation, SCHEDULED_EVENT_ID, WORKFLOW_ID_PREFIX, calls, operation_of, state::OperationOutcome,
    },
    start::StartOptions,
};
use segno_node::{CallError, Current, FoundRun, Namespace, RunSelector, Standalone, Token, WorkflowKey};
use segno_proto::{
    enums::NexusOperationWaitStage,
    errordetails::NexusOperationExecutionAlreadyStartedFailure,
    nexus::NexusOperationExecutionListInfo,
    workflowservice::{
        CountNexusOperationExecutionsRequest, CountNexusOperationExecutionsResponse,
        DeleteNexusOperationExecutionRequest, DeleteNexusOperationExecutionResponse,
        DescribeNexusOperationExecutionRequest, DescribeNexusOperationExecutionResponse,
        ListNexusOperationExecutionsRequest, ListNexusOperationExecutionsResponse, PollNexusOperationExecutionRequest,
        PollNexusOperationExecutionResponse, RequestCancelNexusOperationExecutionRequest,
        RequestCancelNexusOperationExecutionResponse, StartNexusOperationExecutionRequest,
        StartNexusOperationExecutionResponse, TerminateNexusOperationExecutionRequest,
        TerminateNexusOperationExecutionResponse, count_nexus_operation_executions_response::AggregationGroup,
        describe_nexus_operation_execution_response::Outcome as DescribedOutcome,
        poll_nexus_operation_execution_response::Outcome as PolledOutcome,
    },
};
use tonic::{Code, Request, Status};

use super::standalone_view::{described, listed};
use crate::{
    deadline,
    grpc::{
        Workflows,
        disabled::Disabled,
        failed, refused,
        standalone::{SeenToken, WAIT_MAX, conflict_policy, groups_of, reuse_policy},
        visibility::{ListToken, PAGE_MAX, caller},
    },
    status,
    validate::standalone_nexus as checks,
};

fn key_of(namespace: &Namespace, operation_id: &str) -> WorkflowKey {
    WorkflowKey::new(namespace.key, &format!("{WORKFLOW_ID_PREFIX}{operation_id}"))
}

/// The status of a call about a standalone operation that failed.
fn failed_for(operation_id: &str, error: CallError) -> Status {
    match error {
        CallError::WorkflowNotFound { .. }
        | CallError::RunNotFound { .. }
        | CallError::Rejected(Rejection::Closed | Rejection::RunNotFound | Rejection::OperationNotFound) => {
            status::not_found(format!("operation not found for ID: {operation_id}"))
        }
        other => failed(other),
    }
}

impl Workflows {
    /// The namespace of a call about operations, which must be switched on.
    fn namespace_of_operations(&self, name: &str) -> Result<Arc<Namespace>, Status> {
        match self.node.runs.options.nexus_standalone {
            true => self.namespace(name),
            false => Err(self.disabled(name, Disabled::NexusOperations)),
        }
    }

    pub(crate) async fn start_operation(
        &self,
        mut request: StartNexusOperationExecutionRequest,
    ) -> Result<StartNexusOperationExecutionResponse, Status> {
        self.namespace_of_operations(&request.namespace)?;
        let namespace = self.open_namespace(&request.namespace)?;
        let rules = Rules { namespace: &namespace.name, custom: &namespace.search_attributes };
        let checked = checks::start(&mut request, &rules, self.sizes(), &|| self.node.runs.uuid());
        let attributes = checked.map_err(refused)?;
        let endpoint = self.node.runs.endpoints.by_name(&request.endpoint);
        let endpoint = endpoint
            .ok_or_else(|| status::not_found(format!("could not find Nexus endpoint by name: {}", request.endpoint)))?;
        if let Some(search_attributes) = request.search_attributes.as_mut() {
            rules.apply_types(search_attributes);
        }
        let options = StartOptions {
            namespace: namespace.name.clone(),
            workflow_id: format!("{WORKFLOW_ID_PREFIX}{}", request.operation_id),
            identity: request.identity.clone(),
            request_id: request.request_id,
            reuse_policy: reuse_policy(request.id_reuse_policy),
            conflict_policy: conflict_policy(request.id_conflict_policy),
            search_attributes: request.search_attributes,
            user_metadata: request.user_metadata,
            operation: Some(Box::new(NewOperation {
                attributes,
                endpoint_id: endpoint.id.clone(),
                identity: request.identity,
            })),
            ..Default::default()
        };
        match self.node.runs.start_workflow(namespace.start(options)).await {
            Ok(outcome) => Ok(StartNexusOperationExecutionResponse {
                run_id: outcome.run.info.run_id.clone(),
                started: outcome.started,
            }),
            Err(CallError::Rejected(Rejection::AlreadyStarted { start_request_id, run_id, .. })) => {
                Err(already_started(start_request_id, run_id))
            }
            Err(error) => Err(failed(error)),
        }
    }

    /// The run that a call names, which must be a standalone operation.
    async fn operation(
        &self,
        namespace: &Namespace,
        operation_id: &str,
        run_id: &str,
    ) -> Result<(WorkflowKey, Arc<Current>), Status> {
        let key = key_of(namespace, operation_id);
        let found = self.node.runs.snapshot(&key, run_id).await.map_err(|error| failed_for(operation_id, error))?;
        Ok((key, found))
    }

    pub(crate) async fn describe_operation(
        &self,
        request: Request<DescribeNexusOperationExecutionRequest>,
    ) -> Result<DescribeNexusOperationExecutionResponse, Status> {
        let until = deadline::long_read(&request, WAIT_MAX);
        let request = request.into_inner();
        let namespace = self.namespace_of_operations(&request.namespace)?;
        let (operation_id, run_id) = (&request.operation_id, &request.run_id);
        checks::describe(operation_id, run_id, &request.long_poll_token).map_err(refused)?;
        let seen = match request.long_poll_token.is_empty() {
            true => None,
            false => Some(SeenToken::read(&namespace, &request.long_poll_token)?),
        };
        let (key, mut current) = self.operation(&namespace, operation_id, run_id).await?;
        if let Some(seen) = seen {
            seen.check(&current.run)?;
            if !seen.is_behind(&current.run) && current.run.is_running() {
                self.node.runs.wait_for_change(&key, current.key(), seen.transitions, until).await;
                current = self.operation(&namespace, operation_id, run_id).await?.1;
            }
            if !seen.is_behind(&current.run) && current.run.is_running() {
                return Ok(DescribeNexusOperationExecutionResponse::default());
            }
        }
        let scheduled = self.node.runs.scheduled_operation(&current, SCHEDULED_EVENT_ID).await.map_err(failed)?;
        let run = &current.run;
        let info = described(run, &scheduled, self.node.runs.clock_now(), &self.node.http_sender);
        let outcome = outcome_of(run).filter(|_| request.include_outcome).map(|outcome| match outcome.failure {
            Some(failure) => DescribedOutcome::Failure(failure),
            None => DescribedOutcome::Result(outcome.result.unwrap_or_default()),
        });
        Ok(DescribeNexusOperationExecutionResponse {
            run_id: run.info.run_id.clone(),
            info: Some(info.ok_or_else(|| status::not_found(format!("operation not found for ID: {operation_id}")))?),
            input: scheduled.input.filter(|_| request.include_input),
            outcome,
            long_poll_token: SeenToken::of(run).seal(&namespace.token_key),
            ..Default::default()
        })
    }

    pub(crate) async fn poll_operation(
        &self,
        request: Request<PollNexusOperationExecutionRequest>,
    ) -> Result<PollNexusOperationExecutionResponse, Status> {
        let until = deadline::long_read(&request, WAIT_MAX);
        let request = request.into_inner();
        let namespace = self.namespace_of_operations(&request.namespace)?;
        let operation_id = &request.operation_id;
        let for_start = checks::waits_for_start(operation_id, &request.run_id, request.wait_stage).map_err(refused)?;
        let (key, mut current) = self.operation(&namespace, operation_id, &request.run_id).await?;
        let is_there = |run: &Run| !run.is_running() || (for_start && is_started(run));
        while !is_there(&current.run) {
            let transitions = current.run.state().transitions;
            if !self.node.runs.wait_for_change(&key, current.key(), transitions, until).await {
                return Ok(PollNexusOperationExecutionResponse::default());
            }
            let run_id = current.run.info.run_id.clone();
            current = self.operation(&namespace, operation_id, &run_id).await?.1;
        }
        let run = &current.run;
        let stage = match run.is_running() {
            true => NexusOperationWaitStage::Started,
            false => NexusOperationWaitStage::Closed,
        };
        Ok(PollNexusOperationExecutionResponse {
            run_id: run.info.run_id.clone(),
            wait_stage: stage as i32,
            operation_token: operation_of(run.state()).map(|known| known.token.clone()).unwrap_or_default(),
            outcome: outcome_of(run).map(|outcome| match outcome.failure {
                Some(failure) => PolledOutcome::Failure(failure),
                None => PolledOutcome::Result(outcome.result.unwrap_or_default()),
            }),
        })
    }

    pub(crate) async fn cancel_operation(
        &self,
        request: RequestCancelNexusOperationExecutionRequest,
    ) -> Result<RequestCancelNexusOperationExecutionResponse, Status> {
        let namespace = self.namespace_of_operations(&request.namespace)?;
        let RequestCancelNexusOperationExecutionRequest { operation_id, run_id, request_id, identity, reason, .. } =
            request;
        checks::ended(&operation_id, &run_id, &request_id, &identity, &reason).map_err(refused)?;
        let call = CancelRequest { identity, reason, request_id: self.request_id(request_id) };
        let apply = move |run: &Run, context| calls::request_cancel(run, context, call);
        let key = key_of(&namespace, &operation_id);
        let taken = self.node.runs.transact(&key, &RunSelector::run(run_id), apply).await;
        taken.map_err(|error| failed_for(&operation_id, error))?;
        Ok(RequestCancelNexusOperationExecutionResponse::default())
    }

    pub(crate) async fn terminate_operation(
        &self,
        request: TerminateNexusOperationExecutionRequest,
    ) -> Result<TerminateNexusOperationExecutionResponse, Status> {
        let namespace = self.namespace_of_operations(&request.namespace)?;
        let TerminateNexusOperationExecutionRequest { operation_id, run_id, request_id, identity, reason, .. } =
            request;
        checks::ended(&operation_id, &run_id, &request_id, &identity, &reason).map_err(refused)?;
        let call = Terminate { reason, identity, request_id: self.request_id(request_id) };
        let apply = move |run: &Run, context| calls::terminate(run, context, call);
        let key = key_of(&namespace, &operation_id);
        let terminated = self.node.runs.terminate_run(&key, &RunSelector::run(run_id), "", apply).await;
        terminated.map_err(|error| failed_for(&operation_id, error))?;
        Ok(TerminateNexusOperationExecutionResponse::default())
    }

    pub(crate) async fn delete_operation(
        &self,
        request: DeleteNexusOperationExecutionRequest,
    ) -> Result<DeleteNexusOperationExecutionResponse, Status> {
        let namespace = self.namespace_of_operations(&request.namespace)?;
        checks::named(&request.operation_id, &request.run_id).map_err(refused)?;
        let key = key_of(&namespace, &request.operation_id);
        let deleted = self.node.runs.delete_run(&key, &request.run_id).await;
        deleted.map_err(|error| failed_for(&request.operation_id, error))?;
        Ok(DeleteNexusOperationExecutionResponse::default())
    }

    pub(crate) async fn list_operations(
        &self,
        request: Request<ListNexusOperationExecutionsRequest>,
    ) -> Result<ListNexusOperationExecutionsResponse, Status> {
        let (caller, request) = (caller(&request), request.into_inner());
        let namespace = self.namespace_of_operations(&request.namespace)?;
        let size = usize::try_from(request.page_size).ok().filter(|size| *size > 0);
        let limit = size.map_or(PAGE_MAX, |size| size.min(PAGE_MAX));
        let position = ListToken::open_position(&namespace, &request.query, &request.next_page_token)?;
        let kind = Standalone::Operation;
        let found = self.node.runs.list_standalone(kind, caller, &namespace, &request.query, position, limit);
        let found = found.await.map_err(failed)?;
        let next_page_token = ListToken::seal_position(&namespace, &request.query, found.next);
        let operations = found.runs.into_iter().map(|found| match found {
            FoundRun::Readable(run) => listed(&run),
            FoundRun::Damaged(facts) => NexusOperationExecutionListInfo {
                operation_id: facts.workflow_id.trim_start_matches(WORKFLOW_ID_PREFIX).to_owned(),
                run_id: facts.run_id,
                ..Default::default()
            },
        });
        Ok(ListNexusOperationExecutionsResponse { operations: operations.collect(), next_page_token })
    }

    pub(crate) async fn count_operations(
        &self,
        request: Request<CountNexusOperationExecutionsRequest>,
    ) -> Result<CountNexusOperationExecutionsResponse, Status> {
        let (caller, request) = (caller(&request), request.into_inner());
        let namespace = self.namespace_of_operations(&request.namespace)?;
        let counted = self.node.runs.count_standalone(Standalone::Operation, caller, &namespace, &request.query);
        let (group_by, counts) = counted.await.map_err(failed)?;
        let count = counts.iter().map(|group| group.runs).sum::<u64>().cast_signed();
        let groups = groups_of(group_by, counts).into_iter();
        let groups = groups.map(|(value, count)| AggregationGroup { group_values: vec![value], count });
        Ok(CountNexusOperationExecutionsResponse { count, groups: groups.collect() })
    }
}

fn is_started(run: &Run) -> bool {
    operation_of(run.state()).is_some_and(|operation| operation.is_started())
}

/// How it ended, if it did.
fn outcome_of(run: &Run) -> Option<OperationOutcome> {
    run.state().standalone_nexus.as_ref().and_then(|alone| alone.outcome.clone())
}

fn already_started(start_request_id: String, run_id: String) -> Status {
    let text = format!("nexus operation execution already started: request_id={start_request_id}, run_id={run_id}");
    let detail = NexusOperationExecutionAlreadyStartedFailure { start_request_id, run_id };
    let kind = "temporal.api.errordetails.v1.NexusOperationExecutionAlreadyStartedFailure";
    status::named(Code::AlreadyExists, text, kind, &detail)
}
