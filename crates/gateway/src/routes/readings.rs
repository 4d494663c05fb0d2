//! Paths that servers interpret in different ways, because they contain encoded slashes, parameters after a
//! semicolon, or spaces at the start or end of a segment.

use super::UnclearPath;

/// Treatment of requests with ambiguous paths. Some servers interpret such a path differently than the
/// gateway.
///
/// Some servers also remove the spaces (`%20`) at the start and end of a segment. For such spaces, the
/// gateway always uses [`AmbiguousPath::Guard`].
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PathReadings {
    /// Treatment of `%2F` and `%5C`, which some servers read as slashes.
    pub encoded_slashes: AmbiguousPath,
    /// Treatment of a semicolon and the text after it in a path segment, which some servers ignore.
    pub parameters: AmbiguousPath,
}

/// Treatment of a request with an ambiguous path.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum AmbiguousPath {
    /// Refuses the request if another interpretation of its path is invalid, or matches a route with a
    /// [policy](crate::Routes::guarding) that the selected route does not have.
    #[default]
    Guard,
    /// Forwards the request. Choose this only if all upstream servers interpret such paths like the gateway.
    Keep,
    /// Refuses every request with an ambiguous path.
    Reject,
}

impl PathReadings {
    /// Returns the reason if the config rejects `path` on every route.
    pub(super) fn rejected(self, path: &[u8]) -> Option<UnclearPath> {
        let rejects = |reading| reading == AmbiguousPath::Reject;
        if rejects(self.encoded_slashes) && has_encoded_slash(path) {
            return Some(UnclearPath::EncodedSlash);
        }
        (rejects(self.parameters) && path.contains(&b';')).then_some(UnclearPath::Parameters)
    }

    /// Returns the other paths that servers may read in `path`. Leaves out kinds of interpretations that the
    /// config always accepts or always rejects.
    pub(super) fn others(self, path: &[u8]) -> Vec<Vec<u8>> {
        let slashes: &[&[&[u8]]] = match self.encoded_slashes {
            AmbiguousPath::Guard => &[&[b"%2F"], &[b"%5C"], &[b"%2F", b"%5C"]],
            AmbiguousPath::Keep | AmbiguousPath::Reject => &[],
        };
        let decoded = slashes.iter().map(|slashes| with_slashes(path, slashes));
        let mut readings: Vec<Vec<u8>> = decoded.collect();
        if self.parameters == AmbiguousPath::Guard && path.contains(&b';') {
            let bare = without_parameters(path);
            let of_decoded: Vec<_> = readings.iter().map(|path| without_parameters(path)).collect();
            readings.extend(slashes.iter().map(|slashes| with_slashes(&bare, slashes)));
            readings.extend(of_decoded);
            readings.push(bare);
        }
        if has_encoded_space(path) {
            let trimmed: Vec<_> = readings.iter().map(|path| without_outer_spaces(path)).collect();
            readings.extend(trimmed);
            readings.push(without_outer_spaces(path));
        }
        readings.retain(|reading| reading != path);
        readings
    }
}

fn has_encoded_slash(path: &[u8]) -> bool {
    path.windows(3).any(|part| part == b"%2F" || part == b"%5C")
}

fn has_encoded_space(path: &[u8]) -> bool {
    path.windows(3).any(|part| part == b"%20")
}

/// Returns `path` with a slash in place of each text in `slashes`. In a normalized path, the hexadecimal
/// digits A to F are capital letters.
fn with_slashes(path: &[u8], slashes: &[&[u8]]) -> Vec<u8> {
    let (mut read, mut rest) = (Vec::with_capacity(path.len()), path);
    while let Some((first, behind)) = rest.split_first() {
        if slashes.iter().any(|slash| rest.starts_with(slash)) {
            read.push(b'/');
            rest = &rest[3..];
        } else {
            read.push(*first);
            rest = behind;
        }
    }
    read
}

/// Returns `path` without the semicolon and the text after it in each segment.
fn without_parameters(path: &[u8]) -> Vec<u8> {
    let segments = path.split(|byte| *byte == b'/');
    let bare = segments.map(|segment| segment.split(|byte| *byte == b';').next().unwrap_or_default());
    bare.collect::<Vec<_>>().join(&b'/')
}

/// Returns `path` without the spaces at the start and end of each segment.
fn without_outer_spaces(path: &[u8]) -> Vec<u8> {
    let trimmed = path.split(|byte| *byte == b'/').map(|mut segment| {
        while let Some(rest) = segment.strip_prefix(b"%20") {
            segment = rest;
        }
        while let Some(rest) = segment.strip_suffix(b"%20") {
            segment = rest;
        }
        segment
    });
    trimmed.collect::<Vec<_>>().join(&b'/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_combine_decoded_slashes_and_removed_parameters() {
        for (path, others) in [
            ("/a%20b", &[][..]),
            ("/a%2Fb", &["/a/b"]),
            ("/a%2Fb%5Cc", &["/a/b%5Cc", "/a%2Fb/c", "/a/b/c"]),
            ("/a;x/b;", &["/a/b"]),
            ("/a;x%2Fb", &["/a;x/b", "/a/b", "/a"]),
            ("/a%252Fb", &[]),
            ("/%20a%20b%20%20/c%20", &["/a%20b/c"]),
            ("/a%20;x", &["/a", "/a%20"]),
            ("/a%20%2Fb", &["/a%20/b", "/a/b"]),
            ("/%20", &["/"]),
            ("/a%2520", &[]),
        ] {
            let readings = PathReadings::default().others(path.as_bytes());
            let mut readings: Vec<_> =
                readings.into_iter().map(|path| String::from_utf8(path).unwrap()).collect();
            readings.sort();
            readings.dedup();
            let mut expected = others.to_vec();
            expected.sort_unstable();
            assert_eq!(readings, expected, "{path}");
        }
    }

    #[test]
    fn keep_setting_yields_no_other_readings() {
        let (guard, keep) = (AmbiguousPath::Guard, AmbiguousPath::Keep);
        let others = |encoded_slashes, parameters| {
            PathReadings { encoded_slashes, parameters }.others(b"/a;x%2Fb").len()
        };
        assert_eq!(others(keep, keep), 0);
        assert!(others(guard, keep) > 0 && others(keep, guard) > 0);
    }
}
