//! The encoding of pending facts.
//!
//! Integers are LEB128 varints, those with a sign in zigzag form. A text is its length and its bytes. A bit set at the
//! beginning says which optional fields follow. The run's key and the length of the facts stand before them, so that facts
//! can be skipped without decoding them.

use std::collections::BTreeMap;

use segno_store::visibility::{Closed, Retry, Value, VisibilityRow};
use segno_store::{NamespaceKey, RunKey};

/// Bytes that are no facts.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct DamagedFacts;

/// Facts of a run, not yet read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct EncodedFacts<'a> {
    pub(super) run: RunKey,
    /// The tables have no facts of it.
    pub(super) is_new: bool,
    body: &'a [u8],
}

const PARENT: u64 = 1;
const ROOT: u64 = 1 << 1;
const CLOSED: u64 = 1 << 2;
const ACTIVITY_RETRY: u64 = 1 << 3;
const ACTIVITY_FAILURE: u64 = 1 << 4;
const TASK_RETRY: u64 = 1 << 5;
const TASK_FAILURE: u64 = 1 << 6;

/// Appends the facts of a run.
pub(super) fn append(out: &mut Vec<u8>, run: RunKey, row: &VisibilityRow, is_new: bool) {
    let mut body = Vec::with_capacity(256);
    put_body(&mut body, row);
    put(out, run.0 << 1 | u64::from(is_new));
    put(out, body.len() as u64);
    out.extend_from_slice(&body);
}

fn put_body(out: &mut Vec<u8>, row: &VisibilityRow) {
    let failure = |retry: &Option<Retry>| retry.as_ref().is_some_and(|retry| retry.failure.is_some());
    let present = [
        (PARENT, row.parent.is_some()),
        (ROOT, row.root.is_some()),
        (CLOSED, row.closed.is_some()),
        (ACTIVITY_RETRY, row.activity_retry.is_some()),
        (ACTIVITY_FAILURE, failure(&row.activity_retry)),
        (TASK_RETRY, row.task_retry.is_some()),
        (TASK_FAILURE, failure(&row.task_retry)),
    ];
    put(out, present.into_iter().filter(|(_, is_present)| *is_present).map(|(bit, _)| bit).sum());
    put(out, row.namespace.0.into());
    put_signed(out, row.status.into());
    put_signed(out, row.start_time);
    put_signed(out, row.execution_time.wrapping_sub(row.start_time));
    for text in [&row.workflow_type, &row.workflow_id, &row.run_id, &row.task_queue] {
        put_text(out, text);
    }
    for (workflow_id, run_id) in [&row.parent, &row.root].into_iter().flatten() {
        put_text(out, workflow_id);
        put_text(out, run_id);
    }
    if let Some(closed) = &row.closed {
        for number in [closed.time, closed.history_length, closed.history_bytes, closed.transitions] {
            put_signed(out, number);
        }
    }
    for retry in [&row.activity_retry, &row.task_retry].into_iter().flatten() {
        put_signed(out, retry.attempt.into());
        retry.failure.iter().for_each(|failure| put_text(out, failure));
    }
    put(out, row.attributes.len() as u64);
    for (number, value) in &row.attributes {
        put(out, (*number).into());
        put_value(out, value);
    }
}

fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    out.push(number.to_le_bytes()[0]);
}

fn put_signed(out: &mut Vec<u8>, number: i64) {
    put(out, ((number << 1) ^ (number >> 63)).cast_unsigned());
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    put(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

fn put_value(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Text(text) => {
            out.push(0);
            put_text(out, text);
        }
        Value::List(items) => {
            out.push(1);
            put(out, items.len() as u64);
            items.iter().for_each(|item| put_text(out, item));
        }
        Value::Int(number) => {
            out.push(2);
            put_signed(out, *number);
        }
        Value::Double(number) => {
            out.push(3);
            out.extend_from_slice(&number.to_le_bytes());
        }
        Value::Bool(truth) => out.extend_from_slice(&[4, u8::from(*truth)]),
    }
}

/// The first facts in `bytes`, which are left with the rest; `None` if there are no more.
pub(super) fn next<'a>(bytes: &mut &'a [u8]) -> Result<Option<EncodedFacts<'a>>, DamagedFacts> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let mut reader = Reader(bytes);
    let head = reader.number()?;
    let body = reader.bytes()?;
    *bytes = reader.0;
    Ok(Some(EncodedFacts { run: RunKey(head >> 1), is_new: head & 1 == 1, body }))
}

impl EncodedFacts<'_> {
    /// The facts themselves.
    pub(super) fn read(&self) -> Result<VisibilityRow, DamagedFacts> {
        let mut reader = Reader(self.body);
        let present = reader.number()?;
        let has = |bit: u64| present & bit != 0;
        let namespace = NamespaceKey(reader.number()?.try_into().map_err(|_| DamagedFacts)?);
        let status = reader.small()?;
        let start_time = reader.signed()?;
        // Fields are read in the order they are named.
        let row = VisibilityRow {
            key: self.run,
            namespace,
            status,
            start_time,
            execution_time: reader.signed()?.wrapping_add(start_time),
            workflow_type: reader.text()?,
            workflow_id: reader.text()?,
            run_id: reader.text()?,
            task_queue: reader.text()?,
            parent: reader.pair(has(PARENT))?,
            root: reader.pair(has(ROOT))?,
            closed: reader.closed(has(CLOSED))?,
            activity_retry: reader.retry(has(ACTIVITY_RETRY), has(ACTIVITY_FAILURE))?,
            task_retry: reader.retry(has(TASK_RETRY), has(TASK_FAILURE))?,
            attributes: reader.attributes()?,
        };
        if reader.0.is_empty() { Ok(row) } else { Err(DamagedFacts) }
    }
}

/// Reads the rest of an encoded row.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], DamagedFacts> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(DamagedFacts)?;
        self.0 = rest;
        Ok(taken)
    }

    fn number(&mut self) -> Result<u64, DamagedFacts> {
        let mut number = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.take(1)?[0];
            number |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(DamagedFacts)
    }

    fn signed(&mut self) -> Result<i64, DamagedFacts> {
        let folded = self.number()?;
        Ok((folded >> 1).cast_signed() ^ -(folded & 1).cast_signed())
    }

    fn small(&mut self) -> Result<i32, DamagedFacts> {
        self.signed()?.try_into().map_err(|_| DamagedFacts)
    }

    fn bytes(&mut self) -> Result<&'a [u8], DamagedFacts> {
        let length = self.number()?;
        self.take(length.try_into().map_err(|_| DamagedFacts)?)
    }

    fn text(&mut self) -> Result<String, DamagedFacts> {
        str::from_utf8(self.bytes()?).map(str::to_owned).map_err(|_| DamagedFacts)
    }

    fn pair(&mut self, is_present: bool) -> Result<Option<(String, String)>, DamagedFacts> {
        is_present.then(|| Ok((self.text()?, self.text()?))).transpose()
    }

    fn closed(&mut self, is_present: bool) -> Result<Option<Closed>, DamagedFacts> {
        let mut closed = || {
            Ok(Closed {
                time: self.signed()?,
                history_length: self.signed()?,
                history_bytes: self.signed()?,
                transitions: self.signed()?,
            })
        };
        is_present.then(&mut closed).transpose()
    }

    fn retry(&mut self, is_present: bool, has_failure: bool) -> Result<Option<Retry>, DamagedFacts> {
        let mut retry = || Ok(Retry { attempt: self.small()?, failure: has_failure.then(|| self.text()).transpose()? });
        is_present.then(&mut retry).transpose()
    }

    fn attributes(&mut self) -> Result<BTreeMap<u32, Value>, DamagedFacts> {
        let length = self.number()?;
        (0..length).map(|_| Ok((self.number()?.try_into().map_err(|_| DamagedFacts)?, self.value()?))).collect()
    }

    fn value(&mut self) -> Result<Value, DamagedFacts> {
        Ok(match self.take(1)?[0] {
            0 => Value::Text(self.text()?),
            1 => {
                let length = self.number()?;
                Value::List((0..length).map(|_| self.text()).collect::<Result<_, _>>()?)
            }
            2 => Value::Int(self.signed()?),
            3 => Value::Double(f64::from_le_bytes(self.take(8)?.try_into().map_err(|_| DamagedFacts)?)),
            4 => Value::Bool(self.take(1)?[0] != 0),
            _ => return Err(DamagedFacts),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use segno_store::kit::row;

    fn rows() -> Vec<VisibilityRow> {
        let pair = |name: &str| Some((format!("{name}-id"), format!("{name}-run")));
        let full = VisibilityRow {
            closed: Some(Closed { time: i64::MAX - 1, history_length: 300, history_bytes: -1, transitions: 0 }),
            status: -7,
            start_time: i64::MIN,
            execution_time: i64::MAX,
            parent: pair("parent"),
            root: pair("root"),
            activity_retry: Some(Retry { attempt: i32::MAX, failure: None }),
            task_retry: Some(Retry { attempt: 2, failure: Some("früh".to_owned()) }),
            attributes: BTreeMap::from([
                (1, Value::Text(String::new())),
                (2, Value::List(vec!["a".repeat(200), String::new()])),
                (3, Value::Int(i64::MIN)),
                (4, Value::Double(-0.1)),
                (u32::MAX, Value::Bool(true)),
            ]),
            ..row((1 << 43) - 1)
        };
        vec![row(1), full, row(300)]
    }

    fn all(mut bytes: &[u8]) -> Result<Vec<(VisibilityRow, bool)>, DamagedFacts> {
        let mut found = Vec::new();
        while let Some(facts) = next(&mut bytes)? {
            found.push((facts.read()?, facts.is_new));
        }
        Ok(found)
    }

    #[test]
    fn what_is_written_is_read() {
        let mut bytes = Vec::new();
        let mut expected = Vec::new();
        for (place, row) in rows().into_iter().enumerate() {
            append(&mut bytes, row.key, &row, place == 1);
            expected.push((row, place == 1));
        }
        assert_eq!(all(&bytes), Ok(expected));
    }

    /// For all bytes reading ends, and without a panic.
    #[test]
    fn what_is_cut_or_changed_is_refused_or_read() {
        let mut bytes = Vec::new();
        append(&mut bytes, RunKey(7), &rows()[1], true);
        for place in 0..bytes.len() {
            assert!(place == 0 || all(&bytes[..place]).is_err(), "cut at {place}");
            for bit in 0..8 {
                let mut changed = bytes.clone();
                changed[place] ^= 1 << bit;
                drop(all(&changed));
            }
        }
    }
}
