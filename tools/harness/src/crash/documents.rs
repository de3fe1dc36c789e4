//! Documents of the whole server: access keys and deployed scripts.
//!
//! One client creates and revokes keys and deploys one version of a script after the other. It is the only one that does, so
//! after each acknowledged change it knows all keys and the version that the next start must execute, also after a crash.

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

use segno_proto::{
    segno_access::{CreateKeyRequest, Key, ListKeysRequest, RevokeKeyRequest},
    segno_flow::DeployRequest,
};
use tonic::{Code, Status};

use super::{
    flows::{QUEUE, Shared, insist},
    ledger::Breach,
};
use crate::wire::{self, Client, NAMESPACE};

/// Keys beyond these are revoked, the oldest first.
const KEYS_MAX: usize = 8;
/// The script of this client.
const SCRIPT: &str = "versioned";

/// What the server acknowledged, and in which rounds.
#[derive(Default)]
struct AcknowledgedDocuments {
    /// Keys that exist, with the rounds of their creation.
    keys: BTreeMap<String, u32>,
    /// The round of the last revocation.
    revoked: u32,
    version: u64,
    deployed: u32,
}

/// The only client that changes documents.
struct Author(Client);

/// Changes keys and scripts until the campaign stops.
pub async fn run(shared: Rc<Shared>, client: Client) {
    if let Err(breach) = change(&shared, Author(client)).await {
        shared.ledger.breach(breach);
    }
}

async fn change(shared: &Shared, mut author: Author) -> Result<(), Breach> {
    let mut known = AcknowledgedDocuments::default();
    for number in 1.. {
        if shared.stopping.get() {
            break;
        }
        author.deploy(number).await?;
        (known.version, known.deployed) = (number, shared.ledger.round());
        shared.ledger.count_fact();
        author.check_version(shared, &known, number).await?;

        let name = format!("key-{number:06}");
        author.create_key(&name).await?;
        known.keys.insert(name, shared.ledger.round());
        shared.ledger.count_fact();
        if known.keys.len() > KEYS_MAX
            && let Some((oldest, _)) = known.keys.pop_first()
        {
            author.revoke_key(&oldest).await?;
            known.revoked = shared.ledger.round();
            shared.ledger.count_fact();
        }
        author.check_keys(shared, &known).await?;
    }
    // The server has been started anew since the last change, or it has not: both must show the same.
    author.check_keys(shared, &known).await?;
    author.check_version(shared, &known, u64::MAX).await
}

impl Author {
    async fn deploy(&mut self, version: u64) -> Result<(), Breach> {
        let message = DeployRequest {
            namespace: NAMESPACE.to_owned(),
            source: format!("workflow {SCRIPT}() {{\n  return \"{version}\"\n}}\n").into(),
            file_name: "versioned.flow".to_owned(),
            take_over: true,
            ..Default::default()
        };
        let deployed = self.0.insist(&message).await;
        deployed.map(|_| ()).map_err(|status| refused("deployment of", SCRIPT, &status))
    }

    /// A start executes the version that was deployed last.
    async fn check_version(
        &mut self,
        shared: &Shared,
        known: &AcknowledgedDocuments,
        number: u64,
    ) -> Result<(), Breach> {
        if known.version == 0 {
            return Ok(());
        }
        let id = format!("{SCRIPT}-{number}");
        let call = wire::start(SCRIPT, &id, QUEUE, "");
        let started = self.0.insist(&call).await;
        let run_id = started.map_err(|status| refused("start of", &id, &status))?.run_id;
        let closed = insist(async || wire::wait_closed(&mut self.0, &id, &run_id).await).await;
        let result = wire::closing_result(&closed.map_err(|status| refused("result of", &id, &status))?);
        if result == known.version.to_string() {
            return Ok(());
        }
        let text = format!("{id} ended with `{result}`, but version {} was deployed", known.version);
        Err(missing(shared, known.deployed, text))
    }

    async fn create_key(&mut self, name: &str) -> Result<(), Breach> {
        let key = Key { name: name.to_owned(), grants: vec!["default:read".to_owned()], ..Default::default() };
        let call = CreateKeyRequest { key: Some(key) };
        let created = self.0.insist_once(&call, Code::AlreadyExists).await;
        created.map(drop).map_err(|status| refused("creation of", name, &status))
    }

    async fn revoke_key(&mut self, name: &str) -> Result<(), Breach> {
        let call = RevokeKeyRequest { name: name.to_owned() };
        let revoked = self.0.insist_once(&call, Code::NotFound).await;
        revoked.map(drop).map_err(|status| refused("revocation of", name, &status))
    }

    async fn check_keys(&mut self, shared: &Shared, known: &AcknowledgedDocuments) -> Result<(), Breach> {
        let listed = self.0.insist(&ListKeysRequest {}).await;
        let listed = listed.map_err(|status| refused("list of", "keys", &status))?.keys;
        let listed: BTreeSet<String> = listed.into_iter().map(|key| key.name).collect();
        if let Some((name, round)) = known.keys.iter().find(|(name, _)| !listed.contains(*name)) {
            return Err(missing(shared, *round, format!("{name} was created, but is not among {listed:?}")));
        }
        if let Some(name) = listed.iter().find(|name| !known.keys.contains_key(*name)) {
            return Err(missing(shared, known.revoked, format!("{name} was revoked, but is among {listed:?}")));
        }
        Ok(())
    }
}

fn missing(shared: &Shared, round: u32, text: String) -> Breach {
    if shared.ledger.crashed_since(round) { Breach::Lost(text) } else { Breach::Wrong(text) }
}

fn refused(call: &str, name: &str, status: &Status) -> Breach {
    Breach::Wrong(format!("{call} {name} was refused: {:?} {}", status.code(), status.message()))
}
