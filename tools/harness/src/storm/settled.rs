//! The end of a storm: everything is healed, comes to its end, and is compared with what was acknowledged.

use std::{rc::Rc, time::Duration};

use anyhow::Result;
use segno_proto::workflowservice::CountWorkflowExecutionsRequest;
use tokio::task::JoinSet;

use super::{Storm, append};
use crate::{
    crash::{flows::insist, ledger::Breach, verify},
    wire::{self, CALL_TIMEOUT, NAMESPACE, request},
};

/// How long the last workflows may take once nothing happens any more.
const DRAIN_MAX: Duration = Duration::from_secs(90);

/// What must be zero in the database once everything has ended.
const NOTHING_LEFT: [(&str, &str); 6] = [
    ("messages that nobody received", "SELECT count(*) FROM segno.outbox"),
    (
        "shards without a living owner",
        "SELECT count(*) FROM segno.shards s WHERE s.node IS NULL OR NOT EXISTS (SELECT 1 FROM segno.nodes n WHERE n.node = s.node)",
    ),
    (
        "lanes of nobody",
        "SELECT count(*) FROM segno.lanes l WHERE NOT EXISTS (SELECT 1 FROM segno.nodes n WHERE n.node = l.node)",
    ),
    (
        "nodes without a lane",
        "SELECT count(*) FROM segno.nodes n WHERE NOT EXISTS (SELECT 1 FROM segno.lanes l WHERE l.node = n.node)",
    ),
    (
        "runs that are open",
        "SELECT count(*) FROM segno.runs WHERE open AND workflow_type IN ('activity', 'signals', 'timer', 'parent', 'sender', 'receiver', 'updates', 'script', 'append', 'asked')",
    ),
    (
        "current pointers to no run",
        "SELECT count(*) FROM segno.current c WHERE NOT EXISTS (SELECT 1 FROM segno.runs r WHERE r.run_key = c.run_key)",
    ),
];

/// What a node logs when it finds that somebody else wrote a run that it owns.
const CONFLICT: &str = "what is stored is not what this node knows";

impl Storm<'_> {
    /// Lets everything under way come to its end, then checks all of it.
    pub(super) async fn settle(&mut self, load: &mut JoinSet<()>) -> Result<()> {
        let breach = |what: String| self.shared.ledger.breach(Breach::Wrong(what));
        if let Err(error) = self.cluster.wait_together().await {
            breach(format!("{error:#}"));
        }
        let ended = async { while load.join_next().await.is_some() {} };
        if tokio::time::timeout(DRAIN_MAX, ended).await.is_err() {
            let given_up = self.shared.given_up.borrow();
            breach(format!(
                "{} clients still wait after {DRAIN_MAX:?}; the last activity poll came back {:.0?} ago; the last answers \
                 given up on: {:?}",
                load.len(),
                self.shared.last_poll.get().elapsed(),
                given_up.iter().rev().take(5).collect::<Vec<_>>()
            ));
        }
        let all = self.shared.ledger.everything();
        let mut checks = JoinSet::new();
        for (number, part) in all.chunks(all.len().div_ceil(8).max(1)).enumerate() {
            // Through all nodes: they must agree.
            let client = wire::client(self.cluster.nodes[number % self.cluster.nodes.len()].port())?;
            checks.spawn_local(verify::verify(Rc::clone(&self.shared), client, part.to_vec(), true));
        }
        while checks.join_next().await.is_some() {}
        for node in &self.cluster.nodes {
            append::check_all(&self.shared, &self.lists, &mut wire::client(node.port())?).await;
        }
        self.check_lists(all.len()).await?;
        self.check_database().await?;
        self.check_quiet().await
    }

    /// Lists through every node say what the runs say.
    async fn check_lists(&self, workflows: usize) -> Result<()> {
        for node in &self.cluster.nodes {
            let mut client = wire::client(node.port())?;
            let mut count = async |query: &str| {
                let call = CountWorkflowExecutionsRequest { namespace: NAMESPACE.to_owned(), query: query.to_owned() };
                let counted =
                    insist(async || client.count_workflow_executions(request(call.clone(), CALL_TIMEOUT)).await).await;
                counted.map(|reply| reply.into_inner().count)
            };
            let completed = count("TaskQueue = 'crash' AND ExecutionStatus = 'Completed'").await?;
            let others = count("TaskQueue = 'crash' AND ExecutionStatus != 'Completed'").await?;
            if completed != workflows as i64 || others != 0 {
                self.shared.ledger.breach(Breach::Wrong(format!(
                    "{workflows} workflows completed, node {} lists {completed}, and {others} that did not",
                    node.name()
                )));
            }
        }
        Ok(())
    }

    async fn check_database(&self) -> Result<()> {
        for (what, sql) in NOTHING_LEFT {
            let mut found = self.cluster.sql(sql).await?;
            // Deliveries end a moment after what they are about.
            for _ in 0..50 {
                if found == "0" {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(200)).await;
                found = self.cluster.sql(sql).await?;
            }
            if found != "0" {
                self.shared.ledger.breach(Breach::Wrong(format!("{found} {what}")));
            }
        }
        Ok(())
    }

    /// Nobody loses its place while nothing happens, and nobody ever wrote a run that another node owned.
    async fn check_quiet(&self) -> Result<()> {
        let names = "SELECT string_agg(node || ' ' || name, ', ' ORDER BY node) FROM segno.nodes";
        let before = self.cluster.sql(names).await?;
        tokio::time::sleep(Duration::from_secs(2 * self.options.lease)).await;
        let after = self.cluster.sql(names).await?;
        if before != after {
            self.shared
                .ledger
                .breach(Breach::Wrong(format!("nothing happened, and yet the nodes changed from {before} to {after}")));
        }
        for node in &self.cluster.nodes {
            let log = node.log();
            let found: Vec<&str> =
                log.lines().filter(|line| line.contains(CONFLICT) || line.contains("panicked")).collect();
            if let Some(first) = found.first() {
                self.shared.ledger.breach(Breach::Wrong(format!(
                    "{} lines of the log of {} must not be there: {first}",
                    found.len(),
                    node.name()
                )));
            }
        }
        Ok(())
    }
}
