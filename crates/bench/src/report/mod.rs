//! Reports: results of a load, computed from its outcome and written in several formats.

// the figures
mod figures;
mod times;
mod contents;

// where they come from
mod measured;

// in which form
mod text;
mod plot;
mod html;
mod forms;

pub(crate) use contents::FORMAT;
#[doc(hidden)]
pub use contents::unreadable;
pub use contents::{
    ByteCounts, Connections, ErrorCount, Generator, Handshakes, Part, Report, RequestCounts, ServerCost,
    Settings, Status,
};
#[doc(hidden)]
pub use figures::three_digits;
pub use figures::{bytes, rate, time};
#[doc(hidden)]
pub use forms::quoted;
pub(crate) use forms::to_csv;
#[doc(hidden)]
pub use html::STYLE;
pub(crate) use html::page;
#[doc(hidden)]
pub use plot::{Bar, bars};
pub use times::{Point, TimesReport};
