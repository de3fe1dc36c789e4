//! Hot workflows to which signals with names of their own are appended through all nodes, and whose histories are read
//! through each node meanwhile.
//!
//! No worker takes their tasks, so a signal is in history when it is acknowledged: a history is a list to which each signal
//! appends. A read that began after an acknowledgement must show it, whichever node answers; and of two reads one must
//! be the beginning of the other. What the server called not made must not be there. A node that answers from memory
//! when it must not is seen here and nowhere else.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    rc::Rc,
    time::{Duration, Instant},
};

use segno_proto::{
    events::{HistoryEvent, history_event::Attributes},
    workflowservice::{
        DescribeWorkflowExecutionRequest, SignalWorkflowExecutionRequest, TerminateWorkflowExecutionRequest,
    },
};
use tonic::Code;

use crate::{
    crash::{
        flows::{Shared, insist},
        ledger::Breach,
    },
    wire::{self, CALL_TIMEOUT, Client, NAMESPACE},
};

/// Signals to one workflow before the next one is taken: reads are of whole histories.
const SIGNALS: usize = 30;
/// Events before the first signal: the start and a task that no worker takes.
const EVENTS_BEFORE: usize = 2;
/// The server's word that a change did not happen and never will.
const NOT_MADE: &str = "the change was not made";
/// Pause between two reads through a node.
const READ_PAUSE: Duration = Duration::from_millis(25);
/// A read that takes longer tells nothing that a later one would not.
const READ_MAX: Duration = Duration::from_secs(15);

/// One list.
pub struct List {
    id: String,
    run_id: String,
    /// Acknowledged signals, in the order of their acknowledgements.
    acknowledged: RefCell<Vec<String>>,
    /// Signals of which the server said that they were not made, and that were not sent again.
    refused: RefCell<Vec<String>>,
    /// Whether its termination was acknowledged.
    ended: Cell<bool>,
    /// The longest list that was read.
    longest: RefCell<Vec<String>>,
}

/// A list, and what of it must be there in every case: so many of its signals, and its end.
pub type KeptList = (Rc<List>, usize, bool);

/// All lists, and how long they stood still.
#[derive(Default)]
pub struct Lists {
    open: RefCell<BTreeMap<usize, Rc<List>>>,
    all: RefCell<Vec<Rc<List>>>,
    /// What happens to the cluster just now.
    now: Cell<&'static str>,
    /// The longest time without a success of a hot workflow, by what happened.
    stalls: RefCell<BTreeMap<&'static str, Duration>>,
    /// Reads that were compared.
    pub reads: Cell<usize>,
    /// Signals that were acknowledged.
    pub signals: Cell<usize>,
}

impl Lists {
    /// Says what happens to the cluster from now on.
    pub fn happens(&self, what: &'static str) {
        self.now.set(what);
    }

    /// The longest time without a success, by what happened.
    pub fn stalls(&self) -> BTreeMap<&'static str, Duration> {
        self.stalls.borrow().clone()
    }

    /// What was acknowledged so far of each list: signals, and whether it ended.
    pub fn acknowledged(&self) -> Vec<KeptList> {
        let kept = |list: &Rc<List>| (list.clone(), list.acknowledged.borrow().len(), list.ended.get());
        self.all.borrow().iter().map(kept).collect()
    }

    /// These lists are not asked for again.
    pub fn forget(&self) {
        self.open.borrow_mut().clear();
        self.all.borrow_mut().clear();
    }

    fn stalled(&self, since: Instant, begun: &'static str) {
        let passed = since.elapsed();
        for what in [begun, self.now.get()] {
            let mut stalls = self.stalls.borrow_mut();
            let longest = stalls.entry(what).or_default();
            *longest = passed.max(*longest);
        }
    }
}

/// Appends until the storm stops, one workflow after the other.
pub async fn write(shared: Rc<Shared>, lists: Rc<Lists>, mut client: Client, place: usize) {
    let mut number = 0;
    while !shared.stopping.get() {
        let id = format!("append-{place}-{number}");
        number += 1;
        if let Err(breach) = write_one(&shared, &lists, &mut client, place, &id).await {
            shared.ledger.breach(breach);
        }
    }
    lists.open.borrow_mut().remove(&place);
}

async fn write_one(shared: &Shared, lists: &Lists, client: &mut Client, place: usize, id: &str) -> Result<(), Breach> {
    let wrong = |what: &str, status: &tonic::Status| {
        Breach::Wrong(format!("{what} of {id} was refused: {:?} {}", status.code(), status.message()))
    };
    let call = wire::start("append", id, "storm-nobody", "");
    let started = client.insist(&call).await;
    let run_id = started.map_err(|status| wrong("start", &status))?.run_id;
    let list = Rc::new(List {
        id: id.to_owned(),
        run_id,
        acknowledged: RefCell::default(),
        refused: RefCell::default(),
        ended: Cell::new(false),
        longest: RefCell::default(),
    });
    lists.all.borrow_mut().push(list.clone());
    lists.open.borrow_mut().insert(place, list.clone());
    for number in 0..SIGNALS {
        if shared.stopping.get() {
            break;
        }
        let name = format!("n{number}");
        let call = SignalWorkflowExecutionRequest {
            namespace: NAMESPACE.to_owned(),
            workflow_execution: wire::execution(id, &list.run_id),
            signal_name: name.clone(),
            identity: "segno-harness".to_owned(),
            request_id: format!("{id}-{name}"),
            ..Default::default()
        };
        let (since, during) = (Instant::now(), lists.now.get());
        if let Err(status) = client.call(call.clone(), CALL_TIMEOUT).await {
            if status.message().contains(NOT_MADE) {
                list.refused.borrow_mut().push(name);
                continue;
            }
            let again = client.insist(&call);
            again.await.map_err(|status| wrong("signal", &status))?;
        }
        lists.stalled(since, during);
        lists.signals.set(lists.signals.get() + 1);
        list.acknowledged.borrow_mut().push(name);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let call = TerminateWorkflowExecutionRequest {
        namespace: NAMESPACE.to_owned(),
        workflow_execution: wire::execution(id, &list.run_id),
        reason: "enough".to_owned(),
        identity: "segno-harness".to_owned(),
        ..Default::default()
    };
    client.insist_once(&call, Code::NotFound).await.map_err(|status| wrong("termination", &status))?;
    list.ended.set(true);
    Ok(())
}

/// Reads the lists through one node until it is stopped, and compares what it says with what was acknowledged before.
pub async fn read(shared: Rc<Shared>, lists: Rc<Lists>, mut client: Client, node: usize) {
    let mut turn = 0;
    loop {
        let open: Vec<Rc<List>> = lists.open.borrow().values().cloned().collect();
        turn += 1;
        if let Some(list) = open.get(turn % open.len().max(1)) {
            let (known, ended) = (list.acknowledged.borrow().len(), list.ended.get());
            let reading = wire::history(&mut client, &list.id, &list.run_id);
            match tokio::time::timeout(READ_MAX, reading).await {
                Ok(Ok(events)) => {
                    lists.reads.set(lists.reads.get() + 1);
                    check(&shared, list, &events, known, ended, &format!("node {}", node + 1));
                }
                Ok(Err(status)) if status.code() == Code::NotFound => {
                    shared.ledger.breach(Breach::Wrong(format!("{}: node {} does not know it", list.id, node + 1)));
                }
                Ok(Err(_)) | Err(_) => {}
            }
            describe(&shared, list, &mut client, node).await;
        }
        tokio::time::sleep(READ_PAUSE).await;
    }
}

/// Asks a node how long a list is. Events are read from the database; this is answered from memory.
async fn describe(shared: &Shared, list: &List, client: &mut Client, node: usize) {
    let known = list.acknowledged.borrow().len();
    let call = DescribeWorkflowExecutionRequest {
        namespace: NAMESPACE.to_owned(),
        execution: wire::execution(&list.id, &list.run_id),
    };
    let Ok(reply) = client.call(call, CALL_TIMEOUT).await else { return };
    let length = reply.workflow_execution_info.unwrap_or_default().history_length;
    if length < (EVENTS_BEFORE + known) as i64 {
        let told = format!("{}: {known} signals were acknowledged, node {} knows {length} events", list.id, node + 1);
        shared.ledger.breach(Breach::Lost(told));
    }
}

/// At the end every list is read once more.
pub async fn check_all(shared: &Shared, lists: &Lists, client: &mut Client) {
    let all = lists.all.borrow().clone();
    for list in all {
        let known = list.acknowledged.borrow().len();
        match insist(async || wire::history(client, &list.id, &list.run_id).await).await {
            Ok(events) => check(shared, &list, &events, known, list.ended.get(), "the end"),
            Err(status) => shared.ledger.breach(Breach::Lost(format!("{} cannot be read: {status}", list.id))),
        }
    }
}

/// After a failover that lost something: what was kept must be there, and of the rest no signal may be there if one before it is
/// lost. How many acknowledged facts are lost.
pub async fn check_after_loss(shared: &Shared, lists: &Lists, kept: &[KeptList], client: &mut Client) -> usize {
    let all = lists.all.borrow().clone();
    let mut lost = 0;
    for list in all {
        let known = kept.iter().find(|(other, ..)| Rc::ptr_eq(other, &list)).map(|(_, known, ended)| (*known, *ended));
        let acknowledged = list.acknowledged.borrow().clone();
        match insist(async || wire::history(client, &list.id, &list.run_id).await).await {
            Ok(events) => {
                let (known, ended) = known.unwrap_or_default();
                check(shared, &list, &events, known, ended, "the standby that took over");
                let names: Vec<String> = events.iter().filter_map(appended).collect();
                let there = acknowledged.iter().take_while(|name| names.contains(name)).count();
                if let Some(later) = acknowledged[there..].iter().find(|name| names.contains(name)) {
                    let what = format!("{}: {later} is there, an earlier signal is lost", list.id);
                    shared.ledger.breach(Breach::Wrong(what));
                }
                lost += acknowledged.len() - there;
            }
            Err(status) if status.code() == Code::NotFound && known.is_none() => lost += 1 + acknowledged.len(),
            Err(status) => shared.ledger.breach(Breach::Lost(format!("{} cannot be read: {status}", list.id))),
        }
    }
    lost
}

fn check(shared: &Shared, list: &List, events: &[HistoryEvent], known: usize, ended: bool, place: &str) {
    for breach in breaches(list, events, known, ended) {
        let told = |what| format!("{} read through {place}: {what}", list.id);
        shared.ledger.breach(match breach {
            Breach::Lost(what) => Breach::Lost(told(what)),
            Breach::Wrong(what) => Breach::Wrong(told(what)),
        });
    }
}

fn breaches(list: &List, events: &[HistoryEvent], known: usize, ended: bool) -> Vec<Breach> {
    let mut found = Vec::new();
    let names: Vec<String> = events.iter().filter_map(appended).collect();
    for name in &list.acknowledged.borrow()[..known] {
        match names.iter().filter(|seen| *seen == name).count() {
            0 => found.push(Breach::Lost(format!("{name} was acknowledged before and is not there"))),
            1 => {}
            times => found.push(Breach::Wrong(format!("{name} is there {times} times"))),
        }
    }
    for name in list.refused.borrow().iter().filter(|name| names.contains(name)) {
        found.push(Breach::Wrong(format!("{name} is there, and the server had said that it was not made")));
    }
    if ended && !events.last().is_some_and(wire::is_closing) {
        found.push(Breach::Lost("its termination was acknowledged before and is not there".to_owned()));
    }
    let mut longest = list.longest.borrow_mut();
    if longest.iter().zip(&names).any(|(a, b)| a != b) {
        found.push(Breach::Wrong(format!("two reads disagree: {longest:?} and {names:?}")));
    }
    if names.len() > longest.len() {
        *longest = names;
    }
    found
}

fn appended(event: &HistoryEvent) -> Option<String> {
    match event.attributes.as_ref()? {
        Attributes::WorkflowExecutionSignaledEventAttributes(signal) => Some(signal.signal_name.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use segno_proto::events::WorkflowExecutionSignaledEventAttributes;

    use super::*;

    fn list() -> List {
        List {
            id: "w".to_owned(),
            run_id: String::new(),
            acknowledged: RefCell::new(vec!["a".to_owned(), "b".to_owned()]),
            refused: RefCell::new(vec!["c".to_owned()]),
            ended: Cell::new(false),
            longest: RefCell::default(),
        }
    }

    fn events(names: &[&str]) -> Vec<HistoryEvent> {
        let signal = |name: &&str| {
            let signal =
                WorkflowExecutionSignaledEventAttributes { signal_name: (*name).to_owned(), ..Default::default() };
            let attributes = Some(Attributes::WorkflowExecutionSignaledEventAttributes(signal));
            HistoryEvent { attributes, ..Default::default() }
        };
        names.iter().map(signal).collect()
    }

    #[test]
    fn what_was_called_not_made_must_not_be_there() {
        assert_eq!(breaches(&list(), &events(&["a", "b", "c"]), 2, false).len(), 1);
    }

    #[test]
    fn stale_reads_repeats_and_forks_are_noticed() {
        let list = list();
        assert_eq!(breaches(&list, &events(&["a", "b"]), 2, false), []);
        assert_eq!(breaches(&list, &events(&["a"]), 1, false), [], "it began before the second");
        assert_eq!(breaches(&list, &events(&["a"]), 2, false).len(), 1, "a stale read");
        assert_eq!(breaches(&list, &events(&["a", "b", "b"]), 2, false).len(), 1, "a repeat");
        assert_eq!(breaches(&list, &events(&["b", "a"]), 2, false).len(), 1, "a fork");
        assert_eq!(breaches(&list, &events(&["a", "b"]), 2, true).len(), 1, "not ended");
    }
}
