//! Nexus operations: promises, commands, errors, cancellation, wake sets, stored states.

use segno_flow::interface::{Command, EventKind, Failure, FailureInfo, ScheduleNexus, TimeoutKind};

use super::{Run, done, json};

fn ended(id: &str, result: &str) -> EventKind {
    EventKind::NexusEnded { id: id.into(), end: Ok(vec![json(result)]) }
}

fn failed(id: &str, message: &str, info: FailureInfo) -> EventKind {
    let cause = Failure { message: message.into(), info, ..Failure::default() };
    let failure = Failure {
        message: "nexus operation completed unsuccessfully".into(),
        cause: Some(Box::new(cause)),
        info: FailureInfo::Nexus {
            scheduled_event_id: 5,
            endpoint: "payments".into(),
            service: "Payments".into(),
            operation: "charge".into(),
            token: "token".into(),
        },
        ..Failure::default()
    };
    EventKind::NexusEnded { id: id.into(), end: Err(failure) }
}

#[test]
fn a_call_is_a_promise() {
    let source = r#"
workflow w(x) {
  const p = Nexus.call("payments", "Payments", "charge", x), q = Nexus.call("payments", "Payments", "quote")
  const t = Task.run("t")
  return [p.id, q.id, await p, await Task.all([q, t])]
}"#;
    let (mut run, commands) = Run::start(source, &["7"]);
    assert_eq!(
        commands,
        ["operation nexus-1 payments.Payments.charge 7", "operation nexus-2 payments.Payments.quote", "task task-1 t"]
    );
    assert_eq!(run.wake(), ["Task task-1 Ignored", "Nexus nexus-1 Wakes", "Nexus nexus-2 Ignored"]);
    assert!(run.inspect().contains(r#"{"item_id":"nexus-1","kind":"nexus","name":"Payments.charge""#));
    run.event(ended("nexus-1", "1"));
    let group = "2 missing, completion Counts, failure Satisfies";
    assert_eq!(run.wake(), ["Task task-1 Group(0)", "Nexus nexus-2 Group(0)", group]);
    assert_eq!(
        run.take(vec![done("task-1", "3"), ended("nexus-2", "2")]),
        [r#"complete ["nexus-1","nexus-2",1,[2,3]]"#]
    );
}

#[test]
fn options() {
    let source = r#"
workflow w() {
  await Nexus.call("e", "s", "o", null, {
    schedule_to_close: "1h", schedule_to_start: 5, start_to_close: "1m", headers: { b: "2", a: "1" }, summary: "text",
  })
}"#;
    let (run, _) = Run::start(source, &[]);
    let [Command::ScheduleNexus(order)] = run.last.as_ref().unwrap().commands.as_slice() else { panic!() };
    let want = ScheduleNexus {
        id: "nexus-1".into(),
        endpoint: "e".into(),
        service: "s".into(),
        operation: "o".into(),
        input: Some(super::null()),
        schedule_to_close: 3_600_000,
        schedule_to_start: 5_000,
        start_to_close: 60_000,
        headers: vec![("a".into(), "1".into()), ("b".into(), "2".into())],
        summary: "text".into(),
    };
    assert_eq!(**order, want);
}

#[test]
fn wrong_arguments() {
    let cases = [
        ("x, \"s\", \"o\"", "the endpoint must be a string"),
        ("\"e\", \"\", \"o\"", "the service must not be empty"),
        ("\"e\", \"s\", x", "the operation must be a string"),
        ("\"e\", \"s\", \"o\", 1, { ...x2 }", "unknown option \"queue\""),
        ("\"e\", \"s\", \"o\", 1, { headers: x }", "headers must be an object of strings"),
        ("\"e\", \"s\", \"o\", 1, { headers: { a: x } }", "headers must be an object of strings"),
        ("\"e\", \"s\", \"o\", 1, { start_to_close: x - 7 }", "start_to_close must be at least 1ms"),
    ];
    for (arguments, want) in cases {
        let source = format!("workflow w(x, x2) {{\n  Nexus.call({arguments})\n}}");
        let source = source.replace("x, x2", if arguments.contains("x2") { "x, x2" } else { "x" });
        let (_, commands) = Run::start(&source, &["7", "{\"queue\":1}"]);
        assert_eq!(commands, [format!("fail ArgumentError: Nexus.call: {want}")], "{arguments}");
    }
}

#[test]
fn errors_are_those_of_the_cause() {
    let source = r#"
workflow w() {
  try { await Nexus.call("payments", "Payments", "charge") }
  catch (e) { return [e.type, e.message, e.details, e.retryable, e.source] }
}"#;
    let of = r#"{"kind":"nexus","name":"Payments.charge","item_id":"nexus-1"}"#;
    let application = |non_retryable| FailureInfo::Application {
        kind: "NoMoney".into(),
        non_retryable,
        details: vec![json("{\"left\":1}")],
    };
    let handler = |kind: &str| FailureInfo::NexusHandler { kind: kind.into(), retry_behavior: 0 };
    let timeout = FailureInfo::Timeout { kind: TimeoutKind::ScheduleToStart, last_heartbeat: Vec::new() };
    let cases = [
        (application(true), r#""NoMoney","m",{"left":1},false"#),
        (application(false), r#""NoMoney","m",{"left":1},true"#),
        (handler("NOT_FOUND"), r#""NOT_FOUND","m",null,false"#),
        (handler(""), r#""HandlerError","m",null,false"#),
        (timeout, r#""Timeout","m",{"kind":"schedule_to_start","last_heartbeat":null},true"#),
        (FailureInfo::Canceled { details: Vec::new() }, r#""Canceled","canceled",null,true"#),
        (FailureInfo::None, r#""Error","m",null,true"#),
    ];
    for (info, want) in cases {
        let (mut run, _) = Run::start(source, &[]);
        assert_eq!(run.event(failed("nexus-1", "m", info)), [format!("complete [{want},{of}]")]);
    }
}

#[test]
fn an_error_that_is_not_caught_leaves_as_it_came() {
    let source = "workflow w() {\n  await Nexus.call(\"payments\", \"Payments\", \"charge\")\n}";
    let (mut run, _) = Run::start(source, &[]);
    let event = failed("nexus-1", "m", FailureInfo::NexusHandler { kind: "BAD_REQUEST".into(), retry_behavior: 2 });
    let EventKind::NexusEnded { end: Err(came), .. } = event.clone() else { panic!() };
    run.event(event);
    let [Command::Fail { failure }] = run.last.as_ref().unwrap().commands.as_slice() else { panic!() };
    let stack_trace = "at w (w.flow:2:3)".to_owned();
    assert_eq!(*failure, Failure { source: "segno-flow".into(), stack_trace, ..came });
}

#[test]
fn cancellation_is_that_of_tasks() {
    let source = r#"
workflow w() {
  const a = Nexus.call("e", "s", "a")
  const b = Nexus.call("e", "s", "b", null, { on_cancel: "wait" })
  const c = Nexus.call("e", "s", "c", null, { on_cancel: "ignore" })
  try { await a }
  finally { log("rest", [await Task.settle([b, c])]) }
}"#;
    let (mut run, _) = Run::start(source, &[]);
    assert_eq!(run.cancel("why"), ["cancel nexus-1", "cancel nexus-2"]);
    let waiting = "2 missing, completion Counts, failure Counts";
    assert_eq!(run.wake(), ["Nexus nexus-1 Ignored", "Nexus nexus-2 Group(0)", "Nexus nexus-3 Group(0)", waiting]);
    // The end of what nobody waits for changes nothing.
    assert!(run.event(failed("nexus-1", "", FailureInfo::Canceled { details: Vec::new() })).is_empty());
    assert!(run.event(ended("nexus-3", "3")).is_empty());
    let last = run.event(failed("nexus-2", "", FailureInfo::Canceled { details: Vec::new() }));
    assert_eq!(last, ["canceled"]);
}

#[test]
fn a_lost_race_cancels_if_told_to() {
    let call = "Nexus.call(\"e\", \"s\", \"o\")";
    let source = format!(
        "workflow w() {{\n  const r = await Task.race([{call}, Task.delay(5)], {{ cancel: true }})\n  await Task.delay(1)\n  return r.item_id\n}}"
    );
    let (mut run, _) = Run::start(&source, &[]);
    assert_eq!(run.fired("timer-1"), ["cancel nexus-1", "timer-2 1000"]);
    assert!(run.event(ended("nexus-1", "1")).is_empty());
    assert_eq!(run.fired("timer-2"), ["complete \"timer-1\""]);
    // It ended in the turn that lost the race: nothing is left to cancel.
    let (mut run, _) = Run::start(&source, &[]);
    let both = vec![EventKind::TimerFired { id: "timer-1".into() }, ended("nexus-1", "1")];
    assert_eq!(run.take(both), ["timer-2 1000"]);
    let (_, commands) =
        Run::start(&format!("workflow w() {{\n  const p = {call}\n  Task.cancel(p, \"no\")\n  await p\n}}"), &[]);
    assert_eq!(commands[..2], ["operation nexus-1 e.s.o", "cancel nexus-1"]);
    assert!(commands[2].contains("message: \"no\"") && commands[2].contains("operation: \"o\""), "{}", commands[2]);
}

#[test]
fn pending_ones_are_limited() {
    let source = "workflow w() {\n  for (const i of List.range(4)) Nexus.call(\"e\", \"s\", \"o\", i)\n}";
    let mut run = Run::new(source);
    run.limits.pending = 3;
    let commands = run.begin(&[]);
    assert_eq!(commands.last().unwrap(), "fail LimitError: limit of 3 pending Nexus operations reached");
}

#[test]
fn ids_of_tasks_do_not_collide() {
    let source = "workflow w() {\n  const p = Nexus.call(\"e\", \"s\", \"o\")\n  Task.run(\"t\", 1, { id: p.id })\n}";
    let (_, commands) = Run::start(source, &[]);
    assert_eq!(commands[1], "fail ArgumentError: Task.run: id \"nexus-1\" is pending already");
}
