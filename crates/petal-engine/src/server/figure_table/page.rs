//! The table as a page shows it, and its faults: for tests.

// Only tests use it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods)]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use super::{
    FigureEntry, FigureNeed, FigureSource, FigureTable, ServerVersion, VersionRange, Work, contain,
};

impl FigureTable {
    /// Faults of the table itself: figures without source or reason in a version, columns that no view
    /// of the version has, needs without words.
    pub fn faults(&self, versions: &[ServerVersion]) -> Vec<String> {
        let pairs = self.figures.iter().flat_map(|it| versions.iter().map(move |v| (it, *v)));
        pairs.flat_map(|(figure, version)| self.faults_of(figure, version)).collect()
    }

    fn faults_of(&self, figure: &FigureEntry, version: ServerVersion) -> Vec<String> {
        let of = |what: String| {
            format!("{} on {} {}: {what}", figure.name, version.product, version.number)
        };
        let sources = || figure.sources.iter().filter(|it| contain(it.versions, version));
        let holes = || figure.holes.iter().filter(|it| contain(it.0, version) && !it.1.is_empty());
        let mut faults = Vec::new();
        if sources().count().min(1) + holes().count() != 1 {
            faults.push(of("either sources or one reason without".to_owned()));
        }
        let has = |column: &str| {
            let (name, column) = column.rsplit_once('.').unwrap_or(("", column));
            let is_it = |it: &str| it == column || format!("{it}_us") == column;
            let mut views = self.views_of(version).filter(|view| view.name == name);
            views.any(|view| view.columns.iter().any(|(it, _)| is_it(it)))
        };
        let columns = sources().flat_map(FigureSource::columns).filter(|column| !has(column));
        faults.extend(columns.map(|column| of(format!("no view has {column}"))));
        let has_words = |need: &&FigureNeed| self.needs.iter().any(|(name, _)| name == *need);
        let needs = sources().flat_map(|source| source.needs).filter(|need| !has_words(need));
        faults.extend(needs.map(|need| of(format!("no words for the need {need}"))));
        faults
    }

    /// The table in Markdown; `version` words a server's number.
    pub fn page(&self, version: fn(u32) -> String) -> String {
        let mut page = String::from(
            "| figure | versions | columns | unit | work | if it is not there |\n\
             |---|---|---|---|---|---|\n",
        );
        let products: BTreeSet<&str> =
            self.views.iter().flat_map(|it| it.versions).map(|it| it.product).collect();
        let worded = |versions: &[VersionRange]| worded(versions, version, products.len() > 1);
        for figure in self.figures {
            let mut otherwise = figure.stand_in;
            for source in figure.sources {
                let needs = source.needs.iter().map(|need| format!("; needs {need}"));
                writeln!(
                    page,
                    "| `{}` | {} | {}{} | {} | {} | {otherwise} |",
                    figure.name,
                    worded(source.versions),
                    source.formula(),
                    needs.collect::<String>(),
                    format!("{:?}", source.unit).to_lowercase(),
                    source.work.words(),
                )
                .unwrap();
                otherwise = "";
            }
            for (versions, why) in figure.holes {
                let versions = worded(versions);
                writeln!(page, "| `{}` | {versions} | | | | {why} |", figure.name).unwrap();
            }
        }
        page.push_str("\n| view | versions | the server's | right |\n|---|---|---|---|\n");
        for view in self.views {
            let versions = worded(view.versions);
            let source = view.source.replace("pg_catalog.", "").replace('|', "\\|");
            let source = source.trim_start_matches("FROM ");
            let source = source.split(" WHERE ").next().unwrap_or(source);
            let source = if source.is_empty() { "functions" } else { source };
            writeln!(page, "| `{}` | {versions} | `{source}` | {} |", view.name, view.grant)
                .unwrap();
        }
        page
    }
}

fn worded(versions: &[VersionRange], version: fn(u32) -> String, has_products: bool) -> String {
    let one = |it: &VersionRange| {
        let (from, last) = (version(it.from), version(it.before.saturating_sub(1)));
        match it.before {
            u32::MAX => format!("from {from}"),
            _ if from == last => from,
            _ => format!("{from} to {last}"),
        }
    };
    let product =
        |it: &VersionRange| if has_products { format!("{} ", it.product) } else { String::new() };
    versions.iter().map(|it| product(it) + &one(it)).collect::<Vec<_>>().join(", ")
}

impl FigureSource {
    fn columns(&self) -> impl Iterator<Item = &'static str> {
        self.terms.iter().map(|(name, _)| *name).chain(self.time.map(|(name, _)| name))
    }

    /// Makes a formula such as `a.x + a.y - 2 x b.z`.
    fn formula(&self) -> String {
        let mut formula = String::new();
        for (name, factor) in self.terms {
            let sign = match (formula.is_empty(), *factor < 0) {
                (true, _) => "",
                (false, true) => " - ",
                (false, false) => " + ",
            };
            let times = match factor.unsigned_abs() {
                1 => String::new(),
                times => format!("{times} x "),
            };
            formula += &format!("{sign}{times}`{name}`");
        }
        let time = self.time.map(|(name, _)| format!(", its time `{name}`"));
        formula + &time.unwrap_or_default()
    }
}

/// Compares the text between a page's marks `<!-- Figures -->` and `<!-- End of the figures -->` with the
/// table; with UPDATE_DOCS=1 writes it there.
pub fn check_page(path: &Path, made: &str) {
    let (begin, end) = ("<!-- Figures: written by a test. -->\n", "<!-- End of the figures. -->");
    let page = std::fs::read_to_string(path).unwrap();
    let (before, rest) = page.split_once(begin).expect("the begin of the figures");
    let (there, after) = rest.split_once(end).expect("the end of the figures");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        return std::fs::write(path, format!("{before}{begin}{made}{end}{after}")).unwrap();
    }
    assert!(there == made, "UPDATE_DOCS=1 writes {} again", path.display());
}

impl Work {
    fn words(self) -> &'static str {
        match self {
            Self::OwnTables => "petal's tables, all sessions",
            Self::Sessions => "all sessions",
            Self::Database => "the database",
            Self::Server => "the server",
        }
    }
}
