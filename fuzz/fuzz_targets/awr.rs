//! Whatever stands in a file, reading it as an AWR or Statspack report ends and panics nowhere.
//! Begin with the samples: `cargo +nightly fuzz run awr fuzz/corpus/awr tests/data/awr`.

#![no_main]

use libfuzzer_sys::fuzz_target;
use petal_awr::{AwrError, parse, source};

fuzz_target!(|bytes: &[u8]| {
    if let Err(AwrError::Internal { message, .. }) = parse("fuzzed", source::decode(bytes.to_vec()))
    {
        panic!("{message}");
    }
});
