//! Types and documentation of what the pointer is on.

use lsp_types::{Hover, HoverContents, MarkupContent, MarkupKind};
use segno_flow::library::Signature;
use segno_flow::names::{Declaration, DeclarationKind, Meaning};
use segno_flow::types::Type;

use crate::document::{Document, type_at};

/// Comments above a declaration that are shown.
const COMMENT_LINES_MAX: usize = 50;

/// What is known about the name, field or operator at a byte.
pub fn at(document: &Document, byte: usize) -> Option<Hover> {
    let place = document.text.place_of(byte);
    let known = type_at(&document.checked, place);
    let (text, range) = match document.checked.names.at(place) {
        Some(name) => {
            let text = match &name.meaning {
                Meaning::Declared(declaration) => of_declaration(document, declaration, known),
                Meaning::Library(function) => of_library(function.signature(), known),
                Meaning::Method(method) => of_library(method.signature(), known),
            };
            (text, document.text.range(name.start, name.end))
        }
        None => {
            let (start, end) = document.text.word_around(byte);
            let text = match &document.text.source[start..end] {
                "" => code(&known?.to_string()),
                word => code(&format!("{word}: {}", known?)),
            };
            let position = |byte| document.text.position_of(byte);
            (text, lsp_types::Range { start: position(start), end: position(end) })
        }
    };
    let contents = MarkupContent { kind: MarkupKind::Markdown, value: text };
    Some(Hover { contents: HoverContents::Markup(contents), range: Some(range) })
}

fn of_declaration(document: &Document, declaration: &Declaration, known: Option<&Type>) -> String {
    let name = &declaration.name;
    let head = match (declaration.kind, known) {
        (DeclarationKind::Function, _) => head_of_function(document, declaration),
        // Constants of the file have types where they are read.
        (DeclarationKind::Constant, None) => name.to_string(),
        (_, known) => format!("{name}: {}", known.unwrap_or(&Type::UNKNOWN)),
    };
    let gives = match declaration.kind {
        DeclarationKind::Function => gives(known),
        DeclarationKind::Variable | DeclarationKind::Constant => None,
    };
    let parts = [Some(code(&head)), gives, comment_above(document, declaration)];
    parts.into_iter().flatten().collect::<Vec<_>>().join("\n\n")
}

fn of_library(signature: &Signature, known: Option<&Type>) -> String {
    let options = signature.options.map(|(_, options)| {
        let names: Vec<_> = options.iter().map(|(name, _)| format!("`{name}`")).collect();
        format!("Options: {}", names.join(", "))
    });
    let parts = [Some(code(&signature.to_string())), Some(signature.doc.to_owned()), options, gives(known)];
    parts.into_iter().flatten().collect::<Vec<_>>().join("\n\n")
}

/// What a call gives here, if that is known.
fn gives(known: Option<&Type>) -> Option<String> {
    let known = known.filter(|known| **known != Type::UNKNOWN && !known.is_never())?;
    Some(format!("Gives here: {known}"))
}

/// `async function f(x)`, from the line of its name.
fn head_of_function(document: &Document, declaration: &Declaration) -> String {
    let source = &document.text.source;
    let name = document.text.byte_of_place(declaration.start);
    let start = source[..name].rfind('\n').map_or(0, |newline| newline + 1);
    let line = source[start..].lines().next().unwrap_or_default();
    line.trim_start_matches('\u{FEFF}').split(" {").next().unwrap_or_default().trim().to_owned()
}

/// The comments of whole lines right above a declaration.
fn comment_above(document: &Document, declaration: &Declaration) -> Option<String> {
    let end = document.text.byte_of_place(declaration.start);
    let above = document.text.source[..end].lines().rev().skip(1);
    let comments = above.take(COMMENT_LINES_MAX).map_while(|line| line.trim().strip_prefix("//"));
    let mut lines: Vec<&str> = comments.map(str::trim).collect();
    lines.reverse();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

fn code(text: &str) -> String {
    format!("```flow\n{text}\n```")
}
