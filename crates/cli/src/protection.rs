//! Flags that make a server safe to expose: encryption and authentication. All servers have them.

use std::{
    fs::OpenOptions,
    io::{ErrorKind, Write},
    net::IpAddr,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use segno_server::{
    AuthenticationOptions, SecurityOptions,
    security::{ClientCertificates, ClientFiles, TlsFiles, TokenOptions, digest, new_secret},
};

use crate::exit::Usage;

/// Encryption and authentication.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Security")]
pub struct Protection {
    /// Certificate of the server, PEM. Loaded again when the file changes.
    #[arg(long, env = "SEGNO_TLS_CERT", value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Its private key, PEM.
    #[arg(long, env = "SEGNO_TLS_KEY", value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Roots for certificates of clients, PEM: certificates identify clients.
    #[arg(long, env = "SEGNO_TLS_CLIENT_CA", value_name = "FILE", requires = "tls_cert")]
    tls_client_ca: Option<PathBuf>,
    /// Revocation lists (CRL) of the authorities of clients, PEM: certificates on them are refused. Loaded again when the file changes.
    #[arg(long, env = "SEGNO_TLS_CLIENT_CRL", value_name = "FILE", requires = "tls_client_ca")]
    tls_client_crl: Option<PathBuf>,
    /// Whether clients must show a certificate.
    #[arg(long, env = "SEGNO_TLS_CLIENT_CERTS", value_enum, default_value_t = CertificateMode::Required, requires = "tls_client_ca")]
    tls_client_certs: CertificateMode,
    /// Refuse callers that show neither an API key (`segno key`), nor a token, nor a certificate.
    #[arg(long, env = "SEGNO_AUTH")]
    auth: bool,
    /// File with a key that has all roles; created if it is missing. Turns --auth on.
    /// [default: admin.key in the data directory]
    #[arg(long, env = "SEGNO_ADMIN_KEY_FILE", value_name = "FILE")]
    admin_key_file: Option<PathBuf>,
    /// JSON web key set, a URL or a file: callers may use tokens signed by its keys. Turns --auth on.
    #[arg(long, env = "SEGNO_JWKS", value_name = "URL", requires_all = ["jwt_issuer", "jwt_audience"])]
    jwks: Option<String>,
    /// Required issuer of tokens (iss).
    #[arg(long, env = "SEGNO_JWT_ISSUER", value_name = "NAME", requires = "jwks")]
    jwt_issuer: Option<String>,
    /// Required audience of tokens (aud).
    #[arg(long, env = "SEGNO_JWT_AUDIENCE", value_name = "NAME", requires = "jwks")]
    jwt_audience: Option<String>,
    /// The claim of a token that has its grants, such as ["default:write"].
    #[arg(long, env = "SEGNO_JWT_PERMISSIONS_CLAIM", value_name = "NAME", default_value = "permissions")]
    jwt_permissions_claim: String,
    /// Log changing calls and refused calls to this file, one JSON object a line.
    #[arg(long, env = "SEGNO_AUDIT_LOG", value_name = "FILE")]
    audit_log: Option<PathBuf>,
    /// Refuse changes while the audit log cannot be written, and acknowledge a change when its entry is written.
    #[arg(long, env = "SEGNO_AUDIT_REQUIRED", requires = "audit_log")]
    audit_required: bool,
    /// Codec server at which browsers decode the payloads of the web pages. {namespace} in it stands for the namespace.
    #[arg(long, env = "SEGNO_UI_CODEC_ENDPOINT", value_name = "URL")]
    ui_codec_endpoint: Option<String>,
    /// Listen on other addresses than loopback without TLS or without authentication.
    #[arg(long, env = "SEGNO_INSECURE")]
    insecure: bool,
}

/// Whether clients show certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum CertificateMode {
    /// Connections without a certificate are refused.
    Required,
    /// Clients without a certificate show a key or a token.
    Optional,
}

impl Protection {
    /// As the server has them. `data` is the directory for what has to be kept, if there is one.
    pub fn options(self, ip: IpAddr, data: Option<&Path>) -> anyhow::Result<SecurityOptions> {
        let needs_auth = self.auth || self.jwks.is_some() || self.admin_key_file.is_some();
        let needs_certificate = self.tls_client_ca.is_some() && self.tls_client_certs == CertificateMode::Required;
        let is_encrypted = self.tls_cert.is_some();
        if !ip.is_loopback() && !self.insecure && !(is_encrypted && (needs_auth || needs_certificate)) {
            let missing = match (is_encrypted, needs_auth || needs_certificate) {
                (false, false) => "encryption and authentication are",
                (false, true) => "encryption is",
                _ => "authentication is",
            };
            bail!(Usage(format!(
                "--ip {ip} lets other machines connect, and {missing} off: every client of the port could read and do \
                 everything. Give --tls-cert and --tls-key (`segno tls init` makes a set for development) and --auth; or \
                 --insecure if the network is safe"
            )));
        }
        let tls = match (self.tls_cert, self.tls_key) {
            (Some(certificate), Some(key)) => {
                let wanted = match self.tls_client_certs {
                    CertificateMode::Required => ClientCertificates::Required,
                    CertificateMode::Optional => ClientCertificates::Optional,
                };
                let revoked = self.tls_client_crl;
                let clients = self.tls_client_ca.map(|roots| ClientFiles { roots, wanted, revoked });
                Some(TlsFiles { certificate, key, clients })
            }
            _ => None,
        };
        if let Some(place) = self.jwks.as_deref().filter(|place| place.starts_with("http://"))
            && !self.insecure
            && !is_loopback(place)
        {
            bail!(Usage(format!(
                "--jwks {place}: an attacker in between could replace the keys. Use https, a file, or say --insecure"
            )));
        }
        let authentication = match needs_auth {
            false => None,
            true => {
                let file = self.admin_key_file.or_else(|| data.map(|directory| directory.join("admin.key")));
                let tokens = self.jwks.map(|key_set| TokenOptions {
                    key_set,
                    issuer: self.jwt_issuer.unwrap_or_default(),
                    audience: self.jwt_audience.unwrap_or_default(),
                    permissions_claim: self.jwt_permissions_claim,
                });
                if file.is_none() && tokens.is_none() {
                    bail!(Usage(
                        "--auth without a data directory needs a first key: say where to keep it with --admin-key-file FILE"
                            .to_owned()
                    ));
                }
                let admin_key = file.as_deref().map(admin_key).transpose()?;
                Some(AuthenticationOptions { admin_key, tokens })
            }
        };
        if self.audit_log.is_some() && authentication.is_none() {
            bail!(Usage("--audit-log needs --auth: without it no caller is known".to_owned()));
        }
        let (audit_log, audit_required, codec_endpoint) = (self.audit_log, self.audit_required, self.ui_codec_endpoint);
        Ok(SecurityOptions { tls, authentication, audit_log, audit_required, codec_endpoint })
    }
}

/// Whether a URL leads to this machine.
fn is_loopback(url: &str) -> bool {
    let host = url.trim_start_matches("http://").split(['/', '?']).next().unwrap_or_default();
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name == "localhost" || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The digest of the key in a file, which is made if it is not there.
fn admin_key(path: &Path) -> anyhow::Result<[u8; 32]> {
    let key = match std::fs::read_to_string(path) {
        Ok(key) => key,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let key = new_secret().context("the system has no random numbers")?;
            if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
                std::fs::create_dir_all(directory).with_context(|| format!("creating {}", directory.display()))?;
            }
            let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
            let write = |mut file: std::fs::File| {
                file.write_all(format!("{key}\n").as_bytes())?;
                file.sync_all()
            };
            made.and_then(write).with_context(|| format!("writing the admin key {}", path.display()))?;
            tracing::info!("a key that may do everything is in {}", path.display());
            key
        }
        Err(error) => return Err(error).with_context(|| format!("reading the admin key {}", path.display())),
    };
    let key = key.trim();
    if key.len() < 16 {
        bail!("{} does not have a key in it: remove it, and a new one is made", path.display());
    }
    Ok(digest(key.as_bytes()))
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        protection: Protection,
    }

    fn options(words: &[&str], ip: IpAddr) -> anyhow::Result<SecurityOptions> {
        let line = Line::try_parse_from(["segno"].iter().chain(words))?;
        line.protection.options(ip, None)
    }

    #[test]
    fn other_machines_are_let_in_only_when_it_is_safe() {
        let everywhere: IpAddr = Ipv4Addr::UNSPECIFIED.into();
        let tls = ["--tls-cert", "c", "--tls-key", "k"];
        let jwt = ["--jwks", "f", "--jwt-issuer", "i", "--jwt-audience", "a"];
        assert!(options(&[], Ipv4Addr::LOCALHOST.into()).is_ok() && options(&[], Ipv6Addr::LOCALHOST.into()).is_ok());
        for (words, missing) in [
            (vec![], "encryption and authentication are"),
            (tls.to_vec(), "authentication is"),
            (jwt.to_vec(), "encryption is"),
        ] {
            let error = options(&words, everywhere).expect_err("unsafe").to_string();
            assert!(error.contains(&format!("and {missing} off")), "{error}");
            assert!(options(&[&words[..], &["--insecure"]].concat(), everywhere).is_ok());
        }
        assert!(options(&[&tls[..], &jwt[..]].concat(), everywhere).is_ok());
        assert!(options(&[&tls[..], &["--tls-client-ca", "r"]].concat(), everywhere).is_ok());
        let optional = ["--tls-client-ca", "r", "--tls-client-certs", "optional"];
        assert!(options(&[&tls[..], &optional].concat(), everywhere).is_err());
    }

    #[test]
    fn keys_come_from_where_nobody_is_in_between() {
        let with = |place: &'static str| {
            options(&["--jwks", place, "--jwt-issuer", "i", "--jwt-audience", "a"], Ipv4Addr::LOCALHOST.into())
        };
        assert!(with("https://issuer.example/keys").is_ok() && with("keys.json").is_ok());
        assert!(with("http://127.0.0.1:8080/keys").is_ok() && with("http://[::1]/keys").is_ok());
        for open in ["http://issuer.example/keys", "http://127.0.0.1.evil.example/", "http://localhost@evil.example/"] {
            assert!(with(open).is_err(), "{open}");
        }
    }

    #[test]
    fn half_of_something_is_refused() {
        let here: IpAddr = Ipv4Addr::LOCALHOST.into();
        for words in [
            &["--tls-cert", "c"][..],
            &["--tls-client-ca", "r"],
            &["--tls-cert", "c", "--tls-key", "k", "--tls-client-crl", "l"],
            &["--jwks", "f"],
            &["--jwt-issuer", "i"],
            &["--audit-log", "l"],
            &["--auth"],
        ] {
            assert!(options(words, here).is_err(), "{words:?}");
        }
    }

    #[test]
    fn the_admin_key_is_made_once() {
        let path = std::env::temp_dir().join(format!("segno-admin-key-{}", std::process::id()));
        let made = admin_key(&path).expect("made");
        assert_eq!(admin_key(&path).expect("read"), made);
        std::fs::write(&path, "short\n").expect("written");
        assert!(admin_key(&path).is_err());
        std::fs::remove_file(&path).expect("removed");
    }
}
