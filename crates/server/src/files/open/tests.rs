use std::fs;
use std::io::Read;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::thread;

use rustix::fs::{FileType, RenameFlags, mknodat, renameat_with};
use tempfile::TempDir;

use super::*;

/// A directory `root` with files, links that stay inside and links that lead out. `outside` is next to it.
struct TestDir(TempDir);

impl TestDir {
    fn new() -> Self {
        let test_dir = Self(TempDir::new().unwrap());
        fs::create_dir_all(test_dir.path("root/dir/deep")).unwrap();
        fs::create_dir_all(test_dir.path("outside")).unwrap();
        for (file, content) in [
            ("root/file", "inside"),
            ("root/dir/deep/file", "inside"),
            ("root/dir/other", "inside"),
            ("outside/file", "outside"),
            ("secret", "outside"),
        ] {
            fs::write(test_dir.path(file), content).unwrap();
        }
        test_dir
    }

    fn path(&self, path: &str) -> std::path::PathBuf {
        self.0.path().join(path)
    }

    fn link(&self, target: &str, link: &str) {
        symlink(target, self.path(link)).unwrap();
    }

    /// Opens the directory `root` twice, once with each lookup method.
    fn roots(&self) -> [Root; 2] {
        [Lookup::Kernel, Lookup::Walk]
            .map(|lookup| Root::open(&self.path("root")).expect("the root should open").with_lookup(lookup))
    }
}

/// Returns the kind of entry at `path`. For files, the result tells whether the file is inside `root`.
fn kind_at(root: &Root, path: &str) -> Result<&'static str, Errno> {
    Ok(match root.find(path.as_bytes())? {
        Found::File(OpenFile { mut file, metadata }) => {
            let mut content = String::new();
            file.read_to_string(&mut content).unwrap();
            assert_eq!(content.len() as u64, metadata.len());
            if content == "inside" { "inside" } else { "outside" }
        }
        Found::Directory(_) => "directory",
        Found::Other => "other",
    })
}

#[test]
fn files_and_directories_below_root_are_found() {
    let test_dir = TestDir::new();
    for root in test_dir.roots() {
        for (path, expected) in [
            ("file", Ok("inside")),
            ("dir/deep/file", Ok("inside")),
            ("dir", Ok("directory")),
            ("dir/deep", Ok("directory")),
            (".", Ok("directory")),
            ("none", Err(Errno::NOENT)),
            ("none/file", Err(Errno::NOENT)),
            ("dir/none", Err(Errno::NOENT)),
            ("file/file", Err(Errno::NOTDIR)),
        ] {
            assert_eq!(kind_at(&root, path), expected, "{path} by {:?}", root.lookup);
        }
        assert_eq!(kind_at(&root, &"x".repeat(300)), Err(Errno::NAMETOOLONG));
    }
}

#[test]
fn lookup_rejects_unchecked_paths_that_leave_root() {
    let test_dir = TestDir::new();
    let absolute = test_dir.path("secret");
    for root in test_dir.roots() {
        for path in ["..", "../secret", "dir/../../secret", "/", "/etc/passwd", absolute.to_str().unwrap()] {
            assert_eq!(kind_at(&root, path), Err(Errno::XDEV), "{path} by {:?}", root.lookup);
        }
        assert_eq!(kind_at(&root, "file\0"), Err(Errno::INVAL), "by {:?}", root.lookup);
    }
}

#[test]
fn symlinks_inside_root_are_followed() {
    let test_dir = TestDir::new();
    for (target, link) in [
        ("file", "root/link"),
        ("dir", "root/to_dir"),
        ("../../file", "root/dir/deep/up"),
        ("dir/deep/../deep/./file", "root/detour"),
        ("link", "root/to_link"),
        ("dir/", "root/to_dir_with_slash"),
        ("dir/deep/..", "root/to_dir_by_dots"),
        (".", "root/self"),
    ] {
        test_dir.link(target, link);
    }
    for root in test_dir.roots() {
        for (path, expected) in [
            ("link", Ok("inside")),
            ("to_dir", Ok("directory")),
            ("to_dir/deep/file", Ok("inside")),
            ("to_dir/deep/up", Ok("inside")),
            ("detour", Ok("inside")),
            ("to_link", Ok("inside")),
            ("to_dir_with_slash", Ok("directory")),
            ("to_dir_with_slash/deep/file", Ok("inside")),
            ("to_dir_by_dots", Ok("directory")),
            ("self", Ok("directory")),
            ("self/self/self/file", Ok("inside")),
            ("link/file", Err(Errno::NOTDIR)),
        ] {
            assert_eq!(kind_at(&root, path), expected, "{path} by {:?}", root.lookup);
        }
    }
}

#[test]
fn symlinks_out_of_root_are_not_followed() {
    let test_dir = TestDir::new();
    let absolute_inside = test_dir.path("root/file");
    for (target, link) in [
        ("../secret", "root/to_secret"),
        ("../outside", "root/to_outside"),
        ("/etc/passwd", "root/absolute"),
        ("/", "root/to_slash"),
        (absolute_inside.to_str().unwrap(), "root/absolute_inside"),
        ("../root/file", "root/out_and_in"),
        ("..", "root/dir/to_root"),
        ("dir/to_root/../secret", "root/by_another"),
    ] {
        test_dir.link(target, link);
    }
    for root in test_dir.roots() {
        for path in [
            "to_secret",
            "to_outside",
            "to_outside/file",
            "absolute",
            "to_slash/etc/passwd",
            "absolute_inside",
            "out_and_in",
            "dir/to_root/../secret",
            "by_another",
        ] {
            assert_eq!(kind_at(&root, path), Err(Errno::XDEV), "{path} by {:?}", root.lookup);
        }
        assert_eq!(kind_at(&root, "dir/to_root/file"), Ok("inside"), "by {:?}", root.lookup);
    }
}

#[test]
fn symlinks_can_be_disabled() {
    let test_dir = TestDir::new();
    test_dir.link("file", "root/link");
    test_dir.link("dir", "root/to_dir");
    for mut root in test_dir.roots() {
        root.follows_symlinks = false;
        for path in ["link", "to_dir", "to_dir/other"] {
            assert_eq!(kind_at(&root, path), Err(Errno::LOOP), "{path} by {:?}", root.lookup);
        }
        assert_eq!(kind_at(&root, "dir/other"), Ok("inside"));
    }
}

#[test]
fn symlink_loop_is_an_error() {
    let test_dir = TestDir::new();
    test_dir.link("b", "root/a");
    test_dir.link("a", "root/b");
    test_dir.link("c/c", "root/c");
    for root in test_dir.roots() {
        for path in ["a", "a/file", "c"] {
            assert_eq!(kind_at(&root, path), Err(Errno::LOOP), "{path} by {:?}", root.lookup);
        }
    }
}

#[test]
fn procfs_magic_links_are_not_followed() {
    for lookup in [Lookup::Kernel, Lookup::Walk] {
        let root = Root::open(Path::new("/proc/self")).unwrap().with_lookup(lookup);
        for path in ["exe", "cwd", "root", "root/etc/passwd", "cwd/Cargo.toml", "fd/0"] {
            assert!(root.find(path.as_bytes()).is_err(), "{path} by {lookup:?}");
        }
        assert!(matches!(root.find(b"status"), Ok(Found::File(..))));
    }
}

#[test]
fn special_files_are_detected_without_blocking() {
    let test_dir = TestDir::new();
    let root = openat(CWD, test_dir.path("root"), OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap();
    mknodat(&root, "fifo", FileType::Fifo, Mode::RWXU, 0).unwrap();
    let _listener = UnixListener::bind(test_dir.path("root/socket")).unwrap();
    for root in test_dir.roots() {
        assert_eq!(kind_at(&root, "fifo"), Ok("other"), "by {:?}", root.lookup);
        assert_eq!(kind_at(&root, "socket"), Err(Errno::NXIO), "by {:?}", root.lookup);
    }
    for lookup in [Lookup::Kernel, Lookup::Walk] {
        let devices = Root::open(Path::new("/dev")).unwrap().with_lookup(lookup);
        assert_eq!(kind_at(&devices, "zero"), Ok("other"), "by {lookup:?}");
    }
}

#[test]
fn unreadable_directory_can_be_traversed() {
    let test_dir = TestDir::new();
    fs::set_permissions(test_dir.path("root/dir"), PermissionsExt::from_mode(0o111)).unwrap();
    for root in test_dir.roots() {
        assert_eq!(kind_at(&root, "dir/deep/file"), Ok("inside"), "by {:?}", root.lookup);
    }
    fs::set_permissions(test_dir.path("root/dir"), PermissionsExt::from_mode(0o755)).unwrap();
}

#[test]
fn path_depth_is_limited_to_bound_open_descriptors() {
    let test_dir = TestDir::new();
    let deep = "d/".repeat(70);
    fs::create_dir_all(test_dir.path(&format!("root/{deep}"))).unwrap();
    let [_, walk] = test_dir.roots();
    assert_eq!(kind_at(&walk, &format!("{deep}none")), Err(Errno::NAMETOOLONG));
}

#[test]
fn directory_swapped_for_symlink_during_lookup_stays_inside_root() {
    let test_dir = TestDir::new();
    test_dir.link("../outside", "root/swapped");
    fs::write(test_dir.path("root/dir/file"), "inside").unwrap();
    let directory =
        openat(CWD, test_dir.path("root"), OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap();
    for root in test_dir.roots() {
        thread::scope(|scope| {
            let swaps = scope.spawn(|| {
                for _ in 0..SWAPS {
                    renameat_with(&directory, "dir", &directory, "swapped", RenameFlags::EXCHANGE).unwrap();
                }
            });
            while !swaps.is_finished() {
                assert_ne!(kind_at(&root, "dir/file"), Ok("outside"), "by {:?}", root.lookup);
            }
        });
        assert_eq!(kind_at(&root, "dir/file"), Ok("inside"), "by {:?}", root.lookup);
    }
}

#[test]
fn root_must_be_an_existing_directory() {
    let test_dir = TestDir::new();
    assert_eq!(Root::open(&test_dir.path("root/file")).unwrap_err(), Errno::NOTDIR);
    assert_eq!(Root::open(&test_dir.path("none")).unwrap_err(), Errno::NOENT);
    assert_eq!(Root::open(&test_dir.path("root")).unwrap().lookup, Lookup::Kernel, "tests need `openat2`");
}

/// Number of swaps. It is even, so both entries end in their original places.
const SWAPS: usize = 10_000;
