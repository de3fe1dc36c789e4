//! Rules: the scope and the roles that a call needs. The table of calls, which the server passes in, has the rule of
//! each call.

use segno_node::HashMap;

use super::{
    fields::{NamespaceField, namespace_fields},
    roles::Roles,
};

/// Where a role is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Nowhere: every client that reaches the port may call, without authentication.
    Public,
    /// Nowhere, but callers must say who they are.
    Known,
    /// On the whole server.
    Server,
    /// In the namespace that the request names.
    Namespace,
}

/// The rights that a call needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Where.
    pub scope: Scope,
    /// One of these is enough.
    pub one_of: &'static [Roles],
}

impl Rule {
    /// Whether workers make such calls.
    pub fn is_for_workers(&self) -> bool {
        self.one_of.contains(&Roles::WORK)
    }

    /// Whether the call changes state, so that it belongs in the audit log.
    pub fn is_audited(&self) -> bool {
        self.one_of.iter().all(|roles| *roles != Roles::READ && *roles != Roles::WORK)
            && !matches!(self.scope, Scope::Public | Scope::Known)
    }
}

/// Nothing is needed.
pub const PUBLIC: Rule = Rule { scope: Scope::Public, one_of: &[] };
/// Callers must be known.
pub const KNOWN: Rule = Rule { scope: Scope::Known, one_of: &[] };
/// Reading in a namespace.
pub const READ: Rule = namespace(&[Roles::READ]);
/// Working in a namespace.
pub const WORK: Rule = namespace(&[Roles::WORK]);
/// Writing in a namespace.
pub const WRITE: Rule = namespace(&[Roles::WRITE]);
/// Activities may be completed by the worker that has them or by a client that knows their token or id.
pub const WORK_OR_WRITE: Rule = namespace(&[Roles::WORK, Roles::WRITE]);
/// Administering a namespace.
pub const ADMIN: Rule = namespace(&[Roles::ADMIN]);
/// Reading on the whole server.
pub const SERVER_READ: Rule = server(&[Roles::READ]);
/// Writing on the whole server.
pub const SERVER_WRITE: Rule = server(&[Roles::WRITE]);
/// Administering the whole server.
pub const SERVER_ADMIN: Rule = server(&[Roles::ADMIN]);

const fn server(one_of: &'static [Roles]) -> Rule {
    Rule { scope: Scope::Server, one_of }
}

const fn namespace(one_of: &'static [Roles]) -> Rule {
    Rule { scope: Scope::Namespace, one_of }
}

/// A call, and what it needs.
#[derive(Clone, Debug)]
pub struct KnownCall {
    /// Its name.
    pub method: String,
    /// The rights that it needs.
    pub rule: Rule,
    /// Where its request names the namespace.
    pub fields: NamespaceField,
    /// It waits for a task, and counts among the polls of its namespace.
    pub is_poll: bool,
}

impl KnownCall {
    /// Whether it is about one namespace.
    pub fn is_in_namespace(&self) -> bool {
        self.rule.scope == Scope::Namespace
    }
}

/// The rights that every call needs, by path. A call that is not here is refused.
pub struct Rules(HashMap<String, KnownCall>);

impl Rules {
    /// Of paths, rules and whether the call is a poll.
    pub fn new(calls: impl IntoIterator<Item = (String, Rule, bool)>) -> Self {
        let fields = namespace_fields();
        let calls = calls.into_iter().map(|(path, rule, is_poll)| {
            let fields = fields.get(&path).copied().unwrap_or_default();
            let method = path.rsplit('/').next().unwrap_or_default().to_owned();
            (path, KnownCall { method, rule, fields, is_poll })
        });
        Self(calls.collect())
    }

    /// The call that a path names.
    pub fn find(&self, path: &str) -> Option<&KnownCall> {
        self.0.get(path)
    }
}
