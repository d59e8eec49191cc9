//! The table as a slob.conf: every parameter with its default, commented out.

use std::fmt::Write;

use super::help::capitalised;
use super::{Group, Parameter};
use crate::paragraph::paragraph;

const WIDTH: usize = 78;

const INTRODUCTION: &str = "A slob.conf of petal. Every parameter is here with its default, \
    commented out. A file of SLOB's own works as well. Flags and the environment are stronger than \
    this file. `petal help parameters` says which engine supports what.";

/// A slob.conf that changes nothing: as a file to begin with.
pub fn conf_file() -> String {
    let mut text = comment(INTRODUCTION);
    for (group, title) in Group::ALL {
        let _ = write!(text, "\n{}", comment(&format!("== {title} ==")));
        for parameter in group.parameters() {
            let _ =
                write!(text, "\n{}#{}={}\n", about(parameter), parameter.key, parameter.default);
        }
    }
    text
}

fn about(parameter: &Parameter) -> String {
    let (meaning, values) = (capitalised(parameter.meaning), capitalised(&parameter.values()));
    let default = match parameter.default_words {
        Some(words) => format!(" Default: {words}."),
        None => String::new(),
    };
    comment(&format!("{meaning}. {values}.{default} For {}.", parameter.taken_by.words()))
}

fn comment(words: &str) -> String {
    paragraph("# ", "# ", words, WIDTH)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conf;
    use crate::table::PARAMETERS;

    #[test]
    fn every_parameter_is_listed_once_and_commented_out() {
        let text = conf_file();
        for parameter in PARAMETERS {
            let line = format!("#{}={}", parameter.key, parameter.default);
            assert_eq!(text.lines().filter(|other| *other == line).count(), 1, "{line}");
        }
        assert!(text.lines().all(|line| line.is_empty() || line.starts_with('#')));
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH));
    }

    #[test]
    fn without_its_marks_each_line_reads_as_the_default() {
        let text = conf_file();
        let lines = text.lines().filter_map(|line| line.strip_prefix('#'));
        let assignments: Vec<&str> = lines.filter(|line| !line.starts_with(' ')).collect();
        let conf = conf::parse(&assignments.join("\n"), &|_| None, &|_| false);
        assert!(conf.errors.is_empty(), "{:?}", conf.errors);
        for parameter in PARAMETERS {
            let entry = conf.last(parameter.key).unwrap();
            assert_eq!(entry.value, parameter.default, "{}", parameter.key);
        }
    }
}
