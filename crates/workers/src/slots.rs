//! The slots in heartbeats of Temporal's SDKs, for those of which it is known what they count.
//!
//! What each SDK reports, and when, was recorded; `crates/engine/tests/slots` has the numbers. Other SDKs, and older versions,
//! may count differently, so that nothing follows from what they report.

use segno_engine::slots::{Proof, SlotReport};
use segno_proto::{
    enums::WorkerStatus,
    timestamp_nanos,
    worker::{WorkerHeartbeat, WorkerSlotsInfo},
};

/// Name of an SDK, its oldest version that was examined, and what proves that a worker of it has not received a task.
///
/// Those built on Temporal's core renew the time of the last poll with empty answers, too.
const EXAMINED: [(&str, (u32, u32), Proof); 4] = [
    ("temporal-python", (1, 35), Proof::AtRest),
    ("temporal-typescript", (1, 24), Proof::AtRest),
    ("temporal-go", (1, 50), Proof::NothingReceived),
    ("temporal-java", (1, 38), Proof::NothingReceived),
];

/// The slots of a running worker according to its heartbeat; `None` if nothing follows from it.
pub(crate) fn report_of(heartbeat: &WorkerHeartbeat) -> Option<SlotReport> {
    let slots = heartbeat.activity_task_slots_info.as_ref()?;
    let pollers = heartbeat.activity_poller_info.as_ref()?;
    let proof = proof_of(&heartbeat.sdk_name, &heartbeat.sdk_version)?;
    let WorkerSlotsInfo { current_used_slots: used, total_processed_tasks: processed, .. } = *slots;
    let is_sound = heartbeat.status() == WorkerStatus::Running && used >= 0 && processed >= 0;
    is_sound.then_some(SlotReport {
        used: used.into(),
        processed: processed.into(),
        made_at: heartbeat.heartbeat_time.as_ref().map(timestamp_nanos)?,
        received_at: pollers.last_successful_poll_time.as_ref().map(timestamp_nanos),
        proof,
    })
}

fn proof_of(sdk: &str, version: &str) -> Option<Proof> {
    let (_, oldest, proof) = EXAMINED.iter().find(|(name, ..)| *name == sdk)?;
    let mut parts = version.split('.').map(|part| part.parse::<u32>().ok());
    let version = (parts.next()??, parts.next()??);
    (version >= *oldest).then_some(*proof)
}

#[cfg(test)]
mod tests {
    use segno_proto::{nanos_timestamp, worker::WorkerPollerInfo};

    use super::*;

    #[test]
    fn only_examined_versions_prove_anything() {
        for (sdk, version, proof) in [
            ("temporal-python", "1.35.0", Some(Proof::AtRest)),
            ("temporal-python", "1.34.9", None),
            ("temporal-python", "2.0.0rc1", Some(Proof::AtRest)),
            ("temporal-typescript", "1.24.0", Some(Proof::AtRest)),
            ("temporal-go", "1.50.0", Some(Proof::NothingReceived)),
            ("temporal-go", "1.49.3", None),
            ("temporal-java", "1.38.0", Some(Proof::NothingReceived)),
            ("temporal-java", "", None),
            ("temporal-dotnet", "1.35.0", None),
            ("", "", None),
        ] {
            assert_eq!(proof_of(sdk, version), proof, "{sdk} {version}");
        }
    }

    #[test]
    fn a_heartbeat_that_lacks_a_number_proves_nothing() {
        let slots = WorkerSlotsInfo { current_used_slots: 2, total_processed_tasks: 5, ..Default::default() };
        let pollers = WorkerPollerInfo { last_successful_poll_time: Some(nanos_timestamp(3)), ..Default::default() };
        let whole = WorkerHeartbeat {
            sdk_name: "temporal-go".into(),
            sdk_version: "1.50.0".into(),
            status: WorkerStatus::Running as i32,
            heartbeat_time: Some(nanos_timestamp(9)),
            activity_task_slots_info: Some(slots.clone()),
            activity_poller_info: Some(pollers),
            ..Default::default()
        };
        let report =
            SlotReport { used: 2, processed: 5, made_at: 9, received_at: Some(3), proof: Proof::NothingReceived };
        assert_eq!(report_of(&whole), Some(report));
        let never = WorkerHeartbeat { activity_poller_info: None, ..whole.clone() };
        assert_eq!(report_of(&never), None, "no poller is not one that received nothing");
        for without in [
            WorkerHeartbeat { activity_task_slots_info: None, ..whole.clone() },
            WorkerHeartbeat { heartbeat_time: None, ..whole.clone() },
            WorkerHeartbeat { status: WorkerStatus::ShuttingDown as i32, ..whole.clone() },
            WorkerHeartbeat { sdk_name: String::new(), ..whole.clone() },
            WorkerHeartbeat {
                activity_task_slots_info: Some(WorkerSlotsInfo { current_used_slots: -1, ..slots }),
                ..whole.clone()
            },
        ] {
            assert_eq!(report_of(&without), None, "{without:?}");
        }
    }
}
