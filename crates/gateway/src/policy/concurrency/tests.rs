use super::*;

#[test]
fn a_place_is_free_again_when_its_request_is_over() {
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
