//! What to do about a failure, where there are buttons and places instead of commands.

use crate::texts::text;
use holdall_api::{Code, Failure, Way};

/// The same failure, with what to do about it on a screen where its action names a command.
pub fn shown(failure: Failure) -> Failure {
    let on_screen = match failure.way {
        _ if failure.on_screen.is_some() => failure.on_screen,
        Some(way) => Some(by(way)),
        None => names_command(&failure.action).then(|| of(failure.code)),
    };
    Failure { on_screen, ..failure }
}

/// Whether a text tells to run something of Holdall's, or with an option.
pub fn names_command(text: &str) -> bool {
    let is_before_a_word = |mark: &str| {
        let mut ends = text.match_indices(mark).map(|(at, _)| &text[at + mark.len()..]);
        ends.any(|rest| rest.starts_with(|c: char| c.is_ascii_lowercase()))
    };
    is_before_a_word("holdall ") || is_before_a_word("--")
}

/// What helps, on a screen.
pub fn by(way: Way) -> String {
    text(match way {
        Way::Repair => "act.repair",
        Way::Look => "act.look",
        Way::Wait => "act.wait",
        Way::Anew => "act.anew",
        Way::GiveUp => "act.give_up",
        Way::Aside => "act.aside",
        Way::Untold => "act.untold",
        Way::Emptied => "act.emptied",
        Way::Keyring => "act.keyring",
        Way::Demoted => "act.demoted",
        Way::OtherStore => "act.other_store",
        Way::Less => "act.less",
        Way::PauseEach => "act.pause_each",
        Way::Cache => "act.cache",
        Way::Kept => "act.kept",
        Way::Indexers => "act.indexers",
        Way::Check => "act.corrupt",
    })
}

fn of(code: Code) -> String {
    text(match code {
        Code::Failed => "act.failed",
        Code::Usage => "act.usage",
        Code::NotFound => "act.not_found",
        Code::Gone => "act.gone",
        Code::Exists => "act.exists",
        Code::Held => "act.held",
        Code::Offline => "act.offline",
        Code::Credentials => "act.credentials",
        Code::PassphraseNeeded | Code::PassphraseWrong => "act.passphrase",
        Code::Corrupt => "act.corrupt",
        Code::Diverged => "act.diverged",
        Code::Newer => "act.newer",
        Code::WeakStore => "act.weak_store",
        Code::Unsent => "act.unsent",
        Code::Conflict => "act.conflict",
        Code::Paused => "act.paused",
        Code::State => "act.state",
        Code::Privileges => "act.privileges",
        Code::Full => "act.full",
        Code::NoDaemon => "act.no_daemon",
        Code::Interrupted => "act.interrupted",
        Code::Session | Code::Foreign => "act.session",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_action_on_a_screen_names_a_command() {
        for code in Code::ALL {
            for action in ["Run holdall drive open work.", "Give --yes if that will do."] {
                let failure = shown(Failure::new(code, "", "", action));
                let on_screen = failure.on_screen.unwrap();
                assert!(!names_command(&on_screen), "{code:?}: {on_screen}");
            }
        }
        for way in Way::ALL {
            let failure = shown(Failure::new(Code::State, "", "", "Run `holdall doctor --repair`.").by(way));
            assert!(failure.on_screen.is_some_and(|action| !names_command(&action)), "{way:?}");
        }
    }

    #[test]
    fn what_helps_everywhere_stays() {
        for action in
            ["Try again.", "Is another holdalld running?", "See why with journalctl -u holdall-helper."]
        {
            assert_eq!(shown(Failure::new(Code::State, "", "", action)).on_screen, None, "{action}");
        }
    }
}
