//! The input and output of the tokenizer. The output goes to a [`PageBuilder`]. The input leaves
//! out the rows of tables that nobody reads, and cells without markup, which go to the builder as
//! they stand.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;

use html5gum::emitters::callback::{Callback, CallbackEmitter, CallbackEvent};
use html5gum::{Emitter, ForwardingEmitter, Readable as _, Reader, Span, StringReader, Tokenizer};
use memchr::memchr_iter;

use super::PageBuilder;

/// Elements that may stand in the rows of a table that is left out.
const WITHIN_ROWS: [&[u8]; 18] = [
    b"td", b"th", b"tr", b"a", b"br", b"b", b"i", b"u", b"p", b"em", b"div", b"pre", b"font",
    b"span", b"tbody", b"thead", b"strong", b"wbr",
];

/// The content of an empty cell in a report.
const BLANK: &str = "&#160;";

/// State that the reader and the emitter share.
#[derive(Default)]
struct TokenizerState {
    builder: RefCell<PageBuilder>,
    /// Set behind a tag of a table, outside of its cells.
    is_between: Cell<bool>,
}

/// Gives the tokenizer a text without what needs no tokenizer.
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

    /// Goes over rows and cells that are written plainly, and over those that are not read.
    fn rows(&mut self) {
        self.shared.is_between.set(false);
        let mut builder = self.shared.builder.borrow_mut();
        let from = self.at;
        if builder.takes_unread() {
            self.at = end_of_rows(self.text, self.at).unwrap_or(self.at);
        }
        while let Some((part, to)) = part(self.text, self.at) {
            self.at = to;
            match part {
                TablePart::Row => builder.start_row(),
                TablePart::RowEnd => builder.end_cell(),
                TablePart::Cell { is_heading, text } => {
                    builder.start_cell(is_heading, 1);
                    builder.string(text.as_bytes());
                    builder.end_cell();
                }
            }
            if builder.takes_unread() {
                self.at = end_of_rows(self.text, self.at).unwrap_or(self.at);
            }
        }
        if self.at > from {
            self.inner = self.text.get(self.at..).unwrap_or_default().to_reader();
        }
    }
}

/// A part of a table that has no entity, no other element and no attribute that is read.
enum TablePart<'t> {
    Row,
    RowEnd,
    Cell { is_heading: bool, text: &'t str },
}

/// The part at this place behind blanks, and where it ends.
fn part(text: &str, from: usize) -> Option<(TablePart<'_>, usize)> {
    let rest = text.get(from..)?.trim_ascii_start();
    let behind = |part, rest: &str| Some((part, text.len() - rest.len()));
    if let Some(rest) = rest.strip_prefix("<tr>") {
        return behind(TablePart::Row, rest);
    } else if let Some(rest) = rest.strip_prefix("</tr>") {
        return behind(TablePart::RowEnd, rest);
    }
    let is_heading = rest.starts_with("<th");
    let (attributes, rest) =
        rest.strip_prefix(if is_heading { "<th" } else { "<td" })?.split_once('>')?;
    let (text, rest) = rest.split_once('<')?;
    let text = if text == BLANK { "" } else { text };
    let rest = rest.strip_prefix("/td>").or_else(|| rest.strip_prefix("/th>"))?;
    let is_even = |quote: u8| attributes.bytes().filter(|&byte| byte == quote).count() % 2 == 0;
    let is_plain = (attributes.is_empty() || attributes.starts_with(' '))
        && is_even(b'"')
        && is_even(b'\'')
        && !attributes.bytes().any(|byte| byte.is_ascii_uppercase())
        && !attributes.contains("colspan")
        && !text.bytes().any(|byte| matches!(byte, b'&' | 0));
    if is_plain { behind(TablePart::Cell { is_heading, text }, rest) } else { None }
}

/// The place of the `</table>` that follows, if nothing but rows stands before it.
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
        if !is_text && !WITHIN_ROWS.iter().any(|known| name.eq_ignore_ascii_case(known)) {
            return None;
        }
    }
    None
}

impl Reader for TokenizerInput<'_> {
    type Error = Infallible;

    #[inline(always)]
    fn read_byte(&mut self) -> Result<Option<u8>, Infallible> {
        if self.shared.is_between.get() {
            self.rows();
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
        if self.shared.is_between.get() {
            self.rows();
        }
        let read = self.inner.read_until(needle, buffer)?;
        self.at += read.map_or(0, <[u8]>::len);
        Ok(read)
    }
}

/// A start tag, with the attributes that are read.
#[derive(Default)]
pub struct StartTag {
    pub name: Vec<u8>,
    pub colspan: Vec<u8>,
    pub summary: Vec<u8>,
    attribute: Vec<u8>,
}

/// Hands the tags of a text, and what stands between them, to a builder. With `hides`, the content
/// of `style`, `script` and their like is no markup.
pub fn tokenize(text: &str, hides: bool) -> PageBuilder {
    let shared = TokenizerState::default();
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
            CallbackEvent::String { value } => builder.string(value),
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
                builder.start(tag);
                self.is_between.set(matches!(tag.name.as_slice(), b"tr" | b"table"));
            }
            CallbackEvent::EndTag { name } => {
                builder.end(name);
                self.is_between.set(matches!(*name, b"td" | b"th" | b"tr" | b"table"));
            }
            _ => {}
        }
    }
}

/// Looks for no errors of the markup, which nobody reads.
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
