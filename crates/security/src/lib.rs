//! Authentication and authorization of calls.
//!
//! Every call from outside passes [`Security::admit`] before it is handled, on each path: the direct path, tonic, HTTP.
//! It identifies the caller (an API key, a JSON web token, a client certificate), looks up the [rule](rules) of the
//! call and compares it with the caller's [roles](roles). Without authentication none of this runs.

pub mod audit;
mod certificate;
pub mod fetch;
mod fields;
mod jwt;
mod known;
mod limits;
pub mod roles;
pub mod rules;
mod throttle;
pub mod tls;
pub mod tls_mistakes;

use std::{
    borrow::Cow,
    cell::RefCell,
    net::IpAddr,
    path::PathBuf,
    sync::{Arc, PoisonError, RwLock},
};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use http::HeaderValue;
use ring::rand::{SecureRandom, SystemRandom};
use segno_node::{AccessKey, CallLimits, HashMap, NamespaceName, Node};
use segno_proto::{Nanos, enums::TaskQueueKind, taskqueue::TaskQueue};
use tonic::{Request, Status};

use self::{
    audit::{Audit, Entry},
    jwt::Tokens,
    limits::{CountedPoll, Limiter},
    roles::{Grants, Roles, WHOLE_SERVER},
    rules::{KnownCall, Rule, Rules, Scope},
    throttle::Throttle,
};

use segno_calls::{request_fields, status};

pub use self::known::{Admission, AuthenticationState, HeaderIdentity, KnownCaller, PresentedIdentity};
pub use self::{
    jwt::TokenOptions,
    tls::{ClientCertificates, ClientFiles, TlsFiles},
};

/// Temporal's words for a call that is not allowed, which begin the answer.
const UNAUTHORIZED: &str = "Request unauthorized";
/// Grants of a caller that a refusal names.
const GRANTS_TOLD_MAX: usize = 10;
/// The answer to a caller with an unknown key.
const UNKNOWN_KEY: &str = "the API key is not known here; it may have been revoked";
/// In front of every secret, so that one is recognised wherever it turns up.
const SECRET_PREFIX: &str = "segno_";
const SECRET_BYTES: usize = 32;
/// In front of a key or token in the header `authorization`.
const BEARER: &[u8] = b"bearer ";

/// Callers that are remembered; when there are more, all are forgotten.
const CALLERS_MAX: usize = 10_000;

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
    /// How callers authenticate; without it every caller may do everything.
    pub authentication: Option<AuthenticationOptions>,
    /// Where changes and refusals are written down, with who asked for them.
    pub audit_log: Option<PathBuf>,
    /// Nothing may be changed that cannot be written down there.
    pub audit_required: bool,
    /// Where browsers have payloads decoded that only their owner can read.
    pub codec_endpoint: Option<String>,
}

/// How a caller proved who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// By an API key.
    Key,
    /// By a JSON web token.
    Token,
    /// By a client certificate.
    Certificate,
}

impl Proof {
    /// As the audit log names it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::Token => "token",
            Self::Certificate => "certificate",
        }
    }
}

/// A caller whose identity is proven.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The name of the key, the subject of the token or certificate.
    pub name: String,
    /// How that was proven.
    pub proof: Proof,
    /// The rights of the caller.
    pub grants: Grants,
    /// How many calls it may make; zero is no limit.
    pub calls_per_second: usize,
    /// When its key expires; zero is never. Tokens have their own way.
    expires: Nanos,
}

impl Caller {
    /// Whether this caller has the rights of a rule in a namespace.
    pub fn may(&self, rule: Rule, namespace: &str) -> bool {
        let roles = match rule.scope {
            Scope::Public | Scope::Known => return true,
            Scope::Server => self.grants.server,
            Scope::Namespace => self.grants.roles_in(namespace),
        };
        rule.one_of.iter().any(|needed| roles.include(*needed))
    }

    /// Says what the caller has and what a call would need. It is told only to that caller.
    fn refusal(&self, method: &str, rule: Rule, namespace: &str) -> Status {
        let scope = match rule.scope {
            Scope::Server => WHOLE_SERVER,
            _ => namespace,
        };
        let needed: Vec<_> = rule.one_of.iter().map(|roles| format!("{scope}:{roles}")).collect();
        Status::permission_denied(format!(
            "{UNAUTHORIZED}: {} {} has {}; {method} needs {}.",
            self.proof.name(),
            self.name,
            self.grants_in_words(),
            needed.join(" or ")
        ))
    }

    fn grants_in_words(&self) -> String {
        let all = self.grants.texts();
        let more = all.len().saturating_sub(GRANTS_TOLD_MAX);
        match (all.is_empty(), more) {
            (true, _) => "no grants".to_owned(),
            (false, 0) => all.join(" "),
            (false, more) => format!("{} and {more} more", all[..GRANTS_TOLD_MAX].join(" ")),
        }
    }

    /// Whether this caller may poll some queues only.
    pub fn has_limited_queues(&self) -> bool {
        !self.grants.queues.is_empty()
    }

    /// Who has the admin key.
    fn admin() -> Self {
        Self {
            name: "admin".to_owned(),
            proof: Proof::Key,
            grants: Grants::everything(),
            calls_per_second: 0,
            expires: 0,
        }
    }

    /// Whether this caller may look into a namespace.
    pub fn may_read(&self, namespace: &str) -> bool {
        self.grants.roles_in(namespace).include(Roles::READ)
    }

    /// Whether this caller may look at what concerns the whole server.
    pub fn may_read_server(&self) -> bool {
        self.grants.server.include(Roles::READ)
    }

    /// Whether this caller may change what is in a namespace.
    pub fn may_write(&self, namespace: &str) -> bool {
        self.grants.roles_in(namespace).include(Roles::WRITE)
    }
}

thread_local! {
    /// The last secret that a caller presented, and its digest: a worker shows the same one with every call, and a digest costs
    /// more than all else that is checked.
    static LAST_DIGEST: RefCell<(Vec<u8>, [u8; 32])> = RefCell::new((Vec::new(), digest(&[])));
}

/// Whether two secrets are the same. All bytes are compared: how long it takes must tell nothing of the secret of another caller.
fn is_same_secret(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len()
        && one.iter().zip(other).fold(0, |difference, (one, other)| difference | (one ^ other)) == 0
}

/// The digest of a secret that was probably the last one, too.
fn digest_again(secret: &[u8]) -> [u8; 32] {
    LAST_DIGEST.with_borrow_mut(|(last, last_digest)| {
        if !is_same_secret(last, secret) {
            (*last, *last_digest) = (secret.to_vec(), digest(secret));
        }
        *last_digest
    })
}

/// The credentials of a caller.
#[derive(Clone, Debug, Default)]
pub struct Credentials {
    /// The header `authorization`.
    authorization: Option<HeaderValue>,
    /// The digest of what follows `Bearer` in it.
    digest: Option<[u8; 32]>,
    /// The subject of the certificate with which the connection was made.
    certificate: Option<Arc<str>>,
    /// Where the connection comes from.
    address: Option<IpAddr>,
}

impl Credentials {
    /// Of the header `authorization`, the subject of the certificate and the address of the connection.
    pub fn new(authorization: Option<HeaderValue>, certificate: Option<Arc<str>>, address: Option<IpAddr>) -> Self {
        let digest = authorization.as_ref().and_then(|value| bearer(value.as_bytes())).map(digest_again);
        Self { authorization, digest, certificate, address }
    }

    /// The text after `Bearer`, and its digest.
    fn bearer(&self) -> Option<(&[u8], [u8; 32])> {
        self.authorization.as_ref().and_then(|value| bearer(value.as_bytes())).zip(self.digest)
    }
}

/// A call that was let in, until its outcome is known.
#[derive(Default)]
pub struct AdmittedCall {
    /// Who calls, if callers have to be known.
    pub caller: Option<Arc<Caller>>,
    entry: Option<Entry>,
    _poll: Option<CountedPoll>,
}

/// Decides about calls.
pub struct Security {
    node: Arc<Node>,
    /// The rights that calls need.
    rules: &'static Rules,
    /// Without it every caller may do everything.
    authentication: Option<Authentication>,
    audit: Option<Audit>,
    limiter: Limiter,
    /// Wrong keys and tokens.
    throttle: Throttle,
}

/// A caller, and the key that it was made from.
type CallerOfKey = (Arc<AccessKey>, Arc<Caller>);

struct Authentication {
    /// The admin's digest, and who that is.
    admin: Option<([u8; 32], Arc<Caller>)>,
    tokens: Option<Tokens>,
    /// Callers by the digest of their key or of their certificate's name, with the key that they were made from, so that grants are not read with every call.
    callers: RwLock<HashMap<[u8; 32], CallerOfKey>>,
}

impl Authentication {
    fn is_admin(&self, credentials: &Credentials) -> bool {
        let shown = credentials.bearer().map(|(_, digest)| digest);
        self.admin.as_ref().zip(shown).is_some_and(|((admin, _), shown)| is_same_secret(admin, &shown))
    }
}

impl Security {
    /// Security as the options ask for it.
    pub fn new(
        node: Arc<Node>,
        rules: &'static Rules,
        options: Option<AuthenticationOptions>,
        audit: Option<Audit>,
    ) -> Self {
        let authentication = options.map(|options| Authentication {
            admin: options.admin_key.map(|digest| (digest, Arc::new(Caller::admin()))),
            tokens: options.tokens.map(Tokens::new),
            callers: RwLock::default(),
        });
        Self { node, rules, authentication, audit, limiter: Limiter::default(), throttle: Throttle::default() }
    }

    /// Whether calls have to be looked at. If not, they cost nothing.
    pub fn is_on(&self) -> bool {
        self.authentication.is_some() || self.node.runs.namespaces.limit_calls()
    }

    /// Whether callers have to be known.
    pub fn authenticates(&self) -> bool {
        self.authentication.is_some()
    }

    /// Writes down that an unknown caller was refused, unless it is one of too many times.
    fn note_refusal(&self, what: &str, namespace: &str, status: &Status) {
        if let Some(audit) = self.audit.as_ref().filter(|_| !throttle::is_throttled(status)) {
            let _ = audit.entry(what, namespace, None).ended(status.code());
        }
    }

    /// Lets a call in, or says why not. `message` is the request as it is encoded.
    pub async fn admit(&self, path: &str, message: &[u8], credentials: &Credentials) -> Result<AdmittedCall, Status> {
        // Not one of ours: there is nothing behind it, and the router that gets it says so.
        let Some(call) = self.rules.find(path) else {
            if let Some(authentication) = &self.authentication {
                self.current_caller(authentication, credentials).await?;
            }
            return Ok(AdmittedCall::default());
        };
        if call.rule.scope == Scope::Public {
            return Ok(AdmittedCall::default());
        }
        let (namespace, mut admitted) = match &self.authentication {
            None => (self.namespace_of(call, message)?, AdmittedCall::default()),
            Some(authentication) => {
                // Strangers learn nothing of namespaces.
                let caller = self.current_caller(authentication, credentials).await;
                let namespace = if caller.is_ok() { self.namespace_of(call, message)? } else { Cow::default() };
                let admitted = self.decide(&call.method, call.rule, &namespace, caller)?;
                (namespace, admitted)
            }
        };
        self.count(call, &namespace, message.len(), &mut admitted).await?;
        Ok(admitted)
    }

    /// Counts a call that may be made against the limits of its namespace and its caller.
    async fn count(
        &self,
        call: &KnownCall,
        namespace: &str,
        bytes: usize,
        admitted: &mut AdmittedCall,
    ) -> Result<(), Status> {
        if let Some(caller) = &admitted.caller {
            self.limiter.caller(&caller.name, caller.calls_per_second)?;
        }
        let Some(namespace) = self.node.runs.namespaces.get(namespace) else { return Ok(()) };
        if namespace.settings.calls == CallLimits::default() {
            return Ok(());
        }
        self.limiter.call(&namespace, bytes)?;
        if call.is_poll {
            admitted._poll = self.limiter.poll(&namespace)?;
        }
        Ok(())
    }

    /// The same for what has no encoded request, such as a page.
    pub async fn admit_to(
        &self,
        what: &str,
        rule: Rule,
        namespace: &str,
        credentials: &Credentials,
    ) -> Result<AdmittedCall, Status> {
        if rule.scope == Scope::Public {
            return Ok(AdmittedCall::default());
        }
        let admitted = match &self.authentication {
            None => AdmittedCall::default(),
            Some(authentication) => {
                let caller = self.current_caller(authentication, credentials).await;
                self.decide(what, rule, namespace, caller)?
            }
        };
        if let Some(caller) = &admitted.caller {
            self.limiter.caller(&caller.name, caller.calls_per_second)?;
        }
        if let Some(namespace) = self.node.runs.namespaces.get(namespace) {
            self.limiter.call(&namespace, 0)?;
        }
        Ok(admitted)
    }

    fn decide(
        &self,
        method: &str,
        rule: Rule,
        namespace: &str,
        caller: Result<Arc<Caller>, Status>,
    ) -> Result<AdmittedCall, Status> {
        let entry = |caller: Option<&Caller>| {
            self.audit
                .as_ref()
                .map(|audit| audit.entry(method, namespace, caller.map(|it| (it.name.as_str(), it.proof))))
        };
        let caller = match caller {
            Ok(caller) => caller,
            Err(status) => {
                self.note_refusal(method, namespace, &status);
                return Err(status);
            }
        };
        if !caller.may(rule, namespace) {
            let status = caller.refusal(method, rule, namespace);
            if let Some(entry) = entry(Some(&caller)) {
                let _ = entry.ended(status.code());
            }
            return Err(status);
        }
        if let Some(audit) = self.audit.as_ref().filter(|_| rule.is_audited()) {
            audit.check()?;
        }
        let entry = if rule.is_audited() { entry(Some(&caller)) } else { None };
        Ok(AdmittedCall { caller: Some(caller), entry, _poll: None })
    }

    /// The namespace that a request is about.
    fn namespace_of<'a>(&self, call: &KnownCall, message: &'a [u8]) -> Result<Cow<'a, str>, Status> {
        let malformed = || Status::invalid_argument("the request is malformed");
        let text = |number: Option<u32>| match number {
            Some(number) => request_fields::last_text(message, number).ok_or_else(malformed),
            None => Ok(""),
        };
        let (name, id) = (text(call.fields.name)?, text(call.fields.id)?);
        if id.is_empty() {
            return Ok(Cow::Borrowed(name));
        }
        // A namespace that is not there has no grants.
        let named = self
            .node
            .runs
            .namespaces
            .find(&NamespaceName::Id(id.to_owned()))
            .map(|found| found.name.clone())
            .unwrap_or_default();
        // Whichever of the two is taken in the end, it is the one that was checked.
        if !name.is_empty() && name != named {
            return Err(Status::invalid_argument("the namespace's name and its id are not of the same namespace"));
        }
        Ok(Cow::Owned(named))
    }

    /// Whether the credentials authenticate a caller. A refusal is written to the audit log.
    pub async fn is_known(&self, what: &str, credentials: &Credentials) -> Result<(), Status> {
        let Some(authentication) = &self.authentication else { return Ok(()) };
        let known = self.current_caller(authentication, credentials).await;
        if let Err(status) = &known {
            self.note_refusal(what, "", status);
        }
        known.map(drop)
    }

    /// The caller with these credentials, for an answer to a request that was refused.
    pub async fn refused_caller(&self, credentials: &Credentials) -> Option<Arc<Caller>> {
        self.current_caller(self.authentication.as_ref()?, credentials).await.ok()
    }

    /// Authenticates the caller by the newest keys: a node that cannot compare its keys with the database's admits only the admin,
    /// whose key is not among them.
    async fn current_caller(&self, by: &Authentication, credentials: &Credentials) -> Result<Arc<Caller>, Status> {
        if !self.node.has_newest_documents() && !by.is_admin(credentials) {
            self.node.admit_callers().await.map_err(status::from_call)?;
        }
        self.caller(by, credentials).await
    }

    /// The answer to a caller that shows a token which this server did not make: `wrong`, or that its address has to wait. Without
    /// authentication no address waits.
    pub fn refuse_token(&self, credentials: &Credentials, wrong: Status) -> Status {
        match self.authenticates() {
            true => self.throttle.refusal(credentials.address, wrong),
            false => wrong,
        }
    }

    /// The caller with these credentials.
    async fn caller(&self, by: &Authentication, credentials: &Credentials) -> Result<Arc<Caller>, Status> {
        let now = wall_clock();
        if let Some(caller) = self.caller_now(by, credentials, now) {
            return caller;
        }
        let caller = match (&by.tokens, credentials.bearer()) {
            (Some(tokens), Some((token, digest))) => tokens.caller(token, digest, now).await,
            _ => Err(Status::unauthenticated(UNKNOWN_KEY)),
        };
        caller.map_err(|status| self.throttled(credentials, status))
    }

    /// Counts a wrong key or token of an address.
    fn throttled(&self, credentials: &Credentials, status: Status) -> Status {
        match status.code() {
            tonic::Code::Unauthenticated => self.throttle.refusal(credentials.address, status),
            _ => status,
        }
    }

    /// The caller with these credentials. `None` for a token: its key may have to be fetched.
    fn caller_now(
        &self,
        by: &Authentication,
        credentials: &Credentials,
        now: Nanos,
    ) -> Option<Result<Arc<Caller>, Status>> {
        if credentials.authorization.is_some() {
            let Some(shown) = credentials.bearer() else {
                let text = "the header authorization is not understood: it must be `Bearer KEY-OR-TOKEN`";
                return Some(Err(Status::unauthenticated(text)));
            };
            let caller = self.bearer(by, shown, now)?;
            return Some(caller.map_err(|status| self.throttled(credentials, status)));
        }
        if let Some(subject) = &credentials.certificate {
            return Some(self.certificate(by, subject, now));
        }
        Some(Err(Status::unauthenticated(
            "this server requires authentication: give an API key (SDKs: api_key, segno: --api-key or SEGNO_API_KEY)",
        )))
    }

    fn bearer(
        &self,
        by: &Authentication,
        (secret, digest): (&[u8], [u8; 32]),
        now: Nanos,
    ) -> Option<Result<Arc<Caller>, Status>> {
        if let Some((_, admin)) = by.admin.as_ref().filter(|(known, _)| *known == digest) {
            return Some(Ok(admin.clone()));
        }
        if let Some(key) = self.node.access_keys.by_digest(&digest) {
            return Some(by.caller_of_digest(digest, key, Proof::Key, now));
        }
        match by.tokens.is_some() && jwt::looks_like(secret) {
            true => None,
            false => Some(Err(Status::unauthenticated(UNKNOWN_KEY))),
        }
    }

    fn certificate(&self, by: &Authentication, subject: &str, now: Nanos) -> Result<Arc<Caller>, Status> {
        match self.node.access_keys.by_certificate(subject) {
            Some(key) => by.caller_of_digest(digest(subject.as_bytes()), key, Proof::Certificate, now),
            None => Err(Status::unauthenticated(format!(
                "the client certificate of {subject:?} is valid but has no grants: an admin can add them with \
                 `segno key create NAME --certificate {subject:?} --grant NAMESPACE:ROLE`"
            ))),
        }
    }
}

impl Authentication {
    /// The caller of a key that is in the store right now.
    fn caller_of_digest(
        &self,
        digest: [u8; 32],
        key: Arc<AccessKey>,
        proof: Proof,
        now: Nanos,
    ) -> Result<Arc<Caller>, Status> {
        check_expiry(&key, now)?;
        if let Some((of, caller)) = self.callers.read().unwrap_or_else(PoisonError::into_inner).get(&digest)
            && Arc::ptr_eq(of, &key)
        {
            return Ok(caller.clone());
        }
        let caller = caller_of_key(&key, proof, now)?;
        let mut callers = self.callers.write().unwrap_or_else(PoisonError::into_inner);
        if callers.len() >= CALLERS_MAX {
            callers.clear();
        }
        callers.insert(digest, (key, caller.clone()));
        Ok(caller)
    }
}

impl AdmittedCall {
    /// The call ended. It may be acknowledged only if this is `Ok`.
    pub fn ended(self, code: tonic::Code) -> Result<(), Status> {
        self.entry.map_or(Ok(()), |entry| entry.ended(code))
    }

    /// The call ended like this.
    pub fn outcome<T>(self, outcome: Result<T, Status>) -> Result<T, Status> {
        self.ended(outcome.as_ref().err().map_or(tonic::Code::Ok, Status::code))?;
        outcome
    }
}

fn check_expiry(key: &AccessKey, now: Nanos) -> Result<(), Status> {
    match key.expires != 0 && key.expires <= now {
        true => Err(Status::unauthenticated(format!("the access of {:?} has expired", key.name))),
        false => Ok(()),
    }
}

fn caller_of_key(key: &AccessKey, proof: Proof, now: Nanos) -> Result<Arc<Caller>, Status> {
    check_expiry(key, now)?;
    // They were checked when the key was made; one from a newer version that is not understood here grants nothing.
    let mut grants = Grants::parse(key.grants.iter().map(String::as_str)).unwrap_or_default();
    grants.queues.clone_from(&key.queues);
    let calls_per_second = key.calls_per_second as usize;
    Ok(Arc::new(Caller { name: key.name.clone(), proof, grants, calls_per_second, expires: key.expires }))
}

/// SHA-256 of a secret, which is all that is kept of it. Secrets are random and long: they need no salt and no slow hash.
pub fn digest(secret: &[u8]) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(ring::digest::digest(&ring::digest::SHA256, secret).as_ref());
    bytes
}

/// A new secret of 256 random bits; `None` if the system has no random numbers.
pub fn new_secret() -> Option<String> {
    let mut bytes = [0; SECRET_BYTES];
    SystemRandom::new().fill(&mut bytes).ok()?;
    Some(format!("{SECRET_PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes)))
}

/// Nanoseconds since the epoch, by the system's clock: keys and tokens expire by it even where the clock of workflows skips time.
fn wall_clock() -> Nanos {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// Whether the caller may poll a queue. A sticky queue belongs to one worker and is named by a random id: a caller that knows it
/// received it from that worker, so its normal queue decides. Only workflow tasks have such queues.
pub fn check_queue<T>(request: &Request<T>, queue: Option<&TaskQueue>, may_be_sticky: bool) -> Result<(), Status> {
    let Some(caller) = request.extensions().get::<Arc<Caller>>() else { return Ok(()) };
    let Some(queue) = queue.filter(|_| caller.has_limited_queues()) else { return Ok(()) };
    // A sticky queue belongs to its normal queue, and has no tasks of others: see `QueueKey::sticky`.
    let is_sticky = may_be_sticky && queue.kind == TaskQueueKind::Sticky as i32;
    let name = if is_sticky { &queue.normal_name } else { &queue.name };
    if caller.grants.may_poll(name) {
        return Ok(());
    }
    let (proof, queues) = (caller.proof.name(), caller.grants.queues.join(" "));
    let text = format!("{UNAUTHORIZED}: {proof} {} may poll {queues}; the poll is for {name}.", caller.name);
    Err(Status::permission_denied(text))
}

/// Whether the caller may poll the commands for one worker, whose queue is named by a random id.
pub fn check_worker_queue<T>(request: &Request<T>, queue: Option<&TaskQueue>) -> Result<(), Status> {
    match queue {
        Some(queue) if ends_with_uuid(&queue.name) => Ok(()),
        queue => check_queue(request, queue, false),
    }
}

/// Whether a name ends with 32 hexadecimal digits, hyphens aside.
fn ends_with_uuid(name: &str) -> bool {
    let digits = name.bytes().rev().filter(|byte| *byte != b'-').take_while(u8::is_ascii_hexdigit).count();
    digits >= 32
}

/// The name of a method in its path, as the audit log has it.
fn method_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The text after `Bearer`.
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, secret) = value.split_at_checked(BEARER.len())?;
    scheme.eq_ignore_ascii_case(BEARER).then(|| secret.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_what_the_caller_has_and_what_the_call_needs() {
        let grants = Grants::parse(["orders:work"]).expect("grants");
        let name = "orders-worker".to_owned();
        let caller = Caller { name, proof: Proof::Key, grants, calls_per_second: 0, expires: 0 };
        let told = |method: &str, rule: Rule| caller.refusal(method, rule, "orders").message().to_owned();
        assert_eq!(
            told("StartWorkflowExecution", rules::WRITE),
            "Request unauthorized: key orders-worker has orders:work; StartWorkflowExecution needs orders:write."
        );
        assert!(told("RegisterNamespace", rules::SERVER_ADMIN).ends_with("RegisterNamespace needs *:admin."));
        let nothing = Caller { grants: Grants::default(), ..caller.clone() };
        let told = nothing.refusal("RespondActivityTaskCompleted", rules::WORK_OR_WRITE, "a").message().to_owned();
        assert!(told.ends_with("has no grants; RespondActivityTaskCompleted needs a:work or a:write."), "{told}");
    }

    #[test]
    fn a_digest_that_is_remembered_is_of_the_secret_that_is_shown() {
        for secret in [&b"one"[..], b"one", b"two", b"", b"twos", b"tw", b"one"] {
            assert_eq!(digest_again(secret), digest(secret));
        }
    }

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
            calls_per_second: 0,
            expires: 0,
        };
        assert!(caller.may(rules::WORK, "orders") && caller.may(rules::READ, "orders"));
        assert!(!caller.may(rules::WORK, "other") && !caller.may(rules::WRITE, "orders"));
        assert!(caller.may(rules::WORK_OR_WRITE, "orders") && !caller.may(rules::SERVER_READ, "orders"));
        assert!(caller.may(rules::KNOWN, ""));
    }
}
