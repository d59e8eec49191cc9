//! Versions of servers, from their packages (scripts/get-servers.py): each one fills the headline in both
//! loops. The oldest and the newest of each server are in every `make test`. `make versions` runs all, with
//! a sweep and a comparison, and writes docs/versions.md.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

use crate::oracle_wire::stand_in::{Release, StandIn};
use crate::support::{Workplace, is_long, record, say, skip};
use crate::{server_mysql, server_postgres};

/// The package of each server with the heading of its row, in the page's order.
const SERVERS: [(&str, &str); 13] = [
    ("postgres-12", "PostgreSQL 12"),
    ("postgres-13", "PostgreSQL 13"),
    ("postgres-14", "PostgreSQL 14"),
    ("postgres-15", "PostgreSQL 15"),
    ("postgres-16", "PostgreSQL 16"),
    ("postgres-17", "PostgreSQL 17"),
    ("postgres-18", "PostgreSQL 18"),
    ("mariadb-10.11", "MariaDB 10.11"),
    ("mariadb-11.4", "MariaDB 11.4"),
    ("mysql-8.0", "MySQL 8.0"),
    ("oracle-root", "Oracle's stand-in, root"),
    ("oracle-pdb", "Oracle's stand-in, PDB"),
    ("oracle-rac", "Oracle's stand-in, RAC"),
];

const HEADINGS: &str = "\
| server | version | check, setup | loops | sweep, compare | PIOPS | block read, timed by | redo | served by | \
limited by | unknown | day | commit |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|\n";

fn page() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/versions.md")
}

/// Only `make versions` needs every server: `make test` also runs without the network.
fn is_not_here(why: &str) {
    match is_long() {
        true => skip(why),
        false => {
            let _ = writeln!(std::io::stderr(), "SKIPPED: {why}");
        }
    }
}

/// The server's programs, if they were downloaded.
fn programs(name: &str) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/servers").join(name);
    if !folder.is_dir() {
        is_not_here(&format!(
            "{name} is not there: python3 scripts/get-servers.py {name} downloads it"
        ));
        return None;
    }
    // Root's tests start servers as another user.
    let is_closed = |folder: &Path| folder.metadata().unwrap().mode() & 1 == 0;
    if rustix::process::geteuid().is_root() && folder.ancestors().any(is_closed) {
        is_not_here(&format!("{}: not readable for the user of a server", folder.display()));
        return None;
    }
    Some(folder.join("bin"))
}

/// A run's headline, with what the verdict struck out.
pub fn headline(run: &Value) -> BTreeMap<&'static str, String> {
    let headline = &run["headline"];
    let figures = match &headline["struck_out"] {
        Value::Null => headline,
        struck_out => struck_out,
    };
    let piops = ["reads", "writes"].into_iter().filter(|kind| figures["piops"][kind].is_number());
    let read_us = figures["read_us"].as_f64().filter(|us| *us > 0.0);
    let clock = figures["read_us_stand_in"].as_str().unwrap_or("database").replace('_', " ");
    let redo = figures["redo"]["mb_s"].as_f64().or(headline["redo"]["mb_s"].as_f64());
    let by = |name: &str| headline[name]["by"].as_str().unwrap_or("unknown").replace('_', " ");
    BTreeMap::from([
        ("PIOPS", piops.collect::<Vec<_>>().join(", ")),
        ("read", read_us.map_or("unknown".to_owned(), |_| clock)),
        ("redo", if redo.is_some_and(|mb_s| mb_s > 0.0) { "known" } else { "unknown" }.to_owned()),
        ("served by", by("served_by")),
        ("limited by", by("limited_by")),
    ])
}

/// Runs petal's commands at a server, and asserts that they fill the headline. `make versions` writes the
/// server's row.
fn fill(name: &str, version: &str, url: &str) {
    let work = Workplace::new();
    let petal = |args: &[&str]| work.petal([args, &["--db", url]].concat()).watching();
    let common = ["-s", "2", "--work-loop", "50", "--scan-pct", "0"];
    let run = |args: &[&str]| {
        petal(&[&["run", "-t", "2"], &common[..], args].concat()).exits(0);
        let mut runs = work.path(args[1]).read_dir().unwrap();
        record(&runs.next().unwrap().unwrap().path())
    };
    let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    // Its exit code is also that of this machine.
    let check = |has: &str| {
        let page = plain(&petal(&["check", "--full"]).ends().stdout);
        assert!(page.contains(has), "{name}: {page}");
        page
    };
    check("privilege");
    petal(&["setup", "-s", "2", "--scale", "16M"]).exits(0);
    let check = check("privilege");

    let server = run(&["--out", "server", "--update-pct", "20"]);
    let client = run(&["--out", "client", "--update-pct", "0", "--loop", "client"]);
    let filled = headline(&server);
    // Who served reads may be unknown while other tests use the device.
    let is_known = |(name, value): (&&str, &String)| {
        value != "unknown" || !is_long() && ["served by", "limited by"].contains(name)
    };
    for run in [&server, &client] {
        let about = format!("{name}: {:#} {:#}", run["headline"], run["unknown_figures"]);
        let mut of_run = headline(run);
        let piops = if run == &server { "reads, writes" } else { "reads" };
        assert!(of_run["PIOPS"].starts_with(piops), "{about}");
        // A run that only reads has no redo.
        of_run.retain(|name, _| *name != "redo" || run == &server);
        assert!(of_run.iter().all(is_known), "{about}");
        // The reason of each figure that is unknown is known before the run.
        for (figure, why) in run["unknown_figures"].as_object().into_iter().flatten() {
            assert!(check.contains(&plain(why.as_str().unwrap())), "{figure}: {why}: {check}");
        }
    }

    if is_long() {
        let axes = ["--sessions", "2,4", "--update-pct", "0,20", "--out", "cells"];
        work.petal([&["sweep", "--db", url], &common[..], &axes].concat()).exits(0);
        run(&["--out", "updates", "--update-pct", "20", "--loop", "client"]);
        work.petal(["compare", "server", "updates"]).exits(0);
        let unknown = server["unknown_figures"].as_object();
        let unknown = unknown.into_iter().flatten().map(|(name, _)| format!("`{name}`"));
        let unknown = unknown.collect::<Vec<_>>().join(", ");
        let unknown = if unknown.is_empty() { "none".to_owned() } else { unknown };
        let cells = [version, "done", "done", "done"].map(str::to_owned).into_iter();
        let figures = ["PIOPS", "read", "redo", "served by", "limited by"];
        let cells = cells.chain(figures.map(|name| filled[name].clone()));
        write_row(name, cells.chain([unknown]).collect());
    }
}

/// Writes the row of a server, with the day and the commit, if UPDATE_DOCS is set.
fn write_row(name: &str, mut cells: Vec<String>) {
    static PAGE: Mutex<()> = Mutex::new(());
    if std::env::var_os("UPDATE_DOCS").is_none() {
        return;
    }
    let _alone = PAGE.lock().unwrap_or_else(PoisonError::into_inner);
    let heading = |name: &str| SERVERS.iter().find(|it| it.0 == name).unwrap().1;
    cells.insert(0, heading(name).to_owned());
    cells.push(say("date", &["-u", "+%F"]).unwrap().trim().to_owned());
    cells.push(say("git", &["rev-parse", "--short=8", "HEAD"]).unwrap().trim().to_owned());
    let mut rows = rows();
    rows.insert(cells[0].clone(), cells);
    let text = fs::read_to_string(page()).unwrap();
    let (before, after) = (text.split(HEADINGS).next().unwrap(), text.split(END).nth(1).unwrap());
    let row = |(_, heading): &(&str, &str)| rows.get(*heading);
    let rows = SERVERS.iter().filter_map(row).map(|row| format!("| {} |\n", row.join(" | ")));
    let made = format!("{before}{HEADINGS}{}{END}{after}", rows.collect::<String>());
    fs::write(page(), made).unwrap();
}

const END: &str = "<!-- End of the versions. -->";

/// The rows of the page, by their first cell.
fn rows() -> BTreeMap<String, Vec<String>> {
    let text = fs::read_to_string(page()).unwrap();
    let table = text.split(HEADINGS).nth(1).and_then(|rest| rest.split(END).next()).unwrap_or("");
    let cells = |line: &str| -> Vec<String> {
        line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()
    };
    table.lines().map(cells).map(|cells| (cells[0].clone(), cells)).collect()
}

#[test]
fn pages_name_the_versions_that_the_table_has() {
    let rows = rows();
    let of = |product: &str| -> Vec<&str> {
        let servers = SERVERS.iter().filter(|it| rows.contains_key(it.1));
        servers.filter_map(|(_, heading)| heading.strip_prefix(product)).map(str::trim).collect()
    };
    let (postgres, maria, mysql) = (of("PostgreSQL"), of("MariaDB"), of("MySQL"));
    let postgres = format!("{} to {}", postgres[0], postgres.last().unwrap());
    let others = format!("MariaDB {} and MySQL {}", maria.join(", "), mysql.join(", "));
    let pages = [
        ("README.md", format!("[PostgreSQL](docs/engines/postgres.md): {postgres}, [each tested]")),
        ("README.md", format!("InnoDB; tested with {others}")),
        ("docs/engines/postgres.md", format!("Versions {postgres}, [each tested]")),
        ("docs/engines/mysql.md", format!("[Tested](../versions.md) with {others}")),
    ];
    for (page, words) in pages {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(page);
        let text = fs::read_to_string(path).unwrap();
        assert!(text.contains(&words), "{page} lacks: {words}");
    }
}

fn postgres(name: &str) {
    let Some(programs) = programs(name).filter(|_| server_postgres::is_there()) else { return };
    let server = server_postgres::Server::of(&programs, &["shared_buffers=8MB"]);
    let version = server.answers("postgres", &["SHOW server_version"]).remove(0);
    fill(name, version.split(' ').next().unwrap(), &server.tcp_url("versions"));
}

/// Debian's own server, if it has this version.
fn debian(name: &str) {
    if server_mysql::is_there() {
        of_mysql(name, None);
    }
}

fn mysql(name: &str) {
    if let Some(programs) = programs(name).filter(|_| server_mysql::is_there()) {
        of_mysql(name, Some(&programs));
    }
}

fn of_mysql(name: &str, programs: Option<&Path>) {
    let settings = ["innodb-buffer-pool-size=8M", "skip-name-resolve=ON", "bind-address=127.0.0.1"];
    let server = server_mysql::Server::of(programs, &settings);
    let version = server.sql("", "SELECT VERSION()").remove(0).remove(0);
    let number = name.rsplit('-').next().unwrap();
    if !version.starts_with(number) {
        return skip(&format!("{name}: Debian's server has version {version}"));
    }
    let version = version.split('-').next().unwrap();
    fill(name, version, &server.tcp_url("versions", server.port));
}

/// Runs petal's commands at the stand-in for Oracle, in a container of the database, or with a second
/// instance. A figure that it cannot fill has its reason in the row.
fn of_oracle(name: &str, container: u64, second: Option<u64>) {
    let (stand_in, work) = (StandIn::start(Release::Free23), Workplace::new());
    {
        let mut world = stand_in.shared.world();
        (world.container, world.second, world.is_cold) = (container, second, true);
    }
    let url = stand_in.url();
    let petal = |args: &[&str]| work.petal([args, &["--db", &url]].concat());
    petal(&["setup", "-s", "2", "--scale", "8M"]).exits(0);
    let run = |args: &[&str]| {
        petal(&[&["run", "-s", "2", "--work-loop", "50", "--json"], args].concat()).ends().json()
    };
    let server = run(&["--out", "server", "--update-pct", "20"]);
    let client = run(&["--out", "client", "--update-pct", "0", "--loop", "client"]);
    for (run, kinds) in [(&server, &["reads", "writes"][..]), (&client, &["reads"])] {
        let (filled, about) = (headline(run), format!("{name}: {:#}", run["headline"]));
        for kind in kinds {
            let why =
                &run["unknown_figures"][&format!("physical_{}_requests", &kind[..kind.len() - 1])];
            assert!(filled["PIOPS"].contains(kind) != why.is_string(), "{about} {why}");
        }
        assert_eq!(filled["read"], "database", "{about}");
        assert!(kinds.len() == 1 || filled["redo"] == "known", "{about}");
        assert_eq!(run["headline"]["served_by"]["why_unknown"], "the database is on another host");
    }
    petal(&["sweep", "--update-pct", "0,20", "--work-loop", "20", "--out", "cells"]).exits(0);
    work.petal(["compare", "server", "client"]).exits(0);
    let filled = headline(&server);
    let why = server["unknown_figures"]["physical_write_requests"].as_str();
    let piops = why.map_or(filled["PIOPS"].clone(), |why| format!("reads; writes: {why}"));
    let served = "unknown: the database is on another host".to_owned();
    let [read, redo, limited] = ["read", "redo", "limited by"].map(|name| filled[name].clone());
    let unknown = server["unknown_figures"].as_object().into_iter().flatten();
    let unknown = unknown.map(|(name, _)| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let unknown = if unknown.is_empty() { "none".to_owned() } else { unknown };
    let done = ["23ai", "done", "done", "done"].map(str::to_owned).to_vec();
    write_row(name, [done, vec![piops, read, redo, served, limited, unknown]].concat());
}

#[test]
fn oracles_stand_in_as_root() {
    of_oracle("oracle-root", 1, None);
}

#[test]
fn oracles_stand_in_as_pdb() {
    of_oracle("oracle-pdb", 3, None);
}

#[test]
fn oracles_stand_in_as_rac() {
    of_oracle("oracle-rac", 0, Some(1));
}

/// A test of each version; `long` ones are in `make versions` alone.
macro_rules! versions {
    ($($test:ident $by:ident $name:literal $($long:literal)?;)*) => {
        $(
            #[test]
            $(#[ignore = $long])?
            fn $test() {
                $by($name);
            }
        )*
    };
}

versions! {
    postgres_12 postgres "postgres-12";
    postgres_13 postgres "postgres-13" "make versions";
    postgres_14 postgres "postgres-14" "make versions";
    postgres_15 postgres "postgres-15" "make versions";
    postgres_16 postgres "postgres-16" "make versions";
    postgres_17 postgres "postgres-17" "make versions";
    postgres_18 postgres "postgres-18";
    mariadb_10_11 debian "mariadb-10.11" "make versions";
    mariadb_11_4 mysql "mariadb-11.4";
    mysql_8_0 mysql "mysql-8.0";
}
