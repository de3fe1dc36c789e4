//! Options of a run that are changed while it runs.

use crate::common::{
    rebuilt,
    world::{EPOCH, World, answer, is_member, start_request},
};
use segno_engine::{
    Durability, Rejection,
    options::{self, UpdateOptions},
    terminate, version_wait,
};
use segno_proto::{
    common::Priority,
    deployment::WorkerDeploymentVersion,
    events::{WorkflowExecutionOptionsUpdatedEventAttributes, history_event::Attributes},
    workflow::{
        VersioningOverride, WorkflowExecutionOptions,
        versioning_override::{Override, PinnedOverride, PinnedOverrideBehavior},
    },
};

fn priority(key: i32) -> Option<Priority> {
    Some(Priority { priority_key: key, ..Default::default() })
}

fn change(options: WorkflowExecutionOptions, paths: &[&str]) -> UpdateOptions {
    let paths = paths.iter().map(|path| (*path).to_owned()).collect();
    UpdateOptions { options, paths, identity: "operator".to_owned() }
}

fn prioritise(key: i32) -> UpdateOptions {
    change(WorkflowExecutionOptions { priority: priority(key), ..Default::default() }, &["priority"])
}

fn with_override(wanted: Option<Override>) -> UpdateOptions {
    let versioning_override =
        wanted.map(|wanted| VersioningOverride { r#override: Some(wanted), ..Default::default() });
    change(WorkflowExecutionOptions { versioning_override, ..Default::default() }, &["versioningOverride"])
}

fn apply(world: &mut World, call: &UpdateOptions) -> Result<(WorkflowExecutionOptions, Durability), Rejection> {
    let taken = world.call(|run, context| options::update(run, context, call, &is_member))?;
    Ok((taken.reply, taken.transition.durability))
}

fn updates(world: &World) -> Vec<WorkflowExecutionOptionsUpdatedEventAttributes> {
    let updated = |attributes: Option<Attributes>| match attributes {
        Some(Attributes::WorkflowExecutionOptionsUpdatedEventAttributes(updated)) => Some(updated),
        _ => None,
    };
    world.history().into_iter().filter_map(|event| updated(event.attributes)).collect()
}

#[test]
fn a_change_is_an_event_and_survives_a_crash() {
    let mut world = World::begin(start_request(), EPOCH).0;
    let (options, durability) = apply(&mut world, &prioritise(2)).expect("it is taken");
    assert_eq!((options.priority, durability), (priority(2), Durability::Durable));
    assert_eq!(apply(&mut world, &prioritise(2)).expect("it is taken").1, Durability::Unchanged);
    assert_eq!(updates(&world).len(), 1, "what changes nothing leaves no event");
    world.crash();
    assert_eq!(world.run.info.priority, priority(2));
    rebuilt::check(&world.run, &world.history());
}

#[test]
fn parts_of_a_priority_are_changed_by_themselves() {
    let mut world = World::begin(start_request(), EPOCH).0;
    apply(&mut world, &prioritise(2)).expect("it is taken");
    let given = Priority { priority_key: 5, fairness_key: "k".to_owned(), fairness_weight: 3.0 };
    let given = WorkflowExecutionOptions { priority: Some(given), ..Default::default() };
    let (options, _) = apply(&mut world, &change(given, &["priority.fairnessKey"])).expect("it is taken");
    let wanted = Priority { priority_key: 2, fairness_key: "k".to_owned(), fairness_weight: 0.0 };
    assert_eq!(options.priority, Some(wanted.clone()));
    // Taken away in the answer, but not from the run: the event cannot say it.
    let nothing = change(WorkflowExecutionOptions::default(), &["priority"]);
    assert_eq!(apply(&mut world, &nothing).expect("it is taken").0.priority, None);
    assert_eq!(world.run.info.priority, Some(wanted));
}

#[test]
fn an_override_is_told_by_search_attributes() {
    const BEHAVIOR: &str = "TemporalWorkflowVersioningBehavior";
    let mut world = World::begin(start_request(), EPOCH).0;
    apply(&mut world, &with_override(Some(Override::AutoUpgrade(true)))).expect("it is taken");
    assert!(world.run.state().search_attributes.contains_key(BEHAVIOR));
    rebuilt::check(&world.run, &world.history());
    apply(&mut world, &with_override(None)).expect("it is taken");
    assert!(!world.run.state().search_attributes.contains_key(BEHAVIOR));
    assert!(world.run.state().versioning.is_some(), "Describe tells that there was one");
    assert!(updates(&world)[1].unset_versioning_override);
    rebuilt::check(&world.run, &world.history());
}

#[test]
fn a_wait_for_a_version_is_noted_once_and_ends_with_the_wait() {
    let version = WorkerDeploymentVersion { deployment_name: "d".to_owned(), build_id: "b".to_owned() };
    let note = |world: &mut World| {
        let noted = world.call(|run, context| version_wait::note(run, context, &version));
        noted.expect("it is taken").transition.durability
    };
    let waits = |world: &World| {
        let noted = world.run.state().search_attributes.get("WaitsForVersion");
        noted.map(|payload| payload.data.clone())
    };
    let mut world = World::begin(start_request(), EPOCH).0;
    assert_eq!((note(&mut world), note(&mut world)), (Durability::Durable, Durability::Unchanged));
    world.crash();
    assert_eq!(waits(&world).as_deref(), Some(br#""d:b""#.as_slice()));
    world.start_task("q").expect("there is a task");
    let call = answer(world.token());
    world.complete_task(call).expect("it is taken");
    assert_eq!(waits(&world), None);
    assert_eq!(note(&mut world), Durability::Unchanged, "no task waits");

    let mut world = World::begin(start_request(), EPOCH).0;
    note(&mut world);
    let elsewhere = Some(WorkerDeploymentVersion { build_id: "b1".to_owned(), ..version.clone() });
    let pinned = PinnedOverride { version: elsewhere, behavior: PinnedOverrideBehavior::Pinned.into() };
    apply(&mut world, &with_override(Some(Override::Pinned(pinned)))).expect("it is taken");
    assert_eq!(waits(&world), None);
    note(&mut world);
    let end = terminate::Terminate::default();
    world.call(|run, context| terminate::terminate(run, context, end)).expect("it is taken");
    assert_eq!(waits(&world), None);
}

#[test]
fn a_change_waits_for_the_worker_that_holds_the_task() {
    let mut world = World::begin(start_request(), EPOCH).0;
    world.start_task("q").expect("there is a task");
    apply(&mut world, &prioritise(1)).expect("it is taken");
    assert_eq!(world.run.info.priority, priority(1), "it is in effect at once");
    assert!(updates(&world).is_empty());
    let call = answer(world.token());
    world.complete_task(call).expect("it is taken");
    assert_eq!(updates(&world).len(), 1);
    rebuilt::check(&world.run, &world.history());
}

#[test]
fn what_cannot_be_is_refused() {
    let mut world = World::begin(start_request(), EPOCH).0;
    let pinned = with_override(Some(Override::Pinned(PinnedOverride::default())));
    assert!(matches!(apply(&mut world, &pinned), Err(Rejection::InvalidArgument(_))));
    let half = change(WorkflowExecutionOptions::default(), &["versioningOverride.behavior"]);
    assert!(matches!(apply(&mut world, &half), Err(Rejection::InvalidArgument(_))));
    let end = terminate::Terminate::default();
    world.call(|run, context| terminate::terminate(run, context, end)).expect("it is taken");
    assert_eq!(apply(&mut world, &prioritise(1)).map(drop), Err(Rejection::Closed));
}
