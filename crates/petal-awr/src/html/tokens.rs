//! Input and output of the tokenizer. The output goes to a [`PageBuilder`]. The input skips the
//! rows of unused tables, and passes plain markup directly to the builder.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::convert::Infallible;

use html5gum::emitters::callback::{Callback, CallbackEmitter, CallbackEvent};
use html5gum::{Emitter, ForwardingEmitter, Readable as _, Reader, Span, StringReader, Tokenizer};
use memchr::{memchr, memchr_iter, memchr2};

use super::{COLSPAN_MAX, PageBuilder, is_block};

/// Text that reports put in an empty cell.
const BLANK: &str = "&#160;";

/// State that the reader and the emitter share.
#[derive(Default)]
struct TokenizerState {
    builder: RefCell<PageBuilder>,
    /// Set if the tokenizer's input skips unused rows and plain markup.
    leaves_out: bool,
    /// Set after a tag whose content is markup: only there may the input skip anything.
    is_behind_tag: Cell<bool>,
}

/// Gives the tokenizer the text without unused rows and plain markup.
struct TokenizerInput<'t> {
    text: &'t str,
    at: usize,
    inner: StringReader<'t>,
    shared: &'t TokenizerState,
}

impl<'t> TokenizerInput<'t> {
    fn new(text: &'t str, shared: &'t TokenizerState) -> Self {
        Self { text, at: 0, inner: text.to_reader(), shared }
    }

    /// Passes plain markup to the builder, and skips rows that are not read.
    fn plain(&mut self) {
        self.shared.is_behind_tag.set(false);
        let mut builder = self.shared.builder.borrow_mut();
        let from = self.at;
        loop {
            if builder.takes_unread() {
                self.at = end_of_rows(self.text, self.at).unwrap_or(self.at);
            }
            let rest = self.text.get(self.at..).unwrap_or_default();
            let Some((shown, tag)) = split_at(rest, b'<') else { break };
            let Some(shown) = plain_text(shown) else { break };
            builder.string(&shown);
            self.at = self.text.len() - tag.len() - 1;
            let Some((tag, behind)) = plain_tag(tag) else { break };
            match tag {
                PlainTag::Start { name, summary } => builder.start(name, 1, summary),
                PlainTag::End(name) => builder.end(name),
            }
            self.at = self.text.len() - behind.len();
        }
        if self.at > from {
            self.inner = self.text.get(self.at..).unwrap_or_default().to_reader();
        }
    }
}

/// Splits at the first occurrence of a byte, which is ASCII.
fn split_at(text: &str, byte: u8) -> Option<(&str, &str)> {
    let at = memchr(byte, text.as_bytes())?;
    Some((text.get(..at)?, text.get(at + 1..)?))
}

/// Returns a text that has no entities except blanks.
fn plain_text(text: &str) -> Option<Cow<'_, str>> {
    let is_plain = |text: &str| !text.bytes().any(|byte| matches!(byte, b'&' | 0));
    if is_plain(text) {
        return Some(Cow::Borrowed(text));
    }
    let blank = text.replace(BLANK, " ");
    is_plain(&blank).then_some(Cow::Owned(blank))
}

/// A tag none of whose attributes are read, except the summary of a table.
enum PlainTag<'t> {
    Start { name: &'t str, summary: &'t str },
    End(&'t str),
}

/// Returns the tag after a `<`, if it is plain, and the rest of the text.
fn plain_tag(text: &str) -> Option<(PlainTag<'_>, &str)> {
    let (tag, behind) = split_at(text, b'>')?;
    let start = tag.strip_prefix('/').unwrap_or(tag);
    let length = start.bytes().take_while(u8::is_ascii_alphanumeric).count();
    let (name, attributes) = start.split_at_checked(length)?;
    if !holds_markup(name) || !ends_with_its_quotes(attributes.as_bytes()) {
        return None;
    }
    let tag = match name {
        _ if start.len() < tag.len() => PlainTag::End(name),
        "td" | "th" if may_span(attributes.as_bytes()) => return None,
        "table" => PlainTag::Start { name, summary: plain_summary(attributes)? },
        _ => PlainTag::Start { name, summary: "" },
    };
    Some((tag, behind))
}

/// True if attributes end before the `>`: each quoted value follows its name and is closed.
fn ends_with_its_quotes(attributes: &[u8]) -> bool {
    let is_apart = |rest: &[u8]| matches!(rest.first(), None | Some(b' ' | b'/'));
    let mut rest = attributes;
    while let Some(at) = memchr2(b'"', b'\'', rest) {
        let (name, quoted) = rest.split_at(at);
        let name = name.strip_suffix(b"=").filter(|name| !name.contains(&b'='));
        let is_named = name.and_then(|name| name.last()).is_some_and(u8::is_ascii_alphanumeric);
        let value_end = quoted.get(1..).and_then(|value| memchr(quoted[0], value));
        let Some(end) = value_end.filter(|_| is_named) else { return false };
        rest = quoted.get(end + 2..).unwrap_or_default();
        if !is_apart(rest) {
            return false;
        }
    }
    is_apart(attributes)
}

/// True if a cell's attributes may hold a `colspan`.
fn may_span(attributes: &[u8]) -> bool {
    attributes
        .windows(4)
        .any(|part| matches!(part, [b's' | b'S', b'p' | b'P', b'a' | b'A', b'n' | b'N']))
}

/// Returns a table's summary as reports write it; without one, blank.
fn plain_summary(attributes: &str) -> Option<&str> {
    let Some((_, summary)) = attributes.split_once(" summary=") else {
        return (!attributes.to_ascii_lowercase().contains("summary")).then_some("");
    };
    let (summary, _) = summary.strip_prefix('"')?.split_once('"')?;
    (!summary.contains(['&', '\0'])).then_some(summary)
}

/// True for common elements whose content is markup.
fn holds_markup(name: &str) -> bool {
    is_within_rows(name.as_bytes())
        || is_block(name)
        || matches!(name.as_bytes(), b"table" | b"li" | [b'h', b'1'..=b'6'])
}

/// True for elements that may be in the rows of a skipped table.
fn is_within_rows(name: &[u8]) -> bool {
    matches!(name, b"td" | b"th" | b"tr" | b"tbody" | b"thead" | b"a" | b"br" | b"b" | b"i" | b"u")
        || matches!(name, b"p" | b"em" | b"div" | b"pre" | b"font" | b"span" | b"strong" | b"wbr")
}

/// Returns the position of the next `</table>`, if only rows precede it.
fn end_of_rows(text: &str, from: usize) -> Option<usize> {
    for at in memchr_iter(b'<', text.as_bytes().get(from..)?) {
        let tag = text.as_bytes().get(from + at + 1..)?;
        let name = tag.strip_prefix(b"/").unwrap_or(tag);
        let length = name.iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
        let is_end = name.len() < tag.len();
        let name = name.get(..length)?;
        if is_end && name.eq_ignore_ascii_case(b"table") {
            return Some(from + at);
        }
        let is_text = name.is_empty() && tag.first() != Some(&b'!');
        if !is_text && !is_within_rows(name) && !is_within_rows(&name.to_ascii_lowercase()) {
            return None;
        }
    }
    None
}

impl Reader for TokenizerInput<'_> {
    type Error = Infallible;

    #[inline(always)]
    fn read_byte(&mut self) -> Result<Option<u8>, Infallible> {
        if self.shared.is_behind_tag.get() {
            self.plain();
        }
        let byte = self.inner.read_byte()?;
        self.at += usize::from(byte.is_some());
        Ok(byte)
    }

    #[inline(always)]
    fn try_read_string(&mut self, text: &[u8], is_exact: bool) -> Result<bool, Infallible> {
        let is_read = self.inner.try_read_string(text, is_exact)?;
        self.at += if is_read { text.len() } else { 0 };
        Ok(is_read)
    }

    #[inline(always)]
    fn read_until<'b>(
        &'b mut self,
        needle: &[u8],
        buffer: &'b mut [u8; 4],
    ) -> Result<Option<&'b [u8]>, Infallible> {
        if self.shared.is_behind_tag.get() {
            self.plain();
        }
        let read = self.inner.read_until(needle, buffer)?;
        self.at += read.map_or(0, <[u8]>::len);
        Ok(read)
    }
}

/// A start tag that the tokenizer reads, with the attributes that are used.
#[derive(Default)]
struct StartTag {
    name: Vec<u8>,
    colspan: Vec<u8>,
    summary: Vec<u8>,
    attribute: Vec<u8>,
}

/// Passes the tags of a text, and the text between them, to a builder. With `hides`, the content of
/// `style`, `script` and similar elements is skipped; with `leaves_out` false, the tokenizer reads
/// all.
pub fn tokenize(text: &str, hides: bool, leaves_out: bool) -> PageBuilder {
    let shared = TokenizerState { leaves_out, ..TokenizerState::default() };
    let mut tag = StartTag::default();
    let mut emitter = CallbackEmitter::new(|event: CallbackEvent<'_>, _: Span<()>| {
        shared.event(&mut tag, &event);
        None
    });
    emitter.naively_switch_states(hides);
    let reader = TokenizerInput::new(text, &shared);
    Tokenizer::new_with_emitter(reader, WithoutErrors(emitter)).for_each(drop);
    shared.builder.into_inner()
}

impl TokenizerState {
    fn event(&self, tag: &mut StartTag, event: &CallbackEvent<'_>) {
        let mut builder = self.builder.borrow_mut();
        match event {
            CallbackEvent::String { value } => builder.string(&String::from_utf8_lossy(value)),
            CallbackEvent::OpenStartTag { name } => {
                *tag = StartTag { name: name.to_vec(), ..StartTag::default() };
            }
            CallbackEvent::AttributeName { name } => tag.attribute = name.to_vec(),
            CallbackEvent::AttributeValue { value } => match tag.attribute.as_slice() {
                b"colspan" => tag.colspan = value.to_vec(),
                b"summary" => tag.summary = value.to_vec(),
                _ => {}
            },
            CallbackEvent::CloseStartTag { .. } => {
                let name = String::from_utf8_lossy(&tag.name);
                builder.start(&name, colspan(&tag.colspan), &String::from_utf8_lossy(&tag.summary));
                self.is_behind_tag.set(self.leaves_out && holds_markup(&name));
            }
            CallbackEvent::EndTag { name } => {
                builder.end(&String::from_utf8_lossy(name));
                self.is_behind_tag.set(self.leaves_out);
            }
            _ => {}
        }
    }
}

fn colspan(value: &[u8]) -> usize {
    let span = std::str::from_utf8(value).ok().and_then(|text| text.trim().parse().ok());
    span.unwrap_or(1).clamp(1, COLSPAN_MAX)
}

/// Ignores errors of the markup, which petal does not use.
struct WithoutErrors<F: Callback<Infallible, ()>>(CallbackEmitter<F>);

impl<F: Callback<Infallible, ()>> ForwardingEmitter for WithoutErrors<F> {
    type Token = Infallible;

    fn inner(&mut self) -> &mut impl Emitter<Token = Infallible> {
        &mut self.0
    }

    #[inline]
    fn should_emit_errors(&mut self) -> bool {
        false
    }
}
