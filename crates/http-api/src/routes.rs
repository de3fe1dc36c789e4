//! Which call a method and a path name. The table comes from the annotations of the protocol ([`segno_proto::ROUTES`]).

use std::{collections::HashMap, sync::OnceLock};

use segno_proto::{HttpRoute, ROUTES};

/// A part of a path between slashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Segment {
    Literal(&'static str),
    /// The field of the request that it is.
    Field(&'static str),
}

/// A route with its path divided.
struct Route {
    route: &'static HttpRoute,
    segments: Vec<Segment>,
}

/// The routes of each method; of two that fit the first counts.
struct Table(HashMap<&'static str, Vec<Route>>);

/// The field that a part of a path names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Match {
    /// A call, and the fields in its path with their values.
    Call(&'static HttpRoute, Vec<(&'static str, String)>),
    /// A path that there is with another method.
    OtherMethod,
    Nothing,
}

impl Table {
    fn get() -> &'static Self {
        static TABLE: OnceLock<Table> = OnceLock::new();
        TABLE.get_or_init(|| {
            let mut methods: HashMap<&'static str, Vec<Route>> = HashMap::new();
            // Later definitions come first, as in the gateway that Temporal's server uses.
            for route in ROUTES.iter().rev() {
                let segments = route.path.trim_start_matches('/').split('/').map(Segment::new).collect();
                methods.entry(route.method).or_default().push(Route { route, segments });
            }
            Self(methods)
        })
    }
}

impl Segment {
    fn new(part: &'static str) -> Self {
        match part.strip_prefix('{').and_then(|part| part.strip_suffix('}')) {
            Some(field) => Self::Field(field),
            None => Self::Literal(part),
        }
    }
}

/// Finds the call of a path whose escapes are resolved already.
pub(super) fn find(method: &str, path: &str) -> Match {
    let table = &Table::get().0;
    let parts: Vec<&str> = path.strip_prefix('/').unwrap_or(path).split('/').collect();
    if let Some(found) = table.get(method).and_then(|routes| first(routes, &parts)) {
        return found;
    }
    let elsewhere = table.values().any(|routes| first(routes, &parts).is_some());
    if elsewhere { Match::OtherMethod } else { Match::Nothing }
}

fn first(routes: &[Route], parts: &[&str]) -> Option<Match> {
    routes.iter().find_map(|route| {
        if route.segments.len() != parts.len() {
            return None;
        }
        let mut fields = Vec::new();
        for (segment, part) in route.segments.iter().zip(parts) {
            match segment {
                Segment::Literal(literal) if literal == part => {}
                Segment::Literal(_) => return None,
                Segment::Field(field) => fields.push((*field, (*part).to_owned())),
            }
        }
        Some(Match::Call(route.route, fields))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(method: &str, path: &str) -> (&'static str, Vec<(&'static str, String)>) {
        match find(method, path) {
            Match::Call(route, fields) => (route.call, fields),
            other => panic!("{method} {path}: {other:?}"),
        }
    }

    #[test]
    fn paths_name_calls() {
        assert_eq!(call("GET", "/api/v1/system-info"), ("GetSystemInfo", vec![]));
        let fields = vec![("namespace", "a b".to_owned()), ("workflow_execution.workflow_id", "w:1".to_owned())];
        assert_eq!(call("POST", "/namespaces/a b/workflows/w:1/cancel"), ("RequestCancelWorkflowExecution", fields));
    }

    #[test]
    fn other_methods_and_paths_are_told_apart() {
        assert_eq!(find("DELETE", "/api/v1/system-info"), Match::OtherMethod);
        assert_eq!(find("HEAD", "/api/v1/system-info"), Match::OtherMethod);
        assert_eq!(find("GET", "/nope"), Match::Nothing);
        assert_eq!(find("GET", "/"), Match::Nothing);
    }

    /// Every part of a path is a literal or a field: nothing else is understood here.
    #[test]
    fn every_route_is_understood() {
        for route in ROUTES {
            let parts = route.path.split('/').filter(|part| part.contains(['{', '}', '*', ':', '=']));
            let odd: Vec<&str> = parts.filter(|part| !matches!(Segment::new(part), Segment::Field(_))).collect();
            assert!(odd.is_empty(), "{route:?}");
            assert!(route.body.is_empty() || route.body == "*", "{route:?}");
        }
    }
}
