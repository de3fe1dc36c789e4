//! What the server acknowledged: the facts that no crash may take away.
//!
//! Every fact carries a name of its own (a request id, or an identity used for a single answer), so that a loss stays
//! visible even when the work was done again later under another name.

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, BTreeSet},
};

use super::updates;

/// Broken promises printed of each kind.
const BREACHES_SHOWN: usize = 10;

/// What a workflow does; see `flows.rs` for the client's part and `worker.rs` for the worker's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One activity; its result is the result.
    Activity,
    /// Waits for three signals of a client.
    Signals,
    /// Sleeps for a short while.
    Timer,
    /// Starts a child of kind `Activity` and returns its result.
    Parent,
    /// Signals a workflow of kind `Receiver`.
    Sender,
    /// Waits for one signal of a workflow and one of a client.
    Receiver,
    /// Calls a Nexus operation that is a workflow of kind `Activity`, and returns its result.
    Operation,
    /// Takes updates of a client until it signals; see `updates.rs`.
    Updates,
    /// A script: a task, two signals of a client with a timer between them; see `scripts.rs`.
    Script,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 9] = [
        Self::Activity,
        Self::Signals,
        Self::Timer,
        Self::Parent,
        Self::Sender,
        Self::Receiver,
        Self::Operation,
        Self::Updates,
        Self::Script,
    ];

    /// The workflow type on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Activity => "activity",
            Self::Signals => "signals",
            Self::Timer => "timer",
            Self::Parent => "parent",
            Self::Sender => "sender",
            Self::Receiver => "receiver",
            Self::Operation => "operation",
            Self::Updates => "updates",
            Self::Script => "script",
        }
    }

    /// The kind of a workflow type.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The result every workflow of this kind must come to.
    pub fn result(self, workflow_id: &str) -> String {
        match self {
            Self::Activity => format!("did {workflow_id}"),
            Self::Signals => "s0,s1,s2".to_owned(),
            Self::Timer => "slept".to_owned(),
            Self::Parent => Self::Activity.result(&child_id(workflow_id)),
            Self::Operation => Self::Activity.result(&handler_id(workflow_id)),
            Self::Sender => "sent".to_owned(),
            Self::Receiver => "cross,finish".to_owned(),
            Self::Updates => updates::result(),
            Self::Script => format!("did {workflow_id}: s0,s1"),
        }
    }
}

/// The id of a parent's child.
pub fn child_id(parent_id: &str) -> String {
    format!("{parent_id}-child")
}

/// The id of the workflow behind a caller's operation.
pub fn handler_id(caller_id: &str) -> String {
    format!("{caller_id}-handler")
}

/// The id of the receiver that a sender signals.
pub fn receiver_id(sender_id: &str) -> String {
    format!("{sender_id}-receiver")
}

/// An acknowledged answer of the worker.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    /// Round in which it was acknowledged.
    pub round: u32,
    /// Commands it carried, each of which must have become one event.
    pub commands: usize,
}

/// What was acknowledged about an update.
#[derive(Clone, Debug, Default)]
pub struct UpdateFacts {
    /// The furthest stage, as the wire numbers them.
    pub stage: i32,
    /// Round in which that was acknowledged.
    pub round: u32,
    /// The outcome its caller was given.
    pub outcome: Option<String>,
}

/// Everything acknowledged about one workflow.
#[derive(Clone, Debug)]
pub struct Facts {
    /// What the workflow does.
    pub kind: Kind,
    /// Run ids named by acknowledgements; more than one is a violation.
    pub runs: BTreeSet<String>,
    /// Round of the first acknowledgement.
    pub round: u32,
    /// Signals by name, and whether they were acknowledged; the others were sent and may or may not be there.
    pub signals: BTreeMap<String, bool>,
    /// Acknowledged completions of workflow tasks, by the identity used.
    pub workflow_tasks: BTreeMap<String, Answer>,
    /// Acknowledged completions of activities, by the identity used.
    pub activities: BTreeMap<String, Answer>,
    /// Updates by id.
    pub updates: BTreeMap<String, UpdateFacts>,
    /// The result a client was given.
    pub result: Option<String>,
}

/// A broken promise. The two kinds are kept apart because only the first is evidence that a crash took something away:
/// a faulty server may also misbehave without any crash, and a harness that took that for a catch would be fooled.
#[derive(Debug, PartialEq, Eq)]
pub enum Breach {
    /// A fact that was acknowledged is not there.
    Lost(String),
    /// Anything else that must not be.
    Wrong(String),
}

/// The book of one campaign.
#[derive(Default)]
pub struct Ledger {
    workflows: RefCell<BTreeMap<String, Facts>>,
    touched: RefCell<BTreeSet<String>>,
    lost: Cell<usize>,
    wrong: Cell<usize>,
    round: Cell<u32>,
    facts: Cell<usize>,
    names: Cell<u64>,
    /// A crash may happen between any two calls.
    any_time: Cell<bool>,
    forgotten: Cell<usize>,
}

impl Ledger {
    /// Closes a round, after its crash and before the server is back: what was acknowledged about the workflows it
    /// touched. What of this is missing later was taken by a crash, not merely not yet visible.
    pub fn next_round(&self) -> Vec<(String, Facts)> {
        self.round.set(self.round.get() + 1);
        let touched = self.touched.take();
        touched.into_iter().filter_map(|id| self.facts(&id).map(|facts| (id, facts))).collect()
    }

    /// Whether a crash happened since the workflow was first acknowledged.
    pub fn crashed_since_start(&self, workflow_id: &str) -> bool {
        self.workflows.borrow().get(workflow_id).is_some_and(|facts| facts.round < self.round.get())
    }

    /// From now on a crash may have happened between any two calls, also within a round.
    pub fn crashes_any_time(&self) {
        self.any_time.set(true);
    }

    /// The round under way.
    pub fn round(&self) -> u32 {
        self.round.get()
    }

    /// Whether a crash happened since something was acknowledged in a round.
    pub fn crashed_since(&self, round: u32) -> bool {
        self.any_time.get() || round < self.round.get()
    }

    /// What was acknowledged about an update.
    pub fn update(&self, workflow_id: &str, update_id: &str) -> Option<UpdateFacts> {
        self.workflows.borrow().get(workflow_id)?.updates.get(update_id).cloned()
    }

    /// A name never used before.
    pub fn fresh_name(&self, what: &str) -> String {
        self.names.set(self.names.get() + 1);
        format!("{what}-{}", self.names.get())
    }

    /// Notes something acknowledged about a workflow.
    pub fn note(&self, kind: Kind, workflow_id: &str, run_id: &str, write: impl FnOnce(&mut Facts, u32)) {
        let round = self.round.get();
        let mut workflows = self.workflows.borrow_mut();
        let facts = workflows.entry(workflow_id.to_owned()).or_insert_with(|| Facts {
            kind,
            runs: BTreeSet::new(),
            round,
            signals: BTreeMap::new(),
            workflow_tasks: BTreeMap::new(),
            activities: BTreeMap::new(),
            updates: BTreeMap::new(),
            result: None,
        });
        // A worker that is faster than the answer to the start does not know what kind of workflow it works for.
        if kind != Kind::Activity {
            facts.kind = kind;
        }
        facts.runs.insert(run_id.to_owned());
        write(facts, round);
        self.touched.borrow_mut().insert(workflow_id.to_owned());
        self.facts.set(self.facts.get() + 1);
    }

    /// Notes that a promise was broken; the first few of each kind are shown.
    pub fn breach(&self, breach: Breach) {
        let (count, kind, what) = match breach {
            Breach::Lost(what) => (&self.lost, "LOST", what),
            Breach::Wrong(what) => (&self.wrong, "WRONG", what),
        };
        count.set(count.get() + 1);
        if count.get() <= BREACHES_SHOWN {
            println!("  {kind}: {what}");
        }
    }

    /// How many acknowledged facts were found missing.
    pub fn lost(&self) -> usize {
        self.lost.get()
    }

    /// How many other promises were broken.
    pub fn wrong(&self) -> usize {
        self.wrong.get()
    }

    /// Counts a fact that is checked by its caller.
    pub fn count_fact(&self) {
        self.facts.set(self.facts.get() + 1);
    }

    /// How many facts there are.
    pub fn fact_count(&self) -> usize {
        self.facts.get()
    }

    /// These workflows are not asked for again.
    pub fn forget(&self) {
        let forgotten = self.workflows.take().len();
        self.forgotten.set(self.forgotten.get() + forgotten);
        self.touched.borrow_mut().clear();
    }

    fn facts(&self, workflow_id: &str) -> Option<Facts> {
        self.workflows.borrow().get(workflow_id).cloned()
    }

    /// How many workflows have or had a fact.
    pub fn workflow_count(&self) -> usize {
        self.forgotten.get() + self.workflows.borrow().len()
    }

    /// Everything acknowledged so far.
    pub fn everything(&self) -> Vec<(String, Facts)> {
        self.workflows.borrow().iter().map(|(id, facts)| (id.clone(), facts.clone())).collect()
    }
}
