//! Tests of what a caught panic says.

use super::*;

fn frame(symbol: &str, place: &str) -> Frame {
    Frame { symbol: symbol.to_owned(), place: Some(place.to_owned()).filter(|place| !place.is_empty()) }
}

#[test]
fn a_caught_panic_has_its_place_and_one_outside_leaves_nothing() {
    let _ = panic::catch_unwind(|| panic!("outside"));
    let line = line!() + 1;
    let caught = catch::<()>(|| panic!("inside {}", 1)).unwrap_err();
    assert_eq!(caught.message, "inside 1");
    let place = caught.place.unwrap();
    assert!(place.contains(&format!("panics_tests.rs:{line}:")), "{place}");
    assert!(NOTED.take().is_none());
}

#[test]
fn a_panic_goes_on_with_its_place_on_another_thread() {
    let line = line!() + 1;
    let caught = std::thread::spawn(|| catch::<()>(|| panic!("there"))).join().unwrap().unwrap_err();
    let again = catch::<()>(|| caught.resume()).unwrap_err();
    assert_eq!(again.message, "there");
    assert!(again.place.unwrap().contains(&format!("panics_tests.rs:{line}:")));
}

#[test]
fn a_backtrace_is_read_and_the_users_functions_found() {
    let text = "   0: std::backtrace::Backtrace::force_capture
             at /rustc/abc/library/std/src/backtrace.rs:313:18
   1: tokio::time::sleep::sleep
             at /u/.cargo/registry/src/index-1/tokio-1.40.0/src/time/sleep.rs:130:12
   2: app::wait::{{closure}}
             at ./app/main.rs:12:5
   3: app::wait::{{closure}}::{{closure}}
             at ./app/main.rs:11:1
   4: <app::Order as core::ops::drop::Drop>::drop
   5: {async_fn#0}
             at ./app/main.rs:8:1
   6: <app::Greet as segno_sdk::definition::Workflow>::run::{{closure}}
   7: <alloc::boxed::Box<F> as core::future::future::Future>::poll
   8: {closure#0}<app::Greet>
   9: start_thread
             at ./nptl/pthread_create.c:442:8
";
    let frames = frames(text);
    assert_eq!(frames[2], frame("app::wait::{{closure}}", "app/main.rs:12:5"));
    let place = Some("app/main.rs:12:5".to_owned());
    let message = "there is no reactor running, must be called from the context of a Tokio 1.x runtime".to_owned();
    let panic = Panic { message, place, frames };
    assert_eq!(
        panic.in_workflow().message(),
        "tokio::time::sleep cannot be called in a workflow, at app/main.rs:12:5, in app::wait (app/main.rs:12:5), called by \
         <app::Order as core::ops::drop::Drop>::drop, called by an async function (app/main.rs:8:1): write `ctx.sleep(duration).await` (there is no reactor running, must be \
         called from the context of a Tokio 1.x runtime)"
    );
    let failure = panic.failure();
    let trace = failure.to_wire().stack_trace;
    assert_eq!(
        trace,
        "app::wait\n    at app/main.rs:12:5\n<app::Order as core::ops::drop::Drop>::drop\nan async function\n    at \
                app/main.rs:8:1"
    );
    assert!(failure.message().starts_with("there is no reactor running"), "{failure}");
}

#[test]
fn without_symbols_the_message_of_tokio_is_enough() {
    let message = "there is no reactor running, must be called from the context of a Tokio 1.x runtime".to_owned();
    let panic = Panic { message, place: Some("app/main.rs:3:1".to_owned()), frames: Vec::new() };
    let failure = panic.in_workflow();
    for part in ["app/main.rs:3:1", "`ctx.sleep(..)` for `tokio::time::sleep`", "`ctx.spawn(..)`"] {
        assert!(failure.message().contains(part), "{failure}");
    }
}

#[test]
fn other_crates_are_not_the_users() {
    for symbol in [
        "core::ops::function::FnOnce::call_once{{vtable.shim}}",
        "<core::pin::Pin<P> as core::future::future::Future>::poll",
        "core[3a5b]::panicking::panic",
        "segno_sdk::workflow::instance::Instance::poll",
        "rust_begin_unwind",
    ] {
        assert!(!frame(symbol, "").is_users(), "{symbol}");
    }
    assert!(!frame("serde_json::de::from_str", "/u/.cargo/registry/src/x/serde_json-1/src/de.rs:1:1").is_users());
    for symbol in ["app::go", "<&mut app::X as core::ops::drop::Drop>::drop", "app[12ab]::go::{closure#0}"] {
        assert!(frame(symbol, "").is_users(), "{symbol}");
    }
}
