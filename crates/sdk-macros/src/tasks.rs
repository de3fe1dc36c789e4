//! `#[tasks]` on an `impl` block.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{Attribute, FnArg, ImplItem, ImplItemFn, ItemImpl, Meta, ReceiverKind, Type};

use crate::{
    options::{Options, TASK},
    signature::{conditions, is_path_to, parameters},
    task::{Definition, Receiver, with_error},
};

/// The `impl` block without its marks, and what stands for its tasks.
pub fn expand(options: TokenStream, item: TokenStream) -> TokenStream {
    let mut block: ItemImpl = match syn::parse2(item.clone()) {
        Ok(block) => block,
        Err(error) => {
            let error = syn::Error::new(error.span(), "`#[tasks]` stands on an `impl` block");
            return with_error(item, error);
        }
    };
    // Taken off first: errors are then shown beside an `impl` block that compiles.
    let marked = take_marks(&mut block);
    match of_block(options, &block, &marked) {
        Ok(added) => quote! { #block #added },
        Err(error) => with_error(block.into_token_stream(), error),
    }
}

/// Takes `#[task]` off the methods; the index of each with its mark.
fn take_marks(block: &mut ItemImpl) -> Vec<(usize, Attribute)> {
    let mut marked = Vec::new();
    for (index, item) in block.items.iter_mut().enumerate() {
        let ImplItem::Fn(method) = item else { continue };
        let position = method
            .attrs
            .iter()
            .position(|attribute| attribute.path().segments.last().is_some_and(|segment| segment.ident == "task"));
        if let Some(position) = position {
            marked.push((index, method.attrs.remove(position)));
        }
    }
    marked
}

/// The tokens in the parentheses of an attribute.
pub fn tokens_of(attribute: &Attribute) -> syn::Result<TokenStream> {
    match &attribute.meta {
        Meta::Path(_) => Ok(TokenStream::new()),
        Meta::List(list) => Ok(list.tokens.clone()),
        other => Err(syn::Error::new_spanned(other, "options stand in parentheses")),
    }
}

/// Refuses blocks that a name on the wire cannot stand for.
pub fn check_block(block: &ItemImpl, attribute: &str) -> syn::Result<()> {
    if !block.generics.params.is_empty() {
        return Err(syn::Error::new_spanned(&block.generics, format!("`#[{attribute}]` does not take generic types")));
    }
    if let Some(clause) = &block.generics.where_clause {
        return Err(syn::Error::new_spanned(clause, format!("`#[{attribute}]` does not take generic types")));
    }
    if block.trait_.is_some() {
        let message = format!("`#[{attribute}]` stands on the `impl` block of a type, not of a trait");
        return Err(syn::Error::new_spanned(&block.self_ty, message));
    }
    Ok(())
}

fn of_block(options: TokenStream, block: &ItemImpl, marked: &[(usize, Attribute)]) -> syn::Result<TokenStream> {
    Options::parse(options, "tasks", &[])?;
    check_block(block, "tasks")?;
    if marked.is_empty() {
        return Err(syn::Error::new_spanned(&block.self_ty, "no method here is marked with `#[task]`"));
    }
    let mut added = TokenStream::new();
    let mut registrations = TokenStream::new();
    let mut errors: Option<syn::Error> = None;
    for (index, mark) in marked {
        let Some(ImplItem::Fn(method)) = block.items.get(*index) else { continue };
        match of_method(block, method, mark) {
            Ok((marker, tokens)) => {
                let conditions = conditions(&method.attrs);
                added.extend(tokens);
                registrations.extend(quote! {
                    #(#conditions)*
                    registry.add::<#marker>(::std::sync::Arc::clone(&self));
                });
            }
            Err(error) => match &mut errors {
                Some(errors) => errors.combine(error),
                None => errors = Some(error),
            },
        }
    }
    if let Some(errors) = errors {
        return Err(errors);
    }
    let state = &block.self_ty;
    let conditions = conditions(&block.attrs);
    Ok(quote! {
        #added

        #(#conditions)*
        impl ::segno_sdk::TaskSet for #state {
            fn register(self: ::std::sync::Arc<Self>, registry: &mut ::segno_sdk::TaskRegistry) {
                #registrations
            }
        }
    })
}

fn of_method(block: &ItemImpl, method: &ImplItemFn, mark: &Attribute) -> syn::Result<(syn::Ident, TokenStream)> {
    let options = Options::parse(tokens_of(mark)?, "task", TASK)?;
    let (name, state) = (&method.sig.ident, &*block.self_ty);
    let definition = Definition {
        attributes: &method.attrs,
        visibility: &method.vis,
        signature: &method.sig,
        options: &options,
        state: Some(state),
        callee: quote! { <#state>::#name },
        receiver: receiver(method, state)?,
    };
    definition.expand()
}

fn receiver(method: &ImplItemFn, state: &Type) -> syn::Result<Receiver> {
    let Some(FnArg::Receiver(receiver)) = method.sig.inputs.first() else { return Ok(Receiver::None) };
    match &receiver.kind {
        ReceiverKind::Reference(_, _, None) => Ok(Receiver::Reference),
        ReceiverKind::Typed(_, ty) if is_shared(ty, state) => Ok(Receiver::Shared),
        _ => Err(syn::Error::new_spanned(
            receiver,
            "tasks run at the same time and share the value: take `&self` or `self: Arc<Self>`",
        )),
    }
}

/// Whether it is `Arc<Self>`.
fn is_shared(ty: &Type, state: &Type) -> bool {
    let same = |inner: &Type| inner.to_token_stream().to_string() == state.to_token_stream().to_string();
    is_path_to(ty, "Arc") && parameters(ty).first().is_some_and(|inner| is_path_to(inner, "Self") || same(inner))
}
