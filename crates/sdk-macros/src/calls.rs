//! Calls that workflow code must not make, found in the tokens of its functions: clocks, random values, threads, tokio's runtime.
//!
//! A macro sees names and not what they refer to. A call is found if its path has at least two segments (`thread::sleep`), so
//! that functions of the user's with a common name are left alone; what a function calls that is defined elsewhere is not seen.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::ToTokens;

/// Functions that have the same reason and the same replacement.
struct Unsuited {
    /// Their paths; where a path ends is enough to be found, from two segments on.
    paths: &'static [&'static [&'static str]],
    why: &'static str,
    instead: &'static str,
}

const BLOCKS: &str = "it blocks the thread that executes workflows, again in every replay";
const NO_RUNTIME: &str = "workflows run on threads without a runtime of tokio, so that it panics";
const CLOCK: &str = "a replay gets another time";
const RANDOM: &str = "a replay gets other values";
const THREAD: &str = "what it does is repeated by every replay, and history does not know when it ends";

const UNSUITED: &[Unsuited] = &[
    Unsuited { paths: &[&["std", "thread", "sleep"]], why: BLOCKS, instead: "`ctx.sleep(duration).await`" },
    Unsuited {
        paths: &[&["tokio", "time", "sleep"], &["tokio", "time", "sleep_until"]],
        why: NO_RUNTIME,
        instead: "`ctx.sleep(duration).await`",
    },
    Unsuited {
        paths: &[&["tokio", "time", "timeout"], &["tokio", "time", "timeout_at"]],
        why: NO_RUNTIME,
        instead: "`ctx.timeout(duration, future).await`",
    },
    Unsuited {
        paths: &[&["tokio", "time", "interval"], &["tokio", "time", "interval_at"]],
        why: NO_RUNTIME,
        instead: "`ctx.sleep(duration).await` in a loop",
    },
    Unsuited {
        paths: &[&["tokio", "spawn"], &["tokio", "task", "spawn"], &["tokio", "task", "spawn_local"]],
        why: NO_RUNTIME,
        instead: "`ctx.spawn(future)`",
    },
    Unsuited {
        paths: &[&["tokio", "task", "spawn_blocking"]],
        why: NO_RUNTIME,
        instead: "`ctx.run(name, closure).await`, or make it a task",
    },
    Unsuited {
        paths: &[&["std", "thread", "spawn"]],
        why: THREAD,
        instead: "`ctx.spawn(future)` for work beside, or make it a task",
    },
    Unsuited {
        paths: &[
            &["std", "time", "SystemTime", "now"],
            &["std", "time", "Instant", "now"],
            &["chrono", "Utc", "now"],
            &["chrono", "Local", "now"],
        ],
        why: CLOCK,
        instead: "`ctx.now()`",
    },
    Unsuited { paths: &[&["uuid", "Uuid", "new_v4"]], why: RANDOM, instead: "`ctx.random_uuid()`" },
    Unsuited { paths: &[&["uuid", "Uuid", "now_v7"]], why: RANDOM, instead: "`ctx.uuid7()`" },
    Unsuited {
        paths: &[
            &["rand", "random"],
            &["rand", "random_bool"],
            &["rand", "random_range"],
            &["rand", "random_iter"],
            &["rand", "rng"],
            &["rand", "thread_rng"],
            &["rand", "rngs", "OsRng"],
        ],
        why: RANDOM,
        instead: "`ctx.random()`, or `ctx.random_stream(name)` for many values",
    },
];

/// Methods of a context whose closure is executed once and not by replays.
const ONCE: [&str; 2] = ["run", "run_async"];

/// An error for each call in the body of a function that a workflow must not make.
pub fn unsuited(body: &impl ToTokens) -> TokenStream {
    let mut errors = TokenStream::new();
    look(body.to_token_stream(), &mut errors);
    errors
}

fn look(tokens: TokenStream, errors: &mut TokenStream) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        match token {
            TokenTree::Group(group) => {
                look(group.stream(), errors);
                at += 1;
            }
            TokenTree::Ident(word) if word == "use" => at = after(&tokens, at, is_end_of_statement),
            // A function of its own: it may be called from elsewhere.
            TokenTree::Ident(word) if word == "fn" && matches!(tokens.get(at + 1), Some(TokenTree::Ident(_))) => {
                at = after(&tokens, at, |token| is_group(token, Delimiter::Brace));
            }
            TokenTree::Ident(_) => {
                let end = end_of_path(&tokens, at);
                let path = &tokens[at..end];
                let is_method = at > 0 && is_punct(tokens.get(at - 1), '.');
                match path {
                    [TokenTree::Ident(method)] if is_method && ONCE.iter().any(|once| method == once) => {
                        at = after(&tokens, end, |token| is_group(token, Delimiter::Parenthesis));
                    }
                    path => {
                        check(path, errors);
                        at = end;
                    }
                }
            }
            _ => at += 1,
        }
    }
}

/// The position behind the next token of a kind.
fn after(tokens: &[TokenTree], from: usize, is_last: impl Fn(&TokenTree) -> bool) -> usize {
    tokens.iter().skip(from).position(is_last).map_or(tokens.len(), |offset| from + offset + 1)
}

/// The end of `a::b::c`, which begins here.
fn end_of_path(tokens: &[TokenTree], begin: usize) -> usize {
    let mut end = begin + 1;
    while is_punct(tokens.get(end), ':')
        && is_punct(tokens.get(end + 1), ':')
        && matches!(tokens.get(end + 2), Some(TokenTree::Ident(_)))
    {
        end += 3;
    }
    end
}

fn check(path: &[TokenTree], errors: &mut TokenStream) {
    let segments: Vec<String> = path
        .iter()
        .filter_map(|token| match token {
            TokenTree::Ident(segment) => Some(segment.to_string()),
            _ => None,
        })
        .collect();
    if segments.len() < 2 {
        return;
    }
    let found = UNSUITED.iter().find_map(|unsuited| {
        let path = unsuited.paths.iter().find(|path| {
            segments.iter().rev().zip(path.iter().rev()).all(|(a, b)| a == b) && segments.len() <= path.len()
        })?;
        Some((path.join("::"), unsuited))
    });
    if let Some((name, Unsuited { why, instead, .. })) = found {
        let message = format!(
            "`{name}` does not belong in a workflow: {why}; write {instead}. A task, or the closure of `ctx.run(name, closure)`, may \
             call it. `#[workflow(unchecked)]` turns this check off"
        );
        let tokens: TokenStream = path.iter().cloned().collect();
        errors.extend(syn::Error::new_spanned(tokens, message).into_compile_error());
    }
}

fn is_group(token: &TokenTree, delimiter: Delimiter) -> bool {
    matches!(token, TokenTree::Group(group) if group.delimiter() == delimiter)
}

fn is_end_of_statement(token: &TokenTree) -> bool {
    is_punct(Some(token), ';')
}

fn is_punct(token: Option<&TokenTree>, character: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == character)
}
