//! Batches of encoded spans. Before the spans, a batch has space for the start of the request, so a batch becomes a
//! request without a copy.

use std::sync::Arc;

use crate::otlp::{Framing, Resource, encode_request, request_start};

/// Encoded spans, as the entries of the list `ScopeSpans.spans` of OTLP.
#[derive(Default, Debug)]
pub(crate) struct Encoded {
    /// Space for the start of the request, and the spans. Without spans, the space may be missing.
    pub(crate) bytes: Vec<u8>,
    pub(crate) spans: u64,
}

/// Encoded spans that are exported together. After the export, call
/// [`SpanQueue::finish`](crate::SpanQueue::finish).
#[derive(Debug)]
pub struct SpanBatch(Arc<Encoded>);

/// An `ExportTraceServiceRequest` for one attempt to export a batch.
#[derive(Debug)]
pub struct ExportRequest(Bytes);

#[derive(Debug)]
enum Bytes {
    /// The bytes of a batch after the position `from`.
    InPlace {
        encoded: Arc<Encoded>,
        from: usize,
    },
    Copied(Vec<u8>),
}

impl Encoded {
    /// Returns an empty batch that uses the memory of `bytes`.
    pub(crate) fn in_memory(mut bytes: Vec<u8>) -> Self {
        bytes.clear();
        bytes.resize(START_BYTES, 0);
        Self { bytes, spans: 0 }
    }

    /// Returns the encoded spans.
    pub(crate) fn entries(&self) -> &[u8] {
        self.bytes.get(START_BYTES..).unwrap_or_default()
    }

    /// Returns `true` if further spans with `bytes` bytes fit into the batch.
    #[inline]
    pub(crate) const fn has_space(&self, bytes: usize) -> bool {
        self.bytes.len() + bytes <= START_BYTES + BATCH_BYTES_MAX
    }

    /// Moves the spans of `other` to this batch.
    pub(crate) fn append(&mut self, other: &mut Self) {
        self.bytes.extend_from_slice(other.entries());
        other.bytes.truncate(START_BYTES);
        self.spans += std::mem::take(&mut other.spans);
    }
}

impl SpanBatch {
    pub(crate) fn new(encoded: Encoded) -> Self {
        Self(Arc::new(encoded))
    }

    /// Returns the encoded spans.
    pub fn bytes(&self) -> &[u8] {
        self.0.entries()
    }

    /// Returns the number of spans.
    pub fn spans(&self) -> u64 {
        self.0.spans
    }

    /// Returns the request for an attempt to export the spans. Copies the spans only if an earlier request still
    /// exists, or if the texts in `resource` are long.
    pub fn request(&mut self, resource: &Resource, framing: Framing) -> ExportRequest {
        let start = request_start(resource, self.bytes().len(), framing);
        let from = START_BYTES.checked_sub(start.len());
        let place = from.zip(Arc::get_mut(&mut self.0)).and_then(|(from, encoded)| {
            encoded.bytes.get_mut(from..START_BYTES)?.copy_from_slice(&start);
            Some(from)
        });
        ExportRequest(match place {
            Some(from) => Bytes::InPlace { encoded: self.0.clone(), from },
            None => Bytes::Copied(encode_request(resource, self.bytes(), framing)),
        })
    }

    /// Returns the memory of the batch. `None` if a request still exists.
    pub(crate) fn into_memory(self) -> Option<Vec<u8>> {
        Arc::into_inner(self.0).map(|encoded| encoded.bytes)
    }
}

impl AsRef<[u8]> for ExportRequest {
    fn as_ref(&self) -> &[u8] {
        match &self.0 {
            Bytes::InPlace { encoded, from } => &encoded.bytes[*from..],
            Bytes::Copied(bytes) => bytes,
        }
    }
}

/// Maximum number of bytes of the spans in a batch.
pub(crate) const BATCH_BYTES_MAX: usize = 1 << 20;

/// Space for the start of a request.
const START_BYTES: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    fn batch() -> SpanBatch {
        let mut encoded = Encoded::in_memory(vec![1; 3000]);
        encoded.bytes.extend_from_slice(b"spans");
        encoded.spans = 1;
        SpanBatch::new(encoded)
    }

    fn resource(name: &str) -> Resource {
        Resource { service_name: name.into(), service_version: "1", instance_id: "2".into() }
    }

    #[test]
    fn request_without_a_copy_equals_a_copied_request() {
        for framing in [Framing::None, Framing::Grpc] {
            for name in ["a", &"a".repeat(600)] {
                let (mut batch, resource) = (batch(), resource(name));
                let expected = encode_request(&resource, b"spans", framing);
                let first = batch.request(&resource, framing);
                let second = batch.request(&resource, framing);
                assert_eq!([first.as_ref(), second.as_ref()], [&expected[..]; 2]);
                assert_eq!(matches!(first.0, Bytes::InPlace { .. }), name == "a");
                assert!(matches!(second.0, Bytes::Copied(_)), "the first request still exists");
            }
        }
    }

    #[test]
    fn later_request_has_the_new_resource() {
        let mut batch = batch();
        drop(batch.request(&resource("long name"), Framing::Grpc));
        let request = batch.request(&resource("b"), Framing::None);
        assert!(matches!(request.0, Bytes::InPlace { .. }));
        assert_eq!(request.as_ref(), encode_request(&resource("b"), b"spans", Framing::None));
        drop(request);
        assert!(batch.into_memory().is_some());
    }
}
