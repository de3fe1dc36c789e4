//! pgbouncer between the nodes and both servers of the database.

use std::{
    fs::{self, OpenOptions},
    os::unix::fs::chown,
    path::PathBuf,
    process::{Child, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

use super::postgres::{DATABASE, Tools, USER, run};

/// How long a start may take on a busy machine.
const START_MAX: Duration = Duration::from_secs(20);

/// Which connection to the server a connection to the pooler has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The same until it ends.
    Session,
    /// Another one for each transaction.
    Transaction,
}

impl std::str::FromStr for Mode {
    type Err = anyhow::Error;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            "session" => Ok(Self::Session),
            "transaction" => Ok(Self::Transaction),
            _ => bail!("there is no mode `{name}`"),
        }
    }
}

/// One pgbouncer before each server; ended when dropped.
pub struct Pooler {
    program: PathBuf,
    tools: Tools,
    /// Where they listen, in the order of the servers.
    pub ports: [u16; 2],
    processes: [Option<Child>; 2],
}

/// Where pgbouncer is; `SEGNO_PGBOUNCER` names another one.
pub fn program() -> Result<PathBuf> {
    let named = std::env::var_os("SEGNO_PGBOUNCER").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = ["/usr/sbin".into()].into_iter().chain(std::env::split_paths(&path));
    let mut all = named.into_iter().chain(folders.map(|folder: PathBuf| folder.join("pgbouncer")));
    all.find(|file| file.is_file())
        .context("there is no pgbouncer: install it (Debian: apt-get install pgbouncer), or name it in SEGNO_PGBOUNCER")
}

impl Pooler {
    /// Starts both.
    pub fn start(tools: Tools, mode: Mode, servers: [u16; 2], ports: [u16; 2]) -> Result<Self> {
        let mut pooler = Self { program: program()?, tools, ports, processes: [None, None] };
        let users = pooler.tools.directory.join("pgbouncer.users");
        fs::write(&users, format!("\"{USER}\" \"\"\n"))?;
        let mode = if mode == Mode::Session { "session" } else { "transaction" };
        for (server, port) in servers.into_iter().zip(ports) {
            let settings = format!(
                "[databases]\n{DATABASE} = host=127.0.0.1 port={server} dbname={DATABASE}\n[pgbouncer]\n\
                 listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = trust\nauth_file = {}\n\
                 admin_users = {USER}\npool_mode = {mode}\nmax_client_conn = 500\ndefault_pool_size = 100\n\
                 server_login_retry = 1\n",
                users.display()
            );
            fs::write(pooler.settings(port), settings)?;
            if let Some((user, group)) = pooler.tools.owner {
                chown(pooler.settings(port), Some(user), Some(group))?;
                chown(&users, Some(user), Some(group))?;
            }
        }
        pooler.resume()?;
        Ok(pooler)
    }

    fn settings(&self, port: u16) -> PathBuf {
        self.tools.directory.join(format!("pgbouncer-{port}.ini"))
    }

    /// Starts both again after [`Pooler::kill`].
    pub fn resume(&mut self) -> Result<()> {
        for (port, process) in self.ports.into_iter().zip(&mut self.processes) {
            let log = OpenOptions::new().create(true).append(true).open(self.tools.directory.join("pgbouncer.log"))?;
            let mut command = self.tools.command(&self.program);
            command.arg(self.tools.directory.join(format!("pgbouncer-{port}.ini")));
            *process = Some(command.stdout(Stdio::null()).stderr(log).spawn().context("pgbouncer did not start")?);
        }
        let until = Instant::now() + START_MAX;
        while let Err(error) = self.tell("SHOW VERSION") {
            if Instant::now() > until {
                return Err(error.context("pgbouncer does not start"));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Ends both without a word.
    pub fn kill(&mut self) {
        for mut process in self.processes.iter_mut().filter_map(Option::take) {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Gives both a command.
    pub fn tell(&self, command: &str) -> Result<()> {
        for port in self.ports {
            let mut psql = self.tools.command("psql");
            psql.args(["-X", "-q", "-U", USER, "-h", "127.0.0.1", "-d", "pgbouncer", "-p"]);
            run(psql.args([&*port.to_string(), "-c", command]))?;
        }
        Ok(())
    }

    /// Tells both to take no new connections from now on. In session mode they answer that when the last old one has ended;
    /// no code waits for that.
    pub fn pause(&self) -> Result<Vec<Child>> {
        let one = |port: u16| {
            let mut psql = self.tools.command("psql");
            psql.args(["-X", "-q", "-U", USER, "-h", "127.0.0.1", "-d", "pgbouncer", "-p", &port.to_string()]);
            let psql = psql.args(["-c", &format!("PAUSE {DATABASE}")]).stdout(Stdio::null()).stderr(Stdio::null());
            psql.spawn().context("psql")
        };
        self.ports.into_iter().map(one).collect()
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        self.kill();
    }
}
