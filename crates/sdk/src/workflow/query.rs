//! Answers to queries: those of the workflow, and those that every workflow has.

use std::borrow::Cow;

use segno_proto::common::{Header, Payload};
use serde_json::json;

use super::{handlers::unknown, instance::Instance, interceptor::InboundKind};
use crate::{converter, failure::Failure, panics};

/// Answers a query.
pub(crate) fn answer(
    instance: &mut Instance,
    name: &str,
    input: &[Payload],
    header: Option<&Header>,
) -> Result<Vec<Payload>, Failure> {
    match name {
        "__stack_trace" => text(&stack(instance)),
        "__temporal_workflow_metadata" => metadata(instance),
        _ => {
            let before = instance.shared.core().before();
            let answered = panics::catch(|| {
                let input = instance.shared.inbound(InboundKind::Query, name, header, Cow::Borrowed(input));
                instance.handlers.query(name, &input)
            });
            let taken_back = instance.shared.core().take_back(before);
            if taken_back.asked {
                return Err(
                    Failure::application("QueryFailed", format!("query {name:?} must not schedule anything")).into()
                );
            }
            match answered {
                Ok(Some(answer)) => answer.map_err(|error| error.failure()),
                Ok(None) => {
                    let [_, known, _] = instance.handlers.names();
                    Err(unknown("query", name, known))
                }
                Err(panic) => Err(panic.in_workflow()),
            }
        }
    }
}

fn text(text: &str) -> Result<Vec<Payload>, Failure> {
    converter::encode_json(text).map(|payload| vec![payload]).map_err(|error| Failure::new(error.to_string()).into())
}

/// The operations that the workflow waits for, by age.
fn stack(instance: &Instance) -> String {
    let core = instance.shared.core();
    let mut lines: Vec<String> = core
        .ops
        .values()
        .filter(|op| op.outcome.is_none())
        .map(|op| format!("waits for {}", op.kind.describe()))
        .collect();
    if lines.is_empty() {
        lines.push("waits for nothing".to_owned());
    }
    lines.join("\n")
}

fn metadata(instance: &Instance) -> Result<Vec<Payload>, Failure> {
    let [signals, queries, updates] = instance.handlers.names();
    let list = |names: Vec<String>| names.into_iter().map(|name| json!({ "name": name })).collect::<Vec<_>>();
    let core = instance.shared.core();
    let metadata = json!({
        "definition": {
            "type": core.info.kind,
            "queryDefinitions": list(queries),
            "signalDefinitions": list(signals),
            "updateDefinitions": list(updates),
        },
        "currentDetails": core.details,
    });
    converter::encode_json(&metadata)
        .map(|payload| vec![payload])
        .map_err(|error| Failure::new(error.to_string()).into())
}
