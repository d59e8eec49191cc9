//! Ledger of a run: begun before the trigger, fed by the sessions, ended with the last of them.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use time::OffsetDateTime;

use petal_engine::server::detached_worker::DetachedWorker;
use petal_engine::server::liveness::{AbortHandle, TICK};
use petal_engine::{Engine, EngineError, Outcome, Stop};
use petal_host::files;
use petal_record::Run;
use petal_record::ledger::{
    Acknowledged, FORMAT, LedgerFile, LedgerHeader, LedgerKept, LedgerSchema, SessionFrame,
};
use petal_record::moment::exact;
use petal_settings::{RedoStress, Settings};
use petal_workload::op::{Kind, Operation};
use petal_workload::plan::Workload;
use petal_workload::share::Share;
use petal_workload::version::{RunStamps, Version};

use super::RunError;

/// Begins the ledger of this share of a run, which has this many sessions on all hosts. Opens every
/// schema for reading, so that a schema that could not be verified is refused now.
pub fn begin(
    path: &Path,
    engine: &dyn Engine,
    settings: &Settings,
    workload: &Workload,
    (sessions, share): (u32, Share),
    signals: &Arc<AtomicU8>,
) -> Result<Arc<LedgerFile>, RunError> {
    let load = |number| {
        let load = engine.row_reader(number)?.load().to_owned();
        Ok::<_, EngineError>(LedgerSchema { number, load })
    };
    let header = LedgerHeader {
        format: FORMAT.to_owned(),
        petal_version: env!("CARGO_PKG_VERSION").to_owned(),
        url: settings.db.with_absolute_path().redacted(),
        opened_at: exact(OffsetDateTime::now_utc()),
        stamp_mask: RunStamps::of(workload).mask(),
        sessions,
        share: Some(share),
        heavy: settings.redo_stress == RedoStress::Heavy,
        rows: workload.rows,
        schemas: (1..=workload.schemas).map(load).collect::<Result<_, _>>()?,
    };
    Ok(Arc::new(LedgerFile::create(path, &header, signals)?))
}

/// Timeout of the ledger's end. Storage may take its time to sync a long ledger.
fn end_limit(signals: u8) -> Duration {
    match signals {
        0 => Duration::from_secs(60),
        1 => Duration::from_secs(3),
        _ => Duration::ZERO,
    }
}

/// Completes and syncs the ledger on a thread that petal leaves behind if the storage hangs.
fn complete(
    file: &Arc<LedgerFile>,
    since_trigger_ns: u64,
    signals: &AtomicU8,
) -> Result<(), String> {
    let connection = AbortHandle::new();
    let worker =
        DetachedWorker::new("ledger", Arc::clone(file), Arc::clone(&connection), Duration::ZERO);
    let mut on_tick = |waited: Duration| {
        if waited >= end_limit(signals.load(Ordering::Relaxed)) {
            connection.abort(format!("its storage does not answer for {} s", waited.as_secs()));
        }
    };
    let mut worker = worker.map_err(|error| error.to_string())?;
    worker.run(TICK, &mut on_tick, move |file| file.end(since_trigger_ns))?
}

/// Ends the ledger of a run, which its record names. Returns the error of the first failed write:
/// commits after it are not in the ledger.
pub fn end(ledger: &Arc<LedgerFile>, run: &mut Run, signals: &AtomicU8) -> Result<(), RunError> {
    let ended = complete(ledger, (run.summary.elapsed_s * 1e9) as u64, signals);
    let path = ledger.path().display().to_string();
    let result = ended.map_err(|why| {
        format!(
            "{path}: the ledger could not be written on: {why}; it holds the commits before that; \
             keep it where there is room, and run again"
        )
    });
    run.details.ledger = Some(LedgerKept { path, commits: ledger.commits() });
    result.map_err(|why| {
        run.details.gaps.push(why.clone());
        RunError::Environment(why)
    })
}

/// Removes the ledger of a run that measured nothing; it would only block the next run's.
pub fn discard(ledger: &LedgerFile) {
    let is_file = std::fs::metadata(ledger.path()).is_ok_and(|about| about.is_file());
    if is_file && ledger.commits() == 0 {
        // If it cannot be removed, the next run refuses it by name.
        let _ = files::remove(ledger.path());
    }
}

/// Part of the ledger for one session.
pub struct SessionLedger<'a> {
    file: &'a LedgerFile,
    stamps: RunStamps,
    session: u32,
    frame: SessionFrame,
}

impl<'a> SessionLedger<'a> {
    pub fn new(file: &'a LedgerFile, workload: &Workload, session: u32) -> Self {
        let frame = SessionFrame::new(session);
        Self { file, stamps: RunStamps::of(workload), session, frame }
    }

    /// Records which UPDATEs of a batch were acknowledged.
    ///
    /// Engines that time operations inside a server report ends that are late by at most the
    /// network delay of the answer. They report the length of each operation, but not its start: it
    /// began no earlier than the call, and after the operations before it.
    pub fn acknowledge(
        &mut self,
        batch: &[Operation],
        ended: &[Outcome],
        called: Instant,
        stop: &Stop,
    ) {
        let (called_ns, now_ns) =
            (stop.since_trigger_ns(called), stop.since_trigger_ns(Instant::now()));
        let all_ns: u64 = ended.iter().map(|outcome| outcome.busy_ns).sum();
        // If operations overlap, or a server's clock was set, only the call's own bounds hold.
        let is_loose = all_ns > now_ns.saturating_sub(called_ns)
            || ended.iter().any(|outcome| outcome.latency_ns.is_none());
        let mut before_ns = called_ns;
        for outcome in ended {
            let begin_ns = before_ns.min(outcome.end_ns.saturating_sub(outcome.busy_ns));
            before_ns += outcome.busy_ns;
            let Some(operation) = batch.get(outcome.operation as usize) else { continue };
            let is_acknowledged = operation.kind == Kind::Update
                && outcome.error.is_none()
                && outcome.rows == u64::from(operation.rows);
            if !is_acknowledged {
                continue;
            }
            let Some(version) = self.stamps.version(operation.stamp, self.session) else {
                continue;
            };
            self.frame.add(&Acknowledged {
                version: Version { session: self.session, ..version },
                schema: operation.schema,
                first: operation.first,
                rows: operation.rows as u16,
                begin_ns: if is_loose { begin_ns.min(called_ns) } else { begin_ns },
                end_ns: if is_loose { now_ns } else { outcome.end_ns },
            });
        }
        if !self.frame.is_empty() {
            self.file.append(&mut self.frame, now_ns);
        }
    }
}
