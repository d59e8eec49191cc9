//! Sizes as people write them: `10000` blocks, or bytes with K, M, G or T (powers of 1024).

/// An amount of data, in blocks or in bytes until the block size is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    Blocks(u64),
    Bytes(u64),
}

impl Extent {
    /// Whole blocks of `block_size` bytes; a part of a block does not count.
    pub fn blocks(self, block_size: u64) -> u64 {
        match self {
            Self::Blocks(blocks) => blocks,
            Self::Bytes(bytes) => bytes / block_size,
        }
    }
}
