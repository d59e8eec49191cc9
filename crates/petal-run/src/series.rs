//! Runs on one target under the same settings: driven, judged, written.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use petal_engine::Engine;
use petal_record::replay::ReplayOf;
use petal_record::target::LoadedSchema;
use petal_record::{self as record, RecordError, RecordFolder, Run, os_merge};
use petal_settings::Settings;
use petal_workload::plan::{self, SESSIONS_MAX, Workload, seats};
use petal_workload::share::Share;
use rand::TryRng as _;
use time::OffsetDateTime;

use super::hook_group::HookGroup;
use super::job::{Job, Start};
use super::merge::{RunWithFolder, merge_into};
use super::neighbour_plan::NeighbourPlan;
use super::peers::{SharedPlan, Together};
use super::run::{call_hook, run as drive};
use super::{RunError, Subject, WorkContext, after_outage, ledger, os_data, start};

/// Runs on one target under the same settings.
pub struct RunSeries<'a> {
    engine: Arc<dyn Engine>,
    pub settings: Settings,
    data: UsedData,
    seed: u64,
    /// Random number equal on all hosts that drive a run, and new for each command.
    attempt: u64,
    context: &'a WorkContext<'a>,
    /// Recording of `petal os` on the database's host; read when a run is over.
    pub os_data: Option<PathBuf>,
    /// File of acknowledged commits.
    pub ledger: Option<PathBuf>,
    /// Share of this host if several drive the run, and its start time.
    pub share: Share,
    pub start: Start<'a>,
    /// Load that the runs imitate.
    pub replay: Option<ReplayOf>,
    /// Work next to the runs, in turn.
    pub neighbours: Option<NeighbourPlan>,
    /// Limits in the first cell of the sweep that the runs are of.
    pub limits_of_first_cell: BTreeMap<String, String>,
}

/// Part of the loaded data that a run uses.
#[derive(Debug, Clone)]
pub struct UsedData {
    pub loaded: Vec<LoadedSchema>,
    pub rows: u64,
    pub schemas: u32,
    pub block_size: u64,
}

impl UsedData {
    /// Checks the settings against the loaded data, before anything is changed.
    pub fn check(settings: &Settings, mut loaded: Vec<LoadedSchema>) -> Result<Self, RunError> {
        let schemas = settings.schemas.unwrap_or(loaded.len() as u32);
        let missing = (1..=schemas.max(1)).find(|n| loaded.iter().all(|there| there.number != *n));
        if let Some(missing) = missing {
            return Err(RunError::Environment(format!(
                "{}: schema {missing} is not loaded; `{}` loads it",
                settings.db.redacted(),
                setup_command(settings, schemas.max(1)),
            )));
        }
        check_sessions(settings, schemas)?;
        loaded.retain(|there| there.number <= schemas);
        loaded.sort_by_key(|there| there.number);
        let unscanned = loaded.iter().find(|there| there.scan_rows == 0);
        if let Some(there) = unscanned.filter(|_| settings.scans() && !settings.use_slob_schemas) {
            return Err(RunError::Setting(format!(
                "scans are asked for (SCAN_PCT={}, SCAN_RATE={}), and schema {} was loaded without a \
                 scan table; leave them out, or load one with petal setup --replace --scan-table-sz 1M",
                settings.scan_pct,
                settings.scan_rate.as_ref().map_or_else(String::new, ToString::to_string),
                there.number
            )));
        }
        let smallest = loaded.iter().min_by_key(|there| there.rows);
        let block_size = loaded.first().map_or(1, |there| there.block_size);
        let rows = settings
            .check_against(block_size as u32, smallest.map(|there| (there.rows, there.number)))?
            .rows;
        Ok(Self { loaded, rows, schemas, block_size })
    }
}

/// Refuses more sessions than a process can have threads.
pub fn check_sessions(settings: &Settings, schemas: u32) -> Result<(), RunError> {
    let sessions = plan::sessions(settings, schemas);
    if sessions <= u64::from(SESSIONS_MAX) {
        return Ok(());
    }
    Err(RunError::Setting(format!(
        "{sessions} sessions ({schemas} schemas): petal runs a thread for each, at most \
         {SESSIONS_MAX}; use fewer threads or schemas"
    )))
}

/// Returns the command that loads the data for these settings.
pub fn setup_command(settings: &Settings, schemas: u32) -> String {
    match settings.db.redacted().as_str() {
        "sqlite:petal-data" => format!("petal setup -s {schemas}"),
        url => format!("petal setup -s {schemas} --db {url}"),
    }
}

impl<'a> RunSeries<'a> {
    pub fn new(
        engine: Arc<dyn Engine>,
        settings: Settings,
        context: &'a WorkContext<'a>,
    ) -> Result<Self, RunError> {
        let data = UsedData::check(&settings, engine.loaded()?)?;
        let (seed, attempt) = (settings.seed.map_or_else(draw_seed, Ok)?, draw_seed()?);
        Ok(Self {
            engine,
            settings,
            data,
            seed,
            attempt,
            context,
            os_data: None,
            ledger: None,
            share: Share::WHOLE,
            start: Start::AtOnce,
            replay: None,
            neighbours: None,
            limits_of_first_cell: BTreeMap::new(),
        })
    }

    /// Drives a share from a start time that all hosts were given.
    pub fn share_from(&mut self, share: Share, at: OffsetDateTime) {
        (self.share, self.start, self.attempt) = (share, Start::At(at), start::seed(at));
    }

    /// Runs once into a separate folder below OUT. An error means that nothing was measured.
    pub fn run_once(&self, repeat: u32, name: Option<&str>) -> Result<RunWithFolder, RunError> {
        let name = name.map_or_else(|| self.name(), str::to_owned);
        let folder = RecordFolder::create(&self.settings.out, &name, OffsetDateTime::now_utc())?;
        self.run_in(folder, 0, repeat)
    }

    /// Joins the other hosts of the run: the ranks are the shares, and the first host's seed is
    /// used by all. A host with different settings, data or petal version calls the run off.
    pub fn join(&mut self, hosts: &'a Together) -> Result<(), RunError> {
        (self.share, self.start) = (hosts.share(), Start::Together(hosts));
        hosts.agree(Ok(()))?;
        let plan = SharedPlan {
            petal_version: env!("CARGO_PKG_VERSION").to_owned(),
            url: self.settings.db.redacted(),
            sessions: plan::sessions(&self.settings, self.data.schemas) as u32,
            seed: self.seed,
            attempt: self.attempt,
            settings: self.settings.record_map(),
        };
        let first = hosts.same_plan(&plan)?;
        (self.seed, self.attempt) = (first.seed, first.attempt);
        Ok(())
    }

    /// Runs once into this folder, as a cell (from 1; 0: none) of a sweep. If several hosts
    /// communicate, the first one merges their records.
    pub fn run_in(
        &self,
        folder: RecordFolder,
        cell: u32,
        repeat: u32,
    ) -> Result<RunWithFolder, RunError> {
        let path = folder.path().to_owned();
        let Start::Together(hosts) = self.start else {
            return self.run_here(folder, &path, cell, repeat);
        };
        hosts.begin();
        if !self.share.is_first() {
            let mut kept = self.run_here(folder, &path, cell, repeat)?;
            let sent = hosts.send_record(&kept.folder);
            kept.failure = kept.failure.or(sent.err().map(RunError::from));
            return Ok(kept);
        }
        let own =
            folder.inside("share-1").inspect_err(|error| hosts.call_off(&error.to_string()))?;
        let ran = self.run_here(own, &path, cell, repeat);
        let RunWithFolder { folder: own, failure, .. } =
            ran.inspect_err(|_| folder.remove_if_empty())?;
        let (others, missing) = hosts.gather(&folder);
        let place = folder.path().display().to_string();
        for why in &missing {
            self.context.watch.error(&format!(
                "{why}; the record of all others is incomplete in {place}; with the folder that is \
                 left on that host: petal merge {place}/share-* DIR"
            ));
        }
        let folders: Vec<PathBuf> = std::iter::once(own.path().to_owned()).chain(others).collect();
        drop(own); // Nobody fills it any more.
        let merged = merge_into(&folders, folder, &self.limits_of_first_cell)?;
        self.context.watch.judged(&merged.run.summary.findings);
        Ok(RunWithFolder { failure: failure.or(merged.failure), ..merged })
    }

    /// Runs this host's sessions into this folder, as a cell (from 1; 0: none) of a sweep. `shown`
    /// is the folder of the run on all hosts.
    fn run_here(
        &self,
        folder: RecordFolder,
        shown: &Path,
        cell: u32,
        repeat: u32,
    ) -> Result<RunWithFolder, RunError> {
        let UsedData { loaded, rows, schemas, block_size } = self.data.clone();
        let workload = Workload::new(&self.settings, rows, block_size, schemas, self.seed, repeat);
        let workload = workload.of_cell(cell).of_attempt(self.attempt);
        let plan = seats(&self.settings, schemas, petal_engine::endpoints(self.engine.as_ref()));
        let (path, sessions) = (self.ledger.as_deref(), (plan.len() as u32, self.share));
        let begin = |path| {
            let (engine, signals) = (self.engine.as_ref(), &self.context.caller.signals);
            ledger::begin(path, engine, &self.settings, &workload, sessions, signals)
        };
        let ledger = path.map(begin).transpose();
        let ledger = ledger.inspect_err(|_| folder.remove_if_empty())?;
        let job = Job {
            engine: self.engine.as_ref(),
            engines: self.context.engines,
            settings: &self.settings,
            workload,
            seats: self.share.seats(&plan),
            plan,
            share: self.share,
            start: self.start,
            loaded,
            folder: Some(&folder),
            os_data: self.os_data.as_deref(),
            ledger: ledger.as_ref(),
            neighbours: self.neighbours.as_ref(),
            limits_of_first_cell: self.limits_of_first_cell.clone(),
            signals: self.context.caller.signals.clone(),
            hooks: HookGroup::default(),
            watch: self.context.watch,
        };
        let run = record::sweep::run_name(shown, cell);
        let engine = self.engine.support().scheme;
        let shown = Some(shown.to_owned());
        self.context.watch.begins(&Subject { engine, run, cell, folder: shown });
        let keep = |run, hangs: Option<String>| {
            let (run, failure) = self.keep(&job, &folder, run);
            if let Some(hangs) = hangs {
                let not_written = failure.map_or_else(String::new, |why| format!("\n{why}"));
                let place = folder.path().display();
                let message = format!("{hangs}{not_written}\nThe record is in {place}");
                self.context.watch.leave(&message);
            }
            (run, failure)
        };
        let (run, failure) = drive(&job, keep).inspect_err(|error| {
            folder.remove_if_empty();
            ledger.iter().for_each(|ledger| ledger::discard(ledger));
            if let Start::Together(hosts) = self.start {
                hosts.call_off(&error.to_string());
            }
        })?;
        drop(job);
        Ok(RunWithFolder { run, folder, failure })
    }

    /// Judges a run and writes its record, with the scripts' output. Returns an error in those
    /// steps.
    fn keep(&self, job: &Job<'_>, folder: &RecordFolder, mut run: Run) -> (Run, Option<RunError>) {
        run.details.replay = self.replay.clone();
        let end = |ledger| ledger::end(ledger, &mut run, &job.signals).err();
        let mut failure = job.ledger.and_then(end);
        after_outage::ask(job, &mut run, self.context);
        // A failure is reported later, when the whole record is written.
        let _ = save_before_post(job, folder, &run);
        match call_hook(job, "post") {
            Ok(call) => run.details.hooks.extend(call),
            Err(error) => {
                run.details.gaps.push(error.to_string());
                failure = failure.or(Some(error));
            }
        }
        petal_judge::conclude(&mut run);
        self.context.watch.judged(&run.summary.findings);
        // After the hook, which may have fetched the file.
        failure = failure.or(self.merge_os_data(&mut run, folder).err());
        failure = failure.or(write(folder, &run).err().map(RunError::from));
        match call_hook(job, "end") {
            Ok(None) => {}
            Ok(Some(call)) => {
                run.details.hooks.push(call);
                failure = failure.or(write(folder, &run).err().map(RunError::from));
            }
            Err(error) => failure = failure.or(Some(error)),
        }
        (run, failure.or(folder.moved_words().map(RunError::Environment)))
    }

    /// Merges the file of `--os-data`. A failure is a gap; the run itself stays.
    fn merge_os_data(&self, run: &mut Run, folder: &RecordFolder) -> Result<(), RunError> {
        let Some(file) = &self.os_data else { return Ok(()) };
        os_data::wait_for(run, file);
        let written = os_data::merge(run, file, folder, &|line| self.context.watch.note(line));
        let written = written.map_err(|error| {
            run.details.gaps.push(os_merge::gap(&error));
            petal_judge::conclude(run);
            let message = format!(
                "{error}; the run itself is recorded: petal report {} --os-data FILE",
                folder.path().display()
            );
            match error {
                RecordError::Table { .. } => RunError::Setting(message),
                _ => RunError::Environment(message),
            }
        });
        Ok(written??)
    }

    fn name(&self) -> String {
        let settings = &self.settings;
        let mix = match (settings.readers, settings.writers) {
            (None, None) if settings.has_kind_rates() => "rates".to_owned(),
            (None, None) => format!("u{}", settings.update_pct),
            (readers, writers) => format!("r{}-w{}", readers.unwrap_or(0), writers.unwrap_or(0)),
        };
        let sessions = seats(settings, self.data.schemas, 1).len();
        let merges = matches!(self.start, Start::Together(_)) && self.share.is_first();
        let share = match self.share.is_whole() || merges {
            true => String::new(),
            false => format!("-share{}of{}", self.share.number, self.share.of),
        };
        format!("{}-{sessions}x-{mix}{share}", settings.db.scheme)
    }
}

/// Saves the figures before the script runs, in case the script or petal fails. The script's values
/// enter the record when it has ended.
fn save_before_post(job: &Job<'_>, folder: &RecordFolder, run: &Run) -> Result<(), RecordError> {
    if job.settings.external_script.is_none() {
        return Ok(());
    }
    let mut run = run.clone();
    run.details.gaps.push(
        "petal ended before EXTERNAL_SCRIPT had ended at `post`: its output is missing here"
            .to_owned(),
    );
    petal_judge::conclude(&mut run);
    record::save(folder, &run)?;
    Ok(())
}

fn write(folder: &RecordFolder, run: &Run) -> Result<(), RecordError> {
    record::save(folder, run)?;
    petal_report::write_all(folder, run)?;
    Ok(())
}

/// Draws a new seed of 53 bits, so that every JSON reader keeps it exactly.
pub fn draw_seed() -> Result<u64, RunError> {
    rand::rngs::SysRng.try_next_u64().map(|drawn| drawn >> 11).map_err(|error| {
        RunError::Environment(format!(
            "the system gives no random seed: {error}; give one with --seed"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scans_of_what_was_loaded_without_scan_tables_are_refused() {
        let there = |scan_rows| LoadedSchema {
            number: 1,
            rows: 2048,
            scan_rows,
            block_size: 8192,
            bytes: Some(2048 * 8192),
            ..LoadedSchema::default()
        };
        let settings = Settings { scan_pct: 10, ..Settings::default() };
        assert!(UsedData::check(&settings, vec![there(0)]).is_err());
        assert!(UsedData::check(&settings, vec![there(128)]).is_ok());
        assert!(UsedData::check(&Settings::default(), vec![there(0)]).is_ok());
    }
}
