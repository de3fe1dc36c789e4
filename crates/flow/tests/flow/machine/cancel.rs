//! Cancellation of the run and of promises (section 5).

use super::{Run, done};

#[test]
fn a_timer_is_interrupted() {
    let source = "workflow w() {\n  try { await Task.delay(\"30d\") }\n  catch (e) {\n    if (e.type != \"Canceled\") throw e\n    await Task.run(\"notify\", { why: e.message })\n    throw e\n  }\n}";
    let (mut run, _) = Run::start(source, &[]);
    assert_eq!(run.cancel("stop"), ["cancel timer-1", "task task-1 notify {\"why\":\"stop\"}"]);
    assert!(run.cancel("again").is_empty());
    assert_eq!(run.done("task-1", "1"), ["canceled"]);
    let (mut run, _) = Run::start(&source.replace("throw e\n  }", "return \"saved\"\n  }"), &[]);
    assert_eq!(run.cancel(""), ["cancel timer-1", "task task-1 notify {\"why\":\"canceled\"}"]);
    assert_eq!(run.done("task-1", "1"), ["complete \"saved\""]);
}

#[test]
fn what_closes_the_run_how() {
    // Another error.
    let source = "workflow w() { try { await Task.delay(9) } catch (e) { throw Error(\"other\", { type: \"O\" }) } }";
    let (mut run, _) = Run::start(source, &[]);
    assert_eq!(run.cancel("x"), ["cancel timer-1", "fail O: other"]);
    // Details of the error.
    let source = "workflow w() { try { await Task.delay(9) } catch (e) { throw { ...e, details: [1, 2] } } }";
    let (mut run, _) = Run::start(source, &[]);
    assert_eq!(run.cancel("x"), ["cancel timer-1", "canceled [1,2]"]);
    // Canceled without a request is a failure.
    let (_, commands) = Run::start("workflow w() { throw Error(\"c\", { type: \"Canceled\" }) }", &[]);
    assert_eq!(commands, ["fail Canceled: c"]);
}

#[test]
fn tasks_are_asked_to_cancel_first() {
    let source = r#"
workflow w() {
  const a = Task.run("a"), b = Task.run("b", null, { on_cancel: "wait" }), c = Task.run("c", null, { on_cancel: "ignore" })
  const d = Workflow.run("child", null, { id: "kid" })
  try { await Task.delay(60) }
  finally {
    const s = await Task.race([Task.settle({ a, d }), Task.delay(1)])
    log(s.item_id, s.result.a.error.message)
    log("b", await b)
    log("c", await c)
  }
}"#;
    let (mut run, _) = Run::start(source, &[]);
    let commands = run.cancel("why");
    assert_eq!(commands, ["cancel task-1", "cancel task-2", "cancel child kid why", "cancel timer-1"]);
    let log = run.last.as_ref().unwrap().log.clone();
    assert_eq!((log[0].message.as_str(), log[0].data.as_deref()), ("settle-1", Some("\"why\"")));
    run.done("task-2", "2");
    assert_eq!(run.done("task-3", "3"), ["canceled"]);
}

#[test]
fn an_awaited_function_is_interrupted_instead() {
    let source = r#"
async function inner() { try { await Task.delay(60) } catch (e) { log(`inner ${e.message}`); await Task.run("clean"); throw e } }
workflow w() {
  try { await Task.all([inner(), Task.run("other", null, { on_cancel: "wait" })]) } catch (e) { log(`main ${e.type}`); return 1 }
}"#;
    let (mut run, _) = Run::start(source, &[]);
    assert_eq!(run.cancel("r"), ["cancel task-1", "cancel timer-1", "task task-2 clean"]);
    assert_eq!(run.last.as_ref().unwrap().log.len(), 1);
    assert_eq!(run.done("task-2", "1"), ["complete 1"]);
    assert_eq!(run.last.as_ref().unwrap().log[0].message, "main Canceled");
}

#[test]
fn each_piece_of_code_is_interrupted_once() {
    let source = r#"
async function f(name) { try { await wait_for_signal(name) } catch (e) { log(`${name} ${e.type}`); await Task.run(name); return 1 } }
workflow w() {
  signal h() { try { await Task.delay(60) } catch (e) { log(`handler ${e.type}`) } }
  const a = f("a"), b = f("b")
  try { await Task.delay(99) } catch { log("main") }
  return [await a, await b]
}"#;
    let (mut run, _) = Run::start(source, &[]);
    run.signal("h", &[]);
    assert_eq!(run.cancel(""), ["cancel timer-1", "cancel timer-2", "task task-1 a", "task task-2 b"]);
    let log: Vec<&str> = run.last.as_ref().unwrap().log.iter().map(|line| line.message.as_str()).collect();
    assert_eq!(log, ["main", "a Canceled", "b Canceled", "handler Canceled"]);
    assert_eq!(run.take(vec![done("task-1", "0"), done("task-2", "0")]), ["complete [1,1]"]);
}

#[test]
fn an_interruption_is_kept_for_the_next_other_await() {
    let source = r#"
workflow w() {
  const c = await Task.run("charge", null, { on_cancel: "ignore" })
  const d = await Task.run("more", null, { on_cancel: "wait" })
  const e = await 5
  try { await Task.delay("1h") } finally { await Task.run("record", [c, d, e]) }
}"#;
    let (mut run, _) = Run::start(source, &[]);
    assert!(run.cancel("").is_empty());
    assert_eq!(run.done("task-1", "\"c\""), ["task task-2 more null"]);
    // The timer was started and withdrawn in this turn.
    assert_eq!(run.done("task-2", "\"d\""), ["task task-3 record [\"c\",\"d\",5]"]);
    assert_eq!(run.done("task-3", "1"), ["canceled"]);
}

#[test]
fn a_kept_interruption_is_forgotten_if_the_wait_is_canceled() {
    let source = "workflow w() {\n  try { await Task.run(\"a\", null, { on_cancel: \"wait\" }) } catch (e) { log(e.type) }\n  await Task.delay(5)\n  return 1\n}";
    let (mut run, _) = Run::start(source, &[]);
    assert_eq!(run.cancel(""), ["cancel task-1"]);
    let failure = segno_flow::interface::Failure {
        info: segno_flow::interface::FailureInfo::Canceled { details: Vec::new() },
        ..Default::default()
    };
    let event = segno_flow::interface::EventKind::TaskEnded { id: "task-1".into(), end: Err(failure) };
    assert_eq!(run.event(event), ["timer-1 5000"]);
    assert_eq!(run.fired("timer-1"), ["complete 1"]);
    // It completed instead: the interruption comes with the next await.
    let (mut run, _) = Run::start(source, &[]);
    run.cancel("");
    assert_eq!(run.done("task-1", "1"), ["canceled"]);
}

#[test]
fn a_kept_interruption_goes_to_the_function_that_is_awaited_next() {
    let source = r#"
async function f() { try { await Task.delay(60) } catch (e) { return e.message } }
workflow w() {
  await Task.run("a", null, { on_cancel: "ignore" })
  return await f()
}"#;
    let (mut run, _) = Run::start(source, &[]);
    run.cancel("late");
    assert_eq!(run.done("task-1", "1"), ["complete \"late\""]);
}

#[test]
fn cancel_requested() {
    let source = "workflow w() {\n  const before = Workflow.cancelRequested()\n  const p = wait_until(() => Workflow.cancelRequested())\n  async function f() { log(\"seen\", await p) }\n  f()\n  try { await Task.delay(5) } catch { await Task.delay(1) }\n  return [before, Workflow.cancelRequested()]\n}";
    let (mut run, _) = Run::start(source, &[]);
    assert_eq!(run.cancel(""), ["cancel timer-1", "timer-2 1000"]);
    assert_eq!(run.fired("timer-2"), ["complete [false,true]"]);
}

#[test]
fn cancel_of_promises() {
    let source = r#"
async function f(p) { try { return ["ok", await p] } catch (e) { return [e.type, e.message] } }
workflow w() {
  const t = Task.delay(5), s = wait_for_signal("s", { timeout: 9 }), u = wait_until(() => false)
  const a = Task.run("a"), i = Task.run("i", null, { on_cancel: "ignore" }), x = Task.run("x", null, { on_cancel: "wait" })
  const k = Workflow.run("k", null, { id: "k" })
  const all = Task.all([Task.delay(7), Task.delay(8)])
  const got = [f(t), f(s), f(u), f(a), f(i), f(x), f(k), f(all)]
  for (const p of [t, s, u, a, i, x, k, all]) Task.cancel(p, "no")
  Task.cancel(t)
  return await Task.all(got)
}"#;
    let (mut run, commands) = Run::start(source, &[]);
    let canceled: Vec<&str> = commands.iter().filter(|line| line.starts_with("cancel")).map(String::as_str).collect();
    assert_eq!(canceled, ["cancel task-1", "cancel task-2", "cancel task-3", "cancel child k no"]);
    assert!(!commands.iter().any(|line| line.starts_with("timer")), "{commands:?}");
    let no = "[\"Canceled\",\"no\"]";
    let want = format!("complete [{no},{no},{no},{no},{no},[\"ok\",3],{no},{no}]");
    assert_eq!(run.done("task-3", "3"), [want]);
}

#[test]
fn cancel_of_an_async_call() {
    let source = r#"
async function inner() { try { await Task.delay(50) } catch (e) { log(`inner ${e.message}`); await Task.delay(1); throw e } }
async function outer() { await inner() }
workflow w() {
  const p = outer()
  Task.cancel(p, "bye")
  Task.cancel(p, "again")
  try { await p } catch (e) { return [e.type, e.message] }
}"#;
    let (mut run, commands) = Run::start(source, &[]);
    assert_eq!(commands, ["timer-2 1000"]);
    assert_eq!(run.fired("timer-2"), ["complete [\"Canceled\",\"bye\"]"]);
}

#[test]
fn an_ended_task_is_not_asked_in_the_same_turn() {
    let source = "workflow w() {\n  const t = Task.run(\"a\")\n  await wait_for_signal(\"s\")\n  Task.cancel(t)\n  await Task.delay(1)\n}";
    let (mut run, _) = Run::start(source, &[]);
    let commands = run.take(vec![super::signal("s", &[]), done("task-1", "1")]);
    assert_eq!(commands, ["timer-1 1000"]);
    // The id is free only when the server has ended the task.
    let source = "workflow w() {\n  const t = Task.run(\"a\", null, { id: \"x\" })\n  Task.cancel(t)\n  try { Task.run(\"b\", null, { id: \"x\" }) } catch (e) { log(e.message) }\n  await wait_for_signal(\"s\")\n  Task.run(\"b\", null, { id: \"x\" })\n  await Task.delay(1)\n}";
    let (mut run, _) = Run::start(source, &[]);
    assert_eq!(run.last.as_ref().unwrap().log.len(), 1);
    assert_eq!(run.wake(), ["signal s", "Task x Ignored"]);
    assert_eq!(run.take(vec![done("x", "1"), super::signal("s", &[])]), ["task x b null", "timer-1 1000"]);
}

#[test]
fn a_handler_that_is_interrupted_does_not_fail_the_run() {
    let source = "async function f() { await Task.delay(7) }\nworkflow w() {\n  signal h() { await Task.delay(60) }\n  f()\n  try { await Task.delay(5) } catch { await Task.run(\"clean\") }\n  return 1\n}";
    let (mut run, _) = Run::start(source, &[]);
    run.signal("h", &[]);
    run.cancel("");
    assert_eq!(run.done("task-1", "1"), ["complete 1"]);
}

#[test]
fn a_kept_interruption_does_not_reach_who_was_interrupted_before() {
    let source = r#"
async function inner() { try { await Task.delay(60) } catch (e) { await Task.run("clean"); return "cleaned" } }
async function outer() { return await inner() }
async function wrap(p) { return await p }
workflow w() {
  const p = outer()
  await Task.run("a", null, { on_cancel: "ignore" })
  return await wrap(p)
}"#;
    let (mut run, _) = Run::start(source, &[]);
    assert_eq!(run.cancel(""), ["cancel timer-1", "task task-2 clean"]);
    assert!(run.done("task-1", "1").is_empty());
    assert_eq!(run.done("task-2", "1"), ["complete \"cleaned\""]);
}

#[test]
fn code_that_waits_in_a_circle_is_interrupted() {
    let source = "workflow w() {\n  let p = null\n  async function f() { await Task.delay(1)\n    await p }\n  p = f()\n  await p\n}";
    let (mut run, _) = Run::start(source, &[]);
    assert!(run.fired("timer-1").is_empty());
    assert_eq!(run.cancel("out"), ["canceled"]);
}
