//! Queries through all nodes: a workflow counts its signals, and the client that asks must hear of each that was
//! acknowledged before.

use std::{rc::Rc, time::Duration};

use segno_proto::{
    enums::{QueryRejectCondition, QueryResultType},
    events::{HistoryEvent, history_event::Attributes},
    query::{WorkflowQuery, WorkflowQueryResult},
    workflowservice::{
        PollWorkflowTaskQueueResponse, QueryWorkflowRequest, RespondQueryTaskCompletedRequest,
        RespondWorkflowTaskCompletedRequest, SignalWorkflowExecutionRequest, TerminateWorkflowExecutionRequest,
    },
};
use tonic::{Code, Status};

use crate::{
    crash::{
        flows::{RETRY_PAUSE, Shared, is_transient},
        ledger::Breach,
    },
    wire::{self, CALL_TIMEOUT, Client, NAMESPACE},
};

/// The queue of these workflows.
const QUEUE: &str = "storm-asked";
/// Signals and questions to one workflow.
const QUESTIONS: usize = 8;

/// Starts workflows, signals and asks them until the storm stops.
pub async fn ask(shared: Rc<Shared>, mut client: Client, place: usize) {
    let mut number = 0;
    while !shared.stopping.get() {
        let id = format!("asked-{place}-{number}");
        number += 1;
        if let Err(breach) = ask_one(&shared, &mut client, &id).await {
            shared.ledger.breach(breach);
        }
    }
}

async fn ask_one(shared: &Shared, client: &mut Client, id: &str) -> Result<(), Breach> {
    let wrong = |what: &str, status: &Status| {
        Breach::Wrong(format!("{what} of {id} was refused: {:?} {}", status.code(), status.message()))
    };
    let mut call = wire::start("asked", id, QUEUE, "");
    call.workflow_task_timeout = Some(wire::millis(2_000));
    client.insist(&call).await.map_err(|status| wrong("start", &status))?;
    for number in 1..=QUESTIONS {
        if shared.stopping.get() {
            break;
        }
        let call = SignalWorkflowExecutionRequest {
            namespace: NAMESPACE.to_owned(),
            workflow_execution: wire::execution(id, ""),
            signal_name: format!("n{number}"),
            request_id: format!("{id}-{number}"),
            ..Default::default()
        };
        client.insist(&call).await.map_err(|status| wrong("signal", &status))?;
        let question = QueryWorkflowRequest {
            namespace: NAMESPACE.to_owned(),
            execution: wire::execution(id, ""),
            query: Some(WorkflowQuery { query_type: "count".to_owned(), ..Default::default() }),
            query_reject_condition: QueryRejectCondition::None.into(),
        };
        let answer = loop {
            match client.call(question.clone(), CALL_TIMEOUT).await {
                Ok(reply) => break reply,
                // It may be asked before its first task is done.
                Err(status) if is_transient(&status) || status.code() == Code::FailedPrecondition => {
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
                Err(status) => return Err(wrong("query", &status)),
            }
        };
        let counted = wire::untext(answer.query_result.as_ref());
        if counted != number.to_string() {
            let what = format!("{id}: {number} signals were acknowledged, a query answers `{counted}`");
            return Err(Breach::Lost(what));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let call = TerminateWorkflowExecutionRequest {
        namespace: NAMESPACE.to_owned(),
        workflow_execution: wire::execution(id, ""),
        ..Default::default()
    };
    match client.insist(&call).await {
        Ok(_) => Ok(()),
        Err(status) if status.code() == Code::NotFound => Ok(()),
        Err(status) => Err(wrong("termination", &status)),
    }
}

/// The worker of these workflows.
pub async fn work(shared: Rc<Shared>, mut client: Client) {
    loop {
        let task = wire::poll_workflow_task(&mut client, QUEUE).await;
        answer(&shared, &mut client, task).await;
    }
}

async fn answer(shared: &Shared, client: &mut Client, task: PollWorkflowTaskQueueResponse) {
    let run = task.workflow_execution.unwrap_or_default();
    let events = match task.history.unwrap_or_default().events() {
        Ok(events) if task.next_page_token.is_empty() => events,
        _ => match wire::history(client, &run.workflow_id, &run.run_id).await {
            Ok(events) => events,
            Err(_) => return,
        },
    };
    let count = wire::text(&events.iter().filter(|event| is_signal(event)).count().to_string());
    let answered = if task.query.is_some() {
        let call = RespondQueryTaskCompletedRequest {
            task_token: task.task_token,
            completed_type: QueryResultType::Answered.into(),
            query_result: count,
            namespace: NAMESPACE.to_owned(),
            ..Default::default()
        };
        client.call(call, CALL_TIMEOUT).await.map(drop)
    } else {
        let result = |id: &String| {
            let answer = count.clone();
            (
                id.clone(),
                WorkflowQueryResult { result_type: QueryResultType::Answered.into(), answer, ..Default::default() },
            )
        };
        let call = RespondWorkflowTaskCompletedRequest {
            task_token: task.task_token,
            query_results: task.queries.keys().map(result).collect(),
            namespace: NAMESPACE.to_owned(),
            ..Default::default()
        };
        client.call(call, CALL_TIMEOUT).await.map(drop)
    };
    // A task that is gone, or a node that is, is no mistake; an answer that cannot be understood is.
    if let Err(status) = answered
        && status.code() == Code::InvalidArgument
    {
        shared.ledger.breach(Breach::Wrong(format!("an answer of {} was refused: {status}", run.workflow_id)));
    }
}

fn is_signal(event: &HistoryEvent) -> bool {
    matches!(event.attributes, Some(Attributes::WorkflowExecutionSignaledEventAttributes(_)))
}
