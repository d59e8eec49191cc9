//! A server on petal's own host: its processes and its files. The process of petal's own session is
//! known by its number and its age, and the files as its server sees them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::answer::{Columns as _, NonNegative};
use super::client::Client;
use super::connect::{Endpoint, is_refusal};
use super::schema;
use petal_engine::Result;
use petal_engine::server::data_name::named;
use petal_engine::server::own_files::{NO_PROCESS, OwnFiles};
use petal_host::os::{Began, ServerProcesses};

/// The log's folder in the data directory.
const LOG_FOLDER: &str = "pg_wal";
/// A session's age is exact to this: the kernel and the server note its begin at other moments.
const AGE_TOLERANCE_S: f64 = 2.0;

/// A server on this host.
pub struct LocalPostgres {
    pub files: OwnFiles,
    /// Data directory by the server's name.
    named: PathBuf,
    /// Data directory as petal finds it.
    pub folder: PathBuf,
}

impl LocalPostgres {
    /// Finds the server; None at an address of another host. An error says why it is not seen.
    pub fn find(endpoint: &Endpoint, client: &mut Client) -> Option<Result<Self, String>> {
        endpoint.is_on_this_host().then(|| Self::here(client))
    }

    fn here(client: &mut Client) -> Result<Self, String> {
        // The session's own process ends with it.
        let process = processes(client).ok_or(NO_PROCESS)?.parent;
        let files = OwnFiles { process };
        let named = data_directory(client, files).ok_or(
            "the role may not know where its data lie (GRANT pg_read_all_settings shows it)",
        )?;
        let folder = files.see(&named)?;
        Ok(Self { files, named, folder })
    }

    /// The path at which petal finds a file in the data directory.
    pub fn see(&self, path: impl AsRef<Path>) -> Result<PathBuf, String> {
        self.files.see(&self.named.join(path))
    }

    /// The folder of a tablespace: by its name, or by the server's link to it.
    fn see_tablespace(&self, named: &Path, space: u32) -> Result<PathBuf, String> {
        let link = self.named.join(format!("pg_tblspc/{space}"));
        let there = self.files.see_all([self.named.join(named), link]).into_iter().next();
        there.map_or_else(|| self.see(named), Ok)
    }

    /// The log's folder, if petal finds it.
    pub fn log_folder(&self) -> Option<PathBuf> {
        self.files.see_all([self.named.join(LOG_FOLDER)]).pop()
    }

    /// Looks for the main table of this schema, and finds the folders of all rows of petal's and their index, and
    /// the server's others. The inner error says why they are not found.
    pub fn folders(
        &self,
        client: &mut Client,
        number: u32,
    ) -> Result<Result<ServerFolders, String>> {
        let table = format!("{}.cf1", schema::name(number));
        let doing = format!("asking for the file of {table}");
        let sql = "SELECT pg_catalog.pg_relation_filepath($1::pg_catalog.text::pg_catalog.regclass), \
             LEAST(pg_catalog.pg_relation_size($1::pg_catalog.text::pg_catalog.regclass), \
             pg_catalog.pg_size_bytes(pg_catalog.current_setting('segment_size')))";
        let (path, NonNegative(bytes)) = match client.query_one(sql, &[&table]) {
            Ok(row) => (row.read::<String>(0)?, row.read(1)?),
            Err(error) => return Ok(Err(client.error(&doing, &error).to_string())),
        };
        if let Err(why) = self.files.check(&table, &self.named.join(path), Some(bytes)) {
            return Ok(Err(why));
        }
        let sql = "SELECT pg_catalog.pg_relation_filepath(c.oid) FROM pg_catalog.pg_class c \
            JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
            WHERE n.nspname ~ '^petal[1-9][0-9]*$' AND c.relname IN ('cf1', 'cf1_custid', 'cf2')";
        let rows = client.ask("asking for its files", &named(sql), &[])?;
        let places = rows
            .iter()
            .map(|row| Ok(place_of(row.read::<Option<String>>(0)?.as_deref())))
            .collect::<Result<_>>()?;
        let mut folders = ServerFolders::default();
        let places: BTreeSet<Option<u32>> = places;
        for place in &places {
            let folder = match place {
                None => self.folder.clone(),
                Some(space) => {
                    let sql = "SELECT pg_catalog.pg_tablespace_location($1)";
                    let named: PathBuf =
                        client.ask_value("asking for a tablespace", sql, &[space])?;
                    match self.see_tablespace(&named, *space) {
                        Ok(folder) => folder,
                        Err(why) => return Ok(Err(why)),
                    }
                }
            };
            folders.data.push(folder);
        }
        if !places.contains(&None) {
            folders.others.push(self.folder.clone());
        }
        folders.others.extend(self.log_folder());
        Ok(Ok(folders))
    }
}

/// The folders of a server.
#[derive(Default)]
pub struct ServerFolders {
    /// The data directory and the tablespaces that hold petal's rows and their index.
    pub data: Vec<PathBuf>,
    /// Others: the log's, and the data directory if petal's data are elsewhere.
    pub others: Vec<PathBuf>,
}

/// The tablespace of a file by its path in the data directory; None: it is in the directory itself.
fn place_of(path: Option<&str>) -> Option<u32> {
    path?.strip_prefix("pg_tblspc/")?.split('/').next()?.parse().ok()
}

/// The number of petal's own session for a role that may not see sessions.
const WITHOUT_SESSIONS: &str =
    "SELECT pg_catalog.pg_backend_pid(), NULL::pg_catalog.float8, NULL::pg_catalog.int4";

/// The server's processes.
pub fn processes(client: &mut Client) -> Option<ServerProcesses> {
    let sql = "SELECT pg_catalog.pg_backend_pid(), \
         extract(epoch FROM pg_catalog.clock_timestamp() - backend_start)::pg_catalog.float8, \
         (SELECT pg_catalog.min(pid) FROM pg_catalog.pg_stat_activity \
          WHERE backend_type = 'walwriter') \
         FROM pg_catalog.pg_stat_activity WHERE pid = pg_catalog.pg_backend_pid()";
    // A role that ALTER ROLE ... SET role replaced may not see its own session's begin.
    let own_s = client.age_s();
    let (began, (number, writer)) = Began::ask(AGE_TOLERANCE_S, || {
        let row = match client.query_one(sql, &[]) {
            Err(error) if is_refusal(&error) => client.query_one(WITHOUT_SESSIONS, &[]),
            asked => asked,
        };
        let row = row.ok()?;
        let number = |column| u32::try_from(row.try_get::<_, Option<i32>>(column).ok()??).ok();
        let age_s = row.try_get::<_, Option<f64>>(1).ok()?;
        Some((age_s.unwrap_or(own_s), (number(0)?, number(2))))
    })?;
    ServerProcesses::of_session(number, began, writer)
}

/// The data directory by the server's own name: from the server, or from its process. An answer of a
/// database in another encoding than the name's is another name.
fn data_directory(client: &mut Client, files: OwnFiles) -> Option<PathBuf> {
    let sql = "SELECT pg_catalog.current_setting('data_directory') FROM pg_catalog.pg_settings \
                WHERE name = 'data_directory'";
    let rows = client.query(sql, &[]).ok()?;
    let shown = rows.first().and_then(|row| row.read::<PathBuf>(0).ok());
    let shown = shown.filter(|folder| !folder.as_os_str().is_empty());
    let is_there = |folder: &&PathBuf| !files.see_all([folder.to_path_buf()]).is_empty();
    // Every process of the server works in its data directory.
    let own = Path::new("/proc").join(files.process.to_string()).join("cwd");
    let folder = || fs::read_link(own).ok();
    shown.as_ref().filter(is_there).cloned().or_else(folder).or(shown)
}
