//! Figures whose form is not that of their kind: they are of another column or row, and unknown.

use super::super::derived::is_block;
use super::super::figure::Figure;
use super::super::law::form::Form;
use super::super::report::{LoadLine, Report};

/// Makes figures unknown that do not have their form, and lines of the load profile that are
/// shifted.
pub fn apply(report: &mut Report) {
    let is_shifted =
        |line: &&mut LoadLine| line.per_second.is_none() && line.per_transaction.is_some();
    if !report.spans_restart {
        for line in report.load_profile.lines_mut().into_iter().filter(is_shifted) {
            if let Some(shifted) = line.per_transaction.take() {
                let (section, printed) = (&shifted.section, shifted.shown());
                report.notes.push(format!("{section}: {printed} is shifted, and not read"));
            }
        }
    }
    let header = &mut report.header;
    let is_name = |figure: &Figure| figure.shown().starts_with(char::is_alphabetic);
    unless(&mut header.db, "database", is_name, &mut report.notes);
    let fields = [
        ("release", &mut header.release, Form::Release),
        ("RAC", &mut header.rac, Form::YesNo),
        ("begin", &mut header.begin_time, Form::Moment),
        ("end", &mut header.end_time, Form::Moment),
    ];
    for (name, figure, form) in fields {
        // Several instances have several releases.
        let fits = |figure: &Figure| figure.shown().split('+').all(|part| form.fits(part));
        unless(figure, name, fits, &mut report.notes);
    }
    let fits = |figure: &Figure| figure.number().is_some_and(is_block);
    unless(&mut report.memory.block_bytes, "block size", fits, &mut report.notes);
    whole_counts(report);
}

/// Makes a figure unknown unless it fits.
fn unless(
    figure: &mut Option<Figure>,
    name: &str,
    fits: impl Fn(&Figure) -> bool,
    notes: &mut Vec<String>,
) {
    if let Some(wrong) = figure.take_if(|figure| !fits(figure)) {
        notes.push(format!("{}: {name} unknown: {:?}", wrong.section, wrong.shown()));
    }
}

/// Makes counts unknown that are printed with a fraction: `99.8` is a share, `1.2K` a count.
fn whole_counts(report: &mut Report) {
    let has_fraction = |figure: &mut Figure| {
        let printed = figure.as_printed.as_deref().unwrap_or_default();
        let is_plain = printed.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b','));
        is_plain && printed.contains('.')
    };
    let mut counts: Vec<(&str, &mut Option<Figure>)> = Vec::new();
    let lists =
        [&mut report.top_events, &mut report.foreground_events, &mut report.background_events];
    counts.extend(lists.into_iter().flatten().map(|it| ("waits", &mut it.waits)));
    counts.extend(report.histograms.iter_mut().map(|it| ("waits", &mut it.waits)));
    counts.extend(report.wait_classes.iter_mut().map(|it| ("waits", &mut it.waits)));
    counts.extend(report.tablespaces.iter_mut().chain(&mut report.files).flat_map(|it| {
        let waits = ("buffer waits", &mut it.buffer_waits);
        [("reads", &mut it.reads), ("writes", &mut it.writes), waits]
    }));
    for (name, count) in counts {
        let Some(wrong) = count.take_if(has_fraction) else { continue };
        let begin = format!("{}: {name} unknown: ", wrong.section);
        if !report.notes.iter().any(|note| note.starts_with(&begin)) {
            report.notes.push(format!("{begin}{} is no count", wrong.shown()));
        }
    }
}
