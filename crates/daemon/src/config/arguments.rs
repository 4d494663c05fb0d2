//! Parses arguments of commands: addresses of listeners, and headers.

use thruway_message::FieldName;
use thruway_server::{InvalidListenAddr, ListenAddr};

use super::failure::Failure;

/// Parses the addresses of listeners: `IP:PORT` or `unix:PATH`.
///
/// # Errors
/// Returns an error if an address is invalid or listed twice.
pub fn parse_listeners(addresses: &[String]) -> Result<Vec<ListenAddr>, Failure> {
    let mut listeners = Vec::<ListenAddr>::new();
    for text in addresses {
        let address: ListenAddr = text
            .parse()
            .map_err(|error: InvalidListenAddr| Failure::new(error).with_hint(InvalidListenAddr::HINT))?;
        if is_listed(&listeners, &address) {
            return Err(
                Failure::new(format!("another listener has the address `{address}`")).with_hint(LISTED_HINT)
            );
        }
        listeners.push(address);
    }
    Ok(listeners)
}

/// Returns `true` if one of `listeners` has this `address`. Addresses with port 0 never conflict, because the
/// system chooses another port for each listener.
pub(super) fn is_listed<'a>(
    listeners: impl IntoIterator<Item = &'a ListenAddr>,
    address: &ListenAddr,
) -> bool {
    let is_port_open = matches!(address, ListenAddr::Tcp(address) if address.port() == 0);
    !is_port_open && listeners.into_iter().any(|listener| listener == address)
}

/// Parses header lines of the form `Name: value`, and returns their names and values.
///
/// # Errors
/// Returns an error if a line is not a header. The error message contains the number of the line, but not its
/// text, because the text may be a secret.
pub fn parse_headers(lines: &[String]) -> Result<Vec<(String, String)>, Failure> {
    let parsed = lines.iter().zip(1..).map(|(line, place)| {
        parse(line).ok_or_else(|| {
            Failure::new(format!("the value of `-H` number {place} is not a header"))
                .with_hint("write a header as `Name: value`")
        })
    });
    parsed.collect()
}

fn parse(line: &str) -> Option<(String, String)> {
    let (name, value) = line.split_once(':')?;
    FieldName::new(name.trim().as_bytes()).ok()?;
    Some((name.trim().to_owned(), value.trim().to_owned()))
}

pub(super) const LISTED_HINT: &str = "remove the second listener, or give it another address";

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(lines: &[&str]) -> Result<Vec<(String, String)>, String> {
        let lines: Vec<_> = lines.iter().map(|line| (*line).to_owned()).collect();
        parse_headers(&lines).map_err(|failure| format!("{failure}"))
    }

    #[test]
    fn header_name_ends_at_the_first_colon() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(
            parsed(&["Authorization: Bearer a:b", "X-A :", "b:c "]),
            Ok(vec![pair("Authorization", "Bearer a:b"), pair("X-A", ""), pair("b", "c")])
        );
    }

    /// The error message once contained the whole line, including the secret.
    #[test]
    fn error_does_not_show_an_invalid_header_line() {
        for line in ["Authorization Bearer secret", "Authorization Bearer secret:more", ": secret", ""] {
            let error = parsed(&["A: b", line]).unwrap_err();
            assert!(error.contains("`-H` number 2") && !error.contains("secret"), "{error}");
        }
    }
}
