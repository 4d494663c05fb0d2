//! Messages of a session that belong to no request of its client.

use std::sync::OnceLock;

use tokio::sync::{Mutex, mpsc};

use crate::dispatch::Said;

/// Messages that wait for a stream of their session: whichever comes first takes them, and no other. Questions that
/// nobody waits for any more are passed over.
#[derive(Default, Debug)]
pub struct Asides(OnceLock<Queue>);

#[derive(Debug)]
struct Queue {
    outbox: mpsc::Sender<Said>,
    messages: Mutex<mpsc::Receiver<Said>>,
}

impl Asides {
    /// Where such messages go.
    pub fn outbox(&self) -> mpsc::Sender<Said> {
        self.queue().outbox.clone()
    }

    /// The next message.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub(super) async fn next(&self) -> Vec<u8> {
        let mut messages = self.queue().messages.lock().await;
        loop {
            match messages.recv().await {
                // Only streams that can be resumed use the other kind.
                Some(said) => {
                    if let Some(message) = said.into_message() {
                        return message;
                    }
                }
                // There is a sender for as long as this is there.
                None => return std::future::pending().await,
            }
        }
    }

    fn queue(&self) -> &Queue {
        self.0.get_or_init(|| {
            let (outbox, messages) = mpsc::channel(MESSAGES_MAX);
            Queue { outbox, messages: Mutex::new(messages) }
        })
    }
}

/// How many messages wait for a stream; whoever asks more waits too.
const MESSAGES_MAX: usize = 16;
