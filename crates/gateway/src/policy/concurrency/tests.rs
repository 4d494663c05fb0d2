use super::*;

#[test]
fn finished_request_releases_its_permit() {
    let counts = Arc::new(Counts::default());
    let first = counts.enter(1, 2).unwrap();
    let second = counts.enter(1, 2).unwrap();
    assert!(counts.enter(1, 2).is_none());
    let other = counts.enter(1 << 40, 2).unwrap();
    assert_eq!(counts.keys(), 2);
    drop(first);
    drop((counts.enter(1, 2).unwrap(), second, other));
    assert_eq!(counts.keys(), 0);
}
