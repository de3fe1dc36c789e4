//! Delivers each kind of message between runs, and reports the outcome to its sender.

use std::{sync::Arc, time::Duration};

use segno_engine::{
    Rejection, Run,
    cancel::{self, CancelRequest},
    children, external, options,
    outbox::{CancelExternal, ChildClosed, Content, OutboxMessage, ParentClosed, SignalExternal, StartChild},
    signal::{self, Signal},
    start::{Start, StartOptions},
    state::Parent,
    terminate::{self, Terminate},
    workflow_task::SERVER_IDENTITY,
};
use segno_proto::{
    common::WorkflowExecution,
    enums::{
        CancelExternalWorkflowExecutionFailedCause as CancelCause, ParentClosePolicy,
        SignalExternalWorkflowExecutionFailedCause as SignalCause,
        StartChildWorkflowExecutionFailedCause as StartCause, WorkflowIdConflictPolicy, WorkflowIdReusePolicy,
    },
};
use segno_store::{Commit, OutboxKey};

use super::operations::workflow_of;
use crate::{
    error::CallError,
    namespaces::Namespace,
    ports::owner::{DeliveryResult, Place},
    runs::Runs,
    slots::{RunSelector, WorkflowKey},
};

/// Whether the sender of a message took note of what became of it.
enum SenderNote {
    Yes,
    SenderClosed,
    /// It is gone, or knows already.
    No,
}

/// The outcome of an attempt to deliver a message.
pub(super) enum DeliveryStep {
    /// It has arrived, or never will.
    Delivered,
    /// It goes to a URL.
    HandOver {
        /// The number of the callback.
        index: u32,
        /// The URL.
        url: String,
    },
    /// It is not due before this time has passed.
    Later(Duration),
}

impl Runs {
    /// Delivers a message: its receiver's half where the receiver is, then the sender's half here.
    pub(super) async fn deliver(
        self: &Arc<Self>,
        message: &OutboxMessage,
        key: OutboxKey,
    ) -> Result<DeliveryStep, CallError> {
        match &message.content {
            Some(Content::Callback(due)) => self.call_back(message, due, key).await,
            _ => self.deliver_to_run(message, key).await.map(|()| DeliveryStep::Delivered),
        }
    }

    async fn deliver_to_run(self: &Arc<Self>, message: &OutboxMessage, key: OutboxKey) -> Result<(), CallError> {
        match &message.content {
            Some(Content::StartChild(start)) => self.start_child(message, start, key).await,
            Some(Content::Signal(sent)) => {
                let id = sent.initiated_event_id;
                let result = match self.key_of(&sent.namespace, &sent.target.workflow_id) {
                    None => Err(SignalCause::NamespaceNotFound),
                    // A workflow cannot signal itself this way; Temporal says so in these words.
                    Some(_) if to_itself(message, &sent.namespace, &sent.target) => {
                        Err(SignalCause::ExternalWorkflowExecutionNotFound)
                    }
                    Some((_, target)) => match self.at_receiver(&target, message, key).await? {
                        DeliveryResult::Rejected(cause) => Err(SignalCause::try_from(cause).unwrap_or_default()),
                        _ => Ok(()),
                    },
                };
                self.report(message, key, move |run, context| external::signal_result(run, context, id, result)).await
            }
            Some(Content::Cancel(sent)) => {
                let id = sent.initiated_event_id;
                let result = match self.key_of(&sent.namespace, &sent.target.workflow_id) {
                    None => Err(CancelCause::NamespaceNotFound),
                    Some(_) if to_itself(message, &sent.namespace, &sent.target) => {
                        Err(CancelCause::ExternalWorkflowExecutionNotFound)
                    }
                    Some((_, target)) => match self.at_receiver(&target, message, key).await? {
                        DeliveryResult::Rejected(cause) => Err(CancelCause::try_from(cause).unwrap_or_default()),
                        _ => Ok(()),
                    },
                };
                self.report(message, key, move |run, context| external::cancel_result(run, context, id, result)).await
            }
            Some(Content::ChildClosed(closed)) => {
                self.notify(message, key, &closed.namespace, &closed.parent.workflow_id).await
            }
            Some(Content::ParentClosed(closed)) => {
                self.notify(message, key, &closed.namespace, &closed.child.workflow_id).await
            }
            Some(Content::StartScheduled(start)) => self.start_scheduled(message, start, key).await,
            Some(Content::ScheduledClosed(closed)) => {
                self.notify(message, key, &closed.by.namespace, &closed.by.execution.workflow_id).await
            }
            Some(Content::EndScheduled(end)) => {
                self.notify(message, key, &message.sender_namespace, &end.execution.workflow_id).await
            }
            Some(Content::Callback(_) | Content::StartOperation(_)) | None => self.drop_message(message, key).await,
        }
    }

    /// Delivers a message whose sender needs no report.
    async fn notify(
        self: &Arc<Self>,
        message: &OutboxMessage,
        key: OutboxKey,
        namespace: &str,
        workflow_id: &str,
    ) -> Result<(), CallError> {
        let Some((_, receiver)) = self.key_of(namespace, workflow_id) else {
            return self.drop_message(message, key).await;
        };
        match self.at_receiver(&receiver, message, key).await? {
            // One commit carried both halves.
            DeliveryResult::Removed => Ok(()),
            _ => self.drop_message(message, key).await,
        }
    }

    /// Carries out the receiver's half of a message where the receiver is.
    pub(super) async fn at_receiver(
        self: &Arc<Self>,
        receiver: &WorkflowKey,
        message: &OutboxMessage,
        key: OutboxKey,
    ) -> Result<DeliveryResult, CallError> {
        match self.place(receiver) {
            Place::Here => self.receive(receiver, message, key, true).await.map_err(|error| match error {
                // The sender is still here.
                CallError::Moved => CallError::Unavailable("the receiver is moving to another node".to_owned()),
                error => error,
            }),
            Place::There(owner) => self.owner.deliver(owner, message, key).await,
            Place::Nowhere => Err(CallError::Unavailable("the receiver is moving to another node".to_owned())),
        }
    }

    /// The receiver's half of a message. If its sender is of this node as well, its row may go with the same commit.
    pub async fn receive(
        self: &Arc<Self>,
        receiver: &WorkflowKey,
        message: &OutboxMessage,
        key: OutboxKey,
        sender_is_here: bool,
    ) -> Result<DeliveryResult, CallError> {
        let delivered = if sender_is_here { vec![key] } else { Vec::new() };
        match &message.content {
            Some(Content::StartChild(start)) => self.start_as_child(message, start).await,
            Some(Content::Signal(signal)) => self.signal_external(receiver, message, signal).await,
            Some(Content::Cancel(cancel)) => self.cancel_external(receiver, message, cancel).await,
            Some(Content::ChildClosed(closed)) => self.child_closed(receiver, message, closed, delivered).await,
            Some(Content::ParentClosed(closed)) => self.parent_closed(receiver, message, closed, key, delivered).await,
            Some(Content::StartScheduled(start)) => self.start_as_scheduled(message, start).await,
            Some(Content::ScheduledClosed(closed)) => self.scheduled_closed(receiver, closed, delivered).await,
            Some(Content::EndScheduled(end)) => self.end_scheduled(receiver, message, end, key, delivered).await,
            Some(Content::Callback(due)) => self.operation_ended(receiver, due).await,
            Some(Content::StartOperation(start)) => self.start_as_operation(start).await,
            None => Ok(DeliveryResult::Done),
        }
    }

    /// The workflow that a message is for.
    pub fn receiver_of(&self, message: &OutboxMessage) -> Option<WorkflowKey> {
        let (namespace, workflow_id) = match message.content.as_ref()? {
            Content::StartChild(start) => (&start.attributes.namespace, &start.attributes.workflow_id),
            Content::Signal(signal) => (&signal.namespace, &signal.target.workflow_id),
            Content::Cancel(cancel) => (&cancel.namespace, &cancel.target.workflow_id),
            Content::ChildClosed(closed) => (&closed.namespace, &closed.parent.workflow_id),
            Content::ParentClosed(closed) => (&closed.namespace, &closed.child.workflow_id),
            Content::StartScheduled(start) => return self.scheduled_workflow(message, start).ok().flatten(),
            Content::ScheduledClosed(closed) => (&closed.by.namespace, &closed.by.execution.workflow_id),
            Content::EndScheduled(end) => (&message.sender_namespace, &end.execution.workflow_id),
            Content::StartOperation(start) => {
                return self.key_of(&start.namespace, &workflow_of(start)).map(|(_, key)| key);
            }
            Content::Callback(due) => {
                return self.caller_of(&due.report.as_ref()?.callback).map(|(caller, _)| caller);
            }
        };
        self.key_of(namespace, workflow_id).map(|(_, key)| key)
    }

    /// The message has done its work, or its receiver no longer wants it.
    pub(super) async fn drop_message(&self, message: &OutboxMessage, key: OutboxKey) -> Result<(), CallError> {
        let commit = Commit { outbox_remove: vec![key], ..Default::default() };
        let removed = match self.namespaces.get(&message.sender_namespace) {
            Some(namespace) => self.committer.commit_of(namespace.key, commit).await,
            None => self.committer.commit(commit).await,
        };
        Ok(removed?)
    }

    pub(super) fn key_of(&self, namespace: &str, workflow_id: &str) -> Option<(Arc<Namespace>, WorkflowKey)> {
        let namespace = self.namespaces.get(namespace)?;
        let key = WorkflowKey::new(namespace.key, workflow_id);
        Some((namespace, key))
    }

    /// Tells the sender what became of its message; the row goes with that commit. A sender that closed or forgot
    /// needs to know nothing.
    pub(super) async fn report<F>(
        self: &Arc<Self>,
        message: &OutboxMessage,
        key: OutboxKey,
        call: F,
    ) -> Result<(), CallError>
    where
        F: FnOnce(&Run, segno_engine::Context) -> Result<segno_engine::Applied<()>, Rejection> + Send + 'static,
    {
        match self.try_report(message, key, call).await? {
            SenderNote::Yes => Ok(()),
            SenderNote::SenderClosed | SenderNote::No => self.drop_message(message, key).await,
        }
    }

    /// Like [`Runs::report`], but leaves the row alone if the sender does not want to know, and says so.
    async fn try_report<F>(
        self: &Arc<Self>,
        message: &OutboxMessage,
        key: OutboxKey,
        call: F,
    ) -> Result<SenderNote, CallError>
    where
        F: FnOnce(&Run, segno_engine::Context) -> Result<segno_engine::Applied<()>, Rejection> + Send + 'static,
    {
        let Some((_, sender)) = self.key_of(&message.sender_namespace, &message.sender.workflow_id) else {
            return Ok(SenderNote::No);
        };
        let selector = RunSelector::run(message.sender.run_id.clone());
        match self.transact_and(&sender, &selector, vec![key], call, |_, _| ()).await {
            Ok(_) => Ok(SenderNote::Yes),
            Err(CallError::Rejected(Rejection::Closed)) => Ok(SenderNote::SenderClosed),
            Err(CallError::Rejected(_) | CallError::WorkflowNotFound { .. } | CallError::RunNotFound { .. }) => {
                Ok(SenderNote::No)
            }
            Err(error) => Err(error),
        }
    }

    async fn start_child(
        self: &Arc<Self>,
        message: &OutboxMessage,
        start: &StartChild,
        key: OutboxKey,
    ) -> Result<(), CallError> {
        if !self.child_wanted(message, start).await? {
            // The parent closed. Its child may have been started before that with the report lost: its policy reaches it.
            let attributes = &start.attributes;
            return self.close_child(message, attributes.parent_close_policy, &attributes.namespace, start, key).await;
        }
        let namespace = &start.attributes.namespace;
        let arrived = match self.namespaces.live(namespace) {
            None => DeliveryResult::Rejected(StartCause::NamespaceNotFound as i32),
            Some(namespace) => {
                let child = WorkflowKey::new(namespace.key, &start.attributes.workflow_id);
                self.at_receiver(&child, message, key).await?
            }
        };
        let reported = start.clone();
        match arrived {
            DeliveryResult::Started(run_id) => {
                let report = move |run: &Run, context| children::started(run, context, &reported, &run_id);
                match self.try_report(message, key, report).await? {
                    SenderNote::Yes => Ok(()),
                    // The parent closed in between and could not say what becomes of this child: its policy does.
                    SenderNote::SenderClosed => {
                        let attributes = &start.attributes;
                        self.close_child(message, attributes.parent_close_policy, &attributes.namespace, start, key)
                            .await
                    }
                    SenderNote::No => self.drop_message(message, key).await,
                }
            }
            DeliveryResult::Rejected(cause) => {
                let cause = StartCause::try_from(cause).unwrap_or_default();
                self.report(message, key, move |run, context| children::start_failed(run, context, &reported, cause))
                    .await
            }
            DeliveryResult::Done | DeliveryResult::Removed => self.drop_message(message, key).await,
        }
    }

    /// The parent of a child closed before it could hear of the child's start: its policy reaches the child here.
    async fn close_child(
        self: &Arc<Self>,
        message: &OutboxMessage,
        policy: i32,
        namespace: &str,
        start: &StartChild,
        key: OutboxKey,
    ) -> Result<(), CallError> {
        if policy == ParentClosePolicy::Abandon as i32 {
            return self.drop_message(message, key).await;
        }
        let workflow_id = start.attributes.workflow_id.clone();
        let closed = ParentClosed {
            namespace: namespace.to_owned(),
            // Which run it is only its owner knows: the one that this very message started.
            child: WorkflowExecution { workflow_id, run_id: String::new() },
            policy,
            unreported: start.initiated_event_id,
        };
        let told = OutboxMessage { content: Some(Content::ParentClosed(closed.clone())), ..message.clone() };
        self.notify(&told, key, &closed.namespace, &closed.child.workflow_id).await
    }

    /// The receiver's half of a child's start.
    async fn start_as_child(
        self: &Arc<Self>,
        message: &OutboxMessage,
        start: &StartChild,
    ) -> Result<DeliveryResult, CallError> {
        let attributes = start.attributes.clone();
        let Some(namespace) = self.namespaces.live(&attributes.namespace) else {
            return Ok(DeliveryResult::Rejected(StartCause::NamespaceNotFound as i32));
        };
        if let Some(wanted) = &attributes.versioning_override {
            let queue = attributes.task_queue.as_ref().map_or("", |queue| queue.name.as_str());
            let is_member = |version: &_, queue: &str| self.polls_workflow_queue(namespace.key, version, queue);
            if options::check_override(queue, wanted, &is_member).is_err() {
                return Ok(DeliveryResult::Rejected(StartCause::InvalidVersioningOverride as i32));
            }
        }
        let sender_namespace = self.namespaces.get(&message.sender_namespace);
        let parent = Parent {
            namespace_key: sender_namespace.as_ref().map_or(0, |n| n.key.0),
            namespace_id: sender_namespace.map(|n| n.detail.id.clone()).unwrap_or_default(),
            namespace: message.sender_namespace.clone(),
            execution: message.sender.clone(),
            initiated_event_id: start.initiated_event_id,
        };
        let reuse = attributes.workflow_id_reuse_policy();
        let options = StartOptions {
            namespace: attributes.namespace,
            workflow_id: attributes.workflow_id,
            workflow_type: attributes.workflow_type,
            task_queue: attributes.task_queue,
            input: attributes.input,
            workflow_execution_timeout: attributes.workflow_execution_timeout,
            workflow_run_timeout: attributes.workflow_run_timeout,
            workflow_task_timeout: attributes.workflow_task_timeout,
            // Recognises a start that was made but not reported.
            request_id: format!("{}:{}:0", message.sender.run_id, start.initiated_event_id),
            reuse_policy: reuse,
            conflict_policy: child_conflict_policy(reuse),
            retry_policy: attributes.retry_policy,
            cron_schedule: attributes.cron_schedule,
            memo: attributes.memo,
            search_attributes: attributes.search_attributes,
            header: attributes.header,
            user_metadata: start.user_metadata.clone(),
            priority: attributes.priority,
            versioning_override: attributes.versioning_override,
            inherited: start.inherited.clone().map(Box::new),
            ..Default::default()
        };
        let call = Start {
            parent: Some(parent),
            root: Some(start.root.clone()),
            names_queue: !start.shares_queue,
            ..namespace.start(options)
        };
        match self.start_child_workflow(call).await {
            Ok(outcome) => Ok(DeliveryResult::Started(outcome.run.info.run_id.clone())),
            // The protocol has no cause for a script that does not exist.
            Err(CallError::NoScript(_)) => Ok(DeliveryResult::Rejected(StartCause::NamespaceNotFound as i32)),
            Err(CallError::Rejected(Rejection::AlreadyStarted { .. })) => {
                Ok(DeliveryResult::Rejected(StartCause::WorkflowAlreadyExists as i32))
            }
            Err(error) => Err(error),
        }
    }

    /// The run that took the place of a run by reset, or that run itself.
    async fn reset_of(&self, workflow: &WorkflowKey, run_id: &str) -> Result<String, CallError> {
        let mut run_id = run_id.to_owned();
        loop {
            let next = match self.snapshot(workflow, &run_id).await {
                Ok(found) => found.run.state().reset_run_id.clone(),
                Err(CallError::WorkflowNotFound { .. } | CallError::RunNotFound { .. }) => return Ok(run_id),
                Err(error) => return Err(error),
            };
            if next.is_empty() {
                return Ok(run_id);
            }
            run_id = next;
        }
    }

    /// Whether a child is still to be started: only while its parent runs, as in Temporal. What a script started is
    /// carried out also after its end, unless it would be terminated at once.
    async fn child_wanted(&self, message: &OutboxMessage, start: &StartChild) -> Result<bool, CallError> {
        let Some((_, sender)) = self.key_of(&message.sender_namespace, &message.sender.workflow_id) else {
            return Ok(false);
        };
        let parent = match self.snapshot(&sender, &message.sender.run_id).await {
            Ok(parent) => parent,
            Err(CallError::WorkflowNotFound { .. } | CallError::RunNotFound { .. }) => return Ok(false),
            Err(error) => return Err(error),
        };
        let outlives = start.attributes.parent_close_policy() != ParentClosePolicy::Terminate;
        Ok(parent.run.is_running() || outlives && parent.run.state().script.is_some())
    }

    async fn signal_external(
        self: &Arc<Self>,
        target: &WorkflowKey,
        message: &OutboxMessage,
        sent: &SignalExternal,
    ) -> Result<DeliveryResult, CallError> {
        let call = Signal {
            name: sent.name.clone(),
            input: sent.input.clone(),
            identity: SERVER_IDENTITY.to_owned(),
            request_id: derived_uuid(&message.sender.run_id, sent.initiated_event_id),
            header: sent.header.clone(),
            links: Vec::new(),
            sender: Some(message.sender.clone()),
        };
        let (sender, child_only) = (message.sender.clone(), sent.child_only);
        let selector = RunSelector::run(sent.target.run_id.clone());
        let done = self
            .apply(target, &selector, move |run, context| {
                if child_only && !is_child_of(run, &sender) {
                    return Err(Rejection::RunNotFound);
                }
                signal::signal(run, context, call)
            })
            .await;
        match done {
            Ok(()) => Ok(DeliveryResult::Done),
            Err(CallError::Rejected(Rejection::SignalLimit)) => {
                Ok(DeliveryResult::Rejected(SignalCause::SignalCountLimitExceeded as i32))
            }
            Err(CallError::Rejected(Rejection::Closing)) => {
                Err(CallError::Unavailable("the target is closing".to_owned()))
            }
            Err(CallError::Rejected(_) | CallError::WorkflowNotFound { .. } | CallError::RunNotFound { .. }) => {
                Ok(DeliveryResult::Rejected(SignalCause::ExternalWorkflowExecutionNotFound as i32))
            }
            Err(error) => Err(error),
        }
    }

    async fn cancel_external(
        self: &Arc<Self>,
        target: &WorkflowKey,
        message: &OutboxMessage,
        sent: &CancelExternal,
    ) -> Result<DeliveryResult, CallError> {
        let id = sent.initiated_event_id;
        let call = CancelRequest {
            reason: sent.reason.clone(),
            identity: SERVER_IDENTITY.to_owned(),
            request_id: derived_uuid(&message.sender.run_id, id),
            links: Vec::new(),
            // A direct call to the handler of an operation comes from no run.
            sender: (!message.sender.workflow_id.is_empty()).then(|| (message.sender.clone(), id)),
            ..Default::default()
        };
        let (sender, child_only) = (message.sender.clone(), sent.child_only);
        let selector = RunSelector::run(sent.target.run_id.clone());
        let done = self
            .apply(target, &selector, move |run, context| {
                if child_only && !is_child_of(run, &sender) {
                    return Err(Rejection::RunNotFound);
                }
                cancel::request_cancel(run, context, call)
            })
            .await;
        match done {
            // A target that is closed needs no cancelling: that is what was wanted.
            Ok(()) | Err(CallError::Rejected(Rejection::Closed)) => Ok(DeliveryResult::Done),
            Err(CallError::Rejected(_) | CallError::WorkflowNotFound { .. } | CallError::RunNotFound { .. }) => {
                Ok(DeliveryResult::Rejected(CancelCause::ExternalWorkflowExecutionNotFound as i32))
            }
            Err(error) => Err(error),
        }
    }

    async fn child_closed(
        self: &Arc<Self>,
        parent: &WorkflowKey,
        message: &OutboxMessage,
        closed: &ChildClosed,
        delivered: Vec<OutboxKey>,
    ) -> Result<DeliveryResult, CallError> {
        let (id, event) = (closed.initiated_event_id, closed.closing_event.clone());
        let run_id = message.sender.run_id.clone();
        let waiting = self.reset_of(parent, &closed.parent.run_id).await?;
        let selector = RunSelector::run(waiting.clone());
        let early = self.snapshot(parent, &waiting).await.is_ok_and(|current| {
            current.run.is_running()
                && current.run.state().children.get(&id).is_some_and(|child| child.started_event_id == 0)
        });
        if early {
            // The report of the child's start is still on its way and comes first.
            return Err(CallError::NotReady("the child's start was not reported yet".to_owned()));
        }
        let call = move |run: &Run, context| children::closed(run, context, id, &run_id, event);
        self.transact_and(parent, &selector, delivered.clone(), call, |_, _| ())
            .await
            .map_or_else(unless_gone, |_| Ok(arrived_with(&delivered)))
    }

    async fn parent_closed(
        self: &Arc<Self>,
        child: &WorkflowKey,
        message: &OutboxMessage,
        closed: &ParentClosed,
        key: OutboxKey,
        delivered: Vec<OutboxKey>,
    ) -> Result<DeliveryResult, CallError> {
        // The child may have continued as new since: the chain's current run is meant.
        let mut selector = RunSelector { run_id: String::new(), first_run_id: closed.child.run_id.clone() };
        if closed.unreported > 0 {
            let found = match self.snapshot(child, "").await {
                Ok(found) => found.run.info.clone(),
                Err(CallError::WorkflowNotFound { .. }) => return Ok(DeliveryResult::Done),
                Err(error) => return Err(error),
            };
            let ours = found.parent.as_ref().is_some_and(|parent| {
                parent.execution == message.sender && parent.initiated_event_id == closed.unreported
            });
            if !ours {
                return Ok(DeliveryResult::Done);
            }
            selector.first_run_id.clone_from(&found.first_run_id);
        }
        let cancel = closed.policy == ParentClosePolicy::RequestCancel as i32;
        let request_id = derived_uuid(&message.sender.run_id, i64::from(key.sequence));
        let parent = message.sender.clone();
        let call = move |run: &Run, context| {
            if cancel {
                let request = CancelRequest {
                    identity: SERVER_IDENTITY.to_owned(),
                    request_id,
                    sender: Some((parent, 0)),
                    ..Default::default()
                };
                cancel::request_cancel(run, context, request)
            } else {
                let request = Terminate {
                    reason: "by parent close policy".to_owned(),
                    identity: SERVER_IDENTITY.to_owned(),
                    ..Default::default()
                };
                terminate::terminate(run, context, request)
            }
        };
        self.transact_and(child, &selector, delivered.clone(), call, |_, _| ())
            .await
            .map_or_else(unless_gone, |_| Ok(arrived_with(&delivered)))
    }
}

/// A receiver that no longer wants a message needs nothing of it.
pub(super) fn unless_gone(error: CallError) -> Result<DeliveryResult, CallError> {
    match error {
        CallError::Rejected(_) | CallError::WorkflowNotFound { .. } | CallError::RunNotFound { .. } => {
            Ok(DeliveryResult::Done)
        }
        error => Err(error),
    }
}

/// A message arrived with a commit that removed these rows.
pub(super) fn arrived_with(delivered: &[OutboxKey]) -> DeliveryResult {
    if delivered.is_empty() { DeliveryResult::Done } else { DeliveryResult::Removed }
}

fn to_itself(message: &OutboxMessage, namespace: &str, target: &WorkflowExecution) -> bool {
    message.sender_namespace == namespace && message.sender.workflow_id == target.workflow_id
}

fn is_child_of(run: &Run, sender: &WorkflowExecution) -> bool {
    run.info.parent.as_ref().is_some_and(|parent| parent.execution == *sender)
}

fn child_conflict_policy(reuse: WorkflowIdReusePolicy) -> WorkflowIdConflictPolicy {
    #[allow(deprecated)]
    if reuse == WorkflowIdReusePolicy::TerminateIfRunning {
        WorkflowIdConflictPolicy::TerminateExisting
    } else {
        WorkflowIdConflictPolicy::Fail
    }
}

/// A UUID that is always the same for one event of one run, so that a repeated delivery is recognised.
pub(super) fn derived_uuid(run_id: &str, event_id: i64) -> String {
    use std::hash::Hasher;
    let mut hasher = siphasher::sip128::SipHasher24::new();
    hasher.write(run_id.as_bytes());
    hasher.write_i64(event_id);
    let hash = siphasher::sip128::Hasher128::finish128(&hasher);
    segno_engine::uuid(5, hash.h1, hash.h2)
}
