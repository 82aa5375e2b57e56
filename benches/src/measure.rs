//! Rounds in which contenders take turns, and what they come to.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::Result;

/// What a contender did in its turn.
#[derive(Debug)]
pub struct Sample {
    /// How often.
    pub count: u64,
    /// In what time.
    pub elapsed: Duration,
    /// How long the processor worked for it, where one thread did it all.
    pub busy: Option<Duration>,
    /// How long single calls took, in nanoseconds, where that was watched.
    pub latency: Option<Histogram<u64>>,
}

impl Sample {
    fn per_second(&self) -> f64 {
        self.count as f64 / self.elapsed.as_secs_f64()
    }
}

/// An empty record of how long calls take, in nanoseconds.
///
/// # Errors
/// None: the bounds are sound.
pub fn histogram() -> Result<Histogram<u64>> {
    const HIGHEST_NS: u64 = 60_000_000_000;
    Ok(Histogram::new_with_bounds(1, HIGHEST_NS, 3)?)
}

type Turn<'a> = Box<dyn FnMut(Duration) -> Result<Sample> + 'a>;

/// Those who take turns.
#[derive(Default)]
pub struct Contest<'a> {
    contenders: Vec<(String, Turn<'a>)>,
}

impl<'a> Contest<'a> {
    /// Nobody yet.
    pub fn new() -> Self {
        Contest::default()
    }

    /// Adds one who works for as long as it is told to and says how far it came.
    pub fn add(&mut self, name: impl Into<String>, turn: impl FnMut(Duration) -> Result<Sample> + 'a) {
        self.contenders.push((name.into(), Box::new(turn)));
    }

    /// Holds the rounds, after one that does not count. Each begins with another contender, so that nobody is always the
    /// one after the same other.
    ///
    /// # Errors
    /// That of a contender.
    pub fn hold(mut self, rounds: usize, each: Duration) -> Result<Results> {
        let mut results: Vec<_> = self.contenders.iter().map(|(name, _)| Measured::new(name)).collect();
        for (_, turn) in &mut self.contenders {
            turn(each / 2)?;
        }
        let count = self.contenders.len();
        for round in 0..rounds {
            for place in 0..count {
                let place = (place + round) % count;
                let (name, turn) = &mut self.contenders[place];
                let sample = turn(each).map_err(|error| format!("{name}: {error}"))?;
                results[place].take(&sample)?;
            }
        }
        Ok(Results(results))
    }
}

/// What a contender came to in each round.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Its name.
    pub name: String,
    /// Its rate in each round, per second.
    pub rates: Vec<f64>,
    /// How long the processor worked for a call in each round, in microseconds, where one thread did it all.
    pub busy: Vec<f64>,
    /// How long its single calls took, over all rounds, in nanoseconds.
    pub latency: Option<Histogram<u64>>,
}

impl Measured {
    fn new(name: &str) -> Measured {
        Measured { name: name.to_owned(), rates: Vec::new(), busy: Vec::new(), latency: None }
    }

    fn take(&mut self, sample: &Sample) -> Result<()> {
        self.rates.push(sample.per_second());
        self.busy.extend(sample.busy.map(|busy| busy.as_secs_f64() * 1e6 / sample.count as f64));
        match (&mut self.latency, &sample.latency) {
            (Some(all), Some(latency)) => all.add(latency)?,
            (latency @ None, Some(first)) => *latency = Some(first.clone()),
            (_, None) => {}
        }
        Ok(())
    }

    /// Calls per second.
    pub fn rate(&self) -> Summary {
        Summary::of(self.rates.iter().copied())
    }

    /// Microseconds per call.
    pub fn micros(&self) -> Summary {
        Summary::of(self.rates.iter().map(|rate| 1e6 / rate))
    }

    /// Microseconds that the processor works for a call, where one thread did it all.
    pub fn busy_micros(&self) -> Option<Summary> {
        (!self.busy.is_empty()).then(|| Summary::of(self.busy.iter().copied()))
    }

    /// How long the call in the middle took, over all rounds, in microseconds. Where other programs use the machine too, it
    /// tells more than a rate, which a few long waits pull down.
    ///
    /// # Errors
    /// Single calls were not watched.
    pub fn p50_micros(&self) -> Result<f64> {
        let latency = self.latency.as_ref().ok_or_else(|| format!("nobody watched the calls of {}", self.name))?;
        Ok(latency.value_at_percentile(50.0) as f64 / 1000.0)
    }

    /// How many times as fast as another, round by round.
    pub fn to(&self, other: &Measured) -> Summary {
        Summary::of(self.rates.iter().zip(&other.rates).map(|(own, other)| own / other))
    }

    /// How many microseconds a call takes beyond one of another, round by round.
    pub fn micros_beyond(&self, other: &Measured) -> Summary {
        Summary::of(self.rates.iter().zip(&other.rates).map(|(own, other)| 1e6 / own - 1e6 / other))
    }
}

/// What all came to.
#[derive(Clone, Debug)]
pub struct Results(Vec<Measured>);

impl Results {
    /// What the contender of a name came to.
    ///
    /// # Errors
    /// There was none of this name.
    pub fn of(&self, name: &str) -> Result<&Measured> {
        self.0.iter().find(|measured| measured.name == name).ok_or_else(|| format!("nobody was called {name}").into())
    }
}

/// A figure of several rounds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Summary {
    /// That of the round in the middle.
    pub median: f64,
    /// The smallest.
    pub low: f64,
    /// The greatest.
    pub high: f64,
}

impl Summary {
    /// Of the figures of each round.
    pub fn of(figures: impl IntoIterator<Item = f64>) -> Summary {
        let mut figures: Vec<f64> = figures.into_iter().collect();
        figures.sort_by(f64::total_cmp);
        let at = |place: usize| figures.get(place).copied().unwrap_or(f64::NAN);
        let middle = figures.len() / 2;
        let median = if figures.len() % 2 == 1 { at(middle) } else { (at(middle.wrapping_sub(1)) + at(middle)) / 2.0 };
        Summary { median, low: at(0), high: at(figures.len().wrapping_sub(1)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_round_counts() {
        let odd = Summary::of([3.0, 1.0, 2.0]);
        assert_eq!((odd.low, odd.median, odd.high), (1.0, 2.0, 3.0));
        assert_eq!(Summary::of([4.0, 1.0, 2.0, 3.0]).median, 2.5);
        assert!(Summary::of([]).median.is_nan());
    }

    #[test]
    fn ratios_are_made_within_a_round() {
        let of = |name: &str, rates: [f64; 3]| Measured { name: name.to_owned(), rates: rates.to_vec(), busy: Vec::new(), latency: None };
        // A disk that is twice as fast in one round speeds both up.
        let (ours, floor) = (of("ours", [90.0, 180.0, 91.0]), of("floor", [100.0, 200.0, 100.0]));
        assert_eq!(ours.to(&floor).median, 0.9);
    }

    #[test]
    fn contenders_take_turns() -> Result<()> {
        let turn = |_| Ok(Sample { count: 5, elapsed: Duration::from_secs(1), busy: None, latency: None });
        let mut contest = Contest::new();
        contest.add("one", turn);
        contest.add("two", turn);
        let results = contest.hold(3, Duration::from_secs(1))?;
        assert_eq!(results.of("two")?.rates, [5.0, 5.0, 5.0]);
        assert!(results.of("three").is_err());
        Ok(())
    }
}
