//! Looks up routes without parameters, first by the length of the path and then by its bytes. This is cheaper
//! than a hash table, because few paths have the same length.

/// Paths and the indices of their routes.
#[derive(Clone, Default)]
pub(super) struct FixedPaths {
    /// The paths of each length, sorted.
    by_length: Vec<Vec<(Box<[u8]>, usize)>>,
}

impl FixedPaths {
    /// Adds `path`, with the index of its route.
    pub(super) fn insert(&mut self, path: &[u8], route: usize) {
        if self.by_length.len() <= path.len() {
            self.by_length.resize_with(path.len() + 1, Vec::new);
        }
        let paths = &mut self.by_length[path.len()];
        let index = paths.partition_point(|(other, _)| **other < *path);
        paths.insert(index, (path.into(), route));
    }

    /// Returns the index of the route at `path`.
    #[inline]
    pub(super) fn find(&self, path: &[u8]) -> Option<usize> {
        let paths = self.by_length.get(path.len())?;
        if let [(only, route)] = &**paths {
            return is_equal(only, path).then_some(*route);
        }
        let index = paths.binary_search_by(|(other, _)| (**other).cmp(path)).ok()?;
        Some(paths[index].1)
    }
}

/// Returns `true` if two paths of the same length are equal. Compares a path of 8 to 16 bytes without a call: the
/// first 8 bytes and the last 8 bytes, which may overlap.
#[inline]
fn is_equal(left: &[u8], right: &[u8]) -> bool {
    let ends = |path: &[u8]| Some((*path.first_chunk::<8>()?, *path.last_chunk::<8>()?));
    match (ends(left), ends(right)) {
        (Some(left_ends), Some(right_ends)) if left.len() <= 16 => left_ends == right_ends,
        _ => left == right,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixed_paths_match_exactly() {
        let long = format!("/{}", "a".repeat(40));
        let paths = ["/", "/b", "/a", "/c", "/ab", "/abcdefg", "", "/ba", "/abcdefghijk", &long];
        let mut fixed = FixedPaths::default();
        for (route, path) in paths.iter().enumerate() {
            fixed.insert(path.as_bytes(), route);
        }
        for (route, path) in paths.iter().enumerate() {
            assert_eq!(fixed.find(path.as_bytes()), Some(route), "{path}");
        }
        let other_end = format!("/{}b", "a".repeat(39));
        for path in [
            "/d",
            "/A",
            "/abc",
            "/abcdeg",
            "/abcdefh",
            "/bbcdefg",
            "/abcdefghijl",
            "/abcdefgXijk",
            &other_end,
        ] {
            assert_eq!(fixed.find(path.as_bytes()), None, "{path}");
        }
    }
}
