//! Operations that are workflows: they are started, linked to their caller, and cancelled by their token.

use segno_proto::{
    common::{
        Callback as WireCallback, Link,
        callback::{self, Nexus},
    },
    enums::{EventType, WorkflowIdConflictPolicy},
    links,
    nexus::Link as WireLink,
    workflow::OnConflictOptions,
    workflowservice::StartWorkflowExecutionResponse,
};

use super::{HandlerError, HandlerErrorType, NexusContext, NexusLink, token};
use crate::{
    client::{ClientError, Queue, RawWorkflow, StartOptions},
    converter,
    definition::{Data, WorkflowDefinition},
    failure::Result,
};
use segno_proto::common::Payload;

/// The header of a callback in which the server finds the operation's token if the workflow ends before the handler's
/// answer arrives.
const TOKEN_HEADER: &str = "nexus-operation-token";

/// An operation that was started: it goes on by itself as a workflow, or is complete.
#[must_use = "return it from the handler"]
#[derive(Clone, Debug)]
pub struct StartedOperation<T>(State<T>);

#[derive(Clone, Debug)]
enum State<T> {
    Completed(T),
    Running(String),
}

impl<T> StartedOperation<T> {
    /// An operation that is complete: its result was known at once.
    pub fn completed(result: T) -> Self {
        Self(State::Completed(result))
    }

    /// An operation that goes on by itself under a token of the handler's own.
    pub(crate) fn running(token: String) -> Self {
        Self(State::Running(token))
    }

    /// The token of an operation that goes on by itself.
    pub fn token(&self) -> Option<&str> {
        match &self.0 {
            State::Completed(_) => None,
            State::Running(token) => Some(token),
        }
    }

    /// The result, or the token.
    pub(crate) fn into_result(self) -> Result<T, String> {
        match self.0 {
            State::Completed(result) => Ok(result),
            State::Running(token) => Err(token),
        }
    }
}

impl<T: Data> StartedOperation<T> {
    pub(crate) fn encode(self) -> Result<StartedOperation<Option<Payload>>> {
        Ok(StartedOperation(match self.0 {
            State::Completed(result) => State::Completed(converter::encode(&result, 1)?.into_iter().next()),
            State::Running(token) => State::Running(token),
        }))
    }
}

impl NexusContext {
    /// Starts the workflow that the operation is, on the worker's own queue. Its result is that of the operation; if it fails
    /// or is cancelled, so is the operation; a cancelled operation cancels it.
    ///
    /// Choose an id that follows from the input: two operations with one id are one workflow if the options say
    /// [`UseExisting`](crate::IdConflictPolicy::UseExisting), and otherwise the second fails as a conflict. An empty id is
    /// the [request's](super::NexusInfo::request_id).
    pub async fn start_workflow<W: WorkflowDefinition>(
        &self,
        id: impl Into<StartOptions> + Send,
        input: W::Input,
    ) -> Result<StartedOperation<W::Output>, HandlerError> {
        self.start_workflow_on::<W>(&self.queue().clone(), id, input).await
    }

    /// The same on another queue of the same namespace.
    pub async fn start_workflow_on<W: WorkflowDefinition>(
        &self,
        queue: &Queue,
        id: impl Into<StartOptions> + Send,
        input: W::Input,
    ) -> Result<StartedOperation<W::Output>, HandlerError> {
        if !self.take_workflow() {
            let message = "an operation is one workflow; start others with `ctx.queue()`";
            return Err(HandlerError::new(HandlerErrorType::Internal, message).retryable(false));
        }
        let mut options: StartOptions = id.into();
        if options.id.is_empty() {
            options.id.clone_from(&self.info().request_id);
        }
        let input = converter::encode(&input, W::ARGUMENTS).map_err(ClientError::from)?;
        let namespace = queue.client().namespace();
        let mut request = options.request(queue.client(), queue.name(), W::KIND).await?;
        let token = token::of_workflow(namespace, &request.workflow_id);
        request.request_id.clone_from(&self.info().request_id);
        request.links = self.caller();
        if !self.callback().url.is_empty() {
            request.completion_callbacks = vec![self.completion(&token, &request.links)];
        }
        if request.workflow_id_conflict_policy == WorkflowIdConflictPolicy::UseExisting as i32 {
            request.on_conflict_options = Some(OnConflictOptions {
                attach_request_id: true,
                attach_completion_callbacks: true,
                attach_links: true,
            });
        }
        let workflow_id = request.workflow_id.clone();
        let answer = queue.send(request, input).await?;
        if let Some(link) = link_to(namespace, &workflow_id, answer) {
            self.add_link(link);
        }
        Ok(StartedOperation(State::Running(token)))
    }

    /// The callback by which the workflow's end becomes that of the operation.
    fn completion(&self, token: &str, links: &[Link]) -> WireCallback {
        let mut header = self.callback().headers.clone();
        header.entry(TOKEN_HEADER.to_owned()).or_insert_with(|| token.to_owned());
        let nexus = Nexus { url: self.callback().url.clone(), header };
        WireCallback { variant: Some(callback::Variant::Nexus(nexus)), links: links.to_vec() }
    }

    /// The links to the caller that a server knows.
    fn caller(&self) -> Vec<Link> {
        self.info().links.iter().filter_map(|link| links::from_url(&link.to_wire())).collect()
    }

    /// Cancels the workflow that an operation with this token is.
    pub(super) async fn cancel_workflow(&self, token: &str) -> Result<(), HandlerError> {
        let bad = |message: &str| HandlerError::new(HandlerErrorType::BadRequest, message);
        let (namespace, workflow_id) = token::to_workflow(token)
            .ok_or_else(|| bad("the token names no workflow: write a method for the operation with `#[cancel(..)]`"))?;
        if namespace != self.client().namespace() {
            return Err(bad("the token is of another namespace"));
        }
        Ok(self.client().handle::<RawWorkflow>(workflow_id).cancel().await?)
    }
}

/// The link to a workflow that was started, or to which the operation was attached.
fn link_to(namespace: &str, workflow_id: &str, answer: StartWorkflowExecutionResponse) -> Option<NexusLink> {
    let own = || links::to_event(namespace, workflow_id, &answer.run_id, 1, EventType::WorkflowExecutionStarted);
    let link: WireLink = links::to_url(&answer.link.clone().unwrap_or_else(own))?;
    Some(NexusLink::from_wire(link))
}
