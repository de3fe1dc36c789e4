//! Reads stored states. Everything is checked against the code: a state that this code cannot have written is refused.

use std::collections::VecDeque;
use std::rc::Rc;

use crate::compile::Code;
use crate::compile::code::Op;
use crate::interface::{Limits, LogLine, OperationKind, Pace, Payload, Start};
use crate::pure::random::Random;
use crate::value::{PromiseRef, Value};

use super::bytes::{Damage, Reader, checksum};
use super::cancel::Interruption;
use super::combine::{Combination, Combine, Item, ItemValue, Mapping};
use super::frame::{Captures, Closure, Fiber, Slot};
use super::promise::{Coroutine, OnCancel, Promise, PromiseEnd, PromiseKind, Role};
use super::save::{HEADER, STATE_FORMAT, uuid_text, version_text};
use super::values::Loader;
use super::{COUNTERS, Machine, PendingSignal};

/// Memory of a promise, a queue of signals or a piece of code, besides its values.
const PROMISE_MEMORY: usize = 512;

impl<'a> Machine<'a> {
    /// The run with this stored state.
    pub(super) fn load(
        code: &'a Code,
        bytes: &[u8],
        limits: &'a Limits,
        pace: &'a mut dyn Pace,
    ) -> Result<Self, String> {
        let mut machine = Self::new(code, limits, pace);
        machine.read_state(bytes).map_err(str::to_owned)?;
        Ok(machine)
    }

    fn read_state(&mut self, bytes: &[u8]) -> Result<(), Damage> {
        let (header, content) = bytes.split_at_checked(HEADER).ok_or("it is too short")?;
        let (format, sum) = header.split_first().ok_or("it is too short")?;
        if *format != STATE_FORMAT {
            return Err("its format is unknown");
        }
        if checksum(content).to_le_bytes() != *sum {
            return Err("its checksum is wrong");
        }
        let mut loader = Loader::new(content);
        let input = &mut loader.input;
        self.is_started = true;
        self.is_closed = input.flag()?;
        self.start = start(input)?;
        self.now = self.start.started_at;
        self.next_promise = input.small()?;
        self.ends = input.number()?;
        self.counters = counters(input)?;
        self.signals_seen = input.number()?;
        for _ in 0..input.count()? {
            input.allocate(PROMISE_MEMORY)?;
            let name = input.shared()?;
            let mut queue = VecDeque::new();
            for _ in 0..input.count()? {
                let sequence = input.number()?;
                if sequence >= self.signals_seen {
                    return Err("a signal has a wrong number");
                }
                queue.push_back(PendingSignal { sequence, input: input.payloads()? });
            }
            if queue.is_empty() || self.signals.insert(name, queue).is_some() {
                return Err("a queue of signals is empty or there twice");
            }
        }
        self.cancel_requested = option(input, Reader::shared)?;
        self.details = option(input, Reader::shared)?;
        self.random = option(input, |input| {
            let mut state = [0; 4];
            for word in &mut state {
                let bytes = input.exact(8)?.try_into().map_err(|_| "it ends early")?;
                *word = u64::from_le_bytes(bytes);
            }
            Ok(Random::from_state(state))
        })?;
        for _ in 0..input.count()? {
            let time = self.start.started_at.wrapping_add(input.signed()?);
            let (line, message) = (input.small()?, input.string()?);
            self.log.push_back(LogLine { time, line, message, data: option(input, Reader::string)? });
        }
        for _ in 0..input.count()? {
            let kind = match input.byte()? {
                0 => OperationKind::Task,
                1 => OperationKind::Timer,
                2 => OperationKind::Child,
                3 => OperationKind::Send,
                4 => OperationKind::Nexus,
                _ => return Err("there is no such operation"),
            };
            self.lingering.insert((kind, input.shared()?));
        }
        self.read_promises(&mut loader)?;
        loader.input.end()
    }

    fn read_promises(&mut self, loader: &mut Loader<'_>) -> Result<(), Damage> {
        let count = loader.input.count()?;
        let mut numbers = Vec::new();
        let mut last = 0_u32;
        for place in 0..count {
            let step = loader.input.small()?;
            if step == 0 && place > 0 {
                return Err("a promise is there twice");
            }
            last = last
                .checked_add(step)
                .filter(|number| *number < self.next_promise)
                .ok_or("a promise has a wrong number")?;
            loader.input.allocate(PROMISE_MEMORY)?;
            let id = loader.input.shared()?;
            numbers.push(last);
            loader.promises.insert(last, Rc::new(PromiseRef::watched(last, id, Rc::clone(&self.released))));
        }
        self.task_defaults = Rc::new(loader.fields()?);
        let roots = loader.input.count()?;
        if roots != self.code.root.len() && !(roots == 0 && self.is_closed) {
            return Err("variables of handlers are missing");
        }
        for _ in 0..roots {
            self.root.push(loader.cell()?);
        }
        for number in &numbers {
            let promise = self.read_promise(loader, *number)?;
            if promise.end.is_none() {
                self.index_promise(*number, &promise);
            }
            self.promises.insert(*number, promise);
        }
        self.connect(loader, &numbers)?;
        // What only the table referred to was unreachable before.
        loader.promises.clear();
        if let Ok(mut released) = self.released.try_borrow_mut() {
            released.clear();
        }
        Ok(())
    }

    /// Finds who waits for what, and checks it.
    fn connect(&mut self, loader: &Loader<'_>, numbers: &[u32]) -> Result<(), Damage> {
        for number in numbers {
            let Some(promise) = self.promises.get(number) else { continue };
            if promise.end.is_some() {
                continue;
            }
            for waiter in promise.waiters.clone() {
                let waiting = self.promises.get_mut(&waiter).filter(|waiter| waiter.end.is_none());
                let coroutine = waiting.and_then(Promise::coroutine_mut).ok_or("who waits is no code")?;
                let reference = loader.promises.get(number).cloned();
                if coroutine.waiting.is_some() || reference.is_none() {
                    return Err("code waits twice");
                }
                coroutine.waiting = reference;
            }
        }
        for number in numbers {
            let Some(promise) = self.promises.get(number) else { continue };
            let (mut timers, mut items) = (Vec::new(), Vec::new());
            match &promise.kind {
                _ if promise.end.is_some() => {}
                PromiseKind::Code(coroutine) if coroutine.waiting.is_none() => return Err("code waits for nothing"),
                PromiseKind::Timer { owner: Some(owner), .. } => {
                    let is_owned = self.promises.get(owner).is_some_and(|promise| match &promise.kind {
                        PromiseKind::Signal { timer, .. } | PromiseKind::Condition { timer, .. } => {
                            *timer == Some(*number)
                        }
                        PromiseKind::Combination(combination) => combination.timer == Some(*number),
                        _ => false,
                    });
                    if !is_owned {
                        return Err("a timer belongs to nothing");
                    }
                }
                PromiseKind::Signal { timer, .. } | PromiseKind::Condition { timer, .. } => timers.extend(timer),
                PromiseKind::Combination(combination) => {
                    timers.extend(&combination.timer);
                    items.extend(combination.items.iter().filter_map(|item| match &item.value {
                        ItemValue::Promise(promise) => Some(promise.number),
                        ItemValue::Value(_) => None,
                    }));
                }
                _ => {}
            }
            for timer in timers {
                let kind = self.promises.get(&timer).filter(|timer| timer.end.is_none()).map(|timer| &timer.kind);
                if !matches!(kind, Some(PromiseKind::Timer { owner, .. }) if *owner == Some(*number)) {
                    return Err("a time-out is no timer");
                }
            }
            let mut missing = 0;
            for item in items {
                let Some(item) = self.promises.get_mut(&item) else { return Err("there is no such promise") };
                if item.end.is_none() {
                    item.parents.push(*number);
                    missing += 1;
                }
            }
            if let Some(Promise { kind: PromiseKind::Combination(combination), .. }) = self.promises.get_mut(number) {
                combination.missing = missing;
            }
        }
        Ok(())
    }

    fn read_promise(&self, loader: &mut Loader<'_>, number: u32) -> Result<Promise, Damage> {
        let reference = loader.promises.get(&number).ok_or("there is no such promise")?;
        let (id, reference) = (reference.id.clone(), Rc::downgrade(reference));
        let heard = loader.input.flag()?;
        let since = self.start.started_at.wrapping_add(loader.input.signed()?);
        let mut promise = Promise {
            id,
            reference,
            heard,
            since,
            kind: PromiseKind::Host,
            end: None,
            waiters: Vec::new(),
            parents: Vec::new(),
        };
        let tag = loader.input.byte()?;
        if tag <= 2 {
            let sequence = loader.input.number()?;
            if sequence > self.ends {
                return Err("an end has a wrong number");
            }
            let value = loader.value()?;
            if tag == 2 {
                promise.kind = PromiseKind::Code(Box::new(ended_code()));
            }
            promise.end = Some(PromiseEnd { sequence, outcome: if tag == 0 { Ok(value) } else { Err(value) } });
            return Ok(promise);
        }
        promise.kind = self.read_kind(loader, number, tag)?;
        for _ in 0..loader.input.count()? {
            promise.waiters.push(loader.input.small()?);
        }
        Ok(promise)
    }

    fn read_kind(&self, loader: &mut Loader<'_>, number: u32, tag: u8) -> Result<PromiseKind, Damage> {
        let input = &mut loader.input;
        Ok(match tag {
            3 => PromiseKind::Task { name: input.shared()?, on_cancel: on_cancel(input)?, is_asked: input.flag()? },
            4 => PromiseKind::Timer {
                due: self.start.started_at.wrapping_add(input.signed()?),
                owner: option(input, Reader::small)?,
            },
            5 => PromiseKind::Child {
                name: input.shared()?,
                on_cancel: on_cancel(input)?,
                start_only: input.flag()?,
                is_asked: input.flag()?,
            },
            6 => PromiseKind::Send { name: input.shared()? },
            7 => PromiseKind::Signal {
                name: input.shared()?,
                timer: option(input, Reader::small)?,
                timeout: input.signed()?,
            },
            8 => {
                let closure = self.read_closure(loader)?;
                PromiseKind::Condition { closure, timer: option(&mut loader.input, Reader::small)? }
            }
            9 => {
                let role = match input.byte()? {
                    0 => Role::Main,
                    1 => Role::Call,
                    2 => Role::Signal,
                    3 => Role::Update(input.shared()?),
                    _ => return Err("there is no such role"),
                };
                let (is_canceled, is_interrupted) = (input.flag()?, input.flag()?);
                let interruption =
                    option(input, |input| Ok(Interruption { reason: input.shared()?, is_request: input.flag()? }))?;
                let fiber = Some(self.read_fiber(loader, number)?);
                PromiseKind::Code(Box::new(Coroutine {
                    role,
                    fiber,
                    waiting: None,
                    interruption,
                    is_canceled,
                    is_interrupted,
                }))
            }
            10 => PromiseKind::Combination(Box::new(self.read_combination(loader)?)),
            11 => PromiseKind::Host,
            12 => PromiseKind::Nexus { name: input.shared()?, on_cancel: on_cancel(input)?, is_asked: input.flag()? },
            _ => return Err("there is no such kind of promise"),
        })
    }

    fn read_closure(&self, loader: &mut Loader<'_>) -> Result<Closure, Damage> {
        let function = loader.input.small()?;
        let captures = loader.captures()?;
        self.check_captures(function, &captures)?;
        Ok(Closure { function, captures })
    }

    fn check_captures(&self, function: u32, captures: &Captures) -> Result<(), Damage> {
        let info = self.code.function(function).ok_or("there is no such function")?;
        let count = captures.as_deref().unwrap_or_default().len();
        if count == info.captures as usize { Ok(()) } else { Err("a function captures something else") }
    }

    /// Code that waits: exactly one frame, after an instruction that awaits, with as many values as are there then.
    fn read_fiber(&self, loader: &mut Loader<'_>, number: u32) -> Result<Fiber, Damage> {
        let function = loader.input.small()?;
        let offset = loader.input.small()?;
        let captures = loader.captures()?;
        self.check_captures(function, &captures)?;
        let info = self.code.function(function).ok_or("there is no such function")?;
        let pc = info.start.checked_add(offset).filter(|pc| (info.start + 1..info.end).contains(pc));
        let pc = pc.ok_or("there is no such address")?;
        let height = match self.code.ops.get(pc as usize - 1) {
            Some(Op::Await { height } | Op::AwaitReturn { height }) => *height,
            _ => return Err("code waits where it cannot"),
        };
        let count = loader.input.count()?;
        if count != info.slots as usize + height as usize {
            return Err("a frame has a wrong height");
        }
        let mut values = Vec::with_capacity(count + 4);
        for place in 0..count {
            let slot = loader.slot()?;
            if place >= info.slots as usize && matches!(slot, Slot::Cell(_)) {
                return Err("a cell is on the operand stack");
            }
            values.push(slot);
        }
        Ok(Fiber { number, function, pc, base: 0, captures, callers: Vec::new(), values })
    }

    fn read_combination(&self, loader: &mut Loader<'_>) -> Result<Combination, Damage> {
        let kind = match loader.input.byte()? {
            0 => Combine::All,
            1 => Combine::Any,
            2 => Combine::Race,
            3 => Combine::Settle,
            4 => Combine::Map,
            5 => Combine::Timeout,
            _ => return Err("there is no such combination"),
        };
        let (cancel, is_keyed) = (loader.input.flag()?, loader.input.flag()?);
        let mut items = Vec::new();
        for _ in 0..loader.input.count()? {
            loader.input.allocate(size_of::<Item>() * 2)?;
            let key = if is_keyed { Some(loader.input.shared()?) } else { None };
            let value = match loader.input.byte()? {
                0 => ItemValue::Promise(loader.promise()?),
                1 => ItemValue::Value(loader.value()?),
                _ => return Err("there is no such item"),
            };
            items.push(Item { key, value });
        }
        let timer = option(&mut loader.input, Reader::small)?;
        let timeout = loader.input.signed()?;
        let map = if loader.input.flag()? {
            let closure = self.read_closure(loader)?;
            let list = loader.value()?;
            let (next, concurrency) = (loader.input.small()?, loader.input.small()?);
            let is_right = matches!(&list, Value::List(list) if next as usize <= list.items().len()) && concurrency > 0;
            if !is_right || items.len() != next as usize {
                return Err("a map does not fit its list");
            }
            Some(Mapping { closure, list, next, concurrency, is_ready: false })
        } else {
            None
        };
        if (kind == Combine::Map) != map.is_some() {
            return Err("a combination has no such parts");
        }
        Ok(Combination { kind, items, missing: 0, cancel, is_keyed, timer, timeout, map })
    }
}

fn ended_code() -> Coroutine {
    Coroutine {
        role: Role::Call,
        fiber: None,
        waiting: None,
        interruption: None,
        is_canceled: false,
        is_interrupted: false,
    }
}

fn on_cancel(input: &mut Reader<'_>) -> Result<OnCancel, Damage> {
    match input.byte()? {
        0 => Ok(OnCancel::Try),
        1 => Ok(OnCancel::Wait),
        2 => Ok(OnCancel::Ignore),
        _ => Err("there is no such answer to cancellation"),
    }
}

fn option<'b, T>(
    input: &mut Reader<'b>,
    read: impl FnOnce(&mut Reader<'b>) -> Result<T, Damage>,
) -> Result<Option<T>, Damage> {
    if input.flag()? { read(input).map(Some) } else { Ok(None) }
}

fn counters(input: &mut Reader<'_>) -> Result<[u32; COUNTERS], Damage> {
    let bits = input.number()?;
    if bits >> COUNTERS != 0 {
        return Err("there are too many counters");
    }
    let mut counters = [0; COUNTERS];
    for (place, counter) in counters.iter_mut().enumerate() {
        if bits >> place & 1 == 1 {
            *counter = input.small()?;
        }
    }
    Ok(counters)
}

fn start(input: &mut Reader<'_>) -> Result<Start, Damage> {
    let mut start = Start {
        workflow_id: id(input)?,
        run_id: id(input)?,
        name: input.string()?,
        version: match input.byte()? {
            0 => input.string()?,
            1 => version_text(input.exact(32)?),
            _ => return Err("there is no such version"),
        },
        namespace: input.string()?,
        task_queue: input.string()?,
        attempt: input.small()?,
        started_at: input.signed()?,
        parent: option(input, |input| Ok((id(input)?, id(input)?)))?,
        continued_from: id(input)?,
        cron: input.string()?,
        memo: fields(input)?,
        search_attributes: fields(input)?,
        input: Vec::new(),
        attribute_types: Vec::new(),
    };
    for _ in 0..input.count()? {
        start.attribute_types.push((input.string()?, input.string()?));
    }
    Ok(start)
}

fn fields(input: &mut Reader<'_>) -> Result<Vec<(String, Payload)>, Damage> {
    let count = input.count()?;
    (0..count).map(|_| Ok((input.string()?, input.payload()?))).collect()
}

fn id(input: &mut Reader<'_>) -> Result<String, Damage> {
    match input.byte()? {
        0 => input.string(),
        1 => Ok(uuid_text(input.exact(16)?)),
        _ => Err("there is no such id"),
    }
}
