//! `#[nexus_service]` on a trait.

use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::{
    Attribute, FnArg, ItemTrait, ReceiverKind, ReturnType, Signature, TraitItem, TraitItemFn, Type, parse_quote,
};

use crate::{
    names::{local, plain, upper},
    options::{Options, SERVICE},
    signature::{Arguments, Output, conditions, is_path_to, parameters, shared_attributes},
    task::with_error,
    tasks::tokens_of,
    workflow::target,
};

const WHAT: &str = "an operation";

/// The mark of a method.
enum Mark {
    Operation(Options),
    /// Of the operation with this name.
    Cancel(Ident),
}

/// The trait, whose futures are `Send`, and what callers and workers have of it.
pub fn expand(options: TokenStream, item: TokenStream) -> TokenStream {
    let mut service: ItemTrait = match syn::parse2(item.clone()) {
        Ok(service) => service,
        Err(error) => {
            let error = syn::Error::new(error.span(), "`#[nexus_service]` stands on a trait");
            return with_error(item, error);
        }
    };
    // Taken off first: errors are then shown beside a trait that compiles.
    let added = take_marks(&mut service).and_then(|marks| of_trait(options, &service, &marks));
    match added {
        Ok(added) => {
            service.supertraits.push(parse_quote! { ::core::marker::Send });
            service.supertraits.push(parse_quote! { ::core::marker::Sync });
            service.supertraits.push(parse_quote! { 'static });
            for item in &mut service.items {
                if let TraitItem::Fn(method) = item {
                    returns_send_future(method);
                }
            }
            quote! { #service #added }
        }
        Err(error) => with_error(service.into_token_stream(), error),
    }
}

/// Takes the marks off the methods; one for each method that has one, by index.
fn take_marks(service: &mut ItemTrait) -> syn::Result<Vec<(usize, Mark)>> {
    let mut marks = Vec::new();
    let mut first_error: Option<syn::Error> = None;
    for (index, item) in service.items.iter_mut().enumerate() {
        let TraitItem::Fn(method) = item else { continue };
        let is_mark =
            |attribute: &Attribute| attribute.path().is_ident("operation") || attribute.path().is_ident("cancel");
        let (own, others): (Vec<_>, Vec<_>) = std::mem::take(&mut method.attrs).into_iter().partition(is_mark);
        method.attrs = others;
        let read = match own.as_slice() {
            [] => continue,
            [only] => read_mark(only),
            [_, second, ..] => Err(syn::Error::new_spanned(second, "a method is one thing only")),
        };
        match (read, &mut first_error) {
            (Ok(mark), _) => marks.push((index, mark)),
            (Err(error), Some(errors)) => errors.combine(error),
            (Err(error), none) => *none = Some(error),
        }
    }
    first_error.map_or(Ok(marks), Err)
}

fn read_mark(attribute: &Attribute) -> syn::Result<Mark> {
    let tokens = tokens_of(attribute)?;
    match (attribute.path().is_ident("operation"), tokens.is_empty()) {
        (true, _) => Ok(Mark::Operation(Options::parse(tokens, "operation", SERVICE)?)),
        (false, true) => Err(syn::Error::new_spanned(attribute, "name the operation: `#[cancel(operation)]`")),
        (false, false) => Ok(Mark::Cancel(target(tokens)?)),
    }
}

/// `async fn f() -> T` as `fn f() -> impl Future<Output = T> + Send`, which an `async fn` implements.
fn returns_send_future(method: &mut TraitItemFn) {
    if method.sig.asyncness.take().is_none() {
        return;
    }
    let output = match &method.sig.output {
        ReturnType::Default => quote! { () },
        ReturnType::Type(_, ty) => ty.to_token_stream(),
    };
    method.sig.output = parse_quote! {
        -> impl ::core::future::Future<Output = #output> + ::core::marker::Send
    };
    if let Some(body) = &mut method.default {
        *body = parse_quote! { { async move #body } };
        method.semi_token = None;
    }
}

/// What an operation has beside its method.
struct Operation<'a> {
    method: &'a TraitItemFn,
    /// The constant that names it.
    constant: Ident,
    /// Its name on the wire.
    name: String,
    arguments: Arguments,
    /// The type of its result for callers.
    value: Type,
    /// Whether the method returns a `StartedOperation`.
    starts: bool,
}

impl<'a> Operation<'a> {
    fn read(method: &'a TraitItemFn, options: &Options) -> syn::Result<Self> {
        let signature = &method.sig;
        check_method(signature)?;
        let arguments = Arguments::read(signature, "NexusContext", WHAT)?;
        if let Some(second) = arguments.inputs.get(1) {
            let message = "an operation has one input: take a struct or a tuple";
            return Err(syn::Error::new_spanned(second, message));
        }
        let value = Output::of_result(signature, WHAT)?;
        let started = parameters(&value).into_iter().next().filter(|_| is_path_to(&value, "StartedOperation"));
        Ok(Self {
            method,
            constant: upper(&signature.ident),
            name: options.kind(plain(&signature.ident))?,
            arguments,
            starts: started.is_some(),
            value: started.unwrap_or(value),
        })
    }

    /// The constant that names it, and the method by which callers schedule it.
    fn for_callers(&self, service: &str) -> TokenStream {
        let Self { constant, name, value, .. } = self;
        let (method, input) = (&self.method.sig.ident, self.arguments.input_type());
        let (shared, conditions) = (shared_attributes(&self.method.attrs), conditions(&self.method.attrs));
        let (client, argument) = (local("client"), local("input"));
        let parameter = (self.arguments.count() > 0).then(|| quote! { #argument: #input });
        let passed = match self.arguments.count() {
            0 => quote! { () },
            _ => argument.to_token_stream(),
        };
        quote! {
            #(#shared)*
            pub const #constant: ::segno_sdk::NexusOperation<#input, #value> =
                ::segno_sdk::NexusOperation::named(#service, #name);

            #(#conditions)*
            /// Schedules the operation.
            #[track_caller]
            pub fn #method(&self, #parameter) -> ::segno_sdk::NexusFuture<#value> {
                let #client = &self.0;
                #client.start(Self::#constant, #passed)
            }
        }
    }

    /// Its registration, in a scope with the handler and the registry.
    fn registration(&self, client: &Ident) -> TokenStream {
        let (constant, input) = (&self.constant, self.arguments.input_type());
        let (handler, context, pattern) = (local("handler"), local("context"), self.arguments.pattern());
        let passed = self.arguments.call(&context);
        let method = &self.method.sig.ident;
        let conditions = conditions(&self.method.attrs);
        let call = quote_spanned! { method.span() => #handler.#method(#passed) };
        let completed = (!self.starts).then(|| quote! { .map(::segno_sdk::StartedOperation::completed) });
        quote! {
            #(#conditions)*
            {
                let #handler = ::std::sync::Arc::clone(&self.0);
                registry.operation(#client::#constant, move |#context: ::segno_sdk::NexusContext, #pattern: #input| {
                    let #handler = ::std::sync::Arc::clone(&#handler);
                    async move {
                        let _ = &#context;
                        ::segno_sdk::__private::outcome(#call.await)#completed
                    }
                });
            }
        }
    }
}

fn check_method(signature: &Signature) -> syn::Result<()> {
    if signature.asyncness.is_none() {
        return Err(syn::Error::new_spanned(signature.fn_token, "a handler is an `async fn`"));
    }
    match signature.inputs.first() {
        Some(FnArg::Receiver(receiver)) if matches!(receiver.kind, ReceiverKind::Reference(_, _, None)) => Ok(()),
        first => {
            let message = "handlers run at the same time and share the value: take `&self`";
            let place = first.map_or_else(|| signature.ident.to_token_stream(), ToTokens::to_token_stream);
            Err(syn::Error::new_spanned(place, message))
        }
    }
}

fn of_trait(options: TokenStream, service: &ItemTrait, marks: &[(usize, Mark)]) -> syn::Result<TokenStream> {
    let options = Options::parse(options, "nexus_service", SERVICE)?;
    if !service.generics.params.is_empty() || service.generics.where_clause.is_some() {
        return Err(syn::Error::new_spanned(&service.ident, "`#[nexus_service]` does not take generic traits"));
    }
    let method = |index: &usize| match service.items.get(*index) {
        Some(TraitItem::Fn(method)) => Some(method),
        _ => None,
    };
    let mut operations = Vec::new();
    for (index, mark) in marks {
        if let (Mark::Operation(options), Some(method)) = (mark, method(index)) {
            operations.push(Operation::read(method, options)?);
        }
    }
    if operations.is_empty() {
        return Err(syn::Error::new_spanned(&service.ident, "no method here is marked with `#[operation]`"));
    }
    let (name, kind) = (&service.ident, options.kind(plain(&service.ident))?);
    let (client, handler) = (format_ident!("{}Client", name), format_ident!("{}Handler", name));
    let mut registrations: TokenStream = operations.iter().map(|operation| operation.registration(&client)).collect();
    for (index, mark) in marks {
        if let (Mark::Cancel(of), Some(method)) = (mark, method(index)) {
            let Some(operation) = operations.iter().find(|operation| operation.method.sig.ident == *of) else {
                return Err(syn::Error::new_spanned(of, "no operation here has this name"));
            };
            registrations.extend(cancellation(method, operation, &client)?);
        }
    }
    let callers: TokenStream = operations.iter().map(|operation| operation.for_callers(&kind)).collect();
    let (visibility, conditions) = (&service.vis, conditions(&service.attrs));
    let client_docs =
        format!("Schedules operations of the service `{kind}` from a workflow: `ctx.nexus::<{client}>(endpoint)`.");
    let handler_docs = format!(
        "Handles the service `{kind}` with what implements [`{name}`]: `worker.nexus_service({handler}::new(..))`."
    );
    Ok(quote! {
        #(#conditions)*
        #[doc = #client_docs]
        #[allow(dead_code)]
        #[derive(Clone)]
        #visibility struct #client(::segno_sdk::NexusClient);

        #(#conditions)*
        #[allow(dead_code)]
        impl #client {
            #callers

            /// The same with options for the operations that it schedules.
            pub fn with_options(self, options: ::segno_sdk::NexusOptions) -> Self {
                Self(self.0.with_options(options))
            }
        }

        #(#conditions)*
        impl ::segno_sdk::NexusStub for #client {
            fn new(client: ::segno_sdk::NexusClient) -> Self {
                Self(client)
            }
        }

        #(#conditions)*
        #[doc = #handler_docs]
        #[allow(dead_code)]
        #visibility struct #handler<T>(::std::sync::Arc<T>);

        #(#conditions)*
        #[allow(dead_code)]
        impl<T: #name> #handler<T> {
            /// Handles the service with this value, which the requests share.
            pub fn new(value: T) -> Self {
                Self(::std::sync::Arc::new(value))
            }
        }

        #(#conditions)*
        impl<T: #name> ::core::convert::From<::std::sync::Arc<T>> for #handler<T> {
            fn from(value: ::std::sync::Arc<T>) -> Self {
                Self(value)
            }
        }

        #(#conditions)*
        #[allow(clippy::unused_unit, clippy::let_unit_value)]
        impl<T: #name> ::segno_sdk::NexusService for #handler<T> {
            fn register(self, registry: &mut ::segno_sdk::NexusRegistry) {
                #registrations
            }
        }
    })
}

/// The registration of the method that cancels an operation.
fn cancellation(method: &TraitItemFn, operation: &Operation<'_>, client: &Ident) -> syn::Result<TokenStream> {
    let signature = &method.sig;
    check_method(signature)?;
    let arguments = Arguments::read(signature, "NexusContext", "a cancellation")?;
    if arguments.count() != 1 {
        let message = "a cancellation takes the operation's token: add an argument `token: String`";
        return Err(syn::Error::new_spanned(&signature.ident, message));
    }
    let (constant, pattern) = (&operation.constant, arguments.pattern());
    let (handler, context) = (local("handler"), local("context"));
    let passed = arguments.call(&context);
    let name = &signature.ident;
    let call = quote_spanned! { name.span() => #handler.#name(#passed) };
    let conditions = conditions(&method.attrs);
    Ok(quote! {
        #(#conditions)*
        {
            let #handler = ::std::sync::Arc::clone(&self.0);
            registry.cancel(#client::#constant, move |#context: ::segno_sdk::NexusContext, #pattern| {
                let #handler = ::std::sync::Arc::clone(&#handler);
                async move {
                    let _ = &#context;
                    ::segno_sdk::__private::outcome(#call.await)
                }
            });
        }
    })
}
