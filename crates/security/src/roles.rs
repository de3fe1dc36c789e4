//! Roles, and the namespaces in which a caller has them.

use std::{collections::BTreeMap, fmt, str::FromStr};

/// Stands for the whole server where a namespace is named.
pub const WHOLE_SERVER: &str = "*";
/// The same in the permissions of Temporal's tokens.
const TEMPORAL_SYSTEM: &str = "temporal-system";

/// A set of roles. `work` and `write` each include `read`; `admin` includes all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Roles(u8);

impl Roles {
    /// Nothing is allowed.
    pub const NONE: Self = Self(0);
    /// Looking: describe, list, history, queries.
    pub const READ: Self = Self(0b0001);
    /// Calls of workers: polls, results, heartbeats.
    pub const WORK: Self = Self(0b0011);
    /// Calls of clients: start, signal, update, terminate, schedules, scripts.
    pub const WRITE: Self = Self(0b0101);
    /// Everything, namespaces and search attributes included.
    pub const ADMIN: Self = Self(0b1111);

    /// Whether all of `needed` is among these.
    pub fn include(self, needed: Self) -> bool {
        self.0 & needed.0 == needed.0
    }

    /// These and those.
    pub fn and(self, more: Self) -> Self {
        Self(self.0 | more.0)
    }

    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "read" => Self::READ,
            // The second is Temporal's word.
            "work" | "worker" => Self::WORK,
            "write" => Self::WRITE,
            "admin" => Self::ADMIN,
            _ => return None,
        })
    }
}

impl fmt::Display for Roles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: &[&str] = match *self {
            Self::NONE => &["nothing"],
            Self::READ => &["read"],
            Self::WORK => &["work"],
            Self::WRITE => &["write"],
            Self::ADMIN => &["admin"],
            _ => &["work", "write"],
        };
        f.write_str(&names.join(","))
    }
}

/// The rights of a caller, by namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants {
    /// On the whole server: calls about no namespace, and all namespaces.
    pub server: Roles,
    /// In single namespaces.
    pub namespaces: BTreeMap<String, Roles>,
    /// Queues that may be polled; all if there are none here. A `*` at the end stands for any rest.
    pub queues: Vec<String>,
}

/// A grant that was not understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a grant: it is NAMESPACE:ROLE, such as default:write or orders:work,write, or *:ROLE for the whole server; \
     roles are read, work, write and admin"
)]
pub struct GrantError(String);

impl Grants {
    /// Everything on the whole server.
    pub fn everything() -> Self {
        Self { server: Roles::ADMIN, ..Default::default() }
    }

    /// Reads grants such as `default:read`.
    pub fn parse<'a>(grants: impl IntoIterator<Item = &'a str>) -> Result<Self, GrantError> {
        let mut all = Self::default();
        for text in grants {
            let (namespace, roles) = grant(text).ok_or_else(|| GrantError(text.to_owned()))?;
            all.add(namespace, roles);
        }
        Ok(all)
    }

    /// Reads the grants among permissions of a token; others are for other services.
    pub fn among<'a>(permissions: impl IntoIterator<Item = &'a str>) -> Self {
        let mut all = Self::default();
        for (namespace, roles) in permissions.into_iter().filter_map(grant) {
            all.add(if namespace == TEMPORAL_SYSTEM { WHOLE_SERVER } else { namespace }, roles);
        }
        all
    }

    fn add(&mut self, namespace: &str, roles: Roles) {
        let of = match namespace {
            WHOLE_SERVER => &mut self.server,
            namespace => self.namespaces.entry(namespace.to_owned()).or_default(),
        };
        *of = of.and(roles);
    }

    /// The roles in a namespace.
    pub fn roles_in(&self, namespace: &str) -> Roles {
        self.server.and(self.namespaces.get(namespace).copied().unwrap_or_default())
    }

    /// Whether a queue may be polled.
    pub fn may_poll(&self, queue: &str) -> bool {
        let fits = |pattern: &String| match pattern.strip_suffix('*') {
            Some(beginning) => queue.starts_with(beginning),
            None => queue == pattern,
        };
        self.queues.is_empty() || self.queues.iter().any(fits)
    }

    /// As [`Grants::parse`] reads them.
    pub fn texts(&self) -> Vec<String> {
        let server = (self.server != Roles::NONE).then(|| format!("{WHOLE_SERVER}:{}", self.server));
        let namespaces = self.namespaces.iter().map(|(namespace, roles)| format!("{namespace}:{roles}"));
        server.into_iter().chain(namespaces).collect()
    }
}

impl FromStr for Grants {
    type Err = GrantError;

    fn from_str(text: &str) -> Result<Self, GrantError> {
        Self::parse([text])
    }
}

fn grant(text: &str) -> Option<(&str, Roles)> {
    let (namespace, roles) = text.rsplit_once(':')?;
    let roles = roles.split(',').map(|name| Roles::named(name.trim()));
    let roles = roles.reduce(|all, more| Some(all?.and(more?)))??;
    (!namespace.is_empty()).then_some((namespace, roles))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_include_each_other() {
        let all = [Roles::READ, Roles::WORK, Roles::WRITE, Roles::ADMIN];
        let included = |of: Roles| all.map(|needed| of.include(needed));
        assert_eq!(included(Roles::NONE), [false; 4]);
        assert_eq!(included(Roles::READ), [true, false, false, false]);
        assert_eq!(included(Roles::WORK), [true, true, false, false]);
        assert_eq!(included(Roles::WRITE), [true, false, true, false]);
        assert_eq!(included(Roles::WORK.and(Roles::WRITE)), [true, true, true, false], "admin is more than both");
        assert_eq!(included(Roles::ADMIN), [true; 4]);
    }

    #[test]
    fn grants_are_read_and_written() {
        let grants = Grants::parse(["default:read", "orders:work,write", "default:write"]).expect("grants");
        assert_eq!(grants.texts(), ["default:write", "orders:work,write"]);
        assert_eq!(grants.roles_in("default"), Roles::WRITE);
        assert_eq!(grants.roles_in("other"), Roles::NONE);
        let server = Grants::parse(["*:read"]).expect("a grant");
        assert!(server.roles_in("other").include(Roles::READ));
        for junk in ["", "default", "default:", ":read", "default:rule", "default:read,"] {
            assert!(Grants::parse([junk]).is_err(), "{junk}");
        }
    }

    #[test]
    fn permissions_of_tokens_are_as_temporals() {
        let grants = Grants::among(["temporal-system:admin", "default:worker", "billing:owner", "junk"]);
        assert_eq!(grants.server, Roles::ADMIN);
        assert_eq!(grants.namespaces["default"], Roles::WORK);
        assert_eq!(grants.namespaces.len(), 1);
    }

    #[test]
    fn queues_may_be_limited() {
        let mut grants = Grants::default();
        assert!(grants.may_poll("anything"));
        grants.queues = vec!["orders".to_owned(), "batch-*".to_owned()];
        assert!(grants.may_poll("orders") && grants.may_poll("batch-1") && grants.may_poll("batch-"));
        assert!(!grants.may_poll("orders2") && !grants.may_poll("batch"));
    }
}
