//! Parts of a run's state that are shared between copies until one of them changes.
//!
//! A transition makes a new state out of the old one ([decision
//! 003](../../../docs/internals/decisions/003-apply-returns-a-new-run.md)). Without sharing, a run with a hundred
//! activities would copy a hundred of them to change one.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use prost::{
    DecodeError, Message,
    bytes::{Buf, BufMut},
    encoding::{DecodeContext, WireType},
};

/// A message that its copies share until one of them changes it. Stored like the message itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shared<T>(Arc<T>);

impl<T> From<T> for Shared<T> {
    fn from(message: T) -> Self {
        Self(Arc::new(message))
    }
}

impl<T: Clone> Shared<T> {
    /// The message by itself.
    pub fn into_inner(self) -> T {
        Arc::unwrap_or_clone(self.0)
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Clone> DerefMut for Shared<T> {
    fn deref_mut(&mut self) -> &mut T {
        Arc::make_mut(&mut self.0)
    }
}

impl<T: Message + Clone + Default> Message for Shared<T> {
    fn encode_raw(&self, buffer: &mut impl BufMut) {
        self.0.encode_raw(buffer);
    }

    fn merge_field(
        &mut self,
        tag: u32,
        wire_type: WireType,
        buffer: &mut impl Buf,
        context: DecodeContext,
    ) -> Result<(), DecodeError> {
        Arc::make_mut(&mut self.0).merge_field(tag, wire_type, buffer, context)
    }

    fn encoded_len(&self) -> usize {
        self.0.encoded_len()
    }

    fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::Timer;

    #[test]
    fn copies_share_until_one_changes() {
        let first = Shared::from(Timer { started_event_id: 5, fire_at: 7 });
        let mut second = first.clone();
        assert!(Arc::ptr_eq(&first.0, &second.0));
        second.fire_at = 8;
        assert_eq!((first.fire_at, second.fire_at), (7, 8));
    }

    #[test]
    fn it_is_stored_like_the_message() {
        let timer = Timer { started_event_id: 5, fire_at: 7 };
        let shared = Shared::from(timer.clone());
        assert_eq!(shared.encode_to_vec(), timer.encode_to_vec());
        assert_eq!(Shared::<Timer>::decode(&timer.encode_to_vec()[..]), Ok(shared));
    }
}
