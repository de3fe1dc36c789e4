//! What filters mean, beside what Temporal makes of them.
//!
//! `AGREED` was recorded from Temporal 1.32 with its SQLite visibility store over the same eight runs: each filter with
//! the runs it found, or `!` where it was refused. `DIFFERENT` are the filters where Segno knowingly answers otherwise.

#![allow(clippy::unwrap_used, reason = "tests")]

mod recorded;

use std::collections::BTreeMap;

use recorded::{AGREED, DIFFERENT};
use segno_store::visibility::{
    Attribute, Closed, Filter, Kind, Names, Order, Value, VisibilityRow, parse_count, parse_list,
};
use segno_store::{NamespaceKey, RunKey};

const SECOND: i64 = 1_000_000_000;
/// 2026-01-01T00:00:00Z
const STARTED: i64 = 1_767_225_600 * SECOND;

struct Custom;

impl Names for Custom {
    fn find(&self, name: &str) -> Option<Attribute> {
        let (number, kind) = match name {
            "TemporalNamespaceDivision" => (1, Kind::Keyword),
            "TemporalScheduledById" => (2, Kind::Keyword),
            "TemporalSchedulePaused" => (3, Kind::Bool),
            "BuildIds" => (4, Kind::KeywordList),
            "TemporalChangeVersion" => (5, Kind::KeywordList),
            "K" => (1_000, Kind::Keyword),
            "K2" => (1_001, Kind::Keyword),
            "L" => (1_002, Kind::KeywordList),
            "T" => (1_003, Kind::Text),
            "I" => (1_004, Kind::Int),
            "D" => (1_005, Kind::Double),
            "B" => (1_006, Kind::Bool),
            "At" => (1_007, Kind::Datetime),
            "has-dash" => (1_008, Kind::Keyword),
            "has.dot" => (1_009, Kind::Keyword),
            "order" => (1_010, Kind::Keyword),
            _ => return None,
        };
        Some(Attribute::Numbered(number, kind))
    }

    fn known(&self) -> Vec<String> {
        vec!["TemporalNamespaceDivision".to_owned(), "has-dash".to_owned()]
    }
}

fn row(
    number: u64,
    workflow_id: &str,
    workflow_type: &str,
    status: i32,
    attributes: &[(&str, Value)],
) -> VisibilityRow {
    let start_time = STARTED + i64::try_from(number).unwrap() * SECOND;
    let number_of = |name: &str| match Custom.find(name) {
        Some(Attribute::Numbered(number, _)) => number,
        _ => panic!("{name} is no custom attribute"),
    };
    let queue = match status {
        2 => "done",
        3 => "fail",
        _ => "none",
    };
    let closed = Closed { time: start_time + SECOND, history_length: 4, history_bytes: 700, transitions: 3 };
    VisibilityRow {
        key: RunKey(number),
        namespace: NamespaceKey(1),
        workflow_id: workflow_id.to_owned(),
        run_id: format!("run-{number}"),
        workflow_type: workflow_type.to_owned(),
        task_queue: queue.to_owned(),
        status,
        start_time,
        execution_time: start_time,
        closed: (status != 1).then_some(closed),
        parent: None,
        root: None,
        activity_retry: None,
        task_retry: None,
        attributes: attributes.iter().map(|(name, value)| (number_of(name), value.clone())).collect::<BTreeMap<_, _>>(),
    }
}

fn rows() -> Vec<VisibilityRow> {
    let text = |text: &str| Value::Text(text.to_owned());
    let list = |items: &[&str]| Value::List(items.iter().map(|item| (*item).to_owned()).collect());
    let at = |seconds: i64| Value::Int(seconds * SECOND);
    vec![
        row(
            1,
            "w1",
            "Alpha",
            1,
            &[
                ("K", text("alpha")),
                ("K2", text("x")),
                ("L", list(&["a", "b"])),
                ("T", text("The quick brown fox")),
                ("I", Value::Int(5)),
                ("D", Value::Double(1.5)),
                ("B", Value::Bool(true)),
                ("At", at(1_704_067_200)),
            ],
        ),
        row(
            2,
            "w2",
            "Alpha",
            5,
            &[
                ("K", text("beta")),
                ("L", list(&["B", "c d"])),
                ("T", text("Quick-silver café, jumps")),
                ("I", Value::Int(-3)),
                ("D", Value::Double(5.0)),
                ("B", Value::Bool(false)),
                ("At", Value::Int(1_717_243_200_250_000_000)),
            ],
        ),
        row(3, "w3", "Beta", 1, &[]),
        row(4, "w4", "Beta", 5, &[("K", text("Alpha")), ("I", Value::Int(5))]),
        row(
            5,
            "w5",
            "Gamma-x",
            2,
            &[
                ("K", text("it's")),
                ("L", list(&["x"])),
                ("T", text("foo_bar baz")),
                ("D", Value::Double(-0.5)),
                ("BuildIds", list(&["unversioned"])),
            ],
        ),
        row(
            6,
            "w-6",
            "Gamma-x",
            2,
            &[
                ("K", text("100%")),
                ("L", list(&["a"])),
                ("T", text("fox")),
                ("B", Value::Bool(true)),
                ("BuildIds", list(&["unversioned"])),
            ],
        ),
        row(
            7,
            "w_7",
            "Alpha",
            3,
            &[
                ("K", text("a_b")),
                ("I", Value::Int(0)),
                ("D", Value::Double(0.0)),
                ("At", at(1_735_689_600)),
                ("BuildIds", list(&["unversioned"])),
            ],
        ),
        row(
            8,
            "W1",
            "Beta",
            1,
            &[
                ("K", text("alphabet")),
                ("K2", text("y")),
                ("L", list(&["a b", "A"])),
                ("T", text("BROWN bread 42")),
                ("I", Value::Int(9_007_199_254_740_993)),
            ],
        ),
    ]
}

/// The runs a filter finds, or why it was refused.
fn answer(filter: &str) -> Result<String, String> {
    let (filter, _) = parse_list(filter, &Custom).map_err(|bad| bad.to_string())?;
    let found =
        rows().iter().filter(|row| filter.evaluate(row) == Some(true)).map(|row| row.key.0.to_string()).collect();
    let found: Vec<String> = found;
    Ok(if found.is_empty() { "-".to_owned() } else { found.join(" ") })
}

#[test]
fn filters_find_what_temporal_finds() {
    let mut wrong = Vec::new();
    for (filter, recorded) in AGREED {
        let ours = answer(filter);
        match (&ours, *recorded) {
            (Err(_), "!") => {}
            (Ok(found), recorded) if found == recorded => {}
            _ => wrong.push(format!("{filter}: recorded {recorded}, found {ours:?}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn known_differences() {
    let mut wrong = Vec::new();
    for (filter, recorded, wanted) in DIFFERENT {
        let ours = answer(filter).unwrap_or_else(|_| "!".to_owned());
        if ours != *wanted || recorded == wanted {
            wrong.push(format!("{filter}: recorded {recorded}, wanted {wanted}, found {:?}", answer(filter)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn beyond_temporal() {
    let cases = [
        ("K LIKE '%lph%'", "1 4 8"),
        ("K LIKE 'a%'", "1 7 8"),
        ("K LIKE 'a_b'", "7"),
        ("K LIKE 'a\\_b'", "7"),
        ("K LIKE '%\\%'", "6"),
        ("K LIKE '%\\\\%'", "-"),
        ("K NOT LIKE 'a%'", "2 4 5 6"),
        ("NOT K LIKE 'a%'", "2 4 5 6"),
        ("L LIKE 'a%'", "1 6 8"),
        ("L STARTS_WITH 'a '", "8"),
        ("L NOT LIKE 'a%'", "2 3 4 5 7"),
        ("T LIKE '%quick%'", "1"),
        ("T STARTS_WITH 'The'", "1"),
        ("T IN ('fox', 'bread')", "1 6 8"),
        ("T NOT IN ('fox', 'bread')", "2 3 4 5 7"),
        ("I IN (5, 0.5)", "1 4"),
        ("`has-dash` IS NULL AND has.dot IS NULL AND `has.dot` IS NULL AND `order` IS NULL", "1 2 3 4 5 6 7 8"),
        ("ActivityAttempts > 2", "-"),
        ("ActivityLastFailure != 'x' AND WorkflowTaskAttempts IS NULL", "1 2 3 4 5 6 7 8"),
        ("", "1 2 3 4 5 6 7 8"),
        (" ; ", "1 2 3 4 5 6 7 8"),
        ("K = 'alpha' # AND", "!"),
    ];
    for (filter, wanted) in cases {
        assert_eq!(answer(filter).unwrap_or_else(|_| "!".to_owned()), wanted, "{filter}: {:?}", answer(filter));
    }
}

#[test]
fn refusals_say_where_and_what_to_do() {
    let cases = [
        ("WorkflowId =", "at 13: expected a value after ="),
        ("WorkflowId", "at 11: expected a comparison after WorkflowId, such as = or IN"),
        ("WorkflowID = 'x'", "at 1: WorkflowID is not a search attribute; did you mean WorkflowId?"),
        ("NamespaceDivison IS NULL", "at 1: NamespaceDivison is not a search attribute"),
        ("K = alpha", "at 5: expected a value after =, found alpha; put texts in quotes"),
        ("K = 'alpha", "at 5: this text has no end: close it with '"),
        ("K = 'alpha' AND", "at 16: expected the name of an attribute"),
        ("(K = 'alpha'", "at 13: expected AND, OR or )"),
        ("K = NULL", "at 5: nothing equals NULL; use IS NULL"),
        ("K IN ()", "at 7: expected a value after ("),
        ("K BETWEEN 'a' OR 'b'", "at 15: expected AND after the first value of BETWEEN"),
        ("K = 5", "at 5: K is a Keyword; put the value in quotes"),
        ("I = '5'", "at 5: I is an Int; expected a number without quotes"),
        ("ExecutionStatus = 'running'", "at 19: \"running\" is no status; it can be Running, Completed"),
        ("StartTime > 'yesterday'", "at 13: \"yesterday\" is no time; write it as '2024-12-31T23:59:59Z' (RFC 3339)"),
        ("ExecutionDuration > 'long'", "at 21: \"long\" is no duration; write '1h30m'"),
        ("L > 'a'", "at 1: L is a KeywordList, which can be searched but not compared"),
        ("K = 'a' LIMIT 5", "at 9: LIMIT has no meaning here; ask for a page size instead"),
        ("GROUP BY K", "at 10: GROUP BY works only in counts"),
        ("ORDER BY K, K2", "at 11: only one attribute can stand here"),
        ("ORDER BY nothing", "at 10: nothing is not a search attribute of this namespace"),
        ("K = 'a' OR é = 1", "at 12: 'é' has no meaning here; put texts in quotes"),
    ];
    for (filter, wanted) in cases {
        let bad = parse_list(filter, &Custom).unwrap_err();
        assert!(bad.to_string().starts_with(wanted), "{filter}: {bad}");
    }
    let bad = parse_count("ORDER BY K", &Custom).unwrap_err();
    assert_eq!(bad.to_string(), "at 10: ORDER BY works only in lists; leave it out of a count");
}

#[test]
fn limits() {
    let deep = |depth: usize| format!("{}K = 'a'{}", "(".repeat(depth), ")".repeat(depth));
    assert!(parse_list(&deep(99), &Custom).is_ok());
    assert!(parse_list(&deep(100), &Custom).unwrap_err().message.contains("nested"));
    assert!(parse_list(&"NOT ".repeat(10_000), &Custom).unwrap_err().message.contains("nested"));
    assert!(parse_list(&"(".repeat(60_000), &Custom).unwrap_err().message.contains("nested"));
    let many = |count: usize, joint: &str| vec!["I=1"; count].join(joint);
    assert!(parse_list(&many(800, " OR "), &Custom).is_ok());
    assert!(parse_list(&many(801, " AND "), &Custom).unwrap_err().message.contains("800 conditions"));
    let values = |count: usize| format!("I IN ({})", vec!["1"; count].join(","));
    assert!(parse_list(&values(10_000), &Custom).is_ok());
    assert!(parse_list(&values(10_001), &Custom).unwrap_err().message.contains("10000 values"));
    assert!(parse_list(&" ".repeat(70_000), &Custom).unwrap_err().message.contains("longer"));
}

#[test]
fn orders_and_groups() {
    let order = |text: &str| parse_list(text, &Custom).unwrap().1;
    let k = Attribute::Numbered(1_000, Kind::Keyword);
    assert_eq!(order("K = 'a'"), Order::Newest);
    assert_eq!(order("K = 'a' ORDER BY K"), Order::Ascending(k));
    assert_eq!(order("order by K asc"), Order::Ascending(k));
    assert_eq!(order("ORDER BY `K` DESC;"), Order::Descending(k));
    assert_eq!(order("ORDER BY StartTime DESC"), Order::Descending(Attribute::StartTime));
    let (filter, group) = parse_count("GROUP BY ExecutionStatus", &Custom).unwrap();
    assert_eq!((filter, group), (Filter::All(Vec::new()), Some(Attribute::ExecutionStatus)));
    let (filter, group) = parse_count("K = 'a' OR NOT (K2 IS NULL) GROUP BY K", &Custom).unwrap();
    assert_eq!(group, Some(k));
    assert!(filter.mentions(k) && filter.mentions(Attribute::Numbered(1_001, Kind::Keyword)));
    assert!(!filter.mentions(Attribute::WorkflowId));
}
