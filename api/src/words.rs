//! The wording of errors for people, in the command line, the daemon and the helper.

use std::io;

/// The system's message, without the error number.
pub fn why(error: &io::Error) -> String {
    let text = error.to_string();
    match text.rsplit_once(" (os error ") {
        Some((words, _)) => words.to_owned(),
        None => text,
    }
}

/// `text` with a capital letter and a full stop: errors of libraries are only parts of sentences.
pub fn sentence(text: &str) -> String {
    let mut rest = text.trim().chars();
    let capital = rest.next().map(|first| first.to_uppercase().collect::<String>()).unwrap_or_default();
    let dot = if text.trim_end().ends_with(['.', '?', '!']) { "" } else { "." };
    format!("{capital}{}{dot}", rest.as_str())
}

/// A sentence as a part of another one.
pub fn unsentenced(sentence: &str) -> String {
    let mut rest = sentence.trim_end_matches('.').chars();
    let first = rest.next().map(|first| first.to_lowercase().collect::<String>()).unwrap_or_default();
    format!("{first}{}", rest.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_has_a_capital_and_a_full_stop() {
        assert_eq!(sentence("no such file "), "No such file.");
        assert_eq!(sentence("Done."), "Done.");
    }

    #[test]
    fn error_numbers_are_left_out() {
        assert_eq!(why(&io::Error::from_raw_os_error(2)), "No such file or directory");
        assert_eq!(why(&io::Error::other("odd")), "odd");
    }
}
