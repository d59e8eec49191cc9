//! Private PostgreSQL servers for tests: made by `initdb` as an ordinary user in a folder of their
//! own, on a free port and a socket of their own, and gone when the test's process is, however it
//! ends. No test of its own.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use postgres::{Client, NoTls, SimpleQueryMessage};
use tempfile::TempDir;

use crate::keeper::{Keeper, contained};
use crate::support::{LIMIT, Mount, free_port, skip};

/// Who runs servers when the tests are root's.
const ORDINARY_USER: &str = "postgres";
/// What a session does that waits for a lock.
pub const WAITS_FOR_LOCK: &str = "wait_event_type = 'Lock'";
pub const VACUUM_WAITS: &str = "query LIKE 'VACUUM%' AND wait_event_type = 'Lock'";

pub struct Server {
    keeper: Keeper,
    folder: TempDir,
    programs: PathBuf,
    pub port: u16,
    settings: Vec<String>,
    databases: Mutex<BTreeSet<String>>,
}

/// The newest installation; PETAL_TEST_POSTGRES names another's folder of programs.
pub fn programs() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("PETAL_TEST_POSTGRES") {
        return Some(named.into());
    }
    let mut found: Vec<(u32, PathBuf)> = fs::read_dir("/usr/lib/postgresql")
        .ok()?
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let version = path.file_name()?.to_str()?.parse().ok()?;
            let programs = path.join("bin");
            programs.join("initdb").exists().then_some((version, programs))
        })
        .collect();
    found.sort();
    found.pop().map(|(_, programs)| programs)
}

/// Whether these tests can run here; tells the skip where not.
pub fn is_there() -> bool {
    let there = programs().is_some();
    if !there {
        skip("no PostgreSQL server is installed: scripts/install-test-servers.sh does it");
    }
    there
}

fn ordinary_user() -> Option<(u32, u32)> {
    user_numbers(ORDINARY_USER)
}

/// Numbers of a user that runs servers, whom their package makes; None: whoever runs the tests.
pub fn user_numbers(name: &str) -> Option<(u32, u32)> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let accounts = fs::read_to_string("/etc/passwd").unwrap();
    let mut lines = accounts.lines();
    let line = lines.find(|line| line.split(':').next() == Some(name));
    let line = line.expect("the server's package makes this user");
    let field = |at: usize| line.split(':').nth(at).unwrap().parse().unwrap();
    Some((field(2), field(3)))
}

fn as_ordinary_user(program: &Path) -> Command {
    let mut command = Command::new(program);
    if let Some((user, group)) = ordinary_user() {
        command.uid(user).gid(group);
    }
    command.env_clear().env("PATH", "/usr/bin:/bin").env("LC_ALL", "C").current_dir("/");
    command
}

/// A file that only the server's user may read.
fn write_as_ordinary_user(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    if let Some((user, group)) = ordinary_user() {
        chown(path, Some(user), Some(group)).unwrap();
    }
}

impl Server {
    /// With `name=value` settings beside a few that make it quick to start.
    pub fn start(settings: &[&str]) -> Self {
        Self::start_below(Path::new("/var/tmp"), settings)
    }

    pub fn start_below(parent: &Path, settings: &[&str]) -> Self {
        Self::make(&programs().expect("PostgreSQL is installed"), parent, settings)
    }

    /// A server of the programs in another folder.
    pub fn of(programs: &Path, settings: &[&str]) -> Self {
        Self::make(programs, Path::new("/var/tmp"), settings)
    }

    fn make(programs: &Path, parent: &Path, settings: &[&str]) -> Self {
        let folder = Self::folder(parent);
        let data = folder.path().join("data");
        let initdb = programs.join("initdb");
        let made = as_ordinary_user(&initdb)
            .args(["-A", "trust", "-U", "petal", "-N", "-D"])
            .arg(&data)
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let settings = settings.iter().map(|&setting| setting.to_owned()).collect();
        Self::run(programs, folder, settings)
    }

    /// A streaming standby of this server, copied by hand: packages of the server alone come
    /// without pg_basebackup.
    pub fn standby(&self) -> Self {
        let folder = Self::folder(Path::new("/var/tmp"));
        let mut client = self.client("postgres");
        let (start, stop) = match self.version() {
            150_000.. => ("pg_backup_start('standby', true)", "pg_backup_stop(false)"),
            _ => ("pg_start_backup('standby', true, false)", "pg_stop_backup(false, false)"),
        };
        client.batch_execute(&format!("SELECT {start}")).unwrap();
        let copied = as_ordinary_user(Path::new("/bin/cp"))
            .arg("-a")
            .args([self.folder.path().join("data"), folder.path().join("data")])
            .output()
            .unwrap();
        assert!(copied.status.success(), "{}", String::from_utf8_lossy(&copied.stderr));
        let label: String =
            client.query_one(&format!("SELECT labelfile FROM {stop}"), &[]).unwrap().get(0);
        fs::remove_file(folder.path().join("data/postmaster.pid")).unwrap();
        let primary = format!(
            "primary_conninfo = 'host={} port={} user=petal'\n",
            self.folder.path().display(),
            self.port
        );
        let own = [("backup_label", label), ("standby.signal", String::new())];
        for (name, text) in own.into_iter().chain([("postgresql.auto.conf", primary)]) {
            write_as_ordinary_user(&folder.path().join("data").join(name), &text);
        }
        Self::run(&self.programs, folder, self.settings.clone())
    }

    fn folder(parent: &Path) -> TempDir {
        // Outside of what only root may enter; short, for the socket's name.
        let folder = tempfile::Builder::new().prefix("petal-pg-").tempdir_in(parent).unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        if let Some((user, group)) = ordinary_user() {
            chown(folder.path(), Some(user), Some(group)).unwrap();
        }
        folder
    }

    fn run(programs: &Path, folder: TempDir, settings: Vec<String>) -> Self {
        let port = free_port();
        let keeper = Self::spawn(programs, folder.path(), port, &settings);
        let (databases, programs) = (Mutex::default(), programs.to_owned());
        let server = Self { keeper, folder, programs, port, settings, databases };
        server.wait_until_up();
        server
    }

    fn spawn(programs: &Path, folder: &Path, port: u16, settings: &[String]) -> Keeper {
        let server = Self::command(programs, folder, port, settings);
        Keeper::start(as_ordinary_user(Path::new("/bin/sh")), folder, "INT", &server)
    }

    fn command(programs: &Path, folder: &Path, port: u16, settings: &[String]) -> Command {
        let mut server = Command::new(programs.join("postgres"));
        server.arg("-D").arg(folder.join("data")).arg("-k").arg(folder);
        server.args(["-p", &port.to_string()]);
        for setting in ["listen_addresses=127.0.0.1", "max_connections=400"] {
            server.args(["-c", setting]);
        }
        settings.iter().for_each(|setting| {
            server.args(["-c", setting]);
        });
        server
    }

    /// Moves it into mounts and process numbers of its own.
    pub fn into_container(mut self, inside: &Mount) -> Option<Self> {
        self.stop("INT");
        let server = Self::command(&self.programs, self.folder.path(), self.port, &self.settings);
        let data = self.folder.path().join("data");
        let contained = contained(&server, &data, inside, ordinary_user())?;
        // Nothing else ends the first process of a namespace.
        self.keeper =
            Keeper::start(Command::new("/bin/sh"), self.folder.path(), "KILL", &contained);
        self.wait_until_up();
        Some(self)
    }

    fn wait_until_up(&self) {
        let began = Instant::now();
        while let Err(error) = self.try_connect("postgres") {
            let log = fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
            assert!(began.elapsed() < LIMIT, "{error}: {log}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn try_connect(&self, database: &str) -> Result<Client, postgres::Error> {
        let folder = self.folder.path().display();
        let parameters = format!("host={folder} port={} user=petal dbname={database}", self.port);
        Client::connect(&parameters, NoTls)
    }

    pub fn client(&self, database: &str) -> Client {
        self.try_connect(database).unwrap()
    }

    /// Such as 150018.
    pub fn version(&self) -> u32 {
        let sql = "SELECT current_setting('server_version_num')::integer";
        let row = self.client("postgres").query_one(sql, &[]).unwrap();
        row.get::<_, i32>(0).cast_unsigned()
    }

    /// A database of this name, made when it is first asked for.
    pub fn database(&self, name: &str) {
        if self.databases.lock().unwrap().insert(name.to_owned()) {
            let sql = format!("CREATE DATABASE {name}");
            self.client("postgres").batch_execute(&sql).unwrap();
        }
    }

    /// A tablespace in a folder that everybody may write.
    pub fn tablespace(&self, name: &str, below: &Path) {
        let folder = below.join("space");
        fs::create_dir(&folder).unwrap();
        if let Some((user, group)) = ordinary_user() {
            chown(&folder, Some(user), Some(group)).unwrap();
        }
        let sql = format!("CREATE TABLESPACE \"{name}\" LOCATION '{}'", folder.display());
        self.client("postgres").batch_execute(&sql).unwrap();
    }

    /// What it logged until now.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    /// The entries of postgresql.auto.conf.
    pub fn stored_settings(&self) -> Vec<String> {
        let text =
            fs::read_to_string(self.folder.path().join("data/postgresql.auto.conf")).unwrap();
        let entries = text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned);
        // Each change moves its entry to the end.
        entries.collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// The command for pg_ctl, such as `restart`. A server that it starts is not the keeper's: end
    /// it by `stop`.
    pub fn pg_ctl(&self, order: &str) -> String {
        let user = ordinary_user().map_or(String::new(), |(user, group)| {
            format!("setpriv --reuid {user} --regid {group} --clear-groups ")
        });
        let (folder, programs) = (self.folder.path().display(), self.programs.display());
        format!("cd / && {user}{programs}/pg_ctl -D {folder}/data -l {folder}/log -w -s {order}")
    }

    /// A file in the server's folder that only it may read.
    pub fn secret_file(&self, name: &str, text: &str) {
        write_as_ordinary_user(&self.folder.path().join(name), text);
    }

    /// PgBouncer before this server, with one connection for all its clients, in a pool mode.
    pub fn pooler(&self, pool_mode: &str) -> Pooler {
        let (folder, port) = (Self::folder(Path::new("/var/tmp")), free_port());
        let at = folder.path().display();
        let settings = format!(
            "[databases]\n* = user=petal host={} port={}\n[pgbouncer]\nlisten_addr=127.0.0.1\n\
             listen_port={port}\nauth_type=any\nunix_socket_dir=\nlogfile={at}/log\n\
             pool_mode={pool_mode}\ndefault_pool_size=1\n",
            self.folder.path().display(),
            self.port
        );
        let file = folder.path().join("pgbouncer.ini");
        write_as_ordinary_user(&file, &settings);
        let mut program = Command::new(PGBOUNCER);
        program.arg(&file);
        Self::pooled(&program, folder, port)
    }

    /// pgpool before this server.
    pub fn pgpool(&self) -> Pooler {
        let (folder, port) = (Self::folder(Path::new("/var/tmp")), free_port());
        let at = folder.path().display();
        let settings = format!(
            "backend_clustering_mode = 'raw'\nlisten_addresses = '127.0.0.1'\nport = {port}\n\
             pcp_port = {}\nunix_socket_directories = '{at}'\npcp_socket_dir = '{at}'\n\
             wd_ipc_socket_dir = '{at}'\nbackend_hostname0 = '127.0.0.1'\nbackend_port0 = {}\n\
             backend_weight0 = 1\nnum_init_children = 8\npid_file_name = '{at}/pid'\n\
             logdir = '{at}'\nsr_check_period = 0\nhealth_check_period = 0\n",
            free_port(),
            self.port
        );
        let file = folder.path().join("pgpool.conf");
        write_as_ordinary_user(&file, &settings);
        let mut program = Command::new(PGPOOL);
        program.arg("-n").arg("-f").arg(&file);
        Self::pooled(&program, folder, port)
    }

    /// A pooler, as soon as it answers.
    fn pooled(program: &Command, folder: TempDir, port: u16) -> Pooler {
        let shell = as_ordinary_user(Path::new("/bin/sh"));
        let keeper = Keeper::start(shell, folder.path(), "INT", program);
        let pooler = Pooler { port, _keeper: keeper, folder };
        let began = Instant::now();
        while let Err(error) = pooler.try_connect("postgres") {
            let log = fs::read_to_string(pooler.folder.path().join("log")).unwrap_or_default();
            assert!(began.elapsed() < LIMIT, "{error}: {log}");
            thread::sleep(Duration::from_millis(20));
        }
        pooler
    }

    /// The URL of a database by the socket.
    pub fn url(&self, database: &str) -> String {
        self.database(database);
        let folder = self.folder.path().display();
        format!("postgres://petal@/{database}?host={folder}&port={}", self.port)
    }

    /// Answers that a new connection gets to these questions.
    pub fn answers(&self, database: &str, questions: &[&str]) -> Vec<String> {
        answers(self.client(database), questions)
    }

    /// The URL of a database by the network.
    pub fn tcp_url(&self, database: &str) -> String {
        self.database(database);
        format!("postgres://petal@127.0.0.1:{}/{database}", self.port)
    }

    /// Ends it at once, as a power cut would, and starts it again.
    pub fn crash(&mut self) {
        self.stop("QUIT");
        self.start_again();
    }

    /// Starts it, when it has ended.
    pub fn start_again(&mut self) {
        self.keeper = Self::spawn(&self.programs, self.folder.path(), self.port, &self.settings);
        self.wait_until_up();
    }

    /// Ends it by a signal, its data kept: INT cleanly, QUIT at once.
    pub fn stop(&mut self, signal: &str) {
        self.keeper.stop_and_keep(signal);
    }
}

const PGBOUNCER: &str = "/usr/sbin/pgbouncer";
const PGPOOL: &str = "/usr/sbin/pgpool";

/// Whether tests of pgpool can run here; says why not.
pub fn pgpool_is_there() -> bool {
    let there = is_there() && Path::new(PGPOOL).exists();
    if !there {
        skip("no pgpool is installed: scripts/install-test-servers.sh does it");
    }
    there
}

/// Whether tests of poolers can run here; says why not.
pub fn pooler_is_there() -> bool {
    let there = is_there() && Path::new(PGBOUNCER).exists();
    if !there {
        skip("no PgBouncer is installed: scripts/install-test-servers.sh does it");
    }
    there
}

/// A pooler of connections before a server.
pub struct Pooler {
    pub port: u16,
    _keeper: Keeper,
    folder: TempDir,
}

impl Pooler {
    fn try_connect(&self, database: &str) -> Result<Client, postgres::Error> {
        let port = self.port;
        let parameters = format!("host=127.0.0.1 port={port} user=petal dbname={database}");
        Client::connect(&parameters, NoTls)
    }

    /// What a client of the pooler finds at the server, by simple queries.
    pub fn answers(&self, database: &str, questions: &[&str]) -> Vec<String> {
        answers(self.try_connect(database).unwrap(), questions)
    }
}

/// The first value of the answer to each question.
fn answers(mut client: Client, questions: &[&str]) -> Vec<String> {
    let answer = |question: &&str| {
        let rows = client.simple_query(question).unwrap();
        let row = rows.iter().find_map(|row| match row {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        row.unwrap().get(0).unwrap().to_owned()
    };
    questions.iter().map(answer).collect()
}

/// The one that most tests share, each with a database of its own; for a thread that is
/// [`alone`], another, which nobody else uses meanwhile.
pub fn shared() -> &'static Server {
    static SHARED: OnceLock<Server> = OnceLock::new();
    static QUIET: OnceLock<Server> = OnceLock::new();
    let server = if ALONE.get() { &QUIET } else { &SHARED };
    server.get_or_init(|| Server::start(&["shared_buffers=64MB", "max_wal_size=2GB"]))
}

/// How many other sessions of this client's database do this, as pg_stat_activity shows it.
pub fn sessions(client: &mut Client, doing: &str) -> i64 {
    let sql = format!(
        "SELECT count(*) FROM pg_stat_activity \
         WHERE datname = current_database() AND pid <> pg_backend_pid() AND {doing}"
    );
    client.query_one(&sql, &[]).unwrap().get(0)
}

/// VACUUM of petal1.cf1 in a database of the shared server waits while this connection stays as it
/// is; [`VACUUM_WAITS`] shows it.
pub fn keep_vacuum_waiting(database: &str) -> Client {
    let mut client = shared().client(database);
    let lock = "BEGIN; LOCK TABLE petal1.cf1 IN SHARE UPDATE EXCLUSIVE MODE";
    client.batch_execute(lock).unwrap();
    client
}

/// Making an index in this client's database takes so many seconds longer.
pub fn slow_index(client: &mut Client, seconds: f64) {
    let sql = format!(
        "CREATE FUNCTION slow() RETURNS event_trigger LANGUAGE plpgsql \
         AS 'BEGIN PERFORM pg_sleep({seconds}); END'; \
         CREATE EVENT TRIGGER slow ON ddl_command_start WHEN TAG IN ('CREATE INDEX') \
         EXECUTE FUNCTION slow()"
    );
    client.batch_execute(&sql).unwrap();
}

thread_local! {
    static ALONE: Cell<bool> = const { Cell::new(false) };
}

/// While this lives, [`shared`] answers this thread with a server that no other test uses. For
/// tests of where rows lie: a transaction that writes in any database of a server keeps the
/// versions that it might see from being pruned, and a row that finds no room leaves its block.
pub struct Alone(#[allow(dead_code)] MutexGuard<'static, ()>);

pub fn alone() -> Alone {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    ALONE.set(true);
    Alone(turn)
}

impl Drop for Alone {
    fn drop(&mut self) {
        ALONE.set(false);
    }
}
