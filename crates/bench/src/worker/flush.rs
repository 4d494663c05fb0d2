//! Octets out.

use std::io::{self, IoSlice};
use std::task::{Context, Poll};

use thruway_net::Transport;

/// Writes what waits in `output`, of which so much is `written`; what the server does not take now, later.
#[inline]
pub(super) fn poll_flush<T: Transport>(
    transport: &mut T,
    output: &mut Vec<u8>,
    written: &mut usize,
    cx: &mut Context<'_>,
) -> io::Result<()> {
    while *written < output.len() {
        match transport.poll_write(cx, &[IoSlice::new(&output[*written..])]) {
            Poll::Pending => return Ok(()),
            Poll::Ready(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
            Poll::Ready(Ok(count)) => *written += count,
            Poll::Ready(Err(error)) => return Err(error),
        }
    }
    output.clear();
    *written = 0;
    Ok(())
}
