//! Patterns and parameters.

use super::{Parser, Result};
use crate::syntax::tree::{Expr, Name, Param, Params, Pattern, PatternField};

impl Parser<'_> {
    /// `Params`.
    pub(super) fn params(&mut self) -> Result<Params> {
        let start = self.span();
        let open = self.open("(")?;
        let items = self.list(open, ")", |parser| {
            let pattern = parser.pattern()?;
            let default = parser.default()?;
            Ok(Param { pattern, default })
        })?;
        Ok(Params { items, span: self.since(start) })
    }

    /// `Pattern`.
    pub(super) fn pattern(&mut self) -> Result<Pattern> {
        let start = self.span();
        if self.is_sign("[") {
            let open = self.open("[")?;
            let mut items = Vec::new();
            let mut rest = None;
            while !self.is_sign("]") {
                if self.is_sign("...") {
                    rest = Some(self.rest()?);
                    self.take_sign(",");
                    break;
                }
                let pattern = self.pattern()?;
                items.push((pattern, self.default()?));
                if !self.take_sign(",") {
                    break;
                }
            }
            self.close(open, "]", "\",\" or \"]\"")?;
            return Ok(Pattern::List { items, rest, span: self.since(start) });
        }
        if self.is_sign("{") {
            let open = self.open("{")?;
            let mut fields = Vec::new();
            let mut rest = None;
            while !self.is_sign("}") {
                if self.is_sign("...") {
                    rest = Some(self.rest()?);
                    self.take_sign(",");
                    break;
                }
                fields.push(self.pattern_field()?);
                if !self.take_sign(",") {
                    break;
                }
            }
            self.close(open, "}", "\",\" or \"}\"")?;
            return Ok(Pattern::Object { fields, rest, span: self.since(start) });
        }
        Ok(Pattern::Name(self.name("a name")?))
    }

    fn rest(&mut self) -> Result<Name> {
        self.advance();
        self.name("a name")
    }

    fn pattern_field(&mut self) -> Result<PatternField> {
        let has_pattern = self.is_sign_at(self.next + 1, ":");
        let key = if has_pattern { self.key()? } else { self.name("a name")? };
        let pattern = if self.take_sign(":") { Some(self.pattern()?) } else { None };
        Ok(PatternField { key, pattern, default: self.default()? })
    }

    fn default(&mut self) -> Result<Option<Expr>> {
        if self.take_sign("=") { self.expression().map(Some) } else { Ok(None) }
    }

    /// A word or a string as a key.
    pub(super) fn key(&mut self) -> Result<Name> {
        if let Some(text) = self.take_text() {
            return Ok(text);
        }
        if self.word().is_some() { Ok(self.take_name()) } else { self.expected("a key") }
    }
}
