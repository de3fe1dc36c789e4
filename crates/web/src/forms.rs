//! Percent-encoding, query strings and posted forms (`application/x-www-form-urlencoded`).

use std::fmt::Write;

/// The fields of a form or query string, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Form(Vec<(String, String)>);

impl Form {
    /// Nothing if it is not UTF-8.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        let decoded = pairs.map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((decode(&name.replace('+', " "))?, decode(&value.replace('+', " "))?))
        });
        decoded.collect::<Option<Vec<_>>>().map(Self)
    }

    /// The first value of a field; empty if there is none.
    pub(super) fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(field, _)| field == name).map_or("", |(_, value)| value)
    }

    /// The same without spaces around it.
    pub(super) fn trimmed(&self, name: &str) -> String {
        self.get(name).trim().to_owned()
    }

    /// All values of a field.
    pub(super) fn all(&self, name: &str) -> Vec<&str> {
        self.0.iter().filter(|(field, _)| field == name).map(|(_, value)| value.as_str()).collect()
    }

    /// A number, if there is one.
    pub(super) fn number<T: std::str::FromStr>(&self, name: &str) -> Option<T> {
        self.get(name).trim().parse().ok()
    }

    /// As a query string with some fields set anew; empty values are left out.
    pub(super) fn with(&self, changes: &[(&str, &str)]) -> String {
        let kept = self.0.iter().filter(|(name, _)| changes.iter().all(|(changed, _)| changed != name));
        let all = kept.map(|(name, value)| (name.as_str(), value.as_str())).chain(changes.iter().copied());
        let pairs: Vec<_> = all
            .filter(|(_, value)| !value.is_empty())
            .map(|(name, value)| format!("{}={}", encode(name), encode(value)))
            .collect();
        if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) }
    }
}

/// A text as a part of an address.
pub(super) fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => encoded.push(char::from(byte)),
            // Writing to a string cannot fail.
            _ => drop(write!(encoded, "%{byte:02X}")),
        }
    }
    // Browsers take these for directions.
    match encoded.as_str() {
        "." => "%2E".to_owned(),
        ".." => "%2E%2E".to_owned(),
        _ => encoded,
    }
}

/// The text of a part of an address. Nothing if it is not UTF-8.
pub(super) fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, more)) = rest.split_first() {
        let pair = more.get(..2).and_then(|pair| std::str::from_utf8(pair).ok());
        match pair.and_then(|pair| u8::from_str_radix(pair, 16).ok()) {
            Some(byte) if *first == b'%' => {
                bytes.push(byte);
                rest = &more[2..];
            }
            _ => {
                bytes.push(*first);
                rest = more;
            }
        }
    }
    String::from_utf8(bytes).ok()
}

/// Bytes as digits, for tokens in addresses.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The bytes of such digits; none if they are something else.
pub(super) fn unhex(text: &str) -> Vec<u8> {
    let pairs = text.as_bytes().chunks(2);
    let bytes = pairs.map(|pair| std::str::from_utf8(pair).ok().and_then(|pair| u8::from_str_radix(pair, 16).ok()));
    bytes.collect::<Option<Vec<_>>>().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_survive_an_address() {
        for text in ["plain", "a/b?c&d=e+f g%41", "größe", "..", "<script>"] {
            assert_eq!(decode(&encode(text)).as_deref(), Some(text));
            assert!(!encode(text).contains(['/', '?', '&', '<']));
        }
        assert_eq!(decode("%ff"), None);
        assert_eq!(decode("100%"), Some("100%".to_owned()));
    }

    #[test]
    fn forms() {
        let form = Form::parse("a=1&b=x+y%26&a=2&c").expect("UTF-8");
        assert_eq!((form.get("a"), form.get("b"), form.get("c"), form.get("d")), ("1", "x y&", "", ""));
        assert_eq!(form.all("a"), ["1", "2"]);
        assert_eq!(form.with(&[("a", "3"), ("b", "")]), "?a=3");
    }

    #[test]
    fn tokens() {
        assert_eq!(unhex(&hex(b"\x00\xffabc")), b"\x00\xffabc");
        assert_eq!(unhex("zz"), b"");
    }
}
