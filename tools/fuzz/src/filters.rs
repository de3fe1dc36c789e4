//! Filters of lists and counts: any text is a filter or an error with a position inside the text.

use segno_store::{
    kit::row,
    visibility::{Attribute, BadFilter, Kind, Names, parse_count, parse_list},
};

struct Custom;

impl Names for Custom {
    fn find(&self, name: &str) -> Option<Attribute> {
        let kinds = [
            ("K", Kind::Keyword),
            ("L", Kind::KeywordList),
            ("T", Kind::Text),
            ("I", Kind::Int),
            ("D", Kind::Double),
            ("B", Kind::Bool),
            ("A", Kind::Datetime),
        ];
        let (_, kind) = kinds.into_iter().find(|(known, _)| *known == name)?;
        Some(Attribute::Numbered(1_000, kind))
    }

    fn known(&self) -> Vec<String> {
        vec!["K".to_owned(), "LongerName".to_owned()]
    }
}

fn check(text: &str, bad: &BadFilter) {
    assert!((1..=text.len() + 1).contains(&bad.position), "{text:?}: {bad}");
    assert!(!bad.message.is_empty());
}

pub(crate) fn run(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    match parse_list(text, &Custom) {
        Ok((filter, _)) => {
            filter.evaluate(&row(1));
        }
        Err(bad) => check(text, &bad),
    }
    if let Err(bad) = parse_count(text, &Custom) {
        check(text, &bad);
    }
}

pub(crate) fn seeds() -> Vec<(String, Vec<u8>)> {
    let texts = [
        "WorkflowId = 'order-1' AND ExecutionStatus IN ('Running', 'Failed')",
        "NOT (K = \"it's\" OR K STARTS_WITH '50%_') AND T != 'quick fox'",
        "StartTime BETWEEN '2024-01-01T00:00:00Z' AND '2024-12-31T23:59:59.123456789+02:00'",
        "ExecutionDuration > '1h30m' OR ExecutionDuration <= '01:30:00' OR ExecutionDuration = -5",
        "I >= -7 AND D < 1.5e-3 AND B = true AND L NOT IN ('a', 'b''c')",
        "`K` IS NOT NULL GROUP BY ExecutionStatus",
        "((((I = 1)))) ORDER BY CloseTime DESC",
    ];
    texts.iter().enumerate().map(|(number, text)| (number.to_string(), text.as_bytes().to_vec())).collect()
}
