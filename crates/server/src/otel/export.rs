//! The task that sends spans: in batches, one request at a time.

use std::{sync::atomic::Ordering, time::Duration};

use tokio::{
    sync::mpsc,
    time::{self, Instant},
};

use super::{DROPPED, Message, SENT, Span, TraceOptions, encode};
use crate::security::fetch;

/// Spans in a request.
const BATCH_MAX: usize = 512;
/// How long a span waits for others.
const BATCH_WAIT: Duration = Duration::from_secs(1);
/// Pause before a request is sent once more.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// How often the log says that a collector cannot be reached.
const WARNING_INTERVAL: Duration = Duration::from_secs(60);

/// Sends spans until the process ends.
pub(super) async fn run(options: TraceOptions, mut queue: mpsc::Receiver<Message>) {
    let url = format!("{}/v1/traces", options.endpoint.trim_end_matches('/'));
    let mut sender = Sender { url, options, complained: None };
    let mut batch: Vec<Span> = Vec::new();
    while let Some(first) = queue.recv().await {
        let mut flushed = Vec::new();
        take(first, &mut batch, &mut flushed);
        let until = Instant::now() + BATCH_WAIT;
        while batch.len() < BATCH_MAX && flushed.is_empty() {
            match time::timeout_at(until, queue.recv()).await {
                Ok(Some(message)) => take(message, &mut batch, &mut flushed),
                Ok(None) | Err(_) => break,
            }
        }
        sender.send(&mut batch).await;
        for done in flushed {
            // The receiver may have been dropped.
            let _ = done.send(());
        }
    }
}

fn take(message: Message, batch: &mut Vec<Span>, flushed: &mut Vec<tokio::sync::oneshot::Sender<()>>) {
    match message {
        Message::Span(span) => batch.push(*span),
        Message::Flush(done) => flushed.push(done),
    }
}

struct Sender {
    url: String,
    options: TraceOptions,
    complained: Option<Instant>,
}

impl Sender {
    /// Sends a batch, at most twice; what could not be sent is dropped and counted.
    async fn send(&mut self, batch: &mut Vec<Span>) {
        if batch.is_empty() {
            return;
        }
        let body = encode::request(&self.options.service, batch);
        let mut outcome = fetch::post(&self.url, &self.options.headers, body.clone()).await;
        if outcome.is_err() {
            time::sleep(RETRY_AFTER).await;
            outcome = fetch::post(&self.url, &self.options.headers, body).await;
        }
        match outcome {
            Ok(()) => SENT.fetch_add(batch.len() as u64, Ordering::Relaxed),
            Err(error) => {
                if self.complained.is_none_or(|then| then.elapsed() >= WARNING_INTERVAL) {
                    self.complained = Some(Instant::now());
                    tracing::warn!(url = self.url, error, "traces cannot be sent; they are dropped");
                }
                DROPPED.fetch_add(batch.len() as u64, Ordering::Relaxed)
            }
        };
        batch.clear();
    }
}
