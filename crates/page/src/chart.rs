//! Charts as inline SVG. Places are percentages and letters keep their size, so that a chart fits a telephone as well.

use std::fmt::Write;

use crate::text::{escape, number};

/// A bar of a chart.
#[derive(Clone, Debug)]
pub struct Bar<'a> {
    /// Whose colour it has: a backend, or anything else for the neutral one.
    pub subject: &'a str,
    /// What stands over it.
    pub label: &'a str,
    /// Its length.
    pub value: f64,
    /// The smallest and greatest value that was seen, where there were several.
    pub spread: Option<(f64, f64)>,
}

/// Bars of values that have one unit.
#[derive(Clone, Debug)]
pub struct Bars<'a> {
    /// What the chart shows, for those who can't see it; its values follow there by themselves.
    pub title: &'a str,
    /// The unit.
    pub unit: &'a str,
    /// The bars, from the top down.
    pub bars: Vec<Bar<'a>>,
}

impl Bars<'_> {
    /// The chart as markup.
    pub fn svg(&self) -> String {
        const ROW: usize = 38;
        // The widest spread ends at the right edge.
        let highest = |bar: &Bar<'_>| bar.spread.map_or(bar.value, |(_, high)| high.max(bar.value));
        let most = self.bars.iter().map(highest).filter(|value| value.is_finite()).fold(f64::MIN_POSITIVE, f64::max);
        let percent = |value: f64| (value.max(0.0) / most * 100.0).clamp(0.0, 100.0);
        let said: Vec<String> = self.bars.iter().map(|bar| format!("{}: {}", bar.label, with_unit(bar.value, self.unit))).collect();
        let mut out = begin(&format!("{}. {}", self.title, said.join("; ")), self.bars.len() * ROW + 4);
        for (place, bar) in self.bars.iter().enumerate() {
            let top = place * ROW;
            put(&mut out, format_args!("<text x=\"0\" y=\"{}\">{}</text>", top + 14, escape(bar.label)));
            let value = escape(&with_unit(bar.value, self.unit));
            put(&mut out, format_args!("<text class=\"value\" x=\"100%\" y=\"{}\">{value}</text>", top + 14));
            put(&mut out, format_args!("<rect class=\"track\" x=\"0\" y=\"{}\" width=\"100%\" height=\"10\" rx=\"2\"/>", top + 20));
            let (class, width) = (class(bar.subject), percent(bar.value));
            put(
                &mut out,
                format_args!("<rect class=\"fill {class}\" x=\"0\" y=\"{}\" width=\"{width:.2}%\" height=\"10\" rx=\"2\"/>", top + 20),
            );
            if let Some((low, high)) = bar.spread {
                let (low, high, y) = (percent(low), percent(high), top + 25);
                put(&mut out, format_args!("<line class=\"spread\" x1=\"{low:.2}%\" x2=\"{high:.2}%\" y1=\"{y}\" y2=\"{y}\"/>"));
            }
        }
        out + "</svg>\n"
    }
}

/// How far apart values stand on an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Equal steps for equal differences; begins at 0.
    Linear,
    /// Equal steps for equal ratios.
    Logarithmic,
}

/// A line of a chart.
#[derive(Clone, Debug)]
pub struct Series<'a> {
    /// Whose colour it has, and what it is called.
    pub subject: &'a str,
    /// Its values, one for each place of the horizontal axis; `None` where there is none.
    pub values: Vec<Option<f64>>,
}

/// Lines over places that stand side by side.
#[derive(Clone, Debug)]
pub struct Lines<'a> {
    /// What the chart shows, for those who can't see it.
    pub title: &'a str,
    /// The unit of the values.
    pub unit: &'a str,
    /// How values stand apart.
    pub scale: Scale,
    /// What the places of the horizontal axis are called.
    pub places: Vec<String>,
    /// The lines.
    pub series: Vec<Series<'a>>,
}

impl Lines<'_> {
    /// The chart as markup.
    pub fn svg(&self) -> String {
        const HEIGHT: usize = 260;
        const TOP: f64 = 14.0;
        const BOTTOM: f64 = 226.0;
        const LEFT: f64 = 18.0;
        const RIGHT: f64 = 96.0;
        let axis = Axis::over(self.scale, self.series.iter().flat_map(|series| series.values.iter().flatten().copied()));
        let y = |value: f64| BOTTOM - axis.place(value) * (BOTTOM - TOP);
        let gaps = self.places.len().saturating_sub(1).max(1) as f64;
        let x = |place: usize| if self.places.len() < 2 { (LEFT + RIGHT) / 2.0 } else { LEFT + place as f64 / gaps * (RIGHT - LEFT) };
        let mut out = begin(&self.said(), HEIGHT);
        for tick in &axis.ticks {
            let (y, label) = (y(*tick), escape(&with_unit(*tick, self.unit)));
            put(&mut out, format_args!("<line class=\"rule\" x1=\"0\" x2=\"100%\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>"));
            put(&mut out, format_args!("<text class=\"tick\" x=\"0\" y=\"{:.1}\">{label}</text>", y - 4.0));
        }
        for (place, label) in self.places.iter().enumerate() {
            let (x, label) = (x(place), escape(label));
            put(&mut out, format_args!("<text class=\"place\" x=\"{x:.2}%\" y=\"{}\">{label}</text>", BOTTOM + 22.0));
        }
        for series in &self.series {
            let class = class(series.subject);
            let values = series.values.iter().take(self.places.len()).enumerate();
            let points: Vec<(usize, f64)> =
                values.filter_map(|(place, value)| Some((place, value.filter(|value| value.is_finite())?))).collect();
            for pair in points.windows(2).filter(|pair| pair[1].0 == pair[0].0 + 1) {
                let ((x1, y1), (x2, y2)) = ((x(pair[0].0), y(pair[0].1)), (x(pair[1].0), y(pair[1].1)));
                put(&mut out, format_args!("<line class=\"line {class}\" x1=\"{x1:.2}%\" y1=\"{y1:.1}\" x2=\"{x2:.2}%\" y2=\"{y2:.1}\"/>"));
            }
            for (place, value) in points {
                let said = escape(&format!("{}, {}: {}", series.subject, self.places[place], with_unit(value, self.unit)));
                let (x, y) = (x(place), y(value));
                put(
                    &mut out,
                    format_args!("<circle class=\"dot {class}\" cx=\"{x:.2}%\" cy=\"{y:.1}\" r=\"4\"><title>{said}</title></circle>"),
                );
            }
        }
        out + "</svg>\n"
    }

    /// Which colour is which.
    pub fn legend(&self) -> String {
        let mut out = String::from("<ul class=\"legend\">");
        for series in &self.series {
            put(&mut out, format_args!("<li class=\"{}\">{}</li>", class(series.subject), escape(series.subject)));
        }
        out + "</ul>\n"
    }

    fn said(&self) -> String {
        let mut said = format!("{}.", self.title);
        for series in &self.series {
            let values = self.places.iter().zip(&series.values);
            let values: Vec<String> =
                values.filter_map(|(place, value)| Some(format!("{place}: {}", with_unit((*value)?, self.unit)))).collect();
            put(&mut said, format_args!(" {}: {}.", series.subject, values.join(", ")));
        }
        said
    }
}

/// A vertical axis.
struct Axis {
    scale: Scale,
    low: f64,
    high: f64,
    ticks: Vec<f64>,
}

impl Axis {
    /// An axis that has room for all these values.
    fn over(scale: Scale, values: impl Iterator<Item = f64>) -> Axis {
        let fits = |value: &f64| value.is_finite() && (scale == Scale::Linear || *value > 0.0);
        let (low, high) = values.filter(fits).fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)));
        if low > high {
            return Axis { scale, low: 0.0, high: 1.0, ticks: Vec::new() };
        }
        match scale {
            Scale::Linear => {
                let step = round_step(high.max(f64::MIN_POSITIVE) / 4.0);
                let count = (high / step).ceil().max(1.0) as usize;
                let ticks: Vec<f64> = (0..=count).map(|tick| tick as f64 * step).collect();
                Axis { scale, low: 0.0, high: count as f64 * step, ticks }
            }
            Scale::Logarithmic => {
                let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
                let last = last.max(first + 1);
                let ticks: Vec<f64> = (first..=last).map(|power| 10_f64.powi(power)).collect();
                Axis { scale, low: f64::from(first), high: f64::from(last), ticks }
            }
        }
    }

    /// Where a value stands, from 0 at the bottom to 1 at the top.
    fn place(&self, value: f64) -> f64 {
        let value = match self.scale {
            Scale::Linear => value,
            Scale::Logarithmic => value.max(f64::MIN_POSITIVE).log10(),
        };
        ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
    }
}

/// The next of 1, 2, 2.5, 5 times a power of ten.
fn round_step(least: f64) -> f64 {
    let power = 10_f64.powf(least.log10().floor());
    let factors = [1.0, 2.0, 2.5, 5.0];
    factors.into_iter().map(|factor| factor * power).find(|step| *step >= least).unwrap_or(10.0 * power)
}

fn begin(said: &str, height: usize) -> String {
    format!("<svg class=\"chart\" role=\"img\" width=\"100%\" height=\"{height}\" aria-label=\"{}\">\n", escape(said))
}

fn put(out: &mut String, part: std::fmt::Arguments<'_>) {
    out.write_fmt(part).expect("writing to a text does not fail");
}

fn with_unit(value: f64, unit: &str) -> String {
    if unit.is_empty() || unit.starts_with('/') { format!("{}{unit}", number(value)) } else { format!("{} {unit}", number(value)) }
}

/// The class that has a subject's colour; a stranger has none of its own.
fn class(subject: &str) -> &'static str {
    const KNOWN: [&str; 4] = ["memory", "sqlite", "redb", "postgres"];
    KNOWN.into_iter().find(|known| *known == subject).unwrap_or("other")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_their_values_say() {
        let bar = |subject, label, value, spread| Bar { subject, label, value, spread };
        let bars = vec![bar("sqlite", "a < b", 50.0, None), bar("x\" onload=\"", "c", 100.0, Some((80.0, 200.0)))];
        let svg = Bars { title: "Rates", unit: "/s", bars }.svg();
        assert!(svg.contains("aria-label=\"Rates. a &lt; b: 50/s; c: 100/s\""), "{svg}");
        assert!(svg.contains("class=\"fill sqlite\" x=\"0\" y=\"20\" width=\"25.00%\""), "{svg}");
        assert!(svg.contains("class=\"fill other\" x=\"0\" y=\"58\" width=\"50.00%\"") && !svg.contains("onload"), "{svg}");
        assert!(svg.contains("x1=\"40.00%\" x2=\"100.00%\""), "{svg}");
    }

    #[test]
    fn no_value_makes_a_chart_fall_over() {
        for values in [vec![], vec![0.0], vec![f64::NAN, f64::INFINITY], vec![-1.0, 1e300]] {
            let bars = values.iter().map(|value| Bar { subject: "", label: "", value: *value, spread: None }).collect();
            assert!(Bars { title: "", unit: "", bars }.svg().ends_with("</svg>\n"));
            for scale in [Scale::Linear, Scale::Logarithmic] {
                let places = values.iter().map(f64::to_string).collect();
                let series = vec![Series { subject: "redb", values: values.iter().copied().map(Some).collect() }];
                let svg = Lines { title: "", unit: "", scale, places, series }.svg();
                assert!(!svg.contains("y1=\"NaN") && svg.ends_with("</svg>\n"), "{svg}");
            }
        }
    }

    #[test]
    fn axes_have_round_ticks_around_their_values() {
        let linear = Axis::over(Scale::Linear, [3.0, 870.0].into_iter());
        assert_eq!(linear.ticks, [0.0, 250.0, 500.0, 750.0, 1000.0]);
        assert_eq!((linear.place(0.0), linear.place(500.0), linear.place(1000.0)), (0.0, 0.5, 1.0));
        let logarithmic = Axis::over(Scale::Logarithmic, [3.0, 870.0].into_iter());
        assert_eq!(logarithmic.ticks, [1.0, 10.0, 100.0, 1000.0]);
        assert!((logarithmic.place(10.0) - 1.0 / 3.0).abs() < 1e-9);
    }

    #[test]
    fn a_line_has_a_gap_where_nothing_was_measured() {
        let series = vec![Series { subject: "memory", values: vec![Some(1.0), None, Some(2.0)] }];
        let places = vec!["a".to_owned(), "b".to_owned(), "c".to_owned()];
        let lines = Lines { title: "T", unit: "ms", scale: Scale::Linear, places, series };
        assert!(lines.svg().contains("aria-label=\"T. memory: a: 1 ms, c: 2 ms.\""), "{}", lines.svg());
        assert_eq!((lines.svg().matches("<circle").count(), lines.svg().matches("class=\"line").count()), (2, 0));
        assert_eq!(lines.legend(), "<ul class=\"legend\"><li class=\"memory\">memory</li></ul>\n");
    }
}
