//! Panics of this thread while a world lives: tokio catches those of tasks, and one that is not noticed here would be no finding.

use std::{cell::RefCell, sync::Once};

thread_local! {
    /// `Some` while a world lives on this thread.
    static COLLECTED: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// Collects the panics of this thread from now on, instead of printing them.
pub fn collect() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let is_collected = COLLECTED.with_borrow_mut(|collected| match collected {
                Some(collected) => {
                    collected.push(info.to_string());
                    true
                }
                None => false,
            });
            if !is_collected {
                usual(info);
            }
        }));
    });
    COLLECTED.set(Some(Vec::new()));
}

/// The panics since the last time.
pub fn taken() -> Vec<String> {
    COLLECTED.with_borrow_mut(|collected| collected.as_mut().map(std::mem::take).unwrap_or_default())
}

/// Panics of this thread are printed again. Gives those that were not taken.
pub fn stop() -> Vec<String> {
    COLLECTED.take().unwrap_or_default()
}
