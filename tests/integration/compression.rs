//! COMPRESS_RATIO: what loaded blocks compress to with LZ4, read past petal.

use std::fs;

use petal_workload::compression;

use crate::server_postgres;
use crate::support::Workplace;

/// Half of the 1,024 blocks of rows: before them stands what is not rows, behind them SQLite's index.
fn blocks(bytes: &[u8]) -> Vec<Vec<u8>> {
    bytes.rchunks_exact(8192).skip(256).take(512).map(<[u8]>::to_vec).collect()
}

#[test]
fn blocks_of_sqlite_and_the_device_come_to_the_ratio() {
    for (db, file) in [("sqlite:data", "data/petal1.db"), ("device:device.dat", "device.dat")] {
        let work = Workplace::new();
        let setup = |more: &[&str]| {
            let flags = ["setup", "--scale", "8M", "--scan-table-sz", "0", "--db", db];
            work.petal([&flags, more].concat()).exits(0).stdout
        };
        let reported = setup(&["--compress-ratio", "2"]);
        assert!(reported.contains("blocks compress 2.0 times (sampled, LZ4)\n"), "{reported}");
        let measured = compression::ratio(&blocks(&fs::read(work.path(file)).unwrap())).unwrap();
        assert!((1.9..2.1).contains(&measured), "{db}: {measured}");
        let reported = setup(&["--replace"]);
        assert!(
            reported.contains("blocks compress ") && !reported.contains("COMPRESS_RATIO"),
            "{reported}"
        );
    }
}

#[test]
fn setup_says_what_came_out_on_postgres_where_free_space_compresses_away() {
    if !server_postgres::is_there() {
        return;
    }
    let server = server_postgres::shared();
    server.database("compression");
    let url = server.url("compression");
    let mut client = server.client("compression");
    for (asked, low, high, why) in
        [("2", 3.3, 3.8, "not 2 as COMPRESS_RATIO asked: the free space"), ("4", 3.8, 4.2, "")]
    {
        let work = Workplace::new();
        let flags =
            ["setup", "--scale", "8M", "--compress-ratio", asked, "--replace", "--db", &url];
        let reported = work.petal(flags).exits(0).stdout;
        let rows = "SELECT pg_read_binary_file(pg_relation_filepath('petal1.cf1'))";
        client.batch_execute("CHECKPOINT").unwrap();
        let file: Vec<u8> = client.query_one(rows, &[]).unwrap().get(0);
        let measured = compression::ratio(&blocks(&file)).unwrap();
        assert!((low..high).contains(&measured), "{asked}: {measured}");
        // Of a sample, where this is of all blocks.
        let (_, said) = reported.split_once("blocks compress ").unwrap();
        let said: f64 = said.split(' ').next().unwrap().parse().unwrap();
        assert!((said - measured).abs() < 0.3, "{measured}: {reported}");
        assert!(
            reported.contains(why) && why.is_empty() != reported.contains("not "),
            "{reported}"
        );
    }
}
