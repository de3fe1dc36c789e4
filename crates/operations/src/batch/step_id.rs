//! Request ids of steps: a step that is repeated has the same one as before.

use std::hash::Hash;

use segno_engine::uuid;
use siphasher::sip128::{Hasher128, SipHasher13};

/// A request id made of texts: the same texts give the same id.
pub fn step_id(parts: &[&str]) -> String {
    let mut hasher = SipHasher13::new();
    parts.iter().for_each(|part| part.hash(&mut hasher));
    let hash = hasher.finish128();
    uuid(5, hash.h1, hash.h2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn step_ids_repeat_and_differ() {
        let id = step_id(&["job", "signal", "wf", "run"]);
        assert_eq!(id, step_id(&["job", "signal", "wf", "run"]));
        assert_ne!(id, step_id(&["job", "signal", "wfr", "un"]));
        assert_ne!(id, step_id(&["job", "cancel", "wf", "run"]));
        assert!(segno_engine::validate::is_uuid(&id));
    }
}
