//! Turns in the commit of the event that makes them necessary.
//!
//! Whatever decides a transition of a script passes through here on its way to the committer. If the script has a turn to
//! take, it is executed at once and becomes part of the same commit: one sync instead of two, and no task on any queue.
//! A turn that takes too long is given up; then the event is committed with its workflow task, and an executor takes it.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use segno_engine::{Applied, Effect, Run, Transition, script, task_calls};
use segno_flow::interface::{Command, Pace};
use segno_store::NamespaceKey;

use super::{
    ScriptLines,
    turn::{Decided, Past},
};
use crate::{
    combine::merge_into,
    error::CallError,
    metrics::{add, count},
    node::Node,
    slots::Current,
};

/// Steps after which an inline turn is given up.
const STEPS_MAX: u64 = 20_000;
/// Time after which an inline turn is given up.
const TIME_MAX: Duration = Duration::from_millis(2);
/// Turns in one commit; what is left then goes to an executor.
const TURNS_MAX: usize = 8;

/// Ends a turn that takes too long.
struct Brief(Instant);

impl Pace for Brief {
    fn go_on(&mut self, steps: u64) -> bool {
        steps <= STEPS_MAX && self.0.elapsed() < TIME_MAX
    }
}

/// Whether a transition leaves a script with a turn to take.
pub(crate) fn wants_turn(run: &Run, transition: &Transition) -> bool {
    script::wants_turn(run) || transition.successor.as_ref().is_some_and(|next| script::wants_turn(&next.run))
}

impl Node {
    /// Adds the turns that follow from a transition to it. Gives back what the scripts logged.
    pub(crate) async fn take_turns(
        &self,
        current: Option<&Arc<Current>>,
        run: &mut Run,
        transition: &mut Transition,
    ) -> ScriptLines {
        let mut log = ScriptLines::default();
        for _ in 0..TURNS_MAX {
            let taken = if script::wants_turn(run) {
                let stored = current.filter(|current| current.run.info.run_key == run.info.run_key);
                self.turn_inline(stored.map(|current| &**current), run, transition, &mut log).await
            } else if let Some(next) = transition.successor.as_mut().filter(|next| script::wants_turn(&next.run)) {
                let Applied { run, transition, .. } = &mut **next;
                self.turn_inline(None, run, transition, &mut log).await
            } else {
                break;
            };
            match taken {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    // An executor finds the same and says so where people look for it.
                    tracing::debug!(run = run.info.run_id, %error, "a turn could not be taken at once");
                    break;
                }
            }
        }
        log
    }

    async fn turn_inline(
        &self,
        stored: Option<&Current>,
        run: &mut Run,
        transition: &mut Transition,
        log: &mut ScriptLines,
    ) -> Result<bool, CallError> {
        let namespace = NamespaceKey(run.info.namespace_key);
        if self.flows.is_held_back(run) {
            return Ok(false);
        }
        let Some(namespace) = self.namespaces.by_key(namespace) else { return Ok(false) };
        let started = task_calls::start(run, self.context(namespace.key), self.take_turn(run))?;
        if !started.run.state().task_started() {
            // A speculative task that had nothing to carry any more.
            return Ok(false);
        }
        let state = transition.script_state.clone().or_else(|| stored.and_then(|current| current.script_state.clone()));
        let past = Past { stored, unstored: &transition.batches, state };
        let prepared = self.prepare_turn(&namespace, &started.run, past, &started.reply).await?;
        let Ok(turned) = prepared.execute(&mut Brief(Instant::now())) else { return Ok(false) };
        let closes = turned.commands.iter().any(Command::closes);
        let context = self.context_on(run, closes).await?;
        let Ok(decided) = self.decide_turn(&namespace, &started.run, context, turned, 0) else { return Ok(false) };
        let Decided { run: after, transition: end, log: lines, steps } = decided;
        merge_into(run, transition, started.run, started.transition);
        merge_into(run, transition, after, end);
        self.compact(run, transition).await;
        if run.state().task.is_none() {
            transition.effects.retain(|effect| *effect != Effect::OfferWorkflowTask);
        }
        log.lines.extend(lines.lines);
        log.dropped += lines.dropped;
        count(&self.metrics.flow_turns);
        count(&self.metrics.flow_inline_turns);
        add(&self.metrics.flow_steps, steps);
        Ok(true)
    }
}
