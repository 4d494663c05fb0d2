//! Lookup of routes without parameters, by the length and then the bytes of the path. This lookup is cheaper
//! than any hash, because few paths have the same length.

/// Paths and the indices of their routes.
#[derive(Clone, Default)]
pub(super) struct FixedPaths {
    /// The paths of each length, sorted.
    by_length: Vec<Vec<(Box<[u8]>, usize)>>,
}

impl FixedPaths {
    /// Adds a new path.
    pub(super) fn insert(&mut self, path: &[u8], place: usize) {
        if self.by_length.len() <= path.len() {
            self.by_length.resize_with(path.len() + 1, Vec::new);
        }
        let paths = &mut self.by_length[path.len()];
        let index = paths.partition_point(|(other, _)| **other < *path);
        paths.insert(index, (path.into(), place));
    }

    /// Returns the index of the route at `path`.
    #[inline]
    pub(super) fn find(&self, path: &[u8]) -> Option<usize> {
        let paths = self.by_length.get(path.len())?;
        let index = paths.binary_search_by(|(other, _)| (**other).cmp(path)).ok()?;
        Some(paths[index].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixed_paths_match_exactly() {
        let paths = ["/", "/b", "/a", "/c", "/ab", "/abcdef", "", "/ba"];
        let mut fixed = FixedPaths::default();
        for (place, path) in paths.iter().enumerate() {
            fixed.insert(path.as_bytes(), place);
        }
        for (place, path) in paths.iter().enumerate() {
            assert_eq!(fixed.find(path.as_bytes()), Some(place), "{path}");
        }
        for path in ["/d", "/A", "/abc", "/abcdeg", "/abcdefg"] {
            assert_eq!(fixed.find(path.as_bytes()), None, "{path}");
        }
    }
}
