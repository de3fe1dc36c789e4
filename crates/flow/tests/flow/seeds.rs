//! Scripts whose sources and states are damaged, by the tests and by the fuzz targets in `tools/fuzz`.

/// With a race, loops, functions that await, handlers, a saga.
pub const SCRIPTS: [&str; 5] = [
    include_str!("seeds/race.flow"),
    include_str!("seeds/map.flow"),
    include_str!("seeds/rounds.flow"),
    include_str!("seeds/settle.flow"),
    include_str!("seeds/saga.flow"),
];
