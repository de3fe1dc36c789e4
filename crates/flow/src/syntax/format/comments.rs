//! Where comments go.

use super::Formatter;
use super::doc::Doc;
use crate::syntax::token::{Comment, Span};

impl<'a> Formatter<'a> {
    /// The next comment, if it begins before this offset.
    fn take_before(&mut self, offset: u32) -> Option<Comment> {
        let comment = self.comments.get(self.next).copied().filter(|comment| comment.span.from < offset)?;
        self.next += 1;
        Some(comment)
    }

    /// Whether a comment that has not been printed stands before this offset.
    pub fn has_comment_before(&self, offset: u32) -> bool {
        self.comments.get(self.next).is_some_and(|comment| comment.span.from < offset)
    }

    /// Comments within a span are printed with its text.
    pub fn skip_comments(&mut self, span: Span) {
        while self.take_before(span.to).is_some() {}
    }

    pub fn source_of(&self, span: Span) -> &'a str {
        &self.source[span.range()]
    }

    fn is_line_comment(&self, comment: Comment) -> bool {
        self.source_of(comment.span).starts_with("//")
    }

    fn comment_text(&self, comment: Comment) -> &'a str {
        self.source_of(comment.span).trim_end()
    }

    /// The number of newlines between two offsets.
    pub fn newlines(&self, from: u32, to: u32) -> usize {
        let between = self.source.get(from as usize..to as usize).unwrap_or_default();
        between.bytes().filter(|byte| *byte == b'\n').count()
    }

    /// Comments in front of a part of an expression: block comments on its line if they were there, others on lines of their
    /// own.
    pub fn leading(&mut self, offset: u32) -> Doc {
        let mut parts = Vec::new();
        while let Some(comment) = self.take_before(offset) {
            let text = self.comment_text(comment);
            parts.push(Doc::raw(text));
            let next = self.comments.get(self.next).map_or(offset, |next| next.span.from.min(offset));
            let ends_line = self.newlines(comment.span.to, next) > 0;
            let own_line = self.is_line_comment(comment) || text.contains('\n') || ends_line;
            parts.push(if own_line { Doc::hard() } else { Doc::text(" ") });
        }
        Doc::concat(parts)
    }

    /// Comments that follow on the same line, before `limit`.
    pub fn trailing(&mut self, end: u32, limit: u32) -> Doc {
        let mut parts = Vec::new();
        let mut end = end;
        while let Some(comment) = self.comments.get(self.next).copied().filter(|comment| comment.span.from < limit) {
            let same_line = self.newlines(end, comment.span.from) == 0;
            // A block comment in front of something else on its line belongs to that.
            let ends_line = self.is_line_comment(comment) || self.ends_line(comment.span.to);
            if !same_line || !ends_line {
                break;
            }
            self.next += 1;
            end = comment.span.to;
            let text = self.comment_text(comment);
            parts.push(at_end(text));
            parts.push(Doc::forced());
        }
        Doc::concat(parts)
    }

    /// Block comments that follow on the same line, before `limit`, within the line.
    pub fn inline(&mut self, end: u32, limit: u32) -> Doc {
        let mut parts = Vec::new();
        let mut end = end;
        while let Some(comment) = self.comments.get(self.next).copied().filter(|comment| comment.span.from < limit) {
            let text = self.comment_text(comment);
            let same_line = self.newlines(end, comment.span.from) == 0;
            if !same_line || self.is_line_comment(comment) || text.contains('\n') {
                break;
            }
            self.next += 1;
            end = comment.span.to;
            parts.push(Doc::inline(format!(" {text}")));
        }
        Doc::concat(parts)
    }

    /// Whether nothing but commas, semicolons, white space and comments stands between an offset and the end of its line.
    fn ends_line(&self, offset: u32) -> bool {
        let rest = self.source.get(offset as usize..).unwrap_or_default();
        let mut line = rest.split('\n').next().unwrap_or_default();
        loop {
            line = line.trim_start_matches([' ', '\t', ',', ';']);
            let Some(comment) = line.strip_prefix("/*") else { return line.is_empty() || line.starts_with("//") };
            match comment.split_once("*/") {
                Some((_, behind)) => line = behind,
                None => return true,
            }
        }
    }

    /// What has not been printed of the comments in something that is over. The first goes to the end of its line, all
    /// behind a line comment or one of several lines to lines of their own.
    pub fn leftover(&mut self, end: u32) -> Doc {
        let mut parts = Vec::new();
        let mut own_line = false;
        while let Some(comment) = self.take_before(end) {
            let text = self.comment_text(comment);
            parts.push(match own_line {
                true => Doc::concat(vec![Doc::hard(), Doc::raw(text)]),
                false => at_end(text),
            });
            parts.push(Doc::forced());
            own_line |= self.is_line_comment(comment) || text.contains('\n');
        }
        Doc::concat(parts)
    }

    /// Comments on lines of their own before a statement or a closing bracket, each with the line break in front of it.
    /// `last` is the end of what was printed before, if anything was; it becomes the end of the last comment.
    pub fn own_lines(&mut self, offset: u32, last: &mut Option<u32>, parts: &mut Vec<Doc>) {
        while let Some(comment) = self.take_before(offset) {
            parts.push(self.separator(*last, comment.span.from));
            parts.push(Doc::raw(self.comment_text(comment)));
            *last = Some(comment.span.to);
        }
    }

    /// The end of what has been printed: of something that ends here, or of the comments behind it.
    pub fn printed(&self, end: u32) -> Option<u32> {
        let comment = self.next.checked_sub(1).and_then(|last| self.comments.get(last));
        Some(comment.map_or(end, |comment| comment.span.to.max(end)))
    }

    /// The line break before something, with an empty line if the source has one.
    pub fn separator(&self, last: Option<u32>, from: u32) -> Doc {
        match last {
            Some(end) if self.newlines(end, from) > 1 => Doc::blank(),
            _ => Doc::hard(),
        }
    }
}

/// A comment at the end of a line, with the space in front of it. Neither counts for the width, unless it has several lines.
fn at_end(text: &str) -> Doc {
    match text.contains('\n') {
        true => Doc::concat(vec![Doc::text(" "), Doc::raw(text)]),
        false => Doc::comment(&format!(" {text}")),
    }
}
