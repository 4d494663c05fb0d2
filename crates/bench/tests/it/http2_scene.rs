//! HTTP/2 frames for servers that follow the protocol and for others.

/// A server's `SETTINGS` frame: empty, or with a limit of streams.
pub(crate) fn settings(streams_max: Option<u32>) -> Vec<u8> {
    let setting = streams_max.map(|most| [&[0, 3][..], &most.to_be_bytes()].concat());
    frame(SETTINGS, 0, 0, &setting.unwrap_or_default())
}

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, content: &[u8]) -> Vec<u8> {
    let length = (content.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), content].concat()
}

/// A response with `:status` 200 from the static table, and two bytes of content.
pub(crate) fn proper(stream: u32) -> Vec<u8> {
    [head(stream), frame(DATA, END_STREAM, stream, b"ok")].concat()
}

/// The head of a response, without content.
pub(crate) fn head(stream: u32) -> Vec<u8> {
    frame(HEADERS, END_HEADERS, stream, &[0x88])
}

pub(crate) fn reset(stream: u32, code: u32) -> Vec<u8> {
    frame(3, 0, stream, &code.to_be_bytes())
}

pub(crate) fn go_away(last: u32, code: u32) -> Vec<u8> {
    frame(7, 0, 0, &[last.to_be_bytes(), code.to_be_bytes()].concat())
}

/// Removes a request from `unread` and returns its stream.
pub(crate) fn next_request(unread: &mut Vec<u8>) -> Option<u32> {
    if unread.starts_with(PREFACE) {
        unread.drain(..PREFACE.len());
    }
    loop {
        let [a, b, c, kind, flags, stream @ ..] = unread.get(..9)? else { return None };
        let (kind, flags) = (*kind, *flags);
        let stream = u32::from_be_bytes(stream.try_into().unwrap());
        let end = 9 + u32::from_be_bytes([0, *a, *b, *c]) as usize;
        if unread.len() < end {
            return None;
        }
        unread.drain(..end);
        if matches!(kind, HEADERS | DATA) && flags & END_STREAM != 0 {
            return Some(stream);
        }
    }
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
pub(crate) const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
