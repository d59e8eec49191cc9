//! Names the layer of a section's figures, in words. On the bare device there is no database to
//! name: petal itself reads, writes, logs and reports.

use petal_record::Run;

pub(super) struct FigureSources {
    /// Name of a layer's row, above the device.
    pub name: &'static str,
    pub layers: &'static str,
    pub counts: &'static str,
    pub seconds: &'static str,
    pub window: &'static str,
    pub events: &'static str,
    pub histograms: &'static str,
    pub counters: &'static str,
}

const DATABASE: FigureSources = FigureSources {
    name: "database",
    layers: "petal, the database, the device",
    counts: "petal's counts, the database's, the device's",
    seconds: "petal's clock, the database, the device",
    window: "petal's counts, the database's",
    events: "the database, or petal's shim in it",
    histograms: "operations: petal's clock; waits: the database or its shim",
    counters: "The database's own counters",
};

const BARE_DEVICE: FigureSources = FigureSources {
    name: "petal",
    layers: "petal, the device",
    counts: "petal's counts, the device's",
    seconds: "petal's clock and counts, the device",
    window: "petal's counts, the device's",
    events: "petal, from submit to completion",
    histograms: "petal's clock",
    counters: "Petal's own counters",
};

pub(super) fn of(run: &Run) -> &'static FigureSources {
    if run.is_bare_device() { &BARE_DEVICE } else { &DATABASE }
}
