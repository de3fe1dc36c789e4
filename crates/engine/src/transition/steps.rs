//! Checks the steps of transitions against the tables of [`crate::machine`].
//!
//! Every change of a state machine is made inside [`Draft::step`]. A step that is not in the table is a defect of the
//! engine: nothing is changed, and the whole transition is refused (`Transition::illegal`). Builds with assertions stop
//! there, and compare the state after each step with the one in the table.

use std::fmt::Debug;

use crate::{
    machine::{self, IllegalStep},
    state::machines,
    transition::draft::Draft,
};

/// A machine in a run.
pub(crate) trait Machine {
    /// Where it can be.
    type State: Debug + PartialEq;
    /// The events of the machine.
    type Event;

    /// Where it stands.
    fn state(&self, draft: &Draft) -> Self::State;

    /// The next state, from the table.
    fn next(state: Self::State, event: Self::Event) -> Result<Self::State, IllegalStep>;
}

/// The workflow task.
pub(crate) struct TaskMachine;

impl Machine for TaskMachine {
    type State = machine::workflow_task::State;
    type Event = machine::workflow_task::Event;

    fn state(&self, draft: &Draft) -> Self::State {
        machines::workflow_task(&draft.run)
    }

    fn next(state: Self::State, event: Self::Event) -> Result<Self::State, IllegalStep> {
        machine::workflow_task::next(state, event)
    }
}

/// An activity, by its scheduled event.
pub(crate) struct ActivityMachine(pub i64);

impl Machine for ActivityMachine {
    type State = machine::activity::State;
    type Event = machine::activity::Event;

    fn state(&self, draft: &Draft) -> Self::State {
        let found = draft.run.state.activities.get(&self.0);
        found.map_or(Self::State::Ended, |found| machines::activity(found, draft.now()))
    }

    fn next(state: Self::State, event: Self::Event) -> Result<Self::State, IllegalStep> {
        machine::activity::next(state, event)
    }
}

/// The run on its way to another version.
pub(crate) struct TransitionMachine;

impl Machine for TransitionMachine {
    type State = machine::version_transition::State;
    type Event = machine::version_transition::Event;

    fn state(&self, draft: &Draft) -> Self::State {
        machines::version_transition(&draft.run)
    }

    fn next(state: Self::State, event: Self::Event) -> Result<Self::State, IllegalStep> {
        machine::version_transition::next(state, event)
    }
}

/// A child, by its initiated event.
pub(crate) struct ChildMachine(pub i64);

impl Machine for ChildMachine {
    type State = machine::child::State;
    type Event = machine::child::Event;

    fn state(&self, draft: &Draft) -> Self::State {
        draft.run.state.children.get(&self.0).map_or(Self::State::Gone, machines::child)
    }

    fn next(state: Self::State, event: Self::Event) -> Result<Self::State, IllegalStep> {
        machine::child::next(state, event)
    }
}

/// A Nexus operation, by its scheduled event.
pub(crate) struct OperationMachine(pub i64);

impl Machine for OperationMachine {
    type State = machine::nexus_operation::State;
    type Event = machine::nexus_operation::Event;

    fn state(&self, draft: &Draft) -> Self::State {
        let found = draft.run.state.operations.get(&self.0);
        found.map_or(Self::State::Gone, |found| machines::nexus_operation(found, draft.now()))
    }

    fn next(state: Self::State, event: Self::Event) -> Result<Self::State, IllegalStep> {
        machine::nexus_operation::next(state, event)
    }
}

/// The cancellation of a Nexus operation, by the operation's scheduled event.
pub(crate) struct CancellationMachine(pub i64);

impl Machine for CancellationMachine {
    type State = machine::nexus_cancellation::State;
    type Event = machine::nexus_cancellation::Event;

    fn state(&self, draft: &Draft) -> Self::State {
        let found = draft.run.state.operations.get(&self.0);
        found.map_or(Self::State::Absent, |found| machines::nexus_cancellation(found, draft.now()))
    }

    fn next(state: Self::State, event: Self::Event) -> Result<Self::State, IllegalStep> {
        machine::nexus_cancellation::next(state, event)
    }
}

/// The run itself.
pub(crate) struct RunMachine;

impl Machine for RunMachine {
    type State = machine::run::State;
    type Event = machine::run::Event;

    fn state(&self, draft: &Draft) -> Self::State {
        machines::run(&draft.run)
    }

    fn next(state: Self::State, event: Self::Event) -> Result<Self::State, IllegalStep> {
        machine::run::next(state, event)
    }
}

/// An update, by its id.
pub(crate) struct UpdateMachine<'a>(pub &'a str);

impl Machine for UpdateMachine<'_> {
    type State = machine::update::State;
    type Event = machine::update::Event;

    fn state(&self, draft: &Draft) -> Self::State {
        machines::update(&draft.run, self.0)
    }

    fn next(state: Self::State, event: Self::Event) -> Result<Self::State, IllegalStep> {
        machine::update::next(state, event)
    }
}

impl Draft {
    /// Moves a machine. Returns whether its table has the step; if not, nothing changes and the transition is refused.
    pub(crate) fn step<M: Machine>(&mut self, of: M, event: M::Event, change: impl FnOnce(&mut Self)) -> bool {
        let after = match M::next(of.state(self), event) {
            Ok(after) => after,
            Err(illegal) => {
                debug_assert!(is_expected(), "{illegal}");
                self.refuse(illegal);
                return false;
            }
        };
        change(self);
        debug_assert_eq!(of.state(self), after, "a step leads where its table does not say");
        true
    }
}

/// Whether a test asked for a refused step.
#[cfg(any(test, feature = "coverage"))]
fn is_expected() -> bool {
    machine::coverage::is_any_removed()
}

#[cfg(not(any(test, feature = "coverage")))]
fn is_expected() -> bool {
    false
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use segno_proto::enums::WorkflowExecutionStatus;

    use super::*;
    use crate::{
        limits::Limits,
        machine::workflow_task::Event,
        state::{RunInfo, RunState, run::Run},
        transition::Context,
    };

    fn draft() -> Draft {
        let state = RunState { status: WorkflowExecutionStatus::Running as i32, ..Default::default() };
        let context = Context { now: 1, new_run_key: 1, new_run_seed: 1, limits: Limits::default(), script: None };
        Draft::of(Run::new(RunInfo::default(), state), context)
    }

    #[test]
    #[should_panic(expected = "a step leads where its table does not say")]
    fn a_change_that_is_not_what_the_table_says_is_noticed() {
        draft().step(TaskMachine, Event::Schedule, |_| {});
    }

    #[test]
    #[should_panic(expected = "workflow_task: Start is not possible in state Absent")]
    fn a_step_that_the_table_does_not_have_is_noticed() {
        draft().step(TaskMachine, Event::Start, |_| {});
    }
}
