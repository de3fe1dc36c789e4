//! Panics of user code: what they say, where they were, and which functions of the user's program they came through.
//!
//! The value that `catch_unwind` returns has no place, so a panic hook notes it. The hook is set once in a process, notes only
//! what happens inside [`catch`] and [`catch_future`], and then calls the hook that was there before.

use std::{
    any::Any,
    backtrace::Backtrace,
    cell::Cell,
    panic::{self, AssertUnwindSafe, PanicHookInfo},
    path::Path,
    pin::Pin,
    sync::Once,
    task::{Context, Poll},
    thread,
};

use crate::failure::Failure;

/// Functions of the user's program that a message names. The stack trace of the failure has all of them.
const FRAMES_IN_MESSAGE: usize = 3;

/// What workflows cannot call although it compiles, by the beginning of the function's symbol: its name, and what to write
/// instead.
const TOKIO_CALLS: [(&str, &str, &str); 9] = [
    ("tokio::time::sleep", "tokio::time::sleep", "`ctx.sleep(duration).await`"),
    ("tokio::time::timeout", "tokio::time::timeout", "`ctx.timeout(duration, future).await`"),
    ("tokio::time::interval", "tokio::time::interval", "`ctx.sleep(duration).await` in a loop"),
    ("tokio::task::spawn", "tokio::spawn", "`ctx.spawn(future)`"),
    ("tokio::task::blocking", "tokio::task::spawn_blocking", "`ctx.run(name, closure).await`, or make it a task"),
    ("tokio::net", "tokio::net", "a task for it"),
    ("tokio::fs", "tokio::fs", "a task for it"),
    ("tokio::process", "tokio::process", "a task for it"),
    ("tokio::signal", "tokio::signal", "a task for it"),
];

/// Crates whose functions are not the user's.
const LIBRARIES: [&str; 12] = [
    "alloc",
    "backtrace",
    "core",
    "futures",
    "futures_core",
    "futures_executor",
    "futures_util",
    "segno_sdk",
    "std",
    "test",
    "tokio",
    "tracing",
];

thread_local! {
    /// How many calls of [`catch`] this thread is in.
    static CATCHING: Cell<u32> = const { Cell::new(0) };
    /// The last panic inside of them.
    static NOTED: Cell<Option<(String, Backtrace)>> = const { Cell::new(None) };
}

static HOOK: Once = Once::new();

/// A panic that was caught.
#[derive(Debug)]
pub(crate) struct Panic {
    message: String,
    /// File, line and column; `None` if another hook took the place of ours.
    place: Option<String>,
    /// The functions that were called, the last one first.
    frames: Vec<Frame>,
}

#[derive(Debug, PartialEq, Eq)]
struct Frame {
    /// As the compiler names it.
    symbol: String,
    place: Option<String>,
}

/// Calls a function that may panic.
pub(crate) fn catch<T>(body: impl FnOnce() -> T) -> Result<T, Panic> {
    // The hook cannot be set while its thread panics.
    if !thread::panicking() {
        HOOK.call_once(set_hook);
    }
    CATCHING.set(CATCHING.get() + 1);
    let outcome = panic::catch_unwind(AssertUnwindSafe(body));
    CATCHING.set(CATCHING.get() - 1);
    outcome.map_err(Panic::of)
}

/// Awaits a future that may panic.
pub(crate) async fn catch_future<F: Future>(body: F) -> Result<F::Output, Panic> {
    let mut body = std::pin::pin!(body);
    std::future::poll_fn(move |context: &mut Context<'_>| {
        let body: Pin<&mut F> = body.as_mut();
        match catch(|| body.poll(context)) {
            Ok(polled) => polled.map(Ok),
            Err(panic) => Poll::Ready(Err(panic)),
        }
    })
    .await
}

fn set_hook() {
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        note(info);
        before(info);
    }));
}

fn note(info: &PanicHookInfo<'_>) {
    if CATCHING.try_with(Cell::get).unwrap_or_default() == 0 {
        return;
    }
    let place = info.location().map(ToString::to_string).unwrap_or_default();
    // Thread-local values are gone when the thread ends.
    let _ = NOTED.try_with(|noted| noted.set(Some((place, Backtrace::force_capture()))));
}

impl Panic {
    fn of(payload: Box<dyn Any + Send>) -> Self {
        let payload = match payload.downcast::<Self>() {
            // It was caught on another thread and goes on here.
            Ok(panic) => return *panic,
            Err(payload) => payload,
        };
        let message = match (payload.downcast_ref::<&str>(), payload.downcast_ref::<String>()) {
            (Some(text), _) => (*text).to_owned(),
            (None, Some(text)) => text.clone(),
            (None, None) => "panicked".to_owned(),
        };
        match NOTED.take() {
            Some((place, backtrace)) => Self { message, place: Some(place), frames: frames(&backtrace.to_string()) },
            None => Self { message, place: None, frames: Vec::new() },
        }
    }

    /// Lets it go on, on this thread.
    pub fn resume(self) -> ! {
        panic::resume_unwind(Box::new(self))
    }

    /// The failure of a task, or of something like it.
    pub fn failure(&self) -> Failure {
        self.failure_saying(format!("{}{}", self.message, self.origin()))
    }

    /// The failure of a workflow task. If a call that workflows cannot make panicked, it says what to write instead.
    pub fn in_workflow(&self) -> Failure {
        let message = match self.tokio_call() {
            Some((call, instead)) => {
                let Self { message, .. } = self;
                format!("{call} cannot be called in a workflow{}: write {instead} ({message})", self.origin())
            }
            None => return self.failure(),
        };
        self.failure_saying(message)
    }

    fn failure_saying(&self, message: String) -> Failure {
        let lines = self.users_frames().map(|frame| match &frame.place {
            Some(place) => format!("{}\n    at {place}", frame.name()),
            None => frame.name().to_owned(),
        });
        Failure::application("Panic", message).stack_trace(lines.collect::<Vec<_>>().join("\n")).into()
    }

    /// Where it was, and the first functions of the user's.
    fn origin(&self) -> String {
        // A library that panics in its own line was called by one of the user's.
        let users_place = || self.users_frames().find_map(|frame| frame.place.as_ref());
        let place = match &self.place {
            Some(place) if is_library(place) => users_place().or(Some(place)),
            place => place.as_ref(),
        };
        let mut text = place.map(|place| format!(", at {place}")).unwrap_or_default();
        for (index, frame) in self.users_frames().take(FRAMES_IN_MESSAGE).enumerate() {
            text.push_str(if index == 0 { ", in " } else { ", called by " });
            text.push_str(frame.name());
            if let Some(place) = &frame.place {
                text.push_str(&format!(" ({place})"));
            }
        }
        text
    }

    /// The functions of the user's program, the last one first.
    fn users_frames(&self) -> impl Iterator<Item = &Frame> {
        let mut last = "";
        self.frames.iter().filter(|frame| frame.is_users()).filter(move |frame| {
            // The closures of one function.
            let repeated = frame.name() == last && !frame.symbol.starts_with('{');
            last = frame.name();
            !repeated
        })
    }

    /// What was called that needs a runtime of tokio, and what to write instead.
    fn tokio_call(&self) -> Option<(&'static str, &'static str)> {
        let library = self.frames.iter().take_while(|frame| !frame.is_users());
        let called =
            library.filter_map(|frame| TOKIO_CALLS.iter().find(|(symbol, ..)| frame.symbol.starts_with(symbol)));
        match called.last() {
            Some((_, name, instead)) => Some((name, instead)),
            // Its function was inlined, or symbols were stripped.
            None if self.message.contains("Tokio 1.x") => Some((
                "what needs tokio's runtime",
                "`ctx.sleep(..)` for `tokio::time::sleep`, `ctx.spawn(..)` for `tokio::spawn`, and a task for IO",
            )),
            None => None,
        }
    }
}

impl Frame {
    /// Without what the compiler adds for closures and async blocks. With few debug information nothing else is known of those that
    /// were inlined.
    fn name(&self) -> &str {
        match self.symbol.strip_prefix('{') {
            Some(kind) if kind.starts_with("async") => "an async function",
            Some(_) => "a closure",
            None => self.symbol.split_once("::{").map_or(&self.symbol, |(name, _)| name),
        }
    }

    fn is_users(&self) -> bool {
        if self.symbol.contains(" as segno_sdk::") {
            return false;
        }
        if let Some(place) = &self.place {
            return place.contains(".rs:") && !is_library(place);
        }
        // `<&mut app::Order as core::ops::drop::Drop>::drop` is the user's.
        let path = self.symbol.trim_start_matches(['<', '&', '*', '(', '[']);
        let path = path.trim_start_matches("mut ").trim_start_matches("dyn ");
        let Some((krate, _)) = path.split_once("::") else { return false };
        let krate = krate.split('[').next().unwrap_or(krate);
        !krate.starts_with('{') && !LIBRARIES.contains(&krate)
    }
}

/// Whether a file belongs to the standard library, to another crate, or to this one.
fn is_library(place: &str) -> bool {
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    // Backtraces shorten paths by the current directory.
    let absolute = std::env::current_dir().unwrap_or_default().join(place);
    place.contains("/.cargo/registry/")
        || place.contains("/rustc/")
        || absolute.starts_with(ours)
        || is_own_source(place)
}

/// Whether a path, as the compiler notes it, is in the source of this crate.
pub(crate) fn is_own_source(file: &str) -> bool {
    file.starts_with(file!().trim_end_matches("panics.rs"))
}

/// Reads the text of a backtrace: `3: function`, on the next line perhaps `at file:line:column`.
fn frames(backtrace: &str) -> Vec<Frame> {
    let mut frames: Vec<Frame> = Vec::new();
    for line in backtrace.lines().map(str::trim_start) {
        if let Some(place) = line.strip_prefix("at ") {
            if let Some(frame) = frames.last_mut() {
                frame.place = Some(place.strip_prefix("./").unwrap_or(place).to_owned());
            }
        } else if let Some((number, symbol)) = line.split_once(": ")
            && number.bytes().all(|byte| byte.is_ascii_digit())
        {
            frames.push(Frame { symbol: symbol.to_owned(), place: None });
        }
    }
    frames
}

#[cfg(test)]
#[path = "panics_tests.rs"]
mod tests;
