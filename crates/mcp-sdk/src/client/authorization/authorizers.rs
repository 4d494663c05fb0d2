//! One authorizer for all clients of a server that have the same [`OAuth`]: one login and one token do for all, and nobody renews
//! what another one has renewed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::OAuth;
use super::authorizer::Authorizer;

/// The authorizers that there are, by the URLs of their servers.
#[derive(Clone, Default)]
pub(super) struct Authorizers(Arc<Mutex<HashMap<Box<str>, Weak<Authorizer>>>>);

impl Authorizer {
    /// The one of a client of the server at this URL.
    pub(crate) fn of(oauth: OAuth, server_url: &str) -> Arc<Self> {
        let all = oauth.authorizers.clone();
        let mut all = all.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(standing) = all.get(server_url).and_then(Weak::upgrade) {
            return standing;
        }
        all.retain(|_, one| one.strong_count() > 0);
        let begun = Arc::new(Self::new(oauth, server_url));
        all.insert(server_url.into(), Arc::downgrade(&begun));
        begun
    }
}
