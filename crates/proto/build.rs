//! Generates wire types and service traits from the descriptor set that the crate `temporalio-protos` publishes to its
//! dependents, and from Segno's own protocol under `proto/`. No other `.proto` file is part of this repository.

#[path = "build/routes.rs"]
mod routes;

use std::{env, fs, path::PathBuf};

use prost::Message;
use prost_types::FileDescriptorSet;

/// The largest contents of an event, boxed: one of them alone would make every event 2 KB to move about.
const BOXED: [&str; 6] = [
    "workflow_execution_started_event_attributes",
    "workflow_execution_continued_as_new_event_attributes",
    "start_child_workflow_execution_initiated_event_attributes",
    "workflow_execution_update_rejected_event_attributes",
    "workflow_task_failed_event_attributes",
    "child_workflow_execution_failed_event_attributes",
];

/// Packages of the descriptor set that a server has no use for.
const UNUSED_FILES: [&str; 3] = ["temporal/sdk/", "temporal/api/cloud/", "health/"];

/// The package of a service that Temporal's own server does not have.
const TEST_SERVICE: &str = "temporal.api.testservice.v1";

/// Segno's own protocols.
const OWN: [&str; 6] = [
    "proto/segno/access/v1/access.proto",
    "proto/segno/cluster/v1/cluster.proto",
    "proto/segno/flow/v1/flow.proto",
    "proto/segno/verification/v1/verification.proto",
    "proto/segno/worker/v1/worker.proto",
    "proto/segno/workflow/v1/workflow.proto",
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let descriptors = env::var("DEP_TEMPORALIO_PROTOS_DESCRIPTOR_PATH")?;
    println!("cargo:rerun-if-changed={descriptors}");
    let mut set = FileDescriptorSet::decode(fs::read(&descriptors)?.as_slice())?;
    add_own(&mut set)?;
    set.file.retain(|file| !UNUSED_FILES.iter().any(|unused| file.name().contains(unused)));

    // Comments of the protocol are not ours to publish again, and would be most of the descriptors.
    for file in &mut set.file {
        file.source_code_info = None;
    }
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("descriptors.bin"), set.encode_to_vec())?;
    fs::write(out.join("methods.rs"), method_table(&set))?;
    fs::write(out.join("rpcs.rs"), rpcs(&set))?;
    println!("cargo:rerun-if-changed=build");
    fs::write(out.join("routes.rs"), routes::table()?)?;

    let mut config = tonic_prost_build::Config::new();
    config
        .bytes(["."])
        .btree_map(["."])
        .extern_path(".temporal.api.history.v1.History", "crate::History")
        .include_file("wire.rs");
    for content in BOXED {
        config.boxed(format!(".temporal.api.history.v1.HistoryEvent.attributes.{content}"));
    }
    tonic_prost_build::configure()
        .codec_path("crate::codec::Codec")
        .generate_default_stubs(true)
        .build_client(env::var_os("CARGO_FEATURE_CLIENT").is_some())
        .build_server(env::var_os("CARGO_FEATURE_SERVER").is_some())
        // The user of the client makes connections.
        .build_transport(false)
        .compile_fds_with_config(set, config)?;
    Ok(())
}

/// Adds Segno's own protocols.
fn add_own(set: &mut FileDescriptorSet) -> Result<(), Box<dyn std::error::Error>> {
    for own in OWN {
        println!("cargo:rerun-if-changed={own}");
    }
    for file in protox::compile(OWN, ["proto"])?.file {
        if set.file.iter().all(|known| known.name() != file.name()) {
            set.file.push(file);
        }
    }
    Ok(())
}

/// A table of every call of Temporal's services, for documentation checks and for naming calls not built yet.
fn method_table(set: &FileDescriptorSet) -> String {
    let mut rows = String::new();
    let is_temporals = |package: &str| !package.starts_with("segno.") && package != TEST_SERVICE;
    for file in set.file.iter().filter(|file| is_temporals(file.package())) {
        for service in &file.service {
            for method in &service.method {
                rows.push_str(&format!("(\"{}.{}\", \"{}\"),\n", file.package(), service.name(), method.name()));
            }
        }
    }
    format!(
        "/// Every call of the generated services as (service, method).\npub const METHODS: &[(&str, &str)] = &[\n{rows}];\n"
    )
}

/// Implementations of `Rpc` for the requests of all services, but the one whose methods share requests.
fn rpcs(set: &FileDescriptorSet) -> String {
    let path = |name: &str| format!("generated{}", name.replace('.', "::"));
    let mut rows = String::new();
    for file in set.file.iter().filter(|file| file.package() != TEST_SERVICE) {
        for service in &file.service {
            for method in &service.method {
                rows.push_str(&format!(
                    "impl Rpc for {} {{\n    type Response = {};\n    const PATH: &'static str = \"/{}.{}/{}\";\n}}\n",
                    path(method.input_type()),
                    path(method.output_type()),
                    file.package(),
                    service.name(),
                    method.name()
                ));
            }
        }
    }
    rows
}
