//! Private MariaDB or MySQL servers for tests: made as an ordinary user in a folder of their own, on a
//! free port and a socket of their own, and gone when the test's process is, however it ends. No test
//! of its own.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::keeper::{Keeper, contained};
use crate::server_postgres::user_numbers;
use crate::support::{LIMIT, Mount, Running, free_port, skip};

/// Who runs servers when the tests are root's.
const ORDINARY_USER: &str = "mysql";

/// Settings that make a server quick on a machine that tests share.
const SETTINGS: [&str; 9] = [
    "bind-address=127.0.0.1",
    "max-connections=400",
    "performance-schema=ON",
    "innodb-buffer-pool-size=256M",
    "innodb-log-file-size=256M",
    "innodb-io-capacity=5000",
    "innodb-io-capacity-max=20000",
    "innodb-flush-method=O_DIRECT",
    "skip-name-resolve=ON",
];

/// The programs of one installation.
#[derive(Clone)]
struct Programs {
    server: PathBuf,
    client: PathBuf,
    /// MariaDB makes a data directory by a script of its own.
    install: Option<PathBuf>,
}

/// Debian's MariaDB; PETAL_TEST_MYSQL names another server's folder of programs.
fn programs() -> Option<Programs> {
    programs_in(std::env::var_os("PETAL_TEST_MYSQL").map(PathBuf::from))
}

/// The programs in this folder, or Debian's.
fn programs_in(named: Option<PathBuf>) -> Option<Programs> {
    let first = |folders: &[&Path], names: &[&str]| {
        let mut all = folders.iter().flat_map(|folder| names.iter().map(|name| folder.join(name)));
        all.find(|path| path.exists())
    };
    let folders: Vec<&Path> = match &named {
        Some(named) => vec![named],
        None => vec![Path::new("/usr/sbin"), Path::new("/usr/bin")],
    };
    let scripts = named.as_ref().map(|named| named.join("../scripts"));
    let with_scripts: Vec<&Path> = folders.iter().copied().chain(scripts.as_deref()).collect();
    Some(Programs {
        server: first(&folders, &["mariadbd", "mysqld"])?,
        client: first(&folders, &["mariadb", "mysql"])?,
        install: first(&with_scripts, &["mariadb-install-db"]),
    })
}

/// Whether these tests can run here; tells the skip where not.
pub fn is_there() -> bool {
    let there = programs().is_some();
    if !there {
        skip("no MariaDB server is installed: scripts/install-test-servers.sh does it");
    }
    there
}

/// MariaDB's own client; None for another server's.
pub fn mariadb() -> Option<PathBuf> {
    programs().map(|programs| programs.client).filter(|path| path.ends_with("mariadb"))
}

fn as_ordinary_user(program: &Path) -> Command {
    let mut command = Command::new(program);
    if let Some((user, group)) = user_numbers(ORDINARY_USER) {
        command.uid(user).gid(group);
    }
    command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/bin").env("LC_ALL", "C").current_dir("/");
    command
}

/// An empty server's data in this folder.
fn make_data(programs: &Programs, folder: &Path, page_size: Option<&str>) {
    let data = format!("--datadir={}/data", folder.display());
    let mut making = as_ordinary_user(programs.install.as_ref().unwrap_or(&programs.server));
    // The usual one is everybody's, and names in it are not unique.
    let temporary = format!("--tmpdir={}", folder.display());
    making.args(["--no-defaults", &data, &temporary]).args(page_size);
    match &programs.install {
        Some(_) => making.args(["--auth-root-authentication-method=normal", "--skip-test-db"]),
        None => making.arg("--initialize-insecure"),
    };
    let made = making.output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

/// The same as a copy of data that were made once, which is gone when the test's process is.
fn copy_data(folder: &Path) {
    static MADE: OnceLock<(PathBuf, Keeper)> = OnceLock::new();
    let (made, _) = MADE.get_or_init(|| {
        let made = server_folder(Path::new("/var/tmp")).keep();
        make_data(&programs().expect("a server is installed"), &made, None);
        let mut nobody = Command::new("sleep");
        nobody.arg("infinity");
        let shell = as_ordinary_user(Path::new("/bin/sh"));
        let keeper = Keeper::start(shell, &made, "TERM", &nobody);
        (made, keeper)
    });
    let mut copying = as_ordinary_user(Path::new("/bin/cp"));
    let copied = copying.arg("-a").args([made.join("data"), folder.join("data")]).output().unwrap();
    assert!(copied.status.success(), "{}", String::from_utf8_lossy(&copied.stderr));
    // It holds the server's number of its own, which members of a group must not share.
    let _ = fs::remove_file(folder.join("data/auto.cnf"));
}

fn server_folder(parent: &Path) -> TempDir {
    let folder = tempfile::Builder::new().prefix("petal-my-").tempdir_in(parent).unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    if let Some((user, group)) = user_numbers(ORDINARY_USER) {
        chown(folder.path(), Some(user), Some(group)).unwrap();
    }
    folder
}

pub struct Server {
    keeper: Keeper,
    folder: TempDir,
    programs: Programs,
    pub port: u16,
    settings: Vec<String>,
    databases: Mutex<BTreeSet<String>>,
}

impl Server {
    /// With `name=value` settings beside a few that make it quick.
    pub fn start(settings: &[&str]) -> Self {
        // Outside of what only root may enter; short, for the socket's name.
        Self::start_below(Path::new("/var/tmp"), settings)
    }

    pub fn start_below(parent: &Path, settings: &[&str]) -> Self {
        let programs = programs().expect("a server is installed");
        let folder = server_folder(parent);
        let settings: Vec<&str> = SETTINGS.iter().chain(settings).copied().collect();
        match settings.iter().find(|setting| setting.starts_with("innodb-page-size")) {
            Some(page_size) => {
                make_data(&programs, folder.path(), Some(&format!("--{page_size}")));
            }
            None => copy_data(folder.path()),
        }
        Self::run(programs, folder, &settings)
    }

    /// A server of the programs in this folder, or Debian's, with these settings alone.
    pub fn of(programs: Option<&Path>, settings: &[&str]) -> Self {
        let programs = programs_in(programs.map(Path::to_owned)).expect("a server's programs");
        let folder = server_folder(Path::new("/var/tmp"));
        make_data(&programs, folder.path(), None);
        Self::run(programs, folder, settings)
    }

    fn run(programs: Programs, folder: TempDir, settings: &[&str]) -> Self {
        let settings: Vec<String> = settings.iter().map(|setting| format!("--{setting}")).collect();
        let port = free_port();
        let keeper = Self::spawn(&programs, folder.path(), port, &settings);
        let databases = Mutex::default();
        let server = Self { keeper, folder, programs, port, settings, databases };
        server.wait_until_up();
        server
    }

    fn spawn(programs: &Programs, folder: &Path, port: u16, settings: &[String]) -> Keeper {
        let server = Self::command(programs, folder, port, settings);
        // A node of a cluster without its peers may wait for them as it ends.
        let is_node = settings.iter().any(|setting| setting == "--wsrep-on=ON");
        let usual = if is_node { "KILL" } else { "TERM" };
        Keeper::start(as_ordinary_user(Path::new("/bin/sh")), folder, usual, &server)
    }

    fn command(programs: &Programs, folder: &Path, port: u16, settings: &[String]) -> Command {
        let mut server = Command::new(&programs.server);
        server.arg("--no-defaults");
        for (name, file) in [("datadir", "data"), ("socket", "s.sock"), ("pid-file", "pid")] {
            server.arg(format!("--{name}={}/{file}", folder.display()));
        }
        server.arg(format!("--tmpdir={}", folder.display()));
        server.arg(format!("--port={port}")).args(settings);
        server
    }

    /// Moves it into mounts and process numbers of its own.
    pub fn into_container(mut self, inside: &Mount) -> Option<Self> {
        self.keeper.stop_and_keep("TERM");
        let server = Self::command(&self.programs, self.folder.path(), self.port, &self.settings);
        let data = self.folder.path().join("data");
        let contained = contained(&server, &data, inside, user_numbers(ORDINARY_USER))?;
        // Nothing else ends the first process of a namespace.
        self.keeper =
            Keeper::start(Command::new("/bin/sh"), self.folder.path(), "KILL", &contained);
        self.wait_until_up();
        Some(self)
    }

    /// The server's process.
    pub fn process(&self) -> i32 {
        let text = fs::read_to_string(self.folder.path().join("process")).unwrap();
        text.trim().parse().unwrap()
    }

    /// True if the server's user may enter the folder of the plugin's tool: `mariadb-install-db` of another
    /// user takes it away.
    pub fn asks_by_pam(&self) -> bool {
        let folder = self.sql("", "SELECT @@plugin_dir").remove(0).remove(0);
        let tool = fs::metadata(Path::new(&folder).join("auth_pam_tool_dir"));
        let user = user_numbers(ORDINARY_USER).map_or(0, |(user, _)| user);
        tool.is_ok_and(|tool| user == 0 || tool.uid() == user)
    }

    /// A file that only the server's user may read; its path.
    pub fn secret_file(&self, name: &str, from: &Path) -> String {
        let path = self.folder.path().join(name);
        fs::copy(from, &path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        if let Some((user, group)) = user_numbers(ORDINARY_USER) {
            chown(&path, Some(user), Some(group)).unwrap();
        }
        path.display().to_string()
    }

    /// The URL of a database over TCP, at this port, as a user without a password.
    pub fn tcp_url(&self, database: &str, port: u16) -> String {
        self.database(database);
        self.sql("", "CREATE USER IF NOT EXISTS petal@'%'; GRANT ALL ON *.* TO petal@'%'");
        format!("mysql://petal@127.0.0.1:{port}/{database}")
    }

    fn wait_until_up(&self) {
        let began = Instant::now();
        let answers =
            || self.client("").arg("-e").arg("SELECT 1").output().unwrap().status.success();
        while !(Path::new(&self.socket()).exists() && answers()) {
            let log = fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
            assert!(began.elapsed() < LIMIT, "{log}");
            thread::sleep(Duration::from_millis(50));
        }
    }

    fn socket(&self) -> String {
        self.folder.path().join("s.sock").display().to_string()
    }

    /// The server's own client program, as root of the server.
    fn client(&self, database: &str) -> Command {
        let mut command = Command::new(&self.programs.client);
        command.args(["--no-defaults", "-N", "-B", "-u", "root", "-S", &self.socket()]);
        if !database.is_empty() {
            command.arg(database);
        }
        command
    }

    /// What statements answer: rows of columns as text.
    pub fn sql(&self, database: &str, sql: &str) -> Vec<Vec<String>> {
        let output = self.client(database).arg("-e").arg(sql).output().unwrap();
        assert!(output.status.success(), "{sql}: {}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()
    }

    /// What a script of the client program answers, line by line.
    pub fn script(&self, database: &str, script: &str) -> Result<Vec<String>, String> {
        let mut command = self.client(database);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match output.status.success() {
            true => Ok(text(&output.stdout).lines().map(str::to_owned).collect()),
            false => Err(text(&output.stderr)),
        }
    }

    /// A session that stays open, with the statements that it was handed.
    pub fn session(&self, database: &str, sql: &str) -> OpenSession {
        let mut command = self.client(database);
        command.arg("-n").stdin(Stdio::piped()).stdout(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut session = OpenSession { input: child.stdin.take(), child };
        session.go_on(sql);
        session
    }

    /// A database of this name, made when it is first asked for.
    pub fn database(&self, name: &str) {
        if self.databases.lock().unwrap().insert(name.to_owned()) {
            self.sql("", &format!("CREATE DATABASE {name}"));
        }
    }

    /// Whether a transaction holds locks of rows. The server shows an earlier answer to a question that comes
    /// within 0.1 s of the one before, however old that answer is.
    pub fn has_locked_rows(&self) -> bool {
        thread::sleep(Duration::from_millis(150));
        let sql = "SELECT 1 FROM information_schema.innodb_trx WHERE trx_rows_locked > 0";
        !self.sql("", sql).is_empty()
    }

    /// Waits until sessions of petal's run their loop in this server, which nobody else uses.
    pub fn until_running(&self, run: &mut Running) {
        run.until("calls of the routine, or UPDATEs beside it", || {
            let sql =
                "SHOW GLOBAL STATUS WHERE Variable_name IN ('Com_call_procedure', 'Com_update')";
            let counts = self.sql("", sql);
            counts.iter().map(|row| row[1].parse::<u64>().unwrap()).sum::<u64>() > 20
        });
    }

    /// The URL of a database by the socket.
    pub fn url(&self, database: &str) -> String {
        self.database(database);
        format!("mysql://root@localhost/{database}?socket={}", self.socket())
    }

    /// Ends it at once, as a power cut would, and starts it again.
    pub fn crash(&mut self) {
        self.keeper.stop_and_keep("KILL");
        self.restart(&[]);
    }

    /// Starts it, when it has ended, with more settings.
    pub fn restart(&mut self, settings: &[&str]) {
        self.settings.extend(settings.iter().map(|setting| format!("--{setting}")));
        self.keeper = Self::spawn(&self.programs, self.folder.path(), self.port, &self.settings);
        self.wait_until_up();
    }

    /// Ends it by a signal, its data kept: TERM cleanly, KILL at once.
    pub fn stop(&mut self, signal: &str) {
        self.keeper.stop_and_keep(signal);
    }
}

/// Ends with the test.
pub struct OpenSession {
    input: Option<ChildStdin>,
    child: Child,
}

impl OpenSession {
    /// Hands it more statements.
    pub fn go_on(&mut self, sql: &str) {
        let input = self.input.as_mut().unwrap();
        writeln!(input, "{sql};").unwrap();
        input.flush().unwrap();
    }
}

impl Drop for OpenSession {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const GALERA_LIBRARY: &str = "/usr/lib/galera/libgalera_smm.so";

/// The nodes of a Galera cluster on this host; None where it cannot be had.
fn galera(nodes: usize) -> Option<Vec<Server>> {
    let is_debians = std::env::var_os("PETAL_TEST_MYSQL").is_none();
    if !is_there() || !is_debians || !Path::new(GALERA_LIBRARY).exists() {
        skip("no Galera cluster: it needs Debian's MariaDB and galera-4");
        return None;
    }
    let first = free_port();
    let node = |number: usize| {
        let (group, transfer, snapshot) = match number {
            0 => (first, free_port(), free_port()),
            _ => (free_port(), free_port(), free_port()),
        };
        let mut settings = vec![
            "innodb-buffer-pool-size=64M".to_owned(),
            "binlog-format=ROW".to_owned(),
            "innodb-autoinc-lock-mode=2".to_owned(),
            "wsrep-on=ON".to_owned(),
            format!("wsrep-provider={GALERA_LIBRARY}"),
            format!("wsrep-cluster-name=petal{first}"),
            format!("wsrep-node-name=node{number}"),
            format!("wsrep-node-address=127.0.0.1:{group}"),
            format!(
                "wsrep-provider-options=base_port={group};\
                 gmcast.listen_addr=tcp://127.0.0.1:{group};ist.recv_addr=127.0.0.1:{transfer};\
                 evs.keepalive_period=PT3S;evs.suspect_timeout=PT60S;evs.inactive_timeout=PT90S"
            ),
            "wsrep-sst-method=rsync".to_owned(),
            format!("wsrep-sst-receive-address=127.0.0.1:{snapshot}"),
        ];
        settings.push(match number {
            0 => "wsrep-cluster-address=gcomm://".to_owned(),
            _ => format!("wsrep-cluster-address=gcomm://127.0.0.1:{first}"),
        });
        if number == 0 {
            settings.push("wsrep-new-cluster".to_owned());
        }
        let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
        Server::start(&settings)
    };
    let nodes: Vec<Server> = (0..nodes).map(node).collect();
    nodes[0].sql("", "CREATE USER petal@'%'; GRANT ALL ON *.* TO petal@'%'");
    Some(nodes)
}

/// The members of a MySQL group (Group Replication), all of which take writes; None where it cannot be
/// had: it needs PETAL_TEST_MYSQL, and the plugin of that server.
fn group(members: usize) -> Option<Vec<Server>> {
    let named = std::env::var_os("PETAL_TEST_MYSQL").map(PathBuf::from);
    let plugins = named.map(|named| named.join("../lib/plugin"));
    let Some(plugins) = plugins.filter(|it| it.join("group_replication.so").exists()) else {
        skip(
            "no Group Replication: it needs PETAL_TEST_MYSQL with lib/plugin/group_replication.so",
        );
        return None;
    };
    let ports: Vec<u16> = (0..members).map(|_| free_port()).collect();
    let seeds: Vec<String> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
    let member = |(number, port): (usize, &u16)| {
        let settings = [
            format!("plugin-dir={}", plugins.display()),
            "plugin-load-add=group_replication.so".to_owned(),
            "mysqlx=OFF".to_owned(),
            "innodb-buffer-pool-size=64M".to_owned(),
            format!("server-id={}", number + 1),
            "gtid-mode=ON".to_owned(),
            "enforce-gtid-consistency=ON".to_owned(),
            "report-host=127.0.0.1".to_owned(),
            "loose-group-replication-group-name=0f5b6c1e-9f4e-4c8e-9a51-2d1f7a3b9c01".to_owned(),
            format!("loose-group-replication-local-address=127.0.0.1:{port}"),
            format!("loose-group-replication-group-seeds={}", seeds.join(",")),
            "loose-group-replication-start-on-boot=OFF".to_owned(),
            "loose-group-replication-single-primary-mode=OFF".to_owned(),
            "loose-group-replication-enforce-update-everywhere-checks=ON".to_owned(),
            "loose-group-replication-recovery-get-public-key=ON".to_owned(),
        ];
        let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
        let server = Server::start(&settings);
        let bootstraps = |on: &str| {
            if number == 0 {
                server.sql("", &format!("SET GLOBAL group_replication_bootstrap_group = {on}"));
            }
        };
        // Nothing of its own that the others do not have.
        let recovery = "SET sql_log_bin = 0; CREATE USER petal@'%'; \
                        GRANT ALL ON *.* TO petal@'%'; SET sql_log_bin = 1; RESET MASTER; \
                        CHANGE REPLICATION SOURCE TO SOURCE_USER = 'petal' \
                        FOR CHANNEL 'group_replication_recovery'";
        server.sql("", recovery);
        bootstraps("ON");
        server.sql("", "START GROUP_REPLICATION");
        bootstraps("OFF");
        server
    };
    let nodes: Vec<Server> = ports.iter().enumerate().map(member).collect();
    let online = "SELECT COUNT(*) FROM performance_schema.replication_group_members \
                  WHERE member_state = 'ONLINE'";
    let began = Instant::now();
    while nodes.iter().any(|node| node.sql("", online) != [[members.to_string()]]) {
        assert!(began.elapsed() < LIMIT, "the group is not complete");
        thread::sleep(Duration::from_millis(100));
    }
    Some(nodes)
}

/// How three nodes come to hold the same data.
#[derive(Clone, Copy)]
pub enum Replication {
    Galera,
    Group,
}

impl Replication {
    pub fn nodes(self) -> Option<Vec<Server>> {
        match self {
            Self::Galera => galera(3),
            Self::Group => group(3),
        }
    }

    /// What has a node answer with all that the others committed before.
    pub fn see_all(self) -> &'static str {
        match self {
            Self::Galera => "SET SESSION wsrep_sync_wait = 7",
            Self::Group => "SET SESSION group_replication_consistency = 'BEFORE'",
        }
    }

    /// Nodes that tests share, each test with a database of its own.
    pub fn shared(self) -> Option<&'static [Server]> {
        static GALERA: OnceLock<Option<Vec<Server>>> = OnceLock::new();
        static GROUP: OnceLock<Option<Vec<Server>>> = OnceLock::new();
        let shared = match self {
            Self::Galera => &GALERA,
            Self::Group => &GROUP,
        };
        shared.get_or_init(|| self.nodes()).as_deref()
    }
}

/// The URL of a database on all nodes.
pub fn cluster_url(nodes: &[Server], database: &str) -> String {
    nodes[0].database(database);
    let hosts: Vec<String> = nodes.iter().map(|node| format!("127.0.0.1:{}", node.port)).collect();
    format!("mysql://petal@{}/{database}?ssl_mode=DISABLED", hosts.join(","))
}

/// The one that most tests share, each with a database of its own.
pub fn shared() -> &'static Server {
    static SHARED: OnceLock<Server> = OnceLock::new();
    SHARED.get_or_init(|| Server::start(&[]))
}
