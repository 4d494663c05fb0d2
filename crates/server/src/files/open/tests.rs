use std::fs;
use std::io::Read;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::thread;

use rustix::fs::{FileType, RenameFlags, mknodat, renameat_with};
use tempfile::TempDir;

use super::*;

/// A directory `root` with files, links that stay inside and links that lead out. `outside` is next to it.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(TempDir::new().unwrap());
        fs::create_dir_all(place.path("root/dir/deep")).unwrap();
        fs::create_dir_all(place.path("outside")).unwrap();
        for (file, content) in [
            ("root/file", "inside"),
            ("root/dir/deep/file", "inside"),
            ("root/dir/other", "inside"),
            ("outside/file", "outside"),
            ("secret", "outside"),
        ] {
            fs::write(place.path(file), content).unwrap();
        }
        place
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
            .map(|lookup| Root::open(&self.path("root")).expect("the root is there").with_lookup(lookup))
    }
}

/// Returns the kind of entry at `path`. For files, the result tells whether the file is inside `root`.
fn seen(root: &Root, path: &str) -> Result<&'static str, Errno> {
    Ok(match root.find(path.as_bytes())? {
        Found::File(OpenFile { mut file, metadata }) => {
            let mut content = String::new();
            file.read_to_string(&mut content).unwrap();
            assert_eq!(content.len() as u64, metadata.len());
            if content == "inside" { "inside" } else { "outside" }
        }
        Found::Directory => "directory",
        Found::Other => "other",
    })
}

#[test]
fn what_is_below_the_root_is_found() {
    let place = Place::new();
    for root in place.roots() {
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
            assert_eq!(seen(&root, path), expected, "{path} by {:?}", root.lookup);
        }
        assert_eq!(seen(&root, &"x".repeat(300)), Err(Errno::NAMETOOLONG));
    }
}

#[test]
fn paths_that_lead_out_are_refused_even_if_nobody_has_checked_them_before() {
    let place = Place::new();
    let absolute = place.path("secret");
    for root in place.roots() {
        for path in ["..", "../secret", "dir/../../secret", "/", "/etc/passwd", absolute.to_str().unwrap()] {
            assert_eq!(seen(&root, path), Err(Errno::XDEV), "{path} by {:?}", root.lookup);
        }
        assert_eq!(seen(&root, "file\0"), Err(Errno::INVAL), "by {:?}", root.lookup);
    }
}

#[test]
fn links_that_stay_inside_are_followed() {
    let place = Place::new();
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
        place.link(target, link);
    }
    for root in place.roots() {
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
            assert_eq!(seen(&root, path), expected, "{path} by {:?}", root.lookup);
        }
    }
}

#[test]
fn links_that_lead_out_are_not_followed() {
    let place = Place::new();
    let absolute_inside = place.path("root/file");
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
        place.link(target, link);
    }
    for root in place.roots() {
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
            assert_eq!(seen(&root, path), Err(Errno::XDEV), "{path} by {:?}", root.lookup);
        }
        assert_eq!(seen(&root, "dir/to_root/file"), Ok("inside"), "by {:?}", root.lookup);
    }
}

#[test]
fn links_can_be_refused_altogether() {
    let place = Place::new();
    place.link("file", "root/link");
    place.link("dir", "root/to_dir");
    for mut root in place.roots() {
        root.follows_symlinks = false;
        for path in ["link", "to_dir", "to_dir/other"] {
            assert_eq!(seen(&root, path), Err(Errno::LOOP), "{path} by {:?}", root.lookup);
        }
        assert_eq!(seen(&root, "dir/other"), Ok("inside"));
    }
}

#[test]
fn links_in_circles_come_to_an_end() {
    let place = Place::new();
    place.link("b", "root/a");
    place.link("a", "root/b");
    place.link("c/c", "root/c");
    for root in place.roots() {
        for path in ["a", "a/file", "c"] {
            assert_eq!(seen(&root, path), Err(Errno::LOOP), "{path} by {:?}", root.lookup);
        }
    }
}

#[test]
fn links_into_processes_are_not_followed() {
    for lookup in [Lookup::Kernel, Lookup::Walk] {
        let root = Root::open(Path::new("/proc/self")).unwrap().with_lookup(lookup);
        for path in ["exe", "cwd", "root", "root/etc/passwd", "cwd/Cargo.toml", "fd/0"] {
            assert!(root.find(path.as_bytes()).is_err(), "{path} by {lookup:?}");
        }
        assert!(matches!(root.find(b"status"), Ok(Found::File(..))));
    }
}

#[test]
fn what_is_no_regular_file_is_found_without_waiting() {
    let place = Place::new();
    let root = openat(CWD, place.path("root"), OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap();
    mknodat(&root, "fifo", FileType::Fifo, Mode::RWXU, 0).unwrap();
    let _listener = UnixListener::bind(place.path("root/socket")).unwrap();
    for root in place.roots() {
        assert_eq!(seen(&root, "fifo"), Ok("other"), "by {:?}", root.lookup);
        assert_eq!(seen(&root, "socket"), Err(Errno::NXIO), "by {:?}", root.lookup);
    }
    for lookup in [Lookup::Kernel, Lookup::Walk] {
        let devices = Root::open(Path::new("/dev")).unwrap().with_lookup(lookup);
        assert_eq!(seen(&devices, "zero"), Ok("other"), "by {lookup:?}");
    }
}

#[test]
fn directories_need_not_be_readable_to_be_passed() {
    let place = Place::new();
    fs::set_permissions(place.path("root/dir"), PermissionsExt::from_mode(0o111)).unwrap();
    for root in place.roots() {
        assert_eq!(seen(&root, "dir/deep/file"), Ok("inside"), "by {:?}", root.lookup);
    }
    fs::set_permissions(place.path("root/dir"), PermissionsExt::from_mode(0o755)).unwrap();
}

#[test]
fn very_deep_paths_cost_a_bounded_number_of_descriptors() {
    let place = Place::new();
    let deep = "d/".repeat(70);
    fs::create_dir_all(place.path(&format!("root/{deep}"))).unwrap();
    let [_, walk] = place.roots();
    assert_eq!(seen(&walk, &format!("{deep}none")), Err(Errno::NAMETOOLONG));
}

#[test]
fn a_directory_that_is_exchanged_for_a_link_meanwhile_does_not_lead_out() {
    let place = Place::new();
    place.link("../outside", "root/swapped");
    fs::write(place.path("root/dir/file"), "inside").unwrap();
    let directory = openat(CWD, place.path("root"), OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap();
    for root in place.roots() {
        thread::scope(|scope| {
            let exchanges = scope.spawn(|| {
                for _ in 0..EXCHANGES {
                    renameat_with(&directory, "dir", &directory, "swapped", RenameFlags::EXCHANGE).unwrap();
                }
            });
            while !exchanges.is_finished() {
                assert_ne!(seen(&root, "dir/file"), Ok("outside"), "by {:?}", root.lookup);
            }
        });
        assert_eq!(seen(&root, "dir/file"), Ok("inside"), "by {:?}", root.lookup);
    }
}

#[test]
fn a_file_is_no_root() {
    let place = Place::new();
    assert_eq!(Root::open(&place.path("root/file")).unwrap_err(), Errno::NOTDIR);
    assert_eq!(Root::open(&place.path("none")).unwrap_err(), Errno::NOENT);
    assert_eq!(Root::open(&place.path("root")).unwrap().lookup, Lookup::Kernel, "tests need `openat2`");
}

/// Number of exchanges. It is even, so both entries end in their original places.
const EXCHANGES: usize = 10_000;
