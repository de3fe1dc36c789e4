//! Errors of the attributes, and that annotated items are kept.

use proc_macro2::TokenStream;
use quote::quote;

use crate::{nexus, task, tasks, workflow};

/// The messages of the `compile_error!` in an expansion.
fn errors(tokens: TokenStream) -> Vec<String> {
    let text = tokens.to_string();
    text.split("compile_error ! {")
        .skip(1)
        .map(|rest| {
            let end = rest.rfind('}').unwrap_or(rest.len());
            rest[..end].split('}').next().unwrap_or_default().trim().trim_matches('"').replace("\\\"", "\"")
        })
        .collect()
}

fn only(tokens: TokenStream) -> String {
    let errors = errors(tokens);
    assert_eq!(errors.len(), 1, "{errors:?}");
    errors.into_iter().next().unwrap_or_default()
}

#[test]
fn a_task_keeps_its_function_and_its_documentation() {
    let text = task::expand(
        quote!(timeout = "1h30m", max_retries = 4, name = "mail", queue = "mails"),
        quote! {
            /// Composes.
            pub(crate) async fn compose_mail(ctx: TaskContext, mut to: String, copies: u32) -> Result<u8> { Ok(1) }
        },
    )
    .to_string();
    assert!(text.contains("pub (crate) async fn compose_mail"), "{text}");
    assert!(text.contains("pub (crate) struct ComposeMail"), "{text}");
    assert_eq!(text.matches("Composes.").count(), 2, "{text}");
    assert!(text.contains("type Input = (String , u32)"), "{text}");
    assert!(text.contains("type Output = u8"), "{text}");
    assert!(text.contains(r#"const KIND : & 'static str = "mail""#), "{text}");
    assert!(text.contains("from_millis (5400000u64)"), "{text}");
    assert!(text.contains("Some (4u32)"), "{text}");
}

#[test]
fn mistakes_in_tasks() {
    let cases = [
        (
            quote!(),
            quote!(
                async fn f<T>(x: T) -> Result<T> {
                    Ok(x)
                }
            ),
            "cannot be generic",
        ),
        (
            quote!(),
            quote!(
                async fn f(x: &str) -> Result<()> {
                    Ok(())
                }
            ),
            "take them by value",
        ),
        (
            quote!(),
            quote!(
                async fn f(x: impl Read) -> Result<()> {
                    Ok(())
                }
            ),
            "no generic arguments",
        ),
        (
            quote!(),
            quote!(
                async fn f() -> u32 {
                    1
                }
            ),
            "returns `Result<T>` or `Result<T, E>`",
        ),
        (
            quote!(),
            quote!(
                async fn f() {}
            ),
            "returns `Result<T>` or `Result<T, E>`",
        ),
        (
            quote!(),
            quote!(
                async fn f(&self) -> Result<()> {
                    Ok(())
                }
            ),
            "put `#[tasks]` on the `impl` block",
        ),
        (
            quote!(),
            quote!(
                async fn f(a: TaskContext, b: TaskContext) -> Result<()> {
                    Ok(())
                }
            ),
            "one context",
        ),
        (
            quote!(timeout = "soon"),
            quote!(
                fn f() -> Result<()> {
                    Ok(())
                }
            ),
            "a duration is written as",
        ),
        (
            quote!(timeout = 30),
            quote!(
                fn f() -> Result<()> {
                    Ok(())
                }
            ),
            "in quotation marks",
        ),
        (
            quote!(colour = 3),
            quote!(
                fn f() -> Result<()> {
                    Ok(())
                }
            ),
            "has no option `colour`; there are: `name`",
        ),
        (
            quote!(name = "a", name = "b"),
            quote!(
                fn f() -> Result<()> {
                    Ok(())
                }
            ),
            "given twice",
        ),
        (
            quote!(name = ""),
            quote!(
                fn f() -> Result<()> {
                    Ok(())
                }
            ),
            "must not be empty",
        ),
        (
            quote!(max_retries = -1),
            quote!(
                fn f() -> Result<()> {
                    Ok(())
                }
            ),
            "expected",
        ),
        (
            quote!(dynamic),
            quote!(
                fn f() -> Result<()> {
                    Ok(())
                }
            ),
            "one argument for all payloads",
        ),
        (
            quote!(dynamic, name = "x"),
            quote!(
                fn f(x: Vec<Value>) -> Result<()> {
                    Ok(())
                }
            ),
            "has no `name`",
        ),
        (
            quote!(),
            quote!(
                struct S;
            ),
            "stands on a function",
        ),
        (
            quote!(),
            quote!(
                fn _1() -> Result<()> {
                    Ok(())
                }
            ),
            "add `as = TypeName`",
        ),
    ];
    for (options, item, expected) in cases {
        let expanded = task::expand(options, item.clone());
        let error = only(expanded.clone());
        assert!(error.contains(expected), "{item}: {error}");
        let kept = expanded.to_string().starts_with(&item.to_string());
        assert!(kept, "the item is gone: {expanded}");
    }
}

#[test]
fn a_name_can_be_chosen_for_the_type() {
    let text = task::expand(
        quote!(as = Other),
        quote!(
            fn f() -> Result<()> {
                Ok(())
            }
        ),
    )
    .to_string();
    assert!(text.contains("struct Other"), "{text}");
    assert!(text.contains(r#"= "f""#), "{text}");
}

#[test]
fn tasks_of_a_type() {
    let text = tasks::expand(
        quote!(),
        quote! {
            impl Shop {
                #[task(timeout = "1s")] pub async fn buy(&self, what: Vec<Self>) -> Result<Self> { todo() }
                #[task] fn sell(self: Arc<Self>) -> Result<()> { Ok(()) }
                fn other(&mut self) {}
            }
        },
    )
    .to_string();
    assert!(!text.contains("# [task"), "{text}");
    assert!(text.contains("type Input = Vec < Shop >"), "{text}");
    assert!(text.contains("type Output = Shop"), "{text}");
    assert!(text.contains("add :: < Buy >") && text.contains("add :: < Sell >"), "{text}");
}

#[test]
fn mistakes_in_tasks_of_a_type() {
    let cases = [
        (quote!(impl S {}), "no method here"),
        (
            quote!(
                impl<T> S<T> {
                    #[task]
                    fn f(&self) -> Result<()> {
                        Ok(())
                    }
                }
            ),
            "generic",
        ),
        (quote!(impl Clone for S { #[task] fn f(&self) -> Result<()> { Ok(()) } }), "not of a trait"),
        (quote!(impl S { #[task] fn f(&mut self) -> Result<()> { Ok(()) } }), "take `&self`"),
        (quote!(impl S { #[task] fn f(self) -> Result<()> { Ok(()) } }), "take `&self`"),
        (
            quote!(
                fn f() {}
            ),
            "stands on an `impl` block",
        ),
    ];
    for (item, expected) in cases {
        let error = only(tasks::expand(quote!(), item.clone()));
        assert!(error.contains(expected), "{item}: {error}");
    }
    let both = quote!(impl S { #[task] fn f(&self) {} #[task] fn g(&self) {} });
    assert_eq!(errors(tasks::expand(quote!(), both)).len(), 2, "all mistakes are shown at once");
}

#[test]
fn mistakes_in_workflow_functions() {
    let cases = [
        (
            quote!(
                fn f(ctx: Context) -> Result<()> {
                    Ok(())
                }
            ),
            "is an `async fn`",
        ),
        (
            quote!(
                async fn f(x: u8) -> Result<()> {
                    Ok(())
                }
            ),
            "takes a context",
        ),
        (
            quote!(
                async fn f<T>(ctx: Context, x: T) -> Result<()> {
                    Ok(())
                }
            ),
            "cannot be generic",
        ),
        (
            quote!(
                async fn f(ctx: Context<u8>) -> Result<()> {
                    Ok(())
                }
            ),
            "has no fields",
        ),
        (
            quote!(
                async fn f(ctx: Context) -> u8 {
                    1
                }
            ),
            "returns `Result<T>`",
        ),
        (
            quote!(
                struct S;
            ),
            "stands on an `async fn` or on an `impl` block",
        ),
    ];
    for (item, expected) in cases {
        let error = only(workflow::expand(quote!(), item.clone()));
        assert!(error.contains(expected), "{item}: {error}");
    }
}

const RUN: &str = "#[run] async fn run(ctx: Context<Self>, limit: usize) -> Result<u64> { Ok(1) }";

fn block(methods: &str) -> TokenStream {
    format!("impl Cart {{ {RUN} {methods} }}").parse().unwrap()
}

#[test]
fn handlers_become_constants() {
    let text = workflow::expand(
        quote!(name = "Basket"),
        block(
            "#[signal] fn check_out(&mut self) {}
             #[query(name = \"sum\")] fn total(&self, a: u8, b: u8) -> u64 { 1 }
             #[query] fn risky(&self) -> Result<u64> { Ok(1) }
             #[update] async fn add(ctx: Context<Self>, line: Line) -> Result<usize> { Ok(1) }
             #[validate(add)] fn check(&self, line: &Line) -> Result<()> { Ok(()) }
             #[init] fn new(limit: &usize) -> Self { Self }",
        ),
    )
    .to_string();
    for expected in [
        r#"= "Basket""#,
        r#"pub const CHECK_OUT : :: segno_sdk :: Signal < () > = < :: segno_sdk :: Signal < () > > :: named ("check_out")"#,
        r#"with_arguments ("sum" , 2usize)"#,
        "pub const TOTAL : :: segno_sdk :: Query < (u8 , u8) , u64 >",
        "pub const ADD : :: segno_sdk :: Update < Line , usize >",
        "query_fallible (Self :: RISKY",
        "update_async (Self :: ADD , :: core :: option :: Option :: Some (",
        "Self :: new (input)",
    ] {
        assert!(text.contains(expected), "{expected} is not in {text}");
    }
}

#[test]
fn mistakes_in_workflow_types() {
    let cases = [
        ("#[run] async fn again(ctx: Context<Self>) -> Result<()> { Ok(()) }", "one such method already"),
        ("#[signal] fn s(self) {}", "a signal is `fn(&mut self, ..)` or `async fn"),
        ("#[signal] fn s(&mut self) -> u8 { 1 }", "the result of a signal is dropped"),
        ("#[signal] async fn s(x: u8) {}", "takes `ctx: Context<Self>`"),
        ("#[signal] fn s(&mut self, ctx: Context<Self>) {}", "has no context"),
        ("#[query] fn q(&mut self) -> u8 { 1 }", "a query is `fn(&self, ..)`"),
        ("#[query] async fn q(ctx: Context<Self>) -> u8 { 1 }", "a query is `fn(&self, ..)`"),
        ("#[query] fn q(&self) -> &str { \"\" }", "return a value"),
        ("#[update] fn u(&mut self) -> u8 { 1 }", "an update returns `Result<T>`"),
        ("#[validate(u)] fn v(&self) -> Result<()> { Ok(()) }", "no `#[update]` named `u`"),
        ("#[validate] fn v(&self) -> Result<()> { Ok(()) }", "name the update"),
        (
            "#[update] fn u(&mut self, x: u8) -> Result<u8> { Ok(x) } #[validate(u)] fn v(&self, x: u8) -> Result<()> { Ok(()) }",
            "take a reference",
        ),
        (
            "#[update] fn u(&mut self) -> Result<u8> { Ok(1) } #[validate(u)] fn v(&self, x: &u8) -> Result<()> { Ok(()) }",
            "has 0 arguments",
        ),
        ("#[init] async fn new() -> Self { Self }", "not `async`"),
        ("#[signal] #[query] fn s(&self) {}", "one thing only"),
        ("#[signal(colour = 1)] fn s(&mut self) {}", "has no option `colour`"),
        ("#[signal(dynamic)] fn s(&mut self, x: u8) {}", "takes the name and all arguments"),
        ("#[query(dynamic, name = \"q\")] fn q(&self, n: String, a: Vec<Value>) -> u8 { 1 }", "has no `name`"),
        ("#[query(unfinished = \"abandon\")] fn q(&self) -> u8 { 1 }", "has no option `unfinished`"),
        ("#[update(unfinished = \"perhaps\")] fn u(&mut self) -> Result<u8> { Ok(1) }", "\"warn\" or \"abandon"),
    ];
    for (methods, expected) in cases {
        let error = only(workflow::expand(quote!(), block(methods)));
        assert!(error.contains(expected), "{methods}: {error}");
    }
    let error = only(workflow::expand(quote!(), quote!(impl S { fn f() {} })));
    assert!(error.contains("marked with `#[run]`"), "{error}");
    let error = only(workflow::expand(
        quote!(),
        quote!(
            impl<T> S<T> {
                #[run]
                async fn run(ctx: Context<Self>) -> Result<()> {
                    Ok(())
                }
            }
        ),
    ));
    assert!(error.contains("generic"), "{error}");
}

/// A workflow with this body.
fn workflow_of(options: TokenStream, body: &str) -> Vec<String> {
    let body: TokenStream = body.parse().unwrap();
    errors(workflow::expand(options, quote! { async fn f(ctx: Context) -> Result<()> { #body } }))
}

#[test]
fn calls_that_a_replay_would_repeat_are_errors() {
    let cases = [
        ("std::thread::sleep(d);", "`std::thread::sleep`", "ctx.sleep(duration).await"),
        ("thread::sleep(d);", "`std::thread::sleep`", "ctx.sleep(duration).await"),
        ("tokio::time::sleep(d).await;", "`tokio::time::sleep`", "ctx.sleep(duration).await"),
        ("select! { _ = time::sleep(d) => {} }", "`tokio::time::sleep`", "ctx.sleep(duration).await"),
        ("let h = tokio::spawn(async { 1 });", "`tokio::spawn`", "ctx.spawn(future)"),
        (
            "x.push(::tokio::task::spawn_blocking(|| 1).await);",
            "`tokio::task::spawn_blocking`",
            "ctx.run(name, closure)",
        ),
        ("let t = SystemTime::now();", "`std::time::SystemTime::now`", "ctx.now()"),
        ("x.unwrap_or_else(std::time::Instant::now);", "`std::time::Instant::now`", "ctx.now()"),
        ("let n: u8 = rand::random();", "`rand::random`", "ctx.random()"),
        ("let n = if a { rand::rng().random::<u8>() } else { 0 };", "`rand::rng`", "ctx.random()"),
        ("rand::thread_rng().gen::<u8>();", "`rand::thread_rng`", "ctx.random()"),
        ("let id = Uuid::new_v4();", "`uuid::Uuid::new_v4`", "ctx.random_uuid()"),
        ("std::thread::spawn(move || {});", "`std::thread::spawn`", "make it a task"),
        ("let d = chrono::Utc::now();", "`chrono::Utc::now`", "ctx.now()"),
    ];
    for (body, name, instead) in cases {
        let errors = workflow_of(quote!(), body);
        let [error] = errors.as_slice() else { panic!("{body}: {errors:?}") };
        assert!(error.starts_with(name) && error.contains(instead), "{error}");
        assert_eq!(workflow_of(quote!(unchecked), body), Vec::<String>::new(), "{body}");
    }
    assert_eq!(workflow_of(quote!(), "rand::random::<u8>(); SystemTime::now();").len(), 2);
}

#[test]
fn calls_that_replay_does_not_repeat_are_none() {
    for body in [
        "ctx.run(\"now\", || SystemTime::now()).await?;",
        "ctx.run::<_, u8>(\"r\", rand::random).await?;",
        "ctx.run_async(\"slow\", || async { tokio::time::sleep(d).await; 1 }).await?;",
        "use std::thread::sleep; use tokio::time::sleep as nap;",
        "fn apart() { std::thread::sleep(d); } let n = rand::rngs::StdRng::seed_from_u64(7);",
        "sleep(&ctx, d).await?; my::thread::pool::sleep(); let now = x.now(); clock::now(); ctx.spawn(f); let t = now;",
    ] {
        assert_eq!(workflow_of(quote!(), body), Vec::<String>::new(), "{body}");
    }
}

#[test]
fn calls_are_found_in_all_methods_of_a_workflow() {
    let methods = "#[signal] fn s(&mut self) { self.at = SystemTime::now(); } fn helper(&self) { thread::sleep(d); }";
    assert_eq!(errors(workflow::expand(quote!(), block(methods))).len(), 2);
    assert_eq!(errors(workflow::expand(quote!(unchecked), block(methods))).len(), 0);
}

#[test]
fn a_handler_for_all_names_has_no_constant() {
    let block = quote! {
        impl Basket {
            #[run]
            async fn run(ctx: Context<Self>) -> Result<()> { Ok(()) }
            #[signal(dynamic)]
            async fn any_signal(ctx: Context<Self>, name: String, arguments: Vec<Value>) {}
            #[query(dynamic)]
            fn any_query(&self, name: String, arguments: Vec<Value>) -> String { name }
            #[update(dynamic, unfinished = "abandon")]
            fn any_update(&mut self, name: String, arguments: Vec<Value>) -> Result<String> { Ok(name) }
            #[validate(any_update)]
            fn check(&self, name: &str, arguments: &[Value]) -> Result<()> { Ok(()) }
        }
    };
    let text = workflow::expand(quote!(versioning = "pinned"), block).to_string();
    for expected in [
        "signal_any_async (",
        "query_any (",
        "update_any (",
        ". abandon_update (\"*\")",
        "VersioningBehavior :: Pinned",
    ] {
        assert!(text.contains(expected), "{expected} is not in {text}");
    }
    assert!(!text.contains("ANY_"), "{text}");
    let function = quote! { async fn f(ctx: Context) -> Result<()> { Ok(()) } };
    assert!(only(workflow::expand(quote!(versioning = "newest"), function)).contains("auto_upgrade"));
}

#[test]
fn a_service_keeps_its_trait_and_adds_client_and_handler() {
    let text = nexus::expand(
        quote!(name = "shop.Orders"),
        quote! {
            /// Orders.
            pub(crate) trait Orders {
                /// The price.
                #[operation]
                async fn price(&self, item: String) -> Result<u64>;
                #[operation(name = "Ship")]
                async fn ship(&self, ctx: NexusContext, order: Order) -> Result<StartedOperation<Receipt>, HandlerError>;
                #[cancel(ship)]
                async fn cancel_ship(&self, token: String) -> Result<()>;
                async fn helper(&self) {}
            }
        },
    )
    .to_string();
    assert!(text.contains("pub (crate) trait Orders : :: core :: marker :: Send"), "{text}");
    assert!(text.contains("pub (crate) struct OrdersClient"), "{text}");
    assert!(text.contains("pub (crate) struct OrdersHandler"), "{text}");
    assert!(text.contains("const PRICE : :: segno_sdk :: NexusOperation < String , u64 >"), "{text}");
    assert!(text.contains("const SHIP : :: segno_sdk :: NexusOperation < Order , Receipt >"), "{text}");
    assert!(text.contains(r#"named ("shop.Orders" , "Ship")"#), "{text}");
    assert!(text.contains("registry . cancel (OrdersClient :: SHIP"), "{text}");
    assert!(!text.contains("async fn"), "{text}");
    assert_eq!(text.matches("The price.").count(), 2, "{text}");
}

#[test]
fn mistakes_in_services() {
    let cases = [
        (
            quote!(),
            quote!(
                struct Orders;
            ),
            "stands on a trait",
        ),
        (
            quote!(),
            quote!(
                trait Orders {}
            ),
            "no method here is marked",
        ),
        (
            quote!(queue = "q"),
            quote!(
                trait Orders {
                    #[operation]
                    async fn f(&self) -> Result<()>;
                }
            ),
            "no option `queue`",
        ),
        (
            quote!(),
            quote!(
                trait Orders<T> {
                    #[operation]
                    async fn f(&self) -> Result<T>;
                }
            ),
            "generic traits",
        ),
        (
            quote!(),
            quote!(
                trait Orders {
                    #[operation]
                    fn f(&self) -> Result<()>;
                }
            ),
            "a handler is an `async fn`",
        ),
        (
            quote!(),
            quote!(
                trait Orders {
                    #[operation]
                    async fn f() -> Result<()>;
                }
            ),
            "take `&self`",
        ),
        (
            quote!(),
            quote!(
                trait Orders {
                    #[operation]
                    async fn f(&mut self) -> Result<()>;
                }
            ),
            "take `&self`",
        ),
        (
            quote!(),
            quote!(
                trait Orders {
                    #[operation]
                    async fn f(&self, a: u8, b: u8) -> Result<()>;
                }
            ),
            "one input",
        ),
        (
            quote!(),
            quote!(
                trait Orders {
                    #[operation]
                    async fn f(&self) -> u8;
                }
            ),
            "returns `Result<T>`",
        ),
        (
            quote!(),
            quote!(
                trait Orders {
                    #[operation]
                    async fn f(&self, x: &str) -> Result<()>;
                }
            ),
            "take them by value",
        ),
        (
            quote!(),
            quote!(
                trait Orders {
                    #[operation]
                    #[cancel(f)]
                    async fn f(&self) -> Result<()>;
                }
            ),
            "one thing only",
        ),
        (
            quote!(),
            quote!(
                trait Orders {
                    #[cancel]
                    async fn f(&self, token: String) -> Result<()>;
                }
            ),
            "name the operation",
        ),
        (
            quote!(),
            quote!(
                trait Orders {
                    #[operation]
                    async fn f(&self) -> Result<()>;
                    #[cancel(g)]
                    async fn h(&self, token: String) -> Result<()>;
                }
            ),
            "no operation here has this name",
        ),
        (
            quote!(),
            quote!(
                trait Orders {
                    #[operation]
                    async fn f(&self) -> Result<()>;
                    #[cancel(f)]
                    async fn h(&self) -> Result<()>;
                }
            ),
            "takes the operation's token",
        ),
    ];
    for (options, item, expected) in cases {
        let message = only(nexus::expand(options, item.clone()));
        assert!(message.contains(expected), "{item}: {message}");
    }
}
