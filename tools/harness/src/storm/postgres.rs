//! A private PostgreSQL for the storm: its own directory, a port of the loopback interface, ended when dropped.
//!
//! It refuses to run as root, so it gets the user `postgres` or `nobody` then. Where there is none installed the storm
//! fails and says what to install. `SEGNO_POSTGRES_BIN` names another directory of its programs.

use std::{
    fs::{self, OpenOptions},
    os::unix::{
        fs::{MetadataExt, PermissionsExt, chown},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

/// How long a start may take on a busy machine.
const START_MAX: Duration = Duration::from_secs(60);
/// The database of the cluster.
const DATABASE: &str = "segno";

/// A PostgreSQL; running after [`Postgres::start`], until it is stopped or dropped.
pub struct Postgres {
    programs: PathBuf,
    directory: PathBuf,
    owner: Option<(u32, u32)>,
    /// Where it listens.
    pub port: u16,
    server: Option<Child>,
}

impl Postgres {
    /// Makes one and starts it, with an empty database.
    pub fn start(port: u16) -> Result<Self> {
        let directory = std::env::temp_dir().join(format!("segno-storm-{}", std::process::id()));
        fs::create_dir_all(&directory)?;
        fs::set_permissions(&directory, PermissionsExt::from_mode(0o700))?;
        let owner = owner(&directory)?;
        if let Some((user, group)) = owner {
            chown(&directory, Some(user), Some(group))?;
        }
        let mut postgres = Self { programs: programs()?, directory, owner, port, server: None };
        let mut initdb = postgres.command("initdb");
        initdb.args(["--username=segno", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync", "-D"]);
        let done = initdb.arg(postgres.directory.join("data")).output()?;
        if !done.status.success() {
            bail!("initdb failed: {}", String::from_utf8_lossy(&done.stderr));
        }
        postgres.resume()?;
        postgres.psql_in("postgres", &format!("CREATE DATABASE {DATABASE}"))?;
        Ok(postgres)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.join(program));
        if let Some((user, group)) = self.owner {
            command.uid(user).gid(group);
        }
        command.current_dir(&self.directory).env("LC_ALL", "C").env_remove("PGDATA").stdin(Stdio::null());
        command
    }

    /// Starts the server again, and waits until it answers.
    pub fn resume(&mut self) -> Result<()> {
        let log = OpenOptions::new().create(true).append(true).open(self.directory.join("log"))?;
        let mut command = self.command("postgres");
        command.arg("-D").arg(self.directory.join("data")).arg("-k").arg(&self.directory);
        command.args(["-p", &self.port.to_string(), "-c", "listen_addresses=127.0.0.1"]);
        command.stdout(Stdio::null()).stderr(log);
        self.server = Some(command.spawn().context("postgres did not start")?);
        let until = Instant::now() + START_MAX;
        while self.psql_in("postgres", "SELECT 1").is_err() {
            if Instant::now() > until {
                bail!("PostgreSQL does not start, see {}", self.directory.join("log").display());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Stops the server: `fast`, or `immediate` as in a crash.
    pub fn stop(&mut self, mode: &str) {
        if let Some(mut server) = self.server.take() {
            let mut stop = self.command("pg_ctl");
            stop.args(["stop", "-w", "-m", mode, "-D"]).arg(self.directory.join("data"));
            let _ = stop.output();
            let _ = server.kill();
            let _ = server.wait();
        }
    }

    /// Executes SQL as the superuser; rows with columns separated by `|`.
    pub fn psql(&self, sql: &str) -> Result<String> {
        self.psql_in(DATABASE, sql)
    }

    fn psql_in(&self, database: &str, sql: &str) -> Result<String> {
        let mut psql = self.command("psql");
        psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-U", "segno", "-h"]).arg(&self.directory);
        let done = psql.args(["-p", &self.port.to_string(), "-d", database, "-c", sql]).output().context("psql")?;
        if !done.status.success() {
            bail!("{sql}: {}", String::from_utf8_lossy(&done.stderr).trim());
        }
        Ok(String::from_utf8_lossy(&done.stdout).trim().to_owned())
    }

    /// The URL of the database at a port: its own, or that of something in between.
    pub fn url_at(port: u16) -> String {
        format!("postgres://segno@127.0.0.1:{port}/{DATABASE}")
    }

    /// Where it keeps everything.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Ends it and removes what it stored.
    pub fn remove(mut self) {
        self.stop("immediate");
        let _ = fs::remove_dir_all(&self.directory);
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.stop("immediate");
    }
}

/// Where initdb, postgres, pg_ctl and psql are: the newest version there is.
fn programs() -> Result<PathBuf> {
    let named = std::env::var_os("SEGNO_POSTGRES_BIN").map(PathBuf::from);
    let version = |path: &PathBuf| path.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok()).unwrap_or(0);
    let debian = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten().map(|entry| entry.path());
    let mut debian: Vec<PathBuf> = debian.collect();
    debian.sort_by_key(|path| std::cmp::Reverse(version(path)));
    let debian = debian.into_iter().map(|path| path.join("bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut all = named.into_iter().chain(debian).chain(std::env::split_paths(&path));
    all.find(|place| ["initdb", "postgres", "pg_ctl", "psql"].iter().all(|name| place.join(name).exists())).context(
        "the storm needs PostgreSQL 15 or newer, and there is none: install it (Debian: apt-get install postgresql), or \
         name the directory of its programs in SEGNO_POSTGRES_BIN",
    )
}

/// User and group to run as, if this is root.
fn owner(directory: &Path) -> Result<Option<(u32, u32)>> {
    if fs::metadata(directory)?.uid() != 0 {
        return Ok(None);
    }
    let users = fs::read_to_string("/etc/passwd")?;
    let find = |wanted: &str| {
        let line = users.lines().find(|line| line.split(':').next() == Some(wanted))?;
        let mut fields = line.split(':').skip(2).map(|field| field.parse().ok());
        Some((fields.next()??, fields.next()??))
    };
    let found = find("postgres").or_else(|| find("nobody"));
    Ok(Some(found.context("PostgreSQL refuses to run as root, and there is neither a user `postgres` nor `nobody`")?))
}
