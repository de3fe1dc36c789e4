//! One call on one run: lock, load, decide, commit, carry out effects.
//!
//! Everything runs to its end even if the caller leaves, so that there is no commit without its effects.

use std::{marker::PhantomData, pin::Pin, sync::Arc, time::Duration};

use bytes::Bytes;
use prost::Message;
use segno_engine::{
    Applied, Context, Durability, Effect, Rejection, Run, Transition, script, task_calls, update::Updates, wake,
};
use segno_environment::finish::finish;
use segno_proto::{History, enums::EventType, events::HistoryEvent};
use segno_store::{
    Commit, Compaction, CurrentWrite, HistoryBatch, NamespaceKey, OutboxKey, OutboxRow, ReadError, RunKey, RunWrite,
    ScriptWrite, Store, sabotage,
};
use tokio::sync::{OwnedMutexGuard, oneshot};

use crate::{
    compaction::first_event_id,
    error::CallError,
    runs::Runs,
    slots::{
        Call, Current, PendingCall, Progress, RunSelector, Slot, SlotState, WaitingCall, WorkflowKey, request_bytes,
    },
};

const RETRY_DELAY: Duration = Duration::from_millis(200);
/// More messages than a run can have under way.
const MESSAGES_MAX: usize = 10_000;

/// Writes of a commit besides the transition of the current run.
#[derive(Default)]
pub struct ExtraWrites {
    /// Messages that arrived.
    pub delivered: Vec<OutboxKey>,
    /// An older run of the same workflow, which changes too.
    pub marked: Option<Box<RunWrite>>,
}

impl From<Vec<OutboxKey>> for ExtraWrites {
    fn from(delivered: Vec<OutboxKey>) -> Self {
        Self { delivered, marked: None }
    }
}

/// How a transition is committed.
enum CommitPath<'a, F, R> {
    Plain(F),
    Script(Pin<Box<dyn Future<Output = Result<R, CallError>> + Send + 'a>>),
}

/// A slot under its lock.
pub struct LockedSlot {
    /// The slot.
    pub slot: Arc<Slot>,
    /// Its state.
    pub state: OwnedMutexGuard<SlotState>,
}

impl Runs {
    /// Applies a call to the current run of a workflow, if it is the one the caller means. Refused without a look while
    /// too much waits for the disk.
    pub async fn transact<R, F>(
        self: &Arc<Self>,
        key: &WorkflowKey,
        selector: &RunSelector,
        decide: F,
    ) -> Result<R, CallError>
    where
        R: Send + 'static,
        F: FnOnce(&Run, Context) -> Result<Applied<R>, Rejection> + Send + 'static,
    {
        self.refuse_overload()?;
        self.apply(key, selector, decide).await
    }

    /// Refuses a call from outside while too much waits for the disk, or when the node has failed.
    pub fn refuse_overload(&self) -> Result<(), CallError> {
        if self.committer.is_overloaded() {
            return Err(CallError::Overloaded);
        }
        match self.lifecycle.failure() {
            Some(why) => Err(CallError::Unavailable(why.to_owned())),
            None => Ok(()),
        }
    }

    /// Like [`Runs::transact`], for what the node itself has to do.
    pub async fn apply<R, F>(
        self: &Arc<Self>,
        key: &WorkflowKey,
        selector: &RunSelector,
        decide: F,
    ) -> Result<R, CallError>
    where
        R: Send + 'static,
        F: FnOnce(&Run, Context) -> Result<Applied<R>, Rejection> + Send + 'static,
    {
        self.transact_and(key, selector, Vec::new(), decide, |_, _| ()).await.map(|(reply, ())| reply)
    }

    /// Like [`Runs::apply`]; removes outbox rows with the same commit, and lets `after` look at the slot while it is
    /// still locked.
    pub async fn transact_and<R, A, F, G>(
        self: &Arc<Self>,
        key: &WorkflowKey,
        selector: &RunSelector,
        delivered: Vec<OutboxKey>,
        decide: F,
        after: G,
    ) -> Result<(R, A), CallError>
    where
        R: Send + 'static,
        A: Send + 'static,
        F: FnOnce(&Run, Context) -> Result<Applied<R>, Rejection> + Send + 'static,
        G: FnOnce(&mut SlotState, &R) -> A + Send + 'static,
    {
        let selector = selector.clone();
        self.call(key, Call { selector, delivered, creates: false, lazy: false, decide, after, types: PhantomData })
            .await
    }

    /// Makes a call on a run: by itself if no other call is under way, together with others that wait otherwise.
    pub async fn call<R, A, F, G>(
        self: &Arc<Self>,
        key: &WorkflowKey,
        call: Call<R, A, F, G>,
    ) -> Result<(R, A), CallError>
    where
        R: Send + 'static,
        A: Send + 'static,
        F: FnOnce(&Run, Context) -> Result<Applied<R>, Rejection> + Send + 'static,
        G: FnOnce(&mut SlotState, &R) -> A + Send + 'static,
    {
        let (runs, key, bytes) = (self.clone(), key.clone(), request_bytes());
        let work = async move {
            let slot = runs.slots.get(&key);
            let free = slot.state.clone().try_lock_owned().ok().filter(|state| !state.shared_commit);
            let Some(state) = free else {
                let (answer, answered) = oneshot::channel();
                // In a box, like all that is rare here: the size of this future is moved with every call.
                let call = (Box::new(PendingCall::new(call, answer)) as Box<dyn WaitingCall>, bytes);
                let together = runs.call_together(&key, &slot, call, answered);
                return Box::pin(together).await;
            };
            let mut locked = runs.load_locked(slot, state, &key).await?;
            if let Some(own) = runs.lock_lingering(&locked, &key, &call.selector).await? {
                locked = own;
            }
            let Call { selector, delivered, creates, decide, after, .. } = call;
            let reply = runs.commit_alone(&mut locked, &key, &selector, creates, delivered, decide).await?;
            let after = after(&mut locked.state, &reply);
            Ok((reply, after))
        };
        finish(work).await
    }

    /// Makes a transition durable as far as it has to be, then carries out what follows from it. A script takes its turn
    /// first, so that it is part of the same commit.
    pub fn commit<'a, R: Send + 'a>(
        self: &'a Arc<Self>,
        locked: &'a mut LockedSlot,
        applied: Applied<R>,
        extra: impl Into<ExtraWrites>,
    ) -> impl Future<Output = Result<R, CallError>> {
        let extra = extra.into();
        let way = match wants_turn(&applied.run, &applied.transition) {
            false => CommitPath::Plain(self.commit_decided(locked, applied, extra)),
            true => CommitPath::Script(Box::pin(self.commit_with_turns(locked, applied, extra))),
        };
        async move {
            match way {
                CommitPath::Plain(commit) => commit.await,
                CommitPath::Script(commit) => commit.await,
            }
        }
    }

    async fn commit_with_turns<R>(
        self: &Arc<Self>,
        locked: &mut LockedSlot,
        applied: Applied<R>,
        extra: ExtraWrites,
    ) -> Result<R, CallError> {
        let Applied { mut run, mut transition, reply } = applied;
        let current = locked.state.current.clone();
        let turns = self.scripts.clone();
        let after = turns.take_turns(self, current.as_deref(), &mut run, &mut transition).await;
        drop(current);
        let reply = self.commit_decided(locked, Applied { run, transition, reply }, extra).await?;
        if let Some(after) = after {
            after();
        }
        Ok(reply)
    }

    /// Does all work that needs no waiting before the future is made. Work that has to wait is in a box: futures are moved about
    /// before they run, and a run is large.
    fn commit_decided<'a, R>(
        self: &'a Arc<Self>,
        locked: &'a mut LockedSlot,
        applied: Applied<R>,
        extra: ExtraWrites,
    ) -> impl Future<Output = Result<R, CallError>> {
        let Applied { run, transition, reply } = applied;
        let defect = transition.check().err().map(Box::new);
        let ExtraWrites { delivered, marked } = extra;
        let namespace = locked.slot.key.namespace;
        let mut under_way = match &defect {
            None => self.begin(locked, run, transition, delivered),
            Some(_) => None,
        };
        if let (Some((commit, _)), Some(marked)) = (&mut under_way, marked) {
            commit.runs.push(*marked);
        }
        let under_way = under_way.map(|(commit, then)| (self.committer.commit_of(namespace, commit), then));
        async move {
            if let Some(defect) = defect {
                // Nothing of it is stored or kept.
                tracing::error!(workflow = %locked.slot.key.workflow_id, %defect, "a transition was refused");
                return Err((*defect).into());
            }
            let Some((stored, then)) = under_way else { return Ok(reply) };
            let result = stored.await;
            let Some(then) = then else {
                result?;
                return Ok(reply);
            };
            if let Err(error) = result {
                // What is stored now is unknown: forget what memory says and look again.
                if !sabotage::is_on("keep-after-failure") {
                    self.forget(locked);
                }
                self.clone().rederive_after_failure(locked.slot.key.clone(), then.previous_key, then.before);
                return Err(error.into());
            }
            self.carry_out(locked, *then);
            Ok(reply)
        }
    }

    /// Everything before the commit, and everything at all of a transition that needs none. Gives what is to be stored
    /// and what follows from it.
    fn begin(
        &self,
        locked: &mut LockedSlot,
        run: Run,
        transition: Transition,
        delivered: Vec<OutboxKey>,
    ) -> Option<(Commit, Option<Box<Consequences>>)> {
        match transition.durability {
            Durability::Unchanged => {
                (!delivered.is_empty()).then(|| (Commit { outbox_remove: delivered, ..Default::default() }, None))
            }
            Durability::Memory => {
                let progress = progress_of(&run);
                let before = locked.state.current.as_ref().map(|current| &*current.run);
                self.note_holds(before, &run, Some(&transition.activities));
                if let Some(current) = &mut locked.state.current {
                    Arc::make_mut(current).run = Arc::new(run);
                }
                locked.slot.progress.send_if_modified(|known| std::mem::replace(known, progress) != progress);
                self.arm(locked);
                self.run_effects(locked, transition.effects);
                (!delivered.is_empty()).then(|| (Commit { outbox_remove: delivered, ..Default::default() }, None))
            }
            Durability::Durable => {
                let (commit, then) = self.begin_durable(locked, run, transition, delivered);
                Some((commit, Some(then)))
            }
        }
    }

    fn begin_durable(
        &self,
        locked: &LockedSlot,
        mut run: Run,
        transition: Transition,
        delivered: Vec<OutboxKey>,
    ) -> (Commit, Box<Consequences>) {
        let now = self.reached_now();
        let previous = locked.state.current.as_ref();
        let same_run = previous.filter(|current| current.run.info.run_key == run.info.run_key);
        let previous_key = previous.map(|current| current.key());
        let expected_version = same_run.map_or(0, |current| current.version);
        let mut commit = Commit { outbox_remove: delivered, ..Default::default() };
        let mut write = run_write(&run, expected_version, &transition.batches, now);
        write.visibility = self.facts_changed(same_run.map(|current| &*current.run), &run);
        let written = CommittedWrite::of(&write);
        commit.runs.push(write);
        add_script(&mut commit, &run, &transition);
        add_outbox(&mut commit, &run, transition.outbox);
        let before = same_run.map(|current| current.run.clone());
        let mut then = match transition.successor {
            None => Consequences {
                before,
                latest: Arc::new(run),
                version: expected_version + 1,
                written,
                events: transition.batches,
                activities: transition.activities,
                effects: transition.effects,
                script_state: transition.script_state,
                ended: None,
                previous_key,
                messages: Vec::new(),
            },
            Some(successor) => {
                let Applied { run: next, transition: beginning, .. } = *successor;
                let mut write = run_write(&next, 0, &beginning.batches, now);
                write.visibility = self.facts_changed(None, &next);
                let written = CommittedWrite::of(&write);
                commit.runs.push(write);
                add_script(&mut commit, &next, &beginning);
                add_outbox(&mut commit, &next, beginning.outbox);
                let updates = run.take_updates();
                Consequences {
                    before,
                    latest: Arc::new(next),
                    version: 1,
                    written,
                    events: beginning.batches,
                    activities: beginning.activities,
                    effects: beginning.effects,
                    script_state: beginning.script_state,
                    ended: Some(EndedRun { run, updates, effects: transition.effects }),
                    previous_key,
                    messages: Vec::new(),
                }
            }
        };
        let current = Some(then.written.current_key);
        if previous_key != current {
            let WorkflowKey { namespace, workflow_id, .. } = &locked.slot.key;
            let (namespace, workflow_id) = (*namespace, workflow_id.to_string());
            commit.current.push(CurrentWrite { namespace, workflow_id, expected: previous_key, current });
        }
        then.messages.clone_from(&commit.outbox_add);
        (commit, Box::new(then))
    }

    /// Carries out the effects of a transition that is stored.
    fn carry_out(self: &Arc<Self>, locked: &mut LockedSlot, then: Consequences) {
        let Consequences { before, latest, version, written, events, effects, script_state, .. } = then;
        let (activities, ended, messages) = (then.activities, then.ended, then.messages);
        if !self.is_alone() {
            self.owner.count_commit(&locked.slot.key);
        }
        // One run may already hold no time while its successor, or a message of it, is not noted yet.
        if let Some(clock) = self.clock.skipping() {
            clock.begin();
        }
        match ended.as_ref().filter(|ended| ended.run.lingers()) {
            Some(ended) => {
                self.note_holds(before.as_deref(), &ended.run, None);
                self.note_holds(None, &latest, None);
            }
            None => self.note_holds(before.as_deref(), &latest, Some(&activities)),
        }
        if let Some(ended) = ended {
            self.linger_on(&ended.run);
            self.metrics.run_closed(&ended.run);
            self.metrics.run_started(&latest.info);
            self.send_commands(&ended.run, ended.effects);
            locked.state.previous_updates = Some((RunKey(ended.run.info.run_key), ended.updates));
            if latest.state().script.is_some() {
                self.scripts.clone().run_continued(self, &latest);
            }
        }
        self.settle_durable(locked, latest, version, &written, events, script_state);
        self.run_effects(locked, effects);
        for message in messages {
            self.outbox.send(locked.slot.key.namespace, message);
        }
        if let Some(clock) = self.clock.skipping() {
            clock.end();
        }
    }

    /// Makes the start of a workflow task durable that memory alone knows, before another node serves the run.
    pub async fn keep_started_task(self: &Arc<Self>, locked: &mut LockedSlot) {
        let Some(current) = locked.state.current.as_ref().filter(|current| current.run.has_unstored()) else { return };
        let context = self.context(NamespaceKey(current.run.info.namespace_key));
        let Ok(kept) = task_calls::keep(&current.run, context) else { return };
        if let Err(error) = self.commit(locked, kept, Vec::new()).await {
            tracing::debug!(%error, "the start of a task was not kept; it is offered again");
        }
    }

    /// Drops what memory knows of a workflow; the next user loads it.
    pub fn forget(&self, locked: &mut LockedSlot) {
        locked.state.loaded = false;
        if let Some(current) = locked.state.current.take() {
            self.slots.forget_run(current.key());
        }
        locked.state.queries.unblock();
        self.settle(&mut locked.state);
    }

    /// After a commit whose outcome is unknown: reads what is stored and derives from it what must happen next, so
    /// that nothing is left undone if the commit did happen. Doing things twice is harmless.
    fn rederive_after_failure(self: Arc<Self>, key: WorkflowKey, previous: Option<RunKey>, before: Option<Arc<Run>>) {
        if sabotage::is_on("no-second-look") {
            return;
        }
        tokio::spawn(async move {
            while !self.is_stopping() {
                match self.rederive(&key, previous, before.as_deref()).await {
                    Ok(()) | Err(CallError::Moved) => return,
                    Err(error @ CallError::DataLoss(_)) => {
                        tracing::error!(workflow = %key.workflow_id, %error, "a workflow is damaged and is left alone");
                        return;
                    }
                    Err(error) => {
                        tracing::warn!(workflow = %key.workflow_id, %error, "a workflow could not be read again yet");
                        tokio::time::sleep(RETRY_DELAY).await;
                    }
                }
            }
        });
    }

    async fn rederive(
        &self,
        key: &WorkflowKey,
        previous: Option<RunKey>,
        before: Option<&Run>,
    ) -> Result<(), CallError> {
        let locked = self.lock(key).await?;
        let current = locked.state.current.as_ref().map(|current| (current.key(), current.run.clone()));
        self.arm(&locked);
        match (&current, before) {
            (Some((_, run)), before) => self.note_holds(before, run, None),
            (None, Some(before)) => self.release_holds(before),
            (None, None) => {}
        }
        drop(locked);
        if let Some((_, run)) = &current
            && run.has_work()
        {
            self.offer_all(run);
        }
        let current = current.map(|(run, _)| run);
        if let Some(previous) = previous.filter(|previous| current != Some(*previous))
            && let Some(older) = self.load_run(previous).await?
            && older.run.lingers()
        {
            self.linger_on(&older.run);
            self.restore_holds(&older.run).await;
        }
        let senders = [previous, current.filter(|run| previous != Some(*run))];
        for sender in senders.into_iter().flatten() {
            let rows = messages_of(&*self.store, sender).await?;
            for row in rows {
                self.outbox.send(key.namespace, row);
            }
        }
        Ok(())
    }

    fn settle_durable(
        &self,
        locked: &mut LockedSlot,
        run: Arc<Run>,
        version: u64,
        written: &CommittedWrite,
        events: Vec<Vec<HistoryEvent>>,
        script_state: Option<Bytes>,
    ) {
        let progress = progress_of(&run);
        if progress.closed {
            self.metrics.run_closed(&run);
        }
        let key = run.info.run_key;
        let pending = |id: &i64| run.state().activities.contains_key(id);
        if let Some(before) = locked.state.current.take_if(|current| current.run.info.run_key != key) {
            self.slots.forget_run(before.key());
            if before.run.lingers() {
                self.linger_on(&before.run);
            } else {
                self.no_time_held(before.key());
            }
        }
        let current = locked.state.current.get_or_insert_with(|| {
            self.slots.note_run(RunKey(key), &locked.slot.key);
            Arc::new(Current::new(run.clone(), version))
        });
        let current = Arc::make_mut(current);
        current.activity_events.retain(|id, _| pending(id));
        for event in events.into_iter().flatten() {
            if event.event_type == EventType::ActivityTaskScheduled as i32 && pending(&event.event_id) {
                current.activity_events.insert(event.event_id, Arc::new(event));
            }
        }
        current.run = run.clone();
        current.version = version;
        current.stored_bytes = written.state_bytes;
        if script_state.is_some() {
            current.script_state = script_state;
        }
        current.remember(&written.batches);
        let compacted = run.state().script.as_ref().map_or(0, |script| script.compacted_until);
        while current.recent.front().is_some_and(|batch| batch.first_event_id <= compacted) {
            current.recent.pop_front();
        }
        self.arm(locked);
        self.settle(&mut locked.state);
        locked.slot.progress.send_replace(progress);
    }

    /// A closed run is no longer the current one. What it started and no call awaits goes on: from here on in a slot of
    /// its own, see [`WorkflowKey::lingering`]. A call that looked for it in the slot of its workflow meanwhile found nothing
    /// to do, so that all of it is offered again.
    fn linger_on(&self, run: &Run) {
        let namespace = NamespaceKey(run.info.namespace_key);
        self.timers.set_of(namespace, RunKey(run.info.run_key), wake::wake_at(run, self.clock.now()));
        self.note_held_time(run);
        if run.lingers() {
            self.offer_all(run);
        }
    }

    /// Sets the wake-up of the current run.
    fn arm(&self, locked: &LockedSlot) {
        if let Some(current) = &locked.state.current {
            let wake_at = wake::wake_at(&current.run, current.woken);
            self.timers.set_of(locked.slot.key.namespace, current.key(), wake_at);
            self.note_held_time(&current.run);
        }
    }

    /// Notes whether a run holds time, where time is skipped otherwise.
    fn note_held_time(&self, run: &Run) {
        if let Some(clock) = self.clock.skipping() {
            clock.note(RunKey(run.info.run_key), wake::holds_time(run, self.clock.now()));
        }
    }

    /// A run is over, gone or unreadable: it holds no time.
    pub(crate) fn no_time_held(&self, run: RunKey) {
        if let Some(clock) = self.clock.skipping() {
            clock.note(run, false);
        }
    }

    /// Carries out what follows from a transition.
    fn run_effects(&self, locked: &LockedSlot, effects: Vec<Effect>) {
        let Some(current) = &locked.state.current else { return };
        for effect in effects {
            match effect {
                Effect::OfferWorkflowTask => self.offer_workflow_task(&current.run),
                Effect::OfferActivity(id) => self.offer_activity(&current.run, id),
                Effect::OfferNexusRequest(id) => self.offer_nexus_request(&current.run, id),
                Effect::StopActivity(stop) => self.stop_activity(&current.run, *stop),
            }
        }
    }

    /// Carries out what of a run is due.
    pub async fn wake(self: &Arc<Self>, run: RunKey) {
        let result = self.try_wake(run).await;
        if let Err(error) = result {
            if let CallError::DataLoss(why) = &error {
                self.set_aside(run, why);
                return;
            }
            // Its new owner has its own wake-up.
            if matches!(error, CallError::Moved) {
                return;
            }
            tracing::warn!(run = run.0, %error, "a wake-up failed and is tried again");
            self.timers.set(run, Some(self.clock.now() + 1_000_000_000));
        }
    }

    async fn try_wake(self: &Arc<Self>, run: RunKey) -> Result<(), CallError> {
        let Some(key) = self.workflow_of(run).await? else { return Ok(()) };
        let mut locked = self.lock(&key).await?;
        let Some(current) = &locked.state.current else { return Ok(()) };
        if current.key() != run || !current.run.has_work() {
            return Ok(());
        }
        let context = self.context_on(&current.run, current.run.info.may_repeat()).await?;
        let applied = wake::wake(&current.run, context);
        if let Some(current) = &mut locked.state.current {
            Arc::make_mut(current).woken = context.now;
        }
        if applied.transition.durability == Durability::Unchanged {
            let effects = applied.transition.effects;
            self.run_effects(&locked, effects);
            self.arm(&locked);
            return Ok(());
        }
        self.commit(&mut locked, applied, Vec::new()).await
    }
}

/// Messages of one run that are still under way.
async fn messages_of(store: &dyn Store, sender: RunKey) -> Result<Vec<OutboxRow>, ReadError> {
    let mut rows = store.outbox(Some(OutboxKey { sender, sequence: 0 }), MESSAGES_MAX).await?;
    rows.retain(|row| row.key.sender == sender);
    Ok(rows)
}

/// The effects of a transition once it is stored.
struct Consequences {
    /// The run before, if it is the same one.
    before: Option<Arc<Run>>,
    /// The current run from now on.
    latest: Arc<Run>,
    version: u64,
    written: CommittedWrite,
    events: Vec<Vec<HistoryEvent>>,
    /// Activities that it added, changed or removed.
    activities: Vec<i64>,
    effects: Vec<Effect>,
    /// The new state of the script, if it took a turn.
    script_state: Option<Bytes>,
    /// The run whose place `latest` takes.
    ended: Option<EndedRun>,
    /// The current run until now.
    previous_key: Option<RunKey>,
    messages: Vec<OutboxRow>,
}

/// A run that another one follows.
struct EndedRun {
    run: Run,
    updates: Updates,
    effects: Vec<Effect>,
}

/// The part of a write that memory keeps.
struct CommittedWrite {
    current_key: RunKey,
    state_bytes: usize,
    batches: Vec<HistoryBatch>,
}

impl CommittedWrite {
    fn of(write: &RunWrite) -> Self {
        Self { current_key: write.key, state_bytes: write.state.len(), batches: write.batches.clone() }
    }
}

/// Whether a transition leaves a script with a turn to take.
fn wants_turn(run: &Run, transition: &Transition) -> bool {
    script::wants_turn(run) || transition.successor.as_ref().is_some_and(|next| script::wants_turn(&next.run))
}

/// How far a run has come.
pub(crate) fn progress_of(run: &Run) -> Progress {
    let state = run.state();
    Progress {
        run_key: run.info.run_key,
        next_event_id: state.next_event_id,
        closed: !run.is_running(),
        last_completed_started_id: state.last_completed_started_id,
        updates: run.updates().version(),
        transitions: if state.is_standalone() || state.is_schedule() { state.transitions } else { 0 },
    }
}

/// The write of a run in a commit.
pub fn run_write(run: &Run, expected_version: u64, batches: &[Vec<HistoryEvent>], now: i64) -> RunWrite {
    let encode = |events: &Vec<HistoryEvent>| HistoryBatch {
        first_event_id: first_event_id(events),
        last_event_id: events.last().map_or(0, |event| event.event_id),
        events: History::encode_batch(events),
    };
    let stored = run.as_stored();
    RunWrite {
        key: RunKey(run.info.run_key),
        expected_version,
        state: stored.encode(),
        open: run.has_work(),
        wake_at: wake::wake_at(&stored, now),
        dispatchable: stored.is_dispatchable(now),
        batches: batches.iter().map(encode).collect(),
        visibility: None,
    }
}

fn add_script(commit: &mut Commit, run: &Run, transition: &Transition) {
    let Some(state) = &transition.script_state else { return };
    let run = RunKey(run.info.run_key);
    commit.scripts.push(ScriptWrite { run, slot: 0, state: state.clone() });
    if let Some((slot, content)) = &transition.script_checkpoint
        && let Ok(slot) = u8::try_from(*slot)
    {
        commit.scripts.push(ScriptWrite { run, slot, state: content.clone() });
    }
    if let Some(compaction) = &transition.compaction {
        let batch = HistoryBatch {
            first_event_id: compaction.from,
            last_event_id: compaction.until,
            events: History::encode_batch(std::slice::from_ref(&compaction.marker)),
        };
        commit.compactions.push(Compaction { run, batch });
    }
}

fn add_outbox(commit: &mut Commit, run: &Run, messages: Vec<segno_engine::outbox::OutboxMessage>) {
    commit.outbox_add.extend(messages.into_iter().map(|message| OutboxRow {
        key: OutboxKey { sender: RunKey(run.info.run_key), sequence: message.sequence },
        message: message.encode_to_vec().into(),
    }));
}
