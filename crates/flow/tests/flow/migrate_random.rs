//! Random scripts that are moved back and forth between versions while random things happen to them: the outcome is the
//! one without moves.
//!
//! `FLOW_PROPERTY_RUNS` says how many scripts to try (100 if not set), `FLOW_PROPERTY_SEED` where to begin.

use segno_flow::MigrateError;
use segno_flow::interface::{Command, EventKind, Failure, FailureInfo, OperationKind, Payload};

use crate::dice::{Dice, from_environment};
use crate::migrate::{Run, json};
use crate::properties::script;

/// The same script with more in it: variables, functions, handlers, comments, another layout.
fn extended(source: &str, dice: &mut Dice) -> String {
    let mut text = String::from("const EXTRA = [1]\nfunction extra(x) { return [x, EXTRA] }\n");
    for (number, line) in source.lines().enumerate() {
        let begun = line.trim_start();
        let begins =
            !["}", "case", "default", "validate", "workflow", "let count"].iter().any(|word| begun.starts_with(word));
        if begins && dice.chance(30) {
            text.push_str(&match dice.below(5) {
                0 => format!("let extra{number} = extra({number})\n"),
                1 => "/* more */ ".to_owned(),
                2 => format!("log(\"line\", {number})\n"),
                3 => format!("{{ let trace = {number}; log(trace) }}\n"),
                _ => format!("for (const x of EXTRA) if (extra(x + {number}).length == 3) count++\n"),
            });
        }
        text.push_str(line);
        text.push('\n');
    }
    text
}

/// Something that may happen to a run.
fn happening(run: &Run, dice: &mut Dice, step: u64) -> EventKind {
    let operations = &run.wake.operations;
    if !operations.is_empty() && dice.chance(65) {
        let operation = &operations[dice.below(operations.len() as u64) as usize];
        let id = operation.id.clone();
        let failed = Failure { message: "no".into(), ..Failure::default() };
        let end = if dice.chance(25) { Err(failed) } else { Ok(vec![json(&dice.below(4).to_string())]) };
        return match operation.kind {
            OperationKind::Task => EventKind::TaskEnded { id, end },
            OperationKind::Timer => EventKind::TimerFired { id },
            OperationKind::Child if operation.wakes_on_start => {
                EventKind::ChildStarted { workflow_id: id, run_id: "child".into() }
            }
            OperationKind::Child => EventKind::ChildEnded { workflow_id: id, end },
            OperationKind::Send => EventKind::SendEnded { id, failed: None },
            OperationKind::Nexus => EventKind::NexusEnded { id, end },
        };
    }
    let input = vec![json(&dice.below(4).to_string())];
    match dice.below(20) {
        0 => EventKind::CancelRequested { reason: "why".into() },
        1..=4 => EventKind::Update { id: format!("u{step}"), name: "set".into(), input },
        _ => EventKind::Signaled { name: dice.pick(&["a", "b", "inc", "c"]).into(), input },
    }
}

/// Commands without what names lines.
fn shown(commands: &[Command]) -> String {
    let mut commands = commands.to_vec();
    for command in &mut commands {
        match command {
            Command::Complete { result } | Command::EndUpdate { end: Ok(result), .. } => without_stacks(result),
            Command::Fail { failure }
            | Command::RejectUpdate { failure, .. }
            | Command::EndUpdate { end: Err(failure), .. } => without_stack(failure),
            Command::Cancel { details } => without_stacks(details),
            _ => {}
        }
    }
    format!("{commands:?}")
}

fn without_stack(failure: &mut Failure) {
    failure.stack_trace.clear();
    if let FailureInfo::Application { details, .. } | FailureInfo::Canceled { details } = &mut failure.info {
        without_stacks(details);
    }
    if let Some(cause) = &mut failure.cause {
        without_stack(cause);
    }
}

fn without_stacks(payloads: &mut [Payload]) {
    for payload in payloads {
        let text = String::from_utf8_lossy(&payload.data).into_owned();
        let parts = text.split("\"stack\":\"").enumerate();
        let kept = parts.map(|(place, part)| if place == 0 { part } else { &part[part.find('"').unwrap_or(0)..] });
        payload.data = kept.collect::<String>().into_bytes();
    }
}

/// How often a run was moved, and how often that was refused.
#[derive(Default)]
struct Moves {
    done: u64,
    refused: u64,
}

fn drive(source: &str, other: Option<&str>, seed: u64, moves: &mut Moves) -> String {
    let mut dice = Dice(seed);
    let mut when = Dice(seed + 1);
    let mut run = Run::start(source, "0");
    let mut all = shown(&run.commands);
    let mut is_other = false;
    for step in 0..60 {
        if run.commands.iter().any(Command::closes) {
            break;
        }
        if let Some(other) = other.filter(|_| when.chance(50)) {
            let wake = run.wake.clone();
            // A move to the same version leaves out what no code can see, and nothing else.
            let same = run.source.clone();
            if run.migrate(&same).is_ok() {
                let state = run.state.clone();
                run.migrate(&same).unwrap();
                assert_eq!(run.state, state);
            }
            match run.migrate(if is_other { source } else { other }) {
                Ok(()) => {
                    assert_eq!((&run.wake, run.commands.as_slice()), (&wake, [].as_slice()));
                    run.take(EventKind::Migrated);
                    assert_eq!((&run.wake, run.commands.as_slice()), (&wake, [].as_slice()));
                    is_other = !is_other;
                    moves.done += 1;
                }
                Err(MigrateError::NoPlace(_)) => moves.refused += 1,
                Err(error) => panic!("{error}\n{source}"),
            }
        }
        let event = happening(&run, &mut dice, step);
        run.take(event);
        all += &shown(&run.commands);
    }
    all
}

#[test]
fn moves_change_nothing() {
    let runs = from_environment("FLOW_PROPERTY_RUNS", 100);
    let first = from_environment("FLOW_PROPERTY_SEED", 1);
    let mut moves = Moves::default();
    for seed in first..first + runs {
        let mut dice = Dice(seed);
        // The length of a text with a stack in it depends on line numbers.
        let length = "JSON.stringify(Object.omit(x, [\"stack\"])).length";
        let source = script(&mut dice).replace(length, "Object.keys(x).join()");
        let other = extended(&source, &mut dice);
        let without = drive(&source, None, seed, &mut moves);
        let with = drive(&source, Some(&other), seed, &mut moves);
        let same = with.chars().zip(without.chars()).take_while(|(a, b)| a == b).count();
        let rest = |text: &str| text.chars().skip(same.saturating_sub(200)).take(400).collect::<String>();
        assert_eq!(rest(&with), rest(&without), "seed {seed}\n{source}\n{other}");
    }
    assert!(moves.done > runs, "{} moved, {} refused", moves.done, moves.refused);
    println!("{} moved, {} refused", moves.done, moves.refused);
}
