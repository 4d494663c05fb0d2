//! Reports: what a load has shown, computed from its outcome and written in several forms.

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

pub use contents::{
    Connections, ErrorCount, Generator, Handshakes, Octets, Part, Report, RequestCounts, ServerCost,
    Settings, Status,
};
pub(crate) use contents::{FORMAT, unreadable};
pub(crate) use figures::three_digits;
pub use figures::{octets, rate, time};
pub(crate) use forms::{quoted, to_csv};
pub(crate) use html::{STYLE, page};
pub(crate) use plot::{Bar, bars};
pub use times::{Point, TimesReport};
