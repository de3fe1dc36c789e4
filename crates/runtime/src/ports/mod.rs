//! What the runs need of the parts above them: a trait for each, which the part implements.

mod effects;

pub(crate) use effects::{Effects, EffectsPort};
