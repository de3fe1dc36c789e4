//! Codes and words of errors about types. The messages are those of the same errors at run time.

use super::value_type::Type;

/// A condition that can never be one, as literals are.
pub(super) const CONDITION: &str = "F0218";
/// An operator with an operand that it never takes.
pub(super) const OPERATOR: &str = "F0301";
/// An argument, or the result of a given function, that the library never takes.
pub(super) const ARGUMENT: &str = "F0302";
/// A field, element or function that the value never has.
pub(super) const ACCESS: &str = "F0303";
/// `for … of`, `...` and patterns over what has no parts.
pub(super) const PARTS: &str = "F0304";
/// A promise where its result is meant, and the other way round.
pub(super) const PROMISE: &str = "F0305";

/// What `typeof` can give for a value: `number`, `string or null`.
pub(super) fn words(value: &Type) -> String {
    let names: Vec<&str> = value.kinds().names().collect();
    names.join(" or ")
}
