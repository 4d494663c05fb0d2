//! Password hashes in the formats of the programs `htpasswd` and `argon2`.

use std::fmt;
use std::str::FromStr;

use argon2::{Argon2, PasswordVerifier as _};

use super::apr1;

/// The hash of a password: bcrypt (`$2y$…`), Argon2 (`$argon2id$…`), or the weak MD5 hash of Apache (`$apr1$…`).
#[derive(Clone, PartialEq, Eq)]
pub struct PasswordHash(Box<str>);

/// Reason why a text is not a valid password hash. Errors do not contain the text, because it may be a
/// plain password.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InvalidPasswordHash {
    /// A check of this hash would take too much time or memory.
    Cost,
    /// The text starts like a password hash, but it is incomplete or invalid.
    Damaged,
    /// The algorithm of the hash is unknown.
    Kind,
}

impl PasswordHash {
    /// Returns `true` if an attacker with the hash can try passwords fast. Such a hash has the format `$apr1$…`.
    pub fn is_weak(&self) -> bool {
        self.0.starts_with(apr1::PREFIX)
    }

    /// Returns `true` if this is the hash of `password`. The computation is slow on purpose.
    pub(super) fn is_of(&self, password: &str) -> bool {
        if self.is_weak() {
            return apr1::is_of(&self.0, password);
        }
        if self.0.starts_with("$argon2") {
            let hash = argon2::PasswordHash::new(&self.0);
            return hash
                .is_ok_and(|hash| Argon2::default().verify_password(password.as_bytes(), &hash).is_ok());
        }
        bcrypt::non_truncating_verify(password, &self.0).unwrap_or(false)
    }
}

impl FromStr for PasswordHash {
    type Err = InvalidPasswordHash;

    fn from_str(text: &str) -> Result<Self, InvalidPasswordHash> {
        if text.starts_with("$argon2") {
            check_argon2(text)?;
        } else if ["$2a$", "$2b$", "$2x$", "$2y$"].iter().any(|kind| text.starts_with(kind)) {
            check_bcrypt(text)?;
        } else if text.starts_with(apr1::PREFIX) {
            apr1::parts(text).ok_or(InvalidPasswordHash::Damaged)?;
        } else {
            return Err(InvalidPasswordHash::Kind);
        }
        Ok(Self(text.into()))
    }
}

fn check_argon2(text: &str) -> Result<(), InvalidPasswordHash> {
    let hash = argon2::PasswordHash::new(text).map_err(|_| InvalidPasswordHash::Damaged)?;
    let params = argon2::Params::try_from(&hash).map_err(|_| InvalidPasswordHash::Damaged)?;
    if hash.hash.is_none() || hash.salt.is_none() {
        return Err(InvalidPasswordHash::Damaged);
    }
    let work = u64::from(params.m_cost()) * u64::from(params.t_cost());
    if params.m_cost() > ARGON2_KIB_MAX || work > ARGON2_WORK_MAX {
        return Err(InvalidPasswordHash::Cost);
    }
    Ok(())
}

/// Checks the format of a bcrypt hash: `$2y$`, two digits for the cost, `$`, 22 characters for the salt,
/// and 31 characters for the hash value.
fn check_bcrypt(text: &str) -> Result<(), InvalidPasswordHash> {
    let parts: bcrypt::HashParts = text.parse().map_err(|_| InvalidPasswordHash::Damaged)?;
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'/');
    if text.len() != 60 || !text.bytes().skip(7).all(is_digit) || parts.get_cost() < 4 {
        return Err(InvalidPasswordHash::Damaged);
    }
    if parts.get_cost() > BCRYPT_COST_MAX { Err(InvalidPasswordHash::Cost) } else { Ok(()) }
}

impl fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PasswordHash")
    }
}

impl fmt::Display for InvalidPasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cost => "the cost of this hash is too high: a check would take too long",
            Self::Damaged => "the hash is incomplete or malformed",
            Self::Kind => "write a password hash: bcrypt (`$2y$…`), Argon2 (`$argon2id$…`) or `$apr1$…`",
        })
    }
}

impl std::error::Error for InvalidPasswordHash {}

/// Maximum memory for checking an Argon2 hash, in KiB. The maximum is 1 GiB.
const ARGON2_KIB_MAX: u32 = 1 << 20;
/// Maximum product of the memory in KiB and the number of passes of an Argon2 hash. A check at this maximum
/// takes some seconds.
const ARGON2_WORK_MAX: u64 = 1 << 22;
/// Maximum cost of a bcrypt hash. A check at this maximum takes some seconds.
const BCRYPT_COST_MAX: u32 = 16;
