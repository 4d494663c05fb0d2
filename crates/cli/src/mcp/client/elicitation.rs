//! Elicitation: asks the user at the terminal for information that an MCP server requests.

use std::io::{BufRead, IsTerminal, Write, stderr, stdin};

use serde_json::{Map, Value};
use thruway_mcp_sdk::McpClientBuilder;
use thruway_mcp_sdk::json_rpc::{Error, ErrorCode};
use thruway_mcp_sdk::schema::{
    ClientCapabilities, ElicitAction, ElicitRequestFormParams, ElicitRequestParams, ElicitResult,
    InputRequest, InputResponse, PrimitiveSchemaDefinition,
};
use tokio::task::spawn_blocking;

use super::print::shown;

/// If the command runs in a terminal, declares the elicitation capability, so that the server can ask the
/// user.
pub(super) fn answering(builder: McpClientBuilder, capabilities: ClientCapabilities) -> McpClientBuilder {
    if !stdin().is_terminal() || !stderr().is_terminal() {
        return builder.answers(capabilities, |_| async { Err(cannot_answer()) });
    }
    let capabilities = capabilities.with_elicitation().with_url_elicitation();
    builder.answers(capabilities, |request| async {
        let answering = spawn_blocking(|| answer(request, &mut stdin().lock(), &mut stderr()));
        answering.await.map_err(|_| Error::internal("the terminal was closed"))?
    })
}

fn cannot_answer() -> Error {
    Error::new(ErrorCode::METHOD_NOT_FOUND, "the client has no terminal to ask the user")
}

fn answer(
    request: InputRequest,
    input: &mut impl BufRead,
    output: &mut impl Write,
) -> Result<InputResponse, Error> {
    let InputRequest::Elicit(request) = request else { return Err(cannot_answer()) };
    let result = match request.params {
        ElicitRequestParams::Form(form) => fill(&form, input, output),
        ElicitRequestParams::Url(page) => visit(&page.message, &page.url, input, output),
    };
    let result = result.unwrap_or_else(|_| result_of(ElicitAction::Cancel, None));
    Ok(InputResponse::Elicit(result))
}

/// Asks the user to open a URL. The program does not open the URL automatically, because the server may be
/// malicious.
fn visit(
    message: &str,
    url: &str,
    input: &mut impl BufRead,
    output: &mut impl Write,
) -> std::io::Result<ElicitResult> {
    writeln!(
        output,
        "The server asks: {}\nThe server asks you to open {}",
        shown(message),
        shown(url).replace('\n', " ")
    )?;
    let Some(line) = prompt("Will you open it in a browser? [y/N] ", input, output)? else {
        return Ok(result_of(ElicitAction::Cancel, None));
    };
    let action = if is_yes(&line) { ElicitAction::Accept } else { ElicitAction::Decline };
    Ok(result_of(action, None))
}

/// Asks the user for the value of each form field. Asks again after an invalid value.
fn fill(
    form: &ElicitRequestFormParams,
    input: &mut impl BufRead,
    output: &mut impl Write,
) -> std::io::Result<ElicitResult> {
    writeln!(output, "The server asks: {}", shown(&form.message))?;
    if form.requested_schema.properties.is_empty() {
        return confirm(input, output);
    }
    writeln!(output, "(type `-` to decline, or press Ctrl-D to cancel)")?;
    let mut content = Map::new();
    for (name, field) in &form.requested_schema.properties {
        let field: PrimitiveSchemaDefinition = serde_json::from_value(field.clone()).unwrap_or_default();
        let is_required = form.requested_schema.required.contains(name);
        let label = label(name, &field, is_required);
        loop {
            let Some(line) = prompt(&label, input, output)? else {
                return Ok(result_of(ElicitAction::Cancel, None));
            };
            if line == "-" {
                return Ok(result_of(ElicitAction::Decline, None));
            }
            match read(&line, &field, is_required) {
                Ok(Some(value)) => drop(content.insert(name.clone(), value)),
                Ok(None) => {}
                Err(reason) => {
                    writeln!(output, "{reason}")?;
                    continue;
                }
            }
            break;
        }
    }
    Ok(result_of(ElicitAction::Accept, Some(content)))
}

fn confirm(input: &mut impl BufRead, output: &mut impl Write) -> std::io::Result<ElicitResult> {
    let line = prompt("Yes? [y/N] ", input, output)?;
    Ok(match line {
        None => result_of(ElicitAction::Cancel, None),
        Some(line) if is_yes(&line) => result_of(ElicitAction::Accept, Some(Map::new())),
        Some(_) => result_of(ElicitAction::Decline, None),
    })
}

/// Prints `label`, and returns a line of input without surrounding spaces. Returns `None` at the end of the
/// input.
fn prompt(label: &str, input: &mut impl BufRead, output: &mut impl Write) -> std::io::Result<Option<String>> {
    write!(output, "{label}")?;
    output.flush()?;
    let mut line = String::new();
    let read = input.read_line(&mut line)?;
    Ok((read > 0).then(|| line.trim().to_owned()))
}

fn label(name: &str, field: &PrimitiveSchemaDefinition, is_required: bool) -> String {
    let title = shown(field.title.as_deref().unwrap_or(name));
    let kind = match &options(field)[..] {
        [] => shown(&field.r#type),
        options => shown(&options.join(", ")),
    };
    let optional = if is_required { "" } else { ", optional" };
    let default =
        field.default.as_ref().map_or_else(String::new, |value| format!(" [{}]", shown(&plain(value))));
    format!("{title} ({kind}{optional}){default}: ")
}

/// Parses `line` as the value of `field`. For an empty line, returns the default value of the field. If
/// an optional field has no default value, returns `None` for an empty line.
fn read(line: &str, field: &PrimitiveSchemaDefinition, is_required: bool) -> Result<Option<Value>, String> {
    if line.is_empty() {
        return match &field.default {
            Some(default) => Ok(Some(default.clone())),
            None if is_required => Err("a value is required".to_owned()),
            None => Ok(None),
        };
    }
    let options = options(field);
    let is_option = |word: &str| options.is_empty() || options.iter().any(|option| option == word);
    let value = match field.r#type.as_str() {
        "integer" => line.parse::<i64>().map(Value::from).map_err(|_| "expected a whole number")?,
        "number" => serde_json::from_str::<serde_json::Number>(line)
            .map(Value::Number)
            .map_err(|_| "expected a number")?,
        "boolean" => match line.to_lowercase().as_str() {
            "y" | "yes" | "true" => true.into(),
            "n" | "no" | "false" => false.into(),
            _ => return Err("expected yes or no".to_owned()),
        },
        "array" => {
            let words: Vec<_> = line.split(',').map(str::trim).collect();
            if !words.iter().all(|word| is_option(word)) {
                return Err("expected some of the options, separated by commas".to_owned());
            }
            words.into()
        }
        _ if is_option(line) => line.into(),
        _ => return Err("expected one of the options".to_owned()),
    };
    Ok(Some(value))
}

/// Returns the values that the field allows, or an empty list if the field allows any value.
fn options(field: &PrimitiveSchemaDefinition) -> Vec<String> {
    let items = field.items.iter().flat_map(|items| {
        let titled = items.any_of.iter().map(|option| &option.value);
        items.options.iter().chain(titled)
    });
    let titled = field.one_of.iter().map(|option| &option.value);
    field.options.iter().chain(titled).chain(items).cloned().collect()
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn is_yes(line: &str) -> bool {
    matches!(line.to_lowercase().as_str(), "y" | "yes")
}

fn result_of(action: ElicitAction, content: Option<Map<String, Value>>) -> ElicitResult {
    ElicitResult { action, content, meta: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn form() -> ElicitRequestFormParams {
        ElicitRequestFormParams::new("Who\u{1b}[2J are you?")
            .with_required_field("name", PrimitiveSchemaDefinition::string().with_title("Name"))
            .with_field("age", PrimitiveSchemaDefinition::integer())
            .with_field("size", PrimitiveSchemaDefinition::one_of(["s", "m"]).with_default("m"))
            .with_field("colours", PrimitiveSchemaDefinition::several_of(["red", "blue"]))
            .with_field("member", PrimitiveSchemaDefinition::boolean())
    }

    /// Answers the form with the keyboard input `typed`. Returns the response and the text printed.
    fn fill_form(typed: &str) -> (ElicitResult, String) {
        let mut output = Vec::new();
        let request = serde_json::to_value(form()).unwrap();
        let request = json!({"method": "elicitation/create", "params": request});
        let request = serde_json::from_value(request).unwrap();
        match answer(request, &mut typed.as_bytes(), &mut output).unwrap() {
            InputResponse::Elicit(result) => (result, String::from_utf8(output).unwrap()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn form_repeats_each_field_until_its_value_is_valid() {
        let (result, shown) = fill_form("\nAda\nold\n36\nl\n\ngreen\nred, blue\nmaybe\nyes\n");
        assert_eq!(result.action, ElicitAction::Accept);
        let expected =
            json!({"name": "Ada", "age": 36, "size": "m", "colours": ["red", "blue"], "member": true});
        assert_eq!(result.content.map(Value::Object), Some(expected));
        for text in [
            "a value is required",
            "a whole number",
            "one of the options",
            "some of the options",
            "yes or no",
        ] {
            assert!(shown.contains(text), "{text}: {shown}");
        }
        assert!(shown.contains("size (s, m, optional) [m]: ") && !shown.contains('\u{1b}'), "{shown}");
    }

    #[test]
    fn form_allows_empty_optional_fields_decline_and_cancel() {
        let (result, _) = fill_form("Ada\n\n\n\n\n");
        assert_eq!(result.content.map(Value::Object), Some(json!({"name": "Ada", "size": "m"})));
        assert_eq!(fill_form("Ada\n-\n").0.action, ElicitAction::Decline);
        assert_eq!(fill_form("Ada\n36\n").0.action, ElicitAction::Cancel);
    }

    #[test]
    fn url_elicitation_needs_confirmation_and_roots_list_is_an_error() {
        let request = serde_json::from_value(json!({"method": "roots/list", "params": {}})).unwrap();
        assert!(answer(request, &mut &b""[..], &mut Vec::new()).is_err());
        let page =
            json!({"mode": "url", "message": "Sign in", "url": "https://a.example", "elicitationId": "1"});
        let request = json!({"method": "elicitation/create", "params": page});
        for (typed, action) in
            [("y\n", ElicitAction::Accept), ("\n", ElicitAction::Decline), ("", ElicitAction::Cancel)]
        {
            let request = serde_json::from_value(request.clone()).unwrap();
            let answered = answer(request, &mut typed.as_bytes(), &mut Vec::new()).unwrap();
            assert!(matches!(answered, InputResponse::Elicit(result) if result.action == action), "{typed}");
        }
    }
}
