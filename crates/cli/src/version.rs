//! `segno --version`: version, commit, schema and protocol.

use std::sync::OnceLock;

/// The version of Temporal's server whose protocol is spoken.
pub const PROTOCOL: &str = segno_server::SERVER_VERSION;

/// Version, commit, schema of the data and protocol.
pub fn long() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| {
        format!(
            "{}\ncommit   {}\nschema   {}\nprotocol Temporal {PROTOCOL}",
            env!("CARGO_PKG_VERSION"),
            env!("SEGNO_BUILD_COMMIT"),
            segno_store_sqlite::newest_schema(),
        )
    })
}
