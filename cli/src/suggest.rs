//! Suggests the full command if its group was left out: for `holdall sync work` it is `holdall drive sync work`, and so it is for
//! `holdall snyc work`.

use crate::args::Arguments;
use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use holdall_client::nearest::nearest;

/// The same error, with the commands of that name in the groups as suggestions.
pub fn where_it_is(mut error: clap::Error) -> clap::Error {
    if error.kind() != ErrorKind::InvalidSubcommand {
        return error;
    }
    let in_groups = match error.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(typed)) => match in_groups(typed) {
            // Nothing at the top is like it either.
            none if none.is_empty() && error.get(ContextKind::SuggestedSubcommand).is_none() => {
                near_in_groups(typed)
            }
            found => found,
        },
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

/// The commands in groups that may be meant by a name that was typed wrong.
fn near_in_groups(typed: &str) -> Vec<String> {
    let holdall = Arguments::command();
    let groups = holdall.get_subcommands().filter(|group| !group.is_hide_set());
    let found = groups.filter_map(|group| {
        let names: Vec<_> = group.get_subcommands().map(|command| command.get_name().to_owned()).collect();
        nearest(typed, &names).map(|near| format!("{} {near}", group.get_name()))
    });
    found.collect()
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
            ("snyc", "'drive sync'"),
            ("snapshto", "'drive snapshot'"),
            ("lgoout", "'store logout'"),
        ] {
            let error = Arguments::try_parse_from(["holdall", typed, "work"]).expect_err("there is none");
            let text = where_it_is(error).to_string();
            assert!(text.contains(expected), "{typed}: {text}");
        }
        let error = Arguments::try_parse_from(["holdall", "frobnicate"]).expect_err("there is none");
        assert!(!where_it_is(error).to_string().contains("tip"), "nothing is like it");
    }
}
