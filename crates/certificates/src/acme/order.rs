//! Runs one order (RFC 8555 §7.4): lets the ACME server validate the names, and downloads the issued
//! certificate.

use instant_acme::{
    Account, AuthorizationHandle, AuthorizationStatus, CertificateIdentifier, ChallengeStatus, ChallengeType,
    Error, Identifier, NewOrder, Order, OrderStatus, RetryPolicy,
};
use thruway_net::tls::CertificateContents;

use super::challenges::{ChallengeResponse, Published};
use super::error::detail_of;
use super::exchange::ExchangeError;
use super::material::SigningRequest;
use super::renewal::identifier_of;
use super::shared_order::SharedOrder;
use super::{AcmeConfig, AcmeError, ChallengeKind, Challenges, OrderedNames};

/// The inputs of an order.
pub(super) struct OrderInputs<'o> {
    pub(super) account: &'o Account,
    pub(super) config: &'o AcmeConfig,
    pub(super) challenges: &'o Challenges,
    pub(super) names: &'o OrderedNames,
    /// The certificate that the new certificate replaces, if any. The order tells the ACME server.
    pub(super) replaced: Option<&'o CertificateContents>,
    /// The state of the order in the shared store. `None` if this process shares no certificates.
    pub(super) shared: Option<&'o SharedOrder>,
}

/// An order that the ACME server knows, and the key of the future certificate.
struct BegunOrder {
    order: Order,
    request: SigningRequest,
}

impl OrderInputs<'_> {
    /// Orders a certificate. Returns the certificate chain and its key, in PEM. Continues a pending order
    /// from the shared store, if there is one.
    pub(super) async fn order(&self) -> Result<String, AcmeError> {
        let mut begun = match self.pending().await? {
            Some(pending) => pending,
            None => self.begin().await?,
        };
        let completed = self.complete(&mut begun).await;
        if let (Some(shared), Err(error)) = (self.shared, &completed)
            && !error.may_order_continue()
        {
            shared.forget_pending().await;
        }
        completed
    }

    /// Returns the pending order in the shared store. Returns `None` if there is no such order, or if the
    /// ACME server no longer accepts the order.
    async fn pending(&self) -> Result<Option<BegunOrder>, AcmeError> {
        let Some(shared) = self.shared else { return Ok(None) };
        let Some(pending) = shared.pending().await? else { return Ok(None) };
        let request = SigningRequest::with_existing_key(self.names, &pending.key);
        let order = match self.account.order(pending.url).await {
            Ok(mut order) => (order.state().status != OrderStatus::Invalid).then_some(order),
            Err(Error::Api(_)) => None,
            Err(error) => return Err(error.into()),
        };
        let (Some(request), Some(order)) = (request, order) else {
            shared.forget_pending().await;
            return Ok(None);
        };
        tracing::info!(name = self.names.first(), "continuing the order of another replica");
        Ok(Some(BegunOrder { order, request }))
    }

    async fn begin(&self) -> Result<BegunOrder, AcmeError> {
        let request = SigningRequest::new(self.names)?;
        let identifiers: Vec<_> = self.names.iter().map(|name| Identifier::Dns(name.to_owned())).collect();
        let replaced = self.replaced.and_then(|contents| identifier_of(contents.chain.first()?));
        let mut order = begin(self.account, &identifiers, replaced).await?;
        // Each authorization costs a request, so this function rejects an order with more authorizations
        // than ordered names.
        if order.state().authorizations.len() > identifiers.len() {
            return Err(AcmeError::UnknownName);
        }
        if let Some(shared) = self.shared {
            shared.keep_pending(order.url(), &request.key()).await?;
        }
        Ok(BegunOrder { order, request })
    }

    async fn complete(&self, begun: &mut BegunOrder) -> Result<String, AcmeError> {
        let BegunOrder { order, request } = begun;
        let retries = RetryPolicy::new().initial_delay(self.config.pace.poll).timeout(self.config.pace.order);
        if order.state().status == OrderStatus::Pending {
            let published = self.answer_all(order).await?;
            let validated = order.poll_ready(&retries).await;
            drop(published);
            if let Some(shared) = self.shared {
                shared.hide_responses().await;
            }
            match validated {
                Ok(OrderStatus::Ready) => {}
                Ok(_) => return Err(invalid_order_error(order).await),
                Err(error) => return Err(error.into()),
            }
        }
        if order.state().status == OrderStatus::Ready {
            order.finalize_csr(&request.der).await?;
        }
        let chain = order.poll_certificate(&retries).await?;
        Ok(request.with_key(&chain))
    }

    /// Publishes a challenge response for each name that is not validated yet, and then tells the ACME
    /// server that the responses are ready. The responses stay published until the caller drops the returned
    /// values.
    async fn answer_all(&self, order: &mut Order) -> Result<Vec<Published>, AcmeError> {
        let mut responses = Vec::new();
        let mut authorizations = order.authorizations();
        while let Some(authorization) = authorizations.next().await {
            responses.extend(self.response(authorization?)?);
        }
        let published: Result<Vec<_>, _> =
            responses.iter().map(|response| self.challenges.publish(response)).collect();
        let published = published?;
        if let Some(shared) = self.shared {
            shared.show_responses(&responses).await?;
        }
        let mut authorizations = order.authorizations();
        while let Some(authorization) = authorizations.next().await {
            let mut authorization = authorization?;
            if authorization.status == AuthorizationStatus::Pending
                && let Some(mut challenge) = authorization.challenge(kind_of(self.config.challenge))
                // The process that began the order may already have told the ACME server.
                && challenge.status == ChallengeStatus::Pending
            {
                challenge.set_ready().await?;
            }
        }
        Ok(published)
    }

    /// Returns the response to the challenge of a name. Returns `None` if the name is already validated.
    fn response(
        &self,
        authorization: AuthorizationHandle<'_>,
    ) -> Result<Option<ChallengeResponse>, AcmeError> {
        let name = name_of(&authorization).filter(|name| self.names.iter().any(|ordered| ordered == name));
        let name = name.ok_or(AcmeError::UnknownName)?;
        match authorization.status {
            AuthorizationStatus::Valid => return Ok(None),
            AuthorizationStatus::Pending => {}
            status => {
                return Err(AcmeError::AuthorizationInvalid(name, format!("{status:?}").to_lowercase()));
            }
        }
        let kind = self.config.challenge;
        // `challenge` needs a handle whose lifetime ends in this function.
        let mut authorization = authorization;
        let offered = authorization.challenge(kind_of(kind));
        let challenge = offered.ok_or_else(|| AcmeError::ChallengeNotOffered(kind.to_string()))?;
        let key_authorization = challenge.key_authorization();
        Ok(Some(match kind {
            ChallengeKind::Http01 => ChallengeResponse::Http {
                token: challenge.token.clone(),
                key_authorization: key_authorization.as_str().to_owned(),
            },
            ChallengeKind::TlsAlpn01 => {
                ChallengeResponse::TlsAlpn { name, digest: key_authorization.digest().as_ref().to_vec() }
            }
        }))
    }
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

const fn kind_of(kind: ChallengeKind) -> ChallengeType {
    match kind {
        ChallengeKind::Http01 => ChallengeType::Http01,
        ChallengeKind::TlsAlpn01 => ChallengeType::TlsAlpn01,
    }
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
