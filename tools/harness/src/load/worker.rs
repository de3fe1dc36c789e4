//! The worker: polls for workflow tasks and activity tasks, and answers them as the flow of the workflow's type says.
//!
//! It replays nothing. What to do follows from the events it is given, with or without sticky queues, and from one
//! number per run when a flow has to count.

use std::{
    rc::Rc,
    time::{Duration, Instant},
};

use segno_proto::{
    command::Command,
    events::HistoryEvent,
    protocol::Message,
    taskqueue::{StickyExecutionAttributes, TaskQueue},
    workflowservice::{
        PollActivityTaskQueueRequest, PollWorkflowTaskQueueRequest, PollWorkflowTaskQueueResponse,
        RespondActivityTaskCompletedRequest, RespondWorkflowTaskCompletedRequest,
        respond_workflow_task_completed_request::Capabilities,
    },
};
use tokio::task::JoinSet;
use tonic::Status;

use super::{flows, session::Session};
use crate::wire::{self, CALL_TIMEOUT, Client, NAMESPACE, POLL_TIMEOUT};

/// A workflow task as flows see it.
pub struct WorkflowTask<'a> {
    /// All events, or with a sticky queue only those since the last task.
    pub events: &'a [HistoryEvent],
    /// Messages about updates.
    pub messages: &'a [Message],
    /// The id of the workflow.
    pub workflow_id: &'a str,
    /// Whether no workflow task of the run was answered before.
    pub is_first: bool,
    /// The load this belongs to.
    pub session: &'a Session,
    /// A number of the flow's own, kept from one workflow task to the next; 0 at first.
    pub seen: &'a mut usize,
}

/// What a flow answers to a task.
#[derive(Default)]
pub struct Answer {
    /// Commands, in order.
    pub commands: Vec<Command>,
    /// Messages about updates.
    pub messages: Vec<Message>,
    /// When the operation began that this answer finishes, if it does and if the worker is who counts it.
    pub finishes: Option<Instant>,
}

impl From<Vec<Command>> for Answer {
    fn from(commands: Vec<Command>) -> Self {
        Self { commands, ..Default::default() }
    }
}

/// Pollers of one load; they end when this is dropped.
pub struct Workers(JoinSet<()>);

impl Workers {
    /// Starts the pollers, for workflow tasks and activity tasks.
    pub fn start(session: &Rc<Session>) -> Self {
        let mut workers = Self::for_workflows(session);
        workers.add_activities(session);
        workers
    }

    /// Starts pollers for workflow tasks only.
    pub fn for_workflows(session: &Rc<Session>) -> Self {
        let mut workers = JoinSet::new();
        for _ in 0..session.load.pollers {
            let normal = wire::queue(session.queue()).unwrap_or_default();
            workers.spawn_local(poll_workflow_tasks(session.clone(), session.client(), normal));
            if session.load.sticky {
                workers.spawn_local(poll_workflow_tasks(session.clone(), session.client(), session.sticky_queue()));
            }
        }
        Self(workers)
    }

    /// Starts pollers for activity tasks too.
    pub fn add_activities(&mut self, session: &Rc<Session>) {
        for _ in 0..session.load.pollers {
            self.0.spawn_local(poll_activities(session.clone(), session.client()));
        }
    }

    /// Ends the pollers and waits until they are gone.
    pub async fn stop(mut self) {
        self.0.shutdown().await;
    }
}

/// One poller for workflow tasks.
async fn poll_workflow_tasks(session: Rc<Session>, mut client: Client, task_queue: TaskQueue) {
    loop {
        let poll = PollWorkflowTaskQueueRequest {
            namespace: NAMESPACE.to_owned(),
            task_queue: Some(task_queue.clone()),
            identity: "segno-harness".to_owned(),
            ..Default::default()
        };
        match client.call(poll, POLL_TIMEOUT).await {
            Ok(reply) => {
                let mut task = Some(reply);
                while let Some(next) = task.take().filter(|task| !task.task_token.is_empty()) {
                    task = answer_workflow_task(&session, &mut client, next).await;
                }
            }
            Err(status) => back_off(&session, "poll workflow task", &status).await,
        }
    }
}

/// Answers one workflow task; the next one of the same run when the reply carries it.
async fn answer_workflow_task(
    session: &Session,
    client: &mut Client,
    task: PollWorkflowTaskQueueResponse,
) -> Option<PollWorkflowTaskQueueResponse> {
    let run = task.workflow_execution.unwrap_or_default();
    let kind = task.workflow_type.unwrap_or_default().name;
    let mut events = task.history.unwrap_or_default().events().unwrap_or_default();
    if !task.next_page_token.is_empty() {
        match wire::history(client, &run.workflow_id, &run.run_id).await {
            Ok(all) => events = all,
            Err(status) => session.failed("read history", &status),
        }
    }
    let from_start = events.first().is_some_and(|event| event.event_id == 1);
    let mut seen = session.seen.borrow_mut().remove(&run.run_id).filter(|_| !from_start).unwrap_or(0);
    let flow_task = WorkflowTask {
        events: &events,
        messages: &task.messages,
        workflow_id: &run.workflow_id,
        is_first: task.previous_started_event_id == 0,
        session,
        seen: &mut seen,
    };
    let answer = flows::answer(&kind, flow_task);
    let finishes = answer.finishes;
    if seen > 0 {
        session.seen.borrow_mut().insert(run.run_id, seen);
    }
    let sticky = session.load.sticky.then(|| StickyExecutionAttributes {
        worker_task_queue: Some(session.sticky_queue()),
        schedule_to_start_timeout: Some(wire::millis(10_000)),
    });
    let answer = RespondWorkflowTaskCompletedRequest {
        task_token: task.task_token,
        commands: answer.commands,
        messages: answer.messages,
        identity: "segno-harness".to_owned(),
        return_new_workflow_task: sticky.is_some(),
        sticky_attributes: sticky,
        namespace: NAMESPACE.to_owned(),
        capabilities: Some(Capabilities { discard_speculative_workflow_task_with_events: true }),
        ..Default::default()
    };
    match client.call(answer, CALL_TIMEOUT).await {
        Ok(reply) => {
            session.workflow_task_answered(finishes);
            reply.workflow_task
        }
        Err(status) => {
            session.failed("complete workflow task", &status);
            None
        }
    }
}

/// One poller for activity tasks; the activity gives back its input.
async fn poll_activities(session: Rc<Session>, mut client: Client) {
    loop {
        let poll = PollActivityTaskQueueRequest {
            namespace: NAMESPACE.to_owned(),
            task_queue: wire::queue(session.queue()),
            identity: "segno-harness".to_owned(),
            ..Default::default()
        };
        let task = match client.call(poll, POLL_TIMEOUT).await {
            Ok(reply) => reply,
            Err(status) => {
                back_off(&session, "poll activity task", &status).await;
                continue;
            }
        };
        if task.task_token.is_empty() {
            continue;
        }
        let answer = RespondActivityTaskCompletedRequest {
            task_token: task.task_token,
            result: task.input,
            identity: "segno-harness".to_owned(),
            namespace: NAMESPACE.to_owned(),
            ..Default::default()
        };
        match client.call(answer, CALL_TIMEOUT).await {
            Ok(_) => session.activity_done(),
            Err(status) => session.failed("complete activity", &status),
        }
    }
}

/// A poll that ran into its own deadline is no error; any other is counted and not repeated at once.
async fn back_off(session: &Session, call: &str, status: &Status) {
    if !matches!(status.code(), tonic::Code::DeadlineExceeded | tonic::Code::Cancelled) {
        session.failed(call, status);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
