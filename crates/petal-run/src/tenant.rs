//! A second user of the same target, next to a run: sessions that read as fast as they can, on schemas
//! that the run does not use.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::thread;
use std::time::Instant;

use petal_engine::in_use::DataUse;
use petal_engine::neighbour::NeighbourSession;
use petal_engine::threads::Thread;
use petal_engine::{Batch, Cancel, Engine, EngineError, Outcomes, Result, Session, Stop};
use petal_settings::Settings;
use petal_workload::op::Operation;
use petal_workload::picker::Picker;
use petal_workload::seat::{Role, Seat};

use super::OpenEngine;
use super::job::Job;

const SESSIONS: u32 = 4;
const BATCH_OPERATIONS: usize = 16;

/// Opens the target with all its schemas, and names those that a run does not use.
pub fn open_other_schemas(
    open: OpenEngine,
    settings: &Settings,
    used: u32,
) -> Result<(Arc<dyn Engine>, Vec<u32>)> {
    let engine = open(&Settings { schemas: None, ..settings.clone() })?;
    let loaded = engine.loaded()?;
    let numbers = loaded.iter().map(|schema| schema.number);
    let others: Vec<u32> = numbers.filter(|number| *number > used).collect();
    match others.is_empty() {
        false => Ok((engine, others)),
        true => Err(EngineError::Setting(format!(
            "--with tenant: {} has no schemas besides the {used} of the run; load more with petal setup, \
             and use fewer with -s",
            settings.db.redacted()
        ))),
    }
}

pub struct Tenant {
    sessions: Vec<(Box<dyn Session>, Picker)>,
    /// Stop of its sessions: a number of signals.
    level: Arc<AtomicU8>,
    cutting: Arc<AtomicBool>,
    _in_use: Box<dyn DataUse>,
    _engine: Arc<dyn Engine>,
}

impl Tenant {
    pub fn open(job: &Job<'_>) -> Result<Self> {
        let (engine, schemas) =
            open_other_schemas(job.engines, job.settings, job.workload.schemas)?;
        let in_use = engine.begin_use(schemas.iter().copied().max().unwrap_or(1))?;
        let connect = |session: u32| {
            let schema = schemas[session as usize % schemas.len()];
            let session = u32::try_from(job.plan.len()).unwrap_or(0) + session + 1;
            let seat = Seat { session, schema, endpoint: 0, role: Role::Reader };
            Ok((engine.connect(seat)?, Picker::new(&job.workload, seat).visiting(vec![schema])))
        };
        let sessions = (0..SESSIONS).map(connect).collect::<Result<_>>()?;
        let (level, cutting) = Default::default();
        Ok(Self { sessions, level, cutting, _in_use: in_use, _engine: engine })
    }
}

impl NeighbourSession for Tenant {
    /// Reads until it is cut.
    fn work(&mut self) -> Result<()> {
        let (level, cutting) = (Arc::clone(&self.level), Arc::clone(&self.cutting));
        let stop = &Stop::until(Instant::now(), None, level, cutting);
        thread::scope(|scope| {
            let begin = |(session, picker): &'_ mut (Box<dyn Session>, Picker)| {
                read(session.as_mut(), picker, stop)
            };
            let workers = self
                .sessions
                .iter_mut()
                .map(|it| Thread::named("tenant").start_in(scope, move || begin(it)));
            let workers = workers.collect::<Vec<_>>();
            workers.into_iter().try_for_each(|worker| {
                let failed =
                    || EngineError::Database("a session of the tenant panicked".to_owned());
                worker?.join().map_err(|_| failed())?
            })
        })
    }

    fn canceller(&self) -> Box<dyn Cancel> {
        let sessions = self.sessions.iter().map(|(session, _)| session.canceller()).collect();
        let (level, cutting) = (Arc::clone(&self.level), Arc::clone(&self.cutting));
        Box::new(TenantCancel { sessions, level, cutting })
    }
}

fn read(session: &mut dyn Session, picker: &mut Picker, stop: &Stop) -> Result<()> {
    let mut done = Outcomes::default();
    while !stop.is_due(Instant::now()) {
        let operations: Vec<Operation> =
            (0..BATCH_OPERATIONS).map(|_| picker.next_step().operation).collect();
        done.ended.clear();
        let result = session.execute(Batch::new(&operations, stop, &mut done));
        if stop.is_requested() {
            return Ok(());
        }
        result.map_err(|error| EngineError::Database(error.message))?;
    }
    Ok(())
}

struct TenantCancel {
    sessions: Vec<Box<dyn Cancel>>,
    level: Arc<AtomicU8>,
    cutting: Arc<AtomicBool>,
}

impl Cancel for TenantCancel {
    fn cancel(&self) {
        self.level.store(1, Ordering::Relaxed);
        self.cutting.store(true, Ordering::Relaxed);
        self.sessions.iter().for_each(|session| session.cancel());
    }

    fn abort(&self) {
        self.sessions.iter().for_each(|session| session.abort());
    }
}
