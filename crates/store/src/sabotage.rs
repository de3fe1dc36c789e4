//! Deliberate faults, to prove that the test harnesses detect them. Without the feature `sabotage` there are none.

/// Whether the fault of this name was asked for in `SEGNO_SABOTAGE`, where several are separated by commas.
pub fn is_on(name: &str) -> bool {
    cfg!(feature = "sabotage")
        && std::env::var("SEGNO_SABOTAGE").is_ok_and(|asked| asked.split(',').any(|asked| asked == name))
}
