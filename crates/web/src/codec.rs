//! Codec servers, as in Temporal's UI: the browser asks a service of the user to decode payloads that the server cannot
//! read. This server puts the endpoint into the page, allows the browser to reach it (content security policy), and
//! adds the encoded payloads to the page.
//!
//! The endpoint is the operator's (`--ui-codec-endpoint`), or one that the user set for this browser, in a cookie.

use base64::{Engine, engine::general_purpose::STANDARD};
use http::{HeaderMap, HeaderValue, header};
use segno_proto::common::Payload;
use serde_json::{Value, json};

use super::{forms, payloads};

/// The cookie with the reader's endpoint, percent-encoded.
const COOKIE: &str = "segno_codec";
/// Larger payloads are not decoded.
const ENCODED_BYTES_MAX: usize = 256 * 1024;
const ENDPOINT_BYTES_MAX: usize = 512;

/// Where payloads are decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Codec {
    /// The address in front of `/decode`. It may have `{namespace}` in it.
    pub(super) endpoint: String,
    /// Its scheme, host and port.
    origin: String,
}

impl Codec {
    /// An endpoint, unless it is not an address that may stand in a header.
    pub fn parse(endpoint: &str) -> Option<Self> {
        let endpoint = endpoint.trim().trim_end_matches('/');
        let scheme = ["https://", "http://"].into_iter().find(|scheme| endpoint.starts_with(scheme))?;
        let rest = &endpoint[scheme.len()..];
        let authority = rest.split('/').next()?;
        let is_host = |c: char| c.is_ascii_alphanumeric() || ".-:[]".contains(c);
        let is_path = |c: char| c.is_ascii_alphanumeric() || "/.-_~%{}:".contains(c);
        let is_good =
            !authority.is_empty() && authority.chars().all(is_host) && rest[authority.len()..].chars().all(is_path);
        (is_good && endpoint.len() <= ENDPOINT_BYTES_MAX)
            .then(|| Self { endpoint: endpoint.to_owned(), origin: format!("{scheme}{authority}") })
    }

    /// The reader's own endpoint, or the operator's.
    pub(super) fn of(headers: &HeaderMap, operator: Option<&Self>) -> Option<Self> {
        let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let own =
            cookies.flat_map(|all| all.split(';')).find_map(|one| one.trim().strip_prefix(COOKIE)?.strip_prefix('='));
        match own.and_then(forms::decode) {
            Some(own) if !own.is_empty() => Self::parse(&own),
            _ => operator.cloned(),
        }
    }

    /// Lets the browser reach it.
    pub(super) fn allow(&self, headers: &mut HeaderMap) {
        let allowed = headers
            .get(header::CONTENT_SECURITY_POLICY)
            .and_then(|policy| policy.to_str().ok())
            .map(|policy| policy.replace("connect-src 'self'", &format!("connect-src 'self' {}", self.origin)));
        if let Some(policy) = allowed.and_then(|policy| HeaderValue::from_str(&policy).ok()) {
            headers.insert(header::CONTENT_SECURITY_POLICY, policy);
        }
    }
}

/// The form in which a codec server gets a payload that cannot be read here, and the text that stands for it on the page.
pub(super) fn encoded(payload: &Payload) -> Option<Value> {
    let encoding = payload.metadata.get("encoding").map(|name| &name[..]).unwrap_or_default();
    let is_readable = payloads::json_of(payload).is_some() || encoding == b"binary/plain" || encoding.is_empty();
    if is_readable || payload.data.len() > ENCODED_BYTES_MAX {
        return None;
    }
    let metadata: serde_json::Map<String, Value> =
        payload.metadata.iter().map(|(name, value)| (name.clone(), STANDARD.encode(value).into())).collect();
    Some(json!({
        "shown": payloads::text(payload),
        "payload": { "metadata": metadata, "data": STANDARD.encode(&payload.data) },
    }))
}

/// The same for several, as an attribute; `None` if all can be read.
pub(super) fn attribute<'a>(payloads: impl IntoIterator<Item = &'a Payload>) -> Option<String> {
    let all: Vec<Value> = payloads.into_iter().filter_map(encoded).collect();
    (!all.is_empty()).then(|| Value::Array(all).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_addresses() {
        let codec = Codec::parse("https://codec.example:8081/v1/{namespace}/").expect("an endpoint");
        assert_eq!(
            (codec.endpoint.as_str(), codec.origin.as_str()),
            ("https://codec.example:8081/v1/{namespace}", "https://codec.example:8081")
        );
        for wrong in [
            "",
            "codec.example",
            "javascript:alert(1)",
            "https://",
            "https://a b",
            "https://a;script-src *",
            "https://a/'x'",
            "https://u@a",
        ] {
            assert_eq!(Codec::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_reader_goes_before_the_operator() {
        let operator = Codec::parse("https://operator.example");
        let with = |cookie: &str| {
            let headers = [(header::COOKIE, HeaderValue::from_str(cookie).expect("a header"))].into_iter().collect();
            Codec::of(&headers, operator.as_ref()).map(|codec| codec.endpoint)
        };
        assert_eq!(with("a=b; segno_codec=http%3A%2F%2F127.0.0.1%3A8081"), Some("http://127.0.0.1:8081".to_owned()));
        assert_eq!(with("segno_codec="), Some("https://operator.example".to_owned()));
        assert_eq!(with("xsegno_codec=http%3A%2F%2Fx"), Some("https://operator.example".to_owned()));
        assert_eq!(with("segno_codec=https%3A%2F%2Fa%3Bscript-src%20*"), None, "nothing else gets into the policy");
    }

    #[test]
    fn only_what_cannot_be_read_is_decoded() {
        let payload = |encoding: &'static str| Payload {
            metadata: [("encoding".to_owned(), encoding.into())].into(),
            data: "1".into(),
            ..Default::default()
        };
        assert_eq!(attribute([&payload("json/plain"), &payload("binary/plain")]), None);
        let attribute = attribute([&payload("json/plain"), &payload("binary/encrypted")]).expect("one");
        let parsed: Value = serde_json::from_str(&attribute).expect("JSON");
        assert_eq!(parsed[0]["payload"]["metadata"]["encoding"], "YmluYXJ5L2VuY3J5cHRlZA==");
        assert_eq!(parsed[0]["payload"]["data"], "MQ==");
        assert_eq!(parsed[0]["shown"], "1 bytes (binary/encrypted) 31");
    }
}
