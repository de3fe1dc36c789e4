//! Every arrow of the state machines is taken by some scenario, and nothing else is possible.

use std::{collections::BTreeSet, fmt::Debug};

use crate::common::world::{EPOCH, World, start_request};
use segno_engine::{
    Rejection,
    machine::{self, IllegalStep, coverage, run},
    terminate::{self, Terminate},
    update::abort::{self, Reason, Stage},
};

/// Checks one machine: all pairs outside the table are refused, all pairs inside lead where it says. Returns the steps
/// of the table that no scenario took.
fn check<S, E>(
    name: &'static str,
    steps: &[(S, E, S)],
    next: impl Fn(S, E) -> Result<S, IllegalStep>,
    number: impl Fn(S, E) -> (usize, usize),
) -> Vec<String>
where
    S: Copy + Ord + Debug,
    E: Copy + Ord + Debug,
{
    let states: BTreeSet<S> = steps.iter().flat_map(|(from, _, to)| [*from, *to]).collect();
    let events: BTreeSet<E> = steps.iter().map(|(_, on, _)| *on).collect();
    let mut untaken = Vec::new();
    for (from, on, _) in steps {
        let (state, event) = number(*from, *on);
        if !coverage::taken(name, state, event) {
            untaken.push(format!("{name}: {from:?} + {on:?}"));
        }
    }
    for state in &states {
        for event in &events {
            let legal: Vec<S> =
                steps.iter().filter(|(from, on, _)| (from, on) == (state, event)).map(|(_, _, to)| *to).collect();
            assert!(legal.len() <= 1, "{name}: {state:?} + {event:?} leads to {legal:?}");
            match (legal.first(), next(*state, *event)) {
                (Some(to), Ok(reached)) => assert_eq!(*to, reached),
                (None, Err(error)) => {
                    assert_eq!(error.machine, name);
                    assert_eq!(error.state, format!("{state:?}"));
                    assert_eq!(error.event, format!("{event:?}"));
                }
                (legal, reached) => panic!("{name}: {state:?} + {event:?}: {legal:?} in the table, {reached:?}"),
            }
        }
    }
    untaken
}

/// The table of how updates end: every pair is there once and was needed by some scenario. Returns those that were not.
fn check_aborts() -> Vec<String> {
    let stages: BTreeSet<Stage> = abort::TABLE.iter().map(|(stage, _, _)| *stage).collect();
    let reasons: BTreeSet<Reason> = abort::TABLE.iter().map(|(_, reason, _)| *reason).collect();
    assert_eq!((stages.len(), reasons.len()), (3, 4), "a stage or a reason is missing");
    assert_eq!(abort::TABLE.len(), stages.len() * reasons.len(), "a pair is missing");
    let mut untaken = Vec::new();
    for stage in &stages {
        for reason in &reasons {
            let rows: Vec<_> = abort::TABLE.iter().filter(|(s, r, _)| (s, r) == (stage, reason)).collect();
            assert_eq!(rows.len(), 1, "{stage:?} x {reason:?}");
            if !coverage::taken("update_abort", *stage as usize, *reason as usize) {
                untaken.push(format!("update_abort: {stage:?} x {reason:?}"));
            }
            assert_eq!(abort::outcome(*stage, *reason), rows[0].2);
        }
    }
    untaken
}

#[test]
fn every_arrow_is_taken_and_no_other_exists() {
    for path in crate::common::scenario::files() {
        crate::common::scenario::run_file(&path);
    }
    // Coverage is looked at machine by machine before the illegal pairs of that machine are tried.
    let mut untaken = Vec::new();
    untaken.extend(check(
        "workflow_task",
        machine::workflow_task::STEPS,
        machine::workflow_task::next,
        |state, event| (state as usize, event as usize),
    ));
    untaken.extend(check("activity", machine::activity::STEPS, machine::activity::next, |state, event| {
        (state as usize, event as usize)
    }));
    untaken.extend(check("child", machine::child::STEPS, machine::child::next, |state, event| {
        (state as usize, event as usize)
    }));
    untaken
        .extend(check("run", machine::run::STEPS, machine::run::next, |state, event| (state as usize, event as usize)));
    untaken.extend(check("update", machine::update::STEPS, machine::update::next, |state, event| {
        (state as usize, event as usize)
    }));
    untaken.extend(check(
        "nexus_operation",
        machine::nexus_operation::STEPS,
        machine::nexus_operation::next,
        |state, event| (state as usize, event as usize),
    ));
    untaken.extend(check(
        "nexus_cancellation",
        machine::nexus_cancellation::STEPS,
        machine::nexus_cancellation::next,
        |state, event| (state as usize, event as usize),
    ));
    untaken.extend(check(
        "version_transition",
        machine::version_transition::STEPS,
        machine::version_transition::next,
        |state, event| (state as usize, event as usize),
    ));
    untaken.extend(check_aborts());
    assert!(untaken.is_empty(), "in a table, but no scenario gets there:\n{}", untaken.join("\n"));
}

/// A call whose step a test took out of its table is refused, also as a part of several transitions and in a successor.
#[test]
fn a_transition_with_an_illegal_step_is_refused() {
    let (world, _) = World::begin(start_request(), EPOCH);
    let terminate = || terminate::terminate(&world.run, world.context(), Terminate::default()).expect("it runs");
    let sound = terminate();
    assert_eq!(sound.transition.check(), Ok(()));
    coverage::remove(Some(("run", run::State::Running as usize, run::Event::Terminate as usize)));
    let defective = terminate();
    coverage::remove(None);
    let illegal = IllegalStep { machine: "run", state: "Running".to_owned(), event: "Terminate".to_owned() };
    let refused = Err(Rejection::Defect(illegal));
    assert_eq!(defective.transition.check(), refused);

    let mut joined = sound.transition.clone();
    joined.then(defective.transition.clone());
    assert_eq!(joined.check(), refused, "the second one is defective");
    let mut joined = defective.transition.clone();
    joined.then(sound.transition.clone());
    assert_eq!(joined.check(), refused, "the first one is defective");
    let mut before = sound;
    before.transition.successor = Some(Box::new(defective));
    assert_eq!(before.transition.check(), refused, "the run that follows is defective");
}
