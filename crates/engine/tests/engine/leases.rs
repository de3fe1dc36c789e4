//! The lease of a worker: every arrow of its machine, its protocol, and random lives.

use std::collections::BTreeSet;

use crate::common::{random::Random, world::SECOND};
use segno_engine::{
    lease::{Beat, BeatRefused, Hold, LEASE_MAX, LEASE_MIN, Lease, LeaseExpiry, LeaseSettings, LostBecause},
    machine::{
        coverage,
        lease::{self as machine, Event, STEPS, State},
    },
    slots::HandOver,
};

const SETTINGS: LeaseSettings =
    LeaseSettings { lease: 60 * SECOND, grace: 15 * SECOND, verification: 120 * SECOND, tokens_from: 0 };

fn hold(number: i64) -> Hold {
    Hold { run_key: 1, scheduled_event_id: number, started_time: 7 }
}

fn beat(token: [u8; 8]) -> Beat {
    Beat { token: token.to_vec(), ..Default::default() }
}

fn long(token: [u8; 8]) -> Beat {
    Beat { lease: 600 * SECOND, ..beat(token) }
}

#[test]
fn every_arrow_is_taken_and_no_other_exists() {
    let lives: [&dyn Fn(&mut Lease); 7] = [
        &|lease| {
            assert_eq!((lease.note_call(1), lease.attached(2), lease.shut_down()), (Ok(()), Ok(()), Ok(())));
            let over = lease.shut_down().expect_err("it is over");
            assert_eq!(over.to_string(), "lease: ShutDown is not possible in state Inactive");
        },
        &|lease| {
            assert_eq!(lease.detached(1), Ok(()));
            assert_eq!(lease.detached(2), Ok(()));
            assert_eq!((lease.note_call(2), lease.attached(3)), (Ok(()), Ok(())));
        },
        &|lease| {
            assert_eq!(lease.detached(1), Ok(()));
            assert_eq!(lease.shut_down(), Ok(()));
            let after = lease.clone();
            assert!(lease.attached(3).is_err() && lease.note_call(3).is_err() && lease.reported(3).is_err());
            assert!(lease.detached(3).is_err() && lease.leaves(3).is_err());
            assert_eq!(*lease, after, "a step that is refused changes nothing");
        },
        &|lease| {
            assert_eq!(lease.detached(1), Ok(()));
            assert_eq!(lease.expire(1 + SETTINGS.grace, &SETTINGS).lost, Some(LostBecause::Disconnected));
        },
        &|lease| {
            assert_eq!(lease.reported(1), Ok(()));
            assert_eq!(lease.expire(1 + SETTINGS.stock_lease(), &SETTINGS).lost, Some(LostBecause::Silent));
            assert_eq!(lease.expire(i64::MAX, &SETTINGS), LeaseExpiry::default(), "a worker is lost once");
        },
        &|lease| {
            assert_eq!(lease.detached(1), Ok(()));
            assert!(lease.heartbeat(2, &Beat::default(), &SETTINGS).is_ok());
            assert_eq!(lease.state(), State::Active, "a heartbeat comes over some connection");
        },
        &|lease| assert_eq!(lease.expire(i64::MAX, &SETTINGS), LeaseExpiry::default(), "an open connection is life"),
    ];
    for live in lives {
        live(&mut Lease::new(0));
    }
    for (from, on, to) in STEPS {
        assert!(coverage::taken("lease", *from as usize, *on as usize), "no life takes {from:?} + {on:?}");
        assert_eq!(machine::next(*from, *on), Ok(*to));
    }
    for on in [Event::Renew, Event::Detach, Event::Attach, Event::Expire, Event::ShutDown] {
        assert!(machine::next(State::Inactive, on).is_err(), "inactive is the end, also for {on:?}");
    }
}

#[test]
fn a_lost_answer_is_found_by_its_token() {
    let mut lease = Lease::new(0);
    lease.hand_over(hold(1), HandOver::Poll, 0);
    lease.hand_over(hold(2), HandOver::Poll, 0);
    let first = lease.heartbeat(0, &Beat { token: b"from a former life".to_vec(), ..Default::default() }, &SETTINGS);
    let first = first.expect("the first heartbeat registers");
    assert_eq!(first, 1_u64.to_le_bytes());
    let mut next = Beat { bound: vec![hold(1)], ..beat(first) };
    let second = lease.heartbeat(SECOND, &next, &SETTINGS).expect("the token fits");
    // That answer was lost: the worker tries again with what it knows, and nothing of it is taken.
    next.bound.push(hold(2));
    let refused = lease.heartbeat(50 * SECOND, &next, &SETTINGS);
    assert_eq!(refused, Err(BeatRefused::TokenMismatch { current: second }));
    assert_eq!(lease.alive_until(&SETTINGS), Some(61 * SECOND), "a refused heartbeat renews nothing");
    next.token = second.to_vec();
    next.lease = 600 * SECOND;
    assert_eq!(lease.clone().wake_at(&SETTINGS), Some(61 * SECOND));
    lease.heartbeat(51 * SECOND, &next, &SETTINGS).expect("with the current token it fits");
    assert_eq!(lease.holds().copied().collect::<Vec<_>>(), [hold(1), hold(2)], "binding twice is binding once");
    assert_eq!(lease.wake_at(&SETTINGS), Some(651 * SECOND), "both are bound");
}

#[test]
fn only_what_was_handed_over_can_be_bound() {
    let mut lease = Lease::new(0);
    lease.hand_over(hold(1), HandOver::Poll, 0);
    let both = Beat { bound: vec![hold(1), hold(2)], unbound: vec![hold(3)], ..Default::default() };
    let token = lease.heartbeat(SECOND, &both, &SETTINGS).expect("it registers");
    assert_eq!(lease.holds().copied().collect::<Vec<_>>(), [hold(1)], "the other one was never its own");
    lease.release(&hold(1));
    // It was over before the heartbeat that tells of its beginning.
    let late = Beat { bound: vec![hold(1)], unbound: vec![hold(1)], ..beat(token) };
    let token = lease.heartbeat(2 * SECOND, &late, &SETTINGS).expect("the token fits");
    assert!(lease.is_idle());
    // Another attempt of the same activity is another hold.
    let second = Hold { started_time: 8, ..hold(1) };
    lease.hand_over(second, HandOver::Poll, 3 * SECOND);
    lease.heartbeat(4 * SECOND, &Beat { bound: vec![hold(1)], ..beat(token) }, &SETTINGS).expect("the token fits");
    assert_eq!(lease.expire(63 * SECOND, &SETTINGS), LeaseExpiry::default());
    assert_eq!(lease.holds().copied().collect::<Vec<_>>(), [second]);
    // After a restart what storage says may come after the heartbeat.
    let mut lease = Lease::new(0);
    let token = lease.heartbeat(0, &Beat { bound: vec![hold(1)], ..long([9; 8]) }, &SETTINGS).expect("it registers");
    lease.restore(hold(1), SECOND);
    lease.heartbeat(2 * SECOND, &Beat { bound: vec![hold(1)], ..long(token) }, &SETTINGS).expect("the token fits");
    assert_eq!(lease.expire(500 * SECOND, &SETTINGS), LeaseExpiry::default(), "it is bound");
    assert_eq!(lease.holds().count(), 1);
}

#[test]
fn inactive_is_the_end() {
    let mut lease = Lease::new(0);
    let token = lease.heartbeat(0, &Beat::default(), &SETTINGS).expect("registered");
    assert_eq!(lease.expire(60 * SECOND - 1, &SETTINGS), LeaseExpiry::default(), "not yet");
    assert_eq!(lease.expire(60 * SECOND, &SETTINGS).lost, Some(LostBecause::Silent));
    assert_eq!(lease.heartbeat(60 * SECOND, &beat(token), &SETTINGS), Err(BeatRefused::Inactive));
    assert_eq!((lease.alive_until(&SETTINGS), lease.wake_at(&SETTINGS)), (None, None));
}

#[test]
fn leases_are_bounded() {
    for (asked, granted) in [(0, SETTINGS.lease), (1, LEASE_MIN), (i64::MAX, LEASE_MAX), (90 * SECOND, 90 * SECOND)] {
        let mut lease = Lease::new(0);
        lease.heartbeat(5, &Beat { lease: asked, ..Default::default() }, &SETTINGS).expect("registered");
        assert_eq!(lease.alive_until(&SETTINGS), Some(5 + granted));
    }
}

#[test]
fn neither_polls_nor_connections_renew_the_lease_of_the_protocol() {
    let mut lease = Lease::new(0);
    lease.heartbeat(0, &Beat::default(), &SETTINGS).expect("registered");
    assert_eq!((lease.note_call(50 * SECOND), lease.attached(55 * SECOND)), (Ok(()), Ok(())));
    assert_eq!(lease.alive_until(&SETTINGS), Some(60 * SECOND));
    assert_eq!(lease.detached(56 * SECOND), Ok(()));
    assert_eq!(lease.alive_until(&SETTINGS), Some(60 * SECOND), "its lease says it, not its connections");
}

#[test]
fn orphans_are_found_by_the_verification_timer() {
    let mut lease = Lease::new(0);
    lease.hand_over(hold(1), HandOver::Poll, 0);
    lease.hand_over(hold(2), HandOver::Poll, 0);
    lease.hand_over(hold(3), HandOver::Poll, 0);
    assert_eq!(lease.wake_at(&SETTINGS), None, "a stock worker says nothing of what it holds");
    let token = lease.heartbeat(SECOND, &Beat { bound: vec![hold(1), hold(3)], ..long([0; 8]) }, &SETTINGS);
    assert_eq!(lease.wake_at(&SETTINGS), Some(120 * SECOND));
    assert_eq!(lease.expire(119 * SECOND, &SETTINGS), LeaseExpiry::default());
    assert_eq!(lease.expire(120 * SECOND, &SETTINGS).orphans, [hold(2)], "active and not bound");
    assert_eq!(lease.expire(125 * SECOND, &SETTINGS), LeaseExpiry::default(), "active and bound");
    // What it gave up and what did not end is an orphan later.
    let given_up = Beat { unbound: vec![hold(3), hold(3), hold(9)], ..long(token.expect("registered")) };
    lease.heartbeat(130 * SECOND, &given_up, &SETTINGS).expect("the token fits");
    assert_eq!(lease.expire(250 * SECOND, &SETTINGS).orphans, [hold(3)]);
    lease.release(&hold(1));
    assert!(lease.is_idle());
}

#[test]
fn a_stock_worker_that_comes_back_in_time_keeps_everything() {
    let mut lease = Lease::new(0);
    lease.hand_over(hold(1), HandOver::Poll, 0);
    lease.hand_over_task(4);
    for round in 1..100 {
        let at = round * 20 * SECOND;
        assert_eq!(lease.detached(at), Ok(()));
        assert_eq!(lease.expire(at + SETTINGS.grace - 1, &SETTINGS), LeaseExpiry::default());
        assert_eq!(lease.attached(at + SETTINGS.grace - 1), Ok(()));
        assert_eq!(lease.expire(at + SETTINGS.grace, &SETTINGS), LeaseExpiry::default());
    }
    assert_eq!(lease.runs().into_iter().collect::<Vec<_>>(), [1, 4]);
}

#[test]
fn a_worker_that_is_cut_off_again_and_again_has_longer() {
    let short = LeaseSettings { grace: SECOND, ..SETTINGS };
    let mut lease = Lease::new(0);
    assert_eq!(lease.detached(0), Ok(()));
    assert_eq!(lease.detached(0), Ok(()));
    assert_eq!(lease.alive_until(&short), Some(SECOND), "it was cut off once");
    for cut in 1..10 {
        assert_eq!(lease.attached(cut), Ok(()));
        assert_eq!(lease.detached(cut), Ok(()));
        lease.answered();
        assert_eq!(lease.alive_until(&short), Some(cut + 14 * SECOND), "it did not hear that answer");
    }
    // An answer makes it quick again.
    for cut in 11..20 {
        assert_eq!(lease.attached(cut), Ok(()));
        lease.answered();
        assert_eq!(lease.detached(cut), Ok(()));
        assert_eq!(lease.alive_until(&short), Some(cut + short.grace));
    }
    // A long grace period is never made shorter.
    for cut in 21..30 {
        assert_eq!(lease.attached(cut), Ok(()));
        assert_eq!(lease.detached(cut), Ok(()));
        assert_eq!(lease.alive_until(&SETTINGS), Some(cut + SETTINGS.grace));
    }
}

/// An SDK whose connection breaks at any moment. Its pollers share the steps of their back-off; the first one that is
/// back speaks for it. While it connects within a second and a half it is never lost, however short the grace period is.
#[test]
fn a_living_worker_with_a_bad_connection_is_never_lost() {
    for seed in 0..1000 {
        let mut random = Random(seed);
        let settings = LeaseSettings { grace: (2 + random.below(15) as i64) * SECOND, ..SETTINGS };
        let (mut lease, mut now, mut step) = (Lease::new(0), 0, 0_u32);
        // When each poller is back.
        let mut pollers = vec![0; 1 + random.below(10)];
        for _ in 0..40 {
            now += random.below(15_000) as i64 * SECOND / 1000;
            if random.once_in(6) {
                lease.answered();
                step = 0;
            }
            assert_eq!(lease.detached(now), Ok(()));
            for back in pollers.iter_mut().filter(|back| **back <= now) {
                let wait = (SECOND / 5 * (1 << step.min(10))).min(10 * SECOND);
                *back = now + wait * (80 + random.below(41) as i64) / 100;
                step += 1;
            }
            now = pollers.iter().min().copied().unwrap_or(now) + random.below(1500) as i64 * SECOND / 1000;
            assert_eq!(lease.expire(now, &settings), LeaseExpiry::default(), "seed {seed}");
            assert_eq!(lease.attached(now), Ok(()));
        }
    }
}

#[test]
fn a_worker_that_leaves_may_take_its_time() {
    let mut lease = Lease::new(0);
    lease.hand_over(hold(1), HandOver::Poll, 0);
    assert_eq!(lease.reported(1), Ok(()));
    assert_eq!(lease.leaves(1), Ok(()));
    assert_eq!(lease.expire(i64::MAX, &SETTINGS), LeaseExpiry::default(), "it finishes, and says nothing meanwhile");
    assert_eq!(lease.detached(SECOND), Ok(()));
    assert_eq!(lease.expire(SECOND + SETTINGS.grace, &SETTINGS).lost, Some(LostBecause::Disconnected));
}

#[test]
fn a_worker_that_leaves_is_over_once_it_has_nothing() {
    let mut lease = Lease::new(0);
    assert_eq!(lease.leaves(SECOND), Ok(()));
    let until = SECOND + SETTINGS.grace;
    assert_eq!(lease.expire(until - 1, &SETTINGS), LeaseExpiry::default(), "a task may be on its way to it");
    lease.hand_over(hold(1), HandOver::Poll, SECOND);
    lease.hand_over_task(2);
    assert_eq!(lease.wake_at(&SETTINGS), None, "it has something");
    lease.release(&hold(1));
    assert_eq!(lease.wake_at(&SETTINGS), None);
    lease.release_task(2);
    assert_eq!(lease.expire(until, &SETTINGS).lost, Some(LostBecause::ShutDown));
    let mut by_protocol = Lease::new(0);
    by_protocol.heartbeat(0, &Beat::default(), &SETTINGS).expect("registered");
    assert_eq!(by_protocol.leaves(SECOND), Ok(()));
    assert_eq!(by_protocol.wake_at(&SETTINGS), Some(SETTINGS.lease), "its lease decides");
}

#[test]
fn after_a_restart_there_is_one_full_lease() {
    let mut lease = Lease::expected(10);
    lease.restore(hold(1), 10);
    assert_eq!(lease.expire(9 + SETTINGS.stock_lease(), &SETTINGS), LeaseExpiry::default());
    assert_eq!(lease.clone().expire(10 + SETTINGS.stock_lease(), &SETTINGS).lost, Some(LostBecause::Silent));
    // By protocol: its token is of the former server, and what it held is not verified once more.
    lease
        .heartbeat(SECOND, &Beat { token: vec![9; 8], lease: 600 * SECOND, ..Default::default() }, &SETTINGS)
        .expect("it registers again");
    assert_eq!(lease.expire(500 * SECOND, &SETTINGS), LeaseExpiry::default());
}

#[test]
fn a_server_that_was_away_blames_nobody() {
    let mut lease = Lease::new(0);
    lease.heartbeat(0, &Beat::default(), &SETTINGS).expect("registered");
    lease.excuse(1000 * SECOND);
    assert_eq!(lease.expire(1059 * SECOND, &SETTINGS), LeaseExpiry::default());
    assert!(lease.expire(1060 * SECOND, &SETTINGS).lost.is_some());
}

/// Random lives: a worker is never lost before its time, always at its time, and never twice; a token is never given
/// twice; what is held is what was handed over, less what is over, independent of what it says.
#[test]
fn random_lives() {
    for seed in 0..2000 {
        let mut random = Random(seed);
        let mut lease = Lease::new(0);
        let mut now = 0;
        let mut token = Vec::new();
        let mut tokens = 0;
        let mut lost = false;
        let mut held = BTreeSet::new();
        for _ in 0..60 {
            now += random.below(25) as i64 * SECOND;
            let before = lease.clone();
            match random.below(11) {
                10 => lease.answered(),
                0 => assert_eq!(lease.note_call(now).is_ok(), !lost),
                1 => assert_eq!(lease.attached(now).is_ok(), !lost),
                2 => assert_eq!(lease.detached(now).is_ok(), !lost),
                3 => assert_eq!(lease.reported(now).is_ok(), !lost),
                4 | 5 => {
                    let stale = random.once_in(4);
                    let sent = if stale { vec![0xff; 8] } else { token.clone() };
                    let bound = vec![hold(random.below(5) as i64)];
                    let unbound = vec![hold(random.below(5) as i64)];
                    let said = Beat { token: sent, lease: random.below(100) as i64 * SECOND, bound, unbound };
                    match lease.heartbeat(now, &said, &SETTINGS) {
                        Ok(next) => {
                            assert!(!lost && (!stale || before.token() == [0; 8]));
                            tokens += 1;
                            assert_eq!(next, u64::to_le_bytes(tokens));
                            token = next.to_vec();
                        }
                        Err(BeatRefused::Inactive) => assert!(lost),
                        Err(BeatRefused::TokenMismatch { current }) => {
                            assert!(stale && current.to_vec() == token);
                            assert_eq!(lease, before, "a refused heartbeat changes nothing");
                        }
                        Err(BeatRefused::TooMany) => panic!("one worker is not too many"),
                    }
                }
                6 => {
                    let handed = hold(random.below(5) as i64);
                    lease.hand_over(handed, HandOver::Poll, now);
                    held.insert(handed);
                }
                7 => {
                    let over = hold(random.below(5) as i64);
                    lease.release(&over);
                    held.remove(&over);
                }
                8 if random.once_in(10) => {
                    assert_eq!(lease.shut_down().is_ok(), !lost);
                    lost = true;
                }
                _ => {
                    let until = lease.alive_until(&SETTINGS);
                    let due = lease.expire(now, &SETTINGS);
                    assert_eq!(due.lost.is_some(), until.is_some_and(|until| until <= now) && !lost);
                    due.orphans.iter().for_each(|orphan| assert!(held.remove(orphan), "it was handed over"));
                    lost |= due.lost.is_some();
                    assert!(lease.wake_at(&SETTINGS).is_none_or(|at| at > now), "what was due is done");
                }
            }
            assert_eq!(lease.state() == State::Inactive, lost);
            assert!(lease.holds().eq(&held), "nothing is held that was not handed over");
        }
    }
}

/// A worker and its server over a network that loses calls and answers and delivers calls late. As soon as a heartbeat
/// and its answer get through, the server has exactly what the worker works on; all else it would look into.
#[test]
fn random_conversations() {
    let long = 3600 * SECOND;
    let (mut understood, mut refused) = (0, 0);
    for seed in 0..2000 {
        let mut random = Random(seed);
        let mut lease = Lease::new(0);
        let (mut now, mut token, mut next) = (0, Vec::new(), 0);
        let mut works_on = BTreeSet::new();
        // Not known to have been heard.
        let (mut bound, mut unbound) = (BTreeSet::new(), BTreeSet::new());
        let mut late: Vec<Beat> = Vec::new();
        for _ in 0..80 {
            now += random.below(3) as i64 * SECOND;
            match random.below(8) {
                0 | 1 => {
                    next += 1;
                    lease.hand_over(hold(next), HandOver::Poll, now);
                    if !random.once_in(4) {
                        works_on.insert(hold(next));
                        bound.insert(hold(next));
                    }
                }
                2 | 3 => {
                    let Some(done) = random.pick(&works_on.iter().copied().collect::<Vec<_>>()) else { continue };
                    works_on.remove(&done);
                    bound.remove(&done);
                    unbound.insert(done);
                    if !random.once_in(3) {
                        lease.release(&done);
                    }
                }
                4 if !late.is_empty() => {
                    let beat = late.swap_remove(random.below(late.len()));
                    // Its answer is discarded.
                    let _ = lease.heartbeat(now, &beat, &SETTINGS);
                }
                _ => {
                    let (bound_now, unbound_now) = (bound.iter().copied().collect(), unbound.iter().copied().collect());
                    let beat = Beat { token: token.clone(), lease: long, bound: bound_now, unbound: unbound_now };
                    if random.once_in(4) {
                        late.push(beat);
                        continue;
                    }
                    let answer = lease.heartbeat(now, &beat, &SETTINGS);
                    if random.once_in(4) {
                        continue;
                    }
                    match answer {
                        Ok(fits) => {
                            token = fits.to_vec();
                            (bound, unbound) = (BTreeSet::new(), BTreeSet::new());
                            let mut later = lease.clone();
                            later.expire(now + SETTINGS.verification, &SETTINGS);
                            assert_eq!(later.holds().copied().collect::<BTreeSet<_>>(), works_on, "seed {seed}");
                            understood += 1;
                        }
                        Err(BeatRefused::TokenMismatch { current }) => {
                            token = current.to_vec();
                            refused += 1;
                        }
                        Err(other) => panic!("{other}"),
                    }
                }
            }
        }
    }
    assert!(understood > 10_000 && refused > 10_000, "{understood} understood, {refused} refused");
}
