//! Settings of the server that a sweep varies: changed for each block of cells, proven to be in
//! effect, and put back at the end. The journal ([`petal_record::server_settings`]) is written
//! before the first change, so that another petal can put back the changes of a killed one.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use petal_engine::server_settings::{Applies, ChangeableSettings, ServerSetting, SettingsLock};
use petal_engine::{EngineError, ProgressUnit, Result, Server};
use petal_record::server_settings::{ChangedSetting, FORMAT, LastWriter, NAME, SettingsJournal};
use petal_record::{RecordFolder, moment};
use petal_settings::Settings;
use rustix::process::{Pid, Signal, kill_process_group};
use time::OffsetDateTime;

use petal_run::{OpenEngine, RunError, Watch, WorkContext, secrets};

/// The original state of a setting without a stored value.
const NO_ENTRY: &str = "no entry";
const POLL: Duration = Duration::from_millis(100);
/// Time for a value to take effect, after a reload or when the server answers again.
const EFFECT_LIMIT: Duration = Duration::from_secs(10);
/// Time for which the server may hold the lock of a petal that ended.
const RELEASE_LIMIT: Duration = Duration::from_secs(2);
/// Output of the restart command, in the sweep's folder.
const OUTPUT: &str = "restart-server.log";

/// Command that restarts the server: `--restart-server`.
#[derive(Debug, Clone)]
pub struct RestartCommand {
    pub command: String,
    /// Time for the command to end, and once more for the server to answer.
    pub limit: Duration,
}

/// A server whose settings are changed, and the folder of the sweep that changes them.
pub struct ChangedServer<'a> {
    pub open: OpenEngine,
    pub settings: &'a Settings,
    pub restart: Option<&'a RestartCommand>,
    pub folder: &'a RecordFolder,
    pub watch: &'a dyn Watch,
}

/// The state that a setting is to have.
struct WantedSetting<'a> {
    name: &'a str,
    stored: Option<&'a str>,
    in_effect: &'a str,
}

impl ChangedServer<'_> {
    /// Asks through an engine that no signal ends.
    fn ask<T>(&self, question: impl FnOnce(&dyn ChangeableSettings) -> Result<T>) -> Result<T> {
        let engine = (self.open)(self.settings)?;
        let Some(settings) = engine.server().and_then(Server::settings) else {
            return Err(EngineError::Setting(format!(
                "{}: petal changes no settings of such a target; leave --server-setting out, and \
                 make a sweep for each value",
                self.settings.db.redacted()
            )));
        };
        question(settings)
    }

    /// Takes the server's lock for changes of its settings. A petal that ended may have it for a
    /// moment.
    pub fn lock(&self) -> Result<Box<dyn SettingsLock>> {
        let began = Instant::now();
        loop {
            match self.ask(|server| server.lock_settings()) {
                Err(EngineError::Environment(_)) if began.elapsed() < RELEASE_LIMIT => {
                    thread::sleep(POLL);
                }
                locked => return locked,
            }
        }
    }

    fn read(&self, name: &str) -> Result<ServerSetting> {
        self.ask(|server| server.read_setting(name))
    }

    fn store(&self, setting: &ServerSetting, value: Option<&str>) -> Result<()> {
        if let Some(value) = value {
            setting.permitted(value).map_err(|why| refused(&setting.name, value, &why))?;
        }
        self.ask(|server| server.store_setting(setting, value))
    }

    /// Refuses settings and values that the server would not take, before anything is changed.
    pub fn check(&self, asked: &[(String, Vec<String>)]) -> Result<(), RunError> {
        for (name, values) in asked {
            let refuse = |value: &str, why: String| {
                Err(RunError::Setting(format!("--server-setting {name}={value}: {why}")))
            };
            let there = match self.read(name) {
                Err(EngineError::Setting(why)) => {
                    let why = why.strip_prefix(&format!("{name}: ")).unwrap_or(&why).to_owned();
                    return refuse(&values.join(","), why);
                }
                there => there?,
            };
            let mut seen = Vec::new();
            for value in values {
                match there.permitted(value) {
                    Err(why) => return refuse(value, why),
                    Ok(value_there) if seen.contains(&value_there) => {
                        return refuse(
                            value,
                            "is twice in its list; name each value once".to_owned(),
                        );
                    }
                    Ok(value_there) => seen.push(value_there),
                }
            }
            if there.applies == Applies::AfterRestart && self.restart.is_none() {
                let why = "takes effect only when the server restarts; name the command that \
                           restarts it: --restart-server 'systemctl restart SERVICE'";
                return refuse(&values.join(","), why.to_owned());
            }
            if there.memory == Some(f64::INFINITY) {
                self.watch.note(&format!(
                    "{name}: petal cannot see the memory of the server's host; with more than it has, \
                     the server does not start or is killed"
                ));
            }
            if there.applies == Applies::AfterRestart {
                self.watch.note(&format!(
                    "{name}: the server restarts with each value; if it does not start with one, \
                     remove {name} from {} and start it",
                    self.ask(|server| Ok(server.place()))?
                ));
            }
        }
        Ok(())
    }

    /// Stores the values, restarts the server if one needs it, and proves that all are in effect.
    fn bring_about(&self, wanted: &[WantedSetting<'_>]) -> Result<(), RunError> {
        let mut waits = None;
        for want in wanted {
            let there = self.read(want.name)?;
            if there.applies == Applies::UntilRestart {
                continue;
            }
            if there.stored.as_deref() != want.stored {
                self.store(&there, want.stored)?;
            }
            let is_new = !there.values.is_same(&there.in_effect, want.in_effect);
            if there.applies == Applies::AfterRestart && is_new {
                waits = Some(want.name);
            }
        }
        if let Some(name) = waits {
            self.restart(name)?;
        }
        for want in wanted {
            let there = self.read(want.name)?;
            let is_new = !there.values.is_same(&there.in_effect, want.in_effect);
            if there.applies == Applies::UntilRestart && is_new {
                self.store(&there, Some(want.in_effect))?;
            }
        }
        wanted.iter().try_for_each(|want| self.prove(want))
    }

    /// Reads a value back until it is in effect.
    fn prove(&self, want: &WantedSetting<'_>) -> Result<(), RunError> {
        let began = Instant::now();
        loop {
            let there = self.read(want.name)?;
            if there.values.is_same(&there.in_effect, want.in_effect) {
                return Ok(());
            }
            if began.elapsed() >= EFFECT_LIMIT {
                return Err(RunError::Environment(format!(
                    "{}: {} has the value {} in effect and not {}; find out whether the role, the \
                     database or another file sets it, or whether the server did not restart",
                    self.settings.db.redacted(),
                    want.name,
                    there.in_effect,
                    want.in_effect
                )));
            }
            thread::sleep(POLL);
        }
    }

    fn restart(&self, name: &str) -> Result<(), RunError> {
        let Some(restart) = self.restart else {
            return Err(RunError::Environment(format!(
                "{name} is stored, and takes effect when the server restarts: restart it and call \
                 this again, or give --restart-server COMMAND"
            )));
        };
        self.run_command(restart)?;
        let (began, mut shown) = (Instant::now(), 0);
        self.watch.phase("waiting for the server", restart.limit.as_secs(), ProgressUnit::Seconds);
        loop {
            let Err(error) = self.ask(|server| server.server_identity()) else { return Ok(()) };
            if began.elapsed() >= restart.limit {
                return Err(RunError::Environment(format!(
                    "the server did not answer within {} s after --restart-server {}: {error}; \
                     --restart-limit SECONDS gives it longer",
                    restart.limit.as_secs(),
                    restart.command
                )));
            }
            self.advance(began, &mut shown);
            thread::sleep(POLL);
        }
    }

    /// Restarts a server that does not answer, if there is a command for it.
    pub fn revive(&self) -> Result<(), RunError> {
        match self.ask(|server| server.server_identity()) {
            Err(EngineError::Environment(_)) if self.restart.is_some() => self.restart(""),
            _ => Ok(()),
        }
    }

    fn advance(&self, began: Instant, shown: &mut u64) {
        let seconds = began.elapsed().as_secs();
        self.watch.advance(seconds - *shown);
        *shown = seconds;
    }

    /// Runs the restart command to its end, also after a signal: half a restart helps nobody. Its
    /// processes stay when it succeeds, because the server may be one of them.
    fn run_command(&self, restart: &RestartCommand) -> Result<(), RunError> {
        let output = self.folder.path().join(OUTPUT);
        let failed = |why: String| {
            RunError::Hook(format!(
                "--restart-server {} {why}; its output is in {}",
                restart.command,
                output.display()
            ))
        };
        self.watch.phase("restarting the server", restart.limit.as_secs(), ProgressUnit::Seconds);
        let status = self.run_in_group(restart);
        match status.map_err(|error| failed(format!("could not be run: {error}")))? {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(failed(format!("ended with {status}"))),
            None => Err(failed(format!("had not ended after {} s", restart.limit.as_secs()))),
        }
    }

    fn run_in_group(&self, restart: &RestartCommand) -> io::Result<Option<ExitStatus>> {
        let log = self.folder.create_anew(OUTPUT)?;
        let mut command = Command::new("/bin/sh");
        command.args(["-c", &restart.command]).process_group(0).stdin(Stdio::null());
        command.stdout(log.try_clone()?).stderr(log);
        secrets::remove_from(&mut command);
        let mut child = command.spawn()?;
        let (began, mut shown) = (Instant::now(), 0);
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(Some(status));
            }
            if began.elapsed() >= restart.limit {
                // The group's leader was not reaped yet, so that its number is not another's.
                let group = Pid::from_raw(child.id().cast_signed());
                let _ = group.map(|group| kill_process_group(group, Signal::KILL));
                child.wait()?;
                return Ok(None);
            }
            self.advance(began, &mut shown);
            thread::sleep(POLL);
        }
    }

    /// Reads the original state of settings. Refuses one that waits for a restart.
    fn journal(&self, asked: &[(String, Vec<String>)]) -> Result<SettingsJournal, RunError> {
        let mut settings = Vec::new();
        for (name, values) in asked {
            let there = self.read(name)?;
            if there.is_pending {
                return Err(RunError::Environment(format!(
                    "{}: a stored value of {name} waits for a restart, so that its original state is \
                     not clear; restart the server, or remove that value, and begin again",
                    self.settings.db.redacted()
                )));
            }
            // The end puts it back.
            let original = there.stored.as_ref().unwrap_or(&there.in_effect);
            there.permitted(original).map_err(|why| refused(name, original, &why))?;
            let ServerSetting { name, stored, in_effect, .. } = there;
            settings.push(ChangedSetting { name, stored, in_effect, values: values.clone() });
        }
        Ok(SettingsJournal {
            format: FORMAT.to_owned(),
            db: self.settings.db.redacted(),
            server: self.ask(|server| server.server_identity())?,
            place: self.ask(|server| Ok(server.place()))?.to_owned(),
            changed_at: moment::exact(OffsetDateTime::now_utc()),
            restored_at: None,
            settings,
        })
    }

    /// Puts the original values back and closes the journal. A value that somebody else stored since
    /// is treated as `foreign` says.
    pub fn put_back(
        &self,
        journal: &mut SettingsJournal,
        foreign: ForeignValues<'_>,
    ) -> Result<(), RunError> {
        let server = self.ask(|server| server.server_identity())?;
        if server != journal.server {
            return Err(RunError::Environment(format!(
                "{}: it is another server ({server}) than the sweep's ({}); name that one by --db",
                self.settings.db.redacted(),
                journal.server
            )));
        }
        // Somebody else may have made the record.
        for changed in &journal.settings {
            let there = self.read(&changed.name)?;
            for value in changed.stored.iter().chain([&changed.in_effect]) {
                there.permitted(value).map_err(|why| refused(&changed.name, value, &why))?;
            }
        }
        let mut kept = Vec::new();
        for changed in &journal.settings {
            let there = self.read(&changed.name)?;
            let (now, original) = (there.stored.as_deref(), changed.stored.as_deref());
            let is_foreign = match foreign {
                ForeignValues::Keep(stored) => stored.is_foreign(changed, &there),
                ForeignValues::Refuse | ForeignValues::Replace => {
                    let by = changed.last_writer(now, |one, two| there.values.is_same(one, two));
                    by == LastWriter::SomebodyElse
                }
            };
            let is_there = now == original;
            let (now, original) = (now.unwrap_or(NO_ENTRY), original.unwrap_or(NO_ENTRY));
            let name = &changed.name;
            match foreign {
                ForeignValues::Refuse if is_foreign => {
                    return Err(RunError::Environment(format!(
                        "{name}: somebody else changed it since: {} has {now}, the sweep stored {}, \
                         and before it was {original}; petal changed nothing; `petal \
                         restore-settings {} --db {} --force` puts {original} back",
                        journal.place,
                        changed.values.join(" or "),
                        self.folder.path().display(),
                        journal.db
                    )));
                }
                ForeignValues::Keep(_) if is_foreign => {
                    kept.push(name.clone());
                    self.watch.note(&format!(
                        "{name}: somebody else stored {now} during the sweep, and petal keeps it; \
                         before the sweep it was {original}"
                    ));
                }
                _ if is_there => {}
                _ => {
                    self.watch.note(&format!("{name}: {now} -> {original} (in {})", journal.place))
                }
            }
        }
        let originals = journal.settings.iter().filter(|changed| !kept.contains(&changed.name));
        let originals = originals.map(|changed| WantedSetting {
            name: &changed.name,
            stored: changed.stored.as_deref(),
            in_effect: &changed.in_effect,
        });
        self.bring_about(&originals.collect::<Vec<_>>())?;
        journal.close(self.folder)?;
        self.watch.note(&match kept.as_slice() {
            [] => "the server has its original settings again".to_owned(),
            kept => {
                format!("the server has its original settings again, except {}", kept.join(", "))
            }
        });
        Ok(())
    }

    /// Adds the next step to the reason why the original settings are not put back.
    pub fn with_next_step(&self, error: RunError, journal: &SettingsJournal) -> RunError {
        if matches!(error, RunError::Engine(EngineError::Setting(_))) {
            return error;
        }
        if !journal.is_open() {
            return RunError::Environment(format!(
                "the server has its original settings again, but {} does not say so ({error}); \
                 `petal restore-settings` finds nothing to change and writes it",
                self.folder.path().join(NAME).display()
            ));
        }
        let names: Vec<&str> = journal.settings.iter().map(|s| s.name.as_str()).collect();
        RunError::Environment(format!(
            "{error}; the original settings of the server are in {} and not all put back: `petal \
             restore-settings {} --db {} --restart-server COMMAND` does it; if the server does not \
             start, remove {} from {} first, and start it",
            self.folder.path().join(NAME).display(),
            self.folder.path().display(),
            journal.db,
            names.join(", "),
            journal.place
        ))
    }
}

/// A value that petal does not store: the server's own, or one of a record.
fn refused(name: &str, value: &str, why: &str) -> EngineError {
    EngineError::Setting(format!(
        "{name}={value}: {why}; petal stores no such value (docs/recipes/server-settings.md)"
    ))
}

/// The treatment of values that somebody else stored while a sweep's values were there.
#[derive(Clone, Copy)]
pub enum ForeignValues<'a> {
    Refuse,
    Replace,
    /// Keeps them; the values of the running sweep are known.
    Keep(&'a StoredValues),
}

/// The stored values that are the sweep's: of each setting the last one, or two while it changes.
#[derive(Default)]
pub struct StoredValues(BTreeMap<String, Vec<String>>);

impl StoredValues {
    /// True for a value that neither the sweep nor a restart of the server has put there.
    fn is_foreign(&self, changed: &ChangedSetting, there: &ServerSetting) -> bool {
        let is = |other: Option<&str>| match (there.stored.as_deref(), other) {
            (Some(now), Some(other)) => there.values.is_same(now, other),
            (now, other) => now == other,
        };
        let Some(own) = self.0.get(&changed.name) else { return !is(changed.stored.as_deref()) };
        let is_forgotten = there.applies == Applies::UntilRestart && is(changed.stored.as_deref());
        !is_forgotten && !own.iter().any(|own| is(Some(own)))
    }

    fn begin(&mut self, values: &[(String, String)]) {
        for (name, value) in values {
            self.0.entry(name.clone()).or_default().push(value.clone());
        }
    }

    fn end(&mut self, values: &[(String, String)]) {
        self.0.extend(values.iter().map(|(name, value)| (name.clone(), vec![value.clone()])));
    }
}

/// The changes of a running sweep, which holds the server's lock. Dropping it puts the original
/// values back.
pub struct ServerChanges<'a> {
    server: ChangedServer<'a>,
    asked: &'a [(String, Vec<String>)],
    lock: Option<Box<dyn SettingsLock>>,
    stored: StoredValues,
    /// Somebody else changed a setting of the sweep.
    pub is_disturbed: bool,
    /// Present from the first change until the values are back, or cannot be put back.
    journal: Option<SettingsJournal>,
}

impl<'a> ServerChanges<'a> {
    /// Locks the server's settings. Refuses a server whose settings another petal changes.
    pub fn new(
        settings: &'a Settings,
        asked: &'a [(String, Vec<String>)],
        restart: Option<&'a RestartCommand>,
        folder: &'a RecordFolder,
        context: &WorkContext<'a>,
    ) -> Result<Self, RunError> {
        let (open, watch) = (context.engines, context.watch);
        let server = ChangedServer { open, settings, restart, folder, watch };
        let lock = Some(server.lock()?);
        let stored = StoredValues::default();
        Ok(Self { server, asked, lock, stored, is_disturbed: false, journal: None })
    }

    /// Takes the lock again that a restart of the server released.
    fn keep_lock(&mut self) -> Result<(), RunError> {
        if !self.lock.as_mut().is_some_and(|lock| lock.is_held()) {
            self.lock = None;
            self.lock = Some(self.server.lock()?);
        }
        Ok(())
    }

    /// Gives the server the values of a cell. Refuses to replace a value of somebody else.
    pub fn apply(&mut self, values: &[(String, String)]) -> Result<(), RunError> {
        if values.is_empty() {
            return Ok(());
        }
        self.keep_lock()?;
        let journal = match self.journal.take() {
            Some(journal) => journal,
            None => {
                let journal = self.server.journal(self.asked)?;
                journal.save(self.server.folder)?;
                journal
            }
        };
        let undisturbed = self.check_undisturbed(&journal);
        self.journal = Some(journal);
        undisturbed?;
        let wanted = values.iter().map(|(name, value)| WantedSetting {
            name,
            stored: Some(value),
            in_effect: value,
        });
        self.stored.begin(values);
        self.server.bring_about(&wanted.collect::<Vec<_>>())?;
        self.stored.end(values);
        self.keep_lock()
    }

    fn check_undisturbed(&mut self, journal: &SettingsJournal) -> Result<(), RunError> {
        for changed in &journal.settings {
            let there = self.server.read(&changed.name)?;
            if self.stored.is_foreign(changed, &there) {
                self.is_disturbed = true;
                return Err(RunError::Environment(format!(
                    "{}: somebody else stored {} during the sweep; petal keeps it, and the sweep \
                     stops here",
                    changed.name,
                    there.stored.as_deref().unwrap_or(NO_ENTRY)
                )));
            }
        }
        Ok(())
    }

    /// Puts the original values back, once.
    pub fn put_back(&mut self) -> Result<(), RunError> {
        let Some(mut journal) = self.journal.take() else { return Ok(()) };
        let put_back = self.keep_lock();
        let foreign = ForeignValues::Keep(&self.stored);
        let put_back = put_back.and_then(|()| self.server.put_back(&mut journal, foreign));
        put_back.map_err(|error| self.server.with_next_step(error, &journal))
    }
}

impl Drop for ServerChanges<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.put_back() {
            self.server.watch.error(&error.to_string());
        }
    }
}
