//! Who calls, and whether they may.
//!
//! Every call from outside passes [`Security::admit`] before it is handled, whatever way it came: the direct path, tonic, HTTP.
//! It finds out who the caller is (an API key, a JSON web token, a client certificate), looks up the [rule](rules) of the call
//! and compares it with what the caller was [granted](roles). Without authentication nothing of this runs.

pub mod audit;
mod certificate;
mod fetch;
mod fields;
mod jwt;
pub mod roles;
pub mod rules;
pub mod tls;

use std::{path::PathBuf, sync::Arc};

use http::HeaderValue;
use segno_proto::Nanos;
use segno_runtime::{AccessKey, NamespaceName, Node};
use tonic::Status;

use self::{
    audit::{Audit, Entry},
    jwt::Tokens,
    roles::{Grants, Roles},
    rules::{KnownCall, Rule, Scope},
};

pub use self::{jwt::TokenOptions, tls::{ClientCertificates, TlsFiles}};

/// Temporal's words for a call that is not allowed.
const UNAUTHORIZED: &str = "Request unauthorized.";
/// In front of a key or token in the header `authorization`.
const BEARER: &[u8] = b"bearer ";

/// How callers are known.
#[derive(Clone, Debug)]
pub struct AuthenticationOptions {
    /// The digest of a key that may do everything, besides those in the store.
    pub admin_key: Option<[u8; 32]>,
    /// Which JSON web tokens are accepted.
    pub tokens: Option<TokenOptions>,
}

/// How a server is protected.
#[derive(Clone, Debug, Default)]
pub struct SecurityOptions {
    /// Certificate and key; without them nothing is encrypted.
    pub tls: Option<TlsFiles>,
    /// How callers are known; without it everybody may do everything.
    pub authentication: Option<AuthenticationOptions>,
    /// Where changes and refusals are written down, with who asked for them.
    pub audit_log: Option<PathBuf>,
}

/// How a caller proved who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proof {
    Key,
    Token,
    Certificate,
}

impl Proof {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::Token => "token",
            Self::Certificate => "certificate",
        }
    }
}

/// Somebody whose identity is proven.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    /// The name of the key, the subject of the token or certificate.
    pub(crate) name: String,
    pub(crate) proof: Proof,
    pub(crate) grants: Grants,
}

impl Caller {
    /// Whether a rule lets this caller do something in a namespace.
    pub(crate) fn may(&self, rule: Rule, namespace: &str) -> bool {
        let roles = match rule.scope {
            Scope::Anybody | Scope::Known => return true,
            Scope::Server => self.grants.server,
            Scope::Namespace => self.grants.roles_in(namespace),
        };
        rule.one_of.iter().any(|needed| roles.include(*needed))
    }

    /// Whether the caller may change workflows of a namespace that is not the one its call names.
    pub(crate) fn may_write(&self, namespace: &str) -> bool {
        self.grants.roles_in(namespace).include(Roles::WRITE)
    }
}

/// What a caller shows of itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct Credentials {
    /// The header `authorization`.
    pub(crate) authorization: Option<HeaderValue>,
    /// The subject of the certificate with which the connection was made.
    pub(crate) certificate: Option<Arc<str>>,
}

/// A call that was let in, until its outcome is known.
pub(crate) struct Admitted {
    pub(crate) caller: Option<Arc<Caller>>,
    entry: Option<Entry>,
}

/// A call that has to be let in before it is handled.
pub(crate) struct Admission {
    pub(crate) security: Arc<Security>,
    pub(crate) credentials: Credentials,
}

impl Admission {
    /// See [`Security::admit`].
    pub(crate) async fn admit(&self, path: &str, message: &[u8]) -> Result<Admitted, Status> {
        self.security.admit(path, message, &self.credentials).await
    }
}

/// Decides about calls.
pub(crate) struct Security {
    node: Arc<Node>,
    admin_key: Option<[u8; 32]>,
    tokens: Option<Tokens>,
    audit: Option<Audit>,
}

impl Security {
    /// What the options ask for. Background work ends with the returned value.
    pub(crate) fn new(node: Arc<Node>, options: AuthenticationOptions, audit: Option<Audit>) -> Self {
        Self { node, admin_key: options.admin_key, tokens: options.tokens.map(Tokens::new), audit }
    }

    /// Lets a call in, or says why not. `message` is the request as it is encoded.
    pub(crate) async fn admit(&self, path: &str, message: &[u8], credentials: &Credentials) -> Result<Admitted, Status> {
        // Not one of ours: there is nothing behind it, and whoever handles it says so.
        let Some(call) = rules::find(path) else {
            self.caller(credentials).await?;
            return Ok(Admitted { caller: None, entry: None });
        };
        if call.rule.scope == Scope::Anybody {
            return Ok(Admitted { caller: None, entry: None });
        }
        let namespace = self.namespace_of(call, message)?;
        let caller = self.caller(credentials).await;
        self.decide(call.method, call.rule, namespace, caller)
    }

    /// The same for what has no encoded request, such as a page.
    pub(crate) async fn admit_to(
        &self,
        what: &str,
        rule: Rule,
        namespace: &str,
        credentials: &Credentials,
    ) -> Result<Admitted, Status> {
        if rule.scope == Scope::Anybody {
            return Ok(Admitted { caller: None, entry: None });
        }
        let caller = self.caller(credentials).await;
        self.decide(what, rule, namespace.to_owned(), caller)
    }

    fn decide(
        &self,
        method: &str,
        rule: Rule,
        namespace: String,
        caller: Result<Arc<Caller>, Status>,
    ) -> Result<Admitted, Status> {
        let entry = |caller: Option<&Caller>| {
            self.audit.as_ref().map(|audit| audit.entry(method, &namespace, caller.map(|it| (it.name.as_str(), it.proof))))
        };
        let caller = match caller {
            Ok(caller) => caller,
            Err(status) => {
                if let Some(entry) = entry(None) {
                    entry.ended(status.code());
                }
                return Err(status);
            }
        };
        if !caller.may(rule, &namespace) {
            let status = Status::permission_denied(UNAUTHORIZED);
            if let Some(entry) = entry(Some(&caller)) {
                entry.ended(status.code());
            }
            return Err(status);
        }
        let entry = if rule.is_audited() { entry(Some(&caller)) } else { None };
        Ok(Admitted { caller: Some(caller), entry })
    }

    /// The namespace that a request is about.
    fn namespace_of(&self, call: &KnownCall, message: &[u8]) -> Result<String, Status> {
        let malformed = || Status::invalid_argument("the request is malformed");
        let text = |number: Option<u32>| match number {
            Some(number) => fields::last_text(message, number).ok_or_else(malformed),
            None => Ok(""),
        };
        let (name, id) = (text(call.fields.name)?, text(call.fields.id)?);
        if id.is_empty() {
            return Ok(name.to_owned());
        }
        // A namespace that is not there is nobody's.
        let named = self.node.namespaces.find(&NamespaceName::Id(id.to_owned())).map(|found| found.name.clone()).unwrap_or_default();
        // Whichever of the two is taken in the end, it is the one that was checked.
        if !name.is_empty() && name != named {
            return Err(Status::invalid_argument("the namespace's name and its id are not of the same namespace"));
        }
        Ok(named)
    }

    /// Who somebody is.
    pub(crate) async fn caller(&self, credentials: &Credentials) -> Result<Arc<Caller>, Status> {
        let now = wall_clock();
        if let Some(value) = &credentials.authorization {
            let secret = bearer(value.as_bytes()).ok_or_else(|| {
                Status::unauthenticated("the header authorization is not understood: it must be `Bearer KEY-OR-TOKEN`")
            })?;
            return self.bearer(secret, now).await;
        }
        if let Some(subject) = &credentials.certificate {
            return self.certificate(subject, now);
        }
        Err(Status::unauthenticated(
            "this server wants to know who calls: give an API key (SDKs: api_key, segno: --api-key or SEGNO_API_KEY)",
        ))
    }

    async fn bearer(&self, secret: &[u8], now: Nanos) -> Result<Arc<Caller>, Status> {
        let digest = digest(secret);
        if self.admin_key.is_some_and(|admin| admin == digest) {
            return Ok(Arc::new(Caller { name: "admin".to_owned(), proof: Proof::Key, grants: Grants::everything() }));
        }
        if let Some(key) = self.node.access_keys.by_digest(&digest) {
            return caller_of_key(&key, Proof::Key, now);
        }
        match &self.tokens {
            Some(tokens) if jwt::looks_like(secret) => tokens.caller(secret, digest, now).await,
            _ => Err(Status::unauthenticated("the API key is not known here; it may have been revoked")),
        }
    }

    fn certificate(&self, subject: &str, now: Nanos) -> Result<Arc<Caller>, Status> {
        match self.node.access_keys.by_certificate(subject) {
            Some(key) => caller_of_key(&key, Proof::Certificate, now),
            None => Err(Status::unauthenticated(format!(
                "the client certificate of {subject:?} is valid but has no grants: an admin can add them with \
                 `segno key create NAME --certificate {subject:?} --grant NAMESPACE:ROLE`"
            ))),
        }
    }
}

impl Admitted {
    /// Nobody asks who calls.
    pub(crate) fn without_asking() -> Self {
        Self { caller: None, entry: None }
    }

    /// The call ended.
    pub(crate) fn ended(self, code: tonic::Code) {
        if let Some(entry) = self.entry {
            entry.ended(code);
        }
    }
}

fn caller_of_key(key: &AccessKey, proof: Proof, now: Nanos) -> Result<Arc<Caller>, Status> {
    if key.expires != 0 && key.expires <= now {
        return Err(Status::unauthenticated(format!("the access of {:?} has expired", key.name)));
    }
    // They were checked when the key was made; one from a newer version that is not understood here grants nothing.
    let mut grants = Grants::parse(key.grants.iter().map(String::as_str)).unwrap_or_default();
    grants.queues.clone_from(&key.queues);
    Ok(Arc::new(Caller { name: key.name.clone(), proof, grants }))
}

/// SHA-256 of a secret, which is all that is kept of it. Secrets are random and long: they need no salt and no slow hash.
pub fn digest(secret: &[u8]) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(ring::digest::digest(&ring::digest::SHA256, secret).as_ref());
    bytes
}

/// Nanoseconds since the epoch, by the system's clock: keys and tokens end by it whatever the clock of workflows does.
fn wall_clock() -> Nanos {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// What follows `Bearer`.
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, secret) = value.split_at_checked(BEARER.len())?;
    scheme.eq_ignore_ascii_case(BEARER).then(|| secret.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheme_is_bearer() {
        assert_eq!(bearer(b"Bearer abc"), Some(&b"abc"[..]));
        assert_eq!(bearer(b"bearer  abc "), Some(&b"abc"[..]));
        assert_eq!(bearer(b"Basic abc"), None);
        assert_eq!(bearer(b""), None);
    }

    #[test]
    fn a_role_holds_where_it_was_granted() {
        let caller = Caller {
            name: "x".to_owned(),
            proof: Proof::Key,
            grants: Grants::parse(["orders:work"]).expect("a grant"),
        };
        let rule = |path: &str| rules::find(path).expect("a call").rule;
        let service = "/temporal.api.workflowservice.v1.WorkflowService";
        let may = |method: &str, namespace: &str| caller.may(rule(&format!("{service}/{method}")), namespace);
        assert!(may("PollWorkflowTaskQueue", "orders") && may("DescribeWorkflowExecution", "orders"));
        assert!(!may("PollWorkflowTaskQueue", "other") && !may("StartWorkflowExecution", "orders"));
        assert!(may("RespondActivityTaskCompletedById", "orders") && !may("ListNamespaces", "orders"));
        assert!(may("GetClusterInfo", ""));
    }
}
