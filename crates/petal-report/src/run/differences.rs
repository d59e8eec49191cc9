//! Explains why the layers differ: each step down from petal to the device, in bytes.

use super::super::numbers::{decimal, or_dash, percent, ratio, whole};
use petal_judge::served::{self, ReadsServed};
use petal_record::Run;
use petal_record::counters::CommonCounter;

/// Two layers that differ by less are alike: requests in flight at the bounds, rounding.
const ALIKE_SHARE: f64 = 0.02;

/// A sentence or two for each step.
pub(crate) fn steps(run: &Run) -> Vec<String> {
    let steps =
        [cached(run), read(run), changed(run), logged(run), written(run), merged(run), unseen(run)];
    steps.into_iter().flatten().collect()
}

fn megabytes(bytes: u64) -> String {
    format!("{} MB", decimal(bytes as f64 / 1e6, 1))
}

/// Difference of logical and physical reads: the database's cache, or blocks not yet written.
fn cached(run: &Run) -> Option<String> {
    let io = &run.details.io;
    let block = run.summary.target.block_size;
    let (logical, physical) = io.logical_reads.zip(io.physical_read_blocks)?;
    let from_log = io.log_read_blocks.unwrap_or(0);
    let found = logical.saturating_sub(physical).saturating_sub(from_log);
    let log = match from_log {
        0 => String::new(),
        blocks => format!("; {} came from the log's file", megabytes(blocks * block)),
    };
    let share = ratio(Some(found), Some(logical))?;
    let place = if run.is_bare_device() {
        "among the blocks that wait to be written"
    } else if served::is_mapped(run) {
        "in the page cache, from which the database maps them"
    } else {
        "in the database's cache, index and inner blocks mostly"
    };
    Some(format!(
        "logical less physical reads: {} ({} %) were found {place}{log}",
        megabytes(found * block),
        percent(share)
    ))
}

/// Difference of the database's reads and the device's: page cache, read-ahead, and others' reads.
fn read(run: &Run) -> Option<String> {
    let asked = run.details.io.physical_read_bytes?;
    let device = run.details.device.as_ref()?.read_bytes;
    if asked == 0 && device == 0 {
        return None;
    }
    let Some(own) = run.serving_bytes() else {
        return Some(read_unseen(run, asked, device) + &drives_below(run));
    };
    let who = run.serving_processes();
    let stored = differ(asked, own.read);
    let storage = match &stored {
        None => format!("physical reads and storage reads of {who}: alike in bytes"),
        Some(Differ::Less(missing)) => {
            format!("physical reads: {missing} never left {}", cache_between(run))
        }
        Some(Differ::More(extra)) => format!(
            "{who} read {extra} more from storage than the physical reads, by read-ahead or from \
             other files, such as the log's"
        ),
    };
    let device = match differ(own.read, device) {
        // If a cache served all, no reads remain for the device.
        None if is_nothing_of(own.read, asked) => return Some(storage),
        None if matches!(stored, Some(Differ::Less(_))) => {
            format!("the device served the other {}", megabytes(own.read))
        }
        None => "the device served them".to_owned(),
        Some(Differ::Less(missing)) => {
            format!("{missing} of that were served by storage that is not counted")
        }
        Some(Differ::More(extra)) => {
            format!("the device read {extra} more for other programs")
        }
    };
    Some(format!("{storage}; {device}{}", drives_below(run)))
}

/// Describes the drives under the data's device, if they did not serve all of its reads.
fn drives_below(run: &Run) -> String {
    match served::reads(run) {
        Ok(ReadsServed { layer: Some(layer), device, .. }) => {
            format!("; the drives below it read {} of that: {layer}", megabytes(device))
        }
        Err(why) if run.below_devices().is_some() && run.serving_bytes().is_some() => {
            format!("; which drives served it is unknown: {why}")
        }
        _ => String::new(),
    }
}

/// Names the cache between the database and its storage.
fn cache_between(run: &Run) -> &'static str {
    match served::is_direct(run) {
        true => "memory, though they passed by the page cache",
        false => "the operating system's page cache, which served them",
    }
}

/// Explains the reads if the processes' own reads are unknown: the device's bytes include others'.
fn read_unseen(run: &Run, asked: u64, device: u64) -> String {
    match (differ(asked, device), served::reads(run)) {
        (None | Some(Differ::More(_)), Err(why)) => {
            format!("physical against device reads: who served them is unknown: {why}")
        }
        (None, Ok(_)) => {
            "physical against device reads: alike in bytes, so the device served them".to_owned()
        }
        (Some(Differ::Less(missing)), _) if served::is_direct(run) => format!(
            "physical less device reads: {missing} did not reach the device; past the page cache \
             only reads of the log's file, or of files elsewhere, can be missing"
        ),
        (Some(Differ::Less(missing)), _) => format!(
            "physical less device reads: at least {missing} were served by the operating system's \
             page cache"
        ),
        (Some(Differ::More(extra)), Ok(_)) => format!(
            "device above physical reads: {extra} more, by read-ahead, the file system's own \
             blocks, or another program"
        ),
    }
}

/// Difference of changed blocks and blocks that the database wrote: checkpoints.
fn changed(run: &Run) -> Option<String> {
    let block = run.summary.target.block_size;
    let changed = run.summary.rows.update * block;
    let written = run.details.io.physical_write_bytes?;
    if changed == 0 && written == 0 {
        return None;
    }
    let checkpoints = run.summary.counter(CommonCounter::Checkpoints);
    let checkpoints = checkpoints.map_or_else(String::new, |count| {
        format!(" ({} checkpoints ended in the run)", whole(count))
    });
    Some(match differ(changed, written) {
        None => format!("blocks changed against written: alike in bytes{checkpoints}"),
        Some(Differ::Less(missing)) => format!(
            "blocks changed less written: {missing} were changed twice before a checkpoint wrote \
             them, or not yet written at the end{checkpoints}"
        ),
        Some(Differ::More(extra)) => format!(
            "blocks written above changed: {extra} more, of work before the run, index and inner \
             blocks, or marks that reading left{checkpoints}"
        ),
    })
}

/// Describes the log volume of a change.
fn logged(run: &Run) -> Option<String> {
    let redo = run.details.io.redo_bytes?;
    let each = ratio(Some(redo), Some(run.summary.rows.update))?;
    let block = run.summary.target.block_size as f64;
    let images = run.summary.counter(CommonCounter::BlockImages);
    let how = if run.is_bare_device() {
        "records of a stated size, filled up to whole blocks of the log"
    } else if let Some(images) = images {
        let most = ratio(Some((images as f64 * block) as u64), Some(redo)).unwrap_or(0.0);
        &*format!(
            "it holds {} images of whole blocks (full-page images), {} for each 100 rows and at \
             most {} % of the log; the rest are changes",
            whole(images),
            decimal(images as f64 * 100.0 / run.summary.rows.update.max(1) as f64, 1),
            percent(most.min(1.0))
        )
    } else if each >= block {
        "whole blocks are logged"
    } else if each >= block / 4.0 {
        "large changes are logged, or some blocks whole, as after a checkpoint"
    } else {
        "changes are logged, not blocks"
    };
    Some(format!(
        "log: {} for {} updated rows, {} bytes each: {how}",
        megabytes(redo),
        whole(run.summary.rows.update),
        decimal(each, 0)
    ))
}

/// Difference of the database's writes and log, and the device's: journal, rounding, write-back.
fn written(run: &Run) -> Option<String> {
    let io = &run.details.io;
    let twice = run.summary.counter(CommonCounter::DoublewriteBytes).filter(|&bytes| bytes > 0);
    let asked = io.physical_write_bytes? + io.redo_bytes? + twice.unwrap_or(0);
    let what = match twice {
        Some(twice) => format!("physical writes, doublewrite ({}) and log", megabytes(twice)),
        None => "physical writes and log".to_owned(),
    };
    let served = run.details.device.as_ref()?.write_bytes;
    if asked == 0 && served == 0 {
        return None;
    }
    Some(match differ(asked, served) {
        None => format!("{what} against device writes: alike in bytes"),
        Some(Differ::Less(missing)) => {
            let seen = run.database_host().and_then(|seen| seen.whole.ranges.dirty_bytes);
            let dirty = seen.map(|range| range.most);
            format!(
                "{what} less device writes: {missing} were not written by the end, \
                 or overwritten in the page cache first (dirty pages at most {})",
                or_dash(dirty, megabytes)
            )
        }
        Some(Differ::More(extra)) => format!(
            "device writes above {what}: {extra} more, by the file system's journal, log records \
             rounded up to whole blocks, write-back of earlier work, or another program"
        ),
    })
}

/// Requests split and merge.
fn merged(run: &Run) -> Option<String> {
    let devices = run.database_host_sums()?.devices.as_ref()?;
    let data = devices.iter().filter(|device| device.data);
    let merges = data.map(|device| (device.read_merges, device.write_merges));
    let (reads, writes) = merges.reduce(|sum, one| (sum.0 + one.0, sum.1 + one.1))?;
    Some(format!(
        "requests joined before the device saw them: {} reads, {} writes; flushes count among its \
         writes, without bytes",
        whole(reads),
        whole(writes)
    ))
}

fn unseen(run: &Run) -> Option<String> {
    (!run.is_database_host_seen()).then(|| match &run.details.target.host_unseen {
        Some(why) => format!("the device is not seen: {why}"),
        None => "the device is on another host: record it there with petal os, and merge it with \
                 --os-data"
            .to_owned(),
    })
}

/// Difference of a layer from the one above, in words.
enum Differ {
    Less(String),
    More(String),
}

/// Returns true for so few bytes that they do not count in the whole.
fn is_nothing_of(bytes: u64, whole: u64) -> bool {
    bytes <= (whole as f64 * ALIKE_SHARE) as u64
}

/// Compares the lower layer with the upper one; None if they are alike.
fn differ(upper: u64, lower: u64) -> Option<Differ> {
    if is_nothing_of(upper.abs_diff(lower), upper.max(lower)) {
        None
    } else if lower < upper {
        Some(Differ::Less(megabytes(upper - lower)))
    } else {
        Some(Differ::More(megabytes(lower - upper)))
    }
}

/// Tests of single layers. The test of the whole report covers a run that knows all layers.
#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::paragraph;
    use petal_record::fixture;
    use petal_record::target::DirectIo;

    fn with(change: impl Fn(&mut Run)) -> String {
        let mut run = fixture::mixed_run();
        change(&mut run);
        steps(&run).iter().map(|step| paragraph("- ", "  ", step)).collect()
    }

    /// A run through the page cache; the device and petal read these quarters of the bytes.
    fn read_by(device: u64, own: Option<u64>) -> String {
        with(|run| {
            run.details.target.direct_io =
                Some(DirectIo { asked: false, used: false, reason: None });
            let asked = run.details.io.physical_read_bytes.unwrap();
            run.details.device.as_mut().unwrap().read_bytes = asked / 4 * device;
            let counts = &mut run.details.os.as_mut().unwrap().whole.sum.counts;
            counts.petal_read_bytes = own.map(|quarters| asked / 4 * quarters);
        })
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
    }

    #[test]
    fn pages_written_twice_are_no_difference() {
        let written = |twice: u64| {
            with(|run| {
                let io = &run.details.io;
                let asked = io.physical_write_bytes.unwrap() + io.redo_bytes.unwrap();
                run.details.device.as_mut().unwrap().write_bytes = asked + asked / 2;
                let counters = &mut run.summary.counters;
                counters
                    .insert(CommonCounter::DoublewriteBytes.name().to_owned(), twice * asked / 2);
            })
        };
        assert!(written(1).contains("log against device writes: alike in bytes"), "{}", written(1));
        assert!(written(0).contains("device writes above physical writes and log: "));
    }

    #[test]
    fn the_page_cache_read_ahead_and_others_are_named() {
        let text = read_by(4, Some(0));
        assert!(text.contains("page cache, which served them; the device read"), "{text}");
        assert!(text.contains("more for other programs"), "{text}");
        let text = read_by(4, Some(4));
        assert!(text.contains("alike in bytes; the device served them"), "{text}");
        let text = read_by(1, Some(1));
        assert!(text.contains("which served them; the device served the other"), "{text}");
        let text = read_by(0, Some(0));
        assert!(text.contains("page cache, which served them - "), "{text}");
        assert!(!text.contains("the device served"), "{text}");
        let text = read_by(5, Some(5));
        assert!(text.contains("more from storage than the physical reads"), "{text}");
        let text = read_by(2, Some(4));
        assert!(text.contains("storage that is not counted"), "{text}");
    }

    #[test]
    fn a_device_whose_bytes_may_be_others_is_not_said_to_have_served_them() {
        let text = read_by(1, None);
        assert!(text.contains("at least") && text.contains("page cache"), "{text}");
        assert!(read_by(8, None).contains("who served them is unknown"));
    }

    #[test]
    fn without_a_device_of_the_data_nothing_was_joined_or_not() {
        let text = with(|run| {
            let os = run.details.os.as_mut().unwrap();
            let devices = os.whole.sum.devices.as_mut().unwrap();
            devices.iter_mut().for_each(|device| device.data = false);
        });
        assert!(!text.contains("requests joined"), "{text}");
    }

    #[test]
    fn requests_of_a_part_of_the_run_are_not_compared_with_the_whole() {
        assert!(with(|_| ()).contains("requests joined"));
        let text = with(|run| {
            let sum = &mut run.details.os.as_mut().unwrap().whole.sum;
            sum.seconds = run.summary.elapsed_s / 2.0;
        });
        assert!(!text.contains("requests joined"), "{text}");
    }

    #[test]
    fn unknown_counts_are_not_explained() {
        let text = with(|run| {
            run.details.io = Default::default();
            run.details.device = None;
            run.details.os = None;
        });
        assert_eq!(text, "");
        let remote = with(|run| {
            run.details.target.local = false;
            run.details.device = None;
        });
        assert!(remote.contains("--os-data"), "{remote}");
    }
}
