//! The start of a standalone Nexus operation.

use segno_proto::command::ScheduleNexusOperationCommandAttributes;

use crate::{
    parts::{nexus_begin, schedule::DIVISION_ATTRIBUTE, standalone_nexus::DIVISION},
    payload::keyword,
    state::standalone_nexus::StandaloneNexus,
    transition::{Effect, draft::Draft},
};

/// The options of a new standalone operation, checked.
#[derive(Clone, Debug, Default)]
pub struct NewOperation {
    /// The operation, in the terms in which workflows schedule theirs.
    pub attributes: ScheduleNexusOperationCommandAttributes,
    /// The endpoint's id.
    pub endpoint_id: String,
    /// The client that starts it.
    pub identity: String,
}

/// The first transition of a new run.
pub(crate) fn begin(draft: &mut Draft, new: NewOperation) {
    let state = &mut draft.run.state;
    state.search_attributes.insert(DIVISION_ATTRIBUTE.to_owned(), keyword(DIVISION));
    state.first_task_due = 0;
    state.standalone_nexus = Some(Box::new(StandaloneNexus { identity: new.identity, ..Default::default() }));
    let id = nexus_begin::schedule(draft, new.attributes, new.endpoint_id, 0);
    draft.effect(Effect::OfferNexusRequest(id));
}
