//! Task tokens, which workers send with their answers. They name run, task, attempt and start time, and are
//! authenticated with the namespace's key, so that a token of another namespace or server is refused.

use std::hash::Hasher;

use bytes::Bytes;
use prost::Message;
use segno_proto::{Nanos, scratch::encoded};
use siphasher::sip::SipHasher24;

const MAC_BYTES: usize = 8;

/// A token that is none of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the token was not made by this server for this namespace")]
pub struct TokenError;

/// Token of a workflow task.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TaskToken {
    /// The workflow.
    #[prost(string, tag = "1")]
    pub workflow_id: String,
    /// The run.
    #[prost(string, tag = "2")]
    pub run_id: String,
    /// Its scheduled event.
    #[prost(int64, tag = "3")]
    pub scheduled_event_id: i64,
    /// Its started event.
    #[prost(int64, tag = "4")]
    pub started_event_id: i64,
    /// Its attempt.
    #[prost(int32, tag = "5")]
    pub attempt: i32,
    /// When it started.
    #[prost(int64, tag = "6")]
    pub started_time: Nanos,
}

/// Token of an activity.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ActivityToken {
    /// The workflow.
    #[prost(string, tag = "1")]
    pub workflow_id: String,
    /// The run.
    #[prost(string, tag = "2")]
    pub run_id: String,
    /// Its scheduled event.
    #[prost(int64, tag = "7")]
    pub scheduled_event_id: i64,
    /// Its attempt.
    #[prost(int32, tag = "8")]
    pub attempt: i32,
    /// When that attempt started.
    #[prost(int64, tag = "9")]
    pub started_time: Nanos,
    /// The user's id.
    #[prost(string, tag = "10")]
    pub activity_id: String,
}

/// Token of a query.
#[derive(Clone, PartialEq, prost::Message)]
pub struct QueryToken {
    /// Which query.
    #[prost(fixed64, tag = "15")]
    pub query_id: u64,
    /// The node that asks; 0 if there is only one.
    #[prost(uint64, tag = "16")]
    pub node: u64,
}

/// A kind of token. Its number distinguishes it from other kinds under one key.
pub trait Token: Message + Default {
    /// Mixed into the authentication.
    const KIND: u8;

    /// The token as the worker gets it.
    fn seal(&self, key: &[u8; 16]) -> Bytes {
        encoded(|buffer| {
            self.encode_raw(buffer);
            let mac = mac(Self::KIND, key, buffer);
            buffer.extend_from_slice(&mac);
        })
    }

    /// Reads what a worker brings back.
    fn open(sealed: &[u8], key: &[u8; 16]) -> Result<Self, TokenError> {
        let length = sealed.len().checked_sub(MAC_BYTES).ok_or(TokenError)?;
        let (body, given) = sealed.split_at(length);
        if mac(Self::KIND, key, body) != given {
            return Err(TokenError);
        }
        Self::decode(body).map_err(|_| TokenError)
    }
}

impl Token for TaskToken {
    const KIND: u8 = 1;
}

impl Token for ActivityToken {
    const KIND: u8 = 2;
}

impl Token for QueryToken {
    const KIND: u8 = 3;
}

fn mac(kind: u8, key: &[u8; 16], body: &[u8]) -> [u8; MAC_BYTES] {
    let mut hasher = SipHasher24::new_with_key(key);
    hasher.write_u8(kind);
    hasher.write(body);
    hasher.finish().to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_right_key_and_kind_open_a_token() {
        let token = TaskToken { workflow_id: "w".into(), attempt: 2, ..Default::default() };
        let sealed = token.seal(&[7; 16]);
        assert_eq!(TaskToken::open(&sealed, &[7; 16]), Ok(token));
        assert_eq!(TaskToken::open(&sealed, &[8; 16]), Err(TokenError));
        assert_eq!(ActivityToken::open(&sealed, &[7; 16]), Err(TokenError));
        let mut changed = sealed.to_vec();
        changed[0] ^= 1;
        assert_eq!(TaskToken::open(&changed, &[7; 16]), Err(TokenError));
        assert_eq!(TaskToken::open(b"short", &[7; 16]), Err(TokenError));
    }
}
