//! `petal verify`: did every acknowledged commit survive?

use std::path::PathBuf;

use clap::{ArgMatches, Command};

use crate::record::ledger;
use crate::report;
use crate::runner::verify;
use crate::settings::table::CommandKind;
use crate::settings::{RedoStress, Settings};

use super::args::{self, flag};
use super::console::Console;
use super::failure::{CommandError, Exit};
use super::{signals, source};

const EXAMPLES: &str = "\
Examples:
  petal verify run1.ledger                                the target that the run was on
  petal verify run1.ledger --db postgres://petal@standby/petal   a standby, promoted
  petal verify run1.ledger --json | jq .lost_commits

Verify before anything else writes there. Exit codes: 0 nothing lost; 1 commits lost, or rows torn or
wrong; 3 the ledger is damaged or of another load, or the target cannot be read: no verdict.";

pub fn command() -> Command {
    let command = Command::new("verify")
        .about("Tell whether every commit of a ledger is still there: after a cut, a failover")
        .after_help(EXAMPLES)
        .arg(args::file("file", "FILE", "The ledger that petal run --ledger FILE kept"))
        .arg(flag("json", "Print what was found as JSON, and only it, on stdout"));
    args::with_settings(command, CommandKind::Target)
}

pub fn run(matches: &ArgMatches, console: &Console) -> Result<Exit, CommandError> {
    let signals = signals::count()?;
    let path = matches.get_one::<PathBuf>("file").cloned().unwrap_or_default();
    let ledger = ledger::read(&path)?;
    let mut settings = source::read_for(matches, &ledger.header.url, console)?;
    as_the_run_was(&mut settings, &ledger.header);
    let found = verify::verify(&ledger, &settings, &source::context(&signals, console))?;
    if matches.get_flag("json") {
        let text = report::json::pretty(&found);
        console.result(&text.map_err(CommandError::failed("the verification is no JSON"))?);
    } else {
        console.report(|| report::verification::text(&found));
    }
    Ok(if found.is_kept() { Exit::Done } else { Exit::Failed })
}

/// The rows as the run's settings have them.
fn as_the_run_was(settings: &mut Settings, header: &ledger::LedgerHeader) {
    settings.schemas = Some(header.schemas.len() as u32);
    settings.redo_stress = if header.heavy { RedoStress::Heavy } else { RedoStress::Lite };
}
