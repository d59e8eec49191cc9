//! The whole stack under the data's devices, down to the hardware, or to a layer without any.

use serde::{Deserialize, Serialize};

use super::stack::{Bottom, Foundation, Node, Stack};

/// Deeper than any real stack; a circle must end.
const LAYERS_MAX: usize = 64;

/// A device of the stack.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StorageLayer {
    /// Name as /proc/diskstats prints it.
    pub name: String,
    /// Major and minor.
    pub number: Option<(u32, u32)>,
    /// The devices below it, by name; none at the bottom.
    pub below: Vec<String>,
    /// The bottom of the stack; None if devices are below.
    pub bottom: Option<Bottom>,
    /// The file of a loop device that reads it through the page cache.
    pub cached_file: Option<String>,
    /// True if only other files of the server are there, such as its log: it has no rows.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub of_others: bool,
}

/// The layers of the data's devices, and of those that only have other files of the server.
pub(super) fn with_others(stack: &Stack<'_>, data: &[Node], others: &[Node]) -> Vec<StorageLayer> {
    let of_data = layers(stack, data);
    let is_of_data = |layer: &StorageLayer| of_data.iter().any(|known| known.name == layer.name);
    let mut of_others = layers(stack, others);
    of_others.retain(|layer| !is_of_data(layer));
    of_others.iter_mut().for_each(|layer| layer.of_others = true);
    [of_data, of_others].concat()
}

/// Every device from the data's own down, each once.
fn layers(stack: &Stack<'_>, counted: &[Node]) -> Vec<StorageLayer> {
    let mut layers: Vec<StorageLayer> = Vec::new();
    let mut waiting: Vec<Node> = counted.iter().rev().cloned().collect();
    while let Some(node) = waiting.pop().filter(|_| layers.len() < LAYERS_MAX) {
        if layers.iter().any(|layer| layer.name == node.name) {
            continue;
        }
        let (nodes, bottom) = match stack.foundation(&node) {
            Foundation::Devices(nodes) => (nodes, None),
            Foundation::Bottom(bottom) => (Vec::new(), Some(bottom)),
        };
        layers.push(StorageLayer {
            below: nodes.iter().map(|below| below.name.clone()).collect(),
            bottom,
            cached_file: node.backing_file().filter(|_| !node.is_direct_loop()),
            number: node.number,
            name: node.name,
            of_others: false,
        });
        waiting.extend(nodes.into_iter().rev());
    }
    layers
}

#[cfg(test)]
mod tests {
    use super::super::recorded::Recorded;
    use super::*;

    fn found(tree: &Recorded, numbers: &[(&str, (u32, u32))]) -> Vec<StorageLayer> {
        tree.find(&["/image/a"], numbers).layers
    }

    const IMAGE: (&str, (u32, u32)) = ("/image", (7, 0));

    #[test]
    fn a_loop_device_is_followed_through_its_file_to_the_drive() {
        let tree = Recorded::named("nvme-partitions");
        let numbers = [IMAGE, ("/data/disk.img", (259, 2))];
        let layers = found(&tree, &numbers);
        let names: Vec<&str> = layers.iter().map(|layer| layer.name.as_str()).collect();
        assert_eq!(names, ["loop0", "nvme0n1p2", "nvme0n1"]);
        assert_eq!(layers[0].cached_file.as_deref(), Some("/data/disk.img"));
        assert_eq!(layers[2].bottom, Some(Bottom::Hardware));
        tree.write("sys/devices/virtual/block/loop0/loop/dio", "1\n");
        assert_eq!(found(&tree, &numbers)[0].cached_file, None);
    }

    #[test]
    fn a_loop_device_over_a_file_in_memory_is_memory() {
        let tree = Recorded::named("nvme-partitions");
        tree.write("sys/devices/virtual/block/loop0/loop/backing_file", "/dev/shm/disk.img\n");
        let layers = found(&tree, &[IMAGE, ("/dev/shm/disk.img", (0, 25))]);
        assert_eq!(layers.len(), 1);
        let Some(Bottom::Memory(words)) = &layers[0].bottom else { panic!("{layers:?}") };
        assert!(words.contains("/dev/shm/disk.img") && words.contains("tmpfs"), "{words}");
        // A file that is gone: its place is unknown.
        let layers = found(&tree, &[IMAGE]);
        assert!(matches!(layers[0].bottom, Some(Bottom::Elsewhere(_))), "{layers:?}");
    }

    #[test]
    fn virtual_drives_are_memory_or_elsewhere() {
        let bottom = |name: &str| {
            let tree = Recorded::of(&format!(
                "/proc/self/mountinfo = 28 26 7:0 / /image rw - ext4 /dev/{name} rw\n\
                 /sys/dev/block/7:0 -> ../../devices/virtual/block/{name}\n\
                 /sys/devices/virtual/block/{name}/dev = 7:0\n"
            ));
            found(&tree, &[IMAGE]).remove(0).bottom.unwrap()
        };
        for name in ["zram0", "ram1", "nullb0"] {
            assert!(matches!(bottom(name), Bottom::Memory(_)), "{name}");
        }
        for name in ["nbd0", "ublkb0", "zd16", "unheard-of"] {
            assert!(matches!(bottom(name), Bottom::Elsewhere(_)), "{name}");
        }
    }

    #[test]
    fn a_volume_on_a_raid_has_all_its_drives() {
        let tree = Recorded::named("lvm-on-raid");
        let layers = tree.find(&["/data/a"], &[("/data", (253, 0))]).layers;
        let drives = layers.iter().filter(|layer| layer.bottom == Some(Bottom::Hardware));
        let drives: Vec<&str> = drives.map(|layer| layer.name.as_str()).collect();
        assert_eq!(drives, ["sda", "sdb"]);
    }
}
