//! Syntax and checks: every code of section 8.1 and every row of example 36 of the reference.

use segno_flow::diagnostic::{Diagnostic, Severity};
use segno_flow::{CheckOutput, check, check_test, render};

fn show(diagnostic: &Diagnostic) -> String {
    format!("{}:{} {}", diagnostic.start.line, diagnostic.start.column, diagnostic.code)
}

fn shown(checked: &CheckOutput) -> Vec<String> {
    checked.diagnostics.iter().map(show).collect()
}

/// The diagnostics of a statement on line 2 of a workflow.
fn statement(statement: &str) -> Vec<String> {
    let source = format!("workflow w(inputs) {{\n  {statement}\n}}");
    shown(&check(source.as_bytes()))
}

fn errors(source: &str) -> Vec<String> {
    let checked = check(source.as_bytes());
    checked.diagnostics.iter().filter(|found| found.severity == Severity::Error).map(show).collect()
}

fn only(source: &str) -> Diagnostic {
    let checked = check(source.as_bytes());
    assert_eq!(checked.diagnostics.len(), 1, "{source}\n{:#?}", checked.diagnostics);
    checked.diagnostics[0].clone()
}

fn only_of(line: &str) -> Diagnostic {
    only(&format!("workflow w(inputs) {{\n  {line}\n}}"))
}

#[test]
fn example_36() {
    for (line, expected) in [
        ("return reslt", "2:10 F0201"),
        ("var x = 1", "2:3 F0105"),
        ("const a = [] a.push(1)", "2:16 F0101"),
        ("if (inputs = 1) return", "2:14 F0101"),
        ("Task.run(\"x\", 1, { que: \"q\" })", "2:22 F0208"),
        ("Task.delay(\"5 min\")", "2:14 F0222"),
        ("return\n  1", "3:3 F0215"),
        ("Workflow.continueAsNew(1)", "2:3 F0217"),
        ("if (inputs.a < 1 < 2) return", "2:20 F0101"),
        ("inputs.n = 1", "2:3 F0210"),
        ("const f = x => x", "2:13 F0107"),
        ("[1].push(2)", "2:3 F0211"),
        ("const n = inputs.x || \"a\"", "2:25 F0218"),
        ("inputs.list.sort()", "2:3 F0216"),
        ("query q() { Task.run(\"x\") }", "2:15 F0212"),
        ("1 + 1", "2:3 F0109"),
        ("for (const k in inputs) {}", "2:16 F0101"),
        ("function f() { await Task.delay(1) }", "2:18 F0106"),
    ] {
        assert_eq!(statement(line), [expected], "{line}");
    }
    assert_eq!(only_of("if (inputs = 1) return").hint.as_deref(), Some("== compares"));
    let hint = only_of("for (const k in inputs) {}").hint.unwrap();
    assert!(hint.contains("for … of Object.keys(…)"), "{hint}");
}

#[test]
fn lexical_errors() {
    for (line, expected, message) in [
        ("return #", "2:10 F0001", "unexpected character \"#\""),
        ("return inputs & 1", "2:17 F0001", "unexpected character \"&\""),
        ("return \"abc", "2:10 F0002", "text is not closed"),
        ("return 'abc", "2:10 F0002", "text is not closed"),
        ("return `abc ${1}", "2:18 F0002", "text is not closed"),
        ("return 1 /* abc", "2:12 F0003", "comment is not closed"),
        ("return \"a\\qb\"", "2:12 F0004", "unknown escape \"\\q\""),
        ("return \"\\ud800\"", "2:11 F0004", "unknown escape \"\\u\""),
        ("return 007", "2:10 F0005", "not a number, or out of range"),
        ("return .5", "2:10 F0005", "not a number, or out of range"),
        ("return 5.", "2:10 F0005", "not a number, or out of range"),
        ("return 9223372036854775808", "2:10 F0005", "not a number, or out of range"),
    ] {
        let found = only_of(line);
        assert_eq!((show(&found).as_str(), found.message.as_str()), (expected, message), "{line}");
    }
    let refused = |source: &[u8]| {
        let checked = check(source);
        (shown(&checked), checked.diagnostics[0].message.clone())
    };
    let not_text = "source is not UTF-8, or contains NUL".to_owned();
    assert_eq!(refused(b"workflow w() {\n\0}"), (vec!["2:1 F0006".to_owned()], not_text.clone()));
    assert_eq!(refused(b"workflow w() {\n \xFF}"), (vec!["2:2 F0006".to_owned()], not_text));
    let long = format!("workflow w() {{}}{}", " ".repeat(262_144));
    let over = "source is over 262144 bytes".to_owned();
    assert_eq!(refused(long.as_bytes()), (vec!["1:1 F0007".to_owned()], over));
}

#[test]
fn nesting_is_limited_to_100() {
    let nested = |open: &str, close: &str, depth: usize| {
        errors(&format!("workflow w() {{\nreturn {}1{}\n}}", open.repeat(depth), close.repeat(depth)))
    };
    // The block of the workflow is the first.
    for (open, close) in [("(", ")"), ("[", "]"), ("{ a: ", " }"), ("`${", "}`")] {
        assert_eq!(nested(open, close, 99), [""; 0], "{open}");
        let found = nested(open, close, 100);
        assert_eq!(found.len(), 1, "{open} {found:?}");
        assert!(found[0].ends_with("F0008"), "{found:?}");
    }
    let blocks = |depth: usize| errors(&format!("workflow w() {{ {}{} }}", "{".repeat(depth), "}".repeat(depth)));
    assert_eq!(blocks(99), [""; 0]);
    assert_eq!(blocks(100), ["1:115 F0008"]);
    for chain in ["!".repeat(100_000), "-".repeat(100_000), "true ? ".repeat(20_000)] {
        let source = format!("workflow w() {{\nreturn {chain}1\n}}");
        assert_eq!(errors(&source).len(), 1);
        assert!(errors(&source)[0].contains("F0008") || errors(&source)[0].contains("F0101"));
    }
    let ifs = format!("workflow w(a) {{\n{} return\n}}", "if (a) ".repeat(30_000));
    assert!(errors(&ifs)[0].ends_with("F0008"));
}

#[test]
fn what_stands_in_a_row_is_not_nested() {
    let returned = |first: &str, link: &str, count: usize, last: &str| {
        format!("workflow w(a) {{\n  return {first}{}{last}\n}}\n", link.repeat(count))
    };
    for (source, expected) in [
        (returned("", "a ? 1 : ", 8_000, "2"), None),
        (returned("", "(a) ? [1, 2] : ", 6_000, "2"), None),
        (returned("a", ".b", 100_000, ""), None),
        (returned("a", "?.b", 60_000, ""), None),
        (returned("a", "[0]", 60_000, ""), None),
        (returned("a", "?.[a.b]", 30_000, " ?? 1"), None),
        (returned("a", ".trim()", 15_000, ""), None),
        (returned("a", ".map(x => x)", 8_000, ".length"), None),
        (format!("workflow w(a) {{\n  {}log(3)\n}}\n", "if (a) { log(1) } else ".repeat(6_000)), None),
        (format!("workflow w(a) {{\n  {}log(3)\n}}\n", "if (a) log(1)\nelse ".repeat(8_000)), None),
        // One error, not one that follows from another.
        (returned("a", ".foo()", 15_000, ""), Some("2:12 F0207")),
        (returned("a.trim", "()", 60_000, ""), Some("2:10 F0107")),
        (returned("a.trim()", ".push(1)", 10_000, ""), Some("2:10 F0211")),
        (returned("b", ".c[0].trim()", 8_000, ""), Some("2:10 F0201")),
        (returned("", "a ? \"x\" : ", 8_000, "b"), Some("2:80010 F0201")),
    ] {
        let start = &source[..source.len().min(60)];
        assert_eq!(errors(&source), expected.into_iter().collect::<Vec<_>>(), "{start}");
        let formatted = segno_flow::format(&source).expect("it can be parsed");
        assert!(segno_flow::format(&formatted).as_ref() == Ok(&formatted), "{start}");
    }
    // Conditions are looked at one by one.
    let source = format!("workflow w(a) {{\n{}log(1)\n}}", "if (1) log(1)\nelse ".repeat(3));
    assert_eq!(errors(&source), ["2:5 F0218", "3:10 F0218", "4:10 F0218"]);
    let constant = format!("const C = {{}}\nconst D = C{}\nworkflow w() {{ return D }}", "?.c".repeat(50_000));
    assert_eq!(errors(&constant), [""; 0]);
}

#[test]
fn items_of_other_languages_have_an_error_each() {
    let source = "import x from \"y\"\nclass A { }\nvar x = 1\nworkflow w(a) { return a }\nexport default w\n";
    assert_eq!(errors(source), ["1:1 F0105", "2:1 F0105", "3:1 F0105", "5:1 F0105"]);
}

#[test]
fn operators_in_a_row_are_not_nested() {
    for chain in ["1 + ", "a && ", "a || ", "a ?? ", "a * 2 - ", "a == 1 && ", "\"x\" + a - "] {
        let source = format!("workflow w(a) {{\n  return {}a\n}}\n", chain.repeat(8_000));
        assert_eq!(errors(&source), [""; 0], "{chain}");
        let formatted = segno_flow::format(&source).expect("it can be parsed");
        assert!(segno_flow::format(&formatted).as_ref() == Ok(&formatted), "{chain}");
    }
    // What is wrong in a long one is found where it stands.
    let source = format!("workflow w(a) {{\nreturn {}b\n}}", "a + ".repeat(1_000));
    assert_eq!(errors(&source), ["2:4008 F0201"]);
    let source = format!("workflow w(a) {{\nreturn {}a\n}}", "a && 1 && ".repeat(2));
    assert_eq!(errors(&source), ["2:13 F0218", "2:23 F0218"]);
}

#[test]
fn syntax_errors() {
    for (line, expected, message) in [
        ("return 1 2", "2:12 F0101", "expected a new line or \";\", found \"2\""),
        ("let = 1", "2:7 F0101", "expected a name, found \"=\""),
        ("let if = 1", "2:7 F0101", "expected a name, found \"if\""),
        ("log(1", "3:1 F0102", "\"(\" of line 2 is not closed"),
        ("log([1)", "2:9 F0102", "\"[\" of line 2 is not closed"),
        ("log(1 2)", "2:9 F0101", "expected \",\" or \")\", found \"2\""),
        ("class A {}", "2:3 F0105", "\"class\" is not part of the language"),
        ("return this", "2:10 F0105", "\"this\" is not part of the language"),
        ("return inputs instanceof Error", "2:17 F0105", "\"instanceof\" is not part of the language"),
        ("return undefined", "2:10 F0105", "\"undefined\" is not part of the language"),
        ("let yield = 1", "2:7 F0105", "\"yield\" is not part of the language"),
        ("do { log(1) } while (true)", "2:3 F0105", "\"do\" is not part of the language"),
        (
            "if (inputs) { query q() { return 1 } }",
            "2:17 F0108",
            "handler belongs into the outermost block of the workflow",
        ),
        (
            "if (inputs) { function f() { return 1 } }",
            "2:17 F0108",
            "function belongs into the outermost block of the workflow",
        ),
        (
            "if (inputs) { async function f() { return 1 } }",
            "2:17 F0108",
            "function belongs into the outermost block of the workflow",
        ),
        ("inputs", "2:3 F0109", "this statement does nothing"),
        ("inputs == 1", "2:3 F0109", "this statement does nothing"),
        ("inputs && log(1)", "2:3 F0109", "this statement does nothing"),
        ("\"use strict\"", "2:3 F0109", "this statement does nothing"),
        ("log(1) = 2", "2:3 F0110", "this cannot be assigned to"),
        ("inputs?.a = 2", "2:3 F0110", "this cannot be assigned to"),
        ("1 + inputs = 2", "2:3 F0110", "this cannot be assigned to"),
        ("[a, b] = inputs", "2:3 F0110", "this cannot be assigned to"),
        ("inputs.f()++", "2:3 F0110", "this cannot be assigned to"),
        ("delete inputs", "2:10 F0110", "this cannot be assigned to"),
        ("const f = function () { return 1 }", "2:13 F0107", "functions are not values"),
        ("return inputs.x ?? inputs.y || true", "2:31 F0101", "expected the end of the operand, found \"||\""),
        ("return inputs.x && inputs.y ?? true", "2:31 F0101", "expected the end of the operand, found \"??\""),
        ("return inputs == 1 == 2", "2:22 F0101", "expected the end of the comparison, found \"==\""),
        ("let x = inputs++", "2:17 F0101", "expected a new line or \";\", found \"++\""),
        ("let x = y = 1", "2:13 F0101", "expected a new line or \";\", found \"=\""),
        (
            "if (inputs) let x = 1",
            "2:15 F0101",
            "expected a statement, or a block around the declaration, found \"let\"",
        ),
        ("try { log(1) }", "3:1 F0101", "expected \"catch\" or \"finally\", found \"}\""),
        ("return ...inputs", "2:10 F0101", "expected an expression, found \"...\""),
        ("log(...inputs)", "2:7 F0101", "expected an expression, found \"...\""),
        ("for (log(1); inputs; ) log(2)", "2:14 F0101", "expected \"=\", found \";\""),
        ("for (x of inputs) log(x)", "2:10 F0101", "expected \"=\", found \"of\""),
        ("switch (inputs) { log(1) }", "2:21 F0101", "expected \"case\", \"default\" or \"}\", found \"log\""),
    ] {
        let found = only_of(line);
        assert_eq!((show(&found).as_str(), found.message.as_str()), (expected, message), "{line}");
    }
}

#[test]
fn files() {
    for (source, expected, message) in [
        ("", "1:1 F0103", "there is no workflow in this file"),
        ("const A = 1\n", "1:1 F0103", "there is no workflow in this file"),
        ("workflow a() {}\nworkflow b() {}", "2:1 F0104", "one workflow per file"),
        ("workflow a() {", "1:15 F0102", "\"{\" of line 1 is not closed"),
        (
            "workflow a() {}\nlog(1)",
            "2:1 F0101",
            "expected \"workflow\", \"function\", \"const\" or \"schedule\", found \"log\"",
        ),
        (
            "workflow a() {}\n}",
            "2:1 F0101",
            "expected \"workflow\", \"function\", \"const\" or \"schedule\", found \"}\"",
        ),
        (
            "query q() { return 1 }\nworkflow a() {}",
            "1:1 F0108",
            "handler belongs into the outermost block of the workflow",
        ),
        ("import x from \"y\"\nworkflow a() {}", "1:1 F0105", "\"import\" is not part of the language"),
        (
            "workflow \"segno.x\"() {}",
            "1:10 F0101",
            "expected a name of 1 to 1000 bytes that does not begin with \"segno.\", found text \"segno.x\"",
        ),
        ("const A = Time.now()\nworkflow w() { return A }", "1:11 F0101", "expected a constant, found \"Time.now\""),
        (
            "const A = B\nconst B = 1\nworkflow w() { return A }",
            "1:11 F0205",
            "\"B\" is used before its declaration (line 2)",
        ),
        ("const A = 1\nconst A = 2\nworkflow w() { return A }", "2:7 F0203", "\"A\" is declared already (line 1)"),
        ("function f() {}\nfunction f() {}\nworkflow w() { f() }", "2:10 F0209", "\"f\" is there twice"),
        ("const f = 1\nfunction f() {}\nworkflow w() { return f }", "2:10 F0203", "\"f\" is declared already (line 1)"),
        ("schedule(\"@daily\")\nschedule(\"@daily\")\nworkflow w() {}", "2:1 F0209", "\"schedule\" is there twice"),
        ("schedule(\"often\")\nworkflow w() {}", "1:10 F0222", "not a duration, time, zone or cron text"),
        (
            "schedule(\"@daily\", { zone: \"Mars\" })\nworkflow w() {}",
            "1:28 F0222",
            "not a duration, time, zone or cron text",
        ),
        (
            "schedule(\"@daily\", { when: 1 })\nworkflow w() {}",
            "1:22 F0208",
            "unknown option \"when\", or wrong type of it",
        ),
    ] {
        let found = only(source);
        assert_eq!((show(&found).as_str(), found.message.as_str()), (expected, message), "{source}");
    }
    let name = "x".repeat(1_001);
    assert_eq!(errors(&format!("workflow \"{name}\"() {{}}")), ["1:10 F0101"]);
    assert_eq!(errors(&format!("workflow \"{}\"() {{}}", &name[1..])), [""; 0]);
    let scheduled = "const IN = { a: [1, -2] }\nschedule(\"0 9 * * 1-5\", { zone: \"Europe/Berlin\", input: IN, queue: \"r\", })\nworkflow \"with-dashes\"() {}";
    let program = check(scheduled.as_bytes()).program.unwrap();
    assert_eq!(&*program.name, "with-dashes");
    assert_eq!(&*program.schedule.unwrap().cron, "0 9 * * 1-5");
}

#[test]
fn names() {
    for (line, expected, message) in [
        ("return reslt", "2:10 F0201", "unknown name \"reslt\""),
        ("log({ reslt })", "2:9 F0201", "unknown name \"reslt\""),
        ("x += 1", "2:3 F0201", "unknown name \"x\""),
        ("x.f = 1", "2:3 F0201", "unknown name \"x\""),
        ("return inputs.f(zzz)", "2:17 F0207", "unknown function \"f\""),
        ("return zzz.map(x => x)", "2:10 F0201", "unknown name \"zzz\""),
        ("return Math.PI", "2:10 F0201", "unknown name \"Math.PI\""),
        ("const x = 1; x = 2; log(x)", "2:16 F0202", "\"x\" is constant"),
        ("const x = { a: 1 }; x.a = 2; log(x)", "2:23 F0202", "\"x\" is constant"),
        ("const x = []; x.push(2); log(x)", "2:17 F0202", "\"x\" is constant"),
        ("const x = { a: 1 }; delete x.a; log(x)", "2:30 F0202", "\"x\" is constant"),
        ("for (const x of inputs) x = 1", "2:27 F0202", "\"x\" is constant"),
        (
            "for (const x of inputs) x.f = 1",
            "2:27 F0210",
            "this changes a copy; write let mine = x first, and return it",
        ),
        (
            "for (let x of inputs) x.push(1)",
            "2:25 F0210",
            "this changes a copy; write let mine = x first, and return it",
        ),
        ("inputs.push(1)", "2:3 F0210", "this changes a copy; write let mine = inputs first, and return it"),
        ("delete inputs.a", "2:10 F0210", "this changes a copy; write let mine = inputs first, and return it"),
        ("let x = 1\n  let x = 2\n  log(x)", "3:7 F0203", "\"x\" is declared already (line 2)"),
        ("let inputs = 1", "2:7 F0203", "\"inputs\" is declared already (line 1)"),
        ("let Task = 1", "2:7 F0204", "\"Task\" belongs to the library"),
        ("log = 1", "2:3 F0204", "\"log\" belongs to the library"),
        ("function uuid() {}", "2:12 F0204", "\"uuid\" belongs to the library"),
        ("log(x)\n  let x = 1", "2:7 F0205", "\"x\" is used before its declaration (line 3)"),
        ("let x = x", "2:11 F0205", "\"x\" is used before its declaration (line 2)"),
        ("function f(a, b = 1) {} f(); f(1); f(1, 2)", "2:27 F0206", "f takes 1 to 2 arguments, not 0"),
        ("function f(a) {} f(1, 2)", "2:20 F0206", "f takes 1 arguments, not 2"),
        ("Task.delay()", "2:3 F0206", "Task.delay takes 1 arguments, not 0"),
        ("log(\"a\".slice(1, 2, 3))", "2:11 F0206", "slice takes 0 to 2 arguments, not 3"),
        ("foo(1)", "2:3 F0207", "unknown function \"foo\""),
        ("inputs(1)", "2:3 F0207", "unknown function \"inputs\""),
        ("Task.rum(\"x\")", "2:3 F0207", "unknown function \"Task.rum\""),
        ("assert(true)", "2:3 F0207", "unknown function \"assert\""),
        ("log({ a: 1, a: 2 })", "2:15 F0209", "\"a\" is there twice"),
        ("log({ a: 1, \"a\": 2 })", "2:15 F0209", "\"a\" is there twice"),
        ("function f(a, a) {} f(1, 2)", "2:17 F0209", "\"a\" is there twice"),
        ("query q() { return 1 } query q() { return 2 }", "2:32 F0209", "\"q\" is there twice"),
        ("signal s() {} wait_for_signal(\"s\")", "2:33 F0219", "signal \"s\" has a handler"),
        ("function f() {} const g = f", "2:29 F0107", "functions are not values"),
        ("return Task.run", "2:10 F0107", "functions are not values"),
        ("function f(x) { return x } f(x => x)", "2:32 F0107", "functions are not values"),
        ("return inputs.filter(async x => await x)", "2:24 F0107", "functions are not values"),
        ("inputs.a(1)(2)", "2:10 F0207", "unknown function \"a\""),
        ("log(1)(2)", "2:3 F0107", "functions are not values"),
        ("function f() {} f = 1", "2:19 F0110", "this cannot be assigned to"),
        ("return new Foo(1)", "2:14 F0207", "unknown function \"Foo\""),
        ("inputs.a.map(5)", "2:3 F0216", "the result of map is dropped"),
        ("return inputs.map(5)", "2:21 F0101", "expected a function, found \"5\""),
    ] {
        let checked = check(format!("workflow w(inputs) {{\n  {line}\n}}").as_bytes());
        let found = &checked.diagnostics[0];
        assert_eq!((show(found).as_str(), found.message.as_str()), (expected, message), "{line}");
        assert!(found.severity == Severity::Error, "{line}");
    }
}

#[test]
fn options_of_sdks_are_hinted_at() {
    for (option, meant) in [("timeout: 5", "start_to_close"), ("taskQueue: 1", "queue"), ("maxAttempts: 2", "retry")] {
        let found = only(&format!("workflow w() {{\n  await Task.run(\"x\", 1, {{ {option} }})\n}}"));
        assert_eq!(found.hint, Some(format!("did you mean \"{meant}\"?")), "{option}");
    }
    let found = only("workflow w(x) {\n  return x.filter(function (y) { return y })\n}");
    assert!(found.hint.is_some_and(|hint| hint.contains("write an arrow")));
}

#[test]
fn rules() {
    for (line, expected, message) in [
        ("Task.run(\"x\", 1, { retry: \"no\" })", "2:29 F0208", "unknown option \"retry\", or wrong type of it"),
        (
            "Task.run(\"x\", 1, { retry: { backof: 2 } })",
            "2:31 F0208",
            "unknown option \"backof\", or wrong type of it",
        ),
        ("Task.run(\"x\", 1, { priority: 9 })", "2:32 F0208", "unknown option \"priority\", or wrong type of it"),
        ("Task.run(\"x\", 1, { queue: 1 })", "2:29 F0208", "unknown option \"queue\", or wrong type of it"),
        (
            "Task.run(\"x\", 1, { on_cancel: \"no\" })",
            "2:33 F0208",
            "unknown option \"on_cancel\", or wrong type of it",
        ),
        ("Task.run(\"x\", 1, { heartbeat: true })", "2:33 F0208", "unknown option \"heartbeat\", or wrong type of it"),
        ("Task.run(\"x\", 1, { heartbeat: \"soon\" })", "2:33 F0222", "not a duration, time, zone or cron text"),
        (
            "Nexus.call(\"e\", \"s\", \"o\", 1, { queue: \"q\" })",
            "2:34 F0208",
            "unknown option \"queue\", or wrong type of it",
        ),
        (
            "Nexus.call(\"e\", \"s\", \"o\", 1, { headers: { a: 1 } })",
            "2:43 F0208",
            "unknown option \"headers\", or wrong type of it",
        ),
        (
            "Nexus.call(\"e\", \"s\", \"o\", 1, { start_to_close: 0 })",
            "2:50 F0208",
            "unknown option \"start_to_close\", or wrong type of it",
        ),
        ("Nexus.call(\"e\", \"s\")", "2:3 F0206", "Nexus.call takes 3 to 5 arguments, not 2"),
        ("Nexus.run(\"e\", \"s\", \"o\")", "2:3 F0207", "unknown function \"Nexus.run\""),
        ("const Nexus = 1", "2:9 F0204", "\"Nexus\" belongs to the library"),
        ("throw Error(\"x\", { kind: \"A\" })", "2:22 F0208", "unknown option \"kind\", or wrong type of it"),
        ("await Task.delay(\"1m1h\")", "2:20 F0222", "not a duration, time, zone or cron text"),
        ("await Task.delay(true)", "2:20 F0222", "not a duration, time, zone or cron text"),
        ("await Task.delayUntil(\"tomorrow\")", "2:25 F0222", "not a duration, time, zone or cron text"),
        ("return Time.parts(Time.now(), \"Mars\")", "2:33 F0222", "not a duration, time, zone or cron text"),
        ("await Workflow.run(\"c\", 1, { cron: \"x\" })", "2:38 F0222", "not a duration, time, zone or cron text"),
        ("await wait_until(() => inputs.ok, \"5 min\")", "2:37 F0222", "not a duration, time, zone or cron text"),
        ("inputs.a().push(1)", "2:10 F0207", "unknown function \"a\""),
        ("inputs.slice().push(1)", "2:3 F0211", "this changes a value that is not kept"),
        ("inputs?.list.push(1)", "2:3 F0211", "this changes a value that is not kept"),
        ("let n = 0; query q() { n = 1 } log(n)", "2:26 F0212", "no effects allowed in a query"),
        ("let n = []; query q() { n.push(1) } log(n)", "2:27 F0212", "no effects allowed in a query"),
        ("query q() { return Math.random() }", "2:22 F0212", "no effects allowed in a query"),
        ("query q() { return f() } function f() { log(1); return 1 }", "2:22 F0212", "no effects allowed in a query"),
        ("query q() { return [1].map(x => uuid() + x) }", "2:35 F0212", "no effects allowed in a query"),
        ("query q() { return [1].map(async x => x) }", "2:30 F0212", "no effects allowed in a query"),
        ("update u() { validate { Task.run(\"x\") } }", "2:27 F0212", "no effects allowed in a validator"),
        ("await wait_until(() => Time.now() > inputs)", "2:26 F0212", "no effects allowed in a condition"),
        ("await wait_until(x => x)", "2:20 F0212", "no effects allowed in a condition"),
        (
            "await wait_until(f); function f() { log(1); return true }",
            "2:20 F0212",
            "no effects allowed in a condition",
        ),
        ("break", "2:3 F0213", "break or continue outside of a loop"),
        ("continue", "2:3 F0213", "break or continue outside of a loop"),
        ("switch (inputs) { case 1: continue }", "2:29 F0213", "break or continue outside of a loop"),
        ("while (inputs) { inputs = [1].map(x => { break }) }", "2:44 F0213", "break or continue outside of a loop"),
        ("try { log(1) } finally { return 1 }", "2:28 F0214", "return, break and continue may not leave finally"),
        (
            "while (inputs) { try { log(1) } finally { break } }",
            "2:45 F0214",
            "return, break and continue may not leave finally",
        ),
        ("while (true) {} return 1", "2:19 F0215", "this is never reached"),
        ("throw inputs; log(1)", "2:17 F0215", "this is never reached"),
        ("while (inputs) { break; log(1) }", "2:27 F0215", "this is never reached"),
        ("while (inputs) { continue; log(1) }", "2:30 F0215", "this is never reached"),
        ("Math.abs(1)", "2:3 F0216", "the result of Math.abs is dropped"),
        ("Time.now()", "2:3 F0216", "the result of Time.now is dropped"),
        ("Error(\"x\")", "2:3 F0216", "the result of Error is dropped"),
        ("return [Workflow.continueAsNew(1)]", "2:11 F0217", "continueAsNew must be returned by the workflow"),
        (
            "update u() { return Workflow.continueAsNew(1) }",
            "2:23 F0217",
            "continueAsNew must be returned by the workflow",
        ),
        ("while (1) log(1)", "2:10 F0218", "this can never be a condition"),
        ("if (\"\") log(1)", "2:7 F0218", "this can never be a condition"),
        ("if (inputs && []) log(1)", "2:17 F0218", "this can never be a condition"),
        ("return !1", "2:11 F0218", "this can never be a condition"),
        ("return 1 ? 2 : 3", "2:10 F0218", "this can never be a condition"),
        ("return inputs.filter(x => 1)", "2:29 F0218", "this can never be a condition"),
        ("return 0 && inputs", "2:10 F0218", "this can never be a condition"),
        ("const f = async () => 1", "2:13 F0107", "functions are not values"),
        ("query q() { return await inputs }", "2:22 F0106", "await outside of async code"),
        ("return inputs.map(x => await x)", "2:26 F0106", "await outside of async code"),
        ("update u() { validate { await inputs } }", "2:27 F0106", "await outside of async code"),
    ] {
        let found = only_of(line);
        assert_eq!((show(&found).as_str(), found.message.as_str()), (expected, message), "{line}");
    }
}

#[test]
fn warnings() {
    for (line, expected, message) in [
        ("let x = 1; return inputs", "2:7 F0901", "\"x\" is never read"),
        ("x = inputs", "2:3 F0901", "\"x\" is never read"),
        ("let x = []; x.push(inputs)", "2:7 F0901", "\"x\" is never read"),
        ("let x = 1; x++; return inputs", "2:7 F0901", "\"x\" is never read"),
        ("Task.delay(inputs)", "2:3 F0902", "this wait has no effect without await"),
        ("wait_for_signal(inputs)", "2:3 F0902", "this wait has no effect without await"),
        ("wait_until(() => inputs)", "2:3 F0902", "this wait has no effect without await"),
        ("Task.delayUntil(inputs)", "2:3 F0902", "this wait has no effect without await"),
        ("return inputs.map((x, i) => x)", "2:25 F0903", "parameter \"i\" is never used"),
        ("function f(a) { return inputs } return f(1)", "2:14 F0903", "parameter \"a\" is never used"),
    ] {
        let found = only_of(line);
        assert_eq!((show(&found).as_str(), found.message.as_str()), (expected, message), "{line}");
        assert_eq!(found.severity, Severity::Warning, "{line}");
        assert!(check(format!("workflow w(inputs) {{\n  {line}\n}}").as_bytes()).program.is_some());
    }
    assert_eq!(errors("workflow w(a) {}"), [""; 0]);
    assert_eq!(shown(&check(b"workflow w(a) {}")), ["1:12 F0903"]);
    for line in [
        "return inputs.map((x, i) => i)",
        "update u(a) { validate { if (a > 1) throw \"no\" } inputs = null }",
        "const { a, ...rest } = inputs; return rest",
        "try { log(inputs) } catch (e) {}",
        "for (const x of inputs) log(1)",
        "let n = 0; query n() { return n } n = inputs",
    ] {
        assert_eq!(statement(line), [""; 0], "{line}");
    }
}

#[test]
fn hints() {
    for (line, hint) in [
        ("return reslt", None),
        ("let result = inputs; return reslt + result", Some("did you mean \"result\"?")),
        ("Task.rum(\"x\")", Some("did you mean \"Task.run\"?")),
        ("Task.run(\"x\", 1, { que: \"q\" })", Some("did you mean \"queue\"?")),
        ("return inputs.fliter(x => x)", Some("did you mean \"filter\"?")),
        ("return inputs.x || \"a\"", Some("use ?? for defaults")),
        ("[a, b] = inputs", Some("write let")),
        ("await wait_until(() => Time.now() > inputs)", Some("Task.delayUntil")),
        ("var x = 1", Some("let")),
        ("return undefined", Some("null")),
        ("return await Promise.all(inputs)", Some("Task.all")),
        ("await Timer.delay(1)", Some("Task.delay")),
        ("setTimeout(() => 1, 5)", Some("Task.delay")),
        ("await sleep(5)", Some("Task.delay")),
        ("await Signal.next(\"x\")", Some("wait_for_signal")),
        ("console.log(\"x\")", Some("log")),
        ("return Date", Some("Time.now()")),
        ("return new Date()", Some("Time.now()")),
        ("return Date.now()", Some("Time.now()")),
        ("inputs.then(x => x)", Some("await")),
        ("inputs.catch(x => x)", Some("try")),
        ("return Inputs.x", Some("the workflow's parameter")),
        ("for (const k in inputs) log(k)", Some("for … of Object.keys(…)")),
        ("for (k in inputs) log(k)", Some("for … of Object.keys(…)")),
        ("inputs.forEach(x => log(x))", Some("for … of")),
        ("do { log(1) } while (inputs)", Some("while")),
        ("import \"x\"", Some("a task")),
        ("await fetch(\"x\")", Some("a task")),
        ("let y = inputs++", Some("a statement of its own")),
        ("while (inputs = 1) log(1)", Some("== compares")),
        ("for (let i = 0; i = 1; i++) log(i)", Some("== compares")),
        ("class X {}", Some("functions")),
        ("enum X {}", Some("constants")),
        ("export default 1", Some("nothing is exported")),
        ("interface X {}", Some("types")),
        ("return super.x", Some("functions")),
        ("return this.x", Some("variables")),
        ("void inputs()", Some("null")),
        ("with (inputs) log(1)", Some("field")),
        ("yield inputs", Some("await")),
        ("return inputs instanceof Error", Some("e.type")),
    ] {
        let found = only_of(line);
        match hint {
            Some(hint) => assert!(found.hint.as_deref().is_some_and(|found| found.contains(hint)), "{line}: {found:?}"),
            None => assert_eq!(found.hint, None, "{line}"),
        }
    }
}

#[test]
fn one_error_per_statement_and_none_that_follows() {
    let source = "\
const A = 1 +
function f(a, , b) {
  return aaa
}
workflow w(inputs) {
  let x = (1 2 3) 4
  x.push(1)
  if (inputs = 1) {
    return reslt
  }
  let broken = [1, 2
  let y = 2
  foo(broken, x, \"abc
  )
  for (const k in inputs) { zzz() }
  return { x, y, k }
}
";
    assert_eq!(
        errors(source),
        [
            "2:1 F0101",
            "2:15 F0101",
            "3:10 F0201",
            "6:14 F0101",
            "8:14 F0101",
            "9:12 F0201",
            "12:3 F0102",
            "13:18 F0002",
            "15:16 F0101",
            "15:29 F0207"
        ]
    );
    let many: String = (0..80).map(|n| format!("  return unknown{n}\n")).collect();
    let checked = check(format!("workflow w() {{\n{many}}}").as_bytes());
    assert_eq!(checked.diagnostics.len(), 50);
    assert!(checked.program.is_none());
    // What is not closed swallows the rest; nothing else is said about it.
    assert_eq!(errors("workflow w() {\n  log(`abc)\n  return 1\n}\n"), ["2:7 F0002"]);
    assert_eq!(errors("workflow w() {\n  log(1 /* )\n  return 1\n}\n"), ["2:9 F0003"]);
    assert_eq!(errors("workflow w() {\n  if (true) {\n  return 1\n}\n"), ["5:1 F0102"]);
}

#[test]
fn newlines() {
    for source in [
        "workflow w(a) {\n  let x = a\n  [1, 2].map(y => y)\n}",
        "workflow w(a) {\n  let x = a\n  (1)\n}",
        "workflow w(a) {\n  let x = a\n  `t`\n}",
    ] {
        let found = errors(source);
        assert!(found[0].starts_with("3:3 F01") || found[0].starts_with("3:3 F0216"), "{found:?}");
    }
    for line in [
        "let x = inputs\n    .map(y => y)\n    ?.length\n  return x",
        "let x = inputs\n    + 1\n    - 2\n  return x",
        "let x = inputs ?\n 1\n : 2; return x",
        "let x = 1; let y = 2; return x + y + inputs",
        "if (inputs) { return 1 } else return 2",
        "if (inputs) return 1\n  else return 2",
        "if (inputs) return 1; else return 2",
        "throw\n  inputs",
        "let { default: a, \"b c\": b = 1 } = inputs; return { new: a, b, [a]: 1, \"x y\": inputs.if }",
        "let query = 1, signal = 2, update = 3, of = 4, test = 5, use = 6, workflow = 7, schedule = 8, validate = 9\n  \
         for (const of of [query, signal, update]) log(of + test + use + workflow + schedule + validate + inputs)\n  return of",
    ] {
        assert_eq!(statement(line), [""; 0], "{line}");
    }
}

#[test]
fn scopes() {
    for source in [
        // Assignment declares for the whole function.
        "workflow w(a) { if (a) { x = 1 } else { x = 2 } return x }",
        // Handlers see variables of the workflow wherever these stand.
        "workflow w() { query q() { return [a, b, c] } let a = 1; const b = 2; c = 3 }",
        "workflow w() { signal s() { status = \"x\" } status = \"new\"; return status }",
        // Inner blocks may declare the same name again.
        "workflow w(a) { let x = 1; { let x = a; log(x) } for (const x of a) log(x); return x }",
        "workflow w(a) { for (const x of a) { const x = 1; log(x) } }",
        // Functions call each other in any order.
        "workflow w(n) { return even(n) } function even(n) { return n == 0 || odd(n - 1) } function odd(n) { return n != 0 && even(n - 1) }",
        "workflow w(n) { let m = twice(n)\n function twice(x) { return x * k }\n let k = 2; return m + k }",
        "workflow w(xs) { return xs.map(f); function f(x) { return x } }",
        "const LIMIT = 5\nconst TWICE = LIMIT * 2\nworkflow w() { return TWICE }",
        "workflow w(a, b = a) { return b }",
        "workflow w() { query take() { return 1 } update take() {} signal take() {} }",
        "workflow w(n) { switch (n) { case 1: let x = 1; return x\n case 2: let x = 2; return x } }",
        "workflow w(n) { while (n) { switch (n) { case 1: break\n default: continue } } }",
        "workflow w(n) { try { log(n) } finally { for (const x of n) { if (x) break; else continue } } }",
        "workflow w(xs) { query q() { let n = []; for (const x of xs) n.push(x); return n } }",
        "workflow w(xs) { query q() { return [Time.now(), xs] } }",
        "workflow w(xs) { return Workflow.continueAsNew(xs) }",
        "workflow w(xs) { if (xs) return (Workflow.continueAsNew(xs, { version: \"same\" })) }",
        "workflow w(xs) { throw new Error(\"x\", { type: \"A\", details: xs }) }",
        "workflow w(xs) { while (true) { if (xs) break } return 1 }",
        "workflow w(xs) { return { then: xs?.then, default: xs.default ?? 1 } }",
        "workflow w(xs) { xs = [...xs, 1]; return xs }",
        "workflow w(p) { return await Task.timeout(p, 5) }",
        "workflow w(x) { return 'a' in x && typeof x == \"object\" }",
        "workflow w(x) { await Task.run(\"a\", null, { retry: null, ...x, [x]: 1 }) }",
        "workflow w(f) { return f.map(async (x) => { await Task.delay(x); return x }) }",
        "\u{FEFF}workflow w(x) {\r\n  return x\r\n}\r\n",
    ] {
        assert_eq!(shown(&check(source.as_bytes())), [""; 0], "{source}");
    }
}

#[test]
fn test_files() {
    let source = "use \"order.flow\"\nuse \"child.flow\"\nconst A = 1\nfunction f(x) { return x + A }\n\
        test \"one\" {\n  mock(\"charge\", (a, b, c) => f(a + b + c))\n  mock(\"slow\", async () => { await Task.delay(\"5m\"); return null })\n  \
        Test.start({ id: 7 })\n  const e = await assertFails(Test.result(), \"Late\")\n  assertEqual(e.message, f(1))\n  \
        assert(Test.status() == \"FAILED\", \"m\")\n}\ntest \"two\" {\n  let x = await Test.update(\"u\", 1, 2)\n  assertEqual(x, Test.query(\"q\"))\n}\n";
    let checked = check_test(source.as_bytes());
    assert_eq!(shown(&checked), [""; 0]);
    let program = checked.program.unwrap();
    assert_eq!(program.uses.iter().map(|path| &**path).collect::<Vec<_>>(), ["order.flow", "child.flow"]);
    assert_eq!(program.tests.len(), 2);
    assert_eq!(program.workflow, None);
    let refused = |source: &str| shown(&check_test(source.as_bytes()));
    assert_eq!(refused("test \"a\" { Task.run(\"x\") }"), ["1:12 F0207"]);
    assert_eq!(refused("test \"a\" { Workflow.run(\"x\") }"), ["1:12 F0207"]);
    assert_eq!(refused("test \"a\" { let assert = 1 }"), ["1:16 F0204"]);
    assert_eq!(refused("test \"a\" {}\ntest \"a\" {}"), ["2:6 F0209"]);
    assert_eq!(refused("workflow w() {}"), ["1:1 F0101"]);
    assert_eq!(refused("test a {}"), ["1:6 F0101"]);
    assert_eq!(refused("test \"a\" { Test.status() }"), ["1:12 F0216"]);
}

#[test]
fn editor_grammar_knows_all_words() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/editors/flow.tmLanguage.json");
    let grammar = std::fs::read_to_string(path).unwrap();
    assert!(segno_flow::pure::json::parse(grammar.as_bytes()).is_ok());
    let words = "async await break case catch const continue default delete else false finally for function if in let new null \
        return switch throw true try typeof while class do enum export extends import instanceof interface super this \
        undefined var void with yield workflow query signal update validate schedule test use of";
    let library =
        segno_flow::library::Function::ALL.iter().filter_map(|function| function.signature().name.split('.').next());
    for word in words.split(' ').chain(library) {
        let found = grammar.match_indices(word).any(|(at, _)| {
            let edge = |c: Option<char>| !c.is_some_and(|c| c.is_alphanumeric() || c == '_');
            edge(grammar[..at].chars().next_back()) && edge(grammar[at + word.len()..].chars().next())
        });
        assert!(found, "{word}");
    }
}

#[test]
fn picture() {
    let source = "workflow order(inputs) {\n\n\n\n\n  const result = inputs\n  return reslt\n}\n";
    let found = check(source.as_bytes()).diagnostics;
    assert_eq!(
        render(&found[0], "order.flow", source),
        "order.flow:7:10: error[F0201]: unknown name \"reslt\"\n  7 |   return reslt\n    |          ^^^^^\n  hint: did you mean \"result\"?"
    );
    let source = format!("workflow w(inputs) {{{}\tlog(é, \"x\")\n}}", "\n".repeat(11));
    let found = check(source.as_bytes()).diagnostics;
    assert_eq!(
        render(&found[0], "w.flow", &source),
        "w.flow:12:6: error[F0201]: unknown name \"é\"\n  12 | \tlog(é, \"x\")\n     | \t    ^"
    );
    let found = check(b"workflow w(a) {}").diagnostics;
    assert!(
        render(&found[0], "w.flow", "workflow w(a) {}")
            .starts_with("w.flow:1:12: warning[F0903]: parameter \"a\" is never used\n")
    );
}

#[test]
fn patterns_and_functions_have_one_error() {
    let body =
        |body: &str| errors(&format!("workflow w(inputs) {{\n  let a = 1\n  let b = 2\n  {body}\n  return [a, b]\n}}"));
    assert_eq!(body("{ a, b } = inputs"), ["4:3 F0110"]);
    assert_eq!(body("{ a } = inputs"), ["4:3 F0110"]);
    assert_eq!(body("({ a } = inputs)"), ["4:10 F0101"]);
    assert_eq!(body("const f = (x, y) => { return x }\n  a = f(1, 2)"), ["4:13 F0107"]);
    assert_eq!(body("a = 1e3.toFixed(1)"), [""; 0]);
}

#[test]
fn hints_for_words_of_other_languages() {
    for (body, hint) in [
        ("return 2 ** 3", "write Math.pow(x, y)"),
        ("let n = 2\nn **= 3", "write Math.pow(x, y)"),
        ("const r = await Task.allSettled([])\nreturn r", "write Task.settle"),
        ("await Workflow.sleep(5)", "write Task.delay"),
        ("const all = []\nall.push(1)\nreturn all", "write let all: a const cannot be changed inside either"),
        ("const n = 1\nn = 2\nreturn n", "write let n"),
        ("for (const x of [1]) x = 2", "write for (let x of …)"),
        (
            "function f() {}\nconst g = f\nreturn g",
            "call it: f(…); only functions of the library such as map take a function",
        ),
        (
            "const double = x => x * 2\nreturn 1",
            "declare it by its name: function f(x) { … }, and write f(x) where it is needed",
        ),
        ("return inputs.map(String)", "write an arrow where the library takes one: x => String(x)"),
    ] {
        let source = format!("workflow w(inputs) {{\n{body}\n}}\n");
        let found = check(source.as_bytes()).diagnostics;
        assert!(found.iter().any(|one| one.hint.as_deref() == Some(hint)), "{body}: {found:?}");
    }
}
