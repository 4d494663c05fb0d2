//! Questions of a server of the legacy era, which come as requests.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::value::{RawValue, to_raw_value};
use thruway_mcp::json_rpc::{Error, ErrorCode, Request, write_error, write_result};
use thruway_mcp::schema::{RequestId, methods};

use super::conversation::Conversation;
use super::handlers;
use super::party::RawAnswer;

impl Conversation {
    /// Answers a request of the server. There are none in the modern era.
    pub(super) fn handle_request(self: &Arc<Self>, request: &Request<'_>, of: Option<i64>) {
        if !self.is_legacy() {
            return;
        }
        // Who asks and does not read what is answered is not asked to: nobody waits to answer without end.
        let Some(responding) = self.incoming.respond() else { return };
        let id = request.id.to_owned();
        if request.method == methods::PING {
            let conversation = self.clone();
            self.spawn(async move {
                conversation.respond(&id, Ok(empty_object())).await;
                drop(responding);
            });
            return;
        }
        let answering = self.answering(request, of);
        let questioned = self.incoming.question();
        let given_up = self.incoming.given_up(&id);
        // Whoever is asked may never answer: a server that nobody uses any more is not kept for that.
        let conversation = Arc::downgrade(self);
        self.spawn(async move {
            let answered = match answering {
                Ok(answering) => tokio::select! {
                    answered = answering => answered,
                    // Whoever is asked learns of it by being dropped, and nobody waits for an answer.
                    _ = given_up => return,
                },
                Err(error) => Err(error),
            };
            drop(questioned);
            if let Some(conversation) = conversation.upgrade() {
                conversation.respond(&id, answered).await;
            }
            drop(responding);
        });
    }

    /// Answers a request of the server that is too large to be read: without an answer, the server would wait
    /// for its timeout.
    pub(super) fn refuse_too_large(self: &Arc<Self>, id: RequestId) {
        let Some(responding) = self.incoming.respond().filter(|_| self.is_legacy()) else { return };
        let conversation = self.clone();
        self.spawn(async move {
            let error =
                Error::new(ErrorCode::INVALID_REQUEST, "the request is larger than the client allows");
            conversation.respond(&id, Err(error)).await;
            drop(responding);
        });
    }

    /// The answer to a question in the making: by whoever sent the request that it belongs to, or whoever is there for those
    /// that belong to none.
    fn answering(
        self: &Arc<Self>,
        request: &Request<'_>,
        of: Option<i64>,
    ) -> Result<Pin<Box<dyn Future<Output = RawAnswer> + Send>>, Error> {
        if self.incoming.questions.load(Ordering::Relaxed) >= QUESTIONS_MAX {
            return Err(Error::internal("too many questions are being answered"));
        }
        if let Some(party) = self.incoming.party(of) {
            let forgotten = self.incoming.forgotten(of, party.key());
            let asking = party.ask(&request.method, request.params);
            return Ok(Box::pin(async move {
                tokio::select! {
                    answered = asking => answered,
                    () = forgotten => Err(Error::internal("nobody waits for what the question is about")),
                }
            }));
        }
        if let Some(party) = &self.incoming.handlers.party {
            return Ok(party.ask(&request.method, request.params));
        }
        let question = handlers::question(request)?;
        let conversation = self.clone();
        Ok(Box::pin(async move {
            let answer = conversation.incoming.handlers.answer(question).await?;
            to_raw_value(&answer).map_err(|_| Error::internal("the answer cannot be written"))
        }))
    }

    async fn respond(self: &Arc<Self>, id: &RequestId, answered: RawAnswer) {
        let mut octets = Vec::new();
        match answered {
            Ok(result) => write_result(&mut octets, &id.into(), |output| {
                output.extend_from_slice(result.get().as_bytes());
                Ok(())
            }),
            Err(error) => write_error(&mut octets, Some(&id.into()), &error),
        }
        // If it cannot be sent, whoever asked is gone, or gives up by itself.
        let _ = self.send(octets).await;
    }
}

/// `{}`
///
/// # Panics
/// Never: the text is JSON.
pub fn empty_object() -> Box<RawValue> {
    RawValue::from_string("{}".to_owned()).expect("an object")
}

/// How many questions of a server are answered at a time; more are refused.
const QUESTIONS_MAX: usize = 64;

/// How many requests of a server wait for their answers to be sent, or made; more are passed over.
pub(super) const RESPONSES_MAX: usize = 2 * QUESTIONS_MAX;
