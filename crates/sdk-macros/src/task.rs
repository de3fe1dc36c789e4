//! `#[task]` on a function, and what it has in common with a method in `#[tasks]`.

use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::{Attribute, FnArg, ItemFn, Signature, Type, Visibility};

use crate::{
    names::{camel, local, plain},
    options::{Options, TASK},
    signature::{Arguments, Output, conditions, shared_attributes, without_self},
};

const WHAT: &str = "a task";

/// The function, and what stands for the task.
pub fn expand(options: TokenStream, item: TokenStream) -> TokenStream {
    let function: ItemFn = match syn::parse2(item.clone()) {
        Ok(function) => function,
        Err(error) => {
            let error = syn::Error::new(error.span(), "`#[task]` stands on a function with a body");
            return with_error(item, error);
        }
    };
    match of_function(options, &function) {
        Ok(added) => quote! { #function #added },
        Err(error) => with_error(function.into_token_stream(), error),
    }
}

/// The item as it was, so that no other errors follow from its absence, and what is wrong with it.
pub fn with_error(item: TokenStream, error: syn::Error) -> TokenStream {
    let error = error.into_compile_error();
    quote! { #item #error }
}

fn of_function(options: TokenStream, function: &ItemFn) -> syn::Result<TokenStream> {
    let options = Options::parse(options, "task", TASK)?;
    if let Some(FnArg::Receiver(receiver)) = function.sig.inputs.first() {
        return Err(syn::Error::new_spanned(
            receiver,
            "for tasks that are methods, put `#[tasks]` on the `impl` block",
        ));
    }
    let name = &function.sig.ident;
    let definition = Definition {
        attributes: &function.attrs,
        visibility: &function.vis,
        signature: &function.sig,
        options: &options,
        state: None,
        callee: quote! { #name },
        receiver: Receiver::None,
    };
    definition.expand().map(|(_, tokens)| tokens)
}

/// How a method takes the state that the tasks share.
pub enum Receiver {
    None,
    Reference,
    Shared,
}

/// A function or method that is a task.
pub struct Definition<'a> {
    pub attributes: &'a [Attribute],
    pub visibility: &'a Visibility,
    pub signature: &'a Signature,
    pub options: &'a Options,
    /// The type that the tasks share; none for a function.
    pub state: Option<&'a Type>,
    /// The function that is called.
    pub callee: TokenStream,
    pub receiver: Receiver,
}

impl Definition<'_> {
    /// The name of the type that stands for the task, and all that is added.
    pub fn expand(&self) -> syn::Result<(Ident, TokenStream)> {
        let signature = self.signature;
        if let Some(token) = &signature.constness {
            return Err(syn::Error::new_spanned(token, "a task cannot be `const`"));
        }
        let arguments = Arguments::read(signature, "TaskContext", WHAT)?;
        let value = Output::of_result(signature, WHAT)?;
        let marker = match &self.options.type_name {
            Some(name) => name.clone(),
            None => camel(&signature.ident)?,
        };
        let kind = self.options.kind(plain(&signature.ident))?;
        let count = match self.options.dynamic {
            Some(_) => {
                arguments.check_dynamic(signature, WHAT)?;
                quote! { ::segno_sdk::__private::ALL_PAYLOADS }
            }
            None => arguments.count().to_token_stream(),
        };
        let state = self.state.map_or_else(|| quote! { () }, ToTokens::to_token_stream);
        let input_type = without_self(arguments.input_type(), &state);
        let value = without_self(value.to_token_stream(), &state);
        let options = self.options.task_options();
        let body = self.body(&arguments);
        let (shared, conditions) = (shared_attributes(self.attributes), conditions(self.attributes));
        let visibility = self.visibility;
        let (state_variable, context, input) = (local("state"), local("context"), local("input"));
        let tokens = quote! {
            #(#shared)*
            #[allow(dead_code)]
            #visibility struct #marker;

            #(#conditions)*
            impl ::segno_sdk::TaskDefinition for #marker {
                type Input = #input_type;
                type Output = #value;
                const KIND: &'static str = #kind;
                const ARGUMENTS: usize = #count;
                #options
            }

            #(#conditions)*
            #[allow(clippy::unused_async, clippy::unused_unit, clippy::let_unit_value)]
            impl ::segno_sdk::Task for #marker {
                type State = #state;
                async fn execute(
                    #state_variable: ::std::sync::Arc<Self::State>,
                    #context: ::segno_sdk::TaskContext,
                    #input: Self::Input,
                ) -> ::segno_sdk::Result<Self::Output> {
                    #body
                }
            }
        };
        Ok((marker, tokens))
    }

    fn body(&self, arguments: &Arguments) -> TokenStream {
        let (state, context, input) = (local("state"), local("context"), local("input"));
        let pattern = arguments.pattern();
        let passed = arguments.call(&context);
        let callee = &self.callee;
        let receiver = match self.receiver {
            Receiver::None => TokenStream::new(),
            Receiver::Reference => quote! { &#state, },
            Receiver::Shared => quote! { ::std::sync::Arc::clone(&#state), },
        };
        // A future that is not `Send` is reported at the function's name.
        let span = self.signature.ident.span();
        let call = quote_spanned! { span => #callee(#receiver #passed) };
        let unused = quote! { let _ = (&#state, &#context); };
        match self.signature.asyncness {
            Some(_) => quote! {
                #unused
                let #pattern = #input;
                ::segno_sdk::__private::outcome(#call.await)
            },
            None => quote! {
                ::segno_sdk::__private::blocking(move || {
                    #unused
                    let #pattern = #input;
                    ::segno_sdk::__private::outcome(#call)
                }).await
            },
        }
    }
}
