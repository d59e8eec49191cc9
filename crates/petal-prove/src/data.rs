//! Promises about loads, drops and loaded data.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use petal_engine::{
    Engine, EngineError, LoadPlan, Placement, Progress, ProgressUnit, Silent, Stop,
};
use petal_record::target::LoadedSchema;
use petal_workload::plan::Workload;
use petal_workload::seat::Role;

use super::{
    EXECUTE, Of as _, PromiseResult, Provable, ROWS, SCAN_ROWS, SCHEMAS, TriedPromise, Unproved,
    choose, execute, figure, held, hold, numbers, seat, unlimited, workload,
};

const LOAD: &str = "Engine::load";
const LOADED: &str = "Engine::loaded";
const PLACEMENT: &str = "Engine::placement";
const DROP: &str = "Engine::drop_data";

pub fn n_rows_are_n_blocks(subject: &dyn Provable) -> PromiseResult {
    let engine = subject.open().of(LOADED)?;
    let block_size = u64::from(subject.plan(SCHEMAS).block_size);
    let placed = |schema| {
        let placement = engine.placement(schema).of(PLACEMENT)?;
        let is_right = placement.is_one_row_per_block() && placement.rows == ROWS;
        hold!(PLACEMENT, is_right, "schema {schema}: {}", placement_words(&placement));
        Ok(placement.source)
    };
    let mut source = "";
    for schema in 1..=SCHEMAS {
        source = placed(schema)?;
    }
    let described = engine.describe(SCHEMAS, 1).of("Engine::describe")?.0.block_size;
    hold!("Engine::describe", described == block_size, "blocks of {described}, not {block_size}");
    let loaded = engine.loaded().of(LOADED)?;
    let there = || loaded.iter().map(|schema| schema.number);
    hold!(LOADED, there().eq(1..=SCHEMAS), "schemas {}", numbers(there()));
    for schema in loaded {
        let is_right = (schema.rows, schema.scan_rows) == (ROWS, SCAN_ROWS)
            && schema.block_size == block_size
            && schema.bytes >= Some(ROWS * block_size);
        let LoadedSchema { number, rows, scan_rows, block_size, bytes, .. } = schema;
        let bytes = figure(bytes);
        hold!(
            LOADED,
            is_right,
            "schema {number}: {rows} rows, {scan_rows} scan rows, blocks of {block_size}, {bytes} bytes"
        );
    }
    // It must still hold after UPDATEs.
    let stayed = |schema| -> PromiseResult<String> {
        let home = seat(1, schema, Role::Mixed);
        let before = engine.data_bytes().of("Engine::data_bytes")?;
        let many = choose(&Workload { update_pct: 100, ..workload() }, home, 1000);
        execute(engine.connect(home).of(EXECUTE)?.as_mut(), &many, EXECUTE)?;
        engine.quiesce().of("Engine::settle")?;
        let settled = engine.settle(&Silent, &subject.stop()).of("Engine::settle")?;
        placed(schema)?;
        let now = engine.data_bytes().of("Engine::data_bytes")?;
        let [then, is] = [before, now].map(figure);
        hold!(PLACEMENT, now == before, "rows moved: {then} bytes of data became {is}");
        Ok(settled.done.join("; "))
    };
    let stayed_there =
        |schema| stayed(schema).map_err(|unproved| without_room(engine.as_ref(), unproved));
    // A snapshot that has ended, such as one of the server's own ANALYZE, has no holder to name: the same
    // UPDATEs of the other schema show whether rows move without it.
    let (settled, again) = match stayed_there(1) {
        Err(Unproved::Broken { seen, .. }) => (stayed_there(2)?, format!("; once {seen}")),
        settled => (settled?, String::new()),
    };
    held(format!(
        "{ROWS} rows in {ROWS} blocks of {block_size} bytes ({source}); settled: {settled}{again}"
    ))
}

/// Rows that moved because an old snapshot of somebody else keeps the replaced ones broke no promise.
pub fn without_room(engine: &dyn Engine, unproved: Unproved) -> Unproved {
    let holder = engine.server().and_then(|server| server.snapshot_holder().ok().flatten());
    holder.map_or(unproved, Unproved::Refused)
}

pub fn placement_words(placement: &Placement) -> String {
    let Placement { rows, blocks, rows_per_block_max, overflow_blocks, source } = placement;
    let overflow = figure(*overflow_blocks);
    format!(
        "{rows} rows in {blocks} blocks, at most {rows_per_block_max} in one, {overflow} other blocks \
         ({source})"
    )
}

fn schema_numbers(loaded: &[LoadedSchema]) -> String {
    numbers(loaded.iter().map(|schema| schema.number))
}

/// Asks to stop when three quarters of two schemas are loaded.
struct StopOnTheWay {
    level: Arc<AtomicU8>,
    left: AtomicU64,
    block_size: u64,
    units: AtomicU64,
}

impl Progress for StopOnTheWay {
    fn phase(&self, _: &str, _: u64, unit: ProgressUnit) {
        let units = if unit == ProgressUnit::Bytes { self.block_size } else { 1 };
        self.units.store(units, Ordering::Relaxed);
    }

    fn advance(&self, units: u64) {
        let rows = units / self.units.load(Ordering::Relaxed);
        let left = self.left.load(Ordering::Relaxed).saturating_sub(rows);
        self.left.store(left, Ordering::Relaxed);
        if left == 0 {
            self.level.store(1, Ordering::Relaxed);
        }
    }

    fn note(&self, _: &str) {}
}

/// Begins and ends without data.
pub fn a_stopped_load_leaves_nothing(subject: &dyn Provable) -> PromiseResult {
    let engine = subject.open().of(LOAD)?;
    let plan = subject.plan(SCHEMAS);
    let level = Arc::<AtomicU8>::default();
    let stop = Stop::unlimited(Arc::clone(&level));
    let (left, block_size) = (AtomicU64::new(ROWS * 3 / 2), u64::from(plan.block_size));
    let progress = StopOnTheWay { level, left, block_size, units: AtomicU64::new(1) };
    let ended = engine.load(&plan, &progress, &stop);
    match ended {
        Err(EngineError::Interrupted) => {}
        Err(error) => return Err(Unproved::by(LOAD, error)),
        Ok(_) => hold!(LOAD, false, "a load that was to stop loaded all"),
    }
    let left = engine.loaded().of(LOADED)?;
    hold!(LOAD, left.is_empty(), "a stopped load left schemas: {}", schema_numbers(&left));
    engine.load(&subject.plan(1), &Silent, &subject.stop()).of(LOAD)?;
    engine.drop_data().of(DROP)?;
    held("stopped at three quarters: nothing is there, and the next load goes through")
}

pub fn data_in_use_stay(subject: &dyn Provable) -> PromiseResult {
    const USE: &str = "Engine::begin_use";
    let engine = subject.open().of(USE)?;
    let used = engine.begin_use(1).of(USE)?;
    let refused = subject.drop_elsewhere();
    hold!(USE, refused.is_err(), "a drop of data in use went through");
    let there = engine.loaded().of(LOADED)?.len() as u32;
    hold!(USE, there > 0, "{there} schemas are there after a refused drop");
    let vanished = used.vanished().of("DataUse::vanished")?;
    let what = vanished.map(|what| what.to_string()).unwrap_or_default();
    hold!("DataUse::vanished", what.is_empty(), "data in use vanished: {what}");
    Ok(TriedPromise::HeldByError(refused.err().unwrap_or_default()))
}

/// Ends without data.
pub fn data_is_dropped_and_only_once(subject: &dyn Provable) -> PromiseResult {
    let engine = subject.open().of(LOAD)?;
    let before = engine.loaded().of(LOADED)?.len();
    let over = engine.load(&subject.plan(1), &Silent, &unlimited());
    hold!(LOAD, over.is_err(), "a load over data went through unasked");
    let there = engine.loaded().of(LOADED)?.len();
    hold!(LOAD, there == before, "{there} of {before} schemas after a refused load");
    let dropped = engine.drop_data().of(DROP)?;
    hold!(DROP, !dropped.is_empty(), "a drop names nothing");
    let left = engine.loaded().of(LOADED)?;
    hold!(DROP, left.is_empty(), "a drop leaves schemas: {}", schema_numbers(&left));
    let again = engine.drop_data().of(DROP)?;
    hold!(DROP, again.is_empty(), "a second drop finds {}", again.join(", "));
    held(format!("{} objects dropped, and none the second time", dropped.len()))
}

pub fn errors_name_the_target_and_no_password(subject: &dyn Provable) -> PromiseResult {
    const ITEM: &str = "EngineError";
    let (engine, name, password) = subject.unreachable().of(ITEM)?;
    let error = engine.loaded().err().map(|error| error.to_string()).unwrap_or_default();
    hold!(ITEM, error.contains(&name), "an error that does not name {name}: '{error}'");
    hold!(ITEM, !error.contains(password), "an error shows the password");
    Ok(TriedPromise::HeldByError(error))
}

/// The plan of one schema of random text, which several connections load.
pub fn in_ranges(plan: LoadPlan) -> LoadPlan {
    LoadPlan { schemas: vec![1], degree: 4, filler: petal_workload::row::Filler::Random, ..plan }
}
