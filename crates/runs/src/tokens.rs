//! Task tokens, which workers send with their answers. They name run, task, attempt and start time, and are
//! authenticated with the namespace's key, so that a token of another namespace or server is refused.

use std::{hash::Hasher, sync::Arc};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use bytes::Bytes;
use prost::Message;
use segno_proto::{Nanos, scratch::encoded};
use siphasher::{sip::SipHasher24, sip128::Hasher128};

use crate::{
    namespaces::{Namespace, NamespaceName},
    runs::Runs,
};

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

/// Token of a request to the handler of a Nexus operation. The namespace of the handler authenticates it; the workflow may be of another
/// one.
#[derive(Clone, PartialEq, prost::Message)]
pub struct NexusTaskToken {
    /// The number of the workflow's namespace.
    #[prost(uint32, tag = "1")]
    pub namespace: u32,
    /// The workflow.
    #[prost(string, tag = "2")]
    pub workflow_id: String,
    /// The run.
    #[prost(string, tag = "3")]
    pub run_id: String,
    /// The operation, by its scheduled event.
    #[prost(int64, tag = "4")]
    pub scheduled_event_id: i64,
    /// The attempt.
    #[prost(uint32, tag = "5")]
    pub stamp: u32,
    /// Whether it is the request to cancel it.
    #[prost(bool, tag = "6")]
    pub cancel: bool,
    /// When it was handed out. SDKs tell tasks apart by their tokens, and a task is handed out again after a restart.
    #[prost(int64, tag = "7")]
    pub taken_time: Nanos,
}

/// Token of a direct call to a handler, see [`NexusTaskToken`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct NexusCallToken {
    /// Which call.
    #[prost(fixed64, tag = "1")]
    pub call: u64,
    /// The node where its caller waits; 0 if there is only one.
    #[prost(uint64, tag = "2")]
    pub node: u64,
}

/// Names the operation that a completion reports on. Handlers keep it, and it may leave the cluster.
#[derive(Clone, PartialEq, prost::Message)]
pub struct CallbackToken {
    /// The id of the namespace.
    #[prost(string, tag = "1")]
    pub namespace_id: String,
    /// The workflow.
    #[prost(string, tag = "2")]
    pub workflow_id: String,
    /// The run.
    #[prost(string, tag = "3")]
    pub run_id: String,
    /// The operation, by its scheduled event.
    #[prost(int64, tag = "4")]
    pub scheduled_event_id: i64,
    /// The operation, by the request that started it.
    #[prost(string, tag = "5")]
    pub request_id: String,
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
        open(sealed, key)
    }
}

fn open<T: Token>(sealed: &[u8], key: &[u8; 16]) -> Result<T, TokenError> {
    let length = sealed.len().checked_sub(MAC_BYTES).ok_or(TokenError)?;
    let (body, given) = sealed.split_at(length);
    if mac(T::KIND, key, body) != given {
        return Err(TokenError);
    }
    T::decode(body).map_err(|_| TokenError)
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

impl Token for NexusTaskToken {
    const KIND: u8 = 10;

    fn seal(&self, key: &[u8; 16]) -> Bytes {
        seal_as_text(self, key)
    }

    fn open(sealed: &[u8], key: &[u8; 16]) -> Result<Self, TokenError> {
        open_text(sealed, key)
    }
}

impl Token for NexusCallToken {
    const KIND: u8 = 12;

    fn seal(&self, key: &[u8; 16]) -> Bytes {
        seal_as_text(self, key)
    }

    fn open(sealed: &[u8], key: &[u8; 16]) -> Result<Self, TokenError> {
        open_text(sealed, key)
    }
}

/// A token as text: the Python SDK logs those of Nexus tasks as such.
fn seal_as_text<T: Token>(token: &T, key: &[u8; 16]) -> Bytes {
    let mut body = token.encode_to_vec();
    let mac = mac(T::KIND, key, &body);
    body.extend_from_slice(&mac);
    URL_SAFE_NO_PAD.encode(body).into()
}

fn open_text<T: Token>(sealed: &[u8], key: &[u8; 16]) -> Result<T, TokenError> {
    open(&URL_SAFE_NO_PAD.decode(sealed).map_err(|_| TokenError)?, key)
}

const CALLBACK_KIND: u8 = 11;
const CALLBACK_MAC_BYTES: usize = 16;
/// Around the token itself, so that its form can change.
const CALLBACK_FORM: (&str, &str) = (r#"{"v":1,"d":""#, r#""}"#);

impl CallbackToken {
    /// The token as handlers get it.
    pub fn seal(&self, key: &[u8; 16]) -> String {
        let mut body = self.encode_to_vec();
        let mac = callback_mac(key, &body);
        body.extend_from_slice(&mac);
        format!("{}{}{}", CALLBACK_FORM.0, URL_SAFE_NO_PAD.encode(body), CALLBACK_FORM.1)
    }

    /// The content of a token, and a check whether a key made it. Nothing may be done by a token before this was asked.
    pub fn read(sealed: &str) -> Option<(Self, impl FnOnce(&[u8; 16]) -> bool + use<>)> {
        let encoded = sealed.strip_prefix(CALLBACK_FORM.0)?.strip_suffix(CALLBACK_FORM.1)?;
        let mut body = URL_SAFE_NO_PAD.decode(encoded).ok()?;
        let given = body.split_off(body.len().checked_sub(CALLBACK_MAC_BYTES)?);
        let token = Self::decode(&body[..]).ok()?;
        Some((token, move |key: &[u8; 16]| callback_mac(key, &body)[..] == given[..]))
    }
}

fn callback_mac(key: &[u8; 16], body: &[u8]) -> [u8; CALLBACK_MAC_BYTES] {
    let mut hasher = siphasher::sip128::SipHasher24::new_with_key(key);
    hasher.write_u8(CALLBACK_KIND);
    hasher.write(body);
    hasher.finish128().as_bytes()
}

impl Runs {
    /// A callback token of this server, with its namespace.
    pub fn open_callback_token(&self, sealed: &str) -> Option<(Arc<Namespace>, CallbackToken)> {
        let (token, is_made_by) = CallbackToken::read(sealed)?;
        let namespace = self.namespaces.find(&NamespaceName::Id(token.namespace_id.clone()))?;
        is_made_by(&namespace.token_key).then_some((namespace, token))
    }
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

    #[test]
    fn a_callback_token_that_was_changed_in_one_bit_is_refused() {
        let token = CallbackToken { namespace_id: "n".into(), workflow_id: "w".into(), ..Default::default() };
        let sealed = token.seal(&[7; 16]);
        let is_valid = |sealed: &str, key: [u8; 16]| {
            CallbackToken::read(sealed).is_some_and(|(read, is_made_by)| read == token && is_made_by(&key))
        };
        assert!(is_valid(&sealed, [7; 16]) && !is_valid(&sealed, [8; 16]) && !is_valid("short", [7; 16]));
        for at in 0..sealed.len() {
            let mut changed = sealed.clone().into_bytes();
            changed[at] ^= 1;
            let changed = String::from_utf8(changed).unwrap_or_default();
            assert!(!is_valid(&changed, [7; 16]), "{changed}");
        }
    }
}
