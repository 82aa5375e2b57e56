//! The disk alone.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

use crate::Result;

/// Overwrites 4 KiB of a file that is there already and flushes it: the least that any durable commit costs.
#[derive(Debug)]
pub struct Disk {
    file: File,
    block: [u8; BLOCK],
    next: u64,
}

const BLOCK: usize = 4096;
const BLOCKS: u64 = 4096;

impl Disk {
    /// Makes the file, all of its blocks written.
    ///
    /// # Errors
    /// Those of the system.
    pub fn create(path: &Path) -> Result<Disk> {
        let mut file = File::options().read(true).write(true).create(true).truncate(true).open(path)?;
        for block in 0..BLOCKS {
            file.write_all(&[block as u8 | 1; BLOCK])?;
        }
        file.sync_all()?;
        Ok(Disk { file, block: [0; BLOCK], next: 0 })
    }

    /// Overwrites one block and flushes it.
    ///
    /// # Errors
    /// Those of the system.
    pub fn flush(&mut self) -> Result<()> {
        self.block[..8].copy_from_slice(&self.next.to_le_bytes());
        self.file.seek(SeekFrom::Start(self.next % BLOCKS * BLOCK as u64))?;
        self.file.write_all(&self.block)?;
        self.file.sync_data()?;
        self.next += 1;
        Ok(())
    }
}
