//! The filter language of lists of workers: conditions on the fields of a heartbeat, joined by AND and OR.
//!
//! As in Temporal, only syntax errors are refused. A condition on an unknown field, or of the wrong type, matches no
//! worker.

use segno_proto::{Nanos, timestamp_nanos, worker::WorkerHeartbeat};

/// Positions in a query are reported as if it were part of this statement.
const STATEMENT: &str = "select * from table1 where ";
/// Words that are no names unless they are quoted.
const KEYWORDS: [&str; 9] = ["and", "between", "from", "in", "is", "like", "or", "select", "where"];
/// Deepest nesting of brackets.
const DEPTH_MAX: usize = 100;

/// A query that cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadWorkerQuery(String);

/// A parsed query; the default fits every worker.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkerQuery {
    condition: Option<Condition>,
}

#[derive(Clone, Debug, PartialEq)]
enum Condition {
    All(Box<Condition>, Box<Condition>),
    Any(Box<Condition>, Box<Condition>),
    Test(String, Test),
    /// Parsed, but not among what is answered.
    Unanswerable,
}

#[derive(Clone, Debug, PartialEq)]
enum Test {
    Compare(Operator, Value),
    Between { from: Value, to: Value, negated: bool },
    Null { negated: bool },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    StartsWith,
    NotStartsWith,
}

#[derive(Clone, Debug, PartialEq)]
enum Value {
    Text(String),
    Number(i64),
}

impl WorkerQuery {
    /// Parses a query. An empty one fits every worker.
    pub fn parse(text: &str) -> Result<Self, BadWorkerQuery> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        let trimmed = text.trim();
        let lower = trimmed.to_lowercase();
        if lower.starts_with("where ") || lower.starts_with("select ") {
            return Err(BadWorkerQuery(format!("invalid filter: {trimmed}")));
        }
        if trimmed.is_empty() {
            return Err(BadWorkerQuery("malformed query: syntax error at position 1".to_owned()));
        }
        let mut parser = Parser { text: trimmed, at: 0, depth: 0, token: Token::End };
        parser.advance();
        let condition = parser.any()?;
        parser.end()?;
        Ok(Self { condition: Some(condition) })
    }

    /// Whether a worker fits.
    pub fn fits(&self, worker: &WorkerHeartbeat) -> bool {
        self.condition.as_ref().is_none_or(|condition| condition.fits(worker).unwrap_or(false))
    }
}

impl Condition {
    /// None if it cannot be answered; then no worker fits.
    fn fits(&self, worker: &WorkerHeartbeat) -> Option<bool> {
        match self {
            // The second is looked at only if it matters.
            Self::All(first, second) => {
                if first.fits(worker)? {
                    second.fits(worker)
                } else {
                    Some(false)
                }
            }
            Self::Any(first, second) => {
                if first.fits(worker)? {
                    Some(true)
                } else {
                    second.fits(worker)
                }
            }
            Self::Test(name, test) => match text_field(name, worker) {
                Some(text) => text_fits(&text, test),
                None => time_fits(time_field(name, worker)?, test),
            },
            Self::Unanswerable => None,
        }
    }
}

fn text_field(name: &str, worker: &WorkerHeartbeat) -> Option<String> {
    let version = worker.deployment_version.as_ref();
    let text = match name {
        "WorkerInstanceKey" => worker.worker_instance_key.clone(),
        "WorkerIdentity" => worker.worker_identity.clone(),
        "HostName" => worker.host_info.as_ref().map(|host| host.host_name.clone()).unwrap_or_default(),
        "TaskQueue" => worker.task_queue.clone(),
        "DeploymentName" => version.map(|version| version.deployment_name.clone()).unwrap_or_default(),
        "BuildId" => version.map(|version| version.build_id.clone()).unwrap_or_default(),
        "SdkName" => worker.sdk_name.clone(),
        "SdkVersion" => worker.sdk_version.clone(),
        "WorkerStatus" | "status" => format!("{:?}", worker.status()),
        _ => return None,
    };
    Some(text)
}

/// None for an unknown field, nothing in it for a time that is not set.
fn time_field(name: &str, worker: &WorkerHeartbeat) -> Option<Option<Nanos>> {
    let time = match name {
        "StartTime" => worker.start_time.as_ref(),
        "HeartbeatTime" => worker.heartbeat_time.as_ref(),
        _ => return None,
    };
    Some(time.map(timestamp_nanos))
}

fn text_fits(text: &str, test: &Test) -> Option<bool> {
    match test {
        Test::Null { negated } => Some(text.is_empty() != *negated),
        Test::Compare(operator, Value::Text(wanted)) if !wanted.is_empty() => match operator {
            Operator::Equal => Some(text == wanted),
            Operator::NotEqual => Some(text != wanted),
            Operator::StartsWith => Some(text.starts_with(wanted)),
            Operator::NotStartsWith => Some(!text.starts_with(wanted)),
            _ => None,
        },
        _ => None,
    }
}

fn time_fits(time: Option<Nanos>, test: &Test) -> Option<bool> {
    match test {
        Test::Null { negated } => Some(time.is_none() != *negated),
        Test::Between { from, to, negated } => {
            let (from, to) = (from.time()?, to.time()?);
            Some(time.is_some_and(|time| (from <= time && time <= to) != *negated))
        }
        Test::Compare(operator, wanted) => {
            let (time, wanted) = (time.unwrap_or(0), wanted.time()?);
            match operator {
                Operator::Equal => Some(time == wanted),
                Operator::NotEqual => Some(time != wanted),
                Operator::Less => Some(time < wanted),
                Operator::LessOrEqual => Some(time <= wanted),
                Operator::Greater => Some(time > wanted),
                Operator::GreaterOrEqual => Some(time >= wanted),
                Operator::StartsWith | Operator::NotStartsWith => None,
            }
        }
    }
}

impl Value {
    fn time(&self) -> Option<Nanos> {
        match self {
            Self::Number(nanos) => Some(*nanos),
            Self::Text(text) => text.parse().ok().map(|time| timestamp_nanos(&time)),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Token<'a> {
    Word(&'a str),
    Name(&'a str),
    Text(String),
    /// A text without its closing quote.
    Unended(String),
    Number(&'a str),
    Sign(&'a str),
    End,
}

struct Parser<'a> {
    text: &'a str,
    /// Where the token ends.
    at: usize,
    depth: usize,
    token: Token<'a>,
}

impl<'a> Parser<'a> {
    fn advance(&mut self) {
        let rest = &self.text[self.at..];
        let trimmed = rest.trim_start();
        self.at += rest.len() - trimmed.len();
        let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
        let Some(first) = trimmed.chars().next() else {
            self.token = Token::End;
            return;
        };
        let length = match first {
            '\'' | '"' => return self.quoted(first),
            '`' => return self.named(),
            c if is_word(c) => trimmed.find(|c| !is_word(c)).unwrap_or(trimmed.len()),
            _ => ["<=", ">=", "!=", "<>"]
                .iter()
                .find(|sign| trimmed.starts_with(**sign))
                .map_or(first.len_utf8(), |s| s.len()),
        };
        let token = &self.text[self.at..self.at + length];
        self.at += length;
        self.token = match first {
            c if c.is_ascii_digit() => Token::Number(token),
            c if is_word(c) => Token::Word(token),
            _ => Token::Sign(token),
        };
    }

    /// A text up to its quote; a quote inside is doubled or has a backslash before it.
    fn quoted(&mut self, quote: char) {
        let mut text = String::new();
        let mut characters = self.text[self.at + 1..].char_indices().peekable();
        while let Some((at, character)) = characters.next() {
            match character {
                '\\' => text.extend(characters.next().map(|(_, escaped)| escaped)),
                c if c == quote && characters.next_if(|(_, next)| *next == quote).is_some() => text.push(quote),
                c if c == quote => {
                    self.at += 1 + at + 1;
                    self.token = Token::Text(text);
                    return;
                }
                c => text.push(c),
            }
        }
        self.at = self.text.len();
        self.token = Token::Unended(text);
    }

    fn named(&mut self) {
        let rest = &self.text[self.at + 1..];
        let length = rest.find('`').unwrap_or(rest.len());
        self.token = Token::Name(&rest[..length]);
        self.at = (self.at + length + 2).min(self.text.len());
    }

    fn wrong<T>(&self) -> Result<T, BadWorkerQuery> {
        let position = STATEMENT.len() + self.at + 1;
        let near = match &self.token {
            Token::Word(text) | Token::Name(text) | Token::Number(text) => format!(" near '{text}'"),
            Token::Text(text) | Token::Unended(text) => format!(" near '{text}'"),
            Token::Sign(_) | Token::End => String::new(),
        };
        Err(BadWorkerQuery(format!("malformed query: syntax error at position {position}{near}")))
    }

    fn takes_word(&mut self, wanted: &str) -> bool {
        let here = matches!(self.token, Token::Word(word) if word.eq_ignore_ascii_case(wanted));
        if here {
            self.advance();
        }
        here
    }

    fn takes_sign(&mut self, wanted: &str) -> bool {
        let here = self.token == Token::Sign(wanted);
        if here {
            self.advance();
        }
        here
    }

    fn any(&mut self) -> Result<Condition, BadWorkerQuery> {
        let mut condition = self.all()?;
        while self.takes_word("or") {
            condition = Condition::Any(Box::new(condition), Box::new(self.all()?));
        }
        Ok(condition)
    }

    fn all(&mut self) -> Result<Condition, BadWorkerQuery> {
        let mut condition = self.one()?;
        while self.takes_word("and") {
            condition = Condition::All(Box::new(condition), Box::new(self.one()?));
        }
        Ok(condition)
    }

    fn one(&mut self) -> Result<Condition, BadWorkerQuery> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return self.wrong();
        }
        let condition = self.one_within();
        self.depth -= 1;
        condition
    }

    fn one_within(&mut self) -> Result<Condition, BadWorkerQuery> {
        if self.takes_word("not") {
            self.one()?;
            return Ok(Condition::Unanswerable);
        }
        if self.takes_sign("(") {
            let condition = self.any()?;
            return if self.takes_sign(")") { Ok(condition) } else { self.wrong() };
        }
        let name = match &self.token {
            // The parser of the original takes this word for its own and gives it back in small letters.
            Token::Word(name) if name.eq_ignore_ascii_case("status") => Some("status".to_owned()),
            Token::Word(word) if KEYWORDS.iter().any(|keyword| word.eq_ignore_ascii_case(keyword)) => {
                return self.wrong();
            }
            Token::Word(name) | Token::Name(name) => Some((*name).to_owned()),
            Token::Text(_) | Token::Number(_) => None,
            Token::Unended(_) | Token::Sign(_) | Token::End => return self.wrong(),
        };
        self.advance();
        let test = self.test()?;
        Ok(match (name, test) {
            (Some(name), Some(test)) => Condition::Test(name, test),
            _ => Condition::Unanswerable,
        })
    }

    /// What is asked of a field; nothing if it is more than can be answered.
    fn test(&mut self) -> Result<Option<Test>, BadWorkerQuery> {
        if self.takes_word("is") {
            let negated = self.takes_word("not");
            return if self.takes_word("null") { Ok(Some(Test::Null { negated })) } else { self.wrong() };
        }
        let signs = [
            ("=", Operator::Equal),
            ("!=", Operator::NotEqual),
            ("<>", Operator::NotEqual),
            ("<=", Operator::LessOrEqual),
            (">=", Operator::GreaterOrEqual),
            ("<", Operator::Less),
            (">", Operator::Greater),
        ];
        for (sign, operator) in signs {
            if self.takes_sign(sign) {
                return Ok(self.value()?.map(|value| Test::Compare(operator, value)));
            }
        }
        let negated = self.takes_word("not");
        if self.takes_word("starts_with") {
            let operator = if negated { Operator::NotStartsWith } else { Operator::StartsWith };
            return Ok(self.value()?.map(|value| Test::Compare(operator, value)));
        }
        if self.takes_word("between") {
            let from = self.value()?;
            if !self.takes_word("and") {
                return self.wrong();
            }
            let to = self.value()?;
            return Ok(from.zip(to).map(|(from, to)| Test::Between { from, to, negated }));
        }
        if self.takes_word("like") {
            self.value()?;
            return Ok(None);
        }
        if self.takes_word("in") {
            let mut more = self.takes_sign("(");
            while more {
                self.value()?;
                more = self.takes_sign(",");
            }
            return if self.takes_sign(")") { Ok(None) } else { self.wrong() };
        }
        // A field alone says nothing, but it is an expression.
        let over = match &self.token {
            Token::End => true,
            Token::Sign(sign) => matches!(*sign, ")" | ";"),
            Token::Word(word) => ["and", "or", "limit", "order"].iter().any(|w| word.eq_ignore_ascii_case(w)),
            _ => false,
        };
        if over && !negated { Ok(None) } else { self.wrong() }
    }

    /// A value; nothing if it is one that cannot be compared.
    fn value(&mut self) -> Result<Option<Value>, BadWorkerQuery> {
        let value = match &self.token {
            Token::Text(text) => Some(Value::Text(text.clone())),
            Token::Number(digits) => digits.parse().ok().map(Value::Number),
            Token::Word(_) | Token::Name(_) => None,
            Token::Unended(_) | Token::Sign(_) | Token::End => return self.wrong(),
        };
        self.advance();
        Ok(value)
    }

    /// What may follow a condition.
    fn end(&mut self) -> Result<(), BadWorkerQuery> {
        if self.takes_word("limit") {
            return Err(BadWorkerQuery("operation is not supported: 'limit' clause".to_owned()));
        }
        self.takes_sign(";");
        if self.token == Token::End { Ok(()) } else { self.wrong() }
    }
}

#[cfg(test)]
mod tests {
    use segno_proto::{enums::WorkerStatus, nanos_timestamp};

    use super::*;

    fn worker() -> WorkerHeartbeat {
        WorkerHeartbeat {
            worker_instance_key: "key".into(),
            task_queue: "it's".into(),
            status: WorkerStatus::ShuttingDown as i32,
            start_time: Some(nanos_timestamp(1_700_000_000 * 1_000_000_000)),
            ..Default::default()
        }
    }

    #[test]
    fn conditions_look_at_heartbeats() {
        for (query, fits) in [
            ("", true),
            ("TaskQueue = 'it''s'", true),
            ("TaskQueue = \"it's\" and WorkerInstanceKey != 'key'", false),
            ("TaskQueue = 'other' OR (Status = 'ShuttingDown' AND HostName IS NULL)", true),
            ("WorkerStatus = 'Running'", false),
            ("WorkerInstanceKey not starts_with 'k'", false),
            ("StartTime >= '2023-11-14T22:13:20Z'", true),
            ("StartTime between '2023-01-01T00:00:00Z' and '2024-01-01T00:00:00Z'", true),
            ("StartTime not between '2023-01-01T00:00:00Z' and '2024-01-01T00:00:00Z'", false),
            ("HeartbeatTime is not null", false),
            // Not answered, so no worker fits.
            ("NoSuchField != 'x'", false),
            ("taskqueue is null", false),
            ("WorkerInstanceKey > 'a'", false),
            ("WorkerInstanceKey in ('key')", false),
            ("not WorkerInstanceKey = 'x'", false),
            ("WorkerInstanceKey", false),
            ("StartTime = 'yesterday'", false),
        ] {
            assert_eq!(WorkerQuery::parse(query).map(|query| query.fits(&worker())), Ok(fits), "{query}");
        }
    }

    #[test]
    fn what_cannot_be_parsed_is_told_with_its_place() {
        for (query, text) in [
            ("TaskQueue = ", "malformed query: syntax error at position 39"),
            ("TaskQueue='tq' extra", "malformed query: syntax error at position 48 near 'extra'"),
            ("TaskQueue='tq", "malformed query: syntax error at position 41 near 'tq'"),
            ("  ", "malformed query: syntax error at position 1"),
            ("a b c", "malformed query: syntax error at position 31 near 'b'"),
            ("and TaskQueue = 'tq'", "malformed query: syntax error at position 31 near 'and'"),
            ("TaskQueue == 'x'", "malformed query: syntax error at position 40"),
            ("TaskQueue='tq' limit 1", "operation is not supported: 'limit' clause"),
            ("where x='y'", "invalid filter: where x='y'"),
        ] {
            assert_eq!(WorkerQuery::parse(query), Err(BadWorkerQuery(text.to_owned())), "{query}");
        }
        assert!(WorkerQuery::parse(&"(".repeat(100_000)).is_err());
    }
}
