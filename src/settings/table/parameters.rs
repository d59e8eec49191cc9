//! The rows of the table. A parameter is one entry here, with a field in [`Settings`]: its values,
//! its default, what it means, what it sets, and how its value in force is read for a record.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value as Json, json};

use super::value::{extent_json, seconds_json, warm_up_json};
use super::{Group, Kind, Parameter, TakenBy, Value};
use crate::settings::size::Extent;
use crate::settings::{HotSpot, LoopSide, RedoStress, Settings, StatisticsType, ThinkTime, Verify};

const U32_MAX: u64 = u32::MAX as u64;
/// As many MiB as an exbibyte has, so that bytes cannot overflow.
const MEGABYTES_MAX: u64 = 1 << 40;

/// Values of the fields that an entry leaves out: no default, no rule beside its kind's.
const PLAIN: Parameter = Parameter {
    key: "",
    kind: Kind::Text,
    default: "",
    default_words: None,
    also: "",
    meaning: "",
    group: Group::Target,
    taken_by: TakenBy::Run,
    set: |_, _| (),
    in_force: |_| Json::Null,
};

/// Every parameter, by group, in the order of help. They are set in this order, too: what others
/// build on (DO_HOTSPOT, THINK_TM_FREQUENCY, WORK_UNIT) comes before them.
pub static PARAMETERS: &[Parameter] = &[
    Parameter {
        key: "DB",
        kind: Kind::Url,
        default: "sqlite:petal-data",
        meaning: "the database under test",
        group: Group::Target,
        taken_by: TakenBy::All,
        set: |settings, value| settings.db = value.url(),
        in_force: |settings| json!(settings.db.redacted()),
        ..PLAIN
    },
    Parameter {
        key: "OUT",
        kind: Kind::Path,
        default: "petal-results",
        meaning: "folder that gets a folder for each run; as a flag of sweep, the sweep's own folder",
        group: Group::Target,
        taken_by: TakenBy::Run,
        set: |settings, value| settings.out = value.path().unwrap_or_default(),
        in_force: |settings| json!(settings.out.display().to_string()),
        ..PLAIN
    },
    Parameter {
        key: "SCALE",
        kind: Kind::Extent,
        default_words: Some("setup: 80M; run: what is loaded"),
        also: "at least 1024 blocks",
        meaning: "size of each schema: rows, one to a block. A run may use less than is loaded, \
                  never more",
        group: Group::Data,
        taken_by: TakenBy::SetupAndRun,
        set: |settings, value| settings.scale = value.extent(),
        in_force: |settings| optional_extent(settings.scale),
        ..PLAIN
    },
    Parameter {
        key: "SCAN_TABLE_SZ",
        kind: Kind::Extent,
        default: "1M",
        meaning: "size of each schema's scan table; 0 for none",
        group: Group::Data,
        taken_by: TakenBy::Setup,
        set: |settings, value| settings.scan_table_sz = value.extent().unwrap_or_default(),
        in_force: |settings| extent_json(settings.scan_table_sz),
        ..PLAIN
    },
    Parameter {
        key: "LOAD_PARALLEL_DEGREE",
        kind: Kind::Count { min: 1, max: 1024 },
        default: "2",
        meaning: "connections that load at once",
        group: Group::Data,
        taken_by: TakenBy::Setup,
        set: |settings, value| settings.load_parallel_degree = value.number(),
        in_force: |settings| json!(settings.load_parallel_degree),
        ..PLAIN
    },
    Parameter {
        key: "OBFUSCATE_COLUMNS",
        kind: Kind::Boolean,
        default: "FALSE",
        also: "not together with COMPRESS_RATIO",
        meaning: "fills rows with random text instead of a constant, so that they do not compress",
        group: Group::Data,
        taken_by: TakenBy::SetupAndRun,
        set: |settings, value| settings.obfuscate_columns = value.is_true(),
        in_force: |settings| json!(settings.obfuscate_columns),
        ..PLAIN
    },
    Parameter {
        key: "COMPRESS_RATIO",
        kind: Kind::Decimal { min: 1.0, above: false },
        also: "not together with OBFUSCATE_COLUMNS=TRUE",
        meaning: "fills rows so that whole blocks, with their free space, compress by about this \
                  ratio; 1 is random text",
        group: Group::Data,
        taken_by: TakenBy::SetupAndRun,
        set: |settings, value| settings.compress_ratio = value.decimal(),
        in_force: |settings| json!(settings.compress_ratio),
        ..PLAIN
    },
    Parameter {
        key: "UNIQUE_INDEX",
        kind: Kind::Boolean,
        default: "FALSE",
        meaning: "makes the index on the key a unique one",
        group: Group::Data,
        taken_by: TakenBy::Setup,
        set: |settings, value| settings.unique_index = value.is_true(),
        in_force: |settings| json!(settings.unique_index),
        ..PLAIN
    },
    Parameter {
        key: "PRECONDITION",
        kind: Kind::Times { max: 16 },
        default: "1x",
        meaning: "device: how many times all blocks are written, the last time in random order",
        group: Group::Data,
        taken_by: TakenBy::Setup,
        set: |settings, value| settings.precondition = value.number(),
        in_force: |settings| json!(settings.precondition),
        ..PLAIN
    },
    Parameter {
        key: "BLOCK_SZ",
        kind: Kind::BlockSize,
        default_words: Some("8K where the engine can choose"),
        meaning: "block size to load with; where the server decides, or data is loaded, a check",
        group: Group::Data,
        taken_by: TakenBy::SetupAndRun,
        set: |settings, value| settings.block_sz = value.number_or_none(),
        in_force: |settings| json!(settings.block_sz),
        ..PLAIN
    },
    Parameter {
        key: "UPDATE_PCT",
        kind: Kind::Percent,
        default: "25",
        also: "not together with READERS and WRITERS",
        meaning: "per cent of operations that are UPDATEs, exact in every 100",
        group: Group::Mix,
        taken_by: TakenBy::Run,
        set: |settings, value| settings.update_pct = value.number(),
        in_force: |settings| json!(settings.update_pct),
        ..PLAIN
    },
    Parameter {
        key: "SCAN_PCT",
        kind: Kind::Percent,
        default: "0",
        also: "above 0 only with a scan table",
        meaning: "per cent of SELECTs that scan the scan table instead",
        group: Group::Mix,
        taken_by: TakenBy::Run,
        set: |settings, value| settings.scan_pct = value.number(),
        in_force: |settings| json!(settings.scan_pct),
        ..PLAIN
    },
    Parameter {
        key: "WORK_UNIT",
        kind: Kind::Count { min: 1, max: 1024 },
        default: "64",
        also: "at most SCALE",
        meaning: "random blocks that one operation visits",
        group: Group::Mix,
        taken_by: TakenBy::Run,
        set: |settings, value| settings.work_unit = value.number(),
        in_force: |settings| json!(settings.work_unit),
        ..PLAIN
    },
    Parameter {
        key: "UPDATE_WORK_UNIT",
        kind: Kind::Count { min: 1, max: 1024 },
        default_words: Some("WORK_UNIT"),
        also: "at most SCALE",
        meaning: "random blocks that one UPDATE changes, if other than WORK_UNIT",
        group: Group::Mix,
        taken_by: TakenBy::Run,
        set: |settings, value| {
            settings.update_work_unit = value.number_or_none().unwrap_or(settings.work_unit)
        },
        in_force: |settings| json!(settings.update_work_unit),
        ..PLAIN
    },
    Parameter {
        key: "REDO_STRESS",
        kind: Kind::OneOf(&["LITE", "HEAVY"]),
        default: "LITE",
        meaning: "columns that an UPDATE changes: LITE 2, HEAVY all 19",
        group: Group::Mix,
        taken_by: TakenBy::Run,
        set: |settings, value| settings.redo_stress = meant(REDO_STRESS, value).unwrap_or_default(),
        in_force: |settings| word(REDO_STRESS, &settings.redo_stress),
        ..PLAIN
    },
    Parameter {
        key: "THREADS_PER_SCHEMA",
        kind: Kind::Count { min: 1, max: 65_536 },
        default: "1",
        also: "not together with READERS and WRITERS",
        meaning: "sessions on each schema (also -t)",
        group: Group::Mix,
        taken_by: TakenBy::Run,
        set: |settings, value| settings.threads_per_schema = value.number(),
        // Where a sweep says how many sessions there are, it is not in force.
        in_force: |settings| match settings.sessions {
            None => json!(settings.threads_per_schema),
            Some(_) => Json::Null,
        },
        ..PLAIN
    },
    Parameter {
        key: "READERS",
        kind: Kind::Count { min: 0, max: 65_536 },
        also: "READERS and WRITERS together at least 1",
        meaning: "sessions that only read, instead of a mix by UPDATE_PCT",
        group: Group::Mix,
        taken_by: TakenBy::Run,
        set: |settings, value| settings.readers = value.number_or_none(),
        in_force: |settings| json!(settings.readers),
        ..PLAIN
    },
    Parameter {
        key: "WRITERS",
        kind: Kind::Count { min: 0, max: 65_536 },
        also: "READERS and WRITERS together at least 1",
        meaning: "sessions that only write, instead of a mix by UPDATE_PCT",
        group: Group::Mix,
        taken_by: TakenBy::Run,
        set: |settings, value| settings.writers = value.number_or_none(),
        in_force: |settings| json!(settings.writers),
        ..PLAIN
    },
    Parameter {
        key: "RUN_TIME",
        kind: Kind::Seconds { min: 1, max: 31_622_400 },
        default: "300",
        meaning: "length of the run; with WORK_LOOP only its limit. Below 30 the figures are \
                  mostly start and end",
        group: Group::Length,
        taken_by: TakenBy::Run,
        set: |settings, value| settings.run_time = value.seconds(),
        in_force: |settings| seconds_json(settings.run_time),
        ..PLAIN
    },
    Parameter {
        key: "WORK_LOOP",
        kind: Kind::Count { min: 0, max: 1_000_000_000_000 },
        default: "0",
        meaning: "operations of each session; 0: the run is timed",
        group: Group::Length,
        taken_by: TakenBy::Run,
        set: |settings, value| settings.work_loop = value.number(),
        in_force: |settings| json!(settings.work_loop),
        ..PLAIN
    },
    Parameter {
        key: "WARM_UP",
        kind: Kind::WarmUp,
        default: "0",
        also: "less than RUN_TIME",
        meaning: "seconds at the start that stay outside the steady window; cache: before the \
                  start every session reads its data until the cache is full",
        group: Group::Length,
        taken_by: TakenBy::Run,
        set: |settings, value| settings.warm_up = value.warm_up(),
        in_force: |settings| warm_up_json(settings.warm_up),
        ..PLAIN
    },
    Parameter {
        key: "REPEATS",
        kind: Kind::Count { min: 1, max: 10_000 },
        default: "1",
        meaning: "how often the run is done; one repeat proves nothing",
        group: Group::Length,
        taken_by: TakenBy::Run,
        set: |settings, value| settings.repeats = value.number(),
        in_force: |settings| json!(settings.repeats),
        ..PLAIN
    },
    Parameter {
        key: "SEED",
        kind: Kind::Count { min: 0, max: u64::MAX },
        default_words: Some("drawn afresh, and printed"),
        meaning: "seed of every random choice; the same seed makes the same choices",
        group: Group::Length,
        taken_by: TakenBy::SetupAndRun,
        set: |settings, value| settings.seed = value.number_or_none(),
        in_force: |settings| json!(settings.seed),
        ..PLAIN
    },
    Parameter {
        key: "RATE",
        kind: Kind::Decimal { min: 0.0, above: true },
        meaning: "operations per second over all sessions, due at set times (open loop); unset: \
                  as fast as they end",
        group: Group::Length,
        taken_by: TakenBy::Run,
        set: |settings, value| settings.rate = value.decimal(),
        in_force: |settings| json!(settings.rate),
        ..PLAIN
    },
    Parameter {
        key: "DO_HOTSPOT",
        kind: Kind::Boolean,
        default: "FALSE",
        meaning: "sends some operations to a hot spot in each schema",
        group: Group::Pattern,
        taken_by: TakenBy::Run,
        set: |settings, value| settings.hotspot = value.is_true().then(HotSpot::default),
        in_force: |settings| json!(settings.hotspot.is_some()),
        ..PLAIN
    },
    Parameter {
        key: "HOTSPOT_MB",
        kind: Kind::Count { min: 1, max: MEGABYTES_MAX },
        default: "8",
        also: "inside SCALE, and at least WORK_UNIT blocks",
        meaning: "length of the hot spot, in MiB",
        group: Group::Pattern,
        taken_by: TakenBy::Run,
        set: |settings, value| {
            set_hotspot(settings, |spot| spot.bytes = value.number::<u64>() << 20)
        },
        in_force: |settings| hotspot(settings, |spot| megabytes(spot.bytes)),
        ..PLAIN
    },
    Parameter {
        key: "HOTSPOT_OFFSET_MB",
        kind: Kind::Count { min: 0, max: MEGABYTES_MAX },
        default: "16",
        also: "inside SCALE",
        meaning: "where the hot spot begins in each schema, in MiB",
        group: Group::Pattern,
        taken_by: TakenBy::Run,
        set: |settings, value| {
            set_hotspot(settings, |spot| spot.offset_bytes = value.number::<u64>() << 20)
        },
        in_force: |settings| hotspot(settings, |spot| megabytes(spot.offset_bytes)),
        ..PLAIN
    },
    Parameter {
        key: "HOTSPOT_FREQUENCY",
        kind: Kind::Count { min: 1, max: U32_MAX },
        default: "3",
        meaning: "every so many-th operation lies in the hot spot",
        group: Group::Pattern,
        taken_by: TakenBy::Run,
        set: |settings, value| set_hotspot(settings, |spot| spot.frequency = value.number()),
        in_force: |settings| hotspot(settings, |spot| json!(spot.frequency)),
        ..PLAIN
    },
    Parameter {
        key: "HOT_SCHEMA_FREQUENCY",
        kind: Kind::Count { min: 0, max: U32_MAX },
        default: "0",
        meaning: "every so many-th operation goes to schema 1; 0: none does",
        group: Group::Pattern,
        taken_by: TakenBy::Run,
        set: |settings, value| settings.hot_schema_frequency = value.number(),
        in_force: |settings| json!(settings.hot_schema_frequency),
        ..PLAIN
    },
    Parameter {
        key: "THINK_TM_FREQUENCY",
        kind: Kind::Count { min: 0, max: U32_MAX },
        default: "0",
        meaning: "one operation in so many, at random, is preceded by think time; 0: none is",
        group: Group::Pattern,
        taken_by: TakenBy::Run,
        set: |settings, value| settings.think_time = think_time(value.number()),
        in_force: |settings| json!(settings.think_time.map_or(0, |think| think.frequency)),
        ..PLAIN
    },
    Parameter {
        key: "THINK_TM_MIN",
        kind: Kind::Decimal { min: 0.0, above: false },
        default: ".1",
        also: "at most THINK_TM_MAX",
        meaning: "shortest think time, in seconds",
        group: Group::Pattern,
        taken_by: TakenBy::Run,
        set: |settings, value| set_think_time(settings, |time| time.min = value.seconds()),
        in_force: |settings| think(settings, |time| time.min),
        ..PLAIN
    },
    Parameter {
        key: "THINK_TM_MAX",
        kind: Kind::Decimal { min: 0.0, above: false },
        default: ".5",
        also: "at least THINK_TM_MIN",
        meaning: "longest think time, in seconds",
        group: Group::Pattern,
        taken_by: TakenBy::Run,
        set: |settings, value| set_think_time(settings, |time| time.max = value.seconds()),
        in_force: |settings| think(settings, |time| time.max),
        ..PLAIN
    },
    Parameter {
        key: "LOOP",
        kind: Kind::OneOf(&["server", "client", "set"]),
        default_words: Some("server where the engine has it"),
        meaning: "where the loop runs: server, inside the database; client, one call for each \
                  operation; set, one statement for many operations, never compared with the \
                  others unnamed",
        group: Group::Io,
        taken_by: TakenBy::Run,
        set: |settings, value| settings.loop_side = meant(LOOP, value),
        in_force: |settings| json!(settings.loop_side),
        ..PLAIN
    },
    Parameter {
        key: "PREFETCH",
        kind: Kind::Count { min: 0, max: 65_536 },
        default: "0",
        meaning: "blocks that a session reads ahead; 0: one block at a time",
        group: Group::Io,
        taken_by: TakenBy::Run,
        set: |settings, value| settings.prefetch = value.number(),
        in_force: |settings| json!(settings.prefetch),
        ..PLAIN
    },
    Parameter {
        key: "DIRECT_IO",
        kind: Kind::Boolean,
        default_words: Some("TRUE where it works"),
        meaning: "reads and writes past the page cache",
        group: Group::Io,
        taken_by: TakenBy::SetupAndRun,
        set: |settings, value| settings.direct_io = value.truth(),
        in_force: |settings| json!(settings.direct_io),
        ..PLAIN
    },
    Parameter {
        key: "IO_DEPTH",
        kind: Kind::Count { min: 1, max: 65_536 },
        default: "1",
        meaning: "requests that the device engine keeps in flight in each session",
        group: Group::Io,
        taken_by: TakenBy::Run,
        set: |settings, value| settings.io_depth = value.number(),
        in_force: |settings| json!(settings.io_depth),
        ..PLAIN
    },
    Parameter {
        key: "VERIFY",
        kind: Kind::OneOf(&["none", "header", "checksum"]),
        default: "header",
        meaning: "what the device engine checks of each block that it reads",
        group: Group::Io,
        taken_by: TakenBy::Run,
        set: |settings, value| settings.verify = meant(VERIFY, value).unwrap_or_default(),
        in_force: |settings| word(VERIFY, &settings.verify),
        ..PLAIN
    },
    Parameter {
        key: "PAGE_CACHE_LIMIT",
        kind: Kind::Bytes,
        meaning: "petal locks memory so that about so much is left for the page cache of a local \
                  server",
        group: Group::Io,
        taken_by: TakenBy::Run,
        set: |settings, value| settings.page_cache_limit = value.number_or_none(),
        in_force: |settings| json!(settings.page_cache_limit),
        ..PLAIN
    },
    Parameter {
        key: "STORAGE_CACHE",
        kind: Kind::Bytes,
        meaning: "size of the storage's own cache as you know it: data that fits in it is not \
                  physical I/O",
        group: Group::Evidence,
        taken_by: TakenBy::Run,
        set: |settings, value| settings.storage_cache = value.number_or_none(),
        in_force: |settings| json!(settings.storage_cache),
        ..PLAIN
    },
    Parameter {
        key: "CALIBRATIONS",
        kind: Kind::Path,
        default_words: Some("petal/calibrations in XDG_DATA_HOME"),
        meaning: "folder where petal calibrate keeps what runs on the same device are compared with",
        group: Group::Evidence,
        taken_by: TakenBy::Run,
        set: |settings, value| settings.calibrations = value.path(),
        in_force: |settings| {
            json!(settings.calibrations.as_ref().map(|path| path.display().to_string()))
        },
        ..PLAIN
    },
    Parameter {
        key: "EXTERNAL_SCRIPT",
        kind: Kind::Path,
        also: "an executable file",
        meaning: "called with pre before the start, post right after the end, and end when all \
                  files are written; waited for, at most 600 s each time",
        group: Group::Evidence,
        taken_by: TakenBy::Run,
        set: |settings, value| settings.external_script = value.path().map(absolute),
        in_force: |settings| {
            json!(settings.external_script.as_ref().map(|path| path.display().to_string()))
        },
        ..PLAIN
    },
    Parameter {
        key: "NO_OS_PERF_DATA",
        kind: Kind::Boolean,
        default: "FALSE",
        meaning: "leaves out the statistics of the operating system",
        group: Group::Evidence,
        taken_by: TakenBy::Run,
        set: |settings, value| settings.os_perf_data = !value.is_true(),
        in_force: |settings| json!(!settings.os_perf_data),
        ..PLAIN
    },
    Parameter {
        key: "DATABASE_STATISTICS_TYPE",
        kind: Kind::OneOf(&["statspack", "awr"]),
        default: "statspack",
        meaning: "Oracle: which of its reports to fetch",
        group: Group::Evidence,
        taken_by: TakenBy::Run,
        set: |settings, value| {
            settings.database_statistics_type = meant(STATISTICS, value).unwrap_or_default()
        },
        in_force: |settings| word(STATISTICS, &settings.database_statistics_type),
        ..PLAIN
    },
    Parameter {
        key: "ADMIN_SQLNET_SERVICE",
        kind: Kind::Text,
        meaning: "service for statistics and loading",
        group: Group::Oracle,
        taken_by: TakenBy::All,
        set: |settings, value| settings.endpoints.admin_service = value.text(),
        in_force: |settings| json!(settings.endpoints.admin_service),
        ..PLAIN
    },
    Parameter {
        key: "SQLNET_SERVICE_BASE",
        kind: Kind::Text,
        meaning: "service of the sessions; with SQLNET_SERVICE_MAX the base to which a number is \
                  put",
        group: Group::Oracle,
        taken_by: TakenBy::All,
        set: |settings, value| settings.endpoints.service_base = value.text(),
        in_force: |settings| json!(settings.endpoints.service_base),
        ..PLAIN
    },
    Parameter {
        key: "SQLNET_SERVICE_MAX",
        kind: Kind::Count { min: 0, max: 65_536 },
        also: "only with SQLNET_SERVICE_BASE",
        meaning: "number of services over which schemas, or sessions, are spread",
        group: Group::Oracle,
        taken_by: TakenBy::All,
        set: |settings, value| {
            settings.endpoints.service_max = value.number_or_none().filter(|max| *max > 0)
        },
        in_force: |settings| json!(settings.endpoints.service_max),
        ..PLAIN
    },
    Parameter {
        key: "DBA_PRIV_USER",
        kind: Kind::User,
        meaning: "user who may administer the database",
        group: Group::Oracle,
        taken_by: TakenBy::All,
        set: |settings, value| settings.endpoints.dba_user = value.text(),
        in_force: |settings| json!(settings.endpoints.dba_user),
        ..PLAIN
    },
    Parameter {
        key: "SYSDBA_PASSWD",
        kind: Kind::Secret,
        meaning: "that user's password; never shown",
        group: Group::Oracle,
        taken_by: TakenBy::All,
        set: |settings, value| settings.endpoints.dba_password = value.secret(),
        in_force: |settings| secret(settings.endpoints.dba_password.is_some()),
        ..PLAIN
    },
    Parameter {
        key: "COMMIT_WAIT",
        kind: Kind::Boolean,
        default: "TRUE",
        meaning: "every commit waits for its log (COMMIT WRITE IMMEDIATE WAIT); FALSE: a plain \
                  COMMIT in PL/SQL, which does not wait, as SLOB's",
        group: Group::Oracle,
        taken_by: TakenBy::Run,
        set: |settings, value| settings.commit_wait = value.is_true(),
        in_force: |settings| json!(settings.commit_wait),
        ..PLAIN
    },
    Parameter {
        key: "USE_SLOB_SCHEMAS",
        kind: Kind::Boolean,
        default: "FALSE",
        meaning: "runs on the schemas that SLOB loaded, user1 to userN, as they are; they are \
                  never loaded over and never dropped",
        group: Group::Oracle,
        taken_by: TakenBy::All,
        set: |settings, value| settings.use_slob_schemas = value.is_true(),
        in_force: |settings| json!(settings.use_slob_schemas),
        ..PLAIN
    },
];

fn optional_extent(extent: Option<Extent>) -> Json {
    extent.map_or(Json::Null, extent_json)
}

fn hotspot(settings: &Settings, part: fn(&HotSpot) -> Json) -> Json {
    settings.hotspot.as_ref().map_or(Json::Null, part)
}

/// Whole MiB as a whole number.
fn megabytes(bytes: u64) -> Json {
    match bytes.is_multiple_of(1 << 20) {
        true => json!(bytes >> 20),
        false => json!(bytes as f64 / f64::from(1 << 20)),
    }
}

fn think(settings: &Settings, part: fn(&ThinkTime) -> Duration) -> Json {
    settings.think_time.as_ref().map_or(Json::Null, |time| json!(part(time).as_secs_f64()))
}

fn set_hotspot(settings: &mut Settings, set: impl FnOnce(&mut HotSpot)) {
    if let Some(one) = &mut settings.hotspot {
        set(one);
    }
}

fn think_time(frequency: u32) -> Option<ThinkTime> {
    (frequency > 0).then(|| ThinkTime { frequency, ..ThinkTime::default() })
}

fn set_think_time(settings: &mut Settings, set: impl FnOnce(&mut ThinkTime)) {
    if let Some(one) = &mut settings.think_time {
        set(one);
    }
}

/// A hook without a slash is never looked for in PATH.
fn absolute(path: PathBuf) -> PathBuf {
    std::path::absolute(&path).unwrap_or(path)
}

/// The words of a parameter that takes one of several, each with what it stands for.
type Words<T> = &'static [(&'static str, T)];

const REDO_STRESS: Words<RedoStress> = &[("LITE", RedoStress::Lite), ("HEAVY", RedoStress::Heavy)];
const LOOP: Words<LoopSide> =
    &[("server", LoopSide::Server), ("client", LoopSide::Client), ("set", LoopSide::Set)];
const VERIFY: Words<Verify> =
    &[("none", Verify::None), ("header", Verify::Header), ("checksum", Verify::Checksum)];
const STATISTICS: Words<StatisticsType> =
    &[("statspack", StatisticsType::Statspack), ("awr", StatisticsType::Awr)];

/// The meaning of a word; None where there is no word.
fn meant<T: Copy>(words: Words<T>, value: &Value) -> Option<T> {
    let word = value.word()?;
    words.iter().find(|(known, _)| *known == word).map(|(_, meant)| *meant)
}

fn word<T: PartialEq>(words: Words<T>, meant: &T) -> Json {
    words.iter().find(|(_, one)| one == meant).map_or(Json::Null, |(word, _)| json!(word))
}

fn secret(is_set: bool) -> Json {
    if is_set { json!("***") } else { Json::Null }
}
