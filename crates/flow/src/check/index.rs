//! The library by name.

use std::collections::HashMap;
use std::sync::OnceLock;

use crate::library::{Function, Method};

/// What the library says about names. Only looked up, never walked.
struct Index {
    functions: HashMap<&'static str, Function>,
    methods: HashMap<&'static str, Method>,
    /// First words of functions, and whether scripts have them (tests have all).
    first_words: HashMap<&'static str, bool>,
}

fn index() -> &'static Index {
    static INDEX: OnceLock<Index> = OnceLock::new();
    INDEX.get_or_init(|| {
        let mut first_words = HashMap::new();
        for function in Function::ALL {
            let signature = function.signature();
            let word = signature.name.split('.').next().unwrap_or_default();
            *first_words.entry(word).or_insert(false) |= !signature.test_only;
        }
        Index {
            functions: Function::ALL.iter().map(|function| (function.signature().name, *function)).collect(),
            methods: Method::ALL.iter().map(|method| (method.signature().name, *method)).collect(),
            first_words,
        }
    })
}

/// The function of this name.
pub(super) fn function(name: &str) -> Option<Function> {
    index().functions.get(name).copied()
}

/// The function of values of this name.
pub(super) fn method(name: &str) -> Option<Method> {
    index().methods.get(name).copied()
}

/// Whether a name is the first word of a function of scripts, or of tests if they count.
pub(super) fn is_first_word(name: &str, tests: bool) -> bool {
    index().first_words.get(name).is_some_and(|of_scripts| *of_scripts || tests)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_is_the_library() {
        for name in ["Task", "log", "Error", "run", "Test", "mock", "x"] {
            assert_eq!(is_first_word(name, false), crate::library::is_reserved(name), "{name}");
        }
        assert!(is_first_word("Test", true) && !is_first_word("Test", false));
        assert_eq!(function("Task.run"), Some(Function::TaskRun));
        assert_eq!(method("push"), Some(Method::Push));
    }
}
