//! Authentication of a caller before its request is complete, and its result, which the connection remembers.
//!
//! A worker sends the same key with every call on its connection. The caller found for the first call holds until any
//! key changes or this one expires. Whether the caller may make a call is decided for every call.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use http::HeaderValue;
use segno_node::CallLimits;
use tonic::Status;

use super::{AdmittedCall, Caller, Credentials, Security, is_same_secret, method_of, rules::Scope, wall_clock};

/// A caller whose key or certificate was looked up.
pub struct KnownCaller {
    credentials: Credentials,
    caller: Arc<Caller>,
    /// How often keys had changed before it was looked up.
    key_changes: u64,
}

impl KnownCaller {
    /// Whether this is the header `authorization` that was looked at; `None` where there was none.
    pub fn shows(&self, authorization: Option<&[u8]>) -> bool {
        match (self.credentials.authorization.as_ref().map(HeaderValue::as_bytes), authorization) {
            (Some(known), Some(shown)) => is_same_secret(known, shown),
            (known, shown) => known.is_none() && shown.is_none(),
        }
    }
}

/// The identity that a caller shows, or the caller itself.
pub enum PresentedIdentity {
    /// A caller that was looked up before.
    Known(Arc<KnownCaller>),
    /// Credentials that have to be looked up.
    Credentials(Box<Credentials>),
}

impl PresentedIdentity {
    fn credentials(&self) -> &Credentials {
        match self {
            Self::Known(known) => &known.credentials,
            Self::Credentials(credentials) => credentials,
        }
    }

    /// The credentials that have to be looked up again.
    pub fn into_credentials(self) -> Box<Credentials> {
        match self {
            Self::Known(known) => Box::new(known.credentials.clone()),
            Self::Credentials(credentials) => credentials,
        }
    }
}

/// Whether an authenticated caller has called on a connection. Where callers have to authenticate, other connections are
/// evicted first.
#[derive(Clone, Debug, Default)]
pub struct AuthenticationState(Arc<AtomicBool>);

impl AuthenticationState {
    /// A known caller has called.
    pub fn set_known(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether a known caller has called.
    pub fn is_known(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The identity in the headers of a call.
pub enum HeaderIdentity {
    /// The caller is known.
    Known(Arc<KnownCaller>),
    /// The call needs no authentication.
    Public,
    /// The caller is not authenticated; nothing else that it sends can change this.
    Stranger(Status),
    /// It takes a while to find out.
    Unclear,
}

/// A call that has to be let in before it is handled.
pub struct Admission {
    /// Decides about the calls.
    pub security: Arc<Security>,
    /// The identity that the caller shows.
    pub shown: PresentedIdentity,
    /// The connection that it came on.
    pub authentication_state: AuthenticationState,
}

impl Admission {
    /// See [`Security::admit`].
    pub async fn admit(&self, path: &str, message: &[u8]) -> Result<AdmittedCall, Status> {
        let admitted = self.security.admit(path, message, self.shown.credentials()).await?;
        if admitted.caller.is_some() {
            self.authentication_state.set_known();
        }
        Ok(admitted)
    }

    /// The same if it can be decided without waiting.
    pub fn admit_now(&self, path: &str, message: &[u8]) -> Option<Result<AdmittedCall, Status>> {
        match &self.shown {
            PresentedIdentity::Known(known) => self.security.admit_known(path, message, known),
            PresentedIdentity::Credentials(_) => None,
        }
    }

    /// Refuses a caller that is not known, before its request is there.
    pub async fn refuse_stranger(&self, path: &str) -> Option<Status> {
        let known = self.security.is_known(method_of(path), self.shown.credentials()).await;
        match known {
            Ok(()) => self.authentication_state.set_known(),
            Err(status) => return Some(status),
        }
        None
    }
}

impl Security {
    /// The identity in the headers of a call, without waiting for anything. A refusal is written down.
    pub fn at_first(&self, path: &str, credentials: &Credentials) -> HeaderIdentity {
        let Some(by) = &self.authentication else { return HeaderIdentity::Public };
        let is_public = self.rules.find(path).is_some_and(|call| call.rule.scope == Scope::Public);
        if !is_public && !self.node.has_newest_documents() {
            return HeaderIdentity::Unclear;
        }
        // Before the key is looked up: a change meanwhile makes the answer old.
        let key_changes = self.node.access_keys.changes();
        match self.caller_now(by, credentials, wall_clock()) {
            Some(Ok(caller)) => {
                HeaderIdentity::Known(Arc::new(KnownCaller { credentials: credentials.clone(), caller, key_changes }))
            }
            _ if is_public => HeaderIdentity::Public,
            Some(Err(status)) => {
                self.note_refusal(method_of(path), "", &status);
                HeaderIdentity::Stranger(status)
            }
            None => HeaderIdentity::Unclear,
        }
    }

    /// Whether a caller is still who it was when its key was looked up.
    pub fn holds(&self, known: &KnownCaller) -> bool {
        let expires = known.caller.expires;
        known.key_changes == self.node.access_keys.changes() && (expires == 0 || expires > wall_clock())
    }

    /// Decides about a call of an authenticated caller, unless it has to be counted or its caller looked up.
    fn admit_known(&self, path: &str, message: &[u8], known: &KnownCaller) -> Option<Result<AdmittedCall, Status>> {
        let call = self.rules.find(path).filter(|call| call.rule.scope != Scope::Public)?;
        if !self.holds(known) || known.caller.calls_per_second != 0 || !self.node.has_newest_documents() {
            return None;
        }
        let namespace = match self.namespace_of(call, message) {
            Ok(namespace) => namespace,
            Err(status) => return Some(Err(status)),
        };
        let limits = |name: &str| self.node.runs.namespaces.get(name).map(|found| found.settings.calls);
        if self.node.runs.namespaces.limit_calls()
            && limits(&namespace).is_some_and(|limits| limits != CallLimits::default())
        {
            return None;
        }
        Some(self.decide(&call.method, call.rule, &namespace, Ok(known.caller.clone())))
    }
}
