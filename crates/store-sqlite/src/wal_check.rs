//! Whether SQLite's recovery of the write-ahead log would lose commits that were acknowledged.
//!
//! After a crash SQLite reads the log up to the first frame that is not valid and silently drops the rest. That is
//! right for a transaction that a power cut tore, and wrong for a log that was damaged: everything after one flipped
//! byte is gone. This module checks the files before SQLite opens them, and writes nothing.
//!
//! The format (<https://www.sqlite.org/fileformat2.html#the_write_ahead_log>): a header of 32 bytes, then frames, each a
//! header of 24 bytes and a page. A frame carries the salts of its generation of the log; the last frame of a transaction
//! carries the size of the database. Its checksum continues the one of the frame before it, so whether a frame follows
//! on another one can be told from the two alone, even if a frame before them is damaged.
//!
//! What the check can detect, since a commit is acknowledged only after the log was synced, and the next transaction is written
//! after that:
//!
//! - A frame that follows on the last frame of a transaction proves that this transaction was synced. If recovery would
//!   stop before it, acknowledged commits are lost ([`Damage::FramesFollow`]). A power cut cannot do that: it can tear the
//!   last transaction only, in any pattern, because nothing follows on it. Neither can a transaction that failed: what
//!   it left in the file is written over from its first frame on, and what remains of it does not follow on what is
//!   written there.
//! - The shared memory file (`-shm`), which survives the process, says up to which frame transactions were synced. It
//!   counts only if its own checksum is right and it is of this generation. If recovery would stop earlier, or the log is
//!   gone before all of it was copied into the database, acknowledged commits are lost ([`Damage::Shorter`]).
//! - A header that is not valid makes SQLite ignore the whole log. The header is written and synced when the log is begun
//!   anew, and then everything in it is in the database already. So it does no harm if each page is in the database as
//!   the log has it, and otherwise acknowledged commits are lost ([`Damage::Header`]).
//!
//! The record of the decision is docs/internals/decisions/015-damaged-write-ahead-logs.md.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

const HEADER_BYTES: usize = 32;
const FRAME_HEADER_BYTES: usize = 24;
/// The last bit says whether checksums are made of big-endian words.
const MAGIC: u32 = 0x377f_0682;
const VERSION: u32 = 3_007_000;
/// The part of the shared memory file that is read: two copies of its header, and how much was checkpointed.
const INDEX_BYTES: usize = 100;

/// The commits that would be lost, and how that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Damage {
    #[error("frame {frame} is damaged, and committed transactions follow it up to frame {last}")]
    FramesFollow { frame: u64, last: u64 },
    #[error("it can be read up to frame {readable}, but transactions were committed up to frame {committed}")]
    Shorter { readable: u64, committed: u64 },
    #[error("its header is damaged, and it holds {pages} pages that are not in the database")]
    Header { pages: usize },
}

/// Looks at the log of a database; `None` if recovery loses nothing that was acknowledged.
pub(crate) fn check(database: &Path) -> io::Result<Option<Damage>> {
    let with_suffix = |suffix| database.with_extension(format!("db-{suffix}"));
    let index = Index::read(&with_suffix("shm"))?;
    let log = match File::open(with_suffix("wal")) {
        Ok(log) => Some(log),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let length = log.as_ref().map_or(Ok(0), |log| log.metadata().map(|found| found.len()))?;
    let Some(log) = log.filter(|_| length >= HEADER_BYTES as u64) else {
        // A connection that removes or empties the log has copied everything into the database, or said in the index
        // that the log begins anew.
        let lost = index.filter(|index| index.committed > index.checkpointed);
        return Ok(lost.map(|index| Damage::Shorter { readable: 0, committed: index.committed }));
    };
    let mut log = BufReader::with_capacity(1 << 20, log);
    let mut header = [0; HEADER_BYTES];
    log.read_exact(&mut header)?;
    let Some(format) = Format::of(&header) else {
        return header_damage(database, &mut log, length);
    };
    let scan = Scan::run(&mut log, &format, length)?;
    if let Some((frame, last)) = scan.damaged {
        return Ok(Some(Damage::FramesFollow { frame, last }));
    }
    // An index of another generation says nothing of this log.
    let committed = index.filter(|index| index.salts == format.salts).map_or(0, |index| index.committed);
    let shorter = Damage::Shorter { readable: scan.committed, committed };
    Ok((committed > scan.committed).then_some(shorter))
}

/// The header of a log.
#[derive(Clone, Copy, Debug)]
struct Format {
    page_bytes: usize,
    big_endian: bool,
    salts: [u8; 8],
    checksum: Sum,
}

impl Format {
    /// `None` if SQLite would not take the log for one.
    fn of(header: &[u8; HEADER_BYTES]) -> Option<Self> {
        let magic = number(header, 0);
        let page_bytes = number(header, 8) as usize;
        let big_endian = magic & 1 == 1;
        let checksum = Sum::default().of(&header[..24], big_endian);
        let valid = magic & !1 == MAGIC
            && number(header, 4) == VERSION
            && page_bytes.is_power_of_two()
            && (512..=65_536).contains(&page_bytes)
            && checksum == Sum::stored(header, 24);
        valid.then(|| Self { page_bytes, big_endian, salts: eight(header, 16), checksum })
    }
}

/// A running checksum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sum(u32, u32);

impl Sum {
    fn stored(bytes: &[u8], at: usize) -> Self {
        Self(number(bytes, at), number(bytes, at + 4))
    }

    fn of(self, bytes: &[u8], big_endian: bool) -> Self {
        let Self(mut one, mut two) = self;
        for pair in bytes.chunks_exact(8) {
            let word = |at: usize| {
                let bytes = [pair[at], pair[at + 1], pair[at + 2], pair[at + 3]];
                if big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
            };
            one = one.wrapping_add(word(0)).wrapping_add(two);
            two = two.wrapping_add(word(4)).wrapping_add(one);
        }
        Self(one, two)
    }
}

fn number(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn eight(bytes: &[u8], at: usize) -> [u8; 8] {
    let mut eight = [0; 8];
    eight.copy_from_slice(&bytes[at..at + 8]);
    eight
}

/// One pass over the frames.
#[derive(Debug, Default)]
struct Scan {
    /// The last frame of the last transaction that recovery finds.
    committed: u64,
    /// The first frame that is not valid, and the last that proves that acknowledged commits stand at or after it.
    damaged: Option<(u64, u64)>,
}

impl Scan {
    fn run(log: &mut impl Read, format: &Format, length: u64) -> io::Result<Self> {
        let frame_bytes = FRAME_HEADER_BYTES + format.page_bytes;
        let frames = (length - HEADER_BYTES as u64) / frame_bytes as u64;
        let mut scan = Self::default();
        let mut frame = vec![0; frame_bytes];
        let mut broken_at = None;
        // What the frame before says its checksum is, what it really is, and whether it ends a transaction.
        let (mut stored, mut computed, mut ended) = (format.checksum, format.checksum, false);
        for place in 1..=frames {
            log.read_exact(&mut frame)?;
            let sum_after = |before: Sum| before.of(&frame[..8], format.big_endian).of(&frame[24..], format.big_endian);
            let is_ours = frame[8..16] == format.salts;
            let sum = Sum::stored(&frame, 16);
            let after_stored = sum_after(stored);
            let follows = is_ours && sum == after_stored;
            let ends = number(&frame, 4) != 0;
            match broken_at {
                None if follows => {
                    if ends {
                        scan.committed = place;
                    }
                }
                None => broken_at = Some(place),
                Some(broken) => {
                    // The frame before may be the damaged one: in its page, in its checksum or elsewhere in its header.
                    let follows = follows || (is_ours && sum == sum_after(computed));
                    if follows && ended {
                        scan.damaged = Some((broken, place));
                    }
                }
            }
            (stored, computed, ended) = (sum, after_stored, ends);
        }
        Ok(scan)
    }
}

/// The header of the shared memory file.
#[derive(Clone, Copy, Debug)]
struct Index {
    /// The last frame of the last transaction that was synced.
    committed: u64,
    /// Frames up to this one were copied into the database.
    checkpointed: u64,
    salts: [u8; 8],
}

impl Index {
    /// `None` if there is no valid one.
    fn read(path: &Path) -> io::Result<Option<Self>> {
        let mut index = [0; INDEX_BYTES];
        match File::open(path).and_then(|mut file| file.read_exact(&mut index)) {
            Ok(()) => {}
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof) => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        }
        let native = |at: usize| u32::from_ne_bytes([index[at], index[at + 1], index[at + 2], index[at + 3]]);
        // Numbers and checksum are in the order of this machine; salts are copied from the log as they are.
        let sum = Sum::default().of(&index[..40], cfg!(target_endian = "big"));
        let is_valid = native(0) == VERSION && index[12] != 0 && sum == Sum(native(40), native(44));
        let (committed, checkpointed, salts) = (native(16).into(), native(96).into(), eight(&index, 32));
        Ok(is_valid.then_some(Self { committed, checkpointed, salts }))
    }
}

/// The commits that a log with a damaged header holds beyond the database.
fn header_damage(database: &Path, log: &mut (impl Read + Seek), length: u64) -> io::Result<Option<Damage>> {
    let mut database = match File::open(database) {
        Ok(database) => database,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut head = [0; 18];
    if database.metadata()?.len() < head.len() as u64 {
        return Ok(None);
    }
    database.read_exact(&mut head)?;
    let page_bytes = match u16::from_be_bytes([head[16], head[17]]) {
        1 => 65_536,
        other => usize::from(other),
    };
    if !page_bytes.is_power_of_two() || page_bytes < 512 {
        return Ok(None);
    }
    for big_endian in [cfg!(target_endian = "big"), !cfg!(target_endian = "big")] {
        log.seek(SeekFrom::Start(HEADER_BYTES as u64))?;
        let pages = newest_pages(log, page_bytes, big_endian, length)?;
        let mut missing = 0;
        let mut stored = vec![0; page_bytes];
        for (page, content) in &pages {
            let offset = (u64::from(*page) - 1) * page_bytes as u64;
            let read = database.seek(SeekFrom::Start(offset)).and_then(|_| database.read_exact(&mut stored));
            missing += usize::from(read.is_err() || stored != *content);
        }
        if missing > 0 {
            return Ok(Some(Damage::Header { pages: missing }));
        }
    }
    Ok(None)
}

/// The pages of the transactions that follow on each other from the first frame on, each as it was written last.
fn newest_pages(
    log: &mut impl Read,
    page_bytes: usize,
    big_endian: bool,
    length: u64,
) -> io::Result<BTreeMap<u32, Vec<u8>>> {
    let frame_bytes = FRAME_HEADER_BYTES + page_bytes;
    let frames = (length - HEADER_BYTES as u64) / frame_bytes as u64;
    let (mut committed, mut pending) = (BTreeMap::new(), BTreeMap::new());
    let mut frame = vec![0; frame_bytes];
    let mut before: Option<(Sum, [u8; 8])> = None;
    for _ in 0..frames {
        log.read_exact(&mut frame)?;
        let salts = eight(&frame, 8);
        let sum = Sum::stored(&frame, 16);
        // The first frame's own checksum continues that of the header, which is damaged: the second one vouches for it.
        if let Some((stored, same_salts)) = before {
            let expected = stored.of(&frame[..8], big_endian).of(&frame[24..], big_endian);
            if salts != same_salts || sum != expected {
                break;
            }
        }
        let page = number(&frame, 0);
        if page == 0 {
            break;
        }
        pending.insert(page, frame[FRAME_HEADER_BYTES..].to_vec());
        if number(&frame, 4) != 0 && before.is_some() {
            committed.append(&mut pending);
        }
        before = Some((sum, salts));
    }
    Ok(committed)
}
