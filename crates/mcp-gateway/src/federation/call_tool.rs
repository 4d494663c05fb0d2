//! Replaces a call of `call_tool` by the call that it asks for. All other code handles only the inner call, so
//! both forms of a call have the same effects.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::value::RawValue;
use thruway_mcp::json_rpc::{Error, Id, Request, write_error};
use thruway_mcp::modern::refuse_param_headers;
use thruway_mcp::params::Params;
use thruway_mcp_server::backend::{LegacyRequest, ModernRequest, Reply, Status};

use super::gateway_core::GatewayCore;
use super::{request, search_tools};

/// Handles a request of a legacy client. Returns `None` if the server must answer the request itself.
pub(super) fn handle_legacy(
    gateway: &Arc<GatewayCore>,
    incoming: &LegacyRequest<'_>,
    output: &mut Vec<u8>,
) -> Option<Reply> {
    let Some(inner) = inner_params(gateway, incoming.request, incoming.params) else {
        return request::handle_legacy(gateway, incoming, output);
    };
    match Params::parse(Some(&inner)) {
        Ok(params) => {
            let request = with_params(incoming.request, &inner);
            let incoming = LegacyRequest { request: &request, params: &params, ..*incoming };
            request::handle_legacy(gateway, &incoming, output)
        }
        Err(error) => {
            write_error(output, Some(&incoming.request.id), &error);
            Some(Reply::Now(Status::Ok))
        }
    }
}

/// Handles a request of a modern client.
pub(super) fn handle_modern(
    gateway: &Arc<GatewayCore>,
    incoming: &ModernRequest<'_>,
    output: &mut Vec<u8>,
) -> Reply {
    let Some(inner) = inner_params(gateway, incoming.request, incoming.params) else {
        return request::handle_modern(gateway, incoming, output);
    };
    match checked_params(incoming, &inner) {
        Ok(params) => {
            let request = with_params(incoming.request, &inner);
            // The headers describe the call of `call_tool`.
            let incoming = ModernRequest { request: &request, params: &params, headers: None, ..*incoming };
            request::handle_modern(gateway, &incoming, output)
        }
        Err(error) => Reply::error(output, &incoming.request.id, &error),
    }
}

/// Returns the parameters of the inner call, or `None` if the request is no call of `call_tool`.
fn inner_params(gateway: &GatewayCore, request: &Request<'_>, params: &Params<'_>) -> Option<Box<RawValue>> {
    gateway.search.as_ref().and_then(|_| search_tools::inner_params(request, params))
}

/// Parses the parameters of the inner call. Rejects `Mcp-Param-*` headers, because no argument of `call_tool`
/// has such a header.
fn checked_params<'p>(incoming: &ModernRequest<'_>, inner: &'p RawValue) -> Result<Params<'p>, Error> {
    incoming.headers.map_or(Ok(()), refuse_param_headers)?;
    Params::parse(Some(inner))
}

fn with_params<'r>(request: &'r Request<'_>, params: &'r RawValue) -> Request<'r> {
    let id = match &request.id {
        Id::Integer(id) => Id::Integer(*id),
        Id::String(id) => Id::String(Cow::Borrowed(id)),
    };
    Request { id, method: Cow::Borrowed(&request.method), params: Some(params) }
}
