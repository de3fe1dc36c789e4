//! Options of an attribute, in its parentheses.

use std::time::Duration;

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::{
    Ident, LitInt, LitStr, Token,
    ext::IdentExt,
    parse::{ParseStream, Parser},
};

/// The options of one attribute; what was not given is `None`.
#[derive(Default)]
pub struct Options {
    pub name: Option<LitStr>,
    pub type_name: Option<Ident>,
    /// Where `dynamic` stands.
    pub dynamic: Option<Span>,
    /// Whether a workflow may call what it likes.
    pub unchecked: bool,
    pub timeout: Option<Duration>,
    pub schedule_to_close: Option<Duration>,
    pub schedule_to_start: Option<Duration>,
    pub heartbeat_timeout: Option<Duration>,
    pub max_retries: Option<u32>,
    pub queue: Option<LitStr>,
    /// A variant of `VersioningBehavior`.
    pub versioning: Option<Ident>,
    /// Whether the end of the workflow may cut the handler off without a warning.
    pub abandoned: bool,
}

/// Options of `#[task]` on a function.
pub const TASK: &[&str] = &[
    "name",
    "as",
    "timeout",
    "schedule_to_close",
    "schedule_to_start",
    "heartbeat_timeout",
    "max_retries",
    "queue",
    "dynamic",
];
/// Options of `#[workflow]` on a function.
pub const WORKFLOW: &[&str] = &["name", "as", "dynamic", "versioning", "unchecked"];
/// Options of `#[workflow]` on an `impl` block.
pub const WORKFLOW_IMPL: &[&str] = &["name", "dynamic", "versioning", "unchecked"];
/// Options of `#[nexus_service]` and of operations.
pub const SERVICE: &[&str] = &["name"];
/// Options of queries.
pub const QUERY: &[&str] = &["name", "dynamic"];
/// Options of signals and updates.
pub const HANDLER: &[&str] = &["name", "dynamic", "unfinished"];

impl Options {
    /// Reads the options of an attribute that knows those in `allowed`.
    pub fn parse(tokens: TokenStream, attribute: &str, allowed: &[&str]) -> syn::Result<Self> {
        let parser = |input: ParseStream<'_>| {
            let mut options = Self::default();
            let mut seen: Vec<String> = Vec::new();
            while !input.is_empty() {
                let key = input.call(Ident::parse_any)?;
                let text = key.to_string();
                if !allowed.contains(&text.as_str()) {
                    return Err(syn::Error::new(key.span(), unknown(&text, attribute, allowed)));
                }
                if seen.contains(&text) {
                    return Err(syn::Error::new(key.span(), format!("`{text}` is given twice")));
                }
                options.read(&key, input)?;
                seen.push(text);
                if !input.is_empty() {
                    input.parse::<Token![,]>()?;
                }
            }
            Ok(options)
        };
        parser.parse2(tokens)
    }

    fn read(&mut self, key: &Ident, input: ParseStream<'_>) -> syn::Result<()> {
        if key == "dynamic" {
            self.dynamic = Some(key.span());
            return Ok(());
        }
        if key == "unchecked" {
            self.unchecked = true;
            return Ok(());
        }
        input.parse::<Token![=]>()?;
        match key.to_string().as_str() {
            "name" => self.name = Some(not_empty(input)?),
            "queue" => self.queue = Some(not_empty(input)?),
            "versioning" => {
                let text: LitStr = input.parse()?;
                let variant = match text.value().as_str() {
                    "pinned" => "Pinned",
                    "auto_upgrade" => "AutoUpgrade",
                    _ => return Err(syn::Error::new(text.span(), "expected \"pinned\" or \"auto_upgrade\"")),
                };
                self.versioning = Some(Ident::new(variant, text.span()));
            }
            "unfinished" => {
                let text: LitStr = input.parse()?;
                self.abandoned = match text.value().as_str() {
                    "abandon" => true,
                    "warn" => false,
                    _ => return Err(syn::Error::new(text.span(), "expected \"warn\" or \"abandon\"")),
                };
            }
            "as" => self.type_name = Some(input.parse()?),
            "max_retries" => {
                let number: LitInt = input.parse()?;
                let wrong = |_| syn::Error::new(number.span(), "expected the number of attempts after the first");
                self.max_retries = Some(number.base10_parse().map_err(wrong)?);
            }
            "timeout" => self.timeout = Some(duration(input)?),
            "schedule_to_close" => self.schedule_to_close = Some(duration(input)?),
            "schedule_to_start" => self.schedule_to_start = Some(duration(input)?),
            "heartbeat_timeout" => self.heartbeat_timeout = Some(duration(input)?),
            other => return Err(syn::Error::new(key.span(), format!("`{other}` takes no value"))),
        }
        Ok(())
    }

    /// The body of `TaskDefinition::options`, or nothing if its default is right.
    pub fn task_options(&self) -> TokenStream {
        let durations = [
            ("timeout", self.timeout),
            ("schedule_to_close", self.schedule_to_close),
            ("schedule_to_start", self.schedule_to_start),
            ("heartbeat_timeout", self.heartbeat_timeout),
        ];
        let mut fields: Vec<TokenStream> = Vec::new();
        for (name, value) in durations {
            if let Some(value) = value {
                let field = Ident::new(name, Span::call_site());
                let ms = u64::try_from(value.as_millis()).unwrap_or(u64::MAX);
                fields.push(quote! {
                    #field: ::core::option::Option::Some(::core::time::Duration::from_millis(#ms))
                });
            }
        }
        if let Some(retries) = self.max_retries {
            fields.push(quote! { max_retries: ::core::option::Option::Some(#retries) });
        }
        if let Some(queue) = &self.queue {
            fields.push(quote! {
                queue: ::core::option::Option::Some(::std::string::String::from(#queue))
            });
        }
        if fields.is_empty() {
            return TokenStream::new();
        }
        quote! {
            fn options() -> ::segno_sdk::ScheduleTaskOptions {
                ::segno_sdk::ScheduleTaskOptions { #(#fields,)* ..::core::default::Default::default() }
            }
        }
    }

    /// `Workflow::versioning`, or nothing if its default is right.
    pub fn versioning(&self) -> Option<TokenStream> {
        let variant = self.versioning.as_ref()?;
        Some(quote! {
            fn versioning() -> ::segno_sdk::VersioningBehavior {
                ::segno_sdk::VersioningBehavior::#variant
            }
        })
    }

    /// The name on the wire: as given, a catch-all, or as the Rust item is called.
    pub fn kind(&self, otherwise: String) -> syn::Result<String> {
        match (&self.name, self.dynamic) {
            (Some(_), Some(span)) => Err(syn::Error::new(span, "what is `dynamic` has no `name`")),
            (Some(name), None) => Ok(name.value()),
            (None, Some(_)) => Ok("*".to_owned()),
            (None, None) => Ok(otherwise),
        }
    }
}

fn not_empty(input: ParseStream<'_>) -> syn::Result<LitStr> {
    let text: LitStr = input.parse()?;
    match text.value().is_empty() {
        true => Err(syn::Error::new(text.span(), "must not be empty")),
        false => Ok(text),
    }
}

fn duration(input: ParseStream<'_>) -> syn::Result<Duration> {
    if !input.peek(LitStr) {
        return Err(input.error("expected a duration in quotation marks, such as \"30s\""));
    }
    let text: LitStr = input.parse()?;
    crate::duration::parse(&text.value()).map_err(|message| syn::Error::new(text.span(), message))
}

fn unknown(option: &str, attribute: &str, allowed: &[&str]) -> String {
    let list: Vec<String> = allowed.iter().map(|name| format!("`{name}`")).collect();
    match list.is_empty() {
        true => format!("`#[{attribute}]` has no options"),
        false => format!("`#[{attribute}]` has no option `{option}`; there are: {}", list.join(", ")),
    }
}
