//! Encodes messages without computing their size first.
//!
//! To allocate a buffer of the right size, a message has to be measured, which takes about as long as writing it. Here
//! it is written into a buffer of the thread, and then copied into an allocation of its size.

use std::cell::Cell;

use bytes::Bytes;

/// Larger buffers are not kept. Few messages are larger, and there are as many buffers as threads.
const KEPT_BYTES: usize = 512 * 1024;

thread_local! {
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Lets `write` write into an empty buffer and `read` what is there then.
pub fn with_scratch<T>(write: impl FnOnce(&mut Vec<u8>), read: impl FnOnce(&[u8]) -> T) -> T {
    // Code that encodes within `write` finds no buffer here and gets one of its own.
    let mut buffer = SCRATCH.take();
    buffer.clear();
    write(&mut buffer);
    let result = read(&buffer);
    if buffer.capacity() <= KEPT_BYTES {
        SCRATCH.set(buffer);
    }
    result
}

/// The bytes that `write` writes.
pub fn encoded(write: impl FnOnce(&mut Vec<u8>)) -> Bytes {
    with_scratch(write, Bytes::copy_from_slice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_given_also_if_one_is_within_another() {
        assert_eq!(encoded(|_| {}), Bytes::new());
        let large = vec![7; 2 * KEPT_BYTES];
        assert_eq!(encoded(|out| out.extend_from_slice(&large)), large);
        let both = encoded(|out| {
            out.extend_from_slice(b"a");
            let inner = encoded(|out| out.extend_from_slice(b"bc"));
            out.extend_from_slice(&inner);
        });
        assert_eq!(both, "abc");
        assert_eq!(with_scratch(|out| out.push(1), <[u8]>::len), 1);
    }
}
