//! Patterns that say which URLs may be called.
//!
//! A pattern is a host with an optional port, as it is in the URL: `api.example.com`, `*.example.com:8443`; `*` stands for any text. With
//! `http://` in front it allows requests without TLS. A name may lead anywhere, so an address that is not public is allowed only where a
//! pattern names it: as the host itself, as `localhost`, or as a network such as `10.0.0.0/8`, which allows the names of other patterns to
//! lead there.

use std::{net::IpAddr, str::FromStr};

use http::Uri;

use crate::{
    addresses::{is_in, kind_of},
    client::host_of,
};

/// Most bytes of a pattern.
const PATTERN_BYTES_MAX: usize = 1000;

/// The URLs that may be called. By default none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowedTargets {
    hosts: Vec<HostPattern>,
    networks: Vec<(IpAddr, u32)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct HostPattern {
    /// Host and port in lower case, with `*` for any text.
    text: String,
    /// Whether TLS may be missing.
    insecure: bool,
}

/// A text that is no pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no pattern. Write a host with its port as it is in the URL, such as api.example.com or *.example.com:8443, with http:// in \
     front to allow requests without TLS; or a network, such as 10.0.0.0/8, to which names may lead"
)]
pub struct BadPattern(String);

/// Why a URL may not be called.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RefusedTarget {
    /// No pattern allows its host.
    #[error("no pattern allows {0}")]
    Unknown(String),
    /// A pattern allows its host, and TLS is missing.
    #[error("{0} is allowed with https:// only")]
    Insecure(String),
    /// Its host is an address, or leads to one, that is not public and that no pattern names.
    #[error("{host} leads to {address}, which is {kind}, and no pattern names that address")]
    Address {
        /// The host of the URL.
        host: String,
        /// The address.
        address: IpAddr,
        /// What it is.
        kind: &'static str,
    },
}

impl AllowedTargets {
    /// Adds a pattern.
    pub fn add(&mut self, pattern: &str) -> Result<(), BadPattern> {
        let bad = || BadPattern(pattern.to_owned());
        let (insecure, text) = match (pattern.strip_prefix("http://"), pattern.strip_prefix("https://")) {
            (Some(rest), _) => (true, rest),
            (None, rest) => (false, rest.unwrap_or(pattern)),
        };
        if text.len() == pattern.len()
            && let Some((first, prefix)) = text.split_once('/')
        {
            self.networks.push(network(first, prefix).ok_or_else(bad)?);
            return Ok(());
        }
        let is_plain = |byte: u8| byte.is_ascii_graphic() && !br#"/\@?#%"<>^`{|}"#.contains(&byte);
        if text.is_empty() || text.len() > PATTERN_BYTES_MAX || !text.bytes().all(is_plain) {
            return Err(bad());
        }
        self.hosts.push(HostPattern { text: text.to_lowercase(), insecure });
        Ok(())
    }

    /// Adds a pattern of hosts that may lead to any address, as Temporal's server has them.
    pub fn add_with_any_address(&mut self, host: &str, insecure: bool) -> Result<(), BadPattern> {
        let scheme = if insecure { "http://" } else { "https://" };
        self.add(&format!("{scheme}{host}"))?;
        self.networks = vec![([0; 4].into(), 0), ([0_u8; 16].into(), 0)];
        Ok(())
    }

    /// Whether a URL may be called, as far as the URL says.
    pub fn check(&self, url: &Uri) -> Result<(), RefusedTarget> {
        let named = named(url);
        let is_tls = url.scheme_str() == Some("https");
        let mut matching =
            self.hosts.iter().filter(|pattern| matches(pattern.text.as_bytes(), named.as_bytes())).peekable();
        if matching.peek().is_none() {
            return Err(RefusedTarget::Unknown(named));
        }
        match is_tls || matching.any(|pattern| pattern.insecure) {
            true => Ok(()),
            false => Err(RefusedTarget::Insecure(named)),
        }
    }

    /// Whether an address may be connected to for a URL that is allowed.
    pub fn check_address(&self, url: &Uri, address: IpAddr) -> Result<(), RefusedTarget> {
        let Some(kind) = kind_of(address) else { return Ok(()) };
        let named = named(url);
        let names = |pattern: &HostPattern| {
            let host = host_part(&pattern.text);
            let is_it = match IpAddr::from_str(host) {
                Ok(literal) => literal == address,
                Err(_) => host == "localhost" && address.is_loopback(),
            };
            is_it && matches(pattern.text.as_bytes(), named.as_bytes())
        };
        let in_network = |(first, prefix): &(IpAddr, u32)| is_in(address, *first, *prefix);
        match self.hosts.iter().any(names) || self.networks.iter().any(in_network) {
            true => Ok(()),
            false => Err(RefusedTarget::Address { host: host_of(url), address, kind }),
        }
    }
}

/// Host and port as they are in a URL, in lower case.
fn named(url: &Uri) -> String {
    let authority = url.authority().map_or("", |authority| authority.as_str());
    authority.rsplit('@').next().unwrap_or_default().to_lowercase()
}

/// The host of a host and port, without brackets.
fn host_part(named: &str) -> &str {
    match named.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, _)) => host,
        None => named.split_once(':').map_or(named, |(host, _)| host),
    }
}

fn network(first: &str, prefix: &str) -> Option<(IpAddr, u32)> {
    let (first, prefix): (IpAddr, u32) = (first.parse().ok()?, prefix.parse().ok()?);
    (prefix <= if first.is_ipv4() { 32 } else { 128 }).then_some((first, prefix))
}

/// Whether a text is one of those that a pattern stands for.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut read) = (0, 0);
    // Where the last star is, and how much of the text it stands for so far.
    let mut star: Option<(usize, usize)> = None;
    while read < text.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, read));
                at += 1;
            }
            Some(byte) if *byte == text[read] => {
                at += 1;
                read += 1;
            }
            _ => {
                let Some((of, begin)) = star else { return false };
                star = Some((of, begin + 1));
                at = of + 1;
                read = begin + 1;
            }
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn targets(patterns: &[&str]) -> AllowedTargets {
        let mut targets = AllowedTargets::default();
        patterns.iter().for_each(|pattern| targets.add(pattern).expect("a pattern"));
        targets
    }

    fn url(text: &str) -> Uri {
        text.parse().expect("a URL")
    }

    #[test]
    fn patterns_are_those_of_hosts_and_ports() {
        let cases = [
            ("api.example.com", "https://api.example.com/x", true),
            ("api.example.com", "https://API.example.COM/x", true),
            ("API.example.com", "https://api.example.com", true),
            ("api.example.com", "https://api.example.com:8443/x", false),
            ("api.example.com:8443", "https://api.example.com:8443/x", true),
            ("api.example.com", "http://api.example.com/x", false),
            ("http://api.example.com", "http://api.example.com/x", true),
            ("http://api.example.com", "https://api.example.com/x", true),
            ("https://api.example.com", "https://api.example.com/x", true),
            ("*.example.com", "https://a.b.example.com/", true),
            ("*.example.com", "https://example.com/", false),
            ("*.example.com", "https://a.example.com.evil.org/", false),
            ("*.example.com", "https://evil.org/a.example.com", false),
            ("*.example.com", "https://a.example.com@evil.org/", false),
            ("a*b*c", "https://axxbxxbc/", true),
            ("a*b*c", "https://axxc/", false),
            ("*", "https://anything:1/", true),
            ("*:443", "https://a:443/", true),
            ("[::1]:80", "https://[::1]:80/", true),
        ];
        for (pattern, called, allowed) in cases {
            assert_eq!(targets(&[pattern]).check(&url(called)).is_ok(), allowed, "{pattern} {called}");
        }
        let refused =
            |patterns: &[&str], called: &str| targets(patterns).check(&url(called)).map_err(|why| why.to_string());
        assert_eq!(refused(&[], "https://a:1/b"), Err("no pattern allows a:1".to_owned()));
        assert_eq!(refused(&["a"], "http://a/b"), Err("a is allowed with https:// only".to_owned()));
        assert_eq!(refused(&["a", "http://*"], "http://a/b"), Ok(()));
    }

    #[test]
    fn texts_that_are_no_patterns_are_refused() {
        for text in ["", "http://", "a b", "a/b", "http://a/b", "a@b", "10.0.0.0/33", "10.0.0/8", "::/129", "ftp://a"] {
            assert!(AllowedTargets::default().add(text).is_err(), "{text}");
        }
    }

    #[test]
    fn addresses_that_are_not_public_have_to_be_named() {
        let cases = [
            (&["*"][..], "https://a/", "8.8.8.8", true),
            (&["*"], "https://a/", "127.0.0.1", false),
            (&["*"], "https://127.0.0.1/", "127.0.0.1", false),
            (&["127.*"], "https://127.0.0.1/", "127.0.0.1", false),
            (&["127.0.0.1"], "https://127.0.0.1/", "127.0.0.1", true),
            (&["127.0.0.1:*"], "https://127.0.0.1:81/", "127.0.0.1", true),
            (&["127.0.0.1:80"], "https://127.0.0.1:81/", "127.0.0.1", false),
            (&["*", "127.0.0.1"], "https://a/", "127.0.0.1", false),
            (&["[::1]:8080"], "https://[::1]:8080/", "::1", true),
            (&["localhost:1"], "https://localhost:1/", "127.0.0.1", true),
            (&["localhost:1"], "https://localhost:1/", "::1", true),
            (&["localhost"], "https://localhost/", "10.0.0.1", false),
            (&["internal"], "https://internal/", "10.0.0.1", false),
            (&["internal", "10.0.0.0/8"], "https://internal/", "10.0.0.1", true),
            (&["internal", "10.0.0.0/8"], "https://internal/", "::ffff:10.0.0.1", true),
            (&["internal", "10.0.0.0/8"], "https://internal/", "192.168.0.1", false),
            (&["internal", "fd00::/8"], "https://internal/", "fd12::1", true),
        ];
        for (patterns, called, address, allowed) in cases {
            let address = address.parse().expect("an address");
            let checked = targets(patterns).check_address(&url(called), address);
            assert_eq!(checked.is_ok(), allowed, "{patterns:?} {called} {address}");
        }
        let refused = targets(&["*"]).check_address(&url("https://a:1/"), [127, 0, 0, 1].into());
        let text = "a leads to 127.0.0.1, which is loopback, and no pattern names that address";
        assert_eq!(refused.map_err(|why| why.to_string()), Err(text.to_owned()));
        let mut temporal = AllowedTargets::default();
        temporal.add_with_any_address("*", true).expect("a pattern");
        assert_eq!(temporal.check_address(&url("http://a/"), [127, 0, 0, 1].into()), Ok(()));
    }
}
