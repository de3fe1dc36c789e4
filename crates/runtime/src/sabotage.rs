//! Deliberate faults, for proving that the harnesses notice them. Without the feature `sabotage` there are none.

/// Whether the fault of this name was asked for in `SEGNO_SABOTAGE`.
pub(crate) fn is_on(name: &str) -> bool {
    cfg!(feature = "sabotage") && std::env::var_os("SEGNO_SABOTAGE").is_some_and(|asked| asked == name)
}
