//! What must hold for every script (section 6.4 of the reference), over random scripts with random tasks, signals,
//! updates and cancellations: how events are grouped into turns does not matter, nor whether the state is saved between
//! them, and the events of history explain the state. The test host checks these after each test; here are only the
//! scripts.
//!
//! `FLOW_PROPERTY_RUNS` says how many scripts to try (300 if not set), `FLOW_PROPERTY_SEED` where to begin. A failure
//! names its seed; `FLOW_PROPERTY_PRINT` prints each script before it runs.

use std::fmt::Write as _;

use segno_flow::host::run_tests;

use crate::dice::{Dice, from_environment};

/// Writes a random script and a test that does random things to it.
struct Writer<'a> {
    dice: &'a mut Dice,
    text: String,
    level: usize,
    /// Promise variables that are visible.
    promises: Vec<String>,
    names: u32,
    /// Statements that may still be written.
    budget: u32,
    /// Whether this is the body of `work`.
    in_work: bool,
}

impl Writer<'_> {
    fn line(&mut self, text: &str) {
        let _ = writeln!(self.text, "{:1$}{text}", "", self.level * 2);
    }

    fn name(&mut self) -> String {
        self.names += 1;
        format!("v{}", self.names)
    }

    fn number(&mut self) -> u64 {
        self.dice.below(4)
    }

    fn options(&mut self) -> String {
        let mut options = Vec::new();
        if self.dice.chance(60) {
            options.push(format!("retry: {}", self.dice.pick(&["false", "2", "{ max_attempts: 3, backoff: 1 }"])));
        } else {
            options.push("retry: 4".to_owned());
        }
        if self.dice.chance(30) {
            options.push(format!("on_cancel: \"{}\"", self.dice.pick(&["try", "wait", "ignore"])));
        }
        if self.dice.chance(20) {
            options.push(format!("start_to_close: {}", 1 + self.number()));
        }
        if self.dice.chance(10) {
            options.push(format!("schedule_to_close: {}", 1 + self.number()));
        }
        format!("{{ {} }}", options.join(", "))
    }

    fn nexus_options(&mut self) -> String {
        let mut options = Vec::new();
        if self.dice.chance(30) {
            options.push(format!("on_cancel: \"{}\"", self.dice.pick(&["try", "wait", "ignore"])));
        }
        if self.dice.chance(30) {
            let timeout = self.dice.pick(&["start_to_close", "schedule_to_close"]);
            options.push(format!("{timeout}: {}", 1 + self.number()));
        }
        format!("{{ {} }}", options.join(", "))
    }

    /// A call of the script's async function; inside of that itself, which would never end, something else.
    fn work(&mut self) -> String {
        let number = self.number();
        if self.in_work { format!("Task.delay({number})") } else { format!("work({number})") }
    }

    /// An expression that gives a promise.
    fn promise(&mut self, depth: u32) -> String {
        let kinds = if depth == 0 { 6 } else { 14 };
        match self.dice.below(kinds) {
            0 if self.dice.chance(30) => {
                let (operation, input) = (self.dice.pick(&["now", "later", "refused"]), self.number());
                format!("Nexus.call(\"e\", \"s\", \"{operation}\", {input}, {})", self.nexus_options())
            }
            0 | 1 => {
                let (task, input) = (self.dice.pick(&["quick", "slow", "flaky", "bad"]), self.number());
                format!("Task.run(\"{task}\", {input}, {})", self.options())
            }
            2 => format!("Task.delay({})", self.number()),
            3 => {
                let signal = self.dice.pick(&["a", "b"]);
                format!("wait_for_signal(\"{signal}\", {{ timeout: {} }})", self.number())
            }
            4 => format!("wait_until(() => count >= {}, {})", self.number(), 1 + self.number()),
            5 => match self.promises.len() {
                0 => self.work(),
                count => self.promises[self.dice.below(count as u64) as usize].clone(),
            },
            6 => self.work(),
            7 => format!("Task.timeout({}, {})", self.promise(depth - 1), self.number()),
            8 => {
                let list = (0..2 + self.number()).map(|n| n.to_string()).collect::<Vec<_>>().join(", ");
                let inner = self.promise(0);
                let concurrency = 1 + self.number();
                format!(
                    "Task.map([{list}], async x => {{ await {inner}; return x }}, {{ concurrency: {concurrency} }})"
                )
            }
            9 => match self.number() {
                0 => format!("Workflow.start(\"child\", {}, {{ parent_close: \"cancel\" }})", self.number()),
                1 => "Workflow.signal(\"nobody\", \"s\", 1)".to_owned(),
                _ => format!("Workflow.run(\"child\", {})", self.number()),
            },
            10 => {
                let (inner, combination) = (self.promise(0), self.dice.pick(&["all", "settle", "race"]));
                format!("Task.{combination}([1, 2].map(async y => {{ await {inner}; count += y; return y }}))")
            }
            _ => {
                let combination = self.dice.pick(&["all", "any", "race", "settle"]);
                let items: Vec<String> = (0..1 + self.number()).map(|_| self.promise(depth - 1)).collect();
                let cancel = matches!(combination, "any" | "race") && self.dice.chance(30);
                let options = if cancel { ", { cancel: true }" } else { "" };
                if self.dice.chance(25) {
                    let fields: Vec<String> =
                        items.iter().enumerate().map(|(place, item)| format!("k{place}: {item}")).collect();
                    format!("Task.{combination}({{ {} }}{options})", fields.join(", "))
                } else {
                    format!("Task.{combination}([{}]{options})", items.join(", "))
                }
            }
        }
    }

    fn block(&mut self, statements: u64) {
        self.level += 1;
        let promises = self.promises.len();
        for _ in 0..=statements {
            if self.budget > 0 {
                self.budget -= 1;
                self.statement();
            }
        }
        self.promises.truncate(promises);
        self.level -= 1;
    }

    fn statement(&mut self) {
        match self.dice.below(if self.level > 4 { 9 } else { 21 }) {
            0 | 1 => {
                let promise = self.promise(2);
                self.line(&format!("note(await {promise})"));
            }
            2 | 3 => {
                let (name, promise) = (self.name(), self.promise(2));
                self.line(&format!("const {name} = {promise}"));
                self.line(&format!("note({name}.id)"));
                self.promises.push(name);
            }
            4 => {
                let promise = self.promise(1);
                self.line(&format!("await {promise}"));
            }
            5 if !self.promises.is_empty() => {
                let promise = self.promises[self.dice.below(self.promises.len() as u64) as usize].clone();
                self.line(&format!("Task.cancel({promise})"));
            }
            5 | 6 => self.line("count++"),
            7 => self.line("log(`count is ${count}`, [count])"),
            8 => {
                let promise = self.promise(1);
                self.line(&format!("trace.push(`${{typeof await {promise}}} ${{Time.now().slice(17)}}`)"));
            }
            9 | 10 => {
                self.line("try {");
                let count = self.number();
                self.block(count);
                self.line("} catch (e) {");
                self.level += 1;
                self.line("note(e.type)");
                self.level -= 1;
                self.block(0);
                if self.dice.chance(40) {
                    self.line("} finally {");
                    self.level += 1;
                    self.line("note(\"finally\")");
                    self.level -= 1;
                    self.block(0);
                }
                self.line("}");
            }
            11 => {
                let name = self.name();
                let rounds = self.number();
                self.line(&format!("for (const {name} of List.range({rounds})) {{"));
                self.level += 1;
                self.line(&format!("note({name})"));
                self.level -= 1;
                self.block(1);
                self.line("}");
            }
            12 => {
                let bound = self.number();
                self.line(&format!("if (count < {bound}) {{"));
                self.block(1);
                self.line("} else {");
                self.level += 1;
                self.line("note(\"else\")");
                self.level -= 1;
                self.block(0);
                self.line("}");
            }
            13 => {
                let number = self.number();
                let chance = self.dice.chance(50);
                self.line(&format!("if (count == {number} && {chance}) throw Error(\"thrown\", {{ type: \"Own\" }})"));
            }
            16 => {
                // A variable that changes what it holds: what no code can reach is withdrawn.
                let (name, first, second) = (self.name(), self.promise(1), self.promise(1));
                self.line(&format!("let {name} = {first}"));
                self.line(&format!("note({name}.id)"));
                self.block(0);
                self.line(&format!("{name} = {second}"));
                self.line(&format!("note({name}.id)"));
                self.promises.push(name);
            }
            17 => {
                // Promises in a list.
                let (name, promise) = (self.name(), self.promise(1));
                self.line(&format!("let {name} = []"));
                self.line(&format!("for (const x of List.range(3)) {name}.push({promise})"));
                self.block(0);
                self.line(&format!("note(await Task.settle({name}))"));
            }
            18 => {
                let (name, promise, bound) = (self.name(), self.promise(1), 1 + self.number());
                self.line(&format!("let {name} = 0"));
                self.line(&format!("while ({name} < {bound}) {{"));
                self.line(&format!("  {name}++"));
                self.line(&format!("  if ({name} == 2) continue"));
                self.line(&format!("  note(typeof await {promise})"));
                self.line("}");
            }
            19 => {
                let promise = self.promise(1);
                self.line("switch (count % 3) {");
                self.line(&format!("  case 0: case 1: note(await {promise})"));
                self.line("  default: count++");
                self.line("}");
            }
            14 => {
                let number = self.number();
                self.line(&format!("Workflow.setMemo({{ k{number}: count }})"));
            }
            _ => {
                let (task, input) = (self.dice.pick(&["quick", "slow"]), self.number());
                self.line(&format!("Task.run(\"{task}\", {input})"));
            }
        }
    }
}

/// A random script.
pub fn script(dice: &mut Dice) -> String {
    let mut writer =
        Writer { dice, text: String::new(), level: 0, promises: Vec::new(), names: 0, budget: 24, in_work: true };
    writer.line("workflow w(round = 0) {");
    writer.level += 1;
    writer.line("let count = 0, trace = []");
    writer.line("function note(x) { trace.push(typeof x == \"object\" ? JSON.stringify(Object.omit(x, [\"stack\"])).length : x) }");
    writer.line("async function work(n) {");
    writer.level += 1;
    writer.line("if (n > 0) await work(n - 1)");
    writer.level -= 1;
    let statements = writer.number();
    writer.block(statements);
    writer.line("  return n");
    writer.line("}");
    writer.in_work = false;
    writer.line("query all() { return [count, trace] }");
    if writer.dice.chance(70) {
        writer.line("signal inc(n) {");
        writer.line("  count += n");
        writer.block(0);
        writer.line("}");
    } else {
        writer.line("signal inc(n) { count += n }");
    }
    writer.line("update set(n) {");
    writer.line("  validate { if (n == 3) throw Error(\"not three\") }");
    writer.line("  count = n");
    writer.block(1);
    writer.line("  return count");
    writer.line("}");
    writer.level -= 1;
    writer.budget = writer.budget.max(8);
    let statements = 4 + writer.number();
    writer.block(statements);
    if writer.dice.chance(20) {
        writer.line("  if (round < 2) return Workflow.continueAsNew(round + 1)");
    }
    writer.line("  return [count, trace]");
    writer.line("}");
    writer.text
}

fn test_of(dice: &mut Dice) -> String {
    let mut text = String::from("use \"w.flow\"\nuse \"child.flow\"\n\ntest \"random\" {\n");
    text.push_str("  let n = 0\n");
    let _ = writeln!(text, "  mock(\"quick\", x => x)");
    let _ = writeln!(text, "  mock(\"slow\", async x => {{ await Task.delay(x); return [x] }})");
    let _ = writeln!(
        text,
        "  mock(\"flaky\", async x => {{ n++; await Task.delay(x); if (n % 2 == 0) throw Error(\"flaky\", {{ type: \"Flaky\" }}); return {{ x }} }})"
    );
    let _ = writeln!(
        text,
        "  mock(\"bad\", async x => {{ await Task.delay(x); throw Error(\"bad\", {{ retryable: false }}) }})"
    );
    let _ = writeln!(text, "  mockNexus(\"s.now\", x => x)");
    let _ = writeln!(text, "  mockNexus(\"s.later\", async x => {{ await Task.delay(x); return [x] }})");
    let _ = writeln!(
        text,
        "  mockNexus(\"s.refused\", async x => {{ await Task.delay(x); throw Error(\"no\", {{ type: \"Refused\" }}) }})"
    );
    text.push_str("  Test.start()\n");
    for _ in 0..dice.below(16) {
        if dice.chance(45) {
            let _ = writeln!(text, "  await Task.delay({})", dice.below(3));
        }
        let number = dice.below(4);
        let action = match dice.below(9) {
            0..=2 => format!("Test.signal(\"{}\", {number})", dice.pick(&["a", "b", "c"])),
            3 | 4 => format!("Test.signal(\"inc\", {number})"),
            5 | 6 => format!("update({number})"),
            7 if dice.chance(50) => "Test.cancel(\"why\")".to_owned(),
            _ => "assert(Test.query(\"all\").length == 2)".to_owned(),
        };
        let _ = writeln!(text, "  if (Test.status() == \"RUNNING\") {action}");
    }
    text.push_str("  await Task.race([result(), Task.delay(\"1h\")])\n}\n");
    text.push_str("async function result() { try { await Test.result() } catch { return null } }\n");
    text.push_str("async function update(n) { try { await Test.update(\"set\", n) } catch { return null } }\n");
    text
}

const CHILD: &str =
    "workflow child(n) { await Task.delay(n); if (n == 3) throw Error(\"three\", { type: \"Three\" }); return n }";

#[test]
fn grouping_and_saving_do_not_matter() {
    let runs = from_environment("FLOW_PROPERTY_RUNS", 300);
    let first = from_environment("FLOW_PROPERTY_SEED", 1);
    let (mut passed, mut failed) = (0, Vec::new());
    for seed in first..first + runs {
        let mut dice = Dice(seed);
        let (script, test) = (script(&mut dice), test_of(&mut dice));
        if std::env::var_os("FLOW_PROPERTY_PRINT").is_some() {
            println!("{script}\n{test}");
        }
        let mut load = |path: &str| match path {
            "w.flow" => Ok(script.clone().into_bytes()),
            "child.flow" => Ok(CHILD.as_bytes().to_vec()),
            _ => Err("no such file".to_owned()),
        };
        let report = run_tests(test.as_bytes(), "w_test.flow", &mut load, "");
        if report.is_success() {
            passed += 1;
        } else {
            failed.push(format!("seed {seed}:\n{}\n{script}\n{test}", report.text()));
        }
    }
    assert!(failed.is_empty(), "{passed} passed, {} failed\n{}", failed.len(), failed[0]);
}
