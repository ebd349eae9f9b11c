//! The raw figures of one run, as stored.

use super::Failure;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// One run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    /// Version of this structure.
    pub format: u32,
    /// When it began, RFC 3339.
    pub taken_at: String,
    /// The commit that was measured, with "dirty" if files had been changed since.
    pub commit: String,
    /// The machine: processor, memory, kernel, disk.
    pub machine: BTreeMap<String, String>,
    /// Programs and their versions.
    pub versions: BTreeMap<String, String>,
    /// Sizes, rounds and times.
    pub plan: BTreeMap<String, u64>,
    /// The figures.
    pub rows: Vec<Row>,
}

/// The figures of one row, in the order of the rounds. Units are in the table of rows.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// The row's key.
    pub key: String,
    /// The product's.
    pub ours: Vec<f64>,
    /// The peer's, round by round; none if the bar is a number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub peer: Vec<f64>,
}

impl Row {
    /// The product's figure divided by the peer's, round by round; none if the peer was not measured.
    pub fn ratios(&self) -> Vec<f64> {
        self.ours.iter().zip(&self.peer).map(|(ours, peer)| ours / peer).collect()
    }

    /// The median of the ratios.
    pub fn ratio(&self) -> Option<f64> {
        Some(self.ratios()).filter(|ratios| !ratios.is_empty()).map(|ratios| median(&ratios))
    }
}

impl Run {
    /// Reads a file.
    pub fn load(path: &Path) -> Result<Self, Failure> {
        Ok(serde_json::from_slice(&std::fs::read(path)?)?)
    }

    /// Writes a file.
    pub fn save(&self, path: &Path) -> Result<(), Failure> {
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory)?;
        }
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        Ok(std::fs::write(path, text)?)
    }

    /// The row with this key.
    pub fn row(&self, key: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.key == key)
    }
}

/// The middle one, or the mean of the two in the middle. There must be at least one.
pub fn median(figures: &[f64]) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len().is_multiple_of(2) {
        f64::midpoint(sorted[middle - 1], sorted[middle])
    } else {
        sorted[middle]
    }
}
