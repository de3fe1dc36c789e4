//! Turns in the commit of the event that makes them necessary.
//!
//! Every transition of a script passes through here before the committer. If the script needs a turn, it is executed at
//! once and becomes part of the same commit: one sync instead of two, and no task on any queue. A turn that takes too
//! long is dropped; then the event is committed with its workflow task, and an executor takes it.
//!
//! An inline turn uses a thread that serves calls. So turns that load a large state are left to executors, and so are
//! those of a namespace that used its [`InlineTime`](super::inline_time::InlineTime) while other namespaces are active.
//! Small turns are always inline.

use std::time::Duration;

use segno_engine::{Applied, Run, Transition, script, task_calls};
use segno_environment::metrics::{add, count};
use segno_flow::interface::{Command, Pace};
use segno_runs::{error::CallError, ports::AfterCommit, slots::Current};
use segno_store::NamespaceKey;
use tokio::time::Instant;

use super::{
    host::Scripts,
    log::ScriptLines,
    turn::{TurnSources, TurnTransition},
};

/// Steps after which an inline turn is given up.
const STEPS_MAX: u64 = 20_000;
/// Time after which an inline turn is given up.
const TIME_MAX: Duration = Duration::from_millis(2);
/// Turns in one commit; what is left then goes to an executor.
const TURNS_MAX: usize = 8;
/// Bytes of a stored state from which on a turn is not tried inline: loading it takes longer than a turn may.
const STATE_BYTES_MAX: usize = 64 * 1024;

/// Ends a turn that takes too long.
struct InlinePace(Instant);

impl Pace for InlinePace {
    fn go_on(&mut self, steps: u64) -> bool {
        steps <= STEPS_MAX && self.0.elapsed() < TIME_MAX
    }
}

impl Scripts {
    /// Adds the turns that follow from a transition to it. After the commit, what the scripts logged is written.
    pub(super) async fn take_turns(
        &self,
        current: Option<&Current>,
        run: &mut Run,
        transition: &mut Transition,
    ) -> AfterCommit {
        let mut log = ScriptLines::default();
        for _ in 0..TURNS_MAX {
            let taken = if script::wants_turn(run) {
                let stored = current.filter(|current| current.run.info.run_key == run.info.run_key);
                self.turn_inline(stored, run, transition, &mut log).await
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
                    // An executor finds the same and records it in the history of the run.
                    tracing::debug!(run = run.info.run_id, %error, "a turn could not be taken at once");
                    break;
                }
            }
        }
        if log.is_empty() {
            return None;
        }
        let (scripts, info) = (self.clone(), run.info.clone());
        Some(Box::new(move || scripts.host.log.write(&scripts.runs.metrics, &info, log)))
    }

    async fn turn_inline(
        &self,
        stored: Option<&Current>,
        run: &mut Run,
        transition: &mut Transition,
        log: &mut ScriptLines,
    ) -> Result<bool, CallError> {
        let namespace = NamespaceKey(run.info.namespace_key);
        if self.host.held_back.is_held_back(run) {
            return Ok(false);
        }
        let Some(namespace) = self.runs.namespaces.by_key(namespace) else { return Ok(false) };
        let state =
            transition.script_state.as_ref().or_else(|| stored.and_then(|current| current.script_state.as_ref()));
        let state = state.cloned();
        let is_large = state.as_ref().is_some_and(|state| state.len() > STATE_BYTES_MAX);
        let begun = Instant::now();
        let is_used_up = || self.runs.committer.is_shared() && self.host.inline_time.is_used_up(namespace.key, begun);
        if is_large || is_used_up() {
            return Ok(false);
        }
        let started = task_calls::start(run, self.runs.context(namespace.key), self.task_start(run))?;
        if !started.run.state().task_started() {
            // A speculative task that has nothing left to carry.
            return Ok(false);
        }
        let sources = TurnSources { stored, unstored: &transition.batches, state };
        let prepared = self.prepare_turn(&namespace, &started.run, sources, &started.reply).await?;
        // State from storage: its size is known only now.
        if prepared.state.as_ref().is_some_and(|state| state.len() > STATE_BYTES_MAX) {
            return Ok(false);
        }
        let begun = Instant::now();
        let turned = prepared.execute(&mut InlinePace(begun));
        self.host.inline_time.note(namespace.key, begun.elapsed(), Instant::now());
        let Ok(turned) = turned else { return Ok(false) };
        let closes = turned.commands.iter().any(Command::closes);
        let context = self.runs.context_on(run, closes).await?;
        let Ok(decided) = self.decide_turn(&namespace, &started.run, context, turned, 0) else { return Ok(false) };
        let TurnTransition { run: after, transition: end, log: lines, steps } = decided;
        // A defect must not be stored with the event. An executor takes the turn and says what is wrong.
        started.transition.check()?;
        end.check()?;
        *run = after;
        transition.then(started.transition);
        transition.then(end);
        self.compact(run, transition).await;
        transition.drop_void_offers(run);
        log.extend(lines);
        count(&self.runs.metrics.flow_turns);
        count(&self.runs.metrics.flow_inline_turns);
        add(&self.runs.metrics.flow_steps, steps);
        Ok(true)
    }
}
