//! Secrets on the command line: everybody who may list processes can read them there, so petal
//! replaces its command line by one without them.

use std::ffi::OsString;

use super::table::{PARAMETERS, ValueKind};
use super::url::{self, TargetUrl, has_no_password, redact_refused};

/// The arguments as they may be shown; None if there is no secret among them.
pub fn redacted(args: &[OsString]) -> Option<Vec<OsString>> {
    let instead = replacements(args);
    let shown = args.iter().zip(&instead).map(|(arg, instead)| match instead {
        Some(instead) => OsString::from(&instead.text),
        None => arg.clone(),
    });
    instead.iter().any(Option::is_some).then(|| shown.collect())
}

/// Returns true if an argument is a password, or a URL or other text with one. Other texts in the
/// place of a URL are hidden as well.
pub fn holds_password(args: &[OsString]) -> bool {
    replacements(args).iter().flatten().any(|instead| instead.is_of_password)
}

/// An argument without its secret.
struct Replacement {
    text: String,
    /// The argument holds a password; else it may be anything.
    is_of_password: bool,
}

/// `text` as it may be shown: secrets of the arguments that it quotes are overwritten.
pub fn without_secrets(text: &str, args: &[OsString]) -> String {
    let mut shown = text.to_owned();
    for (arg, instead) in args.iter().zip(replacements(args)) {
        let Some(instead) = instead else { continue };
        let arg = arg.to_string_lossy();
        let instead = instead.text;
        shown = shown.replace(&*arg, &instead);
        // clap quotes the value of `--flag=value` without the flag.
        if arg.starts_with("--")
            && let Some((_, value)) = arg.split_once('=')
            && let Some((_, instead)) = instead.split_once('=')
        {
            shown = shown.replace(value, instead);
        }
    }
    shown
}

/// Replacements by argument, for those that hold a secret in clear: a URL with a password, or a
/// secret's flag with a value other than `@FILE`. `None` if the argument may stay.
fn replacements(args: &[OsString]) -> Vec<Option<Replacement>> {
    let mut follows = None;
    args.iter()
        .map(|arg| {
            let text = arg.to_string_lossy();
            if let Some(kind) = follows.take() {
                return redacted_value(kind, &text, true);
            }
            let name = text.strip_prefix("--").unwrap_or_default();
            let (name, value) = match name.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (name, None),
            };
            let hidden = PARAMETERS
                .iter()
                .filter(|parameter| matches!(parameter.kind, ValueKind::Secret | ValueKind::Url))
                .find(|parameter| parameter.flag() == name);
            match (hidden, value) {
                (Some(parameter), Some(value)) => {
                    let instead = redacted_value(parameter.kind, value, true)?;
                    Some(Replacement { text: format!("--{name}={}", instead.text), ..instead })
                }
                (Some(parameter), None) => {
                    follows = Some(parameter.kind);
                    None
                }
                // A URL may also be alone, or follow a flag that only one command has.
                (None, _) => redacted_value(ValueKind::Url, &text, false),
            }
        })
        .collect()
}

/// `is_meant`: the text is in the place of such a value; else it may be anything.
fn redacted_value(kind: ValueKind, text: &str, is_meant: bool) -> Option<Replacement> {
    if kind == ValueKind::Secret {
        let is_file = text.starts_with('@') && !text.starts_with("@@");
        let instead = || Replacement { text: "***".to_owned(), is_of_password: true };
        return (!is_file && !text.is_empty()).then(instead);
    }
    let (name, text) = url::named(text);
    let name = name.map_or_else(String::new, |name| format!("{name}="));
    let instead = |shown: &str, is_of_password| Replacement { text: name + shown, is_of_password };
    match TargetUrl::parse(text) {
        Ok(url) => url.password.is_some().then(|| instead(&url.redacted(), true)),
        Err(_) if has_no_password(text) => None,
        Err(_) if looks_like_login(text) => Some(instead(&redact_refused(text), true)),
        Err(_) => is_meant.then(|| instead(&redact_refused(text), text.contains('@'))),
    }
}

/// True when an argument that may be anything looks like a URL, or other connection text, with a
/// password.
fn looks_like_login(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let scheme = lower.split(':').next().filter(|scheme| scheme.len() < lower.len());
    let is_server = scheme.is_some_and(|scheme| redact_refused(scheme) != "***");
    text.contains('@') && (is_server || text.contains("://"))
        || ["password=", "passwd=", "pwd="].iter().any(|word| lower.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instead(args: &[&str]) -> Vec<Option<String>> {
        let instead = replacements(&args.iter().map(OsString::from).collect::<Vec<_>>());
        instead.into_iter().map(|instead| Some(instead?.text)).collect()
    }

    fn some(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    #[test]
    fn quoted_arguments_are_shown_without_their_secrets() {
        let args =
            ["petal", "--db=postgres://u:pw@h/d", "oracle://u:tiger@h/s"].map(OsString::from);
        let text = "no '--db=postgres://u:pw@h/d', 'postgres://u:pw@h/d' or 'oracle://u:tiger@h/s'";
        let shown = without_secrets(text, &args);
        assert!(!shown.contains("pw") && !shown.contains("tiger"), "{shown}");
        assert!(shown.contains("postgres://u@h/d"), "{shown}");
    }

    #[test]
    fn a_password_behind_a_targets_short_name_is_hidden() {
        let args = ["petal", "--db", "old=postgres://u:pw@h/d", "--db=new=oracle://u:tiger@h/s"];
        let shown = instead(&args);
        assert_eq!(shown[2].as_deref(), Some("old=postgres://u@h/d"));
        assert_eq!(shown[3].as_deref(), Some("--db=new=oracle://u@h/s"));
        assert_eq!(instead(&["petal", "--db", "old=sqlite:d"])[2], None);
    }

    #[test]
    fn secrets_are_found_in_every_place() {
        assert_eq!(
            instead(&[
                "petal",
                "--db",
                "postgres://u:pw@h/d",
                "--sysdba-passwd",
                "tiger",
                "-t",
                "4"
            ]),
            [None, None, some("postgres://u@h/d"), None, some("***"), None, None]
        );
        assert_eq!(
            instead(&["--sysdba-passwd=tiger", "--db=mysql://h/d?password=pw"]),
            [some("--sysdba-passwd=***"), some("--db=mysql://h/d")]
        );
        assert_eq!(instead(&["oracle://u:pw@h/s"]), [some("oracle://u@h/s")]);
        assert_eq!(instead(&["--db", "postgres://u:pw@h:x"]), [None, some("postgres:***")]);
    }

    #[test]
    fn only_a_password_is_worth_a_warning() {
        let holds = |value: &str| holds_password(&["--db", value].map(OsString::from));
        for url in ["postgres://u:pw@h/d", "mssql://sa:pw@h", "u/tiger@h", "mysql://h?password=pw"]
        {
            assert!(holds(url), "{url}");
        }
        for url in ["petal-data", "mongo:x", "postgress://h/d", "postgres://u@h/d"] {
            assert!(!holds(url), "{url}");
        }
        assert!(holds_password(&["--sysdba-passwd=tiger"].map(OsString::from)));
    }

    #[test]
    fn arguments_without_a_secret_stay() {
        for args in [
            &["petal", "run", "--db", "sqlite:data"][..],
            &["--db", "postgres://u@h/d"],
            &["--db", "mssql://sa@host:1433/db"],
            &["--sysdba-passwd", "@/etc/passwd.txt"],
            &["--sysdba-passwd", ""],
            &["report", "a:b@c"],
        ] {
            let args: Vec<OsString> = args.iter().map(OsString::from).collect();
            assert_eq!(redacted(&args), None);
        }
    }

    #[test]
    fn a_secret_that_begins_with_a_doubled_at_is_one() {
        assert_eq!(instead(&["--sysdba-passwd", "@@x"]), [None, some("***")]);
    }

    #[test]
    fn the_arguments_that_are_shown_hold_no_secret() {
        let args = ["petal", "run", "--db", "postgres://u:TIGER@host/d", "-t", "4"];
        let shown = redacted(&args.map(OsString::from)).unwrap();
        assert_eq!(shown, ["petal", "run", "--db", "postgres://u@host/d", "-t", "4"]);
    }
}
