//! One-activity workflows with nothing else there, and again on top of many that are open and wait.

use std::rc::Rc;

use anyhow::Result;

use super::{fill, outcome::Outcome, session::Session, worker::Workers, workflows};

/// The same work before and after the server was filled.
pub async fn run(session: &Rc<Session>) -> Result<Vec<Outcome>> {
    let workers = Workers::start(session);
    workflows::warm(session).await;
    let none = workflows::measure(session, "none open", "one-activity", "-none").await?;
    let rss_mib = session.rss_mib();
    let mut filled = fill::open(session, "opened").await?;
    if let Some((before, after)) = rss_mib.zip(session.rss_mib()) {
        filled.extras.push(("memory growth, KiB/workflow".to_owned(), filled.each((after - before) * 1024.0)));
    }
    let mut many = workflows::measure(session, "many open", "one-activity", "-many").await?;
    workers.stop().await;
    many.extras.push(("open workflows".to_owned(), filled.count() as f64));
    if let Some((none_cost, many_cost)) = none.cost.zip(many.cost) {
        let ratio = many.each(many_cost.cpu_ms) / none.each(none_cost.cpu_ms);
        many.extras.push(("CPU per workflow, many/none open".to_owned(), ratio));
    }
    Ok(vec![none, filled, many])
}
