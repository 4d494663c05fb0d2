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
        for (route, path) in paths.iter().enumerate() {
            fixed.insert(path.as_bytes(), route);
        }
        for (route, path) in paths.iter().enumerate() {
            assert_eq!(fixed.find(path.as_bytes()), Some(route), "{path}");
        }
        for path in ["/d", "/A", "/abc", "/abcdeg", "/abcdefg"] {
            assert_eq!(fixed.find(path.as_bytes()), None, "{path}");
        }
    }
}
