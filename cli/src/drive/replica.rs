//! `holdall drive replica`.

use super::{Session, remove, route};
use crate::api::{AddReplica, Code, NamedReplica, Promote, Promoted, ReplicaState, ReplicaStatus, StoreMode};
use crate::args::drive::ReplicaCommand;
use crate::failure::CliError;
use crate::output::{Hue, Paint};
use crate::show::store::meaning;
use crate::show::table::Table;
use crate::show::when;
use crate::sizes::format_bytes;
use crate::store::given;
use crate::terminal;
use jiff::Zoned;

/// Runs a command on a drive's replicas.
pub async fn run(command: &ReplicaCommand, session: &Session<'_>) -> Result<(), CliError> {
    let Session { client, output, .. } = session;
    match command {
        ReplicaCommand::Add { drive, store, credentials } => {
            let credentials = given(credentials).read(store)?;
            let request = AddReplica { store: store.clone(), credentials };
            let value = client.post(&route(&drive.name, "replicas"), &request).await?;
            let words = |replica: &ReplicaStatus, _| added(&drive.name, store, replica);
            output.result(&value, words).map(drop)
        }
        ReplicaCommand::Remove { drive, store } => {
            let request = NamedReplica { store: store.clone() };
            let value = client.post(&route(&drive.name, "replicas/remove"), &request).await?;
            output.done(
                &value,
                &format!("{store} is no longer a replica of {}; its data stays there", drive.name),
            )
        }
        ReplicaCommand::Status(drive) => {
            let value = client.get(&route(&drive.name, "replicas")).await?;
            let words = |all: &Vec<ReplicaStatus>, paint| statuses(&drive.name, all, &Zoned::now(), paint);
            output.result(&value, words).map(drop)
        }
        ReplicaCommand::Promote { drive, store, accept_loss, yes } => {
            if !yes {
                remove::must_have_terminal(&format!(
                    "Promoting a replica of {} needs a confirmation.",
                    drive.name
                ))?;
                let question = format!(
                    "{store} becomes the store of {}. On other computers, you have to add the drive again from there. Continue?",
                    drive.name
                );
                if !terminal::confirm(&question).await? {
                    return Err(super::declined());
                }
            }
            let mut request = Promote {
                store: store.clone(),
                accept_loss: *accept_loss,
                weakest: if *yes { StoreMode::None } else { StoreMode::Claim },
            };
            let place = route(&drive.name, "replicas/promote");
            let value = match client.post(&place, &request).await {
                Err(CliError::Failed(failure)) if failure.code == Code::WeakStore && terminal::is_there() => {
                    terminal::say(&failure.message);
                    terminal::say(&format!("{}.", meaning(StoreMode::None)));
                    if !terminal::confirm("Promote it anyway?").await? {
                        return Err(super::declined());
                    }
                    request.weakest = StoreMode::None;
                    client.post(&place, &request).await?
                }
                result => result?,
            };
            let words = |done: &Promoted, _| promoted(&drive.name, done, &Zoned::now());
            output.result(&value, words).map(drop)
        }
    }
}

fn added(name: &str, store: &str, replica: &ReplicaStatus) -> String {
    let how = match &replica.reason {
        None if replica.state == ReplicaState::UpToDate => {
            format!("{store} has everything of {name}, and is updated while the drive is open")
        }
        None => {
            format!("{store} is a replica of {name}; the rest is copied while the drive is open")
        }
        Some(reason) => {
            format!("{store} is a replica of {name}, but cannot be updated now: {reason}")
        }
    };
    format!(
        "{how}\nIf you use {name} on other computers, add the replica there too: each computer updates the replicas that it knows"
    )
}

/// The state of a replica, in a line.
pub fn state(replica: &ReplicaStatus, paint: Paint) -> String {
    match replica.state {
        ReplicaState::UpToDate => paint.hue(Hue::Good, "✓ has everything that is uploaded"),
        ReplicaState::Behind => {
            let bytes = match replica.behind_bytes {
                0 => String::new(),
                bytes => format!("{} ", format_bytes(bytes)),
            };
            let why = replica.reason.as_ref().map_or(String::new(), |why| format!(": {why}"));
            paint.hue(Hue::Busy, &format!("{bytes}behind{why}"))
        }
        ReplicaState::Trouble => {
            paint.hue(Hue::Bad, &format!("! {}", replica.reason.as_deref().unwrap_or("it does not answer")))
        }
        ReplicaState::Closed => "updated while the drive is open".to_owned(),
    }
}

fn statuses(name: &str, all: &[ReplicaStatus], now: &Zoned, paint: Paint) -> String {
    if all.is_empty() {
        return format!("{name} has no replicas. Add one:\n  holdall drive replica add {name} URL");
    }
    let mut table = Table::new(["STORE", "STATE", "NEWEST VERSION"]);
    for replica in all {
        let newest = replica.committed_at.as_deref().map_or(String::new(), |at| when(at, now));
        table.row([replica.store.clone(), state(replica, paint), newest]);
    }
    table.to_string()
}

fn promoted(name: &str, done: &Promoted, now: &Zoned) -> String {
    let mut text = format!(
        "{name} is now in {}, in the version that was uploaded {}",
        done.store,
        when(&done.committed_at, now)
    );
    if done.lost_versions {
        text.push_str("\nThis version lacks later uploads. This computer's files of the drive were set aside, not deleted");
    }
    if !done.former_store_told {
        text.push_str(
            "\nThe former store did not answer. Holdall marks it as moved once it is back; until then, do not open the drive from there on any computer",
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_are_worded() {
        let replica = |state, reason: Option<&str>, behind_bytes| ReplicaStatus {
            store: "s3://b".to_owned(),
            state,
            reason: reason.map(str::to_owned),
            behind_bytes,
            version: None,
            committed_at: None,
        };
        let plain = |replica: &ReplicaStatus| state(replica, Paint(false));
        assert!(plain(&replica(ReplicaState::UpToDate, None, 0)).contains("everything"));
        assert!(plain(&replica(ReplicaState::Behind, None, 3 << 20)).contains("MiB behind"));
        assert!(plain(&replica(ReplicaState::Trouble, Some("it is full"), 0)).contains("it is full"));
    }
}
