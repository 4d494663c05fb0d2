//! Resources, prompts and completions of the demo server.

use anyhow::{Context as _, bail, ensure};
use rmcp::ServiceError;
use rmcp::model::{
    GetPromptRequestParams, ReadResourceRequestParams, ReadResourceResult, ResourceContents,
    ServerNotification, SubscriptionFilter,
};
use serde_json::{Map, json};
use tokio::time::timeout;

use super::client::{NOTIFICATION_TIMEOUT, Notifications, next};
use super::connection::{Connection, Era, expect};
use super::tools;

pub(crate) async fn use_all(connection: &Connection) -> anyhow::Result<()> {
    resources(connection).await?;
    templates(connection).await?;
    prompts(connection).await?;
    let names = connection.complete_prompt_simple("greeting", "name", "a").await?;
    expect("completion", &names, &vec!["Ada".to_owned(), "Alan".to_owned()])
}

/// Subscribes to a resource with the method of the era. Then waits for the notification that a call of the
/// tool `count` causes.
pub(crate) async fn subscribe(
    era: Era,
    connection: &Connection,
    notifications: &mut Notifications,
) -> anyhow::Result<()> {
    let before = count(connection).await?;
    match era {
        Era::Modern => listen(connection).await?,
        Era::Legacy => subscribe_legacy(connection, notifications).await?,
    }
    ensure!(count(connection).await? > before, "the resource did not change");
    Ok(())
}

async fn listen(connection: &Connection) -> anyhow::Result<()> {
    let filter = SubscriptionFilter::builder().resource_subscriptions([COUNTER]).build();
    let mut subscription = connection.listen(filter.clone()).await?;
    expect("the acknowledged subscriptions", subscription.acknowledged(), &filter)?;
    tools::call(connection, "count", json!({})).await?;
    let notification = timeout(NOTIFICATION_TIMEOUT, subscription.next())
        .await
        .context("timeout while waiting for a notification")??;
    match notification {
        Some(ServerNotification::ResourceUpdatedNotification(updated)) => {
            expect("the URI of the changed resource", &updated.params.uri.as_str(), &COUNTER)?;
        }
        other => bail!("expected a resource update, got {other:?}"),
    }
    subscription.cancel().await?;
    Ok(())
}

#[expect(deprecated, reason = "the legacy era has no other way to subscribe")]
async fn subscribe_legacy(connection: &Connection, notifications: &mut Notifications) -> anyhow::Result<()> {
    use rmcp::model::{SubscribeRequestParams, UnsubscribeRequestParams};

    connection.subscribe(SubscribeRequestParams::new(COUNTER)).await?;
    tools::call(connection, "count", json!({})).await?;
    expect("the URI of the changed resource", &next(&mut notifications.updated).await?.as_str(), &COUNTER)?;
    connection.unsubscribe(UnsubscribeRequestParams::new(COUNTER)).await?;
    Ok(())
}

async fn resources(connection: &Connection) -> anyhow::Result<()> {
    let resources = connection.list_all_resources().await?;
    for uri in ["example://hello", "example://info", COUNTER] {
        ensure!(
            resources.iter().any(|resource| resource.uri == uri),
            "the server lacks the resource `{uri}`"
        );
    }
    expect("a resource", &read(connection, "example://hello").await?.as_str(), &"Hello, World!")?;
    match connection.read_resource(ReadResourceRequestParams::new("example://nonesuch")).await {
        Err(ServiceError::McpError(_)) => Ok(()),
        other => bail!("expected an error for an unknown resource, got {other:?}"),
    }
}

async fn templates(connection: &Connection) -> anyhow::Result<()> {
    let templates = connection.list_all_resource_templates().await?;
    ensure!(
        templates.iter().any(|template| template.uri_template == "example://greeting/{name}"),
        "the server lacks the template of greetings: {templates:?}"
    );
    let greeting = read(connection, "example://greeting/Ada").await?;
    expect("a resource of a template", &greeting.as_str(), &"Hello, Ada!")
}

async fn prompts(connection: &Connection) -> anyhow::Result<()> {
    let prompts = connection.list_all_prompts().await?;
    let prompt = prompts.iter().find(|prompt| prompt.name == "greeting").context("no prompt `greeting`")?;
    let arguments = prompt.arguments.as_deref().unwrap_or_default();
    let names: Vec<_> = arguments.iter().map(|argument| argument.name.as_str()).collect();
    expect("the prompt's arguments", &names, &vec!["name"])?;
    let given = Map::from_iter([("name".to_owned(), json!("Bo"))]);
    let got = connection.get_prompt(GetPromptRequestParams::new("greeting").with_arguments(given)).await?;
    let message = got.messages.first().context("the prompt has no message")?;
    let text = message.content.as_text().map(|content| content.text.as_str());
    expect("the prompt", &text, &Some("Greet Bo warmly."))
}

async fn count(connection: &Connection) -> anyhow::Result<u64> {
    Ok(read(connection, COUNTER).await?.parse()?)
}

async fn read(connection: &Connection, uri: &str) -> anyhow::Result<String> {
    let ReadResourceResult { contents, .. } =
        connection.read_resource(ReadResourceRequestParams::new(uri)).await?;
    match &contents[..] {
        [ResourceContents::TextResourceContents { text, .. }] => Ok(text.clone()),
        other => bail!("`{uri}` should have one text content, but has {other:?}"),
    }
}

const COUNTER: &str = "example://counter";
