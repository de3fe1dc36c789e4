//! Any text is a filter or a [`BadFilter`].

use segno_store::kit::{Random, row};
use segno_store::visibility::{Attribute, BadFilter, Kind, Names, parse_count, parse_list};

const VALID: [&str; 12] = [
    "WorkflowId = 'order-1' AND ExecutionStatus IN ('Running', 'Failed')",
    "NOT (K = \"it's\" OR K LIKE '%50\\%_') AND T != 'quick fox'",
    "StartTime BETWEEN '2024-01-01T00:00:00Z' AND '2024-12-31T23:59:59.123456789+02:00'",
    "ExecutionDuration > '1h30m' OR ExecutionDuration <= '01:30:00' OR ExecutionDuration = -5",
    "I >= -7 AND D < 1.5e-3 AND B = true AND L NOT IN ('a', 'b''c')",
    "`K` STARTS_WITH 'é\\n' ORDER BY CloseTime DESC",
    "K IS NOT NULL GROUP BY ExecutionStatus",
    "((((I = 1)))) && ((D != 2) || NOT NOT B = false);",
    "CloseTime IS NULL /* open */ AND ActivityAttempts > 3 -- retrying",
    "T = 'ÀÉÎ 東京 \u{1f600}'",
    "I NOT BETWEEN 9223372036854775807 AND 9223372036854775808",
    "",
];
const PIECES: [&str; 40] = [
    "AND",
    "OR",
    "NOT",
    "IN",
    "BETWEEN",
    "STARTS_WITH",
    "LIKE",
    "IS",
    "NULL",
    "ORDER BY",
    "GROUP BY",
    "LIMIT",
    "(",
    ")",
    ",",
    "=",
    "!=",
    "<=>",
    "<",
    ">=",
    "-",
    "+",
    "'",
    "\"",
    "`",
    "\\",
    "'a'",
    "1",
    "1e999",
    ".5",
    "0x1",
    "true",
    "K",
    "I",
    "T",
    "WorkflowId",
    "/*",
    "*/",
    "--",
    ";",
];

struct Custom;

impl Names for Custom {
    fn find(&self, name: &str) -> Option<Attribute> {
        let kinds = [("K", Kind::Keyword), ("L", Kind::KeywordList), ("T", Kind::Text), ("I", Kind::Int)];
        let kinds = kinds.iter().chain(&[("D", Kind::Double), ("B", Kind::Bool), ("A", Kind::Datetime)]);
        let (_, kind) = kinds.into_iter().find(|(known, _)| *known == name)?;
        Some(Attribute::Numbered(1_000, *kind))
    }

    fn known(&self) -> Vec<String> {
        vec!["K".to_owned(), "LongerName".to_owned()]
    }
}

fn fuzzed(random: &mut Random) -> String {
    let pick = |random: &mut Random, list: &[&str]| list[random.below(list.len() as u64) as usize].to_owned();
    let mut text = match random.below(4) {
        0 => (0..random.below(30)).map(|_| pick(random, &PIECES) + " ").collect(),
        1 => (0..random.below(60)).map(|_| char::from_u32(random.below(0x300) as u32).unwrap_or('x')).collect(),
        2 => pick(random, &PIECES).repeat(random.below(3_000) as usize),
        _ => pick(random, &VALID),
    };
    for _ in 0..random.below(5) {
        let places: Vec<usize> = text.char_indices().map(|(place, _)| place).chain([text.len()]).collect();
        let place = random.below(places.len() as u64) as usize;
        let (from, to) = (places[place], places[(place + 6).min(places.len() - 1)]);
        match random.below(4) {
            0 => text.replace_range(from..to, ""),
            1 => text.insert_str(from, &pick(random, &PIECES)),
            2 => text.insert(from, char::from_u32(random.below(0x2_0000) as u32).unwrap_or('\0')),
            _ => text.truncate(from),
        }
        if text.is_empty() {
            break;
        }
    }
    text
}

fn check(text: &str, bad: &BadFilter) {
    assert!((1..=text.len() + 1).contains(&bad.position), "{text:?}: {bad}");
    assert!(!bad.message.is_empty());
}

#[test]
fn any_text_gets_an_answer() {
    let cases = if cfg!(debug_assertions) { 5_000 } else { 1_000_000 };
    let mut random = Random::new(7);
    let facts = row(1);
    let mut good = 0_u64;
    for _ in 0..cases {
        let text = fuzzed(&mut random);
        match parse_list(&text, &Custom) {
            Ok((filter, _)) => {
                good += 1;
                filter.evaluate(&facts);
            }
            Err(bad) => check(&text, &bad),
        }
        if let Err(bad) = parse_count(&text, &Custom) {
            check(&text, &bad);
        }
    }
    assert!(good > cases / 20, "only {good} of {cases} were filters: the texts are too wild to test much");
    println!("{good} of {cases} were filters");
}
