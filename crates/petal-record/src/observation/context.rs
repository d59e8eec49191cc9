//! The settings, target and host of a run, as text: the possible differences between two sides of a
//! comparison.

use std::collections::BTreeMap;

use crate::{Run, as_text};
use petal_host::host::HostDevice;

/// Differences in these mean nothing: they are drawn, named or counted for each run. The price is a
/// figure.
const NOT_COMPARED: [&str; 6] =
    ["seed", "out", "repeats", "until_steady", "external_script", super::metric::PRICE];

pub(super) fn of(run: &Run) -> BTreeMap<String, String> {
    let mut context = BTreeMap::new();
    for (key, value) in &run.summary.settings {
        if !NOT_COMPARED.contains(&key.as_str()) {
            context.insert(key.clone(), as_text(value, "unset"));
        }
    }
    let target = &run.summary.target;
    let mut put = |name: &str, value: String| {
        if !value.trim().is_empty() {
            context.insert(name.to_owned(), value);
        }
    };
    put("engine", run.summary.engine.clone());
    put("database", format!("{} {}", target.product, target.version));
    put("target", target.url.clone());
    put("block_size", target.block_size.to_string());
    put("cache_bytes", target.cache_bytes.map_or(String::new(), |bytes| bytes.to_string()));
    put("petal", run.details.petal_version.clone());
    put("schemas", run.summary.schemas.to_string());
    put("active_bytes", run.summary.active_bytes.to_string());
    for (name, value) in &run.details.target.settings {
        put(&format!("database {name}"), value.clone());
    }
    if let Some(host) = &run.details.host {
        put("host", host.name.clone());
        put("kernel", host.kernel.clone());
        put("cpus", host.cpus.to_string());
        put("cpu_model", host.cpu_model.clone().unwrap_or_default());
        put("memory_bytes", host.memory_bytes.map_or(String::new(), |bytes| bytes.to_string()));
        let of_each = |reported: fn(&HostDevice) -> String| {
            let reported =
                host.devices.iter().map(reported).filter(|reported| !reported.is_empty());
            reported.collect::<Vec<_>>().join(", ")
        };
        put("device", of_each(described));
        put("io_scheduler", of_each(|device| device.scheduler.clone().unwrap_or_default()));
        put("write_cache", of_each(|device| device.write_cache.clone().unwrap_or_default()));
    }
    context
}

/// Name, model and file system.
fn described(device: &HostDevice) -> String {
    let known = [Some(&device.name), device.model.as_ref(), device.file_system.as_ref()];
    known.into_iter().flatten().map(String::as_str).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn of_several_devices_each_is_reported() {
        let mut run = fixture::mixed_run();
        let host = run.details.host.as_mut().unwrap();
        let mut other = host.devices[0].clone();
        other.name = "vdb".to_owned();
        other.scheduler = Some("mq-deadline".to_owned());
        host.devices.push(other);
        let context = of(&run);
        assert_eq!(context["device"], "vda virtual disk ext4, vdb virtual disk ext4");
        assert_eq!(context["io_scheduler"], "none, mq-deadline");
    }
}
