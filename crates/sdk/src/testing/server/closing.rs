//! Ends of runs, and messages between runs: children, signals, requests to cancel.

use segno_proto::{
    command::command::Attributes as Wire,
    common::WorkflowExecution,
    duration_nanos,
    enums::{
        CancelExternalWorkflowExecutionFailedCause, ContinueAsNewInitiator, ParentClosePolicy, RetryState,
        SignalExternalWorkflowExecutionFailedCause, StartChildWorkflowExecutionFailedCause, WorkflowIdReusePolicy,
    },
    events::*,
};

use super::{
    Server, TimedEvent,
    event::{Event, IDENTITY},
    run::{CloseOutcome, Inbound, NAMESPACE, Parent, Run},
    signaled,
};
use crate::{
    converter,
    failure::{Failure, FailureKind},
};

impl Server {
    /// A command that ends the run.
    pub(super) fn close_by_command(&mut self, index: usize, completed: i64, command: Wire) {
        let (event, closed) = match command {
            Wire::CompleteWorkflowExecutionCommandAttributes(complete) => {
                let output = converter::items(&complete.result).to_vec();
                let event = WorkflowExecutionCompletedEventAttributes {
                    result: complete.result,
                    workflow_task_completed_event_id: completed,
                    ..Default::default()
                };
                (Event::WorkflowExecutionCompletedEventAttributes(event), CloseOutcome::Completed(output))
            }
            Wire::FailWorkflowExecutionCommandAttributes(fail) => {
                let failure = Failure::from_wire(fail.failure.clone().unwrap_or_default());
                let event = WorkflowExecutionFailedEventAttributes {
                    failure: fail.failure,
                    retry_state: RetryState::RetryPolicyNotSet as i32,
                    workflow_task_completed_event_id: completed,
                    ..Default::default()
                };
                (Event::WorkflowExecutionFailedEventAttributes(event), CloseOutcome::Failed(failure))
            }
            Wire::CancelWorkflowExecutionCommandAttributes(cancel) => {
                let details = converter::items(&cancel.details).to_vec();
                let event = WorkflowExecutionCanceledEventAttributes {
                    workflow_task_completed_event_id: completed,
                    details: cancel.details,
                };
                (Event::WorkflowExecutionCanceledEventAttributes(event), CloseOutcome::Canceled(details))
            }
            Wire::ContinueAsNewWorkflowExecutionCommandAttributes(again) => {
                let next = self.continue_as_new(index, &again);
                let event = WorkflowExecutionContinuedAsNewEventAttributes {
                    new_execution_run_id: self.runs[next].run_id.clone(),
                    workflow_type: Some(self.runs[next].workflow_type()),
                    task_queue: Some(self.runs[next].task_queue()),
                    input: again.input,
                    workflow_run_timeout: again.workflow_run_timeout,
                    workflow_task_timeout: again.workflow_task_timeout,
                    workflow_task_completed_event_id: completed,
                    initiator: ContinueAsNewInitiator::Workflow as i32,
                    memo: again.memo,
                    search_attributes: again.search_attributes,
                    header: again.header,
                    ..Default::default()
                };
                let event = Event::WorkflowExecutionContinuedAsNewEventAttributes(Box::new(event));
                (event, CloseOutcome::ContinuedAsNew(next))
            }
            // `check` lets no other command through to here.
            _ => return,
        };
        self.close(index, event, closed);
    }

    fn continue_as_new(
        &mut self,
        index: usize,
        again: &segno_proto::command::ContinueAsNewWorkflowExecutionCommandAttributes,
    ) -> usize {
        let before = &self.runs[index];
        let kind = again.workflow_type.as_ref().map(|kind| kind.name.clone()).filter(|kind| !kind.is_empty());
        let queue = again.task_queue.as_ref().map(|queue| queue.name.clone()).filter(|queue| !queue.is_empty());
        let mut run = Run::new(
            before.workflow_id.clone(),
            self.new_run_id(),
            kind.unwrap_or_else(|| before.kind.clone()),
            queue.unwrap_or_else(|| before.queue.clone()),
        );
        run.first_run_id.clone_from(&before.first_run_id);
        run.parent = before.parent;
        run.memo = again.memo.clone().unwrap_or_default().fields.into_iter().collect();
        run.search_attributes =
            again.search_attributes.clone().unwrap_or_default().indexed_fields.into_iter().collect();
        let event = WorkflowExecutionStartedEventAttributes {
            continued_execution_run_id: before.run_id.clone(),
            initiator: ContinueAsNewInitiator::Workflow as i32,
            header: again.header.clone(),
            ..self.started_event(&run, again.input.clone())
        };
        run.write(self.now, Event::WorkflowExecutionStartedEventAttributes(Box::new(event)));
        self.add_run(run)
    }

    /// Writes the last event of a run, tells its parent, and sees to its children.
    fn close(&mut self, index: usize, event: Event, closed: CloseOutcome) {
        let now = self.now;
        self.runs[index].write(now, event);
        self.runs[index].close(closed.clone());
        if let CloseOutcome::ContinuedAsNew(next) = closed {
            let parent = self.runs[index].parent;
            if let Some(child) =
                parent.and_then(|parent| self.runs[parent.run].children.get_mut(&parent.initiated_event_id))
            {
                child.run = Some(next);
            }
        } else {
            self.tell_parent(index, &closed);
        }
        let children: Vec<(i32, usize)> = self.runs[index]
            .children
            .values()
            .filter_map(|child| Some((child.attributes.parent_close_policy, child.run?)))
            .collect();
        for (policy, child) in children {
            if self.runs[child].closed.is_some() {
                continue;
            }
            self.runs[child].parent = None;
            match ParentClosePolicy::try_from(policy).unwrap_or_default() {
                ParentClosePolicy::Abandon => {}
                ParentClosePolicy::RequestCancel => {
                    self.request_cancel(child, "by parent close policy".to_owned(), None)
                }
                _ => {
                    let event = WorkflowExecutionTerminatedEventAttributes {
                        reason: "by parent close policy".to_owned(),
                        identity: IDENTITY.to_owned(),
                        ..Default::default()
                    };
                    let event = Event::WorkflowExecutionTerminatedEventAttributes(event);
                    self.close(child, event, CloseOutcome::Terminated("by parent close policy".to_owned()));
                }
            }
        }
        self.runs[index].children.clear();
    }

    fn tell_parent(&mut self, index: usize, closed: &CloseOutcome) {
        let run = &self.runs[index];
        let Some(Parent { run: parent, initiated_event_id }) = run.parent else { return };
        let (workflow_execution, workflow_type) = (Some(run.execution()), Some(run.workflow_type()));
        let namespace = NAMESPACE.to_owned();
        let event = match closed {
            CloseOutcome::Completed(output) => {
                Event::ChildWorkflowExecutionCompletedEventAttributes(ChildWorkflowExecutionCompletedEventAttributes {
                    result: converter::list(output.clone()),
                    namespace,
                    workflow_execution,
                    workflow_type,
                    initiated_event_id,
                    ..Default::default()
                })
            }
            CloseOutcome::Failed(failure) => Event::ChildWorkflowExecutionFailedEventAttributes(Box::new(
                ChildWorkflowExecutionFailedEventAttributes {
                    failure: Some(failure.to_wire()),
                    namespace,
                    workflow_execution,
                    workflow_type,
                    initiated_event_id,
                    retry_state: RetryState::RetryPolicyNotSet as i32,
                    ..Default::default()
                },
            )),
            CloseOutcome::Canceled(details) => {
                Event::ChildWorkflowExecutionCanceledEventAttributes(ChildWorkflowExecutionCanceledEventAttributes {
                    details: converter::list(details.clone()),
                    namespace,
                    workflow_execution,
                    workflow_type,
                    initiated_event_id,
                    ..Default::default()
                })
            }
            CloseOutcome::Terminated(_) => Event::ChildWorkflowExecutionTerminatedEventAttributes(
                ChildWorkflowExecutionTerminatedEventAttributes {
                    namespace,
                    workflow_execution,
                    workflow_type,
                    initiated_event_id,
                    ..Default::default()
                },
            ),
            CloseOutcome::TimedOut => {
                Event::ChildWorkflowExecutionTimedOutEventAttributes(ChildWorkflowExecutionTimedOutEventAttributes {
                    namespace,
                    workflow_execution,
                    workflow_type,
                    initiated_event_id,
                    retry_state: RetryState::Timeout as i32,
                    ..Default::default()
                })
            }
            CloseOutcome::ContinuedAsNew(_) => return,
        };
        self.receive(parent, Inbound::Event(event));
    }

    pub(super) fn start_child(&mut self, parent: usize, initiated_event_id: i64) {
        if self.runs[parent].closed.is_some() {
            return;
        }
        let Some(child) = self.runs[parent].children.get(&initiated_event_id) else { return };
        let attributes = child.attributes.clone();
        let before = self.runs.iter().rev().find(|run| run.workflow_id == attributes.workflow_id);
        let reuse = WorkflowIdReusePolicy::try_from(attributes.workflow_id_reuse_policy).unwrap_or_default();
        let taken = before.is_some_and(|run| {
            matches!(
                (&run.closed, reuse),
                (None, _)
                    | (_, WorkflowIdReusePolicy::RejectDuplicate)
                    | (Some(CloseOutcome::Completed(_)), WorkflowIdReusePolicy::AllowDuplicateFailedOnly)
            )
        });
        if taken {
            self.runs[parent].children.remove(&initiated_event_id);
            let event = StartChildWorkflowExecutionFailedEventAttributes {
                namespace: NAMESPACE.to_owned(),
                workflow_id: attributes.workflow_id,
                workflow_type: attributes.workflow_type,
                cause: StartChildWorkflowExecutionFailedCause::WorkflowAlreadyExists as i32,
                initiated_event_id,
                workflow_task_completed_event_id: attributes.workflow_task_completed_event_id,
                ..Default::default()
            };
            let event = Event::StartChildWorkflowExecutionFailedEventAttributes(event);
            return self.receive(parent, Inbound::Event(event));
        }
        let kind = attributes.workflow_type.clone().unwrap_or_default().name;
        let queue = attributes.task_queue.clone().unwrap_or_default().name;
        let mut run = Run::new(attributes.workflow_id.clone(), self.new_run_id(), kind, queue);
        run.parent = Some(Parent { run: parent, initiated_event_id });
        run.memo = attributes.memo.clone().unwrap_or_default().fields.into_iter().collect();
        run.search_attributes =
            attributes.search_attributes.clone().unwrap_or_default().indexed_fields.into_iter().collect();
        let event = WorkflowExecutionStartedEventAttributes {
            parent_workflow_namespace: NAMESPACE.to_owned(),
            parent_workflow_execution: Some(self.runs[parent].execution()),
            parent_initiated_event_id: initiated_event_id,
            workflow_execution_timeout: attributes.workflow_execution_timeout,
            workflow_run_timeout: attributes.workflow_run_timeout,
            header: attributes.header.clone(),
            root_workflow_execution: self.runs.first().map(Run::execution),
            ..self.started_event(&run, attributes.input.clone())
        };
        run.write(self.now, Event::WorkflowExecutionStartedEventAttributes(Box::new(event)));
        let started = ChildWorkflowExecutionStartedEventAttributes {
            namespace: NAMESPACE.to_owned(),
            initiated_event_id,
            workflow_execution: Some(run.execution()),
            workflow_type: Some(run.workflow_type()),
            header: attributes.header,
            ..Default::default()
        };
        let index = self.add_run(run);
        if let Some(child) = self.runs[parent].children.get_mut(&initiated_event_id) {
            child.run = Some(index);
        }
        let spans = [&attributes.workflow_run_timeout, &attributes.workflow_execution_timeout];
        let span = spans.iter().map(|span| duration_nanos(span.as_ref())).filter(|span| *span > 0).min();
        if let Some(span) = span {
            self.plan(self.now.saturating_add(span), TimedEvent::RunTimeout { run: index });
        }
        let event = Event::ChildWorkflowExecutionStartedEventAttributes(started);
        self.receive(parent, Inbound::ChildStarted { initiated_event_id, event });
    }

    pub(super) fn time_out_run(&mut self, run: usize) {
        let run = self.newest(run);
        if self.runs[run].closed.is_none() {
            let event = WorkflowExecutionTimedOutEventAttributes {
                retry_state: RetryState::RetryPolicyNotSet as i32,
                ..Default::default()
            };
            self.close(run, Event::WorkflowExecutionTimedOutEventAttributes(event), CloseOutcome::TimedOut);
        }
    }

    /// A mocked child ends without ever having had a workflow task that was answered.
    pub(super) fn end_mock(&mut self, run: usize, result: Result<Vec<segno_proto::common::Payload>, Failure>) {
        if self.runs[run].closed.is_some() {
            return;
        }
        let (event, closed) = match result {
            Ok(output) => {
                let event = WorkflowExecutionCompletedEventAttributes {
                    result: converter::list(output.clone()),
                    ..Default::default()
                };
                (Event::WorkflowExecutionCompletedEventAttributes(event), CloseOutcome::Completed(output))
            }
            Err(failure) if failure.kind() == &FailureKind::Cancelled => {
                let event = Event::WorkflowExecutionCanceledEventAttributes(Default::default());
                (event, CloseOutcome::Canceled(Vec::new()))
            }
            Err(failure) => {
                let event = WorkflowExecutionFailedEventAttributes {
                    failure: Some(failure.to_wire()),
                    retry_state: RetryState::RetryPolicyNotSet as i32,
                    ..Default::default()
                };
                (Event::WorkflowExecutionFailedEventAttributes(event), CloseOutcome::Failed(failure))
            }
        };
        self.close(run, event, closed);
    }

    /// The run that a message between runs is for.
    fn target(&self, run: usize, execution: Option<&WorkflowExecution>, child_only: bool) -> Option<usize> {
        let execution = execution?;
        let target = self.open_run(&execution.workflow_id)?;
        if !execution.run_id.is_empty() && self.runs[target].run_id != execution.run_id {
            return None;
        }
        let mine = self.runs[target].parent.is_some_and(|parent| parent.run == run);
        (!child_only || mine).then_some(target)
    }

    pub(super) fn signal_external(&mut self, run: usize, initiated_event_id: i64) {
        let Some(Event::SignalExternalWorkflowExecutionInitiatedEventAttributes(initiated)) =
            self.event(run, initiated_event_id).and_then(|event| event.attributes.clone())
        else {
            return;
        };
        let target = self.target(run, initiated.workflow_execution.as_ref(), initiated.child_workflow_only);
        let event = match target {
            Some(target) => {
                let by = self.runs[run].execution();
                self.receive(target, signaled(initiated.signal_name, initiated.input, Some(by)));
                Event::ExternalWorkflowExecutionSignaledEventAttributes(
                    ExternalWorkflowExecutionSignaledEventAttributes {
                        initiated_event_id,
                        namespace: NAMESPACE.to_owned(),
                        workflow_execution: initiated.workflow_execution,
                        ..Default::default()
                    },
                )
            }
            None => Event::SignalExternalWorkflowExecutionFailedEventAttributes(
                SignalExternalWorkflowExecutionFailedEventAttributes {
                    cause: SignalExternalWorkflowExecutionFailedCause::ExternalWorkflowExecutionNotFound as i32,
                    workflow_task_completed_event_id: initiated.workflow_task_completed_event_id,
                    namespace: NAMESPACE.to_owned(),
                    workflow_execution: initiated.workflow_execution,
                    initiated_event_id,
                    ..Default::default()
                },
            ),
        };
        self.receive(run, Inbound::Event(event));
    }

    pub(super) fn cancel_external(&mut self, run: usize, initiated_event_id: i64) {
        let Some(Event::RequestCancelExternalWorkflowExecutionInitiatedEventAttributes(initiated)) =
            self.event(run, initiated_event_id).and_then(|event| event.attributes.clone())
        else {
            return;
        };
        let target = self.target(run, initiated.workflow_execution.as_ref(), initiated.child_workflow_only);
        let event = match target {
            Some(target) => {
                let by = (initiated_event_id, self.runs[run].execution());
                self.request_cancel(target, initiated.reason, Some(by));
                Event::ExternalWorkflowExecutionCancelRequestedEventAttributes(
                    ExternalWorkflowExecutionCancelRequestedEventAttributes {
                        initiated_event_id,
                        namespace: NAMESPACE.to_owned(),
                        workflow_execution: initiated.workflow_execution,
                        ..Default::default()
                    },
                )
            }
            None => Event::RequestCancelExternalWorkflowExecutionFailedEventAttributes(
                RequestCancelExternalWorkflowExecutionFailedEventAttributes {
                    cause: CancelExternalWorkflowExecutionFailedCause::ExternalWorkflowExecutionNotFound as i32,
                    workflow_task_completed_event_id: initiated.workflow_task_completed_event_id,
                    namespace: NAMESPACE.to_owned(),
                    workflow_execution: initiated.workflow_execution,
                    initiated_event_id,
                    ..Default::default()
                },
            ),
        };
        self.receive(run, Inbound::Event(event));
    }
}
