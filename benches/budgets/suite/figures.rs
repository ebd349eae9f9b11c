//! How figures are written in the report.

use super::record::median;
use super::rows::Unit;

/// A figure with its unit.
pub fn with_unit(figure: f64, unit: Unit) -> String {
    format!("{} {}", round(figure), unit.name).trim_end().to_owned()
}

/// The median with its unit, and the least and the greatest value if there are several.
pub fn spread(figures: &[f64], unit: Unit) -> String {
    let middle = with_unit(median(figures), unit);
    if figures.len() < 2 {
        return middle;
    }
    let (least, most) = bounds(figures);
    let digits = digits(median(figures));
    format!("{middle} ({least:.digits$} to {most:.digits$})")
}

/// The median ratio, and the least and the greatest.
pub fn ratios(ratios: &[f64]) -> String {
    let (least, most) = bounds(ratios);
    format!("**{}** ({} to {})", ratio(median(ratios)), ratio(least), ratio(most))
}

/// A ratio, with at least two significant digits.
pub fn ratio(ratio: f64) -> String {
    match ratio {
        10.0.. => format!("{ratio:.0}"),
        0.1..10.0 => format!("{ratio:.2}"),
        _ => {
            let digits = if ratio > 0.0 { (1.0 - ratio.log10().floor()) as usize } else { 0 };
            format!("{ratio:.digits$}")
        }
    }
}

/// "1.20", or "1.20 to 1.30" if they differ as they are written.
pub fn range(values: &[f64]) -> String {
    let (least, most) = bounds(values);
    let (least, most) = (ratio(least), ratio(most));
    if least == most { least } else { format!("{least} to {most}") }
}

/// The same for values of which less is better: as fractions where that is easier to read.
pub fn share(ratios: &[f64]) -> String {
    if ratios.iter().any(|ratio| *ratio > 0.1) {
        return range(ratios);
    }
    let inverse: Vec<_> = ratios.iter().map(|ratio| 1.0 / ratio).collect();
    format!("1/{}", range(&inverse).replace(" to ", " to 1/"))
}

fn bounds(figures: &[f64]) -> (f64, f64) {
    let least = figures.iter().copied().fold(f64::INFINITY, f64::min);
    let most = figures.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (least, most)
}

fn round(figure: f64) -> String {
    let digits = digits(figure);
    format!("{figure:.digits$}")
}

fn digits(figure: f64) -> usize {
    if figure < 10.0 { 2 } else { 0 }
}

#[cfg(test)]
mod tests {
    #[test]
    fn ratios_keep_two_digits() {
        let written = [2078.4, 12.5, 9.99, 1.0, 0.661, 0.1, 0.0651, 0.000_567, 0.0].map(super::ratio);
        assert_eq!(written, ["2078", "12", "9.99", "1.00", "0.66", "0.10", "0.065", "0.00057", "0"]);
        assert_eq!(super::range(&[1.304, 1.2, 1.25]), "1.20 to 1.30");
        assert_eq!(super::range(&[1.201, 1.2]), "1.20");
        assert_eq!(
            (super::share(&[0.01, 0.002]), super::share(&[0.01, 0.25])),
            ("1/100 to 1/500".into(), "0.010 to 0.25".into())
        );
    }
}
