//! Another user of this host in the place of a server: petal gives the password to no connection whose peer
//! is neither trusted nor named, and in an outage to none that asks for it by a weaker method.

use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::support::{Running, Workplace, free_port, is_long, record, skip, until};
use crate::{server_mysql, server_postgres};

/// An ordinary user of no account.
const STRANGER: u32 = 4711;
const SECRET: &str = "t0p-s3cret";
const SCRIPT: &str = include_str!("impostor.py");
/// Python of the system, which every user may start.
const PYTHON: &str = "/usr/bin/python3";

struct Impostor {
    child: Child,
    said: PathBuf,
}

impl Impostor {
    /// Whether these tests can run here; tells the skip where not.
    fn is_there() -> bool {
        let is_root = rustix::process::geteuid().is_root();
        let there = is_root && Path::new(PYTHON).exists();
        if !there {
            skip("another user needs root and Python: apt-get install python3");
        }
        there
    }

    /// Begins to wait for the place, a port or a socket's path.
    fn start(work: &Workplace, user: u32, kind: &str, place: &str) -> Self {
        let said = work.path(format!("impostor-{user}-{}", place.replace('/', "-")));
        let mut command = Command::new(PYTHON);
        command.args(["-c", SCRIPT, kind, place]).uid(user).gid(user).current_dir("/").env_clear();
        command.stdin(Stdio::piped()).stdout(File::create(&said).unwrap());
        Self { child: command.spawn().unwrap(), said }
    }

    fn said(&self) -> String {
        std::fs::read_to_string(&self.said).unwrap()
    }

    fn until_it_says(&self, words: &str) {
        until(words, || self.said().contains(words));
    }

    /// Ends it, and returns what it was sent.
    fn ends(mut self) -> String {
        drop(self.child.stdin.take());
        self.child.wait().unwrap();
        self.said()
    }
}

impl Drop for Impostor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Outages of each kind.
fn repeats() -> usize {
    if is_long() { 20 } else { 1 }
}

/// A run that writes at `url` until it has done some operations.
fn running(work: &Workplace, url: &str) -> Running {
    let args = ["run", "--db", url, "-t", "4", "--rate", "200", "--update-pct", "20"];
    let retry = ["--work-unit", "1", "--run-time", "6", "--on-disconnect", "retry"];
    let mut run = work.petal([&args[..], &retry].concat()).start();
    run.until("some operations", || work.seconds().len() > 1);
    run
}

/// Checks that the impostor had petal's connections and nothing else, and that the report names its user.
#[track_caller]
fn got_nothing(work: &Workplace, said: &str, words: &str) {
    assert!(said.contains("connected"), "petal never met the impostor: {said}");
    assert!(!said.contains("PASSWORD"), "{said}");
    let run = record(&work.run_folder());
    let refused = &run["outages"][0]["wrong_servers"][0];
    assert!(refused.as_str().unwrap().contains(words), "{refused}");
    let report = work.petal(["report", &work.run_folder().display().to_string()]).exits(0);
    assert!(report.stdout.lines().any(|line| line.starts_with("refused")), "{}", report.stdout);
}

/// MariaDB with a user who has a password, and no TLS.
fn mariadb() -> (server_mysql::Server, String) {
    let server = server_mysql::Server::start(&["ssl=OFF"]);
    server.database("kept");
    let user =
        format!("CREATE USER petal@'%' IDENTIFIED BY '{SECRET}'; GRANT ALL ON *.* TO petal@'%'");
    server.sql("", &user);
    let url = format!("mysql://petal:{SECRET}@127.0.0.1:{}/kept", server.port);
    (server, url)
}

/// PostgreSQL with a role that logs in by scram-sha-256.
fn postgres() -> (server_postgres::Server, String) {
    let server = server_postgres::Server::start(&["password_encryption=scram-sha-256"]);
    server.database("kept");
    let sql = format!(
        "CREATE ROLE kept LOGIN SUPERUSER PASSWORD '{SECRET}'; \
         COPY (VALUES ('local all all trust'), ('host all all all scram-sha-256')) TO PROGRAM \
         'cat > pg_hba.conf'; SELECT pg_reload_conf()"
    );
    server.client("kept").batch_execute(&sql).unwrap();
    let url = format!("postgres://kept:{SECRET}@127.0.0.1:{}/kept", server.port);
    (server, url)
}

fn load(url: &str) {
    let work = Workplace::new();
    let args = ["setup", "-s", "1", "--scale", "4096", "--scan-table-sz", "0", "--db", url];
    work.petal(args).exits(0);
}

#[test]
fn a_user_who_takes_mariadbs_port_in_an_outage_gets_no_password() {
    if !Impostor::is_there() || !server_mysql::is_there() {
        return;
    }
    let (mut server, url) = mariadb();
    load(&url);
    for _ in 0..repeats() {
        let work = Workplace::new();
        let run = running(&work, &url);
        let impostor = Impostor::start(&work, STRANGER, "mysql", &server.port.to_string());
        server.stop("KILL");
        impostor.until_it_says("connected");
        let said = impostor.ends();
        server.restart(&[]);
        // On a busy machine the server may be back too late for all sessions.
        run.ends();
        got_nothing(&work, &said, "user 4711 of this host answers");
        assert!(!said.contains("login"), "{said}");
    }
    // The kernel connects to another address of this host than the one that is named.
    let work = Workplace::new();
    let any = url.replace("127.0.0.1", "0.0.0.0");
    work.petal(["run", "-s", "1", "--work-loop", "1", "--db", &any]).exits(0);
}

#[test]
fn a_user_who_takes_postgresqls_port_in_an_outage_gets_no_password() {
    if !Impostor::is_there() || !server_postgres::is_there() {
        return;
    }
    let (mut server, url) = postgres();
    load(&url);
    // Root is trusted, and asks for clear text where the server had asked for SCRAM.
    for (user, words) in [(STRANGER, "user 4711 of this host answers"), (0, "the first login was")]
    {
        for _ in 0..repeats() {
            let work = Workplace::new();
            let run = running(&work, &url);
            let impostor = Impostor::start(&work, user, "postgres", &server.port.to_string());
            server.stop("QUIT");
            // It asked, and petal closed the connection.
            impostor.until_it_says("left:");
            let said = impostor.ends();
            server.start_again();
            run.ends();
            got_nothing(&work, &said, words);
        }
    }
    // As while petal restarts the server: a second engine of the same process knows the first login.
    let loaded = || crate::engine_postgres::open(&url).loaded();
    loaded().unwrap();
    let work = Workplace::new();
    let impostor = Impostor::start(&work, 0, "postgres", &server.port.to_string());
    server.stop("QUIT");
    impostor.until_it_says("bound");
    let refused = loaded().unwrap_err().to_string();
    assert!(refused.contains("the first login was"), "{refused}");
    assert!(!impostor.ends().contains("PASSWORD"));
}

/// Root's petal may have the HOME of the user who called sudo.
#[test]
fn files_in_the_home_of_another_user_decide_nothing() {
    if !Impostor::is_there() {
        return;
    }
    let work = Workplace::new();
    let postgres = "postgres://anna@127.0.0.1:1/own";
    for (file, url) in [
        (".my.cnf", "mysql://anna@127.0.0.1:1/own"),
        (".pgpass", postgres),
        (".pg_service.conf", &format!("{postgres}?service=own")),
        (".postgresql/postgresql.crt", postgres),
        (".postgresql/root.crt", &format!("{postgres}?sslmode=require")),
    ] {
        let home = work.path(file.replace('/', "-"));
        std::fs::create_dir_all(home.join(file).parent().unwrap()).unwrap();
        std::fs::write(home.join(file), "").unwrap();
        std::os::unix::fs::chown(&home, Some(STRANGER), Some(STRANGER)).unwrap();
        let refused = work.petal(["check", "--db", url]).env("HOME", &home).exits(3);
        refused.telling(&[file, "another user could have put it there", "set HOME"]);
    }
}

#[test]
fn a_server_without_tls_is_not_asked_for_a_key_for_the_password() {
    if !Impostor::is_there() {
        return;
    }
    let (work, port) = (Workplace::new(), free_port());
    let impostor = Impostor::start(&work, STRANGER, "mysql", &port.to_string());
    impostor.until_it_says("bound");
    let url = format!("mysql://anna:{SECRET}@127.0.0.1:{port}/own");
    let check = |more: &str| work.petal(["check", "--db", &format!("{url}{more}")]).exits(3);
    for mode in ["", "?ssl_mode=DISABLED"] {
        check(mode).telling(&["user 4711 of this host answers", "requirepeer=USER"]);
        assert!(!impostor.said().contains("login"), "{}", impostor.said());
    }
    // Only the caller's option sends the request for the key.
    check("?get_server_public_key=1");
    assert!(impostor.ends().contains("PASSWORD"));
}

#[test]
fn a_strangers_socket_gets_no_password_and_none_in_tmp_is_looked_for() {
    if !Impostor::is_there() {
        return;
    }
    let work = Workplace::new();
    let folder = tempfile::Builder::new().prefix("petal-").tempdir_in("/var/tmp").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(folder.path(), mode).unwrap();
    let place = |name: &str| folder.path().join(name).display().to_string();
    let at = folder.path().display();
    for (kind, socket, url) in [
        ("mysql", place("s.sock"), format!("mysql://p:{SECRET}@localhost/d?socket={at}/s.sock")),
        ("postgres", place(".s.PGSQL.77"), format!("postgres://p:{SECRET}@/d?host={at}&port=77")),
    ] {
        let impostor = Impostor::start(&work, STRANGER, kind, &socket);
        impostor.until_it_says("bound");
        let check = |url: &str| work.petal(["check", "--db", url]).exits(3);
        let words = ["user 4711 of this host answers", "requirepeer=USER"];
        check(&url).telling(&words);
        assert!(!impostor.said().contains("PASSWORD"), "{}", impostor.said());
        // Nobody but root: the caller names the server's user.
        check(&format!("{url}&requirepeer=root")).telling(&["requirepeer=root asks for another"]);
        check(&format!("{url}&requirepeer=4711"));
        assert!(impostor.ends().contains("PASSWORD"), "the named user may have it");
    }
    // No server runs; the sockets that other programs look for are another user's, in a /tmp of petal's
    // own.
    let (mysql, postgres) = ("/tmp/mysql.sock", "/tmp/.s.PGSQL.5999");
    let script = work.write("impostor.py", SCRIPT).display().to_string();
    let said = work.write("said", "").display().to_string();
    let options = work.write("empty.cnf", "").display().to_string();
    for (kind, socket, url) in [
        ("mysql", mysql, format!("mysql://p:{SECRET}@localhost/d?defaults_file={options}")),
        ("postgres", postgres, format!("postgres://p:{SECRET}@/d")),
    ] {
        let setup = format!(
            "mount -t tmpfs -o mode=1777 none /tmp; sleep 30 | setpriv --reuid={STRANGER} \
             --regid={STRANGER} --clear-groups {PYTHON} -c \"$(cat {script})\" {kind} {socket} > {said} & \
             while ! [ -e {socket} ]; do sleep 0.05; done; \"$@\"; code=$?; kill $!; exit $code"
        );
        let petal = work.petal(["check", "--db", &url]).env("PGPORT", "5999");
        petal.under("unshare", &["-m", "/bin/sh", "-c", &setup, "sh"]).exits(3);
        let said = std::fs::read_to_string(&said).unwrap();
        assert!(said.contains("bound") && !said.contains("connected"), "{said}");
    }
}

#[test]
fn the_callers_words_on_peer_and_method_are_kept() {
    if !server_postgres::is_there() {
        return;
    }
    let server = server_postgres::shared();
    let url = server.url("way");
    let work = Workplace::new();
    let check = |more: &str| work.petal(["check", "--db", &format!("{url}&{more}")]).ends();
    if rustix::process::geteuid().is_root() {
        assert_ne!(check("requirepeer=postgres").code, Some(3));
        check("requirepeer=root").exited(3).telling(&["(postgres) of this host answers"]);
    }
    assert_ne!(check("require_auth=none").code, Some(3));
    let words = ["lets in by no question", "require_auth=scram-sha-256"];
    check("require_auth=scram-sha-256").exited(3).telling(&words);
    check("require_auth=scram").exited(2).telling(&["has no method scram"]);
    check("requirepeer=nobody-here").exited(2).telling(&["is no user of this host"]);
    let by_variable = work.petal(["check", "--db", &url]).env("PGREQUIREAUTH", "md5");
    by_variable.exits(3).telling(&["require_auth=md5"]);
}
