//! The admission of an update as an event, for updates that must be stored before a worker accepts them.

use std::sync::Arc;

use segno_proto::{
    enums::UpdateAdmittedEventOrigin,
    events::{HistoryEvent, WorkflowExecutionUpdateAdmittedEventAttributes, history_event::Attributes},
    update::Request,
};

use crate::{
    machine::update::Event,
    parts::callbacks,
    state::{UpdateRecord, run::Run, updates::admitted_request},
    transition::{
        draft::{BUFFERED_EVENT_ID, Draft},
        steps::UpdateMachine,
    },
};

/// How many updates of a run are not completed.
pub(crate) fn in_flight(draft: &Draft) -> usize {
    let accepted = draft.run.state.updates.values().filter(|record| record.is_accepted()).count();
    draft.run.updates.waiting().len() + accepted
}

/// Writes the event that makes an admission durable.
pub fn write_admission(draft: &mut Draft, id: &str, request: Arc<Request>, origin: UpdateAdmittedEventOrigin) {
    let now = draft.now();
    let (callbacks, request_id) = (&request.completion_callbacks, &request.request_id);
    callbacks::register_of_update(&mut draft.run.state, id, callbacks, request_id, now);
    let request = Some(Arc::unwrap_or_clone(request));
    let attributes = WorkflowExecutionUpdateAdmittedEventAttributes { request, origin: origin as i32 };
    let event_id = draft.add_external(Attributes::WorkflowExecutionUpdateAdmittedEventAttributes(attributes));
    debug_assert!(event_id > 0 || event_id == BUFFERED_EVENT_ID);
    let record = UpdateRecord { admitted_event_id: event_id, ..Default::default() };
    draft.run.state.updates.insert(id.to_owned(), record);
}

/// Admits an update with an event: one whose admission must be stored, or one that another run had.
pub fn admit_durably(draft: &mut Draft, id: String, request: Arc<Request>, origin: UpdateAdmittedEventOrigin) {
    draft.step(UpdateMachine(&id), Event::Admit, |draft| {
        let kept = keeps_requests(&draft.run).then(|| request.clone());
        write_admission(draft, &id, request, origin);
        draft.run.updates.admit_stored(id.clone(), kept);
    });
}

/// Whether memory keeps the requests of stored admissions: only a run that may be retried hands them on.
pub(crate) fn keeps_requests(run: &Run) -> bool {
    run.info.retry_policy.is_some()
}

/// Takes an admission back that waits to become history: a worker that was asked before a crash answers first, and
/// nothing may speak of an update that is not admitted yet.
pub(crate) fn take_buffered_admission(draft: &mut Draft, id: &str) -> Option<Request> {
    let record = draft.run.state.updates.get_mut(id).filter(|record| record.admitted_event_id == BUFFERED_EVENT_ID)?;
    record.admitted_event_id = 0;
    let place = draft.run.state.buffered.iter().position(|event| admits(event) == Some(id))?;
    match draft.run.state.buffered.remove(place).attributes {
        Some(Attributes::WorkflowExecutionUpdateAdmittedEventAttributes(a)) => a.request,
        _ => None,
    }
}

/// The update that an event admits.
fn admits(event: &HistoryEvent) -> Option<&str> {
    admitted_request(event)?.meta.as_ref().map(|meta| meta.update_id.as_str())
}
