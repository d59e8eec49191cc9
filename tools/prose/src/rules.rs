//! The rules that a program can hold.

/// Words that a sentence of a page or a message may have.
const WORDS_MAX: usize = 25;

/// Words and phrases that no text has.
const BANNED: [&str; 25] = [
    "tell",
    "tells",
    "telling",
    "told",
    "beside",
    "anew",
    "bears",
    "bear",
    "whoever",
    "whom",
    "stands",
    "stand",
    "in vain",
    "as good as",
    "of its own",
    "by which",
    "that of the",
    "those of the",
    "is none",
    "are none",
    "comes to",
    "so many-th",
    "none where",
    "true where",
    "false where",
];

/// Words with which no doc comment begins.
const FRAGMENTS: [&str; 42] = [
    "Such", "When", "While", "Until", "Before", "After", "Between", "Below", "Over", "Per", "Once",
    "Not", "What", "Whom", "Whose", "Who", "Whoever", "Of", "As", "Where", "Those", "One", "Its",
    "In", "On", "By", "For", "From", "To", "With", "Without", "Within", "At", "So", "How", "Which",
    "That", "It", "They", "Than", "Whatever", "Nobody",
];

/// Words that may follow "what": they make no clause in place of a noun, or are petal's question.
const AFTER_WHAT: [&str; 3] = ["to", "latency", "limits"];

/// A place that breaks a rule.
pub struct Fault {
    pub line: usize,
    pub rule: String,
    pub text: String,
}

/// Checks one sentence of a page or a message.
pub fn sentence(line: usize, text: &str, faults: &mut Vec<Fault>) {
    let words = text.split_whitespace().filter(|word| word.chars().any(char::is_alphanumeric));
    let count = words.count();
    if count > WORDS_MAX {
        faults.push(fault(line, format!("{count} words, {WORDS_MAX} at most"), text));
    }
    banned(line, text, faults);
}

/// Checks the words of a sentence, whatever its length.
pub fn banned(line: usize, text: &str, faults: &mut Vec<Fault>) {
    let words: Vec<String> = text
        .replace("{what}", "")
        .split(|c: char| !(c.is_alphanumeric() || c == '-' || c == '\'' || c == '_'))
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    let plain = format!(" {} ", words.join(" "));
    for phrase in BANNED {
        if plain.contains(&format!(" {phrase} ")) {
            faults.push(fault(line, format!("\"{phrase}\""), text));
        }
    }
    let is_question = text.trim_end().ends_with('?');
    for pair in words.windows(2).filter(|_| !is_question) {
        if let [what, next] = pair
            && what == "what"
            && !AFTER_WHAT.contains(&next.as_str())
        {
            faults.push(fault(
                line,
                format!("a clause with \"what {next}\" in place of a noun"),
                text,
            ));
        }
    }
    if text.trim_start().starts_with("Where ") {
        faults.push(fault(line, "\"Where\" for \"If\"".to_owned(), text));
    }
}

/// Checks the first sentence of a doc comment.
pub fn comment_start(line: usize, text: &str, faults: &mut Vec<Fault>) {
    let first = text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    if FRAGMENTS.contains(&first) || text.starts_with("The same") {
        faults.push(fault(line, format!("a doc comment that begins with \"{first}\""), text));
    }
}

fn fault(line: usize, rule: String, text: &str) -> Fault {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    Fault { line, rule, text: text.chars().take(160).collect() }
}
