use std::fmt::Write;
use std::io::Write as _;

use insta::assert_snapshot;
use proptest::prelude::*;

use super::*;

fn url(text: &str) -> TargetUrl {
    TargetUrl::parse(text).unwrap_or_else(|error| panic!("{text}: {error:?}"))
}

fn host(host: &str, port: Option<u16>) -> UrlHost {
    UrlHost { host: host.to_owned(), port }
}

#[test]
fn a_folder_with_options() {
    let url = url("sqlite:/data/petal?cache=64M&synchronous=NORMAL");
    assert_eq!(url.scheme, "sqlite");
    assert_eq!(url.path(), Some(std::path::Path::new("/data/petal")));
    assert_eq!(url.options["cache"], "64M");
    assert_eq!(url.options["synchronous"], "NORMAL");
    assert_eq!(url.server(), None);
    assert_eq!(url.redacted(), "sqlite:/data/petal?cache=64M&synchronous=NORMAL");
}

#[test]
fn slashes_before_a_path_are_forgiven() {
    assert_eq!(url("sqlite:///var/data").rest, "/var/data");
    assert_eq!(url("sqlite://data").rest, "data");
    assert_eq!(url("SQLite:data").scheme, "sqlite");
    assert_eq!(url("device:/dev/sd@1:2").rest, "/dev/sd@1:2");
    let home = std::env::var("HOME").unwrap();
    assert_eq!(url("sqlite:~/data").rest, format!("{home}/data"));
    assert_eq!(url("sqlite:~data").rest, "~data");
}

#[test]
fn a_server_with_everything() {
    let url = url("postgresql://us%40er:p%3Aw%2F@h1:5432,[::1]:6,h2/my%20db?sslmode=require");
    assert_eq!(url.scheme, "postgres");
    let server = url.server().unwrap();
    assert_eq!(server.user.as_deref(), Some("us@er"));
    let hosts = [host("h1", Some(5432)), host("::1", Some(6)), host("h2", None)];
    assert_eq!(server.hosts, hosts);
    assert_eq!(server.name, "my db");
    assert_eq!(url.password.as_ref().unwrap().expose(), "p:w/");
    assert_snapshot!(
        url.redacted(),
        @"postgres://us%40er@h1:5432,[::1]:6,h2/my%20db?sslmode=require"
    );
}

#[test]
fn an_at_sign_in_a_password_need_not_be_encoded() {
    let url = url("oracle://scott:ti@ger@host:1521/service");
    assert_eq!(url.password.as_ref().unwrap().expose(), "ti@ger");
    assert_eq!(url.redacted(), "oracle://scott@host:1521/service");
}

#[test]
fn a_password_may_be_an_option_or_without_a_user() {
    let option = url("mysql://h/d?password=p%26w&x=1");
    assert_eq!(option.password.as_ref().unwrap().expose(), "p&w");
    assert_eq!(option.redacted(), "mysql://h/d?x=1");
    assert_eq!(url("mariadb://:pw@h/d").redacted(), "mysql://@h/d");
    assert_eq!(url("mysql://u:pw@h/d%40x").redacted(), "mysql://u@h/d%40x");
    assert_eq!(url("sqlite:a@b?password=pw").redacted(), "sqlite:a@b");
    let none = url("mysql://u:@h/d");
    assert!(none.password.is_none());
    assert_eq!(none.redacted(), "mysql://u@h/d");
    assert!(url("postgres:///d").server().unwrap().hosts.is_empty());
}

#[test]
fn a_secret_may_be_the_first_line_of_a_file() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    write!(file, "tiger\r\nsecond line\n").unwrap();
    let path = file.path().display().to_string();
    assert_eq!(Secret::given(&format!("@{path}")).unwrap().expose(), "tiger");
    let given = url(&format!("postgres://u@h/d?password=@{path}"));
    assert_eq!(given.password.unwrap().expose(), "tiger");
    // Percent-encoded, it belongs to the password, as other programs have it.
    for text in ["postgres://u:%40home@h/d", "postgres://u@h/d?password=%40home"] {
        assert_eq!(url(text).password.unwrap().expose(), "@home", "{text}");
    }
    assert_eq!(Secret::given("@@x").unwrap().expose(), "@x");
    assert_eq!(Secret::given("x@y").unwrap().expose(), "x@y");
}

#[test]
fn a_secret_file_that_cannot_serve_is_refused() {
    let empty = tempfile::NamedTempFile::new().unwrap();
    let path = empty.path().display().to_string();
    let error = Secret::given(&format!("@{path}")).unwrap_err();
    assert_eq!(
        error.rule,
        format!("its secret cannot be read from the file {path}: its first line is empty")
    );
    // It may be a password that begins with @: it is not repeated.
    let error = Secret::given("@no/such/tiger").unwrap_err();
    assert!(!format!("{error:?}").contains("tiger"), "{error:?}");
}

#[test]
fn refusals_say_what_to_write() {
    let mut all = String::new();
    for text in [
        "petal-data",
        "sqlite:",
        "redis:x",
        "postgress://u:p@h/d",
        "tiger:x",
        "postgres:h/d",
        "postgres://u:p@h:x/d",
        "postgres://u:p@h:0/d",
        "postgres://u:p@,h/d",
        "postgres://u:p%zz@h/d",
        "postgres://u:p@h/d?password=q",
        "postgres://h/d?sslpassword=q",
        "postgres://h/d?a",
        "postgres://h/d?a=1&a=2",
        "oracle://u/p@h/s",
        "host=h password=p",
        "sqlite:host=h password=p",
        "postgres://u:4711?a=b@h/d",
    ] {
        let error = TargetUrl::parse(text).expect_err(text);
        let _ = writeln!(all, "{}: {}. {}", redact_refused(text), error.rule, error.hint);
    }
    // An example of every engine.
    let examples: Vec<&str> = support::ENGINES.iter().map(|engine| engine.example).collect();
    let all = all.replace(&examples.join(" or "), "EXAMPLES");
    assert_snapshot!(all, @"
    ***: names no kind of database. For a folder of SQLite files write sqlite:DIR.
    sqlite:***: names no path. Write sqlite:PATH.
    ***: unknown database scheme redis. Write EXAMPLES.
    ***: unknown database scheme postgress. Did you mean postgres?
    ***: unknown database scheme. Write EXAMPLES.
    postgres:***: names no server. Write postgres://user@host:port/name; further hosts after commas.
    postgres:***: has a host that is not host or host:port. Write host:port with a port from 1 to 65535, [address]:port for IPv6, and percent-encode / ? # in a password as %2F %3F %23.
    postgres:***: has a host that is not host or host:port. Write host:port with a port from 1 to 65535, [address]:port for IPv6, and percent-encode / ? # in a password as %2F %3F %23.
    postgres:***: has a host that is not host or host:port. Write host:port with a port from 1 to 65535, [address]:port for IPv6, and percent-encode / ? # in a password as %2F %3F %23.
    postgres:***: has a % that does not begin two hex digits of UTF-8 text. Write %25 for a percent sign.
    postgres:***: it has two passwords. Give one of them.
    postgres:***: an option looks like a secret, and petal hides only `password`. Use the database's own password file for it.
    postgres:***: an option after the ? has no value. Write ?name=value&name=value.
    postgres:***: it has the option a twice. Give it once.
    oracle:***: has an @ after the / that ends its hosts. Write //user:password@host/name, and percent-encode / ? # @ in a password or a name as %2F %3F %23 %40.
    ***: is key=value text, not a URL. Write postgres://user@h/, and a password as user:password@ or in the database's own file.
    sqlite:***: holds key=value connection text with a secret in it. Write its parts as a URL, scheme://user:password@host:port/name.
    postgres:***: an option after the ? has an @ or key=value text in it. Percent-encode / ? # in a password as %2F %3F %23, and an @ that belongs to the option as %40.
    ");
}

#[test]
fn a_target_in_another_programs_form_is_refused_with_the_url_to_write() {
    let mut all = String::new();
    for text in [
        "jdbc:postgresql://db1:5432/app?user=u&password=TIGER",
        "jdbc:mariadb://db1/app",
        "JDBC:mysql://u:TIGER@[::1]:3306/app",
        "jdbc:oracle:thin:@//db1:1521/service",
        "jdbc:oracle:thin:@db1:1521/service",
        "jdbc:oracle:thin:u/TIGER@db1:1521:sid",
        "jdbc:sqlite:/data/x.db",
        "jdbc:postgresql:app",
        "postgresql+psycopg2://u:TIGER@db1,db2:6/app?sslmode=require",
        "mysql+pymysql://u:TIGER@db1/app",
        "sqlite+pysqlite:////data/x.db",
        "host=db1 port=5433 dbname=app user=u password=TIGER",
        "user=u password='TIGER TIGER' dbname=app host='db1,db2' port=1,2",
        "dbname = app options='-c a=b:c'",
        "host=/run/pg dbname=app",
        "service=prod",
    ] {
        let error = TargetUrl::parse(text).expect_err(text);
        let _ = writeln!(all, "{}: {}. {}", redact_refused(text), error.rule, error.hint);
    }
    assert!(!all.contains("TIGER"), "{all}");
    let password = ", and a password as user:password@ or in the database's own file.";
    assert_snapshot!(all.replace(password, " ..."), @r"
    ***: is a JDBC URL. Write postgres://user@db1:5432/app ...
    ***: is a JDBC URL. Write mysql://user@db1/app ...
    ***: is a JDBC URL. Write mysql://user@[::1]:3306/app ...
    ***: is a JDBC URL. Write oracle://user@db1:1521/service ...
    ***: is a JDBC URL. Write oracle://user@db1:1521/service ...
    ***: is a JDBC URL. Write oracle://user@host/service ...
    ***: is a JDBC URL. Write sqlite:DIR.
    ***: is a JDBC URL. Write postgres://user@host/db ...
    ***: names a driver of Python after its scheme. Write postgres://user@db1,db2:6/app ...
    ***: names a driver of Python after its scheme. Write mysql://user@db1/app ...
    ***: names a driver of Python after its scheme. Write sqlite:DIR.
    ***: is key=value text, not a URL. Write postgres://user@db1:5433/app ...
    ***: is key=value text, not a URL. Write postgres://user@db1:1,db2:2/app ...
    ***: is key=value text, not a URL. Write postgres://user@/app ...
    ***: is key=value text, not a URL. Write postgres://user@/app?host=/run/pg ...
    ***: is key=value text, not a URL. Write postgres:///?service=prod ...
    ");
}

#[test]
fn debug_shows_no_password() {
    let debug = format!("{:?}", url("postgres://u:tiger@h/d?sslmode=require"));
    assert!(debug.contains("sslmode") && !debug.contains("tiger"), "{debug}");
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text: String) {
        let _ = TargetUrl::parse(&text);
        redact_refused(&text);
    }

    /// A secret in the places that people use, in URLs and in the forms of other programs:
    /// accepted or refused, nothing of it is shown.
    #[test]
    fn a_secret_in_any_place_of_a_malformed_url_is_not_shown(
        scheme in "(postgres|postgresql|mysql|oracle|Oracle|sqlite|jdbc:oracle:thin|foo)?",
        separator in "(:|://|:///|//|/|)",
        before in "([a-z%]{0,3}[0-9]{0,2}[/:?#]){0,2}",
        place in 0..6_usize,
        inside in "[#?/:%&=]{0,2}",
        after in "(/|//)?[a-z,]{0,3}(:[0-9x]{0,6})?(/[a-z]{0,3})?(\\?[a-z=%&]{0,6})?",
    ) {
        let word = ["password", "PASSWD", "sslpassword", "pwd", "pass", "api_token"];
        let key = word[place];
        let texts = [
            format!("{scheme}{separator}u:{inside}4711TIGER{inside}@{after}"),
            format!("{scheme}{separator}u/{before}TIGER{inside}@{after}"),
            format!("{scheme}{separator}{before}TIGER@{after}"),
            format!("{scheme}{separator}h/d?{key}=TIGER{inside}"),
            format!("{scheme}{separator}host=h {key}=TIGER{inside} user=u"),
            format!("{scheme}{separator}h/d?dbname=host=h%20{key}=TIGER"),
        ];
        for text in texts {
            match TargetUrl::parse(&text) {
                // A name before the @ without a : is a user, and a path may be called anything.
                Ok(url) if url.password.is_none() && (url.server().is_some_and(|server| {
                    server.user.is_some_and(|user| user.contains("TIGER"))
                }) || url.path().is_some_and(|path| path.to_string_lossy().contains('@'))) => {}
                Ok(url) => {
                    prop_assert!(!url.redacted().contains("TIGER"), "{text}: {}", url.redacted());
                    let debug = format!("{url:?}");
                    prop_assert!(!debug.contains("TIGER"), "{text}: {debug}");
                }
                Err(error) => {
                    let shown = format!("{} {error:?}", redact_refused(&text));
                    prop_assert!(!shown.contains("TIGER"), "{text}: {shown}");
                }
            }
        }
    }

    /// A password at any place of a URL, with any other fault, is not shown.
    #[test]
    fn no_password_is_ever_shown(
        before in "(postgres|mysql|oracle|sqlite|foo|)(://|:|/)[a-z]{0,3}",
        colon in "[:?&@/]|\\?password=",
        after in "(@[a-z]{0,3}(:[0-9x]{0,6})?(/[a-z]{0,3})?(\\?[a-z=%]{0,6})?)?",
    ) {
        let text = format!("{before}{colon}TIGER{after}");
        let has_place = text.contains("@") || text.contains("?password=") || text.contains(":TIGER");
        prop_assume!(has_place);
        match TargetUrl::parse(&text) {
            Ok(url) if url.password.is_some() => {
                prop_assert!(!url.redacted().contains("TIGER"), "{}", url.redacted());
                let debug = format!("{url:?}");
                prop_assert!(!debug.contains("TIGER"));
            }
            Ok(_) => {}
            Err(error) => {
                let shown = redact_refused(&text);
                prop_assert!(!shown.contains("TIGER"), "{shown}");
                let debug = format!("{error:?}");
                prop_assert!(!debug.contains("TIGER"));
            }
        }
    }

    #[test]
    fn a_redacted_url_reads_back(
        name in "[a-zA-Z0-9_./-]{1,20}",
        options in prop::collection::btree_map("[a-z]{1,5}", "[^\\x00-\\x1f]{1,8}", 0..3),
    ) {
        prop_assume!(options.keys().all(|key| !key.contains("pwd") && !key.contains("token")));
        let url = TargetUrl { scheme: "postgres".into(), rest: format!("//h/{name}"), password: None, options };
        let again = TargetUrl::parse(&url.redacted()).unwrap();
        prop_assert_eq!(&again.rest, &url.rest);
        prop_assert_eq!(&again.options, &url.options);
    }
}
