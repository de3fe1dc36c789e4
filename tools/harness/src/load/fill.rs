//! Workflows that are there before anything is measured: open ones, or open and closed ones with search attributes.

use std::{
    cell::Cell,
    rc::Rc,
    time::{Duration, Instant},
};

use anyhow::Result;
use segno_proto::{
    common::{Payload, SearchAttributes},
    enums::IndexedValueType,
    operatorservice::AddSearchAttributesRequest,
    workflowservice::{StartWorkflowExecutionRequest, TerminateWorkflowExecutionRequest},
};
use tonic::Code;

use super::{outcome::Outcome, session::Session};
use crate::wire::{self, CALL_TIMEOUT, Client, NAMESPACE};

/// Different values of the keyword: a fifth of all workflows has each.
const CUSTOMERS: usize = 5;
/// How long a server may take to notice that there are new search attributes.
const ATTRIBUTE_DELAY_MAX: Duration = Duration::from_secs(20);

/// The custom search attributes, one of each of five types.
const ATTRIBUTES: [(&str, IndexedValueType); 5] = [
    ("Customer", IndexedValueType::Keyword),
    ("Amount", IndexedValueType::Int),
    ("Weight", IndexedValueType::Double),
    ("Paid", IndexedValueType::Bool),
    ("Due", IndexedValueType::Datetime),
];

/// Starts open workflows that no worker takes; their queue is their own.
pub async fn open(session: &Rc<Session>, name: &str) -> Result<Outcome> {
    start_all(session, name, "filled", false).await
}

/// Starts as many runs of a script.
pub async fn start(session: &Rc<Session>, name: &str, kind: &'static str) -> Result<Outcome> {
    start_all(session, name, kind, false).await
}

/// Starts workflows with all five attributes and closes every other one.
pub async fn with_attributes(session: &Rc<Session>) -> Result<Outcome> {
    add_attributes(session).await?;
    start_all(session, "fill", "filled", true).await
}

async fn add_attributes(session: &Rc<Session>) -> Result<()> {
    let call = AddSearchAttributesRequest {
        namespace: NAMESPACE.to_owned(),
        search_attributes: ATTRIBUTES.iter().map(|(name, kind)| ((*name).to_owned(), (*kind).into())).collect(),
    };
    match session.client().call(call, CALL_TIMEOUT).await {
        Ok(_) => {}
        Err(status) if status.code() == Code::AlreadyExists => {}
        Err(status) => return Err(status.into()),
    }
    let begun = Instant::now();
    let mut client = session.client();
    loop {
        let probe = with_values(wire::start("filled", &format!("{}-probe", session.load.prefix), "probe", ""), 0);
        match client.call(probe, CALL_TIMEOUT).await {
            Ok(_) => return close(&mut client, &format!("{}-probe", session.load.prefix)).await.map_err(Into::into),
            Err(_) if begun.elapsed() < ATTRIBUTE_DELAY_MAX => tokio::time::sleep(Duration::from_millis(200)).await,
            Err(status) => return Err(status.into()),
        }
    }
}

/// Starts as many as the load's `fill`, at its concurrency.
async fn start_all(session: &Rc<Session>, name: &str, kind: &'static str, attributes: bool) -> Result<Outcome> {
    let next = Rc::new(Cell::new(0));
    let work = session.call_all(|_, started| {
        let (session, next) = (session.clone(), next.clone());
        async move {
            let mut client = session.client();
            while next.get() < session.load.fill && started.elapsed() < session.load.fill_time_max {
                let index = next.replace(next.get() + 1);
                let workflow_id = format!("{}-fill-{index}", session.load.prefix);
                let mut start = wire::start(kind, &workflow_id, &queue(&session), "");
                if attributes {
                    start = with_values(start, index);
                }
                let begun = Instant::now();
                if let Err(status) = client.call(start, CALL_TIMEOUT).await {
                    session.failed("start", &status);
                    continue;
                }
                session.record(begun.elapsed());
                if attributes
                    && index.is_multiple_of(2)
                    && let Err(status) = close(&mut client, &workflow_id).await
                {
                    session.failed("terminate", &status);
                }
            }
        }
    });
    session.measure(name, "start", work).await
}

/// The queue of the workflows that are only there.
pub fn queue(session: &Session) -> String {
    format!("{}-fill", session.load.prefix)
}

async fn close(client: &mut Client, workflow_id: &str) -> Result<(), tonic::Status> {
    let call = TerminateWorkflowExecutionRequest {
        namespace: NAMESPACE.to_owned(),
        workflow_execution: wire::execution(workflow_id, ""),
        ..Default::default()
    };
    client.call(call, CALL_TIMEOUT).await.map(|_| ())
}

/// Adds the attributes of one workflow; amounts are spread so that their order is not that of the starts.
fn with_values(start: StartWorkflowExecutionRequest, index: usize) -> StartWorkflowExecutionRequest {
    let amount = index.wrapping_mul(2_654_435_761) % 1_000_003;
    let day = index % 28 + 1;
    let values = [
        format!("\"c{}\"", index % CUSTOMERS),
        amount.to_string(),
        format!("{}.5", index % 1_000),
        index.is_multiple_of(3).to_string(),
        format!("\"2026-01-{day:02}T00:00:00Z\""),
    ];
    let fields = ATTRIBUTES.iter().zip(values).map(|((name, kind), value)| {
        let kind = kind.as_str_name().trim_start_matches("INDEXED_VALUE_TYPE_").to_lowercase();
        let kind = kind[..1].to_uppercase() + &kind[1..];
        let metadata = [("encoding".to_owned(), "json/plain".into()), ("type".to_owned(), kind.into())].into();
        ((*name).to_owned(), Payload { metadata, data: value.into_bytes().into(), ..Default::default() })
    });
    let search_attributes = Some(SearchAttributes { indexed_fields: fields.collect() });
    StartWorkflowExecutionRequest { search_attributes, ..start }
}
