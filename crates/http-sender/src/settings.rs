//! Settings of requests over HTTP. By default none is made.

use segno_http_client::AllowedTargets;

/// The names in a template that stand for those of the caller's namespace.
const NAMESPACE_NAME: &str = "{{.NamespaceName}}";
const NAMESPACE_ID: &str = "{{.NamespaceID}}";

/// Where requests may go, and where their answers come to later.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HttpSettings {
    /// Where handlers outside report the ends of operations.
    pub callback_url: Option<CallbackUrl>,
    /// The URLs that endpoints may have.
    pub endpoint_targets: AllowedTargets,
    /// The URLs that callbacks of workflows may have.
    pub callback_targets: AllowedTargets,
}

/// A URL of this server to which handlers outside report the ends of operations. It has a place for the namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallbackUrl(String);

impl CallbackUrl {
    /// The URL under the public address of the server's HTTP port.
    pub fn of_server(address: &str) -> Result<Self, String> {
        if address.contains(['?', '#']) {
            return Err("give the address alone, such as https://segno.example.com".to_owned());
        }
        Self::template(&format!("{}/namespaces/{NAMESPACE_NAME}/nexus/callback", address.trim_end_matches('/')))
    }

    /// A URL with names for the namespace, as Temporal's server has it.
    pub fn template(text: &str) -> Result<Self, String> {
        let template = Self(text.to_owned());
        let example = template.of("n", "n");
        if example.contains("{{") {
            return Err(format!("only {NAMESPACE_NAME} and {NAMESPACE_ID} have a meaning in it"));
        }
        let url: http::Uri = example.parse().map_err(|error| format!("not a URL: {error}"))?;
        match (url.scheme_str(), url.host()) {
            (Some("http" | "https"), Some(host)) if !host.is_empty() => Ok(template),
            _ => Err("it must begin with http:// or https:// and name a host".to_owned()),
        }
    }

    /// The URL of a namespace.
    pub fn of(&self, name: &str, id: &str) -> String {
        self.0.replace(NAMESPACE_NAME, &segno_nexus::path_part(name)).replace(NAMESPACE_ID, id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callbacks_come_to_their_namespace() {
        let url = CallbackUrl::of_server("https://segno.example.com/").expect("an address");
        assert_eq!(url.of("a b", "id"), "https://segno.example.com/namespaces/a%20b/nexus/callback");
        let url = CallbackUrl::template("http://h:1/x/{{.NamespaceID}}/y").expect("a template");
        assert_eq!(url.of("n", "id"), "http://h:1/x/id/y");
        assert!(CallbackUrl::template("http://h/{{.Other}}").is_err());
        for text in ["", "segno.example.com", "ftp://a", "http://", "https://a?b", "https://a b"] {
            assert!(CallbackUrl::of_server(text).is_err(), "{text}");
        }
    }
}
