//! Responses of the ACME server.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use thruway_net::Clock;
use thruway_server::{Response, StatusCode};
use x509_cert::der::Decode;
use x509_cert::request::CertReq;

use super::orders::{Authorization, Order};
use super::signed::Signed;
use super::state::{Misbehaviour, State};
use super::validation;
use crate::lock::lock;

/// The answer to one request.
pub(super) struct Answering<'s> {
    pub(super) state: &'s State,
    pub(super) misbehaviour: Misbehaviour,
    pub(super) origin: String,
    pub(super) path: String,
}

impl Answering<'_> {
    pub(super) fn answer(&self, content: &[u8]) -> Response {
        let mut segments = self.path.trim_start_matches('/').split('/');
        let response = match segments.next().unwrap_or_default() {
            "directory" => self.directory(),
            "nonce" => Response::new(StatusCode::OK),
            "renewal" => self.renewal(),
            what => self.signed(what, &segments.collect::<Vec<_>>(), content),
        };
        let response = response.with_field("Replay-Nonce", lock(&self.state.orders).nonce());
        match self.misbehaviour {
            Misbehaviour::Giant if self.path != "/nonce" => response.with_content(vec![b' '; GIANT_BYTES]),
            Misbehaviour::MalformedJson if self.path != "/nonce" => response.with_content("{\"status\": "),
            _ => response,
        }
    }

    fn directory(&self) -> Response {
        let origin = match self.misbehaviour {
            Misbehaviour::PlainUrls => self.origin.replacen("https", "http", 1),
            _ => self.origin.clone(),
        };
        Response::json(&json!({
            "newNonce": format!("{origin}/nonce"),
            "newAccount": format!("{origin}/account"),
            "newOrder": format!("{origin}/order"),
            "renewalInfo": format!("{origin}/renewal"),
        }))
    }

    /// That certificates are renewed in the last tenth of their time.
    fn renewal(&self) -> Response {
        let (_, left) = *lock(&self.state.validity);
        let now = time::OffsetDateTime::from(Clock::system().time_of_day());
        let date = |time: time::OffsetDateTime| time.format(&time::format_description::well_known::Rfc3339);
        let (Ok(start), Ok(end)) = (date(now + left - left / 10), date(now + left)) else {
            return problem("serverInternal", "no date");
        };
        Response::json(&json!({"suggestedWindow": {"start": start, "end": end}}))
            .with_field("Retry-After", "21600")
    }

    fn signed(&self, what: &str, rest: &[&str], content: &[u8]) -> Response {
        let Some(signed) = Signed::read(content) else { return problem("malformed", "it is not signed") };
        let is_fresh = lock(&self.state.orders).spend(&signed.nonce);
        let is_once = self.misbehaviour == Misbehaviour::BadNonceOnce;
        if is_once {
            *lock(&self.state.misbehaviour) = Misbehaviour::None;
        }
        if !is_fresh || is_once || self.misbehaviour == Misbehaviour::BadNonce {
            return problem("badNonce", "it is not fresh");
        }
        if signed.url != format!("{}{}", self.origin, self.path) {
            return problem("unauthorized", "another URL is signed");
        }
        if what == "account" {
            return self.account(&signed);
        }
        let thumbprint = lock(&self.state.orders).thumbprint(signed.account.as_deref().unwrap_or_default());
        let Some(thumbprint) = thumbprint.filter(|_| self.misbehaviour != Misbehaviour::AccountUnknown)
        else {
            return problem("accountDoesNotExist", "who is that?");
        };
        let numbers: Vec<usize> = rest.iter().filter_map(|number| number.parse().ok()).collect();
        match (what, &numbers[..]) {
            ("order", []) => self.new_order(&signed),
            ("order", [order]) => self.order(*order, StatusCode::OK),
            ("authorization", [order, place]) => self.authorization(*order, *place),
            ("challenge", [order, place]) => self.challenge(*order, *place, rest, &thumbprint),
            ("finalize", [order]) => self.finalize(*order, &signed),
            ("certificate", [order]) => self.certificate(*order),
            _ => problem("malformed", "there is nothing there"),
        }
    }

    fn account(&self, signed: &Signed) -> Response {
        if signed.content["termsOfServiceAgreed"] != true {
            return problem("userActionRequired", "there are terms of service");
        }
        let Some(thumbprint) = &signed.thumbprint else { return problem("malformed", "there is no key") };
        let external = signed.content["externalAccountBinding"]["protected"].as_str();
        let external = external.and_then(|protected| URL_SAFE_NO_PAD.decode(protected).ok());
        let external = external.and_then(|json| serde_json::from_slice::<Value>(&json).ok());
        let mut orders = lock(&self.state.orders);
        orders.external.extend(external.and_then(|header| header["kid"].as_str().map(str::to_owned)));
        let url = orders.account(&self.origin, thumbprint);
        drop(orders);
        let response = Response::json(&json!({"status": "valid"})).with_status(StatusCode::CREATED);
        response.with_field("Location", url)
    }

    fn new_order(&self, signed: &Signed) -> Response {
        if let Misbehaviour::RateLimited(retry_after) = self.misbehaviour {
            let refusal =
                problem("rateLimited", "too many\nof them").with_status(StatusCode::TOO_MANY_REQUESTS);
            return refusal.with_field("Retry-After", retry_after);
        }
        let identifiers = signed.content["identifiers"].as_array().cloned().unwrap_or_default();
        let mut names: Vec<_> =
            identifiers.iter().map(|name| name["value"].as_str().unwrap_or_default().to_owned()).collect();
        if self.misbehaviour == Misbehaviour::UnknownName {
            names = vec!["unknown.example".to_owned()];
        }
        let replaces = signed.content["replaces"].as_str().map(str::to_owned);
        let order = lock(&self.state.orders).order(names, replaces);
        let response = self.order(order, StatusCode::CREATED);
        response.with_field("Location", format!("{}/order/{order}", self.origin))
    }

    fn order(&self, number: usize, status: StatusCode) -> Response {
        let orders = lock(&self.state.orders);
        let Some(order) = orders.placed.get(number) else { return problem("malformed", "no such order") };
        let response = Response::json(&self.order_json(number, order)).with_status(status);
        match self.misbehaviour {
            Misbehaviour::Dawdles(retry_after) => response.with_field("Retry-After", retry_after),
            _ => response,
        }
    }

    fn order_json(&self, number: usize, order: &Order) -> Value {
        let origin = &self.origin;
        let dawdles = matches!(self.misbehaviour, Misbehaviour::Dawdles(_));
        let authorizations = 0..order.authorizations.len();
        let authorizations: Vec<_> =
            authorizations.map(|place| format!("{origin}/authorization/{number}/{place}")).collect();
        let mut json = json!({
            "status": if dawdles { "pending" } else { order.status() },
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
            json["error"] = json!({"type": format!("{KIND}connection"), "detail": error});
        }
        json
    }

    /// Validates a name at once.
    fn challenge(&self, order: usize, place: usize, rest: &[&str], thumbprint: &str) -> Response {
        let kind = rest.last().copied().unwrap_or_default();
        let ports = self.state.ports();
        self.with_authorization(order, place, |authorization| {
            let pending = self.challenge_json(order, place, kind, authorization);
            let (name, token) = (&authorization.name, &authorization.token);
            let key_authorization = format!("{token}.{thumbprint}");
            let found = match kind {
                _ if self.misbehaviour == Misbehaviour::FindsNobody => Err("nobody\u{7} is there".to_owned()),
                "http-01" => validation::by_path(ports.http, name, token, &key_authorization),
                _ => validation::by_handshake(ports.tls, name, &key_authorization),
            };
            authorization.status = if found.is_ok() { "valid" } else { "invalid" };
            authorization.error = found.err();
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
        let order = orders.placed.get_mut(order);
        let authorization = order.and_then(|order| order.authorizations.get_mut(place));
        authorization.map_or_else(|| problem("malformed", "no such authorization"), answer)
    }

    fn finalize(&self, number: usize, signed: &Signed) -> Response {
        let request = URL_SAFE_NO_PAD.decode(signed.text("csr")).ok();
        let request = request.as_deref().and_then(|der| CertReq::from_der(der).ok());
        let Some(request) = request else { return problem("badCSR", "it is no request") };
        let mut orders = lock(&self.state.orders);
        let Some(order) = orders.placed.get_mut(number).filter(|order| order.status() == "ready") else {
            return problem("orderNotReady", "names are not validated");
        };
        let names: Vec<_> =
            order.authorizations.iter().map(|authorization| authorization.name.clone()).collect();
        let key = request.info.public_key.subject_public_key.raw_bytes().to_vec();
        order.chain = Some(self.issued(key, &names));
        drop(orders);
        self.order(number, StatusCode::OK)
    }

    fn issued(&self, key: Vec<u8>, names: &[String]) -> String {
        let now = Clock::system().time_of_day();
        let (since, left) = *lock(&self.state.validity);
        let authority = &self.state.authority;
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        let issue = |names: &[&str]| authority.issue_for_key(key.clone(), names, now - since, now + left);
        match self.misbehaviour {
            Misbehaviour::IssuesExpired => authority.issue_for_key(key, &names, now - 3 * since, now - since),
            Misbehaviour::IssuesForOtherKey => {
                let other = authority.issue("other", &names);
                std::fs::read_to_string(other.chain).unwrap_or_default()
            }
            Misbehaviour::IssuesForOtherName => issue(&["other.example"]),
            Misbehaviour::IssuesGarbage => "-----BEGIN CERTIFICATE-----\n?\n".to_owned(),
            _ => issue(&names),
        }
    }

    fn certificate(&self, order: usize) -> Response {
        let orders = lock(&self.state.orders);
        match orders.placed.get(order).and_then(|order| order.chain.clone()) {
            Some(chain) => {
                Response::text(chain).with_field("Content-Type", "application/pem-certificate-chain")
            }
            None => problem("malformed", "nothing was issued"),
        }
    }
}

/// RFC 8555 §6.7.
fn problem(kind: &str, detail: &str) -> Response {
    let problem = json!({"type": format!("{KIND}{kind}"), "detail": detail});
    Response::json(&problem).with_status(StatusCode::BAD_REQUEST)
}

const KIND: &str = "urn:ietf:params:acme:error:";

/// Size that exceeds all limits.
const GIANT_BYTES: usize = 2 << 20;
