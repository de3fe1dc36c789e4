//! From the text of a filter to a tree of its conditions, before names and values mean anything.
//!
//! The grammar, keywords in any case:
//!
//! ```text
//! filter    = [ any ] [ GROUP BY name ] [ ORDER BY name [ ASC | DESC ] ] [ ; ]
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
//! What holds: every text gives a tree or a [`BadFilter`] in time proportional to its length; nesting, conditions and
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

/// What is wrong with a filter, where, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at {position}: {message}")]
pub struct BadFilter {
    /// Which byte of the filter it is about, from 1.
    pub position: usize,
    /// What was expected, or what to do.
    pub message: String,
}

impl BadFilter {
    /// `at` counts from 0.
    pub(super) fn new(at: usize, message: impl Into<String>) -> Self {
        Self { position: at + 1, message: message.into() }
    }
}

/// A whole filter.
#[derive(Debug, Default)]
pub(super) struct Query {
    pub(super) condition: Option<Tree>,
    pub(super) group_by: Option<Name>,
    /// The attribute, and whether greatest first.
    pub(super) order_by: Option<(Name, bool)>,
}

/// A condition of conditions.
#[derive(Debug)]
pub(super) enum Tree {
    All(Vec<Tree>),
    Any(Vec<Tree>),
    Not(Box<Tree>),
    Condition(Name, Test),
}

/// The name of an attribute and the byte it begins at.
#[derive(Clone, Debug)]
pub(super) struct Name {
    pub(super) text: String,
    pub(super) at: usize,
}

/// What is asked of an attribute.
#[derive(Debug)]
pub(super) enum Test {
    Compare(Comparison, Literal),
    In(Vec<Literal>),
    Between(Literal, Literal),
    StartsWith(Literal),
    Like(Literal),
    IsNull,
}

/// A value as written and the byte it begins at.
#[derive(Debug)]
pub(super) struct Literal {
    pub(super) value: WrittenValue,
    pub(super) at: usize,
}

/// A value as written.
#[derive(Debug)]
pub(super) enum WrittenValue {
    Text { plain: String, pattern: String },
    Int(i64),
    Double(f64),
    Bool(bool),
}

/// Parses a filter.
pub(super) fn parse(text: &str) -> Result<Query, BadFilter> {
    if text.len() > BYTES_MAX {
        return Err(BadFilter::new(BYTES_MAX, format!("the filter is longer than {BYTES_MAX} bytes; shorten it")));
    }
    let mut lexer = Lexer::new(text);
    let (token, at) = lexer.next()?;
    let mut parser = Parser { lexer, token, at, depth: 0, conditions: 0, values: 0 };
    parser.query()
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    /// The token to be looked at next, and where it begins.
    token: Token<'a>,
    at: usize,
    depth: usize,
    conditions: usize,
    values: usize,
}

impl<'a> Parser<'a> {
    fn query(&mut self) -> Result<Query, BadFilter> {
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
            return self.bad("LIMIT has no meaning here; ask for a page size instead");
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

    fn any(&mut self) -> Result<Tree, BadFilter> {
        let mut parts = vec![self.all()?];
        while self.accept("OR")? || self.accept_sign("||")? {
            parts.push(self.all()?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Tree::Any(parts) })
    }

    fn all(&mut self) -> Result<Tree, BadFilter> {
        let mut parts = vec![self.not()?];
        while self.accept("AND")? || self.accept_sign("&&")? {
            parts.push(self.not()?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Tree::All(parts) })
    }

    fn not(&mut self) -> Result<Tree, BadFilter> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return self.bad(&format!("brackets and NOT are nested more than {DEPTH_MAX} deep; simplify the filter"));
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

    fn condition(&mut self) -> Result<Tree, BadFilter> {
        self.conditions += 1;
        if self.conditions > CONDITIONS_MAX {
            return self.bad(&format!("there are more than {CONDITIONS_MAX} conditions; use IN for many values"));
        }
        let name = self.name("a condition")?;
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
            return Ok(Tree::Condition(name, Test::Compare(comparison, self.literal(sign)?)));
        }
        if self.accept("IS")? {
            let negated = self.accept("NOT")?;
            if !self.accept("NULL")? {
                return self.bad("expected NULL or NOT NULL after IS");
            }
            return Ok(negate(negated, Tree::Condition(name, Test::IsNull)));
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
            return self.bad(&format!("expected a comparison after {}, such as = or IN", name.text));
        };
        Ok(negate(negated, Tree::Condition(name, test)))
    }

    fn name(&mut self, of: &str) -> Result<Name, BadFilter> {
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

    fn literals(&mut self) -> Result<Vec<Literal>, BadFilter> {
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

    fn literal(&mut self, after: &str) -> Result<Literal, BadFilter> {
        self.values += 1;
        if self.values > VALUES_MAX {
            return self.bad(&format!("there are more than {VALUES_MAX} values; split the filter"));
        }
        let at = self.at;
        let negative = self.accept_sign("-")?;
        let signed = negative || self.accept_sign("+")?;
        let value = match &self.token {
            Token::Number(digits) => number(digits, negative, at)?,
            _ if signed => return self.bad("expected a number after the sign"),
            Token::Text { plain, pattern } => WrittenValue::Text { plain: plain.clone(), pattern: pattern.clone() },
            Token::Word(word) if word.eq_ignore_ascii_case("TRUE") => WrittenValue::Bool(true),
            Token::Word(word) if word.eq_ignore_ascii_case("FALSE") => WrittenValue::Bool(false),
            Token::Word(word) if word.eq_ignore_ascii_case("NULL") => {
                return self.bad("nothing equals NULL; use IS NULL or IS NOT NULL");
            }
            Token::Word(word) => {
                return self.bad(&format!("expected a value after {after}, found {word}; put texts in quotes"));
            }
            _ => return self.bad(&format!("expected a value after {after}")),
        };
        self.advance()?;
        Ok(Literal { value, at })
    }

    /// Takes a keyword if it is next.
    fn accept(&mut self, keyword: &str) -> Result<bool, BadFilter> {
        let found = self.sees(keyword);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    fn accept_sign(&mut self, sign: &str) -> Result<bool, BadFilter> {
        let found = self.sees_sign(sign);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    fn expect(&mut self, keyword: &str, after: &str) -> Result<(), BadFilter> {
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

    fn advance(&mut self) -> Result<(), BadFilter> {
        (self.token, self.at) = self.lexer.next()?;
        Ok(())
    }

    fn bad<T>(&self, message: &str) -> Result<T, BadFilter> {
        Err(BadFilter::new(self.at, message))
    }
}

fn negate(negated: bool, tree: Tree) -> Tree {
    if negated { Tree::Not(Box::new(tree)) } else { tree }
}

fn number(digits: &str, negative: bool, at: usize) -> Result<WrittenValue, BadFilter> {
    let signed = if negative { format!("-{digits}") } else { digits.to_owned() };
    if let Ok(int) = signed.parse() {
        return Ok(WrittenValue::Int(int));
    }
    match signed.parse::<f64>() {
        Ok(double) if double.is_finite() => Ok(WrittenValue::Double(double)),
        _ => Err(BadFilter::new(at, format!("{signed} is no number that can be compared with"))),
    }
}

/// Names like these need back quotes.
pub(super) fn is_keyword(word: &str) -> bool {
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
