//! A failover that loses what was acknowledged, because nothing waited for the standby that takes the place of the primary.
//!
//! No node can prevent that. But it must not go unnoticed: a node whose commit sequence lost a group ends with exit 75 and says why, and its
//! next life goes on from what the database has. What was acknowledged while the standby followed must be there. Of the rest a
//! beginning is there, and each workflow is whole. The load stops before the primary is lost, because its clients would take the
//! loss for a fault; afterwards what is still open is terminated, and another load begins that is checked as ever.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use segno_proto::workflowservice::{ListWorkflowExecutionsRequest, TerminateWorkflowExecutionRequest};
use tonic::Code;

use super::{
    Storm, append,
    cluster::Node,
    nemesis,
    postgres::Postgres,
    proxy::Fault,
    settled::{closed, count},
};
use crate::{
    crash::{ledger::Breach, verify},
    wire::{self, Client, NAMESPACE},
};

/// The last group of each node's commit sequence, by the number and name of the node.
const LANES: &str = "SELECT node, name, last_group FROM segno.lanes JOIN segno.nodes USING (node)";
/// The exit of a node that finds that the database lost something, and what it says.
const EXIT: &str = "exit status: 75";
const LOSS_MESSAGE: &str = "the database lost changes that it had acknowledged";
/// Within this time the answer to a commit reaches a node on a busy machine.
const COMMIT_ANSWER_MAX: Duration = Duration::from_millis(300);
/// A node must notice within two leases and this.
const NOTICE_TIME_MAX: Duration = Duration::from_secs(5);
/// What is open after the failover is ended within this time.
const CLOSED_MAX: Duration = Duration::from_secs(60);
/// The load goes on for at least this long before the next fault.
const FAULT_INTERVAL_MIN: Duration = Duration::from_secs(5);
const OPEN: &str = "ExecutionStatus = 'Running'";

impl Storm<'_> {
    /// Lets it happen.
    pub(super) async fn lose(&mut self) -> Result<()> {
        let (facts, lists) = (self.shared.ledger.everything(), self.lists.acknowledged());
        self.cluster.database(Postgres::detach_standby).await?;
        tokio::time::sleep(Duration::from_millis(300 + self.random.up_to(1_500))).await;
        for tasks in [&mut self.load, &mut self.workers] {
            tasks.shutdown().await;
        }
        let losers = self.lose_primary().await?;
        self.cluster.database(Postgres::add_standby).await?;
        let told = self.wait_for_reports(&losers).await?;
        nemesis::heal(&mut self.cluster).await?;
        self.cluster.wait_together().await?;
        self.check_facts(&facts, false).await?;
        let lost = self.lost(&lists).await?;
        println!("          {lost} acknowledged facts are lost, as {told:?} reported");
        if lost > 0 && told.is_empty() {
            bail!("{lost} acknowledged facts are lost, and no node noticed it");
        }
        self.lists.forget();
        self.shared.ledger.forget();
        let mut client = wire::client(self.cluster.nodes[0].port())?;
        end_all(&mut client).await?;
        self.closed_before = closed(&mut client).await?;
        self.begin_load()?;
        tokio::time::sleep(FAULT_INTERVAL_MIN).await;
        Ok(())
    }

    /// The primary is lost; which nodes lost groups.
    async fn lose_primary(&self) -> Result<Losers> {
        let before = self.cluster.sql(LANES).await?;
        tokio::time::sleep(COMMIT_ANSWER_MAX).await;
        // The standby is asked before a node comes to it.
        self.cluster.nodes.iter().for_each(|node| node.set_database(Fault::Closed));
        // Nodes committed until now.
        let last = self.cluster.sql(LANES).await;
        let after = self.cluster.database(|postgres| postgres.lose_primary(LANES)).await;
        self.cluster.nodes.iter().for_each(Node::heal);
        let after = lanes_of(&after?);
        Ok(Losers { known: losers(&lanes_of(&before), &after), possible: losers(&lanes_of(&last?), &after) })
    }

    /// Nodes that lost groups end and say so; their names. Others go on.
    async fn wait_for_reports(&mut self, losers: &Losers) -> Result<Vec<String>> {
        let until = Instant::now() + Duration::from_secs(2 * self.options.lease) + NOTICE_TIME_MAX;
        let has = |names: &[String], node: &Node| names.iter().any(|name| name == node.name());
        let mut told = Vec::new();
        for node in &mut self.cluster.nodes {
            let (is_known, is_possible) = (has(&losers.known, node), has(&losers.possible, node));
            let status = loop {
                match node.server.as_mut().context("a node is away")?.ended()? {
                    None if Instant::now() < until && (is_known || is_possible) => {
                        tokio::time::sleep(Duration::from_millis(50)).await;
                    }
                    status => break status,
                }
            };
            match status {
                None if is_known => {
                    bail!("node {} goes on, although the database lost what it had acknowledged", node.name());
                }
                None => {}
                Some(status) if status == EXIT && node.log().contains(LOSS_MESSAGE) => {
                    told.push(node.name().to_owned());
                    node.server = None;
                }
                Some(status) if is_known => {
                    bail!("node {} lost acknowledged changes, ended with {status} and did not say so", node.name());
                }
                // The repair finds it.
                Some(_) => {}
            }
        }
        Ok(told)
    }

    /// How many acknowledged facts are lost. What is there must be whole.
    async fn lost(&self, kept: &[append::KeptList]) -> Result<usize> {
        let mut client = wire::client(self.cluster.nodes[0].port())?;
        let mut lost = append::check_after_loss(&self.shared, &self.lists, kept, &mut client).await;
        for (id, facts) in self.shared.ledger.everything() {
            for breach in verify::breaches(&mut client, &id, &facts, false).await {
                match breach {
                    Breach::Lost(_) => lost += 1,
                    wrong @ Breach::Wrong(_) => self.shared.ledger.breach(wrong),
                }
            }
        }
        Ok(lost)
    }
}

/// Nodes by what they lost.
struct Losers {
    /// They had the answer to a commit that is lost, and must notice.
    known: Vec<String>,
    /// A commit is lost, and its answer may have reached them. These are all of the others, and more.
    possible: Vec<String>,
}

type Lanes = BTreeMap<(String, String), i64>;

/// The nodes that have fewer groups after than before.
fn losers(before: &Lanes, after: &Lanes) -> Vec<String> {
    let lost = |(lane, group): &(&(String, String), &i64)| after.get(*lane).is_some_and(|kept| kept < *group);
    before.iter().filter(lost).map(|((_, name), _)| name.clone()).collect()
}

fn lanes_of(rows: &str) -> Lanes {
    let lane = |row: &str| {
        let mut fields = row.split('|');
        let (node, name, group) = (fields.next()?, fields.next()?, fields.next()?);
        Some(((node.to_owned(), name.to_owned()), group.parse().ok()?))
    };
    rows.lines().filter_map(lane).collect()
}

/// Terminates what is open.
async fn end_all(client: &mut Client) -> Result<()> {
    let until = Instant::now() + CLOSED_MAX;
    while count(client, OPEN).await? > 0 {
        if Instant::now() > until {
            bail!("workflows stay open after a failover that lost something, although they were terminated");
        }
        let call = ListWorkflowExecutionsRequest {
            namespace: NAMESPACE.to_owned(),
            query: OPEN.to_owned(),
            page_size: 1_000,
            ..Default::default()
        };
        let page = client.insist(&call).await?;
        for execution in page.executions.into_iter().filter_map(|info| info.execution) {
            let call = TerminateWorkflowExecutionRequest {
                namespace: NAMESPACE.to_owned(),
                workflow_execution: Some(execution),
                reason: "its client is gone".to_owned(),
                ..Default::default()
            };
            let ended = client.insist(&call).await;
            match ended {
                Ok(_) => {}
                // It ended meanwhile.
                Err(status) if status.code() == Code::NotFound => {}
                Err(status) => return Err(status.into()),
            }
        }
    }
    Ok(())
}
