//! Frames on a connection between nodes: collected for a write, written, read.
//!
//! All waiting frames are written together, so that under load a write carries many; a lazy one is written with the
//! next frame, or after [`LAZY_MAX`].

use std::{
    io,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use prost::Message;
use segno_environment::environment::Connection;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, BufReader, ReadHalf, WriteHalf},
    sync::{Notify, mpsc},
    time::Instant,
};

use super::{
    endpoint::Traffic,
    wire::{Empty, Frame, FrameBody, Frames},
};

/// The largest write that is accepted: a request of 4 MiB many times over.
pub(super) const FRAMES_BYTES_MAX: usize = 128 << 20;
/// Frames are written together up to this size.
const WRITE_BYTES: usize = 1 << 20;
/// Frames in one write.
const FRAMES_MAX: usize = 256;
/// Frames that may wait for a connection, and their bytes, before requests are refused and none are read.
const WAITING_MAX: usize = 16_384;
const WAITING_BYTES_MAX: usize = 64 << 20;
/// How long a lazy frame may wait for others.
const LAZY_MAX: Duration = Duration::from_millis(10);
const PING_INTERVAL: Duration = Duration::from_secs(1);
/// A connection on which nothing came for so long is broken.
const SILENCE_MAX: Duration = Duration::from_secs(3);

pub(super) type Reading = BufReader<ReadHalf<Connection>>;
pub(super) type Writing = WriteHalf<Connection>;

/// A frame that waits to be written.
pub(super) struct QueuedFrame {
    frame: Frame,
    length: usize,
    /// It may wait for others.
    lazy: bool,
}

/// Sender of the frames of one connection.
#[derive(Clone, Debug)]
pub(super) struct Outgoing {
    frames: mpsc::UnboundedSender<QueuedFrame>,
    pub(super) backlog: Arc<Backlog>,
}

/// The frames that wait to be written, and their bytes.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    pub(super) frames: AtomicUsize,
    pub(super) bytes: AtomicUsize,
    /// Bytes were written.
    shrank: Notify,
}

impl Backlog {
    fn is_full(&self) -> bool {
        self.frames.load(Ordering::Relaxed) >= WAITING_MAX || self.bytes.load(Ordering::Relaxed) >= WAITING_BYTES_MAX
    }

    /// Waits until more may wait.
    pub(super) async fn room(&self) {
        while self.is_full() {
            let shrank = self.shrank.notified();
            // It may have been written meanwhile.
            if self.is_full() {
                shrank.await;
            }
        }
    }

    fn wrote(&self, frames: usize, bytes: usize) {
        self.frames.fetch_sub(frames, Ordering::Relaxed);
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.shrank.notify_waiters();
    }
}

impl Outgoing {
    pub(super) fn new() -> (Self, mpsc::UnboundedReceiver<QueuedFrame>) {
        let (frames, receiver) = mpsc::unbounded_channel();
        (Self { frames, backlog: Arc::default() }, receiver)
    }

    pub(super) fn is_full(&self) -> bool {
        self.backlog.is_full()
    }

    /// Sends a frame; does nothing if the connection is gone.
    pub(super) fn send(&self, id: u64, body: FrameBody) {
        self.put(id, body, false);
    }

    /// Sends a frame with the next one, or after [`LAZY_MAX`].
    pub(super) fn send_lazily(&self, id: u64, body: FrameBody) {
        self.put(id, body, true);
    }

    fn put(&self, id: u64, body: FrameBody, lazy: bool) {
        let frame = Frame { id, body: Some(body) };
        let length = frame.encoded_len();
        self.backlog.frames.fetch_add(1, Ordering::Relaxed);
        self.backlog.bytes.fetch_add(length, Ordering::Relaxed);
        let _ = self.frames.send(QueuedFrame { frame, length, lazy });
    }
}

pub(super) async fn write_some(write: &mut Writing, frames: Frames) -> io::Result<()> {
    let length = frames.encoded_len();
    let mut buffer = Vec::with_capacity(4 + length);
    buffer.extend_from_slice(&(length as u32).to_le_bytes());
    frames.encode_raw(&mut buffer);
    write.write_all(&buffer).await?;
    // What was encrypted may wait for the socket.
    write.flush().await
}

/// Frames that were written together, and their bytes.
pub(super) async fn read_some(read: &mut Reading, bytes_max: usize) -> io::Result<(Frames, usize)> {
    let silent = |_| io::Error::from(io::ErrorKind::TimedOut);
    let length = tokio::time::timeout(SILENCE_MAX, read.read_u32_le()).await.map_err(silent)?? as usize;
    if length > bytes_max {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a write is too large"));
    }
    let mut buffer = vec![0; length];
    let mut filled = 0;
    while filled < length {
        // The whole may take any time, but some bytes must come.
        let part = tokio::time::timeout(SILENCE_MAX, read.read(&mut buffer[filled..])).await.map_err(silent)??;
        if part == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        filled += part;
    }
    // Bodies of calls share the buffer.
    let frames = Frames::decode(bytes::Bytes::from(buffer));
    let frames = frames.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    Ok((frames, length))
}

/// Writes the frames that wait until all senders are dropped. The dialling side pings.
pub(super) async fn write_frames(
    mut write: Writing,
    mut receiver: mpsc::UnboundedReceiver<QueuedFrame>,
    backlog: &Backlog,
    traffic: &Traffic,
    pings: bool,
) -> io::Result<()> {
    let mut ping = tokio::time::interval(PING_INTERVAL);
    let mut lazy = pin!(tokio::time::sleep(Duration::ZERO));
    let mut frames: Vec<QueuedFrame> = Vec::new();
    loop {
        let before = frames.len();
        tokio::select! {
            biased;
            _ = ping.tick(), if pings => {
                frames.push(QueuedFrame { frame: Frame { id: 0, body: Some(FrameBody::Ping(Empty {})) }, length: 0, lazy: false });
                backlog.frames.fetch_add(1, Ordering::Relaxed);
            }
            received = receiver.recv_many(&mut frames, FRAMES_MAX) => {
                if received == 0 {
                    return Ok(());
                }
                let room = frames.len() < FRAMES_MAX;
                if room && frames[before..].iter().all(|waiting| waiting.lazy) {
                    if before == 0 {
                        lazy.as_mut().reset(Instant::now() + LAZY_MAX);
                    }
                    continue;
                }
                // Tasks that are about to send a frame get the chance to share the write.
                tokio::task::yield_now().await;
                while frames.len() < 2 * FRAMES_MAX && let Ok(waiting) = receiver.try_recv() {
                    frames.push(waiting);
                }
            }
            () = lazy.as_mut(), if !frames.is_empty() => {}
        }
        // Large frames go one by one, so that no write is larger than what is accepted.
        let (mut some, mut bytes) = (Vec::with_capacity(frames.len()), 0);
        for QueuedFrame { frame, length, .. } in frames.drain(..) {
            if bytes + length > WRITE_BYTES && !some.is_empty() {
                write_counted(&mut write, std::mem::take(&mut some), bytes, backlog, traffic).await?;
                bytes = 0;
            }
            bytes += length;
            some.push(frame);
        }
        write_counted(&mut write, some, bytes, backlog, traffic).await?;
    }
}

async fn write_counted(
    write: &mut Writing,
    frames: Vec<Frame>,
    bytes: usize,
    backlog: &Backlog,
    traffic: &Traffic,
) -> io::Result<()> {
    let count = frames.len();
    write_some(write, Frames { frames }).await?;
    traffic.sent(count, bytes);
    backlog.wrote(count, bytes);
    Ok(())
}
