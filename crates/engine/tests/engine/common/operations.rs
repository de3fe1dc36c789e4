//! The steps of scenario files by which an operator deals with activities: `pause a`, `unpause all`, `reset type=A`,
//! `update a queue=q2`, `restore a`; and with the run: `pause-run`, `unpause-run`.

use segno_engine::{
    Rejection, Transition,
    activity_options::{self, Update},
    activity_pause::{self, Pause, Reset, Selection, Unpause},
    pause,
};
use segno_proto::activity::ActivityOptions;

use super::{
    words::Words,
    world::{StepResult, World, queue},
};

/// Whether a step is one of these.
pub fn knows(name: &str) -> bool {
    ["pause", "unpause", "activity-reset", "activity-options", "restore", "pause-run", "unpause-run"].contains(&name)
}

/// One call on the run.
pub fn call(world: &mut World, words: &Words<'_>) -> Result<(String, Transition), Rejection> {
    match words.name {
        "pause-run" => return world.call(|run, context| pause::pause(run, context, of_run(words))).map(plain),
        "unpause-run" => return world.call(|run, context| pause::unpause(run, context, of_run(words))).map(plain),
        _ => {}
    }
    let selection = match words.get("type") {
        Some(name) => Selection::Type(name.to_owned()),
        None if words.flag("all") => Selection::All,
        None => Selection::Id(words.at(0).to_owned()),
    };
    let jitter = words.time("jitter").unwrap_or(0);
    let taken = match words.name {
        "pause" => {
            let call = Pause {
                identity: "operator".to_owned(),
                reason: "asked to".to_owned(),
                request_id: words.get("request").unwrap_or_default().to_owned(),
            };
            world.call(|run, context| activity_pause::pause(run, context, &selection, &call))?
        }
        "unpause" => {
            let call = Unpause {
                reset_attempts: words.flag("reset-attempts"),
                reset_heartbeat: words.flag("reset-heartbeat"),
                jitter,
            };
            world.call(|run, context| activity_pause::unpause(run, context, &selection, call))?
        }
        "activity-reset" => {
            let call = Reset {
                reset_heartbeat: words.flag("reset-heartbeat"),
                keep_paused: words.flag("keep-paused"),
                restore_options: words.flag("restore-options"),
                jitter,
            };
            world.call(|run, context| activity_pause::reset(run, context, &selection, call))?
        }
        "activity-options" => {
            let call = update(words);
            let taken = world.call(|run, context| activity_options::update(run, context, &selection, &call))?;
            return Ok((shown(&taken.reply), taken.transition));
        }
        _ => {
            let taken = world.call(|run, context| activity_options::restore(run, context, &selection))?;
            return Ok((shown(&taken.reply), taken.transition));
        }
    };
    Ok(plain(taken))
}

fn plain(taken: StepResult<()>) -> (String, Transition) {
    (String::new(), taken.transition)
}

fn of_run(words: &Words<'_>) -> pause::Call {
    let request_id = words.get("request").unwrap_or_default().to_owned();
    pause::Call { identity: "operator".to_owned(), reason: "asked to".to_owned(), request_id }
}

/// Each option that is named is to be changed.
fn update(words: &Words<'_>) -> Update {
    let fields = [
        ("queue", "taskQueue.name"),
        ("schedule-to-close", "scheduleToCloseTimeout"),
        ("schedule-to-start", "scheduleToStartTimeout"),
        ("start-to-close", "startToCloseTimeout"),
        ("heartbeat", "heartbeatTimeout"),
        ("retry", "retryPolicy"),
    ];
    let paths = fields.iter().filter(|(word, _)| words.get(word).is_some()).map(|(_, path)| (*path).to_owned());
    Update {
        options: Some(ActivityOptions {
            task_queue: words.get("queue").map(queue),
            schedule_to_close_timeout: words.duration("schedule-to-close"),
            schedule_to_start_timeout: words.duration("schedule-to-start"),
            start_to_close_timeout: words.duration("start-to-close"),
            heartbeat_timeout: words.duration("heartbeat"),
            retry_policy: words.retry(),
            ..Default::default()
        }),
        paths: Some(paths.collect()),
    }
}

fn shown(options: &ActivityOptions) -> String {
    let queue = options.task_queue.clone().unwrap_or_default().name;
    let attempts = options.retry_policy.clone().unwrap_or_default().maximum_attempts;
    let seconds = options.start_to_close_timeout.map_or(0, |timeout| timeout.seconds);
    format!(", on {queue} start-to-close={seconds}s attempts={attempts}")
}
