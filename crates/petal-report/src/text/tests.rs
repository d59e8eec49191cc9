use super::*;
use crate::table::within;
use petal_host::os::CpuShare;
use petal_record::fixture;

fn judged(mut run: Run) -> Run {
    run.summary.findings = petal_judge::judge(&run);
    run
}

fn killed() -> Run {
    let dir = tempfile::tempdir().unwrap();
    fixture::killed_run(dir.path(), 4);
    judged(petal_record::load(dir.path()).unwrap())
}

#[test]
fn no_line_is_wider_than_a_page_or_ends_in_spaces() {
    let runs = [judged(fixture::mixed_run()), killed(), Run::begin("x", Default::default())];
    for (page, run) in
        [100, 80].into_iter().flat_map(|page| runs.iter().map(move |run| (page, run)))
    {
        for line in within(page, || render(run)).lines() {
            let columns = line.chars().count();
            let to_paste = line.contains(" | served by: ");
            assert!(columns <= page || to_paste, "{columns} columns: {line}");
            assert_eq!(line, line.trim_end());
        }
    }
}

#[test]
fn a_complete_mixed_run() {
    insta::assert_snapshot!(render(&judged(fixture::mixed_run())), @r"
    petal 0.1.0 run report

    valid test of the device | PIOPS 59,432 read + 10,000 write | single-block read 84.3 us | redo 96.2 MB/s | served by: device | limited by: waiting for reads (63 % of DB time) | whole run 60.0 s (the counted window's counters are not known)
    next petal run -s 4 --update-pct 20 --scale 8192 --threads-per-schema 2 --repeats 3 --db \
      sqlite:petal-data

    status complete
    info: too-short-to-judge, single-run, small-log

    TARGET AND HOST                                                        [as they were before the run]
    ====================================================================================================
    database              SQLite 3.54.1 (engine sqlite)
    URL                   sqlite:petal-data
    block size            8.00 KiB
    cache                 3.00 MiB for all sessions together
    active data set       256 MiB in 4 schemas of 8,192 rows
    index                 480 KiB next to the data
    data compresses       48.5 times (sampled blocks, LZ4)
    direct I/O            yes: past the page cache
    commits durable       yes (synchronous=FULL)
    checkpoint            by petal, at 64 MB of WAL
    plan of the SELECT    as meant: SEARCH cf1 USING INDEX cf1_custid (custid>? AND custid<?)
    its settings          journal_mode=wal, synchronous=FULL
    host                  dbhost, Linux 6.18.1, 2 processors (Example CPU 3.0 GHz), memory 24.0 GiB
    device                vda, virtual disk, 100 GiB, not rotating, ext4, scheduler none, write cache:
                          write back
    sessions              8 on 4 schemas
    seed                  6840123409045651457
    repeat                1 of 1
    started               2026-11-20T13:42:07Z
    connected in          0.042 s
    elapsed               60.000 s
    DB time               474.000 s in operations, 0.000 s of think time
    done                  first session 59.990 s, last session 60.000 s
    settled               1.25 s; dirty pages 9.00 MiB before, 64.0 KiB after
                          checkpoint of 4 schemas
                          waited for an idle device

    SETTINGS                                                             [slob.conf, environment, flags]
    ====================================================================================================
    parameter           value  set by
    ------------------  -----  -----------------
    UPDATE_PCT             20  flag
    RUN_TIME               60  ./slob.conf:3
    SCALE                8192  environment SCALE
    THREADS_PER_SCHEMA      2  flag
    WARM_UP                 5  ./slob.conf:9
    by default: SCAN_PCT=0, WORK_LOOP=0, WORK_UNIT=64, UPDATE_WORK_UNIT=64, REDO_STRESS=LITE,
      READERS=unset, WRITERS=unset, PREFETCH=0, STORAGE_CACHE=unset
    settings file: ./slob.conf

    LOAD PROFILE                                          [petal's counts, the database's, the device's]
    ====================================================================================================
                                    total  per second  per operation
    -------------------------  ----------  ----------  -------------
    operations                     54,860         914           1.00
    rows visited                3,511,040      58,517           64.0
    commits acknowledged           10,972         183           0.20
    log syncs                      10,972         183           0.20
    logical reads, blocks      10,533,120     175,552            192
    physical reads, blocks      3,565,900      59,432           65.0
    physical reads, requests    3,565,900      59,432           65.0
    physical reads, MB           29,211.9         487           0.53
    blocks read from the log       98,748       1,646           1.80
    physical writes, blocks       600,000      10,000           10.9
    physical writes, requests     600,000      10,000           10.9
    physical writes, MB           4,915.2        81.9           0.09
    redo, MB                      5,769.3        96.2           0.11
    device reads, requests      3,565,900      59,432           65.0
    device reads, MB             29,211.9         487           0.53
    device writes, requests       632,916      10,549           11.5
    device writes, MB            10,684.5         178           0.19

    ratio                                   measured  meant
    --------------------------------------  --------  -----
    UPDATEs in all operations, %                20.0   20.0
    writes in physical I/O, % of blocks         14.4   16.7
    blocks read per block written               5.94   5.00
    physical reads per row visited             1.016  1.000
    reads from the log per row visited         0.028
    logical reads per row visited              3.000
    blocks per read request                    1.000
    logical reads found in cache, %             65.2
    redo bytes per updated row                 8,216
    commits per log sync                        1.00
    host processor us per physical request      13.0

    TOP TIMED EVENTS                                               [the database, or petal's shim in it]
    ====================================================================================================
    event                 waits  time s  avg us  % DB time  class        source
    ----------------  ---------  ------  ------  ---------  -----------  ---------
    main read         3,565,900  300.61    84.3       63.4  User I/O     timed
    checkpoint write    600,000   29.22    48.7          -  System I/O   timed
    wal sync             10,972    4.52   412.0        1.0  Commit       timed
    writer lock           5,486    2.85   520.0        0.6  Concurrency  timed
    page latch                -    0.03       -        0.0  Concurrency  sampled
    CPU + other               -  165.99       -       35.0  -            remainder
    DB time is the sum of the sessions' time in operations. System I/O is not in it and has no share of
    it. CPU + other is DB time without the waits of sessions: work, and waiting for a processor. Shares
    are `-` if waits overlap, as with IO_DEPTH blocks in flight, or if they took longer than DB time. A
    wait for a read includes the wait for a processor.

    OPERATION LATENCY, US                                                                [petal's clock]
    ====================================================================================================
    operation   count    mean     p50     p90     p95     p99    p99.9      max
    ---------  ------  ------  ------  ------  ------  ------  -------  -------
    select     43,888   7,916   7,377   9,503   9,773  10,002   72,810   79,952
    update     10,972  13,195  12,698  15,475  15,860  16,351  105,644  106,496
    Closed loop: service time, from the moment petal asked.

    I/O LATENCY, US                                                                 [with their sources]
    ====================================================================================================
    I/O               count   mean   p50    p99    max  source
    ------------  ---------  -----  ----  -----  -----  ------------------------------------------------
    log              10,972  412.0     -      -      -  wal sync (petal's VFS shim, totals only)
    read          3,565,900   84.3  84.2  108.1  108.6  main read (petal's VFS shim, each wait)
    write           600,000   48.7     -      -      -  checkpoint write (petal's VFS shim, totals only)
    device read   3,565,900   66.7     -      -      -  /proc/diskstats, including queueing
    device write    632,916   28.4     -      -      -  /proc/diskstats, including queueing

    LATENCY HISTOGRAMS                      [operations: petal's clock; waits: the database or its shim]
    ====================================================================================================
    select  up to us   count     %
    ------  --------  ------  ----  --------------------------------------------------
               8,192  29,034  66.2  ##################################################
              16,384  14,440  32.9  #########################
              65,536     272   0.6  #
             131,072     142   0.3  #
    update  up to us   count     %
    ------  --------  ------  ----  --------------------------------------------------
              16,384  10,876  99.1  ##################################################
              32,768      36   0.3  #
             131,072      60   0.5  #
    main read  up to us  count     %
    ---------  --------  -----  ----  --------------------------------------------------
                     64     83   8.3  #####
                    128    917  91.7  ##################################################

    LAYER BY LAYER                                                     [petal, the database, the device]
    ====================================================================================================
    layer                          read blocks   requests        MB  write blocks  requests        MB
    -----------------------------  -----------  ---------  --------  ------------  --------  --------
    asked by petal, a block a row    3,511,040          -  28,762.4       702,208         -   5,752.5
    visited, a block a row           3,511,040          -  28,762.4       702,208         -   5,752.5
    database, logical               10,533,120          -  86,287.3             -         -         -
    database, physical               3,565,900  3,565,900  29,211.9       600,000   600,000   4,915.2
    database, log                       98,748          -     808.9             -         -   5,769.3
    petal's process, storage                 -          -  29,211.9             -         -  10,684.5
    device vda                               -  3,565,900  29,211.9             -   632,916  10,684.5
    device flushes 10,972, time with I/O in flight 58.20 s
    - logical less physical reads: 56,266.5 MB (65.2 %) were found in the database's cache, index and
      inner blocks mostly; 808.9 MB came from the log's file
    - physical reads and storage reads of petal's process: alike in bytes; the device served them
    - blocks changed less written: 837.3 MB were changed twice before a checkpoint wrote them, or not
      yet written at the end (6 checkpoints ended in the run)
    - log: 5,769.3 MB for 702,208 updated rows, 8,216 bytes each: whole blocks are logged
    - physical writes and log against device writes: alike in bytes
    - requests joined before the device saw them: 180 reads, 420 writes; flushes count among its writes,
      without bytes

    I/O BY KIND OF FILE                                            [the database, or petal's shim in it]
    ====================================================================================================
    file      reads        MB  avg us     writes       MB  avg us   syncs  avg us
    ----  ---------  --------  ------  ---------  -------  ------  ------  ------
    main  3,565,900  29,211.9    84.3    600,000  4,915.2    48.7      24   1,000
    wal           0       0.0       -  1,404,416  5,769.3     4.5  10,972   412.0

    OPERATING SYSTEM                                                         [host dbhost, every second]
    ====================================================================================================
    processors  %usr  %nice  %sys  %iowait  %irq  %soft  %steal  %idle
    ----------  ----  -----  ----  -------  ----  -----  ------  -----
    all 2       20.0    0.0   5.0     30.0   0.5   19.0     0.5   25.0
    cpu 0       21.0    0.0   6.0     31.0   0.0   21.0     1.0   20.0
    cpu 1       19.0    0.0   4.0     29.0   1.0   17.0     0.0   30.0
    busiest second of one processor: cpu 0, 53 % at 4 s

    Device     r/s    rkB/s  r_await     w/s    wkB/s  w_await  f/s  aqu-sz  %util
    ------  ------  -------  -------  ------  -------  -------  ---  ------  -----
    vda     59,432  475,453     0.07  10,549  173,902     0.03  183    4.26   97.0

    vmstat                                mean     least      most
    --------------------------------  --------  --------  --------
    r (tasks running or ready)            3.00      2.00      4.00
    b (tasks blocked, mostly by I/O)      5.00      5.00      5.00
    free memory                       2.00 GiB  2.00 GiB  2.00 GiB
    available without swapping        22.0 GiB  22.0 GiB  22.0 GiB
    buff                              43.0 MiB  43.0 MiB  43.0 MiB
    cache                             20.0 GiB  20.0 GiB  20.0 GiB
    dirty pages                       64.0 KiB  64.0 KiB  64.0 KiB
    pages being written                    0 B       0 B       0 B
    swap used                              0 B       0 B       0 B

    in/s, cs/s            61,000 interrupts, 122,000 context switches a second
    si, so                0.00 KiB/s from swap, 0.00 KiB/s to swap; 0.00 major faults a second
    pressure, % of time   cpu some 12.0, io some 93.0 full 41.0, memory some 0.00 full 0.00
    petal's process       0.42 processors
    before the run        0.04 processors at work, 0.00 requests a second at the data's devices

    PER-SECOND EXTREMES                                        [petal's clock, the database, the device]
    ====================================================================================================
                           min  at s   median      max  at s  seconds
    -----------------  -------  ----  -------  -------  ----  -------
    operations/s           750    39      925      960    50       60
    PIOPS read          48,750    39   60,125   62,400    50       60
    PIOPS write           0.00     0     0.00  100,000    59       60
    redo MB/s             78.9    39     97.3      101    50       60
    device read MB/s       399    39      493      511    50       60
    device write MB/s     94.6     0     98.3      904     9       60
    processors idle %     25.0     0     25.0     25.0    59       60
    select slowest us   71,240    22   73,792   79,952    21       60
    update slowest us  101,304     0  103,856  106,496    59       60

    COUNTED WINDOW                                                      [petal's counts, the database's]
    ====================================================================================================
    none; the headline is of the whole run 60.0 s (the counted window's counters are not known)

    ERRORS AND LOST SESSIONS                                                                     [petal]
    ====================================================================================================
    errors survived       SQLITE_BUSY 1
    operations cut        0
    sessions lost         0

    PROCESSORS AND PETAL'S OWN COST                                               [the operating system]
    ====================================================================================================
    this host             user 20.0 %, system 24.5 %, iowait 30.0 %, idle 25.0 %, steal 0.5 %
    petal's process       25.20 s of processor time, 21.0 % of this host, 459.4 us an operation
                          the database runs inside petal's process: its work is in this figure

    EXTERNAL SCRIPT                                                                         [its output]
    ====================================================================================================
    post                  exit 0 after 0.31 s, output in hook-post.txt
                          array_cpu = 37.5 %

    STEADINESS                                                           [petal's operations per second]
    ====================================================================================================
    judged                from 5 s to 60 s
    verdict               too short to judge: 55 s, and it takes 5 windows of 60 s
    variation of seconds  5.5 % (standard deviation over mean)
    longest stall         none

    THE DATABASE'S OWN COUNTERS                                                           [the database]
    ====================================================================================================
    counter        total  per second
    -----------  -------  ----------
    checkpoints        6        0.10
    wal_frames   702,208      11,703
    counted and zero: wal_reset_failures

    FINDINGS                                                                   [judged from this record]
    ====================================================================================================
    INFO too-short-to-judge: 55 s are too short to judge steadiness, which takes 5 windows of 60 s
      advice: Use RUN_TIME=300 plus the warm-up, or more.
      evidence: seconds=55.0
    INFO single-run: one run shows no spread: how much the next one would differ is unknown
      advice: Use REPEATS=3 or more before comparing.
      evidence: repeats=1
    INFO small-log: the log filled and forced a checkpoint every 10.0 s
      advice: A larger log would write blocks that are changed twice only once.
      evidence: checkpoints=6, elapsed_s=60.0

    NOT JUDGED HERE                                                                            [and why]
    ====================================================================================================
    server-changed: petal did not read the facts again
    settings-changed: petal did not read the facts again
    limits-changed: petal did not read the facts again
    time-missing: the totals of the counted window are not known
    waterfall-gap: threads were not timed
    repeats-vary: needs --repeats 3
    active-set-varies: needs several runs: petal sweep, or petal compare
    mixed-run-lengths: needs several runs: petal sweep, or petal compare
    fresh-device: how much of vda is in use is not known
    generator-bound: petal and the database share one process: not separable
    under-device: no calibration of the data's device is known here (petal calibrate makes one)

    HOW TO READ THIS
    ====================================================================================================
    - `-` is unknown: the engine or this host does not report it. It is never a zero.
    - us are microseconds. MB are millions of bytes; KiB, MiB, GiB are powers of 1024.
    - Operation latency is petal's clock and covers a whole operation. I/O latency is that of one read,
      write or sync by the named source. The two are never mixed.
    - Layers are compared in bytes: requests split and merge on their way down.
    - docs/numbers.md of petal has the formula of every figure.
    ");
}

/// The sections of a report: title, and lines.
fn sections(report: &str) -> Vec<(&str, Vec<&str>)> {
    let mut sections = vec![("AT THE TOP", Vec::new())];
    let lines: Vec<&str> = report.lines().collect();
    let is_rule = |line: &&str| line.starts_with("=====");
    for (at, line) in lines.iter().enumerate() {
        if lines.get(at + 1).is_some_and(is_rule) {
            sections.push((line.split("  ").next().unwrap(), Vec::new()));
        } else if !is_rule(line) {
            sections.last_mut().unwrap().1.push(*line);
        }
    }
    sections
}

#[test]
fn a_killed_run_rebuilt_differs_from_a_whole_one_in_these_lines() {
    let (whole, killed) = (render(&judged(fixture::mixed_run())), render(&killed()));
    let (whole, killed) = (sections(&whole), sections(&killed));
    let is_missing = |title: &&str| !killed.iter().any(|(known, _)| known == title);
    let missing: Vec<&str> = whole.iter().map(|(title, _)| *title).filter(is_missing).collect();
    assert_eq!(missing, ["I/O BY KIND OF FILE", "EXTERNAL SCRIPT"]);
    let mut reported = Vec::new();
    for (title, lines) in &killed {
        let (_, usual) = whole.iter().find(|(known, _)| known == title).unwrap();
        let own: Vec<&&str> = lines.iter().filter(|line| !usual.contains(line)).collect();
        if !own.is_empty() {
            reported.push((*title).to_owned());
        }
        reported.extend(own.iter().map(|line| format!("  {line}")));
    }
    insta::assert_snapshot!(reported.join("\n"), @r#"
    AT THE TOP
      invalid (lost-sessions) | no result: PIOPS 59,800 read + 0 write | single-block read 84.3 us | redo 96.8 MB/s | served by: device | limited by: waiting for reads (64 % of DB time) | whole run 4.0 s (no counted window)
      verdict invalid: 1 of 8 sessions ended before their time; the first was session 7 after 2.5 s: disk
        I/O error (SQLITE_IOERR_READ)
      next petal run -s 4 --update-pct 20 --scale 8192 --threads-per-schema 2 --db sqlite:petal-data
      PARTIAL: petal was killed, or its run.json is lost; these are its seconds.
      status interrupted
      ERRORS: lost-sessions
      WARNINGS: partial-record, gaps, short-run, deferred-writes
      info: single-run
    TARGET AND HOST
      elapsed               4.000 s
      DB time               31.600 s in operations, 0.000 s of think time
      done                  -
    LOAD PROFILE
                                   total  per second  per operation
      -------------------------  -------  ----------  -------------
      operations                   3,680         920           1.00
      rows visited               235,520      58,880           64.0
      commits acknowledged           736         184           0.20
      log syncs                      736         184           0.20
      logical reads, blocks      706,560     176,640            192
      physical reads, blocks     239,200      59,800           65.0
      physical reads, requests   239,200      59,800           65.0
      physical reads, MB         1,959.5         490           0.53
      blocks read from the log     6,624       1,656           1.80
      physical writes, blocks          0        0.00           0.00
      physical writes, requests        0        0.00           0.00
      physical writes, MB            0.0        0.00           0.00
      redo, MB                     387.0        96.8           0.11
      device reads, requests     239,200      59,800           65.0
      device reads, MB           1,959.5         490           0.53
      device writes, requests      2,208         552           0.60
      device writes, MB            387.0        96.8           0.11
      writes in physical I/O, % of blocks          0.0   16.7
      blocks read per block written                  -   5.00
      host processor us per physical request      15.1
    TOP TIMED EVENTS
      event          waits  time s  avg us  % DB time  class        source
      -----------  -------  ------  ------  ---------  -----------  ---------
      main read    239,200   20.16    84.3       63.8  User I/O     timed
      wal sync         736    0.30   412.0        1.0  Commit       timed
      writer lock      368    0.19   520.0        0.6  Concurrency  timed
      page latch         -    0.03       -        0.1  Concurrency  sampled
      CPU + other        -   10.91       -       34.5  -            remainder
    OPERATION LATENCY, US
      operation  count    mean     p50     p90     p95     p99  p99.9      max
      ---------  -----  ------  ------  ------  ------  ------  -----  -------
      select     2,944   7,903   7,340   9,503   9,773  10,002      -   78,381
      update       736  12,890  12,403  15,172  15,516       -      -  101,581
      Closed loop: service time, from the moment petal asked. A percentile is `-` with fewer than ten
      operations beyond it: p50 needs 20, p99 1,000, p99.9 10,000.
    I/O LATENCY, US
      I/O             count   mean  p50  p99  max  source
      ------------  -------  -----  ---  ---  ---  -----------------------------------------
      log               736  412.0    -    -    -  wal sync (petal's VFS shim, totals only)
      read          239,200   84.3    -    -    -  main read (petal's VFS shim, totals only)
      device read   239,200   66.7    -    -    -  /proc/diskstats, including queueing
      device write    2,208  543.5    -    -    -  /proc/diskstats, including queueing
    LATENCY HISTOGRAMS
      select  up to us  count     %
      ------  --------  -----  ----  --------------------------------------------------
                 8,192  1,950  66.2  ##################################################
                16,384    966  32.8  #########################
                65,536     16   0.5  #
               131,072     12   0.4  #
      update  up to us  count     %
      ------  --------  -----  ----  --------------------------------------------------
                16,384    732  99.5  ##################################################
               131,072      4   0.5  #
    LAYER BY LAYER
      layer                          read blocks  requests       MB  write blocks  requests     MB
      -----------------------------  -----------  --------  -------  ------------  --------  -----
      asked by petal, a block a row      235,520         -  1,929.4        47,104         -  385.9
      visited, a block a row             235,520         -  1,929.4        47,104         -  385.9
      database, logical                  706,560         -  5,788.1             -         -      -
      database, physical                 239,200   239,200  1,959.5             0         0    0.0
      database, log                        6,624         -     54.3             -         -  387.0
      petal's process, storage                 -         -  1,959.5             -         -  387.0
      device vda                               -   239,200  1,959.5             -     2,208  387.0
      device flushes 736, time with I/O in flight 3.88 s
      - logical less physical reads: 3,774.3 MB (65.2 %) were found in the database's cache, index and
        inner blocks mostly; 54.3 MB came from the log's file
      - blocks changed less written: 385.9 MB were changed twice before a checkpoint wrote them, or not
        yet written at the end (0 checkpoints ended in the run)
      - log: 387.0 MB for 47,104 updated rows, 8,216 bytes each: whole blocks are logged
      - requests joined before the device saw them: 12 reads, 28 writes; flushes count among its writes,
    OPERATING SYSTEM
      busiest second of one processor: cpu 0, 52 % at 3 s
      Device     r/s    rkB/s  r_await  w/s   wkB/s  w_await  f/s  aqu-sz  %util
      ------  ------  -------  -------  ---  ------  -------  ---  ------  -----
      vda     59,800  478,400     0.07  552  94,484     0.54  184    4.29   97.0
      r (tasks running or ready)            2.75      2.00      4.00
    PER-SECOND EXTREMES
      operations/s           900     0      905      940     3        4
      PIOPS read          58,500     0   58,825   61,100     3        4
      PIOPS write           0.00     0     0.00     0.00     3        4
      redo MB/s             94.6     0     95.2     98.9     3        4
      device read MB/s       479     0      482      501     3        4
      device write MB/s     94.6     0     95.2     98.9     3        4
      processors idle %     25.0     0     25.0     25.0     3        4
      select slowest us   78,104     0   78,192   78,368     3        4
      update slowest us  101,304     0  101,392  101,568     3        4
    COUNTED WINDOW
      none; the headline is of the whole run 4.0 s (no counted window)
    ERRORS AND LOST SESSIONS
      errors survived       none
      sessions lost         1
        session 7 lost at 2.50 s: disk I/O error (SQLITE_IOERR_READ)
    PROCESSORS AND PETAL'S OWN COST
      petal's process       1.68 s of processor time, 21.0 % of this host, 456.5 us an operation
    STEADINESS
      judged                from 0 s to 4 s
      verdict               too short to judge: 4 s, and it takes 5 windows of 60 s
      variation of seconds  2.2 % (standard deviation over mean)
    THE DATABASE'S OWN COUNTERS
      counter      total  per second
      ----------  ------  ----------
      wal_frames  47,104      11,776
      counted and zero: checkpoints, wal_reset_failures
    FINDINGS
      ERROR lost-sessions: 1 of 8 sessions ended before their time; the first was session 7 after 2.5 s:
        disk I/O error (SQLITE_IOERR_READ)
        advice: Find out why before using the figures: the load was not the one that was asked for.
        evidence: codes=["SQLITE_IOERR_READ"], sessions=8, sessions_lost=1
      WARNING partial-record: petal was killed, or its run.json is lost: this is rebuilt from its 4
        seconds, and later seconds are missing
        advice: Do not compare it with whole runs; run it again.
        evidence: seconds=4
      WARNING gaps: parts of the record are missing: percentiles of waits, I/O by kind of file, endpoints,
        hooks and the size of the data afterwards are not in the seconds
        advice: Figures that rest on them are shown as unknown.
        evidence: gaps=["percentiles of waits, I/O by kind of file, endpoints, hooks and the size of the
          data afterwards are not in the seconds"]
      WARNING short-run: 4 s is too short: caches, drives and checkpoints may not have settled
        advice: Use RUN_TIME=300 or more for figures to rely on.
        evidence: seconds=4.0
      WARNING deferred-writes: no checkpoint ended within the run (checkpoints: by petal, at 64 MB of
        WAL): the changed blocks were left to be written after it
        advice: Run longer, until at least one whole checkpoint cycle lies in the run.
        evidence: checkpoints=0, elapsed_s=4.0, physical_write_bytes=0
    NOT JUDGED HERE
      petal-suspended: whether petal always ran is not in this record
      unstable: the run is too short, see short-run
      moved-rows: the size of the data before or after the run is not known
    "#);
}

#[test]
fn a_run_that_knows_nothing_shows_dashes_and_no_figure() {
    let report = render(&Run::begin("sqlite", Default::default()));
    assert!(
        report.contains("PIOPS - read + - write | single-block read - us | redo - MB/s"),
        "{report}"
    );
    let profile = report.split("LOAD PROFILE").nth(1).unwrap();
    let redo = profile.lines().find(|line| line.starts_with("redo, MB")).unwrap();
    assert_eq!(redo.split_whitespace().skip(2).collect::<Vec<_>>(), ["-", "-", "-"]);
    let line = |name: &str| report.lines().find(|line| line.starts_with(name)).unwrap();
    assert_eq!(line("index ").split_whitespace().collect::<Vec<_>>(), ["index", "-"]);
    assert!(!report.contains("NaN") && !report.contains("inf"));
}

#[test]
fn without_the_closing_snapshot_db_time_is_not_said_to_be_work() {
    let mut run = fixture::mixed_run();
    let rest = |run: &Run| {
        let report = render(run);
        let line = report.lines().find(|line| line.starts_with("CPU")).unwrap().to_owned();
        let (name, figures) = line.split_once(" + other").unwrap();
        (name.to_owned(), figures.split_whitespace().nth(1).unwrap().to_owned())
    };
    let row = |name: &str, rest: &str| (name.to_owned(), rest.to_owned());
    assert_eq!(rest(&run), row("CPU", "165.99"));
    run.summary.waits.clear();
    // The log was synced, without timing.
    assert_eq!(rest(&run), row("CPU, log waits", "474.00"));
    run.details.target.io_untimed = Some("grant it".into());
    assert_eq!(rest(&run), row("CPU, reads, log waits", "474.00"));
    run.details.io = Default::default();
    assert_eq!(rest(&run), row("CPU", "-"));
}

/// Tests that text and page name petal itself: it reads, writes and reports there.
#[test]
fn reports_of_the_bare_device_name_no_database() {
    let mut run = fixture::mixed_run();
    run.summary.engine = "device".into();
    run.details.target.plan = None;
    // With findings on each layer's requests, and on other processes' work.
    run.details.device.as_mut().unwrap().read_bytes *= 3;
    run.summary.cpu = Some(CpuShare { user: 99.0, idle: 1.0, ..CpuShare::default() });
    run.summary.findings = petal_judge::judge(&run);
    let ids: Vec<&str> = run.summary.findings.iter().map(|found| found.id.as_str()).collect();
    assert!(ids.contains(&"other-load") && ids.contains(&"processor-bound"), "{ids:?}");
    let page = crate::html::run(&run, &Default::default()).unwrap();
    for shown in [render(&run), page] {
        // Names of evidence are the same for all engines.
        let names = |line: &&str| line.replace("database_", "").contains("database");
        let named: Vec<&str> = shown.lines().filter(names).collect();
        assert!(named.is_empty(), "{named:#?}");
        assert!(shown.contains("petal, physical"));
    }
}

/// The counters of a database that went down end before the window of petal's own figures.
#[test]
fn a_page_names_one_counted_window() {
    let mut run = fixture::windowed_run();
    run.details.steady.as_mut().unwrap().io = Default::default();
    run.summary.counted_until = Some(petal_record::CountedUntil {
        second: 7.0,
        of_s: 60.0,
        db_time_s: 50.0,
        think_time_s: 0.0,
    });
    let shown = render(&run);
    let section = shown.split("COUNTED WINDOW").nth(1).unwrap().split("\n\n").next().unwrap();
    assert!(
        section.contains("until second 7 of 60: the database's counters end there"),
        "{section}"
    );
    assert!(!shown.contains("from 5.0 s to 60.0 s") && !shown.contains(", counted "), "{shown}");
    let reads = run.counted().summary.per_second.physical_read_requests.unwrap();
    assert!(section.contains(&crate::numbers::rate(reads)), "{section}");
    let page = crate::html::run(&run, &Default::default()).unwrap();
    assert!(page.contains("counted window: from 0 to 7 s."), "one window of the chart");
}
