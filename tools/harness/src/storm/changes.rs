//! Changes that all nodes must have, made while one node and the others hear nothing of each other; all reach the database.
//!
//! A key is revoked and a script deployed, each through two nodes, because one of them may not reach the node that makes the
//! change. As soon as a command has returned, no node may know the key and no node may start the version before. Which node
//! starts a workflow follows from its id, so that several are started through each.

use std::{future::Future, time::Duration};

use anyhow::{Context, Result, bail};
use segno_proto::{
    segno_access::{CreateKeyRequest, Key, ListKeysRequest, RevokeKeyRequest},
    segno_flow::DeployRequest,
};
use tokio::task::JoinSet;
use tonic::{Code, Status};

use super::{
    Storm,
    nemesis::heal,
    proxy::{Fault, FaultTarget},
};
use crate::{
    crash::{flows::insist, ledger::Breach},
    wire::{self, CALL_TIMEOUT, Client, NAMESPACE},
};

const TYPE: &str = "changing";
const QUEUE: &str = "storm-changes";
/// Workflows started through each node.
const STARTS: usize = 24;
/// What needs another node is not answered in that silence.
const START_MAX: Duration = Duration::from_secs(4);
/// A script ends at once.
const SCRIPT_END_MAX: Duration = Duration::from_secs(15);
/// What a command may take on a busy machine.
const COMMAND_MAX: Duration = Duration::from_secs(30);

impl Storm<'_> {
    /// Lets it happen, and heals the links.
    pub(super) async fn change_silently(&mut self) -> Result<()> {
        self.cluster.wait_together().await?;
        let ports: Vec<u16> = self.cluster.nodes.iter().map(|node| node.port()).collect();
        let at = self.random.up_to(ports.len() as u64 - 1) as usize;
        let other = (at + 1 + self.random.up_to(ports.len() as u64 - 2) as usize) % ports.len();
        let tag = format!("{:08x}", self.random.next() & 0xffff_ffff);
        let names = [format!("{tag}-a"), format!("{tag}-b")];
        for name in &names {
            insist(async || create_key(ports[at], name).await).await?;
            self.check_key(&ports, name, true).await?;
        }
        insist(async || deploy(ports[at], &format!("{tag}-0")).await).await?;

        let process = self.cluster.nodes[at].process().context("a node is away")?;
        for (number, node) in self.cluster.nodes.iter().enumerate() {
            node.links.set(Fault::Silent, if number == at { FaultTarget::All } else { FaultTarget::Process(process) });
        }
        let through = [ports[other], ports[at]];
        let revoked = first([0, 1].map(|which| revoke(through[which], names[which].clone())));
        let (revoked, _) = revoked.await.context("no node revoked a key")?;
        self.check_key(&ports, &revoked, false).await?;
        let texts = [format!("{tag}-1"), format!("{tag}-2")];
        let deployed = first([0, 1].map(|which| deployed(through[which], texts[which].clone())));
        let (deployed, mut other_deployment) = deployed.await.context("no node deployed a script")?;
        let started = start_all(&ports, &tag).await?;
        heal(&mut self.cluster).await?;
        let mut deployed = vec![deployed];
        // The other command may have been carried out while workflows were started, or not at all.
        while let Some(ended) = other_deployment.join_next().await {
            deployed.extend(ended?);
        }
        self.check_results(&started, &deployed).await?;
        let own = started.iter().filter(|(through, ..)| *through == at).count();
        println!("          {} runs were started, {own} of them at the node without links", started.len());
        if own == 0 {
            bail!("the node without links started nothing: this proves nothing");
        }
        Ok(())
    }

    /// Every node knows the key, or none does.
    async fn check_key(&self, ports: &[u16], name: &str, expected: bool) -> Result<()> {
        for (number, port) in ports.iter().enumerate() {
            let listed = wire::client(*port)?.insist(&ListKeysRequest {}).await?;
            let found = listed.keys.iter().any(|key| key.name == name);
            if found != expected {
                let what = if expected { "does not know a key that was made" } else { "knows a key that was revoked" };
                let node = self.cluster.nodes[number].name();
                self.shared.ledger.breach(Breach::Wrong(format!("{node} {what}, {name}")));
            } else {
                self.shared.ledger.count_fact();
            }
        }
        Ok(())
    }

    /// Every run has a version that was deployed by then.
    async fn check_results(&self, started: &[(usize, String, String)], deployed: &[String]) -> Result<()> {
        let mut client = wire::client(self.cluster.gates[0].port)?;
        for (through, id, run_id) in started {
            let ended = insist(async || wire::wait_closed(&mut client, id, run_id).await);
            let result = match tokio::time::timeout(SCRIPT_END_MAX, ended).await {
                Ok(event) => wire::closing_result(&event?),
                Err(_) => "nothing".to_owned(),
            };
            if deployed.contains(&result) {
                self.shared.ledger.count_fact();
                continue;
            }
            let node = self.cluster.nodes[*through].name();
            let deployed = deployed.join(" and ");
            let what = format!("{deployed} was deployed, and {node} started a run of it that gave {result}");
            self.shared.ledger.breach(Breach::Wrong(what));
            return Ok(());
        }
        Ok(())
    }
}

/// The first of two commands that succeeds, and the other one if it is still under way.
async fn first<F>(calls: [F; 2]) -> Result<(String, JoinSet<Result<String, Status>>)>
where
    F: Future<Output = Result<String, Status>> + 'static,
{
    let mut under_way = JoinSet::new();
    for call in calls {
        under_way.spawn_local(call);
    }
    let mut refusals = Vec::new();
    while let Some(ended) = under_way.join_next().await {
        match ended? {
            Ok(done) => return Ok((done, under_way)),
            Err(status) => refusals.push(status.to_string()),
        }
    }
    bail!("neither node made it: {refusals:?}")
}

async fn create_key(port: u16, name: &str) -> Result<(), Status> {
    let key = Key { name: name.to_owned(), grants: vec!["default:read".to_owned()], ..Default::default() };
    match client(port)?.call(CreateKeyRequest { key: Some(key) }, CALL_TIMEOUT).await {
        // An attempt without an answer made it.
        Err(status) if status.code() != Code::AlreadyExists => Err(status),
        _ => Ok(()),
    }
}

async fn revoke(port: u16, name: String) -> Result<String, Status> {
    client(port)?.call(RevokeKeyRequest { name: name.clone() }, COMMAND_MAX).await?;
    Ok(name)
}

fn client(port: u16) -> Result<Client, Status> {
    wire::client(port).map_err(|error| Status::internal(error.to_string()))
}

/// Deploys a script whose runs give a text.
async fn deploy(port: u16, text: &str) -> Result<(), Status> {
    let message = DeployRequest {
        namespace: NAMESPACE.to_owned(),
        source: format!("workflow {TYPE}() {{\n  return \"{text}\"\n}}\n").into(),
        file_name: "changing.flow".to_owned(),
        take_over: true,
        ..Default::default()
    };
    client(port)?.call(message, COMMAND_MAX).await.map(drop)
}

async fn deployed(port: u16, text: String) -> Result<String, Status> {
    deploy(port, &text).await?;
    Ok(text)
}

/// Starts workflows through each node; those that were acknowledged, with the number of the node.
async fn start_all(ports: &[u16], tag: &str) -> Result<Vec<(usize, String, String)>> {
    let mut starts = JoinSet::new();
    for (through, port) in ports.iter().enumerate() {
        let client = wire::client(*port)?;
        for number in 0..STARTS {
            let (mut client, id) = (client.clone(), format!("{TYPE}-{tag}-{through}-{number}"));
            starts.spawn_local(async move {
                let call = wire::start(TYPE, &id, QUEUE, "");
                let started = client.call(call, START_MAX).await.ok()?;
                Some((through, id, started.run_id))
            });
        }
    }
    Ok(starts.join_all().await.into_iter().flatten().collect())
}
