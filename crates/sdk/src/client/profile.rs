//! Settings of a client in Temporal's configuration file, `temporal.toml`: the feature `envconfig`.
//!
//! A profile is read as the equivalent environment variables, so that both have one meaning and the environment can
//! override the file.

use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::ClientError;

/// The profile that is used if none is named.
const DEFAULT: &str = "default";

/// The settings of a file, as environment variables. `file` and `profile` are the program's choice; otherwise the environment
/// and the usual place are looked at. No file in the usual place is no error, unless a profile was named.
pub(super) fn variables(file: Option<&Path>, profile: Option<&str>) -> Result<Vec<(String, String)>, ClientError> {
    let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let profile = profile.map(str::to_owned).or_else(|| variable("TEMPORAL_PROFILE"));
    let path = match file.map(Path::to_owned).or_else(|| variable("TEMPORAL_CONFIG_FILE").map(PathBuf::from)) {
        Some(path) => path,
        None => match usual_place().filter(|path| path.is_file()) {
            Some(path) => path,
            None => match profile {
                Some(name) => {
                    let message = format!("there is no profile {name:?}: no file {} is there", shown(usual_place()));
                    return Err(ClientError::Configuration(message));
                }
                None => return Ok(Vec::new()),
            },
        },
    };
    let at = |why: String| ClientError::Configuration(format!("{}: {why}", path.display()));
    let text = std::fs::read_to_string(&path).map_err(|error| at(error.to_string()))?;
    parse(&text, profile.as_deref()).map_err(at)
}

fn shown(path: Option<PathBuf>) -> String {
    path.map_or_else(|| "temporalio/temporal.toml".to_owned(), |path| path.display().to_string())
}

/// `temporalio/temporal.toml` in the user's configuration directory, by the conventions of the platform.
fn usual_place() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let directory = if cfg!(windows) {
        variable("AppData")
    } else if cfg!(target_os = "macos") {
        variable("HOME").map(|home| home.join("Library/Application Support"))
    } else {
        variable("XDG_CONFIG_HOME").or_else(|| variable("HOME").map(|home| home.join(".config")))
    };
    directory.map(|directory| directory.join("temporalio").join("temporal.toml"))
}

fn parse(text: &str, profile: Option<&str>) -> Result<Vec<(String, String)>, String> {
    let file: Table = text.parse().map_err(|error: toml::de::Error| error.message().to_owned())?;
    let none = Table::new();
    let profiles = match file.get("profile") {
        None => &none,
        Some(Value::Table(profiles)) => profiles,
        Some(_) => return Err("profile is not a table; write [profile.NAME]".to_owned()),
    };
    let name = profile.unwrap_or(DEFAULT);
    match (profiles.get(name), profile) {
        (Some(Value::Table(settings)), _) => read(settings),
        (Some(_), _) => Err(format!("profile.{name} is not a table")),
        (None, None) => Ok(Vec::new()),
        (None, Some(_)) => {
            let names: Vec<_> = profiles.keys().map(String::as_str).collect();
            Err(format!("there is no profile {name:?}; there are: {}", names.join(", ")))
        }
    }
}

fn read(settings: &Table) -> Result<Vec<(String, String)>, String> {
    let mut variables = Vec::new();
    let mut add = |name: &str, value: String| variables.push((format!("TEMPORAL_{name}"), value));
    for (key, value) in settings {
        match (key.as_str(), value) {
            ("address" | "namespace" | "api_key", value) => add(&key.to_uppercase(), string(key, value)?),
            ("tls", Value::Table(tls)) => {
                let disabled = tls.get("disabled").is_some_and(|value| value.as_bool() == Some(true));
                add("TLS", (!disabled).to_string());
                for (key, value) in tls {
                    match key.as_str() {
                        "disabled" => {}
                        "disable_host_verification" if value.as_bool() == Some(false) => {}
                        "disable_host_verification" => {
                            return Err("this SDK always verifies the server's name".to_owned());
                        }
                        _ => add(&format!("TLS_{}", key.to_uppercase()), string(key, value)?),
                    }
                }
            }
            ("tls", Value::Boolean(wanted)) => add("TLS", wanted.to_string()),
            ("grpc_meta", Value::Table(entries)) => {
                for (key, value) in entries {
                    add(&format!("GRPC_META_{key}"), string(key, value)?);
                }
            }
            // Payloads that could not be read would be found out too late.
            ("codec", _) => return Err("this SDK asks no remote codec: use ClientBuilder::codec".to_owned()),
            ("tls" | "grpc_meta", _) => return Err(format!("{key} is not a table")),
            _ => tracing::warn!(setting = key, "a setting in temporal.toml is not understood"),
        }
    }
    Ok(variables)
}

fn string(key: &str, value: &Value) -> Result<String, String> {
    value.as_str().map(str::to_owned).ok_or_else(|| format!("{key} is not a text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
        [profile.default]
        address = "a:1"
        [profile.prod]
        address = "b:2"
        namespace = "shop"
        api_key = "k"
        [profile.prod.tls]
        server_name = "example.com"
        client_cert_data = "pem"
        [profile.prod.grpc_meta]
        x-team = "till"
        [profile.plain]
        tls = { disabled = true, server_name = "example.com" }
    "#;

    fn pairs(profile: Option<&str>) -> Vec<(String, String)> {
        parse(FILE, profile).unwrap()
    }

    fn pair(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    #[test]
    fn a_profile_says_what_variables_say() {
        assert_eq!(pairs(None), [pair("TEMPORAL_ADDRESS", "a:1")]);
        let prod = pairs(Some("prod"));
        for expected in [
            pair("TEMPORAL_NAMESPACE", "shop"),
            pair("TEMPORAL_API_KEY", "k"),
            pair("TEMPORAL_TLS", "true"),
            pair("TEMPORAL_TLS_SERVER_NAME", "example.com"),
            pair("TEMPORAL_TLS_CLIENT_CERT_DATA", "pem"),
            pair("TEMPORAL_GRPC_META_x-team", "till"),
        ] {
            assert!(prod.contains(&expected), "{expected:?} is missing: {prod:?}");
        }
        assert!(pairs(Some("plain")).contains(&pair("TEMPORAL_TLS", "false")));
        assert_eq!(parse("", None), Ok(Vec::new()));
    }

    #[test]
    fn what_would_be_ignored_is_refused() {
        for (text, profile, why) in [
            (FILE, Some("test"), "there is no profile \"test\"; there are: default, plain, prod"),
            ("profile = 1", None, "profile is not a table"),
            ("[profile.default]\naddress = 7", None, "address is not a text"),
            ("[profile.default]\ncodec = { endpoint = \"x\" }", None, "remote codec"),
            ("[profile.default.tls]\ndisable_host_verification = true", None, "always verifies"),
        ] {
            let refused = parse(text, profile).expect_err(text);
            assert!(refused.contains(why), "{refused}");
        }
        assert!(parse("[profile", None).is_err());
    }

    #[test]
    fn a_file_that_is_named_must_be_there() {
        assert!(matches!(variables(Some(Path::new("/no/such/file")), None), Err(ClientError::Configuration(_))));
    }
}
