//! Commands that a hint suggests: complete, and quoted for a shell.

use segno_engine::{schedule, standalone, state::RunInfo};

/// The namespace of clients that name none.
const DEFAULT_NAMESPACE: &str = "default";

/// A command between backticks. An argument is a flag with its value; either may be empty.
pub(super) fn command(namespace: &str, words: &str, arguments: &[(&str, &str)]) -> String {
    let mut line = format!("`segno {words}");
    let scope = [("--namespace", namespace)];
    let scope = scope.iter().filter(|_| !namespace.is_empty() && namespace != DEFAULT_NAMESPACE);
    for (flag, value) in scope.chain(arguments) {
        if !flag.is_empty() {
            line.push_str(&format!(" {flag}"));
        }
        if !value.is_empty() {
            line.push_str(&format!(" {}", quoted(value)));
        }
    }
    line.push('`');
    line
}

/// A command about a workflow.
pub(super) fn of_workflow(info: &RunInfo, words: &str, arguments: &[(&str, &str)]) -> String {
    let id = [("--workflow-id", info.workflow_id.as_str())];
    command(&info.namespace, words, &[&id, arguments].concat())
}

/// A command about an activity of a workflow, or about a standalone one.
pub(super) fn of_activity(info: &RunInfo, words: &str, activity_id: &str) -> String {
    let id = ("--activity-id", activity_id);
    match info.workflow_id.starts_with(standalone::WORKFLOW_ID_PREFIX) {
        true => command(&info.namespace, words, &[id]),
        false => of_workflow(info, words, &[id]),
    }
}

/// A command about a schedule.
pub(super) fn of_schedule(info: &RunInfo, words: &str, arguments: &[(&str, &str)]) -> String {
    let id = info.workflow_id.trim_start_matches(schedule::WORKFLOW_ID_PREFIX);
    command(&info.namespace, words, &[&[("--schedule-id", id)], arguments].concat())
}

/// A text as one word of a POSIX shell.
fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+=,".contains(c);
    match text.chars().all(is_plain) && !text.starts_with('-') {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_takes_the_command_as_it_is() {
        let info = |namespace: &str, workflow_id: &str| RunInfo {
            namespace: namespace.to_owned(),
            workflow_id: workflow_id.to_owned(),
            ..Default::default()
        };
        let plain = info("default", "order-7");
        assert_eq!(of_workflow(&plain, "workflow why", &[]), "`segno workflow why --workflow-id order-7`");
        let odd = of_activity(&info("shop", "it's 5 $"), "activity unpause", "a b");
        assert_eq!(odd, r"`segno activity unpause --namespace shop --workflow-id 'it'\''s 5 $' --activity-id 'a b'`");
        let standalone = info("default", &format!("{}mail", standalone::WORKFLOW_ID_PREFIX));
        assert_eq!(of_activity(&standalone, "activity reset", "mail"), "`segno activity reset --activity-id mail`");
        let schedule = info("", &format!("{}nightly", schedule::WORKFLOW_ID_PREFIX));
        let unpause = of_schedule(&schedule, "schedule toggle", &[("--unpause", "")]);
        assert_eq!(unpause, "`segno schedule toggle --schedule-id nightly --unpause`");
        assert_eq!(quoted("-x"), "'-x'");
    }
}
