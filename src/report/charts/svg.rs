//! What the chart crate draws into: SVG with a class per color, so that a page can restyle it, and
//! the light shade as an attribute, so that it stands alone. One step is a tenth of a pixel.

use std::cell::RefCell;
use std::fmt::{self, Write};
use std::rc::Rc;

use plotters_backend::text_anchor::{HPos, VPos};
use plotters_backend::{
    BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingBackend, DrawingErrorKind,
    FontStyle, FontTransform,
};

use super::palette::class_of;

/// Steps per pixel: the crate's coordinates are whole numbers.
pub(super) const STEPS: f64 = 10.0;
/// Mean advance of a letter in a sans-serif font, in parts of its size. Digits are as wide.
pub(super) const LETTER: f64 = 0.58;

/// The drawing so far; the chart writes its groups into it between the crate's elements.
pub(super) type Shared = Rc<RefCell<String>>;

pub(super) struct Svg {
    pub(super) out: Shared,
    /// In steps.
    pub(super) size: (u32, u32),
}

type Drawn = Result<(), DrawingErrorKind<fmt::Error>>;

/// Pixels, one decimal where there is one.
pub(super) fn pixels(steps: i32) -> String {
    let (whole, tenth) = (steps.abs() / 10, steps.abs() % 10);
    let sign = if steps < 0 { "-" } else { "" };
    if tenth == 0 { format!("{sign}{whole}") } else { format!("{sign}{whole}.{tenth}") }
}

/// Text as markup may hold it. What XML forbids is shown as a replacement character.
pub fn escape(text: &str) -> String {
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

/// `class`, color and opacity of a stroke (`l`) or an area (`f`).
fn paint(kind: char, color: &BackendColor) -> String {
    let property = if kind == 'l' { "stroke" } else { "fill" };
    let (red, green, blue) = color.rgb;
    let class =
        class_of(color.rgb).map_or(String::new(), |name| format!(" class=\"{kind}-{name}\""));
    let opacity = if color.alpha < 1.0 {
        format!(" {property}-opacity=\"{}\"", (color.alpha * 100.0).round() / 100.0)
    } else {
        String::new()
    };
    format!("{class} {property}=\"#{red:02x}{green:02x}{blue:02x}\"{opacity}")
}

fn stroke<S: BackendStyle>(style: &S) -> String {
    let width = f64::from(style.stroke_width()) / STEPS;
    format!("{} stroke-width=\"{width}\"", paint('l', &style.color()))
}

fn area<S: BackendStyle>(style: &S, is_filled: bool) -> String {
    if is_filled { paint('f', &style.color()) } else { format!(" fill=\"none\"{}", stroke(style)) }
}

impl Svg {
    fn write(&mut self, element: &str) -> Drawn {
        let mut out =
            self.out.try_borrow_mut().map_err(|_| DrawingErrorKind::DrawingError(fmt::Error))?;
        out.write_str(element).map_err(DrawingErrorKind::DrawingError)
    }
}

fn path(points: impl IntoIterator<Item = BackendCoord>) -> String {
    let mut written = String::new();
    let mut last = None;
    for (x, y) in points {
        // Points in one place would only make the file larger.
        if last == Some((x, y)) {
            continue;
        }
        written.push(if last.is_none() { 'M' } else { 'L' });
        written.push_str(&pixels(x));
        written.push(' ');
        written.push_str(&pixels(y));
        last = Some((x, y));
    }
    written
}

impl DrawingBackend for Svg {
    type ErrorType = fmt::Error;

    fn get_size(&self) -> (u32, u32) {
        self.size
    }

    fn ensure_prepared(&mut self) -> Drawn {
        Ok(())
    }

    fn present(&mut self) -> Drawn {
        Ok(())
    }

    fn draw_pixel(&mut self, (x, y): BackendCoord, color: BackendColor) -> Drawn {
        self.draw_rect((x, y), (x + 1, y + 1), &color, true)
    }

    fn draw_line<S: BackendStyle>(
        &mut self,
        from: BackendCoord,
        to: BackendCoord,
        style: &S,
    ) -> Drawn {
        self.draw_path([from, to], style)
    }

    fn draw_rect<S: BackendStyle>(
        &mut self,
        upper_left: BackendCoord,
        bottom_right: BackendCoord,
        style: &S,
        fill: bool,
    ) -> Drawn {
        let (left, right) = (upper_left.0.min(bottom_right.0), upper_left.0.max(bottom_right.0));
        let (top, bottom) = (upper_left.1.min(bottom_right.1), upper_left.1.max(bottom_right.1));
        self.write(&format!(
            "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"{}/>",
            pixels(left),
            pixels(top),
            pixels(right - left),
            pixels(bottom - top),
            area(style, fill)
        ))
    }

    fn draw_path<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        points: I,
        style: &S,
    ) -> Drawn {
        self.write(&format!("<path d=\"{}\" fill=\"none\"{}/>", path(points), stroke(style)))
    }

    fn draw_circle<S: BackendStyle>(
        &mut self,
        (x, y): BackendCoord,
        radius: u32,
        style: &S,
        fill: bool,
    ) -> Drawn {
        let radius = f64::from(radius) / STEPS;
        self.write(&format!(
            "<circle cx=\"{}\" cy=\"{}\" r=\"{radius}\"{}/>",
            pixels(x),
            pixels(y),
            area(style, fill)
        ))
    }

    fn fill_polygon<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        corners: I,
        style: &S,
    ) -> Drawn {
        self.write(&format!("<path d=\"{}Z\"{}/>", path(corners), area(style, true)))
    }

    fn draw_text<T: BackendTextStyle>(
        &mut self,
        text: &str,
        style: &T,
        (x, y): BackendCoord,
    ) -> Drawn {
        let size = style.size();
        // Capitals and digits are about 0.72 of the size above the base line.
        let shift = match style.anchor().v_pos {
            VPos::Top => 0.74,
            VPos::Center => 0.36,
            VPos::Bottom => -0.06,
        };
        let anchor = match style.anchor().h_pos {
            HPos::Left => "",
            HPos::Center => " text-anchor=\"middle\"",
            HPos::Right => " text-anchor=\"end\"",
        };
        let turn = match style.transform() {
            FontTransform::Rotate270 => {
                format!(" transform=\"rotate(-90 {} {})\"", pixels(x), pixels(y))
            }
            _ => String::new(),
        };
        let weight =
            if matches!(style.style(), FontStyle::Bold) { " font-weight=\"600\"" } else { "" };
        self.write(&format!(
            "<text x=\"{}\" y=\"{}\" font-size=\"{}\"{anchor}{weight}{turn}{}>{}</text>",
            pixels(x),
            pixels(y + (size * shift).round() as i32),
            (size / STEPS * 10.0).round() / 10.0,
            paint('f', &style.color()),
            escape(text)
        ))
    }

    fn estimate_text_size<T: BackendTextStyle>(
        &self,
        text: &str,
        style: &T,
    ) -> Result<(u32, u32), DrawingErrorKind<fmt::Error>> {
        let size = style.size();
        let width = text.chars().count() as f64 * size * LETTER;
        Ok((width.ceil() as u32, size.ceil() as u32))
    }
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
    fn steps_are_tenths_of_a_pixel() {
        assert_eq!([0, 7, 10, -15, 1234].map(pixels), ["0", "0.7", "1", "-1.5", "123.4"]);
    }
}
