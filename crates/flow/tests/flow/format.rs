//! The formatter, over all examples of the reference and over single constructs.

use segno_flow::{check, check_test, format};

/// The examples of the reference: file name and source.
pub fn examples() -> Vec<(String, String)> {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/flow/examples");
    let mut examples: Vec<(String, String)> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, std::fs::read_to_string(path).unwrap())
        })
        .collect();
    examples.sort();
    assert_eq!(examples.len(), 35);
    examples
}

/// What a source means, without places. Empty if it has errors.
pub fn meaning(source: &str) -> String {
    let checked = check(source.as_bytes());
    let checked = if checked.program.is_some() { checked } else { check_test(source.as_bytes()) };
    let Some(program) = checked.program else { return String::new() };
    let text = format!("{program:?}");
    let mut out = String::new();
    let mut rest = text.as_str();
    while let Some(start) = rest.find("Position {") {
        out.push_str(&rest[..start]);
        let end = rest[start..].find('}').unwrap();
        rest = &rest[start + end + 1..];
    }
    out + rest
}

fn formatted(source: &str) -> String {
    format(source).unwrap_or_else(|errors| panic!("{source}\n{errors:?}"))
}

#[test]
fn examples_keep_their_meaning() {
    for (name, source) in examples() {
        let once = formatted(&source);
        assert_eq!(formatted(&once), once, "{name}");
        assert!(!meaning(&source).is_empty(), "{name}");
        assert_eq!(meaning(&once), meaning(&source), "{name}");
        for line in once.lines() {
            assert!(line.chars().count() <= 100 || line.contains("//"), "{name}: {line}");
            assert!(!line.ends_with(' ') && (line.contains("//") || !line.contains(';')), "{name}: {line}");
        }
    }
}

fn check_format(source: &str, expected: &str) {
    assert_eq!(formatted(source), expected);
    assert_eq!(formatted(expected), expected);
    assert_eq!(meaning(expected), meaning(source));
}

#[test]
fn style() {
    check_format("", "");
    check_format("workflow   w ( ) { }", "workflow w() {}\n");
    check_format(
        "workflow w(a){let x='it\\'s \"so\"';return x+a;;}",
        "workflow w(a) {\n  let x = \"it's \\\"so\\\"\"\n  return x + a\n}\n",
    );
    check_format("workflow w((a)) {}".replace("((a))", "(a,)").as_str(), "workflow w(a) {}\n");
    check_format(
        "workflow w(a) {\n\n\n  log(a)\n\n\n\n  log(a)\n  log(a)\n\n}",
        "workflow w(a) {\n  log(a)\n\n  log(a)\n  log(a)\n}\n",
    );
    check_format(
        "workflow w(a) { if (a) return 1\n else if (a == 2) { return 2 } else { return 3 } }",
        "workflow w(a) {\n  if (a) return 1\n  else if (a == 2) { return 2 } else { return 3 }\n}\n",
    );
    check_format(
        "workflow w(a) { for (;;) { break }\n for (let i=0,n=3;i<n;i++) log(i+a); while(a) ; }",
        "workflow w(a) {\n  for (;;) { break }\n  for (let i = 0, n = 3; i < n; i++) log(i + a)\n  while (a) {}\n}\n",
    );
    check_format(
        "workflow w(a) { return a.map( (x)=>x ).filter( async=>true ) }".replace("async", "y").as_str(),
        "workflow w(a) { return a.map(x => x).filter(y => true) }\n",
    );
    check_format("workflow w(a) { return - -a - -1 }", "workflow w(a) { return - -a - -1 }\n");
    check_format(
        "workflow w(a) { const {b, c: [d, ...e], 'f g': h = 1, ...i} = a; return [b,d,e,h,i] }",
        "workflow w(a) {\n  const { b, c: [d, ...e], \"f g\": h = 1, ...i } = a\n  return [b, d, e, h, i]\n}\n",
    );
    check_format(
        "workflow w(a) { return [1 .toFixed(2), 1.5.toFixed(), (2).toFixed(a)] }",
        "workflow w(a) { return [1 .toFixed(2), 1.5.toFixed(), (2).toFixed(a)] }\n",
    );
    check_format(
        "schedule('0 9 * * *',{zone:'Europe/Berlin'})\nworkflow 'a-b'() {}",
        "schedule(\"0 9 * * *\", { zone: \"Europe/Berlin\" })\nworkflow \"a-b\"() {}\n",
    );
}

#[test]
fn the_value_is_broken_before_the_pattern() {
    let source = r#"workflow w(inputs) {
  const [stock, label] = await Task.all([Task.run("reserve", inputs.items), Task.run("print_label", inputs.address)])
  let { first, second } = await Task.run("a_rather_long_name_of_a_task", { first: inputs.first, second: inputs.second })
}
"#;
    let expected = r#"workflow w(inputs) {
  const [stock, label] = await Task.all([
    Task.run("reserve", inputs.items),
    Task.run("print_label", inputs.address),
  ])
  let { first, second } = await Task.run("a_rather_long_name_of_a_task", {
    first: inputs.first,
    second: inputs.second,
  })
}
"#;
    assert_eq!(formatted(source), expected);
    assert_eq!(formatted(expected), expected);
}

#[test]
fn comments_in_front_of_an_item_stay_there() {
    let source = "workflow w() {\n  return { /* a */ /* b */ id: 1, /* c */ /* d */ x: 2 } /* e */ /* f */\n}\n";
    assert_eq!(formatted(source), source);
    let broken = "workflow w() {\n  return {\n\n /* a */  /* b */ id: 1, /* c */\n /* d */ x: 2 } /* e */ /* f */\n}\n";
    let once = formatted(broken);
    assert_eq!(formatted(&once), once);
}

#[test]
fn statements_are_not_joined() {
    for source in ["workflow w(a) { -a; if (a) -a; -a }", "workflow w(a) { switch (a) { case 1: -a; -a } }"] {
        let once = formatted(source);
        assert_eq!(formatted(&once), once);
        assert_eq!(once.matches("-a").count(), source.matches("-a").count());
        assert_eq!(once.matches(';').count(), 1, "{once}");
    }
}

#[test]
fn long_lines_are_broken() {
    let source = "workflow w(inputs) {\n  return await Task.run(\"a_rather_long_name_of_a_task\", { first: inputs.first, second: inputs.second }, { retry: 5 })\n}";
    check_format(
        source,
        "workflow w(inputs) {\n  return await Task.run(\n    \"a_rather_long_name_of_a_task\",\n    { first: inputs.first, second: inputs.second },\n    { retry: 5 },\n  )\n}\n",
    );
    let long = "a".repeat(60);
    check_format(
        &format!("workflow w({long}) {{ return {long} + 1 + {long} * 2 ? [{long}] : {{ x: {long} }} }}"),
        &format!(
            "workflow w({long}) {{\n  return {long} +\n    1 +\n    {long} * 2\n    ? [{long}]\n    : {{ x: {long} }}\n}}\n"
        ),
    );
    check_format(
        &format!("workflow w({long}) {{ return {long} ? 1 : {long} == 2 ? 3 : [{long}] }}"),
        &format!("workflow w({long}) {{\n  return {long}\n    ? 1\n    : {long} == 2\n    ? 3\n    : [{long}]\n}}\n"),
    );
    check_format(
        &format!("workflow w({long}) {{ Task.run(\"x\", {{ {long}, a: {long} }}) }}"),
        &format!("workflow w({long}) {{\n  Task.run(\"x\", {{\n    {long},\n    a: {long},\n  }})\n}}\n"),
    );
    check_format(
        &format!("workflow w({long}) {{ if ({long} == 1 && {long} == 2) return 1 }}"),
        &format!("workflow w({long}) {{\n  if (\n    {long} == 1 &&\n      {long} == 2\n  ) return 1\n}}\n"),
    );
}

#[test]
fn comments_are_kept() {
    check_format(
        "// head\n\n/* b */\nworkflow w(a) { // open\n  // own\n  log(a) // end\n  /* in front */ log(a)\n  log(/* first */ a, a /* second */)\n  // last\n}\n// tail",
        "// head\n\n/* b */\nworkflow w(a) { // open\n  // own\n  log(a) // end\n  /* in front */\n  log(a)\n  log(/* first */ a, a /* second */)\n  // last\n}\n// tail\n",
    );
    check_format(
        "workflow w(a) {\n  return [ // why\n    1, // one\n    // two\n    2\n    // end\n  ]\n}",
        "workflow w(a) {\n  return [ // why\n    1, // one\n    // two\n    2,\n    // end\n  ]\n}\n",
    );
    check_format(
        "workflow w(a) {\n  if (a) { // yes\n    log(a)\n  } else { // no\n  }\n}",
        "workflow w(a) {\n  if (a) { // yes\n    log(a)\n  } else { // no\n  }\n}\n",
    );
    check_format(
        "workflow w(a) {\n  let x = a + // one\n    2\n  return x\n}",
        "workflow w(a) {\n  let x = a +\n    // one\n    2\n  return x\n}\n",
    );
    check_format(
        "workflow w(a) {\n  switch (a) { // s\n    // first\n    case 1: // one\n      log(a)\n      // after\n    default: log(1) // d\n    // end\n  }\n}",
        "workflow w(a) {\n  switch (a) {\n    // s\n    // first\n    case 1: // one\n      log(a)\n    // after\n    default: log(1) // d\n    // end\n  }\n}\n",
    );
}

#[test]
fn syntax_errors_are_returned() {
    let errors = format("workflow w() {\n  let = 1\n}").unwrap_err();
    assert_eq!((errors[0].code, errors[0].start.line, errors[0].start.column), ("F0101", 2, 7));
    assert!(format("workflow w() { log(1 }").is_err());
}

#[test]
fn comments_that_move_behind_a_line_comment_have_lines_of_their_own() {
    let source = "use // c\n /* c */ /* a\nb */   \"order.flow\"\n\ntest \"t\" {\n  assertEqual(1, 1)\n}\n";
    let expected = "use \"order.flow\" // c\n/* c */\n/* a\nb */\n\ntest \"t\" {\n  assertEqual(1, 1)\n}\n";
    check_format(source, expected);
}

#[test]
fn comments_behind_one_of_several_lines_stay_where_they_go() {
    for inside in ["/* c *//* c\n *//* c *//* c */", "// c\n/* c *//* c */"] {
        let source = format!("workflow w(e) {{ return [e.source{inside}.kind, e.name] }}\n");
        let once = formatted(&source);
        assert_eq!(formatted(&once), once);
        assert_eq!(once.matches('c').count(), source.matches('c').count());
    }
    let source = "workflow w(a) {\n  let x = a +\n    /* one */\n    2\n  return x\n}\n";
    check_format(source, source);
}

#[test]
fn comments_at_the_end_of_a_line_do_not_break_what_stands_before_them() {
    let source = format!("workflow w() {{\n  let o = {{ a: {{ b: 1 }}{} }}\n  return o\n}}\n", " /* c */".repeat(20));
    let once = formatted(&source);
    assert!(once.contains("a: { b: 1 }, /* c */"), "{once}");
    assert_eq!(formatted(&once), once);
    // The spaces between more of them than a line has columns do not count either.
    let source = format!("workflow w(a) {{\n  return f(a.map(x => x){})\n}}\n", "/* c */".repeat(120));
    let once = formatted(&source);
    assert!(once.contains("    a.map(x => x), /* c */ /* c */"), "{once}");
    assert_eq!(formatted(&once), once);
}
