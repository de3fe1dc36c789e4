//! Stored states: size, equal bytes, cells and promises (sections 6.1, 6.4 and 11).

use super::{Run, done};

#[test]
fn a_state_is_small() {
    let source = "workflow w(inputs) {\n  const name = inputs.name, n = 3\n  const r = await Task.run(\"charge\", { name, n })\n  return [r, n, name]\n}";
    let (run, _) = Run::start(source, &["{\"name\":\"Ann\"}"]);
    let bytes = run.state.unwrap().len();
    assert!(bytes <= 200, "{bytes} bytes");
}

#[test]
fn variables_of_rounds_stay_apart() {
    let source = r#"
async function later(f) { return f }
workflow w() {
  let got = []
  async function keep(x) { await Task.delay(1); got.push(x) }
  const ps = [10, 20].map(async x => { let y = x; await Task.delay(1); y += 1; got.push(y); return y })
  let qs = []
  for (let i = 0; i < 3; i++) {
    const j = i * 100
    qs.push(...[].concat([[0].map(async z => { await Task.delay(1); i += 1000; return i + j })[0]]))
  }
  return [await Task.all(ps), await Task.all(qs), got]
}"#;
    let source = source.replace(
        "qs.push(...[].concat([[0].map(async z => { await Task.delay(1); i += 1000; return i + j })[0]]))",
        "const one = [0].map(async z => { await Task.delay(1); i += 1000; return i + j })\n    qs.push(one[0])",
    );
    let (mut run, _) = Run::start(&source, &[]);
    let mut last = Vec::new();
    for number in 1..=5 {
        last = run.fired(&format!("timer-{number}"));
    }
    assert_eq!(last, ["complete [[11,21],[1000,1101,1202],[11,21]]"]);
}

#[test]
fn a_shared_variable_stays_shared_over_turns() {
    let source = r#"
workflow w() {
  let sum = 0
  const add = [1, 2, 3].map(async x => { for (const y of [1, 2]) { await Task.run("t", x); sum += x } return sum })
  await Task.all(add)
  return sum
}"#;
    let (mut run, _) = Run::start(source, &[]);
    let mut last = Vec::new();
    for number in 1..=6 {
        last = run.done(&format!("task-{number}"), "1");
    }
    assert_eq!(last, ["complete 12"]);
}

#[test]
fn equal_runs_give_equal_bytes() {
    let source = r#"
workflow w() {
  let o = { a: [1, 2.5, "x", null, true], b: { c: -5, "weird key": 9007199254740993 } }, n = 0
  query o() { return o }
  const p = Task.run("a"), q = Task.delay(5)
  try { await p } catch (e) { o.error = e }
  n = await wait_until(() => n > 1, 50)
}"#;
    let states = |grouped: bool| {
        let (mut run, _) = Run::start(source, &[]);
        let events = vec![super::failed("task-1", "X", "why"), super::signal("s", &["[1,2]"])];
        if grouped {
            run.take(events);
        } else {
            events.into_iter().for_each(|event| drop(run.event(event)));
        }
        run.state.unwrap()
    };
    assert_eq!(states(true), states(false));
    let (run, _) = Run::start(source, &[]);
    let again =
        segno_flow::turn(&run.code, run.state.as_deref(), &[], &run.limits, &mut segno_flow::interface::Unpaced)
            .unwrap();
    assert_eq!(Some(again.state), run.state, "reading and writing changes nothing");
}

#[test]
fn opaque_payloads_and_errors_survive() {
    let source = "workflow w(blob) {\n  let err = null\n  try { await Task.run(\"a\", blob) } catch (e) { err = e }\n  await Task.delay(1)\n  await Task.run(\"b\", blob)\n  throw err\n}";
    let mut run = Run::new(source);
    let blob = segno_flow::interface::Payload {
        metadata: vec![("encoding".into(), b"binary/plain".to_vec()), ("x".into(), vec![0, 255])],
        data: vec![1, 2, 3],
    };
    let start = segno_flow::interface::Start { input: vec![blob.clone()], ..Default::default() };
    run.take(vec![segno_flow::interface::EventKind::Started(Box::new(start))]);
    let super::Command::ScheduleTask(task) = &run.last.as_ref().unwrap().commands[0] else { panic!() };
    assert_eq!(task.input, std::slice::from_ref(&blob));
    run.failed("task-1", "X", "why");
    run.fired("timer-1");
    let super::Command::ScheduleTask(task) = &run.last.as_ref().unwrap().commands[0] else { panic!() };
    assert_eq!(task.input, [blob]);
    run.done("task-2", "1");
    let super::Command::Fail { failure } = &run.last.as_ref().unwrap().commands[0] else { panic!() };
    let segno_flow::interface::EventKind::TaskEnded { end: Err(want), .. } = super::failed("task-1", "X", "why") else {
        panic!()
    };
    let (source, stack_trace) = ("segno-flow".to_owned(), "at w (w.flow:3:9)".to_owned());
    let want = segno_flow::interface::Failure { source, stack_trace, ..want };
    assert_eq!(*failure, want, "a failure that came in leaves as it came, with the place in the script");
}

#[test]
fn ended_promises_leave_the_table() {
    let source = "workflow w() {\n  let n = 0\n  while (true) { n = await Task.run(\"a\", n) }\n}";
    let (mut run, _) = Run::start(source, &[]);
    for number in 1..200 {
        run.done(&format!("task-{number}"), "1");
    }
    let bytes = run.state.as_ref().unwrap().len();
    for number in 200..400 {
        run.done(&format!("task-{number}"), "1");
    }
    assert!(run.state.unwrap().len() <= bytes + 2);
}

#[test]
fn a_closed_run_takes_no_events() {
    let (mut run, _) = Run::start("workflow w() { await Task.run(\"a\") }", &[]);
    assert_eq!(run.done("task-1", "1"), ["complete null"]);
    let state = run.state.clone();
    assert!(run.take(vec![done("task-1", "2"), super::signal("s", &[])]).is_empty());
    assert_eq!(run.state, state);
}
