//! Which polkit action an operation needs, and whether polkit allows it.

use crate::Privileged;
use std::collections::HashMap;
use zbus::zvariant::Value;
use zbus::{Connection, Proxy};

/// An action; packaging/polkit describes it to administrators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// A new block device.
    Attach,
    /// To make, repair or mount a file system.
    Mount,
    /// To work on one's own devices and mounts, and to detach and unmount them. This must be possible after the session has ended.
    Manage,
}

impl Action {
    pub(super) fn of(operation: &Privileged) -> Self {
        match operation {
            Privileged::LoadNbd | Privileged::NbdAttach { .. } | Privileged::LoopAttach { .. } => {
                Action::Attach
            }
            Privileged::MakeFileSystem { .. }
            | Privileged::Check { .. }
            | Privileged::GrowUnmounted { .. }
            | Privileged::Mount { .. } => Action::Mount,
            Privileged::NbdReconfigure { .. }
            | Privileged::NbdDetach { .. }
            | Privileged::LoopResize { .. }
            | Privileged::LoopDetach { .. }
            | Privileged::Tune { .. }
            | Privileged::Probe { .. }
            | Privileged::Unmount { .. }
            | Privileged::Freeze { .. }
            | Privileged::Thaw { .. }
            | Privileged::ShutDown { .. }
            | Privileged::Grow { .. }
            | Privileged::PassThrough { .. } => Action::Manage,
        }
    }

    /// Its name in polkit.
    pub(super) fn id(self) -> &'static str {
        match self {
            Action::Attach => "org.holdall.attach",
            Action::Mount => "org.holdall.mount",
            Action::Manage => "org.holdall.manage",
        }
    }
}

/// Decides by polkit's answer. Without an answer users may still manage and detach what they have: while the computer shuts down, polkit
/// ends before the drives are closed. They still have to prove that it is theirs.
pub(super) fn decide(action: Action, answer: zbus::Result<bool>) -> zbus::Result<bool> {
    match (action, answer) {
        (Action::Manage, Err(_)) => Ok(true),
        (Action::Attach | Action::Mount | Action::Manage, answer) => answer,
    }
}

/// Whether polkit allows the action to the process behind the bus name. `may_ask`: an agent may ask for a password.
pub(super) async fn is_allowed(
    connection: &Connection,
    caller: &str,
    action: Action,
    may_ask: bool,
) -> zbus::Result<bool> {
    let authority = Proxy::new(
        connection,
        "org.freedesktop.PolicyKit1",
        "/org/freedesktop/PolicyKit1/Authority",
        "org.freedesktop.PolicyKit1.Authority",
    );
    // The bus knows which process that is; a process number may have been reused.
    let subject = ("system-bus-name", HashMap::from([("name", Value::from(caller))]));
    let details: HashMap<&str, &str> = HashMap::new();
    let arguments = (subject, action.id(), details, u32::from(may_ask), "");
    let (allowed, _, _): (bool, bool, HashMap<String, String>) =
        authority.await?.call("CheckAuthorization", &arguments).await?;
    Ok(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_polkit_drives_can_close_but_not_open() {
        let silence = || Err(zbus::Error::Failure("no polkit".into()));
        assert!(decide(Action::Attach, silence()).is_err() && decide(Action::Mount, silence()).is_err());
        assert!(matches!(decide(Action::Manage, silence()), Ok(true)));
        for action in [Action::Attach, Action::Mount, Action::Manage] {
            assert!(matches!(decide(action, Ok(false)), Ok(false)));
            assert!(matches!(decide(action, Ok(true)), Ok(true)));
        }
    }

    #[test]
    fn every_action_is_described_to_administrators() {
        let policy = include_str!("../../../packaging/polkit/org.holdall.policy");
        for action in [Action::Attach, Action::Mount, Action::Manage] {
            assert!(policy.contains(&format!("<action id=\"{}\">", action.id())), "{action:?}");
        }
        assert_eq!(policy.matches("<action id=").count(), 3);
    }
}
