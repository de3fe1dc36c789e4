//! Replays recorded histories with the current code and reports differences. Synchronous, without a server.
//!
//! ```no_run
//! # use segno_sdk::{prelude::*, replay::{History, Replayer}};
//! # #[workflow] async fn greet(ctx: Context, name: String) -> Result<String> { Ok(name) }
//! # fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
//! let replayer = Replayer::new().workflow::<Greet>();
//! replayer.replay(History::from_json(std::fs::read_to_string("greet.json")?)?)?;
//! # Ok(()) }
//! ```

use std::{path::Path, sync::Arc};

use bytes::Bytes;
use prost::{
    Message,
    encoding::{decode_varint, encode_varint},
};
use segno_proto::{
    enums::EventType,
    events::{HistoryEvent, history_event::Attributes},
};
use segno_proto_json::{Node, NodeValue, Reading, descriptor, from_json, parse};

use crate::{
    client::{Client, ClientError, Handle},
    converter::ConversionError,
    definition::{Workflow, WorkflowDefinition},
    failure::Failure,
    worker::codec::decode_task,
    workflow::{DeterminismViolation, WorkflowRegistry, execution::Execution},
};

/// A recorded history. Its events stay encoded until they are replayed, so that long ones stay small.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct History {
    /// Field 1 of the message `temporal.api.history.v1.History`, repeated.
    encoded: Bytes,
}

const EVENT: &str = "temporal.api.history.v1.HistoryEvent";
/// In front of each event: field 1, length delimited.
const EVENT_KEY: u64 = 0x0a;

impl History {
    /// From JSON, as `temporal workflow show --output json`, `segno workflow show --output json` and user interfaces
    /// write it: an object with `events`, or the list itself.
    pub fn from_json(text: impl AsRef<str>) -> Result<Self, ReplayError> {
        let text = text.as_ref().as_bytes();
        let nothing = || ReplayError::Malformed("there are no events".to_owned());
        let json = parse(text).map_err(ReplayError::Malformed)?.ok_or_else(nothing)?;
        let list = member(&json, "events").or_else(|| member(member(&json, "history")?, "events"));
        let NodeValue::Array(list) = &list.unwrap_or(&json).value else { return Err(nothing()) };
        let descriptor = descriptor(EVENT).expect("events are part of the protocol");
        let mut encoded = Vec::new();
        for (index, event) in list.iter().enumerate() {
            let at = |error: String| ReplayError::Malformed(format!("event {}: {error}", index + 1));
            let reading = Reading { skips_unknown: true, ..Reading::default() };
            let event = from_json(descriptor.clone(), event, text, reading).map_err(at)?;
            let event: HistoryEvent = event.transcode_to().map_err(|error| at(error.to_string()))?;
            let event = event.encode_to_vec();
            encode_varint(EVENT_KEY, &mut encoded);
            encode_varint(event.len() as u64, &mut encoded);
            encoded.extend_from_slice(&event);
        }
        Ok(Self { encoded: encoded.into() })
    }

    /// From the encoded message `temporal.api.history.v1.History`.
    pub fn from_bytes(bytes: impl AsRef<[u8]>) -> Result<Self, ReplayError> {
        let encoded = Bytes::copy_from_slice(bytes.as_ref());
        let mut rest = encoded.clone();
        while !rest.is_empty() {
            next_event(&mut rest).map_err(|error| ReplayError::Malformed(error.to_owned()))?;
        }
        Ok(Self { encoded })
    }

    /// Of a run, from the server, after its payloads passed the codecs and converters of the handle's client.
    pub async fn from_handle<W: WorkflowDefinition>(handle: &Handle<W>) -> Result<Self, ClientError> {
        Self::decoded(handle.history().await?, handle.client()).await
    }

    /// The same history after its payloads passed the codecs and converters of a client: for files that hold what such a
    /// client wrote.
    pub async fn decoded_by(self, client: &Client) -> Result<Self, ClientError> {
        let events = self.events().map_err(|error| ConversionError(error.to_string()))?;
        Self::decoded(events, client).await
    }

    async fn decoded(mut events: Vec<HistoryEvent>, client: &Client) -> Result<Self, ClientError> {
        decode_task(client.codecs(), &mut events, &mut []).await.map_err(ConversionError)?;
        Ok(Self::from_events(events))
    }

    /// From events.
    pub fn from_events(events: Vec<HistoryEvent>) -> Self {
        Self { encoded: segno_proto::History::encode_batch(&events) }
    }

    /// The encoded message `temporal.api.history.v1.History`.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.encoded.to_vec()
    }

    /// Its events.
    pub fn events(&self) -> Result<Vec<HistoryEvent>, ReplayError> {
        let mut decoded = EventIterator { rest: self.encoded.clone(), error: None };
        let events = decoded.by_ref().collect();
        decoded.error.map_or(Ok(events), |error| Err(ReplayError::Malformed(error)))
    }
}

fn member<'a>(json: &'a Node, name: &str) -> Option<&'a Node> {
    let NodeValue::Object(members) = &json.value else { return None };
    members.iter().find(|member| member.name == name).map(|member| &member.value)
}

/// The next event of an encoded history, still encoded.
fn next_event(rest: &mut Bytes) -> Result<Bytes, &'static str> {
    if decode_varint(rest) != Ok(EVENT_KEY) {
        return Err("it is not an encoded history");
    }
    let length = decode_varint(rest).ok().and_then(|length| usize::try_from(length).ok());
    match length {
        Some(length) if length <= rest.len() => Ok(rest.split_to(length)),
        _ => Err("it ends early"),
    }
}

/// Events, decoded one at a time.
struct EventIterator {
    rest: Bytes,
    error: Option<String>,
}

impl Iterator for EventIterator {
    type Item = HistoryEvent;

    fn next(&mut self) -> Option<HistoryEvent> {
        if self.rest.is_empty() || self.error.is_some() {
            return None;
        }
        let event = next_event(&mut self.rest)
            .map_err(str::to_owned)
            .and_then(|event| HistoryEvent::decode(event).map_err(|error| error.to_string()));
        event.map_err(|error| self.error = Some(error)).ok()
    }
}

/// The result of a replay.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReplayReport {
    /// The workflow's kind.
    pub kind: String,
    /// Events in the history.
    pub events: usize,
    /// Workflow tasks that were completed, and so replayed.
    pub workflow_tasks: usize,
    /// Whether the run has ended.
    pub closed: bool,
}

/// Why a replay did not succeed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The code does not do again what it did.
    #[error("{0}")]
    Violation(Box<DeterminismViolation>),
    /// The workflow task would fail: a panic, a payload that cannot be read, an unknown workflow.
    #[error("{0}")]
    TaskFailed(Failure),
    /// It is not a history.
    #[error("not a history: {0}")]
    Malformed(String),
    /// A file cannot be read.
    #[error("{path}: {error}")]
    File {
        /// Which one.
        path: String,
        /// Why.
        error: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl ReplayError {
    /// The violation in it.
    pub fn violation(&self) -> Option<&DeterminismViolation> {
        match self {
            Self::Violation(violation) => Some(violation),
            Self::File { error, .. } => error.downcast_ref::<Self>().and_then(Self::violation),
            _ => None,
        }
    }
}

/// Replays recorded histories.
#[derive(Clone, Default)]
pub struct Replayer {
    workflows: WorkflowRegistry,
}

impl Replayer {
    /// One that knows no workflow yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a workflow.
    pub fn workflow<W: Workflow>(mut self) -> Self {
        self.workflows.add::<W>();
        self
    }

    /// A task that is scheduled on another queue or with another input than history has is a violation, too. Without this
    /// only its kind and its place count.
    pub fn strict(mut self) -> Self {
        self.workflows.set_strict();
        self
    }

    /// Replays one history.
    pub fn replay(&self, history: History) -> Result<ReplayReport, ReplayError> {
        let mut seen = ReplayReport { kind: String::new(), events: 0, workflow_tasks: 0, closed: false };
        let mut decoded = EventIterator { rest: history.encoded, error: None };
        let mut execution = Execution::new(Arc::new(self.workflows.clone()), "default", "");
        let events = decoded.by_ref().inspect(|event| {
            seen.events += 1;
            seen.workflow_tasks += usize::from(event.event_type() == EventType::WorkflowTaskCompleted);
            if let Some(Attributes::WorkflowExecutionStartedEventAttributes(started)) = &event.attributes {
                seen.kind = started.workflow_type.as_ref().map(|kind| kind.name.clone()).unwrap_or_default();
            }
        });
        let replayed = execution.replay(events);
        if let Some(error) = decoded.error {
            return Err(ReplayError::Malformed(error));
        }
        replayed.map_err(|failed| match failed.violation {
            Some(violation) => ReplayError::Violation(violation),
            None if failed.stale => ReplayError::Malformed(failed.failure.message().to_owned()),
            None => ReplayError::TaskFailed(failed.failure),
        })?;
        if seen.kind.is_empty() {
            return Err(ReplayError::Malformed("it does not begin with the start of a workflow".to_owned()));
        }
        Ok(ReplayReport { closed: execution.is_closed(), ..seen })
    }

    /// Replays histories one after the other, each as it comes. The first that fails does not end it.
    pub fn replay_all<'a, I>(&'a self, histories: I) -> impl Iterator<Item = Result<ReplayReport, ReplayError>> + 'a
    where
        I: IntoIterator<Item = History>,
        I::IntoIter: 'a,
    {
        histories.into_iter().map(|history| self.replay(history))
    }

    /// Replays every `*.json` of a folder, in the order of their names. The first that fails ends it.
    pub fn replay_dir(&self, path: impl AsRef<Path>) -> Result<Vec<ReplayReport>, ReplayError> {
        let file = |path: &Path, error: Box<dyn std::error::Error + Send + Sync>| ReplayError::File {
            path: path.display().to_string(),
            error,
        };
        let folder = path.as_ref();
        let entries = std::fs::read_dir(folder).map_err(|error| file(folder, error.into()))?;
        let mut paths: Vec<_> = entries
            .filter_map(|entry| entry.ok().map(|entry| entry.path()))
            .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
            .collect();
        paths.sort();
        let mut reports = Vec::new();
        for path in paths {
            let text = std::fs::read_to_string(&path).map_err(|error| file(&path, error.into()))?;
            let report = History::from_json(&text).and_then(|history| self.replay(history));
            reports.push(report.map_err(|error| file(&path, error.into()))?);
        }
        Ok(reports)
    }
}
