//! A private PostgreSQL for tests: made in a temporary directory, stopped and removed when dropped.
//!
//! It listens on a Unix socket in that directory and on a port of the loopback interface. PostgreSQL refuses to run as
//! root, so a test that runs as root starts it as the user `postgres` or `nobody`. If there is no PostgreSQL the test
//! fails and says what to install. `SEGNO_POSTGRES_BIN` names the directory of `initdb` and `postgres` if they are not
//! in a usual place.
//!
//! It is test code: it panics where a test would.

use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long a start may take on a busy machine.
const START_MAX: Duration = Duration::from_secs(60);

/// A running PostgreSQL.
#[derive(Debug)]
pub struct Postgres {
    programs: PathBuf,
    directory: PathBuf,
    owner: Option<(u32, u32)>,
    /// Where it listens on 127.0.0.1.
    pub port: u16,
    settings: Vec<String>,
    server: Option<Child>,
    databases: AtomicU32,
}

impl Postgres {
    /// Makes and starts one with settings of `postgresql.conf` such as `("fsync", "off")`.
    pub fn start(settings: &[(&str, &str)]) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let programs = programs();
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let directory = std::env::temp_dir().join(format!("segno-postgres-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a temporary directory can be made");
        std::fs::set_permissions(&directory, PermissionsExt::from_mode(0o700)).expect("and made private");
        let owner = owner(&directory);
        if let Some((user, group)) = owner {
            chown(&directory, Some(user), Some(group)).expect("root can give a directory away");
        }
        let port = TcpListener::bind(("127.0.0.1", 0)).and_then(|free| free.local_addr()).expect("a free port").port();
        let settings = settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let databases = AtomicU32::new(0);
        let mut postgres = Self { programs, directory, owner, port, settings, server: None, databases };
        postgres.initialise();
        postgres.resume();
        postgres
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.join(program));
        if let Some((user, group)) = self.owner {
            command.uid(user).gid(group);
        }
        command.current_dir(&self.directory).env("LC_ALL", "C").env_remove("PGDATA").stdin(Stdio::null());
        command
    }

    fn initialise(&self) {
        let mut initdb = self.command("initdb");
        initdb.args(["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync", "-D"]);
        let done = initdb.arg(self.directory.join("data")).output().expect("initdb can be run");
        assert!(done.status.success(), "initdb failed: {}", String::from_utf8_lossy(&done.stderr));
    }

    /// Starts the server again after [`Postgres::stop`], and waits until it answers.
    pub fn resume(&mut self) {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(self.directory.join("log"));
        let log = log.expect("a log can be written");
        let mut command = self.command("postgres");
        command.arg("-D").arg(self.directory.join("data")).arg("-k").arg(&self.directory);
        command.args(["-p", &self.port.to_string(), "-c", "listen_addresses=127.0.0.1", "-c", "max_connections=100"]);
        for setting in &self.settings {
            command.args(["-c", setting]);
        }
        command.stdout(Stdio::null()).stderr(log);
        self.server = Some(command.spawn().expect("postgres can be run"));
        let until = Instant::now() + START_MAX;
        while self.psql("postgres", "SELECT 1").is_err() {
            assert!(Instant::now() < until, "PostgreSQL does not start; its log: {}", self.log());
            std::thread::sleep(Duration::from_millis(50));
        }
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

    /// Changes a setting for the next start.
    pub fn set(&mut self, name: &str, value: &str) {
        self.settings.retain(|setting| !setting.starts_with(&format!("{name}=")));
        self.settings.push(format!("{name}={value}"));
    }

    /// Writes a file that only the server's user can read, such as a key; gives its path.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.directory.join(name);
        std::fs::write(&path, text).expect("a file can be written");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).expect("and made private");
        if let Some((user, group)) = self.owner {
            chown(&path, Some(user), Some(group)).expect("root can give a file away");
        }
        path
    }

    /// The log of the server.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.directory.join("log")).unwrap_or_default()
    }

    /// Executes SQL as the superuser; gives the rows, columns separated by `|`, or what went wrong.
    pub fn psql(&self, database: &str, sql: &str) -> Result<String, String> {
        let program = if self.programs.join("psql").exists() { self.programs.join("psql") } else { "psql".into() };
        let mut psql = Command::new(program);
        psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-U", "postgres", "-h"]).arg(&self.directory);
        psql.args(["-p", &self.port.to_string(), "-d", database, "-c", sql]).stdin(Stdio::null());
        let done = psql.output().expect("psql can be run: it comes with PostgreSQL's client package");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        if done.status.success() { Ok(text(&done.stdout)) } else { Err(text(&done.stderr)) }
    }

    /// Makes an empty database; gives its name.
    pub fn database(&self) -> String {
        let name = format!("test_{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.psql("postgres", &format!("CREATE DATABASE {name}")).expect("a database can be made");
        name
    }

    /// The URL of a database over the unix socket.
    pub fn url(&self, database: &str) -> String {
        let host = self.directory.to_string_lossy().replace('/', "%2F");
        format!("postgres://postgres@{host}:{}/{database}", self.port)
    }

    /// The URL of a database over a port of the loopback interface: the server's own, or that of something in between.
    pub fn url_at(&self, port: u16, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{port}/{database}")
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.stop("immediate");
        if !std::thread::panicking() {
            let _ = std::fs::remove_dir_all(&self.directory);
        }
    }
}

/// Where initdb and postgres are: the newest version there is.
fn programs() -> PathBuf {
    let named = std::env::var_os("SEGNO_POSTGRES_BIN").map(PathBuf::from);
    let debian = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten().map(|entry| entry.path());
    let mut debian: Vec<_> = debian.map(|path| path.join("bin")).collect();
    debian.sort_by_key(|path| version_in(path));
    debian.reverse();
    let in_path = std::env::var_os("PATH").unwrap_or_default();
    let in_path: Vec<_> = std::env::split_paths(&in_path).collect();
    let mut all = named.into_iter().chain(debian).chain(in_path).chain(["/usr/local/pgsql/bin".into()]);
    let complete = |place: &PathBuf| ["initdb", "postgres", "pg_ctl"].iter().all(|name| place.join(name).exists());
    all.find(complete).expect(
        "this test needs PostgreSQL 15 or newer, and there is none: install it (Debian: apt-get install postgresql), or name \
         the directory of initdb, postgres and pg_ctl in SEGNO_POSTGRES_BIN",
    )
}

fn version_in(path: &Path) -> u32 {
    let name = path.parent().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    name.and_then(|name| name.parse().ok()).unwrap_or(0)
}

/// User and group to run as, if this is root.
fn owner(directory: &Path) -> Option<(u32, u32)> {
    let made_by = std::fs::metadata(directory).expect("it was just made").uid();
    if made_by != 0 {
        return None;
    }
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let find = |wanted: &str| {
        let line = users.lines().find(|line| line.split(':').next() == Some(wanted))?;
        let mut fields = line.split(':').skip(2).map(|field| field.parse().ok());
        Some((fields.next()??, fields.next()??))
    };
    let found = find("postgres").or_else(|| find("nobody"));
    Some(found.expect("PostgreSQL refuses to run as root, and there is neither a user `postgres` nor `nobody`"))
}
