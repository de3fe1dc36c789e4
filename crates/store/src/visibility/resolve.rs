//! Resolves the names and values of a parsed filter.
//!
//! Names are resolved as in Temporal: its own come first, then those of the namespace, then Segno's; the prefix
//! `Temporal` may be left out or added. Values must be of the attribute's type, also as in Temporal.

use super::parse::{self, BadFilter, Literal, Name, Query, Test, Tree, WrittenValue};
use super::{Attribute, Comparison, Filter, Kind, Order, Value, literal, words};

/// The attributes of a namespace besides those that every run has.
pub trait Names {
    /// The attribute with exactly this name.
    fn find(&self, name: &str) -> Option<Attribute>;

    /// All names, to propose one for a name that is not known.
    fn known(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Temporal's names for what every run has.
const SYSTEM: [(&str, Attribute); 16] = [
    ("WorkflowId", Attribute::WorkflowId),
    ("RunId", Attribute::RunId),
    ("WorkflowType", Attribute::WorkflowType),
    ("ExecutionStatus", Attribute::ExecutionStatus),
    ("StartTime", Attribute::StartTime),
    ("ExecutionTime", Attribute::ExecutionTime),
    ("CloseTime", Attribute::CloseTime),
    ("ExecutionDuration", Attribute::ExecutionDuration),
    ("TaskQueue", Attribute::TaskQueue),
    ("HistoryLength", Attribute::HistoryLength),
    ("HistorySizeBytes", Attribute::HistorySizeBytes),
    ("StateTransitionCount", Attribute::StateTransitionCount),
    ("ParentWorkflowId", Attribute::ParentWorkflowId),
    ("ParentRunId", Attribute::ParentRunId),
    ("RootWorkflowId", Attribute::RootWorkflowId),
    ("RootRunId", Attribute::RootRunId),
];

/// Segno's own; an attribute of the namespace with the same name hides them.
const OWN: [(&str, Attribute); 4] = [
    ("ActivityAttempts", Attribute::ActivityAttempts),
    ("ActivityLastFailure", Attribute::ActivityLastFailure),
    ("WorkflowTaskAttempts", Attribute::WorkflowTaskAttempts),
    ("WorkflowTaskLastFailure", Attribute::WorkflowTaskLastFailure),
];

const PREFIX: &str = "Temporal";

/// The filter and order of a list. An empty text is all runs, newest first.
pub fn parse_list(text: &str, names: &dyn Names) -> Result<(Filter, Order), BadFilter> {
    let query = parse_filter(text)?;
    if let Some(name) = query.group_by {
        return Err(BadFilter::new(name.at, "GROUP BY works only in counts; leave it out of a list"));
    }
    let filter = filter(query.condition, names)?;
    let order = match query.order_by {
        None => Order::Newest,
        Some((name, false)) => Order::Ascending(find(&name, names)?),
        Some((name, true)) => Order::Descending(find(&name, names)?),
    };
    Ok((filter, order))
}

/// The filter and grouping of a count.
pub fn parse_count(text: &str, names: &dyn Names) -> Result<(Filter, Option<Attribute>), BadFilter> {
    let query = parse_filter(text)?;
    if let Some((name, _)) = query.order_by {
        return Err(BadFilter::new(name.at, "ORDER BY works only in lists; leave it out of a count"));
    }
    let filter = filter(query.condition, names)?;
    let group_by = query.group_by.map(|name| find(&name, names)).transpose()?;
    Ok((filter, group_by))
}

fn parse_filter(text: &str) -> Result<Query, BadFilter> {
    let query = parse::parse(text)?;
    match query.limit_at {
        Some(at) => Err(BadFilter::new(at, "LIMIT has no meaning here; ask for a page size instead")),
        None => Ok(query),
    }
}

fn filter(condition: Option<Tree>, names: &dyn Names) -> Result<Filter, BadFilter> {
    condition.map_or(Ok(Filter::All(Vec::new())), |tree| resolve(tree, names))
}

/// Recursion is bounded by the parser.
fn resolve(tree: Tree, names: &dyn Names) -> Result<Filter, BadFilter> {
    let each = |parts: Vec<Tree>| -> Result<Vec<_>, _> { parts.into_iter().map(|part| resolve(part, names)).collect() };
    Ok(match tree {
        Tree::All(parts) => Filter::All(each(parts)?),
        Tree::Any(parts) => Filter::Any(each(parts)?),
        Tree::Not(part) => Filter::Not(Box::new(resolve(*part, names)?)),
        Tree::Condition { name, negated, test } => {
            let filter = condition(find(&name, names)?, &name, test)?;
            if negated { Filter::Not(Box::new(filter)) } else { filter }
        }
        Tree::NotAFilter(bad) => return Err(bad),
    })
}

fn condition(attribute: Attribute, name: &Name, test: Test) -> Result<Filter, BadFilter> {
    let kind = attribute.kind();
    let searched = matches!(kind, Kind::KeywordList | Kind::Text);
    let value = |literal| value(attribute, name, literal);
    let refuse = |what: &str| {
        let text = &name.text;
        Err(BadFilter::new(name.at, format!("{text} is {}, {what}", with_article(kind))))
    };
    Ok(match test {
        Test::IsNull => Filter::IsNull(attribute),
        Test::Compare(comparison, literal) => {
            if searched && !matches!(comparison, Comparison::Equal | Comparison::NotEqual) {
                return refuse("which can be searched but not compared; use =, !=, IN, STARTS_WITH or LIKE");
            }
            Filter::Compare(attribute, comparison, value(literal)?)
        }
        Test::In(literals) => Filter::In(attribute, literals.into_iter().map(value).collect::<Result<_, _>>()?),
        Test::Between(..) if searched || kind == Kind::Bool => {
            return refuse("which has no ranges; use =, != or IN");
        }
        Test::Between(from, to) => Filter::Between(attribute, value(from)?, value(to)?),
        Test::StartsWith(_) | Test::Like(_) if !searched && kind != Kind::Keyword => {
            return refuse("and only texts can be searched; use a comparison");
        }
        Test::StartsWith(literal) => match literal.value {
            WrittenValue::Text { plain, .. } => Filter::StartsWith(attribute, plain),
            _ => return Err(BadFilter::new(literal.at, "expected a text in quotes after STARTS_WITH")),
        },
        Test::Like(literal) => match literal.value {
            WrittenValue::Text { pattern, .. } => Filter::Like(attribute, pattern),
            _ => return Err(BadFilter::new(literal.at, "expected a text in quotes after LIKE")),
        },
    })
}

/// A value of the attribute's kind.
fn value(attribute: Attribute, name: &Name, literal: Literal) -> Result<Value, BadFilter> {
    let bad = |message: String| Err(BadFilter::new(literal.at, message));
    let (kind, name) = (attribute.kind(), &name.text);
    match (attribute, kind, literal.value) {
        (Attribute::ExecutionStatus, _, WrittenValue::Int(number)) if literal::is_status(number) => {
            Ok(Value::Int(number))
        }
        (Attribute::ExecutionStatus, _, WrittenValue::Text { plain, .. }) => match literal::status(&plain) {
            Some(number) => Ok(Value::Int(number)),
            None => bad(format!("{plain:?} is no status; it can be {}", literal::status_names())),
        },
        (Attribute::ExecutionStatus, ..) => bad(format!("expected a status: {}", literal::status_names())),
        (Attribute::ExecutionDuration, _, WrittenValue::Int(nanos)) => Ok(Value::Int(nanos)),
        (Attribute::ExecutionDuration, _, WrittenValue::Text { plain, .. }) => match literal::duration(&plain) {
            Some(nanos) => Ok(Value::Int(nanos)),
            None => bad(format!("{plain:?} is no duration; write '1h30m', '01:30:00' or a number of nanoseconds")),
        },
        (Attribute::ExecutionDuration, ..) => bad("expected a duration such as '1h30m'".to_owned()),
        (_, Kind::Datetime, WrittenValue::Int(nanos)) => Ok(Value::Int(nanos)),
        (_, Kind::Datetime, WrittenValue::Text { plain, .. }) => match literal::moment(&plain) {
            Some(nanos) => Ok(Value::Int(nanos)),
            None => bad(format!("{plain:?} is no time; write it as '2024-12-31T23:59:59Z' (RFC 3339)")),
        },
        (_, Kind::Datetime, _) => bad("expected a time such as '2024-12-31T23:59:59Z'".to_owned()),
        (_, Kind::Text, WrittenValue::Text { plain, .. })
            if words::words(&plain).is_empty() && plain.trim().is_empty() =>
        {
            bad(format!("expected a word to look for in {name}"))
        }
        (_, Kind::Keyword | Kind::KeywordList | Kind::Text, WrittenValue::Text { plain, .. }) => Ok(Value::Text(plain)),
        (_, Kind::Int | Kind::Double, WrittenValue::Int(number)) => Ok(int(kind, number)),
        (_, Kind::Int | Kind::Double, WrittenValue::Double(number)) => Ok(double(kind, number)),
        (_, Kind::Bool, WrittenValue::Bool(truth)) => Ok(Value::Bool(truth)),
        (_, Kind::Keyword | Kind::KeywordList | Kind::Text, _) => {
            bad(format!("{name} is {}; put the value in quotes", with_article(kind)))
        }
        (_, Kind::Bool, _) => bad(format!("{name} is a Bool; expected true or false")),
        (_, Kind::Int | Kind::Double, _) => {
            bad(format!("{name} is {}; expected a number without quotes", with_article(kind)))
        }
    }
}

/// An integer that is no double is left as it is: both are compared exactly.
fn int(kind: Kind, number: i64) -> Value {
    let double = number as f64;
    let exact = Value::Int(number).compare(&Value::Double(double)).is_some_and(std::cmp::Ordering::is_eq);
    if kind == Kind::Double && exact { Value::Double(double) } else { Value::Int(number) }
}

fn double(kind: Kind, number: f64) -> Value {
    let int = Value::Int(number as i64);
    let exact = int.compare(&Value::Double(number)).is_some_and(std::cmp::Ordering::is_eq);
    if kind == Kind::Int && exact { int } else { Value::Double(number) }
}

fn with_article(kind: Kind) -> String {
    format!("{} {kind:?}", if kind == Kind::Int { "an" } else { "a" })
}

fn find(name: &Name, names: &dyn Names) -> Result<Attribute, BadFilter> {
    look_up(&name.text, names).ok_or_else(|| {
        let message = match nearest(&name.text, names) {
            Some(nearest) => format!("{} is not a search attribute; did you mean {nearest}?", name.text),
            None => format!("{} is not a search attribute of this namespace; add it, or check the spelling", name.text),
        };
        BadFilter::new(name.at, message)
    })
}

fn look_up(name: &str, names: &dyn Names) -> Option<Attribute> {
    let among = |known: &[(&str, Attribute)], name: &str| {
        known.iter().find(|(known, _)| *known == name).map(|(_, attribute)| *attribute)
    };
    let bare = name.strip_prefix(PREFIX);
    among(&SYSTEM, name)
        .or_else(|| names.find(name))
        .or_else(|| among(&OWN, name))
        .or_else(|| (bare.unwrap_or(name) == "ScheduleId").then_some(Attribute::WorkflowId))
        .or_else(|| names.find(&format!("{PREFIX}{name}")))
        .or_else(|| bare.and_then(|bare| among(&SYSTEM, bare).or_else(|| names.find(bare))))
}

/// The known name that needs the fewest changes, if it needs few.
fn nearest(name: &str, names: &dyn Names) -> Option<String> {
    let known = SYSTEM.iter().chain(&OWN).map(|(name, _)| (*name).to_owned()).chain(names.known());
    let near = known.map(|known| (distance(name, &known), known));
    let (changes, nearest) = near.min_by_key(|(changes, _)| *changes)?;
    (changes <= 1 + nearest.len() / 4).then_some(nearest)
}

/// How many letters to change, add or remove, not counting case; large if a name is long.
fn distance(one: &str, two: &str) -> usize {
    const LENGTH_MAX: usize = 64;
    if one.len().max(two.len()) > LENGTH_MAX {
        return usize::MAX;
    }
    let lower = |text: &str| text.to_lowercase().chars().collect::<Vec<_>>();
    let (one, two) = (lower(one), lower(two));
    let mut row: Vec<usize> = (0..=two.len()).collect();
    for (place, letter) in one.iter().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], place + 1);
        for (other, found) in two.iter().enumerate() {
            let changed = diagonal + usize::from(letter != found);
            diagonal = row[other + 1];
            row[other + 1] = changed.min(diagonal + 1).min(row[other] + 1);
        }
    }
    row[two.len()]
}
