//! Checks invariants of every run: the outcome does not depend on how events are grouped into turns, nor on whether the
//! state is saved in between, and the wake set loses no event. A violation is a defect of Segno, never of a script.

use crate::Code;
use crate::interface::{Command, Event, EventKind, Limits, LogLine, TurnResult, Unpaced};
use crate::pure::random::Random;

use super::run::TurnRecord;

/// Groupings tried besides one event per turn.
const GROUPINGS: usize = 2;

/// What came out of all turns of a run.
struct Outcome {
    state: Vec<u8>,
    commands: Vec<Command>,
    log: Vec<LogLine>,
}

/// Executes the events of a run again, grouped otherwise. The error says what differs.
pub(super) fn check(code: &Code, turns: &[TurnRecord], state: &[u8], seed: &str) -> Result<(), String> {
    let events: Vec<Event> = turns.iter().flat_map(|turn| turn.events.iter().cloned()).collect();
    let original = Outcome {
        state: state.to_vec(),
        commands: turns.iter().flat_map(|turn| turn.commands.iter().cloned()).collect(),
        log: turns.iter().flat_map(|turn| turn.log.iter().cloned()).collect(),
    };

    // One event per turn. Notes which events made which things pending, and checks the wake set.
    let last_of_turn: Vec<bool> =
        turns.iter().flat_map(|turn| (1..=turn.events.len()).map(|place| place == turn.events.len())).collect();
    let mut made_by: Vec<Vec<Command>> = Vec::with_capacity(events.len());
    let mut single = Outcome { state: Vec::new(), commands: Vec::new(), log: Vec::new() };
    let mut stored: Option<Vec<u8>> = None;
    for (place, event) in events.iter().enumerate() {
        let mut turned = execute(code, stored.as_deref(), std::slice::from_ref(event))?;
        let closes = turned.commands.last().is_some_and(Command::closes);
        if closes && place + 1 < events.len() {
            // What comes after the end of a run comes in its last turn: signals go over to the next run.
            turned = execute(code, stored.as_deref(), &events[place..])?;
        }
        let is_idle = turned.commands.is_empty() && turned.log.is_empty();
        if !is_idle
            && !last_of_turn[place]
            && !matches!(event.kind, EventKind::Started(_))
            && !shares_turn(turns, place)
        {
            return Err(format!(
                "an event that did not wake the run did something: {:?} gave {:?}",
                event.kind, turned.commands
            ));
        }
        made_by.push(turned.commands.clone());
        single.commands.extend(turned.commands);
        single.log.extend(turned.log);
        stored = Some(turned.state);
        if closes {
            break;
        }
    }
    single.state = stored.unwrap_or_default();
    compare(&original, &single, "one event per turn")?;

    let mut random = Random::seeded(seed);
    for _ in 0..GROUPINGS {
        let mut grouped = Outcome { state: Vec::new(), commands: Vec::new(), log: Vec::new() };
        let mut stored: Option<Vec<u8>> = None;
        let groups = group(&events, &made_by, &mut random);
        let mut begin = 0;
        for count in &groups {
            let turned = execute(code, stored.as_deref(), &events[begin..begin + count])?;
            grouped.commands.extend(turned.commands);
            grouped.log.extend(turned.log);
            stored = Some(turned.state);
            begin += count;
        }
        grouped.state = stored.unwrap_or_default();
        compare(&original, &grouped, &format!("events grouped as {groups:?}"))?;
    }
    Ok(())
}

/// Whether the event at this place woke the run although another event of its turn follows: carried signals come with
/// the start.
fn shares_turn(turns: &[TurnRecord], place: usize) -> bool {
    let mut begin = 0;
    for turn in turns {
        if place < begin + turn.events.len() {
            return matches!(turn.events.first().map(|event| &event.kind), Some(EventKind::Started(_)));
        }
        begin += turn.events.len();
    }
    false
}

fn execute(code: &Code, state: Option<&[u8]>, events: &[Event]) -> Result<TurnResult, String> {
    crate::turn(code, state, events, &Limits::default(), &mut Unpaced).map_err(|error| format!("a turn gave {error:?}"))
}

/// Sizes of groups that could have been turns: an event about something comes after the turn that asked for it, and
/// updates come last.
fn group(events: &[Event], made_by: &[Vec<Command>], random: &mut Random) -> Vec<usize> {
    let mut groups = Vec::new();
    let mut begin = 0;
    for place in 1..=events.len() {
        let is_end = place == events.len();
        if !is_end && place >= made_by.len() {
            // The run has closed.
            continue;
        }
        let must_end = !is_end && {
            let asked_in_group =
                made_by[begin..place].iter().flatten().any(|command| asks_for(command, &events[place].kind));
            let update_before = matches!(events[place - 1].kind, EventKind::Update { .. })
                && !matches!(events[place].kind, EventKind::Update { .. });
            asked_in_group || update_before
        };
        if is_end || must_end || random.next_u64().is_multiple_of(3) {
            groups.push(place - begin);
            begin = place;
        }
    }
    groups
}

/// Whether this command had to be carried out before that event could come.
fn asks_for(command: &Command, event: &EventKind) -> bool {
    match (command, event) {
        (Command::ScheduleTask(order), EventKind::TaskEnded { id, .. }) => order.id == *id,
        (Command::CancelTask { id: asked }, EventKind::TaskEnded { id, .. }) => asked == id,
        (Command::ScheduleNexus(order), EventKind::NexusEnded { id, .. }) => order.id == *id,
        (Command::CancelNexus { id: asked }, EventKind::NexusEnded { id, .. }) => asked == id,
        (Command::StartTimer { id: asked, .. }, EventKind::TimerFired { id }) => asked == id,
        (
            Command::StartChild(order),
            EventKind::ChildStarted { workflow_id, .. }
            | EventKind::ChildNotStarted { workflow_id, .. }
            | EventKind::ChildEnded { workflow_id, .. },
        ) => order.workflow_id == *workflow_id,
        (Command::CancelChild { workflow_id: asked, .. }, EventKind::ChildEnded { workflow_id, .. }) => {
            asked == workflow_id
        }
        (
            Command::Signal { id: asked, .. } | Command::CancelWorkflow { id: asked, .. },
            EventKind::SendEnded { id, .. },
        ) => asked == id,
        _ => false,
    }
}

fn compare(original: &Outcome, other: &Outcome, how: &str) -> Result<(), String> {
    let (wanted, got) = (normalized(&original.commands), normalized(&other.commands));
    if wanted != got {
        let place = wanted.iter().zip(&got).position(|(a, b)| a != b).unwrap_or(wanted.len().min(got.len()));
        return Err(format!("{how}: command {place} is {:?}, was {:?}", got.get(place), wanted.get(place)));
    }
    if original.log != other.log {
        return Err(format!("{how}: the log differs"));
    }
    if original.state != other.state {
        return Err(format!("{how}: the state differs"));
    }
    Ok(())
}

/// Whether a command takes back what another one made.
fn withdraws(command: &Command, made: &Command) -> bool {
    match (command, made) {
        (Command::CancelTimer { id }, Command::StartTimer { id: made, .. }) => id == made,
        (Command::CancelTask { id }, Command::ScheduleTask(order)) => order.id == *id,
        (Command::CancelNexus { id }, Command::ScheduleNexus(order)) => order.id == *id,
        (Command::CancelChild { workflow_id, .. }, Command::StartChild(order)) => order.workflow_id == *workflow_id,
        _ => false,
    }
}

/// Commands without what grouping may leave out: things that were withdrawn in the turn that made them, and merges of
/// memo and search attributes.
fn normalized(commands: &[Command]) -> Vec<Command> {
    let mut kept: Vec<Option<&Command>> = Vec::with_capacity(commands.len());
    let mut merges = [Vec::new(), Vec::new()];
    for command in commands {
        match command {
            Command::SetMemo(changes) => {
                merge(&mut merges[0], changes);
                continue;
            }
            Command::SetSearchAttributes(changes) => {
                merge(&mut merges[1], changes);
                continue;
            }
            _ => {}
        }
        let made = kept.iter().rposition(|made| made.is_some_and(|made| withdraws(command, made)));
        match made {
            Some(place) => kept[place] = None,
            None => kept.push(Some(command)),
        }
    }
    let [memo, attributes] = merges;
    let merged = [Command::SetMemo(memo), Command::SetSearchAttributes(attributes)];
    kept.into_iter().flatten().cloned().chain(merged).collect()
}

type Changes = Vec<(String, Option<crate::interface::Payload>)>;

fn merge(into: &mut Changes, changes: &Changes) {
    for (key, value) in changes {
        into.retain(|(known, _)| known != key);
        into.push((key.clone(), value.clone()));
    }
    into.sort_by(|(a, _), (b, _)| a.cmp(b));
}
