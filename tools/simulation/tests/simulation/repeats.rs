//! A seed is a life: the same one twice, in one process and in two.

use std::process::Command;

use segno_simulation::{live, scenario::Scenario};

/// Of several kinds: with crashes, pauses, full disks, lost messages.
const SEEDS: [u64; 6] = [1, 2, 3, 4, 5, 6];

#[test]
fn the_same_seed_is_the_same_life() {
    let mut hashes = Vec::new();
    for seed in SEEDS {
        let scenario = Scenario::of_seed(seed);
        let (first, second) = (live(&scenario, true), live(&scenario, true));
        let differs = first.lines.iter().zip(&second.lines).position(|(first, second)| first != second);
        if let Some(place) = differs {
            panic!("seed {seed} differs at line {place}: {} / {}", first.lines[place], second.lines[place]);
        }
        assert_eq!(first, second, "seed {seed}");
        assert!(first.steps > 50, "seed {seed}: much happens");
        hashes.push(first.hash);
    }
    hashes.dedup();
    assert_eq!(hashes.len(), SEEDS.len(), "other seeds are other lives");
}

#[test]
fn another_process_lives_the_same() {
    for seed in SEEDS {
        let here = live(&Scenario::of_seed(seed), false);
        let there = Command::new(env!("CARGO_BIN_EXE_segno-simulation"))
            .args(["--seed", &seed.to_string()])
            .output()
            .expect("the program starts");
        let text = String::from_utf8_lossy(&there.stdout);
        assert!(text.contains(&format!("hash {:016x}", here.hash)), "seed {seed}: {text}");
    }
}
