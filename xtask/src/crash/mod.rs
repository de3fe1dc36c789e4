//! stub
pub fn command(_: crate::args::Args) -> anyhow::Result<()> {
    Ok(())
}
