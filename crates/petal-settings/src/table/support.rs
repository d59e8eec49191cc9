//! The one table of support by engine. An engine is one [`EngineSupport`] here: its names, its
//! abilities, and the parameters that it treats otherwise than the table of parameters says. It
//! supports all other parameters in full.

use super::Parameter;

/// The features of one engine.
#[derive(Debug)]
pub struct EngineSupport {
    /// The URL scheme that opens it.
    pub scheme: &'static str,
    /// Other names of the scheme that people write.
    pub aliases: &'static [&'static str],
    pub address: UrlForm,
    /// A URL as help shows it.
    pub example: &'static str,
    /// Name for people.
    pub product: &'static str,
    /// Block sizes it can load, in bytes; empty if the server decides.
    pub block_sizes: &'static [u32],
    pub block_size_default: u32,
    /// Data can be loaded into a tablespace, by the URL option `tablespace`.
    pub tablespaces: bool,
    /// True if each session has its own block cache.
    pub cache_per_session: bool,
    /// The URL option that sets its cache; without it, the index size decides.
    pub index_cache_option: Option<&'static str>,
    /// The way in which it reads its data.
    pub reads: ReadPath,
    /// Rows are filled with incompressible data unless the settings say otherwise.
    pub incompressible: bool,
    /// Parameters that it treats otherwise than the table of parameters says.
    pub exceptions: &'static [Exceptions],
}

/// The way of a database to its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadPath {
    /// System calls, which it or petal counts and times: each is a physical read.
    Calls,
    /// Files mapped into memory: a visit of a page that is in memory makes no call. Only the kernel
    /// counts the visits that reached a device.
    Mapped,
}

/// Form of the URL after the scheme.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UrlForm {
    /// A file or a folder.
    Path,
    /// `//user:password@host:port,host/name`.
    Server,
}

/// Treatment of a parameter by an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Support {
    Full,
    /// Supported in full, with a note if the parameter is given.
    Remark(&'static str),
    /// Only these values, as the table writes them; all others are refused.
    Only {
        values: &'static [&'static str],
        rule: &'static str,
        hint: &'static str,
    },
    /// A parameter of SLOB's files without effect here: accepted with a note from a file or the
    /// environment, refused as a flag.
    NoEffect {
        reason: &'static str,
    },
    /// Refused, with any value. A parameter that has a value for "off" is [`Support::Only`] that
    /// value: findings may advise it.
    Refused {
        rule: &'static str,
        hint: &'static str,
    },
}

impl EngineSupport {
    /// True if petal's own process works on the data, and counts its own work.
    pub fn is_in_process(&self) -> bool {
        self.address == UrlForm::Path
    }

    pub fn support(&self, parameter: &Parameter) -> Support {
        self.exceptions
            .iter()
            .copied()
            .flatten()
            .find(|(key, _)| *key == parameter.key)
            .map_or(Support::Full, |(_, support)| *support)
    }

    /// True if it takes a parameter with this value; without one, if it leaves the caller a choice.
    pub fn takes(&self, parameter: &Parameter, value: Option<&str>) -> bool {
        match self.support(parameter) {
            Support::Full | Support::Remark(_) => true,
            Support::Only { values, .. } => value.is_some_and(|value| values.contains(&value)),
            Support::NoEffect { .. } | Support::Refused { .. } => false,
        }
    }
}

/// Block sizes that petal can load if an engine can choose, in bytes.
pub const BLOCK_SIZES: &[u32] = &[4096, 8192, 16384, 32768];

/// Common features of engines with a server.
const SERVER: EngineSupport = EngineSupport {
    scheme: "",
    aliases: &[],
    address: UrlForm::Server,
    example: "",
    product: "",
    block_sizes: &[],
    block_size_default: 8192,
    tablespaces: true,
    cache_per_session: false,
    index_cache_option: None,
    reads: ReadPath::Calls,
    incompressible: false,
    exceptions: &[],
};

/// Common features of engines within petal's own process.
const IN_PROCESS: EngineSupport = EngineSupport {
    address: UrlForm::Path,
    block_sizes: BLOCK_SIZES,
    tablespaces: false,
    ..SERVER
};

pub static SQLITE: EngineSupport = EngineSupport {
    scheme: "sqlite",
    example: "sqlite:DIR",
    product: "SQLite",
    cache_per_session: true,
    index_cache_option: Some("cache"),
    exceptions: &[EMBEDDED, BY_CALLS, OF_DATABASES, OF_FILES, NOT_ORACLE],
    ..IN_PROCESS
};

pub static REDB: EngineSupport = EngineSupport {
    scheme: "redb",
    example: "redb:DIR",
    product: "redb",
    block_size_default: 4096,
    index_cache_option: Some("cache"),
    exceptions: &[KEYS_ALONE, EMBEDDED, BY_CALLS, OF_DATABASES, OF_FILES, NOT_ORACLE],
    ..IN_PROCESS
};

pub static LMDB: EngineSupport = EngineSupport {
    scheme: "lmdb",
    example: "lmdb:DIR",
    product: "LMDB",
    block_sizes: &[4096],
    block_size_default: 4096,
    reads: ReadPath::Mapped,
    exceptions: &[MAPPED, KEYS_ALONE, EMBEDDED, OF_DATABASES, OF_FILES, NOT_ORACLE],
    ..IN_PROCESS
};

pub static POSTGRES: EngineSupport = EngineSupport {
    scheme: "postgres",
    aliases: &["postgresql"],
    example: "postgres://user@host/db",
    product: "PostgreSQL",
    exceptions: &[POSTGRES_EXCEPTIONS, OF_DATABASES, NOT_ORACLE],
    ..SERVER
};

pub static MYSQL: EngineSupport = EngineSupport {
    scheme: "mysql",
    aliases: &["mariadb"],
    example: "mysql://user@host/db",
    product: "MySQL",
    block_size_default: 16384,
    tablespaces: false,
    exceptions: &[MYSQL_EXCEPTIONS, OF_DATABASES, NOT_ORACLE],
    ..SERVER
};

pub static ORACLE: EngineSupport = EngineSupport {
    scheme: "oracle",
    example: "oracle://user@host/service",
    product: "Oracle Database",
    exceptions: &[ORACLE_EXCEPTIONS, OF_DATABASES],
    ..SERVER
};

pub static DEVICE: EngineSupport = EngineSupport {
    scheme: "device",
    example: "device:PATH",
    product: "Device",
    incompressible: true,
    exceptions: &[DEVICE_EXCEPTIONS, OF_FILES, NOT_ORACLE],
    ..IN_PROCESS
};

/// The engines that petal knows, in the order in which people should read of them.
pub static ENGINES: &[&EngineSupport] =
    &[&SQLITE, &REDB, &LMDB, &POSTGRES, &MYSQL, &ORACLE, &DEVICE];

/// The engine whose own programs take `host=... dbname=...` in place of a URL.
pub static CONNECTION_TEXT: &EngineSupport = &POSTGRES;

/// The scripted engine: for tests, and as the smallest example of an engine.
#[cfg(any(test, feature = "scripted"))]
pub static SCRIPTED: EngineSupport = EngineSupport {
    scheme: "scripted",
    example: "scripted:DIR",
    product: "Scripted",
    ..IN_PROCESS
};

/// The engine of a URL scheme, by any of its names.
pub fn of(scheme: &str) -> Option<&'static EngineSupport> {
    let mut engines = ENGINES.iter().copied();
    let found = engines.find(|known| known.scheme == scheme || known.aliases.contains(&scheme));
    #[cfg(any(test, feature = "scripted"))]
    let found = found.or_else(|| (scheme == SCRIPTED.scheme).then_some(&SCRIPTED));
    found
}

/// Parameters that an engine treats otherwise, each with how.
type Exceptions = &'static [(&'static str, Support)];

const DEVICE_EXCEPTIONS: Exceptions = &[
    only(
        "LOOP",
        &["client"],
        "must be client with the bare device: there is no server to loop in",
        "Leave it out, or write LOOP=client.",
    ),
    only(
        "PREFETCH",
        &["0"],
        "must be 0 with the bare device, which has IO_DEPTH instead",
        "Leave it out; raise IO_DEPTH for more requests in flight.",
    ),
    refused(
        "PAGE_CACHE_LIMIT",
        "is for local servers; the device's reads can go past the page cache",
        "Leave it out and use DIRECT_IO=TRUE.",
    ),
    ("OBFUSCATE_COLUMNS", Support::Remark("incompressible data unless FALSE is given")),
    ("UNIQUE_INDEX", Support::NoEffect { reason: "a device has no index" }),
];

/// Databases in petal's own process.
const EMBEDDED: Exceptions = &[
    only(
        "LOOP",
        &["client"],
        "must be client with a database in petal's own process: there is no server to loop in",
        "Leave it out, or write LOOP=client.",
    ),
    only(
        "PREFETCH",
        &["0"],
        "must be 0 with an embedded database, which reads one block at a time and cannot read ahead",
        "Leave it out; raise THREADS_PER_SCHEMA for more reads in flight.",
    ),
    only(
        "IO_DEPTH",
        &["1"],
        "must be 1 with a database, where a session has one read in flight",
        "Leave it out; raise THREADS_PER_SCHEMA for more reads in flight.",
    ),
    only(
        "VERIFY",
        &["header"],
        "must be header with a database: the other checks are the device engine's",
        "Leave it out.",
    ),
    (
        "REDO_STRESS",
        Support::Remark("an embedded database writes whole pages: LITE and HEAVY write the same"),
    ),
];

/// Embedded databases that read their files by calls.
const BY_CALLS: Exceptions = &[refused(
    "PAGE_CACHE_LIMIT",
    "is for local servers; an embedded database's reads can go past the page cache",
    "Leave it out and use DIRECT_IO=TRUE.",
)];

/// Databases whose files are mapped into memory.
const MAPPED: Exceptions = &[
    only(
        "DIRECT_IO",
        &["FALSE"],
        "must be FALSE with a database that maps its files: a page fault fills the page cache",
        "Leave it out; petal drops a row's page from the page cache after each visit.",
    ),
    refused(
        "PAGE_CACHE_LIMIT",
        "is for local servers; petal drops a row's page from the page cache after each visit",
        "Leave it out.",
    ),
];

/// Databases of keys and values, without a second index.
const KEYS_ALONE: Exceptions =
    &[("UNIQUE_INDEX", Support::NoEffect { reason: "the table's own keys are its index" })];

const POSTGRES_EXCEPTIONS: Exceptions = &[
    (
        "BLOCK_SZ",
        Support::Remark("the server's own, fixed when it was built: another value is refused"),
    ),
    refused(
        "DIRECT_IO",
        "is not the client's to decide with PostgreSQL, which reads through the page cache",
        "Leave it out; use PAGE_CACHE_LIMIT, or on a test server of version 16 or \
                      later set debug_io_direct = 'data'.",
    ),
    only(
        "IO_DEPTH",
        &["1"],
        "must be 1 with PostgreSQL, where reading ahead is PREFETCH",
        "Leave it out and use PREFETCH=n.",
    ),
    only(
        "VERIFY",
        &["header"],
        "must be header with a database: the other checks are the device engine's",
        "Leave it out.",
    ),
    ("ADMIN_SQLNET_SERVICE", SERVICE_OR_HOST),
    ("SQLNET_SERVICE_BASE", SERVICE_OR_HOST),
    ("DBA_PRIV_USER", NAMED_IN_URL),
    ("SYSDBA_PASSWD", NAMED_IN_URL),
];

const MYSQL_EXCEPTIONS: Exceptions = &[
    ("BLOCK_SZ", Support::Remark("the server's own (innodb_page_size): another value is refused")),
    only(
        "PREFETCH",
        &["0"],
        "must be 0 with MySQL and MariaDB: InnoDB reads a session's pages one at a time",
        "Leave it out; multi-range reads (MRR) only sort them.",
    ),
    refused(
        "DIRECT_IO",
        "is not the client's to decide with MySQL",
        "Leave it out; set innodb_flush_method=O_DIRECT.",
    ),
    only(
        "IO_DEPTH",
        &["1"],
        "must be 1 with a database, where a session has one read in flight",
        "Leave it out; raise THREADS_PER_SCHEMA for more reads in flight.",
    ),
    only(
        "VERIFY",
        &["header"],
        "must be header with a database: the other checks are the device engine's",
        "Leave it out; innodb_checksum_algorithm is the server's own check.",
    ),
    ("ADMIN_SQLNET_SERVICE", Support::Remark("a service is a host")),
    ("SQLNET_SERVICE_BASE", Support::Remark("services are hosts")),
    ("DBA_PRIV_USER", NAMED_IN_URL),
    ("SYSDBA_PASSWD", NAMED_IN_URL),
];

const ORACLE_EXCEPTIONS: Exceptions = &[
    ("BLOCK_SZ", Support::Remark("the tablespace's own: another value is refused")),
    only(
        "PREFETCH",
        &["0"],
        "must be 0 with Oracle Database, which reads ahead by its own rules",
        "Leave it out; docs/engines/oracle.md names the parameters of the instance.",
    ),
    refused(
        "DIRECT_IO",
        "is not the client's to decide with Oracle Database",
        "Leave it out; set filesystemio_options=SETALL, or use ASM.",
    ),
    only(
        "IO_DEPTH",
        &["1"],
        "must be 1 with a database, where a session has one read in flight",
        "Leave it out; raise THREADS_PER_SCHEMA for more reads in flight.",
    ),
    only(
        "VERIFY",
        &["header"],
        "must be header with a database: the other checks are the device engine's",
        "Leave it out; db_block_checksum is the instance's own check.",
    ),
    (
        "DATABASE_STATISTICS_TYPE",
        Support::Remark("awr needs a licence of the Diagnostics Pack; statspack must be installed"),
    ),
];

/// Databases choose the places of their writes themselves.
const OF_DATABASES: Exceptions = &[only(
    "PRECONDITION",
    &["1x"],
    "must be 1x with a database, which decides itself where it writes",
    "Leave it out; precondition the device with device: before the database is made.",
)];

/// Engines without a server.
const OF_FILES: Exceptions = &[
    ("ADMIN_SQLNET_SERVICE", NO_SERVER),
    ("SQLNET_SERVICE_BASE", NO_SERVER),
    ("SQLNET_SERVICE_MAX", NO_SERVER),
    ("DBA_PRIV_USER", NO_SERVER),
    ("SYSDBA_PASSWD", NO_SERVER),
    ("PASSWORD_COMMAND", NO_SERVER),
];

/// Parameters that only Oracle supports.
const NOT_ORACLE: Exceptions = &[
    (
        "DATABASE_STATISTICS_TYPE",
        Support::NoEffect { reason: "Statspack and AWR are Oracle's reports" },
    ),
    ("COMMIT_WAIT", ORACLES),
    ("USE_SLOB_SCHEMAS", ORACLES),
];

const ORACLES: Support = Support::NoEffect { reason: "it is about Oracle's commits and schemas" };

const NAMED_IN_URL: Support = Support::NoEffect { reason: "the role is named in the URL" };

const SERVICE_OR_HOST: Support =
    Support::Remark("services are those of pg_service.conf; a name that is not there is a host's");

const NO_SERVER: Support = Support::NoEffect { reason: "there is no server to connect to" };

const fn only(
    key: &'static str,
    values: &'static [&'static str],
    rule: &'static str,
    hint: &'static str,
) -> (&'static str, Support) {
    (key, Support::Only { values, rule, hint })
}

const fn refused(
    key: &'static str,
    rule: &'static str,
    hint: &'static str,
) -> (&'static str, Support) {
    (key, Support::Refused { rule, hint })
}
