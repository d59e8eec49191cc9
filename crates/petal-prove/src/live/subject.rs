//! A live server, as the promises see it: each look has a separate connection.

use std::any::Any;
use std::sync::Arc;

use crate::{Provable, ProvedRows, ROWS, SCAN_ROWS, TriedPromise};
use petal_engine::{Engine, FoundRow, LoadPlan, Result, Silent, Stop};
use petal_record::Run;
use petal_settings::Settings;
use petal_settings::url::TargetUrl;
use petal_workload::row::Filler;

use super::{PromiseResult, Request, Unproved};
use petal_run::series::{RunSeries, draw_seed};
use petal_run::{RunError, WorkContext};

/// A password that no error may show.
const PASSWORD: &str = "not-to-be-shown";

pub struct LiveSubject<'a> {
    request: &'a Request<'a>,
    context: &'a WorkContext<'a>,
    /// Context of runs, whose progress is not shown.
    quiet: WorkContext<'a>,
    plan: LoadPlan,
    has_own_report: bool,
    engine: &'a dyn Engine,
}

impl<'a> LiveSubject<'a> {
    pub fn new(
        request: &'a Request<'a>,
        context: &'a WorkContext<'a>,
        engine: &'a dyn Engine,
    ) -> Result<Self, RunError> {
        let caller = context.caller.clone();
        let quiet = WorkContext { caller, watch: &Silent, hosts: None, ..*context };
        let plan = LoadPlan {
            id: draw_seed()?,
            schemas: Vec::new(),
            rows: ROWS,
            scan_rows: SCAN_ROWS,
            block_size: engine.block_size(request.settings.block_sz)?,
            degree: 2,
            unique_index: false,
            filler: Filler::Constant,
            seed: draw_seed()?,
            replace: false,
        };
        let has_own_report = engine.own_report().is_some();
        Ok(Self { request, context, quiet, plan, has_own_report, engine })
    }

    pub fn has_own_report(&self) -> bool {
        self.has_own_report
    }

    /// True if a code of the database is of its surroundings.
    pub fn is_environment(&self, code: &str) -> bool {
        self.engine.server().is_some_and(|server| server.is_environment(code))
    }

    /// A run with the database's own report, on data that it loads.
    pub fn run_with_report(&self) -> PromiseResult {
        const ITEM: &str = "OwnReport::end_report";
        let loaded = self
            .open()
            .and_then(|engine| engine.load(&self.plan(1), &Silent, &self.stop()).map(|_| ()));
        loaded.map_err(|error| Unproved::by(ITEM, error))?;
        let parameters =
            [("SCHEMAS", "1"), ("WORK_LOOP", "100"), ("DATABASE_STATISTICS_TYPE", "awr")];
        let run = self.run(&parameters)?;
        match run.summary.server_reports.is_empty() {
            false => {
                Ok(TriedPromise::Held(format!("{} reports", run.summary.server_reports.len())))
            }
            true => Err(Unproved::Broken { item: ITEM, seen: run.details.gaps.join("; ") }),
        }
    }
}

/// Why a run gave no result.
fn unrun(error: RunError) -> Unproved {
    const ITEM: &str = "Session::execute";
    match error {
        RunError::Engine(error) => Unproved::by(ITEM, error),
        RunError::Connect { error, .. } => Unproved::by(ITEM, error),
        RunError::Setting(why) | RunError::Environment(why) => Unproved::Refused(why),
        RunError::Record(error) if error.is_environment() => Unproved::Refused(error.to_string()),
        error => Unproved::Broken { item: ITEM, seen: error.to_string() },
    }
}

impl Provable for LiveSubject<'_> {
    fn open(&self) -> Result<Arc<dyn Engine>> {
        let settings =
            Settings { update_pct: 100, hot_schema_frequency: 1, ..self.request.settings.clone() };
        self.quiet.open(&settings)
    }

    fn plan(&self, schemas: u32) -> LoadPlan {
        LoadPlan { schemas: (1..=schemas).collect(), ..self.plan.clone() }
    }

    fn rows(&self, schema: u32) -> Result<ProvedRows> {
        let mut found = Vec::new();
        self.open()?.row_reader(schema)?.read(1, ROWS, &mut found)?;
        // As long for each UPDATE.
        let text = |row: FoundRow| match row.stamps {
            Ok(stamps) => format!("{:016x}", stamps.row),
            Err(fault) => fault,
        };
        Ok(found.into_iter().map(|row| (row.key, text(row))).collect())
    }

    fn hold(&self) -> Result<Option<Box<dyn Any>>> {
        match self.open()?.server() {
            Some(server) => server.hold_rows(1),
            None => Ok(None),
        }
    }

    fn run(&self, parameters: &[(&'static str, &str)]) -> PromiseResult<Run> {
        let settings =
            (self.request.run_settings)(parameters).map_err(|error| unrun(error.into()))?;
        let settings = Settings { out: self.request.scratch.clone(), ..settings };
        let engine = self.quiet.open(&settings).map_err(|error| unrun(error.into()))?;
        let series = RunSeries::new(engine, settings, &self.quiet).map_err(unrun)?;
        Ok(series.run_once(1, Some("prove")).map_err(unrun)?.run)
    }

    fn drop_elsewhere(&self) -> std::result::Result<(), String> {
        let dropped = self.open().and_then(|engine| engine.drop_data());
        dropped.map(|_| ()).map_err(|error| error.to_string())
    }

    fn unreachable(&self) -> Result<(Arc<dyn Engine>, String, &'static str)> {
        let db = &self.request.settings.db;
        let (url, name) = match db.server() {
            Some(_) => (format!("{}://petal:{PASSWORD}@127.0.0.1:1/x", db.scheme), "127.0.0.1:1"),
            None => (format!("{}:/proc/self/exe/x", db.scheme), "/proc/self/exe/x"),
        };
        let mut settings = self.request.settings.clone();
        if let Ok(url) = TargetUrl::parse(&url) {
            let options = db.options.clone();
            settings.db = TargetUrl { options, ..url };
        }
        Ok((self.quiet.open(&settings)?, name.to_owned(), PASSWORD))
    }

    fn stop(&self) -> Stop {
        super::stop(self.context)
    }
}
