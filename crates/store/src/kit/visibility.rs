//! Random lists and counts on a backend and on the store in memory, while runs begin and close.
//!
//! Values come from small pools, so that filters often find something and orders have many ties. What is compared:
//! every page, every count. What is checked besides: no list shows a run twice, and none leaves out a run that fitted
//! the filter from its first page to its last.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::{Make, Random, row};
use crate::visibility::{
    Attribute, Closed, Comparison, Filter, Kind, ListPage, ListQuery, Order, Retry, Value, VisibilityRow,
};
use crate::{Commit, MemoryStore, NamespaceKey, RunKey, RunWrite, Store, Wait};

const KINDS: [Kind; 7] =
    [Kind::Keyword, Kind::KeywordList, Kind::Text, Kind::Int, Kind::Double, Kind::Bool, Kind::Datetime];
const TEXTS: [&str; 9] = ["", "a", "A", "ab", "a_b", "b%", "é\0x", "The quick fox", "quick-fox brown"];
const INTS: [i64; 7] = [0, 1, -5, 7, i64::MAX - 1, i64::MIN, 9_007_199_254_740_993];
const DOUBLES: [f64; 8] = [0.0, 1.0, -2.5, 0.1 + 0.2, 1.0 / 3.0, 1e300, 5e-324, 9_007_199_254_740_992.0];
const SYSTEM: [Attribute; 20] = [
    Attribute::WorkflowId,
    Attribute::RunId,
    Attribute::WorkflowType,
    Attribute::ExecutionStatus,
    Attribute::StartTime,
    Attribute::ExecutionTime,
    Attribute::CloseTime,
    Attribute::ExecutionDuration,
    Attribute::TaskQueue,
    Attribute::HistoryLength,
    Attribute::HistorySizeBytes,
    Attribute::StateTransitionCount,
    Attribute::ParentWorkflowId,
    Attribute::ParentRunId,
    Attribute::RootWorkflowId,
    Attribute::RootRunId,
    Attribute::ActivityAttempts,
    Attribute::ActivityLastFailure,
    Attribute::WorkflowTaskAttempts,
    Attribute::WorkflowTaskLastFailure,
];

/// How a page is asked for.
type PageReader = fn(&dyn Store, &ListQuery) -> ListPage;

/// `steps` changes of the sequence that `seed` gives, with a list or a count after each few.
pub(super) fn run(make: Make<'_>, seed: u64, steps: u64) {
    run_asking(make, seed, steps, |store, query| store.list(query).wait().unwrap());
}

fn run_asking(make: Make<'_>, seed: u64, steps: u64, ask: PageReader) {
    let mut test = make();
    let mut world =
        World { model: MemoryStore::new(), random: Random::new(seed), clock: 1_000, keys: 0, by_status: false, ask };
    let mut done = 0;
    while done < steps {
        if world.random.once_in(100) {
            test.reopen();
        }
        let store = test.store();
        for _ in 0..=world.random.below(5) {
            world.change(&*store);
            done += 1;
        }
        let place = format!("seed {seed}, step {done}");
        let namespace = world.namespace();
        let filter = world.filter(3);
        if world.random.once_in(3) {
            let group = world.random.once_in(2).then(|| world.attribute());
            let count = |store: &dyn Store| store.count(namespace, &filter, group).wait().unwrap();
            assert_eq!(count(&*store), count(&world.model), "{place}: count {filter:?} by {group:?}");
        } else {
            world.list(&*store, namespace, filter, &place);
        }
    }
}

struct World {
    model: MemoryStore,
    random: Random,
    clock: i64,
    keys: u64,
    /// A list by status is under way.
    by_status: bool,
    ask: PageReader,
}

impl World {
    /// Reads a list page by page, changing the world in between.
    fn list(&mut self, store: &dyn Store, namespace: NamespaceKey, filter: Filter, place: &str) {
        let order = match self.random.below(4) {
            0 => Order::Newest,
            1 => Order::Newest,
            2 => Order::Ascending(self.attribute()),
            _ => Order::Descending(self.attribute()),
        };
        let mut query = ListQuery { namespace, filter, order, as_of: self.clock, after: None, limit: 0 };
        self.by_status = order.attribute() == Some(Attribute::ExecutionStatus);
        let mut shown = Vec::new();
        let mut always = self.fitting(&query);
        loop {
            query.limit = if self.random.once_in(3) { 40 } else { 1 + self.random.below(6) as usize };
            let page = (self.ask)(store, &query);
            assert_eq!(page, self.model.list(&query).wait().unwrap(), "{place}: {query:?}");
            shown.extend(page.runs.iter().map(|run| run.key));
            query.after = page.next;
            if query.after.is_none() {
                break;
            }
            for _ in 0..self.random.below(4) {
                self.clock += 1;
                if self.random.once_in(2) { self.begin(store) } else { self.close(store) }
            }
            let fitting = self.fitting(&query);
            always.retain(|key| fitting.contains(key));
        }
        self.by_status = false;
        // These may lose their value at any time, and with it their place.
        let unsteady = [
            Attribute::ActivityAttempts,
            Attribute::ActivityLastFailure,
            Attribute::WorkflowTaskAttempts,
            Attribute::WorkflowTaskLastFailure,
        ];
        if order.attribute().is_some_and(|attribute| unsteady.contains(&attribute)) {
            return;
        }
        let distinct: BTreeSet<_> = shown.iter().copied().collect();
        assert_eq!(distinct.len(), shown.len(), "{place}: shown twice: {query:?}");
        let missing: Vec<_> = always.difference(&distinct).collect();
        assert!(missing.is_empty(), "{place}: left out {missing:?}: {query:?}");
    }

    /// All runs that fit now.
    fn fitting(&self, query: &ListQuery) -> BTreeSet<RunKey> {
        let all = ListQuery { after: None, limit: usize::MAX, order: Order::Newest, ..query.clone() };
        self.model.list(&all).wait().unwrap().runs.into_iter().map(|run| run.key).collect()
    }

    fn change(&mut self, store: &dyn Store) {
        self.clock += self.random.below(3) as i64;
        match self.random.below(10) {
            0..=3 => self.begin(store),
            4..=6 => self.close(store),
            7..=8 => self.update(store),
            _ => {
                let key = RunKey(1 + self.random.below(self.keys + 1));
                let delete = Commit { delete_runs: vec![key], ..Commit::default() };
                assert_eq!(store.commit(vec![delete.clone()]).wait(), self.model.commit(vec![delete]).wait());
            }
        }
    }

    fn begin(&mut self, store: &dyn Store) {
        self.keys += 1;
        let key = self.keys;
        let other = |world: &mut Self| {
            world.random.once_in(3).then(|| (format!("w-{}", world.random.below(7)), super::run_id(key / 2)))
        };
        let facts = VisibilityRow {
            namespace: self.namespace(),
            workflow_id: if self.random.once_in(2) { self.text() } else { format!("w-{}", key % 7) },
            start_time: self.clock,
            execution_time: self.clock + self.random.below(3) as i64,
            status: if self.random.once_in(10) { 8 } else { 1 },
            parent: other(self),
            root: other(self),
            attributes: self.attributes(),
            activity_retry: self.retry(),
            task_retry: self.retry(),
            ..row(key)
        };
        self.write(store, 0, facts);
    }

    fn close(&mut self, store: &dyn Store) {
        let Some((version, mut facts)) = self.some_open_run() else { return };
        if self.by_status && facts.status != 1 {
            // That it was paused when the list began is forgotten.
            return;
        }
        facts.status = 2 + self.random.below(6) as i32;
        facts.closed = Some(Closed {
            time: self.clock,
            history_length: self.random.below(4) as i64,
            history_bytes: self.random.below(4) as i64,
            transitions: self.random.below(4) as i64,
        });
        facts.activity_retry = None;
        facts.task_retry = None;
        self.write(store, version, facts);
    }

    fn update(&mut self, store: &dyn Store) {
        let Some((version, mut facts)) = self.some_open_run() else { return };
        facts.attributes = self.attributes();
        facts.activity_retry = self.retry();
        facts.task_retry = self.retry();
        self.write(store, version, facts);
    }

    fn write(&mut self, store: &dyn Store, expected_version: u64, facts: VisibilityRow) {
        let write = RunWrite {
            key: facts.key,
            expected_version,
            state: Bytes::from(format!("{} {}", facts.key.0, expected_version)),
            open: facts.closed.is_none(),
            wake_at: None,
            dispatchable: false,
            batches: Vec::new(),
            visibility: Some(Box::new(facts)),
        };
        let commit = [Commit { runs: vec![write], ..Commit::default() }];
        assert_eq!(store.commit(commit.to_vec()).wait(), [Ok(())]);
        assert_eq!(self.model.commit(commit.to_vec()).wait(), [Ok(())]);
    }

    fn some_open_run(&mut self) -> Option<(u64, VisibilityRow)> {
        let after = RunKey(self.random.below(self.keys + 1));
        let found = self.model.open_runs(Some(after), 1).wait().unwrap();
        let run = found.into_iter().chain(self.model.open_runs(None, 1).wait().unwrap()).next()?;
        Some((self.model.load(run.key).wait().unwrap()?.version, self.model.facts(run.key).wait().unwrap()?))
    }

    fn namespace(&mut self) -> NamespaceKey {
        NamespaceKey(if self.random.once_in(5) { 2 } else { 1 })
    }

    fn retry(&mut self) -> Option<Retry> {
        let failure = self.random.once_in(2).then(|| self.text());
        self.random.once_in(4).then(|| Retry { attempt: 2 + self.random.below(3) as i32, failure })
    }

    fn attributes(&mut self) -> BTreeMap<u32, Value> {
        let mut attributes = BTreeMap::new();
        for (number, kind) in (1_000..).zip(KINDS) {
            if self.random.once_in(2) {
                attributes.insert(number, self.stored(kind));
            }
        }
        if self.random.once_in(10) {
            attributes.insert(1, Value::Text("division".to_owned()));
        }
        attributes
    }

    fn stored(&mut self, kind: Kind) -> Value {
        match kind {
            Kind::KeywordList => Value::List((0..self.random.below(4)).map(|_| self.text()).collect()),
            kind => self.value(kind),
        }
    }

    fn text(&mut self) -> String {
        TEXTS[self.random.below(TEXTS.len() as u64) as usize].to_owned()
    }

    fn attribute(&mut self) -> Attribute {
        if self.random.once_in(20) {
            return Attribute::Numbered(1, Kind::Keyword);
        }
        if self.random.once_in(2) {
            return SYSTEM[self.random.below(SYSTEM.len() as u64) as usize];
        }
        let place = self.random.below(KINDS.len() as u64) as usize;
        Attribute::Numbered(1_000 + place as u32, KINDS[place])
    }

    /// A value to compare with.
    fn value(&mut self, kind: Kind) -> Value {
        match kind {
            Kind::Keyword | Kind::KeywordList | Kind::Text => Value::Text(self.text()),
            Kind::Int => Value::Int(INTS[self.random.below(INTS.len() as u64) as usize]),
            Kind::Double => Value::Double(DOUBLES[self.random.below(DOUBLES.len() as u64) as usize]),
            Kind::Bool => Value::Bool(self.random.once_in(2)),
            Kind::Datetime => Value::Int(self.clock - self.random.below(300) as i64),
        }
    }

    fn value_of(&mut self, attribute: Attribute) -> Value {
        match attribute {
            Attribute::ExecutionStatus => Value::Int(self.random.below(9) as i64),
            Attribute::WorkflowId | Attribute::ParentWorkflowId | Attribute::RootWorkflowId => {
                let known = Value::Text(format!("w-{}", self.random.below(7)));
                if self.random.once_in(3) { self.value(Kind::Keyword) } else { known }
            }
            Attribute::RunId | Attribute::ParentRunId | Attribute::RootRunId => {
                Value::Text(super::run_id(self.random.below(self.keys + 2)))
            }
            Attribute::WorkflowType => {
                Value::Text(["Order", "Refund", "order"][self.random.below(3) as usize].to_owned())
            }
            Attribute::Numbered(_, Kind::Int) if self.random.once_in(4) => self.value(Kind::Double),
            Attribute::Numbered(_, Kind::Double) if self.random.once_in(4) => self.value(Kind::Int),
            Attribute::Numbered(_, kind) => self.value(kind),
            attribute if attribute.kind() == Kind::Int => Value::Int(self.random.below(6) as i64),
            attribute => self.value(attribute.kind()),
        }
    }

    fn filter(&mut self, depth: u32) -> Filter {
        let shape = if depth == 0 { 9 } else { self.random.below(10) };
        let parts = |world: &mut Self| (0..world.random.below(4)).map(|_| world.filter(depth - 1)).collect();
        match shape {
            0..=2 => Filter::All(parts(self)),
            3 => Filter::Any(parts(self)),
            4 => Filter::Not(Box::new(self.filter(depth - 1))),
            _ => self.condition(),
        }
    }

    fn condition(&mut self) -> Filter {
        let attribute = self.attribute();
        let kind = attribute.kind();
        let searched = matches!(kind, Kind::KeywordList | Kind::Text);
        let textual = searched || kind == Kind::Keyword;
        let comparison = match self.random.below(8) {
            0 => Comparison::NotEqual,
            1 if !searched => Comparison::Less,
            2 if !searched => Comparison::LessOrEqual,
            3 if !searched => Comparison::Greater,
            4 if !searched => Comparison::GreaterOrEqual,
            _ => Comparison::Equal,
        };
        match self.random.below(8) {
            0 => Filter::IsNull(attribute),
            1 => Filter::In(attribute, (0..self.random.below(4)).map(|_| self.value_of(attribute)).collect()),
            2 if !searched => Filter::Between(attribute, self.value_of(attribute), self.value_of(attribute)),
            3 if textual => {
                Filter::StartsWith(attribute, ["", "a", "w", "w-", "é"][self.random.below(5) as usize].into())
            }
            4 if textual => Filter::Like(
                attribute,
                ["%", "a%", "%b%", "w__", "a\\_%", "%quick%"][self.random.below(6) as usize].into(),
            ),
            5 => Filter::Not(Box::new(Filter::IsNull(attribute))),
            _ => Filter::Compare(attribute, comparison, self.value_of(attribute)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::kit::StoreUnderTest;
    use crate::visibility::Cursor;

    struct InMemory(Arc<MemoryStore>);

    impl StoreUnderTest for InMemory {
        fn store(&self) -> Arc<dyn Store> {
            Arc::clone(&self.0) as Arc<dyn Store>
        }

        fn reopen(&mut self) -> bool {
            false
        }
    }

    /// Stores that answer almost rightly are found out.
    #[test]
    fn mistakes_are_noticed() {
        let mistakes: [(&str, PageReader); 4] = [
            ("a run that closes changes its place", |store, query| {
                store.list(&ListQuery { as_of: i64::MAX - 1, ..query.clone() }).wait().unwrap()
            }),
            ("the last run of a page is shown again", |store, query| {
                let again = |after: Cursor| Cursor { key: RunKey(after.key.0 + 1), ..after };
                store.list(&ListQuery { after: query.after.clone().map(again), ..query.clone() }).wait().unwrap()
            }),
            ("unknown is taken for true", |store, query| {
                let filter = match query.filter.clone() {
                    Filter::Compare(attribute, comparison, value) => {
                        Filter::Any(vec![Filter::IsNull(attribute), Filter::Compare(attribute, comparison, value)])
                    }
                    filter => filter,
                };
                store.list(&ListQuery { filter, ..query.clone() }).wait().unwrap()
            }),
            ("greatest and smallest first are mixed up", |store, query| {
                let order = match query.order {
                    Order::Descending(attribute) => Order::Ascending(attribute),
                    order => order,
                };
                store.list(&ListQuery { order, ..query.clone() }).wait().unwrap()
            }),
        ];
        for (mistake, ask) in mistakes {
            let found = std::panic::catch_unwind(|| {
                (1..=4).for_each(|seed| run_asking(&|| Box::new(InMemory(Arc::default())), seed, 200, ask));
            });
            assert!(found.is_err(), "not noticed: {mistake}");
        }
    }
}
