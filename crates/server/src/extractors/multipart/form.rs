//! The extractor of a form, its fields, and its limits.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use futures_core::Stream;
use thruway_message::{FieldValue, StatusCode};

use super::error::MultipartError;
use super::feed::Feed;
use crate::extractors::{Extraction, FromRequest};
use crate::request::{CONTENT_BYTES_MAX, Rejection, Request};

/// A form with files: the body of a request as `multipart/form-data` (RFC 7578). The fields arrive one after another,
/// and the handler reads the content of each field as a stream, so a form needs little memory.
///
/// A request with another `Content-Type` gets 415. A request without a valid boundary gets 400. Later errors are a
/// [`MultipartError`], which a handler can return.
pub struct Multipart {
    form: multer::Multipart<'static>,
    feed: Feed,
    field: Option<multer::Field<'static>>,
    field_bytes: u64,
    fields: usize,
    /// `true` if the library may read data to find the next field. Before that, it searches the data that it has
    /// already read, so that its buffer does not grow with each field.
    reads_head: bool,
    max_field_bytes: u64,
    max_fields: usize,
    /// The error after which the form cannot be read any more.
    failed: Option<MultipartError>,
}

impl Multipart {
    /// Sets the maximum size of the form, with the boundaries and the headers of the fields, in bytes. Default 2 MiB.
    /// A larger form gets 413. If its `Content-Length` is too large, no part of the body is read. Call this method
    /// before the first [`next_field`](Self::next_field).
    #[must_use]
    pub fn max_bytes(self, bytes: u64) -> Self {
        self.feed.limit(bytes);
        self
    }

    /// Sets the maximum size of a field in bytes. Default: only the maximum size of the form applies. A form with a
    /// larger field gets 413.
    #[must_use]
    pub const fn max_field_bytes(mut self, bytes: u64) -> Self {
        self.max_field_bytes = bytes;
        self
    }

    /// Sets the maximum number of fields. Default 100. A form with more fields gets 413.
    #[must_use]
    pub const fn max_fields(mut self, fields: usize) -> Self {
        self.max_fields = fields;
        self
    }

    /// Returns the next field, or `None` at the end of the form. Discards the part of the previous field that the
    /// handler has not read.
    ///
    /// # Errors
    /// The body cannot be read, the form is malformed, or it exceeds a limit. All later calls return the same error.
    ///
    /// # Cancel safety
    /// Cancel safe: no field is lost if the future is dropped.
    pub async fn next_field(&mut self) -> Result<Option<Field<'_>>, MultipartError> {
        let has_field = poll_fn(|cx| self.poll_field(cx)).await?;
        Ok(has_field.then(|| Field::new(self)))
    }

    /// Returns the headers of the current field.
    const fn current(&self) -> Option<&multer::Field<'static>> {
        self.field.as_ref()
    }

    fn poll_field(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool, MultipartError>> {
        if self.field.is_none() && self.feed.is_declared_too_large() {
            self.failed.get_or_insert(MultipartError::TooLarge);
        }
        while self.field.is_some() {
            if ready!(self.poll_chunk(cx))?.is_none() {
                (self.field, self.reads_head) = (None, false);
                self.feed.allow(0);
            }
        }
        if let Some(error) = self.failed {
            return Poll::Ready(Err(error));
        }
        loop {
            return match self.form.poll_next_field(cx) {
                Poll::Pending if self.feed.is_paused() && !self.reads_head => {
                    self.reads_head = true;
                    self.feed.allow(HEAD_BYTES_MAX);
                    continue;
                }
                Poll::Pending if self.feed.is_paused() => {
                    Poll::Ready(Err(self.fail(MultipartError::FieldHeadTooLarge)))
                }
                Poll::Pending => Poll::Pending,
                Poll::Ready(Ok(None)) => Poll::Ready(Ok(false)),
                Poll::Ready(Ok(Some(field))) => {
                    Poll::Ready(self.begin(field).map(|()| true).map_err(|error| self.fail(error)))
                }
                Poll::Ready(Err(error)) => Poll::Ready(Err(self.fail(MultipartError::of(error)))),
            };
        }
    }

    fn begin(&mut self, field: multer::Field<'static>) -> Result<(), MultipartError> {
        if self.fields == self.max_fields {
            return Err(MultipartError::TooManyFields);
        }
        let line_bytes = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
            name.as_str().len() + value.len() + LINE_EXTRA_BYTES
        };
        if field.headers().iter().map(line_bytes).sum::<usize>() > FIELD_HEADERS_BYTES_MAX {
            return Err(MultipartError::FieldHeadTooLarge);
        }
        (self.field, self.field_bytes) = (Some(field), 0);
        self.fields += 1;
        Ok(())
    }

    /// Returns the next piece of the current field, or `None` at its end.
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, MultipartError>> {
        if let Some(error) = self.failed {
            return Poll::Ready(Err(error));
        }
        // First searches the data that the library has already read.
        self.feed.allow(0);
        loop {
            let Some(field) = &mut self.field else { return Poll::Ready(Ok(None)) };
            match Pin::new(field).poll_next(cx) {
                // The library has no data, or keeps data that may be the start of a boundary.
                Poll::Pending if self.feed.is_paused() => self.feed.allow(PIECE_BYTES_MAX),
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => return Poll::Ready(Ok(None)),
                Poll::Ready(Some(Ok(piece))) => {
                    self.field_bytes += piece.len() as u64;
                    if self.field_bytes > self.max_field_bytes {
                        return Poll::Ready(Err(self.fail(MultipartError::FieldTooLarge)));
                    }
                    if !piece.is_empty() {
                        return Poll::Ready(Ok(Some(piece)));
                    }
                }
                Poll::Ready(Some(Err(error))) => {
                    return Poll::Ready(Err(self.fail(MultipartError::of(error))));
                }
            }
        }
    }

    fn fail(&mut self, error: MultipartError) -> MultipartError {
        self.failed = Some(error);
        error
    }
}

impl<S> FromRequest<S> for Multipart {
    type Rejection = Rejection;

    fn from_request(request: &mut Request<'_>, _: &S) -> Extraction<Self, Rejection> {
        let boundary = match boundary_of(request.field("content-type")) {
            Ok(boundary) => boundary,
            Err(rejection) => return Err(rejection).into(),
        };
        let feed = Feed::new(request.take_content(), CONTENT_BYTES_MAX as u64);
        Ok(Self {
            form: multer::Multipart::new(feed.clone(), boundary),
            feed,
            field: None,
            field_bytes: 0,
            fields: 0,
            reads_head: false,
            max_field_bytes: u64::MAX,
            max_fields: FIELDS_MAX,
            failed: None,
        })
        .into()
    }
}

/// Returns the boundary in the value of `Content-Type` (RFC 2046 §5.1.1).
fn boundary_of(content_type: Option<FieldValue<'_>>) -> Result<String, Rejection> {
    let content_type = content_type.and_then(|value| value.as_str()).unwrap_or_default();
    let media_type = content_type.split(';').next().unwrap_or_default().trim_end();
    if !media_type.eq_ignore_ascii_case("multipart/form-data") {
        let message = "`Content-Type` must be `multipart/form-data`\n";
        return Err(Rejection::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
    }
    let boundary = multer::parse_boundary(content_type).ok();
    boundary.filter(|boundary| (1..=BOUNDARY_BYTES_MAX).contains(&boundary.len())).ok_or_else(|| {
        let message = "`Content-Type` must have a `boundary` of 1 to 70 characters\n";
        Rejection::new(StatusCode::BAD_REQUEST, message)
    })
}

impl fmt::Debug for Multipart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Multipart").field("fields", &self.fields).finish_non_exhaustive()
    }
}

/// A field of a form. It is also a [`Stream`] of the pieces of its content.
///
/// If the handler drops a field before its end, [`next_field`](Multipart::next_field) discards the rest.
pub struct Field<'f> {
    form: &'f mut Multipart,
}

impl<'f> Field<'f> {
    const fn new(form: &'f mut Multipart) -> Self {
        Self { form }
    }

    /// Returns the name of the field.
    pub fn name(&self) -> Option<&str> {
        self.form.current().and_then(multer::Field::name)
    }

    /// Returns the file name that the client has sent. `None` if the field is not a file.
    ///
    /// # Security
    /// The client chooses this name. It can contain `/` or `..`, so do not use it as a path.
    pub fn file_name(&self) -> Option<&str> {
        self.form.current().and_then(multer::Field::file_name)
    }

    /// Returns the value of `Content-Type`, if it is valid.
    pub fn content_type(&self) -> Option<&str> {
        self.form.current()?.content_type().map(AsRef::as_ref)
    }

    /// Returns the value of a header of the field. `None` if the value is missing or not ASCII.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.form.current()?.headers().get(name)?.to_str().ok()
    }

    /// Returns the next piece of the content, which is never empty. `None` at the end of the field.
    ///
    /// # Errors
    /// The body cannot be read, the form is incomplete, or the form or the field exceeds a limit.
    ///
    /// # Cancel safety
    /// Cancel safe: no data is lost if the future is dropped.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, MultipartError> {
        poll_fn(|cx| self.form.poll_chunk(cx)).await
    }

    /// Reads the rest of the field.
    ///
    /// # Errors
    /// Fails like [`chunk`](Self::chunk).
    ///
    /// # Cancel safety
    /// Not cancel safe: if the future is dropped, the data that it has read is lost.
    pub async fn bytes(mut self) -> Result<Bytes, MultipartError> {
        let mut all = BytesMut::new();
        while let Some(piece) = self.chunk().await? {
            all.extend_from_slice(&piece);
        }
        Ok(all.freeze())
    }

    /// Reads the rest of the field as text in UTF-8.
    ///
    /// # Errors
    /// Fails like [`chunk`](Self::chunk), and if the text is not UTF-8.
    ///
    /// # Cancel safety
    /// Not cancel safe: if the future is dropped, the data that it has read is lost.
    pub async fn text(self) -> Result<String, MultipartError> {
        String::from_utf8(self.bytes().await?.into()).map_err(|_| MultipartError::NotUtf8)
    }
}

impl Stream for Field<'_> {
    type Item = Result<Bytes, MultipartError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.form.poll_chunk(cx).map(Result::transpose)
    }
}

impl fmt::Debug for Field<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Field");
        debug.field("name", &self.name()).field("file_name", &self.file_name()).finish_non_exhaustive()
    }
}

/// Maximum number of bytes that the library gets to find the next field: a boundary, and the headers of the field.
/// Before the first field, also the text before the boundary.
const HEAD_BYTES_MAX: usize = 16 << 10;

/// Maximum size of the headers of a field. It is smaller than [`HEAD_BYTES_MAX`], so the result does not depend on the
/// pieces in which the body arrives.
const FIELD_HEADERS_BYTES_MAX: usize = 8 << 10;

/// Number of bytes that a header line has besides its name and its value.
const LINE_EXTRA_BYTES: usize = 4;

/// Maximum number of bytes that the library gets at a time while it reads the content of a field.
const PIECE_BYTES_MAX: usize = 64 << 10;

const FIELDS_MAX: usize = 100;

/// RFC 2046 §5.1.1.
const BOUNDARY_BYTES_MAX: usize = 70;
