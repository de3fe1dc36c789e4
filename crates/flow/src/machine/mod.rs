//! The interpreter: executes turns of compiled scripts. A turn takes events one at a time, in the order of history: an
//! event ends promises, then all code that can go on runs, then conditions are evaluated.

mod build;
pub(crate) mod bytes;
mod callback;
mod cancel;
mod combine;
mod event;
mod frame;
mod inspect;
mod iterate;
mod library;
mod load;
mod migrate;
mod nexus;
mod path;
mod promise;
mod query;
mod reach;
mod run;
mod save;
mod schedule;
mod stack;
mod task;
mod testing;
#[cfg(test)]
mod tests;
mod values;
mod wake;
mod workflow;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use crate::compile::Code;
use crate::compile::tree::Values;
use crate::interface::{
    Command, Event, Limits, LogLine, OperationKind, Pace, Payload, Start, TurnError, TurnResult, Unpaced,
};
use crate::pure;
use crate::pure::random::Random;
use crate::value::{Kind, LanguageError, Object, ReleasedPromises, Value};

pub use inspect::{FrameInfo, Inspection, Metadata, PendingItem, WaitingCode, inspect, metadata, stack};
pub use migrate::{MigrateError, ScriptVersion, migrate};
pub use query::{QueryError, query};

use frame::{Cell, Closure, Fatal, FaultKind};
use library::NewLog;
use promise::{Outcome, Promise, Work};
pub(crate) use testing::TestProgram;

/// What is numbered in ids.
#[derive(Clone, Copy, Debug)]
enum Counter {
    Task,
    Timer,
    Child,
    Send,
    Call,
    All,
    Any,
    Race,
    Settle,
    Map,
    Timeout,
    Signal,
    Until,
    Nexus,
}

const COUNTERS: usize = 14;

/// Ids begin with these, in the order of [`Counter`].
const PREFIXES: [&str; COUNTERS] = [
    "task", "timer", "child", "send", "call", "all", "any", "race", "settle", "map", "timeout", "signal", "until",
    "nexus",
];

/// Code that can go on.
enum ReadyStep {
    Resume(u32, Outcome),
    /// `Task.map` may start more.
    Map(u32),
}

/// A signal that no code has taken.
struct PendingSignal {
    /// Counts signals, so that the order over all names is known.
    sequence: u64,
    input: Vec<Payload>,
}

/// How the run closed.
enum RunOutcome {
    Returned(Payload),
    New(Value),
    Failed(Value),
}

/// The state of a run while a turn is executed.
pub(crate) struct Machine<'a> {
    code: &'a Code,
    limits: &'a Limits,
    pace: &'a mut dyn Pace,
    /// Only for test programs.
    testing: Option<testing::Testing<'a>>,

    // What is stored.
    start: Start,
    is_started: bool,
    is_closed: bool,
    next_promise: u32,
    promises: BTreeMap<u32, Promise>,
    /// Ends of promises so far.
    ends: u64,
    counters: [u32; COUNTERS],
    signals: BTreeMap<Arc<str>, VecDeque<PendingSignal>>,
    signals_seen: u64,
    task_defaults: Rc<Object>,
    /// The reason of the cancel request.
    cancel_requested: Option<Arc<str>>,
    /// Cells of the workflow's variables that handlers use.
    root: Vec<Cell>,
    random: Option<Random>,
    log: VecDeque<LogLine>,
    details: Option<Arc<str>>,
    /// Operations whose promises have ended but which the server still has.
    lingering: BTreeSet<(OperationKind, Arc<str>)>,

    // Found from what is stored.
    operations: BTreeMap<(OperationKind, Arc<str>), u32>,
    pending: [usize; 5],
    pending_calls: usize,
    signal_waits: BTreeMap<Arc<str>, BTreeSet<u32>>,
    conditions: BTreeSet<u32>,
    released: ReleasedPromises,

    // Of this turn.
    now: i64,
    ready: VecDeque<ReadyStep>,
    work: VecDeque<Work>,
    is_working: bool,
    /// Whether code ran since conditions were looked at.
    has_changed: bool,
    constants: Vec<Option<Value>>,
    /// Values of constants share what the constants share.
    grown: Values,
    commands: Vec<Option<Command>>,
    /// Memory of all commands.
    command_bytes: usize,
    /// Memory of lists that functions of the library go over or make, which no variable holds.
    under_way: usize,
    /// Timers started in this turn, with the places of their commands.
    timers_started: BTreeMap<u32, usize>,
    /// Requests to cancel in this turn, with the places of their commands.
    cancels: BTreeMap<(OperationKind, Arc<str>), usize>,
    memo_command: Option<usize>,
    attributes_command: Option<usize>,
    new_log: NewLog,
    new_details: bool,
    closing: Option<RunOutcome>,
    /// A limit that was reached outside of code: the run fails before code goes on.
    broken: Option<LanguageError>,
    /// Nested calls.
    depth: u32,
    /// Whether code with effects is refused: queries, validators, conditions.
    is_pure: bool,

    // Steps.
    fuel: u64,
    window: u64,
    /// Steps of library functions beyond the window.
    debt: u64,
    /// Steps for this event, and how many are allowed.
    spent: u64,
    steps_max: u64,
    turn_steps: u64,
    /// When memory is looked at next.
    memory_due: u64,
}

impl<'a> Machine<'a> {
    fn new(code: &'a Code, limits: &'a Limits, pace: &'a mut dyn Pace) -> Self {
        Self {
            code,
            limits,
            pace,
            testing: None,
            start: Start::default(),
            is_started: false,
            is_closed: false,
            next_promise: 0,
            promises: BTreeMap::new(),
            ends: 0,
            counters: [0; COUNTERS],
            signals: BTreeMap::new(),
            signals_seen: 0,
            task_defaults: Rc::default(),
            cancel_requested: None,
            root: Vec::new(),
            random: None,
            log: VecDeque::new(),
            details: None,
            lingering: BTreeSet::new(),
            operations: BTreeMap::new(),
            pending: [0; 5],
            pending_calls: 0,
            signal_waits: BTreeMap::new(),
            conditions: BTreeSet::new(),
            released: ReleasedPromises::default(),
            now: 0,
            ready: VecDeque::new(),
            work: VecDeque::new(),
            is_working: false,
            has_changed: false,
            constants: Vec::new(),
            grown: Values::default(),
            commands: Vec::new(),
            command_bytes: 0,
            under_way: 0,
            timers_started: BTreeMap::new(),
            cancels: BTreeMap::new(),
            memo_command: None,
            attributes_command: None,
            new_log: NewLog::default(),
            new_details: false,
            closing: None,
            broken: None,
            depth: 0,
            is_pure: false,
            fuel: 0,
            window: 0,
            debt: 0,
            spent: 0,
            steps_max: limits.steps,
            turn_steps: 0,
            memory_due: MEMORY_INTERVAL,
        }
    }

    /// The next id of a kind.
    fn next_id(&mut self, counter: Counter) -> Arc<str> {
        let number = self.count(counter);
        format!("{}-{number}", PREFIXES[counter as usize]).into()
    }

    fn count(&mut self, counter: Counter) -> u32 {
        let count = &mut self.counters[counter as usize];
        *count += 1;
        *count
    }

    fn end_later(&mut self, number: u32, outcome: Outcome) {
        self.work.push_back(Work::End(number, outcome));
    }

    fn cancel_later(&mut self, number: u32) {
        self.work.push_back(Work::Cancel(number, "".into()));
    }
}

/// Steps between two looks at memory.
const MEMORY_INTERVAL: u64 = 16_384;

/// `type` of an error object.
fn error_type(error: &Value) -> Option<&str> {
    match error {
        Value::Object(object) => match object.get("type") {
            Some(Value::Str(kind)) => Some(kind),
            _ => None,
        },
        _ => None,
    }
}

/// Computes a function without parameters, captures and effects: a constant of the file. `constants` are those before it,
/// whose values it shares. The steps are taken from `steps`.
pub(crate) fn evaluate(
    code: &Code,
    function: u32,
    constants: &mut Vec<Option<Value>>,
    steps: &mut u64,
) -> Result<Value, LanguageError> {
    let mut limits = Limits::default();
    limits.steps_without_effects = limits.steps_without_effects.min(*steps);
    let mut pace = Unpaced;
    let mut machine = Machine::new(code, &limits, &mut pace);
    machine.constants = std::mem::take(constants);
    let result = machine.evaluate(&Closure { function, captures: None }, &[], None);
    *steps = steps.saturating_sub(machine.turn_steps);
    *constants = std::mem::take(&mut machine.constants);
    let fault = match result {
        Ok(value) => return Ok(value),
        Err(fault) => *fault,
    };
    Err(match fault {
        FaultKind::LanguageError(raised) => raised,
        FaultKind::Throw(error) => {
            let text = |key: &str| match &error {
                Value::Object(object) => match object.get(key) {
                    Some(Value::Str(text)) => text.to_string(),
                    _ => String::new(),
                },
                _ => String::new(),
            };
            let kinds = [Kind::Type, Kind::Field, Kind::Index, Kind::Number, Kind::Argument, Kind::Payload];
            let kind = kinds.into_iter().find(|kind| kind.name() == text("type")).unwrap_or(Kind::Argument);
            LanguageError::new(kind, text("message"))
        }
        FaultKind::Fatal(fatal) => match *fatal {
            Fatal::Limit(raised, _) => raised,
            _ => pure::MemoryLimit::Turn(limits.memory_bytes).error(),
        },
    })
}

/// Executes a turn: takes events in order and gives the new state and what the server must do.
///
/// # Errors
/// None of them is the script's own failure: the pace ended the turn, the stored state cannot be read, or the machine
/// found itself in a state that must not be. Nothing of the turn counts then.
pub fn turn(
    code: &Code,
    state: Option<&[u8]>,
    events: &[Event],
    limits: &Limits,
    pace: &mut dyn Pace,
) -> Result<TurnResult, TurnError> {
    let mut machine = match state {
        None => Machine::new(code, limits, pace),
        Some(state) => Machine::load(code, state, limits, pace).map_err(TurnError::DamagedState)?,
    };
    for event in events {
        machine.take(event)?;
    }
    machine.finish()
}

/// The version of a source text: the SHA-256 of it in hexadecimal digits, after removing a byte order mark and turning
/// `\r\n` into `\n`.
#[must_use]
pub fn version(source: &[u8]) -> String {
    use sha2::{Digest, Sha256};
    let digest: [u8; 32] = Sha256::digest(crate::normalize(source)).into();
    save::version_text(&digest)
}
