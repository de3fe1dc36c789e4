//! Interceptors around the calls of a client: for logs, metrics, context propagation.

use std::{collections::BTreeMap, sync::Arc};

use segno_proto::common::{Header, Payload};
use tracing::Instrument;

use super::{Client, ClientError};
use crate::{converter::Arguments, telemetry::spans::call_span};

/// The kind of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum ClientCallKind {
    Start,
    StartTask,
    SignalWithStart,
    UpdateWithStart,
    Signal,
    Query,
    Update,
}

impl ClientCallKind {
    /// As Temporal's SDKs name the spans of such calls.
    fn name(self) -> &'static str {
        match self {
            Self::Start => "StartWorkflow",
            Self::StartTask => "StartActivity",
            Self::SignalWithStart => "SignalWithStartWorkflow",
            Self::UpdateWithStart => "UpdateWithStartWorkflow",
            Self::Signal => "SignalWorkflow",
            Self::Query => "QueryWorkflow",
            Self::Update => "UpdateWorkflow",
        }
    }
}

/// A call that reaches a workflow, or starts a task without one.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClientCall {
    /// The action.
    pub kind: ClientCallKind,
    /// The workflow's id; of a task without a workflow, the task's.
    pub workflow_id: String,
    /// The name of the workflow's or task's kind, or of the signal, query or update.
    pub name: String,
    /// The arguments of the workflow or task, or of the signal, query or update.
    pub arguments: Arguments,
    /// The arguments of the workflow that is started along with a signal or an update.
    pub start_arguments: Arguments,
    /// Headers for interceptors at the other end. They do not pass the codecs.
    pub headers: BTreeMap<String, Payload>,
}

impl ClientCall {
    pub(super) fn header(&self) -> Option<Header> {
        (!self.headers.is_empty()).then(|| Header { fields: self.headers.clone() })
    }
}

/// Code around the calls of a client that reach a workflow.
pub trait ClientInterceptor: Send + Sync + 'static {
    /// Before a call. It may change arguments, add headers, or refuse the call.
    fn before(&self, call: &mut ClientCall) -> Result<(), ClientError> {
        let _ = call;
        Ok(())
    }

    /// After a call, also one that failed or was refused by an interceptor.
    fn after(&self, call: &ClientCall, outcome: Result<(), &ClientError>) {
        let _ = (call, outcome);
    }
}

/// The arguments that a call sends, after the interceptors.
#[derive(Default)]
pub(super) struct OutgoingArguments {
    pub header: Option<Header>,
    pub arguments: Vec<Payload>,
    pub start_arguments: Vec<Payload>,
}

impl OutgoingArguments {
    /// Of a call that starts no workflow along the way.
    pub fn new(arguments: Vec<Payload>) -> Self {
        Self { arguments, ..Self::default() }
    }
}

/// Interceptors in a row.
pub(super) type Interceptors = Vec<Arc<dyn ClientInterceptor>>;

impl Client {
    /// Makes a call between what the interceptors do before and after it.
    pub(super) async fn intercepted<T, F>(
        &self,
        kind: ClientCallKind,
        workflow_id: &str,
        name: &str,
        sent: OutgoingArguments,
        call: impl FnOnce(OutgoingArguments) -> F,
    ) -> Result<T, ClientError>
    where
        F: Future<Output = Result<T, ClientError>>,
    {
        let span = call_span(kind.name(), name, workflow_id);
        self.between(kind, workflow_id, name, sent, call).instrument(span).await
    }

    async fn between<T, F>(
        &self,
        kind: ClientCallKind,
        workflow_id: &str,
        name: &str,
        sent: OutgoingArguments,
        call: impl FnOnce(OutgoingArguments) -> F,
    ) -> Result<T, ClientError>
    where
        F: Future<Output = Result<T, ClientError>>,
    {
        let interceptors = &self.0.interceptors;
        if interceptors.is_empty() && cfg!(not(feature = "otel")) {
            return call(sent).await;
        }
        let (workflow_id, name) = (workflow_id.to_owned(), name.to_owned());
        let (arguments, start_arguments) = (Arguments(sent.arguments), Arguments(sent.start_arguments));
        let mut described =
            ClientCall { kind, workflow_id, name, arguments, start_arguments, headers: BTreeMap::new() };
        #[cfg(feature = "otel")]
        crate::telemetry::spans::inject(&mut described.headers);
        let mut begun = 0;
        let mut refused = Ok(());
        for interceptor in interceptors {
            begun += 1;
            refused = interceptor.before(&mut described);
            if refused.is_err() {
                break;
            }
        }
        let outcome = match refused {
            Ok(()) => {
                let (arguments, start_arguments) = (described.arguments.clone(), described.start_arguments.clone());
                let header = described.header();
                call(OutgoingArguments { header, arguments: arguments.0, start_arguments: start_arguments.0 }).await
            }
            Err(error) => Err(error),
        };
        for interceptor in interceptors[..begun].iter().rev() {
            interceptor.after(&described, outcome.as_ref().map(|_| ()));
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    struct Noted(&'static str, bool, Arc<Mutex<Vec<String>>>);

    impl ClientInterceptor for Noted {
        fn before(&self, call: &mut ClientCall) -> Result<(), ClientError> {
            let argument: u32 = call.arguments.get(0)?;
            self.2.lock().unwrap().push(format!("{} before {} {argument}", self.0, call.name));
            call.arguments.set(0, &(argument + 1))?;
            call.headers.insert(self.0.to_owned(), Payload::default());
            if self.1 { Err(ClientError::Configuration("refused".to_owned())) } else { Ok(()) }
        }

        fn after(&self, _: &ClientCall, outcome: Result<(), &ClientError>) {
            self.2.lock().unwrap().push(format!("{} after {}", self.0, outcome.is_ok()));
        }
    }

    #[tokio::test]
    async fn they_nest() {
        let notes = Arc::new(Mutex::new(Vec::new()));
        let client = |refuses| {
            let builder = Client::builder().interceptor(Noted("a", false, notes.clone()));
            builder.interceptor(Noted("b", refuses, notes.clone())).lazy().connect()
        };
        let sent = || OutgoingArguments::new(crate::converter::encode(&7u32, 1).unwrap());
        let headers = client(false)
            .await
            .unwrap()
            .intercepted(ClientCallKind::Signal, "id", "paid", sent(), async |sent: OutgoingArguments| {
                Ok((sent.header.unwrap_or_default().fields.len(), Arguments(sent.arguments).get::<u32>(0)?))
            })
            .await;
        assert!(matches!(headers, Ok((2, 9))));
        assert_eq!(*notes.lock().unwrap(), ["a before paid 7", "b before paid 8", "b after true", "a after true"]);
        notes.lock().unwrap().clear();
        let refused: Result<(), _> = client(true)
            .await
            .unwrap()
            .intercepted(ClientCallKind::Signal, "id", "paid", sent(), async |_| panic!("called"))
            .await;
        assert!(matches!(refused, Err(ClientError::Configuration(_))));
        assert_eq!(*notes.lock().unwrap(), ["a before paid 7", "b before paid 8", "b after false", "a after false"]);
    }
}
