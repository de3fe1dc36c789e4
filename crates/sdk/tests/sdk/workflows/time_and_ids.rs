//! Time, random numbers, ids, state: the same in every replay.

use std::collections::BTreeSet;

use segno_sdk::{raw::Attributes, testing::WorkflowTest, *};

use super::common::*;

#[workflow]
async fn clock(ctx: Context, _input: ()) -> Result<Vec<i64>> {
    let mut times = vec![ctx.current_time_millis()];
    for n in 0..3 {
        ctx.sleep(seconds(10)).await?;
        times.push(ctx.current_time_millis());
        ctx.schedule::<Work>(n).await?;
        times.push(ctx.current_time_millis());
    }
    // What was computed from time is in a command, so that replays are compared by it.
    let sum: i64 = times.iter().map(|time| time % 1000).sum();
    ctx.sleep(std::time::Duration::from_millis(u64::try_from(times[6] - times[0] + sum)?)).await?;
    Ok(times.iter().map(|time| (time - times[0]) / 1000).collect())
}

fn clock_test() -> WorkflowTest<Clock> {
    WorkflowTest::<Clock>::new(()).mock::<Work>(Ok).latency("work", seconds(5))
}

#[tokio::test]
async fn time_is_the_start_of_the_workflow_task() {
    let run = both(clock_test).await;
    assert_eq!(run.output.unwrap(), [0, 10, 15, 25, 30, 40, 45]);
}

#[tokio::test]
async fn without_the_rule_replays_differ() {
    let run = clock_test().sabotage("TimeIsNow").run().await;
    assert_eq!(run.output.unwrap_err().application_kind(), Some("DeterminismViolation"));
}

#[workflow]
async fn random(ctx: Context, extra: u32) -> Result<Vec<String>> {
    let mut ids = Vec::new();
    for n in 0..3 {
        for _ in 0..extra {
            ctx.random_uuid();
        }
        let task = ctx.schedule::<Work>(n);
        ids.push(task.id().to_owned());
        task.await?;
    }
    ctx.sleep(std::time::Duration::from_millis((ctx.random() * 1e6) as u64 + 1)).await?;
    ids.push(ctx.random_uuid().to_string());
    ids.push(ctx.random_stream("a").next_u64().to_string());
    ids.push(ctx.uuid7().to_string());
    ids.push(ctx.random_stream("b").next_uuid().to_string());
    Ok(ids)
}

async fn random_ids(extra: u32, seed: u64) -> Vec<String> {
    both(|| WorkflowTest::<Random>::new(extra).mock::<Work>(Ok).seed(seed)).await.output.unwrap()
}

#[tokio::test]
async fn ids_follow_from_the_run_and_from_nothing_else() {
    let plain = random_ids(0, 1).await;
    assert_eq!(plain, random_ids(0, 1).await);
    let extra = random_ids(7, 1).await;
    assert_eq!(plain[..3], extra[..3], "extra random numbers do not shift the ids of tasks");
    assert_ne!(plain[3], extra[3]);
    assert_eq!((&plain[4], &plain[6]), (&extra[4], &extra[6]), "nor do they shift named streams");
    let other = random_ids(0, 2).await;
    assert!(plain.iter().zip(&other).all(|(one, other)| one != other), "{plain:?} {other:?}");
    let distinct: BTreeSet<&String> = plain.iter().chain(&other).collect();
    assert_eq!(distinct.len(), 14);
}

#[tokio::test]
async fn without_counters_ids_collide() {
    let run = WorkflowTest::<Random>::new(0).mock::<Work>(Ok).sabotage("CounterNotAdvanced").run().await;
    assert_eq!(run.output.unwrap_err().application_kind(), Some("DeterminismViolation"));
}

#[workflow]
async fn state(ctx: Context, _input: ()) -> Result<Vec<Option<u32>>> {
    let mut seen = vec![ctx.get_state::<u32>("a")?];
    ctx.set_state("a", &1)?;
    ctx.set_state("b", &2)?;
    seen.push(ctx.get_state("a")?);
    ctx.sleep(seconds(1)).await?;
    ctx.clear_state("a")?;
    seen.push(ctx.get_state("a")?);
    ctx.set_state("a", &3)?;
    seen.push(ctx.get_state("a")?);
    ctx.sleep(seconds(1)).await?;
    ctx.set_state("a", &4)?;
    ctx.clear_state("a")?;
    seen.push(ctx.get_state("a")?);
    ctx.sleep(seconds(1)).await?;
    Ok(seen)
}

#[tokio::test]
async fn a_read_sees_what_was_written_before_it() {
    let run = both(|| WorkflowTest::<State>::new(())).await;
    assert_eq!(run.output.unwrap(), [None, Some(1), None, Some(3), None]);
    let changes: Vec<Vec<&str>> = run
        .history
        .iter()
        .filter_map(|event| match &event.attributes {
            Some(Attributes::WorkflowPropertiesModifiedEventAttributes(event)) => {
                Some(event.upserted_memo.as_ref()?.fields.keys().map(String::as_str).collect())
            }
            _ => None,
        })
        .collect();
    assert_eq!(changes, [vec!["state.a", "state.b"], vec!["state.a"], vec!["state.a"]], "one event per workflow task");
    assert_eq!(run.state.len(), 1);
    assert_eq!(run.state["b"], 2);
}
