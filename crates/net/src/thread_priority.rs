//! The priority of threads that do background work.

use std::io;

use rustix::process::{getpriority_process, setpriority_process};

/// Lowers the priority of the calling thread, so that workers on the same core rarely wait for it. Other threads keep
/// their priority, because Linux has a nice value for each thread (`setpriority(2)`).
///
/// # Errors
/// Returns an error if the system refuses the change.
pub fn lower_thread_priority() -> io::Result<()> {
    let nice = getpriority_process(None)?.max(BACKGROUND_NICE);
    Ok(setpriority_process(None, nice)?)
}

/// The nice value of background threads. With it, a thread gets a quarter of a core that a worker uses fully.
const BACKGROUND_NICE: i32 = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_calling_thread_gets_a_lower_priority() {
        let of_this_thread = || getpriority_process(None).unwrap();
        let before = of_this_thread();
        let lowered = std::thread::spawn(move || {
            lower_thread_priority().unwrap();
            of_this_thread()
        });
        let lowered = lowered.join().unwrap();
        assert_eq!((lowered, of_this_thread()), (before.max(BACKGROUND_NICE), before));
    }
}
