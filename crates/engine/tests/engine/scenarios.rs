//! Scenarios: each file under `scenarios/` is a story of one run, with everything the engine makes of it, and a test of its own.
//!
//! After a wanted change of behaviour `UPDATE=1 cargo test -p segno-engine --test engine scenarios::` writes the results anew;
//! read the difference before you keep it.

use std::{collections::BTreeSet, path::PathBuf};

use crate::common::scenario;

macro_rules! scenarios {
    ($($name:ident),+ $(,)?) => {
        const NAMES: &[&str] = &[$(stringify!($name)),+];

        $(#[test]
        fn $name() {
            check(stringify!($name));
        })+
    };
}

scenarios! {
    activity_by_id, activity_cancel, activity_cancel_unasked, activity_cancel_while_backing_off,
    activity_during_turn, activity_eager, activity_given_back, activity_heartbeat, activity_options, activity_pause,
    activity_pause_backing_off, activity_pause_ends, activity_pause_running, activity_refused, activity_reset,
    activity_retry, activity_retry_not_wanted, activity_schedule_to_close, activity_stopped_at_worker,
    activity_timeouts, activity_too_big, activity_too_late, bad_sequence, buffered_order, cancel,
    cancel_before_delayed_start, child_tells_its_parent, children, children_during_turn, complete_at_once,
    continue_as_new, continue_as_new_child, crash_after_signal, crash_forgets_the_start, cron, delayed_start,
    external, force_new_task, give_back, hundred_and_one_on_a_later_attempt, hundred_and_one_signals,
    inline_task_after_crash, memo_and_search_attributes, nexus_async, nexus_cancel, nexus_postponed, nexus_reset, nexus_retry, nexus_standalone, nexus_sync, one_activity, pause, pause_failing_task,
    pause_run_times_out, pause_updates, reset_aborts_updates, reset_activities, reset_after_continue_as_new,
    reset_before_timer_fired, reset_buffered_signal, reset_child_not_started, reset_children, reset_closed_run,
    reset_external, reset_memo_and_search_attributes, reset_points, reset_reapplies, reset_rejected_durable,
    reset_timers, reset_to_completed, reset_to_later_attempt, reset_to_started, reset_twice, reset_without_anything,
    reset_without_signals, reset_without_updates, run_timeout, run_timeout_retry, signal_with_start, signals,
    sticky, sticky_given_up, suggest_by_set_limits, suggest_continue_as_new, task_heartbeat,
    task_heartbeat_with_progress, task_timeout, terminate_idle, terminate_started, terminate_transient,
    terminate_waiting, timer_canceled, timer_refused, timers, too_big, too_many_activities, too_many_signals,
    transient_and_news, transient_attempts, transient_bad_answer, transient_suggest_continue_as_new,
    transient_with_buffered, two_mebibytes_of_signals, unhandled_command, update_accept_twice,
    update_accepted_after_closing, update_accepted_and_closed, update_answered_out_of_order,
    update_asked_again_after_failure, update_buffer_full, update_close_while_admitted, update_close_while_sent,
    update_complete_without_accept, update_completed_and_closed, update_completed_before_cron, update_completed_before_retry,
    update_completed_in_earlier_run, update_completed_then_reset, update_continue_while_accepted,
    update_continue_while_admitted, update_continue_while_sent, update_converted_by_activity,
    update_converted_by_signal_while_scheduled, update_converted_by_signal_while_started, update_converted_by_timer,
    update_crash_after_acceptance, update_crash_while_scheduled, update_crash_while_started,
    update_discarded_with_events, update_durable, update_durable_closed, update_durable_completed,
    update_durable_crash, update_durable_crash_while_worker_has_it, update_durable_during_start_delay,
    update_durable_goes_to_retry, update_durable_sent_goes_to_retry,
    update_durable_on_speculative, update_durable_rejected, update_durable_task_failed, update_durable_too_large,
    update_durable_while_sent, update_durable_while_worker_has_it, update_during_start_delay,
    update_during_start_delay_failed, update_during_start_delay_rejected, update_during_task_then_normal,
    update_empty_speculative_accept_complete, update_failed_workflow, update_heartbeat, update_heartbeat_timed_out,
    update_heartbeat_to_another_worker, update_heartbeat_with_progress, update_inline_not_empty_rejected,
    update_inline_speculative_rejected, update_limit_bytes, update_limit_in_flight,
    update_limit_in_flight_while_sent, update_limit_total, update_limit_total_of_resurrected, update_made_durable,
    update_message_absent, update_message_empty_name, update_message_fields, update_message_too_big,
    update_not_empty_speculative_accept_complete, update_not_processed, update_not_resurrected,
    update_on_first_task, update_on_first_task_rejected, update_on_signalled_task, update_refused_while_tasks_fail,
    update_rejected_after_accepted, update_rejected_and_closed, update_rejected_leaves_no_trace,
    update_rejected_with_events_seen, update_rejection_remembered, update_resurrected,
    update_resurrected_beyond_in_flight, update_resurrected_to_be_rejected, update_retried_workflow,
    update_run_timeout, update_same_id_after_completion, update_same_id_while_scheduled,
    update_same_id_while_started, update_schedule_to_start_timeout, update_second_rejected,
    update_stale_incarnation, update_start_to_close_timeout, update_sticky, update_sticky_schedule_to_start_timeout,
    update_suggest_continue_as_new, update_task_failed_by_server, update_task_given_back,
    update_terminated_while_accepted, update_terminated_while_scheduled, update_terminated_while_started,
    update_two_in_one_task, update_waiting_when_task_fails, update_while_closing, update_with_start,
    update_with_start_lost_in_crash, update_without_commands, update_wrong_order, versions_activity_and_tasks, versions_activity_moves_the_run, versions_auto_upgrade, versions_children, versions_completed_elsewhere, versions_continue_auto, versions_continue_pinned, versions_continue_upgrading, versions_cron, versions_eager, versions_failed_task, versions_first_task, versions_given_back, versions_implied_pin, versions_independent_activity, versions_inline, versions_one_time, versions_override, versions_override_at_start, versions_reset, versions_reset_child, versions_retry, versions_speculative, versions_target_changed, versions_unversioned, worker_lost,
    worker_lost_during_turn, worker_lost_quarantine, worker_lost_quarantine_ends, worker_lost_with_updates, workflow_fails, workflow_retry,
}

#[test]
fn every_file_is_a_test() {
    let name_of = |path: PathBuf| path.file_stem().expect("a file has a name").to_string_lossy().into_owned();
    let files: BTreeSet<_> = scenario::files().into_iter().map(name_of).collect();
    let tests: BTreeSet<_> = NAMES.iter().map(|name| (*name).to_owned()).collect();
    let unlisted: Vec<_> = files.difference(&tests).collect();
    assert!(unlisted.is_empty(), "add to the list in {}: {unlisted:?}", file!());
}

#[allow(clippy::disallowed_methods, reason = "this is a test, which may look around")]
fn check(name: &str) {
    let path = scenario::file(name);
    let (expected, actual) = scenario::run_file(&path);
    if expected == actual {
        return;
    }
    match std::env::var_os("UPDATE") {
        Some(_) => std::fs::write(&path, actual).expect("a scenario can be written"),
        None => panic!("{}\n{}\nIf this is wanted: UPDATE=1", path.display(), difference(&expected, &actual)),
    }
}

/// The first lines that differ.
fn difference(expected: &str, actual: &str) -> String {
    let (expected, actual): (Vec<_>, Vec<_>) = (expected.lines().collect(), actual.lines().collect());
    let same = expected.iter().zip(&actual).take_while(|(a, b)| a == b).count();
    let part = |lines: &[&str]| lines.iter().skip(same).take(6).copied().collect::<Vec<_>>().join("\n    ");
    format!("  line {}\n  expected:\n    {}\n  actual:\n    {}", same + 1, part(&expected), part(&actual))
}
