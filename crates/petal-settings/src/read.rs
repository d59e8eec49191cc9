//! Chooses each value: flag over environment over file over default, then makes one validated
//! [`Settings`]. The rules between parameters are in [`super::rules`].

mod other_keys;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::conf::{self, Assignment, Conf};
use super::error::{SettingError, SettingErrors, where_from};
use super::table::{self, CommandKind, PARAMETERS, Parameter, Value, ValueKind};
use super::{GivenParameter, Origin, Settings, rules, trust};

use petal_host::files::{self, Folder};

/// Begins the key of an axis that is a setting of the server: `server.NAME`.
pub const SERVER_AXIS: &str = "server.";

/// Begins the variables that only petal reads.
const OWN_VARIABLE: &str = "PETAL_";

/// The sources of settings. Nothing else is looked at.
pub struct Sources<'a> {
    /// Rules about a run do not bind a setup.
    pub command: CommandKind,
    /// Flags that were given, by key. An empty value takes the default, whatever else says.
    pub flags: BTreeMap<&'static str, String>,
    /// Looks up an environment variable by name.
    pub environment: &'a dyn Fn(&str) -> Option<OsString>,
    /// Names of the environment's variables that begin with `PETAL_`.
    pub variables: &'a dyn Fn() -> Vec<String>,
    /// `--conf`: must be there.
    pub conf: Option<PathBuf>,
    /// The folder of `slob.conf` without `--conf`; None: it is not looked for.
    pub directory: Option<PathBuf>,
    /// `-s`.
    pub schemas: Option<u32>,
}

/// The process's own environment, for [`Sources`].
pub fn process_environment(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

/// The names of the process's own variables, for [`Sources`].
pub fn process_variables() -> Vec<String> {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    names.filter(|name| name.starts_with(OWN_VARIABLE)).collect()
}

/// The variables that may hold a secret: to be kept from every child process.
pub fn secret_variables() -> Vec<String> {
    PARAMETERS
        .iter()
        .filter(|parameter| matches!(parameter.kind, ValueKind::Secret | ValueKind::Url))
        .flat_map(|parameter| [parameter.key.to_owned(), format!("PETAL_{}", parameter.key)])
        .collect()
}

/// Reads and validates everything; reports all that is wrong at once.
pub fn read(sources: &Sources) -> Result<Settings, SettingErrors> {
    let mut errors = Vec::new();
    let file = File::of(sources, &mut errors);
    let mut values = Vec::new();
    let mut failed = BTreeSet::new();
    for parameter in PARAMETERS {
        let result = choose(parameter, sources, &file).and_then(|(text, origin)| {
            parse(parameter, &text, &origin).map(|value| (value, origin))
        });
        match result {
            Ok((value, origin)) => values.push((parameter, value, origin)),
            Err(error) => {
                failed.insert(parameter.key);
                errors.push(error);
            }
        }
    }
    let mut settings = build(&values);
    settings.schemas = sources.schemas.or_else(|| file.schemas(&mut errors));
    settings.calibrations =
        settings.calibrations.or_else(|| calibrations_default(sources.environment));
    settings.endpoints.is_before_slob_2_4 = other_keys::is_before_slob_2_4(&file.conf);
    errors.extend(file.slips());
    errors.extend(slips_in_environment(sources));
    settings.notes = file.notes();
    settings.conf_file = file.path;
    let verdict = rules::judge(&settings, sources.command, &failed);
    errors.extend(verdict.errors);
    settings.notes.extend(verdict.notes);
    match errors.is_empty() {
        true => Ok(settings),
        false => Err(SettingErrors(errors)),
    }
}

/// An error for each own variable that is a slip of the pen.
fn slips_in_environment(sources: &Sources) -> Vec<SettingError> {
    let names = (sources.variables)();
    let slip = |name: &String| {
        let key = name.strip_prefix(OWN_VARIABLE)?;
        let meant = table::find(key).is_none().then(|| other_keys::slip(key))??;
        let rule = format!("unknown parameter {key}; did you mean {OWN_VARIABLE}{meant}?");
        Some(SettingError::elsewhere(format!("environment variable {name}"), rule, ""))
    };
    names.iter().filter_map(slip).collect()
}

/// petal/calibrations in the user's data folder, as the XDG Base Directory Specification has it.
fn calibrations_default(environment: &dyn Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let folder =
        |name: &str| environment(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let data = folder("XDG_DATA_HOME").or_else(|| Some(folder("HOME")?.join(".local/share")))?;
    Some(data.join("petal/calibrations"))
}

/// The strongest source that has a value: its text and name.
fn choose(
    parameter: &Parameter,
    sources: &Sources,
    file: &File,
) -> Result<(String, Origin), SettingError> {
    let default = || (parameter.default.to_owned(), Origin::Default);
    match sources.flags.get(parameter.key) {
        Some(text) if text.is_empty() => return Ok(default()),
        Some(text) => return Ok((text.clone(), Origin::Flag)),
        None => {}
    }
    for name in [format!("PETAL_{}", parameter.key), parameter.key.to_owned()] {
        let Some(text) = (sources.environment)(&name).filter(|text| !text.is_empty()) else {
            continue;
        };
        let origin = Origin::Environment(name);
        return match text.into_string() {
            Ok(text) => Ok((text, origin)),
            Err(_) => Err(not_text(parameter, &origin)),
        };
    }
    let (Some(entry), Some(path)) = (file.entry(parameter.key), &file.path) else {
        return Ok(default());
    };
    if entry.value.is_empty() {
        return Ok(default());
    }
    let origin = Origin::File(path.clone(), entry.line);
    match entry.value.contains(char::REPLACEMENT_CHARACTER) {
        true => Err(not_text(parameter, &origin)),
        false => Ok((entry.value, origin)),
    }
}

fn not_text(parameter: &Parameter, origin: &Origin) -> SettingError {
    SettingError::of(parameter, "***", origin, "is not UTF-8 text", "Write it in UTF-8.")
}

fn parse(parameter: &Parameter, text: &str, origin: &Origin) -> Result<Value, SettingError> {
    parameter.parse(text).map_err(|refusal| {
        let shown = parameter.shown(text);
        SettingError::of(parameter, &shown, origin, refusal.rule, refusal.hint)
    })
}

/// The settings file, if there is one.
#[derive(Default)]
struct File {
    path: Option<PathBuf>,
    conf: Conf,
}

/// Longest file that is taken for settings, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

impl File {
    fn of(sources: &Sources, errors: &mut Vec<SettingError>) -> Self {
        let beside = || {
            let path = sources.directory.as_ref()?.join("slob.conf");
            path.symlink_metadata().is_ok().then_some(path)
        };
        let Some(path) = sources.conf.clone().or_else(beside) else {
            return Self::default();
        };
        match read_text(&path, sources.conf.is_some()) {
            Ok(text) => Self::parse(path, &text, sources, errors),
            Err(why) => {
                let rule = format!("cannot be read as a settings file: {why}");
                let hint = "Name a readable slob.conf with --conf, or move this one away.";
                errors.push(SettingError::elsewhere(path.display().to_string(), rule, hint));
                Self::default()
            }
        }
    }

    fn parse(path: PathBuf, text: &str, sources: &Sources, errors: &mut Vec<SettingError>) -> Self {
        let environment =
            |name: &str| (sources.environment)(name).map(|text| text.to_string_lossy().into());
        let may_name =
            |key: &str| table::find(key).is_some_and(|parameter| !parameter.may_hold_secret());
        let conf = conf::parse(text, &environment, &may_name);
        errors.extend(conf.errors.iter().map(|(line, fault)| {
            let place = format!("{}:{line}", path.display());
            SettingError::elsewhere(place, fault.rule.as_str(), fault.hint.as_str())
        }));
        Self { path: Some(path), conf }
    }

    /// The assignment of a parameter in force: by its own key, or by the key of a pgio.conf.
    fn entry(&self, key: &str) -> Option<Assignment> {
        self.conf.last(key).cloned().or_else(|| other_keys::entry(&self.conf, key))
    }

    /// The number of schemas of a pgio.conf.
    fn schemas(&self, errors: &mut Vec<SettingError>) -> Option<u32> {
        let (entry, path) = other_keys::entry(&self.conf, "-s").zip(self.path.as_ref())?;
        let schemas = entry.value.parse().ok().filter(|schemas| *schemas > 0);
        if schemas.is_none() {
            let place = format!("{}:{}", path.display(), entry.line);
            let rule = format!("{} is no number of schemas", other_keys::SCHEMAS);
            errors.push(SettingError::elsewhere(place, rule, "Write 1 or more, or use -s."));
        }
        schemas
    }

    /// A line for each key that petal does not know.
    fn notes(&self) -> Vec<String> {
        let Some(path) = &self.path else { return Vec::new() };
        self.unknown()
            .map(|entry| {
                let advice = other_keys::advice(&self.conf, &entry.key);
                format!("{}:{}: {advice}", path.display(), entry.line)
            })
            .collect()
    }

    /// An error for each key that is a slip of the pen.
    fn slips(&self) -> Vec<SettingError> {
        let Some(path) = &self.path else { return Vec::new() };
        let unknown = self.unknown();
        let slip = |entry: &Assignment| {
            let meant = other_keys::slip(&entry.key)?;
            let place = format!("{}:{}", path.display(), entry.line);
            let rule = format!("unknown parameter {}; did you mean {meant}?", entry.key);
            Some(SettingError::elsewhere(place, rule, ""))
        };
        unknown.filter_map(slip).collect()
    }

    /// The first assignment of each key that petal does not know and no other value uses.
    fn unknown(&self) -> impl Iterator<Item = &Assignment> {
        let mut noted = BTreeSet::new();
        self.conf.entries.iter().filter(move |entry| {
            table::find(&entry.key).is_none()
                && !self.conf.referred.contains(&entry.key)
                && noted.insert(entry.key.as_str())
        })
    }
}

/// The file's text. Bytes that are no UTF-8 are harmless in a comment and refused in a value. A
/// file that only lies in the working folder, and was not named, must be the user's own or root's.
fn read_text(path: &Path, is_named: bool) -> Result<String, String> {
    let opened = match is_named {
        true => files::named(path),
        // A link's maker chooses the file, and may be another user.
        false => Folder::of_path(path).and_then(|(folder, name)| folder.read(name)),
    };
    let file = opened.map_err(files::in_words).map_err(|error| error.to_string())?;
    let about = file.metadata().map_err(|error| error.to_string())?;
    if about.is_file() {
        trust::check_writers(&about)?;
    }
    if !is_named {
        trust::check_owner(&about)?;
    }
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err("it is larger than 1 MiB".to_owned());
    }
    match files::utf16_words(&bytes) {
        Some(words) => Err(words.to_owned()),
        None => Ok(String::from_utf8_lossy(&bytes).into_owned()),
    }
}

/// Settings with each parameter as chosen; those that were refused keep their default.
fn build(chosen: &[(&'static Parameter, Value, Origin)]) -> Settings {
    let mut settings = Settings::unset();
    for (parameter, value, origin) in chosen {
        parameter.set(&mut settings, value);
        settings.origins.push(GivenParameter {
            key: parameter.key.to_owned(),
            value: value.to_json(),
            origin: origin.clone(),
        });
    }
    settings
}

/// The default alone. That every default is a value of its parameter is tested.
fn default_of(parameter: &'static Parameter) -> (&'static Parameter, Value, Origin) {
    let value = parameter.parse(parameter.default).unwrap_or(Value::Plain(serde_json::Value::Null));
    (parameter, value, Origin::Default)
}

impl Default for Settings {
    /// The table's defaults.
    fn default() -> Self {
        build(&PARAMETERS.iter().map(default_of).collect::<Vec<_>>())
    }
}

impl Settings {
    fn given(&self, key: &str) -> Option<&GivenParameter> {
        self.origins.iter().find(|given| given.key == key)
    }

    /// The source of a parameter's value.
    pub fn origin(&self, key: &str) -> Origin {
        self.given(key).map_or(Origin::Default, |given| given.origin.clone())
    }

    /// Set by a flag, the environment or the file.
    pub fn is_given(&self, key: &str) -> bool {
        self.origin(key) != Origin::Default
    }

    /// Every parameter by its key in lower case, with its value in force, for a run's record.
    /// Null if a parameter has none, such as the hot spot's place without a hot spot.
    pub fn record_map(&self) -> serde_json::Map<String, serde_json::Value> {
        let mut settings = self.clone();
        let in_force = |parameter: &Parameter| {
            (parameter.key.to_ascii_lowercase(), parameter.in_force(&mut settings))
        };
        let parameters: Vec<_> = PARAMETERS.iter().map(in_force).collect();
        let of_server = self.server_settings.iter();
        let of_server =
            of_server.map(|(name, value)| (format!("{SERVER_AXIS}{name}"), value.as_str().into()));
        parameters.into_iter().chain(of_server).collect()
    }

    /// States the values in force of parameters that petal itself chose for a run.
    pub fn restate(&mut self, keys: &[&str]) {
        for key in keys {
            let Some(parameter) = table::find(key) else { continue };
            let value = parameter.in_force(&mut self.clone());
            let stated = self.origins.iter_mut().filter(|given| given.key == *key);
            stated.for_each(|given| given.value = value.clone());
        }
    }

    /// `KEY=VALUE (ORIGIN)`.
    pub(super) fn with_origin(&self, key: &str) -> String {
        let value = self.shown(key);
        format!("{key}={value} ({})", where_from(key, &self.origin(key)))
    }

    /// The value in force; if no value is in force, the value as it was set.
    pub(super) fn shown(&self, key: &str) -> String {
        let Some(parameter) = table::find(key) else { return String::new() };
        match parameter.in_force(&mut self.clone()) {
            serde_json::Value::Null => parameter.words(&self.set_value(key)),
            in_force => parameter.words(&in_force),
        }
    }

    /// The value as it was set, also if it is not in force.
    pub(super) fn set_value(&self, key: &str) -> serde_json::Value {
        self.given(key).map_or(serde_json::Value::Null, |given| given.value.clone())
    }
}

#[cfg(test)]
mod tests;
