//! What holds after every step, checked from outside: history alone must tell what the run's state claims.

use std::collections::BTreeMap;

use prost::Message;
use segno_engine::{Run, state::RunState};

use super::{history_rules, world::World};

/// Everything that must hold at any time.
pub fn check(world: &World) {
    let history = world.history();
    check_storage(world);
    history_rules::check_run(&world.run, &history);
    if let Some(at) = world.wake_at() {
        assert!(world.run.is_running(), "a closed run wants nothing at {at}");
    }
}

/// Storage has everything but the tail, and can be read back.
fn check_storage(world: &World) {
    let run = &world.run;
    let again = Run::decode(run.encode()).expect("a run can be read back");
    assert_eq!(*again.info, *run.info);
    let kept = run.as_stored();
    assert_eq!(again.state(), kept.state(), "encoding loses nothing");
    assert!(kept.state().operations.values().all(|operation| !operation.is_taken()), "no worker is stored");
    if run.is_speculating() {
        assert_eq!(kept.state().task, None, "a speculative task is never stored");
        let task = run.state().task.clone();
        let of_memory = RunState { task, ..kept.state().clone() };
        let stored = |state: &RunState| RunState { operations: BTreeMap::new(), ..state.clone() };
        assert_eq!(stored(&of_memory), stored(run.state()), "nor is anything else lost");
    }
    let stored = Run::decode(world.stored_state.clone()).expect("what was stored can be read");
    assert!(!stored.is_speculating(), "a speculative task is never stored");
    assert_eq!(stored.state().next_event_id, world.stored.len() as i64 + 1, "stored state and history fit together");
    assert_eq!(run.next_stored_event_id(), stored.state().next_event_id, "the tail begins where storage ends");
    let bytes: usize = world.stored.iter().map(Message::encoded_len).sum();
    assert_eq!(stored.state().history_bytes, bytes as i64, "history bytes are counted");
}
