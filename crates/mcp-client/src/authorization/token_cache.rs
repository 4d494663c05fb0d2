//! A cache of issued tokens. For each key, at most one request for a token runs at a time.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::access_token::{AccessToken, IssuedToken, TokenKey};
use super::error::OAuthError;
use super::token::TokenResponse;

/// The tokens of one authorization server.
#[derive(Default)]
pub(super) struct TokenCache {
    entries: Mutex<HashMap<TokenKey, Entry>>,
}

enum Entry {
    /// A request for the token is running. The channel closes without a value if its runtime has ended.
    Requested(watch::Receiver<Option<Outcome>>),
    Issued(AccessToken),
}

type Outcome = Result<AccessToken, OAuthError>;

impl TokenCache {
    /// Returns the cached token, or waits for the outcome of `request`. Concurrent calls with the same key
    /// share one request. The request continues if its caller stops waiting. Does not keep errors.
    pub(super) async fn get<F>(self: &Arc<Self>, key: TokenKey, request: F) -> Outcome
    where
        F: Future<Output = Result<TokenResponse, OAuthError>> + Send + 'static,
    {
        let mut outcome = match self.begin(key, request) {
            Entry::Issued(token) => return Ok(token),
            Entry::Requested(outcome) => outcome,
        };
        let outcome = outcome.wait_for(Option::is_some).await;
        // The channel closes without a value if the request panicked or its runtime has ended.
        outcome.ok().and_then(|outcome| outcome.clone()).unwrap_or(Err(OAuthError::TokenInvalid))
    }

    /// Returns the cached token, if it is fresh.
    pub(super) fn fresh(&self, key: &TokenKey) -> Option<AccessToken> {
        match self.entries().get(key) {
            Some(Entry::Issued(token)) if token.is_fresh() => Some(token.clone()),
            _ => None,
        }
    }

    /// Removes `token`, because a server has refused it.
    pub(super) fn forget(&self, token: &AccessToken) {
        let mut entries = self.entries();
        if let Some(Entry::Issued(cached)) = entries.get(token.key())
            && cached.is_same(token)
        {
            entries.remove(token.key());
        }
    }

    /// Returns the fresh token or the running request. Starts `request` if there is neither.
    fn begin<F>(self: &Arc<Self>, key: TokenKey, request: F) -> Entry
    where
        F: Future<Output = Result<TokenResponse, OAuthError>> + Send + 'static,
    {
        let mut entries = self.entries();
        match entries.get(&key) {
            Some(Entry::Issued(token)) if token.is_fresh() => return Entry::Issued(token.clone()),
            Some(Entry::Requested(outcome)) if outcome.has_changed().is_ok() => {
                return Entry::Requested(outcome.clone());
            }
            _ => {}
        }
        make_room(&mut entries);
        let (sender, outcome) = watch::channel(None);
        entries.insert(key, Entry::Requested(outcome.clone()));
        let cache = self.clone();
        tokio::spawn(async move {
            let outcome = request.await.map(|response| token_of(&response, key));
            cache.finish(key, &outcome);
            sender.send_replace(Some(outcome));
        });
        Entry::Requested(outcome)
    }

    fn finish(&self, key: TokenKey, outcome: &Outcome) {
        let mut entries = self.entries();
        match outcome {
            Ok(token) => entries.insert(key, Entry::Issued(token.clone())),
            Err(_) => entries.remove(&key),
        };
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<TokenKey, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes entries from a full cache: all tokens that are no longer fresh, or else the token that ends first.
fn make_room(entries: &mut HashMap<TokenKey, Entry>) {
    if entries.len() < TOKENS_MAX {
        return;
    }
    entries.retain(|_, entry| match entry {
        Entry::Issued(token) => token.is_fresh(),
        Entry::Requested(outcome) => outcome.has_changed().is_ok(),
    });
    if entries.len() < TOKENS_MAX {
        return;
    }
    let issued = entries.iter().filter_map(|(key, entry)| match entry {
        Entry::Issued(token) => Some((token.fresh_until(), *key)),
        Entry::Requested(_) => None,
    });
    if let Some((_, key)) = issued.min_by_key(|(fresh_until, _)| *fresh_until) {
        entries.remove(&key);
    }
}

fn token_of(response: &TokenResponse, key: TokenKey) -> AccessToken {
    let header = format!("Bearer {}", response.access_token).into();
    AccessToken::new(IssuedToken { header, key, fresh_until: Instant::now() + lifetime(response) })
}

/// Returns the time for which the cache returns a token. The token must still be valid when it reaches the
/// server.
fn lifetime(response: &TokenResponse) -> Duration {
    // A lifetime of zero counts as unknown.
    match response.expires_in().filter(|seconds| *seconds > 0) {
        Some(seconds) => {
            let lifetime = Duration::from_secs(seconds).min(LIFETIME_MAX);
            lifetime.saturating_sub((lifetime / 10).min(MARGIN_MAX))
        }
        None => UNKNOWN_LIFETIME,
    }
}

impl fmt::Debug for TokenCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenCache").finish_non_exhaustive()
    }
}

/// Maximum number of tokens in a cache.
const TOKENS_MAX: usize = 10_000;

/// Maximum remaining lifetime of a token that the cache no longer returns.
const MARGIN_MAX: Duration = Duration::from_secs(30);

/// Time for which the cache returns a token whose lifetime is unknown.
const UNKNOWN_LIFETIME: Duration = Duration::from_mins(1);

/// Maximum time for which the cache returns a token, so that a wrong value of the issuer does no harm.
const LIFETIME_MAX: Duration = Duration::from_hours(24);

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use serde_json::json;
    use tokio::time::{advance, sleep};

    use super::*;

    fn response(expires_in: u64) -> TokenResponse {
        let response = json!({"access_token": "a", "token_type": "Bearer", "expires_in": expires_in});
        serde_json::from_value(response).unwrap()
    }

    /// Requests the token `subject`, and counts the request in `requests`.
    async fn get(
        cache: &Arc<TokenCache>,
        requests: &Arc<AtomicUsize>,
        subject: &str,
        outcome: Result<u64, OAuthError>,
    ) -> Outcome {
        let requests = requests.clone();
        let request = async move {
            requests.fetch_add(1, Ordering::Relaxed);
            sleep(Duration::from_secs(1)).await;
            outcome.map(response)
        };
        cache.get(TokenKey::of([subject]), request).await
    }

    #[tokio::test(start_paused = true)]
    async fn token_is_requested_again_shortly_before_it_expires() {
        for (expires_in, lifetime) in [(3600, 3570), (100, 90), (0, 60), (u64::MAX, 86_400 - 30)] {
            let (cache, requests) = (Arc::<TokenCache>::default(), Arc::<AtomicUsize>::default());
            get(&cache, &requests, "a", Ok(expires_in)).await.unwrap();
            advance(Duration::from_secs(lifetime - 1)).await;
            get(&cache, &requests, "a", Ok(expires_in)).await.unwrap();
            assert_eq!(requests.load(Ordering::Relaxed), 1, "{expires_in}");
            advance(Duration::from_secs(1)).await;
            get(&cache, &requests, "a", Ok(expires_in)).await.unwrap();
            assert_eq!(requests.load(Ordering::Relaxed), 2, "{expires_in}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn concurrent_calls_share_one_request_and_its_error() {
        let (cache, requests) = (Arc::<TokenCache>::default(), Arc::<AtomicUsize>::default());
        for outcome in [Err(OAuthError::TokenInvalid), Ok(3600)] {
            let before = requests.load(Ordering::Relaxed);
            let (one, other) = tokio::join!(
                get(&cache, &requests, "a", outcome.clone()),
                get(&cache, &requests, "a", outcome.clone())
            );
            assert_eq!((one.is_ok(), other.is_ok()), (outcome.is_ok(), outcome.is_ok()));
            assert_eq!(requests.load(Ordering::Relaxed), before + 1);
        }
        get(&cache, &requests, "b", Ok(3600)).await.unwrap();
        assert_eq!(requests.load(Ordering::Relaxed), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn request_continues_after_its_caller_stopped_waiting() {
        let (cache, requests) = (Arc::<TokenCache>::default(), Arc::<AtomicUsize>::default());
        let waiting = get(&cache, &requests, "a", Ok(3600));
        tokio::time::timeout(Duration::from_millis(1), waiting).await.unwrap_err();
        get(&cache, &requests, "a", Ok(3600)).await.unwrap();
        assert_eq!(requests.load(Ordering::Relaxed), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn refused_token_is_removed_but_not_its_successor() {
        let (cache, requests) = (Arc::<TokenCache>::default(), Arc::<AtomicUsize>::default());
        let refused = get(&cache, &requests, "a", Ok(3600)).await.unwrap();
        cache.forget(&refused);
        let next = get(&cache, &requests, "a", Ok(3600)).await.unwrap();
        // A slower call reports the same refused token.
        cache.forget(&refused);
        assert!(get(&cache, &requests, "a", Ok(3600)).await.unwrap().is_same(&next));
    }

    #[tokio::test(start_paused = true)]
    async fn full_cache_drops_the_token_that_ends_first() {
        let (cache, requests) = (Arc::<TokenCache>::default(), Arc::<AtomicUsize>::default());
        get(&cache, &requests, "first", Ok(1000)).await.unwrap();
        let waiting: Vec<_> = (0..TOKENS_MAX)
            .map(|number| {
                let (cache, requests) = (cache.clone(), requests.clone());
                tokio::spawn(
                    async move { get(&cache, &requests, &number.to_string(), Ok(3600)).await.is_ok() },
                )
            })
            .collect();
        for waiting in waiting {
            assert!(waiting.await.unwrap());
        }
        assert_eq!(cache.entries().len(), TOKENS_MAX);
        assert!(!cache.entries().contains_key(&TokenKey::of(["first"])));
    }
}
