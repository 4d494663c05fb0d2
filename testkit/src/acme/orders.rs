//! Accounts, orders, and numbers that are fresh.

use std::collections::{HashMap, HashSet};

/// State of the server.
#[derive(Default)]
pub(crate) struct Orders {
    nonces: HashSet<String>,
    /// Thumbprints of keys, by the URLs of their accounts.
    accounts: HashMap<String, String>,
    pub(super) placed: Vec<Order>,
    /// Key ids of external accounts that were bound.
    pub(super) external: Vec<String>,
    counter: usize,
}

/// One order.
pub(super) struct Order {
    pub(super) authorizations: Vec<Authorization>,
    pub(super) replaces: Option<String>,
    /// Issued certificate, in PEM.
    pub(super) chain: Option<String>,
}

/// Authorization of a name.
pub(super) struct Authorization {
    pub(super) name: String,
    pub(super) token: String,
    pub(super) status: &'static str,
    /// Validation error.
    pub(super) error: Option<String>,
}

impl Orders {
    /// Returns a unique text.
    pub(super) fn fresh(&mut self) -> String {
        self.counter += 1;
        format!("fresh-{}", self.counter)
    }

    pub(super) fn nonce(&mut self) -> String {
        let nonce = self.fresh();
        self.nonces.insert(nonce.clone());
        nonce
    }

    /// Uses up a nonce. Returns `true` if it was unused.
    pub(super) fn spend(&mut self, nonce: &str) -> bool {
        self.nonces.remove(nonce)
    }

    /// The URL of the account with this key, below `origin`, and whether it was made.
    pub(super) fn account(&mut self, origin: &str, thumbprint: &str) -> String {
        let known = self.accounts.iter().find(|(_, key)| *key == thumbprint).map(|(url, _)| url.clone());
        known.unwrap_or_else(|| {
            let url = format!("{origin}/account/{}", self.fresh());
            self.accounts.insert(url.clone(), thumbprint.to_owned());
            url
        })
    }

    pub(super) fn thumbprint(&self, account: &str) -> Option<String> {
        self.accounts.get(account).cloned()
    }

    /// The number of a new order.
    pub(super) fn order(&mut self, names: Vec<String>, replaces: Option<String>) -> usize {
        let authorizations = names.into_iter().map(|name| {
            let token = self.fresh();
            Authorization { name, token, status: "pending", error: None }
        });
        let authorizations = authorizations.collect();
        self.placed.push(Order { authorizations, replaces, chain: None });
        self.placed.len() - 1
    }

    pub(super) fn issued(&self) -> usize {
        self.placed.iter().filter(|order| order.chain.is_some()).count()
    }

    pub(super) fn accounts(&self) -> usize {
        self.accounts.len()
    }

    pub(super) fn replacements(&self) -> usize {
        self.placed.iter().filter(|order| order.replaces.is_some()).count()
    }
}

impl Order {
    pub(super) fn status(&self) -> &'static str {
        let all = |status| self.authorizations.iter().all(|authorization| authorization.status == status);
        match () {
            () if self.chain.is_some() => "valid",
            () if all("valid") => "ready",
            () if self.authorizations.iter().any(|authorization| authorization.status == "invalid") => {
                "invalid"
            }
            () => "pending",
        }
    }
}
