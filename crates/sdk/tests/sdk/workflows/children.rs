//! Children and other workflows.

use segno_sdk::{
    raw::{
        CommandAttributes,
        enums::{CommandType, EventType},
    },
    testing::WorkflowTest,
    *,
};

use super::common::*;

const GO: Signal<u32> = Signal::named("go");

#[workflow]
async fn chapter(ctx: Context, pages: Vec<u32>) -> Result<u32> {
    let mut sum = 0;
    for page in pages {
        sum += ctx.schedule::<Work>(page).await?;
    }
    Ok(sum)
}

#[workflow]
async fn book(ctx: Context, chapters: Vec<Vec<u32>>) -> Result<u32> {
    let children: Vec<_> = chapters
        .into_iter()
        .enumerate()
        .map(|(n, pages)| ctx.schedule_workflow::<Chapter>(&format!("chapter-{n}"), pages))
        .collect();
    Ok(futures::future::try_join_all(children).await?.into_iter().sum())
}

#[tokio::test]
async fn children_have_tasks_of_their_own() {
    let run = both(|| {
        WorkflowTest::<Book>::new(vec![vec![1, 2], vec![3]])
            .workflow_id("book-1")
            .child::<Chapter>(|t| t.mock::<Work>(|n| Ok(n * 100)))
            .mock::<Work>(Ok)
    })
    .await;
    assert_eq!(run.output.as_ref().unwrap(), &600);
    let ids: Vec<&str> = run.children.keys().map(String::as_str).collect();
    assert_eq!(ids, ["book-1/chapter-0", "book-1/chapter-1"]);
}

#[tokio::test]
async fn what_a_child_does_not_say_is_as_for_its_parent() {
    let run = both(|| WorkflowTest::<Book>::new(vec![vec![1, 2]]).child::<Chapter>(|t| t).mock::<Work>(Ok)).await;
    assert_eq!(run.output.unwrap(), 3);
    let run = WorkflowTest::<Book>::new(vec![vec![1, 2]]).run().await;
    assert_eq!(run.output.unwrap_err().application_kind(), Some("NotRegistered"));
}

#[tokio::test]
async fn a_child_that_fails_fails_its_parent_with_a_cause() {
    let run = both(|| {
        WorkflowTest::<Book>::new(vec![vec![1], vec![2]]).child::<Chapter>(|t| {
            t.mock::<Work>(|_| Err(Failure::application("Torn", "no page").non_retryable().into()))
        })
    })
    .await;
    let failure = run.output.unwrap_err();
    assert!(matches!(failure.kind(), FailureKind::Child { kind, .. } if kind == "chapter"), "{failure:?}");
    assert_eq!(failure.to_string(), "child chapter failed: task work failed: no page");
    assert_eq!(failure.application_kind(), Some("Torn"));
}

#[workflow]
async fn twins(ctx: Context, _input: ()) -> Result<String> {
    let first = ctx.schedule_workflow::<Chapter>("same", vec![1]);
    let second = ctx.schedule_workflow::<Chapter>("same", vec![1]);
    let (first, second) = tokio::join!(first, second);
    let again = ctx.schedule_workflow::<Chapter>("same", vec![1]).await?;
    let failure = second.unwrap_err();
    Ok(format!("{} {again} {:?}", first?, failure.application_kind()))
}

#[tokio::test]
async fn two_children_of_one_name() {
    let run = both(|| WorkflowTest::<Twins>::new(()).child::<Chapter>(|t| t).mock::<Work>(Ok)).await;
    assert_eq!(run.output.unwrap(), "1 1 Some(\"AlreadyStarted\")");
}

#[workflow]
async fn listener(ctx: Context, _input: ()) -> Result<u32> {
    match ctx.receive(GO).await {
        Ok(n) => Ok(n),
        Err(failure) => Err(failure.into()),
    }
}

#[workflow]
async fn speaker(ctx: Context, _input: ()) -> Result<u32> {
    let child = ctx.schedule_workflow::<Listener>("ear", ());
    child.started().await?;
    child.signal(GO, 17).await?;
    Ok(child.await?)
}

#[tokio::test]
async fn a_child_can_be_signalled() {
    let run = both(|| WorkflowTest::<Speaker>::new(()).child::<Listener>(|t| t)).await;
    assert_eq!(run.output.as_ref().unwrap(), &17);
    assert_eq!(count(&run, EventType::ExternalWorkflowExecutionSignaled), 1);
}

#[workflow]
async fn eager_speaker(ctx: Context, _input: ()) -> Result<u32> {
    let child = ctx.schedule_workflow::<Listener>("ear", ());
    // Dropped before the child is there: never sent.
    drop(child.signal(GO, 1));
    let signal = child.signal(GO, 17);
    let (signalled, heard) = tokio::join!(signal, child);
    signalled?;
    Ok(heard?)
}

#[tokio::test]
async fn a_signal_to_a_child_waits_for_its_start() {
    let run = both(|| WorkflowTest::<EagerSpeaker>::new(()).child::<Listener>(|t| t)).await;
    assert_eq!(run.output.as_ref().unwrap(), &17);
    let kinds: Vec<EventType> = run.history.iter().map(|event| event.event_type()).collect();
    let at = |kind| kinds.iter().position(|there| *there == kind);
    assert!(at(EventType::ChildWorkflowExecutionStarted) < at(EventType::SignalExternalWorkflowExecutionInitiated));
    assert_eq!(count(&run, EventType::SignalExternalWorkflowExecutionInitiated), 1);
}

#[workflow]
async fn hasty_speaker(ctx: Context, _input: ()) -> Result<bool> {
    let child = ctx.schedule_workflow::<Listener>("ear", ());
    let signal = child.signal(GO, 17);
    drop(child);
    Ok(signal.await.unwrap_err().is_cancelled())
}

#[tokio::test]
async fn a_signal_to_a_child_that_is_dropped_ends() {
    let run = both(|| WorkflowTest::<HastySpeaker>::new(()).child::<Listener>(|t| t)).await;
    assert!(run.output.as_ref().unwrap());
    assert_eq!(count(&run, EventType::SignalExternalWorkflowExecutionInitiated), 0);
}

#[workflow]
async fn elsewhere(ctx: Context, _input: ()) -> Result<String> {
    let signal = ctx.external("missing").with_run_id("run-7").signal(GO, 1).await;
    let cancel = ctx.external("missing").with_run_id("run-8").cancel().await;
    Ok(format!("{} {}", signal.is_err(), cancel.is_err()))
}

#[tokio::test]
async fn workflows_that_are_not_there() {
    let run = both(|| WorkflowTest::<Elsewhere>::new(())).await;
    assert_eq!(run.output.unwrap(), "true true");
    let runs = run.commands.iter().filter_map(|command| match command.attributes.as_ref()? {
        CommandAttributes::SignalExternalWorkflowExecutionCommandAttributes(signal) => {
            signal.execution.as_ref().map(|execution| execution.run_id.as_str())
        }
        CommandAttributes::RequestCancelExternalWorkflowExecutionCommandAttributes(cancel) => {
            Some(cancel.run_id.as_str())
        }
        _ => None,
    });
    assert_eq!(runs.collect::<Vec<_>>(), ["run-7", "run-8"]);
}

#[workflow]
async fn drops_child(ctx: Context, policy: bool) -> Result<String> {
    let options = ChildOptions {
        name: "ear".to_owned(),
        parent_close_policy: if policy { ParentClosePolicy::Abandon } else { ParentClosePolicy::Terminate },
        ..Default::default()
    };
    let child = ctx.schedule_workflow_with_options::<Listener>(options, ());
    child.started().await?;
    drop(child);
    ctx.sleep(seconds(1)).await?;
    Ok("dropped".to_owned())
}

#[tokio::test]
async fn a_dropped_child_is_cancelled_unless_it_is_abandoned() {
    let run = both(|| WorkflowTest::<DropsChild>::new(false).child::<Listener>(|t| t)).await;
    assert!(commands(&run).contains(&CommandType::RequestCancelExternalWorkflowExecution));
    let child = &run.children["test/ear"];
    assert_eq!(child.last().unwrap().event_type(), EventType::WorkflowExecutionCanceled);
    let run = both(|| WorkflowTest::<DropsChild>::new(true).child::<Listener>(|t| t)).await;
    assert!(!commands(&run).contains(&CommandType::RequestCancelExternalWorkflowExecution));
    assert_ne!(run.children["test/ear"].last().unwrap().event_type(), EventType::WorkflowExecutionCanceled);
}

#[workflow]
async fn leaves(ctx: Context, _input: ()) -> Result<()> {
    let child = ctx.schedule_workflow::<Listener>("ear", ());
    child.started().await?;
    child.detach();
    Ok(())
}

#[tokio::test]
async fn children_end_with_their_parent() {
    let run = both(|| WorkflowTest::<Leaves>::new(()).child::<Listener>(|t| t)).await;
    run.output.unwrap();
    assert_eq!(run.children["test/ear"].last().unwrap().event_type(), EventType::WorkflowExecutionTerminated);
}

#[workflow]
async fn counts_down(ctx: Context, left: u32) -> Result<String> {
    let first = ctx.info().first_run_id.clone();
    ctx.set_state("left", &left)?;
    let id = ctx.random_uuid();
    let task = ctx.schedule::<Work>(left);
    let task_id = task.id().to_owned();
    task.await?;
    if left > 0 {
        return Err(ctx.continue_as_new::<CountsDown>(left - 1));
    }
    Ok(format!("{id} {task_id} {first}"))
}

#[tokio::test]
async fn continue_as_new() {
    let run = both(|| WorkflowTest::<CountsDown>::new(3).mock::<Work>(Ok)).await;
    run.output.as_ref().unwrap();
    assert_eq!(run.earlier.len(), 3);
    assert_eq!(run.state["left"], 0);
    // No id appears twice in the chain.
    let mut ids = std::collections::BTreeSet::new();
    for history in run.earlier.iter().chain([&run.history]) {
        for event in history {
            if let Some(raw::Attributes::ActivityTaskScheduledEventAttributes(task)) = &event.attributes {
                assert!(ids.insert(task.activity_id.clone()), "{} again", task.activity_id);
            }
        }
    }
    assert_eq!(ids.len(), 4);
}

#[workflow]
async fn nested(ctx: Context, depth: u32) -> Result<u32> {
    if depth == 0 {
        return Ok(ctx.schedule::<Work>(1).await?);
    }
    let left = ctx.schedule_workflow::<Nested>("left", depth - 1);
    let right = ctx.schedule_workflow::<Nested>("right", depth - 1);
    let (left, right) = tokio::try_join!(left, right)?;
    Ok(left + right)
}

#[tokio::test]
async fn a_tree_of_workflows_of_one_kind() {
    let run = both(|| WorkflowTest::<Nested>::new(4).mock::<Work>(Ok)).await;
    assert_eq!(run.output.unwrap(), 16);
    assert_eq!(run.children.len(), 30);
}

#[workflow]
async fn alternating(ctx: Context, _input: ()) -> Result<u32> {
    let mut sum = 0;
    for n in 0..6 {
        sum += if n % 2 == 0 { ctx.schedule::<Work>(n).await? } else { ctx.schedule::<Other>(n).await? };
    }
    Ok(sum)
}

#[tokio::test]
async fn alternating_kinds_in_a_loop() {
    let run = both(|| WorkflowTest::<Alternating>::new(()).mock::<Work>(Ok).mock::<Other>(|n| Ok(n * 10))).await;
    assert_eq!(run.output.unwrap(), 2 + 4 + 10 + 30 + 50);
}
