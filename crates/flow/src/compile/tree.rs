//! Constants of a file as trees that threads can share.
//!
//! A constant that refers to another one shares its value: while it is computed, in compiled code, in stored code, and
//! in the values that a turn makes of it. So the memory of constants is proportional to their source text; it counts
//! against [`CODE_BYTES_MAX`] with shared parts counted once.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

use crate::machine::bytes::{Damage, Reader, Writer};
use crate::pure::VALUE_BYTES_MAX;
use crate::value::{DEPTH_MAX, List, Value};

/// Bytes of memory that a compiled script may take with its constants.
pub const CODE_BYTES_MAX: usize = 8 << 20;

/// Memory of a list, object or text besides its content.
const NODE_BYTES: usize = 32;

/// Shorter texts are written again where they occur again.
const SHARED_TEXT_BYTES: usize = 16;

/// A value that threads can share.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Tree {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Str(Arc<str>),
    List(Arc<[Tree]>),
    Object(Arc<[Field]>),
}

/// A key and its value.
type Field = (Arc<str>, Tree);

impl Tree {
    /// Where the content is that several trees may share.
    fn place(&self) -> Option<*const u8> {
        // Empty ones have no place of their own.
        match self {
            Self::List(items) if !items.is_empty() => Some(items.as_ptr().cast()),
            Self::Object(fields) if !fields.is_empty() => Some(fields.as_ptr().cast()),
            Self::Str(text) if text.len() >= SHARED_TEXT_BYTES => Some(text.as_ptr()),
            _ => None,
        }
    }
}

/// Why there is no tree of a value.
pub(super) enum TreeError {
    /// The trees would take more memory than compiled code may.
    TooLarge,
    /// It holds a promise or a payload.
    NoConstant,
}

/// Makes trees of values. The values must live as long as it does.
#[derive(Default)]
pub(super) struct Trees {
    lists: HashMap<*const List, Tree>,
    objects: HashMap<*const crate::value::Object, Tree>,
    texts: HashSet<*const u8>,
    /// Memory of all trees and of the code itself.
    pub bytes: usize,
}

impl Trees {
    /// Counts memory; refuses it if all of it together is too much.
    pub fn allocate(&mut self, bytes: usize) -> Result<(), TreeError> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > CODE_BYTES_MAX { Err(TreeError::TooLarge) } else { Ok(()) }
    }

    pub fn tree(&mut self, value: &Value) -> Result<Tree, TreeError> {
        Ok(match value {
            Value::Null => Tree::Null,
            Value::Bool(value) => Tree::Bool(*value),
            Value::Int(value) => Tree::Int(*value),
            Value::Float(value) => Tree::Float(*value),
            Value::Str(text) => {
                if self.texts.insert(text.as_ptr()) {
                    self.allocate(text.len() + NODE_BYTES)?;
                }
                Tree::Str(text.clone())
            }
            Value::List(list) => {
                if let Some(known) = self.lists.get(&Rc::as_ptr(list)) {
                    return Ok(known.clone());
                }
                self.allocate(NODE_BYTES + list.items().len() * size_of::<Tree>())?;
                let tree = Tree::List(list.items().iter().map(|item| self.tree(item)).collect::<Result<_, _>>()?);
                self.lists.insert(Rc::as_ptr(list), tree.clone());
                tree
            }
            Value::Object(object) => {
                if let Some(known) = self.objects.get(&Rc::as_ptr(object)) {
                    return Ok(known.clone());
                }
                self.allocate(NODE_BYTES + object.len() * size_of::<Field>())?;
                let fields = object.iter().map(|(key, value)| {
                    if self.texts.insert(key.as_ptr()) {
                        self.allocate(key.len() + NODE_BYTES)?;
                    }
                    Ok((key.clone(), self.tree(value)?))
                });
                let tree = Tree::Object(fields.collect::<Result<_, _>>()?);
                self.objects.insert(Rc::as_ptr(object), tree.clone());
                tree
            }
            Value::Promise(_) | Value::Payload(_) => return Err(TreeError::NoConstant),
        })
    }
}

/// Memory of trees; shared parts count once.
pub(super) fn memory<'t>(trees: impl Iterator<Item = &'t Tree>) -> usize {
    let (mut seen, mut bytes, mut queue) = (HashSet::new(), 0, trees.collect::<Vec<_>>());
    while let Some(tree) = queue.pop() {
        if tree.place().is_some_and(|place| !seen.insert(place)) {
            continue;
        }
        bytes += match tree {
            Tree::Str(text) => NODE_BYTES + text.len(),
            Tree::List(items) => {
                queue.extend(items.iter());
                NODE_BYTES + items.len() * size_of::<Tree>()
            }
            Tree::Object(fields) => {
                queue.extend(fields.iter().map(|(_, value)| value));
                NODE_BYTES + fields.iter().map(|(key, _)| key.len() + NODE_BYTES + size_of::<Field>()).sum::<usize>()
            }
            _ => 0,
        };
    }
    bytes
}

/// Makes values of trees; what trees share, the values share.
#[derive(Default)]
pub(crate) struct Values {
    known: HashMap<*const u8, Value>,
    /// Elements and fields so far.
    pub visited: usize,
}

impl Values {
    pub fn value(&mut self, tree: &Tree) -> Value {
        self.visited += 1;
        let place = tree.place();
        if let Some(known) = place.and_then(|place| self.known.get(&place)) {
            return known.clone();
        }
        let value = match tree {
            Tree::Null => Value::Null,
            Tree::Bool(value) => Value::Bool(*value),
            Tree::Int(value) => Value::Int(*value),
            Tree::Float(value) => Value::Float(*value),
            Tree::Str(text) => return Value::Str(text.clone()),
            Tree::List(items) => Value::list(items.iter().map(|item| self.value(item)).collect()),
            Tree::Object(fields) => {
                self.visited += crate::pure::FIELD * fields.len();
                Value::object(fields.iter().map(|(key, value)| (key.clone(), self.value(value))))
            }
        };
        if let Some(place) = place {
            self.known.insert(place, value.clone());
        }
        value
    }
}

/// Writes trees; what was written before is written as its number.
#[derive(Default)]
pub(super) struct TreeWriter {
    numbers: HashMap<*const u8, u64>,
}

impl TreeWriter {
    pub fn write(&mut self, out: &mut Writer, tree: &Tree) {
        let place = tree.place();
        if let Some(number) = place.and_then(|place| self.numbers.get(&place)) {
            out.byte(8);
            out.number(*number);
            return;
        }
        match tree {
            Tree::Null => out.byte(0),
            Tree::Bool(value) => out.byte(1 + u8::from(*value)),
            Tree::Int(number) => {
                out.byte(3);
                out.signed(*number);
            }
            Tree::Float(number) => {
                out.byte(4);
                out.double(*number);
            }
            Tree::Str(text) => {
                out.byte(5);
                out.text(text);
            }
            Tree::List(items) => {
                out.byte(6);
                out.count(items.len());
                items.iter().for_each(|item| self.write(out, item));
            }
            Tree::Object(fields) => {
                out.byte(7);
                out.count(fields.len());
                for (key, value) in fields.iter() {
                    out.text(key);
                    self.write(out, value);
                }
            }
        }
        if let Some(place) = place {
            let number = self.numbers.len() as u64;
            self.numbers.insert(place, number);
        }
    }
}

/// Reads what [`TreeWriter`] wrote.
#[derive(Default)]
pub(super) struct TreeReader {
    numbered: Vec<ReadTree>,
}

/// A tree with its bytes as JSON and its depth, which a few bytes with references could make very large.
#[derive(Clone)]
struct ReadTree {
    tree: Tree,
    size: usize,
    depth: u32,
}

impl TreeReader {
    pub fn read(&mut self, input: &mut Reader<'_>) -> Result<Tree, Damage> {
        self.nested(input, 0).map(|read| read.tree)
    }

    fn nested(&mut self, input: &mut Reader<'_>, level: u32) -> Result<ReadTree, Damage> {
        if level > DEPTH_MAX {
            return Err("a constant is nested too deeply");
        }
        let (mut size, mut depth) = (20, 0);
        let tree = match input.byte()? {
            0 => Tree::Null,
            1 => Tree::Bool(false),
            2 => Tree::Bool(true),
            3 => Tree::Int(input.signed()?),
            4 => Tree::Float(super::format::finite(input)?),
            5 => {
                let text = input.shared()?;
                size = text.len();
                input.allocate(size + NODE_BYTES)?;
                Tree::Str(text)
            }
            6 => {
                let mut items = Vec::new();
                for _ in 0..input.count()? {
                    input.allocate(2 * size_of::<Tree>())?;
                    let item = self.nested(input, level + 1)?;
                    (size, depth) = (size.saturating_add(item.size), depth.max(item.depth + 1));
                    items.push(item.tree);
                }
                Tree::List(items.into())
            }
            7 => {
                let mut fields = Vec::new();
                for _ in 0..input.count()? {
                    let key = input.shared()?;
                    input.allocate(2 * size_of::<Field>() + key.len() + NODE_BYTES)?;
                    let value = self.nested(input, level + 1)?;
                    size = size.saturating_add(value.size).saturating_add(key.len());
                    depth = depth.max(value.depth + 1);
                    fields.push((key, value.tree));
                }
                Tree::Object(fields.into())
            }
            8 => {
                let known = self.numbered.get(input.small()? as usize).ok_or("there is no such constant")?;
                return Ok(known.clone());
            }
            _ => return Err("there is no such constant"),
        };
        // Above what the compiler allows, because numbers count as if they were long.
        if size > 8 * VALUE_BYTES_MAX || depth > DEPTH_MAX {
            return Err("a constant is too large");
        }
        let read = ReadTree { tree, size, depth };
        if read.tree.place().is_some() {
            self.numbered.push(read.clone());
        }
        Ok(read)
    }
}
