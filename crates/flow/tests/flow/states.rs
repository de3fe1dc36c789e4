//! Stored states that were damaged: they are refused or harmless. Nothing panics and nothing hangs.
//!
//! `FLOW_FUZZ_RUNS` says how many damaged states to try per script (2,000 if not set).

use segno_flow::interface::{Event, EventKind, FailureInfo, Limits, Pace, Payload, Start, TurnError};
use segno_flow::{Code, check, compile, inspect, query, turn};

use crate::dice::{Dice, from_environment};
use crate::seeds::SCRIPTS;

/// Ends a turn that takes more steps than any of these scripts needs.
struct BoundedPace;

impl Pace for BoundedPace {
    fn go_on(&mut self, steps: u64) -> bool {
        steps < 200_000
    }
}

fn code(source: &str) -> Code {
    let checked = check(source.as_bytes());
    compile(&checked.program.unwrap_or_else(|| panic!("{:?}", checked.diagnostics)), "w.flow").unwrap()
}

fn json(text: &str) -> Payload {
    Payload { metadata: vec![("encoding".to_owned(), b"json/plain".to_vec())], data: text.as_bytes().to_vec() }
}

fn at(time: i64, kind: EventKind) -> Event {
    Event { time, kind }
}

/// Events that could come to any of the scripts.
fn events() -> Vec<Event> {
    let failure = segno_flow::interface::Failure {
        message: "no".to_owned(),
        info: FailureInfo::Application { kind: "X".to_owned(), non_retryable: true, details: vec![json("1")] },
        ..Default::default()
    };
    vec![
        at(1_000, EventKind::Signaled { name: "s".to_owned(), input: vec![json("1")] }),
        at(2_000, EventKind::TimerFired { id: "timer-1".to_owned() }),
        at(3_000, EventKind::TaskEnded { id: "task-1".to_owned(), end: Err(failure) }),
        at(3_500, EventKind::TimerFired { id: "timer-2".to_owned() }),
        at(4_000, EventKind::Update { id: "u".to_owned(), name: "u".to_owned(), input: vec![json("9")] }),
        at(5_000, EventKind::CancelRequested { reason: "why".to_owned() }),
        at(6_000, EventKind::TaskEnded { id: "task-2".to_owned(), end: Ok(vec![json("{}")]) }),
    ]
}

/// States of a script after each event.
fn states(code: &Code) -> Vec<Vec<u8>> {
    let start = Start { run_id: "r".to_owned(), workflow_id: "w".to_owned(), ..Start::default() };
    let mut states = Vec::new();
    let mut state: Option<Vec<u8>> = None;
    for event in std::iter::once(at(0, EventKind::Started(Box::new(start)))).chain(events()) {
        let turned = turn(code, state.as_deref(), &[event], &Limits::default(), &mut BoundedPace).unwrap();
        state = Some(turned.state.clone());
        states.push(turned.state);
    }
    states
}

/// Does everything with a state that a server does.
fn use_state(code: &Code, state: &[u8]) -> bool {
    let limits = Limits { steps: 50_000, steps_without_effects: 10_000, ..Limits::default() };
    let mut accepted = false;
    match turn(code, Some(state), &events(), &limits, &mut BoundedPace) {
        Ok(turned) => {
            accepted = true;
            // What a turn writes can be read.
            assert!(
                !matches!(
                    turn(code, Some(&turned.state), &events(), &limits, &mut BoundedPace),
                    Err(TurnError::DamagedState(_))
                ),
                "a turn wrote a state that cannot be read"
            );
        }
        Err(TurnError::DamagedState(_) | TurnError::Defect(_) | TurnError::GivenUp) => {}
    }
    let _ = query(code, state, "q", &[], 0, &limits);
    let _ = query(code, state, "__stack_trace", &[], 0, &limits);
    let _ = inspect(code, state);
    accepted
}

#[test]
fn damaged_states_do_no_harm() {
    let runs = from_environment("FLOW_FUZZ_RUNS", 2_000);
    for (number, source) in SCRIPTS.iter().enumerate() {
        let code = code(source);
        let states = states(&code);
        for state in &states {
            assert!(use_state(&code, state), "script {number}: an undamaged state is refused");
        }
        let mut dice = Dice(number as u64 + 1);
        for _ in 0..runs {
            let mut state = states[dice.below(states.len() as u64) as usize].clone();
            for _ in 0..1 + dice.below(3) {
                if state.is_empty() {
                    break;
                }
                let place = dice.below(state.len() as u64) as usize;
                match dice.below(6) {
                    0 => state[place] ^= 1 << dice.below(8),
                    1 => state[place] = dice.next() as u8,
                    2 => state[place] = [0, 1, 0x7f, 0x80, 0xff][dice.below(5) as usize],
                    3 => state.truncate(place),
                    4 => state.insert(place, dice.next() as u8),
                    _ => {
                        state.remove(place);
                    }
                }
            }
            use_state(&code, &state);
        }
    }
}

#[test]
fn states_of_other_scripts_do_no_harm() {
    let codes = SCRIPTS.map(code);
    let states: Vec<Vec<Vec<u8>>> = codes.iter().map(states).collect();
    for code in &codes {
        for state in states.iter().flatten() {
            use_state(code, state);
        }
    }
}

#[test]
fn damaged_code_does_no_harm() {
    let mut dice = Dice(7);
    for source in SCRIPTS {
        let code = code(source);
        let encoded = code.encode();
        let decoded = Code::decode(&encoded).unwrap();
        assert_eq!(decoded, code);
        let states = states(&code);
        for _ in 0..from_environment("FLOW_FUZZ_RUNS", 2_000) / 4 {
            let mut encoded = encoded.clone();
            let place = dice.below(encoded.len() as u64) as usize;
            if dice.below(8) == 0 {
                encoded.truncate(place);
            } else {
                encoded[place] ^= 1 << dice.below(8);
            }
            if let Ok(code) = Code::decode(&encoded) {
                use_state(&code, &states[dice.below(states.len() as u64) as usize]);
            }
        }
    }
}
