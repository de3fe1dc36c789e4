//! Derives names: types in camel case, constants in upper case.

use proc_macro2::Span;
use syn::{Ident, ext::IdentExt};

/// The name on the wire of what is called so in Rust.
pub fn plain(name: &Ident) -> String {
    name.unraw().to_string()
}

/// `compose_mail` as `ComposeMail`.
pub fn camel(name: &Ident) -> syn::Result<Ident> {
    let text: String = plain(name).split('_').map(capitalised).collect();
    if !text.chars().next().is_some_and(char::is_alphabetic) {
        return Err(syn::Error::new(name.span(), "no type can be named after this function: add `as = TypeName`"));
    }
    Ok(Ident::new(&text, name.span()))
}

fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    match letters.next() {
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => String::new(),
    }
}

/// `check_out` as `CHECK_OUT`.
pub fn upper(name: &Ident) -> Ident {
    Ident::new(&plain(name).to_uppercase(), name.span())
}

/// A local variable of an expansion, which no name of the user's can shadow or be shadowed by.
pub fn local(name: &str) -> Ident {
    Ident::new(name, Span::mixed_site())
}
