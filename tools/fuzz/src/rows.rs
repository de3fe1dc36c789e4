//! Rows of the store: states of runs and of scripts. What is damaged is refused or harmless.
//!
//! Checksums keep damage of the disk away from these functions; this is for rows with the right checksum, as a faulty
//! version or an import could write them.

use std::sync::LazyLock;

use prost::Message;
use segno_engine::{
    Run,
    state::{RunInfo, RunState},
};
use segno_flow::{Code, check, compile, inspect, interface::TurnError, query, turn};

use crate::scripts::{BoundedPace, LIMITS, SCRIPTS, events, started};

static CODES: LazyLock<Vec<Code>> = LazyLock::new(|| {
    let code = |source: &&str| compile(&check(source.as_bytes()).program?, "w.flow").ok();
    SCRIPTS.iter().filter_map(code).collect()
});

/// The first byte says what it is: a script's state, by the number of the script, or a run.
pub(crate) fn run(input: &[u8]) {
    let Some((kind, row)) = input.split_first() else { return };
    match CODES.get(usize::from(*kind)) {
        Some(code) => script(code, row),
        None => {
            if let Ok(run) = Run::decode(row.to_vec().into()) {
                let stored = run.encode();
                assert!(Run::decode(stored).is_ok(), "a run was written that cannot be read");
            }
        }
    }
}

fn script(code: &Code, state: &[u8]) {
    let _ = inspect(code, state);
    let _ = query(code, state, "q", &[], 9_000, &LIMITS);
    if let Ok(turned) = turn(code, Some(state), &events(), &LIMITS, &mut BoundedPace) {
        let again = turn(code, Some(&turned.state), &events(), &LIMITS, &mut BoundedPace);
        assert!(!matches!(again, Err(TurnError::DamagedState(_))), "a turn wrote a state that cannot be read");
    }
}

pub(crate) fn seeds() -> Vec<(String, Vec<u8>)> {
    let mut seeds = Vec::new();
    for (number, code) in CODES.iter().enumerate() {
        let mut state: Option<Vec<u8>> = None;
        for (step, event) in std::iter::once(started()).chain(events()).enumerate() {
            let Ok(turned) = turn(code, state.as_deref(), &[event], &LIMITS, &mut BoundedPace) else { break };
            seeds.push((format!("script-{number}-{step}"), [&[number as u8], &turned.state[..]].concat()));
            state = Some(turned.state);
        }
    }
    let info = RunInfo { workflow_id: "w".to_owned(), ..RunInfo::default() }.encode_to_vec();
    let run = [&[255], &(info.len() as u32).to_le_bytes()[..], &info, &RunState::default().encode_to_vec()].concat();
    seeds.push(("run".to_owned(), run));
    seeds
}
