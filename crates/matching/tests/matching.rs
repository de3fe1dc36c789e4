//! Task queues as their users see them: polls and tasks meet, without runs and workers.

#[path = "../../runs/tests/runs/common/clock.rs"]
mod clock;

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use segno_deployments::{
    MemberQueue, NamespaceRouting, QueueRouting, QueueType, Registry, Target, Version, named_version,
};
use segno_environment::{clock::SystemClock, metrics::Metrics};
use segno_matching::{
    Matching, PRIORITY_DEFAULT, PollerVersion, QueueKey, QueueKind, QueuePlace, QueuePoll, QueueService, QueuedTask,
    TaskOffer, TaskRoute,
};
use segno_store::{NamespaceKey, RunKey};
use tokio::time::Instant;

use self::clock::JumpingClock;

const NAMESPACE: NamespaceKey = NamespaceKey(1);

fn matching(backlog_max: usize) -> Matching {
    Matching::new(backlog_max, Arc::new(SystemClock), Arc::default(), Arc::default())
}

fn queue(kind: QueueKind) -> QueueKey {
    QueueKey { namespace: NAMESPACE, kind, name: "q".to_owned() }
}

fn task(run: u64) -> TaskOffer {
    TaskOffer::Workflow { run: RunKey(run), stamp: 1, speculative: false }
}

fn poll<'a>(queue: &'a QueueKey, version: &'a PollerVersion) -> QueuePoll<'a> {
    QueuePoll {
        queue,
        identity: "worker",
        worker: "key",
        version,
        lane: None,
        tasks_per_second: None,
        deadline: Instant::now() + Duration::from_secs(600),
        elsewhere: false,
    }
}

fn run_of(queued: Option<QueuedTask>) -> Option<u64> {
    match queued.map(|queued| queued.task) {
        Some(TaskOffer::Workflow { run, .. }) => Some(run.0),
        _ => None,
    }
}

#[tokio::test]
async fn a_poll_that_waits_gets_the_next_task() {
    let (matching, key, version) = (matching(10), queue(QueueKind::Workflow), PollerVersion::default());
    let poll = poll(&key, &version);
    let wait = matching.poll(&poll, || false);
    let offer = async {
        while matching.service(&key).polls_waiting == 0 {
            tokio::task::yield_now().await;
        }
        matching.offer(&key, task(7), QueuePlace::of(PRIORITY_DEFAULT));
    };
    let (got, ()) = tokio::join!(wait, offer);
    assert_eq!(run_of(got), Some(7));
    assert_eq!(matching.backlog_of(&key, &PollerVersion::default()), 0);
}

#[tokio::test]
async fn polls_of_a_worker_that_shuts_down_end_empty_in_all_its_queues() {
    let (matching, key, version) = (matching(10), queue(QueueKind::Activity), PollerVersion::default());
    let sticky = QueueKey::sticky(NAMESPACE, "own", "q");
    let (normal, own) = (poll(&key, &version), poll(&sticky, &version));
    let dismiss = async {
        while matching.service(&key).polls_waiting + matching.service(&sticky).polls_waiting < 2 {
            tokio::task::yield_now().await;
        }
        matching.dismiss(NAMESPACE, "key", ["q", "own"]);
    };
    let (a, b, ()) = tokio::join!(matching.poll(&normal, || false), matching.poll(&own, || false), dismiss);
    assert!(a.is_none() && b.is_none());
}

#[tokio::test]
async fn a_poll_that_ends_before_it_is_answered_loses_no_task() {
    let (matching, key, version) = (matching(10), queue(QueueKind::Workflow), PollerVersion::default());
    let poll = poll(&key, &version);
    let left = tokio::time::timeout(Duration::from_millis(1), matching.poll(&poll, || false)).await;
    assert!(left.is_err());
    matching.offer(&key, task(7), QueuePlace::of(PRIORITY_DEFAULT));
    assert_eq!(matching.service(&key), QueueService { polls_waiting: 0, backlog: 1, ..matching.service(&key) });
    assert_eq!(run_of(matching.poll(&poll, || false).await), Some(7));
}

#[tokio::test]
async fn a_queue_that_forgot_tasks_wants_them_back_once_it_runs_low() {
    let (metrics, key, version) = (Arc::new(Metrics::default()), queue(QueueKind::Workflow), PollerVersion::default());
    let matching = Matching::new(2, Arc::new(SystemClock), metrics.clone(), Arc::default());
    for run in 0..3 {
        matching.offer(&key, task(run), QueuePlace::of(PRIORITY_DEFAULT));
    }
    assert_eq!(metrics.queue_overflows.load(Ordering::Relaxed), 1);
    assert_eq!(matching.known_tasks(&key).len(), 2);
    let poll = poll(&key, &version);
    for _ in 0..2 {
        assert!(matching.poll(&poll, || false).await.is_some());
    }
    assert!(matching.refills.next().is_none(), "it has had tasks until now");
    assert!(matching.poll(&poll, || true).await.is_none());
    assert_eq!(matching.refills.next(), Some(key));
}

#[tokio::test]
async fn what_waits_for_a_worker_that_left_is_returned_for_others() {
    let (matching, version) = (matching(10), PollerVersion::default());
    let sticky = QueueKey::sticky(NAMESPACE, "own", "q");
    assert!(matching.poll(&poll(&sticky, &version), || true).await.is_none(), "the worker polls once");
    matching.offer(&sticky, task(7), QueuePlace::of(PRIORITY_DEFAULT));
    assert_eq!(matching.abandon(NAMESPACE, "own").len(), 1);
    assert!(!matching.is_served(&sticky));
    assert_eq!(matching.backlog_of(&sticky, &PollerVersion::default()), 0);
}
/// The versions have polled the workflow queue, and one of them is current.
fn deploy(registry: &Registry, versions: &[Version], current: &Version) {
    let current = Target { version: Some(current.clone()), revision: 1 };
    let queue = MemberQueue { name: "q".to_owned(), kind: QueueType::Workflow };
    let mut namespace = NamespaceRouting::default();
    namespace.queues.insert(queue.clone(), Arc::new(QueueRouting { current, ramp: None }));
    for version in versions {
        namespace.members.insert(version.clone(), std::iter::once(queue.clone()).collect());
    }
    registry.set(NAMESPACE, namespace);
}
#[tokio::test]
async fn ten_thousand_waiting_tasks_follow_a_change_of_the_current_version() {
    let [a, b] = ["1", "2"].map(|build| named_version("d".to_owned(), build.to_owned()));
    let registry: Arc<Registry> = Arc::default();
    deploy(&registry, &[a.clone(), b.clone()], &a);
    let matching = Matching::new(50_000, Arc::new(SystemClock), Arc::default(), registry.clone());
    let key = queue(QueueKind::Workflow);
    for run in 0..10_000 {
        let place = QueuePlace { route: TaskRoute { hash: run as u32, ..Default::default() }, ..QueuePlace::of(3) };
        matching.offer(&key, task(run), place);
    }
    let (say_a, say_b) = (PollerVersion::of(Some(&a)), PollerVersion::of(Some(&b)));
    let take = async |version: &Version, says: &PollerVersion| {
        // Without a task the poll is over at once.
        run_of(matching.poll(&QueuePoll { lane: Some(version), ..poll(&key, says) }, || true).await)
    };
    assert_eq!(take(&a, &say_a).await, Some(0));
    deploy(&registry, &[a.clone(), b.clone()], &b);
    matching.routing_changed(NAMESPACE);
    assert_eq!(take(&a, &say_a).await, None);
    for run in 1..10_000 {
        assert_eq!(take(&b, &say_b).await, Some(run));
    }
    assert_eq!(take(&b, &say_b).await, None);
}

#[tokio::test]
async fn a_worker_counts_as_a_poller_for_as_long_as_a_setting_says() {
    const MINUTE: Duration = Duration::from_secs(60);
    for minutes in [1, 5, 30] {
        let clock = Arc::new(JumpingClock::default());
        let matching = Matching::new(10, clock.clone(), Arc::default(), Arc::default());
        let matching = matching.with_poller_ttl((MINUTE * minutes).as_nanos() as i64);
        let version = named_version("d".to_owned(), "1".to_owned());
        let (key, says) = (queue(QueueKind::Workflow), PollerVersion::of(Some(&version)));
        assert!(matching.poll(&QueuePoll { lane: Some(&version), ..poll(&key, &says) }, || true).await.is_none());
        let pollers = || {
            let lanes = matching.lanes(&key).iter().map(|lane| lane.pollers).sum::<usize>();
            (matching.is_polled_by(&key, Some(&version)), matching.pollers(&key).len(), lanes)
        };
        clock.jump(MINUTE * minutes - Duration::from_secs(10));
        assert_eq!(pollers(), (true, 1, 1), "after less than {minutes} minutes");
        clock.jump(Duration::from_secs(20));
        assert_eq!(pollers(), (false, 0, 0), "after more than {minutes} minutes");
    }
}
