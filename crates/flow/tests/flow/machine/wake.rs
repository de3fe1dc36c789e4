//! The wake set (section 6.3).

use super::Run;

#[track_caller]
fn wake(body: &str) -> Vec<String> {
    let (run, _) = Run::start(&format!("workflow w() {{\n  let n = 0\n  {body}\n  return n\n}}"), &[]);
    run.wake()
}

#[test]
fn what_nobody_waits_for_is_recorded_only() {
    assert_eq!(
        wake("const a = Task.run(\"a\")\n  await Task.delay(1)"),
        ["Task task-1 Ignored", "Timer timer-1 Wakes"]
    );
    assert_eq!(
        wake("const a = Task.all([Task.run(\"a\")])\n  await Task.delay(1)"),
        ["Task task-1 Ignored", "Timer timer-1 Wakes"]
    );
    assert_eq!(
        wake("const s = wait_for_signal(\"s\", { timeout: 5 })\n  await Task.delay(1)"),
        ["signal s", "Timer timer-1 Ignored", "Timer timer-2 Wakes"]
    );
}

#[test]
fn groups() {
    let tasks = ["Task task-1 Group(0)", "Task task-2 Group(0)"];
    let with = |group: &str| [tasks[0].to_owned(), tasks[1].to_owned(), group.to_owned()];
    assert_eq!(
        wake("await Task.all([Task.run(\"a\"), Task.run(\"b\")])"),
        with("2 missing, completion Counts, failure Satisfies")
    );
    assert_eq!(
        wake("await Task.any([Task.run(\"a\"), Task.run(\"b\")])"),
        with("2 missing, completion Satisfies, failure Counts")
    );
    assert_eq!(
        wake("await Task.settle([Task.run(\"a\"), Task.run(\"b\")])"),
        with("2 missing, completion Counts, failure Counts")
    );
    assert_eq!(
        wake("const a = Task.run(\"a\")\n  await Task.all([a, a, Task.run(\"b\")])"),
        with("2 missing, completion Counts, failure Satisfies")
    );
    assert_eq!(wake("await Task.race([Task.run(\"a\"), Task.run(\"b\")])"), ["Task task-1 Wakes", "Task task-2 Wakes"]);
}

#[test]
fn what_groups_cannot_express_wakes() {
    // A part that is no plain operation.
    assert_eq!(wake("await Task.all([Task.run(\"a\"), wait_for_signal(\"s\")])"), ["signal s", "Task task-1 Wakes"]);
    // Nested.
    assert_eq!(
        wake("await Task.all([Task.all([Task.run(\"a\")]), Task.run(\"b\")])"),
        ["Task task-1 Wakes", "Task task-2 Wakes"]
    );
    // Another promise waits for one of them.
    let source = "async function f(p) { await p }\nworkflow w() {\n  const a = Task.run(\"a\")\n  f(a)\n  await Task.all([a, Task.run(\"b\")])\n}";
    let (run, _) = Run::start(source, &[]);
    assert_eq!(run.wake(), ["Task task-1 Wakes", "Task task-2 Wakes"]);
    // In two combinations.
    assert_eq!(
        wake("const a = Task.run(\"a\")\n  const x = Task.all([a]), y = Task.all([a, Task.run(\"b\")])\n  await y"),
        ["Task task-1 Wakes", "Task task-2 Wakes"]
    );
}

#[test]
fn a_hundred_tasks_need_two_turns() {
    let source = "workflow w() { return (await Task.all(List.range(100).map(i => Task.run(\"sq\", i)))).length }";
    let (mut run, _) = Run::start(source, &[]);
    assert_eq!(run.last.as_ref().unwrap().wake.groups[0].missing, 100);
    let events = (1..=100).map(|n| super::done(&format!("task-{n}"), "1")).collect();
    assert_eq!(run.take(events), ["complete 100"]);
}

#[test]
fn groups_shrink_with_each_turn() {
    let source = "workflow w() {\n  signal s() { log(\"s\") }\n  await Task.all([Task.run(\"a\"), Task.run(\"b\"), Task.delay(9)])\n}";
    let (mut run, _) = Run::start(source, &[]);
    run.take(vec![super::done("task-1", "1"), super::signal("s", &[])]);
    assert_eq!(
        run.wake(),
        [
            "signal s",
            "Task task-2 Group(0)",
            "Timer timer-1 Group(0)",
            "2 missing, completion Counts, failure Satisfies"
        ]
    );
}
