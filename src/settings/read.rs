//! Where each value comes from: flag over environment over file over default, then one validated
//! [`Settings`]. The rules between parameters are in [`super::rules`].

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::conf::{self, Conf};
use super::error::{SettingError, SettingErrors, where_from};
use super::size::Extent;
use super::table::{self, CommandKind, Kind, PARAMETERS, Parameter, Value};
use super::url::{Secret, TargetUrl};
use super::{
    Endpoints, Given, HotSpot, LoopSide, Origin, RedoStress, Settings, StatisticsType, ThinkTime,
    Verify, WarmUp, rules,
};

/// All that settings can come from. Nothing else is looked at.
pub struct Sources<'a> {
    /// Rules about a run do not bind a setup.
    pub command: CommandKind,
    /// Flags that were given, by key. An empty value takes the default, whatever else says.
    pub flags: BTreeMap<&'static str, String>,
    /// One variable of the environment, by name.
    pub environment: &'a dyn Fn(&str) -> Option<OsString>,
    /// `--conf`: must be there.
    pub conf: Option<PathBuf>,
    /// Where `slob.conf` is looked for without `--conf`; None: nowhere.
    pub directory: Option<PathBuf>,
    /// `-s`.
    pub schemas: Option<u32>,
}

/// The process's own environment, for [`Sources`].
pub fn process_environment(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

/// The variables that may hold a secret: to be kept from every child process.
pub fn secret_variables() -> Vec<String> {
    PARAMETERS
        .iter()
        .filter(|parameter| matches!(parameter.kind, Kind::Secret | Kind::Url))
        .flat_map(|parameter| [parameter.key.to_owned(), format!("PETAL_{}", parameter.key)])
        .collect()
}

/// Reads and validates everything; tells all that is wrong at once.
pub fn read(sources: &Sources) -> Result<Settings, SettingErrors> {
    let mut errors = Vec::new();
    let file = File::of(sources, &mut errors);
    let mut values = Values::default();
    let mut failed = BTreeSet::new();
    for parameter in PARAMETERS {
        let result = choose(parameter, sources, &file).and_then(|(text, origin)| {
            parse(parameter, &text, &origin).map(|value| (value, origin))
        });
        match result {
            Ok(chosen) => {
                values.0.insert(parameter.key, chosen);
            }
            Err(error) => {
                failed.insert(parameter.key);
                errors.push(error);
            }
        }
    }
    let mut settings = values.build();
    settings.schemas = sources.schemas;
    settings.calibrations =
        settings.calibrations.or_else(|| calibrations_default(sources.environment));
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
    let (Some(entry), Some(path)) = (file.conf.last(parameter.key), &file.path) else {
        return Ok(default());
    };
    if entry.value.is_empty() {
        return Ok(default());
    }
    let origin = Origin::File(path.clone(), entry.line);
    match entry.value.contains(char::REPLACEMENT_CHARACTER) {
        true => Err(not_text(parameter, &origin)),
        false => Ok((entry.value.clone(), origin)),
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
        match read_text(&path) {
            Ok(text) => Self::parse(path, &text, sources, errors),
            Err(why) => {
                errors.push(SettingError::elsewhere(
                    path.display().to_string(),
                    format!("cannot be read as a settings file: {why}"),
                    "Name a readable slob.conf with --conf, or move this one away.",
                ));
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
        errors.extend(conf.errors.iter().map(|error| {
            SettingError::elsewhere(
                format!("{}:{}", path.display(), error.line),
                error.rule.clone(),
                error.hint.clone(),
            )
        }));
        Self { path: Some(path), conf }
    }

    /// A line for each key that petal does not know.
    fn notes(&self) -> Vec<String> {
        let Some(path) = &self.path else { return Vec::new() };
        let mut told = BTreeSet::new();
        let unknown = self.conf.entries.iter().filter(|entry| {
            table::find(&entry.key).is_none()
                && !self.conf.referred.contains(&entry.key)
                && told.insert(entry.key.as_str())
        });
        unknown
            .map(|entry| {
                let advice = match entry.key.as_str() {
                    "SHARED_DATA_MODULUS" => "it is HOT_SCHEMA_FREQUENCY now".to_owned(),
                    key => table::nearest(key).map_or_else(
                        || "petal help parameters lists all".to_owned(),
                        |near| format!("did you mean {near}?"),
                    ),
                };
                format!(
                    "{}:{}: {} is no parameter of petal and has no effect; {advice}",
                    path.display(),
                    entry.line,
                    entry.key
                )
            })
            .collect()
    }
}

/// The file's text; bytes that are no UTF-8 are harmless in a comment and told in a value.
fn read_text(path: &Path) -> Result<String, String> {
    let file = std::fs::File::open(path).map_err(|error| error.to_string())?;
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err("it is larger than 1 MiB".to_owned());
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// One value for each parameter. A missing one reads as unset.
#[derive(Default)]
struct Values(BTreeMap<&'static str, (Value, Origin)>);

impl Values {
    /// The table's defaults alone.
    fn defaults() -> Self {
        let value =
            |parameter: &Parameter| parameter.parse(parameter.default).unwrap_or(Value::Unset);
        let default =
            |parameter: &'static Parameter| (parameter.key, (value(parameter), Origin::Default));
        Self(PARAMETERS.iter().map(default).collect())
    }

    fn get(&self, key: &str) -> &Value {
        debug_assert!(table::find(key).is_some(), "{key} is not in the table");
        self.0.get(key).map_or(&Value::Unset, |(value, _)| value)
    }

    fn number_or_none<T: TryFrom<u64>>(&self, key: &str) -> Option<T> {
        match self.get(key) {
            Value::Number(number) => T::try_from(*number).ok(),
            _ => None,
        }
    }

    fn number<T: TryFrom<u64> + Default>(&self, key: &str) -> T {
        self.number_or_none(key).unwrap_or_default()
    }

    fn decimal(&self, key: &str) -> Option<f64> {
        match self.get(key) {
            Value::Decimal(number) => Some(*number),
            _ => None,
        }
    }

    fn seconds(&self, key: &str) -> Duration {
        let seconds = self.decimal(key).unwrap_or_default();
        Duration::try_from_secs_f64(seconds).unwrap_or_default()
    }

    fn truth_or_none(&self, key: &str) -> Option<bool> {
        match self.get(key) {
            Value::Boolean(truth) => Some(*truth),
            _ => None,
        }
    }

    fn truth(&self, key: &str) -> bool {
        self.truth_or_none(key).unwrap_or_default()
    }

    fn extent(&self, key: &str) -> Option<Extent> {
        match self.get(key) {
            Value::Extent(extent) => Some(*extent),
            _ => None,
        }
    }

    fn word(&self, key: &str) -> Option<&'static str> {
        match self.get(key) {
            Value::Word(word) => Some(word),
            _ => None,
        }
    }

    fn text(&self, key: &str) -> Option<String> {
        match self.get(key) {
            Value::Text(text) => Some(text.clone()),
            _ => None,
        }
    }

    fn path(&self, key: &str) -> Option<PathBuf> {
        match self.get(key) {
            Value::Path(path) => Some(path.clone()),
            _ => None,
        }
    }

    fn secret(&self, key: &str) -> Option<Secret> {
        match self.get(key) {
            Value::Secret(secret) => Some(secret.clone()),
            _ => None,
        }
    }

    fn url(&self, key: &str) -> TargetUrl {
        match self.get(key) {
            Value::Url(url) => (**url).clone(),
            _ => TargetUrl::default(),
        }
    }

    fn origins(&self) -> Vec<Given> {
        PARAMETERS
            .iter()
            .filter_map(|parameter| {
                let (value, origin) = self.0.get(parameter.key)?;
                Some(Given {
                    key: parameter.key.to_owned(),
                    value: value.to_json(),
                    origin: origin.clone(),
                })
            })
            .collect()
    }

    fn build(&self) -> Settings {
        let work_unit = self.number("WORK_UNIT");
        Settings {
            update_pct: self.number("UPDATE_PCT"),
            scan_pct: self.number("SCAN_PCT"),
            run_time: Duration::from_secs(self.number("RUN_TIME")),
            work_loop: self.number("WORK_LOOP"),
            scale: self.extent("SCALE"),
            scan_table_sz: self.extent("SCAN_TABLE_SZ").unwrap_or(Extent::Blocks(0)),
            work_unit,
            update_work_unit: self.number_or_none("UPDATE_WORK_UNIT").unwrap_or(work_unit),
            redo_stress: self.redo_stress(),
            load_parallel_degree: self.number("LOAD_PARALLEL_DEGREE"),
            threads_per_schema: self.number("THREADS_PER_SCHEMA"),
            readers: self.number_or_none("READERS"),
            writers: self.number_or_none("WRITERS"),
            obfuscate_columns: self.truth("OBFUSCATE_COLUMNS"),
            compress_ratio: self.decimal("COMPRESS_RATIO"),
            hotspot: self.hotspot(),
            hot_schema_frequency: self.number("HOT_SCHEMA_FREQUENCY"),
            think_time: self.think_time(),
            database_statistics_type: self.statistics_type(),
            external_script: self.external_script(),
            endpoints: self.endpoints(),
            commit_wait: self.truth("COMMIT_WAIT"),
            use_slob_schemas: self.truth("USE_SLOB_SCHEMAS"),
            os_perf_data: !self.truth("NO_OS_PERF_DATA"),
            unique_index: self.truth("UNIQUE_INDEX"),
            block_sz: self.number_or_none("BLOCK_SZ"),
            db: self.url("DB"),
            loop_side: self.loop_side(),
            prefetch: self.number("PREFETCH"),
            direct_io: self.truth_or_none("DIRECT_IO"),
            io_depth: self.number("IO_DEPTH"),
            verify: self.verify(),
            page_cache_limit: self.number_or_none("PAGE_CACHE_LIMIT"),
            storage_cache: self.number_or_none("STORAGE_CACHE"),
            rate: self.decimal("RATE"),
            warm_up: self.warm_up(),
            repeats: self.number("REPEATS"),
            seed: self.number_or_none("SEED"),
            out: self.path("OUT").unwrap_or_default(),
            calibrations: self.path("CALIBRATIONS"),
            precondition: self.number("PRECONDITION"),
            schemas: None,
            sessions: None,
            conf_file: None,
            destroy_data: None,
            until_steady: None,
            origins: self.origins(),
            notes: Vec::new(),
        }
    }

    fn hotspot(&self) -> Option<HotSpot> {
        self.truth("DO_HOTSPOT").then(|| HotSpot {
            bytes: self.number::<u64>("HOTSPOT_MB") << 20,
            offset_bytes: self.number::<u64>("HOTSPOT_OFFSET_MB") << 20,
            frequency: self.number("HOTSPOT_FREQUENCY"),
        })
    }

    fn think_time(&self) -> Option<ThinkTime> {
        let frequency = self.number("THINK_TM_FREQUENCY");
        (frequency > 0).then(|| ThinkTime {
            frequency,
            min: self.seconds("THINK_TM_MIN"),
            max: self.seconds("THINK_TM_MAX"),
        })
    }

    /// Absolute, so that a hook without a slash is never looked for in PATH.
    fn external_script(&self) -> Option<PathBuf> {
        self.path("EXTERNAL_SCRIPT").map(|path| std::path::absolute(&path).unwrap_or(path))
    }

    fn endpoints(&self) -> Endpoints {
        Endpoints {
            admin_service: self.text("ADMIN_SQLNET_SERVICE"),
            service_base: self.text("SQLNET_SERVICE_BASE"),
            service_max: self.number_or_none("SQLNET_SERVICE_MAX").filter(|max: &u32| *max > 0),
            dba_user: self.text("DBA_PRIV_USER"),
            dba_password: self.secret("SYSDBA_PASSWD"),
        }
    }

    fn redo_stress(&self) -> RedoStress {
        match self.word("REDO_STRESS") {
            Some("HEAVY") => RedoStress::Heavy,
            _ => RedoStress::Lite,
        }
    }

    fn statistics_type(&self) -> StatisticsType {
        match self.word("DATABASE_STATISTICS_TYPE") {
            Some("awr") => StatisticsType::Awr,
            _ => StatisticsType::Statspack,
        }
    }

    fn loop_side(&self) -> Option<LoopSide> {
        match self.word("LOOP") {
            Some("server") => Some(LoopSide::Server),
            Some("client") => Some(LoopSide::Client),
            Some("set") => Some(LoopSide::Set),
            _ => None,
        }
    }

    fn verify(&self) -> Verify {
        match self.word("VERIFY") {
            Some("none") => Verify::None,
            Some("checksum") => Verify::Checksum,
            _ => Verify::Header,
        }
    }

    fn warm_up(&self) -> WarmUp {
        match self.get("WARM_UP") {
            Value::WarmUp(warm_up) => *warm_up,
            _ => WarmUp::Time(Duration::ZERO),
        }
    }
}

impl Default for Settings {
    /// The table's defaults.
    fn default() -> Self {
        Values::defaults().build()
    }
}

impl Settings {
    /// Where a parameter's value came from.
    pub fn origin(&self, key: &str) -> Origin {
        self.origins
            .iter()
            .find(|given| given.key == key)
            .map_or(Origin::Default, |given| given.origin.clone())
    }

    /// Set by a flag, the environment or the file.
    pub fn is_given(&self, key: &str) -> bool {
        self.origin(key) != Origin::Default
    }

    /// Every parameter by its key in lower case, with its value in force, for a run's record.
    /// Null where there is none, as with the hot spot's place when there is no hot spot.
    pub fn record_map(&self) -> serde_json::Map<String, serde_json::Value> {
        PARAMETERS
            .iter()
            .map(|parameter| (parameter.key.to_ascii_lowercase(), (parameter.in_force)(self)))
            .collect()
    }

    /// `KEY=VALUE (where it came from)`.
    pub(super) fn told(&self, key: &str) -> String {
        let value = self.shown(key);
        format!("{key}={value} ({})", where_from(key, &self.origin(key)))
    }

    /// The value in force; where none is, the value as it was set.
    pub(super) fn shown(&self, key: &str) -> String {
        let Some(parameter) = table::find(key) else { return String::new() };
        match (parameter.in_force)(self) {
            serde_json::Value::Null => parameter.words(&self.set_value(key)),
            in_force => parameter.words(&in_force),
        }
    }

    /// The value as it was set, also where it is not in force.
    pub(super) fn set_value(&self, key: &str) -> serde_json::Value {
        self.origins
            .iter()
            .find(|given| given.key == key)
            .map_or(serde_json::Value::Null, |given| given.value.clone())
    }
}

#[cfg(test)]
mod tests;
