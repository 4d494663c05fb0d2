use std::future::pending;
use std::time::Duration;

use serde_json::{Value, json};
use thruway_mcp::schema::{CallToolResult, ContentBlock, Tool};
use thruway_mcp_server::McpServer;
use thruway_mcp_server::testing::TestClient;
use thruway_server::{FieldLinesBuf, Json, Request, Response, Router, RunningServer, Server, StatusCode};

use super::*;

fn document(paths: &Value) -> Value {
    json!({"openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "paths": paths})
}

fn tools_of(document: &Value) -> OpenApiTools {
    OpenApiTools::from_json(&document.to_string()).unwrap().base_url("http://localhost/v1/").unwrap()
}

/// Returns the definitions of the tools.
async fn definitions(tools: OpenApiTools) -> Vec<Tool> {
    TestClient::new(&McpServer::new("api", "1").with(tools)).tools().await.unwrap()
}

/// Returns the error for an operation with these members.
fn refused(operation: &Value) -> String {
    let error = tools_of(&document(&json!({"/a/{id}": {"get": operation}})));
    error.add_to(&McpServer::new("api", "1")).unwrap_err().to_string()
}

fn path_parameter() -> Value {
    json!({"name": "id", "in": "path", "required": true, "schema": {"type": "integer"}})
}

#[tokio::test]
async fn operation_becomes_a_tool() {
    let document = document(&json!({"/pets/{id}": {
        "parameters": [path_parameter(), {"name": "limit", "in": "query", "schema": {"type": "string"}}],
        "put": {
            "operationId": "pets/put pet", "summary": "Changes a pet.", "description": "Needs a name.",
            "parameters": [
                {
                    "name": "limit", "in": "query", "description": "The limit.",
                    "schema": {"type": "integer", "format": "int32"},
                },
                {"name": "id", "in": "query", "schema": {"type": "string", "format": "uuid"}},
                {"name": "X-Tag", "in": "header", "schema": {"type": "string"}},
                {"name": "Authorization", "in": "header", "required": true, "schema": {"type": "string"}},
                {"name": "x-key", "in": "header", "required": true, "schema": {"type": "string"}},
                {"name": "session", "in": "cookie", "schema": {"type": "string"}},
            ],
            "requestBody": {"required": true, "content": {"application/json": {"schema": {
                "type": "object", "required": ["name", "id"],
                "properties": {"name": {"type": "string"}, "id": {"type": "integer", "readOnly": true}},
                "x-note": 1, "xml": {},
            }}}},
        },
        "options": {},
    }}));
    let all = definitions(tools_of(&document).header("X-Key", "secret").unwrap()).await;
    let [tool] = &all[..] else { panic!("{all:?}") };
    assert_eq!((&*tool.name, tool.title.as_deref()), ("pets_put_pet", Some("Changes a pet.")));
    assert_eq!(tool.description.as_deref(), Some("Changes a pet.\n\nNeeds a name."));
    let annotations = tool.annotations.as_ref().unwrap();
    assert_eq!(
        (annotations.read_only_hint, annotations.destructive_hint, annotations.idempotent_hint),
        (Some(false), Some(false), Some(true))
    );
    assert_eq!(
        Value::Object(tool.input_schema.clone()),
        json!({
            "type": "object",
            "properties": {
                "id": {"type": "integer"},
                "limit": {"type": "integer", "description": "The limit."},
                "id_query": {"type": "string", "format": "uuid"},
                "X-Tag": {"type": "string"},
                "body": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}},
            },
            "required": ["id", "body"],
            "additionalProperties": false,
        })
    );
}

#[tokio::test]
async fn names_are_unique_and_valid() {
    let get = |id: &str| json!({"get": {"operationId": id}});
    let long = "x".repeat(100);
    let mut paths =
        json!({"/a": get("list"), "/b": get("list"), "/c/d.e": {"get": {}, "delete": {}}, "/f": get("ä")});
    paths["/g"] = get(&long);
    paths["/h"] = get(&long);
    let names: Vec<_> =
        definitions(tools_of(&document(&paths))).await.into_iter().map(|tool| tool.name).collect();
    let (first, second) = (&long[..60], format!("{}_2", &long[..58]));
    assert_eq!(names, ["list", "list_2", "get_c_d_e", "delete_c_d_e", "get_f", first, &second]);
}

#[tokio::test]
async fn filters_exclude_operations_before_they_are_read() {
    let broken = json!({"requestBody": {"$ref": "other.json#/a"}, "tags": ["new"]});
    let paths = json!({"/a": {"get": {"operationId": "a", "tags": ["pets"]}, "post": broken},
        "/b": {"get": {"operationId": "b", "deprecated": true, "tags": ["pets"]}}});
    let tools = tools_of(&document(&paths))
        .filter(|operation| operation.has_tag("pets") && operation.method() == "GET")
        .filter(|operation| !operation.is_deprecated() && operation.path() != "/c");
    let server = McpServer::new("api", "1");
    assert_eq!(tools.add_to(&server).unwrap(), ["a"]);
    let tools = tools_of(&document(&paths));
    assert!(matches!(tools.add_to(&server), Err(OpenApiError::Operation { .. })));
    assert_eq!(
        server.add(tools_of(&document(&paths))).unwrap_err().to_string(),
        "cannot register `OpenAPI document`: the operation `POST /a` cannot become a tool: `other.json#/a` refers to \
         another document"
    );
}

#[tokio::test]
async fn recursive_schemas_become_definitions() {
    let mut document = document(&json!({"/trees": {"post": {
        "operationId": "plant",
        "requestBody": {"$ref": "#/components/requestBodies/Tree"},
    }}}));
    document["components"] = json!({
        "requestBodies": {"Tree": {"content": {"application/vnd.tree+json": {
            "schema": {"$ref": "#/components/schemas/Tree"},
        }}}},
        "schemas": {
            "Tree": {"type": "object", "properties": {
                "children": {"type": "array", "items": {"$ref": "#/components/schemas/Tree"}},
                "color": {"$ref": "#/components/schemas/a~1b", "description": "The color."},
            }},
            "a/b": {"enum": ["red"]},
            "Unused": {},
        },
    });
    let [tool] = &definitions(tools_of(&document)).await[..] else { panic!("not one tool") };
    let schema = Value::Object(tool.input_schema.clone());
    assert_eq!(schema["properties"], json!({"body": {"$ref": "#/$defs/Tree"}}));
    assert_eq!(
        schema["$defs"],
        json!({
            "Tree": {"type": "object", "properties": {
                "children": {"type": "array", "items": {"$ref": "#/$defs/Tree"}},
                "color": {"$ref": "#/$defs/a_1b", "description": "The color."},
            }},
            "a_1b": {"enum": ["red"]},
        })
    );
}

#[tokio::test]
async fn schemas_of_version_3_0_are_converted() {
    let schema = json!({"type": "object", "properties": {
        "a": {
            "type": "integer", "nullable": true, "minimum": 1, "exclusiveMinimum": true, "maximum": 9,
            "exclusiveMaximum": false,
        },
        "b": {"type": "string", "enum": ["x"], "nullable": true, "format": "password", "pattern": "(?=x)x"},
    }});
    let mut document = document(&json!({"/a": {"post": {
        "requestBody": {"content": {"application/json": {"schema": schema}}},
    }}}));
    document["openapi"] = "3.0.3".into();
    let [tool] = &definitions(tools_of(&document)).await[..] else { panic!("not one tool") };
    assert_eq!(
        tool.input_schema["properties"]["body"]["properties"],
        json!({
            "a": {"type": ["integer", "null"], "exclusiveMinimum": 1, "maximum": 9},
            "b": {"type": ["string", "null"], "enum": ["x", null]},
        })
    );
}

#[test]
fn documents_that_cannot_be_read_are_errors() {
    for (text, expected) in [
        (
            "openapi: 3.1.0",
            "cannot read the OpenAPI document: it is not JSON: expected value at line 1 column 1",
        ),
        ("{}", "cannot read the OpenAPI document: it has no member `openapi` with a version"),
        ("[]", "cannot read the OpenAPI document: it has no member `openapi` with a version"),
        (
            r#"{"openapi": "2.0"}"#,
            "cannot read the OpenAPI document: the version `2.0` is neither 3.0 nor 3.1",
        ),
        (
            r#"{"openapi": "3.1.0", "paths": []}"#,
            "cannot read the OpenAPI document: it has no object `paths`",
        ),
    ] {
        assert_eq!(OpenApiTools::from_json(text).unwrap_err().to_string(), expected);
    }
    let large = " ".repeat((16 << 20) + 1);
    let error = OpenApiTools::from_json(&large).unwrap_err().to_string();
    assert_eq!(error, "cannot read the OpenAPI document: it is larger than 16 MiB");
}

#[test]
fn base_url_and_headers_are_checked() {
    let tools = || OpenApiTools::from_json(&document(&json!({})).to_string()).unwrap();
    for (url, expected) in [
        ("/v1", "the base URL of the API is invalid: `/v1` is not an absolute URL: set the base URL"),
        (
            "ftp://a/",
            "the base URL of the API is invalid: `ftp://a/` is not an absolute URL: set the base URL",
        ),
        (
            "http://{host}/",
            "the base URL of the API is invalid: `http://{host}/` has variables: set the base URL",
        ),
        ("http://a/?S", "the base URL of the API is invalid: `http://a/?***` has a query or a fragment"),
        (
            "http://bob:S@a/",
            "the base URL of the API is invalid: `http://*****@a/` is not an absolute URL: set the base URL",
        ),
        ("bob:S@a/{b}", "the base URL of the API is invalid: `***@a/{b}` has variables: set the base URL"),
        (
            "http://bob:S S@a/",
            "the base URL of the API is invalid: `***@a/` is not an absolute URL: set the base URL",
        ),
    ] {
        assert_eq!(tools().base_url(url).unwrap_err().to_string(), expected);
    }
    let server = McpServer::new("api", "1");
    assert_eq!(
        tools().add_to(&server).unwrap_err().to_string(),
        "the base URL of the API is invalid: the document has no `servers`: set the base URL"
    );
    let mut relative = document(&json!({}));
    relative["servers"] = json!([{"url": "/v1"}]);
    let error = OpenApiTools::from_json(&relative.to_string()).unwrap().add_to(&server).unwrap_err();
    assert!(matches!(error, OpenApiError::BaseUrl(_)));
    let mut absolute = document(&json!({}));
    absolute["servers"] = json!([{"url": "http://other.example/v1"}]);
    let tools_of_server = || OpenApiTools::from_json(&absolute.to_string()).unwrap();
    let with_header = || tools_of_server().header("X-Key", "S").unwrap();
    assert_eq!(
        with_header().add_to(&server).unwrap_err().to_string(),
        "the base URL of the API is invalid: set the base URL, because the headers may be secret"
    );
    assert!(with_header().base_url("http://a/").unwrap().add_to(&server).is_ok());
    assert!(tools_of_server().add_to(&server).is_ok());
    for (name, value) in
        [("Host", "a"), ("content-type", "a"), ("A b", "a"), ("Authorization", "secret\r\nA: b")]
    {
        let error = tools().header(name, value).unwrap_err().to_string();
        let start = format!("cannot send the header to the API: `{name}`: ");
        assert!(error.starts_with(&start) && !error.contains("secret"), "{error}");
    }
}

#[test]
fn operations_that_cannot_become_tools_are_errors() {
    let with = |parameter: Value| json!({"parameters": [path_parameter(), parameter]});
    let mut deep = json!({"type": "string"});
    for _ in 0..40 {
        deep = json!({"items": {"not": deep}});
    }
    for (operation, expected) in [
        (json!({}), "its path and its path parameters do not have the same names"),
        (
            with(json!({"name": "a", "in": "path"})),
            "its path and its path parameters do not have the same names",
        ),
        (with(json!({"in": "query"})), "a parameter has no name"),
        (
            with(json!({"name": "a", "in": "body"})),
            "`a`: its place is neither path, query, header nor cookie",
        ),
        (
            with(json!({"name": "a", "in": "cookie", "required": true})),
            "`a`: required cookies are not supported",
        ),
        (with(json!({"name": "a", "in": "query", "style": "matrix"})), "`a`: its style is not supported"),
        (
            with(json!({"name": "a", "in": "query", "content": {"text/xml": {}}})),
            "`a`: its content is not JSON",
        ),
        (with(json!({"$ref": "#/components/parameters/A"})), "`#/components/parameters/A` refers to nothing"),
        (
            with(json!({"name": "a", "in": "query", "schema": {"$ref": "http://a/b"}})),
            "`http://a/b` refers to another document",
        ),
        (
            with(json!({"name": "a", "in": "query", "schema": 5})),
            "a schema is neither an object nor a boolean",
        ),
        (
            with(json!({"name": "a", "in": "query", "schema": {"type": "texts"}})),
            "the schema of its arguments is invalid: ",
        ),
        (
            with(json!({"name": "a", "in": "query", "schema": deep})),
            "a schema is nested more than 64 levels deep",
        ),
        (
            json!({"parameters": [path_parameter()], "requestBody": {"required": true, "content": {"text/csv": {}}}}),
            "its body is not JSON",
        ),
    ] {
        let error = refused(&operation);
        let start = format!("the operation `GET /a/{{id}}` cannot become a tool: {expected}");
        assert!(error.starts_with(&start), "{error}");
    }
}

#[test]
fn hostile_references_and_sizes_are_bounded() {
    let body = |schema: Value| {
        let content = json!({"application/json": {"schema": schema}});
        json!({"parameters": [path_parameter()], "requestBody": {"content": content}})
    };
    let circle = json!({"$ref": "#/paths/~1a~1{id}/get/parameters/0"});
    assert!(refused(&json!({"parameters": [circle]})).ends_with("more than 16 references follow each other"));
    let wide: Value = (0..6000).map(|_| json!({})).collect();
    assert!(refused(&body(json!({"allOf": wide}))).ends_with("its schemas have more than 5000 parts"));
    let large = "x".repeat(300 << 10);
    assert!(refused(&body(json!({"description": large}))).ends_with("is larger than 256 KiB"));
    let many: Vec<_> = (0..201).map(|n| json!({"name": format!("p{n}"), "in": "query"})).collect();
    assert!(refused(&json!({"parameters": many})).ends_with("it has more than 200 parameters"));
    let all: Value = (0..201).map(|n| json!({"$ref": format!("#/components/schemas/S{n}")})).collect();
    let mut document = document(&json!({"/a/{id}": {"get": body(json!({"anyOf": all}))}}));
    let schemas: serde_json::Map<_, _> = (0..201).map(|n| (format!("S{n}"), json!({}))).collect();
    document["components"] = json!({"schemas": schemas});
    let error = tools_of(&document).add_to(&McpServer::new("api", "1")).unwrap_err().to_string();
    assert!(error.ends_with("its schemas refer to more than 200 other schemas"), "{error}");
}

#[test]
fn sizes_of_all_tools_together_are_bounded() {
    let refused =
        |document: &Value| tools_of(document).add_to(&McpServer::new("api", "1")).unwrap_err().to_string();
    let paths: serde_json::Map<_, _> = (0..2001).map(|n| (format!("/{n}"), json!({"get": {}}))).collect();
    let many = document(&Value::Object(paths));
    let start = "cannot read the OpenAPI document: it has more than ";
    let end = ": exclude operations with a filter";
    assert_eq!(refused(&many), format!("{start}2000 operations{end}"));
    let allowed = tools_of(&many).filter(|operation| operation.path() != "/0");
    assert_eq!(allowed.add_to(&McpServer::new("api", "1")).unwrap().len(), 2000);

    let operation = json!({"post": {"requestBody": {"$ref": "#/components/requestBodies/Large"}}});
    let paths: serde_json::Map<_, _> = (0..260).map(|n| (format!("/{n}"), operation.clone())).collect();
    let mut large = document(&Value::Object(paths));
    let schema = json!({"description": "x".repeat(255 << 10)});
    large["components"] =
        json!({"requestBodies": {"Large": {"content": {"application/json": {"schema": schema}}}}});
    assert_eq!(refused(&large), format!("{start}64 MiB of schemas for arguments{end}"));
}

/// An API that answers with the request that it received, and other responses.
fn api() -> RunningServer {
    fn echo(request: &Request<'_>) -> Json<Value> {
        let field = |name| request.field(name).and_then(|value| value.as_str().map(str::to_owned));
        let target = format!("{}?{}", request.path(), request.query_string().unwrap_or_default());
        Json(json!({
            "target": target, "tag": field("x-tag"), "key": field("authorization"), "accept": field("accept"),
        }))
    }
    let binary = |kind: &'static str| {
        let mut fields = FieldLinesBuf::new();
        fields.append("Content-Type", kind).unwrap();
        Response::ok(fields, vec![0xff; 3])
    };
    let router = Router::new()
        .get("/v1/echo/{*rest}", echo)
        .post("/v1/body", |Json(body): Json<Value>| Json(json!({"body": body})))
        .get("/v1/list", || Json(json!([1, 2])))
        .get("/v1/missing", || (StatusCode::NOT_FOUND, " no such pet\n"))
        .get("/v1/failing", || (StatusCode::INTERNAL_SERVER_ERROR, "x".repeat(5000)))
        .get("/v1/moved", || Response::redirect(StatusCode::SEE_OTHER, "/v1/list"))
        .get("/v1/empty", || StatusCode::NO_CONTENT)
        .get("/v1/binary", move || binary("application/zip"))
        .get("/v1/image", move || binary("image/png"))
        .get("/v1/large", || "x".repeat(2000))
        .get("/v1/stuck", || async { pending::<&'static str>().await });
    Server::new(router).workers(1).listen("127.0.0.1:0").unwrap().start().unwrap()
}

fn api_tools(running: &RunningServer) -> OpenApiTools {
    let query = |name: &str, more: Value| {
        let mut parameter = json!({"name": name, "in": "query"});
        parameter.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        parameter
    };
    let get = |id: &str| json!({"get": {"operationId": id}});
    let mut paths = json!({
        "/echo/{name}/x": {"get": {"operationId": "echo", "parameters": [
            {"name": "name", "in": "path", "required": true},
            {"name": "X-Tag", "in": "header"},
            query("list", json!({})),
            query("joined", json!({"explode": false})),
            query("piped", json!({"style": "pipeDelimited"})),
            query("deep", json!({"style": "deepObject"})),
            query("filter", json!({"content": {"application/json": {}}})),
            query("a b", json!({})),
        ]}},
        "/body": {"post": {"operationId": "body", "requestBody": {"content": {"application/json": {}}}}},
    });
    for name in ["list", "missing", "failing", "moved", "empty", "binary", "image", "large", "stuck"] {
        paths[format!("/{name}")] = get(name);
    }
    let url = format!("http://{}/v1", running.addresses()[0]);
    tools_of(&document(&paths)).base_url(&url).unwrap().header("Authorization", "Bearer a").unwrap()
}

async fn call(client: &mut TestClient, tool: &str, arguments: Value) -> CallToolResult {
    // The metadata names the MCP server.
    CallToolResult { meta: None, ..client.call_tool(tool, arguments).await.unwrap() }
}

fn failure(reason: &str) -> CallToolResult {
    CallToolResult::error(reason)
}

#[tokio::test]
async fn call_sends_a_request_with_its_arguments() {
    let running = api();
    let mut client = TestClient::new(&McpServer::new("api", "1").with(api_tools(&running)));
    let arguments = json!({
        "name": "a/b ../?ä", "X-Tag": "t", "list": [1, "b&c"], "joined": [1, 2], "piped": ["x", "y"],
        "deep": {"k": true, "l": "m"}, "filter": {"n": [1]}, "a_b": "c",
    });
    let echoed: Value = client.call("echo", arguments).await.unwrap();
    assert_eq!(
        echoed["target"],
        "/v1/echo/a%2Fb%20..%2F%3F%C3%A4/x?list=1&list=b%26c&joined=1%2C2&piped=x%7Cy&deep%5Bk%5D=true&deep%5Bl%5D=m\
         &filter=%7B%22n%22%3A%5B1%5D%7D&a%20b=c"
    );
    assert_eq!((&echoed["tag"], &echoed["key"]), (&json!("t"), &json!("Bearer a")));
    assert_eq!(echoed["accept"], "application/json, */*;q=0.5");
    let body: Value = client.call("body", json!({"body": {"a": [null, 1.5]}})).await.unwrap();
    assert_eq!(body, json!({"body": {"a": [null, 1.5]}}));
    let refused = call(&mut client, "echo", json!({"name": ""})).await;
    assert_eq!(refused, failure("invalid arguments: `name` cannot be empty"));
    let refused = call(&mut client, "echo", json!({"name": "a", "X-Tag": "b\r\nEvil: c"})).await;
    assert_eq!(refused.is_error, Some(true));
    assert!(call(&mut client, "echo", json!({"name": "a", "other": 1})).await.is_error == Some(true));
    drop(client);
    running.drain();
    running.join();
}

#[tokio::test]
async fn arguments_cannot_add_dot_segments_to_the_path() {
    let running = api();
    let get = |id: &str, names: &[&str]| {
        let parameter = |name| json!({"name": name, "in": "path", "required": true});
        let parameters: Vec<_> = names.iter().map(parameter).collect();
        json!({"get": {"operationId": id, "parameters": parameters}})
    };
    let paths = json!({
        "/echo/{a}/x": get("whole", &["a"]), "/echo/{a}{b}": get("two", &["a", "b"]),
        "/echo/.{a}": get("hidden", &["a"]),
    });
    let url = format!("http://{}/v1", running.addresses()[0]);
    let tools = tools_of(&document(&paths)).base_url(&url).unwrap();
    let mut client = TestClient::new(&McpServer::new("api", "1").with(tools));
    for (tool, a, b) in [
        ("whole", ".", ""),
        ("whole", "..", ""),
        ("whole", "../", ""),
        ("whole", "a/../../b", ""),
        ("whole", r"a\..\b", ""),
        ("whole", "..;a", ""),
        ("whole", "%2e%2e", ""),
        ("whole", "%252e.%252f", ""),
        ("two", ".", "."),
        ("two", "a/", "."),
        ("two", "%2", "e"),
        ("hidden", ".", ""),
        ("hidden", "/b", ""),
    ] {
        let mut arguments = json!({"a": a});
        if tool == "two" {
            arguments["b"] = b.into();
        }
        let refused = call(&mut client, tool, arguments).await;
        let expected = failure("invalid arguments: the path cannot have the segment `.` or `..`");
        assert_eq!(refused, expected, "{tool} {a} {b}");
    }
    for (a, target) in [("png", "/v1/echo/.png?"), ("..", "/v1/echo/...?"), ("100%", "/v1/echo/.100%25?")] {
        let echoed: Value = client.call("hidden", json!({"a": a})).await.unwrap();
        assert_eq!(echoed["target"], target);
    }
    drop(client);
    running.drain();
    running.join();
}

#[tokio::test]
async fn responses_become_results() {
    let running = api();
    let tools = api_tools(&running).response_bytes_max(1000).timeout(Duration::from_millis(100));
    let mut client = TestClient::new(&McpServer::new("api", "1").with(tools));
    let list = call(&mut client, "list", json!({})).await;
    assert_eq!((list.structured_content, &list.content[..]), (None, &[ContentBlock::text("[1,2]")][..]));
    let image = CallToolResult {
        content: vec![ContentBlock::image(&[0xff; 3], "image/png")],
        ..CallToolResult::default()
    };
    for (name, expected) in [
        ("missing", failure("the API answered with the status 404: no such pet")),
        ("moved", failure("the API answered with a redirect (303), which is not followed")),
        ("empty", CallToolResult::text("the API answered with 204, without content")),
        ("binary", failure("the API answered with 3 bytes that are not a text")),
        ("image", image),
        ("large", failure("the response of the API is larger than 1000 bytes")),
        ("failing", failure("the response of the API is larger than 1000 bytes")),
        ("stuck", failure("cannot call the API: it did not answer within 100ms")),
    ] {
        let result = call(&mut client, name, json!({})).await;
        assert_eq!(result, expected, "{name}");
    }
    let mut client = TestClient::new(&McpServer::new("api", "1").with(api_tools(&running)));
    let failing = call(&mut client, "failing", json!({})).await;
    let expected = format!("the API answered with the status 500: {}", "x".repeat(4096));
    assert_eq!(failing.content, [ContentBlock::text(expected)]);
    drop(client);
    running.drain();
    running.join();
    // No server listens any more.
    let mut client = TestClient::new(
        &McpServer::new("api", "1").with(
            tools_of(&document(&json!({
                "/a": {"get": {"operationId": "a"}},
            })))
            .base_url("http://127.0.0.1:1")
            .unwrap(),
        ),
    );
    let result = call(&mut client, "a", json!({})).await;
    assert!(format!("{:?}", result.content).contains("cannot call the API: "), "{result:?}");
}
