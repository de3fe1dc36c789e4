//! Words of the command line in the places where users put them: options of every command before the command, and ids without
//! their flag.

use std::ffi::{OsStr, OsString};

use clap::{
    Arg, ArgMatches, Args, Command,
    error::{ContextKind, ContextValue, ErrorKind},
};

use crate::client::Connection;

/// Flags with an id. Without the flag, an id stands for the first of these that the command has and that is not given.
const IDS: [&str; 4] = ["workflow-id", "schedule-id", "job-id", "activity-id"];
/// Commands that take an id and do not have to: one of a filter, or one that is made up.
const SELECTING: [&str; 4] = ["cancel", "terminate", "signal", "delete"];

/// Parses the words; an id without its flag gets it.
pub fn parse(command: &Command, words: &[OsString]) -> Result<ArgMatches, clap::Error> {
    let error = match command.clone().try_get_matches_from(words) {
        Ok(matches) => return Ok(matches),
        Err(error) => error,
    };
    for with_flag in with_flags(command, words, &error) {
        if let Ok(matches) = parse(command, &with_flag) {
            return Ok(matches);
        }
    }
    Err(error)
}

/// The words with the flag of an id in front of the word that was not understood, for each place where that word stands.
fn with_flags(command: &Command, words: &[OsString], error: &clap::Error) -> Vec<Vec<OsString>> {
    let (ErrorKind::UnknownArgument, Some(ContextValue::String(given))) =
        (error.kind(), error.get(ContextKind::InvalidArg))
    else {
        return Vec::new();
    };
    let Some(flag) = id_flag(command, words).filter(|_| !given.starts_with('-')) else { return Vec::new() };
    let places = words.iter().enumerate().skip(1).filter(|(_, word)| *word == OsStr::new(given));
    let with_flag = |(place, _)| {
        let mut words = words.to_vec();
        words.insert(place, OsString::from(format!("--{flag}")));
        words
    };
    places.map(with_flag).collect()
}

/// The flag for which an id stands.
fn id_flag(command: &Command, words: &[OsString]) -> Option<&'static str> {
    let mut leaf = command;
    for word in words.iter().skip(1).filter_map(|word| word.to_str()) {
        leaf = leaf.find_subcommand(word).unwrap_or(leaf);
    }
    let is_given = |argument: &Arg, name: &str| {
        let short = argument.get_short().map(|short| format!("-{short}"));
        let mut words = words.iter().filter_map(|word| word.to_str());
        words.any(|word| {
            let long = word.strip_prefix("--").map(|long| long.split('=').next().unwrap_or(long));
            long == Some(name)
                || short.as_ref().is_some_and(|short| word.starts_with(short.as_str()) && !word.starts_with("--"))
        })
    };
    IDS.into_iter().find(|name| {
        let argument = leaf.get_arguments().find(|argument| argument.get_long() == Some(*name));
        argument.is_some_and(|argument| {
            let is_wanted = argument.is_required_set() || SELECTING.contains(&leaf.get_name());
            is_wanted && !is_given(argument, name)
        })
    })
}

/// Moves options of every command that stand before the command behind it: `segno --address HOST:PORT workflow list`.
pub fn move_options(command: &Command, mut words: Vec<OsString>) -> Vec<OsString> {
    let options = Connection::augment_args(Command::new(""));
    let mut end = 1;
    while let Some(word) = words.get(end).and_then(|word| word.to_str()).filter(|word| word.starts_with('-')) {
        let Some(option) = options.get_arguments().find(|option| is_named(option, word)) else { return words };
        let is_attached = word.contains('=') || (!word.starts_with("--") && word.len() > 2);
        let takes_value = option.get_action().takes_values() && !option.is_require_equals_set();
        end += if takes_value && !is_attached { 2 } else { 1 };
    }
    let has_command =
        words.get(end).and_then(|word| word.to_str()).is_some_and(|word| command.find_subcommand(word).is_some());
    if end > 1 && has_command {
        // The command goes first.
        words[1..=end].rotate_right(1);
    }
    words
}

/// Whether a word begins with the name of an option.
fn is_named(option: &Arg, word: &str) -> bool {
    match word.strip_prefix("--") {
        Some(long) => option.get_long() == Some(long.split('=').next().unwrap_or(long)),
        None => option.get_short().is_some_and(|short| word[1..].starts_with(short)),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::Arguments;

    fn words(text: &str) -> Vec<OsString> {
        text.split(' ').map(OsString::from).collect()
    }

    /// The value of an option of the innermost command.
    fn value(text: &str, id: &str) -> Option<String> {
        let command = Arguments::command();
        let matches = parse(&command, &move_options(&command, words(text))).expect("it is understood");
        let mut leaf = &matches;
        while let Some((_, below)) = leaf.subcommand() {
            leaf = below;
        }
        leaf.get_one::<String>(id).cloned()
    }

    #[test]
    fn an_id_needs_no_flag() {
        for text in [
            "segno workflow why order-7",
            "segno workflow signal order-7 --name approve",
            "segno workflow signal --name approve order-7",
            "segno workflow cancel order-7",
            "segno workflow reset order-7 --to LastWorkflowTask --reason order-7",
            "segno workflow describe -n shop order-7",
        ] {
            assert_eq!(value(text, "workflow_id").as_deref(), Some("order-7"), "{text}");
        }
        assert_eq!(value("segno schedule describe nightly", "schedule_id").as_deref(), Some("nightly"));
        assert_eq!(value("segno batch why 3fd4", "job_id").as_deref(), Some("3fd4"));
        assert_eq!(value("segno activity describe mail-7", "activity_id").as_deref(), Some("mail-7"));
        let both = "segno activity pause order-7 5";
        assert_eq!(value(both, "workflow_id").as_deref(), Some("order-7"));
        assert_eq!(value(both, "activity_id").as_deref(), Some("5"));
    }

    #[test]
    fn other_words_are_still_refused() {
        let command = Arguments::command();
        for text in [
            "segno workflow why order-7 order-8",
            "segno workflow why -w order-7 order-8",
            "segno workflow list order-7",
            "segno workflow start order-7 --type Order --task-queue orders",
            "segno namespace list here",
        ] {
            assert!(parse(&command, &words(text)).is_err(), "{text}");
        }
    }

    #[test]
    fn options_of_every_command_may_stand_before_it() {
        for text in [
            "segno --namespace shop workflow why order-7",
            "segno -n shop workflow why order-7",
            "segno -nshop workflow why order-7",
            "segno --namespace=shop --tls workflow why order-7",
            "segno workflow --namespace shop why order-7",
            "segno workflow why order-7 --namespace shop",
        ] {
            assert_eq!(value(text, "namespace").as_deref(), Some("shop"), "{text}");
        }
        let command = Arguments::command();
        for text in ["segno --port 7 serve", "segno --namespace shop", "segno --version", "segno"] {
            assert_eq!(move_options(&command, words(text)), words(text), "{text}");
        }
    }
}
