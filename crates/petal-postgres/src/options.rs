//! Server and role: a `postgres:` URL, completed by libpq's environment variables and password
//! file, so that petal reaches the servers that `psql` reaches. Nothing here connects.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio_postgres::config::ChannelBinding;

use super::libpq::{self, Address, OPTIONS};
use super::login_watch::RequiredAuth;
use super::tls::PUBLIC;
use petal_engine::server::endpoint::CONNECT_TIMEOUT_DEFAULT;
use petal_engine::server::peer::PeerRule;
use petal_engine::url_option::{Environment, process_environment};
use petal_engine::{EngineError, Result};
use petal_host::files;
use petal_settings::url::{Secret, TargetUrl, UrlHost, UrlServer};

/// The protection of a connection, by libpq's names.
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
        ("prefer", Self::Prefer),
        ("disable", Self::Disable),
        ("require", Self::Require),
        ("verify-ca", Self::VerifyCa),
        ("verify-full", Self::VerifyFull),
    ];

    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, mode)| *mode == self).map_or("prefer", |(name, _)| name)
    }
}

/// The kind of server that is required, by libpq's names. `prefer-standby` takes the one host as it
/// is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetSessionAttrs {
    Any,
    ReadWrite,
    ReadOnly,
    Primary,
    Standby,
}

impl TargetSessionAttrs {
    const ALL: [(&str, Self); 6] = [
        ("any", Self::Any),
        ("read-write", Self::ReadWrite),
        ("read-only", Self::ReadOnly),
        ("primary", Self::Primary),
        ("standby", Self::Standby),
        ("prefer-standby", Self::Any),
    ];

    /// Whether a server with these properties is one that the URL asks for.
    pub fn fits(self, is_standby: bool, is_read_only: bool) -> bool {
        match self {
            Self::Any => true,
            Self::ReadWrite => !is_standby && !is_read_only,
            Self::ReadOnly => is_standby || is_read_only,
            Self::Primary => !is_standby,
            Self::Standby => is_standby,
        }
    }
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

/// All that is needed to connect, and the URL's other options.
#[derive(Debug, Clone)]
pub struct Options {
    pub addresses: Vec<Address>,
    pub user: String,
    pub database: String,
    /// A password for each address: a password file may have different ones.
    pub passwords: Vec<Option<Secret>>,
    pub tls: TlsOptions,
    pub connect_timeout: Duration,
    pub channel_binding: ChannelBinding,
    /// The user that the server on this host must have.
    pub peer: PeerRule,
    pub required_auth: RequiredAuth,
    /// The kind of server that petal may work with.
    pub wanted: TargetSessionAttrs,
    /// Settings for every session, as the server's command line has them.
    pub session_options: Option<String>,
    /// The name of all of petal's connections in the server's views; None: each is named for its use.
    pub application_name: Option<String>,
    /// Notes for the user, such as a password file that others can read.
    pub notes: Vec<String>,
}

impl Options {
    /// The server, or servers, that a URL names.
    pub fn new(url: &TargetUrl, environment: Environment<'_>) -> Result<Self> {
        let mut given = UrlValues::of(url)?;
        let named = given.options.remove("service").or_else(|| environment("PGSERVICE"));
        if let Some(name) = named {
            let entries = libpq::service_entries(&name, environment)?.ok_or_else(|| {
                let hint = "write [NAME] and its host into ~/.pg_service.conf (or PGSERVICEFILE)";
                OPTIONS.refused("service", &name, "is in no service file", hint)
            })?;
            given.add(entries)?;
        }
        given.complete(environment)
    }

    /// The server of a service of SLOB's parameters: a service file's, or else a host.
    pub fn of_service(url: &TargetUrl, name: &str, environment: Environment<'_>) -> Result<Self> {
        let mut given = UrlValues::of(url)?;
        for name in ["service", "host", "hostaddr"] {
            given.options.remove(name);
        }
        given.server.hosts.clear();
        match libpq::service_entries(name, environment)? {
            Some(entries) => {
                given.options.remove("port");
                given.add(entries)?;
            }
            None => given.server.hosts.push(UrlHost { host: name.to_owned(), port: None }),
        }
        if !given.options.contains_key("hostaddr") && environment("PGHOSTADDR").is_some() {
            return Err(EngineError::Setting(format!(
                "PGHOSTADDR: every service would be at its one address, {name} too; unset it, and \
                 give hostaddr in the service file"
            )));
        }
        given.complete(environment)
    }
}

/// A URL's values, before the environment fills its gaps.
struct UrlValues {
    server: UrlServer,
    options: BTreeMap<String, String>,
    password: Option<Secret>,
}

impl UrlValues {
    fn of(url: &TargetUrl) -> Result<Self> {
        let Some(server) = url.server() else {
            return Err(EngineError::Setting(format!("DB={}: names no server", url.redacted())));
        };
        let is_known =
            |name: &str, value: &str| NAMES.contains(&name) || libpq::is_accepted(name, value);
        OPTIONS.check_names(&url.options, &NAMES, is_known)?;
        Ok(Self { server, options: url.options.clone(), password: url.password.clone() })
    }

    /// A service's entries, if the URL is silent. Unknown ones are psql's affair.
    fn add(&mut self, mut entries: BTreeMap<String, String>) -> Result<()> {
        if let Some(password) = entries.remove("password") {
            self.password.get_or_insert_with(|| Secret::new(password));
        }
        for (name, value) in &entries {
            libpq::check_entry(name, value)?;
        }
        entries.retain(|name, _| NAMES.contains(&name.as_str()));
        for (name, value) in entries {
            self.options.entry(name).or_insert(value);
        }
        Ok(())
    }

    fn complete(self, environment: Environment<'_>) -> Result<Options> {
        let Self { server, options, password } = self;
        let given = |option: &str, variable: &str| {
            options.get(option).cloned().or_else(|| environment(variable))
        };
        libpq::check_environment(environment)?;
        let addresses = libpq::addresses(&server.hosts, &given)?;
        let user = match server.user.or_else(|| given("user", "PGUSER")).or_else(os_user) {
            Some(user) => user,
            None => {
                return Err(OPTIONS.refused(
                    "user",
                    "",
                    "is not known",
                    "name one: postgres://user@...",
                ));
            }
        };
        let name = Some(server.name).filter(|name| !name.is_empty());
        let database =
            name.or_else(|| given("dbname", "PGDATABASE")).unwrap_or_else(|| user.clone());
        let mut notes = Vec::new();
        let password = password.or_else(|| environment("PGPASSWORD").map(Secret::new));
        let passwords = match password {
            Some(password) => vec![Some(password); addresses.len()],
            None => {
                let named = given("passfile", "PGPASSFILE").map(PathBuf::from);
                let missing = named.as_deref().filter(|file| !file.exists());
                let missing = missing.map(|file| format!("{}: no such file", file.display()));
                notes.extend(missing);
                let file = match named {
                    None => libpq::own_file(environment("HOME"), ".pgpass")?,
                    named => named,
                };
                filed_passwords(file.as_deref(), &addresses, &user, &database, &mut notes)?
            }
        };
        Ok(Options {
            tls: tls(&given, environment("HOME"))?,
            connect_timeout: OPTIONS.connect_timeout(
                given("connect_timeout", "PGCONNECT_TIMEOUT").as_deref(),
                CONNECT_TIMEOUT_DEFAULT,
            )?,
            channel_binding: OPTIONS.one_of(
                "channel_binding",
                given("channel_binding", "PGCHANNELBINDING").as_deref(),
                &CHANNEL_BINDINGS,
            )?,
            peer: PeerRule::new(given("requirepeer", "PGREQUIREPEER").as_deref()).map_err(
                |(name, why)| {
                    let hint = "name the server's user (also in PGREQUIREPEER)";
                    OPTIONS.refused("requirepeer", &name, why, hint)
                },
            )?,
            required_auth: required_auth(given("require_auth", "PGREQUIREAUTH"))?,
            wanted: wanted(&given, &addresses)?,
            session_options: given("options", "PGOPTIONS"),
            application_name: given("application_name", "PGAPPNAME")
                .or_else(|| given("fallback_application_name", "")),
            addresses,
            user,
            database,
            passwords,
            notes,
        })
    }
}

const NAMES: [&str; 21] = [
    "application_name",
    "autovacuum",
    "channel_binding",
    "connect_timeout",
    "dbname",
    "fallback_application_name",
    "host",
    "hostaddr",
    "options",
    "passfile",
    "port",
    "require_auth",
    "requirepeer",
    "service",
    "sslcert",
    "sslkey",
    "sslmode",
    "sslrootcert",
    "tablespace",
    "target_session_attrs",
    "user",
];

const CHANNEL_BINDINGS: [(&str, ChannelBinding); 3] = [
    ("prefer", ChannelBinding::Prefer),
    ("disable", ChannelBinding::Disable),
    ("require", ChannelBinding::Require),
];

/// Whether autovacuum is to work on petal's tables: petal's own option.
pub fn autovacuum(url: &TargetUrl) -> Result<bool> {
    const KNOWN: [(&str, bool); 2] = [("off", false), ("on", true)];
    let given = url.options.get("autovacuum").map(String::as_str);
    OPTIONS.one_of("autovacuum", given, &KNOWN)
}

/// The name of who runs petal.
fn os_user() -> Option<String> {
    let id = rustix::process::geteuid().as_raw().to_string();
    let accounts = files::system_text("/etc/passwd").unwrap_or_default();
    let by_id = accounts.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == id).then(|| name.to_owned())
    });
    by_id.or_else(|| process_environment("USER"))
}

/// The password file's, one for each address.
fn filed_passwords(
    path: Option<&Path>,
    addresses: &[Address],
    user: &str,
    database: &str,
    notes: &mut Vec<String>,
) -> Result<Vec<Option<Secret>>> {
    let Some(path) = path.filter(|path| path.exists()) else {
        return Ok(vec![None; addresses.len()]);
    };
    if let Some(note) = libpq::open_to_others(path) {
        notes.push(note);
        return Ok(vec![None; addresses.len()]);
    }
    let text = files::text(path).map_err(|error| {
        EngineError::Environment(format!(
            "{}: the password file cannot be read: {error}; make it readable for you alone",
            path.display()
        ))
    })?;
    let find = |address| libpq::password(&text, address, user, database).map(Secret::new);
    Ok(addresses.iter().map(find).collect())
}

fn required_auth(list: Option<String>) -> Result<RequiredAuth> {
    let list = list.unwrap_or_default();
    RequiredAuth::parse(&list).map_err(|wrong| {
        let why = format!("has no method {wrong}");
        let hint = "list some of password, md5, scram-sha-256, gss, sspi, none, or each with a ! \
                    before it (also in PGREQUIREAUTH)";
        OPTIONS.refused("require_auth", &list, &why, hint)
    })
}

fn wanted(
    given: &dyn Fn(&str, &str) -> Option<String>,
    addresses: &[Address],
) -> Result<TargetSessionAttrs> {
    const OPTION: &str = "target_session_attrs";
    let text = given(OPTION, "PGTARGETSESSIONATTRS");
    let wanted = OPTIONS.one_of(OPTION, text.as_deref(), &TargetSessionAttrs::ALL)?;
    let asks = text.filter(|text| text != "any" && addresses.len() > 1);
    if let Some(asked) = asks {
        return Err(OPTIONS.refused(
            OPTION,
            &asked,
            "picks one of several hosts, and to petal they are all endpoints of one run",
            "name the one host, or leave it out: standbys are recognised, and UPDATEs go to the \
             primary (PGTARGETSESSIONATTRS says the same)",
        ));
    }
    Ok(wanted)
}

/// Certificate and key that libpq's programs show if no option names others, in the user's folder.
const OWN_CERTIFICATE: &str = ".postgresql/postgresql.crt";
const OWN_KEY: &str = ".postgresql/postgresql.key";

fn tls(given: &dyn Fn(&str, &str) -> Option<String>, home: Option<String>) -> Result<TlsOptions> {
    let root = given("sslrootcert", "PGSSLROOTCERT");
    let mode = match given("sslmode", "PGSSLMODE") {
        None if root.as_deref() == Some(PUBLIC) => SslMode::VerifyFull,
        mode => OPTIONS.one_of("sslmode", mode.as_deref(), &SslMode::ALL)?,
    };
    let home = home.filter(|_| mode != SslMode::Disable);
    let find = |option: &str, variable: &str, own: &str| match given(option, variable) {
        Some(named) => Ok(Some(PathBuf::from(named))),
        None => libpq::own_file(home.clone(), own),
    };
    let certificate = find("sslcert", "PGSSLCERT", OWN_CERTIFICATE)?;
    let key = match &certificate {
        Some(_) => find("sslkey", "PGSSLKEY", OWN_KEY)?,
        None => given("sslkey", "PGSSLKEY").map(PathBuf::from),
    };
    if let Some(key) = key.as_ref().filter(|key| libpq::is_key_open(key)) {
        return Err(OPTIONS.refused(
            "sslkey",
            &key.display().to_string(),
            "is a private key that others can read",
            "chmod 600 it",
        ));
    }
    Ok(TlsOptions { mode, root, certificate, key })
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
    fn addresses_are_connected_to_and_hosts_name_them() {
        let ips = |options: &Options| -> Vec<String> {
            let text = |address: &Address| address.ip.map_or("-".to_owned(), |ip| ip.to_string());
            options.addresses.iter().map(text).collect()
        };
        let both = options("postgres://u@db1,db2/d?hostaddr=10.0.0.1,", &[]).unwrap();
        assert_eq!(names(&both), ["db1:5432", "db2:5432"]);
        assert_eq!(ips(&both), ["10.0.0.1", "-"]);
        let variable = [("PGHOSTADDR", "::1"), ("PGPORT", "6")];
        let alone = options("postgres://u@/d", &variable).unwrap();
        assert_eq!((names(&alone), ips(&alone)), (vec!["[::1]:6".into()], vec!["::1".into()]));
        // As with libpq, it holds for a host of the URL as well, and goes before a socket.
        let named = options("postgres://u@db1/d", &variable).unwrap();
        assert_eq!((names(&named), ips(&named)), (vec!["db1:6".into()], vec!["::1".into()]));
        let socket = options("postgres://u@%2Frun%2Fpg/d", &variable).unwrap();
        assert!(!socket.addresses[0].is_socket());
        for (url, variables) in [
            ("postgres://u@a,b/d?hostaddr=10.0.0.1", &[][..]),
            ("postgres://u@a/d", &[("PGHOSTADDR", "a.example")][..]),
        ] {
            assert!(options(url, variables).unwrap_err().contains("PGHOSTADDR"), "{url}");
        }
    }

    #[test]
    fn what_sessions_are_to_have_and_servers_to_be() {
        let url = "postgres://u@h/d?channel_binding=require&gssencmode=disable&\
                   target_session_attrs=read-write&options=-c%20geqo%3Doff";
        let given = options(url, &[("PGAPPNAME", "ours"), ("PGOPTIONS", "-c jit=on")]).unwrap();
        assert_eq!(given.channel_binding, ChannelBinding::Require);
        assert_eq!(given.wanted, TargetSessionAttrs::ReadWrite);
        assert_eq!(given.session_options.as_deref(), Some("-c geqo=off"));
        assert_eq!(given.application_name.as_deref(), Some("ours"));
        let plain = options("postgres://u@h/d", &[("PGCHANNELBINDING", "disable")]).unwrap();
        assert_eq!(
            (plain.channel_binding, plain.wanted),
            (ChannelBinding::Disable, TargetSessionAttrs::Any)
        );
        let refusal = |url, variables| options(url, variables).unwrap_err();
        let several = refusal("postgres://u@a,b/d", &[("PGTARGETSESSIONATTRS", "primary")]);
        insta::assert_snapshot!(several, @"DB=postgres:...?target_session_attrs=primary: target_session_attrs picks one of several hosts, and to petal they are all endpoints of one run; name the one host, or leave it out: standbys are recognised, and UPDATEs go to the primary (PGTARGETSESSIONATTRS says the same)");
        let preferring = [("PGTARGETSESSIONATTRS", "prefer-standby")];
        assert!(refusal("postgres://u@a,b/d", &preferring).contains("prefer-standby"));
        assert_eq!(
            options("postgres://u@a/d", &preferring).unwrap().wanted,
            TargetSessionAttrs::Any
        );
        assert!(refusal("postgres://u@a/d?channel_binding=maybe", &[]).contains("prefer, disable"));
        assert!(refusal("postgres://u@a/d", &[("PGSSLCRL", "/x")]).starts_with("PGSSLCRL=/x: "));
    }

    #[test]
    fn a_server_is_what_was_asked_for_or_not() {
        use TargetSessionAttrs::{Any, Primary, ReadOnly, ReadWrite, Standby};
        let fits = |is_standby, is_read_only| {
            [Any, ReadWrite, ReadOnly, Primary, Standby]
                .map(|wanted| wanted.fits(is_standby, is_read_only))
        };
        assert_eq!(fits(false, false), [true, true, false, true, false]);
        assert_eq!(fits(false, true), [true, false, true, true, false]);
        assert_eq!(fits(true, true), [true, false, true, false, true]);
    }

    #[test]
    fn a_database_has_its_users_name_by_default() {
        assert_eq!(options("postgres://someone@h", &[]).unwrap().database, "someone");
    }

    #[test]
    fn refusals_name_key_value_rule_and_hint() {
        let refusal = |url| options(url, &[]).unwrap_err();
        insta::assert_snapshot!(refusal("postgres://u@h/d?sslmode=perhaps"), @"DB=postgres:...?sslmode=perhaps: sslmode is not known; use prefer, disable, require, verify-ca or verify-full");
        insta::assert_snapshot!(refusal("postgres://u@/d?port=0"), @"DB=postgres:...?port=0: port is no port; give 1 to 65535 (also in PGPORT)");
        let wrong = TargetUrl::parse("postgres://u@h/d?autovacuum=yes").unwrap();
        insta::assert_snapshot!(autovacuum(&wrong).unwrap_err(), @"DB=postgres:...?autovacuum=yes: autovacuum is not known; use off or on");
        insta::assert_snapshot!(refusal("postgres://u@h/d?cache=1"), @"DB=postgres:...?cache=...: cache is no option of postgres:; it has application_name, autovacuum, channel_binding, connect_timeout, dbname, fallback_application_name, host, hostaddr, options, passfile, port, require_auth, requirepeer, service, sslcert, sslkey, sslmode, sslrootcert, tablespace, target_session_attrs, user");
        assert!(refusal("postgres://u@h/d?connect_timeout=soon").contains("whole seconds"));
    }

    #[test]
    fn options_that_change_nothing_here_are_taken_as_libpq_takes_them() {
        let url = "postgres://u@h/d?keepalives=1&keepalives_idle=30&keepalives_interval=10\
                   &keepalives_count=3&tcp_user_timeout=0&client_encoding=UTF8&gsslib=gssapi\
                   &fallback_application_name=ops";
        let given = options(url, &[]).unwrap();
        assert_eq!(given.application_name.as_deref(), Some("ops"));
        let named = options(&format!("{url}&application_name=mine"), &[]).unwrap();
        assert_eq!(named.application_name.as_deref(), Some("mine"));
    }

    #[test]
    fn a_password_file_is_named_by_the_url_or_by_an_entry() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
            std::fs::set_permissions(&path, private).unwrap();
            path.display().to_string()
        };
        let (one, two) = (write("one", "*:*:*:*:first\n"), write("two", "*:*:*:*:second\n"));
        let file = write("services", &format!("[filed]\nhost=h\ndbname=d\npassfile={one}\n"));
        let variables = [("PGSERVICEFILE", file.as_str()), ("PGPASSFILE", two.as_str())];
        let password = |url: &str| {
            let options = options(url, &variables).unwrap();
            options.passwords[0].as_ref().map(|password| password.expose().to_owned())
        };
        assert_eq!(password("postgres://u@h/d").as_deref(), Some("second"));
        assert_eq!(password("postgres://u@/?service=filed").as_deref(), Some("first"));
        assert_eq!(password(&format!("postgres://u@h/d?passfile={one}")).as_deref(), Some("first"));
        let missing = options("postgres://u@h/d?passfile=/no/such", &[]).unwrap();
        assert_eq!(missing.notes, ["/no/such: no such file"]);
    }

    #[test]
    fn the_users_certificate_and_key_are_those_of_libpq() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join(".postgresql");
        std::fs::create_dir(&folder).unwrap();
        let home = home.path().display().to_string();
        let write = |name: &str, mode: u32| {
            let path = folder.join(name);
            std::fs::write(&path, "x").unwrap();
            let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
            std::fs::set_permissions(&path, mode).unwrap();
            path
        };
        let of = |url: &str| {
            let tls = options(url, &[("HOME", &home)]).map(|options| options.tls);
            tls.map(|tls| (tls.certificate, tls.key))
        };
        assert_eq!(of("postgres://u@h/d"), Ok((None, None)));
        let key = write("postgresql.key", 0o600);
        assert_eq!(of("postgres://u@h/d"), Ok((None, None)), "a key without a certificate");
        let certificate = write("postgresql.crt", 0o644);
        let both = (Some(certificate), Some(key));
        assert_eq!(of("postgres://u@h/d"), Ok(both.clone()));
        assert_eq!(of("postgres://u@h/d?sslmode=disable"), Ok((None, None)));
        let named = (Some("/c".into()), both.1);
        assert_eq!(of("postgres://u@h/d?sslcert=/c"), Ok(named));
        write("postgresql.key", 0o640);
        // libpq takes such a key of root's.
        let is_root = rustix::process::geteuid().is_root();
        assert_eq!(of("postgres://u@h/d").is_ok(), is_root);
        write("postgresql.key", 0o644);
        let refused = of("postgres://u@h/d").unwrap_err();
        assert!(refused.contains("is a private key that others can read; chmod 600"), "{refused}");
    }

    #[test]
    fn an_entry_cannot_name_another() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("services");
        std::fs::write(&file, "[prod]\nhost=h\n[inc]\nservice=prod\n").unwrap();
        let file = file.display().to_string();
        let refused = options("postgres:///d?service=inc", &[("PGSERVICEFILE", &file)]);
        let refused = refused.map(drop).unwrap_err();
        assert!(refused.contains("service=prod in the service file: an entry cannot"), "{refused}");
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
        let options = |name: &str| {
            let options = Options::of_service(&url, name, &environment).unwrap();
            let password = options.passwords[0].is_some();
            (options.addresses[0].name(), options.user, options.database, password)
        };
        let expected = |address: &str, database: &str, password| {
            (address.to_owned(), "u".to_owned(), database.to_owned(), password)
        };
        assert_eq!(options("node1"), expected("one.example:6001", "of_one", true));
        assert_eq!(options("node2"), expected("10.0.0.2:5432", "u", false));
        // In no file: a host.
        assert_eq!(options("node3"), expected("node3:7000", "u", false));
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
