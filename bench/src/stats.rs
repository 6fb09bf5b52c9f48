//! Medians, quantiles, and intervals by resampling.
//!
//! Owns: the arithmetic. Must not: know what is measured.

/// A ratio and its 95 % interval.
#[derive(Clone, Copy, Debug)]
pub struct Ratio {
    pub value: f64,
    pub low: f64,
    pub high: f64,
}

impl std::fmt::Display for Ratio {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let digits = if self.value < 10.0 { 2 } else { 1 };
        write!(out, "{:.digits$} ({:.digits$} to {:.digits$})", self.value, self.low, self.high)
    }
}

const RESAMPLES: usize = 1_000;

/// The median of `over` divided by that of `under`; the interval by resampling
/// rounds: what was measured in one round stays together.
pub fn ratio(over: &[f64], under: &[f64]) -> Ratio {
    let mut random = Random::new();
    let count = over.len().min(under.len());
    let mut ratios: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            let picked: Vec<usize> = (0..count).map(|_| random.below(count)).collect();
            let pick =
                |from: &[f64]| median(&picked.iter().map(|at| from[*at]).collect::<Vec<_>>());
            pick(over) / pick(under)
        })
        .collect();
    ratios.sort_by(f64::total_cmp);
    Ratio {
        value: median(over) / median(under),
        low: ratios[RESAMPLES * 25 / 1000],
        high: ratios[RESAMPLES * 975 / 1000 - 1],
    }
}

pub fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

pub fn quantile(values: &[f64], part: f64) -> f64 {
    let mut values = values.to_vec();
    if values.is_empty() {
        return f64::NAN;
    }
    let place = ((values.len() - 1) as f64 * part).round() as usize;
    *values.select_nth_unstable_by(place, f64::total_cmp).1
}

/// Numbers that look random and are the same in every run.
pub struct Random(u64);

impl Random {
    pub fn new() -> Random {
        Random(0x9e37_79b9_7f4a_7c15)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }

    pub fn shuffle(&mut self, places: &mut [usize]) {
        for at in (1..places.len()).rev() {
            places.swap(at, self.below(at + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_of_the_sorted_values() {
        let values = [5.0, 1.0, 4.0, 2.0, 3.0];
        assert_eq!(median(&values), 3.0);
        assert_eq!(quantile(&values, 0.99), 5.0);
        assert_eq!(quantile(&values, 0.0), 1.0);
    }

    #[test]
    fn a_ratio_lies_in_its_interval() {
        let under: Vec<f64> = (0..200).map(|n| 100.0 + f64::from(n % 7)).collect();
        let over: Vec<f64> = under.iter().map(|value| value * 2.0).collect();
        let ratio = ratio(&over, &under);
        assert_eq!(ratio.value, 2.0);
        assert!(ratio.low <= 2.0 && 2.0 <= ratio.high && ratio.high < 2.2, "{ratio:?}");
    }

    #[test]
    fn a_shuffle_keeps_every_place() {
        let mut places = [0, 1, 2, 3, 4, 5];
        Random::new().shuffle(&mut places);
        assert_ne!(places, [0, 1, 2, 3, 4, 5]);
        places.sort_unstable();
        assert_eq!(places, [0, 1, 2, 3, 4, 5]);
    }
}
