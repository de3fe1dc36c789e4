//! The clients: they start workflows, signal and update them, wait for results, and insist until the server says yes.
//!
//! A call without an answer is repeated with the same request id until it has one; only answers enter the ledger.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    time::{Duration, Instant},
};

use segno_proto::{Rpc, workflowservice::SignalWorkflowExecutionRequest};
use tonic::{Code, Status};

use super::{
    ledger::{Breach, Kind, Ledger, receiver_id},
    scripts::{self, Scripts},
    updates,
};
use crate::wire::{self, CALL_TIMEOUT, Client, NAMESPACE};

/// Task queue of the campaign.
pub const QUEUE: &str = "crash";
/// Pause before a call that failed is repeated.
pub const RETRY_PAUSE: Duration = Duration::from_millis(5);
/// A worker repeats an answer for this long; longer than any task may take.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// What all tasks of one campaign share.
pub struct Shared {
    /// The acknowledged facts.
    pub ledger: Ledger,
    /// No new workflows from now on.
    pub stopping: Cell<bool>,
    /// Workflows started so far, for their numbers.
    pub next: Cell<u64>,
    /// Last words of the server on answers that a worker gave up on.
    pub given_up: RefCell<Vec<String>>,
    /// When a poll last came back, with a task or without.
    pub last_poll: Cell<Instant>,
    /// Prefix of workflow ids.
    pub prefix: String,
    /// Scripts, if the server has them. Temporal's has none.
    pub scripts: Option<Scripts>,
    /// Whether the server lets callers wait until an update is admitted. Temporal's does not.
    pub admits_durably: bool,
    /// Whether there is an endpoint for Nexus operations.
    pub has_endpoint: Cell<bool>,
}

/// Whether a failed call may be repeated: its outcome is unknown, or the server asked for patience.
pub fn is_transient(status: &Status) -> bool {
    !matches!(
        status.code(),
        Code::NotFound
            | Code::InvalidArgument
            | Code::AlreadyExists
            | Code::FailedPrecondition
            | Code::PermissionDenied
            | Code::Unimplemented
            | Code::DataLoss
            | Code::OutOfRange
            | Code::Unauthenticated
    )
}

/// Repeats a call until it is answered.
pub async fn insist<T>(mut call: impl AsyncFnMut() -> Result<T, Status>) -> Result<T, Status> {
    loop {
        match call().await {
            Err(status) if is_transient(&status) => tokio::time::sleep(RETRY_PAUSE).await,
            answer => return answer,
        }
    }
}

impl Client {
    /// Repeats a call until it is answered.
    pub async fn insist<Q: Rpc + Clone>(&mut self, call: &Q) -> Result<Q::Response, Status> {
        insist(async || self.call(call.clone(), CALL_TIMEOUT).await).await
    }

    /// Repeats a call until it is answered. A repeat that is refused with `done` says that an attempt without an answer had arrived;
    /// then the call is done, but not acknowledged: `false`.
    pub async fn insist_once<Q: Rpc + Clone>(&mut self, call: &Q, done: Code) -> Result<bool, Status> {
        let mut attempts = 0;
        let reply = insist(async || {
            attempts += 1;
            self.call(call.clone(), CALL_TIMEOUT).await
        });
        match reply.await {
            Err(status) if status.code() == done && attempts > 1 => Ok(false),
            reply => reply.map(|_| true),
        }
    }

    /// Repeats a worker's answer, but not for ever: its task times out, and a worker stuck on it would look like a server
    /// that hands out no tasks. What the server kept saying is remembered.
    pub async fn insist_briefly<Q: Rpc + Clone>(&mut self, shared: &Shared, answer: &Q) -> Result<Q::Response, Status> {
        let begun = Instant::now();
        loop {
            match self.call(answer.clone(), CALL_TIMEOUT).await {
                Err(status) if is_transient(&status) && begun.elapsed() < ANSWER_MAX => {
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
                Err(status) if is_transient(&status) => {
                    shared.given_up.borrow_mut().push(format!("{:?} {}", status.code(), status.message()));
                    return Err(status);
                }
                reply => return reply,
            }
        }
    }
}

/// One client: one workflow after the other until the campaign stops.
pub async fn run(shared: Rc<Shared>, mut client: Client) {
    while !shared.stopping.get() {
        let index = shared.next.replace(shared.next.get() + 1);
        let id = format!("{}-{index}", shared.prefix);
        let outcome = match index % 16 {
            0..=3 => plain(&shared, &mut client, Kind::Activity, &id, "").await,
            4 | 5 => signalled(&shared, &mut client, &id).await,
            6 | 7 => plain(&shared, &mut client, Kind::Timer, &id, &(20 + index % 250).to_string()).await,
            8 => plain(&shared, &mut client, Kind::Parent, &id, "").await,
            9 => crossed(&shared, &mut client, &id).await,
            12 | 13 => match scripts::run(&shared, &mut client, &id).await {
                Ok(false) => plain(&shared, &mut client, Kind::Activity, &id, "").await,
                outcome => outcome.map(|_| ()),
            },
            14 | 15 => {
                let kind = if shared.has_endpoint.get() { Kind::Operation } else { Kind::Activity };
                plain(&shared, &mut client, kind, &id, "").await
            }
            at => updated(&shared, &mut client, &id, at == 10).await,
        };
        if let Err(broken) = outcome {
            shared.ledger.breach(broken);
        }
    }
}

/// A workflow that needs nothing from its client.
async fn plain(shared: &Shared, client: &mut Client, kind: Kind, id: &str, input: &str) -> Result<(), Breach> {
    let run_id = start(shared, client, kind, id, input).await?;
    result(shared, client, kind, id, &run_id).await
}

async fn signalled(shared: &Shared, client: &mut Client, id: &str) -> Result<(), Breach> {
    let run_id = start(shared, client, Kind::Signals, id, "").await?;
    for name in ["s0", "s1", "s2"] {
        signal(shared, client, Kind::Signals, id, &run_id, name).await?;
    }
    result(shared, client, Kind::Signals, id, &run_id).await
}

/// A sender and its receiver. The receiver stays open until the sender is done: a signal delivered twice to a closed
/// workflow would rightly fail.
async fn crossed(shared: &Shared, client: &mut Client, id: &str) -> Result<(), Breach> {
    let receiver = receiver_id(id);
    let receiver_run = start(shared, client, Kind::Receiver, &receiver, "").await?;
    plain(shared, client, Kind::Sender, id, &receiver).await?;
    signal(shared, client, Kind::Receiver, &receiver, &receiver_run, "finish").await?;
    result(shared, client, Kind::Receiver, &receiver, &receiver_run).await
}

/// A workflow that is asked updates, and told when all are answered.
async fn updated(shared: &Rc<Shared>, client: &mut Client, id: &str, at_once: bool) -> Result<(), Breach> {
    let run_id = start(shared, client, Kind::Updates, id, "").await?;
    updates::ask_all(shared, client, id, &run_id, at_once).await?;
    signal(shared, client, Kind::Updates, id, &run_id, "finish").await?;
    result(shared, client, Kind::Updates, id, &run_id).await
}

/// Starts a workflow, until that is acknowledged.
pub async fn start(shared: &Shared, client: &mut Client, kind: Kind, id: &str, input: &str) -> Result<String, Breach> {
    let mut call = wire::start(kind.name(), id, QUEUE, input);
    call.workflow_task_timeout = Some(wire::millis(2_000));
    let reply = client.insist(&call).await;
    let run_id = reply.map_err(|status| refused(shared, "start", id, &status))?.run_id;
    shared.ledger.note(kind, id, &run_id, |_, _| {});
    Ok(run_id)
}

/// Signals a workflow, until that is acknowledged.
pub async fn signal(
    shared: &Shared,
    client: &mut Client,
    kind: Kind,
    id: &str,
    run_id: &str,
    name: &str,
) -> Result<(), Breach> {
    let call = SignalWorkflowExecutionRequest {
        namespace: NAMESPACE.to_owned(),
        workflow_execution: wire::execution(id, run_id),
        signal_name: name.to_owned(),
        identity: "segno-harness".to_owned(),
        request_id: format!("{id}-{name}"),
        ..Default::default()
    };
    shared.ledger.note(kind, id, run_id, |facts, _| {
        facts.signals.insert(name.to_owned(), false);
    });
    // An attempt without an answer may have been the last signal the workflow waited for: then it is closed now.
    let signalled = client.insist_once(&call, Code::NotFound).await;
    if signalled.map_err(|status| refused(shared, "signal", id, &status))? {
        shared.ledger.note(kind, id, run_id, |facts, _| {
            facts.signals.insert(name.to_owned(), true);
        });
    }
    Ok(())
}

/// Waits for the result of a workflow, which must be the right one.
pub async fn result(shared: &Shared, client: &mut Client, kind: Kind, id: &str, run_id: &str) -> Result<(), Breach> {
    let event = insist(async || wire::wait_closed(client, id, run_id).await).await;
    let text = wire::closing_result(&event.map_err(|status| refused(shared, "result", id, &status))?);
    if text != kind.result(id) {
        return Err(Breach::Wrong(format!("{id} ended with `{text}` instead of `{}`", kind.result(id))));
    }
    shared.ledger.note(kind, id, run_id, |facts, _| facts.result = Some(text));
    Ok(())
}

/// A refused call. A run that was acknowledged before the last crash and is not found now was lost in it.
pub fn refused(shared: &Shared, call: &str, id: &str, status: &Status) -> Breach {
    let text = format!("{call} of {id} was refused: {:?} {}", status.code(), status.message());
    let is_lost = status.code() == Code::NotFound && shared.ledger.crashed_since_start(id);
    if is_lost { Breach::Lost(text) } else { Breach::Wrong(text) }
}
