//! Names of signals, queries and updates, with their types.

use std::{fmt, marker::PhantomData};

macro_rules! named {
    ($(#[$meta:meta])* $name:ident<$($type:ident),+>) => {
        $(#[$meta])*
        pub struct $name<$($type),+> {
            name: &'static str,
            arguments: usize,
            marker: PhantomData<fn($($type),+)>,
        }
        impl<$($type),+> $name<$($type),+> {
            /// The one with this name.
            pub const fn named(name: &'static str) -> Self {
                Self { name, arguments: 1, marker: PhantomData }
            }
            /// The one with this name, whose input is a tuple that travels as one payload per element.
            #[doc(hidden)]
            pub const fn with_arguments(name: &'static str, arguments: usize) -> Self {
                Self { name, arguments, marker: PhantomData }
            }
            /// Its name on the wire.
            pub const fn name(&self) -> &'static str {
                self.name
            }
            /// How many payloads its input becomes.
            #[doc(hidden)]
            pub const fn arguments(&self) -> usize {
                self.arguments
            }
        }
        impl<$($type),+> Clone for $name<$($type),+> {
            fn clone(&self) -> Self {
                *self
            }
        }
        impl<$($type),+> Copy for $name<$($type),+> {}
        impl<$($type),+> fmt::Debug for $name<$($type),+> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({:?})", stringify!($name), self.name)
            }
        }
    };
}

named!(
    /// A signal with its type: `const PAID: Signal<Payment> = Signal::named("paid");`, shared by workflow and client.
    Signal<T>
);
named!(
    /// A query with the types of its input and its answer.
    Query<I, O>
);
named!(
    /// An update with the types of its input and its outcome.
    Update<I, O>
);
