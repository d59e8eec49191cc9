//! SVG elements as text: a class per color, so that a page can restyle it, and the light shade as
//! an attribute, so that a drawing works alone. Coordinates are pixels with one decimal.

use std::fmt::Write;

use super::palette::Color;

/// Mean advance of a letter in a sans-serif font, in parts of its size. Digits are as wide.
pub(super) const LETTER: f64 = 0.58;

/// The nearest tenth of a pixel.
pub(super) fn round_to_tenth(pixels: f64) -> f64 {
    (pixels * 10.0).round() / 10.0
}

/// Formats pixels with one decimal, if there is one.
pub(super) fn pixels(value: f64) -> String {
    // Adding zero drops the sign of a negative one.
    (round_to_tenth(value) + 0.0).to_string()
}

/// Escapes text for markup. A character that XML forbids is shown as a replacement character.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\t' | '\n' | '\r' => escaped.push(' '),
            letter if letter.is_control() || matches!(letter, '\u{fffe}' | '\u{ffff}') => {
                escaped.push('\u{fffd}');
            }
            letter => escaped.push(letter),
        }
    }
    escaped
}

/// The attributes of a stroke.
pub(super) fn stroke(color: Color, width: f64) -> String {
    let (class, hex) = (color.class(), color.hex());
    format!(" class=\"l-{class}\" stroke=\"{hex}\" stroke-width=\"{}\"", pixels(width))
}

/// The attributes of an area or a word.
pub(super) fn fill(color: Color, opacity: f64) -> String {
    let (class, hex) = (color.class(), color.hex());
    match opacity < 1.0 {
        true => format!(" class=\"f-{class}\" fill=\"{hex}\" fill-opacity=\"{opacity}\""),
        false => format!(" class=\"f-{class}\" fill=\"{hex}\""),
    }
}

/// A circle's element without its paint and its end.
pub(super) fn circle((x, y): (f64, f64), radius: f64) -> String {
    format!("<circle cx=\"{}\" cy=\"{}\" r=\"{}\"", pixels(x), pixels(y), pixels(radius))
}

/// The commands of a path through these points. Points in one place would only make it larger.
pub(super) fn path(points: impl IntoIterator<Item = (f64, f64)>) -> String {
    let mut written = String::new();
    let mut last = None;
    for (x, y) in points {
        let point = (round_to_tenth(x), round_to_tenth(y));
        if last != Some(point) {
            let command = if last.is_none() { 'M' } else { 'L' };
            // Writing to a string does not fail.
            let _ = write!(written, "{command}{} {}", pixels(x), pixels(y));
            last = Some(point);
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_becomes_markup() {
        assert_eq!(
            escape("<a b='1' c=\"2\">&\u{1}\n"),
            "&lt;a b=&#39;1&#39; c=&quot;2&quot;&gt;&amp;\u{fffd} "
        );
    }

    #[test]
    fn coordinates_are_tenths_of_a_pixel() {
        let written = [0.0, 0.7, 1.04, -1.5, 123.36, -0.04].map(pixels);
        assert_eq!(written, ["0", "0.7", "1", "-1.5", "123.4", "0"]);
    }

    #[test]
    fn a_path_names_no_place_twice_in_a_row() {
        assert_eq!(path([(1.0, 2.0), (1.04, 2.0), (3.0, 4.0), (1.0, 2.0)]), "M1 2L3 4L1 2");
    }
}
