//! Targets in the forms of other programs: JDBC's and SQLAlchemy's URLs, and libpq's text of
//! `host=... dbname=...`. petal refuses them and says which URL to write. Hosts, ports and the
//! database's name are shown; users, options and passwords are not.

use super::super::error::Refusal;
use super::super::table::support::{self, EngineSupport, UrlForm};
use super::{TargetUrl, UrlHost};

/// The refusal of a text in another program's form; `None` if it is in none that is known.
pub fn refusal(text: &str) -> Option<Refusal> {
    if let Some(pairs) = connection_text(text) {
        let url = url_of(&pairs, support::CONNECTION_TEXT);
        return Some(refused("is key=value text, not a URL", support::CONNECTION_TEXT, url));
    }
    let (given, after) = text.split_once(':')?;
    if given.eq_ignore_ascii_case("jdbc") {
        let (scheme, after) = after.split_once(':')?;
        let engine = support::of(&scheme.to_ascii_lowercase())?;
        // A driver's kind may come before the address: `thin:@//host:1521/service`.
        let address = match after.split_once('@') {
            Some((kind, address)) if !kind.contains('/') && !address.starts_with("//") => {
                format!("//{address}")
            }
            Some((kind, address)) if !kind.contains('/') => address.to_owned(),
            _ => after.to_owned(),
        };
        return Some(refused("is a JDBC URL", engine, shown(engine, &address)));
    }
    let (scheme, _driver) = given.split_once('+')?;
    let engine = support::of(&scheme.to_ascii_lowercase())?;
    Some(refused("names a driver of Python after its scheme", engine, shown(engine, after)))
}

fn refused(rule: &str, engine: &EngineSupport, url: Option<String>) -> Refusal {
    let url = url.unwrap_or_else(|| engine.example.to_owned());
    let password = match engine.address {
        UrlForm::Path => "",
        UrlForm::Server => ", and a password as user:password@ or in the database's own file",
    };
    Refusal::new(rule, format!("Write {url}{password}."))
}

/// The URL of the same server without user, password and options.
fn shown(engine: &EngineSupport, address: &str) -> Option<String> {
    let url = TargetUrl::parse(&format!("{}:{address}", engine.scheme)).ok()?;
    let server = url.server()?;
    Some(of_parts(engine, &server.hosts, &server.name))
}

fn of_parts(engine: &EngineSupport, hosts: &[UrlHost], name: &str) -> String {
    let host = |host: &UrlHost| {
        let bracketed = host.host.contains(':');
        let name = if bracketed { format!("[{}]", host.host) } else { host.host.clone() };
        host.port.map_or_else(|| name.clone(), |port| format!("{name}:{port}"))
    };
    let hosts: Vec<String> = hosts.iter().map(host).collect();
    format!("{}://user@{}/{name}", engine.scheme, hosts.join(","))
}

/// The pairs of `key=value key='a value'`, if a text begins so and names a server or database.
fn connection_text(text: &str) -> Option<Vec<(String, String)>> {
    const NAMING: [&str; 5] = ["host", "hostaddr", "dbname", "user", "service"];
    let mut pairs = Vec::new();
    let mut rest = text.trim();
    while let Some((key, after)) = rest.split_once('=') {
        let key = key.trim();
        let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        if key.is_empty() || !key.chars().all(is_name) {
            break;
        }
        let (value, after) = value(after.trim_start());
        pairs.push((key.to_ascii_lowercase(), value));
        rest = after.trim_start();
    }
    pairs.iter().any(|(key, _)| NAMING.contains(&key.as_str())).then_some(pairs)
}

/// Splits a text after its first value, which is quoted or ends at a blank.
fn value(text: &str) -> (String, &str) {
    let quoted = text.starts_with('\'');
    let mut value = String::new();
    let mut signs = text.char_indices().skip(usize::from(quoted));
    while let Some((at, sign)) = signs.next() {
        match sign {
            '\\' => value.extend(signs.next().map(|(_, next)| next)),
            '\'' if quoted => return (value, &text[at + 1..]),
            _ if !quoted && sign.is_whitespace() => return (value, &text[at..]),
            _ => value.push(sign),
        }
    }
    (value, "")
}

/// The URL of a text's service, or of its hosts and database, if they need no quotes.
fn url_of(pairs: &[(String, String)], engine: &EngineSupport) -> Option<String> {
    let find = |wanted: &str| {
        let found = pairs.iter().rev().find(|(key, _)| key == wanted);
        found.map_or("", |(_, value)| value.as_str())
    };
    let is_plain = |sign: char| sign.is_ascii_alphanumeric() || ".-_,/".contains(sign);
    let (hosts, ports, name) = (find("host"), find("port"), find("dbname"));
    let service = find("service");
    if ![hosts, ports, name, service].iter().all(|value| value.chars().all(is_plain)) {
        return None;
    }
    let scheme = engine.scheme;
    if !service.is_empty() {
        return Some(format!("{scheme}:///?service={service}"));
    }
    if hosts.starts_with('/') {
        return Some(format!("{scheme}://user@/{name}?host={hosts}"));
    }
    let ports: Vec<&str> = ports.split(',').collect();
    let port = |at: usize| ports.get(at).or(ports.last()).and_then(|port| port.parse().ok());
    let hosts = hosts.split(',').filter(|host| !host.is_empty()).enumerate();
    let hosts: Vec<UrlHost> =
        hosts.map(|(at, host)| UrlHost { host: host.to_owned(), port: port(at) }).collect();
    Some(of_parts(engine, &hosts, name))
}
