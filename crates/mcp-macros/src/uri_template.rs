//! The variables of a URI template. The server supports the forms `{name}` and `{+name}` of RFC 6570.

use syn::LitStr;

use crate::function::Input;
use crate::rule::{Broken, Rule};

/// Returns the names of the variables, or an empty list if `uri` is not a template.
pub(crate) fn variables(uri: &LitStr) -> syn::Result<Vec<String>> {
    let text = uri.value();
    let mut variables = Vec::new();
    let mut rest = &*text;
    while let Some((literal, after)) = rest.split_once('{') {
        let (expression, after) = after.split_once('}').ok_or_else(|| Rule::InvalidTemplate.at(uri))?;
        let name = expression.strip_prefix('+').unwrap_or(expression);
        let is_name =
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let is_adjacent = literal.is_empty() && !variables.is_empty();
        if !is_name || is_adjacent || literal.contains('}') || variables.iter().any(|other| other == name) {
            return Err(Rule::InvalidTemplate.at(uri));
        }
        variables.push(name.to_owned());
        rest = after;
    }
    if rest.contains('}') { Err(Rule::InvalidTemplate.at(uri)) } else { Ok(variables) }
}

/// Checks that each variable has a parameter, and each parameter a variable.
pub(crate) fn check(uri: &LitStr, input: &Input) -> syn::Result<()> {
    let variables = variables(uri)?;
    let mut broken = Broken::default();
    let members = match input {
        Input::Members(members) => &members[..],
        _ => &[],
    };
    for member in members.iter().filter(|member| !variables.contains(&member.json_name())) {
        broken.note::<()>(Err(Rule::NoVariable.at(&member.name)));
    }
    if variables.iter().any(|variable| members.iter().all(|member| member.json_name() != *variable)) {
        broken.note::<()>(Err(Rule::UnusedVariable.at(uri)));
    }
    broken.or_else(|| ())
}
