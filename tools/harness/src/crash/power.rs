//! Cutting the power: takes back what a killed server wrote but never synced, from the log of `tests/crash/powercut.c`.
//!
//! After the cut, files hold what a disk might hold: the synced state, plus nothing, or everything up to some moment,
//! or any mixture of sectors ([`Cut`]). What was synced is never touched, and no state is made that a disk under a
//! journalling file system could not leave. Names of files (creation, removal, renaming)
//! are journalled in order, as file systems do, and durable once their directory was synced.

use std::{
    collections::{BTreeMap, HashMap},
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

use crate::{process, random::Random};

/// The unit a disk writes whole.
const SECTOR: usize = 512;
/// First word of every record of the log.
const MAGIC: u32 = 0x7475_6370;
/// Fixed part of a record: two 32-bit and eleven 64-bit numbers.
const HEADER: usize = 2 * 4 + 11 * 8;

/// How much of what was not synced survives a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Nothing.
    Nothing,
    /// Everything before a random moment; the write at that moment is torn.
    Prefix,
    /// Of each sector any of its versions since the last sync, of each file any of its sizes.
    Scatter,
}

impl Cut {
    /// One of the three.
    pub fn choose(random: &mut Random) -> Self {
        [Self::Nothing, Self::Prefix, Self::Scatter][random.up_to(2) as usize]
    }
}

/// The shim and the directory of its log, for one data directory.
pub struct Shim {
    library: PathBuf,
    data: PathBuf,
    log: PathBuf,
}

impl Shim {
    /// Compiles the shim; `data` is the absolute path of the directory it watches.
    pub fn build(data: &Path) -> Result<Self> {
        let source = process::workspace_dir().join("tests/crash/powercut.c");
        let library = process::target_dir().join("powercut.so");
        let status = Command::new("cc")
            .args(["-O2", "-Wall", "-Wextra", "-shared", "-fPIC", "-o"])
            .args([&library, &source])
            .arg("-lpthread")
            .status()
            .context("cc")?;
        if !status.success() {
            bail!("cannot compile {}", source.display());
        }
        Ok(Self { library: fs::canonicalize(library)?, data: data.to_owned(), log: data.with_extension("powercut") })
    }

    /// Environment for the watched program; starts a new log, so everything now in the files counts as synced.
    pub fn arm(&self, sync_delay_us: u64, lie: bool) -> Result<Vec<(String, String)>> {
        if self.log.exists() {
            fs::remove_dir_all(&self.log)?;
        }
        fs::create_dir_all(&self.log)?;
        let mut environment = vec![
            ("LD_PRELOAD".to_owned(), self.library.display().to_string()),
            ("POWERCUT_DIR".to_owned(), self.data.display().to_string()),
            ("POWERCUT_LOG".to_owned(), self.log.display().to_string()),
            ("POWERCUT_SYNC_DELAY_US".to_owned(), sync_delay_us.to_string()),
        ];
        if lie {
            environment.push(("POWERCUT_LIE".to_owned(), "1".to_owned()));
        }
        Ok(environment)
    }

    /// Whether the watched program lived long enough to load the shim.
    pub fn was_loaded(&self) -> bool {
        self.log.join("log").exists()
    }

    /// Cuts the power after the watched program was killed; how many changes were not synced.
    pub fn cut(&self, cut: Cut, random: &mut Random) -> Result<usize> {
        let path = self.log.join("log");
        let log = fs::read(&path).with_context(|| format!("{}: was the shim loaded?", path.display()))?;
        let changes = unsynced(&parse(&log)?);
        // The last change that survives under `Prefix`; of the next one, the first `torn` sectors.
        let moment = match changes.is_empty() {
            true => 0,
            false => changes[random.up_to(changes.len() as u64 - 1) as usize].seq,
        };
        let names: Vec<&Record> = changes.iter().filter(|change| change.is_name()).collect();
        let kept = match cut {
            Cut::Nothing => 0,
            Cut::Prefix => names.iter().filter(|change| change.seq <= moment).count(),
            Cut::Scatter => random.up_to(names.len() as u64) as usize,
        };
        for change in names[kept..].iter().rev() {
            self.undo_name(change)?;
        }
        let mut by_file: BTreeMap<u64, Vec<&Record>> = BTreeMap::new();
        for change in changes.iter().filter(|change| !change.is_name()) {
            by_file.entry(change.ino).or_default().push(change);
        }
        let paths = inodes(&self.data)?;
        for (ino, writes) in by_file {
            let Some(path) = paths.get(&ino) else { continue };
            let base = undo(fs::read(path)?, &writes);
            fs::write(path, redo(&base, &writes, cut, moment, random))?;
        }
        // Shared memory of SQLite: lost with the machine, rebuilt from the log of the database.
        for path in paths.values().filter(|path| path.to_string_lossy().ends_with("-shm")) {
            fs::remove_file(path)?;
        }
        Ok(changes.len())
    }

    fn undo_name(&self, change: &Record) -> Result<()> {
        let holds = |path: &str, ino: u64| fs::symlink_metadata(path).is_ok_and(|found| found.ino() == ino);
        // Gives a file its name back. Another file under that name was made at the very end, too late even for the log.
        let restore = |ino: u64, path: &str| {
            let _ = fs::remove_file(path);
            fs::hard_link(self.log.join(ino.to_string()), path)
        };
        match change.kind {
            // A change may be logged and the server killed before it was made: then there is nothing to take back.
            CREATE if holds(&change.from, change.ino) => fs::remove_file(&change.from)?,
            UNLINK if !holds(&change.from, change.ino) => restore(change.ino, &change.from)?,
            RENAME if holds(&change.to, change.ino) => {
                fs::rename(&change.to, &change.from)?;
                if change.replaced != 0 {
                    restore(change.replaced, &change.to)?;
                }
            }
            _ => {}
        }
        Ok(())
    }
}

const WRITE: u32 = 1;
const RESIZE: u32 = 2;
const SYNC: u32 = 3;
const CREATE: u32 = 4;
const UNLINK: u32 = 5;
const RENAME: u32 = 6;

/// One record of the log; `struct record` of the shim.
#[derive(Clone, Debug, Default)]
struct Record {
    kind: u32,
    seq: u64,
    ino: u64,
    dir: u64,
    replaced: u64,
    offset: u64,
    old_size: u64,
    new_size: u64,
    from: String,
    to: String,
    old: Vec<u8>,
    new: Vec<u8>,
}

impl Record {
    fn is_name(&self) -> bool {
        matches!(self.kind, CREATE | UNLINK | RENAME)
    }

    fn shrinks(&self) -> bool {
        self.kind == RESIZE && self.new_size < self.old_size
    }

    /// Bytes of the file that differ before and after.
    fn range(&self) -> std::ops::Range<usize> {
        match self.kind {
            WRITE => self.offset.min(self.old_size) as usize..(self.offset as usize + self.new.len()),
            _ => self.old_size.min(self.new_size) as usize..self.old_size.max(self.new_size) as usize,
        }
    }
}

fn parse(log: &[u8]) -> Result<Vec<Record>> {
    let mut records = Vec::new();
    let mut rest = log;
    while rest.len() >= HEADER {
        let half = |at: usize| u32::from_le_bytes(rest[at..at + 4].try_into().expect("four bytes"));
        let word = |index: usize| {
            let at = 8 + index * 8;
            u64::from_le_bytes(rest[at..at + 8].try_into().expect("eight bytes"))
        };
        if half(0) != MAGIC {
            bail!("the log of the shim is damaged");
        }
        let lengths: Vec<usize> = (7..11).map(|index| word(index) as usize).collect();
        // The server may have been killed while it wrote the last record; then the change itself was not made yet.
        if rest.len() < HEADER + lengths.iter().sum::<usize>() {
            break;
        }
        let mut at = HEADER;
        let mut part = |length: usize| {
            at += length;
            rest[at - length..at].to_vec()
        };
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        records.push(Record {
            kind: half(4),
            seq: word(0),
            ino: word(1),
            dir: word(2),
            replaced: word(3),
            offset: word(4),
            old_size: word(5),
            new_size: word(6),
            from: text(part(lengths[0])),
            to: text(part(lengths[1])),
            old: part(lengths[2]),
            new: part(lengths[3]),
        });
        rest = &rest[at..];
    }
    Ok(records)
}

/// Changes that no sync covers, in order.
fn unsynced(records: &[Record]) -> Vec<Record> {
    let mut synced: HashMap<u64, u64> = HashMap::new();
    for sync in records.iter().filter(|record| record.kind == SYNC) {
        let covered = synced.entry(sync.ino).or_default();
        *covered = sync.seq.max(*covered);
    }
    let durable = |change: &Record| {
        let holder = if change.is_name() { change.dir } else { change.ino };
        synced.get(&holder).is_some_and(|covered| change.seq <= *covered)
    };
    records.iter().filter(|record| record.kind != SYNC && !durable(record)).cloned().collect()
}

/// The file as it was before the given changes.
fn undo(mut file: Vec<u8>, changes: &[&Record]) -> Vec<u8> {
    for change in changes.iter().rev() {
        let at = if change.kind == RESIZE { change.new_size } else { change.offset } as usize;
        file.resize(change.old_size as usize, 0);
        file[at.min(change.old_size as usize)..][..change.old.len()].copy_from_slice(&change.old);
    }
    file
}

/// The file with some of the changes made again, sector by sector.
///
/// Shrinking a file is one step of the file system's journal: it happened whole or not at all, nothing after it survives
/// without it, and what it cut off does not come back. A model without this rule makes files no disk can leave behind.
fn redo(base: &[u8], changes: &[&Record], cut: Cut, moment: u64, random: &mut Random) -> Vec<u8> {
    let shrinks: Vec<usize> = (0..changes.len()).filter(|at| changes[*at].shrinks()).collect();
    let before = changes.iter().filter(|change| change.seq <= moment).count();
    // Changes up to `end` may survive, the last shrinking below `settled` did.
    let (end, settled) = match cut {
        Cut::Nothing => return base.to_vec(),
        Cut::Prefix => (before, before),
        Cut::Scatter => {
            let kept = random.up_to(shrinks.len() as u64) as usize;
            let settled = kept.checked_sub(1).map_or(0, |last| shrinks[last] + 1);
            (shrinks.get(kept).copied().unwrap_or(changes.len()), settled)
        }
    };
    let sizes: Vec<usize> =
        std::iter::once(base.len()).chain(changes.iter().map(|change| change.new_size as usize)).collect();
    let size = sizes[settled + random.up_to((end - settled) as u64) as usize];
    // Of the write at the moment of the cut, the sectors before a random one.
    let torn = changes.get(end).filter(|change| cut == Cut::Prefix && change.kind == WRITE).map(|change| {
        let range = change.range();
        range.start / SECTOR + random.up_to((range.len() / SECTOR) as u64) as usize
    });
    let mut sectors: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (at, change) in changes[..end + usize::from(torn.is_some())].iter().enumerate() {
        let range = change.range();
        for sector in range.start / SECTOR..range.end.div_ceil(SECTOR) {
            sectors.entry(sector).or_default().push(at);
        }
    }
    let mut file = base.to_vec();
    file.resize(sizes.into_iter().max().unwrap_or(0).next_multiple_of(SECTOR), 0);
    for (sector, versions) in sectors {
        let made = match cut {
            // Up to the last settled shrinking there is no choice.
            Cut::Scatter => {
                let is_settled = |at: &usize| *at < settled && changes[*at].shrinks();
                let least = versions.iter().rposition(is_settled).map_or(0, |index| index + 1);
                least + random.up_to((versions.len() - least) as u64) as usize
            }
            _ => versions.iter().filter(|at| **at < end || torn.is_some_and(|first| sector < first)).count(),
        };
        for at in &versions[..made] {
            apply(&mut file, changes[*at], sector * SECTOR..(sector + 1) * SECTOR);
        }
    }
    file.truncate(size);
    file
}

/// Makes a change again, within one sector only.
fn apply(file: &mut [u8], change: &Record, sector: std::ops::Range<usize>) {
    let range = change.range();
    let (start, end) = (range.start.max(sector.start), range.end.min(sector.end).min(file.len()));
    if start >= end {
        return;
    }
    for (at, byte) in (start..end).zip(&mut file[start..end]) {
        let index = at.checked_sub(change.offset as usize).filter(|_| change.kind == WRITE);
        *byte = index.map_or(0, |index| change.new[index]);
    }
}

/// Every file below a directory by its inode.
fn inodes(directory: &Path) -> Result<HashMap<u64, PathBuf>> {
    let mut found = HashMap::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            found.extend(inodes(&entry.path())?);
        } else {
            found.insert(entry.metadata()?.ino(), entry.path());
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(seq: u64, offset: u64, old_size: u64, old: &[u8], new: &[u8]) -> Record {
        let new_size = old_size.max(offset + new.len() as u64);
        let (old, new) = (old.to_vec(), new.to_vec());
        Record { kind: WRITE, seq, ino: 1, offset, old_size, new_size, old, new, ..Record::default() }
    }

    #[test]
    fn what_was_synced_stays_and_the_rest_goes() {
        let sync = Record { kind: SYNC, seq: 1, ino: 1, ..Record::default() };
        let records = [write(1, 0, 0, b"", b"abc"), write(2, 1, 3, b"bc", b"XYZ"), sync];
        let open = unsynced(&records);
        assert_eq!(open.iter().map(|change| change.seq).collect::<Vec<_>>(), [2]);
        assert_eq!(undo(b"aXYZ".to_vec(), &open.iter().collect::<Vec<_>>()), b"abc");
    }

    #[test]
    fn a_prefix_keeps_order_and_scatter_keeps_sectors_whole() {
        let ones = [1; 2 * SECTOR];
        let changes = [write(1, 0, 0, b"", &ones), write(2, 0, 1024, &ones, &[2; 1024])];
        let list: Vec<&Record> = changes.iter().collect();
        for seed in 0..50 {
            let prefix = redo(b"", &list, Cut::Prefix, 1, &mut Random::new(seed));
            assert_eq!(prefix.len(), 1024);
            assert!(prefix.iter().is_sorted_by(|a, b| a >= b), "the second write is torn at one point");
            let scatter = redo(b"", &list, Cut::Scatter, 1, &mut Random::new(seed));
            assert!(scatter.chunks(SECTOR).all(|sector| sector.iter().all(|byte| byte == &sector[0])));
        }
    }

    #[test]
    fn shrinking_happens_whole_or_not_at_all() {
        let old = [1; 4 * SECTOR];
        let shrink = Record { kind: RESIZE, seq: 1, old_size: 2048, old: old.to_vec(), ..Record::default() };
        let changes = [shrink, write(2, 0, 0, b"", &[2; 1024])];
        let list: Vec<&Record> = changes.iter().collect();
        let mut outcomes = [0; 2];
        for seed in 0..200 {
            for (cut, moment) in [(Cut::Scatter, 1), (Cut::Prefix, 0), (Cut::Prefix, 1), (Cut::Prefix, 2)] {
                let file = redo(&old, &list, cut, moment, &mut Random::new(seed));
                let is_whole = file == old;
                assert!(is_whole || !file.contains(&1), "old bytes came back after the file was cut off");
                outcomes[usize::from(is_whole)] += 1;
            }
        }
        assert!(outcomes.iter().all(|times| *times > 0), "both must occur");
    }
}
