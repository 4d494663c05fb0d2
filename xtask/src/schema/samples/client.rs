//! What a client writes.

use std::collections::BTreeMap;

use anyhow::Result;
use serde_json::json;
use thruway_mcp::params::meta_keys;
use thruway_mcp::schema::{
    CallToolRequestParams, ClientCapabilities, CompleteContext, CompleteRequestParams, CreateMessageResult,
    ElicitAction, ElicitResult, GetPromptRequestParams, InitializeRequestParams, InputResponse,
    InputResponses, JsonObject, ListRootsResult, LoggingLevel, MetaObject, NotificationParams, OneOrMany,
    PaginatedRequestParams, ReadResourceRequestParams, RequestParams, Role, SamplingMessage,
    SamplingMessageContentBlock, SetLevelRequestParams, SubscribeRequestParams,
    SubscriptionsListenRequestParams, ToolChoice, ToolChoiceMode, methods,
};

use super::parts;
use super::writer::Samples;

pub(super) fn write(samples: &mut Samples) -> Result<()> {
    samples.value("ClientCapabilities", &capabilities(samples))?;
    samples.value("ClientCapabilities", &ClientCapabilities::default())?;
    sampling(samples)?;
    let responses = responses(samples)?;
    lists(samples)?;
    calls(samples, samples.is_modern().then_some(responses).as_ref())?;
    complete(samples)?;
    if samples.is_modern() { modern(samples) } else { legacy(samples) }
}

fn capabilities(samples: &Samples) -> ClientCapabilities {
    let extensions = parts::object(&json!({"io.modelcontextprotocol/tasks": {}}));
    ClientCapabilities {
        extensions: samples.is_modern().then_some(extensions),
        experimental: Some(parts::object(&json!({"tides.example/moon": {}}))),
        ..ClientCapabilities::default().with_elicitation().with_url_elicitation().with_sampling().with_roots()
    }
}

/// What a request says about itself: much in the modern era.
fn request_meta(samples: &Samples) -> MetaObject {
    let mut meta = parts::meta();
    meta.insert(meta_keys::PROGRESS_TOKEN.into(), json!(parts::progress_token()));
    if samples.is_modern() {
        meta.insert(meta_keys::PROTOCOL_VERSION.into(), json!(samples.revision.as_str()));
        meta.insert(meta_keys::CLIENT_CAPABILITIES.into(), json!(capabilities(samples)));
        meta.insert(meta_keys::CLIENT_INFO.into(), json!(parts::implementation()));
        meta.insert(meta_keys::LOG_LEVEL.into(), json!(LoggingLevel::Notice));
    }
    meta
}

fn sampling(samples: &mut Samples) -> Result<()> {
    for content in parts::sampling_contents(samples.revision)? {
        let meta = Some(parts::meta());
        if let OneOrMany::One(block) = &content {
            match block {
                SamplingMessageContentBlock::ToolUse(_) => samples.value("ToolUseContent", block)?,
                SamplingMessageContentBlock::ToolResult(_) => samples.value("ToolResultContent", block)?,
                _ => {}
            }
            samples.value("SamplingMessageContentBlock", block)?;
        }
        samples.value(
            "SamplingMessage",
            &SamplingMessage { role: Role::User, content: content.clone(), meta: meta.clone() },
        )?;
        let result = CreateMessageResult {
            role: Role::Assistant,
            content,
            model: "small-2".into(),
            stop_reason: Some("endTurn".into()),
            meta,
        };
        samples.value("CreateMessageResult", &result)?;
    }
    samples.value("ToolChoice", &ToolChoice { mode: Some(ToolChoiceMode::None) })
}

/// The answers to what servers ask.
fn responses(samples: &mut Samples) -> Result<InputResponses> {
    let meta = Some(parts::meta());
    let text = CreateMessageResult {
        role: Role::Assistant,
        content: SamplingMessage::user("Yes.").content,
        model: "small-2".into(),
        stop_reason: None,
        meta: meta.clone(),
    };
    // From 2026-07-28 on the others have no `_meta`: they are no results of requests.
    let meta = meta.filter(|_| !samples.is_modern());
    let roots = ListRootsResult { roots: vec![parts::root()], meta: meta.clone() };
    let content = parts::object(&json!({"boat": "Ada", "crew": 2, "is_new": false, "length": 7}));
    let accepted = ElicitResult { action: ElicitAction::Accept, content: Some(content), meta };
    let declined = ElicitResult { action: ElicitAction::Decline, content: None, meta: None };
    samples.value("ListRootsResult", &roots)?;
    let responses = [
        InputResponse::CreateMessage(text),
        InputResponse::ListRoots(roots),
        InputResponse::Elicit(accepted),
        InputResponse::Elicit(declined),
    ];
    let mut all = BTreeMap::new();
    for (place, response) in responses.into_iter().enumerate() {
        if let InputResponse::Elicit(result) = &response {
            samples.value("ElicitResult", result)?;
        }
        samples.value("InputResponse", &response)?;
        all.insert(format!("question {place}"), response);
    }
    samples.value("InputResponses", &all)?;
    Ok(all)
}

fn lists(samples: &mut Samples) -> Result<()> {
    let params = PaginatedRequestParams { cursor: Some(String::new()), meta: Some(request_meta(samples)) };
    samples.value("PaginatedRequestParams", &params)?;
    for (definition, method) in [
        ("ListToolsRequest", methods::TOOLS_LIST),
        ("ListPromptsRequest", methods::PROMPTS_LIST),
        ("ListResourcesRequest", methods::RESOURCES_LIST),
        ("ListResourceTemplatesRequest", methods::RESOURCES_TEMPLATES_LIST),
    ] {
        samples.request(definition, method, &params)?;
    }
    Ok(())
}

fn calls(samples: &mut Samples, responses: Option<&InputResponses>) -> Result<()> {
    let (input_responses, meta) = (responses.cloned(), Some(request_meta(samples)));
    let request_state = responses.map(|_| "sealed".to_owned());
    let params = CallToolRequestParams {
        name: "next_high_water".into(),
        arguments: Some(parts::object(&json!({"harbour": "Harlingen"}))),
        input_responses: input_responses.clone(),
        request_state: request_state.clone(),
        meta: meta.clone(),
    };
    samples.value("CallToolRequestParams", &params)?;
    samples.request("CallToolRequest", methods::TOOLS_CALL, &params)?;
    let params = GetPromptRequestParams {
        name: "plan_trip".into(),
        arguments: Some(BTreeMap::from([("harbour".into(), "Harlingen".into())])),
        input_responses: input_responses.clone(),
        request_state: request_state.clone(),
        meta: meta.clone(),
    };
    samples.value("GetPromptRequestParams", &params)?;
    samples.request("GetPromptRequest", methods::PROMPTS_GET, &params)?;
    let params = ReadResourceRequestParams {
        uri: "tides://harbour/today".into(),
        input_responses,
        request_state,
        meta,
    };
    samples.value("ReadResourceRequestParams", &params)?;
    samples.request("ReadResourceRequest", methods::RESOURCES_READ, &params)
}

fn complete(samples: &mut Samples) -> Result<()> {
    for reference in [parts::prompt_reference(), parts::template_reference()] {
        let arguments = BTreeMap::from([("day".into(), "today".into())]);
        let params = CompleteRequestParams {
            reference,
            argument: parts::complete_argument(),
            context: Some(CompleteContext { arguments }),
            meta: Some(request_meta(samples)),
        };
        samples.value("CompleteRequestParams", &params)?;
        samples.request("CompleteRequest", methods::COMPLETION_COMPLETE, &params)?;
    }
    Ok(())
}

fn modern(samples: &mut Samples) -> Result<()> {
    let params = RequestParams { meta: Some(request_meta(samples)) };
    samples.value("RequestParams", &params)?;
    samples.request("DiscoverRequest", methods::SERVER_DISCOVER, &params)?;
    let params = SubscriptionsListenRequestParams {
        notifications: parts::filter(),
        meta: Some(request_meta(samples)),
    };
    samples.value("SubscriptionsListenRequestParams", &params)?;
    samples.request("SubscriptionsListenRequest", methods::SUBSCRIPTIONS_LISTEN, &params)
}

fn legacy(samples: &mut Samples) -> Result<()> {
    let params = InitializeRequestParams {
        protocol_version: samples.revision.to_string(),
        capabilities: capabilities(samples),
        client_info: parts::implementation(),
        meta: Some(request_meta(samples)),
    };
    samples.value("InitializeRequestParams", &params)?;
    samples.request("InitializeRequest", methods::INITIALIZE, &params)?;
    let params = SetLevelRequestParams { level: LoggingLevel::Notice, meta: Some(request_meta(samples)) };
    samples.value("SetLevelRequestParams", &params)?;
    samples.request("SetLevelRequest", methods::LOGGING_SET_LEVEL, &params)?;
    let params =
        SubscribeRequestParams { uri: "tides://harbour/today".into(), meta: Some(request_meta(samples)) };
    for definition in ["SubscribeRequestParams", "UnsubscribeRequestParams"] {
        samples.value(definition, &params)?;
    }
    samples.request("SubscribeRequest", methods::RESOURCES_SUBSCRIBE, &params)?;
    samples.request("UnsubscribeRequest", methods::RESOURCES_UNSUBSCRIBE, &params)?;
    let params = NotificationParams { meta: Some(parts::meta()) };
    samples.notification("InitializedNotification", methods::NOTIFICATIONS_INITIALIZED, &params)?;
    samples.notification(
        "RootsListChangedNotification",
        methods::NOTIFICATIONS_ROOTS_LIST_CHANGED,
        &params,
    )?;
    samples.request("PingRequest", methods::PING, &JsonObject::new())
}
