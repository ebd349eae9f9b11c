//! Suggests the full command if its group was left out: for `holdall sync work` it is `holdall drive sync work`.

use crate::args::Arguments;
use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// The same error, with the commands of that name in the groups as suggestions.
pub fn where_it_is(mut error: clap::Error) -> clap::Error {
    if error.kind() != ErrorKind::InvalidSubcommand {
        return error;
    }
    let in_groups = match error.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(typed)) => in_groups(typed),
        _ => Vec::new(),
    };
    if !in_groups.is_empty() {
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(in_groups));
    }
    error
}

/// The commands with this name in groups: `drive sync`.
fn in_groups(name: &str) -> Vec<String> {
    let holdall = Arguments::command();
    let groups = holdall.get_subcommands().filter(|group| !group.is_hide_set());
    let found = groups.filter(|group| group.find_subcommand(name).is_some());
    found.map(|group| format!("{} {name}", group.get_name())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn a_command_without_its_group_is_found() {
        for (typed, expected) in [
            ("sync", "'drive sync'"),
            ("login", "'store login'"),
            ("statsu", "'status'"),
            ("opn", "'open'"),
            ("create", "'drive create'"),
        ] {
            let error = Arguments::try_parse_from(["holdall", typed, "work"]).expect_err("there is none");
            let text = where_it_is(error).to_string();
            assert!(text.contains(expected), "{typed}: {text}");
        }
        let error = Arguments::try_parse_from(["holdall", "frobnicate"]).expect_err("there is none");
        assert!(!where_it_is(error).to_string().contains("tip"), "nothing is like it");
    }
}
