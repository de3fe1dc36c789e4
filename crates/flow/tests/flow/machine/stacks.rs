//! Stacks (section 8.2) and looking into a run (8.3).

use super::Run;
use segno_flow::interface::Command;

const SOURCE: &str = r#"async function pay(order) {
  await Task.delay(1)
  return check(order)
}
function check(order) {
  return [1].map(x => order.missing)
}
workflow w(inputs) {
  const r = await Task.all({ a: pay(inputs) })
  return r
}"#;

#[test]
fn the_stack_of_an_error() {
    let (mut run, _) = Run::start(SOURCE, &["{}"]);
    run.fired("timer-1");
    let commands = run.last.as_ref().unwrap().commands.clone();
    let Some(Command::Fail { failure }) = commands.last() else { panic!("{commands:?}") };
    assert_eq!(failure.message, "no field \"missing\" (write ?.missing if it may be missing)");
    assert_eq!(failure.source, "segno-flow");
    let want = "at (arrow) (w.flow:6:29)\nat check (w.flow:6:14)\nat pay (w.flow:3:10)\nawaited by\nat w (w.flow:9:13)";
    assert_eq!(failure.stack_trace, want);
}

#[test]
fn the_stack_before_the_first_wait() {
    let source = "async function f() {\n  throw Error(\"x\")\n}\nworkflow w() {\n  try { await f() } catch (e) { return e.stack }\n}";
    let (_, commands) = Run::start(source, &[]);
    assert_eq!(commands, ["complete \"at f (w.flow:2:9)\\nawaited by\\nat w (w.flow:5:15)\""]);
}

#[test]
fn stacks_of_other_errors() {
    let source = r#"workflow w() {
  let out = []
  try { throw "text" } catch (e) { out.push(e.stack) }
  try { await Task.run("a") } catch (e) { out.push(e.stack) }
  try { null.x } catch (e) { out.push(e.stack) }
  return out
}"#;
    let source = source.replace("null.x }", "const n = null; log(n.x) }");
    let (mut run, _) = Run::start(&source, &[]);
    let commands = run.failed("task-1", "X", "x");
    assert_eq!(commands, ["complete [\"at w (w.flow:3:9)\",\"at w (w.flow:4:9)\",\"at w (w.flow:5:31)\"]"]);
}

#[test]
fn the_stack_of_what_waits() {
    let (run, _) = Run::start(SOURCE, &["{}"]);
    assert_eq!(run.stack(), "at w (w.flow:9:13)\n\nat pay (w.flow:2:3)\nawaited by\nat w (w.flow:9:13)");
    assert_eq!(run.query("__stack_trace", &[]).unwrap().matches("awaited by").count(), 1);
}

#[test]
fn inspection() {
    let source = r#"workflow w(inputs) {
  let n = 1, text = "t", big = "x".repeat(9000)
  query n() { return n }
  signal go() { n++ }
  if (true) {
    const n = [inputs]
    log("hello", { n: 1 })
    await Task.race({ a: Task.run("charge", n), b: Task.delay(60), c: wait_for_signal("s", { timeout: "1d" }), d: wait_until(() => n.length == 5) })
  }
  const after = 1
  return [n, text, big, after]
}"#;
    let (mut run, _) = Run::start(source, &["{\"id\":7}"]);
    run.wait(5);
    run.signal("other", &["1"]);
    let shown = run.inspect();
    let version = segno_flow::version(b"x");
    let want = format!(
        "{{\"name\":\"w\",\"version\":\"{version}\",\"code\":[{{\"id\":\"main\",\"waiting_for\":[\"task-1\",\"timer-1\",\"signal-1\",\"until-1\"],\
         \"frames\":[{{\"function\":\"w\",\"line\":8,\"column\":5,\"variables\":{{\"inputs\":{{\"id\":7}},\"text\":\"t\",\"big\":\"\\\"xxx"
    );
    assert!(shown.starts_with(&want), "{shown}");
    assert!(shown.contains("\"n\":[{\"id\":7}]}}]}]"), "{shown}");
    let pending = "\"pending\":[{\"item_id\":\"task-1\",\"kind\":\"task\",\"name\":\"charge\",\"since\":\"2026-01-01T00:00:00.000Z\",\"due\":null},\
         {\"item_id\":\"timer-1\",\"kind\":\"timer\",\"name\":null,\"since\":\"2026-01-01T00:00:00.000Z\",\"due\":\"2026-01-01T00:01:00.000Z\"},\
         {\"item_id\":\"signal-1\",\"kind\":\"signal\",\"name\":\"s\",\"since\":\"2026-01-01T00:00:00.000Z\",\"due\":\"2026-01-02T00:00:00.000Z\"},\
         {\"item_id\":\"until-1\",\"kind\":\"until\",\"name\":null,";
    assert!(shown.contains(pending), "{shown}");
    assert!(shown.contains("\"signals\":{\"other\":1},\"log\":[{\"time\":\"2026-01-01T00:00:00.000Z\",\"line\":7,\"message\":\"hello\",\"data\":{\"n\":1}}]"));
    assert!(shown.ends_with(&format!("\"state_bytes\":{}}}", run.state.as_ref().unwrap().len())));
    assert_eq!(run.query("__segno_flow_state", &[]).unwrap(), shown);
    assert!(shown.len() < 8_000);
}

#[test]
fn metadata() {
    let source = "workflow w() {\n  let n = 0\n  query q() { return n }\n  signal s() { n++ }\n  update u() { n++ }\n  Workflow.setDetails(\"*d*\")\n  await wait_for_signal(\"t\")\n}";
    let (run, _) = Run::start(source, &[]);
    assert_eq!(
        run.query("__temporal_workflow_metadata", &[]).unwrap(),
        "{\"definition\":{\"type\":\"w\",\"queryDefinitions\":[{\"name\":\"q\"}],\"signalDefinitions\":[{\"name\":\"s\"},{\"name\":\"t\"}],\"updateDefinitions\":[{\"name\":\"u\"}]},\"currentDetails\":\"*d*\"}"
    );
}

#[test]
fn ids_of_code_that_waits() {
    let source = "async function f() { await Task.delay(1) }\nworkflow w() {\n  let x = 1\n  signal s(v) { x = v; await Task.delay(2) }\n  query x() { return x }\n  await f()\n}";
    let (mut run, _) = Run::start(source, &[]);
    run.signal("s", &["5"]);
    let shown = run.inspect();
    assert!(shown.contains("{\"id\":\"main\",\"waiting_for\":[\"call-1\"]"), "{shown}");
    assert!(shown.contains("{\"id\":\"call-1\",\"waiting_for\":[\"timer-1\"]"), "{shown}");
    assert!(shown.contains("{\"id\":\"s\",\"waiting_for\":[\"timer-2\"],\"frames\":[{\"function\":\"s\",\"line\":4,\"column\":24,\"variables\":{\"v\":5}}]}"), "{shown}");
}
