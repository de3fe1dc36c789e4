//! Scripts: any source is checked and formatted; what compiles takes its first turns within the limits.

use segno_flow::{
    check, compile, format,
    interface::{Event, EventKind, Limits, Pace, Payload, Start, TurnError},
    query, turn,
};

#[path = "../../../crates/flow/tests/flow/seeds.rs"]
mod seeds;
pub(crate) use seeds::SCRIPTS;

/// Far below the usual limits, so that an endless loop costs little.
pub(crate) const LIMITS: Limits = Limits {
    steps: 20_000,
    steps_without_effects: 5_000,
    state_bytes: 1 << 18,
    value_bytes: 1 << 16,
    memory_bytes: 4 << 20,
    call_depth: 50,
    pending: 50,
    pending_calls: 50,
};

/// Ends turns that the limits should have ended.
pub(crate) struct BoundedPace;

impl Pace for BoundedPace {
    fn go_on(&mut self, steps: u64) -> bool {
        assert!(steps <= 20 * LIMITS.steps, "{steps} steps in one turn");
        true
    }
}

pub(crate) fn json(text: &str) -> Payload {
    Payload { metadata: vec![("encoding".to_owned(), b"json/plain".to_vec())], data: text.as_bytes().to_vec() }
}

/// What could happen to any script, after its start.
pub(crate) fn events() -> Vec<Event> {
    let happened = [
        EventKind::Signaled { name: "s".to_owned(), input: vec![json("1")] },
        EventKind::TimerFired { id: "timer-1".to_owned() },
        EventKind::TaskEnded { id: "task-1".to_owned(), end: Ok(vec![json("[1, {\"a\": null}]")]) },
        EventKind::NexusEnded { id: "nexus-1".to_owned(), end: Ok(vec![json("{}")]) },
        EventKind::Update { id: "u".to_owned(), name: "u".to_owned(), input: vec![json("9")] },
        EventKind::CancelRequested { reason: "why".to_owned() },
    ];
    happened.into_iter().enumerate().map(|(at, kind)| Event { time: 1_000 * (at as i64 + 1), kind }).collect()
}

pub(crate) fn started() -> Event {
    let start = Start { run_id: "r".to_owned(), workflow_id: "w".to_owned(), ..Start::default() };
    Event { time: 0, kind: EventKind::Started(Box::new(start)) }
}

pub(crate) fn run(input: &[u8]) {
    let checked = check(input);
    if let Ok(Ok(formatted)) = std::str::from_utf8(input).map(format) {
        let again = format(&formatted);
        assert_eq!(again.as_deref().ok(), Some(formatted.as_str()), "formatting twice changes something");
    }
    let Some(program) = checked.program else { return };
    let Ok(code) = compile(&program, "w.flow") else { return };
    let mut state: Option<Vec<u8>> = None;
    for event in std::iter::once(started()).chain(events()) {
        match turn(&code, state.as_deref(), &[event], &LIMITS, &mut BoundedPace) {
            Ok(turned) => state = Some(turned.state),
            Err(TurnError::DamagedState(why)) => panic!("a turn wrote a state that cannot be read: {why}"),
            Err(_) => return,
        }
        if let Some(state) = &state {
            let _ = query(&code, state, "q", &[], 9_000, &LIMITS);
        }
    }
}

pub(crate) fn seeds() -> Vec<(String, Vec<u8>)> {
    SCRIPTS.iter().enumerate().map(|(number, source)| (number.to_string(), source.as_bytes().to_vec())).collect()
}
