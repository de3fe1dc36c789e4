//! `segno workflow verify`.

use clap::Args;
use segno_proto::segno_verification::Candidate;

use crate::{client::Client, commands::verification::VerifyOptions};

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  segno workflow verify --task-queue orders --on orders-candidate\n\n\
    Workers with the new code poll the queue orders-candidate and nothing else. The runs do not change.")]
pub struct Verify {
    /// Task queue of the runs.
    #[arg(short, long, value_name = "NAME")]
    task_queue: String,
    /// Task queue that workers with the new code poll.
    #[arg(long, value_name = "NAME")]
    on: String,
    #[command(flatten)]
    options: VerifyOptions,
}

impl Verify {
    /// Lets the workers of the other queue replay open runs.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let candidate = Candidate { task_queue: self.task_queue, on_task_queue: self.on, ..Default::default() };
        self.options.run(client, candidate, true).await
    }
}
