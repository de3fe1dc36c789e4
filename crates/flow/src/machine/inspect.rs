//! Describes the state of a run: what its code waits for, variables, pending promises.

use std::collections::HashSet;

use crate::compile::Code;
use crate::compile::code::Place;
use crate::hir::FunctionKind;
use crate::interface::{Limits, LogLine, Unpaced};
use crate::pure;
use crate::value::Value;

use super::Machine;
use super::combine::ItemValue;
use super::frame::{Fiber, Slot};
use super::promise::{Coroutine, Promise, PromiseKind, Role};
use super::wake::kind_name;

/// Bytes of a value as JSON above which inspection shortens it.
const SHOWN_MAX: usize = 4_096;

/// Bytes of all variables together, after which only their sizes are shown.
const ALL_SHOWN_MAX: usize = 2 << 20;

/// Bytes of all stacks together.
const STACKS_MAX: usize = 1 << 20;

/// What a run is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inspection {
    /// The name of the workflow.
    pub name: String,
    /// The version of the script.
    pub version: String,
    /// Pieces of code that wait, in order of creation.
    pub code: Vec<WaitingCode>,
    /// What has not ended, in order of creation.
    pub pending: Vec<PendingItem>,
    /// Signals that no code has taken: name and count.
    pub signals: Vec<(String, usize)>,
    /// The last lines of the log.
    pub log: Vec<LogLine>,
    /// Bytes of the stored state.
    pub state_bytes: usize,
}

/// A piece of code that waits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WaitingCode {
    /// `main`, `call-1`, or the name of the handler.
    pub id: String,
    /// Ids of the promises that it waits for.
    pub waiting_for: Vec<String>,
    /// Its frames, innermost first.
    pub frames: Vec<FrameInfo>,
}

/// A frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FrameInfo {
    /// The function.
    pub function: String,
    /// The line where it stands.
    pub line: u32,
    /// The column where it stands.
    pub column: u32,
    /// Its variables in order of declaration, as JSON; long ones are shortened.
    pub variables: Vec<(String, String)>,
}

/// An operation that has not ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PendingItem {
    /// The id of the promise.
    pub item_id: String,
    /// `task`, `timer`, `workflow`, `send`, `signal`, `until`, `call`, `all` and so on.
    pub kind: String,
    /// The name of the task, child or signal; empty if it has none.
    pub name: String,
    /// When it was made, in milliseconds since 1970.
    pub since: i64,
    /// When it ends by itself, in milliseconds since 1970.
    pub due: Option<i64>,
}

/// What user interfaces show about a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// The name of the workflow.
    pub name: String,
    /// Names of queries.
    pub queries: Vec<String>,
    /// Names of signals that have a handler or are waited for.
    pub signals: Vec<String>,
    /// Names of updates.
    pub updates: Vec<String>,
    /// Markdown that the script set.
    pub details: String,
}

/// Looks into a stored state.
///
/// # Errors
/// The state cannot be read; the text says why.
pub fn inspect(code: &Code, state: &[u8]) -> Result<Inspection, String> {
    let (limits, mut pace) = (Limits::default(), Unpaced);
    let machine = Machine::load(code, state, &limits, &mut pace)?;
    let mut inspection = Inspection {
        name: code.name().to_owned(),
        version: machine.start.version.clone(),
        log: machine.log.iter().cloned().collect(),
        signals: machine.signals.iter().map(|(name, queue)| (name.to_string(), queue.len())).collect(),
        state_bytes: state.len(),
        ..Inspection::default()
    };
    let mut room = ALL_SHOWN_MAX;
    for promise in machine.promises.values().filter(|promise| promise.end.is_none()) {
        if let Some(coroutine) = promise.coroutine() {
            inspection.code.extend(machine.waiting_code(promise, coroutine, &mut room));
        }
        inspection.pending.extend(machine.pending_item(promise));
    }
    Ok(inspection)
}

/// The stacks of all code that waits, separated by empty lines. Of a state that cannot be read: why.
#[must_use]
pub fn stack(code: &Code, state: &[u8]) -> String {
    let (limits, mut pace) = (Limits::default(), Unpaced);
    let machine = match Machine::load(code, state, &limits, &mut pace) {
        Ok(machine) => machine,
        Err(why) => return format!("the state of the run cannot be read: {why}"),
    };
    let fibers = machine.promises.values().filter_map(|promise| promise.coroutine()?.fiber.as_ref());
    let mut stacks = String::new();
    for fiber in fibers {
        if !stacks.is_empty() {
            stacks.push_str("\n\n");
        }
        if stacks.len() > STACKS_MAX {
            stacks.push('…');
            break;
        }
        stacks.push_str(&machine.stack_text(fiber, None));
    }
    stacks
}

/// What user interfaces show about a run.
///
/// # Errors
/// The state cannot be read; the text says why.
pub fn metadata(code: &Code, state: &[u8]) -> Result<Metadata, String> {
    let (limits, mut pace) = (Limits::default(), Unpaced);
    let machine = Machine::load(code, state, &limits, &mut pace)?;
    let names = |kind| code.handlers(kind).map(str::to_owned).collect::<Vec<String>>();
    let mut signals = names(FunctionKind::Signal);
    signals.extend(machine.signal_waits.keys().map(ToString::to_string));
    Ok(Metadata {
        name: code.name().to_owned(),
        queries: names(FunctionKind::Query),
        signals,
        updates: names(FunctionKind::Update),
        details: machine.details.as_deref().unwrap_or_default().to_owned(),
    })
}

impl Machine<'_> {
    fn waiting_code(&self, promise: &Promise, coroutine: &Coroutine, room: &mut usize) -> Option<WaitingCode> {
        let fiber = coroutine.fiber.as_ref()?;
        let function = self.code.function(fiber.function)?;
        let at = self.code.position_before(fiber.pc);
        let id = match &coroutine.role {
            Role::Main => "main".to_owned(),
            Role::Call => promise.id.to_string(),
            Role::Signal | Role::Update(_) => function.name.to_string(),
        };
        let mut waiting_for = Vec::new();
        if let Some(waiting) = &coroutine.waiting {
            waiting_for.push(waiting.id.to_string());
            if let Some(Promise { kind: PromiseKind::Combination(combination), .. }) =
                self.promises.get(&waiting.number)
            {
                waiting_for.clear();
                for item in &combination.items {
                    if let ItemValue::Promise(item) = &item.value
                        && self.promises.get(&item.number).is_some_and(|promise| promise.end.is_none())
                    {
                        waiting_for.push(item.id.to_string());
                    }
                }
            }
        }
        let frame = FrameInfo {
            function: function.name.to_string(),
            line: at.line,
            column: at.column,
            variables: self.variables(fiber, room),
        };
        Some(WaitingCode { id, waiting_for, frames: vec![frame] })
    }

    /// What is visible where code stands. `room` is how many bytes may still be shown.
    fn variables(&self, fiber: &Fiber, room: &mut usize) -> Vec<(String, String)> {
        let Some(function) = self.code.function(fiber.function) else { return Vec::new() };
        let address = fiber.pc.saturating_sub(1);
        let visible = function.locals.iter().rev().filter(|local| (local.start..local.end).contains(&address));
        let (mut variables, mut seen) = (Vec::new(), HashSet::new());
        for local in visible {
            // An inner variable hides an outer one of the same name.
            if seen.contains(&local.name) {
                continue;
            }
            let value = match local.place {
                Place::Slot(slot) => match fiber.slot(slot) {
                    Ok(Slot::Value(value)) => value.clone(),
                    _ => continue,
                },
                Place::Cell(slot) => match fiber.cell(slot).and_then(super::frame::get) {
                    Ok(value) => value,
                    Err(_) => continue,
                },
                Place::Capture(_) => continue,
            };
            seen.insert(&local.name);
            variables.push((local.name.to_string(), shown(&value, room)));
        }
        variables.reverse();
        variables
    }

    fn pending_item(&self, promise: &Promise) -> Option<PendingItem> {
        let due_of = |number: &Option<u32>| {
            number.and_then(|number| match self.promises.get(&number)?.kind {
                PromiseKind::Timer { due, .. } => Some(due),
                _ => None,
            })
        };
        let prefix = promise.id.rsplit_once('-').map_or(&*promise.id, |(prefix, _)| prefix).to_owned();
        let (kind, name, due) = match &promise.kind {
            PromiseKind::Timer { owner: Some(_), .. } => return None,
            PromiseKind::Timer { due, .. } => ("timer".to_owned(), "", Some(*due)),
            PromiseKind::Task { name, .. }
            | PromiseKind::Nexus { name, .. }
            | PromiseKind::Child { name, .. }
            | PromiseKind::Send { name } => (promise.operation().map_or("", kind_name).to_owned(), &**name, None),
            PromiseKind::Signal { name, timer, .. } => ("signal".to_owned(), &**name, due_of(timer)),
            PromiseKind::Condition { timer, .. } => ("until".to_owned(), "", due_of(timer)),
            PromiseKind::Code(coroutine) if coroutine.role == Role::Call => ("call".to_owned(), "", None),
            PromiseKind::Code(_) => return None,
            PromiseKind::Combination(combination) => (prefix, "", due_of(&combination.timer)),
            PromiseKind::Host => ("test".to_owned(), "", None),
        };
        Some(PendingItem { item_id: promise.id.to_string(), kind, name: name.to_owned(), since: promise.since, due })
    }
}

/// A value as JSON for people: promises by their ids, opaque payloads by their size, long values shortened.
fn shown(value: &Value, room: &mut usize) -> String {
    let mut text = String::new();
    if *room > 0 {
        show(value, &mut text);
    }
    let most = SHOWN_MAX.min(*room);
    *room -= most.min(text.len());
    if !text.is_empty() && text.len() <= most {
        return text;
    }
    let end = (0..=most.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    pure::json::quote(&format!("{} … ({} bytes)", &text[..end], value.size()))
}

fn show(value: &Value, text: &mut String) {
    if text.len() > SHOWN_MAX {
        return;
    }
    match value {
        Value::List(list) => {
            text.push('[');
            for (place, item) in list.items().iter().enumerate() {
                if place > 0 {
                    text.push(',');
                }
                show(item, text);
                if text.len() > SHOWN_MAX {
                    return;
                }
            }
            text.push(']');
        }
        Value::Object(object) => {
            text.push('{');
            for (place, (key, item)) in object.iter().enumerate() {
                if place > 0 {
                    text.push(',');
                }
                text.push_str(&pure::json::quote(key));
                text.push(':');
                show(item, text);
                if text.len() > SHOWN_MAX {
                    return;
                }
            }
            text.push('}');
        }
        Value::Promise(promise) => text.push_str(&pure::json::quote(&format!("promise {}", promise.id))),
        Value::Payload(payload) => {
            let encoding = String::from_utf8_lossy(pure::payload::encoding(payload)).into_owned();
            text.push_str(&pure::json::quote(&format!("payload {encoding} ({} bytes)", payload.data.len())));
        }
        plain => text.push_str(&pure::json::write(plain, &mut pure::Cost::default()).unwrap_or_default()),
    }
}

impl Inspection {
    /// As JSON, with the fields of section 8.3.
    #[must_use]
    pub fn to_json(&self) -> String {
        let quote = |text: &str| pure::json::quote(text);
        let join = |parts: Vec<String>| parts.join(",");
        let time = |time: i64| quote(&pure::time::show(time));
        let code = self.code.iter().map(|code| {
            let waiting = join(code.waiting_for.iter().map(|id| quote(id)).collect());
            let frames = code.frames.iter().map(|frame| {
                let variables = frame.variables.iter().map(|(name, json)| format!("{}:{json}", quote(name)));
                format!(
                    "{{\"function\":{},\"line\":{},\"column\":{},\"variables\":{{{}}}}}",
                    quote(&frame.function),
                    frame.line,
                    frame.column,
                    join(variables.collect())
                )
            });
            format!(
                "{{\"id\":{},\"waiting_for\":[{waiting}],\"frames\":[{}]}}",
                quote(&code.id),
                join(frames.collect())
            )
        });
        let pending = self.pending.iter().map(|item| {
            format!(
                "{{\"item_id\":{},\"kind\":{},\"name\":{},\"since\":{},\"due\":{}}}",
                quote(&item.item_id),
                quote(&item.kind),
                if item.name.is_empty() { "null".to_owned() } else { quote(&item.name) },
                time(item.since),
                item.due.map_or_else(|| "null".to_owned(), time)
            )
        });
        let signals = self.signals.iter().map(|(name, count)| format!("{}:{count}", quote(name)));
        let log = self.log.iter().map(|line| {
            format!(
                "{{\"time\":{},\"line\":{},\"message\":{},\"data\":{}}}",
                time(line.time),
                line.line,
                quote(&line.message),
                line.data.as_deref().unwrap_or("null")
            )
        });
        format!(
            "{{\"name\":{},\"version\":{},\"code\":[{}],\"pending\":[{}],\"signals\":{{{}}},\"log\":[{}],\"state_bytes\":{}}}",
            quote(&self.name),
            quote(&self.version),
            join(code.collect()),
            join(pending.collect()),
            join(signals.collect()),
            join(log.collect()),
            self.state_bytes
        )
    }
}
