//! Answers that come twice: the same one hears what the first one heard, also from storage; another one is refused.

use crate::common::{
    update_steps::request,
    words::command,
    world::{EPOCH, SECOND, World, answer, start_request},
};
use segno_engine::{
    Durability, Rejection, Run,
    activity::{self, ActivityRef, Taker},
    complete_task::{CompleteTask, Completed},
    limits::RESULT_DIGESTS_MAX,
    repeats::{self, Call, Digest},
    signal::{self, Signal},
    terminate,
    update::admit::{self, Admit},
};
use segno_proto::workflowservice::{RespondActivityTaskCanceledRequest, RespondActivityTaskCompletedRequest};

const FIRST: Digest = Digest(1);
const OTHER: Digest = Digest(2);

fn begun() -> World {
    let mut world = World::begin(start_request(), EPOCH).0;
    world.start_task("q").expect("there is a task");
    world
}

fn completion(world: &World, commands: &[&str], digest: Digest) -> CompleteTask {
    let commands = commands.iter().map(|text| command(text)).collect();
    CompleteTask { commands, digest, ..answer(world.token()) }
}

/// The answer to a repeat, which changes nothing.
fn again(world: &mut World, call: &CompleteTask) -> Result<Completed, Rejection> {
    let before = world.durable;
    let taken = world.complete_task(call.clone())?;
    assert_eq!(taken.transition.durability, Durability::Unchanged);
    assert!(taken.transition.effects.is_empty() && world.durable == before);
    assert!(taken.reply.repeated);
    Ok(taken.reply)
}

#[test]
fn a_repeated_completion_is_answered_again() {
    let mut world = begun();
    let call = completion(&world, &["timer t 100s"], FIRST);
    let first = world.complete_task(call.clone()).expect("it is taken").reply;
    assert!(!first.repeated);
    again(&mut world, &call).expect("it was taken");
    let other = CompleteTask { digest: OTHER, ..call.clone() };
    assert_eq!(again(&mut world, &other).map(|_| ()), Err(Rejection::TaskNotFound));
    let unknown = CompleteTask { digest: Digest::default(), ..call.clone() };
    assert_eq!(again(&mut world, &unknown).map(|_| ()), Err(Rejection::TaskNotFound));
    world.crash();
    again(&mut world, &call).expect("it is stored");
    assert_eq!(again(&mut world, &other).map(|_| ()), Err(Rejection::TaskNotFound));
    // Until the next task is completed.
    let signal = Signal { name: "s".to_owned(), ..Default::default() };
    world.call(|run, context| signal::signal(run, context, signal)).expect("it is taken");
    world.start_task("q").expect("there is a task");
    again(&mut world, &call).expect("it is the last completion");
    let next = completion(&world, &[], OTHER);
    world.complete_task(next.clone()).expect("it is taken");
    again(&mut world, &next).expect("it was taken");
    assert_eq!(again(&mut world, &call).map(|_| ()), Err(Rejection::TaskNotFound));
}

#[test]
fn a_closed_run_knows_its_last_completion() {
    for last in ["complete", "continue"] {
        let mut world = begun();
        let call = completion(&world, &[last], FIRST);
        world.complete_task(call.clone()).expect("it is taken");
        assert!(!world.run.is_running());
        world.crash();
        again(&mut world, &call).expect("it is stored");
        let other = CompleteTask { digest: OTHER, ..call };
        assert_eq!(again(&mut world, &other).map(|_| ()), Err(Rejection::TaskNotFound));
    }
}

#[test]
fn a_failure_and_a_missed_heartbeat_are_told_again() {
    let mut world = begun();
    let call = completion(&world, &["cancel-timer nothing"], FIRST);
    let failure = world.complete_task(call.clone()).expect("it is taken").reply.failure;
    assert!(failure.is_some());
    world.crash();
    assert_eq!(again(&mut world, &call).expect("it was taken").failure, failure);

    let mut world = begun();
    world.now += 3600 * SECOND;
    let call = CompleteTask { force_new_task: true, ..completion(&world, &[], FIRST) };
    assert!(world.complete_task(call.clone()).expect("it is taken").reply.heartbeat_timed_out);
    world.crash();
    assert!(again(&mut world, &call).expect("it was taken").heartbeat_timed_out);
}

#[test]
fn what_came_with_the_reply_comes_again_as_long_as_it_is_there() {
    let mut world = begun();
    let commands = ["activity a eager", "activity b eager"];
    let mut call = completion(&world, &commands, FIRST);
    (call.force_new_task, call.return_new_task) = (true, true);
    let first = world.complete_task(call.clone()).expect("it is taken").reply;
    assert!(first.new_task.is_some() && first.eager_activities.len() == 2);
    for _ in 0..2 {
        let repeat = again(&mut world, &call).expect("it was taken");
        assert_eq!((&repeat.new_task, &repeat.eager_activities), (&first.new_task, &first.eager_activities));
        world.crash();
    }
    // One is over, the other was given back and taken by another worker.
    let [a, b] = [first.eager_activities[0].clone(), first.eager_activities[1].clone()];
    let token = token_of(&world.run, a.scheduled_event_id);
    world.now += SECOND;
    world
        .call(|run, context| activity::complete(run, context, &token, None, String::new(), None))
        .expect("it is taken");
    world
        .call(|run, context| activity::give_back(run, context, b.scheduled_event_id, b.started_time))
        .expect("it is taken");
    assert_eq!(again(&mut world, &call).expect("it was taken").eager_activities, []);
    start(&mut world, b.scheduled_event_id);
    let repeat = again(&mut world, &call).expect("it was taken");
    assert!(repeat.eager_activities.is_empty() && repeat.new_task == first.new_task);
    // The next task times out, and another worker has the one after it.
    world.now += 100 * SECOND;
    world.call(|run, context| Ok(segno_engine::wake::wake(run, context))).expect("it is woken");
    assert_eq!(again(&mut world, &call).expect("it was taken").new_task, None);
    world.start_task("q").expect("there is a task");
    assert_eq!(again(&mut world, &call).expect("it was taken").new_task, None);
    // Nor is anything handed out after the end.
    world.call(|run, context| terminate::terminate(run, context, Default::default())).expect("it is taken");
    let repeat = again(&mut world, &call).expect("it was taken");
    assert!(repeat.new_task.is_none() && repeat.eager_activities.is_empty());
}

#[test]
fn updates_that_came_with_the_reply_come_again() {
    let mut world = begun();
    let admission = || Admit::new(request("u", 0), false, Default::default());
    world.call(|run, context| admit::admit(run, context, admission())).expect("it is taken");
    let mut call = completion(&world, &[], FIRST);
    call.return_new_task = true;
    let first = world.complete_task(call.clone()).expect("it is taken").reply;
    assert_eq!(first.new_messages.len(), 1);
    let repeat = again(&mut world, &call).expect("it was taken");
    assert_eq!((repeat.new_messages, repeat.new_task), (first.new_messages, first.new_task));
    // A crash forgets the speculative task and who waits for the update.
    world.crash();
    let repeat = again(&mut world, &call).expect("it was taken");
    assert!(repeat.new_messages.is_empty() && repeat.new_task.is_none());
}

fn token_of(run: &Run, id: i64) -> ActivityRef {
    let activity = run.state().activities.get(&id).expect("it is pending");
    let (attempt, started_time) = (activity.attempt, activity.started_time);
    ActivityRef::Token { scheduled_event_id: id, attempt, started_time }
}

fn start(world: &mut World, id: i64) -> ActivityRef {
    let stamp = world.run.state().activities.get(&id).expect("it is pending").stamp;
    world.call(|run, context| activity::start(run, context, id, stamp, Taker::default())).expect("it waits");
    token_of(&world.run, id)
}

fn complete(world: &mut World, token: &ActivityRef, digest: Digest) -> Result<Durability, Rejection> {
    let taken = world.call(|run, context| {
        let completed = activity::complete(run, context, token, None, String::new(), None);
        repeats::result(run, context, digest, completed)
    })?;
    Ok(taken.transition.durability)
}

fn fail(world: &mut World, token: &ActivityRef, digest: Digest) -> Result<Durability, Rejection> {
    let taken = world.call(|run, context| {
        let failed = activity::fail(run, context, token, None, String::new(), None, None);
        repeats::result(run, context, digest, failed)
    })?;
    Ok(taken.transition.durability)
}

#[test]
fn a_repeated_result_is_answered_again() {
    let mut world = begun();
    let call = completion(&world, &["activity a retry=0/0s"], FIRST);
    world.complete_task(call).expect("it is taken");
    let first = start(&mut world, 5);
    // A failure that is retried, then a result. The failed attempt does not hide behind the one that runs.
    assert_eq!(fail(&mut world, &first, FIRST), Ok(Durability::Durable));
    world.now += SECOND;
    let second = start(&mut world, 5);
    assert_eq!(fail(&mut world, &first, FIRST), Ok(Durability::Unchanged));
    assert_eq!(fail(&mut world, &first, OTHER), Err(Rejection::ActivityNotFound));
    assert_eq!(complete(&mut world, &second, OTHER), Ok(Durability::Durable));
    world.crash();
    for digest in [FIRST, OTHER] {
        assert_eq!(complete(&mut world, &second, digest), Ok(Durability::Unchanged));
    }
    assert_eq!(complete(&mut world, &second, Digest(3)), Err(Rejection::ActivityNotFound));
    assert_eq!(complete(&mut world, &second, Digest::default()), Err(Rejection::ActivityNotFound));
    world.call(|run, context| terminate::terminate(run, context, Default::default())).expect("it is taken");
    world.crash();
    assert_eq!(complete(&mut world, &second, OTHER), Ok(Durability::Unchanged));
    assert_eq!(complete(&mut world, &second, Digest(3)), Err(Rejection::Closed));
}

#[test]
fn as_many_results_are_known_as_the_limit_says() {
    let count = RESULT_DIGESTS_MAX + 1;
    let mut world = begun();
    let commands: Vec<_> = (0..count).map(|number| format!("activity a{number}")).collect();
    let commands: Vec<_> = commands.iter().map(String::as_str).collect();
    let call = completion(&world, &commands, FIRST);
    world.complete_task(call).expect("it is taken");
    let tokens: Vec<_> = (0..count as i64).map(|number| start(&mut world, 5 + number)).collect();
    for (number, token) in (1..).zip(&tokens) {
        assert_eq!(complete(&mut world, token, Digest(number)), Ok(Durability::Durable));
    }
    assert_eq!(complete(&mut world, &tokens[0], Digest(1)), Err(Rejection::ActivityNotFound));
    for (number, token) in (1..).zip(&tokens).skip(1) {
        assert_eq!(complete(&mut world, token, Digest(number)), Ok(Durability::Unchanged));
    }
}

#[test]
fn the_same_bytes_of_another_call_are_another_answer() {
    let completed = RespondActivityTaskCompletedRequest { identity: "w".to_owned(), ..Default::default() };
    let canceled = RespondActivityTaskCanceledRequest { identity: "w".to_owned(), ..Default::default() };
    let digest = Digest::of(Call::ActivityCompleted, &completed);
    assert_eq!(digest, Digest::of(Call::ActivityCompleted, &completed));
    assert_ne!(digest, Digest::of(Call::ActivityCanceled, &canceled));
    let other = RespondActivityTaskCompletedRequest { identity: "x".to_owned(), ..Default::default() };
    assert_ne!(digest, Digest::of(Call::ActivityCompleted, &other));
}
