//! The methods of a workflow: `#[run]`, `#[init]`, `#[signal]`, `#[query]`, `#[update]`, `#[validate(..)]`.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote, quote_spanned};
use syn::{FnArg, ImplItem, ImplItemFn, ItemImpl, ReceiverKind, Signature, Type, ext::IdentExt};

use crate::{
    names::{local, plain, upper},
    options::{HANDLER, Options, QUERY},
    signature::{Arguments, Output, conditions, is_path_to, shared_attributes},
    tasks::tokens_of,
    workflow::target,
};

/// The marker of a method.
enum Mark {
    Run,
    Init,
    Signal(Options),
    Query(Options),
    Update(Options),
    /// Of the update with this name.
    Validate(syn::Ident),
}

/// The marked methods of a block, by their index in it.
pub struct Methods(Vec<(usize, Mark)>);

const MARKS: [&str; 6] = ["run", "init", "signal", "query", "update", "validate"];

impl Methods {
    /// Takes the marks off the methods.
    pub fn take(block: &mut ItemImpl) -> syn::Result<Self> {
        let mut methods = Vec::new();
        let mut errors: Option<syn::Error> = None;
        for (index, item) in block.items.iter_mut().enumerate() {
            let ImplItem::Fn(method) = item else { continue };
            let (marks, others): (Vec<_>, Vec<_>) =
                std::mem::take(&mut method.attrs).into_iter().partition(|attribute| {
                    attribute.path().get_ident().is_some_and(|name| MARKS.iter().any(|mark| name == mark))
                });
            method.attrs = others;
            if let Some(second) = marks.get(1) {
                combine(&mut errors, syn::Error::new_spanned(second, "a method is one thing only"));
            }
            if let Some(mark) = marks.first() {
                match Self::read(mark) {
                    Ok(mark) => methods.push((index, mark)),
                    Err(error) => combine(&mut errors, error),
                }
            }
        }
        for only in [|mark: &Mark| matches!(mark, Mark::Run), |mark: &Mark| matches!(mark, Mark::Init)] {
            let second = methods.iter().filter(|(_, mark)| only(mark)).nth(1);
            if let Some(ImplItem::Fn(method)) = second.and_then(|(index, _)| block.items.get(*index)) {
                combine(&mut errors, syn::Error::new_spanned(&method.sig.ident, "there is one such method already"));
            }
        }
        errors.map_or(Ok(Self(methods)), Err)
    }

    fn read(attribute: &syn::Attribute) -> syn::Result<Mark> {
        let name = attribute.path().require_ident()?.unraw().to_string();
        let tokens = tokens_of(attribute)?;
        Ok(match name.as_str() {
            "signal" => Mark::Signal(Options::parse(tokens, "signal", HANDLER)?),
            "query" => Mark::Query(Options::parse(tokens, "query", QUERY)?),
            "update" => Mark::Update(Options::parse(tokens, "update", HANDLER)?),
            "validate" if tokens.is_empty() => {
                return Err(syn::Error::new_spanned(attribute, "name the update: `#[validate(update)]`"));
            }
            "validate" => Mark::Validate(target(tokens)?),
            _ => {
                Options::parse(tokens, &name, &[])?;
                if name == "run" { Mark::Run } else { Mark::Init }
            }
        })
    }

    /// The methods with their marks.
    fn iter<'a>(&'a self, block: &'a ItemImpl) -> impl Iterator<Item = (&'a Mark, &'a ImplItemFn)> {
        self.0.iter().filter_map(|(index, mark)| match block.items.get(*index) {
            Some(ImplItem::Fn(method)) => Some((mark, method)),
            _ => None,
        })
    }

    /// The method that is the workflow.
    pub fn run<'a>(&'a self, block: &'a ItemImpl) -> Option<&'a ImplItemFn> {
        self.iter(block).find(|(mark, _)| matches!(mark, Mark::Run)).map(|(_, method)| method)
    }
}

fn combine(errors: &mut Option<syn::Error>, error: syn::Error) {
    match errors {
        Some(errors) => errors.combine(error),
        None => *errors = Some(error),
    }
}

/// `Workflow::init`.
pub fn init(block: &ItemImpl, methods: &Methods, run: &Arguments) -> syn::Result<TokenStream> {
    let input = local("input");
    let Some((_, method)) = methods.iter(block).find(|(mark, _)| matches!(mark, Mark::Init)) else {
        // Reported at the type: it is the type that needs a `Default`.
        let state = &block.self_ty;
        let default =
            quote_spanned! { syn::spanned::Spanned::span(state) => <Self as ::core::default::Default>::default() };
        return Ok(quote! { fn init(_: &Self::Input) -> Self { #default } });
    };
    let signature = &method.sig;
    if let Some(token) = &signature.asyncness {
        return Err(syn::Error::new_spanned(token, "the first state is made without waiting: not `async`"));
    }
    let passed = references(signature, &input, run.count(), "the input of the workflow")?;
    let name = &signature.ident;
    let call = quote_spanned! { name.span() => Self::#name(#passed) };
    Ok(quote! {
        fn init(#input: &Self::Input) -> Self {
            let _ = #input;
            #call
        }
    })
}

/// References to the parts of an input, for a function that takes as many, or one to all of them together, or none.
fn references(signature: &Signature, input: &syn::Ident, count: usize, what: &str) -> syn::Result<TokenStream> {
    let types: Vec<&Type> = signature
        .inputs
        .iter()
        .filter_map(|argument| match argument {
            FnArg::Typed(argument) => Some(&*argument.ty),
            FnArg::Receiver(_) => None,
        })
        .collect();
    if types.is_empty() {
        return Ok(TokenStream::new());
    }
    if let Some(value) = types.iter().find(|ty| !matches!(ty, Type::Reference(_))) {
        return Err(syn::Error::new_spanned(value, format!("{what} is only lent here: take a reference")));
    }
    let together = |ty: &Type| matches!(ty, Type::Reference(reference) if matches!(&*reference.elem, Type::Tuple(_)));
    if let [only] = types.as_slice()
        && (count == 1 || together(only))
    {
        return Ok(quote! { #input });
    }
    if types.len() != count {
        let message = format!("{what} has {count} arguments: take references to all of them, or none");
        return Err(syn::Error::new_spanned(&signature.ident, message));
    }
    let indices = (0..count).map(syn::Index::from);
    Ok(quote! { #(&#input.#indices),* })
}

/// Who calls a handler, and how.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    /// `fn(&self, ..)`
    Shared,
    /// `fn(&mut self, ..)`
    Exclusive,
    /// `async fn(ctx: Context<Self>, ..)`
    Async,
}

fn form(signature: &Signature, what: &str, allowed: &[Form]) -> syn::Result<Form> {
    let receiver = signature.receiver().map(|receiver| &receiver.kind);
    let found = match (signature.asyncness, receiver) {
        (Some(_), None) => Some(Form::Async),
        (None, Some(ReceiverKind::Reference(_, _, Some(_)))) => Some(Form::Exclusive),
        (None, Some(ReceiverKind::Reference(_, _, None))) => Some(Form::Shared),
        _ => None,
    };
    match found {
        Some(form) if allowed.contains(&form) => Ok(form),
        // Methods of `&self` may be called with a mutable reference, too.
        Some(Form::Shared) if allowed.contains(&Form::Exclusive) => Ok(Form::Exclusive),
        _ => {
            let forms: Vec<&str> = allowed
                .iter()
                .map(|form| match form {
                    Form::Shared => "`fn(&self, ..)`",
                    Form::Exclusive => "`fn(&mut self, ..)`",
                    Form::Async => "`async fn(ctx: Context<Self>, ..)`",
                })
                .collect();
            Err(syn::Error::new_spanned(&signature.ident, format!("{what} is {}", forms.join(" or "))))
        }
    }
}

/// The constants for clients, and the statements that register the handlers.
pub fn expand(block: &ItemImpl, methods: &Methods) -> syn::Result<(TokenStream, TokenStream)> {
    let mut constants = TokenStream::new();
    let mut registrations = TokenStream::new();
    let mut errors: Option<syn::Error> = None;
    check_validators(block, methods, &mut errors);
    for (mark, method) in methods.iter(block) {
        let expanded = match mark {
            Mark::Run | Mark::Init | Mark::Validate(_) => continue,
            Mark::Signal(options) => signal(block, method, options),
            Mark::Query(options) => query(block, method, options),
            Mark::Update(options) => update(block, methods, method, options),
        };
        match expanded {
            Ok((constant, registration)) => {
                constants.extend(constant);
                registrations.extend(registration);
            }
            Err(error) => combine(&mut errors, error),
        }
    }
    if let Some(errors) = errors {
        return Err(errors);
    }
    let (state, conditions) = (&block.self_ty, conditions(&block.attrs));
    let constants = quote! {
        #(#conditions)*
        #[allow(dead_code, private_interfaces)]
        impl #state { #constants }
    };
    Ok((constants, registrations))
}

/// Each names an update, and each update has one at most.
fn check_validators(block: &ItemImpl, methods: &Methods, errors: &mut Option<syn::Error>) {
    let mut seen: Vec<&syn::Ident> = Vec::new();
    for (mark, _) in methods.iter(block) {
        let Mark::Validate(name) = mark else { continue };
        let known =
            methods.iter(block).any(|(mark, method)| matches!(mark, Mark::Update(_)) && method.sig.ident == *name);
        if !known {
            combine(errors, syn::Error::new(name.span(), format!("there is no `#[update]` named `{name}` here")));
        }
        if seen.contains(&name) {
            combine(errors, syn::Error::new(name.span(), format!("`{name}` is validated by another method already")));
        }
        seen.push(name);
    }
}

/// The type of the arguments of a handler for all names, which takes them after the name.
fn any_arguments<'a>(arguments: &'a Arguments, method: &ImplItemFn, what: &str) -> syn::Result<&'a Type> {
    match arguments.inputs.as_slice() {
        [name, list] if is_path_to(name, "String") => Ok(list),
        _ => Err(syn::Error::new_spanned(
            &method.sig.ident,
            format!("{what} that is `dynamic` takes the name and all arguments: `name: String, arguments: Vec<Value>`"),
        )),
    }
}

/// A constant such as `pub const CHECK_OUT: Signal<()> = ..`.
fn constant(method: &ImplItemFn, options: &Options, count: usize, ty: TokenStream) -> syn::Result<TokenStream> {
    let kind = options.kind(plain(&method.sig.ident))?;
    if options.dynamic.is_some() {
        // It has no name with which a client could call it.
        return Ok(TokenStream::new());
    }
    let name = upper(&method.sig.ident);
    let shared = shared_attributes(&method.attrs);
    let value = match count {
        0 | 1 => quote! { <#ty>::named(#kind) },
        _ => quote! { <#ty>::with_arguments(#kind, #count) },
    };
    // Without documentation of its own it would be reported as an item that lacks it.
    let fallback = format!("`{kind}`, for clients.");
    let documented = method.attrs.iter().any(|attribute| attribute.path().is_ident("doc"));
    let fallback = (!documented).then(|| quote! { #[doc = #fallback] });
    Ok(quote! {
        #(#shared)*
        #fallback
        pub const #name: #ty = #value;
    })
}

/// The parts of a closure that calls a method.
struct Call {
    input_type: TokenStream,
    pattern: TokenStream,
    /// The call itself; of an `async fn` without its `.await`.
    call: TokenStream,
    count: usize,
}

impl Call {
    /// The parameters of the closure after the state or context: all inputs in one pattern, or for a
    /// handler of all names the name and the arguments.
    fn parameters(&self, is_any: bool) -> TokenStream {
        let Self { input_type, pattern, .. } = self;
        if !is_any {
            return quote! { #pattern: #input_type };
        }
        let (name, arguments) = (local("argument_0"), local("argument_1"));
        quote! { #name: ::std::string::String, #arguments }
    }
}

fn call(block: &ItemImpl, method: &ImplItemFn, options: &Options, form: Form, what: &str) -> syn::Result<Call> {
    let signature = &method.sig;
    let arguments = Arguments::read(signature, "Context", what)?;
    if options.dynamic.is_some() {
        any_arguments(&arguments, method, what)?;
    }
    match (form, &arguments.context) {
        (Form::Async, None) => {
            return Err(syn::Error::new_spanned(&signature.ident, format!("{what} takes `ctx: Context<Self>`")));
        }
        (Form::Shared | Form::Exclusive, Some(context)) => {
            let message = format!("{what} that is not `async` works on `self` and has no context");
            return Err(syn::Error::new_spanned(context, message));
        }
        _ => {}
    }
    let (receiver, context) = (local("state"), local("context"));
    let passed = arguments.call(&context);
    let (state, name) = (&block.self_ty, &signature.ident);
    let call = match form {
        Form::Async => quote_spanned! { name.span() => <#state>::#name(#passed) },
        Form::Shared | Form::Exclusive => quote_spanned! { name.span() => <#state>::#name(#receiver, #passed) },
    };
    Ok(Call { input_type: arguments.input_type(), pattern: arguments.pattern(), call, count: arguments.count() })
}

fn registration(method: &ImplItemFn, chained: TokenStream) -> TokenStream {
    let (handlers, conditions) = (local("handlers"), conditions(&method.attrs));
    quote! {
        #(#conditions)*
        let #handlers = #handlers.#chained;
    }
}

type HandlerTokens = syn::Result<(TokenStream, TokenStream)>;

fn signal(block: &ItemImpl, method: &ImplItemFn, options: &Options) -> HandlerTokens {
    let form = form(&method.sig, "a signal", &[Form::Exclusive, Form::Async])?;
    let called = call(block, method, options, form, "a signal")?;
    let Call { input_type, call, count, .. } = &called;
    let constant = constant(method, options, *count, quote! { ::segno_sdk::Signal<#input_type> })?;
    let (state, context) = (local("state"), local("context"));
    let parameters = called.parameters(options.dynamic.is_some());
    let function = match (form, Output::read(&method.sig)) {
        (Form::Async, Output::Nothing) => quote! {
            |#context: ::segno_sdk::Context<Self>, #parameters| async move { #call.await }
        },
        (Form::Async, Output::Result(value)) if is_unit(&value) => quote! {
            |#context: ::segno_sdk::Context<Self>, #parameters| async move {
                ::segno_sdk::__private::outcome(#call.await)
            }
        },
        (_, Output::Nothing) => quote! { |#state: &mut Self, #parameters| #call },
        (_, Output::Result(value)) if is_unit(&value) => quote! {
            |#state: &mut Self, #parameters| ::segno_sdk::__private::outcome(#call)
        },
        _ => {
            let message = "the result of a signal is dropped: let it return nothing, or `Result<()>`";
            return Err(syn::Error::new_spanned(&method.sig.output, message));
        }
    };
    let name = upper(&method.sig.ident);
    let mut chained = match (options.dynamic, form) {
        (Some(_), Form::Async) => quote! { signal_any_async(#function) },
        (Some(_), _) => quote! { signal_any(#function) },
        (None, Form::Async) => quote! { signal_async(Self::#name, #function) },
        (None, _) => quote! { signal(Self::#name, #function) },
    };
    if options.abandoned {
        let kind = options.kind(plain(&method.sig.ident))?;
        chained.extend(quote! { .abandon_signal(#kind) });
    }
    Ok((constant, registration(method, chained)))
}

fn query(block: &ItemImpl, method: &ImplItemFn, options: &Options) -> HandlerTokens {
    let form = form(&method.sig, "a query", &[Form::Shared])?;
    let called = call(block, method, options, form, "a query")?;
    let Call { input_type, call, count, .. } = &called;
    let (name, state) = (upper(&method.sig.ident), local("state"));
    let parameters = called.parameters(options.dynamic.is_some());
    let output = Output::read(&method.sig);
    if let Output::Plain(value) = &output {
        refuse_reference(value, "a query")?;
    }
    let is_fallible = matches!(output, Output::Result(_));
    let chained = match (options.dynamic, is_fallible) {
        (Some(_), true) => quote! {
            query_any(|#state: &Self, #parameters| ::segno_sdk::__private::outcome(#call))
        },
        (Some(_), false) => quote! {
            query_any(|#state: &Self, #parameters| ::segno_sdk::Result::Ok(#call))
        },
        (None, true) => quote! {
            query_fallible(Self::#name, |#state: &Self, #parameters| ::segno_sdk::__private::outcome(#call))
        },
        (None, false) => quote! { query(Self::#name, |#state: &Self, #parameters| #call) },
    };
    let value = match output {
        Output::Nothing => quote! { () },
        Output::Plain(value) | Output::Result(value) => value.to_token_stream(),
    };
    let constant = constant(method, options, *count, quote! { ::segno_sdk::Query<#input_type, #value> })?;
    Ok((constant, registration(method, chained)))
}

fn update(block: &ItemImpl, methods: &Methods, method: &ImplItemFn, options: &Options) -> HandlerTokens {
    let form = form(&method.sig, "an update", &[Form::Exclusive, Form::Async])?;
    let called = call(block, method, options, form, "an update")?;
    let Call { input_type, call, count, .. } = &called;
    let value = Output::of_result(&method.sig, "an update")?;
    let constant = constant(method, options, *count, quote! { ::segno_sdk::Update<#input_type, #value> })?;
    let (name, state, context) = (upper(&method.sig.ident), local("state"), local("context"));
    let parameters = called.parameters(options.dynamic.is_some());
    let validator = validator(block, methods, method, options, &called)?;
    let function = match form {
        Form::Async => quote! {
            |#context: ::segno_sdk::Context<Self>, #parameters| async move {
                ::segno_sdk::__private::outcome(#call.await)
            }
        },
        Form::Shared | Form::Exclusive => quote! {
            |#state: &mut Self, #parameters| ::segno_sdk::__private::outcome(#call)
        },
    };
    let mut chained = match (options.dynamic, form) {
        (Some(_), Form::Async) => quote! { update_any_async(#validator, #function) },
        (Some(_), _) => quote! { update_any(#validator, #function) },
        (None, Form::Async) => quote! { update_async(Self::#name, #validator, #function) },
        (None, _) => quote! { update(Self::#name, #validator, #function) },
    };
    if options.abandoned {
        let kind = options.kind(plain(&method.sig.ident))?;
        chained.extend(quote! { .abandon_update(#kind) });
    }
    Ok((constant, registration(method, chained)))
}

/// The validator of an update as an option of a function.
fn validator(
    block: &ItemImpl,
    methods: &Methods,
    update: &ImplItemFn,
    options: &Options,
    called: &Call,
) -> syn::Result<TokenStream> {
    let found = methods.iter(block).find(|(mark, _)| matches!(mark, Mark::Validate(name) if *name == update.sig.ident));
    let Some((_, method)) = found else { return Ok(quote! { ::core::option::Option::None }) };
    let signature = &method.sig;
    form(signature, "a validator", &[Form::Shared])?;
    if !is_unit(&Output::of_result(signature, "a validator")?) {
        return Err(syn::Error::new_spanned(&signature.output, "a validator returns `Result<()>`"));
    }
    let (state, input) = (local("state"), local("input"));
    let name = &signature.ident;
    if options.dynamic.is_some() {
        let arguments = local("arguments");
        let ty = any_arguments(&Arguments::read(&update.sig, "Context", "an update")?, update, "an update")?.clone();
        let passed = match references(signature, &input, 2, "the input of the update")?.is_empty() {
            true => TokenStream::new(),
            false => quote! { #input, #arguments },
        };
        let call = quote_spanned! { name.span() => Self::#name(#state, #passed) };
        return Ok(quote! {
            ::core::option::Option::Some(|#state: &Self, #input: &::std::string::String, #arguments: &#ty| {
                let _ = (#input, #arguments);
                ::segno_sdk::__private::outcome(#call)
            })
        });
    }
    let Call { input_type, count, .. } = called;
    let passed = references(signature, &input, *count, "the input of the update")?;
    let call = quote_spanned! { name.span() => Self::#name(#state, #passed) };
    Ok(quote! {
        ::core::option::Option::Some(|#state: &Self, #input: &#input_type| {
            let _ = #input;
            ::segno_sdk::__private::outcome(#call)
        })
    })
}

fn is_unit(ty: &Type) -> bool {
    matches!(ty, Type::Tuple(tuple) if tuple.elems.is_empty())
}

fn refuse_reference(ty: &Type, what: &str) -> syn::Result<()> {
    match ty {
        Type::Reference(_) => {
            Err(syn::Error::new_spanned(ty, format!("what {what} returns travels: return a value, such as a clone")))
        }
        _ => Ok(()),
    }
}
