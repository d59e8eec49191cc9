//! Address and logins of the database, from URL, SLOB's parameters and environment. This module
//! does not connect.

use std::io::{BufRead as _, BufReader, IsTerminal as _, Write as _};
use std::sync::Arc;
use std::time::Duration;

use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};

use petal_engine::server::endpoint::host_and_port;
use petal_engine::server::password::PasswordCommand;
use petal_engine::url_option::{Environment, UrlOptions, process_environment};
use petal_engine::{EngineError, Result};
use petal_host::files::{self, OFlags};
use petal_settings::printable::printable_line;
use petal_settings::url::{Secret, TargetUrl, UrlHost, UrlServer};
use petal_settings::{Endpoints, Settings};

const PORT_DEFAULT: u16 = 1521;
const PORT_TLS_DEFAULT: u16 = 2484;
const CONNECT_TIMEOUT_DEFAULT: Duration = Duration::from_secs(60);
/// Variable with the URL user's password, or `@FILE`.
pub const PASSWORD_VARIABLE: &str = "ORACLE_PASSWORD";
/// Variable with the password of the wallet's key, or `@FILE`.
const WALLET_PASSWORD_VARIABLE: &str = "ORACLE_WALLET_PASSWORD";
const WALLET_FILE: &str = "ewallet.pem";
const OPTIONS: UrlOptions = UrlOptions("oracle");
const NAMES: [&str; 7] = [
    "buffer_pool",
    "connect_timeout",
    "further_schemas",
    "load",
    "protocol",
    "tablespace",
    "wallet",
];
const POOLS: [&str; 3] = ["DEFAULT", "KEEP", "RECYCLE"];
/// Value for SLOB's own placement: the tables in KEEP, the index in the default pool.
const KEEP_TABLES: &str = "keep_tables";

/// Service of the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OracleService {
    /// Name in messages: `host:1521/service`, or an alias.
    pub name: String,
    /// Connect string for the driver.
    pub connect_string: String,
}

#[derive(Debug, Clone)]
pub struct Login {
    pub user: String,
    pub password: Option<Secret>,
    /// Program that prints the password, if it is not given.
    pub password_command: Option<Arc<PasswordCommand>>,
    pub is_sysdba: bool,
}

#[derive(Debug, Clone)]
pub struct Options {
    pub endpoints: Vec<OracleService>,
    pub admin_place: OracleService,
    pub user: Login,
    /// User who reads statistics and settles: DBA_PRIV_USER, else the URL's user.
    pub admin: Login,
    pub connect_timeout: Duration,
    pub tns_admin: Option<String>,
    pub wallet: Option<Wallet>,
    pub storage: TableStorage,
}

/// A folder with certificates, and often a key encrypted with a password.
#[derive(Debug, Clone)]
pub struct Wallet {
    pub folder: String,
    pub password: Option<Secret>,
}

/// Placement and options of the tables that setup creates.
#[derive(Debug, Clone, Default)]
pub struct TableStorage {
    /// Tablespace; `None` means the user's default.
    pub tablespace: Option<String>,
    /// Buffer pool of tables; `None` means the database's default.
    pub buffer_pool: Option<String>,
    /// Set if the index is in the default pool, whichever pool has the tables.
    pub is_index_in_default_pool: bool,
    /// Set if the database copies the first schema into the others; otherwise petal loads each.
    pub copies_schemas: bool,
    /// Set if the load writes redo, so that standbys and archived logs have its rows.
    pub is_logged: bool,
}

/// Sources of options other than the settings, which tests replace.
pub struct ExternalSources<'a> {
    pub environment: Environment<'a>,
    /// Function that asks a person for a user's password.
    pub ask: &'a dyn Fn(&str) -> Option<Secret>,
}

impl Options {
    pub fn of(settings: &Settings) -> Result<Self> {
        Self::new(
            settings,
            &ExternalSources { environment: &process_environment, ask: &ask_password },
        )
    }

    pub fn new(settings: &Settings, outside: &ExternalSources<'_>) -> Result<Self> {
        let url = &settings.db;
        let shown = url.redacted();
        let refuse =
            |rule: &str, hint: &str| EngineError::Setting(format!("DB={shown}: {rule}; {hint}"));
        let server = url.server().ok_or_else(|| refuse("names no server", EXAMPLE))?;
        if server.hosts.is_empty() {
            return Err(no_local_log_on(&refuse, &server, outside));
        }
        let is_known = |name: &str, _: &str| NAMES.contains(&name);
        OPTIONS.check_names(&url.options, &NAMES, is_known)?;
        let option = |key: &str| url.options.get(key).cloned();
        let protocol = OPTIONS.one_of(
            "protocol",
            option("protocol").as_deref(),
            &[("tcp", "tcp"), ("tcps", "tcps")],
        )?;
        let way = ServiceRoute { server: &server, protocol };
        let endpoints = way
            .endpoints(&settings.endpoints)
            .ok_or_else(|| refuse("names no service", EXAMPLE))?;
        let admin_place = match &settings.endpoints.admin_service {
            Some(service) => way.service(service),
            None => endpoints[0].clone(),
        };
        let user = server.user.clone().ok_or_else(|| refuse("names no user", EXAMPLE))?;
        if user.eq_ignore_ascii_case("sys") {
            return Err(refuse(
                "SYS cannot own test data",
                "name a separate user in the URL, and SYS as DBA_PRIV_USER",
            ));
        }
        let port = if protocol == "tcps" { PORT_TLS_DEFAULT } else { PORT_DEFAULT };
        let command = |user: &str| password_command(settings, &server.hosts, port, user);
        let password_command = command(&user);
        let password = match &password_command {
            Some(_) => None,
            None => password(settings, outside, &user)?,
        };
        let user = Login { user, password, password_command, is_sysdba: false };
        Ok(Self {
            admin: admin(&settings.endpoints, &user, outside, &command),
            endpoints,
            admin_place,
            user,
            connect_timeout: OPTIONS
                .connect_timeout(option("connect_timeout").as_deref(), CONNECT_TIMEOUT_DEFAULT)?,
            tns_admin: (outside.environment)("TNS_ADMIN").or_else(|| {
                let home = (outside.environment)("ORACLE_HOME")?;
                Some(format!("{home}/network/admin"))
            }),
            wallet: option("wallet").map(|folder| wallet(folder, outside)).transpose()?,
            storage: TableStorage {
                tablespace: option("tablespace"),
                buffer_pool: option("buffer_pool").map(|name| buffer_pool(&name)).transpose()?,
                is_index_in_default_pool: option("buffer_pool").as_deref() == Some(KEEP_TABLES),
                copies_schemas: OPTIONS.one_of(
                    "further_schemas",
                    option("further_schemas").as_deref(),
                    &[("load", false), ("copy", true)],
                )?,
                is_logged: OPTIONS.one_of(
                    "load",
                    option("load").as_deref(),
                    &[("nologging", false), ("logged", true)],
                )?,
            },
        })
    }
}

/// Refuses a bequeath connection, with the line to write instead.
fn no_local_log_on(
    refuse: &dyn Fn(&str, &str) -> EngineError,
    server: &UrlServer,
    outside: &ExternalSources<'_>,
) -> EngineError {
    let named = Some(server.name.clone()).filter(|name| !name.is_empty());
    let service = named.or_else(|| (outside.environment)("ORACLE_SID"));
    let service = service.unwrap_or_else(|| "SERVICE".to_owned());
    let user = server.user.as_deref().unwrap_or("user");
    refuse(
        "names no host, and the driver has no local (bequeath) log-on",
        &format!(
            "write oracle://{user}@localhost:{PORT_DEFAULT}/{service}, with a service that \
             lsnrctl services shows and a password"
        ),
    )
}

const EXAMPLE: &str =
    "write oracle://user@host:1521/service, or oracle://user@alias with TNS_ADMIN";

fn buffer_pool(given: &str) -> Result<String> {
    if given == KEEP_TABLES {
        return Ok("KEEP".to_owned());
    }
    let name = given.to_ascii_uppercase();
    match POOLS.contains(&name.as_str()) {
        true => Ok(name),
        false => Err(OPTIONS.refused(
            "buffer_pool",
            given,
            "is no buffer pool",
            "use keep, keep_tables, recycle or default",
        )),
    }
}

/// Reads a wallet; asks for a password only if the key is encrypted, as in Autonomous Database's
/// wallets.
fn wallet(folder: String, outside: &ExternalSources<'_>) -> Result<Wallet> {
    let file = std::path::Path::new(&folder).join(WALLET_FILE);
    let text = files::text(file).unwrap_or_default();
    let password = match (outside.environment)(WALLET_PASSWORD_VARIABLE) {
        Some(given) => Some(given_secret(WALLET_PASSWORD_VARIABLE, &given)?),
        None if text.contains("ENCRYPTED PRIVATE KEY") => {
            (outside.ask)(&format!("the wallet {folder}"))
        }
        None => None,
    };
    Ok(Wallet { folder, password })
}

/// Returns a secret from the environment: the value itself, or the content of the file that it
/// names.
fn given_secret(variable: &str, text: &str) -> Result<Secret> {
    Secret::given(text).map_err(|error| {
        EngineError::Setting(format!("{variable}: {}; {}", error.rule, error.hint))
    })
}

/// Returns the password from the URL, the environment or a prompt, in this order.
fn password(
    settings: &Settings,
    outside: &ExternalSources<'_>,
    user: &str,
) -> Result<Option<Secret>> {
    if let Some(password) = &settings.db.password {
        return Ok(Some(password.clone()));
    }
    match (outside.environment)(PASSWORD_VARIABLE) {
        None => Ok((outside.ask)(user)),
        Some(text) => given_secret(PASSWORD_VARIABLE, &text).map(Some),
    }
}

/// Returns the program that prints a user's password, which is called with the first host or alias.
fn password_command(
    settings: &Settings,
    hosts: &[UrlHost],
    port_default: u16,
    user: &str,
) -> Option<Arc<PasswordCommand>> {
    let (program, host) = (settings.password_command.as_deref()?, hosts.first()?);
    let port = host.port.unwrap_or(port_default);
    Some(Arc::new(PasswordCommand::new(program, &host.host, port, user)))
}

/// Chooses the administrator. SYS is always SYSDBA. SYSDBA_PASSWD without DBA_PRIV_USER is the
/// password of SYSTEM since SLOB 2.4, and of SYS in a file of an older SLOB.
fn admin(
    endpoints: &Endpoints,
    user: &Login,
    outside: &ExternalSources<'_>,
    command: &dyn Fn(&str) -> Option<Arc<PasswordCommand>>,
) -> Login {
    let named = match (&endpoints.dba_user, &endpoints.dba_password) {
        (None, None) => return user.clone(),
        (Some(named), _) => named.trim().to_owned(),
        (None, Some(_)) if endpoints.is_before_slob_2_4 => "sys".to_owned(),
        (None, Some(_)) => "system".to_owned(),
    };
    let lower = named.to_lowercase();
    let (name, asks_sysdba) = match lower.strip_suffix(" as sysdba") {
        Some(name) => (named[..name.trim_end().len()].to_owned(), true),
        None => (named, false),
    };
    let is_sysdba = asks_sysdba || name.eq_ignore_ascii_case("sys");
    let is_same = name.eq_ignore_ascii_case(&user.user);
    let password_command = match (&endpoints.dba_password, is_same) {
        (Some(_), _) => None,
        (None, true) => user.password_command.clone(),
        (None, false) => command(&name),
    };
    let password = endpoints.dba_password.clone().or_else(|| match is_same {
        true => user.password.clone(),
        false if password_command.is_some() => None,
        false => (outside.ask)(&name),
    });
    Login { user: name, password, password_command, is_sysdba }
}

/// Way to reach services: at hosts, or by aliases.
struct ServiceRoute<'a> {
    server: &'a UrlServer,
    protocol: &'a str,
}

impl ServiceRoute<'_> {
    /// Returns the services, or `None` if none is named.
    fn endpoints(&self, named: &Endpoints) -> Option<Vec<OracleService>> {
        let services = named.services();
        if !services.is_empty() {
            return Some(services.iter().map(|service| self.service(service)).collect());
        }
        match self.server.hosts.as_slice() {
            [] => None,
            hosts if !self.server.name.is_empty() => Some(
                hosts.iter().map(|host| self.at(&self.address(host), &self.server.name)).collect(),
            ),
            [UrlHost { host: alias, port: None }] => Some(vec![alias_place(alias)]),
            _ => None,
        }
    }

    /// Returns a service at the URL's hosts if the URL names hosts, else an alias.
    fn service(&self, service: &str) -> OracleService {
        if let Some(place) = self.easy_connect(service) {
            return place;
        }
        let names_hosts = !self.server.name.is_empty()
            || self.server.hosts.len() > 1
            || self.server.hosts.iter().any(|host| host.port.is_some());
        if !names_hosts {
            return alias_place(service);
        }
        let addresses: Vec<String> =
            self.server.hosts.iter().map(|host| self.address(host)).collect();
        self.at(&addresses.join(","), service)
    }

    /// Parses `//host:1521/service`, as SQL*Plus does, with or without the leading slashes.
    fn easy_connect(&self, text: &str) -> Option<OracleService> {
        let (address, service) = text.strip_prefix("//").unwrap_or(text).split_once('/')?;
        let server = TargetUrl::parse(&format!("oracle://{address}/{service}")).ok()?.server()?;
        let addresses: Vec<String> = server.hosts.iter().map(|host| self.address(host)).collect();
        (!addresses.is_empty()).then(|| self.at(&addresses.join(","), service))
    }

    fn address(&self, host: &UrlHost) -> String {
        let port = host.port.unwrap_or(match self.protocol {
            "tcps" => PORT_TLS_DEFAULT,
            _ => PORT_DEFAULT,
        });
        host_and_port(&host.host, port)
    }

    fn at(&self, addresses: &str, service: &str) -> OracleService {
        OracleService {
            name: format!("{addresses}/{service}"),
            connect_string: format!("{}://{addresses}/{service}", self.protocol),
        }
    }
}

fn alias_place(alias: &str) -> OracleService {
    OracleService { name: alias.to_owned(), connect_string: alias.to_owned() }
}

/// Asks for a password at the terminal without echo. Returns `None` without a terminal or an
/// answer.
fn ask_password(user: &str) -> Option<Secret> {
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return None;
    }
    let mut terminal = files::open("/dev/tty", OFlags::RDWR).ok()?;
    let usual = tcgetattr(&terminal).ok()?;
    let mut unseen = usual.clone();
    unseen.local_modes.remove(LocalModes::ECHO);
    tcsetattr(&terminal, OptionalActions::Flush, &unseen).ok()?;
    let answer = write!(terminal, "password of {}: ", printable_line(user)).and_then(|()| {
        let mut line = String::new();
        BufReader::new(&terminal).read_line(&mut line)?;
        Ok(line)
    });
    // In any case, the terminal echoes input again.
    let restored = tcsetattr(&terminal, OptionalActions::Flush, &usual);
    let _ = writeln!(terminal);
    restored.ok()?;
    let line = answer.ok()?;
    let text = line.trim_end_matches(['\n', '\r']);
    (!text.is_empty()).then(|| Secret::new(text.to_owned()))
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use petal_settings::url::TargetUrl;

    /// Returns options of the alias `prod`, with `tns_admin` as the folder of its file.
    pub fn alias_options(tns_admin: &str) -> Options {
        let mut options = options("oracle://u@prod", Endpoints::default()).unwrap();
        options.tns_admin = Some(tns_admin.to_owned());
        options
    }

    fn options(url: &str, endpoints: Endpoints) -> Result<Options, String> {
        let settings =
            Settings { db: TargetUrl::parse(url).unwrap(), endpoints, ..Settings::default() };
        let environment = |name: &str| match name {
            "TNS_ADMIN" => Some("/etc/tns".to_owned()),
            _ => None,
        };
        let ask = |user: &str| Some(Secret::new(format!("asked {user}")));
        let outside = ExternalSources { environment: &environment, ask: &ask };
        Options::new(&settings, &outside).map_err(|error| error.to_string())
    }

    fn places(url: &str, endpoints: Endpoints) -> Vec<String> {
        let options = options(url, endpoints).unwrap();
        options.endpoints.into_iter().map(|place| place.connect_string).collect()
    }

    fn services(base: &str, max: Option<u32>) -> Endpoints {
        Endpoints { service_base: Some(base.to_owned()), service_max: max, ..Endpoints::default() }
    }

    #[test]
    fn hosts_services_and_aliases() {
        let none = Endpoints::default;
        assert_eq!(places("oracle://u@h/svc", none()), ["tcp://h:1521/svc"]);
        assert_eq!(places("oracle://u@h/svc?protocol=tcps", none()), ["tcps://h:2484/svc"]);
        assert_eq!(
            places("oracle://u@h:9,[::1]/svc", none()),
            ["tcp://h:9/svc", "tcp://[::1]:1521/svc"]
        );
        assert_eq!(places("oracle://u@prod", none()), ["prod"]);
        // SLOB's forms: numbered services at the URL's hosts, or numbered aliases.
        assert_eq!(
            places("oracle://u@scan/any", services("slob", Some(3))),
            ["tcp://scan:1521/slob1", "tcp://scan:1521/slob2", "tcp://scan:1521/slob3"]
        );
        assert_eq!(places("oracle://u@prod", services("slob", Some(2))), ["slob1", "slob2"]);
        assert_eq!(places("oracle://u@prod", services("slob", None)), ["slob"]);
        // Easy Connect strings: numbers follow their services.
        for url in ["oracle://u@scan/any", "oracle://u@prod"] {
            assert_eq!(places(url, services("//h1:9/svc", None)), ["tcp://h1:9/svc"]);
            assert_eq!(places(url, services("h1/svc", None)), ["tcp://h1:1521/svc"]);
            let two = places(url, services("h1:9/svc", Some(2)));
            assert_eq!(two, ["tcp://h1:9/svc1", "tcp://h1:9/svc2"]);
        }
    }

    #[test]
    fn every_place_is_one_that_the_driver_understands() {
        for place in places("oracle://u@h:9,[::1]/svc", services("slob", Some(2))) {
            assert!(oracledb::Config::default().set_connect_string(&place).is_ok(), "{place}");
        }
    }

    #[test]
    fn statistics_are_read_at_the_admin_service_by_the_admin() {
        let endpoints = Endpoints {
            admin_service: Some("adm".to_owned()),
            dba_user: Some("system".to_owned()),
            dba_password: Some(Secret::new("pw".to_owned())),
            ..Endpoints::default()
        };
        let options = options("oracle://u:x@h/svc", endpoints).unwrap();
        assert_eq!(options.admin_place.name, "h:1521/adm");
        assert_eq!((options.admin.user.as_str(), options.admin.is_sysdba), ("system", false));
        assert_eq!(options.admin.password.unwrap().expose(), "pw");
        assert_eq!(options.user.password.unwrap().expose(), "x");
        assert_eq!(options.tns_admin.as_deref(), Some("/etc/tns"));
    }

    #[test]
    fn sys_is_sysdba_and_no_user_of_data() {
        let dba = |user: Option<&str>, password: Option<&str>| Endpoints {
            dba_user: user.map(str::to_owned),
            dba_password: password.map(|text| Secret::new(text.to_owned())),
            ..Endpoints::default()
        };
        for (named, password) in [(Some("SYS"), None), (Some("sys as sysdba"), Some("p"))] {
            let admin = options("oracle://u@h/s", dba(named, password)).unwrap().admin;
            assert_eq!((admin.user.to_lowercase().as_str(), admin.is_sysdba), ("sys", true));
        }
        // SYSDBA_PASSWD alone: SYSTEM's since SLOB 2.4, never tried as SYS's.
        for (is_before_slob_2_4, user) in [(false, "system"), (true, "sys")] {
            let endpoints = Endpoints { is_before_slob_2_4, ..dba(None, Some("p")) };
            let admin = options("oracle://u@h/s", endpoints).unwrap().admin;
            assert_eq!((admin.user.as_str(), admin.is_sysdba), (user, user == "sys"));
        }
        let admin = options("oracle://u@h/s", dba(None, None)).unwrap().admin;
        assert_eq!((admin.user.as_str(), admin.password.unwrap().expose()), ("u", "asked u"));
        assert!(
            options("oracle://sys@h/s", dba(None, None)).unwrap_err().contains("DBA_PRIV_USER")
        );
    }

    #[test]
    fn a_wallets_password_is_asked_for_where_its_key_is_encrypted() {
        let password = |key: &str| {
            let folder = tempfile::tempdir().unwrap();
            std::fs::write(folder.path().join(WALLET_FILE), key).unwrap();
            let url = format!("oracle://u@h/s?wallet={}", folder.path().display());
            let wallet = options(&url, Endpoints::default()).unwrap().wallet.unwrap();
            wallet.password.map(|password| password.expose().to_owned())
        };
        let asked = password("-----BEGIN ENCRYPTED PRIVATE KEY-----").unwrap();
        assert!(asked.starts_with("asked the wallet /"), "{asked}");
        assert_eq!(password("-----BEGIN PRIVATE KEY-----"), None);
    }

    #[test]
    fn refusals_name_key_value_rule_and_hint() {
        let refusal = |url| options(url, Endpoints::default()).unwrap_err();
        insta::assert_snapshot!(refusal("oracle://u@h:1521"), @"DB=oracle://u@h:1521: names no service; write oracle://user@host:1521/service, or oracle://user@alias with TNS_ADMIN");
        insta::assert_snapshot!(refusal("oracle://h/s"), @"DB=oracle://h/s: names no user; write oracle://user@host:1521/service, or oracle://user@alias with TNS_ADMIN");
        insta::assert_snapshot!(refusal("oracle://u@h/s?protocol=udp"), @"DB=oracle:...?protocol=udp: protocol is not known; use tcp or tcps");
        insta::assert_snapshot!(refusal("oracle://u@h/s?cache=1"), @"DB=oracle:...?cache=...: cache is no option of oracle:; it has buffer_pool, connect_timeout, further_schemas, load, protocol, tablespace, wallet");
        insta::assert_snapshot!(refusal("oracle://u@h/s?buffer_pool=big"), @"DB=oracle:...?buffer_pool=big: buffer_pool is no buffer pool; use keep, keep_tables, recycle or default");
        insta::assert_snapshot!(refusal("oracle://u@h/s?further_schemas=2"), @"DB=oracle:...?further_schemas=2: further_schemas is not known; use load or copy");
        insta::assert_snapshot!(refusal("oracle://u@h/s?load=fast"), @"DB=oracle:...?load=fast: load is not known; use nologging or logged");
        insta::assert_snapshot!(refusal("oracle:///ORCL"), @"DB=oracle:///ORCL: names no host, and the driver has no local (bequeath) log-on; write oracle://user@localhost:1521/ORCL, with a service that lsnrctl services shows and a password");
        insta::assert_snapshot!(refusal("oracle://u@/"), @"DB=oracle://u@/: names no host, and the driver has no local (bequeath) log-on; write oracle://u@localhost:1521/SERVICE, with a service that lsnrctl services shows and a password");
        assert!(refusal("oracle://u@h/s?connect_timeout=0").contains("whole seconds"));
    }
}
