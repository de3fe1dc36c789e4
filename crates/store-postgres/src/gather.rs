//! Reads that share a statement: reads that arrive while one is under way are sent together, as commits are.

use std::sync::Arc;

use segno_store::{NamespaceKey, ReadError, RunKey, RunRecord};
use tokio::sync::{mpsc, oneshot};

use crate::connect::Link;
use crate::read;

/// Most reads in one statement.
const GATHERED_MAX: usize = 256;
/// Most reads that wait. Beyond, they fail at once.
const WAITING_MAX: usize = 10_000;

type LoadedRun = Result<Option<RunRecord>, ReadError>;
/// The pointer and the run it names.
type NamedRun = Result<Option<(RunKey, LoadedRun)>, ReadError>;

enum Question {
    Run(RunKey, oneshot::Sender<LoadedRun>),
    Name((NamespaceKey, String), oneshot::Sender<NamedRun>),
}

/// Handle to the reader.
#[derive(Clone)]
pub(crate) struct Gather(mpsc::Sender<Question>);

impl Gather {
    pub(crate) fn start(link: Arc<Link>) -> Self {
        let (sender, questions) = mpsc::channel(WAITING_MAX);
        tokio::spawn(answer(link, questions));
        Self(sender)
    }

    pub(crate) async fn load(self, key: RunKey) -> LoadedRun {
        let (sender, answer) = oneshot::channel();
        self.0.try_send(Question::Run(key, sender)).map_err(not_taken)?;
        answer.await.unwrap_or_else(|_| Err(closed()))
    }

    pub(crate) async fn current(self, namespace: NamespaceKey, workflow_id: String) -> NamedRun {
        let (sender, answer) = oneshot::channel();
        self.0.try_send(Question::Name((namespace, workflow_id), sender)).map_err(not_taken)?;
        answer.await.unwrap_or_else(|_| Err(closed()))
    }
}

fn closed() -> ReadError {
    ReadError::Failed("the server is shutting down".to_owned())
}

/// Why a question was not taken: too many wait, or the task that answers is over.
fn not_taken(error: mpsc::error::TrySendError<Question>) -> ReadError {
    match error {
        mpsc::error::TrySendError::Full(_) => too_many(),
        mpsc::error::TrySendError::Closed(_) => closed(),
    }
}

fn too_many() -> ReadError {
    ReadError::Failed("too many reads wait for the database".to_owned())
}

async fn answer(link: Arc<Link>, mut questions: mpsc::Receiver<Question>) {
    let mut gathered = Vec::with_capacity(GATHERED_MAX);
    while questions.recv_many(&mut gathered, GATHERED_MAX).await > 0 {
        let (mut runs, mut run_askers, mut names, mut name_askers) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for question in gathered.drain(..) {
            match question {
                Question::Run(key, asker) => {
                    runs.push(key);
                    run_askers.push(asker);
                }
                Question::Name(name, asker) => {
                    names.push(name);
                    name_askers.push(asker);
                }
            }
        }
        let load = async {
            if runs.is_empty() {
                return;
            }
            match read::load_many(&link, &runs).await {
                Ok(found) => run_askers.into_iter().zip(found).for_each(|(asker, found)| drop(asker.send(found))),
                Err(error) => run_askers.into_iter().for_each(|asker| drop(asker.send(Err(error.clone())))),
            }
        };
        let look_up = async {
            if names.is_empty() {
                return;
            }
            match read::current_many(&link, &names).await {
                Ok(found) => name_askers.into_iter().zip(found).for_each(|(asker, found)| drop(asker.send(Ok(found)))),
                Err(error) => name_askers.into_iter().for_each(|asker| drop(asker.send(Err(error.clone())))),
            }
        };
        tokio::join!(load, look_up);
    }
}
