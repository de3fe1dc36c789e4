//! Moving a run to another version (7.4): the places of waiting frames, and the state.

use segno_flow::diagnostic::Position;
use segno_flow::interface::{
    Command, Event, EventKind, Failure, Limits, OperationKind, Payload, Start, Unpaced, WakeSet,
};
use segno_flow::migrate::{WaitingFrame, places};
use segno_flow::{Code, MigrateError, ScriptVersion, compile, migrate, turn};

/// Both sources have the mark `§` where the frame waits; the new one has none if it must be refused.
fn check(old: &str, new: &str) {
    let position = |source: &str| {
        let before = &source[..source.find('§')?];
        let line = u32::try_from(before.matches('\n').count() + 1).unwrap();
        let column = u32::try_from(before.rsplit('\n').next().unwrap().chars().count() + 1).unwrap();
        Some(Position { line, column })
    };
    let waiting = position(old).unwrap();
    let frame = WaitingFrame { function: "order".to_owned(), position: waiting };
    let found = places(old.replace('§', "").as_bytes(), new.replace('§', "").as_bytes(), "abc", &[frame]);
    match position(new) {
        Some(expected) => assert_eq!(found, Ok(vec![expected]), "{new}"),
        None => {
            let line = format!("order (line {}): the waiting statement is not in version abc", waiting.line);
            assert_eq!(found, Err(vec![line]), "{new}");
        }
    }
}

const OLD: &str = "workflow order(a) {
  let x = 1
  for (const i of a) {
    if (i == 2) {
      x = §await Task.run('step', i)
    } else {
      await Task.delay(1)
    }
  }
  return x
}";

#[test]
fn the_same_statement_in_the_same_chain() {
    check(OLD, OLD);
    // Layout, comments, and everything else in the file.
    check(
        OLD,
        "const C = 1
workflow order(a) {
  log(\"new\"); let x = 5
  for (const i of a)
  {
    log(i) // why
    if (i == 2) { x = /* c */ §await Task.run(\"step\", i,)
      log(x) }
  }
  return x + C
}",
    );
    for (from, to) in [
        ("'step'", "'other'"),
        ("i == 2", "i == 3"),
        ("const i of a", "let i of a"),
        ("order(a)", "order(a, b)"),
        ("workflow order", "workflow orders"),
        ("x = §await", "x += §await"),
        ("    } else {", "      x = await Task.run('step', i)\n    } else {"),
        ("if (i == 2) {", "{ if (i == 2) {}"),
    ] {
        let new = OLD.replace(from, to);
        assert_ne!(new, OLD);
        check(OLD, &new.replace('§', ""));
    }
    check(OLD, "workflow order(a) { return a }");
    check(OLD, "workflow order(a) { syntax error");
}

#[test]
fn branches_are_told_apart() {
    let old = "workflow order(a) { if (a) { §await Task.delay(1) } else { log(a) } }";
    check(old, "workflow order(a) { if (a) { §await Task.delay(1) } }");
    check(old, "workflow order(a) { if (a) { log(a) } else { await Task.delay(1) } }");
    let old = "workflow order(a) { try { §await a } catch (e) { log(e) } }";
    check(old, "workflow order(a) { try { §await a } finally { log(1) } }");
    check(old, "workflow order(a) { try { log(a) } catch (e) { await a } }");
    let old = "workflow order(a) { switch (a) { case 1: case 2: §await a; break\n default: await a } }";
    check(old, "workflow order(a) { switch (a) { default: await a\n case 1: case 2: §await a } }");
    check(old, "workflow order(a) { switch (a) { case 1: await a } }");
}

#[test]
fn functions_handlers_and_arrows() {
    let old = "async function f(x) { §await x }\nasync function g(x) { await x }\nworkflow order(a) { f(a); g(a) }";
    check(old, "workflow order(a) { f(a) }\nasync function h(x) { await x }\nasync function f(x) { §await x }");
    check(old, "workflow order(a) { g(a) }\nasync function g(x) { await x }");
    let old = "workflow order(a) { signal s(x) { §await x }\n update s(x) { await x } }";
    check(old, "workflow order(a) { update s(x) { await x }\n signal s(x) { log(1); §await x } }");
    check(old, "workflow order(a) { signal s(y) { await y } }");
    let old = "workflow order(a) { await Task.all(a.map(async (x) => { log(x); §await x })) }";
    check(old, "workflow order(a) { await Task.all(a.map(async x => { §await x\n log(x) })) }");
    check(old, "workflow order(a) { await Task.all(a.map(async y => { await x })) }");
    check(old, "workflow order(a) { await Task.any(a.map(async x => { await x })) }");
    let old = "workflow order(a) { await Task.map(a, async x => §await x, { concurrency: 2 }) }";
    check(old, "workflow order(a) { log(a)\n await Task.map(a, async x => §await x, { concurrency: 2, }) }");
    check(old, "workflow order(a) { await Task.map(a, async x => await x, { concurrency: 3 }) }");
}

#[test]
fn every_frame_without_a_place_has_a_line() {
    let old = b"workflow order(a) {\n  await a\n  await a.b\n}";
    let frame =
        |line, function: &str| WaitingFrame { function: function.into(), position: Position { line, column: 3 } };
    let found = places(
        old,
        b"workflow order(a) {\n  await a.b\n}",
        "0123",
        &[frame(2, "order"), frame(3, "order"), frame(2, "(arrow)")],
    );
    let line = |function| format!("{function} (line 2): the waiting statement is not in version 0123");
    assert_eq!(found, Err(vec![line("order"), line("(arrow)")]));
}

/// A run under a version, driven event by event.
pub struct Run {
    pub source: String,
    code: Code,
    pub state: Vec<u8>,
    pub commands: Vec<Command>,
    pub wake: WakeSet,
}

fn compiled(source: &str) -> Code {
    let checked = segno_flow::check(source.as_bytes());
    let program = checked.program.unwrap_or_else(|| panic!("{source}\n{:?}", checked.diagnostics));
    compile(&program, "order.flow").unwrap()
}

pub fn json(text: &str) -> Payload {
    Payload { metadata: vec![("encoding".to_owned(), b"json/plain".to_vec())], data: text.as_bytes().to_vec() }
}

impl Run {
    pub fn start(source: &str, input: &str) -> Self {
        let code = compiled(source);
        let start = Start {
            workflow_id: "w".into(),
            run_id: "r".into(),
            name: "order".into(),
            version: segno_flow::version(source.as_bytes()),
            input: vec![json(input)],
            ..Start::default()
        };
        let mut run =
            Self { source: source.into(), code, state: Vec::new(), commands: Vec::new(), wake: WakeSet::default() };
        run.take(EventKind::Started(Box::new(start)));
        run
    }

    pub fn take(&mut self, kind: EventKind) {
        let state = (!self.state.is_empty()).then_some(self.state.as_slice());
        let events = [Event { time: 1_000, kind }];
        let turned = turn(&self.code, state, &events, &Limits::default(), &mut Unpaced).unwrap();
        (self.state, self.commands, self.wake) = (turned.state, turned.commands, turned.wake);
    }

    fn task(&mut self, id: &str, result: &str) {
        self.take(EventKind::TaskEnded { id: id.into(), end: Ok(vec![json(result)]) });
    }

    fn signal(&mut self, name: &str, input: &str) {
        self.take(EventKind::Signaled { name: name.into(), input: vec![json(input)] });
    }

    pub fn migrate(&mut self, source: &str) -> Result<(), MigrateError> {
        let code = compiled(source);
        let old = ScriptVersion { code: &self.code, source: self.source.as_bytes() };
        let new = ScriptVersion { code: &code, source: source.as_bytes() };
        let turned = migrate(old, new, &self.state, &[], &Limits::default())?;
        (self.state, self.commands, self.wake) = (turned.state, turned.commands, turned.wake);
        (self.code, self.source) = (code, source.into());
        Ok(())
    }

    /// The result of the run.
    fn result(&self) -> String {
        match self.commands.last() {
            Some(Command::Complete { result }) => String::from_utf8(result[0].data.clone()).unwrap(),
            other => format!("{other:?}"),
        }
    }
}

#[test]
fn a_run_goes_on_in_the_new_version() {
    let old = "workflow order(a) {
  let sum = 0, gone = 1
  for (const x of a) {
    sum += gone * await Task.run('n', x)
  }
  return sum
}";
    let new = "const FACTOR = 10
workflow order(a) {
  query sum() { return sum }
  let fresh, gone = 1, sum = 0
  for (const x of a) {
    let twice = x * 2
    sum += gone * await Task.run(\"n\", x)
    log(\"got one\", twice)
  }
  return [sum * FACTOR, fresh]
}";
    let mut run = Run::start(old, "[1,2,3]");
    run.task("task-1", "1");
    run.migrate(new).unwrap();
    let answer = segno_flow::query(&run.code, &run.state, "sum", &[], 0, &Limits::default()).unwrap();
    assert_eq!(answer[0].data, b"1");
    run.task("task-2", "2");
    run.task("task-3", "3");
    assert_eq!(run.result(), "[60,null]");
    // And the other way: variables that were shared are so no more.
    let mut run = Run::start(new, "[1,2,3]");
    run.task("task-1", "1");
    run.migrate(old).unwrap();
    run.task("task-2", "2");
    run.task("task-3", "3");
    assert_eq!(run.result(), "6");
}

#[test]
fn every_kind_of_statement_around_goes_over() {
    let old = "workflow order(a) {
  let out = []
  for (const x of a) {
    for (let i = 0; i < 2; i++) {
      switch (x) {
        case 1:
        case 2: {
          try {
            if (i == 0) { out.push([x, i, await Task.run('n')]) } else continue
          } catch (e) {
            out.push(e.message)
          } finally {
            out.push('f')
            await Task.run('clean')
          }
        }
        default: out.push(0)
      }
    }
  }
  return out
}";
    let new = old.replace("out.push(0)", "out.push(1)").replace("let out = []", "let z = 1\n  let out = []\n  log(z)");
    // The state is moved back and forth at every wait.
    let drive = |moves: bool| {
        let mut run = Run::start(old, "[1,2,3]");
        let mut steps = 0;
        while !run.commands.iter().any(Command::closes) {
            let open: Vec<String> = run.wake.operations.iter().map(|operation| operation.id.clone()).collect();
            assert_eq!(open.len(), 1, "{open:?}");
            if moves {
                run.migrate(if steps % 2 == 0 { &new } else { old }).unwrap();
            }
            run.task(&open[0], &steps.to_string());
            steps += 1;
        }
        run.result()
    };
    assert_eq!(drive(false), "[[1,0,0],\"f\",\"f\",[2,0,3],\"f\",\"f\",0,0]");
    let moved = drive(true);
    assert!(moved == drive(false) || moved == drive(false).replace("0,0]", "1,1]"), "{moved}");
}

#[test]
fn a_finally_under_way_needs_the_same_try() {
    let old = "workflow order(a) {
  while (true) {
    try {
      if (a) break
      log(1)
    } finally {
      await Task.run('clean')
    }
  }
  return 'left'
}";
    let mut run = Run::start(old, "true");
    run.migrate(&old.replace("'left'", "'gone'")).unwrap();
    let line = "order (line 7): the waiting statement is not in version ".to_owned();
    let changed = old.replace("log(1)", "log(2)").replace("if (a) break", "if (a) return 5; else break");
    let error = run.migrate(&changed).unwrap_err();
    let version = segno_flow::version(changed.as_bytes());
    assert_eq!(error, MigrateError::NoPlace(vec![line + &version[..12]]));
    run.task("task-1", "null");
    assert_eq!(run.result(), "\"gone\"");
    // Without `break` or its kin it does not matter.
    let mut run = Run::start(old, "false");
    run.migrate(&changed).unwrap();
    run.task("task-1", "null");
    run.task("task-2", "null");
    assert_eq!(run.result(), "\"left\"");
}

#[test]
fn functions_arrows_and_conditions_go_over() {
    let old = "async function pay(x) { return x + await Task.run('pay', x) }
workflow order(a) {
  let total = 0, done = false, seen = []
  signal stop(why) { await Task.run('note', why); seen.push(why); done = true }
  const paid = pay(1)
  const all = Task.all(a.map(async (x, i) => {
    const y = await Task.run('item', x)
    total += y
    seen.push([i, y])
    return y
  }))
  await wait_until(() => done)
  return [await paid, await all, total, seen]
}";
    let new = "workflow order(a) {
  signal stop(why) {
    await Task.run('note', why)
    seen.push(why)
    log(extra)
    done = true
  }
  let extra = 'e', total = 0, done = false, seen = []
  const paid = pay(1)
  const all = Task.all(a.map(async (x, i) => {
    const y = await Task.run('item', x)
    total += y + 100
    seen.push([i, y])
    return y
  }))
  await wait_until(() => done)
  return { paid: await paid, all: await all, total, seen, extra }
}
async function pay(x) {
  return x + await Task.run('pay', x)
}";
    let mut run = Run::start(old, "[5,6]");
    run.signal("stop", "\"s\"");
    run.task("task-2", "50");
    run.migrate(new).unwrap();
    run.task("task-3", "60");
    run.task("task-1", "7");
    run.task("task-4", "null");
    assert_eq!(
        run.result(),
        "{\"paid\":8,\"all\":[50,60],\"total\":210,\"seen\":[[0,50],[1,60],\"s\"],\"extra\":null}"
    );
}

#[test]
fn timers_of_variables_that_are_gone_are_canceled() {
    let old = "workflow order(a) {\n  let timer = Task.delay('1h')\n  await Task.run('x', a)\n  await timer\n}";
    let mut run = Run::start(old, "1");
    run.migrate("workflow order(a) {\n  await Task.run('x', a)\n  return 'done'\n}").unwrap();
    assert_eq!(run.commands, [Command::CancelTimer { id: "timer-1".into() }]);
    run.task("task-1", "1");
    assert_eq!(run.result(), "\"done\"");
}

#[test]
fn signals_that_wait_go_to_a_new_handler() {
    let old = "workflow order(a) {\n  let seen = []\n  await Task.run('x', a)\n  return seen\n}";
    let new = old.replace("let seen = []", "let seen = []\n  signal s(x) { seen.push(x); if (x == 9) await Task.delay(1) }\n  signal t(x) { seen.push(x) }");
    let mut run = Run::start(old, "1");
    run.signal("s", "1");
    run.signal("t", "2");
    run.signal("other", "3");
    run.signal("s", "9");
    assert_eq!(run.wake.signals_waiting, 4);
    run.migrate(&new).unwrap();
    // One that came before the marker comes after those that wait.
    run.signal("s", "4");
    assert_eq!(run.wake.signals_waiting, 1);
    run.take(EventKind::Migrated);
    assert_eq!(run.commands, []);
    run.signal("t", "5");
    run.task("task-1", "null");
    assert_eq!(run.result(), "[1,2,9,4,5]");
    // Without another one.
    let mut run = Run::start(old, "1");
    run.signal("t", "2");
    run.signal("s", "1");
    run.migrate(&new).unwrap();
    run.take(EventKind::Migrated);
    run.task("task-1", "null");
    assert_eq!(run.result(), "[2,1]");
}

#[test]
fn conditions_are_looked_at_in_the_new_version() {
    let old =
        "workflow order(a) {\n  function enough() { return a > 5 }\n  await wait_until(() => enough())\n  return a\n}";
    let mut run = Run::start(old, "3");
    run.migrate(&old.replace("a > 5", "a > 2")).unwrap();
    assert_eq!(run.commands, []);
    run.take(EventKind::Migrated);
    assert_eq!(run.result(), "3");
}

#[test]
fn what_has_no_place_is_refused() {
    let old = "async function f(x) { await Task.run('f', x) }\nworkflow order(a) {\n  f(a)\n  await wait_until(() => a == 2)\n}";
    let mut run = Run::start(old, "1");
    let new = "workflow order(a) {\n  await wait_until(() => a == 3)\n}";
    let version = segno_flow::version(new.as_bytes());
    let line = |what: &str| format!("{what}: the waiting statement is not in version {}", &version[..12]);
    let error = run.migrate(new).unwrap_err();
    assert_eq!(
        error,
        MigrateError::NoPlace(vec![line("order (line 4)"), line("f (line 1)"), line("(arrow) (line 4)")])
    );
    assert_eq!(error.to_string().lines().count(), 3);
    let code = compiled(new);
    let new = ScriptVersion { code: &code, source: new.as_bytes() };
    let old = ScriptVersion { code: &run.code, source: old.as_bytes() };
    assert!(matches!(migrate(old, new, b"junk", &[], &Limits::default()), Err(MigrateError::DamagedState(_))));
    assert!(matches!(migrate(new, new, &run.state, &[], &Limits::default()), Err(MigrateError::DamagedState(_))));
}

/// What may happen next to a run.
fn next_event(run: &Run, step: usize) -> Option<EventKind> {
    let operations = &run.wake.operations;
    if let Some(operation) = operations.get(step * 7 % operations.len().max(1)) {
        let id = operation.id.clone();
        let end = if step % 5 == 4 {
            Err(Failure { message: "no".into(), ..Failure::default() })
        } else {
            Ok(vec![json(&(step % 4).to_string())])
        };
        return Some(match operation.kind {
            OperationKind::Task => EventKind::TaskEnded { id, end },
            OperationKind::Timer => EventKind::TimerFired { id },
            OperationKind::Child => EventKind::ChildEnded { workflow_id: id, end },
            OperationKind::Send => EventKind::SendEnded { id, failed: None },
            OperationKind::Nexus => EventKind::NexusEnded { id, end },
        });
    }
    let name = run.wake.signals.first()?.clone();
    Some(EventKind::Signaled { name, input: vec![json("\"stop\"")] })
}

#[test]
fn examples_go_on_in_their_formatted_version() {
    let moved = std::cell::Cell::new(0);
    for (name, source) in crate::format::examples() {
        if name.ends_with("_test.flow") {
            continue;
        }
        let formatted = segno_flow::format(&source).unwrap();
        let inputs = "{\"id\":1,\"items\":[],\"address\":\"x\",\"a\":{},\"user\":{},\"n\":0}";
        let drive = |moves: bool| {
            let mut run = Run::start(&source, inputs);
            let mut all = format!("{:?}", run.commands);
            for step in 0..60 {
                if run.commands.iter().any(Command::closes) {
                    break;
                }
                if moves {
                    let result = run.migrate(if step % 2 == 0 { &formatted } else { &source });
                    result.unwrap_or_else(|error| panic!("{name}: {error}"));
                    moved.set(moved.get() + 1);
                }
                let Some(event) = next_event(&run, step) else { break };
                run.take(event);
                // Stacks have other lines there.
                all += &format!("{:?}", run.commands).replace("w (order.flow", "");
            }
            let stack = |text: &str| {
                text.split("stack_trace")
                    .map(|part| part[part.find(", cause").unwrap_or(0)..].to_owned())
                    .collect::<String>()
            };
            stack(&all)
        };
        assert_eq!(drive(true), drive(false), "{name}");
    }
    assert!(moved.get() > 50, "{}", moved.get());
}
