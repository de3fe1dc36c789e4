//! Segno's own service for rollouts that are tried before they are made: workers of a candidate replay open runs.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use segno_node::{
    Namespace, NewVerification, Node, TrialCandidate, TrialFailure, TrialFuture, TrialOutcome, Trials,
    VerificationError, WorkflowKey, failure_type, named_version, verification as limits,
};
use segno_proto::{
    enums::EventType,
    segno_verification::{
        Candidate, DescribeRequest, DescribeResponse, Failure, ListRequest, ListResponse, Outcome, StartRequest,
        StartResponse, StopRequest, StopResponse, TryRunRequest, TryRunResponse, Verification,
    },
};
use tonic::{Code, Request, Response, Status};

use super::{Workflows, failed};
use crate::{calls::Handlers, status};

/// Pauses before a trial is made again at a node that serves the run meanwhile.
const RETRY_DELAYS: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(1)];

/// Segno's VerificationService.
pub(crate) struct VerificationCalls {
    node: Arc<Node>,
    workflows: Workflows,
}

impl VerificationCalls {
    /// The service on a node.
    pub(crate) fn new(node: Arc<Node>) -> Self {
        Self { workflows: Workflows::new(node.clone()), node }
    }

    pub(crate) async fn start(&self, request: Request<StartRequest>) -> Result<Response<StartResponse>, Status> {
        let request = request.into_inner();
        let namespace = self.workflows.open_namespace(&request.namespace)?;
        let candidate = self.checked(&namespace, request.candidate.clone(), true)?;
        let started = self.node.verifications.start(namespace, checked_start(request, candidate)?).await;
        Ok(Response::new(StartResponse { id: started.map_err(refused)? }))
    }

    pub(crate) async fn describe(
        &self,
        request: Request<DescribeRequest>,
    ) -> Result<Response<DescribeResponse>, Status> {
        let DescribeRequest { namespace, candidate } = request.into_inner();
        let namespace = self.workflows.namespace(&namespace)?;
        let candidate = self.checked(&namespace, candidate, false)?;
        let found = self.node.verifications.find(&namespace, &candidate).await.map_err(refused)?;
        Ok(Response::new(DescribeResponse { verification: Some(found) }))
    }

    pub(crate) async fn list(&self, request: Request<ListRequest>) -> Result<Response<ListResponse>, Status> {
        let namespace = self.workflows.namespace(&request.into_inner().namespace)?;
        let all = self.node.verifications.list(&namespace).await.map_err(failed)?;
        let short = |full: Verification| Verification { failures: Vec::new(), groups: Vec::new(), ..full };
        Ok(Response::new(ListResponse { verifications: all.into_iter().map(short).collect() }))
    }

    pub(crate) async fn stop(&self, request: Request<StopRequest>) -> Result<Response<StopResponse>, Status> {
        let StopRequest { namespace, id } = request.into_inner();
        let namespace = self.workflows.namespace(&namespace)?;
        self.node.verifications.stop(&namespace, &id).await.map_err(refused)?;
        Ok(Response::new(StopResponse {}))
    }

    pub(crate) async fn try_run(&self, request: Request<TryRunRequest>) -> Result<Response<TryRunResponse>, Status> {
        let TryRunRequest { namespace, workflow_id, run_id, candidate, timeout, locate_event } = request.into_inner();
        let namespace = self.workflows.namespace(&namespace)?;
        if workflow_id.is_empty() {
            return Err(Status::invalid_argument("WorkflowId is not set on request."));
        }
        let candidate = self.checked(&namespace, candidate, false)?;
        let timeout = checked_timeout(timeout)?;
        let key = WorkflowKey::new(namespace.key, &workflow_id);
        let of = match candidate.build_id.is_empty() {
            true => TrialCandidate { queue: Some(candidate.on_task_queue), version: None },
            false => TrialCandidate {
                queue: None,
                version: Some(named_version(candidate.deployment_name, candidate.build_id)),
            },
        };
        let tried = self.node.dispatch.try_run(&key, &run_id, &of, timeout, locate_event).await.map_err(failed)?;
        Ok(Response::new(response(tried)))
    }

    /// A candidate whose workers are none of those that have the runs now.
    fn checked(&self, namespace: &Namespace, named: Option<Candidate>, starts: bool) -> Result<Candidate, Status> {
        let candidate = named.unwrap_or_default();
        let Candidate { deployment_name, build_id, task_queue, on_task_queue } = &candidate;
        let is_version = !deployment_name.is_empty() || !build_id.is_empty();
        let is_queue = !task_queue.is_empty() || !on_task_queue.is_empty();
        match (is_version, is_queue) {
            (true, true) => Err(Status::invalid_argument("the candidate is either a version or another task queue")),
            (false, false) => Err(Status::invalid_argument("the candidate is not set on request")),
            (false, true) if task_queue.is_empty() || on_task_queue.is_empty() => {
                Err(Status::invalid_argument("a candidate on another task queue needs the names of both queues"))
            }
            (false, true) if task_queue == on_task_queue => {
                Err(Status::invalid_argument("workers of the candidate have to poll another task queue than the runs"))
            }
            (false, true) => Ok(candidate),
            (true, false) if deployment_name.is_empty() || build_id.is_empty() => {
                Err(Status::invalid_argument("a version needs the name of its deployment and its build id"))
            }
            (true, false) => {
                if starts {
                    self.check_version(namespace, &candidate)?;
                }
                Ok(candidate)
            }
        }
    }

    fn check_version(&self, namespace: &Namespace, candidate: &Candidate) -> Result<(), Status> {
        let (name, build) = (&candidate.deployment_name, &candidate.build_id);
        let deployment = self.node.runs.deployments.deployment(namespace.key, name);
        let known = deployment.as_ref().filter(|deployment| deployment.build(build).is_some());
        let Some(deployment) = known else {
            return Err(status::not_found(format!("there is no version {name}:{build}; do its workers poll?")));
        };
        if deployment.is_current(build) {
            return Err(Status::failed_precondition(format!("version {name}:{build} is the current version")));
        }
        if self.node.verifications.queues_of_version(namespace, candidate).is_empty() {
            let text = format!("no worker of version {name}:{build} has polled for workflow tasks");
            return Err(Status::failed_precondition(text));
        }
        Ok(())
    }
}

/// A number within a limit; the default if it is not set.
fn checked_number(given: i32, default: usize, max: usize, name: &str) -> Result<usize, Status> {
    match usize::try_from(given) {
        Ok(0) => Ok(default),
        Ok(number) if number <= max => Ok(number),
        _ => Err(Status::invalid_argument(format!("{name} must be between 1 and {max}"))),
    }
}

fn checked_timeout(given: Option<prost_types::Duration>) -> Result<Duration, Status> {
    let Some(given) = given else { return Ok(limits::TIMEOUT_DEFAULT) };
    let timeout =
        Duration::try_from(given).ok().filter(|timeout| !timeout.is_zero() && *timeout <= limits::TIMEOUT_MAX);
    timeout.ok_or_else(|| {
        Status::invalid_argument(format!("timeout must be between 1 ns and {} s", limits::TIMEOUT_MAX.as_secs()))
    })
}

fn checked_start(request: StartRequest, candidate: Candidate) -> Result<NewVerification, Status> {
    let sample = match request.all {
        true => limits::SAMPLE_MAX,
        false => checked_number(request.sample_size, limits::SAMPLE_DEFAULT, limits::SAMPLE_MAX, "sample_size")?,
    };
    Ok(NewVerification {
        candidate,
        query: request.query,
        sample,
        include_pinned: request.include_pinned,
        parallel: checked_number(request.parallel, limits::PARALLEL_DEFAULT, limits::PARALLEL_MAX, "parallel")?,
        timeout: checked_timeout(request.timeout)?,
        per_second: checked_number(
            request.max_per_second,
            limits::PER_SECOND_DEFAULT,
            limits::PER_SECOND_MAX,
            "max_per_second",
        )?,
        identity: request.identity,
    })
}

fn response(tried: TrialOutcome) -> TryRunResponse {
    let of = |outcome: Outcome| TryRunResponse { outcome: outcome as i32, failure: None };
    match tried {
        TrialOutcome::Replayed => of(Outcome::Replayed),
        TrialOutcome::NoAnswer => of(Outcome::NoAnswer),
        TrialOutcome::Skipped => of(Outcome::Skipped),
        TrialOutcome::Failed(failure) => TryRunResponse { failure: Some(shown(*failure)), ..of(Outcome::Failed) },
    }
}

fn shown(failure: TrialFailure) -> Failure {
    let TrialFailure { cause, message, failure, event_id, event_type } = failure;
    let (r#type, stack_trace) = match &failure {
        Some(failure) => (failure_type(failure).to_owned(), failure.stack_trace.clone()),
        None => Default::default(),
    };
    let event_type = match event_type {
        EventType::Unspecified => String::new(),
        known => format!("{known:?}"),
    };
    let cause = cause.as_str_name().trim_start_matches("WORKFLOW_TASK_FAILED_CAUSE_").to_owned();
    Failure { cause, message, r#type, stack_trace, event_id, event_type }
}

fn refused(error: VerificationError) -> Status {
    match error {
        VerificationError::Call(error) => failed(error),
        VerificationError::Unknown | VerificationError::NotRunning => status::not_found(error.to_string()),
        VerificationError::Busy(_) => Status::failed_precondition(error.to_string()),
        VerificationError::TooMany => Status::resource_exhausted(error.to_string()),
    }
}

/// Trials as calls of the service, each made where its run is. The service is not held: it has the node, which has these.
pub(crate) struct TrialCalls(Weak<Handlers>);

impl TrialCalls {
    /// Trials that are calls of a service.
    pub(crate) fn new(service: &Arc<Handlers>) -> Self {
        Self(Arc::downgrade(service))
    }
}

impl Trials for TrialCalls {
    fn try_run(&self, request: TryRunRequest) -> TrialFuture {
        let handlers = self.0.upgrade();
        Box::pin(async move {
            let of = |outcome: Outcome| TryRunResponse { outcome: outcome as i32, failure: None };
            let Some(handlers) = handlers else { return of(Outcome::NoAnswer) };
            for pause in RETRY_DELAYS {
                match handlers.make(&request).await {
                    Ok(tried) => return tried,
                    // It was deleted meanwhile.
                    Err(status) if status.code() == Code::NotFound => return of(Outcome::Skipped),
                    Err(status) => tracing::debug!(workflow = request.workflow_id, %status, "a trial was not made"),
                }
                tokio::time::sleep(pause).await;
            }
            of(Outcome::NoAnswer)
        })
    }
}
