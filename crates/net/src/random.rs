//! Random bytes from the operating system, for keys, ids and other secrets.
//!
//! Code for jitter and sampling uses the crate `fastrand` instead, because `fastrand` is faster. The
//! numbers from `fastrand` are predictable.

/// Returns `N` unpredictable random bytes.
///
/// # Panics
/// Panics if the operating system provides no random bytes, because a predictable key would be worse than a
/// panic.
pub fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the operating system must provide random bytes");
    bytes
}

/// Returns an unpredictable id: 128 random bits as 32 lowercase hexadecimal digits.
///
/// # Panics
/// Panics in the same case as [`random_bytes`].
pub fn unguessable_id() -> Box<str> {
    format!("{:032x}", u128::from_ne_bytes(random_bytes())).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_bytes_differ_from_call_to_call() {
        assert_ne!(random_bytes::<16>(), random_bytes::<16>());
        assert_eq!(random_bytes::<0>(), []);
    }

    #[test]
    fn ids_have_32_hexadecimal_digits() {
        let [one, other] = [unguessable_id(), unguessable_id()];
        assert_ne!(one, other);
        for id in [one, other] {
            let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
            assert!(id.len() == 32 && id.bytes().all(is_digit), "{id}");
        }
    }
}
