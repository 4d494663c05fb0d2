//! Copies its standard input to its standard output with blocking calls, without parsing the data. This
//! program shows the lower bound for the cost of messages over pipes.

use std::fs::File;
use std::io::{Read, Result, Write, stdin, stdout};
use std::os::fd::AsFd;

fn main() -> Result<()> {
    // The handles of the standard library add buffers and locks.
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
