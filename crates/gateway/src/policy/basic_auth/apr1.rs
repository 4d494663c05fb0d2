//! The password hash of `htpasswd -m` and `openssl passwd -apr1` (`$apr1$…`): 1000 rounds of MD5.
//!
//! Apache defines this format only by its code (`apr_md5.c` of APR-util). An attacker can test many millions
//! of passwords per second. Thruway accepts this hash only so that existing files of users work.

use md5::{Digest, Md5};
use subtle::ConstantTimeEq as _;

/// The prefix of the hashes.
pub(super) const PREFIX: &str = "$apr1$";

/// Splits `hash` into the salt and the hash value. Returns `None` if `hash` has another format.
pub(super) fn parts(hash: &str) -> Option<(&str, &str)> {
    let (salt, value) = hash.strip_prefix(PREFIX)?.split_once('$')?;
    let is_digit = |byte: u8| DIGITS.contains(&byte);
    let is_valid = (1..=SALT_BYTES_MAX).contains(&salt.len())
        && value.len() == VALUE_BYTES
        && salt.bytes().chain(value.bytes()).all(is_digit)
        // The last two digits contain one byte.
        && matches!(value.as_bytes().last(), Some(b'.' | b'/' | b'0' | b'1'));
    is_valid.then_some((salt, value))
}

/// Returns `true` if `hash` is a hash of `password`.
pub(super) fn is_of(hash: &str, password: &str) -> bool {
    parts(hash).is_some_and(|(salt, value)| {
        encoded(&digest(password.as_bytes(), salt.as_bytes())).ct_eq(value.as_bytes()).into()
    })
}

/// Computes the 16 bytes of a hash.
fn digest(password: &[u8], salt: &[u8]) -> [u8; 16] {
    let both = Md5::new().chain_update(password).chain_update(salt).chain_update(password).finalize();
    let mut first = Md5::new().chain_update(password).chain_update(PREFIX).chain_update(salt);
    for part in password.chunks(both.len()) {
        first.update(&both[..part.len()]);
    }
    let mut length = password.len();
    while length != 0 {
        // The first byte of the password exists, because the password is not empty.
        first.update(if length & 1 == 1 { &[0] } else { &password[..1] });
        length >>= 1;
    }
    let mut digest = first.finalize();
    for round in 0..ROUNDS {
        let (one, other): (&[u8], &[u8]) =
            if round % 2 == 1 { (password, &digest) } else { (&digest, password) };
        let mut next = Md5::new().chain_update(one);
        if round % 3 != 0 {
            next.update(salt);
        }
        if round % 7 != 0 {
            next.update(password);
        }
        next.update(other);
        digest = next.finalize();
    }
    digest.into()
}

/// Returns the text of a hash value: groups of three bytes in the order of Apache, with six bits in each
/// digit.
fn encoded(digest: &[u8; 16]) -> [u8; VALUE_BYTES] {
    let mut text = [0; VALUE_BYTES];
    for (digits, group) in text.chunks_mut(4).zip(GROUPS) {
        let mut bits = group.iter().fold(0, |bits, &place| bits << 8 | usize::from(digest[place]));
        for digit in digits {
            *digit = DIGITS[bits & 0x3f];
            bits >>= 6;
        }
    }
    text
}

/// Places of the bytes in each group of digits.
const GROUPS: [&[usize]; 6] = [&[0, 6, 12], &[1, 7, 13], &[2, 8, 14], &[3, 9, 15], &[4, 10, 5], &[11]];

/// Digits for the values from 0 to 63.
const DIGITS: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

const ROUNDS: u32 = 1000;
const SALT_BYTES_MAX: usize = 8;
const VALUE_BYTES: usize = 22;
