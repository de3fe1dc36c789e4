// Scripts whose states and sources are damaged by tests and by the fuzz targets: an expression that both include.
[
    include_str!("race.flow"),
    include_str!("map.flow"),
    include_str!("rounds.flow"),
    include_str!("settle.flow"),
    include_str!("saga.flow"),
]
