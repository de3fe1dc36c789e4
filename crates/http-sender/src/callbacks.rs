//! A callback that goes to a URL.

use std::sync::Arc;

use segno_engine::{callbacks::end_of, nexus::REQUEST_TIMEOUT, outbox::CallbackReport};
use segno_nexus::{CompletionCall, completion_failure_of, undelivered};
use segno_proto::{common::callback::Variant, timestamp_nanos};
use segno_runs::{CallbackOutcome, DueReport, ports::DueCallback};

use crate::{
    handlers::{Failed, PAUSE_OF_SETTINGS, exchange},
    sender::Sender,
};

impl Sender {
    /// Sends a callback to its URL, and lets its run know what became of it.
    pub(crate) async fn call_back(self: &Arc<Self>, callback: DueCallback) -> Option<bool> {
        let (is_down, outcome) = match self.runs.callback_report(&callback.message, callback.index).await {
            Ok(Some(DueReport { report, .. })) => self.report(&callback, &report).await,
            // There is no run any more to which it belongs.
            Ok(None) => (None, CallbackOutcome::Gone),
            Err(error) => {
                tracing::debug!(%error, "a callback could not be read; it is tried again");
                (None, CallbackOutcome::Interrupted)
            }
        };
        self.runs.callback_answered(callback, outcome).await;
        is_down
    }

    async fn report(&self, callback: &DueCallback, report: &CallbackReport) -> (Option<bool>, CallbackOutcome) {
        let Some(Variant::Nexus(nexus)) = &report.callback.variant else { return (None, CallbackOutcome::Gone) };
        let call = CompletionCall {
            url: &callback.url,
            headers: &nexus.header,
            started_time: report.started_time,
            closed_time: report.closing_event.event_time.as_ref().map(timestamp_nanos).unwrap_or_default(),
            link: report.link.as_ref(),
            end: &end_of(report),
        };
        let answer = exchange(call.request(), &self.settings.callback_targets, REQUEST_TIMEOUT).await;
        let failure = match answer {
            Ok(answer) => match completion_failure_of(&answer) {
                None => return (Some(false), CallbackOutcome::Settled(Ok(()))),
                Some((failure, false)) => return (Some(false), CallbackOutcome::Settled(Err(failure))),
                Some((failure, true)) => failure,
            },
            Err(Failed::BySettings(why)) => {
                return (None, CallbackOutcome::Failed(undelivered(why, true), PAUSE_OF_SETTINGS));
            }
            Err(Failed::Outside { why, .. }) => undelivered(why, true),
        };
        (Some(true), CallbackOutcome::Failed(failure, 0))
    }
}
