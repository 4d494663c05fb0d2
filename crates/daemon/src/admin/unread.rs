//! Bounds the memory of large responses that clients read slowly.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;

/// The size of all responses that clients have not read completely. Clones share the size.
#[derive(Clone, Default)]
pub(super) struct UnreadResponses(Arc<AtomicUsize>);

/// The content of a response. Dropping it makes space for other responses.
struct Unread {
    content: Vec<u8>,
    all: UnreadResponses,
}

impl UnreadResponses {
    /// Returns the content that `create` returns, and counts it until the server has sent it. Returns `None`, without a
    /// call of `create`, if the maximum is reached.
    pub(super) fn hold(&self, create: impl FnOnce() -> Vec<u8>) -> Option<Bytes> {
        if self.0.load(Ordering::Relaxed) >= BYTES_MAX {
            return None;
        }
        let content = create();
        self.0.fetch_add(content.capacity(), Ordering::Relaxed);
        Some(Bytes::from_owner(Unread { content, all: self.clone() }))
    }
}

impl AsRef<[u8]> for Unread {
    fn as_ref(&self) -> &[u8] {
        &self.content
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        self.all.0.fetch_sub(self.content.capacity(), Ordering::Relaxed);
    }
}

/// Maximum size of unread responses, after which further requests are refused. The last response can exceed it.
const BYTES_MAX: usize = 32 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unread_responses_have_a_bound_and_make_space_when_they_end() {
        let (all, create) = (UnreadResponses::default(), || vec![0; 10 << 20]);
        let mut held: Vec<_> = std::iter::from_fn(|| all.hold(create)).collect();
        assert_eq!(held.len(), 4);
        let part = held.pop().unwrap().slice(1..2);
        assert_eq!(all.hold(create), None, "a part of a response keeps the whole response in memory");
        drop(part);
        assert!(all.hold(create).is_some());
    }
}
