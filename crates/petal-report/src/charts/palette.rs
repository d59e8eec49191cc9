//! The colors of every chart. A color here is a role with two shades: the light one is written into
//! the drawing, so that it works alone anywhere; a page restyles the role by its class for dark.
//!
//! The series begin with Okabe and Ito's hues, darkened for white paper and lightened for black; a
//! search chose the others, so that people without one kind of cones distinguish all of them. Colour
//! is never alone: markers, dashes and labels carry the same information.

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
    Shade { class: "s1", light: 0xa0_3f1f, dark: 0xc4_713f },
    Shade { class: "s2", light: 0x00_8f68, dark: 0x2d_c79a },
    Shade { class: "s3", light: 0xab_88ad, dark: 0xa3_4f86 },
    Shade { class: "s4", light: 0xc3_6c00, dark: 0xee_a01d },
    Shade { class: "s5", light: 0x53_4969, dark: 0x83_edf4 },
    Shade { class: "s6", light: 0x78_67f1, dark: 0x5c_6ff7 },
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

    fn linear(value: u8) -> f64 {
        let share = f64::from(value) / 255.0;
        if share <= 0.040_45 { share / 12.92 } else { ((share + 0.055) / 1.055).powf(2.4) }
    }

    /// WCAG 2: relative luminance of sRGB.
    fn luminance(color: u32) -> f64 {
        let [_, red, green, blue] = color.to_be_bytes();
        0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue)
    }

    fn contrast(a: u32, b: u32) -> f64 {
        let (a, b) = (luminance(a) + 0.05, luminance(b) + 0.05);
        if a > b { a / b } else { b / a }
    }

    /// Linear sRGB as people see it without cones for red, without cones for green, and with all
    /// (Machado, Oliveira and Fernandes 2009).
    const SIGHTS: [[[f64; 3]; 3]; 3] = [
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ],
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ],
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
    ];

    /// CIE 1976 L*a*b* of a color, as seen.
    fn lab(color: u32, sight: &[[f64; 3]; 3]) -> [f64; 3] {
        let [_, red, green, blue] = color.to_be_bytes();
        let rgb = [red, green, blue].map(linear);
        let times =
            |row: &[f64; 3], of: &[f64; 3]| row.iter().zip(of).map(|(a, b)| a * b).sum::<f64>();
        let seen = [0, 1, 2].map(|at| times(&sight[at], &rgb).clamp(0.0, 1.0));
        let xyz = [[0.4339, 0.3762, 0.1899], [0.2126, 0.7152, 0.0722], [0.0177, 0.1095, 0.8728]];
        let root = |value: f64| match value > 0.008_856 {
            true => value.cbrt(),
            false => 7.787 * value + 16.0 / 116.0,
        };
        let [x, y, z] = xyz.map(|row| root(times(&row, &seen)));
        [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
    }

    #[test]
    fn series_differ_for_people_who_see_few_colors() {
        let differ = |a: u32, b: u32, sight| {
            let both = lab(a, sight).into_iter().zip(lab(b, sight));
            both.map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt()
        };
        for (at, one) in HUES.iter().enumerate() {
            for (other, sight) in
                HUES[..at].iter().flat_map(|it| SIGHTS.iter().map(move |s| (it, s)))
            {
                let found =
                    [differ(one.light, other.light, sight), differ(one.dark, other.dark, sight)];
                assert!(
                    found.iter().all(|&it| it >= 20.0),
                    "{} {}: {found:?}",
                    one.class,
                    other.class
                );
            }
        }
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
