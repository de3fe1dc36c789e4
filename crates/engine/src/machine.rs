//! The state machines as tables of legal steps.
//!
//! The modules around this one change state; `steps` checks each change against these tables. A step that is not in a
//! table is a defect of the engine, caught by an assertion in tests and by a typed error at run time. Steps that a
//! worker or another run asks for (updates, children) have an error of their own.

/// A step that a machine does not know.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{machine}: {event} is not possible in state {state}")]
pub struct IllegalStep {
    /// Which machine.
    pub machine: &'static str,
    /// The state it is in.
    pub state: String,
    /// The event.
    pub event: String,
}

/// Defines a machine: states, events, and the table of legal steps.
macro_rules! machine {
    ($(#[$doc:meta])* $module:ident { states { $($state:ident),+ } events { $($event:ident),+ } steps { $($from:ident + $on:ident => $to:ident),+ $(,)? } }) => {
        $(#[$doc])*
        pub mod $module {
            use super::IllegalStep;

            /// Where it can be.
            #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
            #[allow(missing_docs)]
            pub enum State { $($state),+ }

            /// The events of the machine.
            #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
            #[allow(missing_docs)]
            pub enum Event { $($event),+ }

            /// Every legal step.
            pub const STEPS: &[(State, Event, State)] = &[$((State::$from, Event::$on, State::$to)),+];

            /// The state after `event`.
            pub fn next(state: State, event: Event) -> Result<State, IllegalStep> {
                #[cfg(any(test, feature = "coverage"))]
                super::coverage::record(stringify!($module), state as usize, event as usize);
                #[cfg(any(test, feature = "coverage"))]
                if super::coverage::is_removed(stringify!($module), state as usize, event as usize) {
                    return Err(illegal(state, event));
                }
                match (state, event) {
                    $((State::$from, Event::$on) => Ok(State::$to),)+
                    #[allow(unreachable_patterns)]
                    _ => Err(illegal(state, event)),
                }
            }

            fn illegal(state: State, event: Event) -> IllegalStep {
                IllegalStep {
                    machine: stringify!($module),
                    state: format!("{state:?}"),
                    event: format!("{event:?}"),
                }
            }
        }
    };
}

machine! {
    /// The workflow task: none, waiting for a worker, or with a worker. Speculative ones take the same steps; what
    /// differs is whether their events are stored.
    workflow_task {
        states { Absent, Scheduled, Started }
        events { Schedule, Start, Complete, Fail, TimeOut, GiveBack, Discard, Pause }
        steps {
            Absent + Schedule => Scheduled,
            Scheduled + Start => Started,
            Scheduled + TimeOut => Absent,
            Started + Complete => Absent,
            Started + Fail => Absent,
            Started + TimeOut => Absent,
            Started + GiveBack => Scheduled,
            Scheduled + Discard => Absent,
            Started + Discard => Absent,
            Scheduled + Pause => Absent,
        }
    }
}

machine! {
    /// An activity from its command to its end. Paused: no worker has it, and none gets it. PauseRequested: a worker
    /// still has it.
    activity {
        states { Waiting, Running, BackingOff, Paused, PauseRequested, Ended }
        events { Start, Heartbeat, Retry, RetryAtOnce, End, GiveBack, Pause, Unpause, UnpauseLater, Reschedule, PutOff }
        steps {
            Waiting + Start => Running,
            Waiting + End => Ended,
            Running + Heartbeat => Running,
            Running + Retry => BackingOff,
            Running + RetryAtOnce => Waiting,
            Running + End => Ended,
            Running + GiveBack => Waiting,
            BackingOff + Start => Running,
            BackingOff + End => Ended,
            Waiting + Pause => Paused,
            BackingOff + Pause => Paused,
            Running + Pause => PauseRequested,
            Paused + Unpause => Waiting,
            Paused + UnpauseLater => BackingOff,
            PauseRequested + Unpause => Running,
            Paused + Start => PauseRequested,
            Paused + End => Ended,
            PauseRequested + Heartbeat => PauseRequested,
            PauseRequested + Retry => Paused,
            PauseRequested + End => Ended,
            PauseRequested + GiveBack => Paused,
            Waiting + Reschedule => Waiting,
            Waiting + PutOff => BackingOff,
            BackingOff + Reschedule => Waiting,
            BackingOff + PutOff => BackingOff,
            Paused + Reschedule => Paused,
        }
    }
}

machine! {
    /// A child as its parent sees it.
    child {
        states { Initiated, Running, Gone }
        events { Started, StartFailed, Closed }
        steps {
            Initiated + Started => Running,
            Initiated + StartFailed => Gone,
            Running + Closed => Gone,
        }
    }
}

machine! {
    /// A Nexus operation. Its handler has started it, or the request for that is on its way, or waits for its next attempt.
    nexus_operation {
        states { Scheduled, BackingOff, Started, Gone }
        events { AttemptFailed, Start, End }
        steps {
            Scheduled + AttemptFailed => BackingOff,
            Scheduled + Start => Started,
            BackingOff + Start => Started,
            Scheduled + End => Gone,
            BackingOff + End => Gone,
            Started + End => Gone,
        }
    }
}

machine! {
    /// The cancellation of a Nexus operation. Kept: it waits until the operation is started.
    nexus_cancellation {
        states { Absent, Kept, Scheduled, BackingOff, Succeeded, Failed }
        events { Keep, Send, AttemptFailed, Succeed, Fail }
        steps {
            Absent + Keep => Kept,
            Absent + Send => Scheduled,
            Scheduled + AttemptFailed => BackingOff,
            Scheduled + Succeed => Succeeded,
            Scheduled + Fail => Failed,
        }
    }
}

machine! {
    /// A run. Paused: it is open, and nothing of it is handed to workers; a command cannot close it.
    run {
        states { Running, Paused, Completed, Failed, Canceled, Terminated, ContinuedAsNew, TimedOut }
        events { Complete, Fail, Cancel, Terminate, ContinueAsNew, TimeOut, Pause, Unpause }
        steps {
            Running + Complete => Completed,
            Running + Fail => Failed,
            Running + Cancel => Canceled,
            Running + Terminate => Terminated,
            Running + ContinueAsNew => ContinuedAsNew,
            Running + TimeOut => TimedOut,
            Running + Pause => Paused,
            Paused + Unpause => Running,
            Paused + Terminate => Terminated,
            Paused + TimeOut => TimedOut,
        }
    }
}

machine! {
    /// An update. Until it is accepted memory knows it, unless an event admitted it.
    update {
        states { Unknown, Admitted, Sent, Accepted, Completed, Rejected, Aborted }
        events { Admit, Send, Unsend, Accept, Complete, Reject, Abort }
        steps {
            Unknown + Admit => Admitted,
            Admitted + Send => Sent,
            Admitted + Accept => Accepted,
            Admitted + Reject => Rejected,
            Admitted + Abort => Aborted,
            Sent + Send => Sent,
            Sent + Unsend => Admitted,
            Sent + Accept => Accepted,
            Sent + Reject => Rejected,
            Sent + Abort => Aborted,
            Accepted + Complete => Completed,
            Aborted + Admit => Admitted,
            Aborted + Reject => Rejected,
        }
    }
}

machine! {
    /// A run on its way to another version of its workers. Passed: a workflow task was completed at some other version.
    version_transition {
        states { Settled, Moving }
        events { Begin, Pass, Finish, Drop }
        steps {
            Settled + Begin => Moving,
            Moving + Begin => Moving,
            Moving + Pass => Moving,
            Moving + Finish => Settled,
            Moving + Drop => Settled,
        }
    }
}

machine! {
    /// A worker process as the server sees it. Detached: its connections are gone, and it has a while to come back.
    /// Inactive is the end: what it held goes to others, and nothing brings it back.
    lease {
        states { Active, Detached, Inactive }
        events { Renew, Detach, Attach, Expire, ShutDown }
        steps {
            Active + Renew => Active,
            Active + Attach => Active,
            Active + Detach => Detached,
            Active + Expire => Inactive,
            Active + ShutDown => Inactive,
            Detached + Renew => Detached,
            Detached + Attach => Active,
            Detached + Detach => Detached,
            Detached + Expire => Inactive,
            Detached + ShutDown => Inactive,
        }
    }
}

/// Records which steps tests took, and lets a test remove one.
#[cfg(any(test, feature = "coverage"))]
pub mod coverage {
    use std::{cell::Cell, collections::BTreeSet, sync::Mutex};

    thread_local! {
        static REMOVED: Cell<Option<(&'static str, usize, usize)>> = const { Cell::new(None) };
    }

    /// Takes a step out of a table, for this thread; `None` puts it back. Shows what becomes of a defect of the engine.
    pub fn remove(step: Option<(&'static str, usize, usize)>) {
        REMOVED.set(step);
    }

    /// Whether a test took this step out of its table.
    pub fn is_removed(machine: &'static str, state: usize, event: usize) -> bool {
        REMOVED.get() == Some((machine, state, event))
    }

    /// Whether a test took a step out of a table, so that a refusal is what it wants to see.
    pub fn is_any_removed() -> bool {
        REMOVED.get().is_some()
    }

    static TAKEN: Mutex<BTreeSet<(&'static str, usize, usize)>> = Mutex::new(BTreeSet::new());

    /// Notes a step.
    pub fn record(machine: &'static str, state: usize, event: usize) {
        TAKEN.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).insert((machine, state, event));
    }

    /// Whether a step was ever taken in this process.
    pub fn taken(machine: &'static str, state: usize, event: usize) -> bool {
        TAKEN.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).contains(&(machine, state, event))
    }
}
