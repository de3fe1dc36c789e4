//! A node's place in the database: its row, its lanes, its beat.
//!
//! This server is one node on its database. A second one that starts while the first is alive is refused. One that finds the
//! row of a node whose beat stands still takes its place: it deletes that node's lanes in the same transaction, and from
//! then on nothing of it can be stored.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use tokio_postgres::Client;

use crate::OpenError;
use crate::connect::{Common, Link, Purpose, describe, failed};

/// A node counts its beat up this often.
pub(crate) const BEAT: Duration = Duration::from_secs(1);
/// A beat that stood still for so long belongs to a node that is gone: more than two beats.
const STILL: Duration = Duration::from_millis(2_500);
const LOOK: Duration = Duration::from_millis(250);
/// The format of what this binary stores.
const FORMAT: i32 = 1;

/// A node's place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) node: i64,
    pub(crate) slot: i16,
}

/// Takes a place, once no other node is alive.
pub(crate) async fn join(client: &Client, name: &str) -> Result<Place, OpenError> {
    let before = others(client).await?;
    if !before.is_empty() {
        tracing::info!("another node was on this database; waiting whether it is alive");
        let until = tokio::time::Instant::now() + STILL;
        while tokio::time::Instant::now() < until {
            tokio::time::sleep(LOOK).await;
            let now = others(client).await?;
            let alive =
                now.iter().find(|(node, _, beat)| !before.iter().any(|(old, _, seen)| old == node && seen == beat));
            if let Some((_, name, _)) = alive {
                return Err(OpenError::OtherNode { name: name.clone() });
            }
            if now.is_empty() {
                break;
            }
        }
    }
    let result = take_place(client, name, &before).await;
    if result.is_err() {
        let _ = client.batch_execute("ROLLBACK").await;
    }
    result
}

async fn others(client: &Client) -> Result<Vec<(i64, String, i64)>, OpenError> {
    let rows = client.query("SELECT node, name, beat FROM segno.nodes ORDER BY node", &[]).await.map_err(failed)?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect())
}

async fn take_place(client: &Client, name: &str, gone: &[(i64, String, i64)]) -> Result<Place, OpenError> {
    client.batch_execute("BEGIN").await.map_err(failed)?;
    let format: i32 =
        client.query_one("SELECT format FROM segno.cluster FOR UPDATE", &[]).await.map_err(failed)?.get(0);
    if format > FORMAT {
        return Err(OpenError::NewerFormat { found: format, known: FORMAT });
    }
    for (node, _, beat) in gone {
        // If it beats again, it came back.
        client.execute("DELETE FROM segno.nodes WHERE node = $1 AND beat = $2", &[node, beat]).await.map_err(failed)?;
    }
    if let Some((_, name, _)) = others(client).await?.into_iter().next() {
        return Err(OpenError::OtherNode { name });
    }
    // Waits for a group under way; none follows.
    client.execute("DELETE FROM segno.lanes", &[]).await.map_err(failed)?;
    let node: i64 = client
        .query_one("UPDATE segno.cluster SET next_node = next_node + 1, map = map + 1 RETURNING next_node - 1", &[])
        .await
        .map_err(failed)?
        .get(0);
    let insert = "INSERT INTO segno.nodes (node, name, address, version, format, beat) VALUES ($1, $2, '', $3, $4, 0)";
    client.execute(insert, &[&node, &name, &env!("CARGO_PKG_VERSION"), &FORMAT]).await.map_err(failed)?;
    let slot = 0_i16;
    let insert = "INSERT INTO segno.lanes (node, lane, slot, last_group) VALUES ($1, 0, $2, 0)";
    client.execute(insert, &[&node, &slot]).await.map_err(failed)?;
    client.batch_execute("COMMIT").await.map_err(failed)?;
    Ok(Place { node, slot })
}

/// Gives the place back, so that the next server need not wait.
pub(crate) async fn leave(client: &Client, node: i64) -> Result<(), tokio_postgres::Error> {
    // One message is one transaction.
    client
        .batch_execute(&format!(
            "DELETE FROM segno.nodes WHERE node = {node}; DELETE FROM segno.lanes WHERE node = {node}"
        ))
        .await
}

/// Beats until the node's row is gone or the store is closed. `true` if the row is gone.
pub(crate) async fn beat(common: Arc<Common>, node: i64, answered: Arc<AtomicI64>) -> bool {
    let link = Link::new(common.clone(), Purpose::Pulse);
    let mut next = tokio::time::interval(BEAT);
    next.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    while !common.closing.load(Ordering::Acquire) {
        next.tick().await;
        let Ok(session) = link.session(Duration::from_secs(1)).await else { continue };
        let update = "UPDATE segno.nodes SET beat = beat + 1 WHERE node = $1 RETURNING beat";
        let beat = async {
            let statement = session.prepare(update).await?;
            session.client.query_opt(&statement, &[&node]).await
        };
        match tokio::time::timeout(Duration::from_secs(5), beat).await {
            Ok(Ok(Some(row))) => answered.store(row.get(0), Ordering::Release),
            Ok(Ok(None)) => return !common.closing.load(Ordering::Acquire),
            Ok(Err(error)) => {
                tracing::warn!("a beat failed: {}", describe(&error));
                session.give_up();
            }
            Err(_) => session.give_up(),
        }
    }
    false
}
