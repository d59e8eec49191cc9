use std::fmt::Write;

use insta::assert_snapshot;
use proptest::prelude::*;

use super::*;

fn nothing(_: &str) -> Option<String> {
    None
}

fn read(text: &str) -> Conf {
    parse(text, &nothing, &|_| true)
}

/// The only value of `KEY` in a file without faults.
fn value(text: &str) -> String {
    let conf = read(text);
    assert_eq!(conf.errors, [], "{text:?}");
    conf.last("KEY").expect("KEY is set").value.clone()
}

fn faults(conf: &Conf) -> String {
    conf.errors.iter().fold(String::new(), |mut all, (line, fault)| {
        let _ = writeln!(all, "{line}: {}. {}", fault.rule, fault.hint);
        all
    })
}

#[test]
fn values_are_read_as_a_shell_reads_them() {
    for (text, expected) in [
        ("KEY=25", "25"),
        ("KEY=", ""),
        ("KEY=''", ""),
        ("  KEY = 25  ", "25"),
        ("KEY= 25", "25"),
        ("export KEY=25", "25"),
        ("KEY=25 # comment", "25"),
        ("KEY= # comment", ""),
        ("KEY=#5", "#5"),
        ("KEY=a#b", "a#b"),
        ("KEY='a # b'", "a # b"),
        (r#"KEY="a # b"#, ""),
        (r#"KEY=a"b c"'d e'f"#, "ab cd ef"),
        (r"KEY=a\ b\#c", "a b#c"),
        (r#"KEY="a\"b\\c\d\$e""#, r#"a"b\c\d$e"#),
        (r"KEY='a\b'", r"a\b"),
        ("KEY=a\\\nb", "ab"),
        ("KEY=\"a\\\nb\"", "ab"),
        ("KEY=a$", "a$"),
        ("KEY=a$%b", "a$%b"),
        ("KEY='$X'", "$X"),
        ("KEY=25\r\n", "25"),
        ("\u{feff}KEY=25\n", "25"),
        ("KEY=1;", "1"),
        ("KEY=1\nKEY=2", "2"),
        ("KEY=x=y", "x=y"),
        ("KEY=~x", "~x"),
    ] {
        if text == r#"KEY="a # b"# {
            assert_eq!(read(text).errors.len(), 1, "an open quote is a fault");
            continue;
        }
        assert_eq!(value(text), expected, "{text:?}");
    }
}

/// The judge of "as a shell reads it" is a shell.
#[test]
fn a_shell_reads_the_same() {
    let texts = [
        "KEY=25 # comment",
        "KEY=#5",
        "KEY=a#b",
        "KEY='a # b'",
        r#"KEY=a"b c"'d e'f"#,
        r"KEY=a\ b\#c",
        r#"KEY="a\"b\\c\d\$e\`""#,
        r"KEY='a\b'",
        r"KEY='it'\''s'",
        "KEY=a\\\nb",
        "KEY=\"a\\\nb\"",
        "KEY=a$",
        "KEY=a$%b",
        "A=1 KEY=2 B=3",
        "export A=1 KEY=2 B",
        "A=x; KEY=$A/y${A}z",
        "KEY=${NONE:-2 5}",
        "KEY=x=y",
        "KEY=~x",
        "A=5\nKEY=\"$A$\"",
        "KEY=*",
        "KEY={a,b}",
        "KEY=1 \\\n  A=2",
        "KEY=!x",
        "KEY= A=1",
    ];
    for text in texts {
        let script = format!("{text}\nprintf %s \"$KEY\"");
        let shell = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
        assert!(shell.status.success(), "{text:?}");
        let expected = String::from_utf8(shell.stdout).unwrap();
        assert_eq!(value(&format!("{text}\n")), expected, "{text:?}");
    }
}

#[test]
fn several_assignments_may_share_a_line() {
    let conf = read("A=1 B=2; C=3 # D=4\nE= F=6\nexport G=7 H=8 A B");
    let all: Vec<(String, String)> =
        conf.entries.into_iter().map(|entry| (entry.key, entry.value)).collect();
    let expected =
        [("A", "1"), ("B", "2"), ("C", "3"), ("E", ""), ("F", "6"), ("G", "7"), ("H", "8")];
    assert_eq!(all, expected.map(|(key, value)| (key.to_owned(), value.to_owned())));
    assert_eq!(conf.errors, []);
}

#[test]
fn lines_are_counted_through_continuations_and_comments() {
    let conf = read("# one\n\nA=x\\\ny\nexport A \\\n  B\nC=3");
    let lines: Vec<u32> = conf.entries.iter().map(|entry| entry.line).collect();
    assert_eq!(lines, [3, 7]);
    assert_eq!(conf.errors, []);
}

#[test]
fn variables_come_from_the_file_above_and_then_the_environment() {
    let environment = |name: &str| match name {
        "HOME" => Some("/home/dba".to_owned()),
        "BASE" => Some("environment".to_owned()),
        _ => None,
    };
    let text = "EARLY=$BASE\nBASE=file\nA=$BASE/x\nB=\"${BASE}s\"\nC=$HOME\nD=~/x\n\
                E=${NONE:-25}\nF=${BASE:-no}\nG=${G:=25}\nH=${BASE:=no}\nI=${J:=26}\nK=sqlite:~/x";
    let conf = parse(text, &environment, &|_| true);
    assert_eq!(conf.errors, []);
    for (key, expected) in [
        ("EARLY", "environment"),
        ("A", "file/x"),
        ("B", "files"),
        ("C", "/home/dba"),
        ("D", "/home/dba/x"),
        ("E", "25"),
        ("F", "file"),
        ("G", "25"),
        ("H", "file"),
        ("I", "26"),
        ("J", "26"),
        ("K", "sqlite:/home/dba/x"),
    ] {
        assert_eq!(conf.last(key).unwrap().value, expected, "{key}");
    }
    assert!(conf.referred.contains("BASE") && !conf.referred.contains("A"));
}

#[test]
fn words_that_only_export_are_read_as_a_shell_reads_them() {
    let conf = read(
        "set -a\nexport A=1; export B=2\ndeclare -x C=3\ntypeset D=4\nreadonly E=5 F=6\n\
         declare -x\nset +a # done\nset=7",
    );
    assert_eq!(conf.errors, []);
    let values: Vec<&str> = conf.entries.iter().map(|entry| entry.value.as_str()).collect();
    assert_eq!(values, ["1", "2", "3", "4", "5", "6", "7"]);
    let conf = read("declare -i A=2*3\ntypeset -u B=x\nset -e\nset -- 1 2\nC=3");
    assert_snapshot!(faults(&conf), @"
    1: has an option that changes the meaning of values. Write KEY=VALUE.
    2: has an option that changes the meaning of values. Write KEY=VALUE.
    3: is shell other than KEY=VALUE, and petal runs no shell. Write the setting out as KEY=VALUE, or put # before the line.
    4: is shell other than KEY=VALUE, and petal runs no shell. Write the setting out as KEY=VALUE, or put # before the line.
    ");
}

#[test]
fn unsupported_shell_is_refused_by_line_and_reading_goes_on() {
    let conf = read(
        "A=1\nif true; then\n  B=2\nfi\nC=$(date)\nD=`date`\nE=$NONE\nF=a b\nG='open\nH=a&b\n\
         I=${A%x}\nJ=$1\nexport 5\nK==1\nL=\"$(date)\"\nM=2\nN=$((8 * 1024))",
    );
    let keys: Vec<&str> = conf.entries.iter().map(|entry| entry.key.as_str()).collect();
    assert_eq!(keys, ["A", "B", "M"]);
    assert_snapshot!(faults(&conf), @r"
    2: is shell other than KEY=VALUE, and petal runs no shell. Write the setting out as KEY=VALUE, or put # before the line.
    4: is shell other than KEY=VALUE, and petal runs no shell. Write the setting out as KEY=VALUE, or put # before the line.
    5: asks a shell to run a command, which petal does not. Write the command's result here.
    6: asks a shell to run a command, which petal does not. Write the command's result here.
    7: refers to $NONE, which neither the file above nor the environment sets. Set it before this line, or put the value in single quotes if the $ is meant.
    8: has more after the value than a comment. Put the value in single quotes.
    9: has a ' that is not closed on its line. Close it, or write \' for the character itself.
    10: has & outside quotes, which a shell takes for itself. Put the value in single quotes.
    11: has a ${...} that is more than ${NAME}, ${NAME:-text} or ${NAME:=text}. Write the value out.
    12: has a $ that a shell would expand, but only $NAME and ${NAME} are read. Write \$ for a dollar sign, or put the value in single quotes.
    13: has something after export that is neither a name nor KEY=VALUE. Write export KEY=VALUE, or export with names only.
    14: has == where = is meant. Write KEY=VALUE.
    15: asks a shell to run a command, which petal does not. Write the command's result here.
    17: has $((...)), and arithmetic is not evaluated. Write its result here.
    ");
}

#[test]
fn a_fault_never_quotes_the_value() {
    let text = "A=\"secret$secret\"\nA='secret\nA=secret secret\nA=secret(secret\nA=$secret\n\
                A=secret${secret}secret\nA=${secret%secret}\nA=`secret`\nsecret";
    let conf = parse(text, &nothing, &|key| key != "A");
    assert_eq!(conf.errors.len(), 9);
    assert!(!faults(&conf).contains("secret"), "{}", faults(&conf));
    let debug = format!("{:?}", read("A=secret"));
    assert!(!debug.contains("secret"), "{debug}");
}

#[test]
fn a_quote_within_quotes_is_read_as_a_shell_reads_it() {
    assert_eq!(read(r"KEY='it'\''s'").last("KEY").unwrap().value, "it's");
    assert_eq!(read("KEY=80M").last("KEY").unwrap().value, "80M");
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "(?s).{0,400}") {
        read(&text);
    }

    #[test]
    fn any_text_of_the_grammar_s_own_signs_is_read_or_refused(
        text in "(?s)([A-C_=#'\"\\\\$`{}();& \t\r\n~]|export |:-|KEY=){0,60}",
    ) {
        let conf = read(&text);
        let lines = u32::try_from(text.lines().count()).unwrap() + 1;
        prop_assert!(conf.errors.iter().all(|(line, _)| (1..=lines).contains(line)));
        prop_assert!(conf.entries.iter().all(|entry| (1..=lines).contains(&entry.line)));
    }

    #[test]
    fn quoted_text_reads_back(text in "[^\n\r]{0,80}") {
        let line = format!("KEY='{}' # comment", text.replace('\'', r"'\''"));
        let conf = read(&line);
        prop_assert_eq!(&conf.errors, &[]);
        prop_assert_eq!(&conf.last("KEY").unwrap().value, &text);
    }

    #[test]
    fn the_last_line_of_a_key_wins(values in prop::collection::vec("[a-z0-9]{0,8}", 1..8)) {
        let text = values.iter().map(|value| format!("KEY={value}\n")).collect::<String>();
        let conf = read(&text);
        let last = conf.last("KEY").unwrap();
        prop_assert_eq!(&last.value, values.last().unwrap());
        prop_assert_eq!(last.line as usize, values.len());
    }
}
