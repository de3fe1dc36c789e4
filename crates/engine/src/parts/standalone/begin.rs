//! The start of a standalone activity, and the first attempt after a reset.

use segno_proto::{
    Nanos, activity::ActivityOptions, command::ScheduleActivityTaskCommandAttributes, enums::RetryState,
    failure::Failure, nanos_duration,
};

use crate::{
    limits::ACTIVITY_FAILURE_BYTES_MAX,
    machine::activity::Event,
    parts::{
        activity::{begin_anew, clear_start, options as activity_options, pending, scheduled},
        schedule::DIVISION_ATTRIBUTE,
        standalone::status::DIVISION,
    },
    payload::keyword,
    retry,
    state::{
        activity::Activity,
        standalone::{RequestLinks, StandaloneRun},
    },
    transition::{Effect, draft::Draft, steps::ActivityMachine},
};

/// The options of a new standalone activity, checked.
#[derive(Clone, Debug, Default)]
pub struct NewStandalone {
    /// The activity, in the terms in which workflows schedule theirs.
    pub attributes: ScheduleActivityTaskCommandAttributes,
    /// How long the first attempt is held back.
    pub start_delay: Nanos,
}

/// The first transition of a new run.
pub(crate) fn begin(draft: &mut Draft, new: NewStandalone) {
    let NewStandalone { attributes, start_delay } = new;
    let now = draft.now();
    draft.run.state.search_attributes.insert(DIVISION_ATTRIBUTE.to_owned(), keyword(DIVISION));
    draft.run.state.first_task_due = 0;
    let due = now.saturating_add(start_delay);
    let pending = pending(&attributes, now);
    let activity = Activity { first_scheduled_time: due, scheduled_time: due, standalone: true, ..pending };
    let links = draft.run.info.links.clone();
    let request_id = draft.run.info.create_request_id.clone();
    let original = ActivityOptions {
        start_delay: (start_delay > 0).then(|| nanos_duration(start_delay)),
        ..activity_options::options_of(&activity)
    };
    draft.run.state.standalone = Some(Box::new(StandaloneRun {
        original,
        start_delay,
        links: if links.is_empty() { Vec::new() } else { vec![RequestLinks { request_id, links }] },
        ..Default::default()
    }));
    let id = draft.add(scheduled(attributes, 0));
    draft.add_activity(Activity { scheduled_event_id: id, ..activity });
    if start_delay == 0 {
        draft.effect(Effect::OfferActivity(id));
    }
}

/// An attempt failed that was reset: the first attempt follows at once, unless the activity is paused.
pub(crate) fn begin_reset_attempt(draft: &mut Draft, id: i64, failure: &Failure) -> RetryState {
    let now = draft.now();
    let mut restored = None;
    if let Some(standalone) = &mut draft.run.state.standalone {
        standalone.retry_interval = 0;
        if std::mem::take(&mut standalone.reset_restores_options) {
            restored = Some(standalone.original.clone());
        }
    }
    let paused = draft.run.state.activities.get(&id).is_some_and(|activity| activity.pause.is_some());
    draft.step(ActivityMachine(id), if paused { Event::Retry } else { Event::RetryAtOnce }, |draft| {
        let Some(activity) = draft.activity_mut(id) else { return };
        activity.attempt = 1;
        activity.scheduled_time = now;
        clear_start(activity);
        activity.last_failure = Some(retry::kept(failure, ACTIVITY_FAILURE_BYTES_MAX));
        activity.last_attempt_end = now;
        activity.stamp += 1;
        begin_anew(activity);
        if let Some(options) = &restored {
            activity_options::set(activity, options);
        }
    });
    draft.touch();
    if !paused {
        draft.effect(Effect::OfferActivity(id));
    }
    RetryState::InProgress
}
