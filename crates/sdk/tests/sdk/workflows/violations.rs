//! Changes to code: a history that one program left, replayed by another one.

use segno_sdk::{
    ViolationKind::{self, *},
    raw::HistoryEvent,
    replay::{History, ReplayError, ReplayReport, Replayer},
    testing::WorkflowTest,
    *,
};

use super::common::*;

fn replay<W: Workflow>(history: &[HistoryEvent]) -> Result<ReplayReport, ReplayError> {
    Replayer::new().workflow::<W>().replay(History::from_events(history.to_vec()))
}

/// Where a history can end while its run is open: never between a completed workflow task and what it asked for.
fn cuts(history: &[HistoryEvent]) -> Vec<usize> {
    use raw::enums::EventType::{WorkflowTaskScheduled, WorkflowTaskStarted};
    let ends = |event: &HistoryEvent| matches!(event.event_type(), WorkflowTaskScheduled | WorkflowTaskStarted);
    (1..=history.len()).filter(|cut| ends(&history[cut - 1])).collect()
}

/// Two programs under one name.
macro_rules! change {
    ($name:ident: |$ctx:ident| $before:block => $after:block) => {
        mod $name {
            use super::*;
            #[workflow(name = "Changed")]
            pub async fn before($ctx: Context, _input: ()) -> Result<u32> $before
            #[workflow(name = "Changed")]
            pub async fn after($ctx: Context, _input: ()) -> Result<u32> $after
        }
    };
}

async fn record<W: Workflow<Input = (), Output = u32>>() -> Vec<HistoryEvent> {
    let run = WorkflowTest::<W>::new(())
        .mock::<Work>(Ok)
        .mock::<Other>(Ok)
        .mock_child::<Child>(Ok)
        .signal(seconds(5), GO, 1)
        .batch(Duration::ZERO)
        .run()
        .await;
    run.output.unwrap();
    run.history
}

use std::time::Duration;
const GO: Signal<u32> = Signal::named("go");
define_workflow!(Child = "Child": u32 => u32);

/// The history of one program, replayed by the other: the kind of violation and the event.
async fn changed<A, B>() -> Option<(ViolationKind, i64)>
where
    A: Workflow<Input = (), Output = u32>,
    B: Workflow<Input = (), Output = u32>,
{
    let history = record::<A>().await;
    let report = replay::<A>(&history).expect("the same program");
    assert!(report.closed);
    // Also cut off after each of its turns.
    for cut in cuts(&history) {
        replay::<A>(&history[..cut]).unwrap_or_else(|error| panic!("cut off after event {cut}: {error}"));
    }
    match replay::<B>(&history) {
        Ok(_) => None,
        Err(error) => {
            let violation = error.violation().unwrap_or_else(|| panic!("{error}"));
            assert!(!violation.expected.is_empty() && !violation.actual.is_empty(), "{violation:?}");
            assert_eq!(violation.workflow_id, "test");
            Some((violation.kind, violation.event_id))
        }
    }
}

/// The line of the next change.
const KIND: u32 = line!() + 2;

change!(kind: |ctx| { Ok(ctx.schedule::<Work>(1).await?) } => { Ok(ctx.schedule::<Other>(1).await?) });
change!(order: |ctx| {
    let (a, b) = tokio::join!(ctx.schedule::<Work>(1), ctx.schedule::<Other>(1));
    Ok(a? + b?)
} => {
    let (a, b) = tokio::join!(ctx.schedule::<Other>(1), ctx.schedule::<Work>(1));
    Ok(a? + b?)
});
change!(order_of_types: |ctx| {
    let (a, b) = tokio::join!(ctx.schedule::<Work>(1), ctx.sleep(seconds(1)));
    b?;
    Ok(a?)
} => {
    let (b, a) = tokio::join!(ctx.sleep(seconds(1)), ctx.schedule::<Work>(1));
    b?;
    Ok(a?)
});
change!(removed: |ctx| {
    let (a, b) = tokio::join!(ctx.schedule::<Work>(1), ctx.schedule::<Other>(1));
    Ok(a? + b?)
} => { Ok(ctx.schedule::<Work>(1).await?) });
change!(added: |ctx| { Ok(ctx.schedule::<Work>(1).await?) } => {
    let (a, b) = tokio::join!(ctx.schedule::<Work>(1), ctx.schedule::<Other>(1));
    Ok(a? + b?)
});
change!(timer: |ctx| { ctx.sleep(seconds(1)).await?; Ok(1) } => { ctx.sleep(seconds(2)).await?; Ok(1) });
change!(child: |ctx| { Ok(ctx.schedule_workflow::<Child>("x", 1).await?) } => {
    Ok(ctx.schedule_workflow::<Child>("y", 1).await?)
});
change!(marker: |ctx| { Ok(ctx.run("one", || 1).await?) } => { Ok(ctx.run("two", || 1).await?) });
change!(marker_removed: |ctx| { Ok(ctx.run("one", || 1).await?) } => { ctx.sleep(seconds(1)).await?; Ok(1) });
change!(state: |ctx| { ctx.set_state("one", &1)?; Ok(1) } => { ctx.set_state("two", &1)?; Ok(1) });
change!(loops: |ctx| {
    for n in 0..3 { ctx.schedule::<Work>(n).await?; }
    Ok(1)
} => {
    for n in 0..2 { ctx.schedule::<Work>(n).await?; }
    Ok(1)
});
change!(longer: |ctx| {
    for n in 0..2 { ctx.schedule::<Work>(n).await?; }
    Ok(1)
} => {
    for n in 0..3 { ctx.schedule::<Work>(n).await?; }
    Ok(1)
});
change!(early: |ctx| { Ok(ctx.schedule::<Work>(1).await?) } => { let _ = ctx; Ok(1) });
change!(outcome: |ctx| { let _ = ctx; Ok(1) } => { let _ = ctx; Err("no".into()) });
change!(same_input: |ctx| { Ok(ctx.schedule::<Work>(1).await?) } => { Ok(ctx.schedule::<Work>(2).await?) });
change!(waits: |ctx| { ctx.receive(GO).await?; Ok(ctx.schedule::<Work>(1).await?) } => {
    ctx.sleep(seconds(1)).await?;
    Ok(ctx.schedule::<Work>(1).await?)
});

#[tokio::test]
async fn every_change_has_its_kind_and_its_event() {
    assert_eq!(changed::<kind::Before, kind::After>().await, Some((TaskTypeMismatch, 5)));
    assert_eq!(changed::<order::Before, order::After>().await, Some((TaskTypeMismatch, 5)));
    assert_eq!(changed::<order_of_types::Before, order_of_types::After>().await, Some((CommandTypeMismatch, 5)));
    assert_eq!(changed::<removed::Before, removed::After>().await, Some((RemovedCommand, 6)));
    assert_eq!(changed::<added::Before, added::After>().await, Some((ExtraCommand, 0)));
    assert_eq!(changed::<timer::Before, timer::After>().await, Some((TimerDurationMismatch, 5)));
    assert_eq!(changed::<child::Before, child::After>().await, Some((ChildWorkflowMismatch, 5)));
    assert_eq!(changed::<marker::Before, marker::After>().await, Some((OperationNameMismatch, 5)));
    assert!(changed::<marker_removed::Before, marker_removed::After>().await.is_some());
    assert_eq!(changed::<state::Before, state::After>().await, Some((StateKeyMismatch, 5)));
    assert_eq!(changed::<loops::Before, loops::After>().await, Some((ClosedEarly, 17)));
    assert_eq!(changed::<longer::Before, longer::After>().await, Some((ExtraCommand, 17)));
    assert_eq!(changed::<early::Before, early::After>().await, Some((ClosedEarly, 5)));
    assert_eq!(changed::<outcome::Before, outcome::After>().await, Some((CommandTypeMismatch, 5)));
    assert_eq!(changed::<waits::Before, waits::After>().await, Some((ExtraCommand, 0)));
}

/// A comparison that does less is noticed by the pairs above: each of these lets one of them pass.
#[tokio::test]
async fn every_part_of_the_comparison_is_needed() {
    async fn passes<A, B>(sabotage: &str) -> bool
    where
        A: Workflow<Input = (), Output = u32>,
        B: Workflow<Input = (), Output = u32>,
    {
        let history = record::<A>().await;
        testing::sabotage(Some(sabotage));
        let passed = replay::<B>(&history).is_ok();
        testing::sabotage(None);
        assert!(replay::<B>(&history).is_err());
        passed
    }
    assert!(passes::<kind::Before, kind::After>("ComparesWithItself").await);
    assert!(passes::<outcome::Before, outcome::After>("ComparesWithItself").await);
    assert!(passes::<timer::Before, timer::After>("ComparesTypesOnly").await);
    assert!(passes::<child::Before, child::After>("ComparesTypesOnly").await);
    assert!(passes::<marker::Before, marker::After>("MarkersNotMatched").await);
    assert!(passes::<unawaited::Before, unawaited::After>("SkipsTheLast").await);
    assert!(passes::<unawaited::After, unawaited::Before>("IgnoresTheRest").await);
}

change!(unawaited: |ctx| {
    ctx.schedule::<Other>(1).detach();
    ctx.set_state("a", &1)?;
    ctx.schedule::<Work>(1).await?;
    Ok(1)
} => {
    ctx.schedule::<Other>(1).detach();
    ctx.schedule::<Work>(1).await?;
    Ok(1)
});

#[tokio::test]
async fn what_may_change() {
    assert_eq!(changed::<same_input::Before, same_input::After>().await, None);
    // After the end of the history anything goes: here after the first of three tasks.
    let history = record::<loops::Before>().await;
    replay::<loops::After>(&history[..15]).unwrap();
    replay::<early::Before>(&history[..9]).unwrap();
}

#[tokio::test]
async fn the_text_says_what_differs() {
    let history = record::<kind::Before>().await;
    let error = replay::<kind::After>(&history).unwrap_err();
    let violation = error.violation().unwrap();
    let place = violation.place.as_ref().unwrap();
    let line = format!("workflows/violations.rs:{KIND}:");
    assert!(place.contains(&line), "{place}");
    assert_eq!(
        error.to_string(),
        format!(r#"task #1: event 5 scheduled "work", the code asks for "other" at {place}"#)
    );
    // What has no number has none in the text.
    let history = record::<removed::Before>().await;
    let error = replay::<removed::After>(&history).unwrap_err();
    assert_eq!(error.to_string(), r#"event 6 scheduled "other", the code asks for nothing"#);
    let history = record::<early::Before>().await;
    let error = replay::<early::After>(&history).unwrap_err();
    assert_eq!(error.to_string(), r#"event 5 scheduled "work", the code asks for the end of the workflow"#);
}

mod patches {
    use super::*;

    #[workflow(name = "Patched")]
    pub async fn old(ctx: Context, _input: ()) -> Result<u32> {
        let mut sum = 0;
        for n in 0..2 {
            sum += ctx.schedule::<Work>(n).await?;
        }
        Ok(sum)
    }
    #[workflow(name = "Patched")]
    pub async fn new(ctx: Context, _input: ()) -> Result<u32> {
        let mut sum = 0;
        for n in 0..2 {
            sum += if ctx.patched("other") { ctx.schedule::<Other>(n).await? } else { ctx.schedule::<Work>(n).await? };
        }
        Ok(sum)
    }
    #[workflow(name = "Patched")]
    pub async fn deprecated(ctx: Context, _input: ()) -> Result<u32> {
        ctx.deprecate_patch("other");
        let mut sum = 0;
        for n in 0..2 {
            sum += ctx.schedule::<Other>(n).await?;
        }
        Ok(sum)
    }
    #[workflow(name = "Patched")]
    pub async fn removed(ctx: Context, _input: ()) -> Result<u32> {
        let mut sum = 0;
        for n in 0..2 {
            sum += ctx.schedule::<Other>(n).await?;
        }
        Ok(sum)
    }
    #[workflow(name = "Patched")]
    pub async fn other_patch(ctx: Context, _input: ()) -> Result<u32> {
        let mut sum = 0;
        for n in 0..2 {
            sum +=
                if ctx.patched("another") { ctx.schedule::<Other>(n).await? } else { ctx.schedule::<Work>(n).await? };
        }
        Ok(sum)
    }
}

#[tokio::test]
async fn patches() {
    use patches::*;
    let before = record::<Old>().await;
    let patched = record::<New>().await;
    let deprecated = record::<Deprecated>().await;
    // Old histories do not know the patch, new ones do.
    replay::<New>(&before).unwrap();
    replay::<New>(&patched).unwrap();
    // `deprecate_patch` knows both kinds of histories with the patch.
    replay::<Deprecated>(&patched).unwrap();
    replay::<Deprecated>(&deprecated).unwrap();
    replay::<New>(&deprecated).unwrap();
    // Then the call can go.
    replay::<Removed>(&deprecated).unwrap();
    // But not at once.
    let kind = |result: Result<ReplayReport, ReplayError>| result.unwrap_err().violation().unwrap().kind;
    assert_eq!(kind(replay::<Removed>(&patched)), PatchMismatch);
    assert_eq!(kind(replay::<Old>(&patched)), PatchMismatch);
    assert_eq!(kind(replay::<Removed>(&before)), TaskTypeMismatch);
    assert!(replay::<OtherPatch>(&patched).is_err());
    // Every cut of every history, by the code that may replay it.
    for cut in cuts(&patched) {
        replay::<New>(&patched[..cut]).unwrap();
        replay::<Deprecated>(&patched[..cut]).unwrap();
    }
    for cut in cuts(&before) {
        replay::<New>(&before[..cut]).unwrap();
    }
    for cut in cuts(&deprecated) {
        replay::<Removed>(&deprecated[..cut]).unwrap();
    }
}

mod in_handler {
    use super::*;

    #[derive(Default)]
    pub struct Old(u32);
    #[workflow(name = "Handled")]
    impl Old {
        #[run]
        async fn run(ctx: Context<Self>, _input: ()) -> Result<u32> {
            ctx.wait_condition(|state| state.0 > 0).await?;
            Ok(ctx.this().0)
        }
        #[signal]
        async fn go(ctx: Context<Self>, n: u32) {
            let n = ctx.schedule::<Work>(n).await.unwrap_or_default();
            ctx.this_mut().0 = n;
        }
    }

    #[derive(Default)]
    pub struct New(u32);
    #[workflow(name = "Handled")]
    impl New {
        #[run]
        async fn run(ctx: Context<Self>, _input: ()) -> Result<u32> {
            ctx.wait_condition(|state| state.0 > 0).await?;
            Ok(ctx.this().0)
        }
        #[signal]
        async fn go(ctx: Context<Self>, n: u32) {
            let n = match ctx.patched("other") {
                true => ctx.schedule::<Other>(n).await.unwrap_or_default(),
                false => ctx.schedule::<Work>(n).await.unwrap_or_default(),
            };
            ctx.this_mut().0 = n;
        }
    }
}

#[tokio::test]
async fn a_patch_in_a_handler() {
    let before = record::<in_handler::Old>().await;
    let after = record::<in_handler::New>().await;
    replay::<in_handler::New>(&before).unwrap();
    replay::<in_handler::New>(&after).unwrap();
    assert!(replay::<in_handler::Old>(&after).is_err());
}

#[tokio::test]
async fn a_violation_cannot_be_caught() {
    #[workflow(name = "Changed")]
    async fn catches(ctx: Context, _input: ()) -> Result<u32> {
        match ctx.schedule::<Other>(1).await {
            Ok(n) => Ok(n),
            Err(_) => Ok(99),
        }
    }
    let history = record::<kind::Before>().await;
    let error = replay::<Catches>(&history).unwrap_err();
    assert_eq!(error.violation().unwrap().kind, TaskTypeMismatch);
}

#[tokio::test]
async fn mutated_histories_are_errors_and_no_panics() {
    let history = record::<loops::Before>().await;
    for at in 0..history.len() {
        let mut without = history.clone();
        without.remove(at);
        let _ = replay::<loops::Before>(&without);
        let mut twice = history.clone();
        twice.insert(at, history[at].clone());
        let _ = replay::<loops::Before>(&twice);
        let mut empty = history.clone();
        empty[at].attributes = None;
        let _ = replay::<loops::Before>(&empty);
        for other in 0..history.len() {
            let mut swapped = history.clone();
            swapped[at].attributes = history[other].attributes.clone();
            swapped[at].event_type = history[other].event_type;
            let _ = replay::<loops::Before>(&swapped);
        }
    }
    assert!(replay::<loops::Before>(&[]).is_err());
    let mut hole = history.clone();
    hole.remove(6);
    assert!(replay::<loops::Before>(&hole).is_err(), "a history with a hole");
}
