//! The test host: what tests print, and that it treats tasks, children and time as a server does.

use segno_flow::host::{Report, run_tests};

fn report(script: &str, test: &str, filter: &str) -> Report {
    let mut load = |path: &str| match path {
        "w.flow" => Ok(script.as_bytes().to_vec()),
        "child.flow" => Ok(CHILD.as_bytes().to_vec()),
        _ => Err("no such file".to_owned()),
    };
    run_tests(test.as_bytes(), "w_test.flow", &mut load, filter)
}

const CHILD: &str = r#"
workflow child(x) {
  let n = 0
  signal add(y) { n += y }
  if (x == "wait") await wait_until(() => n >= 3)
  if (x == "sleep") await Task.delay("1h")
  if (x == "fail") throw Error("no", { type: "No" })
  if (x == "count" ) return Workflow.info().attempt
  return [x, n]
}"#;

#[track_caller]
fn passes(script: &str, test: &str) {
    let test = format!("use \"w.flow\"\nuse \"child.flow\"\n\ntest \"t\" {{\n{test}\n}}\n");
    let report = report(script, &test, "");
    assert!(report.is_success(), "{}", report.text());
}

/// The text of the report on one test that fails.
fn fails(script: &str, test: &str) -> String {
    let test = format!("use \"w.flow\"\ntest \"t\" {{\n{test}\n}}\n");
    let report = report(script, &test, "");
    assert!(!report.is_success(), "{}", report.text());
    report.text()
}

const ONE: &str = "workflow w(x) { return await Task.run(\"t\", x) }";

#[test]
fn a_line_per_test() {
    let test = r#"use "w.flow"

test "one" {
  mock("t", x => x)
  Test.start(1)
  assertEqual(await Test.result(), 1)
}

test "two" {
  mock("t", x => ({ a: [x, 2], b: null }))
  Test.start(1)
  assertEqual(await Test.result(), { a: [1, 3], c: true, b: null })
}
"#;
    let all = report(ONE, test, "");
    assert_eq!(
        all.text(),
        "ok    one\n\
         FAIL  two\n      \
         w_test.flow:12:3: values differ\n      \
         expected: {\"a\":[1,3],\"c\":true,\"b\":null}\n      \
         actual:   {\"a\":[1,2],\"b\":null}\n        \
         .a[1]: expected 3, actual 2\n        \
         .c: expected true, missing\n"
    );
    assert_eq!(report(ONE, test, "on").text(), "ok    one\n");
    assert!(!all.tests[1].is_defect);
}

#[test]
fn failures_say_where() {
    let start = "  mock(\"t\", x => x)\n  Test.start(1)\n";
    let cases = [
        ("  assert(1 > 2)", "w_test.flow:5:3: assertion failed"),
        ("  assert(1 > 2, \"really\")", "w_test.flow:5:3: really"),
        ("  assertEqual(1, \"1\")", "w_test.flow:5:3: values differ"),
        ("  await assertFails(Test.result())", "w_test.flow:5:3: expected an error, got 1"),
        ("  const x = null\n  return x.f", "w_test.flow:6:12: TypeError: cannot read \"f\" of null"),
        ("  throw \"no\"", "w_test.flow:5:3: no"),
        ("  await wait_until(() => false)", "w_test.flow:5:3: the test waits for something that never happens"),
        ("  Test.start(2)", "w_test.flow:5:3: ArgumentError: Test.start: the run has been started already"),
        (
            "  await Test.result()\n  Test.signal(\"s\")",
            "w_test.flow:6:3: ArgumentError: Test.signal: the run has ended",
        ),
        ("  Test.query(\"q\")", "w_test.flow:5:3: QueryFailed: unknown query \"q\"; known: "),
    ];
    for (test, want) in cases {
        let text = fails(ONE, &format!("{start}{test}"));
        let line = text.lines().nth(1).unwrap_or_default().trim_start();
        assert_eq!(line, want, "{text}");
    }
    let text = fails(
        "workflow w() { throw Error(\"no\", { type: \"T\" }) }",
        "  Test.start()\n  await assertFails(Test.result(), \"U\")",
    );
    assert!(text.contains("expected an error of type \"U\", got \"T\": \"no\""), "{text}");
}

#[test]
fn mocks_are_async_without_saying_so() {
    for mock in [
        "mock(\"t\", x => Task.all([Task.delay(x)]))",
        "mock(\"t\", x => { return Task.all([Task.delay(x)]) })",
        "mock(\"t\", x => { await Task.delay(x); return [null] })",
        "mock(\"t\", plain)",
        "mock(\"t\", waiting)",
    ] {
        let test = format!(
            "use \"w.flow\"\nfunction plain(x, y = 2) {{ return Task.all([Task.delay(x + y - 2)]) }}\n\
             async function waiting(x) {{ await Task.delay(x); return [null] }}\n\
             test \"t\" {{\n  {mock}\n  Test.start(7)\n  assertEqual(await Test.result(), [null])\n  \
             assertEqual(Time.now(), \"2026-01-01T00:00:07.000Z\")\n}}\n"
        );
        let report = report(ONE, &test, "");
        assert!(report.is_success(), "{mock}\n{}", report.text());
    }
    passes(
        "workflow w() { return await Workflow.run(\"c\", 3) }",
        "  mockWorkflow(\"c\", x => Task.all([Task.delay(x)]))\n  Test.start()\n  assertEqual(await Test.result(), [null])",
    );
}

#[test]
fn what_is_not_mocked_fails_the_test() {
    assert_eq!(fails(ONE, "  Test.start()\n  await Test.result()"), "FAIL  t\n      no mock for task \"t\"\n");
    assert_eq!(
        fails("workflow w() { await Workflow.run(\"c\") }", "  Test.start()\n  await Test.result()"),
        "FAIL  t\n      no mock for workflow \"c\"\n"
    );
    let text = fails(ONE, "  mock(\"t\", x => { assertEqual(x, 2) })\n  Test.start(1)\n  await Test.result()");
    assert!(text.contains("w_test.flow:3:20: values differ"), "{text}");
}

#[test]
fn errors_of_sources_are_reported() {
    let text = report("workflow w() { return x }", "use \"w.flow\"\ntest \"t\" { Test.start() }", "").text();
    assert!(text.starts_with("w.flow:1:23: error[F0201]"), "{text}");
    let text = report(ONE, "use \"x.flow\"\ntest \"t\" { Test.start() }", "").text();
    assert_eq!(text, "w_test.flow: cannot read \"x.flow\": no such file\n");
    let text = report(ONE, "use \"w.flow\"\ntest \"t\" { foo() }", "").text();
    assert!(text.contains("error[F0207]"), "{text}");
}

#[test]
fn retries_follow_the_policy() {
    let script = |options: &str| format!("workflow w() {{ return await Task.run(\"t\", null, {options}) }}");
    let test = |body: &str| {
        format!(
            "  let at = []\n  mock(\"t\", () => {{ at.push(Time.diff(Time.now(), \"2026-01-01T00:00:00.000Z\")); {body} }})\n  Test.start()\n"
        )
    };
    // 1 s, doubling.
    passes(
        &script("{}"),
        &(test("if (at.length < 4) throw \"no\"") + "  await Test.result()\n  assertEqual(at, [0, 1, 3, 7])"),
    );
    passes(
        &script("{ retry: 2 }"),
        &(test("throw \"no\"") + "  await assertFails(Test.result())\n  assertEqual(at, [0, 1])"),
    );
    passes(
        &script("{ retry: false }"),
        &(test("throw \"no\"") + "  await assertFails(Test.result())\n  assertEqual(at, [0])"),
    );
    passes(
        &script("{ retry: { initial_interval: \"2s\", backoff: 3, max_interval: \"10s\", max_attempts: 4 } }"),
        &(test("throw \"no\"") + "  await assertFails(Test.result())\n  assertEqual(at, [0, 2, 8, 18])"),
    );
    passes(
        &script("{ retry: { non_retryable: [\"Fatal\"] } }"),
        &(test("throw Error(\"no\", { type: \"Fatal\" })")
            + "  await assertFails(Test.result(), \"Fatal\")\n  assertEqual(at, [0])"),
    );
    passes(
        &script("{}"),
        &(test("throw Error(\"no\", { retryable: false })")
            + "  await assertFails(Test.result())\n  assertEqual(at, [0])"),
    );
}

#[test]
fn time_outs_of_tasks() {
    let script = |options: &str| {
        format!(
            "workflow w() {{ try {{ return await Task.run(\"t\", null, {options}) }} catch (e) {{ return [e.type, e.message, e.details?.kind, e.source.item_id] }} }}"
        )
    };
    let slow = "  mock(\"t\", async () => { await Task.delay(60); return 1 })\n  Test.start()\n";
    passes(
        &script("{ start_to_close: 10, retry: 2 }"),
        &format!(
            "{slow}  assertEqual(await Test.result(), [\"Timeout\", \"activity StartToClose timeout\", \"start_to_close\", \"task-1\"])\n  assertEqual(Time.now(), \"2026-01-01T00:00:21.000Z\")\n  assertEqual(Test.calls(\"t\").length, 2)"
        ),
    );
    passes(
        &script("{ schedule_to_close: 30 }"),
        &format!(
            "{slow}  assertEqual((await Test.result())[2], \"schedule_to_close\")\n  assertEqual(Time.now(), \"2026-01-01T00:00:30.000Z\")"
        ),
    );
    // There is no time for another attempt: the task fails with the error of the last one.
    passes(
        &script("{ schedule_to_close: 5 }"),
        "  mock(\"t\", async () => { await Task.delay(3); throw Error(\"no\", { type: \"X\" }) })\n  Test.start()\n  assertEqual((await Test.result())[0], \"Timeout\")\n  assertEqual(Time.now(), \"2026-01-01T00:00:05.000Z\")",
    );
    passes(
        &script("{ schedule_to_close: 5, retry: { initial_interval: 3 } }"),
        "  mock(\"t\", async () => { await Task.delay(3); throw Error(\"no\", { type: \"X\" }) })\n  Test.start()\n  assertEqual((await Test.result())[0], \"X\")\n  assertEqual(Time.now(), \"2026-01-01T00:00:03.000Z\")",
    );
    // Ten minutes if nothing is said.
    passes(
        &script("{ retry: false }"),
        "  mock(\"t\", async () => { await Task.delay(\"1h\") })\n  Test.start()\n  assertEqual((await Test.result())[0], \"Timeout\")\n  assertEqual(Time.now(), \"2026-01-01T00:10:00.000Z\")",
    );
}

#[test]
fn canceling_tasks() {
    let script = |on_cancel: &str| {
        format!(
            "workflow w() {{
  try {{ return await Task.run(\"t\", null, {{ on_cancel: \"{on_cancel}\" }}) }}
  catch (e) {{ return [e.type, Time.now().slice(17, 19)] }}
}}"
        )
    };
    let test = |want: &str| {
        format!(
            "  mock(\"t\", async () => {{ await Task.delay(10); return 1 }})\n  Test.start()\n  await Task.delay(5)\n  Test.cancel()\n  assertEqual(await Test.result(), {want})"
        )
    };
    passes(&script("try"), &test("[\"Canceled\", \"05\"]"));
    passes(&script("wait"), &test("1"));
    passes(&script("ignore"), &test("1"));
    // A task that says that it was canceled.
    passes(
        &script("wait"),
        "  mock(\"t\", async () => { await Task.delay(10); throw Error(\"c\", { type: \"Canceled\" }) })\n  Test.start()\n  await Task.delay(5)\n  Test.cancel()\n  assertEqual(await Test.result(), [\"Canceled\", \"10\"])",
    );
    // Between two attempts it ends at once.
    passes(
        &script("wait"),
        "  mock(\"t\", () => { throw \"no\" })\n  Test.start()\n  await Task.delay(5)\n  Test.cancel()\n  assertEqual(await Test.result(), [\"Canceled\", \"05\"])",
    );
}

#[test]
fn children() {
    passes(
        "workflow w() { return await Workflow.run(\"child\", 5) }",
        "  Test.start()\n  assertEqual(await Test.result(), [5, 0])",
    );
    passes(
        "workflow w() { const c = await Workflow.start(\"child\", \"wait\", { id: \"c\" }); await Workflow.signal(\"c\", \"add\", 1); await Workflow.signal(\"c\", \"add\", 2); return c.workflow_id }",
        "  Test.start()\n  assertEqual(await Test.result(), \"c\")",
    );
    passes(
        "workflow w() { const p = Workflow.run(\"child\", \"wait\", { id: \"c\" }); await Workflow.signal(\"c\", \"add\", 3); return await p }",
        "  Test.start()\n  assertEqual(await Test.result(), [\"wait\", 3])",
    );
    passes(
        "workflow w() { try { await Workflow.signal(\"nobody\", \"s\") } catch (e) { return [e.type, e.source.kind] } }",
        "  Test.start()\n  assertEqual(await Test.result(), [\"NotFound\", \"send\"])",
    );
    passes(
        "workflow w() { Workflow.run(\"child\", \"sleep\", { id: \"c\" }); try { await Workflow.run(\"child\", 1, { id: \"c\" }) } catch (e) { return e.type } }",
        "  Test.start()\n  assertEqual(await Test.result(), \"AlreadyStarted\")",
    );
    passes(
        "workflow w() { try { await Workflow.run(\"child\", \"fail\", { id: \"c\" }) } catch (e) { return [e.type, e.message, e.source] } }",
        "  Test.start()\n  assertEqual(await Test.result(), [\"No\", \"no\", { kind: \"workflow\", name: \"child\", item_id: \"c\" }])",
    );
    passes(
        "workflow w() { try { await Workflow.run(\"child\", \"sleep\", { run_timeout: 60 }) } catch (e) { return [e.type, Time.now()] } }",
        "  Test.start()\n  assertEqual(await Test.result(), [\"Timeout\", \"2026-01-01T00:01:00.000Z\"])",
    );
    passes(
        "workflow w() { const p = Workflow.run(\"child\", \"sleep\", { id: \"c\" }); await Task.delay(1); await Workflow.cancel(\"c\"); try { await p } catch (e) { return [e.type, Time.now()] } }",
        "  Test.start()\n  assertEqual(await Test.result(), [\"Canceled\", \"2026-01-01T00:00:01.000Z\"])",
    );
    passes(
        "workflow w() { try { return await Workflow.run(\"child\", \"fail\", { retry: { max_attempts: 3 } }) } catch (e) { return Time.now() } }",
        "  Test.start()\n  assertEqual(await Test.result(), \"2026-01-01T00:00:03.000Z\")",
    );
    passes(
        "workflow w() { const p = Workflow.run(\"child\", \"x\"); return [p.id == `${Workflow.info().run_id}/child-1`, await p] }",
        "  mockWorkflow(\"child\", async x => { await Task.delay(5); return `mocked ${x}` })\n  Test.start()\n  assertEqual(await Test.result(), [true, \"mocked x\"])\n  assertEqual(Time.now(), \"2026-01-01T00:00:05.000Z\")\n  assertEqual(Test.calls(\"child\"), [\"x\"])",
    );
}

#[test]
fn operations() {
    let call = |options: &str| {
        format!(
            "workflow w(x) {{ try {{ return await Nexus.call(\"e\", \"s\", \"o\", x{options}) }} catch (e) {{ return [e.type, e.message, e.details, e.source.name, Time.now()] }} }}"
        )
    };
    passes(
        &call(""),
        "  mockNexus(\"s.o\", async x => { await Task.delay(5); return x + 1 })\n  Test.start(1)\n  assertEqual(await Test.result(), 2)\n  assertEqual(Time.now(), \"2026-01-01T00:00:05.000Z\")\n  assertEqual(Test.calls(\"s.o\"), [1])",
    );
    passes(
        &call(""),
        "  mockNexus(\"s.o\", x => { throw Error(\"no\", { type: \"No\", details: x }) })\n  Test.start(1)\n  assertEqual(await Test.result(), [\"No\", \"no\", 1, \"s.o\", \"2026-01-01T00:00:00.000Z\"])",
    );
    for timeout in ["schedule_to_close", "start_to_close"] {
        passes(
            &call(&format!(", {{ {timeout}: 3 }}")),
            &format!(
                "  mockNexus(\"s.o\", async x => {{ await Task.delay(5); return x }})\n  Test.start(1)\n  assertEqual(await Test.result(), [\"Timeout\", \"operation timed out\", {{ kind: \"{timeout}\", last_heartbeat: null }}, \"s.o\", \"2026-01-01T00:00:03.000Z\"])"
            ),
        );
    }
    passes(
        "workflow w() { const p = Nexus.call(\"e\", \"s\", \"o\", 1, { on_cancel: \"wait\" }); Task.cancel(p); try { await p } catch (e) { return [e.type, e.details] } }",
        "  mockNexus(\"s.o\", async x => { await Task.delay(1); throw Error(\"\", { type: \"Canceled\", details: x }) })\n  Test.start()\n  assertEqual(await Test.result(), [\"Canceled\", 1])",
    );
    let text = fails(&call(""), "  Test.start(1)\n  await Test.result()");
    assert!(text.contains("no mock for Nexus operation \"s.o\""), "{text}");
}

#[test]
fn ending_from_outside() {
    let sleep = "workflow w() { try { await Task.delay(\"1h\") } finally { log(\"never\") } }";
    passes(
        sleep,
        "  Test.start()\n  assertEqual(Test.status(), \"RUNNING\")\n  Test.terminate()\n  assertEqual(Test.status(), \"TERMINATED\")\n  await assertFails(Test.result(), \"Terminated\")\n  assertEqual(Test.log(), [])",
    );
    passes(
        "workflow w() { update u() { await Task.delay(\"1h\") }\n await wait_for_signal(\"s\"); return 1 }",
        "  Test.start()\n  const u = Test.update(\"u\")\n  await Task.delay(1)\n  Test.signal(\"s\")\n  await assertFails(u, \"AcceptedUpdateCompletedWorkflow\")\n  await assertFails(Test.update(\"u\"), \"NotFound\")",
    );
}

#[test]
fn turns_are_those_of_the_server() {
    // Signals that no code waits for, and ends that no code awaits, are only recorded.
    passes(
        "workflow w() { Task.run(\"t\"); await Task.delay(10); return await wait_for_signal(\"s\") }",
        "  mock(\"t\", () => null)\n  Test.start()\n  assertEqual(Test.turns(), 1)\n  await Task.delay(1)\n  Test.signal(\"s\", 7)\n  Test.signal(\"other\")\n  assertEqual(Test.turns(), 1)\n  assertEqual(await Test.result(), 7)\n  assertEqual(Test.turns(), 2)",
    );
    // any: one completion suffices, failures are counted.
    passes(
        "workflow w() { return (await Task.any(List.range(10).map(i => Task.run(\"t\", i, { retry: false })))).result }",
        "  mock(\"t\", async i => { await Task.delay(i); if (i < 9) throw \"no\"; return i })\n  Test.start()\n  assertEqual(await Test.result(), 9)\n  assertEqual(Test.turns(), 2)",
    );
    passes(
        "workflow w() { return (await Task.settle(List.range(10).map(i => Task.run(\"t\", i, { retry: false })))).length }",
        "  mock(\"t\", async i => { await Task.delay(i); if (i % 2 == 0) throw \"no\"; return i })\n  Test.start()\n  assertEqual(await Test.result(), 10)\n  assertEqual(Test.turns(), 2)",
    );
    // Queries are no turns.
    passes(
        "workflow w() { let n = 1\n query q(x) { return [n, x, Time.now()] }\n await wait_for_signal(\"s\"); n = 2 }",
        "  Test.start()\n  await Task.delay(5)\n  assertEqual(Test.query(\"q\", 3), [1, 3, \"2026-01-01T00:00:05.000Z\"])\n  assertEqual(Test.turns(), 1)",
    );
}

#[test]
fn log_and_state() {
    passes(
        "workflow w() {\n  let n = 5\n  log(\"begin\", { n })\n  await Task.delay(\"1h\")\n  log(`end ${n}`)\n}",
        r#"
  Test.start()
  assertEqual(Test.log(), [{ time: "2026-01-01T00:00:00.000Z", line: 3, message: "begin", data: { n: 5 } }])
  const state = Test.state()
  assertEqual(state.name, "w")
  assertEqual(state.code[0].id, "main")
  assertEqual(state.code[0].waiting_for, ["timer-1"])
  assertEqual(state.code[0].frames[0].variables, { n: 5 })
  assertEqual(state.pending[0].item_id, "timer-1")
  await Test.result()
  assertEqual(Test.log().length, 2)"#,
    );
}
