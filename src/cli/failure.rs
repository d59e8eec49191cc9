//! Why a command ended, as a person and a script need to know it.

use std::fmt;
use std::process::ExitCode;

use super::record_folders::{DEPTH_MAX, records_below};
use petal_engine::EngineError;
use petal_engine::threads::ThreadError;
use petal_host::numbers::counted;
use petal_judge::TOO_FEW_OPERATIONS;
use petal_judge::compare::ComparisonVerdict;
use petal_judge::compare::limits::{LimitOutcome, LimitResult};
use petal_record::headline::Validity;
use petal_record::{RecordError, Run, Status};
use petal_run::RunError;
use petal_settings::error::SettingErrors;

/// Exit codes that scripts can use, worse ones above better ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exit {
    Done = 0,
    /// The work failed, or sessions were lost.
    Failed = 1,
    /// Usage or settings.
    Usage = 2,
    /// Unreachable, refused, full, read-only, not loaded.
    Environment = 3,
    /// A limit of `compare` or `history` can neither be said to be kept nor to be broken, or a
    /// prediction is refused.
    Inconclusive = 4,
    /// A signal ended it; results are kept.
    Interrupted = 130,
}

/// True for an invalid run, unless nothing but its length is wrong: then the run itself is right.
fn is_invalid(run: &Run) -> bool {
    let verdict = petal_judge::headline(run).verdict;
    let is_short = verdict.reason.is_some_and(|reason| reason.finding == TOO_FEW_OPERATIONS);
    verdict.validity == Validity::Invalid && !is_short
}

impl Exit {
    /// Returns the exit code of a run.
    pub fn of_run(run: &Run) -> Self {
        match run.summary.status {
            Status::Interrupted => Self::Interrupted,
            Status::Failed | Status::Incomplete => Self::Failed,
            Status::Complete if !run.summary.sessions_lost.is_empty() => Self::Failed,
            Status::Complete if is_invalid(run) => Self::Failed,
            Status::Complete if run.summary.nothing_done() => Self::Failed,
            Status::Complete => Self::Done,
        }
    }

    /// The exit code of limits: the worst of them counts for all.
    pub fn of_limits(held: &[LimitResult]) -> Self {
        match held.iter().map(|held| held.outcome).max() {
            Some(LimitOutcome::Failed) => Self::Failed,
            Some(LimitOutcome::Inconclusive) => Self::Inconclusive,
            Some(LimitOutcome::Passed) | None => Self::Done,
        }
    }

    /// The exit code of a comparison: without a valid run on a side it is inconclusive.
    pub fn of_comparison(verdict: Option<&ComparisonVerdict>, held: &[LimitResult]) -> Self {
        match verdict.is_some_and(|verdict| verdict.is_without_a_side) {
            true => Self::Inconclusive,
            false => Self::of_limits(held),
        }
    }

    pub fn of_error(error: &RunError) -> Self {
        match error {
            RunError::Engine(error) | RunError::Connect { error, .. } => match error {
                EngineError::Setting(_) => Self::Usage,
                EngineError::Environment(_)
                | EngineError::WrongServer(_)
                | EngineError::Data(_)
                | EngineError::NotLoaded { .. } => Self::Environment,
                EngineError::Database(_) => Self::Failed,
                EngineError::Interrupted => Self::Interrupted,
            },
            RunError::Setting(_)
            | RunError::Settings(_)
            | RunError::Record(RecordError::Table { .. } | RecordError::Share { .. }) => {
                Self::Usage
            }
            RunError::Environment(_) | RunError::Record(_) => Self::Environment,
            RunError::Hook(_) => Self::Failed,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// The error that a command returns: a message and an exit code.
#[derive(Debug)]
pub struct CommandError {
    pub exit: Exit,
    pub message: String,
}

impl CommandError {
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into() }
    }

    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// Says `what` of the error that comes, for `map_err`.
    pub fn failed<E: fmt::Display>(what: impl fmt::Display) -> impl FnOnce(E) -> Self {
        move |error| Self::new(Exit::Failed, format!("{what}: {error}"))
    }
}

macro_rules! failures {
    ($($error:ty),+) => {
        $(impl From<$error> for CommandError {
            fn from(error: $error) -> Self {
                let error = RunError::from(error);
                Self::new(Exit::of_error(&error), error.to_string())
            }
        })+
    };
}

failures!(EngineError, ThreadError, RunError, SettingErrors);

/// Records below another folder that are named.
const NAMED_MAX: usize = 3;

impl From<RecordError> for CommandError {
    fn from(error: RecordError) -> Self {
        let below = match &error {
            RecordError::NotARecord { path } => records_below(path, DEPTH_MAX, &mut |_| {}),
            _ => Vec::new(),
        };
        let error = RunError::from(error);
        let mut message = error.to_string();
        if let (Some((start, _)), false) = (message.split_once(" (neither"), below.is_empty()) {
            let names = below.iter().take(NAMED_MAX).map(|path| path.display().to_string());
            let more = petal_judge::and_more(", ", below.len().saturating_sub(NAMED_MAX));
            let names = names.collect::<Vec<_>>().join(", ");
            message =
                format!("{start}; {} below: {names}{more}", counted(below.len() as u64, "record"));
        }
        Self::new(Exit::of_error(&error), message)
    }
}
