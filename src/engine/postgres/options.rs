//! Where the server is and who asks: a `postgres:` URL, completed by libpq's environment variables
//! and password file, so that what `psql` reaches, petal reaches. Nothing here connects.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::address::{Address, Environment, process_environment};
use super::{password_file, service};
use crate::engine::EngineError;
use crate::settings::url::{Host, Secret, Server, TargetUrl};

const PORT_DEFAULT: u16 = 5432;
const CONNECT_TIMEOUT_DEFAULT: Duration = Duration::from_secs(15);
/// Where packages put the socket, most usual first.
const SOCKET_FOLDERS: [&str; 2] = ["/var/run/postgresql", "/tmp"];

/// How a connection is protected, by libpq's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SslMode {
    Disable,
    Prefer,
    Require,
    VerifyCa,
    VerifyFull,
}

impl SslMode {
    const ALL: [(&str, Self); 5] = [
        ("disable", Self::Disable),
        ("prefer", Self::Prefer),
        ("require", Self::Require),
        ("verify-ca", Self::VerifyCa),
        ("verify-full", Self::VerifyFull),
    ];
}

/// Files and mode of TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsOptions {
    pub mode: SslMode,
    /// A file of certificates; `system` for the host's own.
    pub root: Option<String>,
    pub certificate: Option<PathBuf>,
    pub key: Option<PathBuf>,
}

/// All that is needed to connect, and what else the URL says.
#[derive(Debug, Clone)]
pub struct Options {
    pub addresses: Vec<Address>,
    pub user: String,
    pub database: String,
    /// One for each address: a password file may tell them apart.
    pub passwords: Vec<Option<Secret>>,
    pub tls: TlsOptions,
    pub connect_timeout: Duration,
    /// What a person should know, such as a password file that is open to others.
    pub notes: Vec<String>,
}

impl Options {
    /// The server, or servers, that a URL names.
    pub fn new(url: &TargetUrl, environment: Environment<'_>) -> Result<Self, EngineError> {
        let mut given = Given::of(url)?;
        let named = given.options.remove("service").or_else(|| environment("PGSERVICE"));
        if let Some(name) = named {
            let entries = service::find(&name, environment)?.ok_or_else(|| {
                let way_out =
                    "write [NAME] and its host into ~/.pg_service.conf (or PGSERVICEFILE)";
                refused("service", &name, "is in no service file", way_out)
            })?;
            given.add(entries);
        }
        given.complete(environment)
    }

    /// The server that a service of SLOB's parameters names, with all else as the URL says: an
    /// entry of the service file, or else a host.
    pub fn of_service(
        url: &TargetUrl,
        name: &str,
        environment: Environment<'_>,
    ) -> Result<Self, EngineError> {
        let mut given = Given::of(url)?;
        given.options.remove("service");
        given.options.remove("host");
        given.server.hosts.clear();
        match service::find(name, environment)? {
            Some(entries) => {
                given.options.remove("port");
                given.add(entries);
            }
            None => given.server.hosts.push(Host { host: name.to_owned(), port: None }),
        }
        given.complete(environment)
    }
}

/// What a URL gives, before the environment fills its gaps.
struct Given {
    server: Server,
    options: BTreeMap<String, String>,
    password: Option<Secret>,
}

impl Given {
    fn of(url: &TargetUrl) -> Result<Self, EngineError> {
        let Some(server) = url.server() else {
            return Err(EngineError::Setting(format!("DB={}: names no server", url.redacted())));
        };
        check_names(&url.options)?;
        Ok(Self { server, options: url.options.clone(), password: url.password.clone() })
    }

    /// A service's entries, where the URL does not say otherwise. Those that petal does not know
    /// are psql's affair.
    fn add(&mut self, mut entries: BTreeMap<String, String>) {
        if let Some(password) = entries.remove("password") {
            self.password.get_or_insert_with(|| Secret::new(password));
        }
        if let Some(address) = entries.remove("hostaddr") {
            entries.entry("host".to_owned()).or_insert(address);
        }
        entries.retain(|name, _| NAMES.contains(&name.as_str()));
        for (name, value) in entries {
            self.options.entry(name).or_insert(value);
        }
    }

    fn complete(self, environment: Environment<'_>) -> Result<Options, EngineError> {
        let Self { server, options, password } = self;
        let given = |option: &str, variable: &str| {
            options.get(option).cloned().or_else(|| environment(variable))
        };
        let ports = ports(given("port", "PGPORT").as_deref())?;
        let port_at = |at: usize| ports.get(at).or(ports.last()).copied().unwrap_or(PORT_DEFAULT);
        let addresses: Vec<Address> = if server.hosts.is_empty() {
            let hosts = given("host", "PGHOST").unwrap_or_else(default_host);
            let hosts = hosts.split(',').map(str::trim).enumerate();
            hosts.map(|(at, host)| Address { host: host.to_owned(), port: port_at(at) }).collect()
        } else {
            let hosts = server.hosts.iter().enumerate();
            hosts
                .map(|(at, host)| Address {
                    host: host.host.clone(),
                    port: host.port.unwrap_or_else(|| port_at(at)),
                })
                .collect()
        };
        let user = match server.user.or_else(|| given("user", "PGUSER")).or_else(os_user) {
            Some(user) => user,
            None => {
                return Err(refused("user", "", "is not known", "name one: postgres://user@..."));
            }
        };
        let name = Some(server.name).filter(|name| !name.is_empty());
        let database =
            name.or_else(|| given("dbname", "PGDATABASE")).unwrap_or_else(|| user.clone());
        let mut notes = Vec::new();
        let passwords = passwords(password, environment, &addresses, &user, &database, &mut notes)?;
        Ok(Options {
            tls: tls(&given)?,
            connect_timeout: connect_timeout(&given)?,
            addresses,
            user,
            database,
            passwords,
            notes,
        })
    }
}

const NAMES: [&str; 11] = [
    "connect_timeout",
    "dbname",
    "host",
    "port",
    "service",
    "sslcert",
    "sslkey",
    "sslmode",
    "sslrootcert",
    "tablespace",
    "user",
];

fn check_names(options: &BTreeMap<String, String>) -> Result<(), EngineError> {
    match options.iter().find(|(name, _)| !NAMES.contains(&name.as_str())) {
        None => Ok(()),
        Some((name, value)) => Err(refused(
            name,
            value,
            "is no option of postgres:",
            &format!("it has {}", NAMES.join(", ")),
        )),
    }
}

fn refused(key: &str, value: &str, rule: &str, way_out: &str) -> EngineError {
    EngineError::Setting(format!("DB=postgres:...?{key}={value}: {key} {rule}; {way_out}"))
}

fn ports(text: Option<&str>) -> Result<Vec<u16>, EngineError> {
    let Some(text) = text else { return Ok(Vec::new()) };
    text.split(',')
        .map(|port| match port.trim().parse::<u16>() {
            Ok(port) if port > 0 => Ok(port),
            _ => Err(refused("port", text, "is no port", "give 1 to 65535 (also in PGPORT)")),
        })
        .collect()
}

fn default_host() -> String {
    let socket = format!(".s.PGSQL.{PORT_DEFAULT}");
    let folder = SOCKET_FOLDERS.into_iter().find(|folder| Path::new(folder).join(&socket).exists());
    folder.unwrap_or("localhost").to_owned()
}

/// The name of who runs petal.
fn os_user() -> Option<String> {
    let id = rustix::process::geteuid().as_raw().to_string();
    let accounts = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let by_id = accounts.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == id).then(|| name.to_owned())
    });
    by_id.or_else(|| process_environment("USER"))
}

fn passwords(
    given: Option<Secret>,
    environment: Environment<'_>,
    addresses: &[Address],
    user: &str,
    database: &str,
    notes: &mut Vec<String>,
) -> Result<Vec<Option<Secret>>, EngineError> {
    let one = given.or_else(|| environment("PGPASSWORD").map(Secret::new));
    if let Some(one) = one {
        return Ok(vec![Some(one); addresses.len()]);
    }
    let named = environment("PGPASSFILE").map(PathBuf::from);
    let path = named.or_else(|| Some(Path::new(&environment("HOME")?).join(".pgpass")));
    let Some(path) = path.filter(|path| path.exists()) else {
        return Ok(vec![None; addresses.len()]);
    };
    if let Some(note) = password_file::open_to_others(&path) {
        notes.push(note);
        return Ok(vec![None; addresses.len()]);
    }
    let text = std::fs::read_to_string(&path).map_err(|error| {
        EngineError::Environment(format!(
            "{}: the password file cannot be read: {error}; make it readable for you alone",
            path.display()
        ))
    })?;
    let find = |address| password_file::find(&text, address, user, database).map(Secret::new);
    Ok(addresses.iter().map(find).collect())
}

fn tls(given: &dyn Fn(&str, &str) -> Option<String>) -> Result<TlsOptions, EngineError> {
    let mode = match given("sslmode", "PGSSLMODE") {
        None => SslMode::Prefer,
        Some(text) => {
            let mode = SslMode::ALL.into_iter().find(|(name, _)| *name == text);
            let names = "use disable, prefer, require, verify-ca or verify-full";
            mode.ok_or_else(|| refused("sslmode", &text, "is not known", names))?.1
        }
    };
    Ok(TlsOptions {
        mode,
        root: given("sslrootcert", "PGSSLROOTCERT"),
        certificate: given("sslcert", "PGSSLCERT").map(PathBuf::from),
        key: given("sslkey", "PGSSLKEY").map(PathBuf::from),
    })
}

fn connect_timeout(given: &dyn Fn(&str, &str) -> Option<String>) -> Result<Duration, EngineError> {
    match given("connect_timeout", "PGCONNECT_TIMEOUT") {
        None => Ok(CONNECT_TIMEOUT_DEFAULT),
        Some(text) => match text.parse::<u32>() {
            Ok(seconds) if seconds > 0 => Ok(Duration::from_secs(seconds.into())),
            _ => Err(refused("connect_timeout", &text, "is no time", "give whole seconds from 1")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(url: &str, variables: &[(&str, &str)]) -> Result<Options, String> {
        let environment = |name: &str| {
            let found = variables.iter().find(|(variable, _)| *variable == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let url = TargetUrl::parse(url).unwrap();
        Options::new(&url, &environment).map_err(|error| error.to_string())
    }

    fn names(options: &Options) -> Vec<String> {
        options.addresses.iter().map(Address::name).collect()
    }

    #[test]
    fn the_url_wins_over_the_environment() {
        let variables = [
            ("PGHOST", "other"),
            ("PGPORT", "9"),
            ("PGUSER", "u"),
            ("PGDATABASE", "d"),
            ("PGPASSWORD", "env"),
            ("PGSSLMODE", "require"),
        ];
        let all = options("postgres://me:pw@db1:7,db2/name?sslmode=disable", &variables).unwrap();
        assert_eq!(names(&all), ["db1:7", "db2:9"]);
        assert_eq!((all.user.as_str(), all.database.as_str()), ("me", "name"));
        assert_eq!(all.passwords[1].as_ref().unwrap().expose(), "pw");
        assert_eq!(all.tls.mode, SslMode::Disable);
        let none = options("postgres://", &variables).unwrap();
        assert_eq!(names(&none), ["other:9"]);
        assert_eq!((none.user.as_str(), none.database.as_str()), ("u", "d"));
        assert_eq!(none.passwords[0].as_ref().unwrap().expose(), "env");
        assert_eq!(none.tls.mode, SslMode::Require);
    }

    #[test]
    fn sockets_come_as_option_variable_or_encoded_host() {
        for (url, variables) in [
            ("postgres://u@/d?host=/run/pg&port=6", &[][..]),
            ("postgres://u@%2Frun%2Fpg:6/d", &[][..]),
            ("postgres://u@/d", &[("PGHOST", "/run/pg"), ("PGPORT", "6")][..]),
        ] {
            let options = options(url, variables).unwrap();
            assert_eq!(names(&options), ["/run/pg:6"], "{url}");
            assert!(options.addresses[0].is_socket());
        }
    }

    #[test]
    fn a_database_has_its_users_name_by_default() {
        assert_eq!(options("postgres://someone@h", &[]).unwrap().database, "someone");
    }

    #[test]
    fn refusals_name_key_value_rule_and_way_out() {
        let refusal = |url| options(url, &[]).unwrap_err();
        insta::assert_snapshot!(refusal("postgres://u@h/d?sslmode=perhaps"), @"DB=postgres:...?sslmode=perhaps: sslmode is not known; use disable, prefer, require, verify-ca or verify-full");
        insta::assert_snapshot!(refusal("postgres://u@/d?port=0"), @"DB=postgres:...?port=0: port is no port; give 1 to 65535 (also in PGPORT)");
        insta::assert_snapshot!(refusal("postgres://u@h/d?cache=1"), @"DB=postgres:...?cache=1: cache is no option of postgres:; it has connect_timeout, dbname, host, port, service, sslcert, sslkey, sslmode, sslrootcert, tablespace, user");
        assert!(refusal("postgres://u@h/d?connect_timeout=soon").contains("whole seconds"));
    }

    #[test]
    fn a_service_fills_what_the_url_leaves_out() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("services");
        let text = "# ours\n[node1]\nhost = one.example\nport=6001\ndbname=of_one\npassword=x\n\
                    application_name=psql\n[node2]\nhostaddr=10.0.0.2\nuser=other\n";
        std::fs::write(&file, text).unwrap();
        let file = file.display().to_string();
        let environment = |name: &str| (name == "PGSERVICEFILE").then(|| file.clone());
        let url = TargetUrl::parse("postgres://u@h:1/?port=7000&sslmode=require").unwrap();
        let told = |name: &str| {
            let options = Options::of_service(&url, name, &environment).unwrap();
            let password = options.passwords[0].is_some();
            (options.addresses[0].name(), options.user, options.database, password)
        };
        let expected = |address: &str, database: &str, password| {
            (address.to_owned(), "u".to_owned(), database.to_owned(), password)
        };
        assert_eq!(told("node1"), expected("one.example:6001", "of_one", true));
        assert_eq!(told("node2"), expected("10.0.0.2:5432", "u", false));
        // In no file: a host.
        assert_eq!(told("node3"), expected("node3:7000", "u", false));
        let url = TargetUrl::parse("postgres:///?service=node2").unwrap();
        let options = Options::new(&url, &environment).unwrap();
        assert_eq!(
            (options.addresses[0].host.as_str(), options.user.as_str()),
            ("10.0.0.2", "other")
        );
        let url = TargetUrl::parse("postgres:///?service=nowhere").unwrap();
        let refusal = Options::new(&url, &environment).unwrap_err().to_string();
        assert!(refusal.contains("is in no service file"), "{refusal}");
    }
}
