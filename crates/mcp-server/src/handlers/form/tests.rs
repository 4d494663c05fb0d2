use serde::{Deserialize, Serialize};
use serde_json::json;

use super::*;

#[derive(Serialize, Deserialize, JsonSchema, PartialEq, Debug)]
#[serde(rename_all = "lowercase")]
enum Room {
    Single,
    Double,
}

#[derive(Deserialize, JsonSchema, PartialEq, Debug)]
#[serde(rename_all = "lowercase")]
enum Meal {
    /// Breakfast
    Morning,
    Evening,
}

#[derive(Deserialize, JsonSchema, PartialEq, Debug)]
#[serde(deny_unknown_fields)]
struct Booking {
    /// The city.
    #[schemars(title = "City", length(min = 1, max = 40), regex(pattern = "^[A-Z]"))]
    city: String,
    #[schemars(range(min = 1, max = 30))]
    nights: u8,
    price: Option<f64>,
    #[serde(default)]
    is_smoker: bool,
    #[schemars(extend("format" = "email"))]
    email: Option<String>,
    #[serde(default = "double")]
    room: Room,
    meal: Option<Meal>,
}

#[derive(Deserialize, JsonSchema, PartialEq, Debug)]
struct Meals {
    #[schemars(length(max = 1))]
    meals: Vec<Meal>,
    rooms: Option<Vec<Room>>,
}

#[derive(Deserialize, JsonSchema)]
struct Nested {
    #[expect(dead_code, reason = "the test uses only the schema")]
    inner: Meals,
}

fn double() -> Room {
    Room::Double
}

// The derive macro writes the path of this crate, which its own tests cannot use.
impl ElicitForm for Booking {}
impl ElicitForm for Meals {}
impl ElicitForm for Nested {}

fn form<T: ElicitForm>(revision: Revision) -> Value {
    let form = TypedForm::of::<T>("?".to_owned(), revision).unwrap_or_else(|error| panic!("{error}"));
    serde_json::to_value(form.params).unwrap()["requestedSchema"].take()
}

#[test]
fn form_has_only_keywords_that_its_revision_defines() {
    let common = json!({
        "city": {
            "type": "string", "title": "City", "description": "The city.", "minLength": 1, "maxLength": 40,
        },
        "nights": {"type": "integer", "minimum": 1.0, "maximum": 30.0},
        "price": {"type": "number"},
        "is_smoker": {"type": "boolean", "default": false},
        "email": {"type": "string", "format": "email"},
    });
    let of_revision = |room: Value, meal: Value| {
        let mut properties = common.clone();
        properties["room"] = room;
        properties["meal"] = meal;
        json!({"type": "object", "properties": properties, "required": ["city", "nights"]})
    };
    let new = of_revision(
        json!({"type": "string", "enum": ["single", "double"], "default": "double"}),
        json!({"type": "string", "oneOf": [
            {"const": "evening", "title": "evening"}, {"const": "morning", "title": "Breakfast"},
        ]}),
    );
    let sorted = |mut form: Value| {
        if let Some(options) = form.pointer_mut("/properties/meal/oneOf").and_then(Value::as_array_mut) {
            options.sort_by_key(|option| option["const"].to_string());
        }
        form
    };
    for revision in [Revision::R20251125, Revision::R20260728] {
        assert_eq!(sorted(form::<Booking>(revision)), new);
    }
    let old = form::<Booking>(Revision::R20250618);
    assert_eq!(old["properties"]["room"], json!({"type": "string", "enum": ["single", "double"]}));
    let meal = &old["properties"]["meal"];
    let titled = |place: usize| (meal["enum"][place].as_str(), meal["enumNames"][place].as_str());
    assert!([titled(0), titled(1)].contains(&(Some("morning"), Some("Breakfast"))), "{meal}");
    assert_eq!(meal.get("oneOf"), None);
}

#[test]
fn list_of_an_enum_is_a_choice_of_several_options() {
    let form = form::<Meals>(Revision::LATEST);
    let (meals, rooms) = (&form["properties"]["meals"], &form["properties"]["rooms"]);
    assert_eq!((&meals["type"], &meals["maxItems"]), (&json!("array"), &json!(1)));
    assert_eq!(meals["items"]["anyOf"].as_array().map(Vec::len), Some(2), "{meals}");
    assert_eq!(rooms["items"], json!({"type": "string", "enum": ["single", "double"]}));
    assert_eq!(form["required"], json!(["meals"]));
    let error = TypedForm::of::<Meals>(String::new(), Revision::R20250618).map(|_| ()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot show the form `Meals`: field `meals`: a choice of several options needs a client with MCP \
         revision 2025-11-25 or later"
    );
}

#[test]
fn nested_object_is_an_error() {
    let error = TypedForm::of::<Nested>(String::new(), Revision::LATEST).map(|_| ()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot show the form `Nested`: field `inner`: a form can have only texts, numbers, booleans and choices"
    );
}

fn read(action: &str, content: &Value) -> Result<Elicited<Booking>, String> {
    let form =
        TypedForm::of::<Booking>(String::new(), Revision::LATEST).unwrap_or_else(|error| panic!("{error}"));
    let answer = serde_json::from_value(json!({"action": action, "content": content})).unwrap();
    form.read(answer).map_err(|error| error.to_string())
}

#[test]
fn answers_become_values() {
    let expected = Booking {
        city: "Rome".to_owned(),
        nights: 2,
        price: None,
        is_smoker: false,
        email: Some("ada@example.com".to_owned()),
        room: Room::Double,
        meal: Some(Meal::Morning),
    };
    let content =
        json!({"city": "Rome", "nights": 2, "email": "ada@example.com", "meal": "morning", "price": null});
    assert_eq!(read("accept", &content), Ok(Elicited::Accepted(expected)));
    assert_eq!(read("decline", &Value::Null), Ok(Elicited::Declined));
    assert_eq!(read("cancel", &content), Ok(Elicited::Cancelled));
    let failure = |elicited: Elicited<()>| elicited.or_fail().unwrap_err().to_string();
    assert_eq!(failure(Elicited::Declined), "the user has declined the form");
    assert_eq!(failure(Elicited::Cancelled), "the user has closed the form");
}

#[test]
fn answers_that_do_not_match_the_form_are_errors() {
    for (name, value, expected) in [
        ("nights", json!(31), "/nights: 31 is greater than the maximum of 30"),
        ("nights", json!("2"), "/nights: \"2\" is not of type \"integer\""),
        ("nights", json!(2.0), "invalid type: floating point"),
        // Forms have no patterns, but the server validates them.
        ("city", json!("rome"), "/city: \"rome\" does not match \"^[A-Z]\""),
        ("email", json!("ada"), "/email: \"ada\" is not a \"email\""),
        ("room", json!("triple"), "/room: "),
        ("meal", json!(["morning"]), "/meal: "),
        ("other", json!(1), "Additional properties are not allowed"),
        ("city", json!(null), "/city: null is not of type \"string\""),
    ] {
        let mut content = json!({"city": "Rome", "nights": 2});
        content[name] = value;
        let error = read("accept", &content).unwrap_err();
        let start = "the client's answer does not match the form: ";
        assert!(error.starts_with(&format!("{start}{expected}")), "{error}");
    }
    let error = read("accept", &json!({"city": "Rome"})).unwrap_err();
    assert!(error.contains("\"nights\" is a required property"), "{error}");
    assert!(read("accept", &Value::Null).is_err());
}
