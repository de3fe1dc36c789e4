//! Applies the client's codecs to workflow tasks: decodes history, encodes commands and messages.

use prost::Message;
use segno_proto::{
    command::Command,
    common::Payloads,
    events::HistoryEvent,
    protocol,
    query::{WorkflowQuery, WorkflowQueryResult},
};

use super::payloads;
use crate::converter::codec::Codecs;

const EVENT: &str = "temporal.api.history.v1.HistoryEvent";
const COMMAND: &str = "temporal.api.command.v1.Command";
const MESSAGE: &str = "temporal.api.protocol.v1.Message";

async fn encode<M: Message + Default>(codecs: &Codecs, name: &str, message: &mut M) -> Result<(), String> {
    if codecs.changes_failures() {
        *message = payloads::change_failures(name, message, |failure| {
            codecs.outgoing_failure(failure).map_err(|error| error.0)
        })?;
    }
    let mut encoded = Vec::new();
    for payload in payloads::collect(name, message)? {
        encoded.push(codecs.encode_one(payload).await.map_err(|error| error.to_string())?);
    }
    if !encoded.is_empty() {
        *message = payloads::replace(name, message, &mut encoded.into_iter())?;
    }
    Ok(())
}

async fn decode<M: Message + Default>(codecs: &Codecs, name: &str, message: &mut M) -> Result<(), String> {
    let mut decoded = Vec::new();
    for payload in payloads::collect(name, message)? {
        decoded.push(codecs.decode_one(payload).await.map_err(|error| error.to_string())?);
    }
    if !decoded.is_empty() {
        *message = payloads::replace(name, message, &mut decoded.into_iter())?;
    }
    if codecs.converts_failures() {
        *message = payloads::change_failures(name, message, |failure| {
            codecs.incoming_failure(failure).map_err(|error| error.0)
        })?;
    }
    Ok(())
}

/// Decodes the events and messages of a workflow task.
pub(crate) async fn decode_task(
    codecs: &Codecs,
    events: &mut [HistoryEvent],
    messages: &mut [protocol::Message],
) -> Result<(), String> {
    if codecs.is_empty() {
        return Ok(());
    }
    for event in events {
        decode(codecs, EVENT, event).await?;
    }
    for message in messages {
        decode(codecs, MESSAGE, message).await?;
    }
    Ok(())
}

/// Encodes the answer.
pub(super) async fn encode_answer(
    codecs: &Codecs,
    commands: &mut [Command],
    messages: &mut [protocol::Message],
) -> Result<(), String> {
    if codecs.is_empty() {
        return Ok(());
    }
    for command in commands {
        encode(codecs, COMMAND, command).await?;
    }
    for message in messages {
        encode(codecs, MESSAGE, message).await?;
    }
    Ok(())
}

/// A query that came.
pub(super) async fn decode_query(codecs: &Codecs, query: &mut WorkflowQuery) -> Result<(), String> {
    if let Some(arguments) = &mut query.query_args {
        let decoded = codecs.decode(std::mem::take(&mut arguments.payloads)).await;
        arguments.payloads = decoded.map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// The answer to a query.
pub(super) async fn encode_result(codecs: &Codecs, result: &mut WorkflowQueryResult) -> Result<(), String> {
    if let Some(failure) = result.failure.take() {
        result.failure = Some(codecs.encode_failure(failure).await.map_err(|error| error.0)?);
    }
    if let Some(Payloads { payloads }) = &mut result.answer {
        *payloads = codecs.encode(std::mem::take(payloads)).await.map_err(|error| error.to_string())?;
    }
    Ok(())
}
