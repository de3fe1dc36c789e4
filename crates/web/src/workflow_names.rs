//! Names of the signals, updates and queries that a workflow handles, as its worker says: forms offer them.

use maud::{Markup, html};
use segno_proto::{query::WorkflowQuery, workflowservice::QueryWorkflowRequest};
use serde_json::{Map, Value, json};

use super::{Answer, PageError, Web, payloads, workflow::RunSnapshot};

/// The query that SDKs answer with the definition of a workflow.
const METADATA: &str = "__temporal_workflow_metadata";
/// Names of the kinds in the forms and in the definition.
const KINDS: [(&str, &str); 3] =
    [("signal", "signalDefinitions"), ("update", "updateDefinitions"), ("query", "queryDefinitions")];

/// Where a script puts the names, once a form that needs them is used.
pub(super) fn places(seen: &RunSnapshot) -> Markup {
    html! {
        div hidden data-names={ (seen.address()) "/names" } {
            @for (kind, _) in KINDS { datalist id={ "names-" (kind) } {} }
        }
    }
}

impl Web {
    /// The names as JSON; none if no worker answers in time.
    pub(super) async fn names_file(
        &self,
        namespace: &str,
        workflow_id: &str,
        run_id: &str,
    ) -> Result<Answer, PageError> {
        let seen = self.see(namespace, workflow_id, run_id).await?;
        let request = QueryWorkflowRequest {
            namespace: namespace.to_owned(),
            execution: Some(seen.execution()),
            query: Some(WorkflowQuery { query_type: METADATA.to_owned(), ..Default::default() }),
            ..Default::default()
        };
        let answer = self.call(request).await.ok().and_then(|answer| answer.query_result);
        let metadata = answer.and_then(|result| result.payloads.first().and_then(payloads::json_of));
        let content = names(metadata.as_ref()).to_string().into_bytes();
        Ok(Answer::File { kind: "application/json", name: "names.json".to_owned(), content })
    }
}

/// Names and descriptions by kind. What SDKs handle themselves is left out.
fn names(metadata: Option<&Value>) -> Value {
    let definition = metadata.map(|metadata| &metadata["definition"]);
    let kinds = KINDS.iter().map(|(kind, field)| {
        let all = definition.and_then(|definition| definition[*field].as_array()).cloned().unwrap_or_default();
        let named = all.iter().filter_map(|one| {
            let name = one["name"].as_str().filter(|name| !name.is_empty() && !name.starts_with("__"))?;
            Some(json!({ "name": name, "description": one["description"].as_str().unwrap_or_default() }))
        });
        ((*kind).to_owned(), named.collect())
    });
    Value::Object(kinds.collect::<Map<_, _>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_from_the_definition() {
        let metadata = json!({ "definition": {
            "type": "Order",
            "signalDefinitions": [{ "name": "approve", "description": "by a person" }, { "name": "" }],
            "queryDefinitions": [{ "name": "state" }, { "name": "__stack_trace" }],
        } });
        let expected = json!({
            "signal": [{ "name": "approve", "description": "by a person" }],
            "update": [],
            "query": [{ "name": "state", "description": "" }],
        });
        assert_eq!(names(Some(&metadata)), expected);
        assert_eq!(names(None), json!({ "signal": [], "update": [], "query": [] }));
    }
}
