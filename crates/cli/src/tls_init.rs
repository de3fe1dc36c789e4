//! `segno tls init`: certificates for development.

use std::{
    fs::OpenOptions,
    io::Write,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use anyhow::Context;
use clap::{Args, Subcommand};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256,
};

use crate::exit::Usage;

/// No clock of a client is further behind.
const CLOCK_SKEW_MAX: std::time::Duration = std::time::Duration::from_secs(24 * 3600);
const DAY: std::time::Duration = std::time::Duration::from_secs(24 * 3600);

/// Commands about certificates.
#[derive(Subcommand, Clone, Debug)]
pub enum Tls {
    /// Makes a root, a certificate for the server and one for each client. For development, or for a closed network.
    #[command(after_help = "Example:\n  segno tls init --dir ./tls --host segno.example --client worker\n  \
                            segno serve --tls-cert ./tls/server.pem --tls-key ./tls/server.key --auth")]
    Init(Init),
}

/// Flags of `segno tls init`.
#[derive(Args, Clone, Debug)]
pub struct Init {
    /// Directory for the files.
    #[arg(long, value_name = "DIR", default_value = "tls")]
    dir: PathBuf,
    /// Name or address of the server; may be repeated. localhost, 127.0.0.1 and ::1 are always there.
    #[arg(long, value_name = "HOST")]
    host: Vec<String>,
    /// Name of a client, which is its identity; may be repeated.
    #[arg(long, value_name = "NAME", default_values_t = ["client".to_owned()])]
    client: Vec<String>,
    /// How long the certificates are valid.
    #[arg(long, value_name = "DAYS", default_value_t = 365, value_parser = clap::value_parser!(u16).range(1..=3650))]
    days: u16,
}

impl Tls {
    /// Runs the command.
    pub fn run(self) -> anyhow::Result<()> {
        let Self::Init(init) = self;
        init.run()
    }
}

impl Init {
    fn run(self) -> anyhow::Result<()> {
        for client in &self.client {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.@".contains(c);
            anyhow::ensure!(
                !client.is_empty()
                    && !client.starts_with('.')
                    && client.chars().all(is_plain)
                    && client != "ca"
                    && client != "server",
                Usage(format!("{client:?} cannot be the name of a client: it is also the name of its files"))
            );
        }
        std::fs::create_dir_all(&self.dir).with_context(|| format!("creating {}", self.dir.display()))?;
        let root = self.root()?;
        self.write("ca", &root.pem(), root.key())?;
        let mut hosts = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
        hosts.extend(self.host.clone());
        let mut server = self.params(hosts, "segno")?;
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.issue("server", &server, &root)?;
        for client in &self.client {
            let mut params = self.params(Vec::new(), client)?;
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
            self.issue(client, &params, &root)?;
        }
        let dir = self.dir.display();
        println!(
            "Certificates are in {dir}, valid for {} days. Keep ca.key and the other .key files to yourself.\n\n\
             Server, clients with API keys:\n  \
             segno serve --tls-cert {dir}/server.pem --tls-key {dir}/server.key --auth\n\
             Server, clients with certificates:\n  \
             segno serve --tls-cert {dir}/server.pem --tls-key {dir}/server.key --tls-client-ca {dir}/ca.pem\n\
             Client:\n  \
             segno workflow list --tls-ca-path {dir}/ca.pem --tls-cert-path {dir}/{client}.pem --tls-key-path {dir}/{client}.key",
            self.days,
            client = self.client[0],
        );
        Ok(())
    }

    fn root(&self) -> anyhow::Result<CertifiedIssuer<'static, KeyPair>> {
        let mut params = self.params(Vec::new(), "Segno development root")?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        Ok(CertifiedIssuer::self_signed(params, KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?)?)
    }

    fn params(&self, hosts: Vec<String>, name: &str) -> anyhow::Result<CertificateParams> {
        let mut params = CertificateParams::new(hosts).context("a --host is not a name or an address")?;
        params.distinguished_name.push(DnType::CommonName, name);
        let now = std::time::SystemTime::now();
        params.not_before = (now - CLOCK_SKEW_MAX).into();
        params.not_after = (now + DAY * u32::from(self.days)).into();
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        Ok(params)
    }

    fn issue(
        &self,
        name: &str,
        params: &CertificateParams,
        root: &CertifiedIssuer<'static, KeyPair>,
    ) -> anyhow::Result<()> {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let certificate = params.signed_by(&key, root)?;
        self.write(name, &certificate.pem(), &key)
    }

    fn write(&self, name: &str, certificate: &str, key: &KeyPair) -> anyhow::Result<()> {
        write(&self.dir.join(format!("{name}.pem")), certificate, 0o644)?;
        write(&self.dir.join(format!("{name}.key")), &key.serialize_pem(), 0o600)
    }
}

/// Writes a new file. One that is there stays: clients that use it would be cut off.
fn write(path: &Path, text: &str, mode: u32) -> anyhow::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path).with_context(|| {
        format!(
            "writing {}. Files that are there are not replaced: remove them, or choose another --dir",
            path.display()
        )
    })?;
    Ok(file.write_all(text.as_bytes())?)
}
