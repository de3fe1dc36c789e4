//! How urgent workflows and tasks are.

use segno_proto::common;

/// How urgent a workflow and its tasks are.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Priority {
    /// From 1, most urgent, to 5; 0 is the server's default, 3.
    pub key: u8,
    /// Tasks with the same key alternate with those of other keys.
    pub fairness_key: String,
    /// How large the share of the fairness key is; 0 is the default, 1.
    pub fairness_weight: f32,
}

impl Priority {
    /// Only with a priority key.
    pub fn new(key: u8) -> Self {
        Self { key, ..Self::default() }
    }

    pub(crate) fn to_wire(&self) -> common::Priority {
        common::Priority {
            priority_key: i32::from(self.key),
            fairness_key: self.fairness_key.clone(),
            fairness_weight: self.fairness_weight,
        }
    }
}
