//! Messages between schedules and the workflows that they start.

use std::sync::Arc;

use segno_engine::{
    Rejection, Run,
    cancel::{self, CancelRequest},
    outbox::{EndScheduled, OutboxMessage, ScheduledClosed, StartScheduled},
    schedule::calls,
    start::Start,
    terminate::{self, Terminate},
};
use segno_store::OutboxKey;

use crate::{error::CallError, node::Node, outbox::deliver::derived_uuid, transact::RunSelector};

impl Node {
    pub(super) async fn start_scheduled(
        self: &Arc<Self>,
        message: &OutboxMessage,
        start: &StartScheduled,
        key: OutboxKey,
    ) -> Result<(), CallError> {
        let number = start.number;
        let Some(namespace) = self.namespaces.live(&message.sender_namespace) else {
            return self.drop_message(key).await;
        };
        let started = match calls::start_options(start, &message.sender, &message.sender_namespace) {
            Err(reason) => Err(reason),
            Ok(options) => {
                let call = Start {
                    options,
                    namespace_key: namespace.key.0,
                    namespace_id: namespace.detail.id.clone(),
                    retention: namespace.detail.retention,
                    parent: None,
                    root: None,
                    chain: None,
                    script: None,
                };
                match self.start_child_workflow(call).await {
                    Ok(outcome) => Ok(outcome.run.info.execution()),
                    Err(CallError::NoScript(reason)) => Err(reason.to_string()),
                    Err(CallError::Rejected(rejection)) => Err(rejection.to_string()),
                    Err(error) => return Err(error),
                }
            }
        };
        if let Err(reason) = &started {
            tracing::warn!(schedule = start.schedule_id, reason, "a scheduled workflow could not be started");
        }
        let execution = started.ok();
        self.report(message, key, move |run, context| calls::started(run, context, number, execution)).await
    }

    pub(super) async fn scheduled_closed(
        self: &Arc<Self>,
        closed: &ScheduledClosed,
        key: OutboxKey,
    ) -> Result<(), CallError> {
        let Some((_, schedule)) = self.key_of(&closed.by.namespace, &closed.by.execution.workflow_id) else {
            return self.drop_message(key).await;
        };
        let selector = RunSelector::run(closed.by.execution.run_id.clone());
        let closed = closed.clone();
        let call = move |run: &Run, context| calls::closed(run, context, closed);
        match self.transact_and(&schedule, &selector, vec![key], call, |_, _| ()).await {
            Ok(_) => Ok(()),
            // The report of the start comes first.
            Err(CallError::Rejected(Rejection::NotReady(reason))) => Err(CallError::NotReady(reason)),
            Err(CallError::Rejected(_) | CallError::WorkflowNotFound { .. } | CallError::RunNotFound { .. }) => {
                self.drop_message(key).await
            }
            Err(error) => Err(error),
        }
    }

    pub(super) async fn end_scheduled(
        self: &Arc<Self>,
        message: &OutboxMessage,
        end: &EndScheduled,
        key: OutboxKey,
    ) -> Result<(), CallError> {
        let Some((_, workflow)) = self.key_of(&message.sender_namespace, &end.execution.workflow_id) else {
            return self.drop_message(key).await;
        };
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
        match self.transact_and(&workflow, &selector, vec![key], call, |_, _| ()).await {
            Ok(_) => Ok(()),
            Err(CallError::Rejected(_) | CallError::WorkflowNotFound { .. } | CallError::RunNotFound { .. }) => {
                self.drop_message(key).await
            }
            Err(error) => Err(error),
        }
    }
}
