//! The types of variables and constants while code is walked, with a trail of changes, so that a branch is undone in the time
//! that its own changes took.

use std::collections::BTreeMap;

use super::value_type::Type;

/// What is known about variables and constants here.
pub(super) struct Environment {
    types: Vec<Type>,
    /// What was there before each change.
    trail: Vec<(usize, Type)>,
}

/// How a branch ended.
pub(super) struct Branch {
    /// What it changed, each place once.
    changes: Vec<(usize, Type)>,
    /// Whether its end is never reached.
    pub is_dead: bool,
}

impl Environment {
    /// All are null.
    pub fn new(count: usize) -> Self {
        Self { types: vec![Type::NULL; count], trail: Vec::new() }
    }

    pub fn get(&self, place: usize) -> Type {
        self.types.get(place).cloned().unwrap_or(Type::UNKNOWN)
    }

    pub fn set(&mut self, place: usize, to: Type) {
        if let Some(value) = self.types.get_mut(place) {
            self.trail.push((place, std::mem::replace(value, to)));
        }
    }

    /// Where a branch begins.
    pub const fn begin(&self) -> usize {
        self.trail.len()
    }

    /// Undoes everything since then.
    pub fn undo(&mut self, begin: usize, is_dead: bool) -> Branch {
        let mut places: Vec<usize> = self.trail.iter().skip(begin).map(|(place, _)| *place).collect();
        places.sort_unstable();
        places.dedup();
        let changes = places.into_iter().map(|place| (place, self.get(place))).collect();
        for (place, before) in self.trail.drain(begin..).rev() {
            if let Some(value) = self.types.get_mut(place) {
                *value = before;
            }
        }
        Branch { changes, is_dead }
    }

    /// Goes on after one of these branches, of which at least one comes to its end.
    pub fn join(&mut self, branches: &[Branch]) {
        let live: Vec<&Branch> = branches.iter().filter(|branch| !branch.is_dead).collect();
        let mut joined: BTreeMap<usize, (Type, usize)> = BTreeMap::new();
        for (place, value) in live.iter().flat_map(|branch| &branch.changes) {
            joined
                .entry(*place)
                .and_modify(|(known, count)| {
                    *known = known.join(value);
                    *count += 1;
                })
                .or_insert_with(|| (value.clone(), 1));
        }
        for (place, (mut value, count)) in joined {
            if count < live.len() {
                value = value.join(&self.get(place));
            }
            self.set(place, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_join() {
        let mut types = Environment::new(3);
        types.set(0, Type::NUMBER);
        let begin = types.begin();
        types.set(0, Type::STRING);
        types.set(1, Type::STRING);
        types.set(1, Type::NUMBER);
        let one = types.undo(begin, false);
        assert_eq!((types.get(0), types.get(1)), (Type::NUMBER, Type::NULL));
        types.set(2, Type::BOOLEAN);
        let two = types.undo(begin, false);
        types.set(0, Type::list(Type::NUMBER));
        let dead = types.undo(begin, true);
        types.join(&[one, two, dead]);
        assert_eq!(types.get(0), Type::NUMBER.join(&Type::STRING));
        assert_eq!(types.get(1), Type::NUMBER.or_null());
        assert_eq!(types.get(2), Type::BOOLEAN.or_null());
    }
}
