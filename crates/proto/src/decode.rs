//! Decodes messages from outside, with a limit on the number of their parts.
//!
//! An element of a repeated field takes two bytes on the wire, and the size of its type in memory, which can be several
//! hundred bytes. A limit on the bytes of a message is therefore not a limit on its memory when decoded. Here the reads
//! of the decoder are counted: a tag, a length, a number and the content of a string are one read each. The size of
//! content is not counted, so the size of payloads does not matter.

use bytes::{Buf, Bytes};
use prost::{DecodeError, Message};

/// Most reads of one message. An answer that schedules 2,000 activities, the most that a run may have, each with two
/// headers, two arguments and all time-outs takes 280,000.
pub const READS_MAX: usize = 500_000;
/// Messages up to this size are not counted: even their worst case is small.
const UNCOUNTED_BYTES: usize = 32 * 1024;

/// Why a message was not decoded.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum DecodeRefused {
    /// It is no message of its type.
    #[error(transparent)]
    Malformed(#[from] DecodeError),
    /// It has too many parts.
    #[error("message has too many fields: limit {READS_MAX}")]
    TooManyFields,
}

/// Decodes a message, unless it has more than [`READS_MAX`] parts.
pub fn decode<T: Message + Default>(message: impl Buf) -> Result<T, DecodeRefused> {
    if message.remaining() <= UNCOUNTED_BYTES {
        return Ok(T::decode(message)?);
    }
    let mut counted = Counted { buffer: message, reads_left: READS_MAX };
    let decoded = T::decode(&mut counted);
    match counted.reads_left {
        0 => Err(DecodeRefused::TooManyFields),
        _ => Ok(decoded?),
    }
}

/// A buffer that is empty after a number of reads. A decoder stops there: with an error, or at what it takes for the end.
struct Counted<B> {
    buffer: B,
    reads_left: usize,
}

impl<B: Buf> Counted<B> {
    fn count(&mut self) {
        self.reads_left = self.reads_left.saturating_sub(1);
    }
}

impl<B: Buf> Buf for Counted<B> {
    fn remaining(&self) -> usize {
        if self.reads_left > 0 { self.buffer.remaining() } else { 0 }
    }

    fn chunk(&self) -> &[u8] {
        if self.reads_left > 0 { self.buffer.chunk() } else { &[] }
    }

    // Callers have checked that there is enough; the limit may be reached in the middle of a number.
    fn advance(&mut self, count: usize) {
        self.count();
        self.buffer.advance(count);
    }

    fn get_u8(&mut self) -> u8 {
        self.count();
        self.buffer.get_u8()
    }

    fn copy_to_slice(&mut self, target: &mut [u8]) {
        self.count();
        self.buffer.copy_to_slice(target);
    }

    fn copy_to_bytes(&mut self, length: usize) -> Bytes {
        self.count();
        self.buffer.copy_to_bytes(length)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use prost_types::Duration;

    use super::*;
    use crate::{
        command::{Command, ScheduleActivityTaskCommandAttributes, command::Attributes},
        common::{ActivityType, Header, Payload, Payloads, RetryPolicy},
        taskqueue::TaskQueue,
        workflowservice::{RecordWorkerHeartbeatRequest, RespondWorkflowTaskCompletedRequest},
    };

    #[test]
    fn empty_elements_do_not_become_gigabytes() {
        // Field 2 of the one, field 3 of the other: messages without content.
        let commands = Bytes::from([0x12, 0].repeat(2 << 20));
        let refused = decode::<RespondWorkflowTaskCompletedRequest>(commands);
        assert_eq!(refused, Err(DecodeRefused::TooManyFields));
        let heartbeats = Bytes::from([0x1a, 0].repeat(2 << 20));
        assert_eq!(decode::<RecordWorkerHeartbeatRequest>(heartbeats), Err(DecodeRefused::TooManyFields));
    }

    #[test]
    fn the_limit_counts_at_any_depth_and_at_any_place() {
        let payloads = Payloads { payloads: vec![Payload::default(); READS_MAX] };
        assert_eq!(decode::<Payloads>(Bytes::from(payloads.encode_to_vec())), Err(DecodeRefused::TooManyFields));
        // Two reads for each, and one more would end it, wherever the decoder is then.
        for spare in 0..4 {
            let elements = READS_MAX / 2 - spare;
            let mut encoded = Payloads { payloads: vec![Payload::default(); elements] }.encode_to_vec();
            let last = Payload { data: Bytes::from_static(b"content"), ..Default::default() };
            encoded.extend(Payloads { payloads: vec![last] }.encode_to_vec());
            let decoded = decode::<Payloads>(Bytes::from(encoded));
            assert_eq!(decoded.is_ok(), spare >= 3, "{spare} to spare");
        }
    }

    /// The largest completion that a worker may have reason to send, see [`READS_MAX`].
    #[test]
    fn two_thousand_activities_are_not_too_many() {
        let metadata = BTreeMap::from([("encoding".to_owned(), Bytes::from_static(b"json/plain"))]);
        let payload = Payload { metadata, data: Bytes::from_static(b"\"x\""), ..Default::default() };
        let arguments = Payloads { payloads: vec![payload.clone(), payload.clone()] };
        let second = Some(Duration { seconds: 100, nanos: 5 });
        let activity = ScheduleActivityTaskCommandAttributes {
            activity_id: "1".to_owned(),
            activity_type: Some(ActivityType { name: "a".to_owned() }),
            task_queue: Some(TaskQueue { name: "q".to_owned(), kind: 1, normal_name: "n".to_owned() }),
            header: Some(Header {
                fields: BTreeMap::from([("h".to_owned(), payload.clone()), ("i".to_owned(), payload)]),
            }),
            input: Some(arguments),
            schedule_to_close_timeout: second,
            schedule_to_start_timeout: second,
            start_to_close_timeout: second,
            heartbeat_timeout: second,
            retry_policy: Some(RetryPolicy {
                initial_interval: second,
                backoff_coefficient: 2.0,
                maximum_interval: second,
                maximum_attempts: 5,
                non_retryable_error_types: vec!["e".to_owned(), "f".to_owned()],
            }),
            request_eager_execution: true,
            ..Default::default()
        };
        let attributes = Some(Attributes::ScheduleActivityTaskCommandAttributes(activity));
        let command = Command { command_type: 1, attributes, ..Default::default() };
        let request = RespondWorkflowTaskCompletedRequest { commands: vec![command; 2000], ..Default::default() };
        let encoded = Bytes::from(request.encode_to_vec());
        let mut counted = Counted { buffer: encoded, reads_left: READS_MAX };
        assert_eq!(RespondWorkflowTaskCompletedRequest::decode(&mut counted), Ok(request));
        assert_eq!(READS_MAX - counted.reads_left, 280_000);
    }

    #[test]
    fn content_does_not_count_and_nothing_is_lost() {
        let command = Command { command_type: 3, ..Default::default() };
        let request = RespondWorkflowTaskCompletedRequest {
            task_token: Bytes::from(vec![0x12; 3 << 20]),
            identity: "a worker".repeat(1000),
            commands: vec![command; 2000],
            ..Default::default()
        };
        let encoded = Bytes::from(request.encode_to_vec());
        assert_eq!(decode::<RespondWorkflowTaskCompletedRequest>(encoded.clone()), Ok(request));
        let cut = decode::<RespondWorkflowTaskCompletedRequest>(encoded.slice(..encoded.len() - 1));
        assert!(matches!(cut, Err(DecodeRefused::Malformed(_))), "{cut:?}");
    }
}
