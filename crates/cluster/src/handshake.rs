//! The handshake of a connection between nodes: each side proves that it knows the secret of the cluster.

use std::{hash::Hasher, io};

use segno_store::cluster::NodeId;
use siphasher::sip::SipHasher24;

use super::{
    frames::{Reading, Writing, read_some, write_some},
    wire::{Frame, FrameBody, Frames, Hello},
};

/// Most bytes of a first write.
const HELLO_BYTES_MAX: usize = 4096;

/// The side that proves that it knows the secret. The proof of one side is of no use to the other.
#[derive(Clone, Copy)]
pub(super) enum Side {
    Dialling,
    Accepting,
}

/// The challenges of both sides, the dialling one's first.
pub(super) type Challenges = (u64, u64);

pub(super) fn proof(secret: &[u8; 16], side: Side, challenges: Challenges, dialling: NodeId, accepting: NodeId) -> u64 {
    let mut hasher = SipHasher24::new_with_key(secret);
    hasher.write_u8(side as u8);
    hasher.write_u64(challenges.0);
    hasher.write_u64(challenges.1);
    hasher.write_u64(dialling.0);
    hasher.write_u64(accepting.0);
    hasher.finish()
}

pub(super) fn refused(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why.to_owned())
}

pub(super) async fn send_hello(write: &mut Writing, hello: Hello) -> io::Result<()> {
    write_some(write, Frames { frames: vec![Frame { id: 0, body: Some(FrameBody::Hello(hello)) }] }).await
}

pub(super) async fn receive_hello(read: &mut Reading) -> io::Result<Hello> {
    let first = read_some(read, HELLO_BYTES_MAX).await?.0.frames.into_iter().next();
    match first.and_then(|frame| frame.body) {
        Some(FrameBody::Hello(hello)) => Ok(hello),
        _ => Err(refused("it does not speak the protocol of nodes")),
    }
}
