//! Advances a schedule by a step, and sends the outbox messages that follow from it.

use segno_proto::{
    Nanos,
    enums::{IndexedValueType, ScheduleOverlapPolicy},
    events::{WorkflowExecutionCompletedEventAttributes, history_event::Attributes},
    nanos_timestamp,
    schedule::{Schedule, SchedulePatch},
};

use crate::{
    parts::{
        close,
        schedule::{
            DIVISION, DIVISION_ATTRIBUTE, PAUSED_ATTRIBUTE,
            scheduler::{self, Orders, Scheduler},
        },
    },
    payload::{keyword, search_attribute},
    state::{
        RunInfo,
        outbox::{Content, EndScheduled, StartScheduled},
        schedule::ScheduleRun,
    },
    transition::draft::Draft,
};

/// Tokens begin here.
const FIRST_TOKEN: i64 = 1;

/// A schedule to be created.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NewSchedule {
    /// Its id.
    pub schedule_id: String,
    /// The schedule; the specification in canonical form.
    pub schedule: Schedule,
    /// The patch to apply at once.
    pub patch: Option<SchedulePatch>,
}

/// The state of a new schedule, before its first step.
pub(crate) fn new(new: &NewSchedule, now: Nanos) -> ScheduleRun {
    let mut state = ScheduleRun {
        schedule: scheduler::with_defaults(new.schedule.clone()).into(),
        schedule_id: new.schedule_id.clone(),
        processed: now,
        conflict_token: FIRST_TOKEN,
        ..Default::default()
    };
    state.info.create_time = Some(nanos_timestamp(now));
    state
}

/// The first step of a new schedule.
pub(crate) fn begin(draft: &mut Draft, patch: Option<SchedulePatch>) {
    let division = keyword(DIVISION);
    draft.run.state.search_attributes.insert(DIVISION_ATTRIBUTE.to_owned(), division);
    advance(draft, |scheduler| {
        if let Some(patch) = patch {
            scheduler.patch(patch);
        }
    });
}

/// Advances a schedule: time passes, then something happens, then everything is decided.
pub(crate) fn advance<R>(draft: &mut Draft, happens: impl FnOnce(&mut Scheduler<'_>) -> R) -> Option<R> {
    let now = draft.now();
    let mut state = draft.run.state.schedule.take()?;
    let seed = format!("{}-{}", draft.run.info.namespace_id, state.schedule_id);
    let mut scheduler = Scheduler::new(&mut state, now, &seed);
    scheduler.pass_time();
    let reply = happens(&mut scheduler);
    scheduler.settle();
    let orders = scheduler.orders;
    carry_out(draft, &state, orders);
    draft.run.state.schedule = Some(state);
    draft.touch();
    Some(reply)
}

fn carry_out(draft: &mut Draft, state: &ScheduleRun, orders: Orders) {
    let paused = search_attribute(if state.is_paused() { "true" } else { "false" }, IndexedValueType::Bool);
    draft.run.state.search_attributes.insert(PAUSED_ATTRIBUTE.to_owned(), paused);
    let identity = identity(&draft.run.info, state);
    for order in orders.starts {
        let Some(workflow) = scheduler::action(&state.schedule) else { continue };
        // Workflows that may overlap have no part in what is handed on.
        let carries = order.start.policy() != ScheduleOverlapPolicy::AllowAll;
        draft.send(Content::StartScheduled(StartScheduled {
            number: order.number,
            workflow: workflow.clone(),
            schedule_id: state.schedule_id.clone(),
            identity: identity.clone(),
            nominal: order.start.nominal,
            manual: order.start.manual,
            single: order.single,
            last_result: state.last_result.clone().filter(|_| carries),
            last_failure: state.last_failure.clone().filter(|_| carries),
        }));
    }
    for execution in orders.ends {
        let terminate = orders.terminate;
        let how = if terminate { "terminated" } else { "cancelled" };
        draft.send(Content::EndScheduled(EndScheduled {
            execution,
            terminate,
            reason: format!("{how} by schedule overlap policy"),
            identity: identity.clone(),
        }));
    }
    if orders.complete {
        let attributes = WorkflowExecutionCompletedEventAttributes::default();
        close::close(draft, Attributes::WorkflowExecutionCompletedEventAttributes(attributes), Vec::new());
    }
}

fn identity(info: &RunInfo, state: &ScheduleRun) -> String {
    format!("temporal-scheduler-{}-{}", info.namespace, state.schedule_id)
}

/// When a schedule is to be woken.
pub(crate) fn wake_at(state: &ScheduleRun) -> Option<Nanos> {
    (state.wake_at > 0).then_some(state.wake_at)
}

/// The time of a schedule has come.
pub(crate) fn wake(draft: &mut Draft) {
    let due = draft.run.state.schedule.as_ref().and_then(|state| wake_at(state)).is_some_and(|at| at <= draft.now());
    if due {
        advance(draft, |_| ());
    }
}
