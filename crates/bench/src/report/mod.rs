//! Creates reports from the outcomes of loads, and writes them in several formats.

// contents
mod environment;
mod figures;
mod times;
mod stages;
mod steps;
mod thresholds;
mod contents;

// creation of reports
mod measured;

// output formats
mod text;
mod plot;
mod html;
mod forms;
mod reference;

pub(crate) use contents::FORMAT;
#[doc(hidden)]
pub use contents::unreadable;
pub use contents::{
    ByteCounts, Connections, ErrorCount, Generator, Handshakes, Part, Report, RequestCounts, ServerCost,
    Settings, Status,
};
pub use environment::Environment;
#[doc(hidden)]
pub use figures::three_digits;
pub use figures::{bytes, rate, time};
pub(crate) use figures::{rounded, significant};
#[doc(hidden)]
pub use forms::quoted;
pub(crate) use forms::to_csv;
#[doc(hidden)]
pub use html::STYLE;
pub(crate) use html::page;
#[doc(hidden)]
pub use plot::{Bar, bars};
#[doc(hidden)]
pub use reference::reference;
pub use stages::{StageIterationsReport, StageReport};
pub use steps::{IterationsReport, StepReport, UrlReport};
pub use thresholds::{ThresholdReport, ThresholdUnit};
pub use times::{Point, TimesReport};
