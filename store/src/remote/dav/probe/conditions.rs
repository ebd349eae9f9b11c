//! Which conditions of a PUT are heeded, whether in a race too, and how versions are told apart.
//!
//! A server that checks a condition before it reads the body, and writes after, is found without luck: a body is held in the middle while
//! another PUT under the same condition goes through.

use super::held::{Held, LEN};
use super::{A_TIME, Bench};
use crate::StoreError;
use crate::dav::http::Answer;
use crate::remote::dav::place::{MTIME, is_done};
use crate::remote::dav::{Habits, meta, version};
use crate::remote::{RemoteError, Version};
use reqwest::StatusCode;
use reqwest::header::{HeaderName, IF_MATCH, IF_NONE_MATCH};
use std::time::Duration;

/// The file.
const FILE: &str = "conditions";
/// Two bodies of one length.
const BODIES: [&[u8]; 2] = [b"one", b"two"];
/// How long one of two writers waits for the other.
const PATIENCE: Duration = Duration::from_secs(1);

pub(super) struct Conditions {
    pub habits: Habits,
    pub holds_in_races: bool,
}

impl Bench<'_> {
    pub(super) async fn try_conditions(&self) -> Result<Conditions, RemoteError> {
        let seconds = meta::seconds(A_TIME).unwrap_or_default().to_string();
        let mtime = [(MTIME, seconds.as_str())];
        let mut habits = Habits::default();
        let begun = self.try_put(FILE, BODIES[0], &mtime).await?;
        if !is_done(&begun) {
            return Err(self.explain(begun).await);
        }
        begun.drain().await;
        let (_, resource) = self.look_for(FILE).await?;
        habits.obeys_mtime = resource.modified.map(meta::time) == Some(A_TIME);
        habits.heeds_absent = self.is_refused(&[(IF_NONE_MATCH, "*")]).await?;
        habits.heeds_matches = self.is_refused(&[(IF_MATCH, "\"nobody\"")]).await?;

        let mut versions = Vec::new();
        habits.tells_put_tags = true;
        for body in BODIES.iter().cycle().take(4) {
            // The same time as before, where the server obeys it: then only the ETag can differ.
            let answer = self.try_put(FILE, body, &mtime).await?;
            let tag = version::tag_of(&answer.headers);
            if !is_done(&answer) {
                return Err(self.explain(answer).await);
            }
            answer.drain().await;
            let (entry, _) = self.look_for(FILE).await?;
            habits.tells_put_tags &= !tag.is_empty() && tag == entry.version.tag;
            versions.push(entry.version);
        }
        habits.tells_versions = tells(&versions);

        let holds_in_races = habits.heeds_absent
            && habits.heeds_matches
            && habits.tells_versions
            && self.holds("race", &[(IF_NONE_MATCH, "*")]).await?
            && self.matches_hold(&versions).await?;
        Ok(Conditions { habits, holds_in_races })
    }

    /// Whether a PUT whose condition does not hold is refused.
    async fn is_refused(&self, condition: &[(HeaderName, &str)]) -> Result<bool, RemoteError> {
        let answer = self.try_put(FILE, BODIES[1], condition).await?;
        let is_refused = answer.status == StatusCode::PRECONDITION_FAILED;
        if !is_refused && !is_done(&answer) {
            return Err(self.explain(answer).await);
        }
        answer.drain().await;
        Ok(is_refused)
    }

    /// Whether `If-Match` holds in a race. A server that calls a new ETag weak takes it from nobody: then it does not.
    async fn matches_hold(&self, versions: &[Version]) -> Result<bool, RemoteError> {
        let Some(last) = versions.last().filter(|last| !last.tag.is_empty()) else { return Ok(false) };
        self.holds(FILE, &[(IF_MATCH, &version::quoted(last))]).await
    }

    /// Whether exactly one of two PUTs under one condition succeeds, and is what is there then.
    async fn holds(&self, leaf: &str, condition: &[(HeaderName, &str)]) -> Result<bool, RemoteError> {
        let held = Held::new(b'h');
        let other = async {
            let putting = self.try_put(leaf, BODIES[0], condition);
            tokio::pin!(putting);
            // A server may let the second one wait until the first has ended.
            tokio::select! {
                done = &mut putting => { held.let_go(); done }
                () = tokio::time::sleep(PATIENCE) => { held.let_go(); putting.await }
            }
        };
        let (first, second) = self.put_held(leaf, &held, condition, other).await;
        let second = match second {
            Ok(answer) => Ok(answer),
            Err(RemoteError::Store(error)) => Err(error),
            Err(error) => return Err(error),
        };
        let lens = match (took(first).await, took(second).await) {
            (true, false) => LEN,
            (false, true) => BODIES[0].len() as u64,
            (true, true) | (false, false) => return Ok(false),
        };
        Ok(self.look(leaf).await?.is_some_and(|(entry, _)| entry.version.len == lens))
    }
}

/// Whether a PUT succeeded. One that the server cut off did not.
async fn took(answer: Result<Answer, StoreError>) -> bool {
    let Ok(answer) = answer else { return false };
    let took = is_done(&answer);
    answer.drain().await;
    took
}

/// Whether versions written one right after the other have different ETags though they have the same time.
fn tells(versions: &[Version]) -> bool {
    let differ = versions.windows(2).all(|pair| pair[0].tag != pair[1].tag);
    differ && versions.windows(2).any(|pair| pair[0].written == pair[1].written)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remote::Time;

    #[test]
    fn tags_that_follow_the_clock_do_not_tell_versions_apart() {
        let versions = |pairs: &[(&str, i128)]| {
            let version =
                |(tag, at): &(&str, i128)| Version { tag: (*tag).into(), len: 3, written: Some(Time(*at)) };
            pairs.iter().map(version).collect::<Vec<_>>()
        };
        assert!(tells(&versions(&[("a", 1), ("b", 1), ("c", 2)])));
        assert!(!tells(&versions(&[("a", 1), ("a", 1), ("b", 2)])));
        assert!(!tells(&versions(&[("a", 1), ("b", 2), ("c", 3)])), "each may be a second's");
        assert!(!tells(&versions(&[("", 1), ("", 1)])));
    }
}
