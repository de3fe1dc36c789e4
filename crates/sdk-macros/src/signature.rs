//! Arguments and result of a function.

use proc_macro2::{Group, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::{FnArg, GenericArgument, Ident, PathArguments, ReturnType, Signature, Type, spanned::Spanned};

use crate::names::local;

/// The arguments of a function of the user's.
pub struct Arguments {
    /// In the order of the function; `None` is the context.
    parts: Vec<Part>,
    /// The types of those that are input.
    pub inputs: Vec<Type>,
    /// Where the context stands, with its type.
    pub context: Option<Type>,
}

enum Part {
    Context { by_reference: bool },
    Input,
}

impl Arguments {
    /// Reads all arguments but the receiver. `context` is the last segment of the context's type, `what` is what the
    /// function is, for messages.
    pub fn read(signature: &Signature, context: &str, what: &str) -> syn::Result<Self> {
        refuse_generics(signature, what)?;
        let mut arguments = Self { parts: Vec::new(), inputs: Vec::new(), context: None };
        for argument in &signature.inputs {
            let FnArg::Typed(argument) = argument else { continue };
            let (inner, by_reference) = match &*argument.ty {
                Type::Reference(reference) if is_path_to(&reference.elem, context) => (&*reference.elem, true),
                other => (other, false),
            };
            if is_path_to(inner, context) {
                if arguments.context.is_some() {
                    return Err(syn::Error::new_spanned(argument, format!("{what} has one context")));
                }
                arguments.context = Some(inner.clone());
                arguments.parts.push(Part::Context { by_reference });
                continue;
            }
            match inner {
                Type::Reference(_) => {
                    let message =
                        format!("the arguments of {what} come over the network: take them by value, such as `String`");
                    return Err(syn::Error::new_spanned(inner, message));
                }
                Type::ImplTrait(_) => {
                    return Err(syn::Error::new_spanned(inner, format!("{what} has no generic arguments")));
                }
                _ => {}
            }
            arguments.parts.push(Part::Input);
            arguments.inputs.push(inner.clone());
        }
        Ok(arguments)
    }

    /// The type of all inputs together: `()`, the only one, or a tuple.
    pub fn input_type(&self) -> TokenStream {
        let inputs = &self.inputs;
        match inputs.as_slice() {
            [] => quote! { () },
            [only] => only.to_token_stream(),
            _ => quote! { (#(#inputs),*) },
        }
    }

    /// How many payloads the input becomes.
    pub fn count(&self) -> usize {
        self.inputs.len()
    }

    fn variables(&self) -> Vec<Ident> {
        (0..self.inputs.len()).map(|index| local(&format!("argument_{index}"))).collect()
    }

    /// A pattern that takes the input apart into what [`Arguments::call`] passes on.
    pub fn pattern(&self) -> TokenStream {
        let variables = self.variables();
        match variables.as_slice() {
            [] => quote! { () },
            [only] => only.to_token_stream(),
            _ => quote! { (#(#variables),*) },
        }
    }

    /// The arguments of the call, without the receiver.
    pub fn call(&self, context: &Ident) -> TokenStream {
        let variables = self.variables();
        let mut next = variables.iter();
        let parts = self.parts.iter().map(|part| match part {
            Part::Context { by_reference: true } => quote! { &#context },
            Part::Context { by_reference: false } => context.to_token_stream(),
            Part::Input => next.next().to_token_stream(),
        });
        quote! { #(#parts),* }
    }

    /// The one input of what is `dynamic`.
    pub fn check_dynamic(&self, signature: &Signature, what: &str) -> syn::Result<()> {
        match self.inputs.len() {
            1 => Ok(()),
            _ => Err(syn::Error::new_spanned(
                &signature.ident,
                format!("{what} that is `dynamic` has one argument for all payloads, such as `Vec<Value>`"),
            )),
        }
    }
}

/// Refuses what cannot have a name on the wire or cannot be called by a worker.
fn refuse_generics(signature: &Signature, what: &str) -> syn::Result<()> {
    if !signature.generics.params.is_empty() {
        let message = format!("{what} has one type for its input and one for its output, so it cannot be generic");
        return Err(syn::Error::new_spanned(&signature.generics, message));
    }
    if let Some(clause) = &signature.generics.where_clause {
        return Err(syn::Error::new_spanned(clause, format!("{what} cannot be generic")));
    }
    Ok(())
}

/// Whether it is a path that ends with this name.
pub fn is_path_to(ty: &Type, name: &str) -> bool {
    match ty {
        Type::Path(path) => path.path.segments.last().is_some_and(|segment| segment.ident == name),
        Type::Group(group) => is_path_to(&group.elem, name),
        Type::Paren(paren) => is_path_to(&paren.elem, name),
        _ => false,
    }
}

/// The types in the angle brackets of the last segment.
pub fn parameters(ty: &Type) -> Vec<Type> {
    let Type::Path(path) = ty else { return Vec::new() };
    match path.path.segments.last().map(|segment| &segment.arguments) {
        Some(PathArguments::AngleBracketed(list)) => list
            .args
            .iter()
            .filter_map(|argument| match argument {
                GenericArgument::Type(ty) => Some(ty.clone()),
                _ => None,
            })
            .collect(),
        _ => Vec::new(),
    }
}

/// The return type of a function.
pub enum Output {
    Nothing,
    Plain(Type),
    Result(Type),
}

impl Output {
    pub fn read(signature: &Signature) -> Self {
        let ReturnType::Type(_, ty) = &signature.output else { return Self::Nothing };
        if is_path_to(ty, "Result")
            && let Some(value) = parameters(ty).into_iter().next()
        {
            return Self::Result(value);
        }
        match &**ty {
            Type::Tuple(tuple) if tuple.elems.is_empty() => Self::Nothing,
            _ => Self::Plain((**ty).clone()),
        }
    }

    /// The `T` of a function that must return `Result<T>`.
    pub fn of_result(signature: &Signature, what: &str) -> syn::Result<Type> {
        match Self::read(signature) {
            Self::Result(value) => Ok(value),
            Self::Nothing | Self::Plain(_) => {
                let message = format!("{what} returns `Result<T>` or `Result<T, E>`, written so");
                let span = match &signature.output {
                    ReturnType::Type(_, ty) => ty.span(),
                    ReturnType::Default => signature.ident.span(),
                };
                Err(syn::Error::new(span, message))
            }
        }
    }
}

/// The same with another type in the place of `Self`.
pub fn without_self(tokens: TokenStream, replacement: &TokenStream) -> TokenStream {
    tokens
        .into_iter()
        .flat_map(|tree| match tree {
            TokenTree::Ident(ident) if ident == "Self" => replacement.clone(),
            TokenTree::Group(group) => {
                let mut inner = Group::new(group.delimiter(), without_self(group.stream(), replacement));
                inner.set_span(group.span());
                TokenTree::Group(inner).into()
            }
            other => other.into(),
        })
        .collect()
}

/// Attributes that also belong to what is made from the item: its documentation and its conditions.
pub fn shared_attributes(attributes: &[syn::Attribute]) -> Vec<&syn::Attribute> {
    attributes.iter().filter(|attribute| attribute.path().is_ident("doc") || attribute.path().is_ident("cfg")).collect()
}

/// Only the conditions.
pub fn conditions(attributes: &[syn::Attribute]) -> Vec<&syn::Attribute> {
    attributes.iter().filter(|attribute| attribute.path().is_ident("cfg")).collect()
}
