//! Tokens of operations that are workflows, in the form that Temporal's SDKs share: JSON in base64 for URLs.

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use serde_json::{Value, json};

/// The type of a token that names a workflow.
const WORKFLOW: i64 = 1;

/// The token of an operation that is a workflow.
pub(crate) fn of_workflow(namespace: &str, workflow_id: &str) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(json!({ "t": WORKFLOW, "ns": namespace, "wid": workflow_id }).to_string())
}

/// The workflow of a namespace that a token names; `None` if it names none.
pub(crate) fn to_workflow(token: &str, namespace: &str) -> Option<String> {
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(token.trim_end_matches('=')).ok()?;
    let token: Value = serde_json::from_slice(&bytes).ok()?;
    let is_known = token["t"] == WORKFLOW && token["ns"] == namespace && token.get("v").is_none_or(|v| *v == 0);
    token["wid"].as_str().filter(|_| is_known).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_that_of_sdks() {
        let token = of_workflow("default", "ship-1");
        let text = String::from_utf8(BASE64_URL_SAFE_NO_PAD.decode(&token).expect("base64")).expect("text");
        assert_eq!(text, r#"{"t":1,"ns":"default","wid":"ship-1"}"#);
        assert_eq!(to_workflow(&token, "default").as_deref(), Some("ship-1"));
        assert_eq!(to_workflow(&token, "other"), None);
    }

    #[test]
    fn what_names_no_workflow_is_refused() {
        let encoded = |json: &str| BASE64_URL_SAFE_NO_PAD.encode(json);
        for token in [
            String::new(),
            "?".to_owned(),
            encoded("{}"),
            encoded(r#"{"t":2,"ns":"n","wid":"w"}"#),
            encoded(r#"{"t":1,"ns":"n"}"#),
            encoded(r#"{"v":1,"t":1,"ns":"n","wid":"w"}"#),
        ] {
            assert_eq!(to_workflow(&token, "n"), None, "{token}");
        }
    }
}
