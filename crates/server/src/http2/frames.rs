//! Finds the frame headers in a byte stream (RFC 9113 §4.1). The HTTP/2 library interprets the frames. This
//! module only reports the frames, so that the flood guard can count them.

/// Finds frames in bytes that arrive in pieces of any size.
#[derive(Debug)]
pub(super) struct FrameScan {
    /// Number of remaining bytes before the first frame.
    preface_left: usize,
    /// The received part of the next frame header. For an `RST_STREAM` frame, also contains the error code
    /// after the header.
    head: [u8; HEAD_AND_CODE_BYTES],
    head_filled: usize,
    /// Remaining bytes of the current frame.
    left: usize,
}

/// The header of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Frame {
    pub(super) kind: FrameKind,
    pub(super) length: usize,
    flags: u8,
}

/// Kind of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FrameKind {
    Data,
    Headers,
    Priority,
    /// An `RST_STREAM` frame with its error code.
    ResetStream(u32),
    Settings,
    PushPromise,
    Ping,
    GoAway,
    WindowUpdate,
    Continuation,
    Unknown,
}

impl Frame {
    /// Returns `true` if the frame acknowledges a SETTINGS or PING frame.
    pub(super) const fn is_acknowledgement(self) -> bool {
        self.flags & ACK != 0
    }

    /// Returns `true` for a DATA frame.
    pub(super) const fn is_content(self) -> bool {
        matches!(self.kind, FrameKind::Data)
    }

    /// Returns `true` if the frame is a DATA or HEADERS frame that ends the stream for its sender.
    pub(super) const fn ends_stream(self) -> bool {
        matches!(self.kind, FrameKind::Data | FrameKind::Headers) && self.flags & END_STREAM != 0
    }

    /// Returns `true` if the frame begins or continues a header section without ending it.
    pub(super) const fn leaves_section_open(self) -> bool {
        matches!(self.kind, FrameKind::Headers | FrameKind::Continuation) && self.flags & END_HEADERS == 0
    }
}

impl FrameScan {
    /// Creates a scan of a byte stream in which a preface of `preface_bytes` bytes comes before the frames.
    pub(super) const fn behind(preface_bytes: usize) -> Self {
        Self { preface_left: preface_bytes, head: [0; HEAD_AND_CODE_BYTES], head_filled: 0, left: 0 }
    }

    /// Scans `bytes`, the next bytes of the stream. Calls `found` for each frame header that is complete with
    /// these bytes.
    pub(super) fn pass(&mut self, mut bytes: &[u8], mut found: impl FnMut(Frame)) {
        bytes = &bytes[take(&mut self.preface_left, bytes.len())..];
        while !bytes.is_empty() {
            bytes = &bytes[take(&mut self.left, bytes.len())..];
            let part = bytes.len().min(self.head_bytes() - self.head_filled);
            self.head[self.head_filled..][..part].copy_from_slice(&bytes[..part]);
            self.head_filled += part;
            bytes = &bytes[part..];
            if self.head_filled > 0 && self.head_filled == self.head_bytes() {
                let frame = self.frame();
                self.left = (frame.length + HEAD_BYTES).saturating_sub(self.head_filled);
                self.head_filled = 0;
                found(frame);
            }
        }
    }

    /// Returns `true` if the scan has stopped in the middle of a frame.
    pub(super) const fn is_within_frame(&self) -> bool {
        self.left > 0 || self.head_filled > 0
    }

    /// Returns the number of bytes to collect in `head`. This is the length of the frame header. For an
    /// `RST_STREAM` frame that is long enough, it includes the error code.
    const fn head_bytes(&self) -> usize {
        let is_reset = self.head_filled >= HEAD_BYTES && self.head[3] == RESET_STREAM && self.length() >= 4;
        if is_reset { HEAD_AND_CODE_BYTES } else { HEAD_BYTES }
    }

    const fn length(&self) -> usize {
        u32::from_be_bytes([0, self.head[0], self.head[1], self.head[2]]) as usize
    }

    fn frame(&self) -> Frame {
        let [.., a, b, c, d] = self.head;
        let kind = match self.head[3] {
            0 => FrameKind::Data,
            1 => FrameKind::Headers,
            2 => FrameKind::Priority,
            RESET_STREAM => FrameKind::ResetStream(u32::from_be_bytes([a, b, c, d])),
            4 => FrameKind::Settings,
            5 => FrameKind::PushPromise,
            6 => FrameKind::Ping,
            7 => FrameKind::GoAway,
            8 => FrameKind::WindowUpdate,
            9 => FrameKind::Continuation,
            _ => FrameKind::Unknown,
        };
        Frame { kind, length: self.length(), flags: self.head[4] }
    }
}

/// Reduces `left` by `bytes`, but to no less than 0. Returns the difference.
fn take(left: &mut usize, bytes: usize) -> usize {
    let taken = (*left).min(bytes);
    *left -= taken;
    taken
}

const RESET_STREAM: u8 = 3;

const END_STREAM: u8 = 0x1;
const ACK: u8 = 0x1;
const END_HEADERS: u8 = 0x4;

const HEAD_BYTES: usize = 9;
const HEAD_AND_CODE_BYTES: usize = HEAD_BYTES + 4;

#[cfg(test)]
mod tests {
    use super::*;

    /// The last three bytes of a preface, a DATA frame that ends its stream, `RST_STREAM`, a PING
    /// acknowledgment, and the start of HEADERS.
    const BYTES: &[u8] = b"PRI\0\0\x02\0\x01\0\0\0\x01ok\0\0\x04\x03\0\0\0\0\x01\0\0\0\x08\0\0\x08\x06\x01\0\0\0\x0012345678\0\0\x01\x01\0\0\0\0\x03";

    fn frames(pieces: usize) -> Vec<Frame> {
        let mut scan = FrameScan::behind(3);
        let mut frames = Vec::new();
        for piece in BYTES.chunks(pieces) {
            scan.pass(piece, |frame| frames.push(frame));
        }
        assert!(scan.is_within_frame());
        scan.pass(b"x", |_| panic!("unexpected frame"));
        assert!(!scan.is_within_frame());
        frames
    }

    #[test]
    fn frames_are_found_for_any_read_size() {
        let frame = |kind, length, flags| Frame { kind, length, flags };
        let expected = [
            frame(FrameKind::Data, 2, END_STREAM),
            frame(FrameKind::ResetStream(8), 4, 0),
            frame(FrameKind::Ping, 8, ACK),
            frame(FrameKind::Headers, 1, 0),
        ];
        assert!(expected[0].ends_stream() && expected[2].is_acknowledgement());
        assert!(expected[3].leaves_section_open() && !expected[0].leaves_section_open());
        for pieces in 1..=BYTES.len() {
            assert_eq!(frames(pieces), expected, "in pieces of {pieces}");
        }
    }

    #[test]
    fn too_short_rst_stream_does_not_break_the_frame_scan() {
        let mut scan = FrameScan::behind(0);
        let mut lengths = Vec::new();
        scan.pass(b"\0\0\x02\x03\0\0\0\0\x01xx\0\0\0\x04\0\0\0\0\0", |frame| lengths.push(frame.length));
        assert_eq!(lengths, [2, 0]);
    }
}
