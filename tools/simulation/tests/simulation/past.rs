//! Worlds in which something was found once.

use segno_simulation::{live, scenario::Scenario};

fn holds(seed: u64) {
    assert_eq!(live(&Scenario::of_seed(seed), false).findings, Vec::<String>::new());
}

#[test]
fn first() {
    holds(1);
}
