//! HTML pages that are one file each: nothing is loaded, nothing leaves them, and what they show is text wherever it came
//! from. [`Page`] is the frame, [`Bars`] and [`Lines`] are charts, drawn as inline SVG that fits any width, light or dark.

mod chart;
mod frame;
mod text;

pub use chart::{Bar, Bars, Lines, Scale, Series};
pub use frame::{Frame, Page};
pub use text::{escape, number};
