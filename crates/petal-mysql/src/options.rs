//! Servers and user: a `mysql:` URL, completed by option files and environment variables, so that
//! petal reaches the servers that the `mysql` program reaches. Nothing here connects.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::option_files;
use petal_engine::server::endpoint::{CONNECT_TIMEOUT_DEFAULT, host_and_port, is_this_host};
use petal_engine::server::peer::PeerRule;
use petal_engine::url_option::{Environment, UrlOptions};
use petal_engine::{EngineError, Result};
use petal_settings::url::{Secret, TargetUrl, UrlHost};

const OPTIONS: UrlOptions = UrlOptions("mysql");
const PORT_DEFAULT: u16 = 3306;
/// Paths at which packages put the socket, most usual first. Any user can make one in /tmp.
const SOCKETS: [&str; 2] = ["/run/mysqld/mysqld.sock", "/var/lib/mysql/mysql.sock"];

/// A server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    Tcp { host: String, port: u16 },
    Socket(String),
}

impl Address {
    /// The name in messages.
    pub fn name(&self) -> String {
        match self {
            Self::Tcp { host, port } => host_and_port(host, *port),
            Self::Socket(path) => path.clone(),
        }
    }

    /// True if the address shows that the server is on this host.
    pub fn is_on_this_host(&self) -> bool {
        match self {
            Self::Socket(_) => true,
            Self::Tcp { host, .. } => is_this_host(host),
        }
    }
}

/// The protection of a connection, by MySQL's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SslMode {
    Disabled,
    Preferred,
    Required,
    VerifyCa,
    VerifyIdentity,
}

impl SslMode {
    const ALL: [(&str, Self); 5] = [
        ("PREFERRED", Self::Preferred),
        ("DISABLED", Self::Disabled),
        ("REQUIRED", Self::Required),
        ("VERIFY_CA", Self::VerifyCa),
        ("VERIFY_IDENTITY", Self::VerifyIdentity),
    ];
}

/// Files and mode of TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsOptions {
    pub mode: SslMode,
    pub ca: Option<PathBuf>,
    pub certificate: Option<PathBuf>,
    pub key: Option<PathBuf>,
    /// A server without TLS may have the password, encrypted with the server's key.
    pub gives_password: bool,
}

/// All that is needed to connect.
#[derive(Debug, Clone)]
pub struct Options {
    pub addresses: Vec<Address>,
    pub user: String,
    pub password: Option<Secret>,
    pub database: String,
    pub tls: TlsOptions,
    /// The user that the server on this host must have.
    pub peer: PeerRule,
    pub connect_timeout: Duration,
}

/// Options of option files with which other programs trust less than petal would.
const UNKNOWN_TRUST: [&str; 5] = ["ssl_capath", "ssl_crl", "ssl_crlpath", "ssl_fp", "ssl_fplist"];

const NAMES: [&str; 13] = [
    "connect_timeout",
    "defaults_file",
    "get_server_public_key",
    "host",
    "port",
    "requirepeer",
    "socket",
    "ssl_ca",
    "ssl_cert",
    "ssl_key",
    "ssl_mode",
    "ssl_verify_server_cert",
    "user",
];

const NO_TLS_RULE: &str = "gives the password to any host on the path or at the address: a server \
                           without TLS may ask for it under its own key";
/// Advice for a password and a server without TLS.
pub const NO_TLS_HINT: &str =
    "use TLS or the server's socket, or allow it: get_server_public_key=1";

impl Options {
    /// The servers that a URL names, or `service` in their place.
    pub fn new(
        url: &TargetUrl,
        service: Option<&str>,
        environment: Environment<'_>,
    ) -> Result<Self> {
        let Some(server) = url.server() else {
            return Err(EngineError::Setting(format!("DB={}: names no server", url.redacted())));
        };
        let named: BTreeMap<String, String> = url
            .options
            .iter()
            .map(|(name, value)| (name.replace('-', "_"), value.clone()))
            .collect();
        OPTIONS.check_names(&named, &NAMES, |name, _| NAMES.contains(&name))?;
        let files = option_files::read(
            named.get("defaults_file").map(String::as_str),
            environment("HOME").as_deref(),
        )?;
        let given = OptionSources { url: &named, files: &files, environment };
        let hosts = match service {
            Some(name) => vec![host_of(name)],
            None => server.hosts,
        };
        let (user, name) = (server.user, Some(server.name).filter(|name| !name.is_empty()));
        let database = name.or_else(|| given.get("database", "")).ok_or_else(|| {
            EngineError::Setting(format!(
                "DB={}: names no database; write mysql://user@host/DATABASE, one that exists",
                url.redacted()
            ))
        })?;
        let password = url.password.clone().or_else(|| {
            let found = files.get("password").cloned().filter(|text| !text.is_empty());
            found.or_else(|| environment("MYSQL_PWD")).map(Secret::new)
        });
        let tls = given.tls()?;
        let addresses = given.addresses(&hosts)?;
        let is_far = addresses.iter().any(|address| !address.is_on_this_host());
        let is_given =
            password.as_ref().is_some_and(|password: &Secret| !password.expose().is_empty());
        if is_far && is_given && tls.mode == SslMode::Disabled && !tls.gives_password {
            return Err(OPTIONS.refused("ssl_mode", "DISABLED", NO_TLS_RULE, NO_TLS_HINT));
        }
        Ok(Self {
            addresses,
            user: user
                .or_else(|| given.get("user", ""))
                .or_else(|| environment("USER"))
                .unwrap_or_else(|| "root".to_owned()),
            password,
            database,
            tls,
            peer: PeerRule::new(named.get("requirepeer").map(String::as_str)).map_err(
                |(name, why)| OPTIONS.refused("requirepeer", &name, why, "name the server's user"),
            )?,
            connect_timeout: OPTIONS.connect_timeout(
                given.get("connect_timeout", "").as_deref(),
                CONNECT_TIMEOUT_DEFAULT,
            )?,
        })
    }
}

/// The sources of values: the URL over option files over the environment.
struct OptionSources<'a> {
    url: &'a BTreeMap<String, String>,
    files: &'a BTreeMap<String, String>,
    environment: Environment<'a>,
}

impl OptionSources<'_> {
    fn get(&self, option: &str, variable: &str) -> Option<String> {
        let found = self.url.get(option).or_else(|| self.files.get(&option.replace('_', "-")));
        found.cloned().or_else(|| (self.environment)(variable))
    }

    /// A host `localhost` without a port means the socket, as everywhere in MySQL.
    fn addresses(&self, hosts: &[UrlHost]) -> Result<Vec<Address>> {
        let socket = self.get("socket", "MYSQL_UNIX_PORT");
        let port = self.get("port", "MYSQL_TCP_PORT");
        let port = match &port {
            None => PORT_DEFAULT,
            Some(text) => match text.parse() {
                Ok(port) if port > 0 => port,
                _ => return Err(OPTIONS.refused("port", text, "is no port", "give 1 to 65535")),
            },
        };
        let hosts = match (hosts, self.get("host", "MYSQL_HOST")) {
            ([], Some(hosts)) => hosts.split(',').map(host_of).collect(),
            ([], None) => vec![host_of("localhost")],
            _ => hosts.to_vec(),
        };
        let asks_for_port = self.url.contains_key("port");
        let address = |host: &UrlHost| match (host.port, host.host.as_str()) {
            (None, path) if path.starts_with('/') => Address::Socket(path.to_owned()),
            (None, "localhost") if !asks_for_port => match socket.clone().or_else(found_socket) {
                Some(path) => Address::Socket(path),
                None => Address::Tcp { host: "localhost".to_owned(), port },
            },
            (own, host) => Address::Tcp { host: host.to_owned(), port: own.unwrap_or(port) },
        };
        Ok(hosts.iter().map(address).collect())
    }

    /// A switch, as option files write it: alone it is on, and `skip-` or `disable-` before it off.
    fn switch(&self, option: &str) -> Result<Option<bool>> {
        let off = ["skip", "disable"].map(|before| format!("{before}_{option}"));
        if off.iter().any(|name| self.get(name, "").is_some()) {
            return Ok(Some(false));
        }
        let Some(text) = self.get(option, "") else { return Ok(None) };
        const KNOWN: [(&str, bool); 7] = [
            ("1", true),
            ("", true),
            ("ON", true),
            ("TRUE", true),
            ("0", false),
            ("OFF", false),
            ("FALSE", false),
        ];
        OPTIONS.one_of(option, Some(&text.to_ascii_uppercase()), &KNOWN).map(Some)
    }

    /// The protection that petal requires: never less than the server's own programs for the same
    /// options. A named authority is always used to verify.
    fn ssl_mode(&self, has_authority: bool) -> Result<SslMode> {
        let of = |text: Option<&String>| {
            let text = text.map(|text| text.to_ascii_uppercase());
            text.map(|text| OPTIONS.one_of("ssl_mode", Some(&text), &SslMode::ALL)).transpose()
        };
        if let Some(mode) = of(self.url.get("ssl_mode"))? {
            return Ok(mode);
        }
        let of_file = of(self.files.get("ssl-mode"))?;
        Ok(match (self.switch("ssl_verify_server_cert")?, of_file, self.switch("ssl")?) {
            (Some(true), ..) => SslMode::VerifyIdentity,
            (_, Some(mode), _) => mode,
            (.., Some(false)) => SslMode::Disabled,
            _ if has_authority => SslMode::VerifyCa,
            _ => SslMode::Preferred,
        })
    }

    fn tls(&self) -> Result<TlsOptions> {
        for option in UNKNOWN_TRUST {
            if let Some(value) = self.get(option, "") {
                let rule = "narrows the trusted servers, and petal does not support it";
                let hint = "leave it out of petal's option file, and name the authority's file with \
                            ssl_ca";
                return Err(OPTIONS.refused(option, &value, rule, hint));
            }
        }
        let file = |option: &str| self.get(option, "").map(PathBuf::from);
        let (ca, certificate, key) = (file("ssl_ca"), file("ssl_cert"), file("ssl_key"));
        let mode = self.ssl_mode(ca.is_some())?;
        if certificate.is_some() != key.is_some() {
            return Err(EngineError::Setting(
                "DB=mysql:...: ssl_cert and ssl_key belong together; give both".to_owned(),
            ));
        }
        if ca.is_none() && matches!(mode, SslMode::VerifyCa | SslMode::VerifyIdentity) {
            let rule = "has no authority to verify by";
            return Err(OPTIONS.refused("ssl_mode", "...", rule, "name its file with ssl_ca"));
        }
        let gives_password = self.switch("get_server_public_key")?.unwrap_or(false);
        Ok(TlsOptions { mode, ca, certificate, key, gives_password })
    }
}

fn host_of(name: &str) -> UrlHost {
    let name = name.trim();
    let parts = name.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
    match parts {
        Some((host, port)) => UrlHost { host: host.to_owned(), port: Some(port) },
        None => UrlHost { host: name.to_owned(), port: None },
    }
}

fn found_socket() -> Option<String> {
    SOCKETS.iter().find(|path| Path::new(path).exists()).map(|path| (*path).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(url: &str, environment: &[(&str, &str)]) -> Result<Options> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "[client]\nuser=filed\npassword=f1led\nport=3311\n").unwrap();
        let sign = if url.contains('?') { '&' } else { '?' };
        let url = format!("{url}{sign}defaults_file={}", file.path().display());
        let find = |name: &str| {
            let found = environment.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        Options::new(&TargetUrl::parse(&url).unwrap(), None, &find)
    }

    fn names(options: &Options) -> Vec<String> {
        options.addresses.iter().map(Address::name).collect()
    }

    #[test]
    fn the_url_goes_before_option_files_and_these_before_the_environment() {
        let environment = [("MYSQL_PWD", "env"), ("MYSQL_HOST", "far"), ("MYSQL_TCP_PORT", "1")];
        let all = options("mysql://u:p%40w@h1,h2:7/d", &environment).unwrap();
        assert_eq!(names(&all), ["h1:3311", "h2:7"]);
        assert_eq!((all.user.as_str(), all.database.as_str()), ("u", "d"));
        assert_eq!(all.password.as_ref().unwrap().expose(), "p@w");
        assert!(!format!("{all:?}").contains("p@w"));
        let few = options("mysql:///d", &environment).unwrap();
        assert_eq!((names(&few), few.user.as_str()), (vec!["far:3311".to_owned()], "filed"));
        assert_eq!(few.password.unwrap().expose(), "f1led");
    }

    #[test]
    fn an_authority_or_a_wish_to_verify_is_never_less_than_verification() {
        let mode = |file: &str, url: &str| {
            let cnf = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(cnf.path(), format!("[client]\n{file}\n")).unwrap();
            let url = format!("mysql://u@h/d?defaults_file={}{url}", cnf.path().display());
            let options = Options::new(&TargetUrl::parse(&url).unwrap(), None, &|_| None);
            options.map(|options| options.tls.mode).map_err(|error| error.to_string())
        };
        for (file, url, expected) in [
            ("", "", SslMode::Preferred),
            ("ssl-ca=/a\nssl-verify-server-cert", "", SslMode::VerifyIdentity),
            (
                "ssl_ca=/a\nssl_verify_server_cert=ON\nssl-mode=PREFERRED",
                "",
                SslMode::VerifyIdentity,
            ),
            ("ssl-ca=/a", "", SslMode::VerifyCa),
            ("", "&ssl_ca=/a", SslMode::VerifyCa),
            ("ssl-ca=/a\nskip-ssl-verify-server-cert", "", SslMode::VerifyCa),
            ("ssl-mode=REQUIRED", "&ssl_ca=/a", SslMode::Required),
            ("ssl-ca=/a\nssl-verify-server-cert", "&ssl_mode=DISABLED", SslMode::Disabled),
            ("skip-ssl", "", SslMode::Disabled),
        ] {
            assert_eq!(mode(file, url), Ok(expected), "{file} {url}");
        }
        for (file, words) in [
            ("ssl-verify-server-cert", "no authority to verify by"),
            ("ssl-crl=/c", "ssl_crl narrows the trusted servers"),
            ("ssl_verify_server_cert=perhaps", "is not known"),
        ] {
            let refusal = mode(file, "").unwrap_err();
            assert!(refusal.contains(words), "{refusal}");
        }
    }

    #[test]
    fn localhost_without_a_port_is_the_socket() {
        let of = |url: &str| names(&options(url, &[]).unwrap());
        assert_eq!(of("mysql://localhost/d?socket=/a/s"), ["/a/s"]);
        assert_eq!(of("mysql:///d?socket=/a/s"), ["/a/s"]);
        assert_eq!(of("mysql://localhost:9/d?socket=/a/s"), ["localhost:9"]);
        assert_eq!(of("mysql:///d?host=/b/s"), ["/b/s"]);
        assert_eq!(of("mysql://[::1]/d"), ["[::1]:3311"]);
    }

    #[test]
    fn meaningless_options_are_refused_with_the_valid_form() {
        for (url, words) in [
            ("mysql://u:s3cret@h", "names no database; write mysql://user@host/DATABASE"),
            (
                "mysql://u@h/d?ssl=1",
                "?ssl=...: ssl is no option of mysql:; it has connect_timeout,",
            ),
            ("mysql://u@h/d?ssl_mode=maybe", "?ssl_mode=MAYBE: ssl_mode is not known; use PREF"),
            ("mysql://u@h/d?ssl_mode=verify_ca", "no authority to verify by; name its file with"),
            ("mysql://u@h/d?ssl_key=/k", "ssl_cert and ssl_key belong together; give both"),
            ("mysql://u@h/d?port=0", "?port=0: port is no port; give 1 to 65535"),
            (
                "mysql://u:s3cret@h/d?ssl_mode=disabled",
                "?ssl_mode=DISABLED: ssl_mode gives the password",
            ),
        ] {
            let refusal = options(url, &[]).unwrap_err().to_string();
            assert!(refusal.contains(words) && !refusal.contains("s3cret"), "{refusal}");
        }
    }
}
