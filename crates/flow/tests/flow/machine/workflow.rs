//! `Workflow.*`, options of tasks, `log`, random numbers (sections 4.1, 4.4 and 4.6).

use super::Run;
use segno_flow::interface::{Command, End, EventKind, Failure, FailureInfo, IdReuse, NotSent, ParentClose};

#[test]
fn options_of_a_task() {
    let source = r#"
workflow w() {
  Task.defaults({ queue: "d", heartbeat: "5s", retry: 3, on_cancel: "wait" })
  Task.defaults({ heartbeat: "6s", priority: 2 })
  Task.run("a")
  Task.run("b", { x: 1 }, { queue: "q", start_to_close: "1m", schedule_to_close: 90, schedule_to_start: "1h", heartbeat: null,
    retry: { initial_interval: "2s", backoff: 1.5, max_interval: "1m", max_attempts: 7, non_retryable: ["X", "Y"] }, priority: 1, summary: "sum" })
  Task.run("c", null, { args: [1, "two", null], retry: false })
  await Task.delay(1)
}"#;
    let (run, _) = Run::start(source, &[]);
    let tasks: Vec<_> = run
        .last
        .unwrap()
        .commands
        .into_iter()
        .filter_map(|command| if let Command::ScheduleTask(task) = command { Some(*task) } else { None })
        .collect();
    let a = &tasks[0];
    assert_eq!((a.queue.as_str(), a.start_to_close, a.heartbeat, a.priority), ("d", 600_000, 6_000, 2));
    assert_eq!(a.retry.as_ref().unwrap().max_attempts, 3);
    assert!(a.input.is_empty());
    let b = &tasks[1];
    assert_eq!(
        (b.queue.as_str(), b.start_to_close, b.schedule_to_close, b.schedule_to_start),
        ("q", 60_000, 90_000, 3_600_000)
    );
    assert_eq!((b.heartbeat, b.priority, b.summary.as_str()), (6_000, 1, "sum"));
    let retry = b.retry.as_ref().unwrap();
    assert_eq!((retry.initial_interval, retry.max_interval, retry.max_attempts), (2_000, 60_000, 7));
    assert!((retry.backoff - 1.5).abs() < 1e-9);
    assert_eq!(retry.non_retryable, ["X", "Y"]);
    assert_eq!(tasks[2].input.len(), 3);
    assert_eq!(tasks[2].retry.as_ref().unwrap().max_attempts, 1);
}

#[test]
fn wrong_arguments() {
    let source = |call: &str| {
        format!("workflow w(x) {{\n  try {{ {call} }} catch (e) {{ return `${{e.type}} ${{e.message}}` }}\n}}")
    };
    for (call, want) in [
        ("await Task.run(x)", "ArgumentError Task.run: the name must be a string"),
        ("await Task.delay(x)", "ArgumentError Task.delay: a duration must not be negative"),
        ("await Task.run(\"a\", 1, { args: [x] })", "ArgumentError Task.run: with args the input must be null"),
        ("await wait_for_signal(x)", "ArgumentError wait_for_signal: the name must be a string"),
    ] {
        let (_, commands) = Run::start(&source(call), &["-5"]);
        assert_eq!(commands, [format!("complete \"{want}\"")]);
    }
}

#[test]
fn children() {
    let source = r#"
workflow w() {
  const run = Workflow.run("c", 1, { id: "one", id_reuse: "reject", parent_close: "cancel", memo: { a: 1 }, cron: "0 9 * * *" })
  const started = await Workflow.start("c", 2)
  try { await Workflow.run("taken", null, { id: "three" }) } catch (e) { log(e.type, e.source) }
  return [started.run_id, await run]
}"#;
    let (mut run, _) = Run::start(source, &[]);
    let commands = run.last.as_ref().unwrap().commands.clone();
    let Command::StartChild(one) = &commands[0] else { panic!() };
    assert_eq!(
        (one.id_reuse, one.parent_close, one.cron.as_str()),
        (IdReuse::Reject, ParentClose::Cancel, "0 9 * * *")
    );
    assert_eq!(one.memo.len(), 1);
    let Command::StartChild(two) = &commands[1] else { panic!() };
    assert_eq!(two.parent_close, ParentClose::Abandon);
    let id = two.workflow_id.clone();
    assert_eq!(id, "0195c7a2-0000-7000-8000-000000000001/child-2");
    assert_eq!(run.wake(), [format!("Child {id} Wakes and start"), "Child one Ignored".to_owned()]);
    assert!(run.event(EventKind::ChildStarted { workflow_id: "one".into(), run_id: "r1".into() }).is_empty());
    let commands = run.event(EventKind::ChildStarted { workflow_id: id.clone(), run_id: "r2".into() });
    assert_eq!(commands, ["child three taken null"]);
    run.event(EventKind::ChildNotStarted { workflow_id: "three".into(), reason: NotSent::AlreadyStarted });
    let log = &run.last.as_ref().unwrap().log[0];
    assert_eq!(log.message, "AlreadyStarted");
    assert_eq!(log.data.as_deref(), Some("{\"kind\":\"workflow\",\"name\":\"taken\",\"item_id\":\"three\"}"));
    // The end of a child that was only started is not observed.
    assert!(run.event(EventKind::ChildEnded { workflow_id: id, end: Ok(Vec::new()) }).is_empty());
    let end: End = Ok(vec![super::json("5")]);
    assert_eq!(run.event(EventKind::ChildEnded { workflow_id: "one".into(), end }), ["complete [\"r2\",5]"]);
}

#[test]
fn a_child_that_fails() {
    let source = "workflow w() { await Workflow.run(\"c\", null, { id: \"kid\" }) }";
    let (mut run, _) = Run::start(source, &[]);
    let info = FailureInfo::Application { kind: "Neg".into(), non_retryable: true, details: Vec::new() };
    let cause = Failure { message: "neg".into(), info, ..Failure::default() };
    let info = FailureInfo::Child {
        namespace: "default".into(),
        workflow_id: "kid".into(),
        run_id: "r".into(),
        name: "c".into(),
        initiated_event_id: 5,
        started_event_id: 6,
        retry_state: 0,
    };
    let failure = Failure { message: "child".into(), cause: Some(Box::new(cause)), info, ..Failure::default() };
    let commands = run.event(EventKind::ChildEnded { workflow_id: "kid".into(), end: Err(failure.clone()) });
    assert_eq!(commands, ["fail kid Neg: neg"]);
}

#[test]
fn messages_to_other_workflows() {
    let source = "workflow w() {\n  const a = await Workflow.signal(\"x\", \"s\", 1, { run_id: \"0195c7a2-0000-7000-8000-00000000000a\" })\n  try { await Workflow.cancel(\"y\", { reason: \"because\" }) } catch (e) { return [a, e.type, e.message, e.source.kind, e.retryable] }\n}";
    let (mut run, commands) = Run::start(source, &[]);
    assert_eq!(commands, ["send-1 x s 1"]);
    assert_eq!(run.event(EventKind::SendEnded { id: "send-1".into(), failed: None }), ["send-2 cancel y because"]);
    let failed = Some(NotSent::NotFound("no workflow \"y\"".into()));
    assert_eq!(
        run.event(EventKind::SendEnded { id: "send-2".into(), failed }),
        ["complete [null,\"NotFound\",\"no workflow \\\"y\\\"\",\"send\",true]"]
    );
}

#[test]
fn continue_as_new() {
    let source = r#"
workflow w(n = 0) {
  const s = await wait_for_signal("s")
  try {
    if (n < 3) return Workflow.continueAsNew(n + 1, { queue: "q2", run_timeout: "1h", version: "same" })
  } finally { await Task.run("clean", s) }
  return "done"
}"#;
    let (mut run, _) = Run::start(source, &[]);
    run.signal("other", &["8"]);
    run.signal("s", &["1"]);
    run.signal("s", &["2"]);
    run.signal("other", &[]);
    assert_eq!(run.done("task-1", "1"), ["new 1 other(8) s(2) other()"]);
    let commands = run.last.as_ref().unwrap().commands.clone();
    let Some(Command::ContinueAsNew(next)) = commands.last() else { panic!() };
    assert_eq!((next.queue.as_str(), next.run_timeout, next.same_version), ("q2", 3_600_000, true));
    // An error of finally replaces it; what is caught outside returns something else.
    let source = "workflow w() {\n  try {\n    try { return Workflow.continueAsNew(1) } finally { throw Error(\"f\") }\n  } catch (e) { return e.message }\n}";
    let (_, commands) = Run::start(source, &[]);
    assert_eq!(commands, ["complete \"f\""]);
    // No input at all, and several.
    let (_, commands) = Run::start("workflow w() { return Workflow.continueAsNew() }", &[]);
    assert_eq!(commands, ["new"]);
    let (_, commands) = Run::start("workflow w() { return Workflow.continueAsNew(null, { args: [1, [2]] }) }", &[]);
    assert_eq!(commands, ["new 1 [2]"]);
    let (_, commands) = Run::start("workflow w() { return Workflow.continueAsNew(Task.delay(1)) }", &[]);
    assert_eq!(commands.last().unwrap(), "fail TypeError: a promise cannot be sent; await it first");
}

#[test]
fn memo_attributes_and_details() {
    let source = r#"
workflow w(x) {
  Workflow.setMemo({ a: 1, b: 2 })
  Workflow.setMemo({ b: null, c: [3] })
  Workflow.setSearchAttributes({ Color: "red" })
  Workflow.setDetails("**hi**")
  const i = Workflow.info()
  log("info", [i.memo, i.search_attributes, i.workflow_id, i.attempt, i.started_at, i.parent, i.cron, i.continued_from, i.task_queue])
  await Task.delay(1)
  Workflow.setMemo({ d: 4 })
  try { Workflow.setSearchAttributes(x) } catch (e) { return e.message }
}"#;
    let (mut run, commands) = Run::start(source, &["{\"Size\":\"big\"}"]);
    assert_eq!(commands, ["memo a=1 b=- c=[3]", "attributes Color=\"red\"", "timer-1 1000"]);
    let turned = run.last.as_ref().unwrap();
    assert_eq!(turned.details.as_deref(), Some("**hi**"));
    assert_eq!(
        turned.log[0].data.as_deref(),
        Some("[{\"a\":1,\"c\":[3]},{\"Color\":\"red\"},\"wf\",1,\"2026-01-01T00:00:00.000Z\",null,null,null,\"q\"]")
    );
    let commands = run.fired("timer-1");
    let text = "Workflow.setSearchAttributes: search attribute \\\"Size\\\" is of type Int, not string";
    assert_eq!(commands, ["memo d=4".to_owned(), format!("complete \"{text}\"")]);
    let (_, commands) = Run::start("workflow w() { Workflow.setSearchAttributes({ Nope: 1 }) }", &[]);
    assert_eq!(commands, ["fail ArgumentError: Workflow.setSearchAttributes: unknown search attribute \"Nope\""]);
}

#[test]
fn the_log_keeps_the_last_lines() {
    let source = "workflow w() {\n  for (let i = 0; i < 30; i++) log(`line ${i}`, { i })\n  await Task.delay(1)\n  log(\"x\".repeat(5000))\n  await Task.delay(1)\n}";
    let (mut run, _) = Run::start(source, &[]);
    let turned = run.last.as_ref().unwrap();
    assert_eq!(turned.log.len(), 30);
    assert_eq!((turned.log[3].line, turned.log[3].data.as_deref()), (2, Some("{\"i\":3}")));
    let shown = run.inspect();
    assert!(!shown.contains("\"line 9\"") && shown.contains("\"line 10\"") && shown.contains("\"line 29\""));
    run.fired("timer-1");
    assert_eq!(run.last.as_ref().unwrap().log[0].message.len(), 5000);
    assert!(run.state.as_ref().unwrap().len() < 4_500);
}

#[test]
fn random_numbers_are_part_of_the_state() {
    let source = "workflow w() {\n  const a = [Math.random(), uuid()]\n  await Task.delay(1)\n  return [a, Math.random(), uuid()]\n}";
    let (mut run, _) = Run::start(source, &[]);
    let first = run.fired("timer-1");
    let (mut run, _) = Run::start(source, &[]);
    assert_eq!(run.fired("timer-1"), first);
    assert!(first[0].contains("-4"));
}

#[test]
fn options_that_the_server_would_refuse() {
    let cases = [
        ("Task.run(\"t\", 1, o)", r#"{"start_to_close":0}"#, "Task.run: start_to_close must be at least 1ms"),
        ("Task.run(\"t\", 1, o)", r#"{"heartbeat":0.0001}"#, "Task.run: heartbeat must be at least 1ms"),
        (
            "Task.run(\"t\", 1, o)",
            r#"{"retry":{"max_interval":"500ms"}}"#,
            "Task.run: max_interval must be at least initial_interval",
        ),
        ("Task.run(\"t\", 1, o)", r#"{"retry":1000000000000}"#, "Task.run: retry must be from 0 to 2147483647"),
        ("Task.run(\"t\", 1, o)", r#"{"retry":{"initial_interval":"36500d"}}"#, "fine"),
        (
            "Task.run(\"t\", 1, o)",
            r#"{"queue":"/_sys/x"}"#,
            "Task.run: queue must be a name that does not begin with \"/_sys/\"",
        ),
        ("Workflow.run(\"t\", 1, o)", r#"{"run_timeout":"0s"}"#, "Workflow.run: run_timeout must be at least 1ms"),
        ("Workflow.signal(\"w\", \"s\", 1, o)", r#"{"run_id":"x"}"#, "Workflow.signal: run_id must be the id of a run"),
        ("Workflow.cancel(\"w\", o)", r#"{"run_id":"0195c7a2-0000-7000-8000-000000000001"}"#, "fine"),
        ("wait_for_signal(\"s\", o)", r#"{"timeout":0}"#, "fine"),
    ];
    for (call, options, want) in cases {
        let source = format!(
            "workflow w(o) {{ try {{ const p = {call}; log(p.id) }} catch (e) {{ return e.message }} return \"fine\" }}"
        );
        let (_, commands) = Run::start(&source, &[options]);
        assert_eq!(
            commands.last().unwrap(),
            &format!("complete \"{}\"", want.replace("\"", "\\\"")),
            "{call} {options}"
        );
    }
    for options in ["start_to_close: 0", "start_to_close: \"0s\"", "retry: { initial_interval: 0.0001 }"] {
        let source = format!("workflow w() {{ await Task.run(\"t\", 1, {{ {options} }}) }}");
        let found = segno_flow::check(source.as_bytes()).diagnostics;
        assert_eq!(found.iter().map(|found| found.code).collect::<Vec<_>>(), ["F0208"], "{options}");
    }
}

#[test]
fn what_is_too_large_together_is_refused() {
    let half = "\"x\".repeat(1500000)";
    let cases = [
        (format!("Task.run(\"t\", null, {{ args: [{half}, {half}] }})"), true),
        (format!("Workflow.run(\"t\", null, {{ args: [{half}, {half}] }})"), true),
        (format!("Workflow.run(\"t\", null, {{ memo: {{ a: {half}, b: {half} }} }})"), true),
        (format!("Workflow.setMemo({{ a: {half}, b: {half} }})"), true),
        (format!("Workflow.setMemo({{ a: {half} }}); Workflow.setMemo({{ b: {half} }})"), true),
        (format!("Workflow.setMemo({{ a: {half} }}); Workflow.setMemo({{ a: null, b: {half} }})"), false),
        (format!("Workflow.setMemo({{ a: {half} }}); Workflow.setMemo({{ a: {half} }})"), false),
        ("Task.run(\"t\", \"x\".repeat(2097152 - 3))".to_owned(), true),
    ];
    for (call, is_refused) in cases {
        let source = format!("workflow w() {{ try {{ {call} }} catch (e) {{ return e.type }} return null }}");
        let (_, commands) = Run::start(&source, &[]);
        let want = if is_refused { "complete \"PayloadError\"" } else { "complete null" };
        assert_eq!(commands.last().unwrap(), want, "{call}");
    }
}

#[test]
fn a_failure_that_is_too_large_is_replaced() {
    let source = "workflow w() { throw Error(\"m\", { type: \"x\".repeat(3000000) }) }";
    let (_, commands) = Run::start(source, &[]);
    assert!(commands[0].starts_with("fail PayloadError: 3000"), "{}", &commands[0][..80]);
}
