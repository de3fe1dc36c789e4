//! How a run is stored between turns. Written by [`Machine::save`], read by [`super::load`]; the two mirror each other.
//!
//! A state has a format number, a checksum and the content: no code, no names of variables. Equal runs give equal bytes.

use crate::interface::{OperationKind, Payload, Start};

use super::bytes::{Writer, checksum};
use super::combine::{Combination, Combine, ItemValue};
use super::frame::Fiber;
use super::promise::{OnCancel, Promise, PromiseKind, Role};
use super::values::Saver;
use super::{COUNTERS, Machine};

/// The format of stored states. Older ones stay readable.
pub(super) const STATE_FORMAT: u8 = 1;

/// Bytes before the content: format and checksum.
pub(super) const HEADER: usize = 9;

impl Machine<'_> {
    /// The bytes of the run. More than `bytes_max` of them are not complete.
    pub(super) fn save(&self, bytes_max: usize) -> Vec<u8> {
        let mut saver = Saver::new(bytes_max);
        saver.out.bytes.extend_from_slice(&[0; HEADER]);
        saver.out.flag(self.is_closed);
        start(&mut saver.out, &self.start, self.code.needs_attribute_types);
        saver.out.number(self.next_promise);
        saver.out.number(self.ends);
        counters(&mut saver.out, &self.counters);
        saver.out.number(self.signals_seen);
        saver.out.count(self.signals.len());
        for (name, queue) in &self.signals {
            saver.out.text(name);
            saver.out.count(queue.len());
            for signal in queue {
                saver.out.number(signal.sequence);
                saver.out.payloads(&signal.input);
            }
        }
        option(&mut saver.out, self.cancel_requested.as_deref(), Writer::text);
        option(&mut saver.out, self.details.as_deref(), Writer::text);
        option(&mut saver.out, self.random.as_ref(), |out, random| {
            random.state().into_iter().for_each(|word| out.bytes.extend_from_slice(&word.to_le_bytes()));
        });
        saver.out.count(self.log.len());
        for line in &self.log {
            saver.out.signed(line.time.wrapping_sub(self.start.started_at));
            saver.out.number(line.line);
            saver.out.text(&line.message);
            option(&mut saver.out, line.data.as_deref(), Writer::text);
        }
        saver.out.count(self.lingering.len());
        for (kind, id) in &self.lingering {
            saver.out.byte(operation(*kind));
            saver.out.text(id);
        }
        self.save_promises(&mut saver);
        let mut bytes = saver.out.bytes;
        let (header, content) = bytes.split_at_mut(HEADER);
        let sum = checksum(content).to_le_bytes();
        header.iter_mut().zip([STATE_FORMAT].into_iter().chain(sum)).for_each(|(to, from)| *to = from);
        bytes
    }

    fn save_promises(&self, saver: &mut Saver) {
        saver.out.count(self.promises.len());
        let mut last = 0;
        for (number, promise) in &self.promises {
            saver.out.number(number - last);
            last = *number;
            saver.out.text(&promise.id);
        }
        saver.fields(&self.task_defaults);
        saver.out.count(self.root.len());
        self.root.iter().for_each(|cell| saver.cell(cell));
        for promise in self.promises.values() {
            self.save_promise(saver, promise);
        }
    }

    fn save_promise(&self, saver: &mut Saver, promise: &Promise) {
        saver.out.flag(promise.heard);
        saver.out.signed(promise.since.wrapping_sub(self.start.started_at));
        if let Some(end) = &promise.end {
            // Of what it was, only this counts.
            let is_code = matches!(promise.kind, PromiseKind::Code(_));
            saver.out.byte(match (&end.outcome, is_code) {
                (Ok(_), _) => 0,
                (Err(_), false) => 1,
                (Err(_), true) => 2,
            });
            saver.out.number(end.sequence);
            let (Ok(value) | Err(value)) = &end.outcome;
            saver.value(value);
            return;
        }
        match &promise.kind {
            PromiseKind::Task { name, on_cancel, is_asked } => {
                saver.out.byte(3);
                saver.out.text(name);
                saver.out.byte(on_cancel_number(*on_cancel));
                saver.out.flag(*is_asked);
            }
            PromiseKind::Timer { due, owner } => {
                saver.out.byte(4);
                saver.out.signed(due.wrapping_sub(self.start.started_at));
                option(&mut saver.out, *owner, Writer::number);
            }
            PromiseKind::Child { name, on_cancel, start_only, is_asked } => {
                saver.out.byte(5);
                saver.out.text(name);
                saver.out.byte(on_cancel_number(*on_cancel));
                saver.out.flag(*start_only);
                saver.out.flag(*is_asked);
            }
            PromiseKind::Send { name } => {
                saver.out.byte(6);
                saver.out.text(name);
            }
            PromiseKind::Signal { name, timer, timeout } => {
                saver.out.byte(7);
                saver.out.text(name);
                option(&mut saver.out, *timer, Writer::number);
                saver.out.signed(*timeout);
            }
            PromiseKind::Condition { closure, timer } => {
                saver.out.byte(8);
                saver.closure(closure);
                option(&mut saver.out, *timer, Writer::number);
            }
            PromiseKind::Code(coroutine) => {
                saver.out.byte(9);
                match &coroutine.role {
                    Role::Main => saver.out.byte(0),
                    Role::Call => saver.out.byte(1),
                    Role::Signal => saver.out.byte(2),
                    Role::Update(id) => {
                        saver.out.byte(3);
                        saver.out.text(id);
                    }
                }
                saver.out.flag(coroutine.is_canceled);
                saver.out.flag(coroutine.is_interrupted);
                option(&mut saver.out, coroutine.interruption.as_ref(), |out, interruption| {
                    out.text(&interruption.reason);
                    out.flag(interruption.is_request);
                });
                if let Some(fiber) = &coroutine.fiber {
                    self.save_fiber(saver, fiber);
                }
            }
            PromiseKind::Combination(combination) => {
                saver.out.byte(10);
                save_combination(saver, combination);
            }
            PromiseKind::Host => saver.out.byte(11),
            PromiseKind::Nexus { name, on_cancel, is_asked } => {
                saver.out.byte(12);
                saver.out.text(name);
                saver.out.byte(on_cancel_number(*on_cancel));
                saver.out.flag(*is_asked);
            }
        }
        saver.out.count(promise.waiters.len());
        promise.waiters.iter().for_each(|waiter| saver.out.number(*waiter));
    }

    fn save_fiber(&self, saver: &mut Saver, fiber: &Fiber) {
        let start = self.code.function(fiber.function).map_or(0, |info| info.start);
        saver.out.number(fiber.function);
        saver.out.number(fiber.pc.wrapping_sub(start));
        saver.captures(&fiber.captures);
        saver.out.count(fiber.values.len());
        fiber.values.iter().for_each(|slot| saver.slot(slot));
    }
}

fn save_combination(saver: &mut Saver, combination: &Combination) {
    saver.out.byte(match combination.kind {
        Combine::All => 0,
        Combine::Any => 1,
        Combine::Race => 2,
        Combine::Settle => 3,
        Combine::Map => 4,
        Combine::Timeout => 5,
    });
    saver.out.flag(combination.cancel);
    saver.out.flag(combination.is_keyed);
    saver.out.count(combination.items.len());
    for item in &combination.items {
        if combination.is_keyed {
            saver.out.text(item.key.as_deref().unwrap_or_default());
        }
        match &item.value {
            ItemValue::Promise(promise) => {
                saver.out.byte(0);
                saver.out.number(promise.number);
            }
            ItemValue::Value(value) => {
                saver.out.byte(1);
                saver.value(value);
            }
        }
    }
    option(&mut saver.out, combination.timer, Writer::number);
    saver.out.signed(combination.timeout);
    match &combination.map {
        None => saver.out.flag(false),
        Some(map) => {
            saver.out.flag(true);
            saver.closure(&map.closure);
            saver.value(&map.list);
            saver.out.number(map.next);
            saver.out.number(map.concurrency);
        }
    }
}

pub(super) fn on_cancel_number(on_cancel: OnCancel) -> u8 {
    match on_cancel {
        OnCancel::Try => 0,
        OnCancel::Wait => 1,
        OnCancel::Ignore => 2,
    }
}

pub(super) fn operation(kind: OperationKind) -> u8 {
    match kind {
        OperationKind::Task => 0,
        OperationKind::Timer => 1,
        OperationKind::Child => 2,
        OperationKind::Send => 3,
        OperationKind::Nexus => 4,
    }
}

pub(super) fn option<T>(out: &mut Writer, value: Option<T>, write: impl FnOnce(&mut Writer, T)) {
    match value {
        None => out.flag(false),
        Some(value) => {
            out.flag(true);
            write(out, value);
        }
    }
}

/// A bit for each counter that is not 0, then those.
fn counters(out: &mut Writer, counters: &[u32; COUNTERS]) {
    let bits = counters.iter().rev().fold(0_u64, |bits, counter| bits << 1 | u64::from(*counter > 0));
    out.number(bits);
    counters.iter().filter(|counter| **counter > 0).for_each(|counter| out.number(*counter));
}

/// What the run knows from its start.
fn start(out: &mut Writer, start: &Start, with_types: bool) {
    id(out, &start.workflow_id);
    id(out, &start.run_id);
    out.text(&start.name);
    version(out, &start.version);
    out.text(&start.namespace);
    out.text(&start.task_queue);
    out.number(start.attempt);
    out.signed(start.started_at);
    option(out, start.parent.as_ref(), |out, (workflow_id, run_id)| {
        id(out, workflow_id);
        id(out, run_id);
    });
    id(out, &start.continued_from);
    out.text(&start.cron);
    fields(out, &start.memo);
    fields(out, &start.search_attributes);
    let types: &[(String, String)] = if with_types { &start.attribute_types } else { &[] };
    out.count(types.len());
    for (name, kind) in types {
        out.text(name);
        out.text(kind);
    }
}

fn fields(out: &mut Writer, fields: &[(String, Payload)]) {
    out.count(fields.len());
    for (name, payload) in fields {
        out.text(name);
        out.payload(payload);
    }
}

/// An id: a UUID has 16 bytes, anything else is text.
fn id(out: &mut Writer, id: &str) {
    match uuid(id) {
        Some(uuid) => {
            out.byte(1);
            out.bytes.extend_from_slice(&uuid);
        }
        None => {
            out.byte(0);
            out.text(id);
        }
    }
}

/// A version: 64 hexadecimal digits have 32 bytes, anything else is text.
fn version(out: &mut Writer, version: &str) {
    match hexadecimal(version).and_then(|bytes| <[u8; 32]>::try_from(bytes).ok()) {
        Some(bytes) => {
            out.byte(1);
            out.bytes.extend_from_slice(&bytes);
        }
        None => {
            out.byte(0);
            out.text(version);
        }
    }
}

/// The bytes of lower case hexadecimal digits.
fn hexadecimal(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let pairs = text.as_bytes().chunks_exact(2);
    if !pairs.remainder().is_empty() {
        return None;
    }
    pairs
        .map(|pair| match pair {
            [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
            _ => None,
        })
        .collect()
}

fn uuid(text: &str) -> Option<[u8; 16]> {
    let has_dashes = text.len() == 36 && [8, 13, 18, 23].iter().all(|place| text.as_bytes().get(*place) == Some(&b'-'));
    if !has_dashes {
        return None;
    }
    let digits: String = text.chars().filter(|character| *character != '-').collect();
    hexadecimal(&digits)?.try_into().ok()
}

/// The text of a UUID.
pub(super) fn uuid_text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(36);
    for (place, byte) in bytes.iter().enumerate() {
        if matches!(place, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        push_digits(&mut text, *byte);
    }
    text
}

/// The text of a version.
pub(super) fn version_text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    bytes.iter().for_each(|byte| push_digits(&mut text, *byte));
    text
}

fn push_digits(text: &mut String, byte: u8) {
    for digit in [byte >> 4, byte & 15] {
        text.push(char::from(if digit < 10 { b'0' + digit } else { b'a' + digit - 10 }));
    }
}
