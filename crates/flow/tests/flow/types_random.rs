//! Random scripts: a place that is refused for its type fails whenever it is reached.
//!
//! Each script is cut into parts, and each part stands on lines of its own between a call of `hit` and one of `done`. A part in
//! which an error was reported must never come to its `done`, in any code around it.
//!
//! `FLOW_TYPES_RUNS` says how many scripts to try (400 if not set), `FLOW_TYPES_SEED` where to begin.

use std::collections::BTreeSet;

use segno_flow::types;

use crate::dice::{Dice, from_environment};
use crate::machine::Run;

const VARIABLES: &[&str] = &["a", "b", "c", "d", "e", "LIMIT", "OPTIONS", "element"];

struct Writer<'a> {
    dice: &'a mut Dice,
    text: String,
    /// The part to which each line belongs.
    lines: Vec<usize>,
    parts: usize,
    /// Statements that may still be written.
    budget: u32,
    loops: u32,
}

impl Writer<'_> {
    fn push(&mut self, text: &str) {
        self.text.push_str(text);
    }

    fn newline(&mut self, part: usize) {
        self.text.push('\n');
        self.lines.push(part);
    }

    fn new_part(&mut self) -> usize {
        self.parts += 1;
        self.parts
    }

    /// A line that belongs to no part.
    fn line(&mut self, text: &str) {
        self.push(text);
        self.newline(0);
    }

    /// An expression that may be skipped: a part of its own inside of another.
    fn skipped(&mut self, outer: usize, depth: u32) {
        let part = self.new_part();
        self.push(&format!("[hit({part}),"));
        self.newline(part);
        self.expr(part, depth);
        self.newline(outer);
        self.push(&format!(", done({part})][1]"));
    }

    fn variable(&mut self) -> &'static str {
        self.dice.pick(VARIABLES)
    }

    fn literal(&mut self) {
        let literal = self.dice.pick(&[
            "null",
            "true",
            "false",
            "1",
            "2.5",
            "\"a\"",
            "\"\"",
            "[]",
            "[1, 2]",
            "[\"a\", null]",
            "{}",
            "{ a: 1 }",
            "{ a: null, b: \"x\" }",
            "{ a: { b: [1] } }",
            "inputs.n",
            "inputs.none ?? null",
            "inputs.list",
        ]);
        self.push(literal);
    }

    /// An expression of this part, on its lines.
    fn expr(&mut self, part: usize, depth: u32) {
        if depth == 0 {
            if self.dice.chance(60) {
                let name = self.variable();
                self.push(name);
            } else {
                self.literal();
            }
            return;
        }
        match self.dice.below(20) {
            0 | 1 => self.literal(),
            2 | 3 => {
                let name = self.variable();
                self.push(name);
            }
            4..=6 => {
                let operator = self.dice.pick(&["+", "-", "*", "<", ">=", "==", "!=", "in"]);
                self.push("(");
                self.expr(part, depth - 1);
                self.push(&format!(" {operator} "));
                self.expr(part, depth - 1);
                self.push(")");
            }
            7 => {
                let operator = self.dice.pick(&["&&", "||", "??"]);
                self.push("(");
                self.condition(part, depth - 1);
                self.push(&format!(" {operator} "));
                self.skipped(part, depth - 1);
                self.push(")");
            }
            8 => {
                self.push("(");
                self.condition(part, depth - 1);
                self.push(" ? ");
                self.skipped(part, depth - 1);
                self.push(" : ");
                self.skipped(part, depth - 1);
                self.push(")");
            }
            9 => {
                let operator = self.dice.pick(&["!", "-", "typeof "]);
                self.push(operator);
                self.push("(");
                self.expr(part, depth - 1);
                self.push(")");
            }
            10 | 11 => {
                let name = self.variable();
                let access = self.dice.pick(&[".a", ".b", ".length", "?.a", "[0]", "[\"a\"]", ".a.b", "?.[0]"]);
                self.push(&format!("{name}{access}"));
            }
            12 => {
                let name = self.variable();
                let call = self.dice.pick(&[
                    ".trim()",
                    ".join()",
                    ".slice(1)",
                    ".at(0)",
                    ".toFixed(1)",
                    ".reverse()",
                    ".includes(\"a\")",
                    "?.trim()",
                    ".concat([1])",
                ]);
                self.push(&format!("{name}{call}"));
            }
            13 => {
                let function = self.dice.pick(&[
                    "Math.abs",
                    "String",
                    "Object.keys",
                    "JSON.stringify",
                    "List.range",
                    "Object.values",
                    "Math.max",
                ]);
                self.push(&format!("{function}("));
                self.expr(part, depth - 1);
                self.push(")");
            }
            14 => {
                let name = self.variable();
                let method = self.dice.pick(&["map", "flatMap"]);
                self.push(&format!("{name}.{method}(element => "));
                self.skipped(part, depth - 1);
                self.push(")");
            }
            15 => {
                self.push("[1, \"a\"].filter(element => ");
                self.expr(part, 0);
                self.push(")");
            }
            16 => {
                self.push("[");
                self.expr(part, depth - 1);
                self.push(", ...");
                self.expr(part, 0);
                self.push("]");
            }
            17 => {
                self.push("{ b: ");
                self.expr(part, depth - 1);
                self.push(", ...");
                self.expr(part, 0);
                self.push(" }");
            }
            18 => {
                self.push("`${");
                self.expr(part, depth - 1);
                self.push("}`");
            }
            _ => {
                self.push("(");
                self.condition(part, depth - 1);
                self.push(")");
            }
        }
    }

    /// An expression that is often a test of a variable.
    fn condition(&mut self, part: usize, depth: u32) {
        let name = self.variable();
        let test = self.dice.pick(&[
            "typeof X == \"number\"",
            "typeof X != \"string\"",
            "typeof X == \"object\"",
            "\"list\" === typeof X",
            "X == null",
            "null != X",
            "X",
            "!X",
            "X == 1",
            "X == \"a\"",
            "X.a != null",
            "X?.a",
            "X?.a == null",
            "\"a\" in X",
            "X == true",
            "(X != null && typeof X != \"list\")",
            "(typeof X == \"number\" || X == null)",
            "inputs.flag",
            "OPTIONS.limit",
            "OPTIONS.limit != null",
        ]);
        if self.dice.chance(75) {
            self.push(&test.replace('X', name));
        } else {
            self.expr(part, depth);
        }
    }

    fn block(&mut self, statements: u64) {
        for _ in 0..=statements {
            if self.budget > 0 {
                self.budget -= 1;
                self.statement();
            }
        }
    }

    fn statement(&mut self) {
        let part = self.new_part();
        let count = self.dice.below(3);
        self.line(&format!("hit({part})"));
        // What follows stands on a line of its own part.
        if let Some(line) = self.lines.last_mut() {
            *line = part;
        }
        match self.dice.below(16) {
            0..=4 => {
                let name = self.dice.pick(&["a", "b", "c", "d", "e"]);
                let assign = self.dice.pick(&["=", "=", "=", "=", "+=", "??="]);
                self.push(&format!("{name} {assign} "));
                if assign == "??=" {
                    self.skipped(part, 2)
                } else {
                    self.expr(part, 3)
                }
                self.newline(0);
                self.line(&format!("done({part})"));
            }
            5 => {
                self.push("log(String(");
                self.expr(part, 3);
                self.push("))");
                self.newline(0);
                self.line(&format!("done({part})"));
            }
            6 => {
                let name = self.dice.pick(&["a", "b", "c", "d"]);
                let change = self.dice.pick(&[
                    "X.push(1)",
                    "X.a = \"x\"",
                    "X[\"b\"] = [1]",
                    "delete X.a",
                    "X.a += 1",
                    "X.pop()",
                ]);
                self.push(&change.replace('X', name));
                self.newline(0);
                self.line(&format!("done({part})"));
            }
            7..=9 => {
                self.push("if (");
                self.condition(part, 2);
                self.push(") {");
                self.newline(0);
                self.line(&format!("done({part})"));
                self.block(count);
                self.line("} else {");
                self.line(&format!("done({part})"));
                self.block(count);
                self.leave_loop();
                self.line("}");
            }
            10 => {
                self.push("for (const element of ");
                self.expr(part, 1);
                self.push(") {");
                self.newline(0);
                self.line(&format!("done({part})"));
                self.loops += 1;
                self.block(count);
                self.loops -= 1;
                self.line("}");
            }
            11 => {
                self.line("for (let i = 0; i < 3; i++) {");
                self.loops += 1;
                self.block(count + 1);
                self.loops -= 1;
                self.line("}");
            }
            12 => {
                let name = self.variable();
                self.line(&format!("switch (typeof {name}) {{"));
                self.line("case \"number\": case \"null\":");
                self.block(count);
                self.line("case \"string\":");
                self.block(count);
                self.line("default:");
                self.block(count);
                self.line("}");
            }
            13 => {
                self.line("try {");
                self.block(count);
                self.line("} catch (element) {");
                self.block(count);
                self.line("} finally {");
                self.block(0);
                self.line("}");
            }
            14 => {
                self.push("{ const { a: element, b = 1, ...rest } = ");
                self.expr(part, 1);
                self.newline(0);
                self.line(&format!("done({part})"));
                self.line("log(`${typeof element} ${typeof b} ${typeof rest}`) }");
            }
            _ => {
                let call = self.dice.pick(&["set(1)", "set(\"x\")", "set(null)", "set([1])"]);
                self.line(call);
            }
        }
    }

    fn leave_loop(&mut self) {
        if self.loops > 0 && self.dice.chance(30) {
            let word = self.dice.pick(&["break", "continue"]);
            let flag = self.dice.chance(50);
            self.line(&format!("if (inputs.flag == {flag}) {word}"));
        }
    }
}

/// A random script, and the part to which each of its lines belongs.
fn script(dice: &mut Dice) -> (String, Vec<usize>) {
    let mut writer = Writer { dice, text: String::new(), lines: vec![0], parts: 0, budget: 14, loops: 0 };
    writer.line("const LIMIT = null");
    writer.line("const OPTIONS = { limit: null, a: 1 }");
    writer.line("workflow w(inputs) {");
    writer.line("let seen = [], ended = [], element = 1, d = 1");
    writer.line("function hit(n) { seen.push(n) }");
    writer.line("function done(n) { ended.push(n) }");
    writer.line("function set(x) { d = x }");
    for name in ["a", "b", "c", "e"] {
        writer.push(&format!("let {name} = "));
        writer.literal();
        writer.newline(0);
    }
    writer.line("try {");
    writer.block(5);
    writer.line("} catch { seen.push(0) }");
    writer.line("return [seen, ended, a, b, c, d, e, element]");
    writer.line("}");
    (writer.text, writer.lines)
}

/// The numbers in the lists of a result: `[[1,2],[1]…`.
fn numbers(result: &str) -> Option<(BTreeSet<usize>, BTreeSet<usize>)> {
    let mut lists = result.strip_prefix("complete [[")?.splitn(3, ']');
    let mut next = || -> Option<BTreeSet<usize>> {
        let list = lists.next()?.trim_start_matches([',', '[']);
        Some(list.split(',').filter_map(|number| number.parse().ok()).collect())
    };
    Some((next()?, next()?))
}

#[test]
fn what_is_refused_never_works() {
    let runs = from_environment("FLOW_TYPES_RUNS", 400);
    let first = from_environment("FLOW_TYPES_SEED", 1);
    let (mut ran, mut reached, mut refused) = (0, 0, 0);
    for seed in first..first + runs {
        let mut dice = Dice(seed);
        let (source, lines) = script(&mut dice);
        let plain = segno_flow::check(source.as_bytes());
        if plain.program.is_none() {
            continue;
        }
        // Without the `try` around it all, in which nothing would be refused.
        let uncaught = source.replacen("\ntry {\n", "\n{\n", 1).replace("} catch { seen.push(0) }", "}");
        let checked = types::check(uncaught.as_bytes());
        let errors: Vec<_> = checked.diagnostics.iter().filter(|one| one.code < "F0900").collect();
        refused += usize::from(!errors.is_empty());
        for input in [
            "{\"n\":1,\"list\":[1,\"a\"],\"flag\":true}",
            "{\"n\":\"x\",\"list\":[],\"flag\":false}",
            "{\"n\":null,\"list\":[{\"a\":1}],\"flag\":null}",
        ] {
            let commands = Run::untyped(&source).begin(&[input]);
            let Some((seen, ended)) = commands.last().and_then(|last| numbers(last)) else { continue };
            ran += 1;
            for error in &errors {
                let part = lines[error.start.line as usize - 1];
                assert_ne!(part, 0, "seed {seed}: {error:?}\n{source}");
                reached += usize::from(seen.contains(&part));
                assert!(!ended.contains(&part), "seed {seed}: {error:?} works with {input}\n{source}");
            }
        }
    }
    println!("{ran} runs, {refused} scripts refused, {reached} refused places reached");
    assert!(ran as u64 > runs && refused as u64 > runs / 4 && reached as u64 > runs / 4, "{ran} {refused} {reached}");
}
