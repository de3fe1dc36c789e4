//! The fields of a workflow, shared by its run and its handlers.

use crate::lock::lock;
use std::{
    ops::{Deref, DerefMut},
    panic::Location,
    sync::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError},
};

pub(crate) struct StateCell<S> {
    state: RwLock<S>,
    /// Who took it last, to name them when another cannot.
    holder: Mutex<Option<&'static Location<'static>>>,
}

impl<S> StateCell<S> {
    pub fn new(state: S) -> Self {
        Self { state: RwLock::new(state), holder: Mutex::new(None) }
    }

    fn note(&self, place: &'static Location<'static>) {
        *lock(&self.holder) = Some(place);
    }

    fn clash(&self, place: &'static Location<'static>) -> ! {
        let holder = *lock(&self.holder);
        let holder = holder.map_or("elsewhere".to_owned(), |holder| format!("at {holder}"));
        panic!(
            "the workflow's state is taken at {place} while it is still held, taken {holder}: drop that guard first"
        );
    }

    #[track_caller]
    pub fn read(&self) -> Ref<'_, S> {
        let place = Location::caller();
        match self.state.try_read() {
            Ok(guard) => {
                self.note(place);
                Ref(guard)
            }
            Err(TryLockError::Poisoned(poisoned)) => Ref(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => self.clash(place),
        }
    }

    #[track_caller]
    pub fn write(&self) -> RefMut<'_, S> {
        let place = Location::caller();
        match self.state.try_write() {
            Ok(guard) => {
                self.note(place);
                RefMut(guard)
            }
            Err(TryLockError::Poisoned(poisoned)) => RefMut(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => self.clash(place),
        }
    }
}

/// The workflow's state, to read. It cannot be held over an `.await`.
pub struct Ref<'a, S>(RwLockReadGuard<'a, S>);

impl<S> Deref for Ref<'_, S> {
    type Target = S;
    fn deref(&self) -> &S {
        &self.0
    }
}

/// The workflow's state, to change. It cannot be held over an `.await`.
pub struct RefMut<'a, S>(RwLockWriteGuard<'a, S>);

impl<S> Deref for RefMut<'_, S> {
    type Target = S;
    fn deref(&self) -> &S {
        &self.0
    }
}

impl<S> DerefMut for RefMut<'_, S> {
    fn deref_mut(&mut self) -> &mut S {
        &mut self.0
    }
}
