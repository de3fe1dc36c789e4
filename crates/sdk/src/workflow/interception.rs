//! Calls the interceptors.

use std::{borrow::Cow, collections::BTreeMap};

use segno_proto::common::{Header, Payload};

use super::{
    core::Shared,
    interceptor::{InboundCall, InboundKind, InterceptedRun, OutboundCall, OutboundKind},
};
use crate::converter::Arguments;

impl Shared {
    fn intercepted_run(&self) -> InterceptedRun {
        let core = self.core();
        let info = &core.info;
        InterceptedRun {
            workflow_id: info.workflow_id.clone(),
            run_id: info.run_id().to_owned(),
            kind: info.kind.clone(),
            is_replaying: core.is_replaying(),
            headers: info.headers(),
        }
    }

    /// The arguments of a message for the code, after the interceptors.
    pub fn inbound<'a>(
        &self,
        kind: InboundKind,
        name: &str,
        header: Option<&Header>,
        arguments: Cow<'a, [Payload]>,
    ) -> Cow<'a, [Payload]> {
        if self.rules.interceptors.is_empty() {
            return arguments;
        }
        let headers = header.map(|header| header.fields.clone()).unwrap_or_default();
        let arguments = Arguments(arguments.into_owned());
        let (run, mut call) = (self.intercepted_run(), InboundCall { kind, name: name.to_owned(), arguments, headers });
        for interceptor in &self.rules.interceptors {
            interceptor.inbound(&run, &mut call);
        }
        Cow::Owned(call.arguments.0)
    }

    /// The headers of a command of the workflow. The interceptors may change its arguments.
    pub fn outbound(&self, kind: OutboundKind, name: &str, arguments: &mut Vec<Payload>) -> Option<Header> {
        if self.rules.interceptors.is_empty() && cfg!(not(feature = "otel")) {
            return None;
        }
        let run = self.intercepted_run();
        let taken = Arguments(std::mem::take(arguments));
        let mut call = OutboundCall { kind, name: name.to_owned(), arguments: taken, headers: BTreeMap::new() };
        #[cfg(feature = "otel")]
        if let Some(trace) = run.headers.get(crate::telemetry::spans::HEADER) {
            call.headers.insert(crate::telemetry::spans::HEADER.to_owned(), trace.clone());
        }
        for interceptor in &self.rules.interceptors {
            interceptor.outbound(&run, &mut call);
        }
        *arguments = call.arguments.0;
        (!call.headers.is_empty()).then_some(Header { fields: call.headers })
    }
}
