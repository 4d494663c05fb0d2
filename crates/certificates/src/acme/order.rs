//! Runs one order (RFC 8555 §7.4): lets the ACME server validate the names, and downloads the issued
//! certificate.

use instant_acme::{
    Account, AuthorizationHandle, AuthorizationStatus, CertificateIdentifier, ChallengeType, Error,
    Identifier, NewOrder, Order, OrderStatus, RetryPolicy,
};
use thruway_net::tls::CertificateContents;

use super::challenges::Published;
use super::error::detail_of;
use super::exchange::ExchangeError;
use super::material::SigningRequest;
use super::renewal::identifier_of;
use super::{AcmeConfig, AcmeError, ChallengeKind, Challenges, OrderedNames};

/// Orders a certificate for `names`. Returns the certificate chain and its key, in PEM. If `replaced` is
/// set, the order tells the ACME server that the new certificate replaces `replaced`.
pub(super) async fn order(
    account: &Account,
    config: &AcmeConfig,
    challenges: &Challenges,
    names: &OrderedNames,
    replaced: Option<&CertificateContents>,
) -> Result<String, AcmeError> {
    let identifiers: Vec<_> = names.iter().map(|name| Identifier::Dns(name.to_owned())).collect();
    let replaced = replaced.and_then(|contents| identifier_of(contents.chain.first()?));
    let mut order = begin(account, &identifiers, replaced).await?;
    // Each authorization costs a request, so this function rejects an order with more authorizations than
    // ordered names.
    if order.state().authorizations.len() > identifiers.len() {
        return Err(AcmeError::UnknownName);
    }
    let retries = RetryPolicy::new().initial_delay(config.pace.poll).timeout(config.pace.order);
    let published = answer_all(&mut order, config.challenge, challenges, names).await?;
    let validated = order.poll_ready(&retries).await;
    drop(published);
    match validated {
        Ok(OrderStatus::Ready) => {}
        Ok(_) => return Err(invalid_order_error(&mut order).await),
        Err(error) => return Err(error.into()),
    }
    let request = SigningRequest::new(names)?;
    order.finalize_csr(&request.der).await?;
    let chain = order.poll_certificate(&retries).await?;
    Ok(request.with_key(&chain))
}

/// Begins an order. If the ACME server refuses the identifier of the replaced certificate, begins an order
/// without that identifier.
async fn begin(
    account: &Account,
    identifiers: &[Identifier],
    replaced: Option<CertificateIdentifier<'_>>,
) -> Result<Order, AcmeError> {
    if let Some(replaced) = replaced {
        match account.new_order(&NewOrder::new(identifiers).replaces(replaced)).await {
            Err(error) if is_about_replaced(&error) => {}
            begun => return Ok(begun?),
        }
    }
    Ok(account.new_order(&NewOrder::new(identifiers)).await?)
}

/// Returns `true` if the identifier of the replaced certificate may have caused `error`. An order without
/// the identifier may then succeed.
fn is_about_replaced(error: &Error) -> bool {
    match error {
        Error::Api(problem) => matches!(
            problem.r#type.as_deref().and_then(|kind| kind.rsplit(':').next()),
            Some("alreadyReplaced" | "malformed" | "unauthorized")
        ),
        Error::Other(inner) => !inner.is::<ExchangeError>(),
        error => matches!(error, Error::Unsupported(_)),
    }
}

/// Publishes a challenge response for each name that is not validated yet, and tells the ACME server that
/// the response is ready. The responses stay published until the caller drops the returned values.
async fn answer_all(
    order: &mut Order,
    kind: ChallengeKind,
    challenges: &Challenges,
    names: &OrderedNames,
) -> Result<Vec<Published>, AcmeError> {
    let mut published = Vec::new();
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let authorization = authorization?;
        let name = name_of(&authorization).filter(|name| names.iter().any(|ordered| ordered == name));
        let name = name.ok_or(AcmeError::UnknownName)?;
        match authorization.status {
            AuthorizationStatus::Valid => {}
            AuthorizationStatus::Pending => {
                published.push(answer(authorization, kind, challenges, &name).await?);
            }
            status => {
                return Err(AcmeError::AuthorizationInvalid(name, format!("{status:?}").to_lowercase()));
            }
        }
    }
    Ok(published)
}

async fn answer(
    mut authorization: AuthorizationHandle<'_>,
    kind: ChallengeKind,
    challenges: &Challenges,
    name: &str,
) -> Result<Published, AcmeError> {
    let wanted = match kind {
        ChallengeKind::Http01 => ChallengeType::Http01,
        ChallengeKind::TlsAlpn01 => ChallengeType::TlsAlpn01,
    };
    let offered = authorization.challenge(wanted);
    let mut challenge = offered.ok_or_else(|| AcmeError::ChallengeNotOffered(kind.to_string()))?;
    let key_authorization = challenge.key_authorization();
    let published = match kind {
        ChallengeKind::Http01 => challenges.publish_path(&challenge.token, key_authorization.as_str())?,
        ChallengeKind::TlsAlpn01 => {
            challenges.publish_handshake(name, key_authorization.digest().as_ref())?
        }
    };
    challenge.set_ready().await?;
    Ok(published)
}

fn name_of(authorization: &AuthorizationHandle<'_>) -> Option<String> {
    match authorization.identifier().identifier {
        Identifier::Dns(name) => Some(name.to_ascii_lowercase()),
        _ => None,
    }
}

/// Returns an error with the first name that is not validated, and with the reason from the ACME server.
async fn invalid_order_error(order: &mut Order) -> AcmeError {
    let mut authorizations = order.authorizations();
    while let Some(Ok(mut authorization)) = authorizations.next().await {
        if authorization.refresh().await.is_err() || authorization.status == AuthorizationStatus::Valid {
            continue;
        }
        let problem = authorization.challenges.iter().find_map(|challenge| challenge.error.as_ref());
        let name = name_of(&authorization).unwrap_or_default();
        return AcmeError::AuthorizationInvalid(name, problem.map(detail_of).unwrap_or_default());
    }
    AcmeError::Server("the order is invalid".to_owned())
}
