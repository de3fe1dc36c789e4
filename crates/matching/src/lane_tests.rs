//! Which task goes to workers of which version: each rule by itself, and all of them against a model that keeps one list.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use segno_deployments::{
    MemberQueue, NamespaceRouting, QueueRouting, QueueType, Ramp, Registry, Target, Version, named_version,
};
use segno_environment::{clock::SystemClock, hash::HashSet};
use segno_proto::{Nanos, deployment::WorkerDeploymentOptions, enums::WorkerVersioningMode};
use segno_store::{NamespaceKey, RunKey};
use tokio::sync::oneshot;

use super::{
    Matching, PollerVersion, QueueKey, QueueKind, QueuePlace, QueuePoll, TaskOffer, TaskRoute,
    lane::PollAnswer,
    queue::{OfferOutcome, Queue},
    route::LaneRouting,
    task::{Fairness, QueuedTask},
};

const NAMESPACE: NamespaceKey = NamespaceKey(1);
const BACKLOG_MAX: usize = 50_000;
const SECOND: Nanos = 1_000_000_000;
const MEMORY: Nanos = 300 * SECOND;

fn version(build: &str) -> Version {
    named_version("d".to_owned(), build.to_owned())
}

fn versions() -> [Version; 3] {
    ["1", "2", "3"].map(version)
}

fn target(version: Option<&Version>) -> Target {
    Target { version: version.cloned(), revision: 1 }
}

fn key(kind: QueueKind) -> QueueKey {
    QueueKey { namespace: NAMESPACE, kind, name: "q".to_owned() }
}

/// All versions have polled the workflow queue, and the first one the queue of activities.
fn deploy(registry: &Registry, current: Option<&Version>, ramp: Option<(Option<&Version>, f32)>) {
    let ramp = ramp.map(|(version, percentage)| Ramp { target: target(version), percentage });
    let routing = Arc::new(QueueRouting { current: target(current), ramp });
    let member = |kind| MemberQueue { name: "q".to_owned(), kind };
    let mut namespace = NamespaceRouting::default();
    for kind in [QueueType::Workflow, QueueType::Activity] {
        namespace.queues.insert(member(kind), routing.clone());
    }
    for version in versions() {
        let kinds: &[QueueType] = if *version.build_id == *"1" {
            &[QueueType::Workflow, QueueType::Activity]
        } else {
            &[QueueType::Workflow]
        };
        namespace.members.insert(version, kinds.iter().map(|kind| member(*kind)).collect());
    }
    registry.set(NAMESPACE, namespace);
}

fn routing(kind: QueueKind, current: Option<&Version>, ramp: Option<(Option<&Version>, f32)>) -> LaneRouting {
    let registry = Registry::default();
    deploy(&registry, current, ramp);
    LaneRouting::read(&registry, &key(kind))
}

fn queue(current: Option<&Version>, ramp: Option<(Option<&Version>, f32)>) -> Queue {
    Queue::new(BACKLOG_MAX, routing(QueueKind::Workflow, current, ramp))
}

fn task(run: u64) -> TaskOffer {
    TaskOffer::Workflow { run: RunKey(run), stamp: 1, speculative: false }
}

fn pinned(version: &Version) -> TaskRoute {
    TaskRoute { pinned: Some(version.clone()), ..TaskRoute::default() }
}

fn routed(hash: u32) -> TaskRoute {
    TaskRoute { hash, ..TaskRoute::default() }
}

fn offer(queue: &mut Queue, run: u64, priority: i32, route: TaskRoute, now: Nanos) -> OfferOutcome {
    queue.offer_routed(task(run), priority, None, route, now)
}

fn run_of(queued: QueuedTask) -> u64 {
    match queued.task {
        TaskOffer::Workflow { run, .. } => run.0,
        _ => panic!("another task"),
    }
}

fn take(queue: &mut Queue, version: Option<&Version>, now: Nanos) -> Option<u64> {
    queue.take(version, now).map(run_of)
}

fn wait(queue: &mut Queue, id: u64, version: Option<&Version>) -> oneshot::Receiver<PollAnswer> {
    let (sender, receiver) = oneshot::channel();
    queue.wait(version, id, String::new(), false, sender);
    receiver
}

fn handed(receiver: &mut oneshot::Receiver<PollAnswer>) -> Option<u64> {
    match receiver.try_recv() {
        Ok(PollAnswer::Task(queued)) => Some(run_of(queued)),
        _ => None,
    }
}

fn says(version: &Version) -> PollerVersion {
    PollerVersion::of(Some(version))
}

#[test]
fn a_pinned_task_waits_for_its_version_whatever_the_routing() {
    let [a, b, _] = versions();
    let mut queue = queue(Some(&b), None);
    offer(&mut queue, 1, 3, pinned(&a), 0);
    assert_eq!((take(&mut queue, Some(&b), 0), take(&mut queue, None, 0)), (None, None));
    queue.reroute(routing(QueueKind::Workflow, None, None), 0);
    assert_eq!(take(&mut queue, None, 0), None);
    assert_eq!(take(&mut queue, Some(&a), 0), Some(1));
}

#[test]
fn a_routed_task_goes_to_the_current_version_or_to_workers_without_one() {
    let [a, b, _] = versions();
    let mut queue = queue(Some(&b), None);
    offer(&mut queue, 1, 3, routed(7), 0);
    assert_eq!((take(&mut queue, Some(&a), 0), take(&mut queue, None, 0)), (None, None));
    assert_eq!(take(&mut queue, Some(&b), 0), Some(1));
    queue.reroute(routing(QueueKind::Workflow, None, None), 0);
    offer(&mut queue, 2, 3, routed(7), 0);
    assert_eq!(take(&mut queue, Some(&b), 0), None);
    assert_eq!(take(&mut queue, None, 0), Some(2));
}

#[test]
fn without_deployments_every_task_but_pinned_ones_is_for_workers_without_a_version() {
    let [a, ..] = versions();
    let mut queue = Queue::new(BACKLOG_MAX, LaneRouting::read(&Registry::default(), &key(QueueKind::Workflow)));
    offer(&mut queue, 1, 3, routed(u32::MAX), 0);
    offer(&mut queue, 2, 3, pinned(&a), 0);
    assert_eq!((take(&mut queue, None, 0), take(&mut queue, None, 0)), (Some(1), None));
}

#[test]
fn a_ramp_divides_by_hash_and_a_greater_share_only_adds() {
    let [a, b, _] = versions();
    let hashes: Vec<u32> = (0..1000).map(|n: u32| n.wrapping_mul(2_654_435_761)).collect();
    let mut ramping: HashSet<u64> = HashSet::default();
    for percentage in [0.0, 10.0, 40.0, 60.0, 100.0] {
        let mut queue = queue(Some(&a), Some((Some(&b), percentage)));
        for (run, hash) in hashes.iter().enumerate() {
            offer(&mut queue, run as u64, 3, routed(*hash), 0);
        }
        let now: HashSet<u64> = std::iter::from_fn(|| take(&mut queue, Some(&b), 0)).collect();
        let rest = std::iter::from_fn(|| take(&mut queue, Some(&a), 0)).count();
        assert_eq!(now.len() + rest, hashes.len());
        assert!(now.is_superset(&ramping), "{percentage}");
        assert!((now.len() as f32 / 10.0 - percentage).abs() < 2.0, "{percentage}: {}", now.len());
        ramping = now;
    }
}

#[test]
fn raising_the_percentage_moves_waiting_tasks_in_one_direction() {
    let [a, b, _] = versions();
    let mut queue = queue(Some(&a), Some((Some(&b), 40.0)));
    let hashes: Vec<u32> = (0..1000).map(|n: u32| n.wrapping_mul(2_654_435_761)).collect();
    for (run, hash) in hashes.iter().enumerate() {
        offer(&mut queue, run as u64, 3, routed(*hash), run as Nanos);
    }
    let before = queue.len_of(Some(&b));
    queue.reroute(routing(QueueKind::Workflow, Some(&a), Some((Some(&b), 60.0))), 0);
    assert!(queue.len_of(Some(&b)) > before && queue.len() == hashes.len());
    let order: Vec<_> = std::iter::from_fn(|| take(&mut queue, Some(&b), 0)).collect();
    assert!(order.is_sorted(), "by age, also those that came later");
    let below = |run: &u64| f64::from(hashes[*run as usize]) / 2f64.powi(32) <= 0.6;
    assert!(order.iter().all(below) && order.len() > 550);
}

#[test]
fn a_task_that_asks_for_the_ramp_goes_there_whatever_the_percentage() {
    let [a, b, _] = versions();
    let asks = || TaskRoute { uses_ramp: true, ..routed(u32::MAX) };
    let mut queue = queue(Some(&a), Some((Some(&b), 0.0)));
    offer(&mut queue, 1, 3, asks(), 0);
    assert_eq!((take(&mut queue, Some(&a), 0), take(&mut queue, Some(&b), 0)), (None, Some(1)));
    queue.reroute(routing(QueueKind::Workflow, Some(&a), None), 0);
    offer(&mut queue, 2, 3, asks(), 0);
    assert_eq!(take(&mut queue, Some(&a), 0), Some(2));
}

#[test]
fn an_unversioned_ramp_takes_its_share() {
    let [a, ..] = versions();
    let mut queue = queue(Some(&a), Some((None, 50.0)));
    offer(&mut queue, 1, 3, routed(0), 0);
    offer(&mut queue, 2, 3, routed(u32::MAX), 0);
    assert_eq!(take(&mut queue, None, 0), Some(1));
    assert_eq!(take(&mut queue, None, 0), None);
    assert_eq!(take(&mut queue, Some(&a), 0), Some(2));
}

#[test]
fn an_activity_of_a_pinned_run_goes_by_its_own_queue_until_the_version_polls_that() {
    let [a, b, _] = versions();
    let activities = |current| routing(QueueKind::Activity, current, None);
    let mut queue = Queue::new(BACKLOG_MAX, activities(Some(&a)));
    offer(&mut queue, 1, 3, pinned(&b), 0);
    assert_eq!(queue.len_of(Some(&a)), 1, "the second version does not poll this queue");
    offer(&mut queue, 2, 3, pinned(&a), 0);
    queue.reroute(activities(None), 0);
    assert_eq!(take(&mut queue, Some(&a), 0), Some(2), "a member");
    assert_eq!(take(&mut queue, None, 0), Some(1), "independent");
    offer(&mut queue, 3, 3, pinned(&b), 0);
    let registry = Registry::default();
    deploy(&registry, None, None);
    let mut namespace = NamespaceRouting::default();
    let member = MemberQueue { name: "q".to_owned(), kind: QueueType::Activity };
    namespace.members.insert(b.clone(), HashSet::from_iter([member.clone()]));
    namespace.queues.insert(member, Arc::default());
    registry.set(NAMESPACE, namespace);
    queue.reroute(LaneRouting::read(&registry, &key(QueueKind::Activity)), 0);
    assert_eq!(take(&mut queue, Some(&b), 0), Some(3), "the version polls the queue now");
}

#[test]
fn a_task_meets_the_longest_waiting_poll_that_may_take_it() {
    let [a, b, _] = versions();
    let mut queue = queue(Some(&b), None);
    let mut polls = [
        wait(&mut queue, 1, None),
        wait(&mut queue, 2, Some(&a)),
        wait(&mut queue, 3, Some(&b)),
        wait(&mut queue, 4, Some(&b)),
    ];
    assert_eq!(offer(&mut queue, 10, 3, routed(5), 0), OfferOutcome::HandedOver);
    assert_eq!(polls.each_mut().map(handed), [None, None, Some(10), None]);
    assert_eq!(offer(&mut queue, 11, 3, pinned(&a), 0), OfferOutcome::HandedOver);
    assert_eq!(polls.each_mut().map(handed), [None, Some(11), None, None]);
    assert_eq!(offer(&mut queue, 12, 3, pinned(&a), 0), OfferOutcome::Kept);
    assert_eq!(queue.waiting(), 2);
}

#[test]
fn polls_that_wait_are_served_when_the_routing_changes() {
    let [a, b, _] = versions();
    let mut queue = queue(Some(&a), None);
    offer(&mut queue, 1, 3, routed(5), 0);
    let mut waits = wait(&mut queue, 1, Some(&b));
    queue.reroute(routing(QueueKind::Workflow, Some(&b), None), 0);
    assert_eq!(handed(&mut waits), Some(1));
    assert_eq!(queue.len(), 0);
}

#[test]
fn a_task_that_comes_back_goes_by_the_routing_of_now() {
    let [a, b, _] = versions();
    let mut queue = queue(Some(&a), None);
    offer(&mut queue, 1, 3, routed(5), 0);
    let taken = queue.take(Some(&a), 0).expect("it waits");
    queue.reroute(routing(QueueKind::Workflow, Some(&b), None), 0);
    queue.take_back(taken, 0);
    assert_eq!((take(&mut queue, Some(&a), 0), take(&mut queue, Some(&b), 0)), (None, Some(1)));
}

#[test]
fn priority_fairness_and_age_hold_among_pinned_and_routed_tasks() {
    let [a, ..] = versions();
    let mut by_priority = queue(Some(&a), None);
    for (run, priority, route) in [(1, 3, routed(1)), (2, 3, pinned(&a)), (3, 1, pinned(&a)), (4, 5, routed(2))] {
        offer(&mut by_priority, run, priority, route, run as Nanos);
    }
    let order: Vec<_> = std::iter::from_fn(|| take(&mut by_priority, Some(&a), 0)).collect();
    assert_eq!(order, [3, 1, 2, 4]);

    let mut fair = queue(None, None);
    for run in 0..6 {
        // The first key has pinned and routed tasks.
        let (name, route) =
            if run < 4 { ("x", [pinned(&a), routed(1)][run as usize % 2].clone()) } else { ("y", routed(1)) };
        let fairness = Some(Box::new(Fairness { key: name.into(), weight: 1.0 }));
        fair.offer_routed(task(run), 3, fairness, route, run as Nanos);
    }
    fair.reroute(routing(QueueKind::Workflow, Some(&a), None), 0);
    let order: Vec<_> = std::iter::from_fn(|| take(&mut fair, Some(&a), 0)).collect();
    assert_eq!(order, [0, 4, 1, 5, 2, 3], "keys take turns, and each by age");
}

#[test]
fn a_limit_holds_for_all_lanes_together_and_the_most_urgent_task_goes_first() {
    let [a, b, _] = versions();
    let mut queue = queue(Some(&a), None);
    queue.limits.set_by_worker(10.0);
    let start = 100 * SECOND;
    offer(&mut queue, 1, 3, routed(1), start);
    offer(&mut queue, 2, 3, pinned(&b), start + 1);
    offer(&mut queue, 3, 1, pinned(&b), start + 2);
    assert_eq!(take(&mut queue, Some(&a), start + 3), Some(1));
    assert_eq!(take(&mut queue, Some(&b), start + 3), None, "the limit is that of the queue");
    offer(&mut queue, 4, 2, routed(1), start + 4);
    let (urgent, other) = (queue.later(Some(&b), start + 4), queue.later(Some(&a), start + 4));
    assert!(urgent.is_some() && urgent < other, "{urgent:?} {other:?}");
    assert_eq!(take(&mut queue, Some(&b), urgent.unwrap_or(0)), Some(3));
}

#[test]
fn a_version_without_workers_cannot_keep_the_tasks_of_others_out() {
    let [a, b, _] = versions();
    let start = 10 * MEMORY;
    let mut queue = Queue::new(100, routing(QueueKind::Workflow, Some(&b), None));
    queue.polled(Some(&b), ("w", ""), &says(&b), start, MEMORY);
    for run in 0..100 {
        assert_eq!(offer(&mut queue, run, 3, pinned(&a), start), OfferOutcome::Kept);
    }
    for run in 100..150 {
        assert_eq!(offer(&mut queue, run, 3, routed(1), start), OfferOutcome::Kept, "below its share");
    }
    assert_eq!((queue.len(), queue.len_of(Some(&a)), queue.len_of(Some(&b))), (100, 50, 50));
    assert_eq!(offer(&mut queue, 150, 3, routed(1), start), OfferOutcome::Overflowed, "it has its share");
    assert!(queue.is_full(start + 1, MEMORY));
    while take(&mut queue, Some(&b), start).is_some() {}
    assert!(queue.wants_refill(Some(&b)) && !queue.wants_refill(Some(&a)), "its own tasks were forgotten");
    queue.clear_overflowed();
    for run in 200..250 {
        offer(&mut queue, run, 3, pinned(&a), start);
    }
    assert!(!queue.is_full(start + 1, MEMORY), "there is room for a version with workers");
    assert!(queue.is_full(start + MEMORY, MEMORY), "there are no workers");
}

#[test]
fn what_was_forgotten_may_belong_to_another_version_after_a_change() {
    let [a, b, _] = versions();
    let mut queue = Queue::new(1, routing(QueueKind::Workflow, Some(&a), None));
    offer(&mut queue, 1, 3, routed(1), 0);
    assert_eq!(offer(&mut queue, 2, 3, routed(1), 0), OfferOutcome::Overflowed);
    queue.polled(Some(&b), ("w", ""), &says(&b), 1, MEMORY);
    queue.reroute(routing(QueueKind::Workflow, Some(&b), None), 0);
    assert_eq!(take(&mut queue, Some(&b), 1), Some(1));
    assert!(queue.wants_refill(Some(&b)));
}

#[test]
fn figures_and_pollers_are_known_by_version() {
    let [a, b, _] = versions();
    let mut queue = queue(Some(&b), Some((Some(&a), 50.0)));
    for (run, route) in [(1, routed(0)), (2, routed(u32::MAX)), (3, pinned(&a)), (4, pinned(&b)), (5, routed(1))] {
        offer(&mut queue, run, 3, route, 10 * SECOND);
    }
    let backlog =
        |queue: &Queue, version| queue.stats_of(version, 11 * SECOND).get(&3).map_or(0, |stats| stats.backlog);
    assert_eq!((backlog(&queue, Some(&a)), backlog(&queue, Some(&b)), backlog(&queue, None)), (3, 2, 0));
    let all = queue.stats(11 * SECOND)[&3];
    assert_eq!((all.backlog, all.oldest, all.add_rate > 0.0), (5, SECOND, true));

    queue.polled(Some(&a), ("same", "key a"), &says(&a), 10 * SECOND, MEMORY);
    queue.polled(Some(&b), ("same", "key b"), &says(&b), 12 * SECOND, MEMORY);
    assert!(queue.is_polled_by(Some(&a), 9 * SECOND) && !queue.is_polled_by(Some(&a), 11 * SECOND));
    assert_eq!(queue.pollers(0).len(), 2, "one identity, two versions");
    queue.forget_poller(("same", "key a"));
    assert!(!queue.is_polled_by(Some(&a), 0), "it shut down");
    assert!(queue.is_polled_by(Some(&b), 0), "that is another worker");
    queue.forget_worker("");
    queue.forget_worker("key b");
    assert!(!queue.is_polled_by(Some(&b), 0), "it is gone");
    let _waits = wait(&mut queue, 1, Some(&a));
    assert!(queue.is_polled_by(Some(&a), 13 * SECOND), "a poll that waits counts");
}

#[test]
fn lanes_of_versions_that_are_gone_are_forgotten() {
    let mut queue = queue(None, None);
    for build in 0..1000 {
        let version = version(&build.to_string());
        queue.polled(Some(&version), ("w", ""), &says(&version), build * SECOND, MEMORY);
    }
    let remembered = queue.pollers(-1).len();
    assert!(remembered <= 301, "{remembered}");
}

#[test]
fn a_poll_says_its_version_in_the_newer_or_the_older_way() {
    use segno_proto::common::WorkerVersionCapabilities;
    let older = |series: &str| PollerVersion {
        capabilities: Some(WorkerVersionCapabilities {
            build_id: "1".to_owned(),
            use_versioning: true,
            deployment_series_name: series.to_owned(),
        }),
        deployment: None,
    };
    let [a, ..] = versions();
    assert_eq!(says(&a).deployment_version().as_ref(), Some(&a));
    assert_eq!(older("d").deployment_version().as_ref(), Some(&a));
    let without_deployment = older("");
    assert_eq!(without_deployment.deployment_version(), None);
    assert!(without_deployment.lane(QueueKind::Workflow).is_some(), "a lane of its own, which gets nothing");
    assert_eq!(without_deployment.lane(QueueKind::Sticky), None);
    let unversioned = WorkerDeploymentOptions {
        deployment_name: "d".to_owned(),
        build_id: "1".to_owned(),
        worker_versioning_mode: WorkerVersioningMode::Unversioned as i32,
    };
    let newer = PollerVersion { deployment: Some(unversioned), ..older("d") };
    assert_eq!((newer.deployment_version(), newer.lane(QueueKind::Activity)), (None, None));
}

/// A queue that keeps one list and looks through all of it.
#[derive(Default)]
struct Model {
    tasks: Vec<(i32, Nanos, u64, TaskRoute)>,
    polls: VecDeque<(u64, Option<Version>)>,
}

impl Model {
    /// The pairs of polls and tasks that meet.
    fn meet(&mut self, routing: &LaneRouting) -> Vec<(u64, u64)> {
        let mut met = Vec::new();
        let mut waiting = VecDeque::new();
        while let Some((id, version)) = self.polls.pop_front() {
            let suits = |route: &TaskRoute| routing.version_for(route) == version.as_ref();
            let tasks = self.tasks.iter().enumerate().filter(|(_, (.., route))| suits(route));
            match tasks.min_by_key(|(_, (priority, since, ..))| (*priority, *since)).map(|(at, _)| at) {
                Some(at) => met.push((id, self.tasks.remove(at).2)),
                None => waiting.push_back((id, version)),
            }
        }
        self.polls = waiting;
        met
    }
}

#[test]
fn a_queue_does_what_one_list_would_do() {
    for seed in 1..=20_u64 {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut draw = |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % below
        };
        let [a, b, c] = versions();
        let some = [None, Some(a), Some(b), Some(c)];
        let kind = [QueueKind::Workflow, QueueKind::Activity][seed as usize % 2];
        let (mut current, mut ramp) = (None, None);
        let mut queue = Queue::new(BACKLOG_MAX, routing(kind, None, None));
        let mut model = Model::default();
        let mut receivers: Vec<(u64, oneshot::Receiver<PollAnswer>)> = Vec::new();
        let mut last_taken: Option<(QueuedTask, TaskRoute)> = None;
        for now in 1..600 {
            match draw(20) {
                0 => {
                    current = some[draw(4) as usize].clone();
                    ramp = (draw(2) == 0).then(|| (some[draw(4) as usize].clone(), draw(101) as f32));
                    let ramp =
                        ramp.as_ref().map(|(version, share): &(Option<Version>, f32)| (version.as_ref(), *share));
                    queue.reroute(routing(kind, current.as_ref(), ramp), now);
                    last_taken = None;
                }
                1 if !receivers.is_empty() => {
                    let (id, receiver) = receivers.swap_remove(draw(receivers.len() as u64) as usize);
                    drop(receiver);
                    // Half of them give up in the moment in which a task comes.
                    if draw(2) == 0 {
                        for version in &some {
                            queue.forget(version.as_ref(), id);
                        }
                    }
                    model.polls.retain(|(of, _)| *of != id);
                }
                2 => {
                    if let Some((queued, route)) = last_taken.take() {
                        model.tasks.push((queued.priority, queued.since, run_of(queued.clone()), route));
                        queue.take_back(queued, now);
                    }
                }
                3..=10 => {
                    let hash = draw(1 << 32) as u32;
                    let route = TaskRoute { pinned: some[draw(4) as usize].clone(), hash, uses_ramp: draw(8) == 0 };
                    let priority = 1 + draw(3) as i32;
                    offer(&mut queue, now as u64, priority, route.clone(), now);
                    model.tasks.push((priority, now, now as u64, route));
                }
                _ => {
                    // A poll takes, or waits.
                    let version = some[draw(4) as usize].clone();
                    model.polls.push_back((now as u64, version.clone()));
                    match queue.take(version.as_ref(), now) {
                        Some(queued) => {
                            let route = queued.route.clone();
                            last_taken = Some((queued.clone(), route));
                            let ramp = ramp.as_ref().map(|(version, share)| (version.as_ref(), *share));
                            let met = model.meet(&routing(kind, current.as_ref(), ramp));
                            assert_eq!(met, [(now as u64, run_of(queued))], "seed {seed}, step {now}");
                        }
                        None => {
                            let receiver = wait(&mut queue, now as u64, version.as_ref());
                            receivers.push((now as u64, receiver));
                        }
                    }
                }
            }
            let ramp = ramp.as_ref().map(|(version, share)| (version.as_ref(), *share));
            let expected = model.meet(&routing(kind, current.as_ref(), ramp));
            let mut met = Vec::new();
            receivers.retain_mut(|(id, receiver)| match handed(receiver) {
                Some(run) => {
                    met.push((*id, run));
                    false
                }
                None => true,
            });
            met.sort_unstable();
            assert_eq!(met, expected, "seed {seed}, step {now}");
            assert_eq!((queue.len(), queue.waiting() >= receivers.len()), (model.tasks.len(), true));
        }
    }
}

#[test]
fn lanes_say_who_serves_them() {
    let [one, two, _] = versions();
    let mut queue = queue(Some(&one), None);
    offer(&mut queue, 1, 3, pinned(&two), 5);
    offer(&mut queue, 2, 3, pinned(&two), 5);
    queue.polled(Some(&one), ("worker", "key"), &PollerVersion::of(Some(&one)), 7, MEMORY);
    let lanes = queue.lanes(0);
    let of = |version: Option<&Version>| lanes.iter().find(|lane| lane.version.as_ref() == version).expect("a lane");
    let served = of(Some(&one));
    assert_eq!((served.pollers, served.service.last_poll, served.service.backlog), (1, Some(7), 0));
    let unserved = of(Some(&two));
    assert_eq!((unserved.pollers, unserved.service.last_poll, unserved.service.backlog), (0, None, 2));
    assert_eq!(of(None).pollers, 0);
    // A worker that has been silent since then does not count.
    assert_eq!(queue.lanes(7).iter().map(|lane| lane.pollers).sum::<usize>(), 0);
}

#[tokio::test]
async fn what_waits_for_a_version_without_workers_is_counted() {
    let [one, two, _] = versions();
    let registry = Arc::new(Registry::default());
    deploy(&registry, Some(&one), None);
    let matching = Matching::new(BACKLOG_MAX, Arc::new(SystemClock), Arc::default(), registry);
    let key = key(QueueKind::Workflow);
    for (run, version) in [(1, &one), (2, &two), (3, &two)] {
        let place = QueuePlace { route: pinned(version), ..QueuePlace::of(3) };
        matching.offer(&key, task(run), place);
    }
    let waiting = || {
        matching.waiting_by_version(10).into_iter().map(|(_, version, waiting, unserved)| (version, waiting, unserved))
    };
    assert_eq!(waiting().collect::<Vec<_>>(), [(two.clone(), 2, 2), (one.clone(), 1, 1)]);
    let said = PollerVersion::of(Some(&two));
    let poll = QueuePoll {
        queue: &key,
        identity: "worker",
        worker: "key",
        version: &said,
        lane: Some(&two),
        tasks_per_second: None,
        deadline: tokio::time::Instant::now() + Duration::from_secs(5),
        elsewhere: false,
    };
    let mut known = HashSet::default();
    let mut waits = |most| {
        let new = matching.new_version_waits(0, &mut known, most);
        known.extend(new.iter().cloned());
        let mut runs: Vec<u64> = new.into_iter().map(|wait| wait.run.0).collect();
        runs.sort_unstable();
        runs
    };
    assert_eq!(waits(2).len(), 2);
    assert_eq!((waits(2).len(), waits(2).len()), (1, 0), "each wait is new once");
    assert!(matching.poll(&poll, || false).await.is_some());
    assert!(waits(10).is_empty());
    assert_eq!(waiting().collect::<Vec<_>>(), [(one.clone(), 1, 1), (two.clone(), 1, 0)]);
    assert_eq!(matching.waiting_by_version(1).len(), 1);
    matching.forget_poller(key.namespace, &key.name, &[key.kind], ("worker", "key"));
    assert_eq!(waits(10).len(), 1, "the version has no worker again");
}

#[test]
fn workers_without_a_version_poll_in_vain_where_all_tasks_go_to_versions() {
    let [one, two, _] = versions();
    let only = |current, ramp| routing(QueueKind::Workflow, current, ramp).only_versions();
    assert_eq!(only(Some(&one), None), Some(one.clone()));
    assert_eq!(only(Some(&one), Some((Some(&two), 10.0))), Some(one.clone()));
    assert_eq!(only(Some(&one), Some((None, 10.0))), None);
    assert_eq!(only(None, None), None);
    assert_eq!(routing(QueueKind::Sticky, Some(&one), None).only_versions(), None);
}
