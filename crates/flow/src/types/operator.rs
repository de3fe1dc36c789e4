//! Operators.

use crate::diagnostic::Position;
use crate::hir::{Binary, Expr, Operation, Operator};

use super::kind::Kinds;
use super::pass::Pass;
use super::report::{CONDITION, OPERATOR, words};
use super::value_type::Type;

/// What `+` joins with a string.
const JOINS: Kinds = Kinds::STRING.or(Kinds::NUMBER).or(Kinds::BOOLEAN);

/// Where right sides that may be skipped began.
struct Skip {
    begin: usize,
    was_dead: bool,
}

impl Pass<'_> {
    /// An expression where a condition stands. Gives its type.
    pub fn condition(&mut self, condition: &Expr) -> Type {
        let value = self.expr(condition);
        self.check_condition(value, condition.at)
    }

    /// A value that is used as a condition.
    pub fn check_condition(&mut self, value: Type, at: Position) -> Type {
        if !self.is_wrong(&value, Kinds::CONDITION) {
            return value;
        }
        let example = match value.kinds() {
            Kinds::NUMBER => "compare it, for example x != 0",
            Kinds::STRING => "compare it, for example s != \"\"",
            Kinds::LIST => "compare it, for example list.length > 0",
            Kinds::PROMISE => "await it",
            _ => "compare it, for example x != null",
        };
        let hint = format!("a {} is not a condition; {example}", words(&value));
        self.error(CONDITION, "this can never be a condition", at, Some(&hint))
    }

    /// Operators one after the other.
    pub fn operators(&mut self, first: &Expr, rest: &[Operation]) -> Type {
        let mut left = self.expr(first);
        let mut left_at = first.at;
        // The right sides of `&&` in a row, or of `||`, are one branch: each is reached if all before it go on.
        let mut skipping: Option<(Operator, Skip)> = None;
        for (place, operation) in rest.iter().enumerate() {
            let operator = operation.operator;
            if skipping.as_ref().is_some_and(|(open, _)| *open != operator) {
                self.end_skip(skipping.take());
            }
            if let Operator::Binary(operator) = operator {
                let right = self.expr(&operation.right);
                left = self.binary(operator, &left, &right, operation.at);
            } else {
                let stops = match operator {
                    Operator::And => Kinds::FALSY,
                    Operator::Or => Kinds::TRUTHY,
                    _ => Kinds::ALL.without(Kinds::NULL),
                };
                if operator != Operator::Default {
                    left = self.check_condition(left, left_at);
                }
                let goes_on = operator == Operator::And;
                let is_first = skipping.is_none();
                if is_first {
                    skipping = Some((operator, self.begin_skip()));
                }
                match operator {
                    Operator::Default => self.is_dead |= !left.kinds().has(Kinds::NULL),
                    _ => {
                        self.assume_possible(&left, goes_on);
                        match rest[..place].last() {
                            // What stands before it has been taken into account already.
                            Some(before) if !is_first => self.assume_holds(&before.right, goes_on),
                            _ => self.assume_operators(first, &rest[..place], goes_on),
                        }
                    }
                }
                let right = self.expr(&operation.right);
                let right = if self.is_dead { Type::NEVER } else { right };
                left = left.only(stops).join(&right);
            }
            left_at = operation.at;
            self.note(operation.at, &left);
        }
        self.end_skip(skipping);
        left
    }

    fn begin_skip(&self) -> Skip {
        Skip { begin: self.types.begin(), was_dead: self.is_dead }
    }

    /// What was found out in right sides is forgotten.
    fn end_skip(&mut self, skip: Option<(Operator, Skip)>) {
        if let Some((_, Skip { begin, was_dead })) = skip {
            drop(self.types.undo(begin, false));
            self.is_dead = was_dead;
        }
    }

    /// An operator that computes its value from both operands. `at`: where it stands.
    pub fn binary(&mut self, operator: Binary, left: &Type, right: &Type, at: Position) -> Type {
        if left.is_never() || right.is_never() {
            return Type::NEVER;
        }
        let both = |kinds: Kinds| left.kinds().has(kinds) && right.kinds().has(kinds);
        match operator {
            Binary::Equal | Binary::NotEqual => equality(operator, left, right),
            Binary::Less | Binary::LessOrEqual | Binary::Greater | Binary::GreaterOrEqual => {
                if both(Kinds::NUMBER) || both(Kinds::STRING) {
                    return Type::BOOLEAN;
                }
                let message = format!("cannot compare {} and {}", words(left), words(right));
                let hint = awaits(left).or(awaits(right)).unwrap_or("< and its kin take two numbers or two strings");
                self.error(OPERATOR, message, at, Some(hint))
            }
            Binary::In => {
                if left.kinds().has(Kinds::STRING) && right.kinds().has(Kinds::OBJECT) {
                    return Type::BOOLEAN;
                }
                let message = format!("in takes a string and an object, not {} and {}", words(left), words(right));
                let hint =
                    if right.kinds() == Kinds::LIST { "write list.includes(x)" } else { "write \"key\" in object" };
                self.error(OPERATOR, message, at, awaits(right).or(Some(hint)))
            }
            Binary::Add => {
                let mut sum = Kinds::NONE;
                if both(Kinds::NUMBER) {
                    sum = sum.or(Kinds::NUMBER);
                }
                let joins = |one: &Type, other: &Type| one.kinds().has(Kinds::STRING) && other.kinds().has(JOINS);
                if joins(left, right) || joins(right, left) {
                    sum = sum.or(Kinds::STRING);
                }
                if !sum.is_empty() {
                    return Type::of(sum);
                }
                let hint = awaits(left).or(awaits(right)).unwrap_or(match (left.kinds(), right.kinds()) {
                    (Kinds::LIST, _) | (_, Kinds::LIST) => "write [...list, x], or list.concat(other)",
                    (Kinds::OBJECT, Kinds::OBJECT) => "write { ...a, ...b }",
                    _ => "+ adds numbers and joins strings with strings, numbers and booleans",
                });
                self.error(OPERATOR, format!("cannot add {} and {}", words(left), words(right)), at, Some(hint))
            }
            Binary::Subtract | Binary::Multiply | Binary::Divide | Binary::Remainder => {
                if both(Kinds::NUMBER) {
                    return Type::NUMBER;
                }
                let symbol = match operator {
                    Binary::Subtract => "-",
                    Binary::Multiply => "*",
                    Binary::Divide => "/",
                    _ => "%",
                };
                let wrong = if left.kinds().has(Kinds::NUMBER) { right } else { left };
                self.takes_numbers(symbol, wrong, at)
            }
        }
    }

    /// `-x`.
    pub fn negate(&mut self, value: &Type, at: Position) -> Type {
        if self.is_wrong(value, Kinds::NUMBER) { self.takes_numbers("-", value, at) } else { Type::NUMBER }
    }

    fn takes_numbers(&mut self, symbol: &str, value: &Type, at: Position) -> Type {
        let hint = awaits(value).or((value.kinds() == Kinds::STRING).then_some("write Number(text)"));
        self.error(OPERATOR, format!("{symbol} takes numbers, not {}", words(value)), at, hint)
    }
}

fn awaits(value: &Type) -> Option<&'static str> {
    (value.kinds() == Kinds::PROMISE).then_some("await it first")
}

/// `==` and `!=` take anything. Values of different kinds are never equal, but for a promise and the text of its id.
fn equality(operator: Binary, left: &Type, right: &Type) -> Type {
    let mixed = Kinds::STRING.or(Kinds::PROMISE);
    let (left, right) = (left.kinds(), right.kinds());
    let may_be_equal = left.has(right) || left.has(mixed) && right.has(mixed);
    let must_be_equal = left == right && [Kinds::NULL, Kinds::TRUE, Kinds::FALSE].contains(&left);
    let if_equal = if operator == Binary::Equal { Kinds::TRUE } else { Kinds::FALSE };
    match (may_be_equal, must_be_equal) {
        (false, _) => Type::of(Kinds::BOOLEAN.without(if_equal)),
        (true, true) => Type::of(if_equal),
        (true, false) => Type::BOOLEAN,
    }
}
