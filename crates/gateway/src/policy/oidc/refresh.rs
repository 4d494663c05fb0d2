//! The refresh of sessions: the gateway asks the provider at intervals if the user still has access.
//!
//! A page sends many requests at the same time, with the same cookie. Many providers accept a refresh token
//! only once, and end the session if they get it again. Therefore all requests of a process share the refresh
//! of a session.

use std::sync::Arc;

use serde_json::Value;
use thruway_net::Clock;
use thruway_server::{Request, StatusCode};
use tokio::task::spawn_local;

use super::cookies::{Session, removed_cookie};
use super::outcome::{Exchange, Outcome, Reply};
use super::provider::{ProviderError, since_epoch};
use super::refreshes::Refreshed;
use super::{Oidc, is_for_page};
use crate::policy::refusal::quoted;
use crate::policy::verdict::Verdict;

impl Oidc {
    /// Returns `true` if the provider must be asked before the session is used again.
    pub(super) fn must_refresh(&self, session: &Session, now: u64) -> bool {
        let is_due = session.refresh_token.is_some() && session.refresh_at <= now;
        is_due && !(self.is_within_grace(session, now) && self.refreshes.are_paused(now))
    }

    /// Returns `true` if the session can be used although the provider does not respond.
    fn is_within_grace(&self, session: &Session, now: u64) -> bool {
        now < session.refresh_at.saturating_add(self.config.refresh_interval.as_secs())
    }

    /// Refreshes the session, and continues the request of the client with the new session.
    pub(super) fn refresh(self: &Arc<Self>, request: &Request<'_>, session: Session, now: u64) -> Exchange {
        let (oidc, clock) = (self.clone(), request.worker().clock().clone());
        let login = if is_for_page(request) { Some(self.begin_login(request, now)) } else { None };
        Box::pin(async move {
            match oidc.shared_refresh(&session, &clock, now).await {
                Refreshed::Session(session, cookie) => Outcome::Admit { session: *session, cookie },
                Refreshed::Failed if oidc.is_within_grace(&session, now) => {
                    Outcome::Admit { session, cookie: None }
                }
                Refreshed::Failed => Outcome::Respond(Reply::unavailable()),
                Refreshed::Ended => match login {
                    Some(Verdict::Respond(reply)) => Outcome::Respond(*reply),
                    Some(Verdict::Exchange(login)) => login.await,
                    _ => Outcome::Respond(oidc.ended()),
                },
            }
        })
    }

    /// Refreshes the session. Requests with the same refresh token share the result.
    async fn shared_refresh(self: &Arc<Self>, session: &Session, clock: &Clock, now: u64) -> Refreshed {
        let Some(token) = session.refresh_token.clone() else { return Refreshed::Ended };
        let mut outcome = self.refreshes.begin(&token, now, |sender| {
            let (oidc, session, clock, token) = (self.clone(), session.clone(), clock.clone(), token.clone());
            // The refresh must not end with the connection of the client, because the provider may not accept
            // the token again.
            drop(spawn_local(async move {
                let refreshed = oidc.refreshed(&session, &token, &clock).await;
                // Sending fails if no request waits any more.
                let _ = sender.send(Some(refreshed));
            }));
        });
        let refreshed = outcome.wait_for(Option::is_some).await.ok().and_then(|outcome| outcome.clone());
        refreshed.unwrap_or(Refreshed::Failed)
    }

    /// Asks the provider for new tokens (OpenID Connect Core 1.0 §12).
    async fn refreshed(&self, session: &Session, token: &str, clock: &Clock) -> Refreshed {
        match self.in_time(self.new_session(session, token, clock)).await {
            Ok(session) => {
                let cookie = session.cookie(&self.names, &self.sealer, since_epoch(clock).as_secs());
                Refreshed::Session(Box::new(session), cookie)
            }
            Err(error) => {
                if error.is_refusal() {
                    tracing::debug!(policy = &*self.policy, "the provider has ended a session: {error}");
                    return Refreshed::Ended;
                }
                self.log_failure("refresh of a session", &error);
                if matches!(error, ProviderError::IdToken(_)) {
                    return Refreshed::Ended;
                }
                let until = since_epoch(clock).as_secs() + PAUSE_SECONDS;
                self.refreshes.pause(until);
                Refreshed::Failed
            }
        }
    }

    async fn new_session(
        &self,
        session: &Session,
        token: &str,
        clock: &Clock,
    ) -> Result<Session, ProviderError> {
        let form = [("grant_type", "refresh_token"), ("refresh_token", token)];
        let tokens = self.provider.tokens(&form, &self.config.client_id, self.client_secret()).await?;
        let claims = match &tokens.id_token {
            None => session.claims.clone(),
            Some(id_token) => {
                let claims = self.verified(id_token, clock).await?;
                if claims.get("sub").and_then(Value::as_str)
                    != session.claims.get("sub").and_then(Value::as_str)
                {
                    return Err(ProviderError::IdToken("it is of another user"));
                }
                self.used_claims(&claims)
            }
        };
        Ok(Session {
            claims,
            ends: session.ends,
            refresh_at: (since_epoch(clock) + self.config.refresh_interval).as_secs(),
            refresh_token: Some(tokens.refresh_token.unwrap_or_else(|| token.to_owned())),
        })
    }

    /// Returns the response to a script or an API client after the provider has ended its session.
    fn ended(&self) -> Reply {
        let mut reply =
            Reply::refusal(StatusCode::UNAUTHORIZED, "401 Unauthorized\n".to_owned(), "session_ended");
        let challenge = format!("Cookie realm={}", quoted(&self.policy));
        let removed = removed_cookie(&self.names.session);
        reply.response =
            reply.response.with_field("WWW-Authenticate", challenge).with_field("Set-Cookie", removed);
        reply
    }
}

/// Time between a failed refresh and the next refresh, in seconds.
const PAUSE_SECONDS: u64 = 10;
