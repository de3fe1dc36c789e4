//! Completions of workflow tasks that are too large for one request: sent in pages if the server accepts that.
//!
//! All pages but the last have only commands. The server keeps them in memory and puts their commands in front of those
//! of the last one, with which all take effect. If it has lost any, all are sent again.

use prost::Message;
use segno_proto::{
    command::Command,
    errordetails::WorkflowTaskCompletionBufferLostFailure,
    query::WorkflowQueryResult,
    workflowservice::{RespondWorkflowTaskCompletedRequest, RespondWorkflowTaskCompletedResponse},
};
use tonic::{Response, Status};

use super::workflow_task::refused;
use crate::{
    client::{Client, Waits, detail, unary},
    failure::Failure,
};

/// The largest request that any server takes.
pub(super) const REQUEST_BYTES_MAX: usize = 4 * 1024 * 1024;
/// The same for a page, with room for what a server adds when it hands the request on.
const PAGE_BYTES_MAX: usize = REQUEST_BYTES_MAX - 16 * 1024;
/// The bytes that a page counts for besides its own, at most.
const PAGE_COSTS_BYTES: usize = 1024;
/// Most pages that servers take.
const PAGES_MAX: usize = 1024;
/// How often all pages are sent.
const ROUNDS: usize = 3;

/// Why an answer was not sent, or not taken.
pub(super) enum SendError {
    /// It cannot be sent: what to tell the user.
    TooLarge(String),
    /// The server's message.
    Rpc(Status),
}

/// Sends an answer; in pages if it is too large and the server takes those, up to `paged_bytes_max` in all.
pub(super) async fn send(
    client: &Client,
    mut request: RespondWorkflowTaskCompletedRequest,
    paged_bytes_max: Option<usize>,
) -> Result<RespondWorkflowTaskCompletedResponse, SendError> {
    let mut bytes = request.encoded_len();
    if bytes > REQUEST_BYTES_MAX {
        // Where there are pages the commands have room of their own.
        let commands: usize = request.commands.iter().map(Message::encoded_len).sum();
        refuse_large_queries(&mut request, paged_bytes_max.map_or(REQUEST_BYTES_MAX, |_| PAGE_BYTES_MAX + commands));
        bytes = request.encoded_len();
    }
    if bytes <= REQUEST_BYTES_MAX {
        return client.send(&unary::WORKFLOW_TASK_COMPLETED, &request).await.map_err(SendError::Rpc);
    }
    // Servers count more for a page than its bytes.
    let most = paged_bytes_max
        .map_or(REQUEST_BYTES_MAX, |most| most.saturating_sub((most / PAGE_BYTES_MAX + 2) * PAGE_COSTS_BYTES));
    if bytes > most {
        let message = format!(
            "the commands of this workflow task take {bytes} bytes, the server takes {most}: pass large values by \
             reference, or schedule less at once"
        );
        return Err(SendError::TooLarge(message));
    }
    // Apart, so that the future of the usual case stays small.
    Box::pin(send_in_pages(client, request)).await
}

async fn send_in_pages(
    client: &Client,
    request: RespondWorkflowTaskCompletedRequest,
) -> Result<RespondWorkflowTaskCompletedResponse, SendError> {
    let pages = split(request, PAGE_BYTES_MAX).map_err(SendError::TooLarge)?;
    tracing::debug!(pages = pages.len(), "an answer is sent in pages");
    send_all(&pages, |page| {
        client.call(move |mut service| async move { kept(service.respond_workflow_task_completed(page.clone()).await) })
    })
    .await
}

/// Refuses a query whose answer is too large for a request by itself.
pub(super) fn refuse_too_large(result: &mut WorkflowQueryResult) {
    let bytes = result.encoded_len();
    if bytes > PAGE_BYTES_MAX {
        let message = format!("the answer to the query takes {bytes} bytes, the server takes {PAGE_BYTES_MAX}");
        *result = refused(Failure::application("MessageTooLarge", message).into());
    }
}

/// A large answer to a query must not cost the workflow its life: as long as the request is too large for that, the
/// largest of them is refused.
fn refuse_large_queries(request: &mut RespondWorkflowTaskCompletedRequest, max: usize) {
    loop {
        let bytes = request.encoded_len();
        let answered = request.query_results.values_mut().filter(|result| result.answer.is_some());
        match answered.max_by_key(|result| result.encoded_len()) {
            Some(largest) if bytes > max => {
                let message = format!(
                    "the answer takes {} bytes, together with the rest of this workflow task more than the server takes",
                    largest.encoded_len()
                );
                *largest = refused(Failure::application("MessageTooLarge", message).into());
            }
            _ => return,
        }
    }
}

/// An error within: the server has lost pages, or has no room for them. To send this one again would be of no use.
fn kept<T>(answered: Result<Response<T>, Status>) -> Result<Response<Result<T, Status>>, Status> {
    let name = "WorkflowTaskCompletionBufferLostFailure";
    match answered {
        Ok(response) => Ok(response.map(Ok)),
        Err(status) if detail::<WorkflowTaskCompletionBufferLostFailure>(&status, name).is_some() => {
            tracing::debug!(message = status.message(), "the server has lost pages of an answer");
            Ok(Response::new(Err(status)))
        }
        Err(status) => Err(status),
    }
}

/// Sends all pages, and all of them again if the server has lost any. What it has lost at last is no fault of the workflow:
/// the task runs into its time-out and is repeated.
async fn send_all<'a, F>(
    pages: &'a [RespondWorkflowTaskCompletedRequest],
    send: impl Fn(&'a RespondWorkflowTaskCompletedRequest) -> F,
) -> Result<RespondWorkflowTaskCompletedResponse, SendError>
where
    F: Future<Output = Result<Result<RespondWorkflowTaskCompletedResponse, Status>, Status>>,
{
    let mut waits = Waits::default();
    let mut round = 1;
    'rounds: loop {
        let mut last = None;
        for page in pages {
            match send(page).await.map_err(SendError::Rpc)? {
                Ok(response) => last = Some(response),
                Err(lost) if round == ROUNDS => return Err(SendError::Rpc(lost)),
                Err(lost) => {
                    round += 1;
                    tokio::time::sleep(waits.next(lost.code())).await;
                    continue 'rounds;
                }
            }
        }
        return last.ok_or_else(|| SendError::Rpc(Status::internal("there was no page to send")));
    }
}

/// Cuts a request into pages of at most `max` bytes. The last one has what is no command, and as many of the last commands
/// as fit.
fn split(
    mut request: RespondWorkflowTaskCompletedRequest,
    max: usize,
) -> Result<Vec<RespondWorkflowTaskCompletedRequest>, String> {
    let commands = std::mem::take(&mut request.commands);
    let page = |commands| RespondWorkflowTaskCompletedRequest {
        task_token: request.task_token.clone(),
        identity: request.identity.clone(),
        namespace: request.namespace.clone(),
        commands,
        intermediate_page: true,
        ..Default::default()
    };
    // Tags, lengths and numbers of a page take less than this.
    let room = |around: &RespondWorkflowTaskCompletedRequest| max.saturating_sub(around.encoded_len() + 16);
    if request.encoded_len() > max {
        let bytes = request.encoded_len();
        return Err(format!("the answers to updates of this workflow task take {bytes} bytes, the server takes {max}"));
    }
    let bytes = |command: &Command| command.encoded_len() + 8;
    let (mut left, mut last) = (room(&request), commands.len());
    while last > 0 && bytes(&commands[last - 1]) <= left {
        last -= 1;
        left -= bytes(&commands[last]);
    }
    let most = room(&page(Vec::new()));
    let mut pages = Vec::new();
    let (mut next, mut left) = (Vec::new(), most);
    let mut commands = commands.into_iter();
    for command in commands.by_ref().take(last) {
        let size = bytes(&command);
        if size > most {
            return Err(format!(
                "a command of this workflow task takes {size} bytes, the server takes {max}: pass large values by reference"
            ));
        }
        if size > left {
            pages.push(page(std::mem::take(&mut next)));
            left = most;
        }
        left -= size;
        next.push(command);
    }
    if !next.is_empty() {
        pages.push(page(next));
    }
    request.commands = commands.collect();
    pages.push(request);
    if pages.len() > PAGES_MAX {
        return Err(format!("this workflow task's answer takes {} pages, the server takes {PAGES_MAX}", pages.len()));
    }
    for (number, page) in (0..).zip(&mut pages) {
        page.page_number = number;
    }
    Ok(pages)
}

#[cfg(test)]
mod tests {
    use segno_proto::command::{RecordMarkerCommandAttributes, command::Attributes};
    use tonic::Code;

    use super::*;

    fn marker(name: char, bytes: usize) -> Command {
        let marker_name = name.to_string().repeat(bytes);
        let attributes = RecordMarkerCommandAttributes { marker_name, ..Default::default() };
        Command { attributes: Some(Attributes::RecordMarkerCommandAttributes(attributes)), ..Default::default() }
    }

    fn request(commands: Vec<Command>, identity: usize) -> RespondWorkflowTaskCompletedRequest {
        RespondWorkflowTaskCompletedRequest {
            task_token: "token".into(),
            namespace: "default".to_owned(),
            worker_instance_key: "k".repeat(identity),
            commands,
            ..Default::default()
        }
    }

    #[test]
    fn pages_are_full_and_in_order() {
        let all: Vec<Command> = ('a'..='j').map(|name| marker(name, 300)).collect();
        let pages = split(request(all.clone(), 500), 1000).unwrap();
        assert!(pages.iter().all(|page| page.encoded_len() <= 1000));
        assert_eq!(pages.iter().map(|page| page.commands.len()).collect::<Vec<_>>(), [3, 3, 3, 1]);
        assert_eq!(pages.iter().map(|page| page.page_number).collect::<Vec<_>>(), [0, 1, 2, 3]);
        let (last, others) = pages.split_last().unwrap();
        assert!(!last.intermediate_page && last.worker_instance_key.len() == 500);
        assert!(others.iter().all(|page| page.intermediate_page && page.worker_instance_key.is_empty()));
        assert_eq!(pages.into_iter().flat_map(|page| page.commands).collect::<Vec<_>>(), all);
    }

    #[test]
    fn the_last_page_may_have_no_command() {
        let pages = split(request(vec![marker('a', 600), marker('b', 600)], 900), 1000).unwrap();
        assert_eq!(pages.iter().map(|page| page.commands.len()).collect::<Vec<_>>(), [1, 1, 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn pages_that_were_lost_are_sent_again() {
        let lost = || {
            let any = prost_types::Any {
                type_url: "type.googleapis.com/temporal.api.errordetails.v1.WorkflowTaskCompletionBufferLostFailure"
                    .to_owned(),
                value: Vec::new(),
            };
            let details = segno_proto::google::rpc::Status { details: vec![any], ..Default::default() };
            Status::with_details(Code::Aborted, "lost", details.encode_to_vec().into())
        };
        let pages = split(request(vec![marker('a', 600), marker('b', 600), marker('c', 600)], 0), 1000).unwrap();
        let sent = std::sync::Mutex::new(Vec::new());
        // The first two rounds end with the second page.
        let answer = async |page: &RespondWorkflowTaskCompletedRequest| {
            sent.lock().unwrap().push(page.page_number);
            let is_lost = page.page_number == 1 && sent.lock().unwrap().len() < 5;
            let answered = if is_lost { Err(lost()) } else { Ok(Response::new(Default::default())) };
            kept(answered).map(Response::into_inner)
        };
        assert!(send_all(&pages, answer).await.is_ok());
        assert_eq!(*sent.lock().unwrap(), [0, 1, 0, 1, 0, 1, 2]);
        let never = async |_: &RespondWorkflowTaskCompletedRequest| {
            kept::<RespondWorkflowTaskCompletedResponse>(Err(lost())).map(Response::into_inner)
        };
        let refused = send_all(&pages, never).await;
        assert!(matches!(refused, Err(SendError::Rpc(status)) if status.code() == Code::Aborted));
        let gone = async |_: &RespondWorkflowTaskCompletedRequest| Err(Status::not_found("over"));
        assert!(matches!(send_all(&pages, gone).await, Err(SendError::Rpc(status)) if status.code() == Code::NotFound));
    }

    #[test]
    fn large_answers_to_queries_are_refused() {
        let answer = |bytes: usize| WorkflowQueryResult {
            answer: crate::converter::list(crate::converter::encode(&"x".repeat(bytes), 1).unwrap()),
            ..Default::default()
        };
        let mut request = request(vec![marker('a', 500)], 0);
        let sizes = [("small", 10), ("large", 900), ("larger", 2000)];
        request.query_results = sizes.into_iter().map(|(id, bytes)| (id.to_owned(), answer(bytes))).collect();
        let mut roomy = request.clone();
        refuse_large_queries(&mut roomy, 10_000);
        assert_eq!(roomy, request);
        refuse_large_queries(&mut request, 2000);
        assert!(request.encoded_len() <= 2000);
        let refused: Vec<&str> = request
            .query_results
            .iter()
            .filter(|(_, result)| result.failure.is_some())
            .map(|(id, _)| id.as_str())
            .collect();
        assert_eq!(refused, ["larger"]);
        assert_eq!(request.commands.len(), 1);
        // Commands that are too large are for others to see to.
        refuse_large_queries(&mut request, 100);
        assert!(request.encoded_len() > 100 && request.commands.len() == 1);
        let mut alone = answer(PAGE_BYTES_MAX);
        refuse_too_large(&mut alone);
        assert!(alone.error_message.contains("the answer to the query takes"));
    }

    #[test]
    fn what_fits_in_no_page_is_refused() {
        let refused = split(request(vec![marker('a', 10), marker('b', 1000), marker('c', 10)], 0), 1000).unwrap_err();
        assert!(refused.contains("a command of this workflow task takes"), "{refused}");
        let refused = split(request(vec![marker('a', 10)], 1000), 1000).unwrap_err();
        assert!(refused.contains("the answers to updates"), "{refused}");
        let many = split(request((0..1100).map(|_| marker('a', 900)).collect(), 0), 1000).unwrap_err();
        assert!(many.contains("takes 1100 pages"), "{many}");
    }
}
