//! Completions of workflow tasks that come in pages, where the server allows them.

use segno_engine::{Rejection, task_calls::TaskRef};
use segno_node::{Namespace, Node, PAGES_MAX, PagesLost};
use segno_proto::workflowservice::{RespondWorkflowTaskCompletedRequest, RespondWorkflowTaskCompletedResponse};
use tonic::Status;

use super::failed;
use crate::status;

/// Keeps a page that is not the last one, and answers it; puts the commands of those before in front of the last one's. `current`
/// says whether a worker has the task now: the last page of one that is over goes on as it is, and may be a repeated one.
pub(crate) fn take(
    node: &Node,
    namespace: &Namespace,
    request: &mut RespondWorkflowTaskCompletedRequest,
    task: &TaskRef,
    current: bool,
) -> Result<Option<RespondWorkflowTaskCompletedResponse>, Status> {
    let Some(pages) = &node.runs.completion_pages else {
        let name = &namespace.name;
        let text = format!("workflow task completion pagination is disabled for this namespace {name}");
        return Err(Status::failed_precondition(text));
    };
    let lost = |why| match why {
        PagesLost::Full => status::pages_lost(format!(
            "workflow task completion buffer memory limit reached while buffering page {}",
            request.page_number
        )),
        PagesLost::All => status::pages_lost(format!(
            "workflow task completion buffer lost for scheduled event {} attempt {}",
            task.scheduled_event_id, task.attempt
        )),
        PagesLost::Page(page) => status::pages_lost(format!(
            "workflow task completion buffer missing page {page} of {}",
            request.page_number
        )),
    };
    if !current {
        pages.forget(&request.task_token);
        return match request.intermediate_page {
            true => Err(failed(Rejection::TaskNotFound.into())),
            false => Ok(None),
        };
    }
    if let Err(status) = check(request) {
        pages.forget(&request.task_token);
        return Err(status);
    }
    if request.intermediate_page {
        let commands = std::mem::take(&mut request.commands);
        pages.keep(&request.task_token, request.page_number, commands).map_err(lost)?;
        return Ok(Some(RespondWorkflowTaskCompletedResponse::default()));
    }
    let mut commands = pages.take(&request.task_token, request.page_number).map_err(lost)?;
    commands.append(&mut request.commands);
    request.commands = commands;
    Ok(None)
}

fn check(request: &RespondWorkflowTaskCompletedRequest) -> Result<(), Status> {
    if request.page_number < 0 {
        let text = "workflow task completion pagination page number must be non-negative";
        return Err(Status::invalid_argument(text));
    }
    if request.page_number >= PAGES_MAX {
        let text = format!("workflow task completion pagination supports at most {PAGES_MAX} pages");
        return Err(Status::invalid_argument(text));
    }
    if request.intermediate_page && request.commands.is_empty() {
        let text = "intermediate workflow task page must carry at least one command";
        return Err(Status::invalid_argument(text));
    }
    Ok(())
}
