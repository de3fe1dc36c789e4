//! Making a failing scenario smaller: parts are left out as long as something is still found.

use crate::{
    life::live,
    scenario::{Part, Scenario},
};

/// The smallest scenario that was met on the way from a failing one. `tries` bounds the lives that it costs.
pub fn shrink(scenario: &Scenario, mut tries: usize) -> Scenario {
    let mut smallest = scenario.clone();
    let mut size = smallest.parts().len().div_ceil(2);
    while size > 0 && tries > 0 {
        let parts = smallest.parts();
        let mut is_smaller = false;
        for chunk in parts.chunks(size) {
            if tries == 0 {
                break;
            }
            tries -= 1;
            let candidate = smallest.without(chunk.iter().copied());
            if fails(&candidate) {
                smallest = candidate;
                is_smaller = true;
            }
        }
        if !is_smaller || size > smallest.parts().len() {
            size /= 2;
        }
    }
    smallest
}

fn fails(scenario: &Scenario) -> bool {
    !live(scenario, false).findings.is_empty()
}

/// The options that repeat a scenario.
pub fn options(scenario: &Scenario) -> String {
    let omitted: Vec<String> = scenario.omitted.iter().map(Part::to_string).collect();
    match omitted.is_empty() {
        true => format!("--seed {}", scenario.seed),
        false => format!("--seed {} --without {}", scenario.seed, omitted.join(",")),
    }
}
