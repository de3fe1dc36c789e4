//! A private PostgreSQL for the storm, with a synchronous standby: its own directory, two ports of the loopback interface, ended
//! when dropped.
//!
//! It refuses to run as root, so it gets the user `postgres` or `nobody` then. Where there is none installed the storm
//! fails and says what to install. `SEGNO_POSTGRES_BIN` names another directory of its programs.

use std::{
    fs::{self, OpenOptions},
    io::Write,
    os::unix::{
        fs::{MetadataExt, PermissionsExt, chown},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

use super::disk::Disk;

/// How long a start may take on a busy machine.
const START_MAX: Duration = Duration::from_secs(60);
/// The database of the cluster, and its owner.
pub const DATABASE: &str = "segno";
pub const USER: &str = "segno";
/// Sizes of small disks in megabytes, and how much of the log is kept at most, likewise.
const DATA_DISK: u64 = 2_048;
const LOG_DISK: u64 = 512;
const LOG_MAX: u64 = 64;
/// What PostgreSQL says when a disk is full, and how long it may take until it does.
const DISK_FULL_MESSAGE: &str = "No space left on device";
const FULL_MAX: Duration = Duration::from_secs(20);
/// How often a new segment of the log is asked for until there is no room for one.
const SEGMENTS: usize = 50;

/// What the standby is called where the primary waits for it.
const STANDBY: &str = "standby";

/// One of the two servers.
struct Instance {
    port: u16,
    data: PathBuf,
    server: Option<Child>,
    /// If disks are small: that of tables, and that of the write-ahead log.
    disks: Option<[Disk; 2]>,
}

impl Instance {
    /// Where tables are, if not in the directory of everything else.
    fn tables(&self) -> Option<PathBuf> {
        self.disks.as_ref().map(|[tables, _]| tables.place("tables"))
    }

    /// Where the write-ahead log is, likewise.
    fn log(&self) -> Option<PathBuf> {
        self.disks.as_ref().map(|[_, log]| log.place("log"))
    }
}

/// Where programs are found, where they work, and as whom they run.
#[derive(Clone)]
pub struct Tools {
    programs: PathBuf,
    pub directory: PathBuf,
    pub owner: Option<(u32, u32)>,
}

impl Tools {
    /// A program of PostgreSQL, or any other by its full path.
    pub fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(self.programs.join(program));
        if let Some((user, group)) = self.owner {
            command.uid(user).gid(group);
        }
        command.current_dir(&self.directory).env("LC_ALL", "C").env_remove("PGDATA").stdin(Stdio::null());
        command
    }
}

/// A PostgreSQL and its synchronous standby; running after [`Postgres::start`], until it is stopped or dropped.
pub struct Postgres {
    tools: Tools,
    instances: [Instance; 2],
    primary: usize,
}

impl Postgres {
    /// Makes one and starts it, with an empty database and a standby that every commit waits for. With small disks, both can be
    /// filled.
    pub fn start(ports: [u16; 2], small_disks: bool) -> Result<Self> {
        let directory = std::env::temp_dir().join(format!("segno-storm-{}", std::process::id()));
        fs::create_dir_all(&directory)?;
        fs::set_permissions(&directory, PermissionsExt::from_mode(0o700))?;
        let owner = owner(&directory)?;
        if let Some((user, group)) = owner {
            chown(&directory, Some(user), Some(group))?;
        }
        let tools = Tools { programs: programs()?, directory, owner };
        let instance = |port: u16| -> Result<Instance> {
            let place = |name: &str| tools.directory.join("disks").join(format!("{port}-{name}"));
            let disks = match small_disks {
                false => None,
                true => {
                    Some([Disk::mount(place("tables"), DATA_DISK, owner)?, Disk::mount(place("log"), LOG_DISK, owner)?])
                }
            };
            Ok(Instance { port, data: tools.directory.join(port.to_string()), server: None, disks })
        };
        let instances = [instance(ports[0])?, instance(ports[1])?];
        let mut postgres = Self { tools, instances, primary: 0 };
        let first = &postgres.instances[0];
        let mut initdb = postgres.tools.command("initdb");
        initdb.args(["--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync", "--username", USER]);
        if let Some(log) = first.log() {
            initdb.arg("--waldir").arg(log);
        }
        run(initdb.arg("-D").arg(&first.data))?;
        // A primary waits for its standby, until ALTER SYSTEM says otherwise. Copies of the directory inherit this.
        let mut settings = OpenOptions::new().append(true).open(first.data.join("postgresql.conf"))?;
        writeln!(settings, "synchronous_standby_names = '{STANDBY}'")?;
        if small_disks {
            // The standby still needs what it did not read before a crash.
            writeln!(settings, "max_wal_size = '{LOG_MAX}MB'\nmin_wal_size = '32MB'\nwal_keep_size = '{LOG_MAX}MB'")?;
        }
        let tables = first.tables();
        postgres.resume()?;
        let mut place = String::new();
        if let Some(tables) = tables {
            run(postgres.tools.command("/bin/mkdir").arg(&tables))?;
            postgres.psql_in("postgres", &format!("CREATE TABLESPACE small LOCATION '{}'", tables.display()))?;
            place.push_str("TABLESPACE small");
        }
        postgres.psql_in("postgres", &format!("CREATE DATABASE {DATABASE} {place}"))?;
        postgres.add_standby()?;
        Ok(postgres)
    }

    /// The ports of both servers.
    pub fn ports(&self) -> [u16; 2] {
        [self.instances[0].port, self.instances[1].port]
    }

    fn spawn(&mut self, which: usize) -> Result<()> {
        let log = OpenOptions::new().create(true).append(true).open(self.tools.directory.join("log"))?;
        let mut command = self.tools.command("postgres");
        command.arg("-D").arg(&self.instances[which].data).arg("-k").arg(&self.tools.directory);
        command.args(["-p", &self.instances[which].port.to_string(), "-c", "listen_addresses=127.0.0.1"]);
        // What a standby calls itself.
        command.args(["-c", &format!("cluster_name={STANDBY}")]);
        command.stdout(Stdio::null()).stderr(log);
        self.instances[which].server = Some(command.spawn().context("postgres did not start")?);
        Ok(())
    }

    /// Starts the primary again, and waits until it answers.
    pub fn resume(&mut self) -> Result<()> {
        self.spawn(self.primary)?;
        self.wait_until("PostgreSQL does not start", |postgres| postgres.psql_in("postgres", "SELECT 1").is_ok())
    }

    fn wait_until(&self, otherwise: &str, is_true: impl Fn(&Self) -> bool) -> Result<()> {
        let until = Instant::now() + START_MAX;
        while !is_true(self) {
            if Instant::now() > until {
                bail!("{otherwise}, see {}", self.tools.directory.join("log").display());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Makes the other server a standby of the primary, from nothing.
    pub fn add_standby(&mut self) -> Result<()> {
        let other = 1 - self.primary;
        let (old, new) = (&self.instances[self.primary], &self.instances[other]);
        for folder in [Some(new.data.clone()), new.tables(), new.log()].into_iter().flatten() {
            if folder.exists() {
                fs::remove_dir_all(folder)?;
            }
        }
        let mut copy = self.tools.command("pg_basebackup");
        copy.args(["-U", USER, "-h"]).arg(&self.tools.directory);
        copy.args(["-p", &old.port.to_string(), "-R", "-c", "fast", "--no-sync"]);
        if let (Some(from), Some(to), Some(log)) = (old.tables(), new.tables(), new.log()) {
            copy.arg("-T").arg(format!("{}={}", from.display(), to.display())).arg("--waldir").arg(log);
        }
        run(copy.arg("-D").arg(&new.data))?;
        self.start_standby()
    }

    fn start_standby(&mut self) -> Result<()> {
        self.spawn(1 - self.primary)?;
        let streams = format!(
            "SELECT count(*) FROM pg_stat_replication WHERE application_name = '{STANDBY}' AND state = 'streaming'"
        );
        self.wait_until("the standby does not follow", |postgres| {
            postgres.psql(&streams).is_ok_and(|count| count == "1")
        })
    }

    /// Stops the primary: `fast`, or `immediate` as in a crash.
    pub fn stop(&mut self, mode: &str) {
        self.stop_instance(self.primary, mode);
    }

    fn stop_instance(&mut self, which: usize, mode: &str) {
        if let Some(mut server) = self.instances[which].server.take() {
            let mut stop = self.tools.command("pg_ctl");
            stop.args(["stop", "-w", "-m", mode, "-D"]).arg(&self.instances[which].data);
            let _ = stop.output();
            let _ = server.kill();
            let _ = server.wait();
        }
    }

    /// The primary crashes, the standby takes its place, and the old primary comes back as its standby.
    pub fn fail_over(&mut self) -> Result<()> {
        self.stop("immediate");
        self.promote()?;
        self.add_standby()
    }

    /// The standby is away, commits that wait for it stop waiting, and the primary is lost before the standby has it
    /// all.
    pub fn fail_over_behind(&mut self, pause: Duration) -> Result<()> {
        self.stop_instance(1 - self.primary, "immediate");
        std::thread::sleep(pause);
        let cancel = "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
        for _ in 0..4 {
            self.psql(cancel)?;
            std::thread::sleep(pause / 8);
        }
        self.stop("immediate");
        self.spawn(1 - self.primary)?;
        self.promote()?;
        self.add_standby()
    }

    /// The machine of the primary hangs: connections to it are made, and nothing is answered. The standby takes its place; the old
    /// primary is gone for good after a while.
    pub fn fail_over_hung(&mut self, pause: Duration) -> Result<()> {
        let mut server = self.instances[self.primary].server.take().context("the primary is away")?;
        let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", server.id()))?;
        let children: Vec<u32> = children.split_whitespace().filter_map(|child| child.parse().ok()).collect();
        signal(server.id(), "-STOP")?;
        children.iter().for_each(|child| drop(signal(*child, "-STOP")));
        let promoted = self.promote();
        std::thread::sleep(pause);
        children.iter().for_each(|child| drop(signal(*child, "-KILL")));
        // It wakes up to its end, and to nothing else.
        signal(server.id(), "-QUIT")?;
        signal(server.id(), "-CONT")?;
        server.wait()?;
        promoted?;
        self.add_standby()
    }

    /// The standby is away and nothing waits for it: what is acknowledged from now on, the primary alone has.
    pub fn detach_standby(&mut self) -> Result<()> {
        self.psql("ALTER SYSTEM SET synchronous_standby_names = ''")?;
        self.psql("SELECT pg_reload_conf()")?;
        self.stop_instance(1 - self.primary, "immediate");
        Ok(())
    }

    /// The primary is lost, and the standby takes its place as it was when it was detached; what SQL finds then.
    pub fn lose_primary(&mut self, sql: &str) -> Result<String> {
        self.stop("immediate");
        self.spawn(1 - self.primary)?;
        self.promote()?;
        self.psql(sql)
    }

    fn promote(&mut self) -> Result<()> {
        let old = self.primary;
        self.primary = 1 - old;
        // One that is still starting answers nothing, and would forget what it is told.
        self.wait_until("the standby was not promoted", |postgres| {
            let recovers = "SELECT pg_is_in_recovery() AND pg_promote(wait => false)";
            postgres.psql_in("postgres", recovers).is_ok_and(|answer| answer == "f")
        })?;
        debug_assert!(self.instances[old].server.is_none(), "two primaries");
        Ok(())
    }

    /// Executes SQL as the superuser on the primary; rows with columns separated by `|`.
    pub fn psql(&self, sql: &str) -> Result<String> {
        self.psql_in(DATABASE, sql)
    }

    fn psql_in(&self, database: &str, sql: &str) -> Result<String> {
        let mut psql = self.tools.command("psql");
        // This waits for no standby.
        psql.env("PGOPTIONS", "-c synchronous_commit=local");
        psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-U", USER, "-h"]).arg(&self.tools.directory);
        let port = self.instances[self.primary].port.to_string();
        run(psql.args(["-p", &port, "-d", database, "-c", sql])).with_context(|| sql.to_owned())
    }

    /// The URL of the database behind these ports: those of its servers, or of something in between.
    pub fn url_at(ports: [u16; 2]) -> String {
        format!("postgres://{USER}@127.0.0.1:{},127.0.0.1:{}/{DATABASE}", ports[0], ports[1])
    }

    /// Where it keeps everything, and how its programs are called.
    pub fn tools(&self) -> &Tools {
        &self.tools
    }

    /// No table can grow for a while.
    pub fn fill_tables(&mut self, pause: Duration) -> Result<()> {
        let [tables, _] = self.disks()?;
        let before = self.log().len();
        tables.fill()?;
        let refused = self.wait_for_full(before);
        std::thread::sleep(pause);
        tables.free()?;
        refused
    }

    /// The write-ahead log cannot grow for a while, whereupon the server stops. It is started when there is room again.
    pub fn fill_log(&mut self, pause: Duration) -> Result<()> {
        let [_, log] = self.disks()?;
        let before = self.log().len();
        log.fill()?;
        for _ in 0..SEGMENTS {
            if self.psql("SELECT pg_switch_wal()").is_err() {
                break;
            }
        }
        let refused = self.wait_for_full(before);
        std::thread::sleep(pause);
        log.free()?;
        refused?;
        self.recover()
    }

    fn disks(&self) -> Result<&[Disk; 2]> {
        self.instances[self.primary].disks.as_ref().context("the disks of the database are not small")
    }

    fn log(&self) -> String {
        fs::read_to_string(self.tools.directory.join("log")).unwrap_or_default()
    }

    fn wait_for_full(&self, before: usize) -> Result<()> {
        let until = Instant::now() + FULL_MAX;
        while !self.log().get(before..).is_some_and(|new| new.contains(DISK_FULL_MESSAGE)) {
            if Instant::now() > until {
                bail!("a disk of the database was full, and it did not notice: this proves nothing");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Waits until the primary answers; one that ended by itself is started again.
    fn recover(&mut self) -> Result<()> {
        let until = Instant::now() + START_MAX;
        while self.psql_in("postgres", "SELECT 1").is_err() {
            let server = self.instances[self.primary].server.as_mut();
            if server.is_none_or(|server| matches!(server.try_wait(), Ok(Some(_)))) {
                self.spawn(self.primary)?;
            }
            if Instant::now() > until {
                bail!("PostgreSQL does not recover, see {}", self.tools.directory.join("log").display());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    fn stop_all(&mut self) {
        for which in 0..self.instances.len() {
            self.stop_instance(which, "immediate");
        }
    }

    /// Ends it and removes what it stored.
    pub fn remove(mut self) {
        self.stop_all();
        self.instances.iter_mut().for_each(|instance| instance.disks = None);
        let _ = fs::remove_dir_all(&self.tools.directory);
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.stop_all();
        for disk in self.instances.iter_mut().filter_map(|instance| instance.disks.take()).flatten() {
            if let Err(error) = disk.keep() {
                println!("what was on a small disk is lost: {error:#}");
            }
        }
    }
}

/// What a program prints, without the space around it.
pub fn run(command: &mut Command) -> Result<String> {
    let done = command.output().with_context(|| format!("{:?}", command.get_program()))?;
    if !done.status.success() {
        bail!("{:?}: {}", command.get_program(), String::from_utf8_lossy(&done.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&done.stdout).trim().to_owned())
}

/// Sends a signal.
pub fn signal(process: u32, name: &str) -> Result<()> {
    let sent = Command::new("kill").args([name, &process.to_string()]).stderr(Stdio::null()).status()?;
    if !sent.success() {
        bail!("kill {name} {process}");
    }
    Ok(())
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
    all.find(|place| ["initdb", "postgres", "pg_ctl", "pg_basebackup", "psql"].iter().all(|name| place.join(name).exists())).context(
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
