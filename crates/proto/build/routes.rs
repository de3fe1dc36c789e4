//! The routes of Temporal's HTTP API, from the `google.api.http` annotations of its services.
//!
//! The descriptor set that `temporalio-protos` publishes has no annotations: it was written by a program that does not know
//! them. So the services are compiled once more, from the `.proto` files of that crate, whose directory cargo knows.

use std::{
    env,
    error::Error,
    path::{Path, PathBuf},
    process::Command,
};

use protox::{
    Compiler,
    prost_reflect::{DynamicMessage, MethodDescriptor, Value},
};

/// The crate with the `.proto` files.
const SOURCE: &str = "temporalio-protos";

/// The services that have routes. Of two routes that fit, the later one counts.
const SERVICES: [&str; 2] =
    ["temporal/api/workflowservice/v1/service.proto", "temporal/api/operatorservice/v1/service.proto"];

/// The methods of HTTP, as an annotation names them.
const METHODS: [&str; 5] = ["get", "put", "post", "delete", "patch"];

/// The table of routes as Rust code.
pub fn table() -> Result<String, Box<dyn Error>> {
    let include = source_directory()?.join("protos/api_upstream");
    let mut compiler = Compiler::new([include])?;
    compiler.include_imports(true).open_files(SERVICES)?;
    let pool = compiler.descriptor_pool();
    let annotation = pool.get_extension_by_name("google.api.http").ok_or("there is no google.api.http")?;
    let mut rows = String::new();
    for service in pool.services() {
        for method in service.methods() {
            let options = method.options();
            if let Value::Message(rule) = &*options.get_extension(&annotation) {
                add_rule(rule, &method, &mut rows);
            }
        }
    }
    if rows.is_empty() {
        return Err("no call has a route".into());
    }
    Ok(format!(
        "/// Every route of Temporal's HTTP API, in the order of its definition.\n\
         pub const ROUTES: &[HttpRoute] = &[\n{rows}];\n"
    ))
}

/// Adds the routes of one annotation.
fn add_rule(rule: &DynamicMessage, method: &MethodDescriptor, rows: &mut String) {
    let text = |name: &str| match rule.get_field_by_name(name).as_deref() {
        Some(Value::String(text)) => text.clone(),
        _ => String::new(),
    };
    for verb in METHODS {
        let path = text(verb);
        if !path.is_empty() {
            rows.push_str(&format!(
                "HttpRoute {{ method: {:?}, path: {path:?}, body: {:?}, service: {:?}, call: {:?}, request: {:?}, \
                 response: {:?} }},\n",
                verb.to_uppercase(),
                text("body"),
                method.parent_service().full_name(),
                method.name(),
                method.input().full_name(),
                method.output().full_name(),
            ));
        }
    }
    if let Some(Value::List(more)) = rule.get_field_by_name("additional_bindings").as_deref() {
        for rule in more.iter().filter_map(Value::as_message) {
            add_rule(rule, method, rows);
        }
    }
}

/// Where the crate with the `.proto` files is.
fn source_directory() -> Result<PathBuf, Box<dyn Error>> {
    // Everything is downloaded already, unless cargo is asked about more than this build needs.
    let metadata = metadata(&["--offline"]).or_else(|_| metadata(&[]))?;
    // Paths in JSON have no quotation marks, and backslashes are escaped.
    let manifest = metadata
        .split("\"manifest_path\":\"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .map(|path| PathBuf::from(path.replace("\\\\", "\\")))
        .find(|path| is_source(path));
    let manifest = manifest.ok_or_else(|| format!("cargo does not know where {SOURCE} is"))?;
    Ok(manifest.parent().unwrap_or(Path::new("/")).to_owned())
}

fn is_source(manifest: &Path) -> bool {
    let directory = manifest.parent().and_then(Path::file_name).and_then(|name| name.to_str());
    directory.is_some_and(|name| name.starts_with(SOURCE))
}

fn metadata(flags: &[&str]) -> Result<String, Box<dyn Error>> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--locked", "--filter-platform", &env::var("TARGET")?])
        .args(flags)
        .current_dir(env::var("CARGO_MANIFEST_DIR")?)
        .output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    Ok(String::from_utf8(output.stdout)?)
}
