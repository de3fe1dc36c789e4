//! Versions of workers: who may have a task of a run, and how a run moves from one version to another.
//!
//! The caller brings the target, which is where the routing of the run's own workflow queue sends this run, and the version of the poller.
//! A call without a target leaves versions out of account; wherever the run has a version, or the poller, or the queue, the caller brings
//! a target, be it that of workers without versions. A pinned run is served by its version, any other by its target. What is stored of a
//! transition, and what rides with the started task, is described in [`crate::state::versioning`].

use segno_proto::{
    Nanos,
    deployment::WorkerDeploymentVersion,
    enums::{ContinueAsNewVersioningBehavior, VersioningBehavior},
    events::{HistoryEvent, WorkflowExecutionOptionsUpdatedEventAttributes, history_event::Attributes},
    workflow::VersioningOverride,
};

use crate::{
    machine::{activity::Event as ActivityEvent, version_transition::Event},
    parts::{builds, version_wait, workflow_task},
    state::{RunState, activity::is_waiting, run::Run, versioning::VersionTransition},
    transition::{
        Effect,
        draft::Draft,
        steps::{ActivityMachine, TransitionMachine},
    },
};

pub use crate::state::versioning::{InheritedVersioning, Target, Versioning, override_version};

/// The version at which a run is; `None` for workers without one.
pub fn effective_version(run: &Run) -> Option<&WorkerDeploymentVersion> {
    run.state.versioning.as_ref()?.effective_version()
}

/// The behaviour by which tasks of a run go.
pub fn effective_behavior(run: &Run) -> VersioningBehavior {
    run.state.versioning.as_ref().map_or(VersioningBehavior::Unspecified, |versioning| versioning.effective_behavior())
}

/// The version to which a run is pinned: it alone gets the run's workflow tasks.
pub fn pinned_version(run: &Run) -> Option<&WorkerDeploymentVersion> {
    run.state.versioning.as_ref()?.pinned_version()
}

/// Whether the target of a run is the ramping version of its queue, whatever the percentage. So it is for the first workflow task if
/// the run before asked for it.
pub fn uses_ramp(run: &Run) -> bool {
    run.state.last_completed_started_id == 0
        && run.state.versioning.as_ref().is_some_and(|versioning| {
            versioning.initial_behavior() == ContinueAsNewVersioningBehavior::UseRampingVersion
        })
}

/// Whether workers of a version may have the workflow task. `None` for a target leaves versions out of account.
pub(crate) fn is_entitled(run: &Run, version: Option<&WorkerDeploymentVersion>, target: Option<&Target>) -> bool {
    let Some(target) = target else { return true };
    match pinned_version(run) {
        Some(pinned) => version == Some(pinned),
        None => version == target.version.as_ref(),
    }
}

/// A worker is about to take the workflow task: begins a transition if it is of another version, and notes for a pinned run whether its
/// target has changed. Returns whether the worker may have the task; if not, the task is offered again, on the normal queue.
pub(crate) fn take_task(draft: &mut Draft, poller: Option<&WorkerDeploymentVersion>, target: Option<&Target>) -> bool {
    let Some(target) = target else { return true };
    if draft.run.state.versioning.is_none() && poller.is_none() && target.version.is_none() {
        return true;
    }
    if !is_entitled(&draft.run, poller, Some(target)) {
        workflow_task::leave_sticky_queue(draft);
        return false;
    }
    note_target(draft, target);
    if !draft.run.is_speculating() && effective_version(&draft.run) != poller {
        begin(draft, target);
    }
    true
}

/// Notes with the pending workflow task whether the target of a pinned run has changed.
pub(crate) fn note_target(draft: &mut Draft, target: &Target) {
    let is_pinned = pinned_version(&draft.run).is_some();
    let state = &mut draft.run.state;
    let changed = is_pinned && state.versioning.as_mut().is_some_and(|versioning| is_news(versioning, target));
    if let Some(task) = &mut state.task {
        task.target_changed = changed;
    }
}

fn is_news(versioning: &mut Versioning, target: &Target) -> bool {
    if versioning.versioning_override.is_some() {
        return false;
    }
    let newest = [&versioning.notified, &versioning.declined].into_iter().flatten().map(|seen| seen.revision).max();
    if target.version == versioning.version && target.revision >= newest.unwrap_or(0) {
        (versioning.notified, versioning.declined) = (None, None);
        return false;
    }
    if versioning.declined.as_ref().is_some_and(|declined| target.revision <= declined.revision) {
        return false;
    }
    versioning.notified = Some(target.clone());
    true
}

/// The run is on its way to its target. A worker that holds it in its cache is of another version.
fn begin(draft: &mut Draft, target: &Target) {
    draft.step(TransitionMachine, Event::Begin, |draft| {
        let versioning = draft.run.state.versioning.get_or_insert_default();
        let holds_activities = versioning.transition.take().is_some_and(|known| known.holds_activities);
        versioning.transition = Some(VersionTransition { version: target.version.clone(), holds_activities });
        versioning.revision = if target.version.is_some() { target.revision } else { 0 };
    });
    draft.run.state.sticky = None;
    draft.touch();
}

/// A worker is about to take an activity. Returns whether it may have it now. If the worker is of the version to which the workflow has
/// yet to move, the workflow moves first: it gets a workflow task, and the activity is offered again when that is completed.
///
/// The caller knows the routing at least as new as the queue that gave the activity, so that no queue knows a newer revision than
/// `target`.
pub(crate) fn take_activity(
    draft: &mut Draft,
    poller: Option<&WorkerDeploymentVersion>,
    target: Option<&Target>,
) -> bool {
    if draft.run.state.is_standalone() {
        return true;
    }
    if let Some(transition) = draft.run.state.versioning.as_mut().and_then(|versioning| versioning.transition.as_mut())
    {
        if !transition.holds_activities {
            transition.holds_activities = true;
            draft.touch();
        }
        return false;
    }
    let Some(target) = target else { return true };
    let is_independent = pinned_version(&draft.run).is_some() || poller != target.version.as_ref();
    if is_independent || poller == effective_version(&draft.run) {
        return true;
    }
    begin(draft, target);
    if let Some(transition) = draft.run.state.versioning.as_mut().and_then(|versioning| versioning.transition.as_mut())
    {
        transition.holds_activities = true;
    }
    workflow_task::offer_anew(draft);
    workflow_task::schedule_if_none(draft);
    false
}

/// Whether a worker that answers may be given more of the run with the reply. A run that its worker left unversioned goes on there,
/// whichever version that is.
pub(crate) fn goes_on_at(run: &Run, version: Option<&WorkerDeploymentVersion>) -> bool {
    run.state.versioning.as_ref().is_none_or(|versioning| {
        let is_unversioned = versioning.effective_behavior() == VersioningBehavior::Unspecified;
        versioning.transition.is_none() && (is_unversioned || versioning.effective_version() == version)
    })
}

/// Whether the run is on its way to another version.
pub(crate) fn is_moving(run: &Run) -> bool {
    run.state.versioning.as_ref().is_some_and(|versioning| versioning.transition.is_some())
}

/// A worker has completed a workflow task which took this long. What it says is taken as the truth, whichever version the task was
/// handed to. If the run has moved, activities that wait are offered anew.
pub(crate) fn complete(
    draft: &mut Draft,
    behavior: VersioningBehavior,
    version: Option<&WorkerDeploymentVersion>,
    took: Nanos,
) {
    if draft.run.state.versioning.is_none() && behavior == VersioningBehavior::Unspecified {
        return;
    }
    let before = Place::of(&draft.run);
    let reached =
        draft.run.state.versioning.as_ref().and_then(|versioning| {
            versioning.transition.as_ref().map(|transition| transition.version.as_ref() == version)
        });
    match reached {
        Some(true) => end_transition(draft, Event::Finish),
        Some(false) => drop(draft.step(TransitionMachine, Event::Pass, |_| {})),
        None => {}
    }
    // History has the override behind this completion, which therefore is not the one that it waits for.
    let is_newer = draft.run.state.buffered.iter().any(gives_override);
    let versioning = draft.run.state.versioning.get_or_insert_default();
    let newer = versioning.versioning_override.clone().filter(|_| is_newer);
    versioning.completed(behavior, version);
    versioning.versioning_override = newer.or(versioning.versioning_override.take());
    if reached == Some(true) || before != Place::of(&draft.run) {
        offer_activities(draft, took);
    }
}

fn gives_override(event: &HistoryEvent) -> bool {
    matches!(&event.attributes, Some(Attributes::WorkflowExecutionOptionsUpdatedEventAttributes(a)) if a.versioning_override.is_some())
}

fn end_transition(draft: &mut Draft, how: Event) {
    draft.step(TransitionMachine, how, |draft| {
        if let Some(versioning) = &mut draft.run.state.versioning {
            versioning.transition = None;
        }
    });
}

/// Where the tasks of a run go.
#[derive(PartialEq)]
struct Place {
    behavior: VersioningBehavior,
    version: Option<WorkerDeploymentVersion>,
}

impl Place {
    fn of(run: &Run) -> Self {
        Self { behavior: effective_behavior(run), version: effective_version(run).cloned() }
    }
}

/// Gives a run an override, or takes it back. If its tasks go elsewhere from now on, those that wait are offered anew.
pub(crate) fn change_override(draft: &mut Draft, given: Option<VersioningOverride>) {
    let before = Place::of(&draft.run);
    let was_moving = is_moving(&draft.run);
    if was_moving {
        end_transition(draft, Event::Drop);
    }
    draft.run.state.versioning.get_or_insert_default().set_override(given);
    builds::tell_versioning(&mut draft.run.state, "");
    if was_moving || before != Place::of(&draft.run) {
        draft.run.state.sticky = None;
        version_wait::clear(&mut draft.run.state);
        workflow_task::offer_anew(draft);
        offer_activities(draft, 0);
    }
}

/// The same as an event tells it, when state is made from history.
pub(crate) fn note_override(state: &mut RunState, event: &WorkflowExecutionOptionsUpdatedEventAttributes) {
    let has_override = state.versioning.as_ref().is_some_and(|known| known.versioning_override.is_some());
    if event.versioning_override.is_some() || event.unset_versioning_override && has_override {
        state.versioning.get_or_insert_default().set_override(event.versioning_override.clone());
        builds::tell_versioning(state, "");
    }
}

/// Offers activities anew that wait for a worker. The time that a workflow task took does not count as waiting.
fn offer_activities(draft: &mut Draft, took: Nanos) {
    let now = draft.now();
    let waiting = draft.run.state.activities.values().filter(|activity| is_waiting(activity, now));
    let waiting: Vec<i64> = waiting.map(|activity| activity.scheduled_event_id).collect();
    for id in waiting {
        draft.step(ActivityMachine(id), ActivityEvent::Reschedule, |draft| {
            let Some(activity) = draft.activity_mut(id) else { return };
            activity.scheduled_time = activity.scheduled_time.saturating_add(took).min(now);
            activity.stamp += 1;
        });
        draft.touch();
        draft.effect(Effect::OfferActivity(id));
    }
}
