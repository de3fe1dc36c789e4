//! What happens to the cluster: one thing at a time, chosen and timed by the seed, and healed afterwards.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::{
    cluster::Cluster,
    postgres::{Postgres, signal},
    proxy::{Cut, Direction, Fault, FaultTarget, Proxy},
};
use crate::random::Random;

/// Within this time a commit is cut.
const CUT_TIMEOUT: Duration = Duration::from_secs(20);
/// How long pgbouncer is between nodes and database before and after something happens to it.
const POOLER_TIME: Duration = Duration::from_millis(1_500);

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nemesis {
    /// A node is killed and started again.
    Kill,
    /// A node is killed and started again at once, under its old name.
    KillAndStart,
    /// A node stands still for longer than its lease.
    Pause,
    /// A node stands still for a moment.
    ShortPause,
    /// A node leaves and comes back, as in a rolling restart.
    Leave,
    /// A node is fenced by command.
    Fence,
    /// The database is stopped and started.
    DatabaseFast,
    /// The database crashes and is started.
    DatabaseImmediate,
    /// The primary crashes and its standby takes its place.
    Failover,
    /// The same while the standby lacks what callers stopped waiting for.
    FailoverBehind,
    /// The primary hangs, with the connections to it, and its standby takes its place.
    FailoverHung,
    /// One process of the database is killed, whereupon it restarts itself.
    Backend,
    /// The database ends all connections.
    Terminate,
    /// The database takes no writes for a while.
    ReadOnly,
    /// Commits are cut somewhere on their way to the database.
    CutCommits,
    /// Their answers are cut.
    CutAnswers,
    /// A node does not reach the database, and is not told.
    DatabaseSilent,
    /// A node's connections to the database are closed and refused.
    DatabaseRefused,
    /// What a node sends arrives at the database, but no answer comes back.
    DatabaseMute,
    /// The database is slow for a node.
    DatabaseSlow,
    /// One node does not reach another one.
    LinkSilent,
    /// A node and the others do not reach each other.
    Split,
    /// Nodes answer each other slowly.
    LinksSlow,
    /// Of all packets to and from a node 30 of 100 are lost.
    PacketLoss,
    /// The clock of a node's machine jumps by up to an hour, forward or back, and later jumps back.
    Clock,
    /// Nodes reach the database through pgbouncer, to which something happens.
    Pgbouncer,
    /// Tables of the database cannot grow.
    FullDisk,
    /// Its write-ahead log cannot grow.
    FullLog,
    /// The primary is lost with what it acknowledged last, because nothing waited for its standby; see `loss.rs`.
    FailoverLosing,
    /// A key is revoked and a script deployed while a node and the others hear nothing of each other; see `changes.rs`.
    SilentChanges,
}

impl Nemesis {
    /// Every fault.
    pub const ALL: [Self; 30] = [
        Self::Kill,
        Self::KillAndStart,
        Self::Pause,
        Self::ShortPause,
        Self::Leave,
        Self::Fence,
        Self::DatabaseFast,
        Self::DatabaseImmediate,
        Self::Failover,
        Self::FailoverBehind,
        Self::FailoverHung,
        Self::Backend,
        Self::Terminate,
        Self::ReadOnly,
        Self::CutCommits,
        Self::CutAnswers,
        Self::DatabaseSilent,
        Self::DatabaseRefused,
        Self::DatabaseMute,
        Self::DatabaseSlow,
        Self::LinkSilent,
        Self::Split,
        Self::LinksSlow,
        Self::PacketLoss,
        Self::Clock,
        Self::Pgbouncer,
        Self::FullDisk,
        Self::FullLog,
        Self::FailoverLosing,
        Self::SilentChanges,
    ];

    /// Its name on the command line and in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::KillAndStart => "kill-and-start",
            Self::Pause => "pause",
            Self::ShortPause => "short-pause",
            Self::Leave => "leave",
            Self::Fence => "fence",
            Self::DatabaseFast => "database-fast",
            Self::DatabaseImmediate => "database-immediate",
            Self::Failover => "failover",
            Self::FailoverBehind => "failover-behind",
            Self::FailoverHung => "failover-hung",
            Self::Backend => "backend",
            Self::Terminate => "terminate",
            Self::ReadOnly => "read-only",
            Self::CutCommits => "cut-commits",
            Self::CutAnswers => "cut-answers",
            Self::DatabaseSilent => "database-silent",
            Self::DatabaseRefused => "database-refused",
            Self::DatabaseMute => "database-mute",
            Self::DatabaseSlow => "database-slow",
            Self::LinkSilent => "link-silent",
            Self::Split => "split",
            Self::LinksSlow => "links-slow",
            Self::PacketLoss => "packet-loss",
            Self::Clock => "clock",
            Self::Pgbouncer => "pgbouncer",
            Self::FullDisk => "full-disk",
            Self::FullLog => "full-log",
            Self::FailoverLosing => "failover-losing",
            Self::SilentChanges => "silent-changes",
        }
    }

    /// The faults that are named, separated by commas.
    pub fn named(names: &str) -> Result<Vec<Self>> {
        let find = |name: &str| Self::ALL.into_iter().find(|nemesis| nemesis.name() == name);
        names.split(',').map(|name| find(name).with_context(|| format!("there is no fault `{name}`"))).collect()
    }

    /// Whether the database needs a small disk for it.
    pub fn fills_a_disk(self) -> bool {
        matches!(self, Self::FullDisk | Self::FullLog)
    }

    /// Lets it happen to a node, and ends it.
    pub async fn strike(self, cluster: &mut Cluster, random: &mut Random, lease: u64) -> Result<()> {
        let at = random.up_to(cluster.nodes.len() as u64 - 1) as usize;
        let other = (at + 1 + random.up_to(cluster.nodes.len() as u64 - 2) as usize) % cluster.nodes.len();
        let long = Duration::from_millis(lease * 1_000 + 500 + random.up_to(2 * lease * 1_000));
        let short = Duration::from_millis(300 + random.up_to(1_500));
        match self {
            Self::Kill => {
                cluster.nodes[at].kill()?;
                tokio::time::sleep(long).await;
            }
            Self::KillAndStart => {
                cluster.nodes[at].kill()?;
                tokio::time::sleep(short / 4).await;
            }
            Self::Pause | Self::ShortPause => {
                let process = cluster.nodes[at].process().context("a node is away")?;
                // Clients of the node either wait for it or go elsewhere.
                let leave = random.one_in(2);
                signal(process, "-STOP")?;
                if leave {
                    let port = cluster.nodes[at].port();
                    cluster.gates.iter().for_each(|gate| gate.set(Fault::Closed, FaultTarget::Port(port)));
                }
                tokio::time::sleep(if self == Self::Pause { long } else { short }).await;
                signal(process, "-CONT")?;
                tokio::time::sleep(short).await;
                cluster.gates.iter().for_each(|gate| gate.heal());
            }
            Self::Leave => {
                let mut node = cluster.nodes.remove(at);
                // The process is waited for elsewhere: the driver goes on.
                let (node, left) = tokio::task::spawn_blocking(move || {
                    let left = node.leave();
                    (node, left)
                })
                .await?;
                cluster.nodes.insert(at, node);
                let took = left?;
                if took > Duration::from_secs(40) {
                    bail!("a node took {took:.0?} to leave");
                }
            }
            Self::Fence => {
                let name = cluster.nodes[at].name().to_owned();
                cluster.command(other, &["fence", &name])?;
                tokio::time::sleep(short).await;
            }
            Self::DatabaseFast | Self::DatabaseImmediate => {
                let mode = if self == Self::DatabaseFast { "fast" } else { "immediate" };
                let restart = move |postgres: &mut Postgres| {
                    postgres.stop(mode);
                    std::thread::sleep(short);
                    postgres.resume()
                };
                cluster.database(restart).await?;
            }
            Self::Failover => cluster.database(Postgres::fail_over).await?,
            Self::FailoverBehind => cluster.database(move |postgres| postgres.fail_over_behind(short)).await?,
            Self::FailoverHung => cluster.database(move |postgres| postgres.fail_over_hung(long)).await?,
            Self::Backend => {
                let select = "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'segno%' \
                              ORDER BY random() LIMIT 1";
                let process = cluster.sql(select).await?.parse().context("no connection of a node")?;
                signal(process, "-KILL")?;
                tokio::time::sleep(short).await;
            }
            Self::Terminate => {
                let terminate = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
                                 WHERE application_name LIKE 'segno%'";
                for _ in 0..4 {
                    cluster.sql(terminate).await?;
                    tokio::time::sleep(short / 2).await;
                }
            }
            Self::ReadOnly => {
                let set = |value: &str| format!("ALTER SYSTEM SET default_transaction_read_only = {value}");
                cluster.sql(set("on")).await?;
                cluster.sql("SELECT pg_reload_conf()").await?;
                tokio::time::sleep(short).await;
                cluster.sql(set("off")).await?;
                cluster.sql("SELECT pg_reload_conf()").await?;
            }
            Self::CutCommits | Self::CutAnswers => {
                let direction = if self == Self::CutCommits { Direction::Request } else { Direction::Answer };
                let far = if self == Self::CutCommits { 8_000 } else { 400 };
                let fired = |cluster: &Cluster| -> usize {
                    cluster.nodes.iter().flat_map(|node| &node.databases).map(Proxy::fired).sum()
                };
                let before = fired(cluster);
                for node in &cluster.nodes {
                    // Also while the first one is being settled.
                    let cut = |_| Cut { direction, after: random.up_to(far) as usize };
                    // One of the two leads to the primary.
                    let cuts: Vec<Cut> = (0..6).map(cut).collect();
                    node.databases.iter().for_each(|database| database.cut(cuts.clone()));
                }
                let begun = Instant::now();
                tokio::time::sleep(2 * short).await;
                // Nodes may still be without a connection because of the fault before.
                while fired(cluster) == before {
                    if begun.elapsed() > CUT_TIMEOUT {
                        bail!(
                            "no commit was cut: the proxy does not know the statements of lanes, this proves nothing"
                        );
                    }
                    tokio::time::sleep(short / 4).await;
                }
            }
            Self::DatabaseSilent | Self::DatabaseRefused | Self::DatabaseMute | Self::DatabaseSlow => {
                let fault = match self {
                    Self::DatabaseSilent => Fault::Silent,
                    Self::DatabaseRefused => Fault::Closed,
                    Self::DatabaseMute => Fault::NoAnswers,
                    _ => Fault::Slow(200),
                };
                cluster.nodes[at].set_database(fault);
                tokio::time::sleep(long).await;
            }
            Self::LinkSilent => {
                let process = cluster.nodes[at].process().context("a node is away")?;
                cluster.nodes[other].links.set(Fault::Silent, FaultTarget::Process(process));
                tokio::time::sleep(long).await;
            }
            Self::Split => {
                let process = cluster.nodes[at].process().context("a node is away")?;
                for (number, node) in cluster.nodes.iter().enumerate() {
                    node.links.set(
                        Fault::Closed,
                        if number == at { FaultTarget::All } else { FaultTarget::Process(process) },
                    );
                }
                tokio::time::sleep(long).await;
            }
            Self::LinksSlow => {
                cluster.nodes.iter().for_each(|node| node.links.set(Fault::Slow(100), FaultTarget::All));
                tokio::time::sleep(long).await;
            }
            Self::PacketLoss => {
                let (fault, port) = (Fault::Lossy(30), cluster.nodes[at].port());
                cluster.nodes[at].set_database(fault);
                cluster.nodes[at].links.set(fault, FaultTarget::All);
                cluster.gates.iter().for_each(|gate| gate.set(fault, FaultTarget::Port(port)));
                tokio::time::sleep(long).await;
                cluster.gates.iter().for_each(|gate| gate.heal());
            }
            Self::Clock => {
                let seconds = random.up_to(7_200).cast_signed() - 3_600;
                cluster.nodes[at].clock.set(seconds)?;
                if random.one_in(3) {
                    // A life that begins with the wrong time.
                    cluster.nodes[at].kill()?;
                    tokio::time::sleep(short / 4).await;
                    cluster.nodes[at].start()?;
                }
                tokio::time::sleep(long).await;
                cluster.nodes[at].clock.set(0)?;
                tokio::time::sleep(short).await;
            }
            Self::Pgbouncer => through_pgbouncer(cluster, random, short).await?,
            Self::FullDisk => {
                // No node is away, so that none loses its place for another reason.
                cluster.wait_together().await?;
                let names = "SELECT string_agg(node || ' ' || name, ', ' ORDER BY node) FROM segno.nodes";
                let before = cluster.sql(names).await?;
                cluster.database(move |postgres| postgres.fill_tables(2 * short)).await?;
                let after = cluster.sql(names).await?;
                if before != after {
                    bail!("a disk was full, and the nodes changed from {before} to {after}");
                }
            }
            Self::FullLog => cluster.database(move |postgres| postgres.fill_log(short)).await?,
            Self::FailoverLosing | Self::SilentChanges => bail!("this one needs more than the cluster"),
        }
        heal(cluster).await
    }
}

/// Nodes reach the database through pgbouncer; it is killed, ends all connections, or takes no new ones; then it is gone.
async fn through_pgbouncer(cluster: &mut Cluster, random: &mut Random, short: Duration) -> Result<()> {
    cluster.through_pooler().await?;
    tokio::time::sleep(POOLER_TIME).await;
    let choice = random.up_to(2);
    let pooler = cluster.pooler.as_mut().context("there is no pooler")?;
    match choice {
        0 => {
            pooler.kill();
            tokio::time::sleep(short).await;
            pooler.resume()?;
        }
        1 => {
            pooler.tell("KILL segno")?;
            tokio::time::sleep(short).await;
            pooler.tell("RESUME segno")?;
        }
        _ => {
            let mut waiting = pooler.pause()?;
            tokio::time::sleep(short / 4).await;
            // A node that loses its connection now gets no other one.
            let terminate = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
                             WHERE application_name LIKE 'segno%'";
            cluster.sql(terminate).await?;
            tokio::time::sleep(short).await;
            let pooler = cluster.pooler.as_ref().context("there is no pooler")?;
            for one in &mut waiting {
                let _ = one.kill();
                one.wait()?;
            }
            pooler.tell("RESUME segno")?;
        }
    }
    tokio::time::sleep(POOLER_TIME).await;
    cluster.without_pooler().await;
    Ok(())
}

/// Ends every fault; who is away comes back.
pub(super) async fn heal(cluster: &mut Cluster) -> Result<()> {
    for node in &mut cluster.nodes {
        node.heal();
        match &mut node.server {
            None => node.start()?,
            Some(server) => {
                if let Some(status) = server.ended()? {
                    let words = server.last_words();
                    bail!("node {} ended by itself ({status}):\n{words}", node.name());
                }
            }
        }
    }
    Ok(())
}
