//! libpq's ways to name a server: hosts, its environment, and its files. The service file has
//! sections `[name]` of `parameter=value` lines: a name for a server. The password file has lines
//! `host:port:database:user:password`, where `*` matches all and a backslash takes the next
//! character as it is. Options of libpq's that petal does not have are refused by name, so that
//! nobody believes them to be in force. Nothing here connects, or looks a name up.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::IpAddr;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use petal_engine::server::endpoint::host_and_port;
use petal_engine::url_option::{Environment, UrlOptions};
use petal_engine::{EngineError, Result};
use petal_host::files;
use petal_settings::trust;
use petal_settings::url::UrlHost;

/// A server: a host and port, or a folder with a socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// A folder if it begins with `/`.
    pub host: String,
    pub port: u16,
    /// The address to connect to without a name lookup; the host then only names the server.
    pub ip: Option<IpAddr>,
}

impl Address {
    pub fn is_socket(&self) -> bool {
        self.ip.is_none() && self.host.starts_with('/')
    }

    /// The file of the socket, if it is one.
    pub fn socket(&self) -> Option<PathBuf> {
        let file = || Path::new(&self.host).join(format!(".s.PGSQL.{}", self.port));
        self.is_socket().then(file)
    }

    /// The name that the server's certificate has; it cannot name a folder.
    pub fn name_in_certificate(&self) -> String {
        match self.ip {
            Some(ip) if self.host.starts_with('/') => ip.to_string(),
            _ => self.host.clone(),
        }
    }

    /// The name in messages.
    pub fn name(&self) -> String {
        host_and_port(&self.host, self.port)
    }
}

pub const OPTIONS: UrlOptions = UrlOptions("postgres");
const PORT_DEFAULT: u16 = 5432;
/// The folder in which packages put the socket. Any user can make one in /tmp.
const SOCKET_FOLDER: &str = "/var/run/postgresql";

/// The URL's hosts, or else those of `host`, `hostaddr` and their environment variables.
pub fn addresses(
    named: &[UrlHost],
    given: &dyn Fn(&str, &str) -> Option<String>,
) -> Result<Vec<Address>> {
    let ports = ports(given("port", "PGPORT").as_deref())?;
    let port_at = |at: usize| ports.get(at).or(ports.last()).copied().unwrap_or(PORT_DEFAULT);
    let ips = ips(given("hostaddr", "PGHOSTADDR").as_deref())?;
    let hosts: Vec<UrlHost> = match (named, given("host", "PGHOST")) {
        ([], Some(hosts)) => hosts.split(',').map(plain).collect(),
        // An address alone is its own name.
        ([], None) if !ips.is_empty() => {
            let name = |(at, ip): (usize, &Option<IpAddr>)| {
                ip.map_or_else(|| default_host(port_at(at)), |ip| ip.to_string())
            };
            ips.iter().enumerate().map(|it| plain(&name(it))).collect()
        }
        ([], None) => vec![plain(&default_host(port_at(0)))],
        _ => named.to_vec(),
    };
    if !ips.is_empty() && ips.len() != hosts.len() {
        let many = format!("names {} addresses for {} hosts", ips.len(), hosts.len());
        return Err(OPTIONS.refused(
            "hostaddr",
            "...",
            &many,
            "give one for each (also in PGHOSTADDR)",
        ));
    }
    let address = |(at, host): (usize, UrlHost)| Address {
        port: host.port.unwrap_or_else(|| port_at(at)),
        ip: ips.get(at).copied().flatten(),
        host: host.host,
    };
    Ok(hosts.into_iter().enumerate().map(address).collect())
}

fn plain(host: &str) -> UrlHost {
    UrlHost { host: host.trim().to_owned(), port: None }
}

/// An address for each host; an empty one is looked up by its host's name.
fn ips(text: Option<&str>) -> Result<Vec<Option<IpAddr>>> {
    let Some(text) = text else { return Ok(Vec::new()) };
    text.split(',')
        .map(|address| match address.trim() {
            "" => Ok(None),
            address => address.parse().map(Some).map_err(|_| {
                OPTIONS.refused(
                    "hostaddr",
                    text,
                    "is no IP address",
                    "names go in host (also in PGHOSTADDR)",
                )
            }),
        })
        .collect()
}

fn ports(text: Option<&str>) -> Result<Vec<u16>> {
    let Some(text) = text else { return Ok(Vec::new()) };
    text.split(',')
        .map(|port| match port.trim().parse::<u16>() {
            Ok(port) if port > 0 => Ok(port),
            _ => {
                Err(OPTIONS.refused("port", text, "is no port", "give 1 to 65535 (also in PGPORT)"))
            }
        })
        .collect()
}

fn default_host(port: u16) -> String {
    let socket = Path::new(SOCKET_FOLDER).join(format!(".s.PGSQL.{port}"));
    (if socket.exists() { SOCKET_FOLDER } else { "localhost" }).to_owned()
}

/// Options that petal does not have, variables, values that ask for nothing. Without Kerberos `prefer` is `disable`.
const LEFT: [(&str, &str, &[&str]); 14] = [
    ("gssencmode", "PGGSSENCMODE", &["disable", "prefer"]),
    ("gssdelegation", "PGGSSDELEGATION", &["0"]),
    ("load_balance_hosts", "PGLOADBALANCEHOSTS", &["disable"]),
    ("max_protocol_version", "PGMAXPROTOCOLVERSION", &["3.0", "latest"]),
    ("min_protocol_version", "PGMINPROTOCOLVERSION", &["3.0"]),
    ("requiressl", "PGREQUIRESSL", &["0"]),
    ("ssl_max_protocol_version", "PGSSLMAXPROTOCOLVERSION", &["TLSv1.3"]),
    ("ssl_min_protocol_version", "PGSSLMINPROTOCOLVERSION", &["TLSv1", "TLSv1.1", "TLSv1.2"]),
    ("sslcertmode", "PGSSLCERTMODE", &["allow"]),
    ("sslcompression", "PGSSLCOMPRESSION", &["0"]),
    ("sslcrl", "PGSSLCRL", &[]),
    ("sslcrldir", "PGSSLCRLDIR", &[]),
    ("sslnegotiation", "PGSSLNEGOTIATION", &["postgres"]),
    ("sslsni", "PGSSLSNI", &["1"]),
];

/// Options of libpq's that change neither trust nor routing: petal has its own keepalives, timeouts
/// and encoding.
const HARMLESS: [&str; 8] = [
    "client_encoding",
    "gsslib",
    "keepalives",
    "keepalives_count",
    "keepalives_idle",
    "keepalives_interval",
    "krbsrvname",
    "tcp_user_timeout",
];

/// Whether petal takes an option of libpq's that it does not have: it changes nothing here.
pub fn is_accepted(option: &str, value: &str) -> bool {
    HARMLESS.contains(&option) || is_default(option, value)
}

/// Whether an option of libpq's asks for nothing but its default.
fn is_default(option: &str, value: &str) -> bool {
    LEFT.iter().any(|(left, _, defaults)| *left == option && defaults.contains(&value))
}

/// Refuses an entry of a service file with a request that petal does not support.
pub fn check_entry(option: &str, value: &str) -> Result<()> {
    if option == "service" {
        return Err(EngineError::Setting(format!(
            "{option}={value} in the service file: an entry cannot name another, in psql neither; \
             write that entry's lines in its place"
        )));
    }
    match LEFT.iter().any(|(left, ..)| *left == option) && !is_default(option, value) {
        false => Ok(()),
        true => Err(EngineError::Setting(format!(
            "{option}={value} in the service file: petal has no {option}, and does not connect as if \
             it had; take it out, or name the server by a URL"
        ))),
    }
}

/// Refuses the first variable with a request that petal does not support.
pub fn check_environment(environment: Environment<'_>) -> Result<()> {
    for (option, variable, defaults) in LEFT {
        let Some(value) = environment(variable) else { continue };
        if !defaults.contains(&value.as_str()) {
            return Err(EngineError::Setting(format!(
                "{variable}={value}: petal has no {option}, and does not connect as if it had; \
                 unset {variable} for this call (env -u {variable} petal ...)"
            )));
        }
    }
    Ok(())
}

const FILE: &str = "pg_service.conf";
/// Folders in which packages look for the host's own file without PGSYSCONFDIR.
const SYSTEM_FOLDERS: [&str; 2] = ["/etc/postgresql-common", "/etc/sysconfig/pgsql"];

/// The entries of the first file that has a section of this name.
pub fn service_entries(
    name: &str,
    environment: Environment<'_>,
) -> Result<Option<BTreeMap<String, String>>> {
    for path in files(environment)? {
        let text = match files::text(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => {
                return Err(EngineError::Environment(format!(
                    "{}: the service file cannot be read: {error}; make it readable",
                    path.display()
                )));
            }
        };
        if let Some(entries) = section(&text, name) {
            return Ok(Some(entries));
        }
    }
    Ok(None)
}

/// The person's own, then the host's.
fn files(environment: Environment<'_>) -> Result<Vec<PathBuf>> {
    let own = match environment("PGSERVICEFILE") {
        Some(named) => Some(PathBuf::from(named)),
        None => own_file(environment("HOME"), &format!(".{FILE}"))?,
    };
    let system = match environment("PGSYSCONFDIR") {
        Some(folder) => vec![PathBuf::from(folder)],
        None => SYSTEM_FOLDERS.map(PathBuf::from).to_vec(),
    };
    Ok(own.into_iter().chain(system.into_iter().map(|folder| folder.join(FILE))).collect())
}

/// A file in the user's folder, if it is there.
pub fn own_file(home: Option<String>, name: &str) -> Result<Option<PathBuf>> {
    let Some(home) = home else { return Ok(None) };
    trust::own_file(Path::new(&home), name).map_err(EngineError::Environment)
}

fn section(text: &str, name: &str) -> Option<BTreeMap<String, String>> {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    let mut inside = lines.skip_while(|line| *line != format!("[{name}]"));
    inside.next()?;
    let own = inside.take_while(|line| !line.starts_with('['));
    let entry = |line: &str| {
        let (key, value) = line.split_once('=')?;
        Some((key.trim().to_owned(), value.trim().to_owned()))
    };
    Some(own.filter_map(entry).collect())
}

/// A line for people if others may read it; libpq then leaves it alone, and so does petal.
pub fn open_to_others(path: &Path) -> Option<String> {
    let mode = std::fs::metadata(path).ok()?.permissions().mode();
    (mode & 0o077 != 0).then(|| {
        format!(
            "{}: the password file is open to others and not used; chmod 600 it",
            path.display()
        )
    })
}

/// True if libpq refuses a private key because of its mode: a group may read one of root's alone.
pub fn is_key_open(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|about| {
        let open = if about.uid() == 0 { 0o027 } else { 0o077 };
        about.is_file() && about.permissions().mode() & open != 0
    })
}

/// The password of the first line that matches.
pub fn password(text: &str, address: &Address, user: &str, database: &str) -> Option<String> {
    let port = address.port.to_string();
    let wanted = [address.host.as_str(), port.as_str(), database, user];
    let matches_host = |key: &str| {
        // A socket goes by its folder, or as this host.
        key == address.host || address.is_socket() && key == "localhost"
    };
    text.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
        let fields = fields(line);
        let (password, keys) = fields.split_last()?;
        let matches = keys.len() == wanted.len()
            && keys.iter().zip(wanted).enumerate().all(|(at, (key, wanted))| {
                key == "*" || key == wanted || at == 0 && matches_host(key)
            });
        matches.then(|| password.clone())
    })
}

/// Splits a line at its first four colons; the rest is the password.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut signs = line.chars();
    while let Some(sign) = signs.next() {
        let is_password = fields.len() == 5;
        let sign = match sign {
            ':' if !is_password => {
                fields.push(String::new());
                continue;
            }
            '\\' => signs.next().unwrap_or('\\'),
            other => other,
        };
        if let Some(field) = fields.last_mut() {
            field.push(sign);
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_that_petal_does_not_heed_is_refused_by_name() {
        let refusal = |name: &str, value: &str| {
            let environment = |asked: &str| (asked == name).then(|| value.to_owned());
            check_environment(&environment).map_err(|error| error.to_string())
        };
        insta::assert_snapshot!(refusal("PGSSLCRL", "/etc/revoked.pem").unwrap_err(), @"PGSSLCRL=/etc/revoked.pem: petal has no sslcrl, and does not connect as if it had; unset PGSSLCRL for this call (env -u PGSSLCRL petal ...)");
        assert!(refusal("PGGSSENCMODE", "require").is_err());
        assert!(refusal("PGGSSENCMODE", "disable").is_ok());
        assert!(refusal("PGTZ", "UTC").is_ok());
        assert!(check_entry("keepalives", "0").is_ok() && check_entry("sslcrl", "/x").is_err());
        assert!(is_default("gssencmode", "prefer") && !is_default("gssencmode", "require"));
    }

    #[test]
    fn a_section_ends_where_the_next_begins() {
        let text = "[a]\nhost=1\n\n# host=2\n port = 3 \n[ab]\nhost=4\n[empty]";
        let entries = |name| section(text, name);
        let expected = [("host", "1"), ("port", "3")].map(|(k, v)| (k.to_owned(), v.to_owned()));
        assert_eq!(entries("a"), Some(expected.into()));
        assert_eq!(entries("ab").unwrap()["host"], "4");
        assert_eq!(entries("empty"), Some(BTreeMap::new()));
        assert_eq!(entries("b"), None);
    }

    fn address(host: &str) -> Address {
        Address { host: host.to_owned(), port: 5432, ip: None }
    }

    #[test]
    fn the_first_matching_line_counts() {
        let text = "# a comment:*:*:*:no\n\
                    h1:5433:*:*:wrong port\n\
                    h1:5432:d:u:pa:ss\\\\w\\:ord\n\
                    h1:*:*:*:second\n\
                    localhost:*:*:*:socket\n\
                    too:few:fields\n";
        let find = |host| password(text, &address(host), "u", "d");
        assert_eq!(find("h1").as_deref(), Some("pa:ss\\w:ord"));
        assert_eq!(password(text, &address("h1"), "other", "d").as_deref(), Some("second"));
        assert_eq!(find("/var/run/postgresql").as_deref(), Some("socket"));
        assert_eq!(find("h2"), None);
        let folder = "/tmp/other:5432:d:u:folder\n/run/pg:5432:d:u:its own\nlocalhost:*:*:*:any\n";
        assert_eq!(password(folder, &address("/run/pg"), "u", "d").as_deref(), Some("its own"));
        assert_eq!(password(folder, &address("/run"), "u", "d").as_deref(), Some("any"));
    }

    #[test]
    fn a_file_open_to_others_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pgpass");
        std::fs::write(&path, "").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(open_to_others(&path).unwrap().contains("chmod 600"));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(open_to_others(&path), None);
    }
}
