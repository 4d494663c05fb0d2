use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use super::*;

fn certificate(directory: &Path, names: &[&str]) -> LocalCertificate {
    LocalCertificate::new(directory, names.iter().map(|name| (*name).to_owned()))
}

#[test]
fn first_certificate_creates_the_ca_and_later_ones_use_it() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path().join("a/ca");
    let first = certificate(&directory, &["Localhost", "127.0.0.1", "::1", "*.a.example", "localhost"]);
    assert_eq!(first.names(), ["*.a.example", "127.0.0.1", "::1", "localhost"]);
    assert_eq!(first.issue().unwrap(), Issued::RootAndCertificate);
    let root = fs::read(first.root()).unwrap();
    assert_eq!(first.issue().unwrap(), Issued::Kept);
    let second = certificate(&directory, &["b.example"]);
    assert_eq!(second.issue().unwrap(), Issued::Certificate);
    assert_eq!(fs::read(second.root()).unwrap(), root);
    let mut names = first.files().contents().unwrap().names;
    names.sort_unstable();
    assert_eq!(names, first.names());
    for file in fs::read_dir(&directory).unwrap() {
        assert_eq!(file.unwrap().metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
    assert_eq!(fs::metadata(&directory).unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn certificate_and_root_are_renewed_before_they_expire() {
    let directory = tempfile::tempdir().unwrap();
    let certificate = certificate(directory.path(), &["localhost"]);
    let (now, day) = (Clock::system().time_of_day(), Duration::from_hours(24));
    assert_eq!(certificate.issue_at(now).unwrap(), Issued::RootAndCertificate);
    assert_eq!(certificate.issue_at(now + 59 * day).unwrap(), Issued::Kept);
    assert_eq!(certificate.issue_at(now + 61 * day).unwrap(), Issued::Certificate);
    let root = fs::read(certificate.root()).unwrap();
    assert_eq!(certificate.issue_at(now + 3600 * day).unwrap(), Issued::RootAndCertificate);
    assert_ne!(fs::read(certificate.root()).unwrap(), root);
}

#[test]
fn damaged_ca_is_replaced_together_with_its_certificates() {
    let directory = tempfile::tempdir().unwrap();
    let certificate = certificate(directory.path(), &["localhost"]);
    certificate.issue().unwrap();
    fs::write(directory.path().join("root.key"), "damaged").unwrap();
    assert_eq!(certificate.issue().unwrap(), Issued::RootAndCertificate);
    assert_eq!(certificate.issue().unwrap(), Issued::Kept);
    fs::write(certificate.files().chain, "damaged").unwrap();
    assert_eq!(certificate.issue().unwrap(), Issued::Certificate);
}

#[test]
fn errors_name_the_file_and_the_reason() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "").unwrap();
    let error = certificate(&file, &["localhost"]).issue().unwrap_err().to_string();
    assert!(error.starts_with(&format!("cannot use `{}` for the local CA: ", file.display())), "{error}");
    let error = certificate(directory.path(), &["ä"]).issue().unwrap_err().to_string();
    assert_eq!(error, "the local CA cannot issue a certificate for these names");
}

/// Regression test: the CA replaced its key if another program had replaced the root certificate, or kept a root
/// certificate of another name with the same key.
#[test]
fn foreign_root_certificate_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let certificate = certificate(directory.path(), &["localhost"]);
    certificate.issue().unwrap();
    let (root, key) = (certificate.root(), directory.path().join("root.key"));
    let own_key = fs::read(&key).unwrap();
    let own = read_key(&key).unwrap();
    let now = Clock::system().time_of_day();
    let mut renamed = root_params(&own, now);
    renamed.distinguished_name = DistinguishedName::new();
    renamed.distinguished_name.push(DnType::CommonName, "Other CA");
    let mut no_ca = root_params(&own, now);
    no_ca.is_ca = IsCa::ExplicitNoCa;
    let other = new_key().unwrap();
    for foreign in [
        root_params(&other, now).self_signed(&other).unwrap(),
        renamed.self_signed(&own).unwrap(),
        no_ca.self_signed(&own).unwrap(),
    ] {
        fs::write(&root, pem("CERTIFICATE", foreign.der())).unwrap();
        assert_eq!(
            certificate.issue().unwrap_err().to_string(),
            format!(
                "`{}` is not the root certificate of the key `{}`: remove both files, and Thruway creates a new local \
                 CA, which clients must trust again",
                root.display(),
                key.display()
            )
        );
        assert_eq!(fs::read(&key).unwrap(), own_key, "the CA changes nothing");
    }
    fs::remove_file(&root).unwrap();
    fs::remove_file(&key).unwrap();
    assert_eq!(certificate.issue().unwrap(), Issued::RootAndCertificate);
}

#[test]
fn certificate_of_another_root_is_replaced() {
    let [one, other] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [one, other] = [&one, &other].map(|directory| certificate(directory.path(), &["localhost"]));
    one.issue().unwrap();
    other.issue().unwrap();
    fs::copy(other.files().chain, one.files().chain).unwrap();
    assert_eq!(one.issue().unwrap(), Issued::Certificate);
    assert_eq!(one.issue().unwrap(), Issued::Kept);
}

#[test]
fn root_certificate_is_created_again_after_an_interruption() {
    let directory = tempfile::tempdir().unwrap();
    let certificate = certificate(directory.path(), &["localhost"]);
    certificate.issue().unwrap();
    fs::remove_file(certificate.root()).unwrap();
    assert_eq!(certificate.issue().unwrap(), Issued::RootAndCertificate);
    assert_eq!(certificate.issue().unwrap(), Issued::Kept);
}

#[test]
fn files_that_other_users_can_read_or_change_are_errors() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path().join("ca");
    let certificate = certificate(&directory, &["localhost"]);
    certificate.issue().unwrap();
    let (key, chain) = (directory.join("root.key"), certificate.files().chain);
    let set = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    for (path, usual, mode) in [(&key, 0o600, 0o640), (&key, 0o600, 0o604), (&chain, 0o600, 0o644)] {
        set(path, mode);
        let path_text = path.display();
        assert_eq!(
            certificate.issue().unwrap_err().to_string(),
            format!(
                "other users can read the key in `{path_text}`: run `chmod 600 {path_text}`, or remove the file if \
                 another user may have copied the key"
            )
        );
        set(path, usual);
    }
    let root = certificate.root();
    for (path, usual, mode) in [(&directory, 0o700, 0o770), (&directory, 0o700, 0o703), (&root, 0o600, 0o666)]
    {
        set(path, mode);
        let path_text = path.display();
        assert_eq!(
            certificate.issue().unwrap_err().to_string(),
            format!(
                "other users can change `{path_text}` of the local CA: the owner must be the user of Thruway, and only \
                 the owner may have write permission (`chmod go-w {path_text}`)"
            )
        );
        set(path, usual);
    }
    set(&directory, 0o755);
    set(&root, 0o644);
    assert_eq!(certificate.issue().unwrap(), Issued::Kept, "other users may read the root certificate");
}

#[test]
fn ca_waits_for_the_lock_of_another_process() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("lock");
    let open = || private().create(true).truncate(false).open(&path).unwrap();
    let mut held = Some(open());
    held.as_ref().unwrap().lock().unwrap();
    let mut pauses = 0;
    let third_ends = |_| {
        pauses += 1;
        if pauses == 3 {
            held = None;
        }
    };
    wait_for(&open(), third_ends).unwrap();
    assert_eq!(pauses, 3);
}

#[test]
fn wait_for_a_lock_that_another_process_keeps_ends() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("lock");
    let open = || private().create(true).truncate(false).open(&path).unwrap();
    let held = open();
    held.lock().unwrap();
    let mut waited = Duration::ZERO;
    let error = wait_for(&open(), |pause| waited += pause).unwrap_err();
    assert_eq!(
        failed(&path)(error).to_string(),
        format!("cannot use `{}` for the local CA: another process keeps the file locked", path.display())
    );
    assert_eq!(waited, LOCK_WAIT_MAX);
}
