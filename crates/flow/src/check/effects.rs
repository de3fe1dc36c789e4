//! Effects of functions: which ones queries, validators and conditions may not call (F0212).

use std::collections::VecDeque;

use super::Checker;
use crate::hir;
use crate::syntax::token::Span;

/// What a piece of code does besides giving a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    #[default]
    None,
    /// Its value depends on the time.
    Time,
    /// It changes something outside of itself.
    Effect,
}

/// Effects of a function.
#[derive(Debug, Default)]
pub(super) struct Effects {
    /// Those in its own body and the arrows in it.
    own: Vec<(Level, Span)>,
    /// Functions of the script that it calls.
    calls: Vec<(hir::FunctionId, Span)>,
    /// `query`, `validator` or `condition` if it must not have effects.
    pub forbidden_in: Option<&'static str>,
}

impl Effects {
    /// A function is called from here.
    pub fn add_call(&mut self, function: hir::FunctionId, span: Span) {
        self.calls.push((function, span));
    }
}

impl Checker<'_> {
    /// The code being walked has an effect. One on a variable is none for the function that owns it.
    pub fn note_effect(&mut self, level: Level, span: Span, owner: Option<hir::FunctionId>) {
        for context in self.contexts.iter().rev() {
            if owner == Some(context.function) {
                break;
            }
            self.functions[context.function].effects.own.push((level, span));
        }
    }

    /// The code being walked calls a function.
    pub fn note_call(&mut self, function: hir::FunctionId, span: Span) {
        if self.functions[function].is_async {
            self.note_effect(Level::Effect, span, None);
        }
        for context in self.contexts.iter().rev() {
            self.functions[context.function].effects.calls.push((function, span));
        }
    }

    /// Reports effects where there must be none.
    pub fn report_effects(&mut self) {
        let levels = self.levels();
        let mut found = Vec::new();
        for function in &self.functions {
            let Some(place) = function.effects.forbidden_in else { continue };
            let allowed = if place == "condition" { Level::None } else { Level::Time };
            let calls = function.effects.calls.iter().map(|(callee, span)| (levels[*callee], *span));
            let all = function.effects.own.iter().copied().chain(calls);
            found.extend(all.filter(|(level, _)| *level > allowed).map(|(level, span)| (place, level, span)));
        }
        for (place, level, span) in found {
            let hint = (level == Level::Time).then_some("Task.delayUntil");
            self.error_with("F0212", format!("no effects allowed in a {place}"), span, hint);
        }
    }

    /// The effects of each function, those of the functions it calls included.
    fn levels(&self) -> Vec<Level> {
        let mut callers = vec![Vec::new(); self.functions.len()];
        let mut levels = Vec::with_capacity(self.functions.len());
        for (id, function) in self.functions.iter().enumerate() {
            levels.push(function.effects.own.iter().map(|(level, _)| *level).max().unwrap_or_default());
            for (callee, _) in &function.effects.calls {
                callers[*callee].push(id);
            }
        }
        let mut changed: VecDeque<_> = (0..levels.len()).collect();
        while let Some(id) = changed.pop_front() {
            for caller in &callers[id] {
                if levels[*caller] < levels[id] {
                    levels[*caller] = levels[id];
                    changed.push_back(*caller);
                }
            }
        }
        levels
    }
}
