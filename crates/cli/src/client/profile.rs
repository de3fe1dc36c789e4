//! Profiles: the server's address, the namespace and other settings of a client, from a file.
//!
//! The file is Temporal's (`[profile.NAME]` with `address`, `namespace` and so on), at Segno's path or at Temporal's.
//! Unknown keys are refused, not ignored: a setting without effect would be noticed too late.

use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::{error::ClientError, variable};

/// The profile that is used if none is named.
const DEFAULT: &str = "default";

/// What a profile says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profile {
    /// `host:port`.
    pub address: Option<String>,
    /// The namespace.
    pub namespace: Option<String>,
    /// A secret that is sent with each call.
    pub api_key: Option<String>,
    /// Settings of encrypted connections.
    pub tls: Option<TlsProfile>,
}

/// What a profile says about encryption.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TlsProfile {
    /// Nothing is encrypted.
    pub is_disabled: bool,
    /// Roots for the server's certificate.
    pub roots: Option<PathBuf>,
    /// Certificate of the client.
    pub certificate: Option<PathBuf>,
    /// Its key.
    pub key: Option<PathBuf>,
    /// The name in the server's certificate.
    pub server_name: Option<String>,
    /// Any certificate is taken.
    pub is_unverified: bool,
}

impl TlsProfile {
    fn parse(value: &Value) -> Result<Self, String> {
        let Value::Table(table) = value else { return Err("tls is not a table; write [profile.NAME.tls]".to_owned()) };
        let mut read = Self::default();
        for (key, value) in table {
            let text = || value.as_str().map(str::to_owned).ok_or_else(|| format!("tls.{key} is not a text"));
            let truth = || value.as_bool().ok_or_else(|| format!("tls.{key} is not true or false"));
            match key.as_str() {
                "disabled" => read.is_disabled = truth()?,
                "server_ca_cert_path" => read.roots = Some(text()?.into()),
                "client_cert_path" => read.certificate = Some(text()?.into()),
                "client_key_path" => read.key = Some(text()?.into()),
                "server_name" => read.server_name = Some(text()?),
                "disable_host_verification" => read.is_unverified = truth()?,
                _ => {
                    return Err(format!(
                        "\"tls.{key}\" is not understood; there are disabled, server_ca_cert_path, client_cert_path, \
                         client_key_path, server_name and disable_host_verification"
                    ));
                }
            }
        }
        Ok(read)
    }
}

/// Reads a profile. `file` and `name` are what the user said; otherwise the environment and the usual places are looked at.
pub fn load(file: Option<&Path>, name: Option<&str>) -> Result<Profile, ClientError> {
    let given = file
        .map(Path::to_owned)
        .or_else(|| variable(&["SEGNO_CONFIG_FILE", "TEMPORAL_CONFIG_FILE"]).map(PathBuf::from));
    let name = name.map(str::to_owned).or_else(|| variable(&["SEGNO_PROFILE", "TEMPORAL_PROFILE"]));
    let path = match given {
        Some(path) => path,
        None => match usual_places().into_iter().find(|path| path.is_file()) {
            Some(path) => path,
            None if name.is_some() => {
                let text = "there is no file with profiles; --config-file or SEGNO_CONFIG_FILE names one".to_owned();
                return Err(ClientError::Profile(text));
            }
            None => return Ok(Profile::default()),
        },
    };
    let shown = path.display();
    let text = std::fs::read_to_string(&path)
        .map_err(|error| ClientError::Profile(format!("{shown} cannot be read: {error}")))?;
    parse(&text, name.as_deref()).map_err(|why| ClientError::Profile(format!("{shown}: {why}")))
}

/// Segno's own place, then Temporal's.
fn usual_places() -> Vec<PathBuf> {
    let places = ["segno/segno.toml", "temporalio/temporal.toml"];
    config_dir().into_iter().flat_map(|config| places.map(|place| config.join(place))).collect()
}

/// The user's configuration directory, by the conventions of the platform.
pub fn config_dir() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = || variable("HOME");
    match cfg!(target_os = "macos") {
        true => home().map(|home| home.join("Library/Application Support")),
        false => variable("XDG_CONFIG_HOME").or_else(|| home().map(|home| home.join(".config"))),
    }
}

/// A profile of a file.
fn parse(text: &str, name: Option<&str>) -> Result<Profile, String> {
    let file: Table = text.parse().map_err(|error: toml::de::Error| error.message().to_owned())?;
    // Settings of `segno serve` may be in the same file.
    if let Some(unknown) = file.keys().find(|key| !matches!(key.as_str(), "profile" | "serve")) {
        return Err(format!("{unknown:?} is not understood; there is [profile.NAME]"));
    }
    let none = Table::new();
    let profiles = match file.get("profile") {
        None => &none,
        Some(Value::Table(profiles)) => profiles,
        Some(_) => return Err("profile is not a table; write [profile.NAME]".to_owned()),
    };
    let profile = match (profiles.get(name.unwrap_or(DEFAULT)), name) {
        (Some(Value::Table(profile)), _) => profile,
        (Some(_), _) => return Err(format!("profile.{} is not a table", name.unwrap_or(DEFAULT))),
        (None, None) => return Ok(Profile::default()),
        (None, Some(name)) => {
            let names: Vec<_> = profiles.keys().cloned().collect();
            return Err(format!("there is no profile {name:?}; there are: {}", names.join(", ")));
        }
    };
    let mut read = Profile::default();
    for (key, value) in profile {
        let text = || match value {
            Value::String(text) => Ok(Some(text.clone()).filter(|text| !text.is_empty())),
            _ => Err(format!("{key} is not a text")),
        };
        match key.as_str() {
            "address" => read.address = text()?,
            "namespace" => read.namespace = text()?,
            "api_key" => read.api_key = text()?,
            "tls" => read.tls = Some(TlsProfile::parse(value)?),
            _ => return Err(format!("{key:?} is not understood; there are address, namespace, api_key and tls")),
        }
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "[profile.default]\naddress = \"a:1\"\n[profile.prod]\naddress = \"b:2\"\nnamespace = \"n\"\n";

    #[test]
    fn profiles_are_read_by_name() {
        assert_eq!(parse(FILE, None).map(|profile| profile.address), Ok(Some("a:1".to_owned())));
        let prod = parse(FILE, Some("prod")).expect("a profile");
        assert_eq!((prod.address.as_deref(), prod.namespace.as_deref()), (Some("b:2"), Some("n")));
        assert_eq!(parse("", None), Ok(Profile::default()));
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for (text, name, why) in [
            (FILE, Some("test"), "there is no profile \"test\"; there are: default, prod"),
            ("[profile.default]\nadress = \"a:1\"\n", None, "\"adress\" is not understood"),
            ("[profiles.default]\naddress = \"a:1\"\n", None, "\"profiles\" is not understood"),
            ("[profile.default]\naddress = 7\n", None, "address is not a text"),
            ("profile = 1", None, "profile is not a table"),
        ] {
            let refused = parse(text, name).expect_err(text);
            assert!(refused.contains(why), "{refused}");
        }
        assert!(parse("[profile", None).is_err());
    }
}
