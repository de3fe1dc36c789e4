//! Values, cells and promises in stored states.
//!
//! A cell is written where it is met first, with its value; after that by number. Promises are written by the number they
//! have in the run.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::Arc;

use crate::interface::{Failure, FailureInfo, TimeoutKind};
use crate::value::{
    DEPTH_MAX, FIELD_BYTES, ITEM_BYTES, LIST_BYTES, OBJECT_BYTES, Object, PromiseRef, TEXT_BYTES, Value,
};

use super::bytes::{Damage, Reader, Writer};
use super::frame::{Captures, Cell, Closure, Slot};

// What a value begins with. From SMALL on: a small integer.
const NULL: u8 = 0;
const FALSE: u8 = 1;
const TRUE: u8 = 2;
const INT: u8 = 3;
const FLOAT: u8 = 4;
const STR: u8 = 5;
const LIST: u8 = 6;
const OBJECT: u8 = 7;
/// An object that was made of a failure.
const ERROR: u8 = 8;
const PROMISE: u8 = 9;
const PAYLOAD: u8 = 10;
/// In a slot: a cell.
const CELL: u8 = 11;
const SMALL: u8 = 32;

/// How deep causes of failures may be nested in a stored state.
const CAUSES_MAX: u32 = 200;

/// Values from errors may be nested a little deeper than scripts can nest them.
const NESTED_MAX: u32 = DEPTH_MAX + 100;

/// Bytes of memory that a stored state may take. A turn keeps its values within a little less.
const STATE_MEMORY_MAX: usize = 224 << 20;

/// Memory of a variable that functions share.
const CELL_BYTES: usize = 80;

/// Writes values, until there are more bytes than a state may have.
pub(super) struct Saver {
    pub out: Writer,
    bytes_max: usize,
    cells: HashMap<*const RefCell<Value>, u32>,
    keys: Vec<Arc<str>>,
    /// Numbers of keys by their [`key_place`].
    recent: RecentKeys,
}

/// Numbers of keys, plus 1.
struct RecentKeys([u32; KEY_PLACES]);

/// Keys are looked for in one of this many places.
const KEY_PLACES: usize = 64;

/// Where a key that was written is noted; a later one of the same place takes it over.
fn key_place(key: &str) -> usize {
    let bytes = key.as_bytes();
    let byte = |place: Option<&u8>| usize::from(place.copied().unwrap_or(0));
    (bytes.len() * 7 + byte(bytes.first()) * 31 + byte(bytes.last()) * 11 + byte(bytes.get(bytes.len() / 2)))
        % KEY_PLACES
}

impl Saver {
    /// Writes at most about this many bytes: values share parts, and a state does not.
    pub fn new(bytes_max: usize) -> Self {
        Self {
            out: Writer::default(),
            bytes_max,
            cells: HashMap::new(),
            keys: Vec::new(),
            recent: RecentKeys([0; KEY_PLACES]),
        }
    }

    /// Whether there are too many bytes already, so that what follows does not matter.
    pub fn is_full(&self) -> bool {
        self.out.bytes.len() > self.bytes_max
    }

    /// The key of a field: the number of one that was written before, or 0 and the text.
    fn key(&mut self, key: &Arc<str>) {
        let place = &mut self.recent.0[key_place(key)];
        if place.checked_sub(1).and_then(|known| self.keys.get(known as usize)).is_some_and(|known| known == key) {
            self.out.number(*place);
            return;
        }
        self.out.byte(0);
        self.out.text(key);
        self.keys.push(key.clone());
        *place = u32::try_from(self.keys.len()).unwrap_or(0);
    }

    pub fn value(&mut self, value: &Value) {
        if self.is_full() {
            return;
        }
        match value {
            Value::Null => self.out.byte(NULL),
            Value::Bool(false) => self.out.byte(FALSE),
            Value::Bool(true) => self.out.byte(TRUE),
            Value::Int(number) => match u8::try_from(*number) {
                Ok(small) if small < u8::MAX - SMALL => self.out.byte(SMALL + small),
                _ => {
                    self.out.byte(INT);
                    self.out.signed(*number);
                }
            },
            Value::Float(number) => {
                self.out.byte(FLOAT);
                self.out.double(*number);
            }
            Value::Str(text) => {
                self.out.byte(STR);
                self.out.text(text);
            }
            Value::List(list) => {
                self.out.byte(LIST);
                self.out.count(list.items().len());
                for item in list.items() {
                    self.value(item);
                    if self.is_full() {
                        return;
                    }
                }
            }
            Value::Object(object) => {
                match object.origin() {
                    None => self.out.byte(OBJECT),
                    Some(failure) => {
                        self.out.byte(ERROR);
                        self.failure(failure);
                    }
                }
                self.fields(object);
            }
            Value::Promise(promise) => {
                self.out.byte(PROMISE);
                self.out.number(promise.number);
            }
            Value::Payload(payload) => {
                self.out.byte(PAYLOAD);
                self.out.payload(payload);
            }
        }
    }

    pub fn fields(&mut self, object: &Object) {
        self.out.count(object.len());
        for (key, value) in object.iter() {
            self.key(key);
            self.value(value);
            if self.is_full() {
                return;
            }
        }
    }

    pub fn slot(&mut self, slot: &Slot) {
        match slot {
            Slot::Value(value) => self.value(value),
            Slot::Cell(cell) => {
                self.out.byte(CELL);
                self.cell(cell);
            }
        }
    }

    pub fn cell(&mut self, cell: &Cell) {
        let next = u32::try_from(self.cells.len()).unwrap_or(u32::MAX);
        match self.cells.entry(Rc::as_ptr(cell)) {
            std::collections::hash_map::Entry::Occupied(known) => self.out.number(*known.get()),
            std::collections::hash_map::Entry::Vacant(place) => {
                place.insert(next);
                self.out.number(next);
                match cell.try_borrow() {
                    Ok(value) => self.value(&value),
                    Err(_) => self.out.byte(NULL),
                }
            }
        }
    }

    pub fn closure(&mut self, closure: &Closure) {
        self.out.number(closure.function);
        self.captures(&closure.captures);
    }

    pub fn captures(&mut self, captures: &Captures) {
        let captures = captures.as_deref().unwrap_or_default();
        self.out.count(captures.len());
        captures.iter().for_each(|cell| self.cell(cell));
    }

    pub fn failure(&mut self, failure: &Failure) {
        let out = &mut self.out;
        out.text(&failure.message);
        out.text(&failure.source);
        out.text(&failure.stack_trace);
        match &failure.encoded {
            None => out.flag(false),
            Some(encoded) => {
                out.flag(true);
                out.blob(encoded);
            }
        }
        match &failure.info {
            FailureInfo::None => out.byte(0),
            FailureInfo::Application { kind, non_retryable, details } => {
                out.byte(1);
                out.text(kind);
                out.flag(*non_retryable);
                out.payloads(details);
            }
            FailureInfo::Timeout { kind, last_heartbeat } => {
                out.byte(2);
                out.byte(*kind as u8);
                out.payloads(last_heartbeat);
            }
            FailureInfo::Canceled { details } => {
                out.byte(3);
                out.payloads(details);
            }
            FailureInfo::Terminated => out.byte(4),
            FailureInfo::Server { non_retryable } => {
                out.byte(5);
                out.flag(*non_retryable);
            }
            FailureInfo::Reset { last_heartbeat } => {
                out.byte(6);
                out.payloads(last_heartbeat);
            }
            FailureInfo::Activity { id, name, scheduled_event_id, started_event_id, identity, retry_state } => {
                out.byte(7);
                out.text(id);
                out.text(name);
                out.signed(*scheduled_event_id);
                out.signed(*started_event_id);
                out.text(identity);
                out.signed(i64::from(*retry_state));
            }
            FailureInfo::Child {
                namespace,
                workflow_id,
                run_id,
                name,
                initiated_event_id,
                started_event_id,
                retry_state,
            } => {
                out.byte(8);
                out.text(namespace);
                out.text(workflow_id);
                out.text(run_id);
                out.text(name);
                out.signed(*initiated_event_id);
                out.signed(*started_event_id);
                out.signed(i64::from(*retry_state));
            }
            FailureInfo::Nexus { scheduled_event_id, endpoint, service, operation, token } => {
                out.byte(9);
                out.signed(*scheduled_event_id);
                out.text(endpoint);
                out.text(service);
                out.text(operation);
                out.text(token);
            }
            FailureInfo::NexusHandler { kind, retry_behavior } => {
                out.byte(10);
                out.text(kind);
                out.signed(i64::from(*retry_behavior));
            }
        }
        match &failure.cause {
            None => self.out.flag(false),
            Some(cause) => {
                self.out.flag(true);
                self.failure(cause);
            }
        }
    }
}

/// Reads values.
pub(super) struct Loader<'b> {
    pub input: Reader<'b>,
    cells: Vec<Cell>,
    keys: Vec<Arc<str>>,
    /// All promises of the table.
    pub promises: BTreeMap<u32, Rc<PromiseRef>>,
    depth: u32,
}

impl<'b> Loader<'b> {
    pub fn new(bytes: &'b [u8]) -> Self {
        Self {
            input: Reader::new(bytes, STATE_MEMORY_MAX),
            cells: Vec::new(),
            keys: Vec::new(),
            promises: BTreeMap::new(),
            depth: 0,
        }
    }

    pub fn value(&mut self) -> Result<Value, Damage> {
        let tag = self.input.byte()?;
        self.tagged(tag)
    }

    fn tagged(&mut self, tag: u8) -> Result<Value, Damage> {
        Ok(match tag {
            NULL => Value::Null,
            FALSE => Value::Bool(false),
            TRUE => Value::Bool(true),
            INT => Value::Int(self.input.signed()?),
            FLOAT => match Value::float(self.input.double()?) {
                Some(value @ Value::Float(_)) => value,
                _ => return Err("a double is none"),
            },
            STR => {
                self.input.allocate(TEXT_BYTES)?;
                Value::Str(self.input.shared()?)
            }
            LIST => self.nested(Self::list)?,
            OBJECT => self.nested(|loader| loader.fields().map(|object| Value::Object(Rc::new(object))))?,
            ERROR => {
                let failure = self.failure(0)?;
                self.nested(|loader| {
                    let mut object = loader.fields()?;
                    object.set_origin(Some(Rc::new(failure)));
                    Ok(Value::Object(Rc::new(object)))
                })?
            }
            PROMISE => Value::Promise(self.promise()?),
            PAYLOAD => Value::Payload(Arc::new(self.input.payload()?)),
            small if small >= SMALL => Value::Int(i64::from(small - SMALL)),
            _ => return Err("a value has no such type"),
        })
    }

    fn nested(&mut self, read: impl FnOnce(&mut Self) -> Result<Value, Damage>) -> Result<Value, Damage> {
        self.depth += 1;
        if self.depth > NESTED_MAX {
            return Err("a value is nested too deeply");
        }
        let value = read(self)?;
        self.depth -= 1;
        Ok(value)
    }

    fn list(&mut self) -> Result<Value, Damage> {
        let count = self.input.count()?;
        self.input.allocate(LIST_BYTES + count * ITEM_BYTES)?;
        let mut items = Vec::with_capacity(count);
        for _ in 0..count {
            items.push(self.value()?);
        }
        Ok(Value::list(items))
    }

    pub fn fields(&mut self) -> Result<Object, Damage> {
        let count = self.input.count()?;
        self.input.allocate(OBJECT_BYTES + count * FIELD_BYTES)?;
        let mut object = Object::with_capacity(count);
        for _ in 0..count {
            let key = self.key()?;
            let value = self.value()?;
            object.insert(key, value);
        }
        if object.len() == count { Ok(object) } else { Err("a field is there twice") }
    }

    fn key(&mut self) -> Result<Arc<str>, Damage> {
        match self.input.small()? {
            0 => {
                let key = self.input.shared()?;
                self.keys.push(key.clone());
                Ok(key)
            }
            number => self.keys.get(number as usize - 1).cloned().ok_or("there is no such key"),
        }
    }

    pub fn promise(&mut self) -> Result<Rc<PromiseRef>, Damage> {
        let number = self.input.small()?;
        self.promises.get(&number).cloned().ok_or("there is no such promise")
    }

    pub fn slot(&mut self) -> Result<Slot, Damage> {
        match self.input.byte()? {
            CELL => self.cell().map(Slot::Cell),
            tag => self.tagged(tag).map(Slot::Value),
        }
    }

    pub fn cell(&mut self) -> Result<Cell, Damage> {
        let number = self.input.small()? as usize;
        if let Some(cell) = self.cells.get(number) {
            return Ok(Rc::clone(cell));
        }
        if number != self.cells.len() {
            return Err("there is no such cell");
        }
        self.input.allocate(CELL_BYTES)?;
        let cell = Rc::new(RefCell::new(Value::Null));
        self.cells.push(Rc::clone(&cell));
        let value = self.value()?;
        cell.try_borrow_mut().map(|mut place| *place = value).map_err(|_| "a cell is in use")?;
        Ok(cell)
    }

    pub fn captures(&mut self) -> Result<Captures, Damage> {
        let count = self.input.count()?;
        if count == 0 {
            return Ok(None);
        }
        self.input.allocate(count * CELL_BYTES)?;
        let cells: Vec<Cell> = (0..count).map(|_| self.cell()).collect::<Result<_, _>>()?;
        Ok(Some(cells.into()))
    }

    pub fn failure(&mut self, depth: u32) -> Result<Failure, Damage> {
        if depth > CAUSES_MAX {
            return Err("a failure is nested too deeply");
        }
        self.input.allocate(size_of::<Failure>())?;
        let input = &mut self.input;
        let (message, source, stack_trace) = (input.string()?, input.string()?, input.string()?);
        let encoded = if input.flag()? { Some(Arc::from(input.blob()?)) } else { None };
        let small = |input: &mut Reader<'_>| i32::try_from(input.signed()?).map_err(|_| "a number is too large");
        let info = match input.byte()? {
            0 => FailureInfo::None,
            1 => FailureInfo::Application {
                kind: input.string()?,
                non_retryable: input.flag()?,
                details: input.payloads()?,
            },
            2 => {
                let kind = match input.byte()? {
                    0 => TimeoutKind::Unspecified,
                    1 => TimeoutKind::StartToClose,
                    2 => TimeoutKind::ScheduleToStart,
                    3 => TimeoutKind::ScheduleToClose,
                    4 => TimeoutKind::Heartbeat,
                    _ => return Err("there is no such time-out"),
                };
                FailureInfo::Timeout { kind, last_heartbeat: input.payloads()? }
            }
            3 => FailureInfo::Canceled { details: input.payloads()? },
            4 => FailureInfo::Terminated,
            5 => FailureInfo::Server { non_retryable: input.flag()? },
            6 => FailureInfo::Reset { last_heartbeat: input.payloads()? },
            7 => FailureInfo::Activity {
                id: input.string()?,
                name: input.string()?,
                scheduled_event_id: input.signed()?,
                started_event_id: input.signed()?,
                identity: input.string()?,
                retry_state: small(input)?,
            },
            8 => FailureInfo::Child {
                namespace: input.string()?,
                workflow_id: input.string()?,
                run_id: input.string()?,
                name: input.string()?,
                initiated_event_id: input.signed()?,
                started_event_id: input.signed()?,
                retry_state: small(input)?,
            },
            9 => FailureInfo::Nexus {
                scheduled_event_id: input.signed()?,
                endpoint: input.string()?,
                service: input.string()?,
                operation: input.string()?,
                token: input.string()?,
            },
            10 => FailureInfo::NexusHandler { kind: input.string()?, retry_behavior: small(input)? },
            _ => return Err("a failure has no such kind"),
        };
        let cause = if input.flag()? { Some(Box::new(self.failure(depth + 1)?)) } else { None };
        Ok(Failure { message, source, stack_trace, cause, info, encoded })
    }
}
