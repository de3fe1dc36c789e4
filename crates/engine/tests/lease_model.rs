//! Every order of events in a small world: one worker that speaks the protocol, one server that may restart, messages
//! that may be lost, and another worker that takes whatever moves. The lease is the real one; the run is as much of one
//! as matters: which attempt runs, who has it, and that a report about any other start is refused.

#![allow(clippy::disallowed_types, reason = "worlds are looked up, never listed")]

mod common;

use std::collections::{BTreeSet, HashMap, VecDeque};

use common::world::SECOND;
use segno_engine::lease::{Beat, BeatRefused, Hold, Lease, LeaseSettings};

const SETTINGS: LeaseSettings = LeaseSettings { lease: SECOND, grace: SECOND, verification: 2 * SECOND };
/// Seconds that the world lasts: a restart, a full lease after it, and a bit.
const END: u8 = 6;
const ATTEMPTS_MAX: [u8; 2] = [1, 2];

/// What is under way. Nothing comes twice, anything may get lost, nothing keeps its order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Message {
    Heartbeat { token: Vec<u8>, bound: Option<u8>, unbound: Option<u8> },
    Answer(Vec<u8>),
    Mismatch(Vec<u8>),
    Inactive,
    Task { start: u8 },
    Complete { start: u8 },
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

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    now: u8,
    restarts: u8,
    /// Memory of the server.
    lease: Option<Lease>,
    inactive: bool,
    /// Storage.
    attempt: u8,
    attempts_max: u8,
    /// Whoever has the activity, by the number of the start; false is the worker of this story.
    holder: Option<(bool, u8)>,
    starts: u8,
    completed: u8,
    failed: bool,
    worker: Process,
    under_way: BTreeSet<Message>,
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

    /// The attempt of this start does not count any more.
    fn move_attempt(&mut self, start: u8) {
        if self.holder != Some((false, start)) {
            return;
        }
        self.holder = None;
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
            self.lease = None;
            self.inactive = true;
            held.iter().for_each(|hold| self.move_attempt(hold.started_time as u8));
        }
        due.orphans.iter().for_each(|hold| self.move_attempt(hold.started_time as u8));
    }

    fn receive(&mut self, message: Message) {
        match message {
            Message::Heartbeat { token, bound, unbound } => self.heartbeat(token, bound, unbound),
            Message::Complete { start } => {
                if self.holder == Some((false, start)) && !self.is_over() {
                    self.holder = None;
                    self.completed += 1;
                    if let Some(lease) = &mut self.lease {
                        lease.release(&hold(start));
                    }
                }
            }
            _ if !self.worker.alive || self.worker.over => {}
            Message::Answer(token) => {
                self.worker.token = token;
                // What was sent is taken; what came since is still to be said.
                (self.worker.bound, self.worker.unbound) = (None, None);
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
        let beat = Beat {
            token,
            lease: 0,
            bound: bound.map(hold).into_iter().collect(),
            unbound: unbound.map(hold).into_iter().collect(),
        };
        self.under_way.insert(match lease.heartbeat(now, &beat, &SETTINGS) {
            Ok(token) => Message::Answer(token.to_vec()),
            Err(BeatRefused::TokenMismatch { current }) => Message::Mismatch(current.to_vec()),
            Err(BeatRefused::Inactive | BeatRefused::TooMany) => Message::Inactive,
        });
    }
}

struct Story {
    attempts_max: u8,
}

impl Story {
    fn beginning(&self) -> World {
        let worker =
            Process { alive: true, token: Vec::new(), works_on: None, bound: None, unbound: None, over: false };
        World {
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
        }
    }

    fn actions(&self, world: &World) -> Vec<Action> {
        let mut actions = Vec::new();
        if world.now < END {
            actions.push(Action::Tick);
        }
        let worker = &world.worker;
        let works = worker.alive && !worker.over;
        let known = world.lease.as_ref().is_some_and(Lease::speaks_protocol);
        if works && known && world.holder.is_none() && !world.is_over() && worker.works_on.is_none() {
            actions.push(Action::HandOver);
        }
        if works && world.under_way.iter().all(|message| !matches!(message, Message::Heartbeat { .. })) {
            actions.push(Action::Report);
        }
        if works && worker.works_on.is_some() {
            actions.push(Action::Finish);
        }
        if worker.alive {
            actions.push(Action::Die);
        }
        if world.restarts == 0 {
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
                next.lease.as_mut()?.hand_over(hold(start), now);
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
            Action::Die => next.worker.alive = false,
            Action::Restart => {
                next.restarts += 1;
                next.lease = next.holder.filter(|(other, _)| !other).map(|(_, start)| {
                    let mut lease = Lease::expected(now);
                    lease.restore(hold(start), now);
                    lease
                });
                next.inactive = false;
            }
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
        [
            (world.completed <= 1, "at most one completion is accepted"),
            (world.starts <= self.attempts_max, "there are no more starts than attempts"),
            (!(world.failed && world.completed > 0), "an activity ends once"),
            (watched, "whoever has the activity is watched"),
            (no_ghosts, "nothing counts as held that is over or with others"),
        ]
        .into_iter()
        .find_map(|(holds, what)| (!holds).then_some(what))
    }

    fn is_worth_following(&self, world: &World) -> bool {
        world.under_way.len() <= 2 && world.lease.as_ref().is_none_or(|lease| lease.token()[0] <= 3)
    }
}

/// Visits every world that can come about, the nearest first. Returns how many there are, and which of the things that
/// should be possible were seen.
fn explore(story: &Story) -> (usize, [bool; 3]) {
    // A world's number, and for each number the world it came from and how.
    let mut numbers = HashMap::from([(story.beginning(), 0_usize)]);
    let mut origins: Vec<(usize, Option<Action>)> = vec![(0, None)];
    let mut next = VecDeque::from([(0, story.beginning())]);
    let mut seen = [false; 3];
    while let Some((number, world)) = next.pop_front() {
        if let Some(what) = story.broken(&world) {
            let (mut at, mut path) = (number, Vec::new());
            while let (from, Some(action)) = &origins[at] {
                path.push(format!("{action:?}"));
                at = *from;
            }
            path.reverse();
            panic!("broken: {what}\n{}\n{world:#?}", path.join("\n"));
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
    (numbers.len(), seen)
}

#[test]
fn every_order_of_events_keeps_the_promises() {
    for attempts_max in ATTEMPTS_MAX {
        let (worlds, [moved, survived, failed]) = explore(&Story { attempts_max });
        println!("{attempts_max} attempts: {worlds} worlds");
        assert_eq!(moved, attempts_max > 1, "an activity moves if it may");
        assert!(survived, "a worker may keep its activity over a restart");
        assert!(failed, "an activity may be lost for good");
    }
}
