//! Batch operations: what StartBatchOperation and its relatives refuse.

use segno_engine::error::pascal_case;
use segno_proto::{
    batch::{
        batch_operation_reset_activities as reset, batch_operation_unpause_activities as unpause,
        batch_operation_update_activity_options as update,
    },
    enums::{ExecutionType, ResetType},
    workflowservice::{
        DescribeBatchOperationRequest, StartBatchOperationRequest, StopBatchOperationRequest,
        start_batch_operation_request::Operation,
    },
};
use segno_store::visibility::parse;

use super::RequestError;

/// Temporal parses the filter behind this.
const STATEMENT: &str = "select * from dummy where ";
const NO_FILTER: &str = "Either activity type must be set, or match all should be set to true";

/// Checks what a job is to do, and to what.
pub fn start(request: &StartBatchOperationRequest) -> Result<(), RequestError> {
    let selectors =
        [!request.visibility_query.is_empty(), !executions(request).is_empty(), !request.target_executions.is_empty()];
    let selectors = selectors.iter().filter(|set| **set).count();
    let operation = match &request.operation {
        Some(operation) if !request.reason.is_empty() && selectors > 0 => operation,
        _ => {
            return Err(RequestError::invalid(
                "must provide required parameters: BatchType,Reason,Namespace, AND one of (Query OR Executions OR \
                 TargetExecutions)",
            ));
        }
    };
    if request.job_id.is_empty() {
        return Err(RequestError::invalid("JobId is not set on request."));
    }
    if selectors > 1 {
        let text = "visibility query, executions, and target executions are mutually exclusive";
        return Err(RequestError::invalid(text));
    }
    targets(request, operation)?;
    self::operation(operation)?;
    // A text that is SQL but not a filter fails the job, not the call.
    match parse::parse(&request.visibility_query).err().and_then(|error| error.in_statement(STATEMENT)) {
        Some(bad) => Err(RequestError::invalid(format!("invalid visibility query: {bad}"))),
        None => Ok(()),
    }
}

/// The older spelling of a list of workflows.
#[allow(deprecated)]
pub fn executions(request: &StartBatchOperationRequest) -> &[segno_proto::common::WorkflowExecution] {
    &request.executions
}

/// A job that is asked about must be named.
pub fn describe(request: &DescribeBatchOperationRequest) -> Result<(), RequestError> {
    named(&request.job_id)
}

/// A job that is stopped must be named, and why.
pub fn stop(request: &StopBatchOperationRequest) -> Result<(), RequestError> {
    named(&request.job_id)?;
    match request.reason.is_empty() {
        true => Err(RequestError::invalid("Reason is not set on request.")),
        false => Ok(()),
    }
}

fn named(job_id: &str) -> Result<(), RequestError> {
    match job_id.is_empty() {
        true => Err(RequestError::invalid("JobId is not set on request.")),
        false => Ok(()),
    }
}

/// The operations on standalone activities take those; all others take workflows.
pub fn is_of_activities(operation: &Operation) -> bool {
    use Operation::{CancelActivitiesOperation, DeleteActivitiesOperation, TerminateActivitiesOperation};
    matches!(operation, CancelActivitiesOperation(_) | DeleteActivitiesOperation(_) | TerminateActivitiesOperation(_))
}

fn targets(request: &StartBatchOperationRequest, operation: &Operation) -> Result<(), RequestError> {
    let wanted = if is_of_activities(operation) { ExecutionType::Activity } else { ExecutionType::Workflow };
    let wrong = request.target_executions.iter().enumerate().find(|(_, target)| target.r#type() != wanted);
    let Some((place, target)) = wrong else { return Ok(()) };
    Err(RequestError::invalid(format!(
        "target_executions[{place}] has type {}, but operation *workflowservice.StartBatchOperationRequest_{} requires \
         {}",
        name(target.r#type()),
        operation_name(operation),
        name(wanted),
    )))
}

fn name(kind: ExecutionType) -> String {
    pascal_case(kind.as_str_name().trim_start_matches("EXECUTION_TYPE_"))
}

fn operation_name(operation: &Operation) -> &'static str {
    match operation {
        Operation::TerminationOperation(_) => "TerminationOperation",
        Operation::SignalOperation(_) => "SignalOperation",
        Operation::CancellationOperation(_) => "CancellationOperation",
        Operation::DeletionOperation(_) => "DeletionOperation",
        Operation::ResetOperation(_) => "ResetOperation",
        Operation::UpdateWorkflowOptionsOperation(_) => "UpdateWorkflowOptionsOperation",
        Operation::UnpauseActivitiesOperation(_) => "UnpauseActivitiesOperation",
        Operation::ResetActivitiesOperation(_) => "ResetActivitiesOperation",
        Operation::UpdateActivityOptionsOperation(_) => "UpdateActivityOptionsOperation",
        Operation::CancelActivitiesOperation(_) => "CancelActivitiesOperation",
        Operation::TerminateActivitiesOperation(_) => "TerminateActivitiesOperation",
        Operation::DeleteActivitiesOperation(_) => "DeleteActivitiesOperation",
    }
}

fn operation(operation: &Operation) -> Result<(), RequestError> {
    let invalid = |text: &str| Err(RequestError::invalid(text));
    match operation {
        Operation::SignalOperation(signal) if signal.signal.is_empty() => invalid("must provide signal name"),
        Operation::UpdateWorkflowOptionsOperation(options) if options.workflow_execution_options.is_none() => {
            invalid("must provide UpdateOptions")
        }
        Operation::UpdateWorkflowOptionsOperation(options) if options.update_mask.is_none() => {
            invalid("must provide UpdateMask")
        }
        Operation::ResetOperation(reset) => match &reset.options {
            Some(options) if options.target.is_none() => invalid("batch reset missing target"),
            Some(_) => Ok(()),
            None => reset_type(reset),
        },
        Operation::UnpauseActivitiesOperation(operation) => match &operation.activity {
            None => invalid("activity filter must be set"),
            Some(unpause::Activity::Type(name)) if name.is_empty() => invalid(NO_FILTER),
            Some(unpause::Activity::MatchAll(false)) => invalid(NO_FILTER),
            Some(_) => Ok(()),
        },
        Operation::ResetActivitiesOperation(operation) => match &operation.activity {
            None => invalid("must provide ActivityType or MatchAll"),
            Some(reset::Activity::Type(name)) if name.is_empty() => invalid(NO_FILTER),
            Some(reset::Activity::MatchAll(false)) => invalid(NO_FILTER),
            Some(_) => Ok(()),
        },
        Operation::UpdateActivityOptionsOperation(operation) => {
            match (operation.activity_options.is_some(), operation.restore_original) {
                (true, true) => return invalid("cannot set both activity options and restore original"),
                (false, false) => {
                    return invalid("Either activity type must be set, or restore original should be set to true");
                }
                _ => {}
            }
            match &operation.activity {
                Some(update::Activity::Type(name)) if name.is_empty() => invalid(NO_FILTER),
                Some(update::Activity::MatchAll(false)) => invalid(NO_FILTER),
                _ => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

#[allow(deprecated)]
fn reset_type(reset: &segno_proto::batch::BatchOperationReset) -> Result<(), RequestError> {
    let told = match ResetType::try_from(reset.reset_type) {
        Ok(ResetType::Unspecified) => "Unspecified".to_owned(),
        Ok(_) => return Ok(()),
        Err(_) => reset.reset_type.to_string(),
    };
    Err(RequestError::invalid(format!("unknown batch reset type {told}")))
}
