//! Pages that a browser saved as one file (.mht): finds the report among the parts. This module
//! knows nothing about reports except which part is a text.

use base64::Engine as _;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use memchr::memmem;

/// Bytes within which the head of such a file ends.
const HEAD_MAX: usize = 64 << 10;
/// Maximum number of parts read from a mail.
const PARTS_MAX: usize = 1000;
/// Maximum depth of nested parts.
const DEPTH_MAX: usize = 4;
/// Base64 as mails contain it: the padding may be missing.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Returns the parts of a mail with their names if it has attachments, or `None` if the bytes are
/// not such a mail.
pub fn attachments(bytes: &[u8]) -> Option<Vec<(String, Vec<u8>)>> {
    let mut has_attachments = false;
    let named = |(at, (part, bytes)): (usize, (MailPart<'_>, Vec<u8>))| {
        let place = header(&part.head, "content-disposition").unwrap_or_default();
        let name = parameter(&place, "filename").or_else(|| parameter(&part.kind, "name"));
        has_attachments |= name.is_some() || place.to_ascii_lowercase().starts_with("attachment");
        (name.unwrap_or(format!("part {}", at + 1)), bytes)
    };
    let decoded = parts(bytes)?.into_iter().filter_map(|part| {
        let bytes = decoded(&part)?;
        Some((part, bytes))
    });
    let all: Vec<(String, Vec<u8>)> = decoded.take(PARTS_MAX).enumerate().map(named).collect();
    has_attachments.then_some(all)
}

/// Returns the first HTML or plain text of a MIME file, or `None` if the bytes are not such a file.
pub fn text_part(bytes: &[u8]) -> Option<Vec<u8>> {
    let is_text = |part: &MailPart<'_>| {
        let kind = part.kind.to_ascii_lowercase();
        kind.starts_with("text/html") || kind.starts_with("text/plain")
    };
    parts(bytes)?.iter().filter(|part| is_text(part)).find_map(decoded)
}

/// A part of a mail that has no parts itself.
struct MailPart<'b> {
    head: Vec<String>,
    /// The content type of the part.
    kind: String,
    body: &'b [u8],
}

/// Returns the parts of a MIME file, or `None` if the bytes are not such a file.
fn parts(bytes: &[u8]) -> Option<Vec<MailPart<'_>>> {
    let (head, _) = split_head(bytes.get(..HEAD_MAX).unwrap_or(bytes))?;
    header(&head, "mime-version")?;
    let mut parts = Vec::new();
    collect(bytes, DEPTH_MAX, &mut parts);
    Some(parts)
}

fn collect<'b>(bytes: &'b [u8], depth: usize, parts: &mut Vec<MailPart<'b>>) {
    let Some((head, body)) = split_head(bytes) else { return };
    let kind = header(&head, "content-type").unwrap_or_default();
    if !kind.to_ascii_lowercase().starts_with("multipart/") {
        parts.push(MailPart { head, kind, body });
    } else if let Some((mark, depth)) = parameter(&kind, "boundary").zip(depth.checked_sub(1)) {
        let mark = format!("--{mark}");
        between(body, mark.as_bytes()).for_each(|inner| collect(inner, depth, parts));
    }
}

/// Decodes a part's transfer encoding.
fn decoded(part: &MailPart<'_>) -> Option<Vec<u8>> {
    let body = part.body;
    let encoding = header(&part.head, "content-transfer-encoding").unwrap_or_default();
    Some(match encoding.to_ascii_lowercase().as_str() {
        "quoted-printable" => quoted_printable(body),
        "base64" => {
            let is_digit =
                |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(**byte, b'+' | b'/');
            let mut digits: Vec<u8> = body.iter().filter(is_digit).copied().collect();
            // A truncated file ends within a group of four.
            if digits.len() % 4 == 1 {
                digits.pop();
            }
            BASE64.decode(digits).ok()?
        }
        _ => body.to_vec(),
    })
}

/// Splits into the lines before the first blank one, with continuation lines joined, and the rest.
fn split_head(bytes: &[u8]) -> Option<(Vec<String>, &[u8])> {
    let mut head: Vec<String> = Vec::new();
    let mut rest = bytes;
    loop {
        let to = rest.iter().position(|&byte| byte == b'\n')?;
        let (line, after) = (rest.get(..to)?, rest.get(to + 1..)?);
        let line = String::from_utf8_lossy(line).trim_end().to_owned();
        rest = after;
        if line.is_empty() {
            // Blank lines may precede the first header line.
            if head.is_empty() {
                continue;
            }
            return Some((head, rest));
        }
        match head.last_mut() {
            Some(last) if line.starts_with([' ', '\t']) => last.push_str(&line),
            _ => head.push(line),
        }
    }
}

fn header(head: &[String], name: &str) -> Option<String> {
    let of = |line: &String| {
        let (key, value) = line.split_once(':')?;
        key.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
    };
    head.iter().find_map(of)
}

/// Returns a parameter of a header, such as `boundary` of `multipart/related; type="text/html";
/// boundary="xyz"`.
fn parameter(value: &str, name: &str) -> Option<String> {
    value.split(';').find_map(|part| {
        let (key, value) = part.split_once('=')?;
        let value = value.trim().trim_matches('"').to_owned();
        (key.trim().eq_ignore_ascii_case(name) && !value.is_empty()).then_some(value)
    })
}

/// Returns the texts between the lines that begin with `mark`.
fn between<'b>(body: &'b [u8], mark: &[u8]) -> impl Iterator<Item = &'b [u8]> {
    let is_line = |at: &usize| *at == 0 || body.get(at - 1) == Some(&b'\n');
    let starts: Vec<usize> = memmem::find_iter(body, mark).filter(is_line).collect();
    let ends: Vec<usize> = starts.iter().skip(1).copied().chain([body.len()]).collect();
    starts.into_iter().zip(ends).filter_map(move |(start, end)| {
        let part = body.get(start..end)?;
        let line = part.iter().position(|&byte| byte == b'\n')?;
        part.get(line + 1..)
    })
}

/// Decodes quoted-printable: `=3D` is a byte, `=` at a line's end joins it with the next.
fn quoted_printable(body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(body.len());
    let mut rest = body;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'=' {
            bytes.push(byte);
            continue;
        }
        let hex = |byte: Option<&u8>| char::from(*byte?).to_digit(16);
        match (hex(rest.first()), hex(rest.get(1))) {
            (Some(high), Some(low)) => {
                bytes.push((high * 16 + low) as u8);
                rest = rest.get(2..).unwrap_or_default();
            }
            _ if rest.starts_with(b"\r\n") => rest = rest.get(2..).unwrap_or_default(),
            _ if rest.starts_with(b"\n") => rest = rest.get(1..).unwrap_or_default(),
            _ => bytes.push(b'='),
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn saved(encoding: &str, body: &str) -> String {
        format!(
            "From: <Saved by a browser>\r\nSubject: AWR\r\nMIME-Version: 1.0\r\n\
             Content-Type: multipart/related;\r\n\ttype=\"text/html\";\r\n\tboundary=\"--=_x\"\r\n\
             \r\nA page.\r\n----=_x\r\nContent-Type: image/png\r\n\r\nabc\r\n----=_x\r\n\
             Content-Type: text/html; charset=utf-8\r\nContent-Transfer-Encoding: {encoding}\r\n\
             \r\n{body}\r\n----=_x--\r\n"
        )
    }

    #[test]
    fn the_text_is_found_and_decoded() {
        let text = |file: String| {
            let found = text_part(file.as_bytes()).map(|bytes| String::from_utf8(bytes).unwrap());
            found.map(|text| text.trim_end().to_owned())
        };
        let html = Some("<td class=\"x\">1,234é</td>".to_owned());
        let quoted = "<td class=3D\"x\">1,2=\r\n34=C3=A9</td>";
        assert_eq!(text(saved("quoted-printable", quoted)), html);
        let base64 = "PHRkIGNsYXNzPSJ4Ij4xLDIz\r\nNMOpPC90ZD4=";
        assert_eq!(text(saved("base64", base64)), html);
        assert_eq!(text(saved("8bit", html.as_deref().unwrap())), html);
        // Cut anywhere behind the head: what is there.
        let whole = saved("base64", base64);
        for to in whole.find("PHRk").unwrap()..whole.len() {
            assert!(text_part(&whole.as_bytes()[..to]).is_some(), "{to}");
        }
    }

    #[test]
    fn a_mails_attachments_are_found_by_their_names() {
        let mail = "Received: by x\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"b\"\n\n\
                    --b\nContent-Type: text/plain\n\nSee the reports.\n--b\n\
                    Content-Type: application/octet-stream; name=\"awr.html\"\n\
                    Content-Transfer-Encoding: base64\n\nPHRkPg==\n--b\n\
                    Content-Type: text/plain\nContent-Disposition: attachment;\n filename=sp.txt\n\
                    Content-Transfer-Encoding: quoted-printable\n\na=3Db\n--b--\n";
        let found = attachments(mail.as_bytes()).unwrap();
        let shown: Vec<(&str, &str)> = found
            .iter()
            .map(|(name, bytes)| (name.as_str(), std::str::from_utf8(bytes).unwrap().trim_end()))
            .collect();
        assert_eq!(
            shown,
            [("part 1", "See the reports."), ("awr.html", "<td>"), ("sp.txt", "a=b")]
        );
        // A page that a browser saved has parts, and no attachment.
        assert_eq!(attachments(saved("8bit", "x").as_bytes()), None);
        for to in 0..mail.len() {
            attachments(&mail.as_bytes()[..to]);
        }
    }

    #[test]
    fn a_file_that_is_no_mail_is_left_alone() {
        for text in ["", "\n\n", "STATSPACK report for\n\nContent-Type: text/html\n\nx", "<html>\n"]
        {
            assert_eq!(text_part(text.as_bytes()), None, "{text}");
        }
        let endless = format!(
            "MIME-Version: 1.0\n{}",
            "Content-Type: multipart/mixed; boundary=a\n\n--a\n".repeat(50)
        );
        assert_eq!(text_part(endless.as_bytes()), None);
    }
}
