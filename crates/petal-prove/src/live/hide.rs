//! Names of places and people, and words in their place. Known names are replaced as whole words. A name
//! that is also a word of petal's texts is replaced only if it is marked as a name: elsewhere the word in its
//! place would show it. Unknown names are recognised by their shape: paths, addresses, URLs, hosts with a
//! port or a domain, long hexadecimal numbers.

use crate::PROMISES;
use petal_settings::Settings;

/// The name of this program, of the account that the documentation uses, and of test data.
const KEPT: [&str; 3] = ["petal", petal_engine::server::data_name::PROOF, "localhost"];
/// Pages with petal's own words, and those of servers in their settings and messages.
const PAGES: [&str; 4] = [
    include_str!("../../../../docs/engines/mysql.md"),
    include_str!("../../../../docs/engines/oracle.md"),
    include_str!("../../../../docs/engines/postgres.md"),
    include_str!("../../../../docs/parameters.md"),
];
/// Words in front of a name.
const KINDS: [&str; 8] =
    ["user", "role", "owner", "database", "service", "host", "container", "schema"];
/// Hexadecimal digits from which a word is an identity.
const HEX_MIN: usize = 12;

#[derive(Debug)]
struct HiddenName {
    /// The name in lower case.
    name: String,
    /// Word in its place.
    word: &'static str,
    /// True if it is also a word of petal's texts.
    is_own: bool,
}

/// Names with the word in the place of each.
#[derive(Debug, Default)]
pub struct Identifiers {
    names: Vec<HiddenName>,
    /// Words that look like an address without being one.
    kept: Vec<String>,
}

impl Identifiers {
    pub fn of(settings: &Settings) -> Self {
        let mut all = Self::default();
        if let Some(server) = settings.db.server() {
            server.hosts.iter().for_each(|host| all.add(&host.host, "HOST"));
            server.user.iter().for_each(|user| all.add(user, "USER"));
            all.add(&server.name, "DATABASE");
        }
        all.add(&settings.db.rest, "PLACE");
        settings.db.options.values().for_each(|value| all.add(value, "OPTION"));
        if let Some(password) = &settings.db.password {
            all.add(password.expose(), "PASSWORD");
        }
        let endpoints = &settings.endpoints;
        endpoints.dba_user.iter().for_each(|user| all.add(user, "USER"));
        endpoints.dba_password.iter().for_each(|secret| all.add(secret.expose(), "PASSWORD"));
        let services = endpoints.services().into_iter().chain(endpoints.admin_service.clone());
        services.for_each(|service| all.add(&service, "DATABASE"));
        for (variable, word) in [("USER", "USER"), ("LOGNAME", "USER"), ("HOME", "PATH")] {
            std::env::var(variable).iter().for_each(|name| all.add(name, word));
        }
        let host = rustix::system::uname();
        all.add(&host.nodename().to_string_lossy(), "HOST");
        all
    }

    /// Hides a name. A name that every text of petal has is not one.
    pub fn add(&mut self, name: &str, word: &'static str) {
        let is_kept = KEPT.iter().any(|kept| kept.eq_ignore_ascii_case(name));
        if name.len() > 1 && !is_kept && !name.bytes().all(|byte| byte.is_ascii_digit()) {
            let name = name.to_lowercase();
            let is_own = is_own_word(&name);
            self.names.push(HiddenName { name, word, is_own });
            // A name within another one is replaced after it.
            self.names.sort_by_key(|hidden| std::cmp::Reverse(hidden.name.len()));
        }
    }

    /// Keeps a word that has the shape of an address, such as a version.
    pub fn keep(&mut self, word: &str) {
        self.kept.push(word.to_owned());
    }

    pub fn hide(&self, text: &str) -> String {
        if let Some(code) = users_error(text) {
            return format!("an error of the user's own code ({code}), whose text is not shown");
        }
        let known =
            self.names.iter().fold(without_accounts(&without_processes(text)), |text, hidden| {
                replaced(&text, hidden)
            });
        self.hide_shapes(&known)
    }

    /// Hides words with the shape of a name.
    pub fn hide_shapes(&self, text: &str) -> String {
        let mut hidden = String::new();
        let mut word = String::new();
        for sign in text.chars().chain([' ']) {
            let is_end = sign.is_whitespace() || "\"'()[]<>,;=|".contains(sign);
            match is_end {
                false => word.push(sign),
                true => {
                    hidden += &self.by_shape(&word);
                    word.clear();
                    hidden.push(sign);
                }
            }
        }
        hidden.pop();
        hidden
    }

    fn by_shape(&self, word: &str) -> String {
        let plain = word.trim_end_matches(['.', ':', '!', '?']);
        let end = &word[plain.len()..];
        match self.kept.iter().any(|kept| kept == plain) {
            true => word.to_owned(),
            false => shape(plain).map_or_else(|| word.to_owned(), |name| format!("{name}{end}")),
        }
    }
}

fn is_own_word(name: &str) -> bool {
    let promises = PROMISES.iter().flat_map(|promise| [promise.rule, promise.how]);
    let mut words = promises
        .chain(PAGES)
        .flat_map(|text| text.split(|sign: char| !sign.is_alphanumeric() && sign != '-'));
    words.any(|word| word.eq_ignore_ascii_case(name))
}

/// The code of an error that a user's own code raises, in any words: PostgreSQL's RAISE, MySQL's SIGNAL, Oracle's
/// RAISE_APPLICATION_ERROR.
pub fn users_error(text: &str) -> Option<String> {
    let of_oracle = || {
        let numbers = text.split("ORA-").skip(1).filter_map(|rest| rest.get(..5));
        let mut raised = numbers.filter(|number| {
            number.parse::<u32>().is_ok_and(|number| (20_000..=20_999).contains(&number))
        });
        raised.next().map(|number| format!("ORA-{number}"))
    };
    let codes = ["P0001", "45000", "1644"];
    let of_others = codes.into_iter().find(|code| text.contains(&format!("({code})")));
    of_others.map(str::to_owned).or_else(of_oracle)
}

/// The text without facts about others' processes, which have names and statements. They are in brackets
/// behind a number; the last bracket ends them, because a statement may have brackets, too.
fn without_processes(text: &str) -> String {
    for kind in ["process ", "connection ", "session ", "thread "] {
        for (at, _) in text.match_indices(kind) {
            let from = at + kind.len();
            let number = text[from..].find(|sign: char| !sign.is_ascii_digit()).unwrap_or(0);
            let facts = from + number;
            if number > 0 && text[facts..].starts_with(" (") {
                let end = text[facts..].rfind(')').map_or(text.len(), |end| facts + end + 1);
                return format!("{} (not shown){}", &text[..facts], &text[end..]);
            }
        }
    }
    text.to_owned()
}

/// The text without accounts as MySQL writes them, such as 'petal'@'app7': a client's host has any name.
fn without_accounts(text: &str) -> String {
    let (mut made, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once("'@'") {
        let user = before.rfind('\'').unwrap_or(before.len());
        made += &before[..user];
        made += "USER@HOST";
        rest = after.split_once('\'').map_or("", |(_, after)| after);
    }
    made + rest
}

/// The word for a text of this shape.
fn shape(word: &str) -> Option<&'static str> {
    let is_path = |at: usize| {
        word[at..].starts_with('/')
            && word[at + 1..].starts_with(|sign: char| sign.is_alphanumeric())
    };
    let is_group = word
        .strip_prefix('+')
        .is_some_and(|name| name.starts_with(|sign: char| sign.is_ascii_uppercase()));
    let is_drive = word.as_bytes().get(1..3) == Some(b":\\");
    if word.contains("://") {
        Some("URL")
    } else if is_path(0) || word.contains("=/") || is_group || is_drive {
        Some("PATH")
    } else if word.contains('@') {
        Some("USER@HOST")
    } else if is_address(word) || word.split_once(['/', ':']).is_some_and(|(it, _)| is_address(it))
    {
        Some("ADDRESS")
    } else if is_host(word) {
        Some("HOST")
    } else {
        let digits = word.chars().filter(|sign| *sign != '-').count();
        let is_hex = word.chars().all(|sign| sign.is_ascii_hexdigit() || sign == '-');
        let is_number = word.bytes().all(|byte| byte.is_ascii_digit());
        (is_hex && !is_number && digits >= HEX_MIN).then_some("ID")
    }
}

fn is_address(word: &str) -> bool {
    let parts: Vec<&str> = word.split('.').collect();
    let is_ipv4 = parts.len() == 4 && parts.iter().all(|part| part.parse::<u8>().is_ok());
    let is_ipv6 = word.contains("::") || word.matches(':').count() >= 4;
    is_ipv4 || is_ipv6 && word.chars().all(|sign| sign.is_ascii_hexdigit() || sign == ':')
}

/// A name with a port, or with two points and a domain at its end.
fn is_host(word: &str) -> bool {
    let name = |name: &str| {
        let is_sign = |sign: char| sign.is_ascii_alphanumeric() || "-.".contains(sign);
        name.starts_with(|sign: char| sign.is_ascii_alphabetic()) && name.chars().all(is_sign)
    };
    if let Some((host, port)) = word.rsplit_once(':') {
        let port = port.split('/').next().unwrap_or_default();
        return name(host) && (2..=5).contains(&port.len()) && port.parse::<u16>().is_ok();
    }
    let domain = word.rsplit('.').next().unwrap_or_default();
    let is_domain = domain.len() > 1 && domain.chars().all(|sign| sign.is_ascii_lowercase());
    word.matches('.').count() >= 2 && name(word) && is_domain
}

/// True if the text before and after a word marks it as a name: quotes, a place that it is part of, or its
/// kind.
fn is_marked(before: &str, after: &str) -> bool {
    let kind = before.trim_end().rsplit(|sign: char| !sign.is_alphanumeric()).next();
    let begins_place = before.is_empty() || before.ends_with(": ");
    before.ends_with(['"', '\'', '`', '/', '@'])
        || after.starts_with('@')
        || begins_place && after.starts_with([':', '/'])
        || kind.is_some_and(|kind| before.ends_with(' ') && KINDS.contains(&kind))
}

/// Replaces a name, in any case, where it is a whole word.
fn replaced(text: &str, HiddenName { name, word, is_own }: &HiddenName) -> String {
    let lower = text.to_lowercase();
    if lower.len() != text.len() {
        return text.to_owned();
    }
    let is_inside =
        |sign: Option<char>| sign.is_some_and(|it| it.is_alphanumeric() || "_$".contains(it));
    let (mut made, mut from) = (String::new(), 0);
    for (at, _) in lower.match_indices(name.as_str()) {
        let end = at + name.len();
        let (before, after) = (&lower[..at], &lower[end..]);
        let is_part = is_inside(before.chars().next_back()) || is_inside(after.chars().next());
        if at >= from && !is_part && (!is_own || is_marked(before, after)) {
            made += &text[from..at];
            made += word;
            from = end;
        }
    }
    made + &text[from..]
}

#[cfg(test)]
mod tests {
    use super::*;
    use petal_settings::Endpoints;
    use petal_settings::url::TargetUrl;

    fn of(url: &str) -> Identifiers {
        let db = TargetUrl::parse(url).unwrap();
        let endpoints = Endpoints {
            admin_service: Some("rootsvc".to_owned()),
            dba_user: Some("c##dba".to_owned()),
            ..Endpoints::default()
        };
        let mut all = Identifiers::of(&Settings { db, endpoints, ..Settings::default() });
        all.add("FREEPDB1", "CONTAINER");
        all.keep("23.26.1.0");
        all
    }

    #[test]
    fn no_name_of_a_place_or_a_person_stays() {
        let hidden = of("oracle://scott:tiger9@db1.example.com:1521/orders");
        let text = "DB1.example.com:1521/ORDERS: user scott, tiger9, container: FREEPDB1, files \
            /u01/oradata/x.dbf, '+DATA/ORDERS/y', C:\\data, 10.1.2.3:1521 and fe80::1:2, \
            node7.other.org, standby2:1522, sys@rac2, 4f0c9a77d1e2ab, C##DBA, rootsvc, \
            jdbc://x/y. Rows: 2048";
        let said = hidden.hide(text);
        for name in [
            "DB1", "db1", "ORDERS", "scott", "tiger9", "FREEPDB1", "u01", "+DATA", "C:\\",
            "10.1.2", "fe80", "node7", "standby2", "rac2", "4f0c9a", "jdbc", "##", "rootsvc",
        ] {
            assert!(!said.contains(name), "{name}: {said}");
        }
        assert!(said.ends_with("URL. Rows: 2048"), "{said}");
    }

    #[test]
    fn petals_own_words_stay_whatever_the_password_is() {
        let hidden = of("oracle://petal:petal@127.0.0.1:1521/FREEPDB1");
        let text = "petal 0.1.0 and Oracle Database 23.26.1.0: petal_prove1_cf1, 12:30:15, \
            pg_stat_database.xact_commit, SYS.DBMS_STATS, 1,234 rows/s, 8192";
        assert_eq!(hidden.hide(text), text);
        assert_eq!(hidden.hide("127.0.0.1:1521/FREEPDB1: refused"), "HOST: refused");
    }

    #[test]
    fn an_account_of_mysql_has_any_host() {
        let hidden = of("mysql://petal@127.0.0.1:3306/orders");
        let text = "SELECT command denied to user 'petal'@'kassenserver' for table 'x', then \
            'root'@'localhost' and ''@'%'.";
        assert_eq!(
            hidden.hide(text),
            "SELECT command denied to user USER@HOST for table 'x', then USER@HOST and USER@HOST."
        );
        assert_eq!(hidden.hide("'a'@'b"), "USER@HOST");
    }

    #[test]
    fn facts_of_others_processes_are_left_out() {
        let hidden = of("postgres://boss@db1/bench");
        let text = "db1: process 7272 (role lohnbuero, application kassenserver7, active, last \
            statement: SELECT f('(Meier') FROM x) holds a snapshot, which keeps 8 rows";
        assert_eq!(
            hidden.hide(text),
            "HOST: process 7272 (not shown) holds a snapshot, which keeps 8 rows"
        );
        assert_eq!(hidden.hide("process 12 (role a"), "process 12 (not shown)");
    }

    #[test]
    fn a_name_that_is_a_word_of_petals_texts_is_hidden_only_as_a_name() {
        let hidden = of("postgres://on:tiger9@until/replica");
        let text = "waits on a standby until it is back; wal_level = replica; on a block";
        assert_eq!(hidden.hide(text), text);
        assert_eq!(hidden.hide("Engine::load: until/replica: x"), "Engine::load: HOST/DATABASE: x");
        let text = "until:5432/replica: role \"on\" waits; permission denied for database replica of \
                    user on; 'ON'@'app', on@until";
        assert_eq!(
            hidden.hide(text),
            "HOST: role \"USER\" waits; permission denied for database DATABASE of user USER; \
             USER@HOST, USER@HOST"
        );
    }

    #[test]
    fn an_error_of_the_users_own_code_is_its_code_alone() {
        let hidden = of("postgres://boss@db1/bench");
        let text =
            "Engine::load: db1: DDL on kassenserver7 refused, ask Erika Mueller (P0001), ticket 7";
        assert_eq!(
            hidden.hide(text),
            "an error of the user's own code (P0001), whose text is not shown"
        );
        assert!(hidden.hide("x: ORA-20010: Meier; ORA-06512").contains("(ORA-20010)"));
        assert!(hidden.hide("x: ORA-01031: insufficient privileges").contains("insufficient"));
    }

    #[test]
    fn a_name_inside_a_word_is_not_it() {
        let hidden = of("postgres://appl:sesame@db/orders");
        assert_eq!(
            hidden.hide("application, appl, sesame count"),
            "application, USER, PASSWORD count"
        );
    }
}
