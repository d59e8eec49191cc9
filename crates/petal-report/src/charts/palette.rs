//! The colors of every chart. A color here is a role with two shades: the light one is written into
//! the drawing, so that it works alone anywhere; a page restyles the role by its class for dark.
//!
//! The series take Okabe and Ito's hues, which people who see few colors still distinguish,
//! darkened for white paper and lightened for black. Colour is never alone: markers, dashes and
//! labels carry the same information.

/// Role of a stroke, an area or a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Color {
    Text,
    Muted,
    Grid,
    Axis,
    Paper,
    /// Any number; they repeat after [`SERIES`].
    Series(usize),
}

struct Shade {
    class: &'static str,
    light: u32,
    dark: u32,
}

/// Series before the colors repeat.
pub const SERIES: usize = 7;

const BASE: [Shade; 5] = [
    Shade { class: "text", light: 0x1b_2430, dark: 0xe6_eaf0 },
    Shade { class: "muted", light: 0x5b_6675, dark: 0x9a_a7b8 },
    Shade { class: "grid", light: 0xe3_e7ed, dark: 0x2b_3542 },
    Shade { class: "axis", light: 0xa9_b3c0, dark: 0x52_6072 },
    Shade { class: "paper", light: 0xff_ffff, dark: 0x15_1b23 },
];

const HUES: [Shade; SERIES] = [
    Shade { class: "s0", light: 0x00_6fb0, dark: 0x56_b4e9 },
    Shade { class: "s1", light: 0xd0_5700, dark: 0xff_8f52 },
    Shade { class: "s2", light: 0x00_8f68, dark: 0x2d_c79a },
    Shade { class: "s3", light: 0xb0_4f93, dark: 0xe8_9cc9 },
    Shade { class: "s4", light: 0xa0_7000, dark: 0xf0_b840 },
    Shade { class: "s5", light: 0x4a_5568, dark: 0xb4_c0cf },
    Shade { class: "s6", light: 0x6d_4fc4, dark: 0xb3_9dff },
];

impl Color {
    fn shade(self) -> &'static Shade {
        match self {
            Self::Text => &BASE[0],
            Self::Muted => &BASE[1],
            Self::Grid => &BASE[2],
            Self::Axis => &BASE[3],
            Self::Paper => &BASE[4],
            Self::Series(number) => &HUES[number % SERIES],
        }
    }

    /// Returns the class that a page uses to restyle it.
    pub fn class(self) -> &'static str {
        self.shade().class
    }

    /// Returns the color in CSS notation, on white.
    pub fn hex(self) -> String {
        hex(self.shade().light)
    }
}

/// The style sheet of all roles: variables for light and dark, and the classes that use them.
/// `html[data-theme]` overrides the system's preference; paper is always light.
pub fn css() -> String {
    let shades = || BASE.iter().chain(&HUES);
    let variables = |pick: fn(&Shade) -> u32| -> String {
        shades().map(|shade| format!("--{}:{};", shade.class, hex(pick(shade)))).collect()
    };
    let (light, dark) = (variables(|shade| shade.light), variables(|shade| shade.dark));
    let classes: String = shades()
        .map(|shade| {
            let name = shade.class;
            format!(".l-{name}{{stroke:var(--{name})}}.f-{name}{{fill:var(--{name})}}\n")
        })
        .collect();
    format!(
        ":root{{color-scheme:light;{light}}}\n\
         @media (prefers-color-scheme:dark){{:root{{color-scheme:dark;{dark}}}}}\n\
         :root[data-theme=light]{{color-scheme:light;{light}}}\n\
         :root[data-theme=dark]{{color-scheme:dark;{dark}}}\n\
         @media print{{:root,:root[data-theme]{{color-scheme:light;{light}}}}}\n{classes}"
    )
}

fn hex(color: u32) -> String {
    format!("#{color:06x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// WCAG 2: relative luminance of sRGB.
    fn luminance(color: u32) -> f64 {
        let [_, red, green, blue] = color.to_be_bytes();
        let linear = |value: u8| {
            let share = f64::from(value) / 255.0;
            if share <= 0.040_45 { share / 12.92 } else { ((share + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue)
    }

    fn contrast(a: u32, b: u32) -> f64 {
        let (a, b) = (luminance(a) + 0.05, luminance(b) + 0.05);
        if a > b { a / b } else { b / a }
    }

    #[test]
    fn every_color_has_enough_contrast() {
        let paper = Color::Paper.shade();
        let limits = [(Color::Text, 7.0), (Color::Muted, 4.5)];
        let series = (0..SERIES).map(|number| (Color::Series(number), 3.0));
        for (color, least) in limits.into_iter().chain(series) {
            let shade = color.shade();
            let found = (contrast(shade.light, paper.light), contrast(shade.dark, paper.dark));
            assert!(found.0 >= least && found.1 >= least, "{}: {found:?}", shade.class);
        }
    }
}
