//! The machine: order, promises, cancellation, limits, state and wake sets (sections 3 to 6 of the reference).

mod cancel;
mod combine;
mod damage;
mod handlers;
mod language;
mod limits;
mod nexus;
mod order;
mod promises;
mod stacks;
mod state;
mod wake;
mod workflow;

use segno_flow::interface::{
    Command, Event, EventKind, Failure, FailureInfo, Limits, Payload, Start, TurnResult, Unpaced,
};
use segno_flow::{Code, check, compile, inspect, query, stack, turn};

/// Compiles a script; the code goes through its stored form.
#[track_caller]
pub fn code(source: &str) -> Code {
    let checked = check(source.as_bytes());
    let program = checked.program.unwrap_or_else(|| panic!("{:#?}", checked.diagnostics));
    let code = compile(&program, "w.flow").unwrap();
    let again = Code::decode(&code.encode()).unwrap();
    assert_eq!(code, again);
    again
}

pub fn json(text: &str) -> Payload {
    Payload { metadata: vec![("encoding".into(), b"json/plain".to_vec())], data: text.as_bytes().to_vec() }
}

pub fn null() -> Payload {
    Payload { metadata: vec![("encoding".into(), b"binary/null".to_vec())], data: Vec::new() }
}

/// A run that takes events one by one and shows what it does as text.
pub struct Run {
    pub code: Code,
    pub state: Option<Vec<u8>>,
    pub now: i64,
    pub last: Option<TurnResult>,
    pub limits: Limits,
    source: String,
    /// Whether a script that completes must have no errors about types.
    is_typed: bool,
}

impl Run {
    #[track_caller]
    pub fn new(source: &str) -> Self {
        Self {
            code: code(source),
            state: None,
            now: 1_767_225_600_000,
            last: None,
            limits: Limits::default(),
            source: source.to_owned(),
            is_typed: true,
        }
    }

    /// A run of a script that may have errors about types.
    #[track_caller]
    pub fn untyped(source: &str) -> Self {
        Self { is_typed: false, ..Self::new(source) }
    }

    /// Where the code stood that failed: line and column.
    pub fn failed_at(&self) -> Option<String> {
        let failed = self.last.as_ref()?.commands.iter().find_map(|command| match command {
            Command::Fail { failure } => Some(failure),
            _ => None,
        })?;
        let (_, place) = failed.stack_trace.lines().next()?.split_once("w.flow:")?;
        Some(place.trim_end_matches(')').to_owned())
    }

    /// Starts it with these arguments, as JSON.
    #[track_caller]
    pub fn start(source: &str, input: &[&str]) -> (Self, Vec<String>) {
        let mut run = Self::new(source);
        let commands = run.begin(input);
        (run, commands)
    }

    #[track_caller]
    pub fn begin(&mut self, input: &[&str]) -> Vec<String> {
        let start = Start {
            workflow_id: "wf".into(),
            run_id: "0195c7a2-0000-7000-8000-000000000001".into(),
            name: self.code.name().to_owned(),
            version: segno_flow::version(b"x"),
            namespace: "default".into(),
            task_queue: "q".into(),
            attempt: 1,
            started_at: self.now,
            input: input.iter().map(|text| json(text)).collect(),
            attribute_types: vec![("Color".into(), "Keyword".into()), ("Size".into(), "Int".into())],
            ..Start::default()
        };
        self.take(vec![EventKind::Started(Box::new(start))])
    }

    /// Takes events in one turn.
    #[track_caller]
    pub fn take(&mut self, events: Vec<EventKind>) -> Vec<String> {
        let events: Vec<Event> = events.into_iter().map(|kind| Event { time: self.now, kind }).collect();
        let turned = turn(&self.code, self.state.as_deref(), &events, &self.limits, &mut Unpaced).unwrap();
        self.state = Some(turned.state.clone());
        let shown: Vec<String> = turned.commands.iter().map(show).collect();
        if self.is_typed && shown.iter().any(|command| command.starts_with("complete")) {
            // A script that runs to its end is not refused for its types.
            let checked = segno_flow::types::check(self.source.as_bytes());
            assert!(checked.program.is_some(), "{:?}\n{}", checked.diagnostics, self.source);
        }
        self.last = Some(turned);
        shown
    }

    #[track_caller]
    pub fn event(&mut self, event: EventKind) -> Vec<String> {
        self.take(vec![event])
    }

    pub fn wait(&mut self, seconds: i64) -> &mut Self {
        self.now += seconds * 1_000;
        self
    }

    #[track_caller]
    pub fn done(&mut self, id: &str, result: &str) -> Vec<String> {
        self.event(done(id, result))
    }

    #[track_caller]
    pub fn failed(&mut self, id: &str, kind: &str, message: &str) -> Vec<String> {
        self.event(failed(id, kind, message))
    }

    #[track_caller]
    pub fn fired(&mut self, id: &str) -> Vec<String> {
        self.event(EventKind::TimerFired { id: id.into() })
    }

    #[track_caller]
    pub fn signal(&mut self, name: &str, input: &[&str]) -> Vec<String> {
        self.event(signal(name, input))
    }

    #[track_caller]
    pub fn update(&mut self, id: &str, name: &str, input: &[&str]) -> Vec<String> {
        let input = input.iter().map(|text| json(text)).collect();
        self.event(EventKind::Update { id: id.into(), name: name.into(), input })
    }

    #[track_caller]
    pub fn cancel(&mut self, reason: &str) -> Vec<String> {
        self.event(EventKind::CancelRequested { reason: reason.into() })
    }

    pub fn query(&self, name: &str, input: &[&str]) -> Result<String, String> {
        let input: Vec<Payload> = input.iter().map(|text| json(text)).collect();
        let state = self.state.as_deref().unwrap();
        query(&self.code, state, name, &input, self.now, &self.limits)
            .map(|payloads| payloads.iter().map(shown).collect::<Vec<_>>().join(" "))
            .map_err(|error| error.to_string())
    }

    pub fn wake(&self) -> Vec<String> {
        let wake = &self.last.as_ref().unwrap().wake;
        let mut lines: Vec<String> = wake.signals.iter().map(|name| format!("signal {name}")).collect();
        lines.extend(wake.operations.iter().map(|operation| {
            let start = if operation.wakes_on_start { " and start" } else { "" };
            format!("{:?} {} {:?}{start}", operation.kind, operation.id, operation.wake)
        }));
        lines.extend(wake.groups.iter().map(|group| {
            format!("{} missing, completion {:?}, failure {:?}", group.missing, group.completion, group.failure)
        }));
        lines
    }

    pub fn inspect(&self) -> String {
        inspect(&self.code, self.state.as_deref().unwrap()).unwrap().to_json()
    }

    pub fn stack(&self) -> String {
        stack(&self.code, self.state.as_deref().unwrap())
    }
}

pub fn done(id: &str, result: &str) -> EventKind {
    EventKind::TaskEnded { id: id.into(), end: Ok(vec![json(result)]) }
}

pub fn failed(id: &str, kind: &str, message: &str) -> EventKind {
    let info = FailureInfo::Application { kind: kind.into(), non_retryable: false, details: Vec::new() };
    let cause = Failure { message: message.into(), info, ..Failure::default() };
    let info = FailureInfo::Activity {
        id: id.into(),
        name: "t".into(),
        scheduled_event_id: 5,
        started_event_id: 6,
        identity: String::new(),
        retry_state: 0,
    };
    let failure =
        Failure { message: "Activity task failed".into(), cause: Some(Box::new(cause)), info, ..Failure::default() };
    EventKind::TaskEnded { id: id.into(), end: Err(failure) }
}

pub fn signal(name: &str, input: &[&str]) -> EventKind {
    EventKind::Signaled { name: name.into(), input: input.iter().map(|text| json(text)).collect() }
}

fn shown(payload: &Payload) -> String {
    if *payload == null() { "null".to_owned() } else { String::from_utf8_lossy(&payload.data).into_owned() }
}

fn failure(failure: &Failure) -> String {
    match (&failure.info, &failure.cause) {
        (FailureInfo::Application { kind, .. }, _) => format!("{kind}: {}", failure.message),
        (FailureInfo::Activity { id, .. }, Some(cause)) => format!("{id} {}", self::failure(cause)),
        (FailureInfo::Child { workflow_id, .. }, Some(cause)) => format!("{workflow_id} {}", self::failure(cause)),
        (FailureInfo::Canceled { .. }, _) => "canceled".to_owned(),
        _ => format!("{failure:?}"),
    }
}

fn end(end: &Result<Vec<Payload>, Failure>) -> String {
    match end {
        Ok(payloads) => payloads.iter().map(shown).collect::<Vec<_>>().join(" "),
        Err(error) => failure(error),
    }
}

/// A command in a few words.
pub fn show(command: &Command) -> String {
    let input =
        |payloads: &[Payload]| payloads.iter().map(|payload| format!(" {}", shown(payload))).collect::<String>();
    match command {
        Command::ScheduleTask(task) => format!("task {} {}{}", task.id, task.name, input(&task.input)),
        Command::CancelTask { id } => format!("cancel {id}"),
        Command::ScheduleNexus(order) => {
            let name = format!("{}.{}.{}", order.endpoint, order.service, order.operation);
            format!("operation {} {name}{}", order.id, input(order.input.as_slice()))
        }
        Command::CancelNexus { id } => format!("cancel {id}"),
        Command::StartTimer { id, duration } => format!("{id} {duration}"),
        Command::CancelTimer { id } => format!("cancel {id}"),
        Command::StartChild(child) => format!("child {} {}{}", child.workflow_id, child.name, input(&child.input)),
        Command::CancelChild { workflow_id, reason } => format!("cancel child {workflow_id} {reason}"),
        Command::Signal { id, workflow_id, name, input: payloads, .. } => {
            format!("{id} {workflow_id} {name}{}", input(payloads))
        }
        Command::CancelWorkflow { id, workflow_id, reason, .. } => format!("{id} cancel {workflow_id} {reason}"),
        Command::SetMemo(changes) | Command::SetSearchAttributes(changes) => {
            let word = if matches!(command, Command::SetMemo(_)) { "memo" } else { "attributes" };
            let changes =
                changes.iter().map(|(key, value)| format!(" {key}={}", value.as_ref().map_or("-".into(), shown)));
            format!("{word}{}", changes.collect::<String>())
        }
        Command::AcceptUpdate { id } => format!("accept {id}"),
        Command::RejectUpdate { id, failure: why } => format!("reject {id} {}", failure(why)),
        Command::EndUpdate { id, end: how } => format!("update {id} {}", end(how)),
        Command::Complete { result } => format!("complete{}", input(result)),
        Command::Fail { failure: why } => format!("fail {}", failure(why)),
        Command::Cancel { details } => format!("canceled{}", input(details)),
        Command::ContinueAsNew(next) => {
            let signals = next.signals.iter().map(|(name, payloads)| format!(" {name}({})", input(payloads).trim()));
            format!("new{}{}", input(&next.input), signals.collect::<String>())
        }
    }
}
