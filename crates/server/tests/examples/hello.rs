use crate::programs::hello::app;
use crate::site::Site;

#[test]
fn hello_example_greets_by_name() {
    let site = Site::start(app());
    let reply = site.get("/");
    assert_eq!((reply.status, reply.text()), (200, "Hello, World!\n"));
    assert_eq!(reply.field("Content-Type"), Some("text/plain; charset=utf-8"));
    assert_eq!(site.get("/hello/Ada%20L.").text(), "Hello, Ada L.!\n");
    assert_eq!(site.get("/goodbye").status, 404);
}
