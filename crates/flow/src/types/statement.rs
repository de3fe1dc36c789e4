//! Statements.

use crate::hir::{Access, Arm, Block, Case, Catch, Expr, ExprKind, Statement, StatementKind, Step, Target, VariableId};

use super::environment::Branch;
use super::kind::Kinds;
use super::pass::Pass;
use super::report::{ACCESS, words};
use super::value_type::Type;

impl Pass<'_> {
    /// A block whose variables begin as null.
    pub fn block(&mut self, block: &Block) {
        for &variable in &block.variables {
            self.types.set(variable, Type::NULL);
        }
        self.statements(&block.statements);
    }

    fn statements(&mut self, statements: &[Statement]) {
        for statement in statements {
            self.statement(statement);
        }
    }

    fn statement(&mut self, statement: &Statement) {
        match &statement.kind {
            StatementKind::Block(block) => self.block(block),
            StatementKind::Let { pattern, value } => {
                let value = value.as_ref().map_or(Type::NULL, |value| self.expr(value));
                self.bind(pattern, value);
            }
            StatementKind::Assign { target, value } => {
                self.target_indexes(target);
                let value = self.expr(value);
                self.store(target, value);
            }
            StatementKind::Change { target, operator, value } => {
                self.target_indexes(target);
                let left = self.read_target(target, Access::Plain);
                let right = self.expr(value);
                let result = self.binary(*operator, &left, &right, statement.at);
                self.store(target, result);
            }
            StatementKind::Default { target, value } => {
                self.target_indexes(target);
                let before = self.read_target(target, Access::Soft);
                let branch = self.branch(|pass| {
                    pass.is_dead |= !before.kinds().has(Kinds::NULL);
                    let value = pass.expr(value);
                    pass.store(target, value);
                });
                let kept = self.branch(|pass| {
                    if target.path.is_empty() && pass.is_followed(target.variable) {
                        pass.types.set(target.variable, before.without(Kinds::NULL));
                    }
                });
                self.join(&[branch, kept]);
            }
            StatementKind::Delete(target) => {
                self.target_indexes(target);
                self.change_inside(target.variable);
            }
            StatementKind::If { arms, otherwise } => self.if_statement(arms, otherwise.as_ref()),
            StatementKind::While { condition, body } => {
                self.repeat(&body.statements, None, Some(condition), |pass| pass.block(body));
            }
            StatementKind::ForOf { pattern, list, body } => {
                let list_type = self.expr(list);
                let element = self.elements(&list_type, list.at);
                self.repeat(&body.statements, None, None, |pass| {
                    pass.is_dead |= element.is_never();
                    for &variable in &body.variables {
                        pass.types.set(variable, Type::NULL);
                    }
                    pass.bind(pattern, element);
                    pass.statements(&body.statements);
                });
            }
            StatementKind::For { variables, first, condition, next, body } => {
                for &variable in variables {
                    self.types.set(variable, Type::NULL);
                }
                if let Some(first) = first {
                    self.statement(first);
                }
                let unlimited = Expr { kind: ExprKind::Bool(true), at: statement.at };
                let condition = condition.as_ref().unwrap_or(&unlimited);
                self.repeat(&body.statements, next.as_deref(), Some(condition), |pass| {
                    let was_dead = pass.is_dead;
                    pass.block(body);
                    // `continue` goes on with the next round, too.
                    for variable in assigned_in(&body.statements) {
                        pass.widen(variable);
                    }
                    pass.is_dead = was_dead;
                    if let Some(next) = next {
                        pass.statement(next);
                    }
                });
            }
            StatementKind::Switch { value, cases } => self.switch(value, cases),
            StatementKind::Try { body, catch, finally } => self.try_statement(body, catch.as_ref(), finally.as_ref()),
            StatementKind::Throw(value) => {
                self.expr(value);
                self.is_dead = true;
            }
            StatementKind::Return(value) => {
                let value = value.as_ref().map_or(Type::NULL, |value| self.expr(value));
                if !self.is_dead {
                    self.returns = self.returns.join(&value);
                }
                self.is_dead = true;
            }
            StatementKind::Break => {
                if let Some(leaves) = self.breaks.last_mut() {
                    *leaves |= !self.is_dead;
                }
                self.is_dead = true;
            }
            StatementKind::Continue => self.is_dead = true,
            StatementKind::Expr(expr) => {
                self.expr(expr);
            }
        }
    }

    fn if_statement(&mut self, arms: &[Arm], otherwise: Option<&Block>) {
        let mut branches = Vec::new();
        let rest = self.branch(|pass| {
            for Arm { condition, then, .. } in arms {
                let value = pass.condition(condition);
                branches.push(pass.branch(|pass| {
                    pass.assume(condition, &value, true);
                    pass.block(then);
                }));
                pass.assume(condition, &value, false);
            }
            if let Some(otherwise) = otherwise {
                pass.block(otherwise);
            }
        });
        // Each branch was undone up to its condition: what the conditions before it ruled out is no change of its own.
        branches.push(rest);
        self.join(&branches);
    }

    /// A loop. `next` is the last part of a `for` header.
    fn repeat(
        &mut self,
        body: &[Statement],
        next: Option<&Statement>,
        condition: Option<&Expr>,
        round: impl FnOnce(&mut Self),
    ) {
        for variable in assigned_in(body).into_iter().chain(next.into_iter().flat_map(assigned_by)) {
            self.widen(variable);
        }
        self.breaks.push(false);
        let value = condition.map(|condition| self.condition(condition));
        let was_dead = self.is_dead;
        let rounds = self.branch(|pass| {
            if let (Some(condition), Some(value)) = (condition, &value) {
                pass.assume(condition, value, true);
            }
            round(pass);
        });
        drop(rounds);
        let leaves = self.breaks.pop().unwrap_or(false);
        // After `break` nothing is known about the condition.
        if !leaves && let (Some(condition), Some(value)) = (condition, &value) {
            self.assume(condition, value, false);
        }
        self.is_dead |= was_dead;
    }

    fn switch(&mut self, value: &Expr, cases: &[Case]) {
        let switched = self.expr(value);
        let mut branches: Vec<Branch> = Vec::new();
        self.breaks.push(false);
        let has_default = cases.iter().any(|case| case.is_default);
        for case in cases {
            for label in &case.labels {
                self.expr(label);
            }
        }
        for case in cases {
            branches.push(self.branch(|pass| {
                if case.is_default {
                    // The labels of the other cases do not hold. Those beside it may.
                    let others = cases.iter().filter(|other| !other.is_default).flat_map(|other| &other.labels);
                    let others: Vec<&Expr> = others.collect();
                    pass.assume_other(value, &others);
                } else {
                    let labels: Vec<&Expr> = case.labels.iter().collect();
                    pass.assume_one(value, &switched, &labels);
                }
                pass.block(&case.body);
            }));
        }
        if !has_default {
            branches.push(self.branch(|pass| {
                let labels: Vec<&Expr> = cases.iter().flat_map(|case| &case.labels).collect();
                pass.assume_other(value, &labels);
            }));
        }
        let was_dead = self.is_dead;
        self.join(&branches);
        if self.breaks.pop().unwrap_or(false) {
            self.is_dead = was_dead;
            for variable in cases.iter().flat_map(|case| assigned_in(&case.body.statements)) {
                self.widen(variable);
            }
        }
    }

    fn try_statement(&mut self, body: &Block, catch: Option<&Catch>, finally: Option<&Block>) {
        let was_dead = self.is_dead;
        self.catches += usize::from(catch.is_some());
        let mut branches = vec![self.branch(|pass| pass.block(body))];
        self.catches -= usize::from(catch.is_some());
        if let Some(catch) = catch {
            branches.push(self.branch(|pass| {
                // It may begin after any statement of the body.
                for variable in assigned_in(&body.statements) {
                    pass.widen(variable);
                }
                for &variable in &catch.body.variables {
                    pass.types.set(variable, Type::NULL);
                }
                if let Some(variable) = catch.variable {
                    pass.assign(variable, Self::caught(), true);
                    pass.note_variable(variable);
                }
                pass.statements(&catch.body.statements);
            }));
        }
        let Some(finally) = finally else { return self.join(&branches) };
        let ends = branches.iter().any(|branch| !branch.is_dead);
        for variable in assigned_in(&body.statements) {
            self.widen(variable);
        }
        for variable in catch.into_iter().flat_map(|catch| assigned_in(&catch.body.statements)) {
            self.widen(variable);
        }
        self.block(finally);
        self.is_dead |= !ends || was_dead;
    }

    /// An object that was thrown.
    fn caught() -> Type {
        Type::object(super::call::known_fields(crate::library::ERROR_FIELDS))
    }

    /// The indexes of a path.
    pub fn target_indexes(&mut self, target: &Target) {
        for step in &target.path {
            if let Step::Index(index) = step {
                self.expr(index);
            }
        }
        self.note(target.at, &self.variable(target.variable));
    }

    /// What a target holds. `last`: how its last step is accessed.
    pub fn read_target(&mut self, target: &Target, last: Access) -> Type {
        let mut value = self.variable(target.variable);
        for (place, step) in target.path.iter().enumerate() {
            let access = if place + 1 == target.path.len() { last } else { Access::Plain };
            value = match step {
                Step::Field(key) => self.field(&value, key, access, target.at),
                // Its index has been walked already.
                Step::Index(_) => Type::UNKNOWN,
            };
        }
        value
    }

    /// Sets a target.
    fn store(&mut self, target: &Target, value: Type) {
        let Some((last, path)) = target.path.split_last() else { return self.assign(target.variable, value, false) };
        self.change_inside(target.variable);
        let base = Target { variable: target.variable, path: path.to_vec(), at: target.at };
        let base = self.read_target(&base, Access::Plain);
        match last {
            Step::Field(key) if self.is_wrong(&base, Kinds::OBJECT) => {
                self.no_field(&base, key, target.at);
            }
            Step::Index(_) if self.is_wrong(&base, Kinds::OBJECT.or(Kinds::LIST)) => {
                self.error(ACCESS, format!("a {} cannot be changed", words(&base)), target.at, None);
            }
            _ => {}
        }
    }
}

/// Variables that statements assign as a whole. Those of arrows in them do not count: they are captured, and nothing is
/// concluded from the order of their assignments.
fn assigned_in(statements: &[Statement]) -> Vec<VariableId> {
    let mut found = Vec::new();
    statements.iter().for_each(|statement| find_assigned(statement, &mut found));
    found.sort_unstable();
    found.dedup();
    found
}

fn assigned_by(statement: &Statement) -> Vec<VariableId> {
    assigned_in(std::slice::from_ref(statement))
}

fn find_assigned(statement: &Statement, found: &mut Vec<VariableId>) {
    let mut all = |statements: &[Statement]| statements.iter().for_each(|statement| find_assigned(statement, found));
    match &statement.kind {
        StatementKind::Assign { target, .. }
        | StatementKind::Change { target, .. }
        | StatementKind::Default { target, .. } => {
            if target.path.is_empty() {
                found.push(target.variable);
            }
        }
        StatementKind::Block(block) => all(&block.statements),
        StatementKind::If { arms, otherwise } => {
            arms.iter().for_each(|arm| all(&arm.then.statements));
            otherwise.iter().for_each(|block| all(&block.statements));
        }
        StatementKind::While { body, .. } | StatementKind::ForOf { body, .. } => all(&body.statements),
        StatementKind::For { first, next, body, .. } => {
            all(&body.statements);
            for part in first.iter().chain(next) {
                all(std::slice::from_ref(part));
            }
        }
        StatementKind::Switch { cases, .. } => cases.iter().for_each(|case| all(&case.body.statements)),
        StatementKind::Try { body, catch, finally } => {
            all(&body.statements);
            catch.iter().for_each(|catch| all(&catch.body.statements));
            finally.iter().for_each(|finally| all(&finally.statements));
        }
        StatementKind::Let { .. }
        | StatementKind::Delete(_)
        | StatementKind::Throw(_)
        | StatementKind::Return(_)
        | StatementKind::Break
        | StatementKind::Continue
        | StatementKind::Expr(_) => {}
    }
}
