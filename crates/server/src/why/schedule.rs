//! Schedules: when they act next, and what keeps them from acting.

use segno_engine::schedule::{self, state::ScheduleRun};
use segno_proto::{enums::ScheduleOverlapPolicy as Overlap, nanos_timestamp, segno_workflow::Reason, timestamp_nanos};

use super::{RunSnapshot, SHOWN_MAX, command, failure, reason, time, words};

/// The sentences about a schedule; those that keep it from acting come first.
pub(super) fn reasons(seen: &RunSnapshot<'_>, state: &ScheduleRun) -> Vec<Reason> {
    let mut found = Vec::new();
    if state.is_paused() {
        found.push(paused(seen, state));
    }
    running(seen, state, &mut found);
    past(seen, state, &mut found);
    next(seen, state, &mut found);
    found
}

fn paused(seen: &RunSnapshot<'_>, state: &ScheduleRun) -> Reason {
    let notes = state.schedule.state.as_ref().map_or("", |state| state.notes.as_str());
    let why = if notes.is_empty() { String::new() } else { format!(" ({})", words::text(notes)) };
    let text =
        format!("The schedule is paused{why}: it starts nothing, and the times that pass meanwhile are left out.");
    let unpause = command::of_schedule(&seen.run.info, "schedule toggle", &[("--unpause", "")]);
    let hint = format!("{unpause} lets it act again; a backfill makes up for the times that passed.");
    Reason { hint, ..reason("PAUSED", text) }
}

/// Workflows that it started and that are open, and the actions that wait for them.
fn running(seen: &RunSnapshot<'_>, state: &ScheduleRun, found: &mut Vec<Reason>) {
    let own = state.schedule.policies.as_ref().map_or(Overlap::Unspecified, |policies| policies.overlap_policy());
    let meanwhile = match own {
        Overlap::BufferOne | Overlap::BufferAll => "an action that is due meanwhile waits for its end",
        Overlap::CancelOther => "an action that is due meanwhile cancels it",
        Overlap::TerminateOther => "an action that is due meanwhile terminates it",
        Overlap::AllowAll => "others are started beside it",
        _ => "an action that is due meanwhile is skipped",
    };
    let open = &state.info.running_workflows;
    for workflow in open.iter().take(SHOWN_MAX) {
        let id = [("--workflow-id", workflow.workflow_id.as_str())];
        let why = command::command(&seen.run.info.namespace, "workflow why", &id);
        let name = words::quoted(&workflow.workflow_id);
        let text = format!("Workflow {name}, which the schedule started, is open; {meanwhile}.");
        found.push(Reason { hint: format!("{why} tells what it waits for."), ..reason("SCHEDULE_RUNNING", text) });
    }
    if let Some(first) = state.buffered.first().filter(|_| !open.is_empty()) {
        let waiting = words::count(state.buffered.len(), "action waits", "actions wait");
        let text = format!("{waiting} for that workflow to close, the first {}.", words::since(first.actual, seen.now));
        found.push(Reason { since: time(first.actual), ..reason("SCHEDULE_OVERLAP", text) });
    }
    let starting = state.starting.iter().filter(|start| !start.known).count();
    if starting > 0 {
        let workflows = words::count(starting, "workflow", "workflows");
        found.push(reason("SCHEDULE_STARTING", format!("It starts {workflows} at this moment.")));
    }
}

/// The outcome of earlier actions.
fn past(seen: &RunSnapshot<'_>, state: &ScheduleRun, found: &mut Vec<Reason>) {
    if let Some(last) = &state.last_failure {
        let text = format!("The last workflow that it started failed with: {}.", failure::line(last));
        found.push(Reason { details: failure::details(last), ..reason("SCHEDULE_FAILING", text) });
    }
    let info = &state.info;
    if info.overlap_skipped > 0 {
        let actions = words::count(info.overlap_skipped as usize, "action was", "actions were");
        let text = format!("{actions} skipped so far, because the workflow of the action before was still open.");
        let update = "With another overlap policy such an action waits (BufferOne, BufferAll) or is started beside it (AllowAll).";
        found.push(Reason { hint: update.to_owned(), ..reason("SCHEDULE_SKIPPED", text) });
    }
    let missed = info.missed_catchup_window;
    if missed > 0 {
        let actions = words::count(missed as usize, "action was", "actions were");
        let text = format!("{actions} missed so far: the server was down for longer than the catch-up window.");
        let describe = command::of_schedule(&seen.run.info, "schedule describe", &[]);
        found.push(Reason { hint: format!("{describe} shows the window."), ..reason("SCHEDULE_MISSED", text) });
    }
}

fn next(seen: &RunSnapshot<'_>, state: &ScheduleRun, found: &mut Vec<Reason>) {
    let described = schedule::describe(seen.run, state, seen.now);
    let describe = command::of_schedule(&seen.run.info, "schedule describe", &[]);
    let at = described.info.future_action_times.first().map(timestamp_nanos);
    if let Some(at) = at.filter(|_| !state.is_paused()) {
        let text = format!("It acts next {}.", words::moment(at, seen.now));
        let hint = format!("{describe} shows the times after that.");
        found.push(Reason { until: Some(nanos_timestamp(at)), hint, ..reason("SCHEDULE", text) });
        return;
    }
    let kept = state.schedule.state.as_ref();
    if kept.is_some_and(|kept| kept.limited_actions && kept.remaining_actions == 0) {
        let hint = "An update of the schedule can give it more.".to_owned();
        found.push(Reason {
            hint,
            ..reason("SCHEDULE_ENDED", "It acts no more: all the actions that it was given are taken.")
        });
    } else if at.is_none() {
        let text = "It acts no more: its specification has no time to come.";
        let hint = format!("{describe} shows the specification.");
        found.push(Reason { hint, ..reason("SCHEDULE_ENDED", text) });
    }
}

#[cfg(test)]
mod tests {
    use segno_engine::{
        Shared,
        schedule::state::BufferedStart,
        state::{RunInfo, RunState},
    };
    use segno_proto::{
        common::WorkflowExecution,
        schedule::{IntervalSpec, Schedule, SchedulePolicies, ScheduleSpec, ScheduleState},
    };

    use super::{
        super::tests::{NOW, SECOND, run, seen},
        *,
    };

    fn told(change: impl FnOnce(&mut ScheduleRun, &mut Schedule)) -> Vec<Reason> {
        let hourly =
            IntervalSpec { interval: Some(prost_types::Duration { seconds: 3600, nanos: 0 }), ..Default::default() };
        let mut schedule = Schedule {
            spec: Some(ScheduleSpec { interval: vec![hourly], ..Default::default() }),
            policies: Some(SchedulePolicies::default()),
            state: Some(ScheduleState::default()),
            ..Default::default()
        };
        let mut state = ScheduleRun { processed: NOW, ..Default::default() };
        change(&mut state, &mut schedule);
        state.schedule = Shared::from(schedule);
        let run = run(|info: &mut RunInfo, kept: &mut RunState| {
            info.workflow_id = format!("{}nightly", schedule::WORKFLOW_ID_PREFIX);
            kept.schedule = Some(Box::new(state));
        });
        super::super::reasons(&seen(&run))
    }

    #[test]
    fn it_waits_for_its_next_time() {
        let all = told(|_, _| ());
        assert_eq!((all.len(), all[0].kind.as_str(), all[0].severity.as_str()), (1, "SCHEDULE", "WAITING"));
        assert_eq!(all[0].text, "It acts next at 2001-09-09T02:00:00Z (in 13 min 20 s).");
    }

    #[test]
    fn it_is_paused() {
        let all = told(|_, schedule| {
            schedule.state = Some(ScheduleState { paused: true, notes: "audit".to_owned(), ..Default::default() });
        });
        assert_eq!((all.len(), all[0].kind.as_str()), (1, "PAUSED"));
        assert!(all[0].text.starts_with("The schedule is paused (audit): it starts nothing"), "{}", all[0].text);
        assert!(all[0].hint.starts_with("`segno schedule toggle --schedule-id nightly --unpause` lets it act again"));
    }

    #[test]
    fn an_action_waits_for_the_workflow_of_the_one_before() {
        let all = told(|state, schedule| {
            schedule.policies.get_or_insert_default().overlap_policy = Overlap::BufferAll as i32;
            let workflow_id = "report-1".to_owned();
            state.info.running_workflows = vec![WorkflowExecution { workflow_id, ..Default::default() }];
            state.buffered = vec![BufferedStart { actual: NOW - 60 * SECOND, ..Default::default() }];
        });
        let kinds: Vec<_> = all.iter().map(|reason| (reason.kind.as_str(), reason.severity.as_str())).collect();
        assert_eq!(kinds, [("SCHEDULE_RUNNING", "WAITING"), ("SCHEDULE_OVERLAP", "DELAYED"), ("SCHEDULE", "WAITING")]);
        assert!(
            all[0].text.ends_with("is open; an action that is due meanwhile waits for its end."),
            "{}",
            all[0].text
        );
        assert_eq!(all[0].hint, "`segno workflow why --workflow-id report-1` tells what it waits for.");
        assert!(all[1].text.starts_with("1 action waits for that workflow to close"), "{}", all[1].text);
    }

    #[test]
    fn it_acts_no_more() {
        let all = told(|_, schedule| {
            schedule.state = Some(ScheduleState { limited_actions: true, ..Default::default() });
        });
        assert_eq!((all.len(), all[0].kind.as_str(), all[0].severity.as_str()), (1, "SCHEDULE_ENDED", ""));
        let all = told(|_, schedule| schedule.spec = Some(ScheduleSpec::default()));
        assert!(all[0].text.ends_with("no time to come."), "{}", all[0].text);
    }

    #[test]
    fn what_was_skipped_and_missed_is_explained() {
        let all = told(|state, _| (state.info.overlap_skipped, state.info.missed_catchup_window) = (2, 1));
        assert!(all[0].text.starts_with("2 actions were skipped so far, because the workflow of the action before"));
        assert!(all[1].text.starts_with("1 action was missed so far"), "{}", all[1].text);
    }
}
