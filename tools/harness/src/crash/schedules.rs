//! Schedules: what was acknowledged of them stays, and each due time starts one workflow, whenever the server is down.
//!
//! A client of its own makes one schedule after the other. The first kind acts each second, a few times, and is left
//! alone. The second is paused and changed by calls: an update, a trigger, a deletion.

use std::{
    rc::Rc,
    time::{Duration, Instant},
};

use segno_proto::{
    common::WorkflowType,
    enums::ScheduleOverlapPolicy,
    schedule::{
        IntervalSpec, Schedule, ScheduleAction, SchedulePatch, SchedulePolicies, ScheduleSpec, ScheduleState,
        TriggerImmediatelyRequest, schedule_action::Action,
    },
    timestamp_nanos,
    workflow::NewWorkflowExecutionInfo,
    workflowservice::{
        CountWorkflowExecutionsRequest, CreateScheduleRequest, DeleteScheduleRequest, DescribeScheduleRequest,
        DescribeScheduleResponse, PatchScheduleRequest, UpdateScheduleRequest,
    },
};
use tonic::Code;

use super::{
    flows::{QUEUE, Shared, result},
    ledger::{Breach, Kind},
};
use crate::wire::{self, Client, NAMESPACE};

/// Actions of a schedule that acts by itself. Descriptions have the last ten.
const ACTIONS: i64 = 3;
/// A server that stayed up for so long after the last due time has had its chance.
const DUE_TIMEOUT: Duration = Duration::from_secs(8);
const POLL_INTERVAL: Duration = Duration::from_millis(50);
const SECOND: i64 = 1_000_000_000;

/// One schedule after the other until the campaign stops.
pub async fn run(shared: Rc<Shared>, mut client: Client, name: &'static str) {
    let mut index = 0;
    while !shared.stopping.get() {
        let id = format!("{name}-{index}");
        let outcome = match index % 2 {
            0 => acting(&shared, &mut client, &id).await,
            _ => changed(&shared, &mut client, &id).await,
        };
        if let Err(breach) = outcome {
            shared.ledger.breach(breach);
        }
        index += 1;
    }
}

/// A schedule that starts a workflow each second.
async fn acting(shared: &Shared, client: &mut Client, id: &str) -> Result<(), Breach> {
    let state = ScheduleState { limited_actions: true, remaining_actions: ACTIONS, ..Default::default() };
    let asked = ScheduleRequest::new(shared, id, "creation");
    create(client, &asked, schedule(id, 1, state)).await?;
    let said = actions_taken(client, &asked, ACTIONS).await?;
    let info = said.info.clone().unwrap_or_default();
    if (info.action_count, info.missed_catchup_window, info.overlap_skipped) != (ACTIONS, 0, 0) {
        return Err(Breach::Wrong(format!(
            "{id}: {} actions, {} missed, {} skipped, of {ACTIONS}",
            info.action_count, info.missed_catchup_window, info.overlap_skipped
        )));
    }
    let created = info.create_time.as_ref().map(timestamp_nanos).unwrap_or_default();
    let due = (created / SECOND + 1..).map(|second| second * SECOND);
    let told = info.recent_actions.iter().map(|action| action.schedule_time.as_ref().map(timestamp_nanos));
    if let Some((told, due)) = told.zip(due).find(|(told, due)| *told != Some(*due)) {
        return Err(Breach::Wrong(format!("{id}: an action at {told:?} instead of the due time {due}")));
    }
    workflows_ended(shared, client, id, &said, ACTIONS).await?;
    delete(client, &asked).await
}

/// A schedule that does only what it is told to.
async fn changed(shared: &Shared, client: &mut Client, id: &str) -> Result<(), Breach> {
    let state = |notes: &str| ScheduleState { paused: true, notes: notes.to_owned(), ..Default::default() };
    let asked = ScheduleRequest::new(shared, id, "creation");
    create(client, &asked, schedule(id, 3_600, state("created"))).await?;
    asked.check(client, |said| notes_of(said) == "created").await?;

    let asked = ScheduleRequest::new(shared, id, "update");
    let call = UpdateScheduleRequest {
        namespace: NAMESPACE.to_owned(),
        schedule_id: id.to_owned(),
        schedule: Some(schedule(id, 3_600, state("updated"))),
        request_id: format!("update-{id}"),
        ..Default::default()
    };
    client.insist(&call).await.map_err(|status| asked.refused(&status))?;
    asked.check(client, |said| notes_of(said) == "updated").await?;

    let asked = ScheduleRequest::new(shared, id, "trigger");
    for number in 1..=2 {
        // Each has a time of its own, since workflow ids are made of it.
        let time = prost_types::Timestamp { seconds: 1_700_000_000 + number, nanos: 0 };
        let trigger = TriggerImmediatelyRequest { scheduled_time: Some(time), ..Default::default() };
        let call = PatchScheduleRequest {
            namespace: NAMESPACE.to_owned(),
            schedule_id: id.to_owned(),
            patch: Some(SchedulePatch { trigger_immediately: Some(trigger), ..Default::default() }),
            request_id: format!("trigger-{number}-{id}"),
            ..Default::default()
        };
        client.insist(&call).await.map_err(|status| asked.refused(&status))?;
    }
    let said = actions_taken(client, &asked, 2).await?;
    workflows_ended(shared, client, id, &said, 2).await?;

    delete(client, &asked).await
}

fn schedule(id: &str, every_s: u64, state: ScheduleState) -> Schedule {
    let start = NewWorkflowExecutionInfo {
        workflow_id: workflow_id(id),
        workflow_type: Some(WorkflowType { name: Kind::Activity.name().to_owned() }),
        task_queue: wire::queue(QUEUE),
        workflow_task_timeout: Some(wire::millis(2_000)),
        ..Default::default()
    };
    let interval = IntervalSpec { interval: Some(wire::millis(every_s * 1_000)), phase: None };
    Schedule {
        spec: Some(ScheduleSpec { interval: vec![interval], ..Default::default() }),
        action: Some(ScheduleAction { action: Some(Action::StartWorkflow(start)) }),
        policies: Some(SchedulePolicies {
            overlap_policy: ScheduleOverlapPolicy::AllowAll.into(),
            ..Default::default()
        }),
        state: Some(state),
    }
}

fn workflow_id(id: &str) -> String {
    format!("{id}-wf")
}

fn notes_of(said: &DescribeScheduleResponse) -> &str {
    let state = said.schedule.as_ref().and_then(|schedule| schedule.state.as_ref());
    state.map(|state| state.notes.as_str()).unwrap_or_default()
}

/// Something acknowledged about a schedule, or about to be.
struct ScheduleRequest<'a> {
    shared: &'a Shared,
    id: &'a str,
    what: &'static str,
    /// Round in which it was asked for. If another one has begun since, a crash may have taken it.
    round: u32,
}

impl<'a> ScheduleRequest<'a> {
    fn new(shared: &'a Shared, id: &'a str, what: &'static str) -> Self {
        Self { shared, id, what, round: shared.ledger.round() }
    }

    fn missing(&self, what: &str) -> Breach {
        let text = format!("{}: acknowledged {} in round {} or later: {what}", self.id, self.what, self.round);
        if self.shared.ledger.crashed_since(self.round) { Breach::Lost(text) } else { Breach::Wrong(text) }
    }

    fn refused(&self, status: &tonic::Status) -> Breach {
        match status.code() {
            Code::NotFound => self.missing("the schedule is gone"),
            _ => Breach::Wrong(format!("{}: {} was refused: {status}", self.id, self.what)),
        }
    }

    async fn describe(&self, client: &mut Client) -> Result<DescribeScheduleResponse, Breach> {
        let call = DescribeScheduleRequest { namespace: NAMESPACE.to_owned(), schedule_id: self.id.to_owned() };
        client.insist(&call).await.map_err(|status| self.refused(&status))
    }

    async fn check(
        &self,
        client: &mut Client,
        holds: impl Fn(&DescribeScheduleResponse) -> bool,
    ) -> Result<(), Breach> {
        self.shared.ledger.count_fact();
        let said = self.describe(client).await?;
        if holds(&said) {
            Ok(())
        } else {
            Err(self.missing(&format!("not there, the notes say {:?}", notes_of(&said))))
        }
    }
}

async fn create(client: &mut Client, asked: &ScheduleRequest<'_>, schedule: Schedule) -> Result<(), Breach> {
    let call = CreateScheduleRequest {
        namespace: NAMESPACE.to_owned(),
        schedule_id: asked.id.to_owned(),
        schedule: Some(schedule),
        request_id: format!("create-{}", asked.id),
        ..Default::default()
    };
    client.insist(&call).await.map_err(|status| asked.refused(&status))?;
    asked.shared.ledger.count_fact();
    Ok(())
}

/// Waits until a schedule has acted so many times.
async fn actions_taken(
    client: &mut Client,
    asked: &ScheduleRequest<'_>,
    actions: i64,
) -> Result<DescribeScheduleResponse, Breach> {
    let mut since = Instant::now();
    let mut round = asked.shared.ledger.round();
    loop {
        let said = asked.describe(client).await?;
        let taken = said.info.as_ref().map_or(0, |info| info.action_count);
        if taken >= actions {
            return Ok(said);
        }
        if asked.shared.ledger.crashed_since(round) {
            round = asked.shared.ledger.round();
            since = Instant::now();
        }
        if since.elapsed() > DUE_TIMEOUT {
            return Err(asked.missing(&format!("{taken} of {actions} workflows were started")));
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Every workflow that a schedule says it started is there and ends as it should, and there are no others.
async fn workflows_ended(
    shared: &Shared,
    client: &mut Client,
    id: &str,
    said: &DescribeScheduleResponse,
    actions: i64,
) -> Result<(), Breach> {
    let started = said.info.iter().flat_map(|info| &info.recent_actions);
    for run in started.filter_map(|action| action.start_workflow_result.as_ref()) {
        shared.ledger.note(Kind::Activity, &run.workflow_id, &run.run_id, |_, _| {});
        result(shared, client, Kind::Activity, &run.workflow_id, &run.run_id).await?;
    }
    let call = CountWorkflowExecutionsRequest {
        namespace: NAMESPACE.to_owned(),
        query: format!("TemporalScheduledById = '{id}'"),
    };
    let reply = client.insist(&call).await;
    let count = reply.map_err(|status| Breach::Wrong(format!("{id}: counting: {status}")))?.count;
    if count != actions {
        return Err(Breach::Wrong(format!("{id}: {count} workflows for {actions} due times")));
    }
    Ok(())
}

/// Deletes a schedule; from then on it does not exist.
async fn delete(client: &mut Client, asked: &ScheduleRequest<'_>) -> Result<(), Breach> {
    let round = asked.shared.ledger.round();
    let call = DeleteScheduleRequest {
        namespace: NAMESPACE.to_owned(),
        schedule_id: asked.id.to_owned(),
        ..Default::default()
    };
    if client.insist_once(&call, Code::NotFound).await.map_err(|status| asked.refused(&status))? {
        asked.shared.ledger.count_fact();
    }
    let call = DescribeScheduleRequest { namespace: NAMESPACE.to_owned(), schedule_id: asked.id.to_owned() };
    match client.insist(&call).await {
        Err(status) if status.code() == Code::NotFound => Ok(()),
        Ok(_) if asked.shared.ledger.crashed_since(round) => {
            Err(Breach::Lost(format!("{}: deleted in round {round} or later, and there again", asked.id)))
        }
        other => Err(Breach::Wrong(format!("{}: deleted, and yet {other:?}", asked.id))),
    }
}
