//! Prints the reference of the JSON and CSV output, `docs/guide/load-test-reports.md`.

fn main() {
    print!("{}", thruway_bench::report::reference());
}
