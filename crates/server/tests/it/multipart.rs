//! The extractor `Multipart`: fields, limits and malformed forms.

use std::fmt::Write;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use thruway_server::extractors::multipart::{Multipart, MultipartError};
use thruway_server::testing::{TestClient, TestResponse};
use thruway_server::{Router, StatusCode};

const FORM: &str = "multipart/form-data; boundary=parted";

/// Returns a description of all fields.
async fn describe(mut form: Multipart) -> Result<String, MultipartError> {
    let mut text = String::new();
    while let Some(field) = form.next_field().await? {
        let (name, file, kind) = (field.name(), field.file_name(), field.content_type());
        let tag = field.header("x-tag");
        write!(text, "{name:?} {file:?} {kind:?} {tag:?} ").unwrap();
        writeln!(text, "{:?}", field.text().await?).unwrap();
    }
    Ok(text)
}

/// Counts the fields and reads only one byte of each.
async fn count(mut form: Multipart) -> Result<String, MultipartError> {
    let mut fields = 0;
    while let Some(mut field) = form.next_field().await? {
        field.next().await.transpose()?;
        fields += 1;
    }
    Ok(format!("{fields}"))
}

/// Shows that each call after an error returns the same error.
async fn insist(mut form: Multipart) -> String {
    let first = loop {
        match form.next_field().await {
            Ok(Some(_)) => {}
            Ok(None) => return "no error".to_owned(),
            Err(error) => break error,
        }
    };
    assert_eq!(form.next_field().await.err(), Some(first));
    format!("{first:?}")
}

fn client() -> TestClient {
    let limited =
        async |form: Multipart| describe(form.max_bytes(1000).max_field_bytes(100).max_fields(3)).await;
    let router = Router::new()
        .post("/describe", describe)
        .post("/count", count)
        .post("/insist", insist)
        .post("/limited", limited);
    TestClient::new(router)
}

fn part(head: &str, content: &str) -> String {
    format!("--parted\r\nContent-Disposition: form-data; {head}\r\n\r\n{content}\r\n")
}

fn form(parts: &[String]) -> String {
    parts.concat() + "--parted--\r\n"
}

async fn post(path: &str, body: impl Into<Bytes>) -> TestResponse {
    client().post(path).header("Content-Type", FORM).body(body).send().await.unwrap()
}

/// Sends the body in pieces.
async fn post_pieces(path: &str, pieces: Vec<Bytes>) -> (u16, String) {
    let request = client();
    let response =
        request.post(path).header("Content-Type", FORM).stream(stream::iter(pieces)).send().await.unwrap();
    (response.status().as_u16(), response.text().await.unwrap())
}

#[tokio::test]
async fn fields_and_files_are_read_in_any_pieces() {
    let parts = [
        part("name=\"title\"", "a\r\n--part of the text"),
        part("name=\"file\"; filename=\"a b.txt\"\r\nContent-Type: text/plain\r\nX-Tag: 7", "\r\n\r\n"),
        part("filename=x", ""),
    ];
    let body = Bytes::from(format!("preamble\r\n{}epilogue", form(&parts)));
    let expected = "Some(\"title\") None None None \"a\\r\\n--part of the text\"\n\
                    Some(\"file\") Some(\"a b.txt\") Some(\"text/plain\") Some(\"7\") \"\\r\\n\\r\\n\"\n\
                    None Some(\"x\") None None \"\"\n";
    assert_eq!(post("/describe", body.clone()).await.text().await.unwrap(), expected);
    for cut in 1..body.len() {
        let pieces = vec![body.slice(..cut), body.slice(cut..)];
        assert_eq!(post_pieces("/describe", pieces).await, (200, expected.to_owned()), "cut at {cut}");
    }
    let bytes = (0..body.len()).map(|at| body.slice(at..=at)).collect();
    assert_eq!(post_pieces("/describe", bytes).await, (200, expected.to_owned()));
}

#[tokio::test]
async fn unread_part_of_a_field_is_skipped() {
    let large = "\r\n--parte".repeat(20_000);
    let body = form(&[part("name=a", &large), part("name=b", "x"), part("name=c", &large)]);
    assert_eq!(post("/count", body).await.text().await.unwrap(), "3");
    let many: Vec<_> = (0..100).map(|_| part("name=a", "x")).collect();
    assert_eq!(post("/count", form(&many)).await.text().await.unwrap(), "100");
}

#[tokio::test]
async fn other_content_type_gets_415_and_invalid_boundary_400() {
    let long = format!("multipart/form-data; boundary={}", "x".repeat(71));
    for (content_type, status) in [
        (None, StatusCode::UNSUPPORTED_MEDIA_TYPE),
        (Some("application/json"), StatusCode::UNSUPPORTED_MEDIA_TYPE),
        (Some("multipart/mixed; boundary=parted"), StatusCode::UNSUPPORTED_MEDIA_TYPE),
        (Some("multipart"), StatusCode::UNSUPPORTED_MEDIA_TYPE),
        (Some("multipart/form-data"), StatusCode::BAD_REQUEST),
        (Some("multipart/form-data; boundary=\"\""), StatusCode::BAD_REQUEST),
        (Some(&long), StatusCode::BAD_REQUEST),
        (Some("Multipart/Form-Data; Boundary=\"parted\""), StatusCode::OK),
    ] {
        let (client, body) = (client(), form(&[part("name=a", "x")]));
        let request = client.post("/describe").body(body);
        let request = match content_type {
            Some(content_type) => request.header("Content-Type", content_type),
            None => request,
        };
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), status, "{content_type:?}");
    }
}

#[tokio::test]
async fn truncated_form_gets_400_at_every_length() {
    let body = form(&[part("name=a", "x\r\ny"), part("name=b; filename=c", "z")]);
    // The two hyphens after the last boundary end the form.
    for length in 0..body.len() - 2 {
        let response = post("/describe", body[..length].to_owned()).await;
        assert_eq!(response.status(), StatusCode::BAD_REQUEST, "{length} bytes");
        assert_eq!(response.text().await.unwrap(), "the form is incomplete\n", "{length} bytes");
    }
    assert_eq!(post("/describe", body[..body.len() - 2].to_owned()).await.status(), StatusCode::OK);
}

#[tokio::test]
async fn malformed_form_gets_400() {
    for body in [
        "--parted\r\nno header\r\n\r\nx\r\n--parted--\r\n".to_owned(),
        format!("--parted\r\n{}\r\nx\r\n--parted--\r\n", "A: b\r\n".repeat(33)),
        "--parted\r\nA: \u{1}\r\n\r\nx\r\n--parted--\r\n".to_owned(),
        "--parted, and more\r\n\r\nx\r\n--parted--\r\n".to_owned(),
        "--other\r\n\r\nx\r\n--other--\r\n".to_owned(),
    ] {
        assert_eq!(post("/describe", body.clone()).await.status(), StatusCode::BAD_REQUEST, "{body:?}");
    }
    let body = [part("name=a", "").as_bytes(), b"--parted--"].concat();
    assert_eq!(post("/describe", body).await.status(), StatusCode::OK);
    let body = [b"--parted\r\nA: b\r\n\r\n\xff\xfe" as &[u8], b"\r\n--parted--"].concat();
    let response = post("/describe", body).await;
    assert_eq!((response.status(), response.text().await.unwrap().as_str()), {
        (StatusCode::BAD_REQUEST, "a field of the form is not UTF-8\n")
    });
}

/// The library buffers text before the first boundary and the headers of a field without a limit. A client could fill
/// the memory with them, up to the maximum size of the form.
#[tokio::test]
async fn endless_text_before_the_first_field_and_huge_headers_get_413() {
    let head = |bytes: usize| part(&format!("name=a\r\nX-Tag: {}", "h".repeat(bytes)), "x");
    for body in [
        "x".repeat(1 << 20),
        "\r\n--parte".repeat(1 << 17),
        head(1 << 20),
        head(12 << 10),
        head(9 << 10),
        part("name=a", "x") + &head(9 << 10),
        part("name=a", "x") + "--parted" + &" ".repeat(1 << 20),
    ] {
        let whole = post("/insist", body.clone()).await.text().await.unwrap();
        assert_eq!(whole, "FieldHeadTooLarge", "{}", &body[..60]);
        let pieces = Bytes::from(body).chunks(1000).map(Bytes::copy_from_slice).collect();
        assert_eq!(post_pieces("/insist", pieces).await.1, whole);
    }
    assert_eq!(post("/insist", form(&[head(7 << 10)])).await.text().await.unwrap(), "no error");
    assert_eq!(post("/describe", head(1 << 20)).await.status(), StatusCode::CONTENT_TOO_LARGE);
}

#[tokio::test]
async fn forms_above_the_limits_get_413() {
    let field = |bytes: usize| part("name=a", &"x".repeat(bytes));
    let large_head = || part(&format!("name=a\r\nX-Tag: {}", "h".repeat(400)), "x");
    for (body, reason) in [
        (form(&[field(100), field(100), field(100)]), ""),
        (form(&[field(101)]), "a field of the form is larger than allowed\n"),
        (form(&[field(1), field(1), field(1), field(1)]), "the form has more fields than allowed\n"),
        (form(&[large_head(), large_head(), large_head()]), "the form is larger than allowed\n"),
    ] {
        let status = if reason.is_empty() { 200 } else { 413 };
        let response = post("/limited", body.clone()).await;
        assert_eq!(response.status().as_u16(), status, "{reason}");
        let text = response.text().await.unwrap();
        assert!(reason.is_empty() || text == reason, "{text}");
        // Without a declared length, the server reads the form until it exceeds the limit.
        let pieces = Bytes::from(body).chunks(7).map(Bytes::copy_from_slice).collect();
        assert_eq!(post_pieces("/limited", pieces).await.0, status, "{reason}");
    }
    // The default limit of the whole form.
    let large = form(&[part("name=a", &"x".repeat(2 << 20))]);
    assert_eq!(post("/count", large).await.status(), StatusCode::CONTENT_TOO_LARGE);
    let many: Vec<_> = (0..101).map(|_| part("name=a", "x")).collect();
    assert_eq!(post("/insist", form(&many)).await.text().await.unwrap(), "TooManyFields");
}
