//! Every row of the calls: what is checked, in which order, and what a change leaves.

use std::collections::BTreeMap;

use segno_proto::{Nanos, enums::WorkerDeploymentVersionStatus as Status};

use super::*;
use crate::{
    Deployment, DeploymentError, DeploymentLimits, DrainageView, MemberQueue, PinTimes, PinnedCounts, Pins, QueueType,
    VersionUse, named_version,
};

const GRACE: Nanos = 100;
const UNUSED: VersionUse = VersionUse { pinned: Pins { open: 0, last_unpinned: None }, has_pollers: false };

fn queue(name: &str) -> MemberQueue {
    MemberQueue { name: name.to_owned(), kind: QueueType::Workflow }
}

fn registration(build: &str, name: &str) -> Registration {
    Registration { version: named_version("d".to_owned(), build.to_owned()), queue: queue(name) }
}

fn at(now: Nanos) -> DrainageView {
    DrainageView { now, grace: GRACE }
}

fn polled(builds: &[&str]) -> Deployment {
    let mut deployment = None;
    for (place, build) in builds.iter().enumerate() {
        let now = place as Nanos + 1;
        let limits = DeploymentLimits::default();
        deployment = Some(register(deployment.as_ref(), &registration(build, "q"), &limits, now).expect("a poll"));
    }
    deployment.expect("a deployment")
}

fn change(build: &str, identity: &str) -> RoutingChange {
    let build = (!build.is_empty()).then(|| build.to_owned());
    RoutingChange { name: "d".to_owned(), build, identity: identity.to_owned(), ..Default::default() }
}

fn current(deployment: &Deployment, change: &RoutingChange, now: Nanos) -> Result<CurrentSet, DeploymentError> {
    set_current(Some(deployment), change, &DeploymentLimits::default(), now, &|_| true)
}

fn ramping(
    deployment: &Deployment,
    change: &RoutingChange,
    percentage: f32,
    now: Nanos,
) -> Result<RampingSet, DeploymentError> {
    set_ramping(Some(deployment), change, percentage, &DeploymentLimits::default(), now, &|_| true)
}

fn text<T: std::fmt::Debug>(result: Result<T, DeploymentError>) -> String {
    result.expect_err("it is refused").to_string()
}

fn status(deployment: &Deployment, build: &str, pinned: u64, now: Nanos) -> Status {
    deployment.status(deployment.build(build).expect("a version"), Pins::of(pinned), at(now))
}

#[test]
fn polls_register_and_are_idempotent() {
    let first = polled(&["b1"]);
    assert_eq!(status(&first, "b1", 0, 5), Status::Inactive);
    assert_eq!((first.record.revision, first.record.last_modifier.as_str()), (0, ""));
    let limits = DeploymentLimits::default();
    let again = register(Some(&first), &registration("b1", "q"), &limits, 9).expect("a poll");
    assert_eq!(again, first);
    assert!(Deployment::changed_documents(Some(&first), Some(&again)).is_empty());
    let more = register(Some(&first), &registration("b1", "other"), &limits, 9).expect("a poll");
    let names = |before: Option<&Deployment>, after: &Deployment| -> Vec<String> {
        Deployment::changed_documents(before, Some(after)).into_iter().map(|(name, _)| name).collect()
    };
    assert_eq!(names(Some(&first), &more), ["deployment/d:b1"], "a queue writes its version alone");
    assert_eq!(names(None, &first), ["deployment/d", "deployment/d:b1"]);
    let set = current(&more, &change("b1", "i"), 10).expect("it is set").deployment;
    assert_eq!(names(Some(&more), &set), ["deployment/d"], "routing writes the deployment alone");
    assert_eq!(more.conflict_token(), first.conflict_token(), "a poll leaves the token");
}

#[test]
fn limits_have_their_texts() {
    let limits = DeploymentLimits { versions_max: 1, queues_max: 1, deployments_max: 6, ..Default::default() };
    let deployment = polled(&["b1"]);
    assert_eq!(
        text(register(Some(&deployment), &registration("b2", "q"), &limits, 5)),
        "cannot add version d.b2 since maximum number of versions (1) have been registered in the deployment"
    );
    assert_eq!(
        text(register(Some(&deployment), &registration("b1", "other"), &limits, 5)),
        "cannot add task queue other since maximum number of task queues (1) have been registered in deployment"
    );
    let activities = MemberQueue { kind: QueueType::Activity, ..queue("q") };
    let same_name = Registration { queue: activities, ..registration("b1", "q") };
    assert!(register(Some(&deployment), &same_name, &limits, 5).is_ok(), "another type of a queue is no further name");
    assert_eq!(text(limits.check_deployments(6)), "reached maximum deployments in namespace (6)");
    assert!(limits.check_deployments(5).is_ok());
    assert_eq!(
        text(limits.check_versions_of_queue(200)),
        "exceeding maximum number of Deployment Versions in this task queue (limit = 200)"
    );
}

#[test]
fn creation_is_known_by_its_request() {
    let created = create(None, "d", "i", "r", 5).expect("it is created");
    assert_eq!(create(Some(&created), "d", "x", "r", 9), Ok(created.clone()));
    let exists = "Worker Deployment with name \"d\" already exists";
    assert_eq!(text(create(Some(&created), "d", "i", "other", 9)), exists);
    assert_eq!(
        text(create(Some(&polled(&["b1"])), "d", "i", "r", 9)),
        format!("{exists} (auto-created from worker polls)")
    );
    let mut deployment = created.clone();
    let limits = DeploymentLimits::default();
    create_version(&mut deployment, "b", ("i2", "r"), &limits, 7).expect("it is created");
    assert_eq!(status(&deployment, "b", 0, 8), Status::Created);
    assert_eq!(deployment.record.last_modifier, "i", "the version's creator did not change the deployment");
    assert_eq!(deployment.conflict_token(), created.conflict_token());
    create_version(&mut deployment, "b", ("i2", "r"), &limits, 8).expect("the same request");
    assert_eq!(
        text(create_version(&mut deployment, "b", ("i2", "other"), &limits, 8)),
        "Worker Deployment Version \"d.b\" already exists"
    );
    let polled = register(Some(&deployment), &registration("b", "q"), &limits, 9).expect("a poll");
    assert_eq!(status(&polled, "b", 0, 9), Status::Inactive);
}

#[test]
fn the_current_version_is_set_in_the_order_of_checks() {
    let deployment = polled(&["b1", "b2"]);
    assert_eq!(text(current_request(RoutingChange::default(), "b", "")), "deployment name cannot be empty");
    let unknown = set_current(None, &change("b1", "i"), &DeploymentLimits::default(), 5, &|_| false);
    let no_deployment = "no Worker Deployment found with name 'd'; does your Worker Deployment have pollers?";
    assert_eq!(text(unknown), no_deployment);
    assert_eq!(text(current(&deployment, &change("b3", "i"), 5)), "build ID 'b3' not found in Worker Deployment 'd'");

    let CurrentSet { deployment: first, previous } = current(&deployment, &change("b1", "i"), 10).expect("it is set");
    assert_eq!((previous, first.record.revision, first.record.current_changed), (None, 1, 10));
    assert_eq!(status(&first, "b1", 0, 11), Status::Current);
    assert_ne!(first.conflict_token(), deployment.conflict_token());

    // The same again, even with a token that no longer fits.
    let stale = RoutingChange { conflict_token: deployment.conflict_token(), ..change("b1", "i") };
    let again = current(&first, &stale, 20).expect("nothing changes");
    assert_eq!((&again.deployment, again.previous.as_deref()), (&first, Some("b1")));
    let other = RoutingChange { identity: "other".to_owned(), ..stale };
    assert_eq!(text(current(&first, &other, 20)), "conflict token mismatch");
    let by_other = current(&first, &change("b1", "other"), 20).expect("another caller").deployment;
    assert_eq!((by_other.record.revision, by_other.record.last_modifier.as_str()), (1, "other"));
    assert_ne!(by_other.conflict_token(), first.conflict_token());

    let second = current(&by_other, &change("b2", "i"), 30).expect("it is set");
    assert_eq!(second.previous.as_deref(), Some("b1"));
    assert_eq!(status(&second.deployment, "b1", 0, 31), Status::Draining);
    let none = current(&second.deployment, &change("", "i"), 40).expect("it is unset").deployment;
    assert_eq!((none.record.revision, &none.record.current), (3, &None));
    assert_eq!(status(&none, "b2", 0, 41), Status::Draining);
}

#[test]
fn tokens_always_grow() {
    let deployment = polled(&["b1"]);
    let mut newest = current(&deployment, &change("b1", "i"), 50).expect("it is set").deployment;
    for identity in ["a", "b", "c"] {
        let before = newest.record.conflict_time;
        // The clock stands still.
        newest = current(&newest, &change("b1", identity), 50).expect("it is set").deployment;
        assert!(newest.record.conflict_time > before);
    }
    assert_eq!(newest.conflict_token().len(), 15);
    let mut seconds = Deployment::default();
    seconds.record.conflict_time = 1_500_000_000;
    assert_eq!(seconds.conflict_token()[..], [1, 0, 0, 0, 0x0e, 0x77, 0x91, 0xf7, 1, 0x1d, 0xcd, 0x65, 0, 0xff, 0xff]);
}

#[test]
fn a_manager_is_alone_in_changing_the_routing() {
    let mut deployment = polled(&["b1"]);
    let managed = |manager: &str, identity: &str| NewManager {
        manager: manager.to_owned(),
        identity: identity.to_owned(),
        ..Default::default()
    };
    assert_eq!(text(managed("m", "").check("")), "Identity is required");
    assert_eq!(text(managed("m", "i").check("")), "WorkerDeploymentName cannot be empty");
    assert_eq!(set_manager(&mut deployment, &managed("m", "m"), 5), Ok(String::new()));
    let token = deployment.conflict_token();
    assert_eq!(set_manager(&mut deployment, &managed("m", "m"), 6), Ok("m".to_owned()));
    assert_eq!(deployment.conflict_token(), token, "nothing changed");
    let refused = |who: &str| {
        format!(
            "ManagerIdentity 'm' is set and does not match user identity '{who}'; to proceed, set your own identity as the \
             ManagerIdentity, remove the ManagerIdentity, or wait for the other client to do so"
        )
    };
    assert_eq!(text(current(&deployment, &change("b1", ""), 7)), refused(""));
    assert_eq!(text(ramping(&deployment, &change("b1", "i"), 5.0, 7)), refused("i"));
    // An unknown version is told first.
    assert!(text(current(&deployment, &change("b9", "i"), 7)).starts_with("build ID 'b9' not found"));
    assert!(current(&deployment, &change("b1", "m"), 7).is_ok());
    let deleted = delete_version(&mut deployment.clone(), "b1", ("i", true), &|| UNUSED, at(8));
    assert_eq!(text(deleted), refused("i"));
    assert_eq!(
        set_manager(&mut deployment, &managed("other", "other"), 9),
        Ok("m".to_owned()),
        "any caller takes over"
    );
    let stale = NewManager { conflict_token: token, ..managed("", "x") };
    assert_eq!(text(set_manager(&mut deployment, &stale, 10)), "conflict token mismatch");
}

#[test]
fn a_ramp_is_set_changed_and_removed() {
    let deployment = polled(&["b1", "b2"]);
    let out = "Percentage must be between 0 and 100 (inclusive)";
    for percentage in [101.0, -1.0, f32::NAN] {
        assert_eq!(text(ramping_request(change("", "i"), ("b2", ""), percentage)), out);
    }
    let empty = RoutingChange::default();
    assert_eq!(
        text(ramping_request(empty.clone(), ("b", ""), 5.0)),
        "invalid version string: deployment name is empty in version string .b"
    );
    assert_eq!(text(ramping_request(empty.clone(), ("", ""), 5.0)), "WorkerDeploymentName cannot be empty");
    // The percentage is looked at before names and strings.
    for (build, version) in [("b", ""), ("", "nothing"), ("", "")] {
        assert_eq!(text(ramping_request(empty.clone(), (build, version), 101.0)), out);
    }
    assert_eq!(
        text(ramping(&deployment, &change("", "i"), 50.0, 5)),
        "requested ramping version __unversioned__ is already current"
    );
    let RampingSet { deployment: first, previous, .. } =
        ramping(&deployment, &change("b2", "i"), 30.0, 10).expect("it ramps");
    assert_eq!((previous, first.record.revision), (None, 1));
    assert_eq!(status(&first, "b2", 0, 11), Status::Ramping);
    let same = ramping(&first, &change("b2", "i"), 30.0, 20).expect("nothing changes");
    assert_eq!((&same.deployment, same.previous_percentage), (&first, 30.0));
    let more = ramping(&first, &change("b2", "i"), 60.0, 20).expect("it is raised").deployment;
    let times = |deployment: &Deployment| (deployment.record.ramping_changed, deployment.record.percentage_changed);
    assert_eq!((times(&more), more.record.revision), ((10, 20), 2));
    let nothing = ramping(&more, &change("b2", "i"), 0.0, 30).expect("it is a ramp of nothing").deployment;
    assert_eq!(status(&nothing, "b2", 0, 31), Status::Ramping);
    let removed = ramping(&nothing, &change("", "i"), 0.0, 40).expect("it is removed");
    assert_eq!(removed.previous, Some(Some("b2".to_owned())));
    let removed = removed.deployment;
    assert_eq!((times(&removed), &removed.record.ramping), ((40, 40), &None));
    assert_eq!(status(&removed, "b2", 0, 41), Status::Draining);
    assert_eq!(ramping(&removed, &change("", "i"), 0.0, 50).expect("nothing").deployment, removed);
    let by_other = ramping(&removed, &change("", "other"), 0.0, 50).expect("another caller").deployment;
    assert_eq!((times(&by_other), by_other.record.revision), ((40, 40), removed.record.revision));
    assert_ne!(by_other.conflict_token(), removed.conflict_token());
}

#[test]
fn what_becomes_current_no_longer_ramps() {
    let deployment = polled(&["b1", "b2"]);
    let deployment = current(&deployment, &change("b1", "i"), 5).expect("it is set").deployment;
    assert_eq!(
        text(ramping(&deployment, &change("b1", "i"), 5.0, 6)),
        "requested ramping version d.b1 is already current"
    );
    let ramped = ramping(&deployment, &change("b2", "i"), 100.0, 7).expect("it ramps").deployment;
    let set = current(&ramped, &change("b2", "i"), 8).expect("it is set").deployment;
    assert_eq!((&set.record.ramping, set.record.percentage, set.record.ramping_changed), (&None, 0.0, 8));
    let known = set.build("b2").expect("a version");
    assert_eq!((known.ramping_since, known.current_since, known.first_activated), (0, 8, 7));
    let unversioned = ramping(&set, &change("", "i"), 25.0, 9).expect("it ramps").deployment;
    assert_eq!(unversioned.ramping_build(), Some(None));
    let unset = current(&unversioned, &change("", "i"), 10).expect("it is unset").deployment;
    assert_eq!(unset.ramping_build(), None, "workers without a version do not ramp to themselves");
}

#[test]
fn queues_of_the_current_version_may_not_get_lost() {
    let limits = DeploymentLimits::default();
    let deployment = register(Some(&polled(&["b1", "b2"])), &registration("b1", "other"), &limits, 5).expect("a poll");
    let deployment = current(&deployment, &change("b1", "i"), 6).expect("it is set").deployment;
    assert_eq!(missing_queues(&deployment, "b2"), [queue("other")]);
    let text_for = |what: &str| {
        format!(
            "proposed {what} version 'd:b2' is missing active task queues from the current version; these would become \
             unversioned if it is set as the {what} version"
        )
    };
    assert_eq!(text(current(&deployment, &change("b2", "i"), 7)), text_for("current"));
    assert_eq!(text(ramping(&deployment, &change("b2", "i"), 5.0, 7)), text_for("ramping"));
    assert!(set_current(Some(&deployment), &change("b2", "i"), &limits, 7, &|_| false).is_ok(), "it has no tasks");
    let ignoring = RoutingChange { ignore_missing_queues: true, ..change("b2", "i") };
    assert!(current(&deployment, &ignoring, 7).is_ok());
    assert!(current(&deployment, &change("", "i"), 7).is_ok(), "everything becomes unversioned on purpose");
}

#[test]
fn a_change_creates_what_nothing_polls_yet() {
    let limits = DeploymentLimits::default();
    let creating = RoutingChange { allow_no_pollers: true, ..change("b1", "i") };
    let set = set_current(None, &creating, &limits, 5, &|_| true).expect("it is created").deployment;
    assert_eq!((set.record.revision, status(&set, "b1", 0, 6)), (1, Status::Current));
    let bad = RoutingChange { allow_no_pollers: true, ..change("", "i") };
    assert_eq!(text(current_request(bad, "__b", "")), "BuildID cannot start with '__'");
    assert!(current_request(change("", "i"), "__b", "").is_ok(), "without it a bad build id is not found");
}

#[test]
fn versions_are_deleted_unless_something_uses_them() {
    let deployment = polled(&["b1", "b2", "b3"]);
    let deployment = current(&deployment, &change("b1", "i"), 5).expect("it is set").deployment;
    let mut deployment = current(&deployment, &change("b2", "i"), 6).expect("it is set").deployment;
    let token = deployment.conflict_token();
    let refused = |why: &str, build: &str| format!("version 'd:{build}' cannot be deleted since it {why}");
    let delete = |deployment: &mut Deployment, build: &str, skip: bool, usage: VersionUse, now: Nanos| {
        delete_version(deployment, build, ("deleter", skip), &|| usage, at(now))
    };
    let is = |result, expected: String| assert_eq!(text(result), expected);
    let polling = VersionUse { has_pollers: true, pinned: Pins::of(1) };
    is(delete(&mut deployment, "b2", true, UNUSED, 7), refused("is current or ramping", "b2"));
    is(delete(&mut deployment, "b1", false, polling, 7), refused("is draining", "b1"));
    is(delete(&mut deployment, "b1", true, polling, 7), refused("has active pollers", "b1"));
    assert!(!is_removable(&deployment, "b1", UNUSED, at(7)));
    assert!(is_removable(&deployment, "b1", UNUSED, at(6 + GRACE)));
    assert!(!is_removable(&deployment, "b3", polling, at(7)) && is_removable(&deployment, "b3", UNUSED, at(7)));
    assert_eq!(text(check_deletable(&deployment)), "deployment has versions, can't be deleted");
    delete(&mut deployment, "b1", false, UNUSED, 6 + GRACE).expect("it is drained");
    delete(&mut deployment, "b1", false, UNUSED, 6 + GRACE).expect("it is gone already");
    delete(&mut deployment, "b3", false, UNUSED, 7).expect("it was never active");
    assert_eq!((deployment.record.last_modifier.as_str(), deployment.conflict_token()), ("deleter", token));
    let anew = register(Some(&deployment), &registration("b3", "q"), &DeploymentLimits::default(), 99).expect("a poll");
    assert_eq!(anew.build("b3").map(|known| known.created), Some(99));
}

#[test]
fn a_version_drains_for_the_grace_and_while_workflows_are_pinned_to_it() {
    let deployment = polled(&["b1", "b2"]);
    let deployment = current(&deployment, &change("b1", "i"), 5).expect("it is set").deployment;
    let mut deployment = current(&deployment, &change("b2", "i"), 1000).expect("it is set").deployment;
    assert_eq!(status(&deployment, "b1", 0, 1000 + GRACE - 1), Status::Draining);
    assert_eq!(status(&deployment, "b1", 0, 1000 + GRACE), Status::Drained);
    assert_eq!(status(&deployment, "b1", 1, 9000), Status::Draining);
    assert_eq!(status(&deployment, "b2", 7, 9000), Status::Current);

    let changed = |deployment: &Deployment, pins: Pins, now| {
        let known = deployment.build("b1").expect("a version");
        deployment.drainage(known, pins, at(now)).map(|drainage| drainage.changed)
    };
    assert_eq!(changed(&deployment, Pins::of(1), 1500), Some(1000), "since it was deactivated");
    assert_eq!(changed(&deployment, Pins::of(0), 3000), Some(1000 + GRACE), "since the grace was over");
    let unpinned = Pins { last_unpinned: Some(1900), ..Pins::of(0) };
    assert_eq!(changed(&deployment, unpinned, 3000), Some(1900), "since the last workflow closed");
    deployment.note_drainages(&PinnedCounts::default(), &times(None, Some(1900)), at(2000));
    assert_eq!(changed(&deployment, Pins::of(0), 3000), Some(1900), "as it was noted");
    deployment.note_drainages(&pinned(1), &times(Some(3990), None), at(4000));
    let both = (status(&deployment, "b1", 1, 5000), changed(&deployment, Pins::of(1), 5000));
    assert_eq!(both, (Status::Draining, Some(3990)), "since it was pinned to");
    deployment.note_drainages(&pinned(0), &times(None, Some(5990)), at(6000));
    assert_eq!(status(&deployment, "b1", 0, 6000), Status::Drained);
    assert_eq!(changed(&deployment, Pins::of(0), 7000), Some(5990));
    let active = current(&deployment, &change("b1", "i"), 7000).expect("it is set").deployment;
    let known = active.build("b1").expect("a version");
    assert_eq!((known.deactivated, known.first_activated, known.drainage), (0, 5, 0));
}

fn pinned(count: u64) -> PinnedCounts {
    PinnedCounts { open: [("d:b1".to_owned(), count)].into(), ..Default::default() }
}

fn times(pinned: Option<Nanos>, unpinned: Option<Nanos>) -> BTreeMap<String, PinTimes> {
    [("b1".to_owned(), PinTimes { pinned, unpinned })].into()
}

#[test]
fn a_version_that_was_never_active_drains_if_workflows_are_pinned_to_it() {
    let mut deployment = polled(&["b1"]);
    assert_eq!(status(&deployment, "b1", 1, 50), Status::Draining);
    deployment.note_drainages(&pinned(1), &times(Some(40), None), at(50));
    assert_eq!(status(&deployment, "b1", 0, 1000), Status::Drained);
}

#[test]
fn a_version_to_which_a_workflow_was_pinned_for_a_moment_is_drained_after_that() {
    let mut deployment = polled(&["b1"]);
    deployment.note_drainages(&pinned(0), &times(Some(40), Some(45)), at(50));
    let known = deployment.build("b1").expect("a version");
    assert_eq!((status(&deployment, "b1", 0, 60), known.drainage_changed), (Status::Drained, 45));
    let fresh = polled(&["b1"]);
    let seen = |unpinned| {
        let known = fresh.build("b1").expect("a version");
        fresh.status(known, Pins { open: 0, last_unpinned: Some(unpinned) }, at(60))
    };
    assert_eq!(seen(45), Status::Drained, "before it is noted");
    assert_eq!(seen(0), Status::Inactive, "that was an earlier version of this name");
    let mut times = PinTimes { pinned: Some(40), unpinned: None };
    times.add(PinTimes { pinned: Some(30), unpinned: Some(50) });
    times.add(PinTimes { pinned: None, unpinned: Some(45) });
    assert_eq!(times, PinTimes { pinned: Some(30), unpinned: Some(50) });
}

#[test]
fn polls_with_bad_names_register_nothing() {
    let limits = DeploymentLimits::default();
    let refused = |name: &str, build: &str| {
        let version = named_version(name.to_owned(), build.to_owned());
        text(register(None, &Registration { version, queue: queue("q") }, &limits, 1))
    };
    assert_eq!(refused("a:b", "1"), "worker deployment name cannot contain ':'");
    assert_eq!(refused("a", ""), "BuildID cannot be empty");
    assert_eq!(refused("a", "__1"), "BuildID cannot start with '__'");
}

#[test]
fn a_document_that_cannot_be_read_sets_its_deployment_alone_aside() {
    let mut stored = crate::StoredDeployments::default();
    for (name, content) in Deployment::changed_documents(None, Some(&polled(&["b1"]))) {
        stored.add(&name, content.expect("it is there"));
    }
    // A version that its deployment does not list.
    stored.add("deployment/d:other", vec![0xff; 3].into());
    stored.add("deployment/e", vec![0xff; 3].into());
    stored.add("deployment/f:b1", vec![].into());
    let loaded = stored.finish();
    assert_eq!(loaded.deployments, [polled(&["b1"])]);
    assert_eq!(loaded.unreadable.keys().collect::<Vec<_>>(), ["e", "f"]);
    let (registry, namespace) = (crate::Registry::default(), segno_store::NamespaceKey(1));
    assert_eq!(registry.set_unreadable(namespace, loaded.unreadable.clone()).len(), 2);
    assert!(registry.set_unreadable(namespace, loaded.unreadable).is_empty(), "they are known");
    assert!(registry.unreadable(namespace, "e").is_some() && registry.unreadable(namespace, "d").is_none());
    registry.retain(|_| false);
    assert!(registry.unreadable(namespace, "e").is_none());
}

#[test]
fn metadata_is_added_before_it_is_removed() {
    let mut deployment = polled(&["b1"]);
    let change = |upserts: &[&str], removals: &[&str]| MetadataChange {
        upserts: upserts.iter().map(|key| ((*key).to_owned(), Default::default())).collect(),
        removals: removals.iter().map(|key| (*key).to_owned()).collect(),
        identity: "i".to_owned(),
    };
    assert_eq!(text(change(&[], &[]).check()), "At least one of remove_entries or upsert_entries must be provided");
    let keys = |result: Result<BTreeMap<String, _>, DeploymentError>| -> Vec<String> {
        result.expect("it is changed").into_keys().collect()
    };
    let described = |deployment: &Deployment| {
        let info = deployment.version_info("b1", &PinnedCounts::default(), at(1)).expect("the version is there");
        info.metadata.map(|metadata| metadata.entries.into_keys().collect::<Vec<String>>())
    };
    assert_eq!(described(&deployment), None);
    assert_eq!(keys(update_metadata(&mut deployment, "b1", &change(&["a", "b"], &["b", "c"]))), ["a"]);
    assert_eq!(described(&deployment), Some(vec!["a".to_owned()]));
    assert!(keys(update_metadata(&mut deployment, "b1", &change(&[], &["a"]))).is_empty());
    assert_eq!(described(&deployment), Some(Vec::new()));
    assert_eq!(
        text(update_metadata(&mut deployment, "b9", &change(&["a"], &[]))),
        "workflow not found for ID: temporal-sys-worker-deployment-version:d:b9"
    );
}
