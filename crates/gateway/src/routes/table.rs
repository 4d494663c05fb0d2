//! A table with strings as keys, grouped by the length of the key. A lookup needs no hash, because few
//! hosts or paths have the same length. A lookup can also find all prefixes or suffixes of a text without
//! comparing all keys.

/// Maps strings to values. Longer strings come first.
#[derive(Debug)]
pub(super) struct Table<T> {
    /// The keys and values for each key length, greatest length first. Keys of the same length are sorted.
    by_length: Vec<(usize, Group<T>)>,
}

type Group<T> = Vec<(Box<[u8]>, T)>;

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { by_length: Vec::new() }
    }
}

impl<T: Default> Table<T> {
    /// Returns the value of `key`. If the table does not contain the key, inserts the default value.
    pub(super) fn entry(&mut self, key: &[u8]) -> &mut T {
        let length = key.len();
        let place = self.place_of(length).unwrap_or_else(|place| {
            self.by_length.insert(place, (length, Vec::new()));
            place
        });
        let group = &mut self.by_length[place].1;
        let index = position(group, key).unwrap_or_else(|index| {
            group.insert(index, (key.into(), T::default()));
            index
        });
        &mut group[index].1
    }
}

impl<T> Table<T> {
    pub(super) const fn is_empty(&self) -> bool {
        self.by_length.is_empty()
    }

    /// Returns the value of `key`, if the table contains this key.
    #[inline]
    pub(super) fn get(&self, key: &[u8]) -> Option<&T> {
        let place = self.place_of(key.len()).ok()?;
        find(&self.by_length[place].1, key)
    }

    /// Returns the values of all keys that are a prefix of `path`, longest key first. The prefix must end
    /// before a `/` or at the end of `path`.
    #[inline]
    pub(super) fn prefixes_of<'t>(&'t self, path: &'t [u8]) -> impl Iterator<Item = &'t T> {
        self.by_length.iter().filter_map(|(length, group)| match path.get(*length) {
            Some(b'/') => find(group, &path[..*length]),
            None if path.len() == *length => find(group, path),
            _ => None,
        })
    }

    /// Returns the values of all keys that are a suffix of `host`, longest key first. In `host`, a dot must
    /// precede the suffix.
    pub(super) fn ends_of<'t>(&'t self, host: &'t [u8]) -> impl Iterator<Item = &'t T> {
        self.by_length.iter().filter_map(|(length, group)| {
            let (start, end) = host.split_at_checked(host.len().checked_sub(*length)?)?;
            if start.len() > 1 && start.ends_with(b".") { find(group, end) } else { None }
        })
    }

    fn place_of(&self, length: usize) -> Result<usize, usize> {
        self.by_length.binary_search_by(|(other, _)| length.cmp(other))
    }
}

#[inline]
fn find<'t, T>(group: &'t Group<T>, key: &[u8]) -> Option<&'t T> {
    position(group, key).ok().map(|index| &group[index].1)
}

#[inline]
fn position<T>(group: &Group<T>, key: &[u8]) -> Result<usize, usize> {
    // A group has keys of one length, so a group has at most one empty key. This code does not compare empty
    // keys, because the pointer of an empty slice is not a valid address. A comparison at such an address
    // reads no byte, but costs 100 ns on some processors.
    if key.is_empty() {
        return if group.is_empty() { Err(0) } else { Ok(0) };
    }
    group.binary_search_by(|(other, _)| (**other).cmp(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(keys: &[&str]) -> Table<String> {
        let mut table = Table::<String>::default();
        for key in keys {
            table.entry(key.as_bytes()).push_str(key);
        }
        table
    }

    #[test]
    fn lookup_finds_exactly_the_inserted_keys() {
        let keys = ["", "/", "/b", "/a", "/ab", "/abcdef", "/ba"];
        let table = table(&keys);
        for key in keys {
            assert_eq!(table.get(key.as_bytes()).map(String::as_str), Some(key));
        }
        for key in ["/c", "a", "/abc", "/abcdeg", "/abcdefg"] {
            assert_eq!(table.get(key.as_bytes()), None, "{key}");
        }
    }

    #[test]
    fn path_prefixes_end_at_a_slash() {
        let table = table(&["", "/a", "/a/b", "/ab", "/a/b/c/d", "/x"]);
        let found = |path: &'static str| table.prefixes_of(path.as_bytes()).collect::<Vec<_>>();
        assert_eq!(found("/a/b/c"), ["/a/b", "/a", ""]);
        assert_eq!(found("/a/b"), ["/a/b", "/a", ""]);
        assert_eq!(found("/a/"), ["/a", ""]);
        assert_eq!(found("/abc"), [""]);
        assert_eq!(found("/"), [""]);
    }

    #[test]
    fn host_suffixes_start_after_a_dot() {
        let table = table(&["example.com", "b.example.com", "com"]);
        let found = |host: &'static str| table.ends_of(host.as_bytes()).collect::<Vec<_>>();
        assert_eq!(found("a.b.example.com"), ["b.example.com", "example.com", "com"]);
        assert_eq!(found("b.example.com"), ["example.com", "com"]);
        assert_eq!(found("example.com"), ["com"]);
        assert!(found("com").is_empty() && found(".com").is_empty() && found("telecom").is_empty());
    }
}
