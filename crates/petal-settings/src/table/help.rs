//! The table as people read it: `petal help parameters`, and docs/parameters.md.

use std::fmt::Write;

use super::{Group, Parameter, Support, TakenBy, ValueKind, support};
use crate::paragraph::paragraph;

const WIDTH_MIN: usize = 40;

/// Returns the help for a terminal of `width` columns.
pub fn help_text(width: usize) -> String {
    let width = width.max(WIDTH_MIN);
    let mut text = String::new();
    wrap(&mut text, 0, width, INTRODUCTION);
    for (group, title) in Group::ALL {
        let _ = write!(text, "\n{title}\n");
        for parameter in group.parameters() {
            entry(&mut text, parameter, width);
        }
    }
    text
}

const INTRODUCTION: &str = "Every parameter is a line KEY=VALUE of slob.conf, an environment \
    variable KEY or PETAL_KEY, and a flag. Precedence: flag, then environment, then file, then \
    default. An empty value counts as unset; an empty \
    flag takes the default. Sizes take K, M, G and T, powers of 1024. petal replay takes the \
    parameters of a run except the profile's, with SCALE as --data-scale; petal calibrate takes BLOCK_SZ \
    (--block-size), STORAGE_CACHE, DIRECT_IO, OUT and CALIBRATIONS.";

fn entry(text: &mut String, parameter: &Parameter, width: usize) {
    let _ = writeln!(text, "  {}  --{}", parameter.key, parameter.flag());
    wrap(text, 6, width, &format!("{}.", capitalised(parameter.meaning)));
    let values = format!(
        "{}. Default: {}. For {}.",
        capitalised(&parameter.values()),
        parameter.default_words(),
        parameter.taken_by.words()
    );
    wrap(text, 6, width, &values);
    for (how, engines) in exceptions(parameter) {
        wrap(text, 6, width, &format!("{engines}: {how}."));
    }
}

/// Returns the ways in which engines treat a parameter otherwise, each with its engines.
fn exceptions(parameter: &Parameter) -> Vec<(String, String)> {
    let mut ways: Vec<(String, String)> = Vec::new();
    for engine in support::ENGINES {
        let Some(how) = described(engine.support(parameter)) else { continue };
        match ways.iter_mut().find(|(known, _)| *known == how) {
            Some((_, engines)) => *engines = format!("{engines}, {}", engine.product),
            None => ways.push((how, engine.product.to_owned())),
        }
    }
    ways
}

/// Says in words how an engine treats it; `None` if there is nothing to say.
fn described(support: Support) -> Option<String> {
    match support {
        Support::Full => None,
        Support::Remark(text) => Some(text.to_owned()),
        Support::Only { rule, .. } => Some(rule.to_owned()),
        Support::NoEffect { reason } => {
            Some(format!("accepted from a file without effect, refused as a flag; {reason}"))
        }
        Support::Refused { rule, hint } => {
            Some(format!("refused; it {rule}. {}", hint.trim_end_matches('.')))
        }
    }
}

/// A text as it begins a sentence. A text that begins with a value, such as `server:` or `sqlite:DIR`,
/// stays as it is.
pub(crate) fn capitalised(text: &str) -> String {
    let is_value = text.split_whitespace().next().is_some_and(|word| word.contains(':'));
    let mut characters = text.chars();
    match characters.next().filter(|_| !is_value) {
        Some(first) => first.to_uppercase().chain(characters).collect(),
        None => text.to_owned(),
    }
}

/// Appends words in lines of at most `width` columns, each indented; a longer word has its own.
fn wrap(text: &mut String, indent: usize, width: usize, words: &str) {
    let indent = " ".repeat(indent);
    text.push_str(&paragraph(&indent, &indent, words, width));
}

/// The page docs/parameters.md: shorter than the help, without ranges, conditions and reasons.
pub fn markdown() -> String {
    let mut page = String::from("# Parameters\n\n");
    page.push_str(
        "This page is made from petal's table of parameters. `petal help parameters` also has the \
         range and conditions of each value, and the engines that treat a parameter otherwise. petal \
         refuses a parameter that an engine cannot follow, and never ignores one.\n\n",
    );
    page.push_str(INTRODUCTION);
    page.push_str(
        "\n\nThe flag of RUN_TIME is `--run-time`, and so on. In parentheses are each default, and \
         the commands if they are not run and sweep (all: every command that opens a target). A \
         secret written as `@FILE` is the first line of that file. A rate is a number per second, or \
         steps such as '0:500 600:1000', by seconds from 0.\n",
    );
    for (group, title) in Group::ALL {
        let _ = write!(page, "\n## {title}\n\n");
        for parameter in group.parameters() {
            markdown_entry(&mut page, parameter);
        }
    }
    page
}

fn markdown_entry(page: &mut String, parameter: &Parameter) {
    let commands = match parameter.taken_by {
        TakenBy::Run => String::new(),
        TakenBy::All => " (all)".to_owned(),
        other => format!(" ({})", other.words()),
    };
    let (key, default, meaning) = (parameter.key, parameter.default_words(), parameter.meaning);
    let described = format!("{default} {meaning}");
    let kind = match parameter.kind {
        ValueKind::Seconds { .. } => "seconds".to_owned(),
        ValueKind::Bytes => "bytes".to_owned(),
        ValueKind::OneOf(words) if words.iter().all(|word| described.contains(word)) => {
            String::new()
        }
        ValueKind::Extent => "blocks, or bytes with a unit".to_owned(),
        ValueKind::WarmUp | ValueKind::BlockSize | ValueKind::OneOf(_) => parameter.kind.values(),
        _ => String::new(),
    };
    let values = match kind.is_empty() {
        true => String::new(),
        false => format!(". {}", capitalised(&kind)),
    };
    let _ = writeln!(page, "- `{key}` ({default}): {meaning}{values}{commands}.");
}
