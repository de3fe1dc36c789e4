//! Tokens of tasks: what was not sealed here is refused; what was is read as it was written.

use std::hash::{DefaultHasher, Hash, Hasher};

use bytes::Bytes;
use prost::Message;
use segno_node::{ActivityToken, CallbackToken, NexusTaskToken, QueryToken, TaskToken, Token};

const KEY: [u8; 16] = *b"a key of a space";

pub(crate) fn run(input: &[u8]) {
    // Eight bytes of authentication are not found by search. Only the search sees what they are compared with:
    // with a key that depends on the input, what it has seen is of no use to it.
    let key = key_of(input);
    assert!(TaskToken::open(input, &key).is_err() && ActivityToken::open(input, &key).is_err());
    assert!(QueryToken::open(input, &key).is_err() && NexusTaskToken::open(input, &key).is_err());
    callbacks(input, &key);
    sealed::<TaskToken, ActivityToken>(input);
    sealed::<ActivityToken, QueryToken>(input);
    sealed::<QueryToken, NexusTaskToken>(input);
    sealed::<NexusTaskToken, TaskToken>(input);
}

fn key_of(input: &[u8]) -> [u8; 16] {
    let mut hasher = DefaultHasher::new();
    input.hash(&mut hasher);
    u128::from(hasher.finish()).to_le_bytes()
}

fn sealed<T: Token + PartialEq, Other: Token>(content: &[u8]) {
    let Ok(token) = T::decode(content) else { return };
    let sealed: Bytes = token.seal(&KEY);
    assert!(T::open(&sealed, &KEY).is_ok_and(|opened| opened == token));
    assert!(Other::open(&sealed, &KEY).is_err(), "a token of one kind is read as another");
    assert!(T::open(&sealed, b"another key here").is_err(), "a token of one namespace is read in another");
}

/// Tokens of callbacks are text with the content of a token in it.
fn callbacks(input: &[u8], key: &[u8; 16]) {
    let read = std::str::from_utf8(input).ok().and_then(CallbackToken::read);
    assert!(!read.is_some_and(|(_, is_made_by)| is_made_by(key)));
    let Ok(token) = CallbackToken::decode(input) else { return };
    let (read, is_made_by) = CallbackToken::read(&token.seal(&KEY)).expect("what was sealed is read");
    assert!(read == token && is_made_by(&KEY));
    let (_, is_made_by) = CallbackToken::read(&token.seal(&KEY)).expect("what was sealed is read");
    assert!(!is_made_by(b"another key here"), "a token of one namespace is read in another");
}

pub(crate) fn seeds() -> Vec<(String, Vec<u8>)> {
    let (workflow_id, run_id) = ("w".to_owned(), "00000000-0000-4000-8000-000000000000".to_owned());
    let task = TaskToken {
        workflow_id: workflow_id.clone(),
        run_id: run_id.clone(),
        scheduled_event_id: 5,
        started_event_id: 6,
        attempt: 1,
        started_time: 7,
    };
    let activity = ActivityToken {
        workflow_id,
        run_id,
        scheduled_event_id: 5,
        attempt: 2,
        started_time: 7,
        activity_id: "a".to_owned(),
    };
    let request = NexusTaskToken { namespace: 1, scheduled_event_id: 5, stamp: 2, cancel: true, ..Default::default() };
    let callback = CallbackToken { namespace_id: "n".to_owned(), scheduled_event_id: 5, ..Default::default() };
    let query = QueryToken { query_id: 3, node: 1 };
    let seeds = [
        ("task", task.encode_to_vec()),
        ("activity", activity.encode_to_vec()),
        ("query", query.encode_to_vec()),
        ("nexus", request.encode_to_vec()),
        ("callback", callback.encode_to_vec()),
        ("callback-text", callback.seal(&KEY).into_bytes()),
    ];
    seeds.map(|(name, bytes)| (name.to_owned(), bytes)).into()
}
