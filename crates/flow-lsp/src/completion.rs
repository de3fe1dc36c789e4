//! What can be written at a place: names of the library and of the file, and after a point fields and functions of values.

use std::collections::BTreeSet;

use lsp_types::{CompletionItem, CompletionItemKind, Documentation};
use segno_flow::library::{Function, Method, Receiver, Signature};
use segno_flow::names::{DeclarationKind, is_text};
use segno_flow::types::{Kinds, Type};

use crate::document::{Document, type_at};
use crate::text::is_word;

/// What can be written at a byte. Editors leave out what does not begin like the word there.
pub fn at(document: &Document, byte: usize) -> Vec<CompletionItem> {
    let source = &document.text.source;
    if is_text(&document.normalized(), document.text.place_of(byte)) {
        return Vec::new();
    }
    let before = source[..byte].trim_end_matches(is_word);
    let Some(receiver) = before.strip_suffix('.').filter(|rest| !rest.ends_with("..")) else {
        return names(document);
    };
    let receiver = receiver.strip_suffix('?').unwrap_or(receiver).trim_end();
    let word = last_word(receiver);
    let is_name = !word.is_empty() && !receiver.trim_end_matches(is_word).ends_with('.');
    let functions: Vec<_> = if is_name { functions_of(document, word) } else { Vec::new() };
    if !functions.is_empty() {
        return functions;
    }
    if word.starts_with(|c: char| c.is_ascii_digit()) {
        return Vec::new();
    }
    members(&type_of(document, receiver, byte))
}

/// Names that begin an expression.
fn names(document: &Document) -> Vec<CompletionItem> {
    let mut items = Vec::new();
    let mut namespaces = BTreeSet::new();
    for signature in library(document) {
        match signature.name.split_once('.') {
            Some((namespace, _)) => {
                namespaces.insert(namespace);
            }
            None => items.push(of_library(signature, signature.name)),
        }
    }
    items.extend(namespaces.into_iter().map(|name| item(name, CompletionItemKind::MODULE, None)));
    let mut seen = BTreeSet::new();
    for declaration in document.checked.names.declarations() {
        if seen.insert(&*declaration.name) {
            let kind = match declaration.kind {
                DeclarationKind::Variable => CompletionItemKind::VARIABLE,
                DeclarationKind::Constant => CompletionItemKind::CONSTANT,
                DeclarationKind::Function => CompletionItemKind::FUNCTION,
            };
            let known = document.checked.types.at(declaration.start);
            items.push(item(&declaration.name, kind, known.map(ToString::to_string)));
        }
    }
    items
}

/// The functions of a namespace of the library.
fn functions_of(document: &Document, namespace: &str) -> Vec<CompletionItem> {
    let of_namespace = |signature: &'static Signature| match signature.name.split_once('.') {
        Some((first, name)) if first == namespace => Some(of_library(signature, name)),
        _ => None,
    };
    library(document).filter_map(of_namespace).collect()
}

/// The functions of the library that this file has.
fn library(document: &Document) -> impl Iterator<Item = &'static Signature> {
    let is_test = document.is_test();
    let signatures = Function::ALL.iter().map(|function| function.signature());
    signatures.filter(move |signature| is_test || !signature.test_only)
}

/// Fields and functions of values of a type.
fn members(known: &Type) -> Vec<CompletionItem> {
    let kinds = known.kinds();
    let mut items = Vec::new();
    if let Some(fields) = known.fields().filter(|_| kinds.has(Kinds::OBJECT)) {
        let fields = fields.known.iter().filter(|(name, _)| name.chars().all(is_word));
        items.extend(fields.map(|(name, value)| item(name, CompletionItemKind::FIELD, Some(value.to_string()))));
    }
    if kinds.has(Kinds::LIST.or(Kinds::STRING)) {
        items.push(item("length", CompletionItemKind::PROPERTY, Some(Type::NUMBER.to_string())));
    }
    for method in Method::ALL {
        let signature = method.signature();
        let receivers = match signature.receiver {
            Receiver::None => Kinds::NONE,
            Receiver::List => Kinds::LIST,
            Receiver::Text => Kinds::STRING,
            Receiver::ListOrText => Kinds::LIST.or(Kinds::STRING),
            Receiver::Number => Kinds::NUMBER,
        };
        if kinds.has(receivers) {
            items.push(of_library(signature, signature.name));
        }
    }
    items
}

/// A call that stands for what is being written: with it an expression is a statement, too.
const PLACEHOLDER: &str = ".at(0)";

/// The type of the expression that a text ends with; unknown in doubt. What follows it, up to `end`, is being written, so the
/// source is checked with a placeholder; if the statement cannot be parsed then, with the expression alone on its line.
fn type_of(document: &Document, receiver: &str, end: usize) -> Type {
    if receiver.ends_with(['"', '\'', '`']) {
        return Type::STRING;
    }
    // The type of a call stands at the name of its function.
    let name = if receiver.ends_with(')') { before_brackets(receiver) } else { receiver };
    let start = name.len() - last_word(name).len();
    if start == name.len() {
        return Type::UNKNOWN;
    }
    let place = document.text.place_of(start);
    let (before, rest) = (&document.text.source[..end], &document.text.source[end..]);
    let in_place = [receiver, PLACEHOLDER, rest].concat();
    let path = name.trim_end_matches(|c| is_word(c) || c == '.' || c == '?').len();
    // Without the points of `...`.
    let path = receiver.len() - receiver[path..].trim_start_matches(['.', '?']).len();
    let line = before[..path].rfind('\n').map_or(0, |newline| newline + 1);
    let blank: String = before[line..path].chars().map(|_| ' ').collect();
    let rest_of_file = rest.find('\n').map_or("", |newline| &rest[newline..]);
    let alone = [&before[..line], &blank, &receiver[path..], PLACEHOLDER, rest_of_file].concat();
    let mut checks = [in_place, alone].into_iter().map(|source| document.check_instead(&source));
    checks.find_map(|checked| type_at(&checked, place).cloned()).unwrap_or(Type::UNKNOWN)
}

/// What stands before the brackets that a text ends with.
fn before_brackets(text: &str) -> &str {
    let mut open = 0_usize;
    let begin = text.char_indices().rev().find(|(_, c)| {
        match c {
            ')' => open += 1,
            '(' => open = open.saturating_sub(1),
            _ => {}
        }
        open == 0
    });
    begin.map_or("", |(byte, _)| text[..byte].trim_end())
}

/// The word that a text ends with.
fn last_word(text: &str) -> &str {
    &text[text.trim_end_matches(is_word).len()..]
}

fn of_library(signature: &Signature, label: &str) -> CompletionItem {
    let documentation = Some(Documentation::String(signature.doc.to_owned()));
    CompletionItem { documentation, ..item(label, CompletionItemKind::FUNCTION, Some(signature.to_string())) }
}

fn item(label: &str, kind: CompletionItemKind, detail: Option<String>) -> CompletionItem {
    CompletionItem { label: label.to_owned(), kind: Some(kind), detail, ..CompletionItem::default() }
}
