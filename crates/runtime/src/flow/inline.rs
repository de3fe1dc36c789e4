//! Turns in the commit of the event that makes them necessary.
//!
//! Whatever decides a transition of a script passes through here on its way to the committer. If the script has a turn to
//! take, it is executed at once and becomes part of the same commit: one sync instead of two, and no task on any queue.
//! A turn that takes too long is given up; then the event is committed with its workflow task, and an executor takes it.
//!
//! An inline turn uses a thread that serves calls. So turns that load a large state are left to executors, and so are those
//! of a namespace that used its [`InlineTime`] while other namespaces are at work. Small turns are always inline.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use segno_engine::{Applied, Run, Transition, script, task_calls};
use segno_flow::interface::{Command, Pace};
use segno_store::NamespaceKey;

use super::{
    ScriptLines,
    turn::{Decided, Past},
};
use crate::{
    error::CallError,
    metrics::{add, count},
    runs::Runs,
    slots::{Current, lock},
};

/// Steps after which an inline turn is given up.
const STEPS_MAX: u64 = 20_000;
/// Time after which an inline turn is given up.
const TIME_MAX: Duration = Duration::from_millis(2);
/// Turns in one commit; what is left then goes to an executor.
const TURNS_MAX: usize = 8;
/// Bytes of a stored state from which on a turn is not tried inline: loading it takes longer than a turn may.
const STATE_BYTES_MAX: usize = 64 * 1024;
/// What a turn may take without being counted.
const SMALL_TURN: Duration = Duration::from_micros(250);
/// Time for larger turns that a namespace gets in a second while other namespaces are at work.
const TIME_PER_SECOND: Duration = Duration::from_millis(50);
/// Namespaces that are remembered; those that have all of their time again are forgotten first.
const NAMESPACES_MAX: usize = 1024;

/// Time of inline turns that were not small, by namespace.
#[derive(Default)]
pub(super) struct InlineTime(Mutex<HashMap<NamespaceKey, UsedTime>>);

/// What is left of the time that a namespace used.
struct UsedTime {
    used: Duration,
    at: Instant,
}

impl UsedTime {
    fn left_at(&self, now: Instant) -> Duration {
        let regained = now.saturating_duration_since(self.at).mul_f64(TIME_PER_SECOND.as_secs_f64());
        self.used.saturating_sub(regained)
    }
}

impl InlineTime {
    /// Whether a namespace used more than it gets in a second.
    fn is_used_up(&self, namespace: NamespaceKey, now: Instant) -> bool {
        lock(&self.0).get(&namespace).is_some_and(|used| used.left_at(now) >= TIME_PER_SECOND)
    }

    fn note(&self, namespace: NamespaceKey, took: Duration, now: Instant) {
        if took < SMALL_TURN {
            return;
        }
        let mut all = lock(&self.0);
        if all.len() >= NAMESPACES_MAX {
            all.retain(|_, used| used.left_at(now) > Duration::ZERO);
        }
        let entry = all.entry(namespace).or_insert(UsedTime { used: Duration::ZERO, at: now });
        // One long turn is not held against a namespace for long.
        let used = (entry.left_at(now) + took).min(2 * TIME_PER_SECOND);
        *entry = UsedTime { used, at: now };
    }
}

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

impl Runs {
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
        let state =
            transition.script_state.as_ref().or_else(|| stored.and_then(|current| current.script_state.as_ref()));
        let state = state.cloned();
        let is_large = state.as_ref().is_some_and(|state| state.len() > STATE_BYTES_MAX);
        let begun = Instant::now();
        let is_used_up = || self.committer.is_shared() && self.flows.inline_time.is_used_up(namespace.key, begun);
        if is_large || is_used_up() {
            return Ok(false);
        }
        let started = task_calls::start(run, self.context(namespace.key), self.take_turn(run))?;
        if !started.run.state().task_started() {
            // A speculative task that had nothing to carry any more.
            return Ok(false);
        }
        let past = Past { stored, unstored: &transition.batches, state };
        let prepared = self.prepare_turn(&namespace, &started.run, past, &started.reply).await?;
        // State from storage: its size is known only now.
        if prepared.state.as_ref().is_some_and(|state| state.len() > STATE_BYTES_MAX) {
            return Ok(false);
        }
        let begun = Instant::now();
        let turned = prepared.execute(&mut Brief(begun));
        self.flows.inline_time.note(namespace.key, begun.elapsed(), Instant::now());
        let Ok(turned) = turned else { return Ok(false) };
        let closes = turned.commands.iter().any(Command::closes);
        let context = self.context_on(run, closes).await?;
        let Ok(decided) = self.decide_turn(&namespace, &started.run, context, turned, 0) else { return Ok(false) };
        let Decided { run: after, transition: end, log: lines, steps } = decided;
        // A defect must not be stored with the event. An executor takes the turn and says what is wrong.
        started.transition.check()?;
        end.check()?;
        *run = after;
        transition.then(started.transition);
        transition.then(end);
        self.compact(run, transition).await;
        transition.drop_void_offers(run);
        log.lines.extend(lines.lines);
        log.dropped += lines.dropped;
        count(&self.metrics.flow_turns);
        count(&self.metrics.flow_inline_turns);
        add(&self.metrics.flow_steps, steps);
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_turns_use_up_time_that_comes_back() {
        let (time, begun) = (InlineTime::default(), Instant::now());
        let (a, b) = (NamespaceKey(1), NamespaceKey(2));
        for _ in 0..10_000 {
            time.note(a, SMALL_TURN / 2, begun);
        }
        assert!(!time.is_used_up(a, begun), "small turns do not count");
        for _ in 0..1000 {
            time.note(a, TIME_MAX, begun);
        }
        assert!(time.is_used_up(a, begun) && !time.is_used_up(b, begun));
        assert!(!time.is_used_up(a, begun + Duration::from_millis(1001)), "however much it was");
    }
}
