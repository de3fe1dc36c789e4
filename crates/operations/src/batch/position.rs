//! The stored position in a list.

use segno_runs::ListPosition;
use segno_store::{
    RunKey,
    visibility::{Cursor, Phase, Value},
};

/// See [`ListPosition`].
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct StoredPosition {
    #[prost(int64, tag = "1")]
    as_of: i64,
    #[prost(bool, tag = "2")]
    second_phase: bool,
    #[prost(oneof = "StoredValue", tags = "3, 4, 5, 6")]
    value: Option<StoredValue>,
    #[prost(int64, optional, tag = "7")]
    closed: Option<i64>,
    #[prost(int64, tag = "8")]
    start_time: i64,
    #[prost(uint64, tag = "9")]
    key: u64,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum StoredValue {
    #[prost(int64, tag = "3")]
    Int(i64),
    #[prost(double, tag = "4")]
    Double(f64),
    #[prost(bool, tag = "5")]
    Bool(bool),
    #[prost(string, tag = "6")]
    Text(String),
}

impl From<ListPosition> for StoredPosition {
    fn from(position: ListPosition) -> Self {
        let ListPosition { as_of, after } = position;
        let value = after.value.and_then(|value| match value {
            Value::Int(number) => Some(StoredValue::Int(number)),
            Value::Double(number) => Some(StoredValue::Double(number)),
            Value::Bool(truth) => Some(StoredValue::Bool(truth)),
            Value::Text(text) => Some(StoredValue::Text(text)),
            Value::List(items) => items.into_iter().next().map(StoredValue::Text),
        });
        Self {
            as_of,
            second_phase: after.phase == Phase::Second,
            value,
            closed: after.closed,
            start_time: after.start_time,
            key: after.key.0,
        }
    }
}

impl From<StoredPosition> for ListPosition {
    fn from(stored: StoredPosition) -> Self {
        let value = stored.value.map(|value| match value {
            StoredValue::Int(number) => Value::Int(number),
            StoredValue::Double(number) => Value::Double(number),
            StoredValue::Bool(truth) => Value::Bool(truth),
            StoredValue::Text(text) => Value::Text(text),
        });
        let phase = if stored.second_phase { Phase::Second } else { Phase::First };
        let key = RunKey(stored.key);
        let after = Cursor { phase, value, closed: stored.closed, start_time: stored.start_time, key };
        Self { as_of: stored.as_of, after }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_survive_being_stored() {
        for value in [None, Some(Value::Int(-3)), Some(Value::Text("x".into())), Some(Value::Bool(false))] {
            for (phase, closed) in [(Phase::First, None), (Phase::Second, Some(0))] {
                let after = Cursor { phase, value: value.clone(), closed, start_time: 5, key: RunKey(7) };
                let position = ListPosition { as_of: 9, after };
                assert_eq!(ListPosition::from(StoredPosition::from(position.clone())), position);
            }
        }
    }
}
