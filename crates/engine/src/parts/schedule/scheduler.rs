//! What a schedule does: pure decisions about its state and the time.
//!
//! Everything that happens to a schedule ends in [`Scheduler::settle`]: times that have come become buffered actions, backfills
//! add to them, and the overlap policies decide which are started, kept or skipped. What is to be done about other
//! workflows is left in [`Orders`].

use segno_proto::{
    Nanos,
    common::WorkflowExecution,
    duration_nanos,
    enums::{ScheduleOverlapPolicy as Policy, WorkflowExecutionStatus as Status},
    nanos_duration, nanos_timestamp,
    schedule::{BackfillRequest, Schedule, SchedulePatch, SchedulePolicies, ScheduleState, schedule_action::Action},
    timestamp_nanos,
    workflow::NewWorkflowExecutionInfo,
};

use crate::{
    parts::schedule::{
        overlap,
        spec::{ActionTime, Spec},
    },
    state::schedule::{BufferedStart, PendingStart, ScheduleRun},
};

const SECOND: Nanos = 1_000_000_000;
const MILLISECOND: Nanos = 1_000_000;
const DAY: Nanos = 24 * 3600 * SECOND;
const CATCH_UP_DEFAULT: Nanos = 365 * DAY;
const CATCH_UP_MIN: Nanos = 10 * SECOND;
/// How long a schedule is kept after its last action.
const RETENTION: Nanos = 7 * DAY;
/// Most actions that wait.
const BUFFER_MAX: usize = 1000;
/// Most actions that backfills add at a time, and how long they wait then.
const BACKFILL_MAX: u32 = 10;
const BACKFILL_PAUSE: Nanos = SECOND;
/// Most times that are examined in one step: after a long time without a server, other schedules advance in between.
const TIMES_MAX: u32 = 10_000;
/// Most actions that are remembered.
const RECENT_MAX: usize = 10;

/// The consequences of a step.
#[derive(Debug, Default)]
pub(crate) struct Orders {
    /// Start these workflows.
    pub starts: Vec<StartOrder>,
    /// End these workflows.
    pub ends: Vec<WorkflowExecution>,
    /// Whether ending is terminating; otherwise cancellation is requested.
    pub terminate: bool,
    /// The schedule is over.
    pub complete: bool,
}

/// A workflow to be started.
#[derive(Debug)]
pub(crate) struct StartOrder {
    /// Its number among the starts of the schedule.
    pub number: u64,
    /// The action.
    pub start: BufferedStart,
    /// Whether the schedule waits for its end.
    pub single: bool,
}

/// A step of a schedule.
pub(crate) struct Scheduler<'a> {
    pub state: &'a mut ScheduleRun,
    pub now: Nanos,
    pub seed: &'a str,
    pub orders: Orders,
}

/// How a workflow that a schedule started has ended.
pub(crate) struct WorkflowEnd {
    pub number: u64,
    pub status: Status,
    pub result: Option<segno_proto::common::Payloads>,
    pub failure: Option<segno_proto::failure::Failure>,
}

impl<'a> Scheduler<'a> {
    pub(crate) fn new(state: &'a mut ScheduleRun, now: Nanos, seed: &'a str) -> Self {
        Self { state, now, seed, orders: Orders::default() }
    }

    /// Times that have come up to now.
    pub(crate) fn pass_time(&mut self) {
        let range = self.add_times(self.state.processed, self.now.max(self.state.processed), None);
        self.state.processed = range.last;
        self.state.wake_at = range.next.unwrap_or(0);
    }

    /// Applies the patch of a caller.
    pub(crate) fn patch(&mut self, patch: SchedulePatch) {
        if let Some(trigger) = patch.trigger_immediately {
            let at = trigger.scheduled_time.as_ref().map_or(self.now, timestamp_nanos);
            self.add_start(ActionTime { nominal: at, actual: at }, trigger.overlap_policy(), true);
        }
        for mut backfill in patch.backfill_request {
            if self.state.backfills.len() >= BUFFER_MAX {
                self.state.info.buffer_dropped += 1;
                continue;
            }
            // Spans exclude their start, and here it is meant.
            let start = backfill.start_time.as_ref().map_or(0, timestamp_nanos);
            let start = start.saturating_sub(MILLISECOND);
            backfill.start_time = Some(nanos_timestamp(start));
            self.state.backfills.push(backfill);
        }
        for (paused, notes) in [(true, patch.pause), (false, patch.unpause)] {
            if !notes.is_empty() {
                self.pause(paused, notes);
            }
        }
    }

    fn pause(&mut self, paused: bool, notes: String) {
        let state = self.state.schedule.state.get_or_insert_default();
        (state.paused, state.notes) = (paused, notes);
        self.state.conflict_token += 1;
    }

    /// Replaces the schedule. Times before now that were not acted upon stay so.
    pub(crate) fn replace(&mut self, schedule: Schedule) {
        *self.state.schedule = with_defaults(schedule);
        self.state.info.update_time = Some(nanos_timestamp(self.now));
        self.state.conflict_token += 1;
        self.pass_time();
    }

    /// Decides about all that is buffered, and when to look again.
    pub(crate) fn settle(&mut self) {
        self.add_backfills();
        while self.decide() {}
        self.state.wake_at = self.next_wake();
        let expires = self.expires(self.state.wake_at);
        match expires {
            Some(at) if at <= self.now && self.state.starting.is_empty() => self.orders.complete = true,
            // What is being started must not keep it awake.
            Some(at) => self.state.wake_at = at.max(self.now + SECOND),
            None => {}
        }
    }

    fn next_wake(&self) -> Nanos {
        let next = if self.may_act(false) { self.state.wake_at } else { 0 };
        match self.may_backfill() {
            true if next == 0 => self.state.backfill_at,
            true => next.min(self.state.backfill_at),
            false => next,
        }
    }

    /// When the schedule is over for good, unless something happens: nothing is left to do for a week.
    fn expires(&self, next: Nanos) -> Option<Nanos> {
        if self.state.is_paused() || next != 0 {
            return None;
        }
        let info = &self.state.info;
        let times = [info.create_time, info.update_time, info.recent_actions.last().and_then(|last| last.actual_time)];
        let last = times.iter().flatten().map(timestamp_nanos).max().unwrap_or(self.now);
        Some(last + RETENTION)
    }

    /// Whether an action may be taken.
    fn may_act(&self, manual: bool) -> bool {
        let state = self.state.schedule.state.as_ref();
        manual || state.is_none_or(|state| !state.paused && (!state.limited_actions || state.remaining_actions > 0))
    }

    /// Takes an action, which counts if the number of actions is limited.
    fn act(&mut self, manual: bool) -> bool {
        if !self.may_act(manual) {
            return false;
        }
        if !manual
            && let Some(state) = &mut self.state.schedule.state
            && state.limited_actions
        {
            state.remaining_actions -= 1;
            self.state.conflict_token += 1;
        }
        true
    }

    fn add_start(&mut self, time: ActionTime, policy: Policy, manual: bool) {
        if self.state.buffered.len() >= BUFFER_MAX {
            self.state.info.buffer_dropped += 1;
            return;
        }
        let start = BufferedStart { nominal: time.nominal, actual: time.actual, policy: policy as i32, manual };
        self.state.buffered.push(start);
    }

    /// Buffers the actions of a span: those of a backfill if it has a limit, otherwise those whose time has come.
    fn add_times(&mut self, start: Nanos, end: Nanos, backfill: Option<(Policy, &mut u32)>) -> Range {
        let Ok(spec) = self.state.spec() else { return Range { next: None, last: end } };
        let (policy, manual, mut limit) = match backfill {
            Some((policy, limit)) => (policy, true, Some(limit)),
            None => (Policy::Unspecified, false, None),
        };
        let next = |after: Nanos| spec.next(self.seed, after);
        if !self.may_act(manual) {
            return Range { next: next(end).map(|time| time.actual), last: end };
        }
        let updated = self.state.info.update_time.as_ref().map_or(0, timestamp_nanos);
        let catch_up = catch_up_window(&self.state.schedule);
        let mut last = start;
        let mut looked_at = 0;
        while let Some(time) = next(last) {
            if time.actual > end || looked_at == TIMES_MAX {
                return Range { next: Some(time.actual), last };
            }
            looked_at += 1;
            last = time.actual;
            if !manual && updated > time.actual {
                continue;
            }
            if !manual && end - time.actual > catch_up {
                self.state.info.missed_catchup_window += 1;
                continue;
            }
            self.add_start(time, policy, manual);
            if let Some(limit) = &mut limit {
                **limit -= 1;
                if **limit == 0 {
                    return Range { next: Some(time.actual), last };
                }
            }
        }
        Range { next: None, last }
    }

    fn add_backfills(&mut self) {
        if self.state.backfill_at > self.now {
            return;
        }
        let mut limit = BACKFILL_MAX;
        while limit > 0 && self.may_backfill() {
            let Some(backfill) = self.state.backfills.first() else { return };
            let (policy, start, end) = (backfill.overlap_policy(), start_of(backfill), end_of(backfill));
            let range = self.add_times(start, end, Some((policy, &mut limit)));
            match range.next.filter(|next| *next <= end) {
                None => {
                    self.state.backfills.remove(0);
                }
                Some(next) => self.state.backfills[0].start_time = Some(nanos_timestamp(next)),
            }
        }
        self.state.backfill_at = self.now + BACKFILL_PAUSE;
    }

    /// Whether a backfill waits and has room: it may fill half of the buffer.
    fn may_backfill(&self) -> bool {
        !self.state.backfills.is_empty() && self.state.buffered.len() < BUFFER_MAX / 2
    }

    /// Starts, keeps or skips what is buffered. True if there may be more to do.
    fn decide(&mut self) -> bool {
        let buffered = std::mem::take(&mut self.state.buffered);
        if buffered.is_empty() || action(&self.state.schedule).is_none() {
            return false;
        }
        let decision = overlap::decide(buffered, self.state.runs(), |policy| self.state.resolve(policy));
        self.state.buffered = decision.buffered;
        self.state.info.overlap_skipped += decision.skipped;
        let overlapping = decision.overlapping.into_iter().map(|start| (start, false));
        let mut again = false;
        for (start, single) in overlapping.chain(decision.single.map(|start| (start, true))).collect::<Vec<_>>() {
            if !self.act(start.manual) {
                again = true;
                continue;
            }
            self.state.starts += 1;
            let number = self.state.starts;
            self.state.starting.push(PendingStart { number, actual: start.actual, single, ..Default::default() });
            self.orders.starts.push(StartOrder { number, start, single });
        }
        if decision.terminate || decision.cancel {
            self.orders.terminate = decision.terminate;
            self.orders.ends.clone_from(&self.state.info.running_workflows);
        }
        again && !self.state.buffered.is_empty()
    }

    /// A workflow was started, or could not be.
    pub(crate) fn started(&mut self, number: u64, execution: Option<WorkflowExecution>) -> bool {
        let Some(starting) = self.state.starting.iter_mut().find(|starting| starting.number == number) else {
            return false;
        };
        if starting.known {
            return false;
        }
        starting.known = true;
        starting.result = execution.map(|execution| segno_proto::schedule::ScheduleActionResult {
            schedule_time: Some(nanos_timestamp(starting.actual)),
            actual_time: Some(nanos_timestamp(self.now)),
            start_workflow_result: Some(execution),
            start_workflow_status: Status::Running as i32,
        });
        // They are reported in the order in which they were decided.
        while let Some(first) = self.state.starting.first().filter(|first| first.known) {
            let (single, result) = (first.single, first.result.clone());
            self.state.starting.remove(0);
            let Some(result) = result else { continue };
            let info = &mut self.state.info;
            info.action_count += 1;
            if let Some(execution) = result.start_workflow_result.clone().filter(|_| single) {
                info.running_workflows.push(execution);
            }
            info.recent_actions.push(result);
            let over = info.recent_actions.len().saturating_sub(RECENT_MAX);
            info.recent_actions.drain(..over);
        }
        true
    }

    /// A workflow that the schedule waited for has ended.
    pub(crate) fn ended(&mut self, execution: &WorkflowExecution, ended: WorkflowEnd) {
        for starting in self.state.starting.iter_mut().filter(|starting| starting.number == ended.number) {
            starting.single = false;
            if let Some(result) = &mut starting.result {
                result.start_workflow_status = ended.status as i32;
            }
        }
        let info = &mut self.state.info;
        info.running_workflows.retain(|running| running != execution);
        let is_it = |action: &&mut segno_proto::schedule::ScheduleActionResult| {
            action.start_workflow_result.as_ref() == Some(execution)
        };
        if let Some(action) = info.recent_actions.iter_mut().find(is_it) {
            action.start_workflow_status = ended.status as i32;
        }
        let id = &execution.workflow_id;
        let notes = match ended.status {
            Status::Failed => {
                let message = ended.failure.as_ref().map_or("", |failure| &failure.message);
                Some(format!("paused due to workflow failure: {id}: {message}"))
            }
            Status::TimedOut => Some(format!("paused due to workflow timeout: {id}")),
            _ => None,
        };
        let pauses = self.state.schedule.policies.as_ref().is_some_and(|policies| policies.pause_on_failure);
        if let Some(notes) = notes.filter(|_| pauses && !self.state.is_paused()) {
            self.pause(true, notes);
        }
        if ended.result.is_some() {
            (self.state.last_result, self.state.last_failure) = (ended.result, None);
        } else if ended.failure.is_some() {
            self.state.last_failure = ended.failure;
        }
    }
}

/// The part of a span that was dealt with.
struct Range {
    /// The next time after it.
    next: Option<Nanos>,
    /// The last time of it that was dealt with.
    last: Nanos,
}

impl ScheduleRun {
    /// Its specification.
    pub(crate) fn spec(&self) -> Result<Spec, String> {
        Spec::new(self.schedule.spec.as_ref().unwrap_or(&Default::default()))
    }

    /// Whether a caller, or a failure, has paused it.
    pub fn is_paused(&self) -> bool {
        self.schedule.state.as_ref().is_some_and(|state| state.paused)
    }

    /// Whether a workflow runs, or is about to, with which others may not overlap.
    fn runs(&self) -> bool {
        !self.info.running_workflows.is_empty() || self.starting.iter().any(|starting| starting.single)
    }

    /// The policy of an action: its own, or that of the schedule.
    fn resolve(&self, policy: Policy) -> Policy {
        let own = self.schedule.policies.as_ref().map_or(Policy::Unspecified, SchedulePolicies::overlap_policy);
        match [policy, own].into_iter().find(|policy| *policy != Policy::Unspecified) {
            Some(policy) => policy,
            None => Policy::Skip,
        }
    }
}

/// The workflow that a schedule starts.
pub(crate) fn action(schedule: &Schedule) -> Option<&NewWorkflowExecutionInfo> {
    let Action::StartWorkflow(start) = schedule.action.as_ref()?.action.as_ref()?;
    Some(start)
}

/// Fills in what a caller left out, so that it is seen.
pub(crate) fn with_defaults(mut schedule: Schedule) -> Schedule {
    schedule.spec.get_or_insert_default();
    schedule.action.get_or_insert_default();
    schedule.state.get_or_insert_with(ScheduleState::default);
    let window = catch_up_window(&schedule);
    let policies = schedule.policies.get_or_insert_default();
    // A number that names no policy is told as it was given, and means the default.
    if policies.overlap_policy == Policy::Unspecified as i32 {
        policies.set_overlap_policy(Policy::Skip);
    }
    policies.catchup_window = Some(nanos_duration(window));
    schedule
}

fn catch_up_window(schedule: &Schedule) -> Nanos {
    let given = schedule.policies.as_ref().and_then(|policies| policies.catchup_window.as_ref());
    given.map_or(CATCH_UP_DEFAULT, |given| duration_nanos(Some(given)).max(CATCH_UP_MIN))
}

fn start_of(backfill: &BackfillRequest) -> Nanos {
    backfill.start_time.as_ref().map_or(0, timestamp_nanos)
}

fn end_of(backfill: &BackfillRequest) -> Nanos {
    backfill.end_time.as_ref().map_or(0, timestamp_nanos)
}

#[cfg(test)]
#[path = "scheduler_tests.rs"]
mod tests;
