//! What a condition says about variables and constants, and fields of these, where it holds and where it does not.

use std::sync::Arc;

use crate::hir::{Binary, Expr, ExprKind, Operation, Operator};

use super::kind::Kinds;
use super::pass::Pass;
use super::value_type::{Fields, Type};

/// A variable or constant, or a field of one.
struct Place {
    /// Its place among the types.
    root: usize,
    /// Keys, the outermost first.
    path: Vec<Arc<str>>,
    /// Whether what is found out about it stays true.
    is_followed: bool,
    value: Type,
}

impl Pass<'_> {
    /// Goes on where a condition of this type holds, or where it does not.
    pub fn assume(&mut self, condition: &Expr, value: &Type, holds: bool) {
        self.assume_possible(value, holds);
        self.assume_holds(condition, holds);
    }

    /// Nothing goes on where no value of this type is true, or none is false.
    pub fn assume_possible(&mut self, value: &Type, holds: bool) {
        let possible = if holds { Kinds::TRUTHY } else { Kinds::FALSY };
        // A condition that is never one has been reported.
        if value.kinds().has(Kinds::CONDITION) && !value.kinds().has(possible) {
            self.is_dead = true;
        }
    }

    pub fn assume_holds(&mut self, condition: &Expr, holds: bool) {
        match &condition.kind {
            ExprKind::Not(inner) => self.assume_holds(inner, !holds),
            ExprKind::Binary { first, rest } => self.assume_operators(first, rest, holds),
            _ => {
                let is_possible = self.place(condition).is_some_and(|place| place.value.kinds().has(Kinds::CONDITION));
                if is_possible {
                    self.keep(condition, if holds { Kinds::TRUTHY } else { Kinds::FALSY });
                }
            }
        }
    }

    /// The same for operators one after the other.
    pub fn assume_operators(&mut self, first: &Expr, rest: &[Operation], holds: bool) {
        // All parts of a true `&&` hold, and none of a false `||`.
        let joined = if holds { Operator::And } else { Operator::Or };
        let mut rest = rest;
        while let Some((Operation { operator, right, .. }, before)) = rest.split_last()
            && *operator == joined
        {
            self.assume_holds(right, holds);
            rest = before;
        }
        match rest {
            [] => self.assume_holds(first, holds),
            [Operation { operator: Operator::Binary(Binary::Equal), right, .. }] => {
                self.assume_equal(first, right, holds);
            }
            [Operation { operator: Operator::Binary(Binary::NotEqual), right, .. }] => {
                self.assume_equal(first, right, !holds);
            }
            [Operation { operator: Operator::Binary(Binary::In), right, .. }] if holds => self.has_key(first, right),
            _ => {}
        }
    }

    fn assume_equal(&mut self, left: &Expr, right: &Expr, holds: bool) {
        self.compare(left, right, holds);
        self.compare(right, left, holds);
    }

    /// `subject == literal`.
    fn compare(&mut self, subject: &Expr, literal: &Expr, holds: bool) {
        let (subject, equal, is_exact) = match (&subject.kind, &literal.kind) {
            (ExprKind::Typeof(subject), ExprKind::Str(word)) => (&**subject, Kinds::named(word), true),
            _ => match kinds_of(literal) {
                Some((equal, is_exact)) => (subject, equal, is_exact),
                None => return,
            },
        };
        if holds {
            self.keep(subject, equal);
        } else if is_exact {
            self.keep(subject, Kinds::ALL.without(equal));
        }
    }

    /// A switch goes on at one of these labels.
    pub fn assume_one(&mut self, subject: &Expr, value: &Type, labels: &[&Expr]) {
        let (subject, is_typeof) = match &subject.kind {
            ExprKind::Typeof(inner) => (&**inner, true),
            _ => (subject, false),
        };
        let mut all = Kinds::NONE;
        for label in labels {
            let kinds = match &label.kind {
                ExprKind::Str(word) if is_typeof => Some(Kinds::named(word)),
                _ if is_typeof => None,
                _ => kinds_of(label).map(|(kinds, _)| kinds),
            };
            let Some(kinds) = kinds else { return };
            all = all.or(kinds);
        }
        if !is_typeof && !value.is_never() && !value.kinds().has(all) {
            self.is_dead = true;
        }
        self.keep(subject, all);
    }

    /// A switch goes on at none of these labels.
    pub fn assume_other(&mut self, subject: &Expr, labels: &[&Expr]) {
        for label in labels {
            self.compare(subject, label, false);
        }
    }

    /// `"key" in object` holds.
    fn has_key(&mut self, key: &Expr, object: &Expr) {
        self.keep(object, Kinds::OBJECT);
        let (ExprKind::Str(key), Some(place)) = (&key.kind, self.place(object)) else { return };
        let Some(fields) = place.value.fields() else { return };
        if fields.is_complete && fields.get(key).is_none() {
            self.is_dead = true;
        }
    }

    /// What stands here is of one of these kinds.
    fn keep(&mut self, subject: &Expr, kinds: Kinds) {
        let Some(place) = self.place(subject) else { return };
        let kept = place.value.only(kinds);
        if kept.is_never() {
            self.is_dead = true;
        } else if place.is_followed && kept.kinds() != place.value.kinds() {
            let root = self.types.get(place.root);
            self.types.set(place.root, replaced(&root, &place.path, kept));
        }
    }

    /// The variable or constant that an expression reads, or the field of one, and what is known about it.
    fn place(&self, expr: &Expr) -> Option<Place> {
        let mut path = Vec::new();
        let mut first = expr;
        let root = loop {
            first = match &first.kind {
                ExprKind::Chain(inner) => inner,
                ExprKind::Field { base, key, .. } => {
                    path.push(key.clone());
                    base
                }
                ExprKind::Variable(variable) => {
                    break (*variable, self.is_followed(*variable), self.variable(*variable));
                }
                ExprKind::Constant(constant) => {
                    let place = self.constant_place(*constant);
                    break (place, true, self.types.get(place));
                }
                _ => return None,
            };
        };
        let (root, is_followed, mut value) = root;
        path.reverse();
        for key in &path {
            let fields = value.fields()?;
            value = match fields.get(key) {
                Some(field) if value.kinds() == Kinds::OBJECT => field.clone(),
                // `?.` gives null, everything else is an error.
                None if fields.is_complete && value.kinds() == Kinds::OBJECT => Type::NULL,
                _ => return None,
            };
        }
        Some(Place { root, path, is_followed, value })
    }
}

/// A type of which a field of a field is known better.
fn replaced(whole: &Type, path: &[Arc<str>], part: Type) -> Type {
    let Some((key, rest)) = path.split_first() else { return part };
    let Some(fields) = whole.fields() else { return whole.clone() };
    let Some(field) = fields.get(key) else { return whole.clone() };
    let mut fields: Fields = fields.clone();
    fields.set(key, replaced(field, rest, part));
    whole.with_fields(fields)
}

/// What equals a literal, and whether nothing else is of these kinds.
fn kinds_of(literal: &Expr) -> Option<(Kinds, bool)> {
    Some(match &literal.kind {
        ExprKind::Null => (Kinds::NULL, true),
        ExprKind::Bool(true) => (Kinds::TRUE, true),
        ExprKind::Bool(false) => (Kinds::FALSE, true),
        ExprKind::Int(_) | ExprKind::Float(_) => (Kinds::NUMBER, false),
        // A promise equals the text of its id.
        ExprKind::Str(_) | ExprKind::Template(_) => (Kinds::STRING.or(Kinds::PROMISE), false),
        ExprKind::List(_) => (Kinds::LIST, false),
        ExprKind::Object(_) => (Kinds::OBJECT, false),
        _ => return None,
    })
}
