//! The memory store passes the contract tests, in virtual time.

mod contract;

use thruway_store::Store;

/// Declares a test for each function.
macro_rules! tests {
    ($runtime:tt $($module:ident: $($name:ident),* ;)*) => {
        $($(one_test! { $runtime $module $name })*)*
    };
}

macro_rules! one_test {
    (($($runtime:tt)*) $module:ident $name:ident) => {
        #[tokio::test($($runtime)*)]
        async fn $name() {
            contract::$module::$name(Store::memory()).await;
        }
    };
}

contract::with_all!(tests(start_paused = true));
