//! Nothing: the dependencies in `Cargo.toml` are all there is.
