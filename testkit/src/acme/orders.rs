//! Nonces, accounts and orders.

use std::collections::{HashMap, HashSet};

/// All nonces, accounts and orders of the server.
#[derive(Default)]
pub(crate) struct Orders {
    /// Issued nonces that no request has used.
    nonces: HashSet<String>,
    /// Key thumbprints by account URL.
    accounts: HashMap<String, String>,
    /// Orders. The index of an order is its number.
    pub(super) all: Vec<Order>,
    /// Key ids of bound external accounts.
    pub(super) external_accounts: Vec<String>,
    counter: usize,
}

/// An order.
pub(super) struct Order {
    pub(super) authorizations: Vec<Authorization>,
    /// Id of the certificate that the order replaces (RFC 9773).
    pub(super) replaces: Option<String>,
    /// Issued certificate chain, in PEM.
    pub(super) chain: Option<String>,
}

/// Authorization of a name.
pub(super) struct Authorization {
    pub(super) name: String,
    pub(super) token: String,
    pub(super) status: &'static str,
    /// Error of the validation, if it failed.
    pub(super) error: Option<String>,
}

impl Orders {
    /// Returns a unique string.
    pub(super) fn unique(&mut self) -> String {
        self.counter += 1;
        format!("fresh-{}", self.counter)
    }

    /// Creates a nonce.
    pub(super) fn new_nonce(&mut self) -> String {
        let nonce = self.unique();
        self.nonces.insert(nonce.clone());
        nonce
    }

    /// Marks a nonce as used. Returns `false` if the nonce is unknown or was used before.
    pub(super) fn use_nonce(&mut self, nonce: &str) -> bool {
        self.nonces.remove(nonce)
    }

    /// Returns the URL of the account with this key. Creates the account if necessary.
    pub(super) fn account_url(&mut self, origin: &str, thumbprint: &str) -> String {
        let known = self.accounts.iter().find(|(_, key)| *key == thumbprint).map(|(url, _)| url.clone());
        known.unwrap_or_else(|| {
            let url = format!("{origin}/account/{}", self.unique());
            self.accounts.insert(url.clone(), thumbprint.to_owned());
            url
        })
    }

    /// Returns the key thumbprint of an account.
    pub(super) fn thumbprint(&self, account: &str) -> Option<String> {
        self.accounts.get(account).cloned()
    }

    /// Creates an order. Returns its number.
    pub(super) fn new_order(&mut self, names: Vec<String>, replaces: Option<String>) -> usize {
        let authorizations = names.into_iter().map(|name| {
            let token = self.unique();
            Authorization { name, token, status: "pending", error: None }
        });
        let authorizations = authorizations.collect();
        self.all.push(Order { authorizations, replaces, chain: None });
        self.all.len() - 1
    }

    pub(super) fn issued_count(&self) -> usize {
        self.all.iter().filter(|order| order.chain.is_some()).count()
    }

    pub(super) fn order_count(&self) -> usize {
        self.all.len()
    }

    pub(super) fn account_count(&self) -> usize {
        self.accounts.len()
    }

    pub(super) fn replacement_count(&self) -> usize {
        self.all.iter().filter(|order| order.replaces.is_some()).count()
    }
}

impl Order {
    /// Returns the status of the order (RFC 8555 §7.1.6).
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
