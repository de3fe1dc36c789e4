//! Maps with few entries: a sorted list. Thousands of runs wait in a worker's cache, and a node of a `BTreeMap` or a
//! table of a `HashMap` costs each of them hundreds of bytes for one entry.

use std::borrow::Borrow;

/// A map as a list, sorted by key.
#[derive(Clone)]
pub(crate) struct Sorted<K, V>(Vec<(K, V)>);

impl<K, V> Default for Sorted<K, V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K: Ord, V> Sorted<K, V> {
    fn find<Q: Ord + ?Sized>(&self, key: &Q) -> Result<usize, usize>
    where
        K: Borrow<Q>,
    {
        self.0.binary_search_by(|(there, _)| there.borrow().cmp(key))
    }

    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.find(key).ok().map(|index| &self.0[index].1)
    }

    pub fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        self.find(key).ok().map(|index| &mut self.0[index].1)
    }

    pub fn contains_key<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.find(key).is_ok()
    }

    /// Gives what was there.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        match self.find(&key) {
            Ok(index) => Some(std::mem::replace(&mut self.0[index].1, value)),
            Err(index) => {
                self.make_room();
                self.0.insert(index, (key, value));
                None
            }
        }
    }

    pub fn get_or_insert_with(&mut self, key: K, value: impl FnOnce() -> V) -> &mut V {
        let index = match self.find(&key) {
            Ok(index) => index,
            Err(index) => {
                self.make_room();
                self.0.insert(index, (key, value()));
                index
            }
        };
        &mut self.0[index].1
    }

    /// The first entry has room for itself alone: most workflows wait for one thing.
    fn make_room(&mut self) {
        if self.0.capacity() == 0 {
            self.0.reserve_exact(1);
        }
    }

    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let index = self.find(key).ok()?;
        let (_, value) = self.0.remove(index);
        if self.0.is_empty() {
            // Memory that a burst needed is not kept for the years that a workflow may wait.
            self.0 = Vec::new();
        }
        Some(value)
    }

    /// The entry with the smallest key.
    pub fn pop_first(&mut self) -> Option<(K, V)> {
        if self.0.is_empty() {
            return None;
        }
        let first = self.0.remove(0);
        if self.0.is_empty() {
            self.0 = Vec::new();
        }
        Some(first)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn clear(&mut self) {
        self.0 = Vec::new();
    }

    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.0.iter().map(|(key, value)| (key, value))
    }

    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.0.iter().map(|(key, _)| key)
    }

    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.0.iter().map(|(_, value)| value)
    }

    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.0.iter_mut().map(|(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_found_in_the_order_of_their_keys() {
        let mut map = Sorted::default();
        for key in [5, 1, 3, 4, 2] {
            assert_eq!(map.insert(key, key * 10), None);
        }
        assert_eq!(map.insert(3, 33), Some(30));
        assert_eq!(
            map.iter().map(|(key, value)| (*key, *value)).collect::<Vec<_>>(),
            [(1, 10), (2, 20), (3, 33), (4, 40), (5, 50)]
        );
        assert_eq!((map.get(&4), map.get(&6), map.contains_key(&1)), (Some(&40), None, true));
        *map.get_or_insert_with(6, || 0) += 1;
        *map.get_or_insert_with(6, || 0) += 1;
        assert_eq!(map.remove(&6), Some(2));
        assert_eq!((map.remove(&1), map.remove(&1), map.len()), (Some(10), None, 4));
        assert_eq!(map.pop_first(), Some((2, 20)));
        map.clear();
        assert_eq!(map.pop_first(), None);
        assert!(map.is_empty() && map.keys().next().is_none());
    }
}
