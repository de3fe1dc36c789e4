//! `segno flow lsp`.

use anyhow::Context;
use clap::Args;
use segno_flow_lsp::{Connection, Ending};

use crate::client::ClientError;

#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Example (editors start it):\n  segno flow lsp\n\nNo server is needed. docs/editors in the sources says how to set up \
                        VS Code, Neovim and Helix."
)]
pub struct Lsp {
    /// Accepted without effect, for editors that pass it: standard input and output are always used.
    #[arg(long)]
    stdio: bool,
}

impl Lsp {
    /// Serves one editor until it asks for the end.
    pub fn run(self) -> anyhow::Result<()> {
        let (connection, threads) = Connection::stdio();
        let ending = segno_flow_lsp::run(&connection);
        // The thread that writes ends when there is no sender.
        drop(connection);
        // The thread that reads ends with the input or with the message `exit`, as `run` does.
        threads.join().context("speaking with the editor")?;
        match ending {
            Ending::Shutdown => Ok(()),
            Ending::Abrupt => {
                Err(ClientError::Outcome("the editor ended without the request shutdown".to_owned()).into())
            }
        }
    }
}
