//! Every order of events in a small world: one worker that speaks the protocol, one server that may restart, messages
//! that may be lost, and another worker that takes what moves. The lease is the real one; the run is as much of one
//! as matters: which attempt runs, who has it, and that a report about any other start is refused.
//!
//! That the promises can be broken at all is shown by faults: with any rule taken away, a world is found that breaks one.

#![allow(clippy::disallowed_types, reason = "worlds are looked up, never listed")]

use std::collections::{BTreeSet, HashMap, VecDeque};

use crate::common::world::SECOND;
use segno_engine::{
    lease::{Beat, BeatRefused, Hold, LEASE_MAX, Lease, LeaseSettings},
    slots::HandOver,
};

const SETTINGS: LeaseSettings =
    LeaseSettings { lease: SECOND, grace: SECOND, verification: 2 * SECOND, tokens_from: 0 };
/// Seconds that the world lasts: a restart, a full lease after it, and a bit.
const END: u8 = 6;
/// The same where there is no restart, only a verification and a bit.
const HASTY_END: u8 = 3;
const ATTEMPTS_MAX: [u8; 2] = [1, 2];

/// What is under way. Nothing comes twice, anything may get lost, nothing keeps its order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Message {
    Heartbeat {
        token: Vec<u8>,
        bound: Option<u8>,
        unbound: Option<u8>,
    },
    /// With the deltas of the heartbeat that it answers.
    Answer {
        token: Vec<u8>,
        bound: Option<u8>,
        unbound: Option<u8>,
    },
    Mismatch(Vec<u8>),
    Inactive,
    Task {
        start: u8,
    },
    Complete {
        start: u8,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Process {
    alive: bool,
    token: Vec<u8>,
    /// The start it works on, if any, and whether the server was told.
    works_on: Option<u8>,
    bound: Option<u8>,
    unbound: Option<u8>,
    /// It was told that it is inactive: it does nothing more.
    over: bool,
}

/// A rule that is taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Fault {
    /// Each completion is accepted, also if another worker has the activity by now.
    NoFence,
    /// An attempt that moves was none.
    MovesAreFree,
    /// What a lost worker held stays where it is.
    NothingMoves,
    /// A restarted server takes all workers for lost.
    RestartMovesAtOnce,
    /// A restarted server does not know who has what.
    RestartForgets,
    /// A heartbeat is taken with any token.
    AnyToken,
    /// Tokens begin anew with the server, so that one of the former server may fit once more.
    TokensRepeat,
    /// A worker that begins to shut down loses what it has.
    GoodbyeMoves,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    fault: Option<Fault>,
    now: u8,
    restarts: u8,
    /// Memory of the server.
    lease: Option<Lease>,
    inactive: bool,
    /// Storage.
    attempt: u8,
    attempts_max: u8,
    /// The worker that has the activity, by the number of the start; false is the worker of this story.
    holder: Option<(bool, u8)>,
    starts: u8,
    completed: u8,
    failed: bool,
    worker: Process,
    under_way: BTreeSet<Message>,
    /// What was promised: the worker counts as alive until then; it told that it is done with this start.
    alive_until: u8,
    given_up: Option<u8>,
    moved_early: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Action {
    /// Time passes, and the server lets happen what is due.
    Tick,
    /// A poll of the worker is answered with the activity.
    HandOver,
    /// The worker reports, or reports again because it waited long enough.
    Report,
    /// The worker is done.
    Finish,
    /// The worker begins to shut down: it takes nothing new, and finishes what it has.
    Leave,
    Die,
    Restart,
    Deliver(Message),
    Lose(Message),
    /// The other worker takes the activity and completes it.
    TakeOver,
}

fn hold(start: u8) -> Hold {
    Hold { run_key: 1, scheduled_event_id: 5, started_time: i64::from(start) }
}

impl World {
    fn time(&self) -> i64 {
        i64::from(self.now) * SECOND
    }

    fn is_over(&self) -> bool {
        self.completed > 0 || self.failed
    }

    /// The attempt of this start no longer counts.
    fn move_attempt(&mut self, start: u8) {
        if self.holder != Some((false, start)) {
            return;
        }
        if self.fault == Some(Fault::NothingMoves) {
            return;
        }
        self.holder = None;
        if self.fault == Some(Fault::MovesAreFree) {
            return;
        }
        if self.attempt < self.attempts_max {
            self.attempt += 1;
        } else {
            self.failed = true;
        }
    }

    fn pass(&mut self) {
        self.now += 1;
        let now = self.time();
        let Some(lease) = &mut self.lease else { return };
        let held: Vec<Hold> = lease.holds().copied().collect();
        let due = lease.expire(now, &SETTINGS);
        if due.lost.is_some() {
            self.inactive = true;
            self.lose(&held);
        }
        due.orphans.iter().for_each(|hold| self.move_attempt(hold.started_time as u8));
    }

    fn lose(&mut self, held: &[Hold]) {
        self.lease = None;
        self.moved_early |= self.now < self.alive_until;
        self.alive_until = 0;
        held.iter().for_each(|hold| self.move_attempt(hold.started_time as u8));
    }

    /// The server has only what is stored. Calls that were made to it end with it.
    fn restart(&mut self) {
        let now = self.time();
        self.restarts += 1;
        self.under_way.retain(|message| !matches!(message, Message::Heartbeat { .. }));
        (self.lease, self.inactive) = (None, false);
        // What it holds now counts as said by the worker.
        (self.alive_until, self.given_up) = (0, None);
        let Some((false, start)) = self.holder else { return };
        if self.fault == Some(Fault::RestartForgets) {
            return;
        }
        let mut lease = Lease::expected(now);
        lease.restore(hold(start), now);
        self.lease = Some(lease);
        self.alive_until = self.now + (SETTINGS.stock_lease() / SECOND) as u8;
        if self.fault == Some(Fault::RestartMovesAtOnce) {
            self.lose(&[hold(start)]);
        }
    }

    fn receive(&mut self, message: Message) {
        match message {
            Message::Heartbeat { token, bound, unbound } => self.heartbeat(token, bound, unbound),
            Message::Complete { start } => {
                let counts = self.holder == Some((false, start)) && !self.is_over();
                if counts || self.fault == Some(Fault::NoFence) {
                    self.holder = None;
                    self.completed += 1;
                    if let Some(lease) = &mut self.lease {
                        lease.release(&hold(start));
                    }
                }
            }
            _ if !self.worker.alive || self.worker.over => {}
            Message::Answer { token, bound, unbound } => {
                self.worker.token = token;
                // What was sent is taken; what came since is still to be said.
                self.worker.bound = self.worker.bound.filter(|start| Some(*start) != bound);
                self.worker.unbound = self.worker.unbound.filter(|start| Some(*start) != unbound);
            }
            Message::Mismatch(token) => {
                self.worker.token = token;
            }
            Message::Inactive => {
                self.worker.over = true;
                self.worker.works_on = None;
            }
            Message::Task { start } => {
                self.worker.works_on = Some(start);
                self.worker.bound = Some(start);
            }
        }
    }

    fn heartbeat(&mut self, token: Vec<u8>, bound: Option<u8>, unbound: Option<u8>) {
        let now = self.time();
        if self.lease.is_none() && self.inactive {
            self.under_way.insert(Message::Inactive);
            return;
        }
        let lease = self.lease.get_or_insert_with(|| Lease::new(now));
        let any_token = self.fault == Some(Fault::AnyToken);
        let tokens_repeat = self.fault == Some(Fault::TokensRepeat);
        let tokens_from = if tokens_repeat { 0 } else { u64::from(self.restarts) << 32 };
        let settings = LeaseSettings { tokens_from, ..SETTINGS };
        let beat = Beat {
            token: if any_token { lease.token().to_vec() } else { token },
            lease: 0,
            bound: bound.map(hold).into_iter().collect(),
            unbound: unbound.map(hold).into_iter().collect(),
        };
        self.under_way.insert(match lease.heartbeat(now, &beat, &settings) {
            Ok(token) => {
                self.alive_until = self.now + 1;
                self.given_up = unbound.or(self.given_up);
                Message::Answer { token: token.to_vec(), bound, unbound }
            }
            Err(BeatRefused::TokenMismatch { current }) => Message::Mismatch(current.to_vec()),
            Err(BeatRefused::Inactive | BeatRefused::TooMany) => Message::Inactive,
        });
    }
}

struct Story {
    attempts_max: u8,
    /// The worker does not wait for answers.
    hasty: bool,
    /// The worker shuts down at some point. In this story the server does not restart, which keeps it small.
    leaves: bool,
    fault: Option<Fault>,
}

impl Story {
    fn beginning(&self) -> World {
        let worker =
            Process { alive: true, token: Vec::new(), works_on: None, bound: None, unbound: None, over: false };
        World {
            fault: self.fault,
            now: 0,
            restarts: 0,
            lease: None,
            inactive: false,
            attempt: 1,
            attempts_max: self.attempts_max,
            holder: None,
            starts: 0,
            completed: 0,
            failed: false,
            worker,
            under_way: BTreeSet::new(),
            alive_until: 0,
            given_up: None,
            moved_early: false,
        }
    }

    fn actions(&self, world: &World) -> Vec<Action> {
        let mut actions = Vec::new();
        if world.now < if self.hasty || self.leaves { HASTY_END } else { END } {
            actions.push(Action::Tick);
        }
        let worker = &world.worker;
        let works = worker.alive && !worker.over;
        let known = world.lease.as_ref().is_some_and(Lease::speaks_protocol);
        let leaving = world.lease.as_ref().is_some_and(Lease::is_leaving);
        if works && known && self.leaves && !leaving {
            actions.push(Action::Leave);
        }
        if works && known && !leaving && world.holder.is_none() && !world.is_over() && worker.works_on.is_none() {
            actions.push(Action::HandOver);
        }
        let reports = world.under_way.iter().filter(|message| matches!(message, Message::Heartbeat { .. })).count();
        // One that the worker waits for, and one that it has given up.
        if works && reports < if self.hasty { 2 } else { 1 } {
            actions.push(Action::Report);
        }
        if works && worker.works_on.is_some() {
            actions.push(Action::Finish);
        }
        if worker.alive {
            actions.push(Action::Die);
        }
        if world.restarts == 0 && !self.leaves {
            actions.push(Action::Restart);
        }
        if world.holder.is_none() && world.attempt > 1 && !world.is_over() {
            actions.push(Action::TakeOver);
        }
        if world.is_over() {
            // The activity is over: only what comes late matters.
            actions.retain(|action| matches!(action, Action::Tick | Action::Finish));
        }
        for message in &world.under_way {
            actions.push(Action::Deliver(message.clone()));
            actions.push(Action::Lose(message.clone()));
        }
        actions
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        let now = next.time();
        match action {
            Action::Tick => next.pass(),
            Action::HandOver => {
                next.starts += 1;
                let start = next.starts;
                next.holder = Some((false, start));
                next.lease.as_mut()?.hand_over(hold(start), HandOver::Poll, now);
                next.under_way.insert(Message::Task { start });
            }
            Action::Report => {
                let Process { token, bound, unbound, .. } = next.worker.clone();
                next.under_way.insert(Message::Heartbeat { token, bound, unbound });
            }
            Action::Finish => {
                let start = next.worker.works_on.take()?;
                next.worker.unbound = Some(start);
                next.worker.bound = next.worker.bound.filter(|bound| *bound != start);
                next.under_way.insert(Message::Complete { start });
            }
            Action::Leave => {
                let lease = next.lease.as_mut()?;
                lease.leaves(now).ok()?;
                if next.fault == Some(Fault::GoodbyeMoves) {
                    let held: Vec<Hold> = lease.holds().copied().collect();
                    next.lose(&held);
                }
            }
            Action::Die => next.worker.alive = false,
            Action::Restart => next.restart(),
            Action::Deliver(message) => {
                next.under_way.remove(&message);
                next.receive(message);
            }
            Action::Lose(message) => {
                next.under_way.remove(&message);
            }
            Action::TakeOver => {
                next.starts += 1;
                next.completed += 1;
            }
        }
        // What no worker has need not be told apart.
        next.given_up = next.given_up.filter(|start| next.holder == Some((false, *start)));
        Some(next)
    }

    /// What holds in every world.
    fn broken(&self, world: &World) -> Option<&'static str> {
        let watched = match world.holder {
            Some((false, start)) => world.lease.as_ref().is_some_and(|lease| {
                lease.holds().any(|held| *held == hold(start))
                    && lease.wake_at(&SETTINGS).is_some_and(|at| at > world.time())
            }),
            _ => true,
        };
        let mut held = world.lease.iter().flat_map(Lease::holds);
        let no_ghosts = held.all(|held| world.holder == Some((false, held.started_time as u8)));
        // What the worker is done with, and is still on record as with it, is looked after while the worker lives on.
        let found = match (world.holder, &world.lease, world.given_up) {
            (Some((false, start)), Some(lease), Some(given_up)) if start == given_up => {
                let mut lease = lease.clone();
                let beat = Beat { token: lease.token().to_vec(), lease: LEASE_MAX, ..Default::default() };
                lease.heartbeat(world.time(), &beat, &SETTINGS).is_ok()
                    && lease.expire(world.time() + SETTINGS.verification, &SETTINGS).orphans.contains(&hold(start))
            }
            _ => true,
        };
        [
            (world.completed <= 1, "at most one completion is accepted"),
            (world.starts <= self.attempts_max, "there are no more starts than attempts"),
            (!(world.failed && world.completed > 0), "an activity ends once"),
            (watched, "the worker that has the activity is watched"),
            (no_ghosts, "nothing counts as held that is over or with others"),
            (!world.moved_early, "nothing moves before the lease is over"),
            (found, "what a worker gave up is found"),
        ]
        .into_iter()
        .find_map(|(holds, what)| (!holds).then_some(what))
    }

    fn is_worth_following(&self, world: &World) -> bool {
        world.under_way.len() <= 2 && world.lease.as_ref().is_none_or(|lease| lease.token()[0] <= 3)
    }
}

/// A world in which a promise is broken, and how it came about.
#[derive(Debug)]
struct Counterexample {
    promise: &'static str,
    path: Vec<String>,
}

/// Visits every world that can come about, the nearest first. Returns how many there are, and which of the things that
/// should be possible were seen.
fn explore(story: &Story) -> Result<(usize, [bool; 3]), Counterexample> {
    // A world's number, and for each number the world it came from and how.
    let mut numbers = HashMap::from([(story.beginning(), 0_usize)]);
    let mut origins: Vec<(usize, Option<Action>)> = vec![(0, None)];
    let mut next = VecDeque::from([(0, story.beginning())]);
    let mut seen = [false; 3];
    while let Some((number, world)) = next.pop_front() {
        if let Some(promise) = story.broken(&world) {
            let (mut at, mut path) = (number, Vec::new());
            while let (from, Some(action)) = &origins[at] {
                path.push(format!("{action:?}"));
                at = *from;
            }
            path.reverse();
            return Err(Counterexample { promise, path });
        }
        seen[0] |= world.attempt == 2 && world.completed == 1;
        seen[1] |= world.restarts == 1 && world.now == END && world.completed == 1 && world.starts == 1;
        seen[2] |= world.failed;
        for action in story.actions(&world) {
            let Some(follows) = story.next_state(&world, action.clone()) else { continue };
            if story.is_worth_following(&follows) && !numbers.contains_key(&follows) {
                numbers.insert(follows.clone(), origins.len());
                next.push_back((origins.len(), follows));
                origins.push((number, Some(action)));
            }
        }
    }
    Ok((numbers.len(), seen))
}

#[test]
fn every_order_of_events_keeps_the_promises() {
    for attempts_max in ATTEMPTS_MAX {
        let kept = |name, hasty, leaves| {
            let explored = explore(&Story { attempts_max, hasty, leaves, fault: None });
            let (worlds, seen) = explored.unwrap_or_else(|broken| panic!("{broken:#?}"));
            println!("{attempts_max} attempts, {name}: {worlds} worlds");
            seen
        };
        kept("hasty", true, false);
        kept("leaving", false, true);
        let [moved, survived, failed] = kept("patient", false, false);
        assert_eq!(moved, attempts_max > 1, "an activity moves if it may");
        assert!(survived, "a worker may keep its activity over a restart");
        assert!(failed, "an activity may be lost for good");
    }
}

#[test]
fn with_a_rule_taken_away_a_promise_is_broken() {
    let broken = [
        (Fault::NoFence, 2, "at most one completion is accepted"),
        (Fault::MovesAreFree, 1, "there are no more starts than attempts"),
        (Fault::NothingMoves, 2, "the worker that has the activity is watched"),
        (Fault::RestartMovesAtOnce, 2, "nothing moves before the lease is over"),
        (Fault::RestartForgets, 2, "the worker that has the activity is watched"),
        (Fault::AnyToken, 2, "what a worker gave up is found"),
        (Fault::TokensRepeat, 2, "what a worker gave up is found"),
        (Fault::GoodbyeMoves, 2, "nothing moves before the lease is over"),
    ];
    for (fault, attempts_max, promise) in broken {
        let hasty = matches!(fault, Fault::AnyToken | Fault::TokensRepeat);
        let leaves = fault == Fault::GoodbyeMoves;
        let story = Story { attempts_max, hasty, leaves, fault: Some(fault) };
        let found = explore(&story).expect_err("a world breaks a promise");
        println!("{fault:?}: {} after {:#?}", found.promise, found.path);
        assert_eq!(found.promise, promise, "{fault:?}: {found:#?}");
    }
}
