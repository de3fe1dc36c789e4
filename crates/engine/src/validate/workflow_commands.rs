//! Checks of the commands that end the run, start another, or change what is known about this one.
//!
//! Continue-as-new and children inherit what they leave open from the run that issues them; that is filled in here.

use segno_proto::command;
use segno_proto::enums::{TaskQueueKind, WorkflowTaskFailedCause as Cause};
use segno_proto::{Nanos, duration_nanos, nanos_duration, taskqueue};

use super::commands::{CheckResult, cross_namespace, refuse};
use super::{
    ID_LENGTH_MAX, Invalid, duration, effective_run_timeout, effective_task_timeout, priority, retry_policy,
    task_queue_user_defined, text,
};
use crate::cron;
use crate::search_attributes::Rules;

/// The options that a new run inherits from the one that continues as it.
#[derive(Debug, Clone, Copy)]
pub struct InheritedOptions<'a> {
    /// Name of the workflow type.
    pub workflow_type: &'a str,
    /// Name of the (normal) task queue.
    pub task_queue: &'a str,
    /// Zero means none.
    pub run_timeout: Nanos,
    /// Zero means none.
    pub execution_timeout: Nanos,
    /// The workflow task timeout in effect for the run.
    pub task_timeout: Nanos,
}

/// The workflow completes.
pub fn complete_workflow(attributes: Option<&mut command::CompleteWorkflowExecutionCommandAttributes>) -> CheckResult {
    match attributes {
        Some(_) => Ok(()),
        None => refuse(
            Cause::BadCompleteWorkflowExecutionAttributes,
            "CompleteWorkflowExecutionCommandAttributes is not set on CompleteWorkflowExecutionCommand.",
        ),
    }
}

/// The workflow fails.
pub fn fail_workflow(attributes: Option<&mut command::FailWorkflowExecutionCommandAttributes>) -> CheckResult {
    const CAUSE: Cause = Cause::BadFailWorkflowExecutionAttributes;
    let Some(attributes) = attributes else {
        return refuse(CAUSE, "FailWorkflowExecutionCommandAttributes is not set on FailWorkflowExecutionCommand.");
    };
    if attributes.failure.is_none() {
        return refuse(CAUSE, "Failure is not set on FailWorkflowExecutionCommand.");
    }
    Ok(())
}

/// The workflow ends as cancelled.
pub fn cancel_workflow(attributes: Option<&mut command::CancelWorkflowExecutionCommandAttributes>) -> CheckResult {
    match attributes {
        Some(_) => Ok(()),
        None => refuse(
            Cause::BadCancelWorkflowExecutionAttributes,
            "CancelWorkflowExecutionCommandAttributes is not set on CancelWorkflowExecutionCommand.",
        ),
    }
}

/// Search attributes to set on the run.
pub fn upsert_search_attributes(
    attributes: Option<&mut command::UpsertWorkflowSearchAttributesCommandAttributes>,
    rules: &Rules<'_>,
) -> CheckResult {
    const CAUSE: Cause = Cause::BadSearchAttributes;
    const COMMAND: &str = "UpsertWorkflowSearchAttributesCommand";
    let Some(attributes) = attributes else {
        return refuse(CAUSE, format!("{COMMAND}Attributes is not set on {COMMAND}."));
    };
    let Some(fields) = &attributes.search_attributes else {
        return refuse(CAUSE, format!("SearchAttributes is not set on {COMMAND}."));
    };
    rules.names(fields).map_err(|why| (CAUSE, why))?;
    if fields.indexed_fields.is_empty() {
        return refuse(CAUSE, format!("IndexedFields is not set on {COMMAND}."));
    }
    rules.values(fields).map_err(|why| (CAUSE, why))
}

/// Memo fields to set on the run.
pub fn modify_properties(attributes: Option<&mut command::ModifyWorkflowPropertiesCommandAttributes>) -> CheckResult {
    const CAUSE: Cause = Cause::BadModifyWorkflowPropertiesAttributes;
    const COMMAND: &str = "ModifyWorkflowPropertiesCommand";
    let Some(attributes) = attributes else {
        return refuse(CAUSE, format!("{COMMAND}Attributes is not set on {COMMAND}."));
    };
    match &attributes.upserted_memo {
        None => refuse(CAUSE, format!("UpsertedMemo is not set on {COMMAND}.")),
        Some(memo) if memo.fields.is_empty() => refuse(CAUSE, format!("UpsertedMemo.Fields is not set on {COMMAND}.")),
        Some(_) => Ok(()),
    }
}

/// The workflow continues as a new run; what the command leaves open comes from the run that ends.
pub fn continue_as_new(
    attributes: Option<&mut command::ContinueAsNewWorkflowExecutionCommandAttributes>,
    inherited: InheritedOptions<'_>,
    rules: &Rules<'_>,
) -> CheckResult {
    const CAUSE: Cause = Cause::BadContinueAsNewAttributes;
    const COMMAND: &str = "ContinueAsNewWorkflowExecutionCommand";
    let Some(attributes) = attributes else {
        return refuse(CAUSE, format!("{COMMAND}Attributes is not set on {COMMAND}."));
    };
    if let Some(fields) = &attributes.search_attributes {
        rules.names(fields).map_err(|why| (Cause::BadSearchAttributes, why))?;
    }
    let kind = attributes.workflow_type.get_or_insert_default();
    if kind.name.is_empty() {
        kind.name = inherited.workflow_type.to_owned();
    }
    let kind = kind.name.clone();
    if kind.len() > ID_LENGTH_MAX {
        return refuse(
            CAUSE,
            format!(
                "WorkflowType on {COMMAND} exceeds length limit. WorkflowType={kind} Length={} Limit={ID_LENGTH_MAX}",
                kind.len()
            ),
        );
    }
    let queue = attributes.task_queue.get_or_insert_with(normal_queue);
    let queue_check = task_queue_user_defined(Some(queue), inherited.task_queue, inherited.task_queue);
    let tail = format!("WorkflowType={kind} TaskQueue={}", text::task_queue(queue));
    let fail = |what: &str, why: Invalid| (CAUSE, Invalid(format!("{what}: {why}. {tail}")));
    queue_check.map_err(|why| fail("error validating ContinueAsNewWorkflowExecutionCommand TaskQueue", why))?;

    duration(attributes.workflow_run_timeout.as_mut())
        .map_err(|why| fail("Invalid WorkflowRunTimeout on ContinueAsNewWorkflowExecutionCommand", why))?;
    duration(attributes.workflow_task_timeout.as_mut())
        .map_err(|why| fail("Invalid WorkflowTaskTimeout on ContinueAsNewWorkflowExecutionCommand", why))?;
    duration(attributes.backoff_start_interval.as_mut())
        .map_err(|why| fail("Invalid BackoffStartInterval on ContinueAsNewWorkflowExecutionCommand", why))?;

    let or = |given: Nanos, inherited: Nanos| if given == 0 { inherited } else { given };
    let run = or(duration_nanos(attributes.workflow_run_timeout.as_ref()), inherited.run_timeout);
    let task = or(duration_nanos(attributes.workflow_task_timeout.as_ref()), inherited.task_timeout);
    let run = effective_run_timeout(run, inherited.execution_timeout);
    attributes.workflow_run_timeout = Some(nanos_duration(run));
    attributes.workflow_task_timeout = Some(nanos_duration(effective_task_timeout(task, run)));

    if let Some(policy) = &mut attributes.retry_policy {
        retry_policy(policy)
            .map_err(|why| fail("invalid WorkflowRetryPolicy on ContinueAsNewWorkflowExecutionCommand", why))?;
    }
    if let Some(fields) = &attributes.search_attributes {
        rules.values(fields).map_err(|why| {
            let (_, text) = fail("invalid SearchAttributes on ContinueAsNewWorkflowExecutionCommand", why);
            (Cause::BadSearchAttributes, text)
        })?;
    }
    Ok(())
}

/// A child to start. `target_namespace` is the attributes' namespace resolved (`namespace` if empty), `rules` are that
/// namespace's, and `parent_task_queue` is where the child runs unless the command says otherwise.
#[expect(deprecated, reason = "the namespace is deprecated on the wire, yet still sent and still in the texts")]
pub fn start_child(
    attributes: Option<&mut command::StartChildWorkflowExecutionCommandAttributes>,
    namespace: &str,
    target_namespace: &str,
    parent_task_queue: &str,
    rules: &Rules<'_>,
) -> CheckResult {
    const CAUSE: Cause = Cause::BadStartChildExecutionAttributes;
    const COMMAND: &str = "StartChildWorkflowExecutionCommand";
    let Some(attributes) = attributes else {
        return refuse(CAUSE, format!("{COMMAND}Attributes is not set on {COMMAND}."));
    };
    if let Some(fields) = &attributes.search_attributes {
        rules.names(fields).map_err(|why| (Cause::BadSearchAttributes, why))?;
    }
    if attributes.namespace.is_empty() {
        attributes.namespace = namespace.to_owned();
    }
    cross_namespace(CAUSE, namespace, target_namespace)?;
    let id = attributes.workflow_id.clone();
    let ns = attributes.namespace.clone();
    let kind = attributes.workflow_type.as_ref().map_or_else(String::new, |kind| kind.name.clone());
    child_names(&id, &kind, &ns).map_err(|text| (CAUSE, Invalid(text)))?;

    let tail = format!("WorkflowId={id} WorkflowType={kind} Namespace={ns}");
    let fail = |what: &str, why: Invalid| (CAUSE, Invalid(format!("{what} on {COMMAND}: {why}. {tail}")));
    duration(attributes.workflow_execution_timeout.as_mut())
        .map_err(|why| fail("Invalid WorkflowExecutionTimeout", why))?;
    duration(attributes.workflow_run_timeout.as_mut()).map_err(|why| fail("Invalid WorkflowRunTimeout", why))?;
    duration(attributes.workflow_task_timeout.as_mut()).map_err(|why| fail("Invalid WorkflowTaskTimeout", why))?;
    if let Some(policy) = &mut attributes.retry_policy {
        retry_policy(policy).map_err(|why| fail("invalid WorkflowRetryPolicy", why))?;
    }
    cron::validate(&attributes.cron_schedule).map_err(|why| fail("invalid CronSchedule", Invalid(why)))?;
    if let Some(fields) = &attributes.search_attributes {
        // The command goes by a shorter name in this one text.
        rules.values(fields).map_err(|why| {
            let text = format!("invalid SearchAttributes on StartChildWorkflowCommand: {why}. {tail}");
            (Cause::BadSearchAttributes, Invalid(text))
        })?;
    }
    priority(attributes.priority.as_ref()).map_err(|why| (CAUSE, why))?;

    let queue = attributes.task_queue.get_or_insert_with(normal_queue);
    if let Err(why) = task_queue_user_defined(Some(queue), parent_task_queue, parent_task_queue) {
        let queue = text::task_queue(queue);
        return refuse(CAUSE, format!("invalid TaskQueue on {COMMAND}: {why}. {tail} TaskQueue={queue}"));
    }

    let execution = duration_nanos(attributes.workflow_execution_timeout.as_ref());
    let run = effective_run_timeout(duration_nanos(attributes.workflow_run_timeout.as_ref()), execution);
    let task = effective_task_timeout(duration_nanos(attributes.workflow_task_timeout.as_ref()), run);
    attributes.workflow_run_timeout = Some(nanos_duration(run));
    attributes.workflow_task_timeout = Some(nanos_duration(task));
    Ok(())
}

fn child_names(id: &str, kind: &str, ns: &str) -> Result<(), String> {
    const COMMAND: &str = "StartChildWorkflowExecutionCommand";
    if id.is_empty() {
        return Err(format!("Required field WorkflowId is not set on {COMMAND}. WorkflowType={kind} Namespace={ns}"));
    }
    if kind.is_empty() {
        return Err(format!("Required field WorkflowType is not set on {COMMAND}. WorkflowId={id} Namespace={ns}"));
    }
    if ns.len() > ID_LENGTH_MAX {
        return Err(format!(
            "Namespace on {COMMAND} exceeds length limit. WorkflowId={id} WorkflowType={kind} Namespace={ns} \
             Length={} Limit={ID_LENGTH_MAX}",
            ns.len()
        ));
    }
    if id.len() > ID_LENGTH_MAX {
        return Err(format!(
            "WorkflowId on {COMMAND} exceeds length limit. WorkflowId={id} Length={} Limit={ID_LENGTH_MAX} \
             WorkflowType={kind} Namespace={ns}",
            id.len()
        ));
    }
    if kind.len() > ID_LENGTH_MAX {
        return Err(format!(
            "WorkflowType on {COMMAND} exceeds length limit. WorkflowId={id} WorkflowType={kind} Length={} \
             Limit={ID_LENGTH_MAX} Namespace={ns}",
            kind.len()
        ));
    }
    Ok(())
}

fn normal_queue() -> taskqueue::TaskQueue {
    taskqueue::TaskQueue { kind: TaskQueueKind::Normal as i32, ..Default::default() }
}
