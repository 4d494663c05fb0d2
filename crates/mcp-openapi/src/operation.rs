//! The operations of a document, and the tools for them.

use serde_json::{Map, Value, json};
use thruway_mcp::json_schema::CompiledSchema;
use thruway_mcp::schema::{JsonObject, Tool, ToolAnnotations};
use thruway_message::Method;

use crate::OpenApiError;
use crate::document::{Document, shown};
use crate::schema::{Schemas, of_property};

/// An operation of an OpenAPI document, for filters.
#[derive(Clone, Copy, Debug)]
pub struct ApiOperation<'d> {
    method: Method<'static>,
    method_name: &'static str,
    path: &'d str,
    item: &'d Value,
    operation: &'d Value,
}

/// A call of an operation: the parts of the request, and the arguments that they come from.
#[derive(Debug)]
pub(crate) struct ApiCall {
    pub(crate) method: Method<'static>,
    /// The path, with `{name}` for parameters.
    pub(crate) path: String,
    pub(crate) parameters: Vec<ApiParameter>,
    /// The argument with the body, if the operation has one.
    pub(crate) body: Option<ApiBody>,
}

/// The JSON body of a request.
#[derive(Debug)]
pub(crate) struct ApiBody {
    pub(crate) argument: String,
    pub(crate) media_type: String,
}

/// A parameter of a request.
#[derive(Debug)]
pub(crate) struct ApiParameter {
    /// The name in the request.
    pub(crate) name: String,
    /// The name of the tool's argument.
    pub(crate) argument: String,
    pub(crate) place: Place,
    pub(crate) style: Style,
}

/// The part of a request that contains a parameter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    Path,
    Query,
    Header,
}

/// The form of lists and objects in a parameter. Other values are texts in all styles.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Style {
    /// One text, with this separator between the values.
    Joined(char),
    /// One `name=value` for each value of a list or member of an object.
    Exploded,
    /// `name[member]=value` for each member of an object.
    Deep,
    /// The text of the value as JSON.
    Json,
}

impl<'d> ApiOperation<'d> {
    /// Returns all operations of a document, in its order.
    ///
    /// # Errors
    /// Returns an error if a reference of a path is invalid.
    pub(crate) fn all(document: &'d Document) -> Result<Vec<Self>, OpenApiError> {
        let mut all = Vec::new();
        for (path, item) in document.root["paths"].as_object().into_iter().flatten() {
            let item = document
                .resolve(item)
                .map_err(|reason| OpenApiError::Operation { operation: shown(path).into_owned(), reason })?;
            for (method, method_name, member) in METHODS {
                if let Some(operation) = item.get(member) {
                    all.push(ApiOperation { method, method_name, path, item, operation });
                }
            }
        }
        Ok(all)
    }

    /// Returns the method, such as `GET`.
    pub const fn method(&self) -> &'static str {
        self.method_name
    }

    /// Returns the path as in the document, such as `/pets/{id}`.
    pub const fn path(&self) -> &'d str {
        self.path
    }

    /// Returns the `operationId`, if any.
    pub fn id(&self) -> Option<&'d str> {
        self.operation["operationId"].as_str()
    }

    /// Returns `true` if the operation has this tag.
    pub fn has_tag(&self, tag: &str) -> bool {
        self.operation["tags"].as_array().is_some_and(|tags| tags.iter().any(|other| other == tag))
    }

    /// Returns `true` if the document advises against the use of the operation.
    pub fn is_deprecated(&self) -> bool {
        self.operation["deprecated"] == true
    }

    /// Returns the error for this operation.
    pub(crate) fn error(&self, reason: String) -> OpenApiError {
        OpenApiError::Operation { operation: format!("{} {}", self.method_name, shown(self.path)), reason }
    }

    /// Returns the name of the tool: the `operationId`, or the method and the path. Contains only characters
    /// that all clients accept.
    pub(crate) fn tool_name(&self) -> String {
        let whole = format!("{}_{}", self.method_name.to_lowercase(), self.path);
        let name = sanitized(self.id().unwrap_or(&whole));
        if name.is_empty() { sanitized(&whole) } else { name }
    }

    /// Returns the tool for the operation, and the request that its calls send. The tool has no parameters
    /// for the headers in `static_headers`.
    ///
    /// # Errors
    /// Returns an error if the operation has a part that tools cannot express, or exceeds a limit.
    pub(crate) fn tool(
        &self,
        document: &'d Document,
        name: String,
        static_headers: &[String],
    ) -> Result<(Tool, ApiCall), OpenApiError> {
        self.read(document, name, static_headers).map_err(|reason| self.error(reason))
    }

    fn read(
        &self,
        document: &'d Document,
        name: String,
        static_headers: &[String],
    ) -> Result<(Tool, ApiCall), String> {
        let mut input =
            Input { schemas: Schemas::new(document), properties: Map::new(), required: Vec::new() };
        let mut parameters: Vec<ApiParameter> = Vec::new();
        for described in self.parameters(document)? {
            if let Some(read) = parameter(described, &mut input, static_headers)? {
                parameters.push(read);
            }
        }
        let body = self.body(document, &mut input)?;
        check_path(self.path, &parameters)?;
        let mut tool = Tool::new(name).with_annotations(self.annotations());
        tool.title = self.operation["summary"].as_str().map(str::to_owned);
        tool.description = Some(self.description());
        tool.input_schema = input.into_schema()?;
        Ok((tool, ApiCall { method: self.method, path: self.path.to_owned(), parameters, body }))
    }

    fn annotations(&self) -> ToolAnnotations {
        let is_safe = self.method == Method::Get;
        ToolAnnotations {
            read_only_hint: Some(is_safe),
            destructive_hint: (!is_safe).then_some(self.method == Method::Delete),
            idempotent_hint: (!is_safe).then_some(self.method.is_idempotent()),
            open_world_hint: Some(true),
            ..ToolAnnotations::default()
        }
    }

    fn description(&self) -> String {
        let texts =
            ["summary", "description"].map(|member| self.operation[member].as_str().unwrap_or_default());
        let mut whole = texts.map(str::trim).join("\n\n").trim().to_owned();
        if whole.is_empty() {
            whole = format!("{} {}", self.method_name, self.path);
        }
        whole.truncate(whole.floor_char_boundary(DESCRIPTION_BYTES_MAX));
        whole
    }

    /// Returns the parameters of the path and of the operation. A parameter of the operation replaces the
    /// parameter of the path with the same name and place.
    fn parameters(&self, document: &'d Document) -> Result<Vec<&'d Value>, String> {
        let mut all: Vec<&'d Value> = Vec::new();
        for owner in [self.item, self.operation] {
            for parameter in owner["parameters"].as_array().into_iter().flatten() {
                let parameter = document.resolve(parameter)?;
                let is_same =
                    |other: &&Value| ["name", "in"].iter().all(|member| other[*member] == parameter[*member]);
                all.retain(|other| !is_same(other));
                all.push(parameter);
            }
        }
        if all.len() > PARAMETERS_MAX {
            return Err(format!("it has more than {PARAMETERS_MAX} parameters"));
        }
        Ok(all)
    }

    /// Reads the body of the request, and adds its argument to `input`.
    fn body(&self, document: &'d Document, input: &mut Input<'d>) -> Result<Option<ApiBody>, String> {
        let Some(body) = self.operation.get("requestBody") else { return Ok(None) };
        let body = document.resolve(body)?;
        let is_required = body["required"] == true;
        let mut contents = body["content"].as_object().into_iter().flatten();
        let Some((media_type, content)) = contents.find(|(media_type, _)| is_json(media_type)) else {
            return if is_required { Err("its body is not JSON".to_owned()) } else { Ok(None) };
        };
        let schema = &content["schema"];
        let mut schema = input.schemas.convert(if schema.is_null() { &ANY } else { schema })?;
        if let (Some(schema), Some(description)) = (schema.as_object_mut(), body.get("description")) {
            schema.entry("description").or_insert_with(|| description.clone());
        }
        let argument = input.add("body", "json", schema, is_required);
        let media_type = if media_type.contains('*') { "application/json" } else { media_type };
        Ok(Some(ApiBody { argument, media_type: media_type.to_owned() }))
    }
}

/// Reads a parameter, and adds its argument to `input`. Returns `None` for a parameter that the caller
/// does not choose.
fn parameter<'d>(
    parameter: &'d Value,
    input: &mut Input<'d>,
    static_headers: &[String],
) -> Result<Option<ApiParameter>, String> {
    let name = parameter["name"].as_str().ok_or("a parameter has no name")?;
    let of_parameter = |reason: &str| of_property(name, reason);
    let is_required = parameter["required"] == true;
    let place = match parameter["in"].as_str() {
        Some("path") => Place::Path,
        Some("query") => Place::Query,
        // OpenAPI 3.1 §4.8.12.2: definitions of these headers are ignored.
        Some("header")
            if ["accept", "content-type", "authorization"]
                .iter()
                .any(|other| name.eq_ignore_ascii_case(other))
                || static_headers.iter().any(|other| name.eq_ignore_ascii_case(other)) =>
        {
            return Ok(None);
        }
        Some("header") => Place::Header,
        Some("cookie") if !is_required => return Ok(None),
        Some("cookie") => return Err(of_parameter("required cookies are not supported")),
        _ => return Err(of_parameter("its place is neither path, query, header nor cookie")),
    };
    let (schema, style) = match parameter["content"].as_object().and_then(|content| content.iter().next()) {
        Some((media_type, content)) if is_json(media_type) => (&content["schema"], Style::Json),
        Some(_) => return Err(of_parameter("its content is not JSON")),
        None => (&parameter["schema"], style(parameter, place).map_err(of_parameter)?),
    };
    let mut schema = input.schemas.convert(if schema.is_null() { &ANY } else { schema })?;
    if let (Some(schema), Some(description)) = (schema.as_object_mut(), parameter.get("description")) {
        schema.insert("description".to_owned(), description.clone());
    }
    let is_required = is_required || place == Place::Path;
    let argument = input.add(name, place.as_str(), schema, is_required);
    Ok(Some(ApiParameter { name: name.to_owned(), argument, place, style }))
}

/// The arguments of a tool.
struct Input<'d> {
    schemas: Schemas<'d>,
    properties: Map<String, Value>,
    required: Vec<Value>,
}

impl Input<'_> {
    /// Adds an argument, and returns its name. If another argument has the same name, the name gets the
    /// suffix `kind`.
    fn add(&mut self, name: &str, kind: &str, schema: Value, is_required: bool) -> String {
        let mut argument = sanitized(name);
        if argument.is_empty() {
            kind.clone_into(&mut argument);
        }
        if self.properties.contains_key(&argument) {
            argument = format!("{argument}_{kind}");
        }
        let base = argument.clone();
        let mut number = 1;
        while self.properties.contains_key(&argument) {
            number += 1;
            argument = format!("{base}_{number}");
        }
        self.properties.insert(argument.clone(), schema);
        if is_required {
            self.required.push(argument.as_str().into());
        }
        argument
    }

    /// Returns the schema of the arguments. Removes regular expressions if they are invalid or can take more
    /// than linear time.
    fn into_schema(self) -> Result<JsonObject, String> {
        let mut schema = json!({
            "type": "object",
            "properties": self.properties,
            "required": self.required,
            "additionalProperties": false,
        });
        let definitions = self.schemas.into_definitions();
        if !definitions.is_empty() {
            schema["$defs"] = Value::Object(definitions);
        }
        if schema.to_string().len() > SCHEMA_BYTES_MAX {
            return Err(format!("the schema of its arguments is larger than {} KiB", SCHEMA_BYTES_MAX >> 10));
        }
        let compiled =
            |schema: &Value| CompiledSchema::compile_untrusted(schema.as_object().unwrap_or(&Map::new()));
        if compiled(&schema).is_err() {
            forget_patterns(&mut schema);
        }
        if let Err(error) = compiled(&schema) {
            return Err(format!("the schema of its arguments is invalid: {}", shown(&error.0)));
        }
        Ok(schema.as_object_mut().map(std::mem::take).unwrap_or_default())
    }
}

impl Place {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Path => "path",
            Self::Query => "query",
            Self::Header => "header",
        }
    }
}

/// Returns the style of a parameter (OpenAPI 3.1 §4.8.12.3).
fn style(parameter: &Value, place: Place) -> Result<Style, &'static str> {
    let name = parameter["style"].as_str();
    match (place, name) {
        (Place::Query, Some("deepObject")) => Ok(Style::Deep),
        (Place::Query, None | Some("form")) => {
            Ok(if parameter["explode"] == false { Style::Joined(',') } else { Style::Exploded })
        }
        (Place::Query, Some("spaceDelimited")) => Ok(Style::Joined(' ')),
        (Place::Query, Some("pipeDelimited")) => Ok(Style::Joined('|')),
        (Place::Path | Place::Header, None | Some("simple")) => Ok(Style::Joined(',')),
        _ => Err("its style is not supported"),
    }
}

/// Checks that the path has a parameter for each variable, and no other parameter.
fn check_path(path: &str, parameters: &[ApiParameter]) -> Result<(), String> {
    if !path.starts_with('/') {
        return Err("its path does not begin with `/`".to_owned());
    }
    let mut names: Vec<_> =
        path.split('{').skip(1).map(|part| part.split('}').next().unwrap_or_default()).collect();
    names.sort_unstable();
    let mut given: Vec<_> = parameters
        .iter()
        .filter(|other| other.place == Place::Path)
        .map(|parameter| &*parameter.name)
        .collect();
    given.sort_unstable();
    names.dedup();
    let is_same = names == given;
    if is_same {
        Ok(())
    } else {
        Err("its path and its path parameters do not have the same names".to_owned())
    }
}

fn is_json(media_type: &str) -> bool {
    let essence = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    essence == "application/json"
        || essence.ends_with("+json")
        || essence == "*/*"
        || essence == "application/*"
}

/// Removes all keywords `pattern` and `patternProperties` of a schema.
fn forget_patterns(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            members.retain(|keyword, value| match keyword.as_str() {
                "pattern" => !value.is_string(),
                "patternProperties" => false,
                _ => true,
            });
            members.values_mut().for_each(forget_patterns);
        }
        Value::Array(values) => values.iter_mut().for_each(forget_patterns),
        _ => {}
    }
}

/// Returns `name` with `_` in place of other characters than letters, digits, `_` and `-`.
fn sanitized(name: &str) -> String {
    let mut sanitized = String::new();
    for sign in name.chars() {
        if sign.is_ascii_alphanumeric() || sign == '-' || sign == '_' {
            sanitized.push(sign);
        } else if !sanitized.ends_with('_') {
            sanitized.push('_');
        }
    }
    let mut name = sanitized.trim_matches('_').to_owned();
    name.truncate(NAME_BYTES_MAX);
    name
}

/// The methods, their names, and the members of a document for them.
const METHODS: [(Method<'static>, &str, &str); 5] = [
    (Method::Get, "GET", "get"),
    (Method::Post, "POST", "post"),
    (Method::Put, "PUT", "put"),
    (Method::Patch, "PATCH", "patch"),
    (Method::Delete, "DELETE", "delete"),
];

/// The schema that accepts any value.
static ANY: Value = Value::Bool(true);

/// Maximum length of the name of a tool or an argument. Some clients accept no longer names.
pub(crate) const NAME_BYTES_MAX: usize = 60;

const DESCRIPTION_BYTES_MAX: usize = 4096;

const PARAMETERS_MAX: usize = 200;

/// Maximum size of the schema of a tool's arguments.
const SCHEMA_BYTES_MAX: usize = 256 << 10;
