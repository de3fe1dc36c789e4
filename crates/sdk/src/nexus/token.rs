//! Tokens of operations that are workflows, in the form that Temporal's SDKs share: JSON in base64 for URLs.

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};

/// The type of a token that names a workflow.
const WORKFLOW: u8 = 1;

#[derive(Serialize, Deserialize)]
struct Token {
    #[serde(rename = "v", default, skip_serializing_if = "is_zero")]
    version: u8,
    #[serde(rename = "t")]
    kind: u8,
    #[serde(rename = "ns")]
    namespace: String,
    #[serde(rename = "wid")]
    workflow_id: String,
}

fn is_zero(version: &u8) -> bool {
    *version == 0
}

/// The token of an operation that is a workflow.
pub(crate) fn of_workflow(namespace: &str, workflow_id: &str) -> String {
    let token =
        Token { version: 0, kind: WORKFLOW, namespace: namespace.to_owned(), workflow_id: workflow_id.to_owned() };
    // A struct of numbers and texts is always JSON.
    BASE64_URL_SAFE_NO_PAD.encode(serde_json::to_vec(&token).unwrap_or_default())
}

/// Namespace and id of the workflow that a token names; `None` if it names none.
pub(crate) fn to_workflow(token: &str) -> Option<(String, String)> {
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(token.trim_end_matches('=')).ok()?;
    let token: Token = serde_json::from_slice(&bytes).ok()?;
    let is_known = token.version == 0 && token.kind == WORKFLOW && !token.workflow_id.is_empty();
    is_known.then_some((token.namespace, token.workflow_id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_that_of_other_sdks() {
        let token = of_workflow("default", "ship-1");
        let text = String::from_utf8(BASE64_URL_SAFE_NO_PAD.decode(&token).expect("base64")).expect("text");
        assert_eq!(text, r#"{"t":1,"ns":"default","wid":"ship-1"}"#);
        assert_eq!(to_workflow(&token), Some(("default".to_owned(), "ship-1".to_owned())));
    }

    #[test]
    fn what_names_no_workflow_is_refused() {
        let encoded = |json: &str| BASE64_URL_SAFE_NO_PAD.encode(json);
        for token in [
            String::new(),
            "?".to_owned(),
            encoded("{}"),
            encoded(r#"{"t":2,"ns":"n","wid":"w"}"#),
            encoded(r#"{"t":1,"ns":"n","wid":""}"#),
            encoded(r#"{"v":1,"t":1,"ns":"n","wid":"w"}"#),
        ] {
            assert_eq!(to_workflow(&token), None, "{token}");
        }
    }
}
