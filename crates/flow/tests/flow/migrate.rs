//! Finding the place of a waiting frame in another version (7.4).

use segno_flow::diagnostic::Position;
use segno_flow::migrate::{WaitingFrame, places};

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
