//! Prints the configuration reference, `docs/guide/configuration.md`.

fn main() {
    print!("{}", thruway_daemon::reference());
}
