//! Methods that exist in both eras, such as `tools/call`.

use std::collections::HashMap;

use serde_json::json;
use serde_json::value::RawValue;
use thruway_mcp::json_rpc::{Error, ErrorCode, Id, Request, write_error, write_result};
use thruway_mcp::params::{self, Params};
use thruway_mcp::schema::{
    CompleteRequestParams, CompleteResult, Completion, CompletionReference, ReadResourceResult, methods,
};

use super::{Answering, Reply, Status};
use crate::handlers::{Call, HandlerError, Outcome};
use crate::registry::{CompletionInput, List, Named, Registry};

impl Answering {
    /// Answers a request with the tools, resources and prompts in `registry`. Returns `None` if the method
    /// does not exist in both eras.
    pub(crate) fn handle(
        self,
        registry: &Registry,
        request: &Request<'_>,
        params: &Params<'_>,
        call: &Call<'_>,
        output: &mut Vec<u8>,
    ) -> Option<Reply> {
        let id = &request.id;
        Some(match &*request.method {
            methods::TOOLS_LIST => self.list(&registry.tools, id, params, output),
            methods::RESOURCES_LIST => self.list(&registry.resources, id, params, output),
            methods::RESOURCES_TEMPLATES_LIST => self.list(&registry.templates, id, params, output),
            methods::PROMPTS_LIST => self.list(&registry.prompts, id, params, output),
            methods::TOOLS_CALL => self.call_tool(registry, id, params, call, output),
            methods::PROMPTS_GET => match find(&registry.prompts, "prompt", params) {
                Ok(prompt) => {
                    self.answer(&registry.layers, id, call, output, |call| prompt.get(params.arguments, call))
                }
                Err(error) => Reply::error(output, id, &error),
            },
            methods::RESOURCES_READ => self.read(registry, id, params, call, output),
            methods::COMPLETION_COMPLETE => self.complete(registry, id, request.params, call, output),
            _ => return None,
        })
    }

    fn list<T: Named>(
        &self,
        list: &List<T>,
        id: &Id<'_>,
        params: &Params<'_>,
        output: &mut Vec<u8>,
    ) -> Reply {
        let core = self.core();
        let members = match list.page(params.cursor.as_deref(), self.era(), core.options.page_entries.max(1))
        {
            Ok(members) => members,
            Err(error) => return Reply::error(output, id, &error),
        };
        write_result(output, id, |output| match self {
            Self::Modern { .. } => core.results.write_members(output, Some(core.options.cache), members),
            Self::Legacy { .. } => {
                output.push(b'{');
                output.extend_from_slice(members);
                output.push(b'}');
                Ok(())
            }
        });
        Reply::Now(Status::Ok)
    }

    fn call_tool(
        self,
        registry: &Registry,
        id: &Id<'_>,
        params: &Params<'_>,
        call: &Call<'_>,
        output: &mut Vec<u8>,
    ) -> Reply {
        let tool = match find(&registry.tools, "tool", params) {
            Ok(tool) => tool,
            Err(error) => return Reply::error(output, id, &error),
        };
        let scopes = registry.tool_scopes.get(tool.key()).map_or(&[][..], Vec::as_slice);
        if !call.caller().may(scopes) {
            let error =
                Error::new(ErrorCode::INVALID_REQUEST, "the caller lacks the scopes that this tool requires");
            write_error(output, Some(id), &error);
            return Reply::Forbidden(scopes.to_vec());
        }
        let layers = &registry.layers;
        match tool.task_support() {
            None => self.answer(layers, id, call, output, |call| tool.call(params.arguments, call)),
            Some(support) => self
                .call_task_tool(support, layers, id, call, output, |call| tool.call(params.arguments, call)),
        }
    }

    fn read(
        self,
        registry: &Registry,
        id: &Id<'_>,
        params: &Params<'_>,
        call: &Call<'_>,
        output: &mut Vec<u8>,
    ) -> Reply {
        let uri = match Params::required("uri", params.uri.as_ref()) {
            Ok(uri) => uri,
            Err(error) => return Reply::error(output, id, &error),
        };
        let not_found = Error::new(
            match &self {
                Self::Modern { .. } => ErrorCode::INVALID_PARAMS,
                Self::Legacy { .. } => ErrorCode::RESOURCE_NOT_FOUND,
            },
            "there is no such resource",
        );
        self.answer(&registry.layers, id, call, output, |call| {
            read(registry, uri, call).unwrap_or_else(|| {
                Outcome::Now(Err(HandlerError::Protocol(not_found.with_data(json!({"uri": uri})))))
            })
        })
    }

    fn complete(
        self,
        registry: &Registry,
        id: &Id<'_>,
        params: Option<&RawValue>,
        call: &Call<'_>,
        output: &mut Vec<u8>,
    ) -> Reply {
        let params: CompleteRequestParams = match params::parse(params) {
            Ok(params) => params,
            Err(error) => return Reply::error(output, id, &error),
        };
        let (of, is_known) = match &params.reference {
            CompletionReference::Prompt(prompt) => {
                (&prompt.name, registry.prompts.find(&prompt.name).is_some())
            }
            CompletionReference::Resource(template) => (
                &template.uri,
                registry.templates.find(&template.uri).is_some()
                    || registry.resources.find(&template.uri).is_some(),
            ),
        };
        if !is_known {
            let error = Error::invalid_params("there is no such prompt or resource template");
            return Reply::error(output, id, &error);
        }
        let handler = registry
            .completions
            .iter()
            .find(|completion| completion.of == *of && completion.argument == params.argument.name);
        self.answer(&registry.layers, id, call, output, |call| match handler {
            // The argument has no completion handler, so there are no suggestions.
            None => Outcome::Now(Ok(completion(Vec::new()))),
            Some(completing) => {
                let arguments = params
                    .context
                    .map_or_else(HashMap::new, |context| context.arguments.into_iter().collect());
                let input = CompletionInput { value: params.argument.value, arguments };
                (completing.handler)(input, call).map(|values| values.map(completion))
            }
        })
    }
}

fn find<'r, T: Named>(list: &'r List<T>, kind: &str, params: &Params<'_>) -> Result<&'r T, Error> {
    let name = Params::required("name", params.name.as_ref())?;
    match list.find(name) {
        Some(entry) => Ok(entry),
        None => Err(Error::invalid_params(format!("there is no such {kind}"))),
    }
}

fn read(registry: &Registry, uri: &str, call: &Call<'_>) -> Option<Outcome<ReadResourceResult>> {
    if let Some(resource) = registry.resources.find(uri) {
        return Some(resource.read(call));
    }
    registry.templates.entries().iter().find_map(|template| template.read(uri, call))
}

fn completion(mut values: Vec<String>) -> CompleteResult {
    let total = values.len();
    values.truncate(COMPLETIONS_MAX);
    CompleteResult {
        completion: Completion {
            has_more: Some(total > values.len()),
            total: u64::try_from(total).ok(),
            values,
        },
        ..CompleteResult::default()
    }
}

/// Maximum number of values in a completion result, according to the specification.
const COMPLETIONS_MAX: usize = 100;
