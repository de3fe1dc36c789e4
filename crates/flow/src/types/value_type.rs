//! Types: what is known about a value before running.
//!
//! A type is a set of kinds, and for lists, objects and promises what they hold, as far as it is known. Each type has at most
//! [`SIZE_MAX`] parts and is at most [`DEPTH_MAX`] deep; what would be more is unknown. So every operation on types takes
//! little time, whatever the source is.

use std::fmt::{self, Display, Formatter};
use std::sync::Arc;

use super::kind::Kinds;

/// Parts that a type may have.
const SIZE_MAX: u32 = 200;
/// Levels of lists, objects and promises in each other.
const DEPTH_MAX: u32 = 8;
/// Bytes that the name of a known field may have.
const KEY_BYTES_MAX: usize = 64;
/// Fields of an object that are remembered.
const FIELDS_MAX: usize = 32;
/// Fields that a text of a type names.
const FIELDS_SHOWN: usize = 8;

/// What is known about a value.
#[derive(Clone, Debug, PartialEq)]
pub struct Type {
    kinds: Kinds,
    /// What its parts are. `None`: not known.
    parts: Option<Arc<Parts>>,
}

/// What a list, object or promise holds. Of several kinds the one that it belongs to is known; a type whose values may be
/// of two of these kinds knows nothing about parts.
#[derive(Clone, Debug, PartialEq)]
struct Parts {
    holds: Holds,
    size: u32,
    depth: u32,
}

#[derive(Clone, Debug, PartialEq)]
enum Holds {
    /// The elements of a list.
    Elements(Type),
    /// The result of a promise.
    Result(Type),
    /// Fields that an object has for certain, in order.
    Fields(Fields),
}

/// Fields of an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fields {
    /// Those that it has for certain.
    pub known: Vec<(Arc<str>, Type)>,
    /// Whether it has no others.
    pub is_complete: bool,
}

impl Fields {
    /// A known field.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Type> {
        self.known.iter().find(|(known, _)| &**known == key).map(|(_, value)| value)
    }

    /// Sets a field. One whose name is too long is not remembered.
    pub fn set(&mut self, key: &Arc<str>, value: Type) {
        let has_room = key.len() <= KEY_BYTES_MAX && self.known.len() < FIELDS_MAX;
        match self.known.iter_mut().find(|(known, _)| known == key) {
            Some((_, known)) => *known = value,
            None if has_room => self.known.push((key.clone(), value)),
            None => self.is_complete = false,
        }
    }

    /// What both have.
    fn join(&self, other: &Self) -> Self {
        let known: Vec<_> =
            self.known.iter().filter_map(|(key, value)| Some((key.clone(), value.join(other.get(key)?)))).collect();
        let same = known.len() == self.known.len() && known.len() == other.known.len();
        Self { is_complete: same && self.is_complete && other.is_complete, known }
    }
}

impl Type {
    /// Nothing is known.
    pub const UNKNOWN: Self = Self::of(Kinds::ALL);
    /// No value.
    pub const NEVER: Self = Self::of(Kinds::NONE);
    /// `null`.
    pub const NULL: Self = Self::of(Kinds::NULL);
    /// `true` or `false`.
    pub const BOOLEAN: Self = Self::of(Kinds::BOOLEAN);
    /// A number.
    pub const NUMBER: Self = Self::of(Kinds::NUMBER);
    /// A string.
    pub const STRING: Self = Self::of(Kinds::STRING);

    /// Values of these kinds.
    #[must_use]
    pub const fn of(kinds: Kinds) -> Self {
        Self { kinds, parts: None }
    }

    /// A list of such elements.
    #[must_use]
    pub fn list(element: Self) -> Self {
        Self::holding(Kinds::LIST, Holds::Elements(element))
    }

    /// A promise of such a result.
    #[must_use]
    pub fn promise(result: Self) -> Self {
        Self::holding(Kinds::PROMISE, Holds::Result(result))
    }

    /// An object with these fields.
    #[must_use]
    pub fn object(fields: Fields) -> Self {
        Self::holding(Kinds::OBJECT, Holds::Fields(fields))
    }

    fn holding(kinds: Kinds, holds: Holds) -> Self {
        let mut holds = holds;
        let (mut size, mut depth) = (1, 0);
        let mut count = |part: &mut Self| {
            let parts = part.parts.as_ref().map_or((1, 1), |parts| (parts.size, parts.depth + 1));
            if size + parts.0 > SIZE_MAX || parts.1 > DEPTH_MAX {
                part.parts = None;
                size += 1;
                depth = depth.max(1);
            } else {
                size += parts.0;
                depth = depth.max(parts.1);
            }
        };
        match &mut holds {
            Holds::Elements(part) | Holds::Result(part) => count(part),
            Holds::Fields(fields) => fields.known.iter_mut().for_each(|(_, part)| count(part)),
        }
        Self { kinds, parts: Some(Arc::new(Parts { holds, size, depth })) }
    }

    /// The kinds that it may have.
    #[must_use]
    pub const fn kinds(&self) -> Kinds {
        self.kinds
    }

    /// Whether there is no such value.
    #[must_use]
    pub const fn is_never(&self) -> bool {
        self.kinds.is_empty()
    }

    /// Without what is known about parts.
    #[must_use]
    pub const fn without_parts(&self) -> Self {
        Self::of(self.kinds)
    }

    /// What its elements are if it is a list.
    #[must_use]
    pub fn element(&self) -> Self {
        match self.holds() {
            Some(Holds::Elements(element)) => element.clone(),
            _ => Self::UNKNOWN,
        }
    }

    /// What its result is if it is a promise.
    #[must_use]
    pub fn result(&self) -> Self {
        match self.holds() {
            Some(Holds::Result(result)) => result.clone(),
            _ => Self::UNKNOWN,
        }
    }

    /// What is known about its fields if it is an object.
    #[must_use]
    pub fn fields(&self) -> Option<&Fields> {
        match self.holds() {
            Some(Holds::Fields(fields)) => Some(fields),
            _ => None,
        }
    }

    fn holds(&self) -> Option<&Holds> {
        self.parts.as_ref().map(|parts| &parts.holds)
    }

    /// What a value of one of both types is.
    #[must_use]
    pub fn join(&self, other: &Self) -> Self {
        let kinds = self.kinds.or(other.kinds);
        let holding = Kinds::LIST.or(Kinds::OBJECT).or(Kinds::PROMISE);
        if !other.kinds.has(holding) {
            return Self { kinds, parts: self.parts.clone() };
        }
        if !self.kinds.has(holding) {
            return Self { kinds, parts: other.parts.clone() };
        }
        let (Some(left), Some(right)) = (&self.parts, &other.parts) else { return Self::of(kinds) };
        if Arc::ptr_eq(left, right) {
            return Self { kinds, parts: Some(left.clone()) };
        }
        match (&left.holds, &right.holds) {
            (Holds::Elements(left), Holds::Elements(right)) => Self::holding(kinds, Holds::Elements(left.join(right))),
            (Holds::Result(left), Holds::Result(right)) => Self::holding(kinds, Holds::Result(left.join(right))),
            (Holds::Fields(left), Holds::Fields(right)) => Self::holding(kinds, Holds::Fields(left.join(right))),
            _ => Self::of(kinds),
        }
    }

    /// The values of it that are of these kinds.
    #[must_use]
    pub fn only(&self, kinds: Kinds) -> Self {
        let kinds = self.kinds.and(kinds);
        let keeps = match self.holds() {
            Some(Holds::Elements(_)) => kinds.has(Kinds::LIST),
            Some(Holds::Result(_)) => kinds.has(Kinds::PROMISE),
            Some(Holds::Fields(_)) => kinds.has(Kinds::OBJECT),
            None => false,
        };
        Self { kinds, parts: self.parts.clone().filter(|_| keeps) }
    }

    /// The values of it that are not of these kinds.
    #[must_use]
    pub fn without(&self, kinds: Kinds) -> Self {
        self.only(Kinds::ALL.without(kinds))
    }

    /// The same with null.
    #[must_use]
    pub fn or_null(&self) -> Self {
        Self { kinds: self.kinds.or(Kinds::NULL), parts: self.parts.clone() }
    }

    /// The same with other fields of the object that it may be.
    #[must_use]
    pub fn with_fields(&self, fields: Fields) -> Self {
        Self::holding(self.kinds, Holds::Fields(fields))
    }
}

/// In plain words: `number`, `list of strings`, `object with id and total`, `string or null`, `unknown`.
impl Display for Type {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        if self.kinds == Kinds::ALL {
            return out.write_str("unknown");
        }
        let mut separator = "";
        for name in self.kinds.names() {
            out.write_str(separator)?;
            separator = " or ";
            match (name, self.holds()) {
                ("list", Some(Holds::Elements(element))) => match element.kinds.names().count() {
                    0 => out.write_str("empty list")?,
                    1 => write!(out, "list of {}", Plural(element))?,
                    _ => out.write_str("list")?,
                },
                ("promise", Some(Holds::Result(result))) if result.kinds != Kinds::ALL => {
                    write!(out, "promise of {result}")?;
                }
                ("object", Some(Holds::Fields(fields))) => {
                    write!(out, "object")?;
                    let names: Vec<&str> = fields.known.iter().take(FIELDS_SHOWN).map(|(key, _)| &**key).collect();
                    let more = if fields.known.len() > FIELDS_SHOWN { ", …" } else { "" };
                    if !names.is_empty() {
                        write!(out, " with {}{more}", names.join(", "))?;
                    }
                }
                _ => out.write_str(name)?,
            }
        }
        if separator.is_empty() { out.write_str("never reached") } else { Ok(()) }
    }
}

/// A type of one kind in the plural.
struct Plural<'t>(&'t Type);

impl Display for Plural<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let text = self.0.to_string();
        let (noun, rest) = text.split_once(' ').unwrap_or((&text, ""));
        match (noun, rest) {
            ("null", _) => out.write_str("nulls"),
            ("empty", _) => out.write_str("empty lists"),
            (noun, "") => write!(out, "{noun}s"),
            (noun, rest) => write!(out, "{noun}s {rest}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(fields: &[(&str, Type)]) -> Type {
        let known = fields.iter().map(|(key, value)| (Arc::from(*key), value.clone())).collect();
        Type::object(Fields { known, is_complete: true })
    }

    #[test]
    fn words() {
        let order = object(&[("id", Type::NUMBER), ("items", Type::list(Type::STRING))]);
        for (shown, words) in [
            (Type::UNKNOWN, "unknown"),
            (Type::NEVER, "never reached"),
            (Type::NUMBER.or_null(), "number or null"),
            (Type::list(Type::STRING), "list of strings"),
            (Type::list(Type::list(Type::NUMBER)), "list of lists of numbers"),
            (Type::list(Type::UNKNOWN), "list"),
            (Type::list(Type::NEVER), "empty list"),
            (Type::promise(Type::UNKNOWN), "promise"),
            (Type::promise(Type::list(Type::NULL)), "promise of list of nulls"),
            (Type::list(order.clone()), "list of objects with id, items"),
            (order, "object with id, items"),
            (object(&[]), "object"),
        ] {
            assert_eq!(shown.to_string(), words);
        }
    }

    #[test]
    fn joins_know_what_both_know() {
        let one = object(&[("a", Type::NUMBER), ("b", Type::STRING)]);
        let two = object(&[("a", Type::NULL)]);
        let both = one.join(&two);
        let fields = both.fields().unwrap();
        assert_eq!(fields.get("a"), Some(&Type::NUMBER.or_null()));
        assert!(fields.get("b").is_none() && !fields.is_complete);
        assert_eq!(one.join(&Type::list(Type::NUMBER)), Type::of(Kinds::OBJECT.or(Kinds::LIST)));
        assert_eq!(one.join(&Type::NULL).only(Kinds::OBJECT), one);
        assert_eq!(one.join(&Type::NULL).without(Kinds::OBJECT), Type::NULL);
        assert_eq!(Type::list(Type::NEVER).join(&Type::list(Type::NUMBER)), Type::list(Type::NUMBER));
    }

    #[test]
    fn types_stay_small() {
        let mut nested = Type::NUMBER;
        let mut wide = Type::NUMBER;
        for _ in 0..10_000 {
            nested = Type::list(nested);
            wide = object(&[("a", wide.clone()), ("b", wide.clone()), ("c", wide)]);
        }
        for one in [&nested, &wide] {
            let parts = one.parts.as_ref().unwrap();
            assert!(parts.size <= SIZE_MAX && parts.depth <= DEPTH_MAX, "{} {}", parts.size, parts.depth);
            assert_eq!(one.join(one), *one);
        }
        let key: Arc<str> = "k".repeat(KEY_BYTES_MAX + 1).into();
        let mut fields = Fields { known: Vec::new(), is_complete: true };
        fields.set(&key, Type::NUMBER);
        assert_eq!(fields, Fields::default());
    }
}
