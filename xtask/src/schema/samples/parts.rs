//! What messages are made of.

use anyhow::Result;
use serde_json::{Value, json};
use thruway_mcp::schema::{
    Annotations, CompleteArgument, CompletionReference, ContentBlock, EmbeddedResource, EnumOption,
    EnumSchemaItems, Icon, IconTheme, ImageContent, Implementation, JsonObject, LoggingLevel, MetaObject,
    ModelHint, ModelPreferences, OneOrMany, PrimitiveSchemaDefinition, ProgressToken, Prompt, PromptArgument,
    PromptMessage, PromptReference, RequestId, Resource, ResourceContents, ResourceTemplate,
    ResourceTemplateReference, Role, Root, SamplingMessageContentBlock, StringFormat, StructuredContent,
    SubscriptionFilter, TaskSupport, TextContent, Tool, ToolAnnotations, ToolExecution, ToolResultContent,
    ToolUseContent,
};
use thruway_mcp::{Era, Revision, legacy};

use super::writer::Samples;

pub(super) fn write(samples: &mut Samples) -> Result<()> {
    people_and_pictures(samples)?;
    for (definition, block) in
        ["TextContent", "ImageContent", "AudioContent", "ResourceLink", "EmbeddedResource"]
            .into_iter()
            .zip(all_content())
    {
        samples.value(definition, &block)?;
        samples.value("ContentBlock", &block)?;
    }
    for (definition, contents) in ["TextResourceContents", "BlobResourceContents"].into_iter().zip(contents())
    {
        samples.value(definition, &contents)?;
    }
    samples.value("Tool", &tool())?;
    samples.value("Tool", &Tool::new("horn"))?;
    samples.value("Tool", &lister(samples.revision))?;
    samples.value("Tool", &Tool { execution: Some(execution()), ..Tool::new("horn") })?;
    samples.value("ToolExecution", &execution())?;
    samples.value("ToolAnnotations", &tool_annotations())?;
    samples.value("Resource", &resource())?;
    samples.value("ResourceTemplate", &resource_template())?;
    samples.value("Prompt", &prompt())?;
    samples.value("PromptArgument", &prompt_argument())?;
    for block in content(samples.revision) {
        samples.value("PromptMessage", &PromptMessage::assistant(block))?;
    }
    references(samples)?;
    fields(samples)
}

fn people_and_pictures(samples: &mut Samples) -> Result<()> {
    samples.value("Implementation", &implementation())?;
    samples.value("Icon", &icon())?;
    samples.value("Annotations", &annotations())?;
    samples.value("Role", &Role::User)?;
    samples.value("Root", &root())?;
    samples.value("ModelPreferences", &model_preferences())?;
    samples.value("ModelHint", &ModelHint { name: Some("small".into()) })?;
    for level in LoggingLevel::ALL {
        samples.value("LoggingLevel", &level)?;
    }
    for id in [RequestId::Integer(i64::from(i32::MAX)), RequestId::String("a".into())] {
        samples.value("RequestId", &id)?;
        samples.value("ProgressToken", &id)?;
    }
    Ok(())
}

fn references(samples: &mut Samples) -> Result<()> {
    for (reference, definitions) in [
        (prompt_reference(), ["PromptReference", "PromptReference"]),
        (template_reference(), ["ResourceTemplateReference", "ResourceReference"]),
    ] {
        for definition in definitions {
            samples.value(definition, &reference)?;
        }
    }
    Ok(())
}

fn fields(samples: &mut Samples) -> Result<()> {
    for (definition, field) in form_fields(samples.revision) {
        samples.value(definition, &field)?;
        samples.value("PrimitiveSchemaDefinition", &field)?;
    }
    Ok(())
}

pub(super) fn implementation() -> Implementation {
    Implementation {
        title: Some("Tide tables".into()),
        description: Some("Says when the water is high".into()),
        website_url: Some("https://tides.example/about".into()),
        icons: vec![icon()],
        ..Implementation::new("tides", "3.1")
    }
}

fn icon() -> Icon {
    Icon {
        src: "https://tides.example/wave.svg".into(),
        mime_type: Some("image/svg+xml".into()),
        sizes: vec!["any".into(), "64x64".into()],
        theme: Some(IconTheme::Dark),
    }
}

pub(super) fn meta() -> MetaObject {
    object(&json!({"tides.example/source": {"gauge": 12}}))
}

pub(super) fn object(value: &Value) -> JsonObject {
    value.as_object().cloned().unwrap_or_default()
}

fn annotations() -> Annotations {
    Annotations {
        audience: vec![Role::Assistant, Role::User],
        priority: Some(0.25),
        last_modified: Some("2026-03-01T06:12:00Z".into()),
    }
}

/// All kinds of content, in the order of their names in the schema's union.
fn all_content() -> [ContentBlock; 5] {
    let annotations = Some(annotations());
    let text =
        TextContent { text: "high at 6:12".into(), annotations: annotations.clone(), meta: Some(meta()) };
    let picture = ImageContent {
        annotations: annotations.clone(),
        meta: Some(meta()),
        ..ImageContent::new(b"not really a picture", "image/png")
    };
    let sound = ImageContent { mime_type: "audio/ogg".into(), ..picture.clone() };
    let [resource_contents, _] = contents();
    let embedded = EmbeddedResource { resource: resource_contents, annotations, meta: Some(meta()) };
    [
        ContentBlock::Text(text),
        ContentBlock::Image(picture),
        ContentBlock::Audio(sound),
        ContentBlock::ResourceLink(resource()),
        ContentBlock::Resource(embedded),
    ]
}

/// The same, as `revision` gets them.
pub(super) fn content(revision: Revision) -> Vec<ContentBlock> {
    let mut content = all_content().to_vec();
    legacy::downgrade(&mut content, revision);
    content
}

pub(super) fn contents() -> [ResourceContents; 2] {
    let mut contents = [
        ResourceContents::text("tides://harbour/today", "text/plain", "6:12 3.4 m"),
        ResourceContents::blob("tides://harbour/chart", "image/png", &[0, 255, 7]),
    ];
    for piece in &mut contents {
        match piece {
            ResourceContents::Text(text) => text.meta = Some(meta()),
            ResourceContents::Blob(blob) => blob.meta = Some(meta()),
        }
    }
    contents
}

pub(super) fn tool() -> Tool {
    Tool {
        icons: vec![icon()],
        meta: Some(meta()),
        ..Tool::new("next_high_water")
            .with_title("Next high water")
            .with_description("When the water will be high next")
            .with_input_schema(object(&json!({
                "type": "object", "properties": {"harbour": {"type": "string"}}, "required": ["harbour"],
            })))
            .with_output_schema(object(&json!({"type": "object", "properties": {"at": {"type": "string"}}})))
            .with_annotations(tool_annotations())
    }
}

/// A tool whose output is no object.
fn lister(revision: Revision) -> Tool {
    let mut tool = Tool::new("harbours").with_output_schema(object(&json!({"type": "array"})));
    if revision.era() == Era::Legacy {
        legacy::downgrade_tool(&mut tool);
    }
    tool
}

fn tool_annotations() -> ToolAnnotations {
    ToolAnnotations {
        title: Some("Next high water".into()),
        read_only_hint: Some(true),
        destructive_hint: Some(false),
        idempotent_hint: Some(true),
        open_world_hint: Some(false),
    }
}

fn execution() -> ToolExecution {
    ToolExecution { task_support: Some(TaskSupport::Optional) }
}

pub(super) fn resource() -> Resource {
    Resource {
        size: Some(4096),
        annotations: Some(annotations()),
        icons: vec![icon()],
        meta: Some(meta()),
        ..Resource::new("tides://harbour/year", "year")
            .with_title("The year")
            .with_description("All tides of the year")
            .with_mime_type("text/csv")
    }
}

pub(super) fn resource_template() -> ResourceTemplate {
    ResourceTemplate {
        title: Some("A day".into()),
        annotations: Some(annotations()),
        icons: vec![icon()],
        meta: Some(meta()),
        ..ResourceTemplate::new("tides://{harbour}/{day}", "day")
            .with_description("The tides of a day")
            .with_mime_type("text/plain")
    }
}

pub(super) fn prompt() -> Prompt {
    Prompt {
        icons: vec![icon()],
        meta: Some(meta()),
        ..Prompt::new("plan_trip")
            .with_title("Plan a trip")
            .with_description("A trip that fits the tides")
            .with_argument(prompt_argument())
    }
}

fn prompt_argument() -> PromptArgument {
    PromptArgument {
        title: Some("Harbour".into()),
        ..PromptArgument::new("harbour").with_description("Where it begins").with_required(true)
    }
}

pub(super) fn prompt_reference() -> CompletionReference {
    CompletionReference::Prompt(PromptReference {
        name: "plan_trip".into(),
        title: Some("Plan a trip".into()),
    })
}

pub(super) fn template_reference() -> CompletionReference {
    CompletionReference::Resource(ResourceTemplateReference { uri: "tides://{harbour}/{day}".into() })
}

pub(super) fn complete_argument() -> CompleteArgument {
    CompleteArgument { name: "harbour".into(), value: "Ha".into() }
}

pub(super) fn progress_token() -> ProgressToken {
    ProgressToken::String("p-1".into())
}

pub(super) fn root() -> Root {
    Root { uri: "file:///boats/ada".into(), name: Some("Ada".into()), meta: Some(meta()) }
}

pub(super) fn model_preferences() -> ModelPreferences {
    ModelPreferences {
        hints: vec![ModelHint { name: Some("small".into()) }, ModelHint::default()],
        cost_priority: Some(1.0),
        speed_priority: Some(0.5),
        intelligence_priority: Some(0.0),
    }
}

/// The fields of a form that `revision` knows, each with its name in the schema.
pub(super) fn form_fields(revision: Revision) -> Vec<(&'static str, PrimitiveSchemaDefinition)> {
    let named =
        |field: PrimitiveSchemaDefinition| field.with_title("Boat").with_description("Which boat it is");
    let mut choice = named(PrimitiveSchemaDefinition::one_of(["ada", "eva"]));
    choice.enum_names = vec!["Ada".into(), "Eva".into()];
    let mut fields = vec![
        ("BooleanSchema", named(PrimitiveSchemaDefinition::boolean()).with_default(true)),
        ("NumberSchema", bounded(named(PrimitiveSchemaDefinition::number()).with_default(1.5))),
        ("NumberSchema", bounded(named(PrimitiveSchemaDefinition::integer()).with_default(2))),
        (
            "StringSchema",
            text_field(named(PrimitiveSchemaDefinition::string()).with_default("a@boat.example")),
        ),
        ("EnumSchema", choice.clone()),
    ];
    if revision >= Revision::R20251125 {
        fields.extend(choices().map(|(definition, field)| (definition, named(field))));
        fields.push(("LegacyTitledEnumSchema", choice.with_default("ada")));
    }
    fields
}

fn bounded(field: PrimitiveSchemaDefinition) -> PrimitiveSchemaDefinition {
    PrimitiveSchemaDefinition { minimum: Some(0.0), maximum: Some(12.0), ..field }
}

fn text_field(field: PrimitiveSchemaDefinition) -> PrimitiveSchemaDefinition {
    PrimitiveSchemaDefinition {
        format: Some(StringFormat::Email),
        min_length: Some(3),
        max_length: Some(80),
        ..field
    }
}

/// What can be chosen from 2025-11-25 on.
fn choices() -> [(&'static str, PrimitiveSchemaDefinition); 4] {
    let options = vec![EnumOption { value: "ada".into(), title: "The Ada".into() }];
    let several = |items| PrimitiveSchemaDefinition {
        r#type: "array".into(),
        items: Some(items),
        min_items: Some(1),
        max_items: Some(2),
        default: Some(json!(["ada"])),
        ..PrimitiveSchemaDefinition::default()
    };
    let untitled = EnumSchemaItems {
        r#type: Some("string".into()),
        options: vec!["ada".into(), "eva".into()],
        any_of: Vec::new(),
    };
    let titled = EnumSchemaItems { any_of: options.clone(), ..EnumSchemaItems::default() };
    let one = PrimitiveSchemaDefinition { one_of: options, ..PrimitiveSchemaDefinition::string() };
    [
        ("UntitledSingleSelectEnumSchema", PrimitiveSchemaDefinition::one_of(["ada"]).with_default("ada")),
        ("TitledSingleSelectEnumSchema", one.with_default("ada")),
        ("UntitledMultiSelectEnumSchema", several(untitled)),
        ("TitledMultiSelectEnumSchema", several(titled)),
    ]
}

pub(super) fn filter() -> SubscriptionFilter {
    SubscriptionFilter {
        tools_list_changed: Some(true),
        prompts_list_changed: Some(false),
        resources_list_changed: Some(true),
        resource_subscriptions: vec!["tides://harbour/today".into()],
    }
}

/// What can be said in a conversation with a model.
pub(super) fn sampling_contents(revision: Revision) -> Result<Vec<OneOrMany<SamplingMessageContentBlock>>> {
    let mut blocks: Vec<_> = content(revision)
        .into_iter()
        .filter_map(|block| match block {
            ContentBlock::Text(text) => Some(SamplingMessageContentBlock::Text(text)),
            ContentBlock::Image(image) => Some(SamplingMessageContentBlock::Image(image)),
            ContentBlock::Audio(audio) => Some(SamplingMessageContentBlock::Audio(audio)),
            ContentBlock::ResourceLink(_) | ContentBlock::Resource(_) => None,
        })
        .collect();
    let mut contents = Vec::new();
    if revision >= Revision::R20251125 {
        blocks.push(SamplingMessageContentBlock::ToolUse(ToolUseContent {
            id: "call-1".into(),
            name: "next_high_water".into(),
            input: object(&json!({"harbour": "Harlingen"})),
            meta: Some(meta()),
        }));
        blocks.push(SamplingMessageContentBlock::ToolResult(ToolResultContent {
            tool_use_id: "call-1".into(),
            content: content(revision),
            structured_content: Some(StructuredContent::from_value(&json!({"at": "6:12"}))?),
            is_error: Some(false),
            meta: Some(meta()),
        }));
        contents.push(OneOrMany::Many(blocks.clone()));
    }
    contents.extend(blocks.into_iter().map(OneOrMany::One));
    Ok(contents)
}
