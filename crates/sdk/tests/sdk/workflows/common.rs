//! What the tests of workflows share.

use std::time::Duration;

use segno_sdk::{
    Workflow,
    raw::enums::{CommandType, EventType},
    testing::{TestRun, WorkflowTest},
};

// Tasks that tests use by name only: they are mocked.
segno_sdk::define_task!(pub Work = "work": u32 => u32);
segno_sdk::define_task!(pub Other = "other": u32 => u32);
segno_sdk::define_task!(pub Third = "third": u32 => u32);

pub const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Runs a test with a cache and without one. Both have to end the same, with the same history.
pub async fn both<W: Workflow>(make: impl Fn() -> WorkflowTest<W>) -> TestRun<W::Output> {
    let cached = make().run().await;
    let cold = make().without_cache().run().await;
    assert_eq!(cached.history, cold.history, "the history without a cache differs");
    assert_eq!(cached.commands, cold.commands);
    cached
}

/// The types of the commands that a run asked for.
pub fn commands<T>(run: &TestRun<T>) -> Vec<CommandType> {
    run.commands.iter().map(|command| command.command_type()).collect()
}

/// How many events of a type a history has.
pub fn count<T>(run: &TestRun<T>, kind: EventType) -> usize {
    run.history.iter().filter(|event| event.event_type() == kind).count()
}
