//! The tokenizer's two ends: what it emits goes to a [`Builder`] without copies of attributes that
//! nobody reads, and what it reads leaves out the rest of tables that nobody reads.

use std::cell::Cell;
use std::convert::Infallible;

use html5gum::{Emitter, Error, Readable as _, Reader, State, StringReader, naive_next_state};

use super::Builder;

/// What may stand in the rows of a table that is left out.
const WITHIN_ROWS: [&[u8]; 18] = [
    b"td", b"th", b"tr", b"a", b"br", b"b", b"i", b"u", b"p", b"em", b"div", b"pre", b"font",
    b"span", b"tbody", b"thead", b"strong", b"wbr",
];

/// Gives the tokenizer a text, and leaves out rows when asked to.
pub struct SkippingReader<'t> {
    text: &'t str,
    at: usize,
    inner: StringReader<'t>,
    /// Set after a `<tr>` to leave out what follows in its table.
    skips: &'t Cell<bool>,
}

impl<'t> SkippingReader<'t> {
    pub fn new(text: &'t str, skips: &'t Cell<bool>) -> Self {
        Self { text, at: 0, inner: text.to_reader(), skips }
    }

    #[cold]
    fn skip(&mut self) {
        self.skips.set(false);
        if let Some(to) = end_of_rows(self.text, self.at) {
            self.at = to;
            self.inner = self.text.get(to..).unwrap_or_default().to_reader();
        }
    }
}

/// The place of the `</table>` that follows, if nothing but rows stands before it.
fn end_of_rows(text: &str, from: usize) -> Option<usize> {
    for (at, _) in text.get(from..)?.match_indices('<') {
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

impl Reader for SkippingReader<'_> {
    type Error = Infallible;

    #[inline(always)]
    fn read_byte(&mut self) -> Result<Option<u8>, Infallible> {
        if self.skips.get() {
            self.skip();
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
        if self.skips.get() {
            self.skip();
        }
        let read = self.inner.read_until(needle, buffer)?;
        self.at += read.map_or(0, <[u8]>::len);
        Ok(read)
    }
}

/// Puts tags together and hands them, and the text between them, to a builder.
pub struct Tags<'b> {
    pub builder: &'b mut Builder,
    pub skips: &'b Cell<bool>,
    /// The content of `style`, `script` and their like is no markup.
    pub hides: bool,
    tag: Tag,
    is_end: bool,
    last_start: Vec<u8>,
    attribute: Vec<u8>,
}

/// A start tag, with the attributes that are read.
#[derive(Default)]
pub struct Tag {
    pub name: Vec<u8>,
    pub colspan: Vec<u8>,
    pub summary: Vec<u8>,
}

impl<'b> Tags<'b> {
    pub fn new(builder: &'b mut Builder, skips: &'b Cell<bool>, hides: bool) -> Self {
        let (tag, last_start, attribute) = Default::default();
        Self { builder, skips, hides, tag, is_end: false, last_start, attribute }
    }

    fn init_tag(&mut self, is_end: bool) {
        self.is_end = is_end;
        self.tag.name.clear();
        self.tag.colspan.clear();
        self.tag.summary.clear();
    }
}

impl Emitter for Tags<'_> {
    type Token = Infallible;

    #[inline]
    fn should_emit_errors(&mut self) -> bool {
        false
    }

    fn emit_string(&mut self, text: &[u8]) {
        self.builder.string(text);
    }

    fn init_start_tag(&mut self) {
        self.init_tag(false);
    }

    fn init_end_tag(&mut self) {
        self.init_tag(true);
    }

    fn push_tag_name(&mut self, name: &[u8]) {
        self.tag.name.extend_from_slice(name);
    }

    fn init_attribute(&mut self) {
        self.attribute.clear();
    }

    fn push_attribute_name(&mut self, name: &[u8]) {
        self.attribute.extend_from_slice(name);
    }

    fn push_attribute_value(&mut self, value: &[u8]) {
        match self.attribute.as_slice() {
            b"colspan" => self.tag.colspan.extend_from_slice(value),
            b"summary" => self.tag.summary.extend_from_slice(value),
            _ => {}
        }
    }

    fn emit_current_tag(&mut self) -> Option<State> {
        self.last_start.clear();
        if self.is_end {
            self.builder.end(&self.tag.name);
            return None;
        }
        self.skips.set(self.builder.start(&self.tag));
        self.last_start.extend_from_slice(&self.tag.name);
        self.hides.then(|| naive_next_state(&self.tag.name)).flatten()
    }

    fn current_is_appropriate_end_tag_token(&mut self) -> bool {
        self.is_end && !self.last_start.is_empty() && self.tag.name == self.last_start
    }

    fn set_last_start_tag(&mut self, name: Option<&[u8]>) {
        self.last_start = name.unwrap_or_default().to_vec();
    }

    fn pop_token(&mut self) -> Option<Infallible> {
        None
    }

    // Not read: errors, comments, the document's type.
    fn emit_error(&mut self, _: Error) {}
    fn emit_eof(&mut self) {}
    fn init_comment(&mut self) {}
    fn push_comment(&mut self, _: &[u8]) {}
    fn emit_current_comment(&mut self) {}
    fn set_self_closing(&mut self) {}
    fn init_doctype(&mut self) {}
    fn set_force_quirks(&mut self) {}
    fn push_doctype_name(&mut self, _: &[u8]) {}
    fn set_doctype_public_identifier(&mut self, _: &[u8]) {}
    fn set_doctype_system_identifier(&mut self, _: &[u8]) {}
    fn push_doctype_public_identifier(&mut self, _: &[u8]) {}
    fn push_doctype_system_identifier(&mut self, _: &[u8]) {}
    fn emit_current_doctype(&mut self) {}
}
