//! A failover that loses what was acknowledged, because nothing waited for the standby that takes the place of the primary.
//!
//! No node can prevent that. But it must not go unnoticed: a node whose lane lost a group ends with exit 75 and says why, and its
//! next life goes on from what the database has. What was acknowledged while the standby followed must be there. Of the rest a
//! beginning is there, and each workflow is whole. The load stops before the primary is lost, because its clients would take the
//! loss for a fault; afterwards whatever is still open is terminated, and another load begins that is checked as ever.

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
    crash::{flows::insist, ledger::Breach, verify},
    wire::{self, CALL_TIMEOUT, Client, NAMESPACE, request},
};

/// The last group of each node's lane, by the number and name of the node.
const LANES: &str = "SELECT node, name, last_group FROM segno.lanes JOIN segno.nodes USING (node)";
/// The exit of a node that finds that the database lost something, and what it says.
const EXIT: &str = "exit status: 75";
const SAID: &str = "the database lost changes that it had acknowledged";
/// Within this time the answer to a commit reaches a node on a busy machine.
const ANSWERED: Duration = Duration::from_millis(300);
/// A node must notice within two leases and this.
const NOTICED_MAX: Duration = Duration::from_secs(5);
/// What is open after the failover is ended within this time.
const CLOSED_MAX: Duration = Duration::from_secs(60);
/// The load goes on for at least this long before the next fault.
const AFTERWARDS: Duration = Duration::from_secs(5);
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
        self.wait_for_reports(&losers).await?;
        nemesis::heal(&mut self.cluster).await?;
        self.cluster.wait_together().await?;
        self.check_facts(&facts, false).await?;
        let lost = self.lost(&lists).await?;
        println!("          {lost} acknowledged facts are lost, as {losers:?} reported");
        if lost > 0 && losers.is_empty() {
            bail!("{lost} acknowledged facts are lost, and no node was told so by its lane");
        }
        self.lists.forget();
        self.shared.ledger.forget();
        let mut client = wire::client(self.cluster.nodes[0].port())?;
        end_all(&mut client).await?;
        self.closed_before = closed(&mut client).await?;
        self.begin_load()?;
        tokio::time::sleep(AFTERWARDS).await;
        Ok(())
    }

    /// The primary is lost; which nodes lost groups.
    async fn lose_primary(&self) -> Result<Vec<String>> {
        let before = self.cluster.sql(LANES).await?;
        tokio::time::sleep(ANSWERED).await;
        // The standby is asked before a node comes to it.
        self.cluster.nodes.iter().for_each(|node| node.set_database(Fault::Closed));
        let after = self.cluster.database(|postgres| postgres.lose_primary(LANES)).await;
        self.cluster.nodes.iter().for_each(Node::heal);
        let (before, after) = (lanes_of(&before), lanes_of(&after?));
        let lost = |(lane, group): &(&(String, String), &i64)| after.get(*lane).is_some_and(|kept| kept < *group);
        Ok(before.iter().filter(lost).map(|((_, name), _)| name.clone()).collect())
    }

    /// Nodes that lost groups end and say so. Others go on.
    async fn wait_for_reports(&mut self, losers: &[String]) -> Result<()> {
        let until = Instant::now() + Duration::from_secs(2 * self.options.lease) + NOTICED_MAX;
        for node in &mut self.cluster.nodes {
            if !losers.iter().any(|name| name == node.name()) {
                continue;
            }
            let status = loop {
                match node.server.as_mut().context("a node is away")?.ended()? {
                    Some(status) => break status,
                    None if Instant::now() > until => {
                        bail!("node {} goes on, although the database lost what it had acknowledged", node.name());
                    }
                    None => tokio::time::sleep(Duration::from_millis(50)).await,
                }
            };
            if status != EXIT || !node.log().contains(SAID) {
                bail!("node {} lost acknowledged changes, ended with {status} and did not say so", node.name());
            }
            node.server = None;
        }
        Ok(())
    }

    /// How many acknowledged facts are lost. What is there must be whole.
    async fn lost(&self, kept: &[append::Kept]) -> Result<usize> {
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

fn lanes_of(rows: &str) -> BTreeMap<(String, String), i64> {
    let lane = |row: &str| {
        let mut fields = row.split('|');
        let (node, name, group) = (fields.next()?, fields.next()?, fields.next()?);
        Some(((node.to_owned(), name.to_owned()), group.parse().ok()?))
    };
    rows.lines().filter_map(lane).collect()
}

/// Terminates whatever is open.
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
        let page = insist(async || client.list_workflow_executions(request(call.clone(), CALL_TIMEOUT)).await).await?;
        for execution in page.into_inner().executions.into_iter().filter_map(|info| info.execution) {
            let call = TerminateWorkflowExecutionRequest {
                namespace: NAMESPACE.to_owned(),
                workflow_execution: Some(execution),
                reason: "its client is gone".to_owned(),
                ..Default::default()
            };
            let ended =
                insist(async || client.terminate_workflow_execution(request(call.clone(), CALL_TIMEOUT)).await).await;
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
