//! Tokens of tasks: what was not sealed here is refused; what was is read as it was written.

use std::hash::{DefaultHasher, Hash, Hasher};

use bytes::Bytes;
use prost::Message;
use segno_node::{ActivityToken, QueryToken, TaskToken, Token};

const KEY: [u8; 16] = *b"a key of a space";

pub(crate) fn run(input: &[u8]) {
    // Eight bytes of authentication are not found by search. Only the search sees what they are compared with:
    // with a key that depends on the input, what it has seen is of no use to it.
    let key = key_of(input);
    assert!(TaskToken::open(input, &key).is_err() && ActivityToken::open(input, &key).is_err());
    assert!(QueryToken::open(input, &key).is_err());
    sealed::<TaskToken, ActivityToken>(input);
    sealed::<ActivityToken, QueryToken>(input);
    sealed::<QueryToken, TaskToken>(input);
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
    let query = QueryToken { query_id: 3, node: 1 };
    [("task", task.encode_to_vec()), ("activity", activity.encode_to_vec()), ("query", query.encode_to_vec())]
        .map(|(name, bytes)| (name.to_owned(), bytes))
        .into()
}
