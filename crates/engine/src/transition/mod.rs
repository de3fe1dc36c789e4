//! The changes that one call makes to a run: [`Applied`], with a [`Transition`] for storage and for the node.
//!
//! [`draft`] is the workspace in which a transition is made, [`steps`] checks it against the tables of
//! [`crate::machine`].

pub mod draft;
pub mod steps;
pub mod task_events;

use bytes::Bytes;
use segno_proto::{Nanos, events::HistoryEvent};

use crate::{
    error::Rejection,
    limits::Limits,
    machine::IllegalStep,
    state::{
        outbox::OutboxMessage,
        run::{Run, run_id},
        script::Version,
    },
    uuid,
};

/// How much of a transition storage has to see before a caller is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Durability {
    /// Nothing changed.
    Unchanged,
    /// Memory changed, in a way that a crash may undo.
    Memory,
    /// Must be stored before the answer.
    Durable,
}

/// An action that must follow once a transition is durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Offer the pending workflow task to its queue.
    OfferWorkflowTask,
    /// Offer this activity, by scheduled event, to its queue.
    OfferActivity(i64),
    /// Offer the open request of this Nexus operation, by scheduled event, to the handlers of its endpoint.
    OfferNexusRequest(i64),
    /// Tell the worker that has an attempt to stop, if it takes commands.
    StopActivity(Box<ActivityStop>),
}

/// An attempt whose worker receives a command to stop it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActivityStop {
    /// The queue on which the worker takes commands.
    pub control_queue: String,
    /// The run.
    pub run_id: String,
    /// The activity's scheduled event.
    pub scheduled_event_id: i64,
    /// The attempt.
    pub attempt: i32,
    /// When that attempt started.
    pub started_time: Nanos,
    /// The user's id of it.
    pub activity_id: String,
}

/// The result of one call on a run.
#[derive(Clone, Debug)]
pub struct Applied<R> {
    /// The run afterwards.
    pub run: Run,
    /// The changes.
    pub transition: Transition,
    /// The answer.
    pub reply: R,
}

/// The changes of a call: data for storage, and effects.
#[derive(Clone, Debug)]
pub struct Transition {
    /// Whether storage must see it.
    pub durability: Durability,
    /// Events to store, in batches, the former tail first.
    pub batches: Vec<Vec<HistoryEvent>>,
    /// Size of those events in their stored form.
    pub bytes: usize,
    /// Pending activities that were added, changed or removed, by their scheduled events; some may be named twice. When the
    /// run closes, all of them are over.
    pub activities: Vec<i64>,
    /// Messages to other runs.
    pub outbox: Vec<OutboxMessage>,
    /// The run that follows this one, created in the same commit.
    pub successor: Option<Box<Applied<()>>>,
    /// The actions that follow.
    pub effects: Vec<Effect>,
    /// The state of the script after a turn; the executor of the turn adds it.
    pub script_state: Option<Bytes>,
    /// Where a checkpoint is kept too, and what it contains; the executor of the turn adds the contents.
    pub script_checkpoint: Option<(u32, Bytes)>,
    /// History that is removed with it.
    pub compaction: Option<Box<Compaction>>,
    /// A step in it that no machine has: a defect. Such a transition must be neither stored nor kept.
    pub illegal: Option<Box<IllegalStep>>,
}

/// Old history of a script that is removed, and what stands in its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Compaction {
    /// The first event that is removed.
    pub from: i64,
    /// The last event that is removed, whose id the marker has.
    pub until: i64,
    /// Says so in history.
    pub marker: HistoryEvent,
}

impl Transition {
    /// Makes one transition of this one and the next one of the same run.
    pub fn then(&mut self, next: Self) {
        // Every field by name: a new one must be joined, too.
        let Self {
            durability,
            batches,
            bytes,
            activities,
            outbox,
            successor,
            effects,
            script_state,
            script_checkpoint,
            compaction,
            illegal,
        } = next;
        self.durability = self.durability.max(durability);
        self.batches.extend(batches);
        self.bytes += bytes;
        self.activities.extend(activities);
        self.outbox.extend(outbox);
        self.successor = successor.or(self.successor.take());
        for effect in effects {
            if !self.effects.contains(&effect) {
                self.effects.push(effect);
            }
        }
        self.script_state = script_state.or(self.script_state.take());
        self.script_checkpoint = script_checkpoint.or(self.script_checkpoint.take());
        self.compaction = compaction.or(self.compaction.take());
        self.illegal = self.illegal.take().or(illegal);
    }

    /// Drops the offer of a workflow task that the run no longer has after a later transition was joined to this one.
    pub fn drop_void_offers(&mut self, run: &Run) {
        if run.state.task.is_none() {
            self.effects.retain(|effect| *effect != Effect::OfferWorkflowTask);
        }
    }

    /// Refuses what must not happen, in this run or in the one that follows.
    pub fn check(&self) -> Result<(), Rejection> {
        match &self.illegal {
            Some(illegal) => Err(Rejection::Defect(IllegalStep::clone(illegal))),
            None => self.successor.as_ref().map_or(Ok(()), |successor| successor.transition.check()),
        }
    }
}

/// The surroundings of a call: the time, ids for a run it may create, and settings.
#[derive(Clone, Copy, Debug)]
pub struct Context {
    /// Now.
    pub now: Nanos,
    /// Key for a run this call may create; 0 for calls that create none.
    pub new_run_key: u64,
    /// Random bits for that run's id.
    pub new_run_seed: u64,
    /// Limits in force.
    pub limits: Limits,
    /// The current version of the script that the run's type names, if it does: runs that follow this one have it.
    pub script: Option<Version>,
}

impl Context {
    /// The id of the run this call may create. It carries the run's key, so that finding a run by its id needs no
    /// index (see [`run_key_of`]).
    pub fn new_run_id(&self) -> String {
        run_id(self.new_run_key, self.new_run_seed)
    }
}

impl Context {
    /// A UUID (version 4 in form) that only this call has.
    pub fn derived_uuid(&self) -> String {
        let bits = self.new_run_seed.wrapping_mul(0xd6e8_feb8_6659_fd93) ^ self.new_run_key;
        uuid(4, bits, self.new_run_seed)
    }

    /// A UUID (version 4 in form) that only this event of this call has.
    pub(crate) fn derived_uuid_of(&self, event_id: i64) -> String {
        let mixed = (event_id as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let seed = self.new_run_seed ^ mixed.rotate_left(31);
        uuid(4, seed.wrapping_mul(0xd6e8_feb8_6659_fd93) ^ mixed, self.new_run_seed ^ (self.now as u64))
    }
}
