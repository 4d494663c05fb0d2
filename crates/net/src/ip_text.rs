//! Converts IP addresses to text. The conversion is fast, because some code converts an address for every
//! request.

use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr};

/// The text of an IP address, in the same form as in the standard library. IPv4 addresses do not use the
/// formatter of the standard library, because that formatter needs about a thousand instructions.
#[derive(Clone, Copy, Debug)]
pub struct IpText {
    bytes: [u8; LENGTH_MAX],
    length: usize,
}

impl IpText {
    /// Returns the text of the address.
    pub fn as_str(&self) -> &str {
        str::from_utf8(self.as_bytes()).unwrap_or_default()
    }

    /// Returns the text of the address as ASCII bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl From<Ipv4Addr> for IpText {
    fn from(address: Ipv4Addr) -> Self {
        let mut text = Self { bytes: [0; LENGTH_MAX], length: 0 };
        for number in address.octets() {
            let (digits, length) = DECIMALS[usize::from(number)];
            // Copies four bytes at once. The next number overwrites the surplus bytes.
            text.bytes[text.length..][..4].copy_from_slice(&digits);
            text.length += usize::from(length);
        }
        // Removes the dot after the last number.
        text.length -= 1;
        text
    }
}

/// The text of each number from 0 to 255, with a dot at the end, and the length of this text.
static DECIMALS: [([u8; 4], u8); 256] = {
    let mut decimals = [([0; 4], 0); 256];
    let mut number = 0_u8;
    loop {
        let digits = [b'0' + number / 100, b'0' + number / 10 % 10, b'0' + number % 10];
        decimals[number as usize] = match number {
            0..10 => ([digits[2], b'.', 0, 0], 2),
            10..100 => ([digits[1], digits[2], b'.', 0], 3),
            _ => ([digits[0], digits[1], digits[2], b'.'], 4),
        };
        if number == u8::MAX {
            break decimals;
        }
        number += 1;
    }
};

impl From<IpAddr> for IpText {
    fn from(address: IpAddr) -> Self {
        let address = match address {
            IpAddr::V4(address) => return address.into(),
            IpAddr::V6(address) => address,
        };
        let mut bytes = [0; LENGTH_MAX];
        let mut left = &mut bytes[..];
        // Writing cannot fail, because the buffer has the maximum length of an address.
        let _ = write!(left, "{address}");
        let length = LENGTH_MAX - left.len();
        Self { bytes, length }
    }
}

/// Maximum length of the text: eight groups of four digits, and seven colons.
const LENGTH_MAX: usize = 39;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ip_text_matches_the_standard_library() {
        for number in 0..=255 {
            let address = Ipv4Addr::new(number, 255 - number, number / 2, 0);
            assert_eq!(IpText::from(address).as_str(), address.to_string());
        }
        for text in ["::", "::1", "2001:db8::a", "::ffff:255.255.255.255", &["ffff"; 8].join(":")] {
            let address: IpAddr = text.parse().unwrap();
            assert_eq!(IpText::from(address).as_str(), text);
        }
    }
}
