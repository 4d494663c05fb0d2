//! HTTP requests. A request without placeholders is encoded once and sent many times.

use thruway_http1::{BodyLength, RequestToWrite, ResponseTo, write_request_head};
use thruway_message::{FieldName, FieldValue, Method};

use super::error::InvalidRequest;
use super::expected::Expected;
use super::source::{Http2Request, Requests};
use super::template::{Template, mixed};
use super::url::LoadUrl;

/// An HTTP request with the options of the user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HttpRequest {
    /// The URL, with its weight.
    pub url: LoadUrl,
    /// The method.
    pub method: String,
    /// Header fields, as names and values. The load generator adds a missing `Host` field, and a
    /// `Content-Length` field if the request needs one.
    pub headers: Vec<(String, String)>,
    /// The body, which may contain placeholders.
    pub content: Vec<u8>,
    /// `true` if the connection stays open after the response.
    pub is_persistent: bool,
    /// The expected response.
    pub expected: Expected,
}

/// Requests that are selected at random by their weights. The same request number always selects the same
/// request.
#[derive(Debug)]
pub struct HttpRequests {
    prepared: Vec<Prepared>,
    /// Indexes into `prepared`. The index of a request with the weight 3 occurs three times.
    units: Vec<usize>,
}

#[derive(Debug)]
struct Prepared {
    bytes: BodyBytes,
    to: ResponseTo,
    expected: Expected,
    is_secured: bool,
    has_te: bool,
    /// The request for HTTP/2, if it has no placeholders.
    http2: Option<Http2Request>,
}

#[derive(Debug)]
enum BodyBytes {
    /// A request without placeholders: the bytes of head and body.
    Fixed(Vec<u8>),
    /// A request with placeholders. `head` ends before the `Content-Length` line.
    Varying { head: Template, content: Template, needs_length: bool },
}

impl HttpRequest {
    /// Returns a GET request without a body.
    pub fn get(url: LoadUrl) -> Self {
        Self {
            url,
            method: "GET".to_owned(),
            headers: Vec::new(),
            content: Vec::new(),
            is_persistent: true,
            expected: Expected::default(),
        }
    }

    fn prepare(&self) -> Result<Prepared, InvalidRequest> {
        let method = Method::from_token(self.method.as_bytes()).map_err(|_| InvalidRequest::Method)?;
        if method == Method::Connect {
            return Err(InvalidRequest::Connect);
        }
        let field_lines = self.field_lines()?;
        let content = Template::new(&self.content);
        let mut head = Vec::new();
        // RFC 9110 §8.6: a request without a body has `Content-Length: 0` if requests with this method
        // usually have a body.
        let needs_length = matches!(method, Method::Post | Method::Put | Method::Patch);
        // The check replaces each placeholder with `0`, because the values of placeholders are valid in any
        // target.
        let target = self.url.target.replace("{n}", "0").replace("{random}", "0");
        let check =
            RequestToWrite { method, target: &target, field_lines: [b"", b""], body: BodyLength::NONE };
        write_request_head(&mut head, &check).map_err(|_| InvalidRequest::Target)?;
        let mut head = format!("{} {} HTTP/1.1\r\n", method.as_str(), self.url.target).into_bytes();
        head.extend_from_slice(&field_lines);
        let (head, to) = (Template::new(&head), ResponseTo::from(method));
        let varying = BodyBytes::Varying { head, content, needs_length };
        let is_fixed = match &varying {
            BodyBytes::Varying { head, content, .. } => head.is_fixed() && content.is_fixed(),
            BodyBytes::Fixed(_) => true,
        };
        let mut bytes = Vec::new();
        if is_fixed {
            varying.write(0, &mut bytes);
        }
        let bytes = if is_fixed { BodyBytes::Fixed(bytes) } else { varying };
        let has_te = self.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("te"));
        let is_secured = self.url.is_https;
        Ok(Prepared { bytes, to, expected: self.expected, is_secured, has_te, http2: None })
    }

    fn field_lines(&self) -> Result<Vec<u8>, InvalidRequest> {
        let mut lines = Vec::new();
        let mut push = |name: &str, value: &str| {
            FieldName::new(name.as_bytes()).map_err(|_| InvalidRequest::HeaderName(name.to_owned()))?;
            FieldValue::new(value.as_bytes()).map_err(|_| InvalidRequest::HeaderValue(name.to_owned()))?;
            lines.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
            Ok(())
        };
        let is_given = |name: &str| self.headers.iter().any(|(given, _)| given.eq_ignore_ascii_case(name));
        if !is_given("host") {
            push("Host", &self.url.host)?;
        }
        if !self.is_persistent {
            push("Connection", "close")?;
        }
        for (name, value) in &self.headers {
            let framing = ["content-length", "transfer-encoding", "connection", "upgrade", "expect"];
            if framing.iter().any(|known| name.eq_ignore_ascii_case(known)) {
                return Err(InvalidRequest::ReservedHeader(name.clone()));
            }
            push(name, value)?;
        }
        Ok(lines)
    }
}

impl Prepared {
    fn to_http2(&self, number: u64) -> Option<Http2Request> {
        let mut bytes = Vec::new();
        self.bytes.write(number, &mut bytes);
        Http2Request::of_bytes(&bytes, self.is_secured, self.has_te)
    }
}

impl BodyBytes {
    const fn is_fixed(&self) -> bool {
        matches!(self, Self::Fixed(_))
    }

    fn write(&self, number: u64, output: &mut Vec<u8>) {
        match self {
            Self::Fixed(bytes) => output.extend_from_slice(bytes),
            Self::Varying { head, content, needs_length } => {
                head.write(number, output);
                let mut written = Vec::new();
                content.write(number, &mut written);
                if *needs_length || !written.is_empty() {
                    output.extend_from_slice(format!("Content-Length: {}\r\n", written.len()).as_bytes());
                }
                output.extend_from_slice(b"\r\n");
                output.extend_from_slice(&written);
            }
        }
    }
}

impl HttpRequests {
    /// Encodes these requests.
    ///
    /// # Errors
    /// Returns an error if a request cannot be sent.
    pub fn new(requests: &[HttpRequest]) -> Result<Self, InvalidRequest> {
        let prepared = requests.iter().map(HttpRequest::prepare).collect::<Result<_, _>>()?;
        let weights = requests.iter().map(|request| request.url.weight as usize).enumerate();
        let units: Vec<usize> =
            weights.flat_map(|(index, weight)| std::iter::repeat_n(index, weight)).collect();
        if units.is_empty() {
            return Err(InvalidRequest::None);
        }
        Ok(Self { prepared, units })
    }

    /// Encodes the same requests for HTTP/2.
    ///
    /// # Errors
    /// Returns an error if a request cannot be sent over HTTP/2.
    pub fn for_http2(mut self) -> Result<Self, InvalidRequest> {
        for prepared in &mut self.prepared {
            let request = prepared.to_http2(0).ok_or(InvalidRequest::NotForHttp2)?;
            prepared.http2 = Some(request).filter(|_| prepared.bytes.is_fixed());
        }
        Ok(self)
    }

    #[inline]
    fn chosen(&self, number: u64) -> &Prepared {
        match &self.prepared[..] {
            [only] => only,
            several => {
                let unit = mixed(number) % self.units.len() as u64;
                &several[self.units[usize::try_from(unit).unwrap_or(0)]]
            }
        }
    }
}

impl Requests for HttpRequests {
    #[inline]
    fn write(&self, number: u64, output: &mut Vec<u8>) -> ResponseTo {
        let chosen = self.chosen(number);
        chosen.bytes.write(number, output);
        chosen.to
    }

    fn http2(&self, number: u64) -> Option<Http2Request> {
        let chosen = self.chosen(number);
        chosen.http2.clone().or_else(|| chosen.to_http2(number))
    }

    #[inline]
    fn expected(&self, number: u64) -> &Expected {
        &self.chosen(number).expected
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(url: &str) -> HttpRequest {
        HttpRequest::get(LoadUrl::parse(url).unwrap())
    }

    fn written(requests: &[HttpRequest], number: u64) -> String {
        let mut output = Vec::new();
        HttpRequests::new(requests).unwrap().write(number, &mut output);
        String::from_utf8(output).unwrap()
    }

    #[test]
    fn http1_request_has_the_configured_method_headers_and_body() {
        assert_eq!(written(&[request("http://a:81/b")], 5), "GET /b HTTP/1.1\r\nHost: a:81\r\n\r\n");
        let put = HttpRequest {
            method: "PUT".to_owned(),
            headers: vec![("X-Number".to_owned(), "{n}".to_owned()), ("host".to_owned(), "c".to_owned())],
            content: b"item {n}".to_vec(),
            is_persistent: false,
            ..request("http://a/b/{n}")
        };
        assert_eq!(
            written(&[put], 12),
            "PUT /b/12 HTTP/1.1\r\nConnection: close\r\nX-Number: 12\r\nhost: c\r\nContent-Length: 7\r\n\r\nitem 12"
        );
        let empty = HttpRequest { method: "POST".to_owned(), ..request("http://a/") };
        assert!(written(&[empty], 0).ends_with("Content-Length: 0\r\n\r\n"));
    }

    #[test]
    fn http2_request_has_the_same_content_as_http1() {
        let post = HttpRequest {
            method: "POST".to_owned(),
            headers: vec![
                ("X-Number".to_owned(), "{n}".to_owned()),
                ("Te".to_owned(), "trailers".to_owned()),
            ],
            content: b"item {n}".to_vec(),
            ..request("https://a:81/b/{n}?c")
        };
        let requests = [request("http://a/@3"), post];
        let all = HttpRequests::new(&requests).unwrap().for_http2().unwrap();
        let is_post = |number: &u64| all.http2(*number).unwrap().head.method() == "POST";
        let number = (0..100).find(is_post).unwrap();
        let Http2Request { head, content } = all.http2(number).unwrap();
        assert_eq!(head.uri().to_string(), format!("https://a:81/b/{number}?c"));
        assert_eq!(head.headers()["x-number"], number.to_string());
        assert_eq!((head.headers().len(), &head.headers()["te"]), (3, &"trailers".parse().unwrap()));
        assert_eq!(content, format!("item {number}"));
        let other = (0..100).find(|number| !is_post(number)).unwrap();
        let Http2Request { head, content } = all.http2(other).unwrap();
        assert_eq!((head.uri().to_string().as_str(), head.headers().len()), ("http://a/", 0));
        assert!(content.is_empty());
    }

    #[test]
    fn request_that_http2_cannot_express_is_rejected() {
        let headers = vec![("Host".to_owned(), "a b".to_owned())];
        let all = HttpRequests::new(&[HttpRequest { headers, ..request("http://a/") }]).unwrap();
        assert_eq!(all.for_http2().unwrap_err(), InvalidRequest::NotForHttp2);
    }

    #[test]
    fn requests_are_chosen_by_weight() {
        let requests = [request("http://a/one"), request("http://a/three@3")];
        let all = HttpRequests::new(&requests).unwrap();
        let mut output = Vec::new();
        let ones = (0..40_000).filter(|number| {
            output.clear();
            all.write(*number, &mut output);
            output.starts_with(b"GET /one ")
        });
        let ones = ones.count();
        assert!((9_500..10_500).contains(&ones), "{ones}");
    }

    #[test]
    fn invalid_requests_are_rejected() {
        let with = |name: &str, value: &str| HttpRequest {
            headers: vec![(name.to_owned(), value.to_owned())],
            ..request("http://a/")
        };
        let refusal = |request: HttpRequest| HttpRequests::new(&[request]).unwrap_err();
        assert_eq!(refusal(with("A B", "c")), InvalidRequest::HeaderName("A B".to_owned()));
        assert_eq!(refusal(with("A", "b\r\nC: d")), InvalidRequest::HeaderValue("A".to_owned()));
        let ours = "Content-Length".to_owned();
        assert_eq!(refusal(with(&ours, "5")), InvalidRequest::ReservedHeader(ours));
        for (method, error) in [("G T", InvalidRequest::Method), ("CONNECT", InvalidRequest::Connect)] {
            assert_eq!(refusal(HttpRequest { method: method.to_owned(), ..request("http://a/") }), error);
        }
        assert_eq!(HttpRequests::new(&[]).unwrap_err(), InvalidRequest::None);
    }
}
