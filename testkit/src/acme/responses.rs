//! Responses of the ACME server.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use thruway_net::Clock;
use thruway_server::{Response, StatusCode};
use x509_cert::der::Decode;
use x509_cert::request::CertReq;

use super::orders::{Authorization, Order};
use super::signed_request::SignedRequest;
use super::state::{Misbehavior, State};
use super::validation;
use crate::lock::lock;

/// The data that the responses to one request need.
pub(super) struct RequestContext<'s> {
    pub(super) state: &'s State,
    pub(super) misbehavior: Misbehavior,
    /// Scheme, host and port for URLs in responses.
    pub(super) origin: String,
    pub(super) path: String,
}

impl RequestContext<'_> {
    /// Responds to the request. `content` is its body.
    pub(super) fn respond(&self, content: &[u8]) -> Response {
        let mut segments = self.path.trim_start_matches('/').split('/');
        let response = match segments.next().unwrap_or_default() {
            "directory" => self.directory(),
            "nonce" => Response::new(StatusCode::OK),
            "renewal" => self.renewal(),
            resource => self.signed(resource, &segments.collect::<Vec<_>>(), content),
        };
        let response = response.with_field("Replay-Nonce", lock(&self.state.orders).new_nonce());
        match self.misbehavior {
            Misbehavior::OversizedResponses if self.path != "/nonce" => {
                response.with_content(vec![b' '; OVERSIZED_BYTES])
            }
            Misbehavior::TruncatedJson if self.path != "/nonce" => response.with_content("{\"status\": "),
            _ => response,
        }
    }

    fn directory(&self) -> Response {
        let origin = match self.misbehavior {
            Misbehavior::PlainHttpUrls => self.origin.replacen("https", "http", 1),
            _ => self.origin.clone(),
        };
        Response::json(&json!({
            "newNonce": format!("{origin}/nonce"),
            "newAccount": format!("{origin}/account"),
            "newOrder": format!("{origin}/order"),
            "renewalInfo": format!("{origin}/renewal"),
        }))
    }

    /// Returns the renewal information of a certificate (RFC 9773). The suggested renewal window is the last
    /// tenth of the remaining validity.
    fn renewal(&self) -> Response {
        let (_, remaining) = *lock(&self.state.validity);
        let now = time::OffsetDateTime::from(Clock::system().time_of_day());
        let date = |time: time::OffsetDateTime| time.format(&time::format_description::well_known::Rfc3339);
        let (Ok(start), Ok(end)) = (date(now + remaining - remaining / 10), date(now + remaining)) else {
            return problem("serverInternal", "the date cannot be formatted");
        };
        Response::json(&json!({"suggestedWindow": {"start": start, "end": end}}))
            .with_field("Retry-After", "21600")
    }

    /// Responds to a signed request for `resource`. `rest` contains the other path segments.
    fn signed(&self, resource: &str, rest: &[&str], content: &[u8]) -> Response {
        let Some(signed) = SignedRequest::parse(content) else {
            return problem("malformed", "the request is not signed");
        };
        let is_fresh = lock(&self.state.orders).use_nonce(&signed.nonce);
        let rejects_once = self.misbehavior == Misbehavior::RejectsNextNonce;
        if rejects_once {
            *lock(&self.state.misbehavior) = Misbehavior::None;
        }
        if !is_fresh || rejects_once || self.misbehavior == Misbehavior::RejectsAllNonces {
            return problem("badNonce", "the nonce is unknown or used");
        }
        if signed.url != format!("{}{}", self.origin, self.path) {
            return problem("unauthorized", "the signature is for another URL");
        }
        if resource == "account" {
            return self.account(&signed);
        }
        let thumbprint =
            lock(&self.state.orders).thumbprint(signed.account_url.as_deref().unwrap_or_default());
        let Some(thumbprint) = thumbprint.filter(|_| self.misbehavior != Misbehavior::UnknownAccount) else {
            return problem("accountDoesNotExist", "the account does not exist");
        };
        let numbers: Vec<usize> = rest.iter().filter_map(|number| number.parse().ok()).collect();
        match (resource, &numbers[..]) {
            ("order", []) => self.new_order(&signed),
            ("order", [order]) => self.order(*order, StatusCode::OK),
            ("authorization", [order, place]) => self.authorization(*order, *place),
            ("challenge", [order, place]) => self.challenge(*order, *place, rest, &thumbprint),
            ("finalize", [order]) => self.finalize(*order, &signed),
            ("certificate", [order]) => self.certificate(*order),
            _ => problem("malformed", "the resource does not exist"),
        }
    }

    fn account(&self, signed: &SignedRequest) -> Response {
        if signed.content["termsOfServiceAgreed"] != true {
            return problem("userActionRequired", "the client must accept the terms of service");
        }
        let Some(thumbprint) = &signed.thumbprint else {
            return problem("malformed", "the request contains no key");
        };
        let external = signed.content["externalAccountBinding"]["protected"].as_str();
        let external = external.and_then(|protected| URL_SAFE_NO_PAD.decode(protected).ok());
        let external = external.and_then(|json| serde_json::from_slice::<Value>(&json).ok());
        let mut orders = lock(&self.state.orders);
        orders
            .external_accounts
            .extend(external.and_then(|header| header["kid"].as_str().map(str::to_owned)));
        let url = orders.account_url(&self.origin, thumbprint);
        drop(orders);
        let response = Response::json(&json!({"status": "valid"})).with_status(StatusCode::CREATED);
        response.with_field("Location", url)
    }

    fn new_order(&self, signed: &SignedRequest) -> Response {
        if let Misbehavior::RateLimited(retry_after) = self.misbehavior {
            let response =
                problem("rateLimited", "too many\nof them").with_status(StatusCode::TOO_MANY_REQUESTS);
            return response.with_field("Retry-After", retry_after);
        }
        let identifiers = signed.content["identifiers"].as_array().cloned().unwrap_or_default();
        let mut names: Vec<_> =
            identifiers.iter().map(|name| name["value"].as_str().unwrap_or_default().to_owned()).collect();
        if self.misbehavior == Misbehavior::AuthorizesOtherName {
            names = vec!["unknown.example".to_owned()];
        }
        let replaces = signed.content["replaces"].as_str().map(str::to_owned);
        let order = lock(&self.state.orders).new_order(names, replaces);
        let response = self.order(order, StatusCode::CREATED);
        response.with_field("Location", format!("{}/order/{order}", self.origin))
    }

    fn order(&self, number: usize, status: StatusCode) -> Response {
        let orders = lock(&self.state.orders);
        let Some(order) = orders.all.get(number) else { return problem("malformed", "no such order") };
        let response = Response::json(&self.order_json(number, order)).with_status(status);
        match self.misbehavior {
            Misbehavior::OrdersStayPending(retry_after) => response.with_field("Retry-After", retry_after),
            _ => response,
        }
    }

    fn order_json(&self, number: usize, order: &Order) -> Value {
        let origin = &self.origin;
        let is_stalled = matches!(self.misbehavior, Misbehavior::OrdersStayPending(_));
        let authorizations = 0..order.authorizations.len();
        let authorizations: Vec<_> =
            authorizations.map(|place| format!("{origin}/authorization/{number}/{place}")).collect();
        let mut json = json!({
            "status": if is_stalled { "pending" } else { order.status() },
            "authorizations": authorizations,
            "finalize": format!("{origin}/finalize/{number}"),
        });
        if let Some(replaces) = &order.replaces {
            json["replaces"] = json!(replaces);
        }
        if order.chain.is_some() {
            json["certificate"] = json!(format!("{origin}/certificate/{number}"));
        }
        json
    }

    fn authorization(&self, order: usize, place: usize) -> Response {
        self.with_authorization(order, place, |authorization| {
            let challenges = ["http-01", "tls-alpn-01"];
            let challenges = challenges.map(|kind| self.challenge_json(order, place, kind, authorization));
            Response::json(&json!({
                "identifier": {"type": "dns", "value": authorization.name},
                "status": authorization.status,
                "challenges": challenges,
            }))
        })
    }

    fn challenge_json(&self, order: usize, place: usize, kind: &str, authorization: &Authorization) -> Value {
        let mut json = json!({
            "type": kind,
            "url": format!("{}/challenge/{order}/{place}/{kind}", self.origin),
            "token": authorization.token,
            "status": authorization.status,
        });
        if let Some(error) = &authorization.error {
            json["error"] = json!({"type": format!("{ERROR_URN_PREFIX}connection"), "detail": error});
        }
        json
    }

    /// Validates a name, and returns the challenge in its previous state.
    fn challenge(&self, order: usize, place: usize, rest: &[&str], thumbprint: &str) -> Response {
        let kind = rest.last().copied().unwrap_or_default();
        let ports = self.state.ports();
        self.with_authorization(order, place, |authorization| {
            let pending = self.challenge_json(order, place, kind, authorization);
            let (name, token) = (&authorization.name, &authorization.token);
            let key_authorization = format!("{token}.{thumbprint}");
            let result = match kind {
                _ if self.misbehavior == Misbehavior::ValidationFails => {
                    Err("nobody\u{7} is there".to_owned())
                }
                "http-01" => validation::validate_http_01(ports.http, name, token, &key_authorization),
                _ => validation::validate_tls_alpn_01(ports.tls, name, &key_authorization),
            };
            authorization.status = if result.is_ok() { "valid" } else { "invalid" };
            authorization.error = result.err();
            Response::json(&pending)
        })
    }

    fn with_authorization(
        &self,
        order: usize,
        place: usize,
        answer: impl FnOnce(&mut Authorization) -> Response,
    ) -> Response {
        let mut orders = lock(&self.state.orders);
        let order = orders.all.get_mut(order);
        let authorization = order.and_then(|order| order.authorizations.get_mut(place));
        authorization.map_or_else(|| problem("malformed", "no such authorization"), answer)
    }

    fn finalize(&self, number: usize, signed: &SignedRequest) -> Response {
        let csr = URL_SAFE_NO_PAD.decode(signed.text("csr")).ok();
        let csr = csr.as_deref().and_then(|der| CertReq::from_der(der).ok());
        let Some(csr) = csr else { return problem("badCSR", "the certificate signing request is invalid") };
        let mut orders = lock(&self.state.orders);
        let Some(order) = orders.all.get_mut(number).filter(|order| order.status() == "ready") else {
            return problem("orderNotReady", "the order is not ready");
        };
        let names: Vec<_> =
            order.authorizations.iter().map(|authorization| authorization.name.clone()).collect();
        let key = csr.info.public_key.subject_public_key.raw_bytes().to_vec();
        order.chain = Some(self.issue(key, &names));
        drop(orders);
        self.order(number, StatusCode::OK)
    }

    /// Issues a certificate. Returns its chain in PEM.
    fn issue(&self, key: Vec<u8>, names: &[String]) -> String {
        let now = Clock::system().time_of_day();
        let (age, remaining) = *lock(&self.state.validity);
        let authority = &self.state.authority;
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        let issue = |names: &[&str]| authority.issue_for_key(key.clone(), names, now - age, now + remaining);
        match self.misbehavior {
            Misbehavior::IssuesExpired => authority.issue_for_key(key, &names, now - 3 * age, now - age),
            Misbehavior::IssuesForOtherKey => {
                let other = authority.issue("other", &names);
                std::fs::read_to_string(other.chain).unwrap_or_default()
            }
            Misbehavior::IssuesForOtherName => issue(&["other.example"]),
            Misbehavior::IssuesMalformed => "-----BEGIN CERTIFICATE-----\n?\n".to_owned(),
            _ => issue(&names),
        }
    }

    fn certificate(&self, order: usize) -> Response {
        let orders = lock(&self.state.orders);
        match orders.all.get(order).and_then(|order| order.chain.clone()) {
            Some(chain) => {
                Response::text(chain).with_field("Content-Type", "application/pem-certificate-chain")
            }
            None => problem("malformed", "no certificate was issued"),
        }
    }
}

/// Returns a problem document (RFC 8555 §6.7).
fn problem(kind: &str, detail: &str) -> Response {
    let problem = json!({"type": format!("{ERROR_URN_PREFIX}{kind}"), "detail": detail});
    Response::json(&problem).with_status(StatusCode::BAD_REQUEST)
}

const ERROR_URN_PREFIX: &str = "urn:ietf:params:acme:error:";

/// More bytes than any limit allows.
const OVERSIZED_BYTES: usize = 2 << 20;
