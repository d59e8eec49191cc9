//! Where the server runs: its processes on this host, or how its clock differs from another's.

use std::path::PathBuf;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use super::client::Client;
use super::connect::Endpoint;
use crate::stats::os::ServerProcesses;

/// The quickest answer of so many tells most.
const CLOCK_QUESTIONS: usize = 5;

/// Of each server once, also where two endpoints are one server. None of them where one cannot be
/// asked or seen: then what the database used is unknown.
pub fn processes_of_all<'a>(endpoints: impl Iterator<Item = &'a Endpoint>) -> Vec<ServerProcesses> {
    let mut all: Vec<ServerProcesses> = Vec::new();
    for endpoint in endpoints {
        match processes(endpoint) {
            Some(found) if all.contains(&found) => {}
            Some(found) => all.push(found),
            None => return Vec::new(),
        }
    }
    all
}

/// Each session is a process of its own, all children of one.
fn processes(endpoint: &Endpoint) -> Option<ServerProcesses> {
    let mut client = endpoint.connect_to_look("petal describe").ok()?;
    let row = client
        .query_one(
            "SELECT pg_backend_pid(), \
             (SELECT min(pid) FROM pg_stat_activity WHERE backend_type = 'walwriter')",
            &[],
        )
        .ok()?;
    let session: i32 = row.try_get(0).ok()?;
    let log_writer: Option<i32> = row.try_get(1).ok()?;
    ServerProcesses::of_session(session.cast_unsigned(), log_writer.map(i32::cast_unsigned))
}

/// Where a server on this host has its data, as its process shows it to who may look: a role need
/// not be told. None for a server in a container, whose process numbers are others here.
pub fn data_directory(client: &mut Client) -> Option<String> {
    let row = client.query_one("SELECT pg_backend_pid(), current_setting('port')", &[]).ok()?;
    let (process, port): (i32, String) = (row.try_get(0).ok()?, row.try_get(1).ok()?);
    ServerProcesses::of_session(process.cast_unsigned(), None)?;
    let folder = std::fs::read_link(format!("/proc/{process}/cwd")).ok()?;
    // Its fourth line is the port: it is this server's folder, and no other's.
    let known = std::fs::read_to_string(folder.join("postmaster.pid")).ok()?;
    let is_its = known.lines().nth(3).is_some_and(|line| line.trim() == port);
    is_its.then(|| folder.display().to_string())
}

/// The folder of a server on this host, where it can be seen from here: as the server tells it, or
/// else as its process shows it.
pub fn local_data_directory(endpoint: &Endpoint, client: &mut Client) -> Option<PathBuf> {
    if !endpoint.is_on_this_host() {
        return None;
    }
    let told = "SELECT current_setting('data_directory') FROM pg_settings \
                WHERE name = 'data_directory'";
    let told = client.query(told, &[]).ok()?;
    let told = told.first().and_then(|row| row.try_get::<_, String>(0).ok());
    let folder = PathBuf::from(told.or_else(|| data_directory(client))?);
    folder.is_dir().then_some(folder)
}

/// In seconds; the answer is taken to lie in the middle of its round trip.
pub fn clock_ahead_s(endpoint: &Endpoint) -> Option<f64> {
    let mut client = endpoint.connect_to_look("petal describe").ok()?;
    let answers = (0..CLOCK_QUESTIONS).filter_map(|_| {
        let asked = Instant::now();
        let here = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs_f64();
        let sql = "SELECT extract(epoch FROM clock_timestamp())::float8";
        let there: f64 = client.query_one(sql, &[]).ok()?.try_get(0).ok()?;
        let round_trip_s = asked.elapsed().as_secs_f64();
        Some((round_trip_s, there - here - round_trip_s / 2.0))
    });
    let quickest = answers.min_by(|a, b| a.0.total_cmp(&b.0));
    quickest.map(|(_, ahead_s)| ahead_s)
}
