//! Fuzz targets: functions that take any bytes and must neither panic, nor hang, nor pass a limit.
//!
//! One for each door through which bytes come in that others wrote: the network, what users type, what lies on the disk.
//! `cargo xtask fuzz` compiles them with counters of coverage and lets libFuzzer search. Each target has seeds, where a search
//! begins; a test gives every seed to its target.

// The protocol carries fields that its authors have replaced but that workers still send.
#![allow(deprecated)]

mod filters;
mod flow_memory;
mod http2;
mod nexus;
#[cfg(feature = "server")]
mod requests;
mod rows;
mod schedules;
mod scripts;
#[cfg(feature = "server")]
mod tokens;

/// For the target `flow-memory`; the others have no bound.
#[global_allocator]
static ALLOCATOR: flow_memory::BoundedAllocator = flow_memory::BoundedAllocator;

/// A function with a name.
#[derive(Debug)]
pub struct Target {
    /// For `SEGNO_FUZZ_TARGET`, and the name of its directory of seeds.
    pub name: &'static str,
    /// Panics if a property does not hold.
    pub run: fn(&[u8]),
    /// What it begins with: a name and the bytes.
    pub seeds: fn() -> Vec<(String, Vec<u8>)>,
}

/// All targets that were compiled.
pub const TARGETS: &[Target] = &[
    Target { name: "filters", run: filters::run, seeds: filters::seeds },
    Target { name: "flow-memory", run: flow_memory::run, seeds: flow_memory::seeds },
    Target { name: "hpack", run: http2::run_hpack, seeds: http2::hpack_seeds },
    Target { name: "http2", run: http2::run, seeds: http2::seeds },
    Target { name: "nexus", run: nexus::run, seeds: nexus::seeds },
    #[cfg(feature = "server")]
    Target { name: "requests", run: requests::run, seeds: requests::seeds },
    Target { name: "rows", run: rows::run, seeds: rows::seeds },
    Target { name: "schedules", run: schedules::run, seeds: schedules::seeds },
    Target { name: "scripts", run: scripts::run, seeds: scripts::seeds },
    #[cfg(feature = "server")]
    Target { name: "tokens", run: tokens::run, seeds: tokens::seeds },
];

/// A target with a fault that chance alone does not find: a search that finds it sees coverage.
pub const FAULTY: Target = Target { name: "faulty", run: faulty, seeds: || vec![("empty".to_owned(), Vec::new())] };

fn faulty(input: &[u8]) {
    let word = b"coda";
    let mut same = 0;
    while same < word.len() && input.get(same) == Some(&word[same]) {
        same += 1;
    }
    assert!(same < word.len() || input.len() != 9, "the fault that was to be found");
}

#[cfg(test)]
mod tests {
    use super::TARGETS;

    /// Each target accepts its seeds, cut anywhere.
    #[test]
    fn seeds() {
        for target in TARGETS {
            let seeds = (target.seeds)();
            assert!(!seeds.is_empty(), "{}", target.name);
            for (name, seed) in seeds {
                println!("{} {name}", target.name);
                (target.run)(&seed);
                (target.run)(&seed[..seed.len() / 2]);
            }
        }
    }
}
