//! Finds the name that a person may have meant by an unknown one.

/// One wrong letter is allowed for this many letters: a typing mistake changes one or two, and in three letters no more than one.
const LETTERS_A_MISTAKE: usize = 3;

/// The nearest known name that `typed` may be a typing mistake for.
pub fn nearest<'a, S: AsRef<str>>(typed: &str, known: impl IntoIterator<Item = &'a S>) -> Option<&'a S> {
    let typed = typed.to_lowercase();
    let allowed = (typed.chars().count() / LETTERS_A_MISTAKE).max(1);
    let distance = |name: &S| strsim::damerau_levenshtein(&typed, &name.as_ref().to_lowercase());
    let near = known.into_iter().map(|name| (distance(name), name)).filter(|(far, name)| {
        // A name of one or two letters has nothing in common with a name that differs in all of them.
        *far <= allowed && *far < name.as_ref().chars().count()
    });
    near.min_by_key(|(far, _)| *far).map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typing_mistakes_are_recognised_and_other_names_are_not() {
        let known = ["work", "photos", "music", "a", "Attic 2026"].map(str::to_owned);
        for (typed, expected) in [
            ("wrok", Some("work")),
            ("wor", Some("work")),
            ("WORK", Some("work")),
            ("photo", Some("photos")),
            ("phtos", Some("photos")),
            ("attic 2025", Some("Attic 2026")),
            ("b", None),
            ("film", None),
            ("", None),
            ("backup", None),
        ] {
            assert_eq!(nearest(typed, &known).map(String::as_str), expected, "{typed}");
        }
    }

    #[test]
    fn the_nearest_of_several_is_meant() {
        let known = ["photos-2024", "photos-2025"].map(str::to_owned);
        assert_eq!(nearest("photos-2o25", &known).map(String::as_str), Some("photos-2025"));
    }
}
