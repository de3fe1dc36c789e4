//! Reset in scenario files and properties: the run in the world goes on from a point in its past, or in the past of a
//! run that it continued.

use segno_engine::{
    Applied, Durability, Rejection, Run, Transition,
    reset::{self, Reset},
};
use segno_proto::events::HistoryEvent;

use super::{
    versions,
    words::Words,
    world::{World, is_member},
};

/// `reset to=4 [run=0] [without-signals] [without-updates] [without-operations] [pin=b1]`; `run` counts the runs of this world from 0.
pub fn step(world: &mut World, words: &Words<'_>) -> Result<(String, Transition), Rejection> {
    let call = Reset {
        finish_event_id: words.get("to").and_then(|to| to.parse().ok()).expect("a point to reset to"),
        reason: "reset".to_owned(),
        request_id: format!("reset-{}", world.next_key),
        without_signals: words.flag("without-signals"),
        without_updates: words.flag("without-updates"),
        without_operations: words.flag("without-operations"),
        options: words.get("pin").map(versions::pin).into_iter().collect(),
    };
    let run = words.get("run").map(|run| run.parse().expect("a number"));
    let transition = reset(world, run, &call)?;
    Ok((String::new(), transition))
}

/// Resets the way the node does: the current run ends and the new one begins in one transition. The world still shows
/// the run that ended; [`World::follow`] goes on with the new one.
pub fn reset(world: &mut World, run: Option<usize>, call: &Reset) -> Result<Transition, Rejection> {
    let base = run.unwrap_or(world.earlier.len());
    let mut runs: Vec<(Run, Vec<HistoryEvent>)> = world.earlier.clone();
    runs.push((world.run.clone(), world.history()));
    let (base_run, base_history) = runs[base].clone();
    reset::check_point(&base_run, call.finish_event_id)?;
    let (past, later): (Vec<_>, Vec<_>) =
        base_history.into_iter().partition(|event| event.event_id < call.finish_event_id);
    let mut later = later;
    let mut last = &base_run;
    for (run, history) in &runs[base + 1..] {
        if last.state().successor_run_id == run.info.run_id {
            later.extend(history.iter().cloned());
            last = run;
        }
    }
    let context = world.context();
    let ended = world.run.is_running().then(|| reset::end_current(&world.run, context, &call.reason));
    if let Some(ended) = &ended
        && last.info.run_id == world.run.info.run_id
    {
        let known = world.run.tail().len();
        later.extend(ended.transition.batches.iter().flatten().skip(known).cloned());
    }
    let made = reset::reset(&base_run, context, call, vec![past], &later, None, &is_member)?;
    match ended {
        Some(ended) => Ok(world.take(reset::replace(ended, &base_run, made)).transition),
        None => Ok(begin_beside(world, made)),
    }
}

/// The current run is closed already: only the new one is stored.
fn begin_beside(world: &mut World, made: Applied<()>) -> Transition {
    world.next_key += 1;
    world.successor = Some(Box::new(made.clone()));
    Transition {
        durability: Durability::Durable,
        batches: Vec::new(),
        activities: Vec::new(),
        bytes: 0,
        outbox: Vec::new(),
        successor: Some(Box::new(made)),
        effects: Vec::new(),
        script_state: None,
        script_checkpoint: None,
        compaction: None,
        illegal: None,
    }
}
