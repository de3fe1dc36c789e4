//! Heartbeats of Temporal's SDKs as they were recorded, and what follows from them.
//!
//! A file of `tests/slots` has a table for each situation: what happens at which second, and the numbers of the heartbeats that
//! the SDK sent then. The situations are those in which counting could go wrong. The recordings were made with a heartbeat a
//! second; their times are stretched here, as if there were one every 60 s. `missing` names the attempts that must be found
//! with a heartbeat, and with no other.

use std::{collections::BTreeSet, fs, path::PathBuf};

use crate::common::world::SECOND;
use segno_engine::{
    lease::{Hold, Lease, LeaseSettings},
    slots::{HandOver, Proof, SlotReport},
};
use segno_proto::Nanos;

/// The clock of the worker is ahead.
const CLOCK_AHEAD: Nanos = 1_000 * SECOND;

fn hold(name: &str) -> Hold {
    let number = name.bytes().fold(0, |number, byte| number * 256 + i64::from(byte));
    Hold { run_key: 1, scheduled_event_id: number, started_time: 7 }
}

struct Worker {
    lease: Lease,
    proof: Proof,
    held: Vec<String>,
}

impl Worker {
    /// What becomes of a line; returns the attempts that were found missing.
    fn step(&mut self, at: Nanos, words: &[&str]) -> BTreeSet<String> {
        let value = |key: &str| {
            let found = words.iter().find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
            found.map(|number| number.parse::<Nanos>().expect("a number"))
        };
        let name = words.get(1).copied().unwrap_or_default();
        match words[0] {
            "handed" | "eager" | "restored" => {
                match words[0] {
                    "handed" => self.lease.hand_over(hold(name), HandOver::Poll, at),
                    "eager" => self.lease.hand_over(hold(name), HandOver::Reply, at),
                    _ => self.lease.restore(hold(name), at),
                }
                self.held.push(name.to_owned());
            }
            "arrived" => self.lease.arrived(&hold(name)),
            "over" => {
                self.lease.release(&hold(name));
                self.held.retain(|held| held != name);
            }
            "leaves" => self.lease.leaves(at).expect("it is active"),
            "away" => self.lease.excuse(value("for").expect("how long") * SECOND),
            "heartbeat" => {
                let report = SlotReport {
                    used: value("used").expect("slots in use"),
                    processed: value("processed").expect("processed tasks"),
                    made_at: value("made").map_or(at, |made| made * SECOND) + CLOCK_AHEAD,
                    received_at: value("received").map(|received| received * SECOND + CLOCK_AHEAD),
                    proof: self.proof,
                };
                let found = self.lease.slots_reported(at, report, &LeaseSettings::default());
                let name =
                    |found: &Hold| self.held.iter().find(|held| hold(held) == *found).expect("it is held").clone();
                return found.iter().map(name).collect();
            }
            other => panic!("no such step: {other}"),
        }
        BTreeSet::new()
    }
}

fn check(file: &str, proof: Proof) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/slots").join(file);
    let text = fs::read_to_string(&path).expect("the table is there");
    let new = || Worker { lease: Lease::new(0), proof, held: Vec::new() };
    let mut worker = new();
    let mut checked = 0;
    for (number, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.split_first() {
            None | Some((&"#", _)) => {}
            Some((&"situation", _)) => worker = new(),
            Some((second, rest)) => {
                let at = second.parse::<Nanos>().expect("a line begins with a second") * SECOND;
                let (rest, wanted) = match rest.iter().position(|word| *word == "missing") {
                    Some(place) => (&rest[..place], rest[place + 1..].iter().map(|name| (*name).to_owned()).collect()),
                    None => (rest, BTreeSet::new()),
                };
                let found = worker.step(at, rest);
                assert_eq!(found, wanted, "{file}, line {}: {line}", number + 1);
                checked += 1;
            }
        }
    }
    assert!(checked > 0, "{file} has no lines");
}

#[test]
fn python() {
    check("python.txt", Proof::AtRest);
}

#[test]
fn typescript() {
    check("typescript.txt", Proof::AtRest);
}

#[test]
fn go() {
    check("go.txt", Proof::NothingReceived);
}

#[test]
fn java() {
    check("java.txt", Proof::NothingReceived);
}

#[test]
fn late_and_lost_heartbeats() {
    check("order.txt", Proof::AtRest);
}
