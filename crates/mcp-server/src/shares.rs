//! Limits that all callers of a server share. A single caller cannot use up such a limit.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// A limit on a number of slots or bytes, and the amount that each caller uses.
#[derive(Debug)]
pub struct Shares {
    max: usize,
    held: Mutex<Held>,
    released: Notify,
}

#[derive(Default, Debug)]
struct Held {
    /// The total amount of all shares, including shares that no caller holds.
    taken: usize,
    /// The total amount of the shares that callers hold.
    total: usize,
    /// The amount that each caller holds. A caller without a share is not in the map.
    by_holder: HashMap<Holder, usize>,
}

/// An amount that was taken from a limit. Dropping the share gives the amount back.
#[derive(Debug)]
pub struct Share {
    shares: Arc<Shares>,
    /// The caller that holds the share. `None` if the share is reserved for the next caller.
    holder: Option<Holder>,
    amount: usize,
}

/// The reason why a caller cannot take more of a limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LimitReached {
    /// All callers together have reached the limit.
    Full,
    /// The caller has reached its share of the limit.
    HolderHasShare,
}

/// Checks that the caller `holder` may take `amount` more of the limit `max`. The caller already holds
/// `held`, and all callers together hold `total`.
///
/// A caller may hold at most half of the amount that other callers leave free. For example, a single caller
/// may hold half of the limit. Two callers that take as much as possible get a third each. So a part of the
/// limit usually stays free for the next caller. A caller that holds nothing yet is an exception: it may take
/// the whole free amount at once. Programs on this machine may always take the whole free amount.
///
/// # Errors
/// Returns an error if the caller must not take the amount.
pub fn check_share(
    holder: &Holder,
    held: usize,
    total: usize,
    amount: usize,
    max: usize,
) -> Result<(), LimitReached> {
    let left = total.checked_add(amount).and_then(|total| max.checked_sub(total));
    let holder_has_share = || held > 0 && held.saturating_add(amount) > left.unwrap_or(0);
    match left {
        _ if holder.has_share() && holder_has_share() => Err(LimitReached::HolderHasShare),
        None => Err(LimitReached::Full),
        Some(_) => Ok(()),
    }
}

impl Shares {
    /// Returns an unused limit of `max`.
    pub fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max, held: Mutex::default(), released: Notify::new() })
    }

    /// Takes `amount` of the limit for `holder`.
    ///
    /// # Errors
    /// Returns an error if the limit, or [the caller's share](check_share) of this limit, is reached.
    pub fn take(self: &Arc<Self>, holder: &Holder, amount: usize) -> Result<Share, LimitReached> {
        let mut held = self.held();
        check_share(holder, held.of(holder), held.total, amount, self.max)?;
        let taken = held.taken.checked_add(amount).filter(|taken| *taken <= self.max);
        held.taken = taken.ok_or(LimitReached::Full)?;
        held.add(holder, amount);
        Ok(Share { shares: self.clone(), holder: Some(holder.clone()), amount })
    }

    /// Returns the amount that `holder` uses of the limit.
    pub fn held_by(&self, holder: &Holder) -> usize {
        self.held().of(holder)
    }

    /// Waits until the next share is released.
    pub async fn released(&self) {
        self.released.notified().await;
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    fn of(&self, holder: &Holder) -> usize {
        self.by_holder.get(holder).copied().unwrap_or_default()
    }

    fn add(&mut self, holder: &Holder, amount: usize) {
        self.total += amount;
        match self.by_holder.get_mut(holder) {
            Some(held) => *held += amount,
            None => drop(self.by_holder.insert(holder.clone(), amount)),
        }
    }

    fn remove(&mut self, holder: &Holder, amount: usize) {
        self.total -= amount;
        if let Some(held) = self.by_holder.get_mut(holder) {
            *held -= amount;
            if *held == 0 {
                self.by_holder.remove(holder);
            }
        }
    }
}

impl Share {
    /// Returns the caller that holds the share. Returns `None` if the share is reserved for the next
    /// caller.
    pub const fn holder(&self) -> Option<&Holder> {
        self.holder.as_ref()
    }

    /// Reserves the share for the next caller. A reserved share still counts toward the limit, but belongs to
    /// no caller.
    pub fn keep(&mut self) {
        if let Some(holder) = self.holder.take() {
            self.shares.held().remove(&holder, self.amount);
        }
    }

    /// Gives a reserved share to `holder`. Has no effect if a caller already holds the share.
    ///
    /// # Errors
    /// Returns an error if the limit, or [the caller's share](check_share) of this limit, is reached.
    pub fn give_to(&mut self, holder: &Holder) -> Result<(), LimitReached> {
        if self.holder.is_none() {
            let mut held = self.shares.held();
            check_share(holder, held.of(holder), held.total, self.amount, self.shares.max)?;
            held.add(holder, self.amount);
            drop(held);
            self.holder = Some(holder.clone());
        }
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.keep();
        self.shares.held().taken -= self.amount;
        self.shares.released.notify_waiters();
    }
}

/// A caller, as the server counts it toward limits on sessions, requests and tasks. The server identifies a
/// caller by its token, its address or its network.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Holder {
    /// A caller with a verified token.
    Principal(String),
    /// An IPv4 address, or the first address of an IPv6 network of 64 bits. One client can use all
    /// addresses of such a network.
    Address(IpAddr),
    /// A process on this machine, or a client without a known address. Limits per caller do not apply to
    /// such a client.
    Unknown,
}

impl Holder {
    /// Returns the caller `principal`, or the client at `address` if there is no principal.
    pub fn new(principal: Option<String>, address: Option<IpAddr>) -> Self {
        match (principal, address.map(|address| address.to_canonical())) {
            (Some(principal), _) => Self::Principal(principal),
            (None, Some(IpAddr::V6(address))) => {
                let network = Ipv6Addr::from_bits(address.to_bits() & IPV6_NETWORK);
                Self::Address(network.into())
            }
            (None, Some(address)) => Self::Address(address),
            (None, None) => Self::Unknown,
        }
    }

    /// Returns `true` if the caller may use only a share of each limit (see
    /// [`check_share`](crate::shares::check_share)). Returns `false` for programs on this machine. The server
    /// cannot distinguish such programs, so a share would not protect one program from another.
    pub(crate) const fn has_share(&self) -> bool {
        match self {
            Self::Principal(_) => true,
            // `Holder::new` keeps only the first 64 bits of an IPv6 address, so the loopback address `::1`
            // becomes `::`.
            Self::Address(address) => !address.is_loopback() && !address.is_unspecified(),
            Self::Unknown => false,
        }
    }
}

/// Mask for the network part of an IPv6 address.
const IPV6_NETWORK: u128 = !0 << 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(name: &str) -> Holder {
        Holder::new(Some(name.to_owned()), None)
    }

    impl Shares {
        /// Returns the amount that callers hold, and the total amount taken.
        fn totals(&self) -> (usize, usize) {
            let held = self.held();
            (held.total, held.taken)
        }
    }

    /// Takes shares of size 1 until the caller is rejected.
    fn take_all(shares: &Arc<Shares>, holder: &Holder) -> (Vec<Share>, LimitReached) {
        let mut taken = Vec::new();
        loop {
            match shares.take(holder, 1) {
                Ok(share) => taken.push(share),
                Err(refusal) => return (taken, refusal),
            }
        }
    }

    #[test]
    fn caller_leaves_as_much_for_others_as_it_takes() {
        let shares = Shares::new(32);
        let (ada, bob) = (caller("ada"), caller("bob"));
        let (first, refusal) = take_all(&shares, &ada);
        assert_eq!((first.len(), refusal), (16, LimitReached::HolderHasShare));
        let (second, refusal) = take_all(&shares, &bob);
        assert_eq!((second.len(), refusal), (8, LimitReached::HolderHasShare));
        drop(first);
        let (rest, _) = take_all(&shares, &bob);
        assert_eq!(second.len() + rest.len(), 16);
        drop((second, rest));
        assert_eq!(shares.totals(), (0, 0));
        assert!(shares.held().by_holder.is_empty());
    }

    #[test]
    fn caller_without_shares_gets_the_remainder() {
        let shares = Shares::new(1);
        let only = shares.take(&caller("ada"), 1).unwrap();
        assert_eq!(shares.take(&caller("bob"), 1).unwrap_err(), LimitReached::Full);
        drop(only);
        shares.take(&caller("bob"), 1).unwrap();
        // With one slot for each caller, all callers get one.
        let shares = Shares::new(10);
        let all: Vec<_> = (0..10).map(|n| shares.take(&caller(&n.to_string()), 1).unwrap()).collect();
        assert_eq!((all.len(), shares.take(&caller("more"), 1).unwrap_err()), (10, LimitReached::Full));
    }

    #[test]
    fn local_callers_are_limited_only_by_the_total() {
        let local = ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"];
        let local = local.map(|address| Holder::new(None, Some(address.parse().unwrap())));
        for holder in local.into_iter().chain([Holder::Unknown]) {
            let (taken, refusal) = take_all(&Shares::new(32), &holder);
            assert_eq!((taken.len(), refusal), (32, LimitReached::Full), "{holder:?}");
        }
        let remote = Holder::new(None, Some([192, 0, 2, 1].into()));
        assert_eq!(take_all(&Shares::new(32), &remote).0.len(), 16);
    }

    #[test]
    fn reserved_share_counts_against_the_limit_but_no_caller() {
        let shares = Shares::new(3);
        let (ada, bob) = (caller("ada"), caller("bob"));
        let mut kept: Vec<_> = (0..3).map(|n| shares.take(&caller(&n.to_string()), 1).unwrap()).collect();
        kept.iter_mut().for_each(Share::keep);
        assert_eq!(shares.totals(), (0, 3));
        assert_eq!(shares.take(&ada, 1).unwrap_err(), LimitReached::Full);
        kept[0].give_to(&ada).unwrap();
        assert_eq!((kept[0].holder(), shares.held_by(&ada)), (Some(&ada), 1));
        // A caller with its maximum gets this error even if nothing is left, because releasing shares of
        // others would not help it.
        assert_eq!(kept[1].give_to(&ada), Err(LimitReached::HolderHasShare));
        assert_eq!(shares.take(&ada, 1).unwrap_err(), LimitReached::HolderHasShare);
        kept[1].give_to(&bob).unwrap();
        drop(kept);
        assert_eq!(shares.totals(), (0, 0));
    }

    #[test]
    fn huge_amounts_do_not_overflow() {
        let shares = Shares::new(usize::MAX);
        let _share = shares.take(&caller("ada"), usize::MAX - 1).unwrap();
        for amount in [2, usize::MAX] {
            assert_eq!(shares.take(&caller("ada"), amount).unwrap_err(), LimitReached::HolderHasShare);
            assert_eq!(shares.take(&caller("bob"), amount).unwrap_err(), LimitReached::Full);
        }
    }
}
