//! A server on petal's own host: its process and its files. The process is known by its name, its age, the thread
//! of petal's connection, the number in its file, and the name of its host.

use std::path::{Path, PathBuf};

use super::client::Client;
use super::connect::Endpoint;
use super::schema;
use petal_engine::server::own_files::{NO_PROCESS, OwnFiles};
use petal_host::files;
use petal_host::os::{Began, ServerProcesses, has_thread, number_inside, processes_named};

const NAMES: [&str; 2] = ["mysqld", "mariadbd"];
/// A server counts its time from a moment of its start.
const AGE_TOLERANCE_S: f64 = 10.0;

/// A server on this host.
pub struct LocalMysql {
    pub processes: ServerProcesses,
    pub files: OwnFiles,
    /// Data directory by the server's name.
    named: PathBuf,
    /// Data directory as petal finds it.
    pub folder: PathBuf,
}

impl LocalMysql {
    /// Finds the server; None at an address of another host. An error says why it is not seen.
    pub fn find(endpoint: &Endpoint, client: &mut Client) -> Option<Result<Self, String>> {
        endpoint.address.is_on_this_host().then(|| Self::here(client))
    }

    fn here(client: &mut Client) -> Result<Self, String> {
        let about = "SELECT @@datadir, @@pid_file, @@hostname";
        let said: (String, String, String) =
            client.query_one(about).map_err(|error| error.to_string())?;
        let (named, pid_file, host) = (PathBuf::from(said.0), said.1, said.2);
        let process = process(client, &named.join(pid_file), &host).ok_or(NO_PROCESS)?;
        let files = OwnFiles { process };
        let folder = files.see(&named)?;
        let processes = ServerProcesses { parent: process, log_writer: None };
        Ok(Self { processes, files, named, folder })
    }

    /// The path at which petal finds a file that is named from the data directory.
    pub fn see(&self, path: impl AsRef<Path>) -> Option<PathBuf> {
        self.files.see_all([self.named.join(path)]).pop()
    }

    /// The file of a schema's main table, if petal finds it. A server whose tables share a file has
    /// none for each.
    pub fn main_file(&self, client: &mut Client, number: u32) -> Result<PathBuf, String> {
        let table = format!("{}_cf1", schema::name(number));
        let sql = "SELECT DATABASE(), @@innodb_file_per_table, @@innodb_data_home_dir, \
                   @@innodb_data_file_path";
        let (database, is_own, home, shared): (String, bool, Option<String>, String) =
            client.query_one(sql).map_err(|error| error.to_string())?;
        let told = schema::path(client, &table);
        // Without PROCESS petal spells the folder, except for letters of other alphabets.
        if told.is_none() && !database.is_ascii() {
            return Err(format!(
                "the user may not know where {table} lies (GRANT PROCESS ON *.* shows it)"
            ));
        }
        let own = told.unwrap_or_else(|| format!("{}/{table}.ibd", file_name(&database)));
        let shared = shared.split(':').next().unwrap_or_default();
        let shared = Path::new(&home.unwrap_or_default()).join(shared);
        let path = self.named.join(if is_own { Path::new(&own) } else { &shared });
        let bytes = if is_own { schema::file_bytes(client, &table) } else { None };
        self.files.check(&table, &path, bytes)?;
        self.files.see(&path)
    }
}

/// The server's number of the thread that answers: MariaDB shows it to everybody, MySQL with performance_schema.
const THREAD: [&str; 2] = [
    "SELECT tid FROM information_schema.processlist WHERE id = CONNECTION_ID()",
    "SELECT thread_os_id FROM performance_schema.threads WHERE processlist_id = CONNECTION_ID()",
];

/// The server's process: the only one that can be it. One whose file has another number, or whose
/// container has another name than the server's host, is not.
fn process(client: &mut Client, pid_file: &Path, host: &str) -> Option<u32> {
    let (began, ()) = Began::ask(AGE_TOLERANCE_S, || {
        let uptime = "SHOW GLOBAL STATUS LIKE 'Uptime'";
        client.query_one::<(String, f64)>(uptime).ok().map(|(_, age_s)| (age_s, ()))
    })?;
    let text = |process: u32, path: &Path| {
        let path = OwnFiles { process }.see(path).ok()?;
        files::text(path).ok().map(|text| text.trim().to_owned())
    };
    let mut could_be = processes_named(&NAMES, began);
    let mut thread = |sql| client.query::<Option<u32>>(sql).ok()?.pop().flatten();
    if let Some(thread) = THREAD.into_iter().find_map(&mut thread) {
        could_be.retain(|process| has_thread(*process, thread));
    }
    could_be.retain(|process| {
        let number = text(*process, pid_file);
        number.is_none_or(|number| number == number_inside(*process).to_string())
    });
    if could_be.len() > 1 {
        let of_host = |process: &u32| {
            text(*process, Path::new("/etc/hostname")).is_some_and(|name| name == host)
        };
        could_be.retain(of_host);
    }
    could_be.pop().filter(|_| could_be.is_empty())
}

/// The name of a database as the server writes it into its folder.
fn file_name(database: &str) -> String {
    let mut name = String::new();
    for letter in database.chars() {
        match letter.is_ascii_alphanumeric() || letter == '_' {
            true => name.push(letter),
            false => name.push_str(&format!("@{:04x}", u32::from(letter))),
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_databases_folder_has_other_letters_by_number() {
        assert_eq!(file_name("petal_1"), "petal_1");
        assert_eq!(file_name("my-db.x"), "my@002ddb@002ex");
    }
}
