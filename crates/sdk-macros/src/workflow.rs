//! `#[workflow]` on a function or on an `impl` block.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote, quote_spanned};
use syn::{FnArg, ImplItem, Item, ItemFn, ItemImpl, Signature, Type, parse::Parser};

use crate::{
    calls,
    handlers::{self, Methods},
    names::{camel, local, plain},
    options::{Options, WORKFLOW, WORKFLOW_IMPL},
    signature::{Arguments, Output, conditions, parameters, shared_attributes},
    task::with_error,
    tasks::check_block,
};

const WHAT: &str = "a workflow";

/// The item, and what makes a workflow of it.
pub fn expand(options: TokenStream, item: TokenStream) -> TokenStream {
    match syn::parse2(item.clone()) {
        Ok(Item::Fn(function)) => match of_function(options, &function) {
            Ok(added) => quote! { #function #added },
            Err(error) => with_error(function.into_token_stream(), error),
        },
        Ok(Item::Impl(mut block)) => {
            // Taken off first: errors are then shown beside an `impl` block that compiles.
            let methods = Methods::take(&mut block);
            let added = methods.and_then(|methods| of_block(options, &block, &methods));
            match added {
                Ok(added) => quote! { #block #added },
                Err(error) => with_error(block.into_token_stream(), error),
            }
        }
        Ok(_) => {
            let message = "`#[workflow]` stands on an `async fn` or on an `impl` block";
            let error = syn::Error::new_spanned(&item, message);
            with_error(item, error)
        }
        Err(error) => with_error(item, error),
    }
}

/// How many payloads the input becomes.
fn payloads(options: &Options, arguments: &Arguments, signature: &Signature) -> syn::Result<TokenStream> {
    match options.dynamic {
        Some(_) => {
            arguments.check_dynamic(signature, WHAT)?;
            Ok(quote! { ::segno_sdk::__private::ALL_PAYLOADS })
        }
        None => Ok(arguments.count().to_token_stream()),
    }
}

/// Arguments and output of the function that is the workflow.
fn read_run(signature: &Signature) -> syn::Result<(Arguments, Type)> {
    if signature.asyncness.is_none() {
        return Err(syn::Error::new_spanned(signature.fn_token, "a workflow is an `async fn`"));
    }
    if let Some(FnArg::Receiver(receiver)) = signature.inputs.first() {
        let message = "a workflow takes `ctx: Context<Self>`; its state is `ctx.this()` and `ctx.this_mut()`";
        return Err(syn::Error::new_spanned(receiver, message));
    }
    let arguments = Arguments::read(signature, "Context", WHAT)?;
    if arguments.context.is_none() {
        let message = "a workflow takes a context: add an argument `ctx: Context` (in an `impl` block `Context<Self>`)";
        return Err(syn::Error::new_spanned(&signature.ident, message));
    }
    let value = Output::of_result(signature, WHAT)?;
    Ok((arguments, value))
}

/// `Workflow::run`, which calls the user's function.
fn run_method(callee: TokenStream, signature: &Signature, arguments: &Arguments) -> TokenStream {
    let (context, input) = (local("context"), local("input"));
    let pattern = arguments.pattern();
    let passed = arguments.call(&context);
    let call = quote_spanned! { signature.ident.span() => #callee(#passed) };
    quote! {
        async fn run(
            #context: ::segno_sdk::Context<Self::State>,
            #input: Self::Input,
        ) -> ::segno_sdk::Result<Self::Output> {
            let #pattern = #input;
            ::segno_sdk::__private::outcome(#call.await)
        }
    }
}

fn of_function(options: TokenStream, function: &ItemFn) -> syn::Result<TokenStream> {
    let options = Options::parse(options, "workflow", WORKFLOW)?;
    let signature = &function.sig;
    let (arguments, value) = read_run(signature)?;
    if let Some(context) = &arguments.context
        && let Some(state) = parameters(context).first()
        && !matches!(state, Type::Tuple(tuple) if tuple.elems.is_empty())
    {
        let message = "a workflow function has no fields: take `Context`, or put `#[workflow]` on an `impl` block";
        return Err(syn::Error::new_spanned(context, message));
    }
    let marker = match &options.type_name {
        Some(name) => name.clone(),
        None => camel(&signature.ident)?,
    };
    let kind = options.kind(plain(&signature.ident))?;
    let count = payloads(&options, &arguments, signature)?;
    let input_type = arguments.input_type();
    let name = &signature.ident;
    let run = run_method(quote! { #name }, signature, &arguments);
    let (shared, conditions) = (shared_attributes(&function.attrs), conditions(&function.attrs));
    let visibility = &function.vis;
    let versioning = options.versioning();
    let unsuited_calls = (!options.unchecked).then(|| calls::unsuited(&function.block));
    Ok(quote! {
        #unsuited_calls

        #(#shared)*
        #[allow(dead_code)]
        #visibility struct #marker;

        #(#conditions)*
        impl ::segno_sdk::WorkflowDefinition for #marker {
            type Input = #input_type;
            type Output = #value;
            const KIND: &'static str = #kind;
            const ARGUMENTS: usize = #count;
        }

        #(#conditions)*
        #[allow(clippy::unused_unit, clippy::let_unit_value)]
        impl ::segno_sdk::Workflow for #marker {
            type State = ();
            fn init(_: &Self::Input) {}
            #versioning
            #run
        }
    })
}

fn of_block(options: TokenStream, block: &ItemImpl, methods: &Methods) -> syn::Result<TokenStream> {
    let options = Options::parse(options, "workflow", WORKFLOW_IMPL)?;
    check_block(block, "workflow")?;
    let state = &block.self_ty;
    let Some(run) = methods.run(block) else {
        return Err(syn::Error::new_spanned(state, "no method here is marked with `#[run]`"));
    };
    let (arguments, value) = read_run(&run.sig)?;
    let kind = options.kind(type_name(state)?)?;
    let count = payloads(&options, &arguments, &run.sig)?;
    let input_type = arguments.input_type();
    let name = &run.sig.ident;
    let run = run_method(quote! { <#state>::#name }, &run.sig, &arguments);
    let init = handlers::init(block, methods, &arguments)?;
    let (constants, registrations) = handlers::expand(block, methods)?;
    let conditions = conditions(&block.attrs);
    let handlers = local("handlers");
    let versioning = options.versioning();
    let unsuited_calls = (!options.unchecked).then(|| unsuited_calls(block));
    Ok(quote! {
        #unsuited_calls

        #constants

        #(#conditions)*
        impl ::segno_sdk::WorkflowDefinition for #state {
            type Input = #input_type;
            type Output = #value;
            const KIND: &'static str = #kind;
            const ARGUMENTS: usize = #count;
        }

        #(#conditions)*
        #[allow(clippy::unused_unit, clippy::let_unit_value)]
        impl ::segno_sdk::Workflow for #state {
            type State = Self;
            #init
            fn handlers() -> ::segno_sdk::Handlers<Self> {
                let #handlers = ::segno_sdk::Handlers::<Self>::default();
                #registrations
                #handlers
            }
            #versioning
            #run
        }
    })
}

/// Errors for the calls in all methods of a block.
fn unsuited_calls(block: &ItemImpl) -> TokenStream {
    let bodies = block.items.iter().filter_map(|item| match item {
        ImplItem::Fn(method) => Some(&method.block),
        _ => None,
    });
    bodies.map(calls::unsuited).collect()
}

/// The last segment of a type's path.
fn type_name(ty: &Type) -> syn::Result<String> {
    let name = match ty {
        Type::Path(path) => path.path.segments.last().map(|segment| plain(&segment.ident)),
        _ => None,
    };
    name.ok_or_else(|| syn::Error::new_spanned(ty, "a workflow is a struct or an enum"))
}

/// Reads a method's name in `#[validate(name)]`.
pub fn target(tokens: TokenStream) -> syn::Result<syn::Ident> {
    let parser = |input: syn::parse::ParseStream<'_>| input.parse::<syn::Ident>();
    parser.parse2(tokens)
}
