//! What a server writes.

use anyhow::Result;
use serde_json::json;
use thruway_mcp::json_rpc::{Error, ErrorCode};
use thruway_mcp::modern::{self, ResultType};
use thruway_mcp::params::meta_keys;
use thruway_mcp::schema::{
    CallToolResult, CancelledNotificationParams, ClientCapabilities, CompleteResult, Completion,
    CreateMessageRequest, CreateMessageRequestParams, DiscoverResult, ElicitRequest, ElicitRequestFormParams,
    ElicitRequestParams, ElicitRequestURLParams, FormMode, GetPromptResult, InitializeResult, InputRequest,
    InputRequests, InputRequiredResult, JsonObject, ListCapability, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListRootsRequest, ListToolsResult, LoggingLevel,
    LoggingMessageNotificationParams, MetaObject, NotificationParams, ProgressNotificationParams,
    PromptMessage, ReadResourceResult, RequestId, RequestParams, RequestedSchema,
    ResourceUpdatedNotificationParams, ResourcesCapability, SamplingMessage, ServerCapabilities,
    StructuredContent, SubscriptionsAcknowledgedNotificationParams, SubscriptionsListenResult, Tool,
    ToolChoice, ToolChoiceMode, ToolResultMeta, methods,
};
use thruway_mcp::{Era, Revision, legacy};

use super::parts;
use super::writer::{Names, Samples};

pub(super) fn write(samples: &mut Samples) -> Result<()> {
    beginnings(samples)?;
    lists(samples)?;
    answers(samples)?;
    notifications(samples)?;
    errors(samples)?;
    match samples.revision.era() {
        Era::Modern => embedded_requests(samples),
        Era::Legacy => requests(samples),
    }
}

fn beginnings(samples: &mut Samples) -> Result<()> {
    let (capabilities, instructions) = (capabilities(samples), Some("Ask for a harbour first.".to_owned()));
    samples.value("ServerCapabilities", &capabilities)?;
    samples.value("ServerCapabilities", &ServerCapabilities::default())?;
    if samples.is_modern() {
        let supported_versions = Revision::ALL.map(|revision| revision.to_string()).to_vec();
        let result =
            DiscoverResult { supported_versions, capabilities, instructions, meta: Some(parts::meta()) };
        let names = Names::cacheable("DiscoverResult", &["DiscoverResultResponse"]);
        return samples.result(names, ResultType::Complete, &result);
    }
    let result = InitializeResult {
        protocol_version: samples.revision.to_string(),
        capabilities,
        server_info: parts::implementation(),
        instructions,
        meta: Some(parts::meta()),
    };
    samples.result(Names::new("InitializeResult", &[]), ResultType::Complete, &result)?;
    samples.result(Names::new("EmptyResult", &[]), ResultType::Complete, &JsonObject::new())
}

fn capabilities(samples: &Samples) -> ServerCapabilities {
    let extensions = parts::object(&json!({"io.modelcontextprotocol/tasks": {}}));
    let tasks = parts::object(&json!({"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}));
    ServerCapabilities {
        tools: Some(ListCapability { list_changed: Some(true) }),
        resources: Some(ResourcesCapability { subscribe: Some(true), list_changed: Some(false) }),
        prompts: Some(ListCapability::default()),
        completions: Some(JsonObject::new()),
        logging: Some(JsonObject::new()),
        tasks: (samples.revision == Revision::R20251125).then_some(tasks),
        extensions: samples.is_modern().then_some(extensions),
        experimental: Some(parts::object(&json!({"tides.example/moon": {}}))),
    }
}

fn lists(samples: &mut Samples) -> Result<()> {
    let (next_cursor, meta) = (Some("2".to_owned()), Some(parts::meta()));
    samples.result(
        Names::cacheable("ListToolsResult", &["ListToolsResultResponse"]),
        ResultType::Complete,
        &ListToolsResult {
            tools: vec![parts::tool(), Tool::new("horn")],
            next_cursor: next_cursor.clone(),
            meta: meta.clone(),
        },
    )?;
    samples.result(
        Names::cacheable("ListPromptsResult", &["ListPromptsResultResponse"]),
        ResultType::Complete,
        &ListPromptsResult {
            prompts: vec![parts::prompt()],
            next_cursor: next_cursor.clone(),
            meta: meta.clone(),
        },
    )?;
    samples.result(
        Names::cacheable("ListResourceTemplatesResult", &["ListResourceTemplatesResultResponse"]),
        ResultType::Complete,
        &ListResourceTemplatesResult {
            resource_templates: vec![parts::resource_template()],
            next_cursor: next_cursor.clone(),
            meta: meta.clone(),
        },
    )?;
    samples.result(
        Names::cacheable("ListResourcesResult", &["ListResourcesResultResponse"]),
        ResultType::Complete,
        &ListResourcesResult { resources: vec![parts::resource()], next_cursor, meta },
    )?;
    written_lists(samples)
}

/// Lists whose members were written before, as servers keep them.
fn written_lists(samples: &mut Samples) -> Result<()> {
    if !samples.is_modern() {
        return Ok(());
    }
    let mut members = b"\"tools\":".to_vec();
    serde_json::to_writer(&mut members, &[parts::tool()])?;
    let mut output = Vec::new();
    samples.results.write_members(&mut output, Some(thruway_mcp::schema::CacheHint::default()), &members)?;
    samples.add("ListToolsResult", &output)
}

fn answers(samples: &mut Samples) -> Result<()> {
    let meta = Some(parts::meta());
    let of_tool = Names::new("CallToolResult", &["CallToolResultResponse"]);
    for result in tool_results(samples)? {
        samples.result(of_tool, ResultType::Complete, &result)?;
    }
    let messages = parts::content(samples.revision).into_iter().map(PromptMessage::user).collect();
    samples.result(
        Names::new("GetPromptResult", &["GetPromptResultResponse"]),
        ResultType::Complete,
        &GetPromptResult { description: Some("A day trip".into()), messages, meta: meta.clone() },
    )?;
    samples.result(
        Names::cacheable("ReadResourceResult", &["ReadResourceResultResponse"]),
        ResultType::Complete,
        &ReadResourceResult { contents: parts::contents().to_vec(), meta: meta.clone() },
    )?;
    let values = vec!["Hamburg".into(), "Harlingen".into()];
    samples.result(
        Names::new("CompleteResult", &["CompleteResultResponse"]),
        ResultType::Complete,
        &CompleteResult { completion: Completion { values, total: Some(9), has_more: Some(true) }, meta },
    )
}

fn tool_results(samples: &Samples) -> Result<Vec<CallToolResult>> {
    let mut results = vec![
        CallToolResult::text("done"),
        CallToolResult::error("no such harbour"),
        CallToolResult::default(),
        CallToolResult {
            content: parts::content(Revision::LATEST),
            is_error: Some(false),
            meta: Some(ToolResultMeta::try_from(&parts::meta())?),
            ..CallToolResult::default()
        },
    ];
    for value in [json!({"at": "6:12"}), json!([1, 2]), json!("6:12"), json!(null), json!(2.5)] {
        let structured_content = Some(StructuredContent::from_value(&value)?);
        results.push(CallToolResult { structured_content, ..CallToolResult::text("6:12") });
    }
    if !samples.is_modern() {
        for result in &mut results {
            legacy::downgrade_result(result, samples.revision);
        }
    }
    Ok(results)
}

/// What a notification says about itself.
fn notification_meta(samples: &Samples) -> MetaObject {
    let mut meta = parts::meta();
    if samples.is_modern() {
        meta.insert(meta_keys::SUBSCRIPTION_ID.into(), json!(5));
    }
    meta
}

fn notifications(samples: &mut Samples) -> Result<()> {
    let meta = Some(notification_meta(samples));
    let params = NotificationParams { meta: meta.clone() };
    samples.value("NotificationParams", &params)?;
    for (definition, method) in [
        ("ToolListChangedNotification", methods::NOTIFICATIONS_TOOLS_LIST_CHANGED),
        ("PromptListChangedNotification", methods::NOTIFICATIONS_PROMPTS_LIST_CHANGED),
        ("ResourceListChangedNotification", methods::NOTIFICATIONS_RESOURCES_LIST_CHANGED),
    ] {
        samples.notification(definition, method, &params)?;
    }
    let params =
        ResourceUpdatedNotificationParams { uri: "tides://harbour/today".into(), meta: meta.clone() };
    samples.value("ResourceUpdatedNotificationParams", &params)?;
    samples.notification("ResourceUpdatedNotification", methods::NOTIFICATIONS_RESOURCES_UPDATED, &params)?;
    along_the_way(samples, meta.as_ref())?;
    if samples.is_modern() { subscription(samples) } else { elicitation_complete(samples) }
}

fn along_the_way(samples: &mut Samples, meta: Option<&MetaObject>) -> Result<()> {
    let params = ProgressNotificationParams {
        progress_token: parts::progress_token(),
        progress: 2.5,
        total: Some(10.0),
        message: Some("reading the gauge".into()),
        meta: meta.cloned(),
    };
    samples.value("ProgressNotificationParams", &params)?;
    samples.notification("ProgressNotification", methods::NOTIFICATIONS_PROGRESS, &params)?;
    for data in [json!("low battery"), json!({"volts": 3.1}), json!(null)] {
        let params = LoggingMessageNotificationParams {
            level: LoggingLevel::Warning,
            logger: Some("gauge".into()),
            data,
            meta: meta.cloned(),
        };
        samples.value("LoggingMessageNotificationParams", &params)?;
        samples.notification("LoggingMessageNotification", methods::NOTIFICATIONS_MESSAGE, &params)?;
    }
    let params = CancelledNotificationParams {
        request_id: RequestId::Integer(7),
        reason: Some("it is over".into()),
        meta: meta.cloned(),
    };
    samples.value("CancelledNotificationParams", &params)?;
    samples.notification("CancelledNotification", methods::NOTIFICATIONS_CANCELLED, &params)
}

fn subscription(samples: &mut Samples) -> Result<()> {
    let params = SubscriptionsAcknowledgedNotificationParams {
        notifications: parts::filter(),
        meta: Some(notification_meta(samples)),
    };
    samples.value("SubscriptionFilter", &params.notifications)?;
    samples.value("SubscriptionsAcknowledgedNotificationParams", &params)?;
    let method = methods::NOTIFICATIONS_SUBSCRIPTIONS_ACKNOWLEDGED;
    samples.notification("SubscriptionsAcknowledgedNotification", method, &params)?;
    let result = SubscriptionsListenResult { meta: notification_meta(samples) };
    let names = Names::new("SubscriptionsListenResult", &["SubscriptionsListenResultResponse"]);
    samples.result(names, ResultType::Complete, &result)
}

fn elicitation_complete(samples: &mut Samples) -> Result<()> {
    let method = methods::NOTIFICATIONS_ELICITATION_COMPLETE;
    samples.notification("ElicitationCompleteNotification", method, &json!({"elicitationId": "e-1"}))
}

fn errors(samples: &mut Samples) -> Result<()> {
    let plain = |code| Error::new(code, "it does not work").with_data(json!({"gauge": 12}));
    for (definition, code) in [
        ("ParseError", ErrorCode::PARSE_ERROR),
        ("InvalidRequestError", ErrorCode::INVALID_REQUEST),
        ("MethodNotFoundError", ErrorCode::METHOD_NOT_FOUND),
        ("InvalidParamsError", ErrorCode::INVALID_PARAMS),
        ("InternalError", ErrorCode::INTERNAL_ERROR),
    ] {
        samples.error("JSONRPCErrorResponse", definition, &plain(code))?;
    }
    if samples.is_modern() {
        let lacking = ClientCapabilities::default().with_elicitation().with_sampling();
        for (definition, error) in [
            ("HeaderMismatchError", Error::new(ErrorCode::HEADER_MISMATCH, "the header lies")),
            ("MissingRequiredClientCapabilityError", modern::missing_capability(&lacking)),
            ("UnsupportedProtocolVersionError", modern::unsupported_version("1066-10-14")),
        ] {
            samples.error(definition, "Error", &error)?;
        }
    }
    if samples.revision >= Revision::R20251125 {
        // Earlier ones have no word for an error whose request is not known.
        let mut output = Vec::new();
        thruway_mcp::json_rpc::write_error(&mut output, None, &plain(ErrorCode::PARSE_ERROR));
        samples.add("JSONRPCErrorResponse", &output)?;
    }
    Ok(())
}

/// Requests of a server in the legacy era.
fn requests(samples: &mut Samples) -> Result<()> {
    let params = RequestParams { meta: Some(parts::meta()) };
    samples.request("ListRootsRequest", methods::ROOTS_LIST, &params)?;
    samples.request("PingRequest", methods::PING, &params)?;
    let params = sampling(samples.revision)?;
    samples.value("CreateMessageRequestParams", &params)?;
    samples.request("CreateMessageRequest", methods::SAMPLING_CREATE_MESSAGE, &params)?;
    if !samples.revision.has_elicitation() {
        return Ok(());
    }
    let form = form(samples.revision);
    samples.value("ElicitRequestFormParams", &form)?;
    samples.request("ElicitRequest", methods::ELICITATION_CREATE, &form)?;
    if samples.revision >= Revision::R20251125 {
        let page = page(samples.revision);
        samples.value("ElicitRequestURLParams", &page)?;
        samples.request("ElicitRequest", methods::ELICITATION_CREATE, &page)?;
    }
    Ok(())
}

/// The same in the modern era: parts of a result.
fn embedded_requests(samples: &mut Samples) -> Result<()> {
    let (form, page, sampling) =
        (form(samples.revision), page(samples.revision), sampling(samples.revision)?);
    samples.value("ElicitRequestFormParams", &form)?;
    samples.value("ElicitRequestURLParams", &page)?;
    samples.value("CreateMessageRequestParams", &sampling)?;
    let elicit = |params| InputRequest::Elicit(ElicitRequest { params });
    let params = Some(RequestParams { meta: Some(parts::meta()) });
    let requests = [
        ("ElicitRequest", elicit(ElicitRequestParams::Form(form))),
        ("ElicitRequest", elicit(ElicitRequestParams::Url(page))),
        ("CreateMessageRequest", InputRequest::CreateMessage(CreateMessageRequest { params: sampling })),
        ("ListRootsRequest", InputRequest::ListRoots(ListRootsRequest { params })),
        ("ListRootsRequest", InputRequest::ListRoots(ListRootsRequest::default())),
    ];
    let mut all = InputRequests::new();
    for (place, (definition, request)) in requests.into_iter().enumerate() {
        samples.value(definition, &request)?;
        samples.value("InputRequest", &request)?;
        all.insert(format!("question {place}"), request);
    }
    samples.value("InputRequests", &all)?;
    let result = InputRequiredResult {
        input_requests: Some(all),
        request_state: Some("sealed".into()),
        meta: Some(parts::meta()),
    };
    let names = Names::new(
        "InputRequiredResult",
        &["CallToolResultResponse", "GetPromptResultResponse", "ReadResourceResultResponse"],
    );
    samples.result(names, ResultType::InputRequired, &result)
}

fn form(revision: Revision) -> ElicitRequestFormParams {
    let mut form = ElicitRequestFormParams::new("Which boat?");
    for (place, (_, field)) in parts::form_fields(revision).into_iter().enumerate() {
        let name = format!("field{place}");
        form = if place == 0 { form.with_required_field(name, field) } else { form.with_field(name, field) };
    }
    if revision >= Revision::R20251125 {
        let dialect = Some("https://json-schema.org/draft/2020-12/schema".into());
        form.mode = Some(FormMode::Form);
        form.requested_schema = RequestedSchema { dialect, ..form.requested_schema };
    }
    form
}

fn page(revision: Revision) -> ElicitRequestURLParams {
    ElicitRequestURLParams {
        message: "Please pay for the berth.".into(),
        url: "https://tides.example/pay?berth=4".into(),
        elicitation_id: (revision == Revision::R20251125).then(|| "e-1".into()),
    }
}

fn sampling(revision: Revision) -> Result<CreateMessageRequestParams> {
    let mut params = CreateMessageRequestParams {
        system_prompt: Some("You know boats.".into()),
        include_context: Some("thisServer".into()),
        temperature: Some(0.2),
        stop_sequences: vec!["\n".into()],
        model_preferences: Some(parts::model_preferences()),
        metadata: Some(parts::meta()),
        ..CreateMessageRequestParams::new("Is it safe to sail?", 200)
    };
    params.messages.extend(parts::sampling_contents(revision)?.into_iter().map(|content| SamplingMessage {
        role: thruway_mcp::schema::Role::Assistant,
        content,
        meta: (revision >= Revision::R20251125).then(parts::meta),
    }));
    if revision >= Revision::R20251125 {
        params.tools = vec![parts::tool()];
        params.tool_choice = Some(ToolChoice { mode: Some(ToolChoiceMode::Required) });
    }
    Ok(params)
}
