//! From the text of a filter to a tree of its conditions, before names and values mean anything. The filters of lists of runs and
//! those of lists of workers are parsed here.
//!
//! The grammar, keywords in any case:
//!
//! ```text
//! filter    = [ any ] [ GROUP BY name ] [ ORDER BY name [ ASC | DESC ] ] [ LIMIT ... ] [ ; ]
//! any       = all { OR all }
//! all       = not { AND not }
//! not       = NOT not | ( any ) | condition
//! condition = name ( = | != | <> | < | <= | > | >= ) value
//!           | name [ NOT ] IN ( value { , value } )
//!           | name [ NOT ] BETWEEN value AND value
//!           | name [ NOT ] STARTS_WITH text
//!           | name [ NOT ] LIKE text
//!           | name IS [ NOT ] NULL
//! ```
//!
//! Temporal parses filters as SQL, which has more expressions: a name alone, a name as a value, a value where a name belongs, a call
//! of a function. They are accepted and marked ([`Tree::NotAFilter`]).
//!
//! What holds: every text gives a tree or a [`SyntaxError`] in time proportional to its length; nesting, conditions and
//! values are bounded, so that no later step needs a bound of its own.

use super::Comparison;
use super::token::{Lexer, Token};

/// Longest filter.
const BYTES_MAX: usize = 64 << 10;
/// Deepest nesting of brackets and NOT.
const DEPTH_MAX: usize = 100;
/// Most conditions. With the nesting they stay below the 1,000 levels that SQLite's parser allows an expression.
const CONDITIONS_MAX: usize = 800;
/// Most values in all conditions.
const VALUES_MAX: usize = 10_000;

/// A filter that cannot be understood: the mistake, its place, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at {position}: {message}")]
pub struct BadFilter {
    /// Which byte of the filter it is about, from 1.
    pub position: usize,
    /// The expected text, or the remedy.
    pub message: String,
}

impl BadFilter {
    /// `at` counts from 0.
    pub(super) fn new(at: usize, message: impl Into<String>) -> Self {
        Self { position: at + 1, message: message.into() }
    }
}

/// Where a text stops being SQL, and what a filter must have there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    bad: BadFilter,
    /// The byte after the token that does not fit, and that token if it is a word or value; `None` if the text exceeds a limit.
    token: Option<(usize, Option<String>)>,
}

impl SyntaxError {
    /// The error in the words of Temporal's SQL parser, which sees the filter at the end of a statement. `None` if the text exceeds
    /// a limit of this parser.
    pub fn in_statement(&self, statement: &str) -> Option<String> {
        let (end, near) = self.token.as_ref()?;
        let near = near.as_ref().map(|near| format!(" near '{near}'")).unwrap_or_default();
        Some(format!("syntax error at position {}{near}", statement.len() + end + 1))
    }
}

impl From<SyntaxError> for BadFilter {
    fn from(error: SyntaxError) -> Self {
        error.bad
    }
}

/// A parsed text.
#[derive(Debug, Default)]
pub struct Query {
    /// The condition before the clauses.
    pub condition: Option<Tree>,
    /// The attribute of GROUP BY.
    pub group_by: Option<Name>,
    /// The attribute of ORDER BY, and whether greatest first.
    pub order_by: Option<(Name, bool)>,
    /// The byte at which LIMIT begins.
    pub limit_at: Option<usize>,
}

/// A condition of conditions.
#[derive(Clone, Debug, PartialEq)]
pub enum Tree {
    /// Each of these.
    All(Vec<Tree>),
    /// One of these at least.
    Any(Vec<Tree>),
    /// Not this.
    Not(Box<Tree>),
    /// A test of an attribute; negated if there is a NOT before the test.
    Condition {
        /// The attribute.
        name: Name,
        /// Whether the opposite is wanted.
        negated: bool,
        /// The test of the attribute.
        test: Test,
    },
    /// SQL, but not a filter, and what a filter must have there.
    NotAFilter(BadFilter),
}

/// The name of an attribute and the byte it begins at.
#[derive(Clone, Debug, PartialEq)]
pub struct Name {
    /// The name without quotes.
    pub text: String,
    pub(super) at: usize,
}

/// A test of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum Test {
    /// A comparison with a value.
    Compare(Comparison, Literal),
    /// One of these values.
    In(Vec<Literal>),
    /// From the first to the second, both included.
    Between(Literal, Literal),
    /// Begins with a text.
    StartsWith(Literal),
    /// Fits a pattern.
    Like(Literal),
    /// No value.
    IsNull,
}

/// A value as written and the byte it begins at.
#[derive(Clone, Debug, PartialEq)]
pub struct Literal {
    /// The value.
    pub value: WrittenValue,
    pub(super) at: usize,
}

/// A value as written.
#[derive(Clone, Debug, PartialEq)]
pub enum WrittenValue {
    /// A text in quotes.
    Text {
        /// Without escapes.
        plain: String,
        /// With the escapes that patterns have.
        pattern: String,
    },
    /// A whole number.
    Int(i64),
    /// Any other number.
    Double(f64),
    /// TRUE or FALSE.
    Bool(bool),
}

/// Parses a text that must be SQL, and should be a filter.
pub fn parse(text: &str) -> Result<Query, SyntaxError> {
    if text.len() > BYTES_MAX {
        let message = format!("the filter is longer than {BYTES_MAX} bytes; shorten it");
        return Err(SyntaxError { bad: BadFilter::new(BYTES_MAX, message), token: None });
    }
    let mut parser = Parser {
        text,
        lexer: Lexer::new(text),
        token: Token::End,
        at: 0,
        depth: 0,
        conditions: 0,
        values: 0,
        not_a_filter: Vec::new(),
    };
    parser.advance()?;
    parser.query()
}

struct Parser<'a> {
    text: &'a str,
    lexer: Lexer<'a>,
    /// The token to be looked at next, and where it begins.
    token: Token<'a>,
    at: usize,
    depth: usize,
    conditions: usize,
    values: usize,
    /// Places that are SQL but not a filter.
    not_a_filter: Vec<BadFilter>,
}

impl<'a> Parser<'a> {
    fn query(&mut self) -> Result<Query, SyntaxError> {
        let mut query = Query::default();
        if !self.ends() && !self.sees("GROUP") && !self.sees("ORDER") {
            query.condition = Some(self.any()?);
        }
        if self.accept("GROUP")? {
            self.expect("BY", "GROUP")?;
            query.group_by = Some(self.name("GROUP BY")?);
        }
        if self.accept("ORDER")? {
            self.expect("BY", "ORDER")?;
            let name = self.name("ORDER BY")?;
            let descending = self.accept("DESC")?;
            if !descending {
                self.accept("ASC")?;
            }
            query.order_by = Some((name, descending));
        }
        if self.sees_sign(",") {
            return self.bad("only one attribute can stand here");
        }
        if self.sees("LIMIT") {
            query.limit_at = Some(self.at);
            return Ok(query);
        }
        self.accept_sign(";")?;
        if self.token == Token::End {
            return Ok(query);
        }
        let last_clause = query.group_by.is_some() || query.order_by.is_some();
        self.bad(if last_clause {
            "expected the end of the filter"
        } else {
            "expected AND, OR or the end of the filter"
        })
    }

    fn any(&mut self) -> Result<Tree, SyntaxError> {
        let mut parts = vec![self.all()?];
        while self.accept("OR")? || self.accept_sign("||")? {
            parts.push(self.all()?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Tree::Any(parts) })
    }

    fn all(&mut self) -> Result<Tree, SyntaxError> {
        let mut parts = vec![self.not()?];
        while self.accept("AND")? || self.accept_sign("&&")? {
            parts.push(self.not()?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Tree::All(parts) })
    }

    fn not(&mut self) -> Result<Tree, SyntaxError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return self.limit(format!("brackets and NOT are nested more than {DEPTH_MAX} deep; simplify the filter"));
        }
        let tree = if self.accept("NOT")? {
            Tree::Not(Box::new(self.not()?))
        } else if self.accept_sign("(")? {
            let inner = self.any()?;
            if !self.accept_sign(")")? {
                return self.bad("expected AND, OR or )");
            }
            inner
        } else {
            self.condition()?
        };
        self.depth -= 1;
        Ok(tree)
    }

    fn condition(&mut self) -> Result<Tree, SyntaxError> {
        self.conditions += 1;
        if self.conditions > CONDITIONS_MAX {
            return self.limit(format!("there are more than {CONDITIONS_MAX} conditions; use IN for many values"));
        }
        let noted = self.not_a_filter.len();
        let name = self.subject()?;
        let (negated, test) = self.test(&name)?;
        Ok(match self.not_a_filter.get(noted) {
            Some(bad) => Tree::NotAFilter(bad.clone()),
            None => Tree::Condition { name, negated, test },
        })
    }

    /// The left side of a condition. SQL allows a value or a call here.
    fn subject(&mut self) -> Result<Name, SyntaxError> {
        if matches!(self.token, Token::Text { .. } | Token::Number(_))
            || ["TRUE", "FALSE", "NULL"].iter().any(|value| self.sees(value))
        {
            let at = self.at;
            self.not_a_filter("expected the name of an attribute, such as WorkflowId, or (");
            self.advance()?;
            return Ok(Name { text: String::new(), at });
        }
        self.name("a condition")
    }

    /// The test of an attribute, and whether its opposite is wanted.
    fn test(&mut self, name: &Name) -> Result<(bool, Test), SyntaxError> {
        let missing = format!("expected a comparison after {}, such as = or IN", name.text);
        if self.sees_sign("(") {
            self.not_a_filter(&missing);
            self.skip_arguments()?;
        }
        let comparison = match &self.token {
            Token::Sign("=") => Some((Comparison::Equal, "=")),
            Token::Sign("!=") => Some((Comparison::NotEqual, "!=")),
            Token::Sign("<>") => Some((Comparison::NotEqual, "<>")),
            Token::Sign("<") => Some((Comparison::Less, "<")),
            Token::Sign("<=") => Some((Comparison::LessOrEqual, "<=")),
            Token::Sign(">") => Some((Comparison::Greater, ">")),
            Token::Sign(">=") => Some((Comparison::GreaterOrEqual, ">=")),
            _ => None,
        };
        if let Some((comparison, sign)) = comparison {
            self.advance()?;
            return Ok((false, Test::Compare(comparison, self.literal(sign)?)));
        }
        if self.accept("IS")? {
            let negated = self.accept("NOT")?;
            if !self.accept("NULL")? {
                return self.bad("expected NULL or NOT NULL after IS");
            }
            return Ok((negated, Test::IsNull));
        }
        let negated = self.accept("NOT")?;
        let test = if self.accept("IN")? {
            Test::In(self.literals()?)
        } else if self.accept("BETWEEN")? {
            let from = self.literal("BETWEEN")?;
            self.expect("AND", "the first value of BETWEEN")?;
            Test::Between(from, self.literal("AND")?)
        } else if self.accept("STARTS_WITH")? {
            Test::StartsWith(self.literal("STARTS_WITH")?)
        } else if self.accept("LIKE")? {
            Test::Like(self.literal("LIKE")?)
        } else if negated {
            return self.bad("expected IN, BETWEEN, STARTS_WITH or LIKE after NOT");
        } else {
            self.not_a_filter(&missing);
            Test::IsNull
        };
        Ok((negated, test))
    }

    /// Arguments of a function, in brackets.
    fn skip_arguments(&mut self) -> Result<(), SyntaxError> {
        let mut open = 0_usize;
        loop {
            match &self.token {
                Token::Sign("(") => open += 1,
                Token::Sign(")") => open -= 1,
                Token::End => return self.bad("expected )"),
                _ => {}
            }
            self.advance()?;
            if open == 0 {
                return Ok(());
            }
        }
    }

    fn name(&mut self, of: &str) -> Result<Name, SyntaxError> {
        let text = match &self.token {
            Token::Word(word) if !is_keyword(word) => (*word).to_owned(),
            Token::Name(name) => name.clone(),
            Token::Word(word) if of != "a condition" => {
                return self.bad(&format!("expected the name of an attribute after {of}, found {word}"));
            }
            _ => return self.bad("expected the name of an attribute, such as WorkflowId, or ("),
        };
        let at = self.at;
        self.advance()?;
        Ok(Name { text, at })
    }

    fn literals(&mut self) -> Result<Vec<Literal>, SyntaxError> {
        if !self.accept_sign("(")? {
            return self.bad("expected ( after IN");
        }
        let mut literals = vec![self.literal("(")?];
        while self.accept_sign(",")? {
            literals.push(self.literal(",")?);
        }
        if !self.accept_sign(")")? {
            return self.bad("expected , or ) after a value of IN");
        }
        Ok(literals)
    }

    fn literal(&mut self, after: &str) -> Result<Literal, SyntaxError> {
        self.values += 1;
        if self.values > VALUES_MAX {
            return self.limit(format!("there are more than {VALUES_MAX} values; split the filter"));
        }
        let at = self.at;
        let negative = self.accept_sign("-")?;
        let signed = negative || self.accept_sign("+")?;
        let value = match &self.token {
            Token::Number(digits) => number(digits, negative),
            _ if signed => return self.bad("expected a number after the sign"),
            Token::Text { plain, pattern } => Ok(WrittenValue::Text { plain: plain.clone(), pattern: pattern.clone() }),
            Token::Word(word) if word.eq_ignore_ascii_case("TRUE") => Ok(WrittenValue::Bool(true)),
            Token::Word(word) if word.eq_ignore_ascii_case("FALSE") => Ok(WrittenValue::Bool(false)),
            Token::Word(word) if word.eq_ignore_ascii_case("NULL") => {
                Err("nothing equals NULL; use IS NULL or IS NOT NULL".to_owned())
            }
            Token::Word(word) => {
                let message = format!("expected a value after {after}, found {word}; put texts in quotes");
                if is_keyword(word) {
                    return self.bad(&message);
                }
                Err(message)
            }
            Token::Name(_) => Err(format!("expected a value after {after}")),
            _ => return self.bad(&format!("expected a value after {after}")),
        };
        let value = value.unwrap_or_else(|message| {
            self.not_a_filter.push(BadFilter::new(at, message));
            WrittenValue::Bool(false)
        });
        let may_be_call = matches!(self.token, Token::Word(_) | Token::Name(_));
        self.advance()?;
        if may_be_call && self.sees_sign("(") {
            self.skip_arguments()?;
        }
        Ok(Literal { value, at })
    }

    /// Takes a keyword if it is next.
    fn accept(&mut self, keyword: &str) -> Result<bool, SyntaxError> {
        let found = self.sees(keyword);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    fn accept_sign(&mut self, sign: &str) -> Result<bool, SyntaxError> {
        let found = self.sees_sign(sign);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    fn expect(&mut self, keyword: &str, after: &str) -> Result<(), SyntaxError> {
        if self.accept(keyword)? { Ok(()) } else { self.bad(&format!("expected {keyword} after {after}")) }
    }

    fn sees(&self, keyword: &str) -> bool {
        matches!(&self.token, Token::Word(word) if word.eq_ignore_ascii_case(keyword))
    }

    fn sees_sign(&self, sign: &str) -> bool {
        matches!(&self.token, Token::Sign(found) if *found == sign)
    }

    fn ends(&self) -> bool {
        self.token == Token::End || self.sees_sign(";")
    }

    fn advance(&mut self) -> Result<(), SyntaxError> {
        let begin = self.lexer.at();
        (self.token, self.at) = self.lexer.next().map_err(|bad| {
            let rest = self.text[begin..].trim_start().trim_start_matches(['\'', '"', '`']);
            self.error(bad, Some((self.text.len(), Some(rest.to_owned()))))
        })?;
        Ok(())
    }

    /// The text is SQL so far, but not a filter.
    fn not_a_filter(&mut self, message: &str) {
        self.not_a_filter.push(BadFilter::new(self.at, message));
    }

    /// The token to be looked at next does not fit.
    fn bad<T>(&self, message: &str) -> Result<T, SyntaxError> {
        let near = match &self.token {
            Token::Word(word) if is_keyword(word) => Some(word.to_ascii_lowercase()),
            Token::Word(word) | Token::Number(word) => Some((*word).to_owned()),
            Token::Name(text) | Token::Text { plain: text, .. } => Some(text.clone()),
            Token::Sign(_) | Token::End => None,
        };
        Err(self.error(BadFilter::new(self.at, message), Some((self.lexer.at(), near))))
    }

    fn limit<T>(&self, message: String) -> Result<T, SyntaxError> {
        Err(self.error(BadFilter::new(self.at, message), None))
    }

    /// Of a text with several errors, the first is the one to report.
    fn error(&self, bad: BadFilter, token: Option<(usize, Option<String>)>) -> SyntaxError {
        SyntaxError { bad: self.not_a_filter.first().cloned().unwrap_or(bad), token }
    }
}

fn number(digits: &str, negative: bool) -> Result<WrittenValue, String> {
    let signed = if negative { format!("-{digits}") } else { digits.to_owned() };
    if let Ok(int) = signed.parse() {
        return Ok(WrittenValue::Int(int));
    }
    match signed.parse::<f64>() {
        Ok(double) if double.is_finite() => Ok(WrittenValue::Double(double)),
        _ => Err(format!("{signed} is no number that can be compared with")),
    }
}

/// Names like these need back quotes.
fn is_keyword(word: &str) -> bool {
    const KEYWORDS: [&str; 17] = [
        "AND",
        "ASC",
        "BETWEEN",
        "BY",
        "DESC",
        "FALSE",
        "GROUP",
        "IN",
        "IS",
        "LIKE",
        "LIMIT",
        "NOT",
        "NULL",
        "OR",
        "ORDER",
        "STARTS_WITH",
        "TRUE",
    ];
    KEYWORDS.iter().any(|keyword| word.eq_ignore_ascii_case(keyword))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> String {
        let error = parse(text).err().and_then(|error| error.in_statement("select * from dummy where "));
        error.unwrap_or_default()
    }

    /// Each answer is one of Temporal's.
    #[test]
    fn bad_syntax_is_refused_in_temporals_words() {
        for (text, answer) in [
            ("()", "syntax error at position 29"),
            ("WorkflowId=", "syntax error at position 38"),
            ("Workf( \"x\"", "syntax error at position 37"),
            ("WorkflowId=\"a", "syntax error at position 40 near 'a'"),
            ("WorkflowId = \"a\" AND", "syntax error at position 47"),
            ("AND", "syntax error at position 30 near 'and'"),
            ("= 'a'", "syntax error at position 28"),
        ] {
            assert_eq!(refusal(text), answer, "{text}");
        }
    }

    #[test]
    fn what_is_sql_passes_whatever_it_means() {
        let sql = ["foo", "1", "Bogus = 'x'", "StartTime > \"x\"", "WorkflowId = 'a' ORDER BY StartTime", "a = b"];
        let calls = ["f(1, (2)) = g('x')", "'a' = b AND NULL IS NULL LIMIT 1"];
        for text in sql.iter().chain(&calls) {
            assert_eq!(refusal(text), "", "{text}");
        }
    }
}
