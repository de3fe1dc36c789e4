//! libFuzzer's program. `SEGNO_FUZZ_TARGET` names the target, `SEGNO_FUZZ_CORPUS` the directory that gets its seeds; the
//! arguments are libFuzzer's own.

#![no_main]

use std::{path::PathBuf, sync::LazyLock};

use libfuzzer_sys::fuzz_target;
use segno_fuzz::{FAULTY, TARGETS, Target};

static TARGET: LazyLock<&Target> = LazyLock::new(|| {
    let name = std::env::var("SEGNO_FUZZ_TARGET").unwrap_or_default();
    TARGETS.iter().chain([&FAULTY]).find(|target| target.name == name).unwrap_or_else(|| {
        let names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
        eprintln!("SEGNO_FUZZ_TARGET is to be one of {}", names.join(", "));
        std::process::exit(64)
    })
});

fn write_seeds() {
    let Some(place) = std::env::var_os("SEGNO_FUZZ_CORPUS").map(PathBuf::from) else { return };
    for (name, bytes) in (TARGET.seeds)() {
        if let Err(error) = std::fs::write(place.join(format!("seed-{name}")), bytes) {
            eprintln!("a seed cannot be written to {}: {error}", place.display());
            std::process::exit(74);
        }
    }
}

fuzz_target!(
    init: write_seeds(),
    |input: &[u8]| (TARGET.run)(input)
);
