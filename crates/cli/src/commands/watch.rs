//! `--watch`: the same output again and again, until the user has seen enough.

use std::{
    io::{self, IsTerminal, Write},
    time::Duration,
};

use clap::Args;

use crate::{args, client::Client};
use segno_proto::Nanos;

/// Whether and how often a command repeats itself.
#[derive(Args, Clone, Debug)]
pub struct Watch {
    /// Show it again and again, until Ctrl-C.
    #[arg(long)]
    watch: bool,
    /// The pause between two looks.
    #[arg(long, value_name = "DURATION", value_parser = args::duration, default_value = "2s", requires = "watch")]
    interval: Nanos,
}

impl Watch {
    /// Looks once, or until the user ends it. On a terminal each look takes the place of the one before.
    pub async fn repeat(
        self,
        client: &mut Client,
        mut look: impl AsyncFnMut(&mut Client) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        if !self.watch {
            return look(client).await;
        }
        let pause = Duration::from_nanos(self.interval.unsigned_abs()).max(Duration::from_millis(100));
        loop {
            if io::stdout().is_terminal() && !client.is_json() {
                // Erases the screen and begins at its top.
                print!("\x1b[2J\x1b[H");
                io::stdout().flush()?;
            }
            look(client).await?;
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                _ = tokio::signal::ctrl_c() => return Ok(()),
            }
        }
    }
}
