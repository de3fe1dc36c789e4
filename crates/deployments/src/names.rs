//! Names of deployments and build ids, and the strings in which older fields have both.

use crate::error::{DeploymentError, invalid};

/// What older fields call workers without a version.
pub const UNVERSIONED: &str = "__unversioned__";
/// Temporal names a workflow after deployment and build id: `temporal-sys-worker-deployment-version:` and both, at most 1000 bytes.
const LENGTH_MAX: usize = (1000 - 39) / 2;
const DELIMITERS: [char; 2] = ['.', ':'];

/// Refuses a name that no deployment can have.
pub fn check_name(name: &str) -> Result<(), DeploymentError> {
    check_field("WorkerDeploymentName", name, &DELIMITERS)
}

/// Refuses a build id that no version can have.
pub fn check_build(build: &str) -> Result<(), DeploymentError> {
    check_field("BuildID", build, &[])
}

fn check_field(field: &str, value: &str, delimiters: &[char]) -> Result<(), DeploymentError> {
    if value.is_empty() {
        return Err(invalid(format!("{field} cannot be empty")));
    }
    if value.len() > LENGTH_MAX {
        return Err(invalid(format!("size of {field} larger than the maximum allowed")));
    }
    if let Some(delimiter) = delimiters.iter().find(|delimiter| value.contains(**delimiter)) {
        return Err(invalid(format!("worker deployment name cannot contain '{delimiter}'")));
    }
    if value.starts_with("__") {
        return Err(invalid(format!("{field} cannot start with '__'")));
    }
    Ok(())
}

/// Name and build id of a string: it is cut at the first delimiter.
pub fn split(version: &str) -> Option<(&str, &str)> {
    version.split_once(DELIMITERS)
}

/// The string of older fields.
pub fn dotted(name: &str, build: Option<&str>) -> String {
    build.map_or_else(|| UNVERSIONED.to_owned(), |build| format!("{name}.{build}"))
}

/// The string of search attributes and texts.
pub fn colon(name: &str, build: Option<&str>) -> String {
    build.map_or_else(|| UNVERSIONED.to_owned(), |build| format!("{name}:{build}"))
}

/// The build id that a change of routing names: by a string, in older clients, or by itself. `None` means workers without a version.
pub fn requested_build(name: &str, build: &str, version: &str) -> Result<Option<String>, DeploymentError> {
    let given = match (version.is_empty(), build.is_empty()) {
        (false, _) => version.to_owned(),
        (true, false) => format!("{name}.{build}"),
        (true, true) => return Ok(None),
    };
    if given == UNVERSIONED {
        return Ok(None);
    }
    let bad = |what: &str| invalid(format!("invalid version string: {what} in version string {given}"));
    let (of, build) = split(&given).ok_or_else(|| bad("expected delimiter ':' or '.' not found"))?;
    if of.is_empty() {
        return Err(bad("deployment name is empty"));
    }
    if build.is_empty() {
        return Err(bad("build id is empty"));
    }
    if of != name {
        return Err(invalid(format!("invalid version string '{given}' does not match deployment name '{name}'")));
    }
    Ok(Some(build.to_owned()))
}

/// Name and build id that a request names by a pair or, in older clients, by a string. The name is checked.
pub fn requested_version(pair: Option<(&str, &str)>, version: &str) -> Result<(String, String), DeploymentError> {
    let given = pair.map_or_else(|| version.to_owned(), |(name, build)| format!("{name}.{build}"));
    if given == UNVERSIONED {
        return Err(invalid("WorkerDeploymentName cannot be empty"));
    }
    match split(&given).filter(|(name, build)| !name.is_empty() && !build.is_empty()) {
        Some((name, build)) => {
            check_name(name)?;
            Ok((name.to_owned(), build.to_owned()))
        }
        None => Err(invalid(format!(
            "invalid version string \"{given}\", expected format is \"<deployment_name>.<build_id>\""
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text<T: std::fmt::Debug>(result: Result<T, DeploymentError>) -> String {
        result.expect_err("it is refused").to_string()
    }

    #[test]
    fn names_are_checked_in_the_order_of_the_server() {
        assert_eq!(text(check_name("")), "WorkerDeploymentName cannot be empty");
        assert_eq!(
            text(check_name(&format!("__.:{}", "x".repeat(480)))),
            "size of WorkerDeploymentName larger than the maximum allowed"
        );
        assert_eq!(text(check_name("__a:.")), "worker deployment name cannot contain '.'");
        assert_eq!(text(check_name("__a:")), "worker deployment name cannot contain ':'");
        assert_eq!(text(check_name("__a")), "WorkerDeploymentName cannot start with '__'");
        assert_eq!(check_name(&"x".repeat(480)), Ok(()));
        assert_eq!(check_build("1.2:3"), Ok(()));
        assert_eq!(text(check_build("")), "BuildID cannot be empty");
        assert_eq!(text(check_build(&"x".repeat(481))), "size of BuildID larger than the maximum allowed");
        assert_eq!(text(check_build("__b")), "BuildID cannot start with '__'");
    }

    #[test]
    fn a_change_names_a_build_in_two_ways() {
        assert_eq!(requested_build("d", "", ""), Ok(None));
        assert_eq!(requested_build("d", "", UNVERSIONED), Ok(None));
        // Clients that send both mean the string.
        assert_eq!(requested_build("d", "1.0", UNVERSIONED), Ok(None));
        assert_eq!(requested_build("d", "", "d:1.0"), Ok(Some("1.0".to_owned())));
        let refused = |name, build, version| text(requested_build(name, build, version));
        let prefix = "invalid version string";
        assert_eq!(
            refused("d", "", "x"),
            format!("{prefix}: expected delimiter ':' or '.' not found in version string x")
        );
        assert_eq!(refused("", "b", ""), format!("{prefix}: deployment name is empty in version string .b"));
        assert_eq!(refused("d", "", "d:"), format!("{prefix}: build id is empty in version string d:"));
        assert_eq!(refused("d", "", "e.b"), format!("{prefix} 'e.b' does not match deployment name 'd'"));
        assert_eq!(refused("a.b", "c", ""), format!("{prefix} 'a.b.c' does not match deployment name 'a.b'"));
    }

    #[test]
    fn a_version_is_named_in_two_ways() {
        let version = |name: &str, build: &str| Ok((name.to_owned(), build.to_owned()));
        assert_eq!(requested_version(Some(("d", "b")), "other.x"), version("d", "b"));
        assert_eq!(requested_version(None, "d.b:c"), version("d", "b:c"));
        assert_eq!(requested_version(None, "d:b"), version("d", "b"));
        let bad = |given: &str| {
            format!("invalid version string \"{given}\", expected format is \"<deployment_name>.<build_id>\"")
        };
        assert_eq!(text(requested_version(None, "")), bad(""));
        assert_eq!(text(requested_version(None, UNVERSIONED)), "WorkerDeploymentName cannot be empty");
        assert_eq!(text(requested_version(None, "x")), bad("x"));
        assert_eq!(text(requested_version(Some(("d", "")), "")), bad("d."));
        assert_eq!(text(requested_version(Some(("", "")), "")), bad("."));
        assert_eq!(requested_version(Some(("a.b", "c")), ""), version("a", "b.c"));
        assert_eq!(text(requested_version(Some(("__a", "b")), "")), "WorkerDeploymentName cannot start with '__'");
    }
}
