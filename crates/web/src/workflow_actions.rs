//! Actions on a run.

use maud::{Markup, html};
use segno_proto::{
    common::WorkflowExecution,
    enums::{EventType, UpdateWorkflowExecutionLifecycleStage},
    query::WorkflowQuery,
    update::{Input, Meta, Request as Update, WaitPolicy, outcome::Value},
    workflowservice::{
        DeleteWorkflowExecutionRequest, PauseActivityRequest, PauseWorkflowExecutionRequest, QueryWorkflowRequest,
        RequestCancelWorkflowExecutionRequest, ResetActivityRequest, ResetWorkflowExecutionRequest,
        SignalWorkflowExecutionRequest, TerminateWorkflowExecutionRequest, UnpauseActivityRequest,
        UnpauseWorkflowExecutionRequest, UpdateWorkflowExecutionRequest, pause_activity_request,
        reset_activity_request, unpause_activity_request,
    },
};
use tonic::{Code, Status};

use super::{
    Answer, IDENTITY, Outcome, PageError, Web,
    forms::{Form, encode},
    layout::{action, run_address},
    payloads,
    workflow::RunSnapshot,
    workflows_actions::new_id,
};

/// The buttons of a run. Pausing is offered where the server allows it.
pub(super) fn bar(seen: &RunSnapshot) -> Markup {
    let reason = html! { label { "Reason" input name="reason" value="from the web pages"; } };
    let name_and_input = |name: &str| {
        html! {
            label { (name) " name" input name="name" required autocomplete="off" list={ "names-" (name.to_lowercase()) }; }
            label { "Input " small { "(JSON; one value per line for several arguments)" } textarea name="input" rows="3" spellcheck="false" {} }
        }
    };
    let is_paused = seen.info().status() == segno_proto::enums::WorkflowExecutionStatus::Paused;
    html! {
        div.actions #actions data-live role="group" aria-label="Actions" {
            @if seen.is_running() {
                (action("Signal", "", html! { input type="hidden" name="do" value="signal"; (name_and_input("Signal")) button.primary { "Send signal" } }))
                (action("Update", "", html! { input type="hidden" name="do" value="update"; (name_and_input("Update")) button.primary { "Send update and wait" } }))
                (action("Cancel", "", html! {
                    input type="hidden" name="do" value="cancel"; (reason)
                    p { "The workflow's code is asked to end and may clean up." }
                    button.primary { "Request cancellation" }
                }))
                (action("Terminate", "danger", html! {
                    input type="hidden" name="do" value="terminate"; (reason)
                    p { "The run ends at once; its code is not asked." }
                    button.danger { "Terminate" }
                }))
                @if is_paused {
                    (action("Unpause", "", html! { input type="hidden" name="do" value="unpause"; (reason) button.primary { "Unpause" } }))
                } @else if seen.may_pause {
                    (action("Pause", "", html! { input type="hidden" name="do" value="pause"; (reason) button.primary { "Pause" } }))
                }
            }
            (action("Reset", "", html! {
                input type="hidden" name="do" value="reset"; (reason)
                label { "Event " small { "(of a workflow task; the history page chooses it by a click)" } input name="event" type="number" min="1" placeholder="the last workflow task"; }
                button.primary { "Reset" }
            }))
            @if !seen.is_running() {
                (action("Delete", "danger", html! { input type="hidden" name="do" value="delete"; p { "The run and its history are removed." } button.danger { "Delete" } }))
            }
        }
    }
}

impl Web {
    pub(super) async fn workflow_action(
        &self,
        namespace: &str,
        workflow_id: &str,
        run_id: &str,
        form: &Form,
    ) -> Result<Answer, PageError> {
        let execution = WorkflowExecution { workflow_id: workflow_id.to_owned(), run_id: run_id.to_owned() };
        let (namespace, identity, reason) = (namespace.to_owned(), IDENTITY.to_owned(), form.trimmed("reason"));
        match form.get("do") {
            "signal" => {
                let request = SignalWorkflowExecutionRequest {
                    namespace,
                    workflow_execution: Some(execution),
                    signal_name: form.trimmed("name"),
                    input: payloads::typed(form.get("input"))?,
                    identity,
                    request_id: new_id(),
                    ..Default::default()
                };
                self.call(request).await?;
                Ok(Outcome::done(html! { "The signal " (form.trimmed("name")) " is sent" }))
            }
            "update" => self.update(namespace, execution, form).await,
            "query" => self.query(namespace, execution, form).await,
            "cancel" => {
                let request = RequestCancelWorkflowExecutionRequest {
                    namespace,
                    workflow_execution: Some(execution),
                    identity,
                    request_id: new_id(),
                    reason,
                    ..Default::default()
                };
                self.call(request).await?;
                Ok(Outcome::done(html! { "Cancellation is requested" }))
            }
            "terminate" => {
                let request = TerminateWorkflowExecutionRequest {
                    namespace,
                    workflow_execution: Some(execution),
                    identity,
                    reason,
                    ..Default::default()
                };
                self.call(request).await?;
                Ok(Outcome::done(html! { "The run is terminated" }))
            }
            "reset" => self.reset(namespace, execution, form).await,
            "delete" => {
                let next = format!("/ui/{}/workflows", encode(&namespace));
                let request = DeleteWorkflowExecutionRequest { namespace, workflow_execution: Some(execution) };
                self.call(request).await?;
                Ok(Outcome::then(html! { "The run is deleted" }, next))
            }
            "pause" => {
                let workflow_id = execution.workflow_id;
                let run_id = execution.run_id;
                let request_id = new_id();
                let request =
                    PauseWorkflowExecutionRequest { namespace, workflow_id, run_id, identity, reason, request_id };
                self.call(request).await?;
                Ok(Outcome::done(html! { "The workflow is paused" }))
            }
            "unpause" => {
                let workflow_id = execution.workflow_id;
                let run_id = execution.run_id;
                let request_id = new_id();
                let request =
                    UnpauseWorkflowExecutionRequest { namespace, workflow_id, run_id, identity, reason, request_id };
                self.call(request).await?;
                Ok(Outcome::done(html! { "The workflow goes on" }))
            }
            "pause-activity" | "unpause-activity" | "reset-activity" => {
                self.activity_action(namespace, execution, form).await
            }
            _ => Err(PageError::Missing),
        }
    }

    async fn activity_action(
        &self,
        namespace: String,
        execution: WorkflowExecution,
        form: &Form,
    ) -> Result<Answer, PageError> {
        let (id, identity, execution) = (form.get("activity").to_owned(), IDENTITY.to_owned(), Some(execution));
        let said = match form.get("do") {
            "pause-activity" => {
                let activity = Some(pause_activity_request::Activity::Id(id));
                let request = PauseActivityRequest { namespace, execution, identity, activity, ..Default::default() };
                self.call(request).await?;
                "The activity is paused"
            }
            "unpause-activity" => {
                let activity = Some(unpause_activity_request::Activity::Id(id));
                let request = UnpauseActivityRequest { namespace, execution, identity, activity, ..Default::default() };
                self.call(request).await?;
                "The activity goes on"
            }
            _ => {
                let activity = Some(reset_activity_request::Activity::Id(id));
                let request = ResetActivityRequest { namespace, execution, identity, activity, ..Default::default() };
                self.call(request).await?;
                "The activity begins anew"
            }
        };
        Ok(Outcome::done(html! { (said) }))
    }

    async fn update(&self, namespace: String, execution: WorkflowExecution, form: &Form) -> Result<Answer, PageError> {
        let input =
            Input { name: form.trimmed("name"), args: payloads::typed(form.get("input"))?, ..Default::default() };
        let meta = Meta { update_id: new_id(), identity: IDENTITY.to_owned() };
        let request = UpdateWorkflowExecutionRequest {
            namespace,
            workflow_execution: Some(execution),
            wait_policy: Some(WaitPolicy { lifecycle_stage: UpdateWorkflowExecutionLifecycleStage::Completed as i32 }),
            request: Some(Update { meta: Some(meta), input: Some(input), ..Default::default() }),
            ..Default::default()
        };
        let answer = self.call(request).await?;
        Ok(match answer.outcome.and_then(|outcome| outcome.value) {
            Some(Value::Success(result)) => {
                Outcome::done(html! { p { "The update is completed" } (payloads::blocks(Some(&result))) })
            }
            Some(Value::Failure(failure)) => {
                Outcome::failed(html! { p { "The update failed" } (payloads::failure_block(&failure)) })
            }
            None => Outcome::done(html! { "The update is not completed yet" }),
        })
    }

    async fn query(&self, namespace: String, execution: WorkflowExecution, form: &Form) -> Result<Answer, PageError> {
        let name = form.trimmed("name");
        let query_args = payloads::typed(form.get("input"))?;
        let request = QueryWorkflowRequest {
            namespace,
            execution: Some(execution),
            query: Some(WorkflowQuery { query_type: name.clone(), query_args, ..Default::default() }),
            ..Default::default()
        };
        let answer = self.call(request).await.map_err(|status| match status.code() {
            Code::DeadlineExceeded => {
                Status::deadline_exceeded("of any worker. The summary says whether one polls the task queue")
            }
            _ => status,
        });
        let answer = answer?;
        // Stacks are texts of many lines.
        let stack = answer.query_result.as_ref().filter(|_| name == "__stack_trace");
        let stack = stack.and_then(|result| result.payloads.first()).and_then(payloads::json_of);
        Ok(Outcome::done(match stack.as_ref().and_then(|stack| stack.as_str()) {
            Some(stack) => html! { pre.payload tabindex="0" { (stack) } },
            None => payloads::blocks(answer.query_result.as_ref()),
        }))
    }

    async fn reset(&self, namespace: String, execution: WorkflowExecution, form: &Form) -> Result<Answer, PageError> {
        let workflow_id = execution.workflow_id.clone();
        let event = match form.number::<i64>("event") {
            Some(event) => event,
            None => {
                let seen = self.see(&namespace, &workflow_id, &execution.run_id).await?;
                let events = self.events(&seen).await?;
                let last = events.iter().rev().find(|event| event.event_type() == EventType::WorkflowTaskCompleted);
                last.map(|event| event.event_id)
                    .ok_or_else(|| Status::failed_precondition("no workflow task was completed in this run"))?
            }
        };
        let request = ResetWorkflowExecutionRequest {
            namespace: namespace.clone(),
            workflow_execution: Some(execution),
            reason: form.trimmed("reason"),
            workflow_task_finish_event_id: event,
            request_id: new_id(),
            identity: IDENTITY.to_owned(),
            ..Default::default()
        };
        let reset = self.call(request).await?;
        Ok(Outcome::then(
            html! { "The new run is " (reset.run_id) },
            run_address(&namespace, &workflow_id, &reset.run_id),
        ))
    }
}
