//! The rows of the table. A parameter is one entry here, with a field in [`Settings`]: who takes
//! it, its values, its default, what it sets, how a record shows it, and what it means.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value as Json, json};

use super::value::{extent_json, seconds_json, warm_up_json};
use super::{Group, Parameter, TakenBy, Value, ValueKind};
use crate::settings::{HotSpot, Settings, ThinkTime};

const U32_MAX: u64 = u32::MAX as u64;
/// As many MiB as an exbibyte has, so that bytes cannot overflow.
const MEGABYTES_MAX: u64 = 1 << 40;

/// Values of the fields that an entry leaves out: no default, no rule beside its kind's.
const PLAIN: Parameter = Parameter {
    key: "",
    kind: ValueKind::Text,
    default: "",
    default_words: None,
    also: "",
    meaning: "",
    group: Group::Target,
    taken_by: TakenBy::Run,
    set: |_, _| (),
    in_force: |_| Json::Null,
};

/// The table: `KEY(commands, kind, further fields) => [what it sets], meaning`.
macro_rules! parameters {
    ($($group:ident {$(
        $key:ident($taken_by:ident, $kind:ident $({ $($bound:tt)+ })? $([$($word:literal),+])?
            $(, $more:ident: $value:expr)*) => [$($field:tt)+] $meaning:literal,
    )+})+) => {
        &[$($(Parameter {
            key: stringify!($key),
            kind: ValueKind::$kind $({ $($bound)+ })? $((&[$($word),+]))?,
            meaning: $meaning,
            group: Group::$group,
            taken_by: TakenBy::$taken_by,
            $($more: $value,)*
            set: setter!($($field)+),
            in_force: shown!($($field)+),
            ..PLAIN
        }),+),+]
    };
}

/// The setter of `[field: kind of value]`; with a `?` the field may stay unset.
macro_rules! setter {
    (set: $set:expr, shown: $shown:expr) => { $set };
    ($($field:ident).+: $value:ident? $(, shown: $shown:expr)?) => {
        |settings, value| settings.$($field).+ = value.$value()
    };
    ($($field:ident).+: $value:ident $(, shown: $shown:expr)?) => {
        |settings, value| settings.$($field).+ = value.$value().unwrap_or_default()
    };
}

/// The value in force: the field itself, unless the entry says how it is shown.
macro_rules! shown {
    (set: $set:expr, shown: $shown:expr) => { $shown };
    ($($field:ident).+: $value:ident $(?)?, shown: $shown:expr) => { $shown };
    ($($field:ident).+: $value:ident $(?)?) => { |settings| json!(settings.$($field).+) };
}

/// Every parameter, by group, in the order of help. They are set in this order, too: what others
/// build on (DO_HOTSPOT, THINK_TM_FREQUENCY, WORK_UNIT) comes before them.
pub static PARAMETERS: &[Parameter] = parameters! {
    Target {
        DB(All, Url, default: "sqlite:petal-data")
            => [db: url, shown: |settings| json!(settings.db.redacted())]
            "the database under test",
        OUT(Run, Path, default: "petal-results")
            => [out: path, shown: |settings| path_json(Some(&settings.out))]
            "folder that gets a folder for each run; as a flag of sweep, the sweep's own folder",
    }
    Data {
        SCALE(SetupAndRun, Extent, default_words: Some("setup: 80M; run: what is loaded"),
            also: "at least 1024 blocks")
            => [scale: extent?, shown: |settings| json!(settings.scale.map(extent_json))]
            "size of each schema: rows, one to a block. A run may use less than is loaded, never \
             more",
        SCAN_TABLE_SZ(Setup, Extent, default: "1M")
            => [scan_table_sz: extent, shown: |settings| extent_json(settings.scan_table_sz)]
            "size of each schema's scan table; 0 for none",
        LOAD_PARALLEL_DEGREE(Setup, Count { min: 1, max: 1024 }, default: "2")
            => [load_parallel_degree: number] "connections that load at once",
        OBFUSCATE_COLUMNS(SetupAndRun, Boolean, default: "FALSE",
            also: "not together with COMPRESS_RATIO") => [obfuscate_columns: truth]
            "fills rows with random text instead of a constant, so that they do not compress",
        COMPRESS_RATIO(SetupAndRun, Decimal { min: 1.0, above: false },
            also: "not together with OBFUSCATE_COLUMNS=TRUE") => [compress_ratio: decimal?]
            "fills rows so that whole blocks, with their free space, compress by about this ratio; \
             1 is random text",
        UNIQUE_INDEX(Setup, Boolean, default: "FALSE") => [unique_index: truth]
            "makes the index on the key a unique one",
        PRECONDITION(Setup, Times { max: 16 }, default: "1x") => [precondition: number]
            "device: how many times all blocks are written, the last time in random order",
        BLOCK_SZ(SetupAndRun, BlockSize, default_words: Some("8K where the engine can choose"))
            => [block_sz: number?]
            "block size to load with; where the server decides, or data is loaded, a check",
    }
    Mix {
        UPDATE_PCT(Run, Percent, default: "25", also: "not together with READERS and WRITERS")
            => [update_pct: number, shown: |settings| mix_json(settings, settings.update_pct)]
            "percent of operations that are UPDATEs, exact in every 100",
        SCAN_PCT(Run, Percent, default: "0", also: "above 0 only with a scan table")
            => [scan_pct: number, shown: |settings| mix_json(settings, settings.scan_pct)]
            "percent of SELECTs that scan the scan table instead",
        WORK_UNIT(Run, Count { min: 1, max: 1024 }, default: "64", also: "at most SCALE")
            => [work_unit: number] "random blocks that one operation visits",
        UPDATE_WORK_UNIT(Run, Count { min: 1, max: 1024 }, default_words: Some("WORK_UNIT"),
            also: "at most SCALE")
            => [set: |settings, value| {
                settings.update_work_unit = value.number().unwrap_or(settings.work_unit)
            }, shown: |settings| json!(settings.update_work_unit)]
            "random blocks that one UPDATE changes, if other than WORK_UNIT",
        REDO_STRESS(Run, OneOf["LITE", "HEAVY"], default: "LITE") => [redo_stress: one_of]
            "columns that an UPDATE changes: LITE 2, HEAVY all 19",
        // Where a sweep says how many sessions there are, it is not in force.
        THREADS_PER_SCHEMA(Run, Count { min: 1, max: 65_536 }, default: "1",
            also: "not together with READERS and WRITERS")
            => [threads_per_schema: number, shown: |settings| match settings.sessions {
                None => json!(settings.threads_per_schema),
                Some(_) => Json::Null,
            }]
            "sessions on each schema (also -t)",
        READERS(Run, Count { min: 0, max: 65_536 }, also: "READERS and WRITERS together at least 1")
            => [readers: number?] "sessions that only read, instead of a mix by UPDATE_PCT",
        WRITERS(Run, Count { min: 0, max: 65_536 }, also: "READERS and WRITERS together at least 1")
            => [writers: number?] "sessions that only write, instead of a mix by UPDATE_PCT",
    }
    Length {
        RUN_TIME(Run, Seconds { min: 1, max: 31_622_400 }, default: "300")
            => [run_time: seconds, shown: |settings| seconds_json(settings.run_time)]
            "length of the run; with WORK_LOOP only its limit. Below 30 the figures are mostly \
             start and end",
        WORK_LOOP(Run, Count { min: 0, max: 1_000_000_000_000 }, default: "0")
            => [work_loop: number] "operations of each session; 0: the run is timed",
        WARM_UP(Run, WarmUp, default: "0", also: "less than RUN_TIME")
            => [warm_up: warm_up, shown: |settings| warm_up_json(settings.warm_up)]
            "seconds at the start that stay outside the steady window; cache: before the start \
             every session reads its data until the cache is full",
        REPEATS(Run, Count { min: 1, max: 10_000 }, default: "1")
            => [repeats: number] "how often the run is done; one repeat proves nothing",
        SEED(SetupAndRun, Count { min: 0, max: u64::MAX },
            default_words: Some("drawn afresh, and printed")) => [seed: number?]
            "seed of every random choice; the same seed makes the same choices",
        RATE(Run, Rates { may_be_zero: false },
            also: "not together with SELECT_RATE, UPDATE_RATE and SCAN_RATE") => [rate: rates?]
            "operations per second over all sessions, due at set times (open loop); unset: as fast \
             as they end",
        SELECT_RATE(Run, Rates { may_be_zero: true },
            also: "not together with RATE, UPDATE_PCT, SCAN_PCT, READERS and WRITERS")
            => [select_rate: rates?]
            "SELECTs per second over all sessions, due at set times; a kind without a rate is not \
             done where another has one",
        UPDATE_RATE(Run, Rates { may_be_zero: true }, also: "as SELECT_RATE")
            => [update_rate: rates?] "UPDATEs per second, in the same way",
        SCAN_RATE(Run, Rates { may_be_zero: true },
            also: "as SELECT_RATE; above 0 only with a scan table")
            => [scan_rate: rates?] "scans of the scan table per second, in the same way",
        RATE_SCALE(Run, Decimal { min: 0.0, above: true }, default: "1", also: "only with a rate")
            => [rate_scale: decimal] "multiplies every rate: an axis for sweeps of an open loop",
    }
    Pattern {
        DO_HOTSPOT(Run, Boolean, default: "FALSE")
            => [set: |settings, value| {
                settings.hotspot = (value.truth() == Some(true)).then(HotSpot::default)
            }, shown: |settings| json!(settings.hotspot.is_some())]
            "sends some operations to a hot spot in each schema",
        HOTSPOT_MB(Run, Count { min: 1, max: MEGABYTES_MAX }, default: "8",
            also: "inside SCALE, and at least WORK_UNIT blocks")
            => [set: |settings, value| set_hotspot(settings, |spot| spot.bytes = value.mebibytes()),
                shown: |settings| hotspot(settings, |spot| megabytes(spot.bytes))]
            "length of the hot spot, in MiB",
        HOTSPOT_OFFSET_MB(Run, Count { min: 0, max: MEGABYTES_MAX }, default: "16",
            also: "inside SCALE")
            => [set: |settings, value| {
                set_hotspot(settings, |spot| spot.offset_bytes = value.mebibytes())
            }, shown: |settings| hotspot(settings, |spot| megabytes(spot.offset_bytes))]
            "where the hot spot begins in each schema, in MiB",
        HOTSPOT_FREQUENCY(Run, Count { min: 1, max: U32_MAX }, default: "3")
            => [set: |settings, value| {
                set_hotspot(settings, |spot| spot.frequency = value.number().unwrap_or_default())
            }, shown: |settings| hotspot(settings, |spot| json!(spot.frequency))]
            "every so many-th operation lies in the hot spot",
        HOT_SCHEMA_FREQUENCY(Run, Count { min: 0, max: U32_MAX }, default: "0")
            => [hot_schema_frequency: number]
            "every so many-th operation goes to schema 1; 0: none does",
        THINK_TM_FREQUENCY(Run, Count { min: 0, max: U32_MAX }, default: "0")
            => [set: |settings, value| {
                let frequency = value.number().filter(|frequency| *frequency > 0);
                settings.think_time =
                    frequency.map(|frequency| ThinkTime { frequency, ..ThinkTime::default() })
            }, shown: |settings| json!(settings.think_time.map_or(0, |think| think.frequency))]
            "one operation in so many, at random, is preceded by think time; 0: none is",
        THINK_TM_MIN(Run, Decimal { min: 0.0, above: false }, default: ".1",
            also: "at most THINK_TM_MAX")
            => [set: |settings, value| set_think_time(settings, value, |time| &mut time.min),
                shown: |settings| think(settings, |time| time.min)]
            "shortest think time, in seconds",
        THINK_TM_MAX(Run, Decimal { min: 0.0, above: false }, default: ".5",
            also: "at least THINK_TM_MIN")
            => [set: |settings, value| set_think_time(settings, value, |time| &mut time.max),
                shown: |settings| think(settings, |time| time.max)]
            "longest think time, in seconds",
    }
    Io {
        LOOP(Run, OneOf["server", "client"],
            default_words: Some("server where the engine has it")) => [loop_side: one_of?]
            "where the loop runs: server, inside the database; client, one call for each \
             operation. petal compare names the difference",
        PREFETCH(Run, Count { min: 0, max: 65_536 }, default: "0") => [prefetch: number]
            "blocks that a session reads ahead; 0: one block at a time",
        DIRECT_IO(SetupAndRun, Boolean, default_words: Some("TRUE where it works"))
            => [direct_io: truth?] "reads and writes past the page cache",
        IO_DEPTH(Run, Count { min: 1, max: 65_536 }, default: "1") => [io_depth: number]
            "requests that the device engine keeps in flight in each session",
        VERIFY(Run, OneOf["none", "header", "checksum"], default: "header") => [verify: one_of]
            "what the device engine checks of each block that it reads",
        PAGE_CACHE_LIMIT(Run, Bytes) => [page_cache_limit: number?]
            "petal locks memory so that about so much is left for the page cache of a local server",
    }
    Evidence {
        STORAGE_CACHE(Run, Bytes) => [storage_cache: number?]
            "size of the storage's own cache as you know it: data that fits in it is not physical \
             I/O",
        PRICE_PER_MONTH(Run, Decimal { min: 0.0, above: true }) => [price_per_month: decimal?]
            "what the platform under test costs a month, in any currency: gallery and compare tell \
             what 1,000 delivered I/O requests per second cost",
        CALIBRATIONS(Run, Path, default_words: Some("petal/calibrations in XDG_DATA_HOME"))
            => [calibrations: path?, shown: |settings| path_json(settings.calibrations.as_ref())]
            "folder where petal calibrate keeps what runs on the same device are compared with",
        // Without a slash it would be looked for in PATH.
        EXTERNAL_SCRIPT(Run, Path, also: "an executable file")
            => [set: |settings, value| settings.external_script = value.path().map(absolute),
                shown: |settings| path_json(settings.external_script.as_ref())]
            "called with pre before the start, post right after the end, and end when all files \
             are written; waited for, at most 600 s each time",
        NO_OS_PERF_DATA(Run, Boolean, default: "FALSE")
            => [set: |settings, value| settings.os_perf_data = value.truth() != Some(true),
                shown: |settings| json!(!settings.os_perf_data)]
            "leaves out the statistics of the operating system",
        DATABASE_STATISTICS_TYPE(Run, OneOf["statspack", "awr"], default: "statspack")
            => [database_statistics_type: one_of] "Oracle: which of its reports to fetch",
    }
    Oracle {
        ADMIN_SQLNET_SERVICE(All, Text) => [endpoints.admin_service: text?]
            "service for statistics and loading",
        SQLNET_SERVICE_BASE(All, Text) => [endpoints.service_base: text?]
            "service of the sessions; with SQLNET_SERVICE_MAX the base to which a number is put",
        SQLNET_SERVICE_MAX(All, Count { min: 0, max: 65_536 },
            also: "only with SQLNET_SERVICE_BASE")
            => [set: |settings, value| {
                settings.endpoints.service_max = value.number().filter(|max| *max > 0)
            }, shown: |settings| json!(settings.endpoints.service_max)]
            "number of services over which schemas, or sessions, are spread",
        DBA_PRIV_USER(All, User) => [endpoints.dba_user: text?]
            "user who may administer the database",
        SYSDBA_PASSWD(All, Secret)
            => [endpoints.dba_password: secret?, shown: |settings| {
                json!(settings.endpoints.dba_password.as_ref().map(|_| "***"))
            }]
            "that user's password; never shown",
        COMMIT_WAIT(Run, Boolean, default: "TRUE") => [commit_wait: truth]
            "every commit waits for its log (COMMIT WRITE IMMEDIATE WAIT); FALSE: a plain COMMIT \
             in PL/SQL, which does not wait, as SLOB's",
        USE_SLOB_SCHEMAS(All, Boolean, default: "FALSE") => [use_slob_schemas: truth]
            "runs on the schemas that SLOB loaded, user1 to userN, as they are; they are never \
             loaded over and never dropped",
    }
};

fn path_json(path: Option<&PathBuf>) -> Json {
    json!(path.map(|path| path.display().to_string()))
}

/// Not in force where each kind has a rate of its own.
fn mix_json(settings: &Settings, per_cent: u8) -> Json {
    if settings.has_kind_rates() { Json::Null } else { json!(per_cent) }
}

fn absolute(path: PathBuf) -> PathBuf {
    std::path::absolute(&path).unwrap_or(path)
}

fn hotspot(settings: &Settings, part: fn(&HotSpot) -> Json) -> Json {
    settings.hotspot.as_ref().map_or(Json::Null, part)
}

fn set_hotspot(settings: &mut Settings, set: impl FnOnce(&mut HotSpot)) {
    if let Some(spot) = &mut settings.hotspot {
        set(spot);
    }
}

/// Whole MiB as a whole number.
fn megabytes(bytes: u64) -> Json {
    match bytes.is_multiple_of(1 << 20) {
        true => json!(bytes >> 20),
        false => json!(bytes as f64 / f64::from(1 << 20)),
    }
}

fn think(settings: &Settings, part: fn(&ThinkTime) -> Duration) -> Json {
    json!(settings.think_time.as_ref().map(|time| part(time).as_secs_f64()))
}

fn set_think_time(settings: &mut Settings, value: &Value, of: fn(&mut ThinkTime) -> &mut Duration) {
    if let Some(time) = &mut settings.think_time {
        *of(time) = value.seconds().unwrap_or_default();
    }
}
