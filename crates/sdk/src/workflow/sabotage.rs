//! Rules of the executor that a test can disable, to prove that other tests fail without them.
//!
//! Without the feature `sabotage`, which only the tests of this crate have, all rules hold. A rule is disabled for one
//! thread, so that tests beside it are not disturbed: the workflows of a test live on a thread of their own.

use std::cell::Cell;

#[allow(dead_code)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sabotage {
    /// The operation that is polled first is ready first.
    NoGrant,
    /// Dropping sends no cancellation.
    DropWithoutCancel,
    /// Time is the clock's.
    TimeIsNow,
    /// Markers are not compared.
    MarkersNotMatched,
    /// Ids do not follow from their position.
    CounterNotAdvanced,
    /// The comparison with history: nothing is compared.
    ComparesWithItself,
    /// The comparison with history: types of commands only.
    ComparesTypesOnly,
    /// The comparison with history: what is missing at the end is not noticed.
    SkipsTheLast,
    /// The comparison with history: what is too much is not noticed.
    IgnoresTheRest,
}

thread_local! {
    static ON: Cell<Option<Sabotage>> = const { Cell::new(None) };
}

pub(crate) fn is_on(sabotage: Sabotage) -> bool {
    cfg!(feature = "sabotage") && ON.get() == Some(sabotage)
}

/// Takes a rule out on this thread.
#[allow(dead_code)]
pub(crate) fn set(sabotage: Option<Sabotage>) {
    ON.set(sabotage);
}

/// The rule with this name.
#[allow(dead_code)]
pub(crate) fn named(name: &str) -> Option<Sabotage> {
    let all = [
        Sabotage::NoGrant,
        Sabotage::DropWithoutCancel,
        Sabotage::TimeIsNow,
        Sabotage::MarkersNotMatched,
        Sabotage::CounterNotAdvanced,
        Sabotage::ComparesWithItself,
        Sabotage::ComparesTypesOnly,
        Sabotage::SkipsTheLast,
        Sabotage::IgnoresTheRest,
    ];
    all.into_iter().find(|sabotage| format!("{sabotage:?}") == name)
}
