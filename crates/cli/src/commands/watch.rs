//! `--watch`: repeats the output of a command until the user stops it.

use std::{
    io::{self, IsTerminal, Write},
    time::Duration,
};

use clap::Args;

use crate::{
    args,
    client::{Client, ClientError, is_interruption},
    exit,
};
use segno_proto::Nanos;

/// Whether and how often a command repeats its output.
#[derive(Args, Clone, Debug)]
pub struct Watch {
    /// Repeat the output until Ctrl-C.
    #[arg(long)]
    watch: bool,
    /// Pause between repetitions.
    #[arg(long, value_name = "DURATION", value_parser = args::duration, default_value = "2s", requires = "watch")]
    interval: Nanos,
}

impl Watch {
    /// Runs the command once, or until Ctrl-C. On a terminal each output replaces the previous one.
    pub async fn repeat(
        self,
        client: &mut Client,
        mut look: impl AsyncFnMut(&mut Client) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        if !self.watch {
            return look(client).await;
        }
        let pause = Duration::from_nanos(self.interval.unsigned_abs()).max(Duration::from_millis(100));
        let mut is_first = true;
        loop {
            if io::stdout().is_terminal() && !client.is_json() {
                // Erases the screen and begins at its top.
                print!("\x1b[2J\x1b[H");
                io::stdout().flush()?;
            }
            match look(client).await {
                // The server is away; the next look may find it.
                Err(error) if !is_first && is_interrupted(&error) => eprintln!("segno: {}", exit::text(&error)),
                result => result?,
            }
            is_first = false;
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                _ = tokio::signal::ctrl_c() => return Ok(()),
            }
        }
    }
}

fn is_interrupted(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(ClientError::Status { status, .. }) if is_interruption(status))
}
