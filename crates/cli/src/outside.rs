//! Flags of requests to servers elsewhere: handlers of Nexus operations, and callbacks. All servers have them.

use clap::Args;
use segno_node::{AllowedTargets, CallbackUrl, HttpSettings};
use serde_json::Value;

/// Which servers elsewhere may be called, and where they report.
#[derive(Args, Clone, Debug)]
pub struct Outside {
    /// Address under which handlers of external Nexus endpoints reach the HTTP port of this server, to report the ends of operations:
    /// https://segno.example.com. Without it no operation of such an endpoint is started.
    #[arg(long, env = "SEGNO_NEXUS_CALLBACK_URL", value_name = "URL", value_parser = CallbackUrl::of_server)]
    nexus_callback_url: Option<CallbackUrl>,
    /// URLs that Nexus endpoints may have; may be repeated: a host with its port as it is in the URL, with * for any text, and with http://
    /// in front to allow requests without TLS. Or a network, such as 10.0.0.0/8: names lead to private addresses only if it is given.
    #[arg(long, env = "SEGNO_NEXUS_ALLOWED_TARGETS", value_name = "PATTERN", value_delimiter = ',', value_parser = pattern)]
    nexus_allowed_targets: Vec<String>,
    /// URLs that callbacks of workflows may have; may be repeated. As for --nexus-allowed-targets.
    #[arg(long, env = "SEGNO_CALLBACK_ALLOWED_ADDRESSES", value_name = "PATTERN", value_delimiter = ',', value_parser = pattern)]
    callback_allowed_addresses: Vec<String>,
}

fn pattern(text: &str) -> Result<String, String> {
    AllowedTargets::default().add(text).map(|()| text.to_owned()).map_err(|bad| bad.to_string())
}

impl Outside {
    /// As the node has them.
    pub fn settings(self) -> HttpSettings {
        let targets = |patterns: &[String]| {
            let mut targets = AllowedTargets::default();
            for pattern in patterns {
                targets.add(pattern).expect("it was checked when the flag was read");
            }
            targets
        };
        HttpSettings {
            callback_url: self.nexus_callback_url,
            endpoint_targets: targets(&self.nexus_allowed_targets),
            callback_targets: targets(&self.callback_allowed_addresses),
        }
    }
}

/// The addresses of callbacks as Temporal's server has them: a list of patterns of hosts, which may lead to any address.
pub fn temporal_addresses(json: &str) -> Result<AllowedTargets, String> {
    let expected = || r#"expected a list such as [{"Pattern":"*.example.com","AllowInsecure":false}]"#.to_owned();
    let list: Vec<Value> = serde_json::from_str(json).map_err(|_| expected())?;
    let mut targets = AllowedTargets::default();
    for rule in list {
        let member = |name: &str| {
            let members = rule.as_object().into_iter().flatten();
            members.into_iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.clone())
        };
        let Some(Value::String(pattern)) = member("Pattern") else { return Err(expected()) };
        let insecure = matches!(member("AllowInsecure"), Some(Value::Bool(true)));
        targets.add_with_any_address(&pattern, insecure).map_err(|bad| bad.to_string())?;
    }
    Ok(targets)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        outside: Outside,
    }

    fn settings(flags: &[&str]) -> Result<HttpSettings, clap::Error> {
        Ok(Line::try_parse_from([&["segno"], flags].concat())?.outside.settings())
    }

    #[test]
    fn nothing_is_allowed_by_default() {
        assert_eq!(settings(&[]).expect("flags that exist"), HttpSettings::default());
        let flags = ["--nexus-allowed-targets", "a,http://b:*", "--nexus-allowed-targets", "10.0.0.0/8"];
        let mut targets = AllowedTargets::default();
        for pattern in ["a", "http://b:*", "10.0.0.0/8"] {
            targets.add(pattern).expect("a pattern");
        }
        assert_eq!(settings(&flags).expect("patterns").endpoint_targets, targets);
        assert!(settings(&["--callback-allowed-addresses", "http://a/b"]).is_err());
        assert!(settings(&["--nexus-callback-url", "segno.example.com"]).is_err());
    }

    #[test]
    fn addresses_are_read_as_temporal_has_them() {
        let targets = temporal_addresses(r#"[{"Pattern":"a:*","AllowInsecure":true},{"pattern":"b"}]"#);
        let mut wanted = AllowedTargets::default();
        wanted.add_with_any_address("a:*", true).expect("a pattern");
        wanted.add_with_any_address("b", false).expect("a pattern");
        assert_eq!(targets, Ok(wanted));
        for bad in ["", "{}", "[1]", r#"[{"Pattern":1}]"#, r#"[{"Pattern":"a b"}]"#] {
            assert!(temporal_addresses(bad).is_err(), "{bad}");
        }
    }
}
