//! `petal prove`: holds a user's own server to the promises of the conformance suite.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, BufRead as _, IsTerminal as _};
use std::path::{Path, PathBuf};

use clap::{ArgMatches, Command};

use petal_engine::file_lock::FileLock;
use petal_engine::server::data_name::{PROOF, set_data_name};
use petal_host::files::{self, Folder};
use petal_prove::live::{Request, prove};
use petal_settings::error::SettingErrors;
use petal_settings::table::{CommandKind, PARAMETERS};
use petal_settings::{Settings, flags, read};

use super::args::{self, flag, path};
use super::console::Console;
use super::failure::{CommandError, Exit};
use super::{output, signals, source};

const EXAMPLES: &str = "\
Examples:
  petal prove --db oracle://petal@host/service
  petal prove --db postgres://user@host/db --out proof.txt
  petal prove --db oracle://petal@host/svc --awr   asks for AWR's licence

petal loads two small tables named petal_prove, next to all other data, and
drops them at the end, also after Ctrl-C. It takes at most ten minutes. The
file it leaves names no host, service, path, user or database: please send it.

Exit codes: 0 all promises are held (some may not be tried); 1 one is broken;
3 the server cannot be reached, refuses some work, or data are left;
130 interrupted.";

pub fn command() -> Command {
    let command = Command::new("prove")
        .about("Prove petal on your own server: each promise, held or not")
        .after_help(args::of_targets(EXAMPLES))
        .arg(path("out", "FILE", "Text to send back [default: petal-prove.txt]"))
        .arg(flag("awr", "Also take AWR snapshots; petal asks first whether its licence is there"))
        .arg(flag("licensed", "Answer that question with yes"));
    // It loads separate data.
    args::with_settings(command, CommandKind::Target)
        .mut_arg("USE_SLOB_SCHEMAS", |arg| arg.hide(true))
}

pub fn run(matches: &ArgMatches, console: &Console) -> Result<Exit, CommandError> {
    let settings = source::read(matches, CommandKind::Target, None, console)?;
    if settings.use_slob_schemas {
        return Err(CommandError::usage(
            "USE_SLOB_SCHEMAS: petal prove loads separate data; leave it out",
        ));
    }
    let is_licensed = matches.get_flag("awr") && is_licensed(matches, console)?;
    let out = matches.get_one::<PathBuf>("out").cloned();
    let out = out.unwrap_or_else(|| PathBuf::from("petal-prove.txt"));
    output::check("--out", &out, &[])?;
    set_data_name(PROOF);
    let signals = signals::count()?;
    let context = source::context(&signals, console);
    let run_settings = |parameters: &[(&'static str, &str)]| run_settings(matches, parameters);
    let (scratch, lock) = make_scratch(&std::env::temp_dir(), &settings.db.redacted())?;
    let request = Request { settings, run_settings: &run_settings, scratch, is_licensed };
    let proofs = prove(&request, &context);
    // Also if nothing began.
    let _ = files::remove_all(&request.scratch);
    drop(lock);
    let proofs = proofs?;
    console.report(|| proofs.table());
    output::write("--out", &out, proofs.to_send())?;
    console.warn(&format!(
        "{} names no host, service, path, user or database: please send it back",
        out.display()
    ));
    if let Some(why) = proofs.left() {
        return Err(CommandError::new(
            Exit::Environment,
            format!("data named {PROOF} may be left: {why}; the next petal prove drops them"),
        ));
    }
    if proofs.is_unloaded() && !proofs.is_broken() {
        return Err(CommandError::new(Exit::Environment, "the data to prove could not be loaded"));
    }
    let (is_broken, is_stopped) = (proofs.is_broken(), proofs.is_stopped());
    if !is_broken && !is_stopped && proofs.refused() > 0 {
        return Err(CommandError::new(
            Exit::Environment,
            format!(
                "{} promises could not be tried: remove each reason, and prove again",
                proofs.refused()
            ),
        ));
    }
    Ok(match (is_broken, is_stopped) {
        (true, _) => Exit::Failed,
        (false, true) => Exit::Interrupted,
        (false, false) => Exit::Done,
    })
}

/// Makes a folder of nobody else's for the records of runs, locked while it is in use: two proofs of one
/// target would spoil each other, and not every database has a lock for them. One that a killed petal left
/// is replaced.
fn make_scratch(temp: &Path, target: &str) -> Result<(PathBuf, FileLock), CommandError> {
    let mut hasher = DefaultHasher::new();
    (target, rustix::process::geteuid().as_raw()).hash(&mut hasher);
    let path = temp.join(format!("{PROOF}-{:016x}", hasher.finish()));
    let failed =
        |why: String| CommandError::new(Exit::Environment, format!("{}: {why}", path.display()));
    let lock = |path: &Path| {
        let file = Folder::open(path)?.file().try_clone()?;
        Ok::<_, io::Error>(FileLock::on(file))
    };
    if let Ok(left) = lock(&path) {
        let held = "another petal proves this target; wait until it has ended, or stop it";
        let _left = left.map_err(|refused| failed(refused.words(held)))?;
        files::remove_all(&path).map_err(|error| failed(error.to_string()))?;
    }
    let made = files::make_private_folder(&path).and_then(|()| lock(&path));
    let lock = made.map_err(|error| failed(error.to_string()))?;
    let lock = lock.map_err(|refused| failed(refused.words("another petal took it")))?;
    Ok((path, lock))
}

/// Settings of a run with these parameters; whatever else is set for runs has no effect.
fn run_settings(
    matches: &ArgMatches,
    parameters: &[(&'static str, &str)],
) -> Result<Settings, SettingErrors> {
    let of_runs = PARAMETERS.iter().filter(|parameter| {
        parameter.taken_by.includes(CommandKind::Run)
            && !parameter.taken_by.includes(CommandKind::Target)
    });
    let mut flags: BTreeMap<&'static str, String> =
        of_runs.map(|parameter| (parameter.key, String::new())).collect();
    flags.extend(flags::given(matches, CommandKind::Target));
    let given = parameters.iter().filter(|(key, _)| *key != "SCHEMAS");
    flags.extend(given.map(|(key, value)| (*key, (*value).to_owned())));
    let schemas = parameters.iter().find(|(key, _)| *key == "SCHEMAS");
    let schemas = schemas.and_then(|(_, value)| value.parse().ok());
    read::read(&source::sources(matches, CommandKind::Run, flags, schemas))
}

/// Asks whether the licence for AWR is there.
fn is_licensed(matches: &ArgMatches, console: &Console) -> Result<bool, CommandError> {
    if matches.get_flag("licensed") {
        return Ok(true);
    }
    if !std::io::stdin().is_terminal() {
        return Err(CommandError::usage(
            "--awr: AWR may be used only with a licence of the Diagnostics Pack, and nobody is there to \
             ask: add --licensed if this database has it",
        ));
    }
    console.warn(
        "AWR may be used only with a licence of the Diagnostics Pack. Does this database have it? [y/N]",
    );
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    read.map_err(CommandError::failed("no answer could be read"))?;
    Ok(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_proof_of_a_target_is_refused_and_a_killed_one_is_not_in_the_way() {
        let temp = tempfile::tempdir().unwrap();
        let (path, lock) = make_scratch(temp.path(), "oracle://petal@db1/svc").unwrap();
        assert!(make_scratch(temp.path(), "oracle://petal@db2/svc").is_ok());
        let refused = make_scratch(temp.path(), "oracle://petal@db1/svc").unwrap_err().message;
        assert!(refused.to_string().contains("another petal proves this target"), "{refused}");
        // Killed.
        drop(lock);
        files::make_private_folder(&path.join("left")).unwrap();
        let (again, _lock) = make_scratch(temp.path(), "oracle://petal@db1/svc").unwrap();
        assert_eq!((again.exists(), again.join("left").exists()), (true, false));
    }
}
