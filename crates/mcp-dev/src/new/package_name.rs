//! The name of a Cargo package.

use std::fmt;
use std::str::FromStr;

/// A name that Cargo accepts for a package with a program. It is also a valid name of a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PackageName(String);

impl PackageName {
    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A name that Cargo does not accept for a package with a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InvalidPackageName {
    /// The name does not start with a lowercase letter, or contains other characters than lowercase letters,
    /// digits, `-` and `_`.
    Characters,
    /// The name has more than 64 characters.
    TooLong,
    /// The name is a keyword of Rust, or the name of a directory that Cargo uses.
    Reserved,
}

impl FromStr for PackageName {
    type Err = InvalidPackageName;

    fn from_str(name: &str) -> Result<Self, InvalidPackageName> {
        let is_allowed = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_');
        if !name.starts_with(|first: char| first.is_ascii_lowercase()) || !name.bytes().all(is_allowed) {
            return Err(InvalidPackageName::Characters);
        }
        if name.len() > NAME_BYTES_MAX {
            return Err(InvalidPackageName::TooLong);
        }
        if RESERVED.split_whitespace().any(|reserved| reserved == name) {
            return Err(InvalidPackageName::Reserved);
        }
        Ok(Self(name.to_owned()))
    }
}

impl fmt::Display for InvalidPackageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Characters => {
                "a package name starts with a lowercase letter and contains only lowercase letters, digits, `-` \
                 and `_`"
            }
            Self::TooLong => "a package name has at most 64 characters",
            Self::Reserved => "Rust or Cargo reserves this name",
        })
    }
}

impl std::error::Error for InvalidPackageName {}

/// Maximum length of a name. crates.io has the same limit.
const NAME_BYTES_MAX: usize = 64;

/// Keywords of Rust, the names of its own crates, and names of directories in `target`.
const RESERVED: &str = "abstract alloc as async await become box break build const continue core crate deps do dyn \
    else enum examples extern false final fn for gen if impl in incremental let loop macro match mod move mut \
    override priv proc_macro proc-macro pub ref return self static std struct super test trait true try type \
    typeof unsafe unsized use virtual where while yield";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_names_are_accepted() {
        for name in ["a", "my-server", "notes_2", &"a".repeat(64)] {
            assert_eq!(name.parse::<PackageName>().unwrap().as_str(), name);
        }
    }

    #[test]
    fn invalid_names_are_refused_with_a_reason() {
        let too_long = "a".repeat(65);
        for (name, reason) in [
            ("", InvalidPackageName::Characters),
            ("2a", InvalidPackageName::Characters),
            ("-a", InvalidPackageName::Characters),
            ("My", InvalidPackageName::Characters),
            ("a/b", InvalidPackageName::Characters),
            ("..", InvalidPackageName::Characters),
            ("a\"\n", InvalidPackageName::Characters),
            ("ä", InvalidPackageName::Characters),
            (&*too_long, InvalidPackageName::TooLong),
            ("fn", InvalidPackageName::Reserved),
            ("test", InvalidPackageName::Reserved),
        ] {
            assert_eq!(name.parse::<PackageName>(), Err(reason), "{name:?}");
        }
    }
}
