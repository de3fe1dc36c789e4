//! Sets of what `typeof` can give, with `true` and `false` apart.

/// A set of kinds of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Kinds(u16);

impl Kinds {
    /// No value: code that is never reached, elements of an empty list.
    pub const NONE: Self = Self(0);
    /// `null`.
    pub const NULL: Self = Self(1);
    /// `true`.
    pub const TRUE: Self = Self(1 << 1);
    /// `false`.
    pub const FALSE: Self = Self(1 << 2);
    /// Numbers.
    pub const NUMBER: Self = Self(1 << 3);
    /// Strings.
    pub const STRING: Self = Self(1 << 4);
    /// Lists.
    pub const LIST: Self = Self(1 << 5);
    /// Objects.
    pub const OBJECT: Self = Self(1 << 6);
    /// Promises.
    pub const PROMISE: Self = Self(1 << 7);
    /// Payloads in an encoding that the server does not read.
    pub const PAYLOAD: Self = Self(1 << 8);
    /// Every value.
    pub const ALL: Self = Self((1 << 9) - 1);
    /// `true` and `false`.
    pub const BOOLEAN: Self = Self::TRUE.or(Self::FALSE);
    /// What counts as true where a condition stands.
    pub const TRUTHY: Self = Self::TRUE.or(Self::OBJECT);
    /// What counts as false there.
    pub const FALSY: Self = Self::FALSE.or(Self::NULL);
    /// What may stand as a condition.
    pub const CONDITION: Self = Self::TRUTHY.or(Self::FALSY);

    /// What `typeof` gives for each of them.
    const NAMES: [(Self, &'static str); 8] = [
        (Self::BOOLEAN, "boolean"),
        (Self::NUMBER, "number"),
        (Self::STRING, "string"),
        (Self::LIST, "list"),
        (Self::OBJECT, "object"),
        (Self::PROMISE, "promise"),
        (Self::PAYLOAD, "payload"),
        (Self::NULL, "null"),
    ];

    /// What is in one of both.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// What is in both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// What is in this one only.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether one of these is in it.
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        !self.and(other).is_empty()
    }

    /// Whether it has no others than these.
    #[must_use]
    pub const fn within(self, other: Self) -> bool {
        self.without(other).is_empty()
    }

    /// The kinds for which `typeof` gives this word.
    #[must_use]
    pub fn named(word: &str) -> Self {
        Self::NAMES.iter().find(|(_, name)| *name == word).map_or(Self::NONE, |(kinds, _)| *kinds)
    }

    /// What `typeof` can give.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES.iter().filter(move |(kinds, _)| self.has(*kinds)).map(|(_, name)| *name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets() {
        assert_eq!(Kinds::ALL.names().count(), 8);
        assert_eq!(Kinds::NULL.or(Kinds::FALSE).names().collect::<Vec<_>>(), ["boolean", "null"]);
        assert_eq!(Kinds::named("boolean"), Kinds::BOOLEAN);
        assert!(Kinds::named("array").is_empty() && Kinds::CONDITION.within(Kinds::ALL));
        assert!(!Kinds::CONDITION.has(Kinds::NUMBER) && Kinds::CONDITION.has(Kinds::BOOLEAN));
    }
}
