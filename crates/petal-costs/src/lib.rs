//! Costs: every access that an optimizer has a price for, in interleaved rounds of random order.
//! After a stop it keeps the rounds up to then. It changes no setting of the server.

#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod compare;
pub mod compare_text;
mod measuring;
mod page;
mod prices;
pub mod record;
mod text;

use std::fs::File;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::fs::{Advice, OFlags, fadvise};
use time::OffsetDateTime;

use measuring::CostRounds;
use petal_engine::costs::{COST_SCHEMAS, CostFacts, CostProbes, PriceSetting};
use petal_engine::{Engine, EngineError, ProgressUnit, Stop};
use petal_host::devices;
use petal_host::files;
use petal_host::numbers::{bytes, counted, decimal, whole};
use petal_host::os::{DatabaseLocation, Probe};
use petal_record::target::{LoadedSchema, TargetDetails};
use petal_record::{RecordError, RecordFolder, Status, moment};
use petal_run::noted_progress::NotedProgress;
use petal_run::{RunError, WorkContext, load};
use petal_settings::Settings;
use petal_settings::size::Extent;
use prices::conclude;
use record::{COSTS, CostCell, Costs, FORMAT, PricedSetting};

/// Fewest rounds: fewer give no interval.
pub const ROUNDS_MIN: u32 = 3;
/// Short rows in memory: few enough for a small cache, enough for a time of milliseconds.
const SHORT_ROWS: u64 = 100_000;
/// The large tables must have this many times the blocks of the database's cache, so that a block
/// has left it when it is read again.
const CACHES_MIN: u64 = 2;
/// Size of a table that petal loads by itself, if the cache needs no larger one.
const OWN_TABLE_BYTES: u64 = 512 << 20;

/// Share of the processes that read ahead from which they are a limit.
const BUSY_READERS_MIN: f64 = 0.8;

/// Measurements to take.
#[derive(Debug, Clone)]
pub struct CostPlan {
    /// Sessions of the cells with several; 1 means no such cells.
    pub sessions: u32,
    /// Time for all rounds together; loading comes before.
    pub length: Duration,
    /// Share of cached blocks that the statements to paste are for, percent.
    pub assumed_pct: u8,
    /// Blocks of each table that petal loads by itself; `None` means chosen by the cache.
    pub scale: Option<Extent>,
    pub seed: u64,
}

/// Costs and the files written for them.
pub struct WrittenCosts {
    pub costs: Costs,
    /// Error that ended them early, or that kept petal's own tables from being dropped.
    pub failure: Option<RunError>,
    /// File of the record itself.
    pub saved: Result<PathBuf, RecordError>,
    /// Files of the reports. Once the record is saved, `petal report` draws them again.
    pub drawn: Result<Vec<PathBuf>, RecordError>,
}

/// Measures costs into a new folder below OUT. An error means that nothing was measured.
pub fn run_once(
    settings: &Settings,
    plan: &CostPlan,
    context: &WorkContext<'_>,
) -> Result<WrittenCosts, RunError> {
    let engine = context.open(settings)?;
    let work = CostWork { engine: engine.as_ref(), settings, plan, context };
    let probes = work.probes()?;
    let cache_bytes = probes.check()?;
    let folder = RecordFolder::create(&settings.out, "costs", OffsetDateTime::now_utc())?;
    let noted = NotedProgress::new(context.watch, &folder);
    let caller = context.caller.clone();
    let context = WorkContext { caller, watch: &noted, hosts: None, ..*context };
    let measured = CostWork { context: &context, ..work }.on_data(probes, cache_bytes);
    drop(noted);
    let (mut costs, failure) = measured.inspect_err(|_| folder.remove_if_empty())?;
    conclude(&mut costs);
    let saved = folder.write_json(COSTS.file, "the costs", &costs);
    let drawn = COSTS.write(&folder, &costs);
    Ok(WrittenCosts { costs, failure, saved, drawn })
}

/// Measured costs, and the error that ended them early.
type MeasuredCosts = (Costs, Option<RunError>);

/// Input of all steps.
struct CostWork<'a> {
    engine: &'a dyn Engine,
    settings: &'a Settings,
    plan: &'a CostPlan,
    context: &'a WorkContext<'a>,
}

impl CostWork<'_> {
    fn url(&self) -> String {
        self.settings.db.redacted()
    }

    fn stop(&self) -> Stop {
        Stop::unlimited(self.context.caller.signals.clone())
    }

    /// Returns the engine's probes, or the reason for a refusal.
    fn probes(&self) -> Result<&dyn CostProbes, RunError> {
        self.engine.cost_probes().ok_or_else(|| {
            RunError::Setting(format!(
                "{}: petal measures no costs with this engine; name a database whose optimizer has \
                 prices by --db",
                self.url()
            ))
        })
    }

    /// Measures on the loaded schemas, or on petal's own, which it drops afterwards.
    fn on_data(
        &self,
        probes: &dyn CostProbes,
        cache_bytes: u64,
    ) -> Result<MeasuredCosts, RunError> {
        let loaded = self.engine.loaded()?;
        if !loaded.is_empty() {
            return self.measure(probes, cache_bytes, &loaded);
        }
        let loaded = self.load(cache_bytes);
        let measured = loaded.and_then(|loaded| self.measure(probes, cache_bytes, &loaded));
        // By an engine that no signal interrupts.
        let dropped = (self.context.engines)(self.settings).and_then(|engine| engine.drop_data());
        let dropped = dropped.err().map(RunError::from);
        match (measured, dropped) {
            (Ok((costs, failure)), dropped) => Ok((costs, failure.or(dropped))),
            (Err(error), Some(left)) => {
                self.context.watch.error(&format!("petal's own tables stay: {left}"));
                Err(error)
            }
            (Err(error), None) => Err(error),
        }
    }

    fn load(&self, cache_bytes: u64) -> Result<Vec<LoadedSchema>, RunError> {
        let least = OWN_TABLE_BYTES.max(cache_bytes.saturating_mul(CACHES_MIN + 1));
        let scale = self.plan.scale.unwrap_or(Extent::Bytes(least));
        let settings =
            Settings { schemas: Some(COST_SCHEMAS), scale: Some(scale), ..self.settings.clone() };
        let block_size = self.engine.block_size(settings.block_sz)?;
        self.context.watch.note(&format!(
            "{}: nothing is loaded; petal loads two tables of {} blocks, and drops them afterwards",
            self.url(),
            whole(scale.blocks(block_size.into()))
        ));
        let setup = load::plan(self.engine, &settings, self.plan.seed, false)?;
        load::load(self.engine, &setup.plan, self.context.watch, &self.stop())?;
        Ok(self.engine.loaded()?)
    }

    fn measure(
        &self,
        probes: &dyn CostProbes,
        cache_bytes: u64,
        loaded: &[LoadedSchema],
    ) -> Result<MeasuredCosts, RunError> {
        let blocks = self.check(cache_bytes, loaded)?;
        let data_use = self.engine.begin_use(COST_SCHEMAS)?;
        if let Some(other) = data_use.other_runs()?.first() {
            return Err(RunError::Environment(format!(
                "{}: a run is at work there ({other}); wait for its end, or stop it",
                self.url()
            )));
        }
        let (target, details) = self.engine.describe(COST_SCHEMAS, self.plan.sessions)?;
        self.context.watch.phase("settling", 0, ProgressUnit::Items);
        self.engine.settle(self.context.watch, &self.stop())?;
        let facts = probes.facts()?;
        let page_cache = PageCache::open(&facts, &details);
        let (probe, devices) = self.probe(&details);
        let started_at = OffsetDateTime::now_utc();
        let system = rustix::system::uname();
        let mut costs = Costs {
            format: FORMAT.to_owned(),
            petal_version: env!("CARGO_PKG_VERSION").to_owned(),
            started_at: moment::exact(started_at),
            host: system.nodename().to_string_lossy().into_owned(),
            kernel: system.release().to_string_lossy().into_owned(),
            url: target.url,
            product: target.product,
            version: target.version,
            block_bytes: target.block_size,
            blocks,
            cache_bytes,
            sessions: self.plan.sessions,
            seed: self.plan.seed,
            assumed_pct: self.plan.assumed_pct,
            database_hit_share: facts.hit_share,
            page_cache_kept: page_cache.as_ref().err().cloned(),
            devices,
            settings: settings(&facts),
            joint_statement: facts.joint_statement.clone(),
            reload: facts.reload.clone(),
            notes: facts.notes.clone(),
            ..Costs::default()
        };
        let began = Instant::now();
        let short_rows = if facts.has_short_rows { SHORT_ROWS } else { 0 };
        let sessions = (1..=self.plan.sessions)
            .map(|number| probes.open_session(number, if number == 1 { short_rows } else { 0 }));
        let mut measuring = CostRounds {
            plan: self.plan,
            sessions: sessions.collect::<petal_engine::Result<_>>()?,
            page_cache: page_cache.ok().flatten(),
            probe,
            is_in_process: details.in_process,
            walk: Default::default(),
            cache_blocks: cache_bytes / target.block_size.max(1),
            costs: &mut costs,
        };
        let failure = measuring.all_rounds(&facts, self.context, &self.stop()).err();
        costs.elapsed_s = began.elapsed().as_secs_f64();
        let failure = failure.map(RunError::from).or_else(|| unproved(&costs));
        if costs.rounds == 0 {
            return Err(failure.unwrap_or_else(|| EngineError::Interrupted.into()));
        }
        costs.status = match &failure {
            Some(error) if !error.is_interrupted() => Status::Failed,
            _ if self.context.caller.is_interrupted() => Status::Interrupted,
            _ => Status::Complete,
        };
        costs.notes.extend(readers_note(&costs, &facts));
        costs.notes.extend(notes(&costs, &failure));
        Ok((costs, failure.filter(|error| !error.is_interrupted())))
    }

    /// Refuses data that do not fit the measurement; returns the blocks of each table.
    fn check(&self, cache_bytes: u64, loaded: &[LoadedSchema]) -> Result<u64, RunError> {
        let of = |number: u32| loaded.iter().find(|schema| schema.number == number);
        let (Some(one), Some(two)) = (of(1), of(2)) else {
            return Err(RunError::Environment(format!(
                "{}: petal costs needs schemas 1 and 2, for reads at random and scans, and only {} \
                 loaded; load both (petal setup -s 2), or drop all (petal drop): petal then loads its \
                 own",
                self.url(),
                if loaded.len() == 1 {
                    "one is".to_owned()
                } else {
                    format!("{} are", loaded.len())
                }
            )));
        };
        let blocks = one.rows.min(two.rows);
        let table_bytes = blocks.saturating_mul(one.block_size);
        let least = cache_bytes.saturating_mul(CACHES_MIN);
        if table_bytes < least {
            return Err(RunError::Setting(format!(
                "{}: tables of {} are too small to leave the database's cache of {}; load at least \
                 {} for each schema (SCALE), or make the cache smaller",
                self.url(),
                bytes(table_bytes),
                bytes(cache_bytes),
                bytes(least)
            )));
        }
        Ok(blocks)
    }

    /// A probe of the server's processes and the data's devices, and the devices' names.
    fn probe(&self, details: &TargetDetails) -> (Option<Probe>, Vec<String>) {
        if !details.local {
            return (None, Vec::new());
        }
        let found = devices::find_for(&details.data_files, &details.server_files);
        let database = match details.in_process {
            true => DatabaseLocation::InPetal,
            false => match petal_engine::server_processes(self.engine) {
                none if none.is_empty() => DatabaseLocation::Unseen,
                servers => DatabaseLocation::In(servers),
            },
        };
        (Some(Probe::watching(&found, database, false)), found.names())
    }
}

fn settings(facts: &CostFacts) -> Vec<PricedSetting> {
    let of = |setting: &PriceSetting| PricedSetting {
        name: setting.name.clone(),
        price: setting.price,
        unit: setting.unit,
        factor: setting.factor,
        fixed_pct: setting.fixed_pct,
        present: setting.present.clone(),
        statement: setting.statement.clone(),
        values: Vec::new(),
    };
    facts.settings.iter().map(of).collect()
}

/// An error if a price lacks its reads: the layers showed that every one of them was served from
/// elsewhere.
fn unproved(costs: &Costs) -> Option<RunError> {
    let is_lost = |cell: &&CostCell| cell.samples.is_empty() && cell.left_out > 0;
    let lost = costs.cells.iter().filter(is_lost).find(|cell| cell.cached_pct == Some(0))?;
    let kept = match &costs.page_cache_kept {
        Some(why) => format!("petal could not drop the data from the page cache: {why}"),
        None => "the database's cache or the page cache still had them".to_owned(),
    };
    Some(RunError::Environment(format!(
        "{}: {} with {} at 0 % cached: none of its {} samples was read from the devices, so that \
         nothing is known of their time; {kept}. Give more data (SCALE) than the caches hold, or run \
         petal as root on the server's host",
        costs.url,
        lost.access.name(),
        counted(lost.sessions, "session"),
        lost.left_out
    )))
}

/// A note if the processes that read ahead for all sessions were nearly all busy.
fn readers_note(costs: &Costs, facts: &CostFacts) -> Option<String> {
    let (name, readers) = facts.readers.as_ref()?;
    let (depth, in_flight) = prices::most_in_flight(costs)?;
    (in_flight >= BUSY_READERS_MIN * f64::from(*readers)).then(|| {
        format!(
            "{name} {readers} may limit reading ahead: with {depth} blocks asked for ahead by {}, {} reads \
             were in flight. Set it higher, and measure again",
            counted(costs.sessions, "session"),
            decimal(in_flight, 1)
        )
    })
}

fn notes(costs: &Costs, failure: &Option<RunError>) -> Vec<String> {
    let mut notes = Vec::new();
    let left_out: u32 = costs.cells.iter().map(|cell| cell.left_out).sum();
    let samples: usize = costs.cells.iter().map(|cell| cell.samples.len()).sum();
    if left_out > 0 {
        notes.push(format!(
            "{} of {} samples were left out: the layers showed another cached share than meant",
            whole(left_out.into()),
            whole(u64::from(left_out) + samples as u64)
        ));
    }
    if costs.rounds < ROUNDS_MIN {
        notes.push(format!(
            "{} only: an interval needs {ROUNDS_MIN}",
            counted(costs.rounds, "round")
        ));
    }
    if let Some(error) = failure {
        notes.push(format!("ended by an error: {error}"));
    }
    notes
}

/// The tables' files, to drop them from the operating system's page cache.
struct PageCache(Vec<File>);

impl PageCache {
    /// Opens the files. An error is the reason why the page cache keeps them; `None` if the database
    /// does not use it.
    fn open(facts: &CostFacts, details: &TargetDetails) -> Result<Option<Self>, String> {
        if facts.is_direct {
            return Ok(None);
        }
        if facts.data_files.is_empty() {
            let why = details.host_unseen.clone();
            return Err(why.unwrap_or_else(|| "the server's files are not seen here".to_owned()));
        }
        // Never waits for a pipe, and never follows a link that took a file's place.
        let how = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let open = |path: &PathBuf| {
            files::open(path, how).map_err(|error| format!("{}: {error}", path.display()))
        };
        facts.data_files.iter().map(open).collect::<Result<_, _>>().map(|files| Some(Self(files)))
    }

    /// Drops all clean pages of the files from the page cache.
    fn drop_pages(&self) {
        for file in &self.0 {
            // It is advice: the layers show if the kernel did not follow it.
            let _ = fadvise(file, 0, None, Advice::DontNeed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// petal may be root, and the server's user may put other files in the place of these.
    #[test]
    fn a_link_in_the_place_of_a_servers_file_is_not_followed_and_a_pipe_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "data").unwrap();
        let (link, pipe) = (folder.path().join("link"), folder.path().join("pipe"));
        std::os::unix::fs::symlink(&file, &link).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )
        .unwrap();
        let open = |path: &PathBuf| {
            let facts = CostFacts { data_files: vec![path.clone()], ..CostFacts::default() };
            PageCache::open(&facts, &TargetDetails::default())
        };
        let opened = open(&file).unwrap().unwrap();
        opened.drop_pages();
        assert_eq!(std::fs::read(&file).unwrap(), b"data", "it is only advice");
        let refused = open(&link).err().unwrap();
        assert!(refused.starts_with(&link.display().to_string()), "{refused}");
        open(&pipe).unwrap();
        let direct = CostFacts { data_files: vec![link], is_direct: true, ..CostFacts::default() };
        assert!(PageCache::open(&direct, &TargetDetails::default()).unwrap().is_none());
        let unseen = PageCache::open(&CostFacts::default(), &TargetDetails::default());
        assert_eq!(unseen.err().as_deref(), Some("the server's files are not seen here"));
    }
}
