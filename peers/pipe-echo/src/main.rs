//! Sends its standard input back, unread, as blocking calls do: the floor of whatever speaks over pipes.

use std::fs::File;
use std::io::{Read, Result, Write, stdin, stdout};
use std::os::fd::AsFd;

fn main() -> Result<()> {
    // The library's own handles buffer and lock.
    let mut input = File::from(stdin().as_fd().try_clone_to_owned()?);
    let mut output = File::from(stdout().as_fd().try_clone_to_owned()?);
    let mut buffer = vec![0; 64 << 10];
    loop {
        match input.read(&mut buffer)? {
            0 => return Ok(()),
            n => output.write_all(&buffer[..n])?,
        }
    }
}
