use crate::programs::html_templates::app;
use crate::site::Site;

const FORM: &str = "Content-Type: application/x-www-form-urlencoded\r\n";

#[test]
fn guest_book_escapes_html_in_entries() {
    let site = Site::start(app());
    let empty = site.get("/");
    assert_eq!(empty.field("Content-Type"), Some("text/html; charset=utf-8"));
    assert!(empty.text().starts_with("<!doctype html>") && empty.text().contains("Nobody has signed yet."));

    let signed = site.request(
        "POST",
        "/",
        FORM,
        b"name=A%22d%22a&text=%3Cscript%3Ealert%281%29%3C%2Fscript%3E+%26+co",
    );
    assert_eq!((signed.status, signed.field("Location")), (303, Some("/")));
    let page = site.get("/");
    let expected = r#"<p><b title="A&quot;d&quot;a">A&quot;d&quot;a</b>: &lt;script&gt;alert(1)&lt;&#x2f;script&gt; &amp; co</p>"#;
    assert!(page.text().contains(expected), "{}", page.text());
    assert!(page.text().contains("<title>Guest book</title>") && !page.text().contains("Nobody"));
}

#[test]
fn invalid_form_is_rejected() {
    let site = Site::start(app());
    assert_eq!(site.request("POST", "/", FORM, b"name=&text=x").status, 422);
    assert_eq!(site.request("POST", "/", FORM, b"text=x").status, 422);
    assert_eq!(site.json("POST", "/", r#"{"name": "Ada", "text": "x"}"#).status, 415);
    assert!(site.get("/").text().contains("Nobody has signed yet."));
}
