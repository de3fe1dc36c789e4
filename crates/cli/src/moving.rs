//! `segno export` and `segno import`: write all stored data to a file, and fill an empty store of any kind from it.

use std::{
    fs::{self, File},
    io::{self, BufReader, BufWriter, Read, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context, bail};
use clap::Args;
use segno_node::{Environment, ExportCounts};
use segno_store::Store;
use segno_store_postgres::PostgresStore;
use segno_store_sqlite::{BackupError, DATABASE_FILE, SqliteStore};

use crate::{exit::Usage, logs, serve::default_data_dir};

/// Where data is.
#[derive(Args, Clone, Debug)]
struct DataPlace {
    /// Directory of the data. [default: segno in the user's data directory]
    #[arg(long, env = "SEGNO_DATA_DIR", value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// A database instead: postgres://user:password@host:5432/database.
    #[arg(long, env = "SEGNO_STORE", value_name = "URL", conflicts_with = "data_dir")]
    store: Option<String>,
}

/// Writes everything that is stored to a file. From a data directory also while a server uses it.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  segno export --data-dir ./data --to segno.export\n\n\
                        While a server uses the data directory, the file has a snapshot: everything that was acknowledged before \
                        the command began. It is copied beside the file first. No node may be running on a database.")]
pub struct Export {
    #[command(flatten)]
    place: DataPlace,
    /// The file; `-` is standard output.
    #[arg(long, value_name = "FILE")]
    to: PathBuf,
}

/// Fills an empty data directory or database from an export.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  segno import --from segno.export --store postgres://segno@db/segno")]
pub struct Import {
    #[command(flatten)]
    place: DataPlace,
    /// The file; `-` is standard input.
    #[arg(long, value_name = "FILE")]
    from: PathBuf,
}

/// A store that is open.
enum OpenStore {
    File(Arc<SqliteStore>),
    Database(PostgresStore),
}

impl OpenStore {
    fn store(&self) -> Arc<dyn Store> {
        match self {
            Self::File(store) => store.clone(),
            Self::Database(store) => Arc::new(store.clone()),
        }
    }
}

impl DataPlace {
    /// Works with the store, alone.
    fn with(
        self,
        work: impl FnOnce(&dyn Store) -> anyhow::Result<ExportCounts> + Send + 'static,
    ) -> anyhow::Result<ExportCounts> {
        logs::start(logs::Format::Human, "info")?;
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let opened = runtime.block_on(self.open())?;
        let store = opened.store();
        let result = runtime.block_on(runtime.spawn_blocking(move || work(&*store)));
        match opened {
            OpenStore::Database(store) => runtime.block_on(store.close()),
            OpenStore::File(store) => match Arc::try_unwrap(store) {
                Ok(store) => store.close().context("closing the store")?,
                Err(_) => tracing::warn!("the store is closed with the process"),
            },
        }
        result.context("the work was not finished")?
    }

    /// The data directory, unless it is a database.
    fn directory(&self) -> anyhow::Result<Option<PathBuf>> {
        if self.store.is_some() {
            return Ok(None);
        }
        let directory = self.data_dir.clone().or_else(default_data_dir);
        let missing = "there is no home directory. Say where the data is with --data-dir";
        Ok(Some(directory.ok_or_else(|| Usage(missing.to_owned()))?))
    }

    async fn open(self) -> anyhow::Result<OpenStore> {
        let directory = self.directory()?.unwrap_or_default();
        if let Some(url) = self.store {
            let node_name = format!("move-{}", std::process::id());
            let options = segno_store_postgres::Options { node_name, visits: true, ..Default::default() };
            let store = PostgresStore::open(&url, options).await?;
            if !store.is_alone().await {
                store.close().await;
                bail!(
                    "nodes are running on this database: stop all of them first. To back it up while they run, use pg_dump"
                );
            }
            return Ok(OpenStore::Database(store));
        }
        Ok(OpenStore::File(Arc::new(SqliteStore::open(&directory, Default::default())?)))
    }
}

/// A copy of the data of a running server, which is removed when it is dropped.
struct Snapshot {
    directory: PathBuf,
}

impl Snapshot {
    /// Copies a data directory that a server uses, into a directory beside a file; nothing if no server uses it.
    fn of_server(data: &Path, beside: &Path) -> anyhow::Result<Option<Self>> {
        if !segno_store_sqlite::is_in_use(data) {
            return Ok(None);
        }
        let directory = match beside == Path::new("-") {
            true => std::env::temp_dir().join(format!("segno-export-{}", std::process::id())),
            false => {
                let mut name = beside.to_owned().into_os_string();
                name.push(".snapshot");
                PathBuf::from(name)
            }
        };
        // As private as the data directory.
        let made = fs::DirBuilder::new().mode(0o700).create(&directory);
        made.with_context(|| format!("creating {} for the copy", directory.display()))?;
        let snapshot = Self { directory };
        segno_store_sqlite::backup(data, &snapshot.directory.join(DATABASE_FILE), 0)?;
        Ok(Some(snapshot))
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.directory) {
            eprintln!("segno: the copy {} could not be removed: {error}", self.directory.display());
        }
    }
}

impl Export {
    /// Writes the file. It has its name only when it is whole.
    pub fn run(self) -> anyhow::Result<()> {
        let to = self.to.clone();
        // Opening it would make an empty one.
        if let Some(directory) = self.place.directory()?.filter(|found| !found.join(DATABASE_FILE).is_file()) {
            return Err(BackupError::Nothing(directory).into());
        }
        let snapshot = match self.place.directory()? {
            Some(directory) => Snapshot::of_server(&directory, &to)?,
            None => None,
        };
        let place = match &snapshot {
            Some(snapshot) => DataPlace { data_dir: Some(snapshot.directory.clone()), store: None },
            None => self.place,
        };
        let moved = place.with(move |store| {
            if to == Path::new("-") {
                return Ok(segno_node::export(store, BufWriter::new(io::stdout().lock()))?);
            }
            let mut unfinished = to.clone().into_os_string();
            unfinished.push(".unfinished");
            let unfinished = PathBuf::from(unfinished);
            // As private as the data directory: it has what workflows carry.
            match fs::remove_file(&unfinished) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(error).with_context(|| format!("removing {}", unfinished.display()));
                }
                _ => {}
            }
            let file = File::options().write(true).create_new(true).mode(0o600).open(&unfinished);
            let file = file.with_context(|| format!("creating {}", unfinished.display()))?;
            let mut out = BufWriter::with_capacity(1 << 20, file);
            let moved = segno_node::export(store, &mut out)?;
            out.flush()?;
            out.get_ref().sync_all()?;
            fs::rename(&unfinished, &to).with_context(|| format!("naming {}", to.display()))?;
            Ok(moved)
        })?;
        print_moved(
            if snapshot.is_some() { "exported from a snapshot of the running server" } else { "exported" },
            moved,
        );
        Ok(())
    }
}

impl Import {
    /// Reads the file.
    pub fn run(self) -> anyhow::Result<()> {
        let from = self.from.clone();
        let input: Box<dyn Read + Send> = if from == Path::new("-") {
            Box::new(io::stdin())
        } else {
            Box::new(File::open(&from).with_context(|| format!("opening {}", from.display()))?)
        };
        let environment = Environment::of_machine();
        let moved = self.place.with(move |store| {
            let moved = segno_node::import(store, &*environment.random, BufReader::with_capacity(1 << 20, input));
            moved.with_context(|| format!("reading {}", from.display()))
        })?;
        print_moved("imported", moved);
        Ok(())
    }
}

fn print_moved(what: &str, moved: ExportCounts) {
    let ExportCounts { namespaces, runs, batches, messages, documents } = moved;
    // Standard output may be the file.
    eprintln!(
        "{what}: {runs} runs with {batches} batches of history, {messages} messages on their way, {documents} documents, \
         {namespaces} namespaces"
    );
}
