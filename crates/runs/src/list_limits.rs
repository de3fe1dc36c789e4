//! Limits the number of lists and counts that run at the same time.
//!
//! A list may scan every run of a namespace and then uses a core for as long as it takes. So only a few run at once,
//! fewer of one caller than of all together, and a bounded number waits. They wait here, not on threads: a list gets a
//! blocking thread once it may run, so that lists never use up the threads on which runs are loaded. A list whose
//! caller leaves is removed from the queue, or cancelled if it runs ([`segno_store::ReadLimit`]).

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use segno_environment::{connection::ConnectionId, hash::HashMap, lock::lock};
use segno_store::{Read, ReadLimit};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};

use crate::error::CallError;

/// The longest that a list may take, its wait included, if its caller allows more or says nothing.
const TIME_MAX: Duration = Duration::from_secs(60);
/// Lists that run or wait, of all callers and of one.
const ADMITTED_MAX: usize = 256;
const ADMITTED_OF_CALLER_MAX: usize = 64;

/// Who asks for a list, and for how long.
#[derive(Clone, Copy, Debug, Default)]
pub struct ListCaller {
    /// The caller's connection, if it came over one. Calls without one count as one caller.
    pub connection: Option<ConnectionId>,
    /// The caller's deadline.
    pub deadline: Option<Instant>,
}

/// See the module.
pub(crate) struct ListLimits {
    running: Arc<Semaphore>,
    running_of_caller_max: usize,
    callers: Arc<Mutex<Callers>>,
}

#[derive(Default)]
struct Callers {
    admitted: usize,
    by_connection: HashMap<Option<ConnectionId>, OfCaller>,
}

/// The lists of one caller. There is an entry only while there are some.
struct OfCaller {
    admitted: usize,
    running: Arc<Semaphore>,
}

impl ListLimits {
    /// The limits for a machine with so many cores.
    pub(crate) fn of_cores(cores: usize) -> Self {
        Self::new(cores.clamp(2, 8))
    }

    /// At most `running_max` at the same time, half of them of one caller.
    pub fn new(running_max: usize) -> Self {
        let running_of_caller_max = running_max.div_ceil(2);
        Self { running: Arc::new(Semaphore::new(running_max)), running_of_caller_max, callers: Arc::default() }
    }

    /// Runs a list once it may run, until the caller's deadline or until this future is dropped.
    pub async fn run<T: Send + 'static>(
        &self,
        caller: ListCaller,
        list: impl FnOnce(&ReadLimit) -> Read<T> + Send + 'static,
    ) -> Result<T, CallError> {
        let latest = Instant::now() + TIME_MAX;
        let deadline = caller.deadline.map_or(latest, |deadline| deadline.min(latest));
        let (admitted, of_caller) = self.admit(caller.connection)?;
        // A caller's own limit comes first: one that asks for much at once waits for itself alone.
        let permits = async { (acquire_permit(of_caller).await, acquire_permit(self.running.clone()).await) };
        let permits = tokio::time::timeout_at(deadline, permits).await;
        let permits = permits.map_err(|_| CallError::DeadlineExceeded)?;
        let (limit, _cancelled_with_us) = ReadLimit::cancellable(deadline);
        let list = tokio::spawn(async move {
            // Given back when the list has ended, not when its caller has left.
            let _held = (admitted, permits);
            limit.check()?;
            list(&limit).await
        });
        Ok(list.await.map_err(|error| CallError::Unavailable(error.to_string()))??)
    }

    fn admit(&self, connection: Option<ConnectionId>) -> Result<(ListPermit, Arc<Semaphore>), CallError> {
        let mut callers = lock(&self.callers);
        let of_caller = callers.by_connection.get(&connection).map_or(0, |entry| entry.admitted);
        if of_caller >= ADMITTED_OF_CALLER_MAX {
            return Err(CallError::TooManyLists("too many lists and counts of one client at the same time"));
        }
        if callers.admitted >= ADMITTED_MAX {
            return Err(CallError::TooManyLists("too many lists and counts at the same time"));
        }
        callers.admitted += 1;
        let entry = callers
            .by_connection
            .entry(connection)
            .or_insert_with(|| OfCaller { admitted: 0, running: Arc::new(Semaphore::new(self.running_of_caller_max)) });
        entry.admitted += 1;
        Ok((ListPermit { callers: self.callers.clone(), connection }, entry.running.clone()))
    }
}

async fn acquire_permit(semaphore: Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
    // Never closed.
    semaphore.acquire_owned().await.ok()
}

/// A place among those that run or wait.
struct ListPermit {
    callers: Arc<Mutex<Callers>>,
    connection: Option<ConnectionId>,
}

impl Drop for ListPermit {
    fn drop(&mut self) {
        let mut callers = lock(&self.callers);
        callers.admitted -= 1;
        if let Some(entry) = callers.by_connection.get_mut(&self.connection) {
            entry.admitted -= 1;
            if entry.admitted == 0 {
                callers.by_connection.remove(&self.connection);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// A list that never ends by itself.
    fn endless(running: Arc<AtomicUsize>) -> impl FnOnce(&ReadLimit) -> Read<()> + Send {
        move |limit| {
            let limit = limit.clone();
            Box::pin(async move {
                running.fetch_add(1, Ordering::SeqCst);
                let ended = loop {
                    if let Err(error) = limit.check() {
                        break error;
                    }
                    tokio::time::sleep(Duration::from_millis(1)).await;
                };
                running.fetch_sub(1, Ordering::SeqCst);
                Err(ended)
            })
        }
    }

    fn caller(number: u64) -> ListCaller {
        ListCaller { connection: Some(ConnectionId(number)), deadline: None }
    }

    async fn until(what: impl Fn() -> bool) {
        while !what() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Few run, half of them of one caller; when callers leave, theirs end and the next begin.
    #[tokio::test]
    async fn lists_whose_callers_left_make_room() {
        let (limits, running) = (Arc::new(ListLimits::new(4)), Arc::new(AtomicUsize::new(0)));
        let begin = |number| {
            let (limits, list) = (limits.clone(), endless(running.clone()));
            tokio::spawn(async move { limits.run(caller(number), list).await })
        };
        let greedy: Vec<_> = (0..50).map(|_| begin(1)).collect();
        until(|| running.load(Ordering::SeqCst) == 2).await;
        let other = begin(2);
        until(|| running.load(Ordering::SeqCst) == 3).await;
        greedy.iter().for_each(tokio::task::JoinHandle::abort);
        until(|| running.load(Ordering::SeqCst) == 1).await;
        other.abort();
        until(|| running.load(Ordering::SeqCst) == 0).await;
        until(|| lock(&limits.callers).admitted == 0 && lock(&limits.callers).by_connection.is_empty()).await;
        let answer = limits.run(caller(1), |_| segno_store::ready(Ok(7))).await;
        assert_eq!(answer, Ok(7));
    }

    #[tokio::test]
    async fn too_many_are_refused_and_late_ones_end() {
        let (limits, running) = (Arc::new(ListLimits::new(2)), Arc::new(AtomicUsize::new(0)));
        let mut waiting = Vec::new();
        for number in 0..(ADMITTED_MAX + ADMITTED_OF_CALLER_MAX) as u64 {
            // The first caller asks for more than he may, then many ask for a little.
            let number = if number <= ADMITTED_OF_CALLER_MAX as u64 { 0 } else { number };
            let (limits, list) = (limits.clone(), endless(running.clone()));
            let mut call = Box::pin(async move { limits.run(caller(number), list).await });
            // Polled once, each is admitted or refused.
            let first = tokio::time::timeout(Duration::ZERO, &mut call).await;
            waiting.push((number, first.ok(), call));
        }
        let refused = |greedy: bool| {
            let of = waiting.iter().filter(|(number, ..)| (*number == 0) == greedy);
            of.filter(|(_, first, _)| matches!(first, Some(Err(CallError::TooManyLists(_))))).count()
        };
        assert_eq!((refused(true), refused(false)), (1, ADMITTED_OF_CALLER_MAX - 1));
        drop(waiting);
        until(|| lock(&limits.callers).admitted == 0).await;
        // A deadline ends the wait for a turn, and the list itself.
        let soon = ListCaller { deadline: Some(Instant::now() + Duration::from_millis(30)), ..caller(1) };
        let late = limits.run(soon, endless(running.clone())).await;
        assert_eq!(late, Err(CallError::DeadlineExceeded));
    }
}
