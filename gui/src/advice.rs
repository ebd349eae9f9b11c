//! What to do about a failure, where there are buttons and pages instead of commands.
//!
//! Every action has a sentence in the catalogue and a page on which to do it. An action that no page can do shows its command, to be
//! copied.

use crate::texts::{said, text};
use holdall_api::{Action, Failure, Finding, FolderCommand, Screen, Step};

/// The same failure, with the steps to take on a page.
pub fn shown(failure: Failure) -> Failure {
    let on_screen = match failure.on_screen.is_empty() {
        true => steps(&failure.actions).into(),
        false => failure.on_screen,
    };
    Failure { on_screen, ..failure }
}

/// The same for a finding of a check of this computer.
pub fn shown_finding(finding: Finding) -> Finding {
    Finding { on_screen: steps(&finding.actions), ..finding }
}

/// The steps to take on a page.
pub fn steps(actions: &[Action]) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for step in actions.iter().map(step) {
        // Two actions can be the same step on a page.
        if !steps.contains(&step) {
            steps.push(step);
        }
    }
    steps
}

/// The steps as one text.
pub fn words(steps: &[Step]) -> Option<String> {
    let words: Vec<_> = steps.iter().map(|step| &*step.text).collect();
    (!words.is_empty()).then(|| words.join(" "))
}

/// One action as a step on a page.
pub fn step(action: &Action) -> Step {
    let by_command = |key: &str| Step {
        text: text(key),
        to: None,
        command: Some(action.commands().join(" && ")).filter(|command| !command.is_empty()),
    };
    let at = |key: &str, to: Screen| Step { text: text(key), to: Some(to), command: None };
    let on_drive = |key: &str| {
        let name = action.drive().map(str::to_owned);
        at(key, name.map_or(Screen::Drives, |name| Screen::Drive { name }))
    };
    let kept = |key: &str| at(key, Screen::Keep { name: action.drive().map(str::to_owned) });
    let set = |key: &str| at(key, Screen::Settings);
    let only = |key: &str| Step { text: text(key), ..Step::default() };
    let of_store = |key: &str, store: &Option<String>| {
        let unknown = text("act.its_address");
        let text = said(key, &[("store", store.as_deref().unwrap_or(&unknown))]);
        Step { text, ..Step::default() }
    };
    match action {
        Action::Tell { text } => Step { text: text.clone(), ..Step::default() },
        Action::Run { as_root: false, .. } => by_command("act.run"),
        Action::Run { as_root: true, .. } => by_command("act.run.root"),
        Action::Open { .. } => on_drive("act.open"),
        Action::OpenReadOnly { .. } => on_drive("act.open.read_only"),
        Action::TakeOver { .. } => on_drive("act.take_over"),
        Action::SetAside { .. } => on_drive("act.set_aside"),
        Action::Close { .. } => on_drive("act.close"),
        Action::EndServing { .. } => by_command("act.end_serving"),
        Action::Serve { .. } => by_command("act.serve"),
        Action::Check { .. } => on_drive("act.check"),
        Action::Resume { .. } => on_drive("act.resume"),
        Action::Pause { .. } => on_drive("act.pause"),
        Action::Sync { .. } => on_drive("act.sync"),
        Action::Forks { .. } => at("act.forks", Screen::Forks),
        Action::Remove { .. } => on_drive("act.remove"),
        Action::DiscardUnsent { .. } => on_drive("act.discard_unsent"),
        Action::Add { .. } => at("act.add", Screen::Add),
        Action::Follow { .. } => on_drive("act.follow"),
        Action::Create { .. } => at("act.create", Screen::Add),
        Action::ListDrives => at("act.drives", Screen::Drives),
        Action::LogIn { .. } => set("act.log_in"),
        Action::ListLogins => set("act.logins"),
        Action::TestStore { .. } => only("act.test_store"),
        Action::UnlockKeyring => only("act.keyring"),
        Action::RestoreFamily { store } => of_store("act.restore_family", store),
        Action::DistrustStore { store } => of_store("act.distrust_store", store),
        Action::RestoreStore { store } => of_store("act.restore_store", store),
        Action::AskOperator => only("act.ask_operator"),
        Action::Status => at("act.status", Screen::Drives),
        Action::DriveStatus { .. } => on_drive("act.drive_status"),
        Action::Pins { .. } => kept("act.pins"),
        Action::Unpin { .. } | Action::UnpinDrive { .. } => kept("act.unpin"),
        Action::PinDrive { .. } => kept("act.pin_drive"),
        Action::GrowCache { .. } => set("act.grow_cache"),
        Action::Limits => set("act.limits"),
        Action::Indexers => set("act.indexers"),
        Action::WaitLonger => only("act.wait_longer"),
        Action::Folder { command, .. } => by_command(match command {
            FolderCommand::List => "act.folder.list",
            FolderCommand::Open => "act.folder.open",
            FolderCommand::OpenNew => "act.folder.open_new",
            FolderCommand::Close => "act.folder.close",
            FolderCommand::Status => "act.folder.status",
            FolderCommand::Sync => "act.folder.sync",
            FolderCommand::Queue => "act.folder.queue",
            FolderCommand::Resume => "act.folder.resume",
            FolderCommand::Conflicts => "act.folder.conflicts",
            FolderCommand::Deletions => "act.folder.deletions",
            FolderCommand::Forget => "act.folder.forget",
            FolderCommand::DiscardUnsent => "act.folder.discard_unsent",
        }),
        Action::Snapshots { .. } => on_drive("act.snapshots"),
        Action::Grow { .. } => on_drive("act.grow"),
        Action::Replicas { .. } => by_command("act.replicas"),
        Action::AwaitReplica { .. } => by_command("act.await_replica"),
        Action::MoveStore { .. } => by_command("act.move_store"),
        Action::Promote { .. } => by_command("act.promote"),
        Action::PromoteAgain { .. } => by_command("act.promote.again"),
        Action::PromoteWithLoss { .. } => by_command("act.promote.loss"),
        Action::Doctor => set("act.doctor"),
        Action::Repair => set("act.repair"),
        Action::Restart => by_command("act.restart"),
        Action::Web => by_command("act.web"),
        Action::Help { .. } => only("act.help"),
        Action::Proxy => set("act.proxy"),
        Action::ProxyLogin => only("act.proxy.login"),
        Action::GiveSecret => only("act.give_secret"),
        Action::LeaveOutSecret => only("act.leave_out_secret"),
        Action::AcceptWeakStore => only("act.weak_store"),
        Action::AcceptLoss => only("act.accept_loss"),
        Action::AcceptSecond => only("act.accept_second"),
        Action::AcceptUnsentLoss => only("act.accept_unsent_loss"),
        Action::AcceptSyncedFolder => only("act.accept_synced"),
        Action::UseSubdirectory { store, .. } => of_store("act.use_subdirectory", store),
        Action::AcceptOthers => only("act.accept_others"),
        Action::KeepUntried => only("act.keep_untried"),
        Action::AcceptExposure => only("act.accept_exposure"),
        Action::OpenWritable { .. } => on_drive("act.open.writable"),
        Action::ChooseDrive { names } => {
            let names = names.iter().map(|name| format!("“{name}”")).collect::<Vec<_>>().join(", ");
            Step { text: said("act.choose_drive", &[("names", &names)]), ..Step::default() }
        }
        Action::UseKept => set("act.use_kept"),
        Action::ChooseMountPoint => only("act.choose_mount_point"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const NAMES: [&str; 4] = ["myURL", "NAME", "{store}", "it's `a` $HOME {drive}"];
    const STORES: [&str; 2] = ["file:///it's a disk/NAME", "s3://b/{drive} URL"];

    /// The words of a command, as a shell splits them.
    fn words_of(command: &str) -> Vec<String> {
        let (mut words, mut word, mut chars) = (Vec::new(), String::new(), command.chars());
        while let Some(c) = chars.next() {
            match c {
                '\'' => word.extend(chars.by_ref().take_while(|&c| c != '\'')),
                '\\' => word.extend(chars.next()),
                ' ' => words.push(std::mem::take(&mut word)),
                c => {
                    assert!(c.is_ascii_alphanumeric() || ":/._-%+@~".contains(c), "{c:?} in {command}");
                    word.push(c);
                }
            }
        }
        words.push(word);
        words
    }

    #[test]
    fn every_action_renders_on_a_terminal_and_on_a_page() {
        for (name, store) in NAMES.iter().flat_map(|name| STORES.map(|store| (*name, store))) {
            for action in Action::samples().into_iter().map(|action| action.about(Some(name), Some(store))) {
                let sentence = action.sentence();
                assert!(sentence.ends_with(['.', '?']), "{action:?}: {sentence}");
                for command in action.commands() {
                    assert!(sentence.contains(&format!("`{command}`")), "{action:?}: {sentence}");
                    let words = words_of(&command);
                    if action.drive().is_some() {
                        assert!(words.iter().any(|word| word == name), "{action:?}: {command}");
                    }
                    if matches!(action, Action::LogIn { .. } | Action::TestStore { .. } | Action::Add { .. })
                    {
                        assert!(words.iter().any(|word| word == store), "{action:?}: {command}");
                    }
                }
                let step = step(&action);
                assert!(step.text.ends_with(['.', '?', ':']), "{action:?}: {}", step.text);
                assert_eq!(step.text.ends_with(':'), step.command.is_some(), "{action:?}: {}", step.text);
                if let Some(Screen::Drive { name: shown }) = &step.to {
                    assert_eq!(shown, name, "{action:?}");
                }
                let is_ours = !matches!(action, Action::Tell { .. });
                let text = step.text.replace(name, "").replace(store, "");
                assert!(!(is_ours && text.contains("holdall ")), "{action:?}: {text}");
                assert!(!(is_ours && text.contains("--")), "{action:?}: {text}");
            }
        }
    }

    #[test]
    fn the_samples_are_all_actions() {
        let schema = schemars::schema_for!(Action).to_value();
        let kinds: BTreeSet<_> = schema["oneOf"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["properties"]["do"]["const"].as_str().unwrap().to_owned())
            .collect();
        let kind = |action: &Action| serde_json::to_value(action).unwrap()["do"].as_str().unwrap().to_owned();
        assert_eq!(Action::samples().iter().map(kind).collect::<BTreeSet<_>>(), kinds);
    }

    #[test]
    fn about_fills_only_fields_that_were_unknown() {
        let failure = Failure::new(
            holdall_api::Code::Held,
            "NAME at URL",
            "",
            [
                Action::tell("URL and NAME stay."),
                Action::TakeOver { drive: None },
                Action::LogIn { store: None },
                Action::Open { drive: Some("other".to_owned()) },
            ],
        );
        let failure = failure.about(Some("myURL"), Some("file:///it's a disk"));
        assert_eq!(
            failure.action,
            "URL and NAME stay. If that computer is gone, run `holdall drive open myURL --take-over`. \
             Log in: run `holdall store login 'file:///it'\\''s a disk'`. Open the drive: run `holdall drive open other`."
        );
        assert_eq!(failure.message, "NAME at URL");
    }

    #[test]
    fn unknown_words_appear_as_in_the_help() {
        let login = Action::LogIn { store: None };
        assert_eq!(login.sentence(), "Log in: run `holdall store login URL`.");
        assert_eq!(step(&Action::Open { drive: None }).to, Some(Screen::Drives));
    }

    #[test]
    fn equal_steps_appear_once() {
        let unpin = |drive: &str| Action::UnpinDrive { drive: Some(drive.to_owned()) };
        assert_eq!(steps(&[unpin("a"), unpin("a")]).len(), 1);
    }
}
