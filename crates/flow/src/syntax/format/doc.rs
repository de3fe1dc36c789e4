//! Documents: text with places where a line may be broken, and the printer that decides where it is.
//!
//! After Wadler's "A prettier printer": a group is printed on one line if it fits, otherwise all its own line breaks are
//! taken. Parts are shared, so that alternatives ([`Doc::choice`]) cost nothing to build.

use std::rc::Rc;

/// The greatest width of a line in characters.
pub(super) const WIDTH: usize = 100;
/// How far blocks and broken lists are indented.
const INDENT: usize = 2;

/// A document.
#[derive(Clone, Debug)]
pub(super) struct Doc(Rc<Node>);

#[derive(Debug)]
struct Node {
    kind: Kind,
    /// Whether it contains a line break that is always taken.
    breaks: bool,
}

#[derive(Debug)]
enum Kind {
    /// Text without newlines.
    Text(String),
    /// Text that may contain newlines, printed as it is.
    Raw(String),
    /// A comment at the end of a line: does not count for the width.
    Comment(String),
    /// A comment that stands at the end of a line if the group around it is broken; then it does not count for the width.
    Inline(String),
    /// A space or a newline.
    Line,
    /// Nothing or a newline.
    Soft,
    /// A newline.
    Hard,
    /// A newline and an empty line before it.
    Blank,
    /// Forces the groups around it to break.
    Break,
    Concat(Vec<Doc>),
    Indent(Doc),
    Group(Doc),
    /// The content of a group, broken in any case.
    Broken(Doc),
    /// Only where the group around it is broken.
    IfBroken(&'static str),
    /// The first one on one line; else the second if its first line fits; else the third.
    Choice(Doc, Doc, Doc),
}

impl Doc {
    fn new(kind: Kind, breaks: bool) -> Self {
        Self(Rc::new(Node { kind, breaks }))
    }

    pub fn text(text: impl Into<String>) -> Self {
        Self::new(Kind::Text(text.into()), false)
    }

    pub fn raw(text: &str) -> Self {
        if text.contains('\n') { Self::new(Kind::Raw(text.to_owned()), false) } else { Self::text(text) }
    }

    pub fn comment(text: &str) -> Self {
        Self::new(Kind::Comment(text.to_owned()), true)
    }

    pub fn inline(text: String) -> Self {
        Self::new(Kind::Inline(text), false)
    }

    pub fn line() -> Self {
        Self::new(Kind::Line, false)
    }

    pub fn soft() -> Self {
        Self::new(Kind::Soft, false)
    }

    pub fn hard() -> Self {
        Self::new(Kind::Hard, true)
    }

    pub fn blank() -> Self {
        Self::new(Kind::Blank, true)
    }

    pub fn forced() -> Self {
        Self::new(Kind::Break, true)
    }

    pub fn none() -> Self {
        Self::concat(Vec::new())
    }

    pub fn concat(parts: Vec<Self>) -> Self {
        let breaks = parts.iter().any(Self::breaks);
        Self::new(Kind::Concat(parts), breaks)
    }

    pub fn indent(self) -> Self {
        let breaks = self.breaks();
        Self::new(Kind::Indent(self), breaks)
    }

    pub fn group(self) -> Self {
        let breaks = self.breaks();
        Self::new(Kind::Group(self), breaks)
    }

    /// This group, broken.
    pub fn broken(&self) -> Self {
        Self::new(Kind::Broken(self.clone()), true)
    }

    pub fn if_broken(text: &'static str) -> Self {
        Self::new(Kind::IfBroken(text), false)
    }

    pub fn choice(flat: Self, hugged: Self, broken: Self) -> Self {
        let breaks = flat.breaks();
        Self::new(Kind::Choice(flat, hugged, broken), breaks)
    }

    /// Whether it contains a line break that is always taken.
    pub fn breaks(&self) -> bool {
        self.0.breaks
    }

    /// Prints it.
    pub fn print(&self) -> String {
        let mut printer = Printer { out: String::new(), column: 0 };
        printer.print(self);
        printer.out
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Flat,
    Broken,
}

type Entry<'a> = (usize, Mode, &'a Doc);

struct Printer {
    out: String,
    column: usize,
}

impl Printer {
    fn print(&mut self, doc: &Doc) {
        let mut rest: Vec<Entry<'_>> = vec![(0, Mode::Broken, doc)];
        while let Some((indent, mode, doc)) = rest.pop() {
            match &doc.0.kind {
                Kind::Text(text) | Kind::Comment(text) | Kind::Inline(text) => self.text(text),
                Kind::Raw(text) => {
                    self.out.push_str(text);
                    self.column = text.rsplit('\n').next().unwrap_or_default().chars().count();
                }
                Kind::Line if mode == Mode::Flat => self.text(" "),
                Kind::Soft if mode == Mode::Flat => {}
                Kind::Line | Kind::Soft | Kind::Hard => self.newline(indent),
                Kind::Blank => {
                    self.newline(0);
                    self.newline(indent);
                }
                Kind::Break => {}
                Kind::Concat(parts) => rest.extend(parts.iter().rev().map(|part| (indent, mode, part))),
                Kind::Indent(inner) => rest.push((indent + INDENT, mode, inner)),
                Kind::Group(inner) => {
                    let flat = !doc.breaks() && (mode == Mode::Flat || self.fits((indent, Mode::Flat, inner), &rest));
                    rest.push((indent, if flat { Mode::Flat } else { Mode::Broken }, inner));
                }
                Kind::Broken(group) => match &group.0.kind {
                    Kind::Group(inner) => rest.push((indent, Mode::Broken, inner)),
                    _ => rest.push((indent, Mode::Broken, group)),
                },
                Kind::IfBroken(text) => {
                    if mode == Mode::Broken {
                        self.text(text);
                    }
                }
                Kind::Choice(flat, hugged, broken) => {
                    if !flat.breaks() && (mode == Mode::Flat || self.fits((indent, Mode::Flat, flat), &rest)) {
                        rest.push((indent, Mode::Flat, flat));
                    } else if self.fits((indent, Mode::Broken, hugged), &rest) {
                        rest.push((indent, Mode::Broken, hugged));
                    } else {
                        rest.push((indent, Mode::Broken, broken));
                    }
                }
            }
        }
    }

    fn text(&mut self, text: &str) {
        self.out.push_str(text);
        self.column += text.chars().count();
    }

    fn newline(&mut self, indent: usize) {
        let end = self.out.trim_end_matches(' ').len();
        self.out.truncate(end);
        self.out.push('\n');
        self.out.extend(std::iter::repeat_n(' ', indent));
        self.column = indent;
    }

    /// Whether what comes until the next line break fits on the line.
    fn fits(&self, first: Entry<'_>, rest: &[Entry<'_>]) -> bool {
        let Some(mut room) = WIDTH.checked_sub(self.column) else { return false };
        let mut rest = rest.iter().rev();
        let mut own = vec![first];
        // Groups in what is to be printed are flat if they can be; groups behind it may break.
        let mut behind = false;
        loop {
            let entry = own.pop().or_else(|| {
                behind = true;
                rest.next().copied()
            });
            let Some((indent, mode, doc)) = entry else { return true };
            let width = match &doc.0.kind {
                Kind::Text(text) => text.chars().count(),
                Kind::Raw(text) => {
                    let first = text.split('\n').next().unwrap_or_default().chars().count();
                    return first <= room;
                }
                Kind::Inline(text) if mode == Mode::Flat => text.chars().count(),
                Kind::Comment(_) | Kind::Inline(_) | Kind::Break => 0,
                Kind::Line if mode == Mode::Flat => 1,
                Kind::Soft if mode == Mode::Flat => 0,
                Kind::Line | Kind::Soft | Kind::Hard | Kind::Blank => return true,
                Kind::Concat(parts) => {
                    own.extend(parts.iter().rev().map(|part| (indent, mode, part)));
                    0
                }
                Kind::Indent(inner) => {
                    own.push((indent, mode, inner));
                    0
                }
                Kind::Group(inner) => {
                    let flat = !doc.breaks() && (!behind || mode == Mode::Flat);
                    own.push((indent, if flat { Mode::Flat } else { Mode::Broken }, inner));
                    0
                }
                Kind::Broken(group) => {
                    let inner = match &group.0.kind {
                        Kind::Group(inner) => inner,
                        _ => group,
                    };
                    own.push((indent, Mode::Broken, inner));
                    0
                }
                Kind::IfBroken(text) if mode == Mode::Broken => text.chars().count(),
                Kind::IfBroken(_) => 0,
                Kind::Choice(_, _, broken) if behind && mode == Mode::Broken => {
                    own.push((indent, Mode::Broken, broken));
                    0
                }
                Kind::Choice(flat, hugged, _) => {
                    let entry = if flat.breaks() { (indent, Mode::Broken, hugged) } else { (indent, Mode::Flat, flat) };
                    own.push(entry);
                    0
                }
            };
            match room.checked_sub(width) {
                Some(left) => room = left,
                None => return false,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_break_as_a_whole() {
        let list = |width: usize| {
            let item = Doc::text("x".repeat(width));
            let items = vec![Doc::soft(), item.clone(), Doc::text(","), Doc::line(), item, Doc::if_broken(",")];
            let inner = Doc::concat(vec![Doc::text("["), Doc::concat(items).indent(), Doc::soft(), Doc::text("]")]);
            inner.group().print()
        };
        assert_eq!(list(2), "[xx, xx]");
        let x = "x".repeat(60);
        assert_eq!(list(60), format!("[\n  {x},\n  {x},\n]"));
    }
}
