//! Examples of section 10 of the specification that speak of commands and failures: what a turn hands to the server.

use segno_flow::interface::{Command, Event, EventKind, Failure, FailureInfo, Limits, Payload, Start, Unpaced};
use segno_flow::turn;

fn compiled(script: &str) -> segno_flow::Code {
    let checked = segno_flow::check(script.as_bytes());
    segno_flow::compile(&checked.program.unwrap_or_else(|| panic!("{:?}", checked.diagnostics)), "w.flow").unwrap()
}

/// Commands of each turn, an event per turn, after the start with this input.
fn commands(script: &str, input: Vec<Payload>, events: Vec<EventKind>) -> Vec<Vec<Command>> {
    let code = compiled(script);
    let start = EventKind::Started(Box::new(Start { input, run_id: "r".to_owned(), ..Start::default() }));
    let mut state: Option<Vec<u8>> = None;
    let events = std::iter::once(start).chain(events).enumerate();
    let take = |(place, kind)| {
        let event = Event { time: place as i64 * 1_000, kind };
        let turned = turn(&code, state.as_deref(), &[event], &Limits::default(), &mut Unpaced).unwrap();
        state = Some(turned.state);
        turned.commands
    };
    events.map(take).collect()
}

fn json(text: &str) -> Payload {
    Payload { metadata: vec![("encoding".to_owned(), b"json/plain".to_vec())], data: text.as_bytes().to_vec() }
}

#[test]
fn example_20_cancels_the_timer() {
    let script = "workflow w() { try { await Task.delay(\"30d\") } catch (e) { await Task.run(\"notify\", { why: e.message }); throw e } }";
    let canceled = EventKind::CancelRequested { reason: "stop".to_owned() };
    let ended = EventKind::TaskEnded { id: "task-1".to_owned(), end: Ok(Vec::new()) };
    let commands = commands(script, Vec::new(), vec![canceled, ended]);
    assert!(matches!(commands[0].as_slice(), [Command::StartTimer { duration: 2_592_000_000, .. }]), "{commands:?}");
    let [Command::CancelTimer { id }, Command::ScheduleTask(task)] = commands[1].as_slice() else {
        panic!("{commands:?}")
    };
    assert_eq!((id.as_str(), &task.input), ("timer-1", &vec![json("{\"why\":\"stop\"}")]));
    assert_eq!(commands[2], [Command::Cancel { details: Vec::new() }]);
}

#[test]
fn example_24_leaves_as_it_came() {
    let info = FailureInfo::Activity {
        id: "task-1".to_owned(),
        name: "ship".to_owned(),
        scheduled_event_id: 5,
        started_event_id: 6,
        identity: "worker".to_owned(),
        retry_state: 2,
    };
    let cause = Failure {
        message: "no stock".to_owned(),
        source: "PythonSDK".to_owned(),
        stack_trace: "line 1".to_owned(),
        info: FailureInfo::Application {
            kind: "OutOfStock".to_owned(),
            non_retryable: true,
            details: vec![json("{\"sku\": 7}")],
        },
        ..Failure::default()
    };
    let came = Failure {
        message: "Activity task failed".to_owned(),
        cause: Some(Box::new(cause)),
        info,
        encoded: Some(vec![1, 2, 3].into()),
        ..Failure::default()
    };
    let ended = EventKind::TaskEnded { id: "task-1".to_owned(), end: Err(came.clone()) };
    let commands = commands("workflow w() { await Task.run(\"ship\") }", Vec::new(), vec![ended]);
    let [Command::Fail { failure }] = commands[1].as_slice() else { panic!("{commands:?}") };
    assert!(failure.stack_trace.starts_with("at w ("), "{failure:?}");
    let left = Failure { source: "segno-flow".to_owned(), stack_trace: failure.stack_trace.clone(), ..came };
    assert_eq!(*failure, left);
}

#[test]
fn example_34_leaves_numbers_that_do_not_fit_unread() {
    for (text, want) in [("18446744073709551615", "18446744073709551615"), ("9007199254740993", "9007199254740993")] {
        let commands = commands("workflow w(x) { return x }", vec![json(text)], Vec::new());
        assert_eq!(commands[0], [Command::Complete { result: vec![json(want)] }]);
    }
    let commands = commands("workflow w(x) { return typeof x }", vec![json("18446744073709551615")], Vec::new());
    assert_eq!(commands[0], [Command::Complete { result: vec![json("\"payload\"")] }]);
}
