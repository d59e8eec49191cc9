//! Advice names parameters that the run's engine takes.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use petal_host::host::HostFacts;
use petal_record::target::{DirectIo, LoadedSchema};
use petal_record::{Run, fixture};
use petal_settings::table::{EngineSupport, PARAMETERS, support::ENGINES};

use super::super::judge;
use crate::target;

/// The parameters that a sentence names and the engine refuses: `KEY=VALUE`, `KEY is VALUE`, or `KEY`
/// for one that must leave a choice.
fn refused(engine: &EngineSupport, sentence: &str) -> Vec<String> {
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let mut refused = Vec::new();
    for parameter in PARAMETERS {
        for (at, _) in sentence.match_indices(parameter.key) {
            let (before, after) = (&sentence[..at], &sentence[at + parameter.key.len()..]);
            if before.as_bytes().last().is_some_and(is_name)
                || after.as_bytes().first().is_some_and(is_name)
            {
                continue;
            }
            let value = after.strip_prefix('=').or_else(|| after.strip_prefix(" is "));
            let value = value.and_then(|rest| rest.split(|c: char| !c.is_alphanumeric()).next());
            let value = value.filter(|value| !value.is_empty());
            if !engine.takes(parameter, value) {
                refused.push(format!("{} {value:?} of {sentence}", parameter.key));
            }
        }
    }
    refused
}

/// Files of code below a folder, without tests.
fn product_files(folder: &Path) -> Vec<String> {
    let is_test = |name: &str| ["tests", "tests.rs", "fixture.rs"].contains(&name);
    let mut texts = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.file_name().and_then(|name| name.to_str()) {
            Some(name) if is_test(name) => {}
            _ if path.is_dir() => texts.append(&mut product_files(&path)),
            Some(name) if name.ends_with(".rs") => texts.push(fs::read_to_string(&path).unwrap()),
            _ => {}
        }
    }
    texts
}

/// The sentences in the product code of a crate, or of a folder of one.
fn sentences(folder: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for text in product_files(&crates.join(folder)) {
        let code = text.split("mod tests {").next().unwrap_or(&text);
        let is_code = |line: &&str| !line.trim_start().starts_with("//");
        let lines: Vec<&str> = code.lines().filter(is_code).collect();
        let code = lines.join("\n").replace("'\"'", "");
        let mut chars = code.chars();
        let mut literal: Option<String> = None;
        while let Some(c) = chars.next() {
            match (c, &mut literal) {
                ('"', None) => literal = Some(String::new()),
                ('"', Some(_)) => found.extend(literal.take().filter(|text| text.contains(' '))),
                ('\\', Some(text)) => match chars.next() {
                    // A line that goes on in the next one.
                    Some('\n') => {
                        let rest = chars.as_str().trim_start();
                        chars = rest.chars();
                    }
                    escaped => text.extend(escaped),
                },
                (c, Some(text)) => text.push(c),
                (_, None) => {}
            }
        }
    }
    found
}

fn from_page_cache(run: &mut Run) {
    let read_bytes = run.details.io.physical_read_bytes.unwrap() / 10;
    let counts = &mut super::seen(run).whole.sum.counts;
    counts.petal_read_bytes = Some(read_bytes);
    (counts.server_read_bytes, counts.server_write_bytes) = (Some(read_bytes), Some(0));
    run.details.device.as_mut().unwrap().read_bytes = read_bytes;
}

/// Changes of a run, each with a finding that advises a parameter.
const CHANGES: [fn(&mut Run); 11] = [
    from_page_cache,
    |run| {
        from_page_cache(run);
        run.details.target.local = false;
    },
    |run| {
        from_page_cache(run);
        if let Some(direct) = &mut run.details.target.direct_io {
            (direct.asked, direct.reason) = (true, Some("tmpfs".into()));
        }
    },
    |run| {
        from_page_cache(run);
        run.summary.active_bytes = crate::memory::LEAST_DATA_BYTES;
    },
    |run| {
        run.summary.counters.insert("blocks_read_into_cache".into(), 1000);
        run.summary.counters.insert("blocks_prefetched".into(), 100);
    },
    |run| run.details.io.physical_read_requests = Some(1000),
    |run| run.summary.target.cache_bytes = Some(run.summary.active_bytes),
    |run| run.details.target.session_cache_bytes = Some(run.summary.active_bytes),
    |run| run.details.ops_untimed = Some(12),
    |run| {
        run.details.target.local = false;
        run.summary.petal_cpu_s = Some(run.summary.elapsed_s * 1.9);
    },
    |run| {
        for host in super::hosts::hosts(run) {
            host.petal_cpu_s = Some(115.0);
            host.share.boot_id = Some(host.share.host.clone());
        }
    },
];

#[test]
fn findings_and_checks_advise_no_parameter_that_the_engine_refuses() {
    let mut advised = BTreeSet::new();
    for engine in ENGINES {
        let of_engine = |change: &fn(&mut Run)| {
            let mut run = fixture::mixed_run();
            run.summary.engine = engine.scheme.into();
            let details = &mut run.details.target;
            details.in_process = engine.is_in_process();
            let buffered = DirectIo { asked: false, used: false, reason: None };
            details.direct_io = details.in_process.then_some(buffered);
            change(&mut run);
            run
        };
        for run in CHANGES.iter().map(of_engine) {
            let target = &run.details.target;
            let loaded = [LoadedSchema {
                bytes: Some(crate::memory::LEAST_DATA_BYTES),
                index_bytes: Some(0),
                ..LoadedSchema::default()
            }];
            let host = HostFacts { memory_bytes: Some(8 << 30), ..HostFacts::default() };
            let check = target::data(&run.summary.target, target, &loaded, &host);
            let advice = judge(&run).into_iter().map(|finding| finding.advice);
            for advice in advice.chain([check.advice]) {
                let refused = refused(engine, &advice);
                assert!(refused.is_empty(), "{}: {refused:?}", engine.product);
                advised.insert(advice);
            }
        }
    }
    // Each sentence that some engine could not follow was an advice of these runs.
    for sentence in sentences("petal-judge/src") {
        let is_for_all = ENGINES.iter().all(|engine| refused(engine, &sentence).is_empty());
        let was_tried = advised.iter().any(|advice| advice.contains(&sentence));
        assert!(is_for_all || was_tried, "no run of this test is advised: {sentence}");
    }
}

#[test]
fn an_engine_advises_no_parameter_that_it_refuses() {
    for engine in ENGINES {
        let own = format!("petal-{}/src", engine.scheme);
        let of_servers = (!engine.is_in_process()).then(|| sentences("petal-engine/src/server"));
        for sentence in sentences(&own).iter().chain(of_servers.iter().flatten()) {
            let refused = refused(engine, sentence);
            assert!(refused.is_empty(), "{}: {refused:?}", engine.product);
        }
    }
}
