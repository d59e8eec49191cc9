//! Tests of other processes' work.

use super::super::{judge, not_judged};
use super::{gains, ids, message, seen};
use petal_host::os::DeviceCounts;
use petal_record::{Run, fixture};

#[test]
fn work_of_others_in_the_database_is_reported_with_its_figures() {
    let counted = |name: &'static str, count: u64| {
        move |run: &mut Run| {
            run.summary.counters.insert(name.into(), count);
        }
    };
    let plain = fixture::mixed_run();
    let read = plain.details.io.physical_read_blocks.unwrap();
    let run = gains(&["other-load"], counted("other_read_blocks", read / 10));
    let reported = message(&run, "other-load");
    assert!(reported.contains(&format!("{} blocks read of other tables", read / 10)), "{reported}");
    gains(&[], counted("other_read_blocks", read / 25));
    // petal's own looks at the counters visit blocks, too.
    gains(&[], counted("other_logical_reads", 100_000));
    gains(&["other-load"], counted("other_logical_reads", 5_000_000));
    gains(&["other-load"], counted("other_rows_changed", plain.summary.rows.update));
    // Another run on petal's tables: its rows are visited as petal's are.
    let visited = plain.summary.rows.total();
    gains(&["other-load"], |run| {
        counted("rows_fetched", visited * 2)(run);
        run.details.io.physical_read_blocks = Some(visited * 2);
        run.details.io.physical_read_requests = Some(visited * 2);
    });
    gains(&[], counted("rows_fetched", visited));
    gains(&["other-load"], |run| run.details.other_runs.push("another petal run".into()));
}

#[test]
fn other_users_of_the_device_are_reported() {
    gains(&["other-load"], |run| {
        run.details.device = run
            .details
            .device
            .map(|device| DeviceCounts { write_bytes: device.write_bytes * 4, ..device });
    });
    // The database's own double writes are not others' work.
    let written_twice = |doublewrite: bool| {
        move |run: &mut Run| {
            let more = run.details.io.physical_read_bytes.unwrap() / 2;
            run.details.device.as_mut().unwrap().write_bytes += more;
            run.summary.counters.insert("doublewrite_bytes".into(), more * u64::from(doublewrite));
        }
    };
    gains(&[], written_twice(true));
    gains(&["other-load"], written_twice(false));
}

#[test]
fn others_on_the_processors_are_reported_before_and_during_the_run() {
    let ticks = |user: u64| petal_host::os::CpuTicks::from([user, 0, 0, 200 - user, 0, 0, 0, 0]);
    let run = gains(&["other-load"], |run| {
        seen(run).whole.sum.cpus.host = Some(ticks(90));
    });
    let reported = message(&run, "other-load");
    assert_eq!(reported, "other programs used 0.5 of 2 processors during the run");
    let run = gains(&["other-load"], |run| {
        seen(run).before.as_mut().unwrap().cpus.host = Some(ticks(60));
    });
    let reported = message(&run, "other-load");
    assert!(
        reported.starts_with("other programs used 0.6 of 2 processors before the run"),
        "{reported}"
    );
    let run = gains(&["other-load"], |run| {
        seen(run).whole.sum.cpus.host = Some(ticks(90));
        seen(run).before.as_mut().unwrap().cpus.host = Some(ticks(60));
    });
    let once = "other programs used 0.5 of 2 processors during the run (0.6 before)";
    assert_eq!(message(&run, "other-load"), once);
    let run = gains(&["other-load"], |run| {
        let before = seen(run).before.as_mut().unwrap();
        before.devices.as_mut().unwrap()[0].counts.read_requests = 300;
    });
    assert!(message(&run, "other-load").contains("600 requests a second before the run"));
    // A server's own processes do not count as others, and unknown ones judge nothing.
    let mut run = fixture::mixed_run();
    run.details.target.in_process = false;
    seen(&mut run).whole.sum.cpus.host = Some(ticks(90));
    assert!(!ids(&run).contains(&"other-load".to_owned()));
    assert!(not_judged(&run).iter().any(|judged| judged.id == "other-load"));
    seen(&mut run).whole.sum.counts.server_cpu_us = Some(30_000_000);
    assert!(!ids(&run).contains(&"other-load".to_owned()));
}

#[test]
fn another_partition_of_the_same_disk_is_foreign() {
    let with_disk = |more: u64| {
        move |run: &mut Run| {
            let devices = seen(run).whole.sum.devices.as_mut().unwrap();
            let mut disk = devices[0].clone();
            disk.name = "sda".into();
            disk.data = false;
            disk.counts.write_bytes += more;
            devices.push(disk);
        }
    };
    let run = gains(&["other-load"], with_disk(40 << 30));
    assert!(message(&run, "other-load").starts_with("the disk sda moved 40.0 GiB more"));
    gains(&[], with_disk(0));
}

#[test]
fn facts_of_one_id_are_one_finding_with_all_their_figures() {
    let run = gains(&["other-load"], |run| {
        run.details.other_runs.push("another petal run".into());
        run.details.device.as_mut().unwrap().read_bytes += 64 << 30;
    });
    let found: Vec<_> = judge(&run).into_iter().filter(|it| it.id == "other-load").collect();
    let [one] = found.as_slice() else { panic!("{found:?}") };
    assert!(one.message.contains("another petal run"), "{}", one.message);
    assert!(one.message.contains("the device moved"), "{}", one.message);
    assert!(one.evidence.contains_key("other_runs"), "{:?}", one.evidence);
    assert!(one.evidence.contains_key("device_read_bytes"), "{:?}", one.evidence);
}
