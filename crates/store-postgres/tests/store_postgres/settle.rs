//! Commits whose connection breaks: after every byte of the request and of the answer, once and again while they are being
//! settled. What is acknowledged is there, what is not done is not there, and nothing stays unknown.

use std::sync::Arc;

use crate::common::World;
use crate::proxy::{Cut, Direction, Proxy};
use segno_store::kit::{batch, run};
use segno_store::{Commit, CommitError, RunKey, RunWrite, Store, Wait};
use segno_store_postgres::PostgresStore;

/// The next commit of run 1.
fn commit(version: u64) -> Commit {
    let event = i64::try_from(version).unwrap() + 1;
    let visibility = version.is_multiple_of(3).then(|| Box::new(segno_store::kit::row(1)));
    let write = RunWrite { batches: vec![batch(event, event)], visibility, ..run(1, version, "state") };
    Commit { runs: vec![write], ..Commit::default() }
}

struct Bench {
    store: Arc<dyn Store>,
    version: u64,
}

impl Bench {
    /// A store whose connections go through a proxy.
    fn new(settings: &[(&str, &str)]) -> (Arc<World>, Proxy, PostgresStore, Self) {
        let world = World::new(settings);
        let database = world.postgres.database();
        let proxy = Proxy::start(world.postgres.port);
        let store = world.try_open(&world.postgres.url_at(proxy.port, &database)).unwrap();
        let bench = Self { store: Arc::new(store.clone()), version: 0 };
        (world, proxy, store, bench)
    }

    /// Makes the next commit; checks that what is said is so.
    fn step(&mut self, place: &str) -> bool {
        let outcome = self.store.commit(vec![commit(self.version)]).wait().remove(0);
        let stored = self.store.load(RunKey(1)).wait().unwrap().map_or(0, |run| run.version);
        match &outcome {
            Ok(()) => assert_eq!(stored, self.version + 1, "{place}: acknowledged and not there"),
            Err(CommitError::NotDone(_)) => assert_eq!(stored, self.version, "{place}: not done and there"),
            Err(other) => panic!("{place}: {other:?}"),
        }
        let events = self.store.history(RunKey(1), 0, i64::MAX, usize::MAX, usize::MAX).wait().unwrap().len();
        assert_eq!(events as u64, stored, "{place}: the run and its history disagree");
        self.version = stored;
        outcome.is_ok()
    }
}

/// All places with `SEGNO_CUT_EVERY=1`; otherwise so many bytes apart.
fn apart(usual: usize) -> usize {
    std::env::var("SEGNO_CUT_EVERY").ok().and_then(|every| every.parse().ok()).unwrap_or(usual)
}

#[test]
fn a_commit_cut_anywhere_is_settled() {
    let (world, proxy, store, mut bench) = Bench::new(&[("synchronous_commit", "off")]);
    for _ in 0..4 {
        assert!(bench.step("without a cut"));
    }
    for (direction, every) in [(Direction::Request, apart(29)), (Direction::Answer, apart(1))] {
        let (mut after, mut done, mut not_done) = (0, 0, 0);
        loop {
            let cut = Cut { direction, after };
            proxy.arm(&[cut]);
            if bench.step(&format!("{cut:?}")) {
                done += 1
            } else {
                not_done += 1
            }
            if proxy.disarm() == 0 {
                break;
            }
            after += every;
        }
        println!("{direction:?}: up to byte {after}, {done} done, {not_done} not done");
        assert!(done > 1, "{direction:?}");
        assert!(not_done > 0 || direction == Direction::Answer);
        assert!(bench.step("after the cuts"));
    }
    let statistics = store.statistics();
    assert!(statistics.settled_done > 0 && statistics.settled_not_done > 0, "{statistics:?}");
    world.close(store);
}

/// The connection on which a commit is settled breaks as well.
#[test]
fn settling_that_is_cut_goes_on() {
    let (world, proxy, store, mut bench) = Bench::new(&[("synchronous_commit", "off")]);
    assert!(bench.step("without a cut"));
    // Nothing of the request, or all of it but not its answer.
    let first = [Cut { direction: Direction::Request, after: 40 }, Cut { direction: Direction::Answer, after: 0 }];
    for first in first {
        for direction in [Direction::Request, Direction::Answer] {
            for after in (0..400).step_by(apart(17)) {
                let second = Cut { direction, after };
                proxy.arm(&[first, second, second]);
                bench.step(&format!("{first:?}, {second:?}"));
                proxy.disarm();
            }
        }
    }
    assert!(bench.step("after the cuts"));
    world.close(store);
}

/// A pooler may call it an error like any other that it lost its connection: that says nothing about the commit.
#[test]
fn the_error_of_a_pooler_is_settled() {
    let (world, proxy, store, mut bench) = Bench::new(&[("synchronous_commit", "off")]);
    for _ in 0..4 {
        assert!(bench.step("before"));
    }
    for code in ["08P01", "08006", "57P01"] {
        proxy.arm_error(code);
        bench.step(code);
        assert_eq!(proxy.disarm(), 1, "{code}");
        assert!(bench.step("afterwards"));
    }
    assert_eq!(store.statistics().settled_done, 3);
    world.close(store);
}

/// A cut of everything in the middle of many groups; the proxy is closed for a while.
#[test]
fn an_outage_under_load_loses_nothing() {
    let (world, proxy, store, mut bench) = Bench::new(&[]);
    std::thread::scope(|scope| {
        let writer = scope.spawn(move || {
            for number in 0..150 {
                bench.step(&format!("commit {number}"));
            }
            bench.version
        });
        for _ in 0..3 {
            std::thread::sleep(std::time::Duration::from_millis(300));
            proxy.close();
            std::thread::sleep(std::time::Duration::from_millis(200));
            proxy.heal();
        }
        assert!(writer.join().unwrap() > 100);
    });
    assert!(store.statistics().reconnects > 0);
    world.close(store);
}
