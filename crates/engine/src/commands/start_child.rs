//! Start a child workflow: recorded here, carried out through the outbox.

use segno_proto::{
    command::StartChildWorkflowExecutionCommandAttributes,
    enums::{ParentClosePolicy, WorkflowIdReusePolicy, WorkflowTaskFailedCause as Cause},
    events::{StartChildWorkflowExecutionInitiatedEventAttributes, history_event::Attributes},
    sdk::UserMetadata,
};

use crate::{
    commands::scope::{CommandScope, limit_pending, limit_size, namespace, size_of},
    error::CommandError,
    parts::{
        inherit,
        version_override::{named_version, newer_form},
    },
    priority,
    state::{
        Child,
        outbox::{Content, StartChild},
    },
    transition::draft::Draft,
    validate,
};

pub(super) fn apply(
    draft: &mut Draft,
    scope: &mut CommandScope<'_>,
    mut attributes: Option<StartChildWorkflowExecutionCommandAttributes>,
    user_metadata: Option<UserMetadata>,
) -> Result<(), CommandError> {
    let info = draft.run.info.clone();
    let named = attributes.as_ref().map(|a| a.namespace.clone()).unwrap_or_default();
    let (target, target_id) = namespace(draft, scope, &named)?;
    if let Some(attributes) = attributes.as_mut() {
        attributes.namespace.clone_from(&target);
    }
    validate::workflow_commands::start_child(
        attributes.as_mut(),
        &info.namespace,
        &target,
        &info.task_queue,
        scope.surroundings.search_attributes,
    )?;
    let Some(mut attributes) = attributes else { return Ok(()) };
    if let Some(wanted) = attributes.versioning_override.take() {
        named_version(&wanted).map_err(|why| (Cause::BadStartChildExecutionAttributes, why))?;
        attributes.versioning_override = Some(newer_form(wanted));
    }
    if let Some(search_attributes) = attributes.search_attributes.as_mut() {
        scope.surroundings.search_attributes.apply_types(search_attributes);
    }
    limit_size(
        draft,
        size_of(attributes.input.as_ref()),
        Cause::BadStartChildExecutionAttributes,
        "StartChildWorkflowExecutionCommandAttributes. Input exceeds size limit.",
    )?;
    limit_size(
        draft,
        size_of(attributes.memo.as_ref()),
        Cause::BadStartChildExecutionAttributes,
        "StartChildWorkflowExecutionCommandAttributes.Memo exceeds size limit.",
    )?;
    limit_pending(
        draft.run.state.children.len(),
        "pending child workflow executions",
        Cause::PendingChildWorkflowsLimitExceeded,
    )?;
    if attributes.parent_close_policy == ParentClosePolicy::Unspecified as i32 {
        attributes.parent_close_policy = ParentClosePolicy::Terminate as i32;
    }
    if attributes.workflow_id_reuse_policy == WorkflowIdReusePolicy::Unspecified as i32 {
        attributes.workflow_id_reuse_policy = WorkflowIdReusePolicy::AllowDuplicate as i32;
    }
    scope.initiated_children.insert(attributes.workflow_id.clone());
    let initiated = StartChildWorkflowExecutionInitiatedEventAttributes {
        namespace: attributes.namespace,
        namespace_id: target_id.clone(),
        workflow_id: attributes.workflow_id.clone(),
        workflow_type: attributes.workflow_type.clone(),
        task_queue: attributes.task_queue,
        input: attributes.input,
        workflow_execution_timeout: attributes.workflow_execution_timeout,
        workflow_run_timeout: attributes.workflow_run_timeout,
        workflow_task_timeout: attributes.workflow_task_timeout,
        parent_close_policy: attributes.parent_close_policy,
        control: attributes.control,
        workflow_task_completed_event_id: scope.completed_event_id,
        workflow_id_reuse_policy: attributes.workflow_id_reuse_policy,
        retry_policy: attributes.retry_policy,
        cron_schedule: attributes.cron_schedule,
        header: attributes.header,
        memo: attributes.memo,
        search_attributes: attributes.search_attributes,
        inherit_build_id: attributes.inherit_build_id,
        priority: attributes.priority,
        versioning_override: attributes.versioning_override,
        ..Default::default()
    };
    let id = draft.add(Attributes::StartChildWorkflowExecutionInitiatedEventAttributes(Box::new(initiated.clone())));
    draft.run.state.children.insert(
        id,
        Child {
            initiated_event_id: id,
            started_event_id: 0,
            workflow_id: attributes.workflow_id,
            run_id: String::new(),
            workflow_type: attributes.workflow_type.map(|t| t.name).unwrap_or_default(),
            namespace: target,
            namespace_id: target_id,
            parent_close_policy: attributes.parent_close_policy,
        },
    );
    let priority = priority::merged(info.priority.as_ref(), initiated.priority.as_ref());
    let inherited = inherit::by_child(&draft.run, &initiated, scope.surroundings.is_member);
    draft.send(Content::StartChild(StartChild {
        initiated_event_id: id,
        inherited,
        shares_queue: StartChild::shares_queue(&info.task_queue, &initiated),
        attributes: StartChildWorkflowExecutionInitiatedEventAttributes { priority, ..initiated },
        root: info.root.clone().unwrap_or_default(),
        user_metadata,
    }));
    Ok(())
}
