//! `segno backup`, `segno restore` and `segno compact`.

use std::{path::PathBuf, time::Instant};

use clap::Args;

use crate::{exit::Usage, serve::default_data_dir};

/// Bytes in a mebibyte.
const MIB: u64 = 1024 * 1024;

/// Which data directory.
#[derive(Args, Clone, Debug)]
pub struct DataDir {
    /// Directory of the data. [default: segno in the user's data directory]
    #[arg(long, env = "SEGNO_DATA_DIR", value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

impl DataDir {
    /// The directory.
    pub fn path(&self) -> anyhow::Result<PathBuf> {
        let directory = self.data_dir.clone().or_else(default_data_dir);
        let missing = "there is no home directory to look for data in. Say where it is with --data-dir";
        directory.ok_or_else(|| Usage(missing.to_owned()).into())
    }
}

/// Copies a data directory to a file, also while a server uses it.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  segno backup --data-dir ./data --to segno-$(date +%F).db\n\n\
                        The copy has everything that was acknowledged before the command began. A server on PostgreSQL is \
                        backed up with the tools of PostgreSQL.")]
pub struct Backup {
    #[command(flatten)]
    place: DataDir,
    /// The file to write; it must not be there yet.
    #[arg(long, value_name = "FILE")]
    to: PathBuf,
    /// Mebibytes a second, so that calls to the server stay fast; 0 is no limit.
    #[arg(long, value_name = "MIB", default_value_t = 64)]
    rate: u64,
}

/// Puts a backup into a data directory that has none yet.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  segno restore --from segno-2026-11-17.db --data-dir ./restored")]
pub struct Restore {
    #[command(flatten)]
    place: DataDir,
    /// The backup.
    #[arg(long, value_name = "FILE")]
    from: PathBuf,
}

/// Returns the space of deleted workflows to the file system. No server may be running.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  segno compact --data-dir ./data")]
pub struct Compact {
    #[command(flatten)]
    place: DataDir,
}

impl Backup {
    /// Makes the copy.
    pub fn run(self) -> anyhow::Result<()> {
        let begun = Instant::now();
        let copied = segno_store_sqlite::backup(&self.place.path()?, &self.to, self.rate.saturating_mul(MIB))?;
        let online = if copied.online { ", while the server was running" } else { "" };
        println!(
            "{}: {} with schema {}, copied in {:.1} s{online}",
            self.to.display(),
            size(copied.bytes),
            copied.schema,
            begun.elapsed().as_secs_f64()
        );
        Ok(())
    }
}

impl Restore {
    /// Puts the copy back.
    pub fn run(self) -> anyhow::Result<()> {
        let directory = self.place.path()?;
        let copied = segno_store_sqlite::restore(&self.from, &directory)?;
        let (schema, bytes) = (copied.schema, size(copied.bytes));
        println!("{}: {bytes} with schema {schema}, ready to be served", directory.display());
        Ok(())
    }
}

impl Compact {
    /// Rewrites the file.
    pub fn run(self) -> anyhow::Result<()> {
        let directory = self.place.path()?;
        let (before, after) = segno_store_sqlite::compact(&directory)?;
        println!("{}: {} before, {} now", directory.display(), size(before), size(after));
        Ok(())
    }
}

/// Bytes as people read them.
pub fn size(bytes: u64) -> String {
    match bytes {
        0..1_024 => format!("{bytes} bytes"),
        1_024..MIB => format!("{:.1} KiB", bytes as f64 / 1_024.0),
        MIB..0x4000_0000 => format!("{:.1} MiB", bytes as f64 / MIB as f64),
        _ => format!("{:.1} GiB", bytes as f64 / (MIB * 1_024) as f64),
    }
}
