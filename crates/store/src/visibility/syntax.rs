//! Checks whether a filter is SQL.
//!
//! Temporal parses some filters twice: first as SQL, without resolving names, and later as a filter. Filters that fail
//! the first step are refused with the texts of its SQL parser. A text that is SQL and no filter passes here.

use super::parse::{self, BadFilter};
use super::token::{Lexer, Token};

/// The parser sees the filter behind this many characters.
const FILTER_OFFSET: usize = "select * from dummy where ".len();

/// Where a text stops being SQL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("syntax error at position {position}{}", near.as_ref().map(|near| format!(" near '{near}'")).unwrap_or_default())]
pub struct BadSyntax {
    /// The place after the word that does not fit, as Temporal counts.
    pub position: usize,
    /// That word, if it is one.
    pub near: Option<String>,
}

/// Checks the syntax of a filter.
pub fn check_syntax(text: &str) -> Result<(), BadSyntax> {
    let Err(BadFilter { position, .. }) = parse::parse(text) else { return Ok(()) };
    let bad = |end: usize, near: Option<&str>| {
        Err(BadSyntax { position: FILTER_OFFSET + end.min(text.len()) + 1, near: near.map(str::to_owned) })
    };
    let wrong_at = position - 1;
    let mut lexer = Lexer::new(text);
    let mut open = 0_i32;
    let mut ends_expression = false;
    let mut wrong: Option<(Token<'_>, usize, bool)> = None;
    loop {
        let begin = lexer.at();
        let (token, at) = match lexer.next() {
            Ok(next) => next,
            Err(_) => {
                let rest = text[begin..].trim_start();
                return bad(text.len(), Some(rest.trim_start_matches(['\'', '"', '`'])));
            }
        };
        if wrong.is_none() && at >= wrong_at {
            wrong = Some((token.clone(), lexer.at(), ends_expression));
        }
        match token {
            Token::End => break,
            Token::Sign("(") => open += 1,
            Token::Sign(")") => open -= 1,
            _ => {}
        }
        ends_expression = match token {
            Token::Sign(sign) => sign == ")",
            Token::Word(word) => !parse::is_keyword(word) || is_value(word),
            _ => true,
        };
    }
    match wrong {
        Some((Token::End, ..)) | None if !ends_expression || open > 0 => bad(text.len(), None),
        _ if open > 0 => bad(text.len(), None),
        Some((Token::Sign(")" | "=" | "!=" | "<>" | "<" | "<=" | ">" | ">=" | "," | "&&" | "||"), end, false)) => {
            bad(end, None)
        }
        Some((Token::Sign(")"), end, _)) if open < 0 => bad(end, None),
        Some((Token::Word(word), end, true)) if !parse::is_keyword(word) => bad(end, Some(word)),
        Some((Token::Word(word), end, false)) if parse::is_keyword(word) && !is_value(word) => {
            bad(end, Some(&word.to_ascii_lowercase()))
        }
        Some((Token::Text { plain, .. }, end, true)) => bad(end, Some(&plain)),
        Some((Token::Number(digits), end, true)) => bad(end, Some(digits)),
        _ => Ok(()),
    }
}

fn is_value(word: &str) -> bool {
    ["TRUE", "FALSE", "NULL"].iter().any(|value| word.eq_ignore_ascii_case(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> String {
        check_syntax(text).map_or_else(|bad| bad.to_string(), |()| String::new())
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
            assert_eq!(told(text), answer, "{text}");
        }
    }

    #[test]
    fn what_is_sql_passes_whatever_it_means() {
        for text in ["foo", "1", "Bogus = 'x'", "StartTime > \"x\"", "WorkflowId = 'a' ORDER BY StartTime", "a = b"] {
            assert_eq!(told(text), "", "{text}");
        }
    }
}
