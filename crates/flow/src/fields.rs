//! The fields of an object in order of insertion. Most objects have a few fields, for which looking at each is faster
//! than hashing; larger ones get an index.

use std::collections::HashMap;
use std::sync::Arc;

use crate::value::Value;

/// From this many fields on there is an index.
pub(crate) const INDEXED_FROM: usize = 16;

/// Keys and values.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fields {
    entries: Vec<(Arc<str>, Value)>,
    /// Places by key. The hash function is keyed at random, so that an attacker cannot choose keys that collide;
    /// nothing depends on its order.
    index: Option<HashMap<Arc<str>, usize>>,
}

impl Fields {
    pub(crate) fn with_capacity(count: usize) -> Self {
        Self { entries: Vec::with_capacity(count), index: None }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Value)> {
        self.entries.iter().map(|(key, value)| (key, value))
    }

    pub(crate) const fn len(&self) -> usize {
        self.entries.len()
    }

    fn find(&self, key: &str) -> Option<usize> {
        match &self.index {
            Some(index) => index.get(key).copied(),
            None => self.entries.iter().position(|(known, _)| **known == *key),
        }
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        self.find(key).and_then(|place| self.entries.get(place)).map(|(_, value)| value)
    }

    pub(crate) fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        self.find(key).and_then(|place| self.entries.get_mut(place)).map(|(_, value)| value)
    }

    /// Sets a field and gives its old value; one that exists keeps its place.
    pub(crate) fn insert(&mut self, key: Arc<str>, value: Value) -> Option<Value> {
        if let Some(known) = self.get_mut(&key) {
            return Some(std::mem::replace(known, value));
        }
        if let Some(index) = &mut self.index {
            index.insert(key.clone(), self.entries.len());
        }
        self.entries.push((key, value));
        if self.index.is_none() && self.entries.len() >= INDEXED_FROM {
            self.build_index();
        }
        None
    }

    /// Removes a field; the others keep their order.
    pub(crate) fn remove(&mut self, key: &str) -> Option<Value> {
        let place = self.find(key)?;
        let (key, value) = self.entries.remove(place);
        if self.entries.len() < INDEXED_FROM {
            self.index = None;
        } else if let Some(index) = &mut self.index {
            index.remove(&key);
            index.values_mut().filter(|other| **other > place).for_each(|other| *other -= 1);
        }
        Some(value)
    }

    fn build_index(&mut self) {
        let places = self.entries.iter().enumerate().map(|(place, (key, _))| (key.clone(), place));
        self.index = Some(places.collect());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_and_large_objects_are_the_same() {
        for count in [0, 3, INDEXED_FROM - 1, INDEXED_FROM, 100] {
            let mut fields = Fields::default();
            for number in 0..count {
                assert!(fields.insert(format!("k{number}").into(), Value::Int(0)).is_none());
            }
            for number in (0..count).rev() {
                assert!(fields.insert(format!("k{number}").into(), Value::Int(number as i64)).is_some());
            }
            let keys: Vec<String> = fields.iter().map(|(key, _)| key.to_string()).collect();
            assert_eq!(keys, (0..count).map(|number| format!("k{number}")).collect::<Vec<_>>());
            for number in 0..count {
                let key = format!("k{number}");
                assert!(matches!(fields.get(&key), Some(Value::Int(value)) if *value == number as i64));
                assert!(fields.remove(&key).is_some());
                assert!(fields.get(&key).is_none() && fields.remove(&key).is_none());
                assert_eq!(fields.len(), count - number - 1);
            }
        }
    }
}
