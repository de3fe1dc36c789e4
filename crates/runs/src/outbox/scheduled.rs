//! Messages between schedules and the workflows that they start.

use std::sync::Arc;

use segno_engine::{
    Rejection, Run,
    cancel::{self, CancelRequest},
    options,
    outbox::{EndScheduled, OutboxMessage, ScheduledClosed, StartScheduled},
    schedule::calls,
    terminate::{self, Terminate},
};
use segno_proto::common::WorkflowExecution;
use segno_store::{OutboxKey, sabotage};

use super::deliver::{arrived_with, derived_uuid, unless_gone};
use crate::{
    error::CallError,
    ports::owner::DeliveryResult,
    runs::Runs,
    slots::{RunSelector, WorkflowKey},
};

impl Runs {
    /// Starts a workflow of a schedule where it belongs, and tells the schedule.
    pub(super) async fn start_scheduled(
        self: &Arc<Self>,
        message: &OutboxMessage,
        start: &StartScheduled,
        key: OutboxKey,
    ) -> Result<(), CallError> {
        let number = start.number;
        let workflow = self.scheduled_workflow(message, start);
        if matches!(workflow, Ok(Some(_))) && sabotage::is_on("schedule-forgets-start") {
            // A fault that harnesses must catch: the message is removed before it is delivered.
            self.drop_message(message, key).await?;
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        let execution = match workflow {
            Ok(None) => return self.drop_message(message, key).await,
            Ok(Some(workflow)) => match self.at_receiver(&workflow, message, key).await? {
                DeliveryResult::Started(run_id) => {
                    Some(WorkflowExecution { workflow_id: workflow.workflow_id.to_string(), run_id })
                }
                // Why is in the log of the node that refused it.
                _ => None,
            },
            Err(reason) => {
                tracing::warn!(schedule = start.schedule_id, reason, "a scheduled workflow could not be started");
                None
            }
        };
        self.report(message, key, move |run, context| calls::started(run, context, number, execution)).await
    }

    /// The workflow that a schedule starts; `None` if its namespace is gone.
    pub(super) fn scheduled_workflow(
        &self,
        message: &OutboxMessage,
        start: &StartScheduled,
    ) -> Result<Option<WorkflowKey>, String> {
        let Some(namespace) = self.namespaces.live(&message.sender_namespace) else { return Ok(None) };
        let options = calls::start_options(start, &message.sender, &message.sender_namespace)?;
        Ok(Some(WorkflowKey::new(namespace.key, &options.workflow_id)))
    }

    /// The receiver's half of a scheduled start.
    pub(super) async fn start_as_scheduled(
        self: &Arc<Self>,
        message: &OutboxMessage,
        start: &StartScheduled,
    ) -> Result<DeliveryResult, CallError> {
        let Some(namespace) = self.namespaces.live(&message.sender_namespace) else {
            return Ok(DeliveryResult::Rejected(0));
        };
        let options = calls::start_options(start, &message.sender, &message.sender_namespace).and_then(|options| {
            let Some(wanted) = &options.versioning_override else { return Ok(options) };
            let queue = options.task_queue.as_ref().map_or("", |queue| queue.name.as_str());
            let is_member = |version: &_, queue: &str| self.polls_workflow_queue(namespace.key, version, queue);
            match options::check_override(queue, wanted, &is_member) {
                Ok(()) => Ok(options),
                Err(refused) => Err(refused.to_string()),
            }
        });
        let started = match options {
            Err(reason) => Err(reason),
            Ok(options) => {
                let call = namespace.start(options);
                match self.start_child_workflow(call).await {
                    Ok(outcome) => Ok(outcome.run.info.run_id.clone()),
                    Err(CallError::NoScript(reason)) => Err(reason),
                    Err(CallError::Rejected(rejection)) => Err(rejection.to_string()),
                    Err(error) => return Err(error),
                }
            }
        };
        Ok(match started {
            Ok(run_id) => DeliveryResult::Started(run_id),
            Err(reason) => {
                tracing::warn!(schedule = start.schedule_id, reason, "a scheduled workflow could not be started");
                DeliveryResult::Rejected(0)
            }
        })
    }

    pub(super) async fn scheduled_closed(
        self: &Arc<Self>,
        schedule: &WorkflowKey,
        closed: &ScheduledClosed,
        delivered: Vec<OutboxKey>,
    ) -> Result<DeliveryResult, CallError> {
        let selector = RunSelector::run(closed.by.execution.run_id.clone());
        let closed = closed.clone();
        let call = move |run: &Run, context| calls::closed(run, context, closed);
        match self.transact_and(schedule, &selector, delivered.clone(), call, |_, _| ()).await {
            Ok(_) => Ok(arrived_with(&delivered)),
            // The report of the start comes first.
            Err(CallError::Rejected(Rejection::NotReady(reason))) => Err(CallError::NotReady(reason)),
            Err(error) => unless_gone(error),
        }
    }

    pub(super) async fn end_scheduled(
        self: &Arc<Self>,
        workflow: &WorkflowKey,
        message: &OutboxMessage,
        end: &EndScheduled,
        key: OutboxKey,
        delivered: Vec<OutboxKey>,
    ) -> Result<DeliveryResult, CallError> {
        // It may have continued as new since: the chain's current run is meant.
        let selector = RunSelector { run_id: String::new(), first_run_id: end.execution.run_id.clone() };
        let request_id = derived_uuid(&message.sender.run_id, i64::from(key.sequence));
        let EndScheduled { terminate, reason, identity, .. } = end.clone();
        let call = move |run: &Run, context| match terminate {
            true => terminate::terminate(run, context, Terminate { reason, identity, ..Default::default() }),
            false => {
                let request = CancelRequest { reason, identity, request_id, ..Default::default() };
                cancel::request_cancel(run, context, request)
            }
        };
        self.transact_and(workflow, &selector, delivered.clone(), call, |_, _| ())
            .await
            .map_or_else(unless_gone, |_| Ok(arrived_with(&delivered)))
    }
}
