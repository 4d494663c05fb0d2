//! Sizes in arguments, such as `512KiB`.

/// Parses a message size between 1 KiB and 1 GiB. The minimum is 1 KiB, because the first messages of a
/// client can have this size.
pub(crate) fn parse_message_size(text: &str) -> Result<usize, String> {
    let bytes = parse_size(text).filter(|bytes| (1 << 10..=1 << 30).contains(bytes));
    bytes.ok_or_else(|| {
        "the size must be between 1KiB and 1GiB, such as `65536`, `512KiB` or `16MiB`".to_owned()
    })
}

/// Parses a size of at least 1 MiB.
pub(crate) fn parse_in_flight_size(text: &str) -> Result<usize, String> {
    let bytes = parse_size(text).filter(|bytes| *bytes >= 1 << 20);
    bytes.ok_or_else(|| "the size must be at least 1MiB, such as `128MiB` or `1GiB`".to_owned())
}

/// Parses a number of bytes with an optional unit.
fn parse_size(text: &str) -> Option<usize> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let factor = match unit {
        "" => Some(1),
        "KiB" => Some(1 << 10),
        "MiB" => Some(1 << 20),
        "GiB" => Some(1 << 30),
        _ => None,
    };
    number.parse().ok().zip(factor).and_then(|(number, factor): (usize, usize)| number.checked_mul(factor))
}
