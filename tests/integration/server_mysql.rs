//! Private MariaDB or MySQL servers for tests: made as an ordinary user in a folder of their own, on a
//! free port and a socket of their own, and gone when the test's process is, however it ends. No test
//! of its own.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::server_postgres::{free_port, user_numbers};
use crate::support::{LIMIT, Running, skip};

/// Who runs servers when the tests are root's.
const ORDINARY_USER: &str = "mysql";

/// Runs a server until its own standard input ends, which it does with the test's process; then
/// stops it and removes what it had.
const KEEPER: &str = r#"
folder=$1; shift
"$@" >>"$folder/log" 2>&1 </dev/null &
server=$!
read -r how
kill -"${how:-TERM}" "$server" 2>/dev/null
wait "$server"
[ "$how" = KILL ] || rm -rf "$folder"
"#;

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
struct Programs {
    server: PathBuf,
    client: PathBuf,
    /// MariaDB makes a data directory by a script of its own.
    install: Option<PathBuf>,
}

/// Debian's MariaDB; PETAL_TEST_MYSQL names another server's folder of programs.
fn programs() -> Option<Programs> {
    let first = |folders: &[&Path], names: &[&str]| {
        let mut all = folders.iter().flat_map(|folder| names.iter().map(|name| folder.join(name)));
        all.find(|path| path.exists())
    };
    let named = std::env::var_os("PETAL_TEST_MYSQL").map(PathBuf::from);
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

fn as_ordinary_user(program: &Path) -> Command {
    let mut command = Command::new(program);
    if let Some((user, group)) = user_numbers(ORDINARY_USER) {
        command.uid(user).gid(group);
    }
    command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/bin").env("LC_ALL", "C").current_dir("/");
    command
}

pub struct Server {
    // Closed first: then the keeper ends.
    input: Option<ChildStdin>,
    keeper: Child,
    folder: TempDir,
    pub port: u16,
    settings: Vec<String>,
    databases: Mutex<BTreeSet<String>>,
}

impl Server {
    /// With `name=value` settings beside a few that make it quick.
    pub fn start(settings: &[&str]) -> Self {
        // Outside of what only root may enter; short, for the socket's name.
        let folder = tempfile::Builder::new().prefix("petal-my-").tempdir_in("/var/tmp").unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        if let Some((user, group)) = user_numbers(ORDINARY_USER) {
            chown(folder.path(), Some(user), Some(group)).unwrap();
        }
        let settings: Vec<String> =
            SETTINGS.iter().chain(settings).map(|setting| format!("--{setting}")).collect();
        let programs = programs().expect("a server is installed");
        let data = format!("--datadir={}/data", folder.path().display());
        let page = settings.iter().filter(|setting| setting.starts_with("--innodb-page-size"));
        let mut making = as_ordinary_user(programs.install.as_ref().unwrap_or(&programs.server));
        // The usual one is everybody's, and names in it are not unique.
        let temporary = format!("--tmpdir={}", folder.path().display());
        making.args(["--no-defaults", &data, &temporary]).args(page);
        match programs.install {
            Some(_) => making.args(["--auth-root-authentication-method=normal", "--skip-test-db"]),
            None => making.arg("--initialize-insecure"),
        };
        let made = making.output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let port = free_port();
        let (input, keeper) = Self::spawn(folder.path(), port, &settings);
        let databases = Mutex::default();
        let server = Self { input: Some(input), keeper, folder, port, settings, databases };
        server.wait_until_up();
        server
    }

    fn spawn(folder: &Path, port: u16, settings: &[String]) -> (ChildStdin, Child) {
        let mut command = as_ordinary_user(Path::new("/bin/sh"));
        command.arg("-c").arg(KEEPER).arg("keeper").arg(folder);
        command.arg(programs().unwrap().server).arg("--no-defaults");
        for (name, file) in [("datadir", "data"), ("socket", "s.sock"), ("pid-file", "pid")] {
            command.arg(format!("--{name}={}/{file}", folder.display()));
        }
        command.arg(format!("--tmpdir={}", folder.display()));
        command.arg(format!("--port={port}")).args(settings);
        let mut keeper = command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap();
        (keeper.stdin.take().unwrap(), keeper)
    }

    fn wait_until_up(&self) {
        let began = Instant::now();
        while !self.client("").arg("-e").arg("SELECT 1").output().unwrap().status.success() {
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
        let mut command = Command::new(programs().unwrap().client);
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
        let mut input = child.stdin.take().unwrap();
        writeln!(input, "{sql};").unwrap();
        input.flush().unwrap();
        OpenSession { input: Some(input), child }
    }

    /// A database of this name, made when it is first asked for.
    pub fn database(&self, name: &str) {
        if self.databases.lock().unwrap().insert(name.to_owned()) {
            self.sql("", &format!("CREATE DATABASE {name}"));
        }
    }

    /// Waits until sessions of petal's run their loop in this server, which nobody else uses.
    pub fn until_running(&self, run: &mut Running) {
        run.until("calls of the routine", || {
            let calls = self.sql("", "SHOW GLOBAL STATUS LIKE 'Com_call_procedure'");
            calls[0][1].parse::<u64>().unwrap() > 20
        });
    }

    /// The URL of a database by the socket.
    pub fn url(&self, database: &str) -> String {
        self.database(database);
        format!("mysql://root@localhost/{database}?socket={}", self.socket())
    }

    /// Ends it at once, as a power cut would, and starts it again.
    pub fn crash(&mut self) {
        self.stop("KILL");
        let (input, keeper) = Self::spawn(self.folder.path(), self.port, &self.settings);
        (self.input, self.keeper) = (Some(input), keeper);
        self.wait_until_up();
    }

    /// Ends it by a signal: TERM cleanly, KILL at once and with its data kept.
    pub fn stop(&mut self, how: &str) {
        if let Some(mut input) = self.input.take() {
            let _ = writeln!(input, "{how}");
        }
        let _ = self.keeper.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop("TERM");
    }
}

/// Ends with the test.
pub struct OpenSession {
    input: Option<ChildStdin>,
    child: Child,
}

impl Drop for OpenSession {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The one that most tests share, each with a database of its own.
pub fn shared() -> &'static Server {
    static SHARED: OnceLock<Server> = OnceLock::new();
    SHARED.get_or_init(|| Server::start(&[]))
}
