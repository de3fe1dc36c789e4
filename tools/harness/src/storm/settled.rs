//! The end of a storm: everything is healed, comes to its end, and is compared with what was acknowledged.

use std::{
    rc::Rc,
    time::{Duration, UNIX_EPOCH},
};

use anyhow::Result;
use segno_proto::workflowservice::CountWorkflowExecutionsRequest;
use tokio::task::JoinSet;

use super::{Storm, append};
use crate::{
    crash::{
        ledger::{Breach, Facts},
        verify,
    },
    wire::{self, Client, NAMESPACE},
};

/// How long the last workflows may take once nothing happens.
const DRAIN_MAX: Duration = Duration::from_secs(90);

/// Times in the database may be so many seconds outside of the storm.
const CLOCK_SLACK: u64 = 60;

/// What must be zero in the database once everything has ended.
const NOTHING_LEFT: [(&str, &str); 6] = [
    ("messages that were not received", "SELECT count(*) FROM segno.outbox"),
    (
        "shards without a living owner",
        "SELECT count(*) FROM segno.shards s WHERE s.node IS NULL OR NOT EXISTS (SELECT 1 FROM segno.nodes n WHERE n.node = s.node)",
    ),
    (
        "lanes without a node",
        "SELECT count(*) FROM segno.lanes l WHERE NOT EXISTS (SELECT 1 FROM segno.nodes n WHERE n.node = l.node)",
    ),
    (
        "nodes without a lane",
        "SELECT count(*) FROM segno.nodes n WHERE NOT EXISTS (SELECT 1 FROM segno.lanes l WHERE l.node = n.node)",
    ),
    (
        "runs that are open",
        "SELECT count(*) FROM segno.runs WHERE open AND workflow_type IN ('activity', 'signals', 'timer', 'parent', 'sender', 'receiver', 'updates', 'script', 'append', 'asked', 'sleeper')",
    ),
    (
        "current pointers to no run",
        "SELECT count(*) FROM segno.current c WHERE NOT EXISTS (SELECT 1 FROM segno.runs r WHERE r.run_key = c.run_key)",
    ),
];

/// What a node logs when it finds that another node wrote a run that it owns.
const CONFLICT: &str = "what is stored is not what this node knows";

/// How many workflows match a query.
pub(super) async fn count(client: &mut Client, query: &str) -> Result<i64> {
    let call = CountWorkflowExecutionsRequest { namespace: NAMESPACE.to_owned(), query: query.to_owned() };
    let counted = client.insist(&call).await;
    Ok(counted?.count)
}

/// How many workflows of the load completed, and how many did not.
pub(super) async fn closed(client: &mut Client) -> Result<(i64, i64)> {
    let completed = count(client, "TaskQueue = 'crash' AND ExecutionStatus = 'Completed'").await?;
    Ok((completed, count(client, "TaskQueue = 'crash' AND ExecutionStatus != 'Completed'").await?))
}

impl Storm<'_> {
    /// Lets everything under way come to its end, then checks all of it.
    pub(super) async fn settle(&mut self) -> Result<()> {
        let breach = |what: String| self.shared.ledger.breach(Breach::Wrong(what));
        if let Err(error) = self.cluster.wait_together().await {
            breach(format!("{error:#}"));
        }
        self.check_wakes().await?;
        let load = &mut self.load;
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
        self.check_facts(&all, true).await?;
        for node in &self.cluster.nodes {
            append::check_all(&self.shared, &self.lists, &mut wire::client(node.port())?).await;
        }
        self.check_lists(all.len()).await?;
        self.check_database().await?;
        self.check_quiet().await
    }

    /// What was acknowledged about workflows is there, through all nodes: they must agree.
    pub(super) async fn check_facts(&self, facts: &[(String, Facts)], must_be_closed: bool) -> Result<()> {
        let mut checks = JoinSet::new();
        for (number, part) in facts.chunks(facts.len().div_ceil(8).max(1)).enumerate() {
            let client = wire::client(self.cluster.nodes[number % self.cluster.nodes.len()].port())?;
            checks.spawn_local(verify::verify(Rc::clone(&self.shared), client, part.to_vec(), must_be_closed));
        }
        while checks.join_next().await.is_some() {}
        Ok(())
    }

    /// Lists through every node say what the runs say.
    async fn check_lists(&self, workflows: usize) -> Result<()> {
        let workflows = self.closed_before.0 + workflows as i64;
        for node in &self.cluster.nodes {
            let (completed, others) = closed(&mut wire::client(node.port())?).await?;
            if completed != workflows || others != self.closed_before.1 {
                self.shared.ledger.breach(Breach::Wrong(format!(
                    "{workflows} workflows completed, node {} lists {completed}, and {others} that did not",
                    node.name()
                )));
            }
        }
        Ok(())
    }

    async fn check_database(&self) -> Result<()> {
        let begun = self.begun.duration_since(UNIX_EPOCH)?.as_secs();
        let strange = format!(
            "SELECT count(*) FROM segno.runs WHERE NOT open AND (start_time < ({begun}::int8 - {CLOCK_SLACK}) * 1000000000 OR \
             greatest(start_time, ended) > ((extract(epoch FROM clock_timestamp())::int8 + {CLOCK_SLACK}) * 1000000000))"
        );
        let checks =
            NOTHING_LEFT.into_iter().chain([("runs with times of another clock than the database's", &*strange)]);
        for (what, sql) in checks {
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

    /// No node loses its place while nothing happens, and none ever wrote a run that another node owned.
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
