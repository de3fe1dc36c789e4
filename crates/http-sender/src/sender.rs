//! [`Sender`]: the destinations, and a task for each that has work.

use std::{
    sync::{Arc, Mutex, Weak},
    time::Duration,
};

use http::Uri;
use segno_engine::nexus::RequestRef;
use segno_environment::{hash::HashMap, lock::lock};
use segno_runs::{
    Runs,
    endpoints::Endpoint,
    ports::{DueCallback, HttpSender},
};
use segno_store::{NamespaceKey, RunKey};
use tokio::{
    sync::{Notify, Semaphore},
    time::Instant,
};

use crate::{
    queue::{Job, Queue, Step},
    settings::HttpSettings,
};

/// Requests at a time, to all destinations.
const AT_A_TIME: usize = 200;
/// How long a destination without work remembers its failures.
const IDLE_TIME: Duration = Duration::from_secs(60);

/// The server or endpoint to which requests of a namespace go.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    /// An endpoint, by its id.
    Endpoint(String),
    /// Scheme and host of a URL.
    Host(String),
}

type DestinationKey = (NamespaceKey, Place);

#[derive(Default)]
struct Destination {
    queue: Mutex<Queue>,
    changed: Notify,
}

/// Sends requests over HTTP.
pub struct Sender {
    pub(crate) runs: Arc<Runs>,
    /// Where requests may go.
    pub settings: HttpSettings,
    /// Those that have a task.
    destinations: Mutex<HashMap<DestinationKey, Arc<Destination>>>,
    permits: Arc<Semaphore>,
    itself: Weak<Self>,
}

impl Sender {
    /// The sender of the requests of these runs, from now on.
    pub fn new(runs: Arc<Runs>, settings: HttpSettings) -> Arc<Self> {
        let permits = Arc::new(Semaphore::new(AT_A_TIME));
        let destinations = Mutex::default();
        let sender =
            Arc::new_cyclic(|itself| Self { runs, settings, destinations, permits, itself: Weak::clone(itself) });
        let port: Weak<Self> = Arc::downgrade(&sender);
        sender.runs.http_sender.set(port);
        sender
    }

    /// Whether the breaker of an endpoint holds requests of a namespace back.
    pub fn blocks_endpoint(&self, namespace: NamespaceKey, id: &str, name: &str) -> bool {
        let endpoint = self.runs.endpoints.find(id, name);
        endpoint.is_some_and(|endpoint| self.blocks(&(namespace, Place::Endpoint(endpoint.id.clone()))))
    }

    /// Whether the breaker of a URL holds callbacks of a namespace back.
    pub fn blocks_url(&self, namespace: NamespaceKey, url: &str) -> bool {
        self.blocks(&(namespace, Place::of_url(url)))
    }

    fn blocks(&self, key: &DestinationKey) -> bool {
        let destination = lock(&self.destinations).get(key).cloned();
        destination.is_some_and(|destination| !lock(&destination.queue).breaker.is_closed())
    }

    fn push(&self, key: DestinationKey, job: Job) {
        let mut destinations = lock(&self.destinations);
        if let Some(destination) = destinations.get(&key) {
            lock(&destination.queue).push(job);
            destination.changed.notify_one();
            return;
        }
        let destination = Arc::new(Destination::default());
        lock(&destination.queue).push(job);
        destinations.insert(key.clone(), destination.clone());
        tokio::spawn(work(self.itself.clone(), key, destination));
    }

    /// Forgets a destination that has no work.
    fn retire(&self, key: &DestinationKey, destination: &Destination) -> bool {
        let mut destinations = lock(&self.destinations);
        let is_idle = lock(&destination.queue).is_idle();
        if is_idle {
            destinations.remove(key);
        }
        is_idle
    }

    /// Makes a request. Answers whether its destination seems to be down; `None` if that is not known.
    async fn attempt(self: &Arc<Self>, job: Job) -> Option<bool> {
        match job {
            Job::Request(run, request) => self.call_handler(run, request).await,
            Job::Callback(callback) => self.call_back(*callback).await,
        }
    }
}

impl HttpSender for Sender {
    fn send_request(&self, namespace: NamespaceKey, run: RunKey, request: RequestRef, endpoint: &Endpoint) {
        self.push((namespace, Place::Endpoint(endpoint.id.clone())), Job::Request(run, request));
    }

    fn send_callback(&self, callback: DueCallback) {
        self.push((callback.namespace, Place::of_url(&callback.url)), Job::Callback(Box::new(callback)));
    }
}

impl Place {
    fn of_url(url: &str) -> Self {
        let url = url.parse::<Uri>().unwrap_or_default();
        let authority = url.authority().map_or("", |authority| authority.as_str());
        Self::Host(format!("{}://{}", url.scheme_str().unwrap_or_default(), authority.to_lowercase()))
    }
}

/// Makes the requests of a destination until it has had none for a while, or the node stops.
async fn work(sender: Weak<Sender>, key: DestinationKey, destination: Arc<Destination>) {
    let mut idle_since: Option<Instant> = None;
    loop {
        // Taken before the look, so that nothing that changes after it is missed.
        let changed = destination.changed.notified();
        let Some(strong) = sender.upgrade().filter(|sender| !sender.runs.is_stopping()) else { return };
        let now = Instant::now();
        let step = lock(&destination.queue).next(now);
        let is_idle = matches!(step, Step::Idle);
        let until = match step {
            Step::Attempt(job, is_probe) => {
                idle_since = None;
                let Ok(permit) = strong.permits.clone().acquire_owned().await else { return };
                let (key, destination, place) = (job.key(), destination.clone(), key.1.clone());
                tokio::spawn(async move {
                    let failed = strong.attempt(job).await;
                    drop(permit);
                    let takes_more = {
                        let mut queue = lock(&destination.queue);
                        queue.end(key, is_probe, failed, Instant::now());
                        queue.takes_more()
                    };
                    if let (true, Place::Endpoint(id), Some(effects)) = (takes_more, place, strong.runs.effects()) {
                        effects.endpoint_moved(&id);
                    }
                    destination.changed.notify_one();
                });
                continue;
            }
            Step::Wait(until) => until,
            Step::Idle => Some(*idle_since.get_or_insert(now) + IDLE_TIME),
        };
        if is_idle && until.is_some_and(|until| until <= now) && strong.retire(&key, &destination) {
            return;
        }
        let runs = strong.runs.clone();
        drop(strong);
        let stopped = runs.lifecycle.stop.notified();
        tokio::select! {
            () = changed => {}
            () = stopped => return,
            () = async { tokio::time::sleep_until(until.unwrap_or(now)).await }, if until.is_some() => {}
        }
    }
}
