//! Expressions.

use crate::hir::{Callee, Expr, ExprKind, ListItem, ObjectItem, TemplatePart};

use super::kind::Kinds;
use super::pass::Pass;
use super::report::{ACCESS, PARTS, words};
use super::value_type::{Fields, Type};

impl Pass<'_> {
    /// The type of an expression.
    pub fn expr(&mut self, expr: &Expr) -> Type {
        self.chain(expr).0
    }

    /// The type of accesses and calls one after the other, and whether a `?.` among them may skip the rest.
    fn chain(&mut self, expr: &Expr) -> (Type, bool) {
        let mut steps = Vec::new();
        let mut first = expr;
        while let Some(base) = first.base() {
            steps.push(first);
            first = base;
        }
        let mut value = self.first(first);
        let mut may_skip = false;
        for step in steps.into_iter().rev() {
            value = self.step(step, &value, &mut may_skip);
            self.note(step.at, &value);
        }
        (value, may_skip)
    }

    /// An access or a call of a function of a value.
    fn step(&mut self, step: &Expr, base: &Type, may_skip: &mut bool) -> Type {
        use crate::hir::Access;
        let (ExprKind::Field { access, .. }
        | ExprKind::Index { access, .. }
        | ExprKind::Call { callee: Callee::Method { access, .. }, .. }) = &step.kind
        else {
            return Type::UNKNOWN;
        };
        *may_skip |= *access == Access::Optional && base.kinds().has(Kinds::NULL);
        match &step.kind {
            ExprKind::Field { key, .. } => self.field(base, key, *access, step.at),
            ExprKind::Index { index, .. } => self.index(base, index, *access, step.at),
            ExprKind::Call { callee: Callee::Method { method, .. }, arguments } => {
                self.method(*method, base, *access, arguments, step.at)
            }
            _ => Type::UNKNOWN,
        }
    }

    /// An expression that is no [`Pass::step`].
    fn first(&mut self, expr: &Expr) -> Type {
        match &expr.kind {
            ExprKind::Null => Type::NULL,
            ExprKind::Bool(true) => Type::of(Kinds::TRUE),
            ExprKind::Bool(false) => Type::of(Kinds::FALSE),
            ExprKind::Int(_) | ExprKind::Float(_) => Type::NUMBER,
            ExprKind::Str(_) => Type::STRING,
            ExprKind::Template(parts) => {
                for part in parts {
                    if let TemplatePart::Expr(part) = part {
                        let value = self.expr(part);
                        self.check_printed(&value, part.at);
                    }
                }
                Type::STRING
            }
            ExprKind::List(items) => self.list(items),
            ExprKind::Object(items) => self.object(items),
            ExprKind::Variable(variable) => self.read(self.variable(*variable), expr),
            ExprKind::Constant(constant) => self.read(self.types.get(self.constant_place(*constant)), expr),
            ExprKind::Chain(inner) => {
                let (value, may_skip) = self.chain(inner);
                if may_skip { value.or_null() } else { value }
            }
            ExprKind::Call { callee, arguments } => self.call(callee, arguments, expr.at),
            ExprKind::Await(inner) => {
                let value = self.expr(inner);
                self.await_value(&value, expr.at)
            }
            ExprKind::Not(inner) => {
                let value = self.condition(inner);
                let mut negated = Kinds::NONE;
                for (from, to) in [(Kinds::TRUTHY, Kinds::FALSE), (Kinds::FALSY, Kinds::TRUE)] {
                    if value.kinds().has(from) {
                        negated = negated.or(to);
                    }
                }
                Type::of(negated)
            }
            ExprKind::Negate(inner) => {
                let value = self.expr(inner);
                self.negate(&value, expr.at)
            }
            ExprKind::Typeof(inner) => {
                self.expr(inner);
                Type::STRING
            }
            ExprKind::Binary { first, rest } => self.operators(first, rest),
            ExprKind::Conditional { arms, otherwise } => {
                let mut results = Type::NEVER;
                self.branch(|pass| {
                    for arm in arms {
                        let value = pass.condition(&arm.condition);
                        pass.branch(|pass| {
                            pass.assume(&arm.condition, &value, true);
                            let then = pass.expr(&arm.then);
                            if !pass.is_dead {
                                results = results.join(&then);
                            }
                        });
                        pass.assume(&arm.condition, &value, false);
                    }
                    let otherwise = pass.expr(otherwise);
                    if !pass.is_dead {
                        results = results.join(&otherwise);
                    }
                });
                results
            }
            ExprKind::Field { .. } | ExprKind::Index { .. } => Type::UNKNOWN,
        }
    }

    fn read(&mut self, value: Type, expr: &Expr) -> Type {
        self.note(expr.at, &value);
        value
    }

    fn list(&mut self, items: &[ListItem]) -> Type {
        let mut element = Type::NEVER;
        for item in items {
            let value = match item {
                ListItem::Item(item) => self.expr(item),
                ListItem::Spread(item) => {
                    let list = self.expr(item);
                    if self.is_wrong(&list, Kinds::LIST) {
                        self.error(PARTS, format!("cannot spread {} into a list", words(&list)), item.at, None);
                    }
                    list.element()
                }
            };
            element = element.join(&value);
        }
        Type::list(element)
    }

    fn object(&mut self, items: &[ObjectItem]) -> Type {
        let mut fields = Fields { known: Vec::new(), is_complete: true };
        for item in items {
            match item {
                ObjectItem::Field(key, value) => {
                    let value = self.expr(value);
                    fields.set(key, value);
                }
                ObjectItem::Computed(key, value) => {
                    let name = self.expr(key);
                    if self.is_wrong(&name, Kinds::STRING) {
                        self.error(ACCESS, format!("a key must be a string, not {}", words(&name)), key.at, None);
                    }
                    self.expr(value);
                    // It may be any of them.
                    fields = Fields::default();
                }
                ObjectItem::Spread(value) => {
                    let spread = self.expr(value);
                    if self.is_wrong(&spread, Kinds::OBJECT) {
                        let message = format!("cannot spread {} into an object", words(&spread));
                        self.error(PARTS, message, value.at, None);
                    }
                    match spread.fields() {
                        Some(others) if others.is_complete => {
                            others.known.iter().for_each(|(key, value)| fields.set(key, value.clone()));
                        }
                        // Fields that are not known may replace those before.
                        others => fields = Fields { is_complete: false, ..others.cloned().unwrap_or_default() },
                    }
                }
            }
        }
        Type::object(fields)
    }
}
