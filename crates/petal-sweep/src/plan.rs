//! Plans a sweep: every cell's settings, the targets, and the data loaded there. All refusals
//! happen here, before anything is changed.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::SweepRequest;
use crate::changed_server::ChangedServer;
use petal_engine::{Engine, Stop};
use petal_host::numbers::{counted, decimal};
use petal_judge::break_point;
use petal_record::RecordFolder;
use petal_record::replay::ReplayOf;
use petal_record::sweep::{Axis, SweepPlan};
use petal_record::target::LoadedSchema;
use petal_report::numbers::bytes;
use petal_run::limits::check_admission;
use petal_run::series::{UsedData, draw_seed, setup_command};
use petal_run::{OpenEngine, RunError, WorkContext, load};
use petal_settings::Settings;
use petal_settings::axes::{self, Axes};
use petal_settings::objective::Objective;
use petal_settings::read::SERVER_AXIS;
use petal_settings::size::{Extent, format_bytes};
use petal_settings::table::support;
use petal_workload::plan::seats;

/// A sweep that may begin.
pub struct Planned {
    /// Plan without an order; its seed is the given one, or a random one for a new sweep.
    pub plan: SweepPlan,
    pub seed_is_given: bool,
    /// Settings of cell n at n - 1, without their seed.
    pub cells: Vec<Settings>,
    pub engine: String,
    pub dir: PathBuf,
    /// Recording of [`SweepRequest::os_data`].
    pub os_data: Option<PathBuf>,
    pub replay: Option<ReplayOf>,
    pub objective: Option<Objective>,
    pub targets: Vec<SweepTarget>,
    pub notes: Vec<String>,
    /// Settings of the server that the cells vary, by name.
    pub server_settings: Vec<(String, Vec<String>)>,
}

impl Planned {
    /// Returns the settings of a cell, by its number from 1.
    pub fn settings(&self, number: u32) -> Option<&Settings> {
        self.cells.get(number.checked_sub(1)? as usize)
    }

    /// Shows its notes, which a plan that is printed has in its text.
    pub fn noted(self, context: &WorkContext<'_>) -> Self {
        self.notes.iter().for_each(|note| context.watch.note(note));
        self
    }
}

/// Target of the sweep.
pub struct SweepTarget {
    pub url: String,
    /// Settings of its first cell.
    settings: Settings,
    engine: Arc<dyn Engine>,
    loaded: Vec<LoadedSchema>,
    pub data: Option<UsedData>,
}

pub fn plan(request: &SweepRequest<'_>, context: &WorkContext<'_>) -> Result<Planned, RunError> {
    let Axes { mut axes, combinations: mut cells } = axes::span(&request.asked, &request.sources)?;
    cells.iter_mut().for_each(|cell| cell.is_shared = context.hosts.is_some());
    if request.is_noted {
        show_notes(&cells, context);
    }
    data_set_per_block_size(&axes, &mut cells, context.engines)?;
    let mut targets = open(&cells, context)?;
    for target in &mut targets {
        load_if_missing(target, request.load, context)?;
        target.loaded = target.engine.loaded()?;
    }
    let mut schemas = Vec::new();
    for cell in &cells {
        let target = of(&targets, cell)?;
        // A cell's own settings may be refused by its engine.
        let engine = context.open(cell)?;
        let data = UsedData::check(cell, target.loaded.clone())?;
        let sessions = seats(cell, data.schemas, 1).len() as u32;
        check_admission(engine.as_ref(), cell, sessions)?;
        check_shares(sessions, context)?;
        schemas.push(data.schemas);
    }
    let schemas = one_number(&schemas)?;
    for cell in &mut cells {
        cell.schemas = Some(schemas);
    }
    for target in &mut targets {
        target.settings.schemas = Some(schemas);
        target.data = Some(UsedData::check(&target.settings, target.loaded.clone())?);
    }
    add_sessions(&mut axes, &mut cells, schemas);
    same_bytes_per_block_size(&axes, &targets)?;
    let first = cells.first().cloned().unwrap_or_default();
    let seed_is_given = first.seed.is_some();
    let plan = SweepPlan {
        settings: settings_of(&axes, &cells, &targets, schemas),
        axes: axes.into_iter().map(|(key, values)| Axis { key, values }).collect(),
        repeats: request.design.repeats(first.repeats),
        seed: first.seed.map_or_else(draw_seed, Ok)?,
        order: Vec::new(),
        step_by_step: request.replay.is_some(),
        design: request.design.clone(),
        peak_run_s: request.peak_run_s,
    };
    let server_settings = server_settings(&plan, &targets, &first, request, context)?;
    let dir = request.dir.clone().unwrap_or_else(|| dir_named_after(&plan, request.name, &first));
    let endpoints = targets.iter().map(|target| petal_engine::endpoints(target.engine.as_ref()));
    let endpoints = endpoints.max().unwrap_or(1);
    let mut notes = uneven(&cells, schemas);
    notes.extend(nodes_share(&cells, schemas, endpoints));
    notes.extend(active_bytes_vary(&cells, &targets));
    notes.extend(cache_per_block_size(&plan, &first));
    Ok(Planned {
        plan,
        seed_is_given,
        cells,
        engine: first.db.scheme,
        dir,
        os_data: request.os_data.clone(),
        replay: request.replay.as_ref().map(|replay| replay.of.clone()),
        objective: request.objective.clone(),
        targets,
        notes,
        server_settings,
    })
}

/// Returns the settings of the server that the cells vary. Refuses impossible ones before anything
/// is changed.
fn server_settings(
    plan: &SweepPlan,
    targets: &[SweepTarget],
    first: &Settings,
    request: &SweepRequest<'_>,
    context: &WorkContext<'_>,
) -> Result<Vec<(String, Vec<String>)>, RunError> {
    let of_server =
        |axis: &Axis| Some((axis.key.strip_prefix(SERVER_AXIS)?.to_owned(), axis.values.clone()));
    let asked: Vec<(String, Vec<String>)> = plan.axes.iter().filter_map(of_server).collect();
    let Some((name, _)) = asked.first() else { return Ok(asked) };
    let servers = targets.iter().map(|target| petal_engine::endpoints(target.engine.as_ref()));
    let servers: u32 = servers.sum();
    if servers > 1 || context.hosts.is_some() {
        return Err(RunError::Setting(format!(
            "--server-setting {name}: petal changes one server from one host; name one endpoint of \
             one target, and start petal without a launcher"
        )));
    }
    let folder = &RecordFolder::open(Path::new(""));
    let (restart, watch) = (request.restart.as_ref(), context.watch);
    let open = context.engines;
    ChangedServer { open, settings: first, restart, folder, watch }.check(&asked)?;
    Ok(asked)
}

/// Returns the folder that the same command finds again: its name differs from all other plans'
/// names.
fn dir_named_after(plan: &SweepPlan, kind: &str, settings: &Settings) -> PathBuf {
    let name = format!("{kind}-{}-{:08x}", settings.db.scheme, plan.fingerprint() >> 32);
    settings.out.join(name)
}

/// Returns the folder of a stepwise replay. It is known before the trials that make the plan: its
/// name depends on the settings, the load and its multiples.
pub fn steps_dir(settings: &Settings, load: &ReplayOf, scales: &[f64]) -> PathBuf {
    let values = scales.iter().map(f64::to_string).collect();
    let axes = vec![Axis { key: break_point::AXIS.to_owned(), values }];
    let mut asked = settings.record_map();
    ["out", "repeats", "seed"].iter().for_each(|key| drop(asked.remove(*key)));
    asked.insert("load".to_owned(), serde_json::json!(load));
    let plan = SweepPlan { axes, settings: asked, ..SweepPlan::default() };
    dir_named_after(&plan, "replay", settings)
}

/// Refuses a cell if some host would have no session.
fn check_shares(sessions: u32, context: &WorkContext<'_>) -> Result<(), RunError> {
    let Some(of) = context.hosts.map(|hosts| hosts.share().of).filter(|&of| sessions < of) else {
        return Ok(());
    };
    Err(RunError::Setting(format!(
        "a cell of {} on {of} hosts: some would have none; begin at {of} sessions, or start fewer \
         petals",
        counted(sessions, "session")
    )))
}

/// Shows each note once, whichever cells it belongs to.
fn show_notes(cells: &[Settings], context: &WorkContext<'_>) {
    let mut shown: Vec<String> = Vec::new();
    for cell in cells {
        let file = cell.conf_file.iter().map(|file| format!("settings from {}", file.display()));
        for note in file.chain(cell.notes.iter().cloned()) {
            if !shown.contains(&note) {
                context.watch.note(&note);
                shown.push(note);
            }
        }
    }
}

/// Names a data set for each block size, `<db>-<size>`, if the block size is chosen at the load.
fn data_set_per_block_size(
    axes: &[(String, Vec<String>)],
    cells: &mut [Settings],
    open: OpenEngine,
) -> Result<(), RunError> {
    let Some(sizes) = several(axes, "block_sz") else { return Ok(()) };
    for cell in cells {
        let engine = open(cell)?;
        let support = engine.support();
        let url = cell.db.redacted();
        let Some(path) = cell.db.path().filter(|_| !support.block_sizes.is_empty()) else {
            return Err(RunError::Setting(format!(
                "BLOCK_SZ={} (--block-sz): the server of {url} decides its block size: name a \
                 server for each size, with --db as often",
                sizes.join(","),
            )));
        };
        let is_device = std::fs::metadata(path).is_ok_and(|found| {
            use std::os::unix::fs::FileTypeExt as _;
            found.file_type().is_block_device()
        });
        if is_device || path.starts_with("/dev") {
            return Err(RunError::Setting(format!(
                "BLOCK_SZ={} (--block-sz): {url} holds one data set, of one block size: name a \
                 device for each size, with --db as often",
                sizes.join(","),
            )));
        }
        if matches!(cell.scale, Some(Extent::Blocks(_))) {
            return Err(RunError::Setting(format!(
                "SCALE={} counts blocks, and bytes must stay the same over block sizes: write it \
                 with a unit, such as SCALE=1G",
                cell.scale.map_or(String::new(), |scale| scale.to_string()),
            )));
        }
        let size = cell.block_sz.map_or(String::new(), |size| format_bytes(size.into()));
        cell.db.rest = format!("{}-{size}", cell.db.rest.trim_end_matches('/'));
    }
    Ok(())
}

fn several<'a>(axes: &'a [(String, Vec<String>)], key: &str) -> Option<&'a [String]> {
    let (_, values) = axes.iter().find(|(k, values)| k == key && values.len() > 1)?;
    Some(values)
}

/// Opens every target once.
fn open(cells: &[Settings], context: &WorkContext<'_>) -> Result<Vec<SweepTarget>, RunError> {
    let mut targets: Vec<SweepTarget> = Vec::new();
    for cell in cells {
        let url = cell.db.redacted();
        if targets.iter().all(|target| target.url != url) {
            let (settings, engine) = (cell.clone(), context.open(cell)?);
            targets.push(SweepTarget { url, settings, engine, loaded: Vec::new(), data: None });
        }
    }
    Ok(targets)
}

fn of<'a>(targets: &'a [SweepTarget], cell: &Settings) -> Result<&'a SweepTarget, RunError> {
    let url = cell.db.redacted();
    targets
        .iter()
        .find(|target| target.url == url)
        .ok_or_else(|| RunError::Setting(format!("{url} is no target of this sweep")))
}

fn load_if_missing(
    target: &SweepTarget,
    may_load: bool,
    context: &WorkContext<'_>,
) -> Result<(), RunError> {
    let SweepTarget { settings, engine, url, .. } = target;
    let loaded = engine.loaded()?;
    let wanted = settings.schemas.unwrap_or(1);
    if (1..=wanted).all(|number| loaded.iter().any(|there| there.number == number)) {
        return Ok(());
    }
    if !may_load {
        let mut command = setup_command(settings, wanted);
        if let Some(size) = settings.block_sz {
            let _ = write!(command, " --block-sz {}", format_bytes(size.into()));
        }
        if let Some(scale) = settings.scale {
            let _ = write!(command, " --scale {scale}");
        }
        return Err(RunError::Environment(format!(
            "{url}: schemas 1 to {wanted} are not all loaded; `{command}` loads them, or \
             `petal sweep --load -s {wanted} ...`"
        )));
    }
    let settings = Settings { schemas: Some(wanted), ..settings.clone() };
    let block_size = settings.block_sz.unwrap_or(engine.support().block_size_default);
    settings.check_against(block_size, None)?;
    let seed = settings.seed.map_or_else(draw_seed, Ok)?;
    let setup = load::plan(engine.as_ref(), &settings, seed, false)?;
    context.watch.note(&format!("{url}: loading {} schemas", setup.plan.schemas.len()));
    let stop = Stop::unlimited(context.caller.signals.clone());
    let summary = load::load(engine.as_ref(), &setup.plan, context.watch, &stop)?;
    context.watch.note(&format!("{url}: loaded in {} s", decimal(summary.seconds, 1)));
    Ok(())
}

/// Checks that all targets hold the same number of schemas, unless -s gives the number to use.
fn one_number(schemas: &[u32]) -> Result<u32, RunError> {
    let first = schemas.first().copied().unwrap_or(1);
    match schemas.iter().find(|other| **other != first) {
        None => Ok(first),
        Some(other) => Err(RunError::Setting(format!(
            "the targets hold {first} and {other} schemas: write -s {} to use as many of each",
            first.min(*other),
        ))),
    }
}

/// Adds numbers of sessions; one if there is no `--sessions` (or READERS and WRITERS).
fn add_sessions(axes: &mut Vec<(String, Vec<String>)>, cells: &mut [Settings], schemas: u32) {
    let said = ["sessions", "readers", "writers"];
    if axes.iter().any(|(key, _)| said.contains(&key.as_str())) {
        return;
    }
    let sessions = schemas * cells.first().map_or(1, |cell| cell.threads_per_schema);
    cells.iter_mut().for_each(|cell| cell.sessions = Some(sessions));
    axes.push(("sessions".to_owned(), vec![sessions.to_string()]));
}

pub fn main_bytes(data: &UsedData) -> u64 {
    data.rows * data.block_size * u64::from(data.schemas)
}

/// Keeps the bytes of data constant over block sizes, not the blocks.
fn same_bytes_per_block_size(
    axes: &[(String, Vec<String>)],
    targets: &[SweepTarget],
) -> Result<(), RunError> {
    if several(axes, "block_sz").is_none() {
        return Ok(());
    }
    let sizes = targets.iter().filter_map(|target| Some((&target.url, target.data.as_ref()?)));
    let sizes: Vec<(&String, u64)> = sizes.map(|(url, data)| (url, main_bytes(data))).collect();
    match sizes.first().and_then(|first| Some((first, sizes.iter().find(|s| s.1 != first.1)?))) {
        None => Ok(()),
        Some(((one, bytes_one), (other, bytes_other))) => Err(RunError::Setting(format!(
            "{one} has {} in use and {other} {}: over block sizes bytes must stay the same; \
             give SCALE in bytes, at most the smaller",
            bytes(*bytes_one),
            bytes(*bytes_other),
        ))),
    }
}

/// Returns the settings that all cells share, and the loaded data: together they identify a sweep.
fn settings_of(
    axes: &[(String, Vec<String>)],
    cells: &[Settings],
    targets: &[SweepTarget],
    schemas: u32,
) -> Map<String, Value> {
    let maps: Vec<Map<String, Value>> = cells.iter().map(Settings::record_map).collect();
    let beside = ["out", "repeats", "seed", "threads_per_schema"];
    let is_axis = |key: &String| axes.iter().any(|(axis, _)| axis == key);
    let mut settings = maps.first().cloned().unwrap_or_default();
    settings.retain(|key, value| {
        !beside.contains(&key.as_str())
            && !is_axis(key)
            && maps.iter().all(|map| map.get(key) == Some(value))
    });
    settings.insert("schemas".to_owned(), schemas.into());
    let loaded = targets.iter().filter_map(|target| {
        let data = target.data.as_ref()?;
        let rows: Vec<u64> = data.loaded.iter().map(|schema| schema.rows).collect();
        let scan_rows: Vec<u64> = data.loaded.iter().map(|schema| schema.scan_rows).collect();
        Some(json!({
            "db": target.url,
            "block_size": data.block_size,
            "rows": rows,
            "scan_rows": scan_rows,
        }))
    });
    settings.insert("loaded".to_owned(), loaded.collect());
    settings
}

/// Warns of session counts that do not divide evenly among the schemas.
fn uneven(cells: &[Settings], schemas: u32) -> Vec<String> {
    let (mut few, mut many): (Vec<u32>, Vec<u32>) = Default::default();
    for sessions in cells.iter().filter_map(|cell| cell.sessions) {
        let counts = if sessions < schemas { &mut few } else { &mut many };
        if sessions.max(schemas) % sessions.min(schemas) != 0 && !counts.contains(&sessions) {
            counts.push(sessions);
        }
    }
    let rules = [
        (few, "some visit one schema more than others; every schema is visited"),
        (many, "some schemas have one session more than others"),
    ];
    let uneven = rules.into_iter().filter(|(counts, _)| !counts.is_empty());
    uneven
        .map(|(counts, rule)| {
            let counts: Vec<String> = counts.iter().map(u32::to_string).collect();
            format!("{} sessions on {schemas} schemas: {rule}", counts.join(", "))
        })
        .collect()
}

/// Warns if sessions visit several schemas, and their number is not a multiple of the endpoints.
/// Each session stays on one endpoint, so that endpoints touch the same blocks.
fn nodes_share(cells: &[Settings], schemas: u32, endpoints: u32) -> Option<String> {
    let shares = |sessions: u32| sessions < schemas && !sessions.is_multiple_of(endpoints);
    cells.iter().filter_map(|cell| cell.sessions).find(|sessions| shares(*sessions)).map(|sessions| {
        format!(
            "{sessions} sessions on {schemas} schemas and {endpoints} endpoints: endpoints touch \
             the same blocks; a multiple of the endpoints keeps them apart"
        )
    })
}

fn active_bytes_vary(cells: &[Settings], targets: &[SweepTarget]) -> Option<String> {
    let mut sizes: Vec<u64> = cells
        .iter()
        .filter_map(|cell| {
            let loaded = of(targets, cell).ok()?.loaded.clone();
            UsedData::check(cell, loaded).ok().map(|data| main_bytes(&data))
        })
        .collect();
    sizes.sort_unstable();
    sizes.dedup();
    let (first, last) = (sizes.first()?, sizes.last()?);
    (first != last).then(|| {
        format!(
            "the active data set is not the same in all cells ({} to {}): those that differ in \
             it are never joined by a line",
            bytes(*first),
            bytes(*last),
        )
    })
}

/// Warns that a default cache sized by the index shrinks as blocks grow.
fn cache_per_block_size(plan: &SweepPlan, first: &Settings) -> Option<String> {
    let varies = plan.axes.iter().any(|axis| axis.key == "block_sz" && axis.values.len() > 1);
    let option = support::of(&first.db.scheme)?.index_cache_option?;
    (varies && !first.db.options.contains_key(option)).then(|| {
        format!(
            "the default cache follows the index, which shrinks as blocks grow: ?{option}=64M in \
             the URL holds it constant"
        )
    })
}

/// Returns the length of one run; RUN_TIME is the same in every cell.
pub fn run_time(planned: &Planned) -> Duration {
    planned.cells.first().map_or(Duration::ZERO, |cell| cell.run_time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_that_share_blocks_are_reported() {
        let of = |sessions| Settings { sessions: Some(sessions), ..Settings::default() };
        assert!(nodes_share(&[of(1), of(4)], 4, 2).is_some_and(|note| note.starts_with("1 ses")));
        assert_eq!(nodes_share(&[of(2), of(4), of(5)], 4, 2), None);
        assert_eq!(nodes_share(&[of(1), of(3)], 4, 1), None);
    }

    #[test]
    fn session_counts_that_do_not_fit_are_reported_once() {
        let of = |sessions| Settings { sessions: Some(sessions), ..Settings::default() };
        let notes = uneven(&[of(1), of(3), of(3), of(4), of(6), of(7), of(8)], 4);
        assert_eq!(notes.len(), 2, "{notes:?}");
        assert!(notes[0].starts_with("3 sessions on 4"), "{notes:?}");
        assert!(notes[1].starts_with("6, 7 sessions on 4"), "{notes:?}");
    }
}
