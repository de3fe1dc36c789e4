//! Fields, elements, and what is taken apart.

use crate::diagnostic::Position;
use crate::hir::{Access, Expr, ExprKind, Pattern, VariableId};
use crate::pure::access::no_field;

use super::kind::Kinds;
use super::pass::Pass;
use super::report::{ACCESS, PARTS, PROMISE, words};
use super::value_type::Type;

/// What `await` gives.
pub(super) fn awaited(value: &Type) -> Type {
    let plain = value.without(Kinds::PROMISE.or(Kinds::LIST));
    if value.kinds().has(Kinds::PROMISE) { plain.join(&value.result()) } else { plain }
}

impl Pass<'_> {
    /// `await value`.
    pub fn await_value(&mut self, value: &Type, at: Position) -> Type {
        if self.is_wrong(value, Kinds::ALL.without(Kinds::LIST)) {
            return self.error(PROMISE, "await takes one promise; use Task.all for a list", at, None);
        }
        awaited(value)
    }

    /// `base.key`. A null base of `?.` is left to the chain.
    pub fn field(&mut self, base: &Type, key: &str, access: Access, at: Position) -> Type {
        let mut found = Type::NEVER;
        let mut is_possible = access == Access::Optional && base.kinds().has(Kinds::NULL);
        let mut is_missing = false;
        let mut add = |part: Type| {
            found = found.join(&part);
            is_possible = true;
        };
        if base.kinds().has(Kinds::OBJECT) {
            match base.fields().map(|fields| (fields.get(key), fields.is_complete)) {
                Some((Some(value), _)) => add(value.clone()),
                Some((None, true)) if access == Access::Plain => is_missing = true,
                Some((None, true)) => add(Type::NULL),
                _ => add(Type::UNKNOWN),
            }
        }
        if key == "length" && base.kinds().has(Kinds::LIST.or(Kinds::STRING)) {
            add(Type::NUMBER);
        }
        if key == "id" && base.kinds().has(Kinds::PROMISE) {
            add(Type::STRING);
        }
        if is_possible || base.is_never() {
            return found;
        }
        if !is_missing {
            return self.no_field(base, key, at);
        }
        let names = base.fields().map(|fields| fields.known.iter().map(|(known, _)| &**known));
        let similar = names.and_then(|names| crate::similar::similar(key, names));
        let hint = similar.map(crate::similar::did_you_mean);
        self.error(ACCESS, no_field(key).message, at, hint.as_deref())
    }

    /// Values of this type have no such field.
    pub fn no_field(&mut self, base: &Type, key: &str, at: Position) -> Type {
        match base.kinds() {
            Kinds::NULL => self.error(ACCESS, format!("cannot read \"{key}\" of null"), at, None),
            Kinds::PROMISE => self.error(ACCESS, "this is a promise; await it first", at, None),
            _ => self.error(ACCESS, format!("a {} has no field \"{key}\"", words(base)), at, None),
        }
    }

    /// `base[index]`.
    pub fn index(&mut self, base: &Type, index: &Expr, access: Access, at: Position) -> Type {
        let index_type = self.expr(index);
        if base.is_never() || index_type.is_never() {
            return Type::NEVER;
        }
        let (by_number, by_text) = (index_type.kinds().has(Kinds::NUMBER), index_type.kinds().has(Kinds::STRING));
        let mut found = Type::NEVER;
        let mut is_possible = access == Access::Optional && base.kinds().has(Kinds::NULL);
        let mut add = |part: &Type| {
            found = found.join(part);
            is_possible = true;
        };
        // Outside of the list `?.` and `??` give null.
        let missing = if access == Access::Plain { Type::NEVER } else { Type::NULL };
        if base.kinds().has(Kinds::LIST) && by_number {
            add(&base.element().join(&missing));
        }
        if base.kinds().has(Kinds::STRING) && by_number {
            add(&Type::STRING.join(&missing));
        }
        if base.kinds().has(Kinds::OBJECT) && by_text {
            match &index.kind {
                ExprKind::Str(key) => return self.field(base, key, access, at),
                _ => add(&Type::UNKNOWN),
            }
        }
        if base.kinds().has(Kinds::PROMISE) && by_text {
            add(&Type::STRING);
        }
        if is_possible {
            return found;
        }
        let message = match base.kinds() {
            Kinds::LIST | Kinds::STRING => {
                format!("a {} index must be a whole number, not {}", words(base), words(&index_type))
            }
            Kinds::OBJECT => format!("a key must be a string, not {}", words(&index_type)),
            Kinds::NULL => "cannot read an element of null".to_owned(),
            Kinds::PROMISE => "this is a promise; await it first".to_owned(),
            _ => format!("a {} has no elements", words(base)),
        };
        self.error(ACCESS, message, at, None)
    }

    /// What `for … of` goes over.
    pub fn elements(&mut self, list: &Type, at: Position) -> Type {
        if self.is_wrong(list, Kinds::LIST.or(Kinds::STRING)) {
            let message = format!("for … of takes a list or a string, not {}", words(list));
            let hint = match list.kinds() {
                Kinds::OBJECT => Some("write Object.entries(x), Object.keys(x) or Object.values(x)"),
                Kinds::PROMISE => Some("await it first"),
                Kinds::NUMBER => Some("write List.range(n)"),
                _ => None,
            };
            return self.error(PARTS, message, at, hint);
        }
        let mut element = Type::NEVER;
        if list.kinds().has(Kinds::LIST) {
            element = element.join(&list.element());
        }
        if list.kinds().has(Kinds::STRING) {
            element = element.join(&Type::STRING);
        }
        element
    }

    /// Fills the variables of a pattern.
    pub fn bind(&mut self, pattern: &Pattern, value: Type) {
        match pattern {
            Pattern::Variable(variable) => {
                self.assign(*variable, value, true);
                self.note_variable(*variable);
            }
            Pattern::List { items, rest, at } => {
                for (item, default) in items {
                    let access = if default.is_some() { Access::Soft } else { Access::Plain };
                    let part = self.part(&value, access, *at);
                    self.bind_or(item, part, default.as_ref());
                }
                if (rest.is_some() || items.is_empty()) && self.is_wrong(&value, Kinds::LIST) {
                    self.error(PARTS, format!("cannot take {} apart as a list", words(&value)), *at, None);
                }
                if let Some(rest) = rest {
                    self.assign(*rest, Type::list(value.only(Kinds::LIST).element()), true);
                    self.note_variable(*rest);
                }
            }
            Pattern::Object { fields, rest, at } => {
                for (key, item, default) in fields {
                    let access = if default.is_some() { Access::Soft } else { Access::Plain };
                    let part = self.field(&value, key, access, *at);
                    self.bind_or(item, part, default.as_ref());
                }
                if (rest.is_some() || fields.is_empty()) && self.is_wrong(&value, Kinds::OBJECT) {
                    self.error(PARTS, format!("cannot take {} apart as an object", words(&value)), *at, None);
                }
                if let Some(rest) = rest {
                    self.assign(*rest, Type::of(Kinds::OBJECT), true);
                    self.note_variable(*rest);
                }
            }
        }
    }

    /// The same, with a default for null.
    pub fn bind_or(&mut self, pattern: &Pattern, value: Type, default: Option<&Expr>) {
        let value = match default {
            Some(default) => {
                let mut instead = Type::NEVER;
                let branch = self.branch(|pass| {
                    pass.is_dead |= !value.kinds().has(Kinds::NULL);
                    instead = pass.expr(default);
                });
                let instead = if branch.is_dead { Type::NEVER } else { instead };
                value.without(Kinds::NULL).join(&instead)
            }
            None => value,
        };
        self.bind(pattern, value);
    }

    /// An element that a pattern takes.
    fn part(&mut self, list: &Type, access: Access, at: Position) -> Type {
        if self.is_wrong(list, Kinds::LIST.or(Kinds::STRING)) {
            let message = match list.kinds() {
                Kinds::PROMISE => "this is a promise; await it first".to_owned(),
                _ => format!("cannot take {} apart as a list", words(list)),
            };
            return self.error(PARTS, message, at, None);
        }
        let element = self.elements(list, at);
        if access == Access::Plain { element } else { element.or_null() }
    }

    /// Notes the type of a variable where it is declared.
    pub fn note_variable(&mut self, variable: VariableId) {
        if let Some(info) = self.program.variables.get(variable) {
            let value = self.types.get(variable);
            self.note(info.at, &value);
        }
    }
}
