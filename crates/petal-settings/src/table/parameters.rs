//! The entries of the table. A parameter is one entry here, with a field in [`Settings`]: its
//! group, the commands that take it, its values, default, field, form in a record, and meaning.

use std::path::PathBuf;

use serde_json::{Value as Json, json};

use super::Group::{Data, Evidence, Io, Length, Mix, Oracle, Pattern, Target};
use super::TakenBy::{All, Run, Setup, SetupAndRun};
use super::ValueKind::{
    BlockSize, Boolean, Bytes, Count, Decimal, Extent, OneOf, Path, Percent, Rates, Seconds,
    Secret, Text, Times, Url, User, WarmUp,
};
use super::value::{seconds_json, warm_up_json};
use super::{Group, Parameter, SettingAccess, SettingField, TakenBy, Value, ValueKind};
use crate::{HotSpot, Settings, ThinkTime};

const U32_MAX: u64 = u32::MAX as u64;
/// MiB in an exbibyte, so that bytes cannot overflow.
const MEGABYTES_MAX: u64 = 1 << 40;

/// An entry with its default (empty: unset), which sets nothing yet.
const fn of(
    key: &'static str,
    group: Group,
    taken_by: TakenBy,
    kind: ValueKind,
    default: &'static str,
) -> Parameter {
    let (default_words, also, meaning, shown) = (None, "", "", None);
    let access = SettingAccess::Own(|_, _| ());
    Parameter { key, kind, default, default_words, also, meaning, group, taken_by, access, shown }
}

impl Parameter {
    const fn field(self, field: fn(&mut Settings) -> &mut dyn SettingField) -> Self {
        Self { access: SettingAccess::Field(field), ..self }
    }

    const fn set_by(self, set: fn(&mut Settings, &Value)) -> Self {
        Self { access: SettingAccess::Own(set), ..self }
    }

    const fn by_default_words(self, words: &'static str) -> Self {
        Self { default_words: Some(words), ..self }
    }

    const fn also(self, also: &'static str) -> Self {
        Self { also, ..self }
    }

    const fn shown_as(self, shown: fn(&Settings) -> Json) -> Self {
        Self { shown: Some(shown), ..self }
    }

    const fn means(self, meaning: &'static str) -> Self {
        Self { meaning, ..self }
    }
}

/// Every parameter, by group, in the order of help. They are set in this order, too: parameters
/// that others build on (DO_HOTSPOT, THINK_TM_FREQUENCY, WORK_UNIT) come before them.
pub static PARAMETERS: &[Parameter] = &[
    of("DB", Target, All, Url, "sqlite:petal-data")
        .set_by(|s, v| s.db = v.url())
        .shown_as(|s| json!(s.db.redacted()))
        .means("the database under test"),
    of("PASSWORD_COMMAND", Target, All, Path, "")
        .set_by(|s, v| s.password_command = v.get().map(absolute))
        .also("an executable file")
        .shown_as(|s| json!(s.password_command))
        .means(
            "called with host, port and user; prints the password, for connections of the next \
             60 s; its output is never shown",
        ),
    of("OUT", Target, Run, Path, "petal-results").field(|s| &mut s.out).means(
        "folder that gets a folder for each run; as a flag of sweep, the sweep's own folder",
    ),
    of("SCALE", Data, SetupAndRun, Extent, "")
        .field(|s| &mut s.scale)
        .by_default_words("setup: 80M; run: the loaded size")
        .also("at least 1024 blocks")
        .means(
            "rows of each schema, one to a block. A run may use less than is loaded, never more",
        ),
    of("SCAN_TABLE_SZ", Data, Setup, Extent, "1M")
        .field(|s| &mut s.scan_table_sz)
        .means("size of each schema's scan table; 0 for none"),
    of("LOAD_PARALLEL_DEGREE", Data, Setup, Count { min: 1, max: 1024 }, "2")
        .field(|s| &mut s.load_parallel_degree)
        .means("connections that load at once"),
    of("OBFUSCATE_COLUMNS", Data, SetupAndRun, Boolean, "FALSE")
        .field(|s| &mut s.obfuscate_columns)
        .also("not together with COMPRESS_RATIO")
        .means("fills rows with random text, which does not compress, instead of a constant"),
    of("COMPRESS_RATIO", Data, SetupAndRun, Decimal { min: 1.0, above: false }, "")
        .field(|s| &mut s.compress_ratio)
        .also("not together with OBFUSCATE_COLUMNS=TRUE")
        .means("fills rows so that blocks compress by about this ratio; 1 is random text"),
    of("UNIQUE_INDEX", Data, Setup, Boolean, "FALSE")
        .field(|s| &mut s.unique_index)
        .means("makes the index on the key a unique one"),
    of("PRECONDITION", Data, Setup, Times { max: 16 }, "1x")
        .field(|s| &mut s.precondition)
        .means("device: how many times all blocks are written, the last time in random order"),
    of("BLOCK_SZ", Data, SetupAndRun, BlockSize, "")
        .field(|s| &mut s.block_sz)
        .by_default_words("8K if the engine can choose; redb and LMDB 4K")
        .means("block size to load with; only a check if the server decides or data is loaded"),
    of("UPDATE_PCT", Mix, Run, Percent, "25")
        .field(|s| &mut s.update_pct)
        .also("not together with READERS and WRITERS")
        .shown_as(|s| mix_json(s, s.update_pct))
        .means("percent of operations that are UPDATEs, exact in every 100"),
    of("SCAN_PCT", Mix, Run, Percent, "0")
        .field(|s| &mut s.scan_pct)
        .also("above 0 only with a scan table")
        .shown_as(|s| mix_json(s, s.scan_pct))
        .means("percent of SELECTs that scan the scan table instead"),
    of("WORK_UNIT", Mix, Run, Count { min: 1, max: 1024 }, "64")
        .field(|s| &mut s.work_unit)
        .also("at most SCALE")
        .means("random blocks that one operation visits"),
    of("UPDATE_WORK_UNIT", Mix, Run, Count { min: 1, max: 1024 }, "")
        .set_by(|s, v| s.update_work_unit = v.get().unwrap_or(s.work_unit))
        .by_default_words("WORK_UNIT")
        .also("at most SCALE")
        .shown_as(|s| json!(s.update_work_unit))
        .means("random blocks that one UPDATE changes, if other than WORK_UNIT"),
    of("REDO_STRESS", Mix, Run, OneOf(&["LITE", "HEAVY"]), "LITE")
        .field(|s| &mut s.redo_stress)
        .means("columns that an UPDATE changes: LITE 2, HEAVY all 19"),
    // If a sweep sets the number of sessions, it is not in force.
    of("THREADS_PER_SCHEMA", Mix, Run, Count { min: 1, max: 65_536 }, "1")
        .field(|s| &mut s.threads_per_schema)
        .also("not together with READERS and WRITERS")
        .shown_as(|s| json!(s.sessions.is_none().then_some(s.threads_per_schema)))
        .means("sessions on each schema (also -t)"),
    of("READERS", Mix, Run, Count { min: 0, max: 65_536 }, "")
        .field(|s| &mut s.readers)
        .also("READERS and WRITERS together at least 1")
        .means("sessions that only read, without UPDATE_PCT"),
    of("WRITERS", Mix, Run, Count { min: 0, max: 65_536 }, "")
        .field(|s| &mut s.writers)
        .also("READERS and WRITERS together at least 1")
        .means("sessions that only write, without UPDATE_PCT"),
    of("RUN_TIME", Length, Run, Seconds { min: 1, max: 31_622_400 }, "300")
        .set_by(|s, v| s.run_time = v.seconds())
        .shown_as(|s| seconds_json(s.run_time))
        .means(
            "length of the run; with WORK_LOOP only its limit. Below 30 the figures are mostly \
             start and end",
        ),
    of("WORK_LOOP", Length, Run, Count { min: 0, max: 1_000_000_000_000 }, "0")
        .field(|s| &mut s.work_loop)
        .means("operations of each session; 0: the run is timed"),
    of("WARM_UP", Length, Run, WarmUp, "0")
        .set_by(|s, v| s.warm_up = v.warm_up())
        .also("less than RUN_TIME")
        .shown_as(|s| warm_up_json(s.warm_up))
        .means(
            "seconds at the start outside the counted window; cache: before the start sessions \
             read until the cache is full",
        ),
    of("REPEATS", Length, Run, Count { min: 1, max: 10_000 }, "1")
        .field(|s| &mut s.repeats)
        .means("how often the run is done; one repeat shows no spread"),
    of("SEED", Length, SetupAndRun, Count { min: 0, max: u64::MAX }, "")
        .field(|s| &mut s.seed)
        .by_default_words("random, and printed")
        .means("seed of every random choice; the same seed makes the same choices"),
    of("RATE", Length, Run, Rates { may_be_zero: false }, "")
        .field(|s| &mut s.rate)
        .also("not together with SELECT_RATE, UPDATE_RATE and SCAN_RATE")
        .means(
            "operations per second over all sessions, due at set times (open loop); unset: as \
             fast as they end",
        ),
    of("SELECT_RATE", Length, Run, Rates { may_be_zero: true }, "")
        .field(|s| &mut s.select_rate)
        .also("not together with RATE, UPDATE_PCT, SCAN_PCT, READERS and WRITERS")
        .means(
            "SELECTs per second, due at set times; a kind without a rate is not done if another \
             has one",
        ),
    of("UPDATE_RATE", Length, Run, Rates { may_be_zero: true }, "")
        .field(|s| &mut s.update_rate)
        .also("as SELECT_RATE")
        .means("UPDATEs per second"),
    of("SCAN_RATE", Length, Run, Rates { may_be_zero: true }, "")
        .field(|s| &mut s.scan_rate)
        .also("as SELECT_RATE; above 0 only with a scan table")
        .means("scans of the scan table per second"),
    of("RATE_SCALE", Length, Run, Decimal { min: 0.0, above: true }, "1")
        .field(|s| &mut s.rate_scale)
        .also("only with a rate")
        .means("multiplies every rate: an axis for sweeps of an open loop"),
    of("ARRIVALS", Length, Run, OneOf(&["poisson", "even", "dealt"]), "poisson")
        .field(|s| &mut s.arrivals)
        .also("only with a rate")
        .means(
            "gaps between operations of a rate: random or even; any free session serves the next \
             one. dealt: even, and each session has its own operations",
        ),
    of("DO_HOTSPOT", Pattern, Run, Boolean, "FALSE")
        .set_by(|s, v| s.hotspot = v.is_true().then(HotSpot::default))
        .shown_as(|s| json!(s.hotspot.is_some()))
        .means("sends some operations to a hot spot in each schema"),
    of("HOTSPOT_MB", Pattern, Run, Count { min: 1, max: MEGABYTES_MAX }, "8")
        .set_by(|s, v| set_hotspot(s, |spot| spot.bytes = v.mebibytes()))
        .also("inside SCALE, and at least WORK_UNIT blocks")
        .shown_as(|s| hotspot(s, |spot| megabytes(spot.bytes)))
        .means("length of the hot spot, in MiB"),
    of("HOTSPOT_OFFSET_MB", Pattern, Run, Count { min: 0, max: MEGABYTES_MAX }, "16")
        .set_by(|s, v| set_hotspot(s, |spot| spot.offset_bytes = v.mebibytes()))
        .also("inside SCALE")
        .shown_as(|s| hotspot(s, |spot| megabytes(spot.offset_bytes)))
        .means("offset of the hot spot in each schema, in MiB"),
    of("HOTSPOT_FREQUENCY", Pattern, Run, Count { min: 1, max: U32_MAX }, "3")
        .set_by(|s, v| set_hotspot(s, |spot| spot.frequency = v.get().unwrap_or_default()))
        .shown_as(|s| hotspot(s, |spot| json!(spot.frequency)))
        .means("sends every Nth operation to the hot spot"),
    of("HOT_SCHEMA_FREQUENCY", Pattern, Run, Count { min: 0, max: U32_MAX }, "0")
        .field(|s| &mut s.hot_schema_frequency)
        .means("sends every Nth operation to schema 1; 0: none does"),
    of("THINK_TM_FREQUENCY", Pattern, Run, Count { min: 0, max: U32_MAX }, "0")
        .set_by(|s, v| {
            let frequency = v.get().filter(|frequency| *frequency > 0);
            s.think_time =
                frequency.map(|frequency| ThinkTime { frequency, ..ThinkTime::default() });
        })
        .shown_as(|s| json!(s.think_time.map_or(0, |think| think.frequency)))
        .means("think time before one of N operations on average, at random; 0: never"),
    of("THINK_TM_MIN", Pattern, Run, Decimal { min: 0.0, above: false }, ".1")
        .set_by(|s, v| set_think_time(s, |time| time.min = v.seconds()))
        .also("at most THINK_TM_MAX")
        .shown_as(|s| think(s, |time| json!(time.min.as_secs_f64())))
        .means("shortest think time, in seconds"),
    of("THINK_TM_MAX", Pattern, Run, Decimal { min: 0.0, above: false }, ".5")
        .set_by(|s, v| set_think_time(s, |time| time.max = v.seconds()))
        .also("at least THINK_TM_MIN")
        .shown_as(|s| think(s, |time| json!(time.max.as_secs_f64())))
        .means("longest think time, in seconds"),
    of("LOOP", Io, Run, OneOf(&["server", "client"]), "")
        .field(|s| &mut s.loop_side)
        .by_default_words("server if the engine has it")
        .means("server: the loop runs inside the database; client: one call for each operation"),
    of("PREFETCH", Io, Run, Count { min: 0, max: 65_536 }, "0")
        .field(|s| &mut s.prefetch)
        .means("blocks that a session reads ahead; 0: one block at a time"),
    of("DIRECT_IO", Io, SetupAndRun, Boolean, "")
        .field(|s| &mut s.direct_io)
        .by_default_words("TRUE if it works")
        .means("reads and writes past the page cache"),
    of("IO_DEPTH", Io, Run, Count { min: 1, max: 65_536 }, "1")
        .field(|s| &mut s.io_depth)
        .means("requests that the device engine keeps in flight in a session"),
    of("VERIFY", Io, Run, OneOf(&["none", "header", "checksum"]), "header")
        .field(|s| &mut s.verify)
        .means("check of each block that the device engine reads"),
    of("PAGE_CACHE_LIMIT", Io, Run, Bytes, "")
        .field(|s| &mut s.page_cache_limit)
        .means("page cache left to a local server: petal locks the rest of the memory"),
    of("STORAGE_CACHE", Evidence, Run, Bytes, "")
        .field(|s| &mut s.storage_cache)
        .means("size of the storage's own cache: data that fits in it is not physical I/O"),
    of("PRICE_PER_MONTH", Evidence, Run, Decimal { min: 0.0, above: true }, "")
        .field(|s| &mut s.price_per_month)
        .means("monthly price of the platform, in any currency; shown per 1,000 PIOPS"),
    of("CALIBRATIONS", Evidence, Run, Path, "")
        .field(|s| &mut s.calibrations)
        .by_default_words("petal/calibrations in XDG_DATA_HOME")
        .means("folder of petal calibrate's results, for comparison with runs on the same device"),
    // Without a slash it would be looked for in PATH.
    of("EXTERNAL_SCRIPT", Evidence, Run, Path, "")
        .set_by(|s, v| s.external_script = v.get().map(absolute))
        .also("an executable file")
        .shown_as(|s| json!(s.external_script))
        .means(
            "called with pre before the start, post after the end, and end when all files are \
             written, for at most 600 s each",
        ),
    of("NO_OS_PERF_DATA", Evidence, Run, Boolean, "FALSE")
        .set_by(|s, v| s.os_perf_data = !v.is_true())
        .shown_as(|s| json!(!s.os_perf_data))
        .means("leaves out the statistics of the operating system"),
    of("DEVICE_LATENCY", Evidence, Run, Boolean, "TRUE").field(|s| &mut s.device_latency).means(
        "times each request of the data's devices, by BPF, if petal is root or may load such \
             programs; never with NO_OS_PERF_DATA",
    ),
    of("CALL_LATENCY", Evidence, Run, Boolean, "FALSE").field(|s| &mut s.call_latency).means(
        "times each call of a local server that reads, writes or syncs a file, by BPF; it costs \
             1 us for each, and a little for every call of this host",
    ),
    of("WATERFALL", Evidence, Run, Boolean, "FALSE").field(|s| &mut s.waterfall).means(
        "divides the time of an operation in parts, by BPF; it costs a little for every call and \
             switch of threads of this host",
    ),
    of("DATABASE_STATISTICS_TYPE", Evidence, Run, OneOf(&["statspack", "awr"]), "statspack")
        .field(|s| &mut s.database_statistics_type)
        .means("Oracle: which of its reports to fetch"),
    of("ADMIN_SQLNET_SERVICE", Oracle, All, Text, "")
        .field(|s| &mut s.endpoints.admin_service)
        .means("service for statistics and loading"),
    of("SQLNET_SERVICE_BASE", Oracle, All, Text, "")
        .field(|s| &mut s.endpoints.service_base)
        .means("service of the sessions; with SQLNET_SERVICE_MAX a number is appended"),
    of("SQLNET_SERVICE_MAX", Oracle, All, Count { min: 0, max: 65_536 }, "")
        .set_by(|s, v| s.endpoints.service_max = v.get().filter(|max| *max > 0))
        .also("only with SQLNET_SERVICE_BASE")
        .shown_as(|s| json!(s.endpoints.service_max))
        .means("number of services over which schemas, or sessions, are spread"),
    of("DBA_PRIV_USER", Oracle, All, User, "")
        .field(|s| &mut s.endpoints.dba_user)
        .means("user who may administer the database"),
    of("SYSDBA_PASSWD", Oracle, All, Secret, "")
        .set_by(|s, v| s.endpoints.dba_password = v.secret())
        .shown_as(|s| json!(s.endpoints.dba_password.as_ref().map(|_| "***")))
        .means("that user's password; never shown"),
    of("COMMIT_WAIT", Oracle, Run, Boolean, "TRUE").field(|s| &mut s.commit_wait).means(
        "each commit waits for its log (COMMIT WRITE IMMEDIATE WAIT); FALSE: a plain COMMIT \
             in PL/SQL, without waiting, as SLOB's",
    ),
    of("USE_SLOB_SCHEMAS", Oracle, All, Boolean, "FALSE").field(|s| &mut s.use_slob_schemas).means(
        "runs on the schemas that SLOB loaded, user1 to userN; petal never loads over or \
             drops them",
    ),
];

/// Returns null if each kind has its own rate: the share is then not in force.
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

fn think(settings: &Settings, part: fn(&ThinkTime) -> Json) -> Json {
    settings.think_time.as_ref().map_or(Json::Null, part)
}

fn set_think_time(settings: &mut Settings, set: impl FnOnce(&mut ThinkTime)) {
    if let Some(time) = &mut settings.think_time {
        set(time);
    }
}
