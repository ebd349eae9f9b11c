//! Trials of stores: before anything is entrusted to a store, and again when a drive on it is opened.

use super::Stores;
use crate::api::{Failure, StoreFinding, Unit};
use crate::daemon::failure;
use crate::daemon::work::Work;
use holdall_core::store::credentials::Credentials;
use holdall_core::store::meter::Meter;
use holdall_core::store::probe::{Effort, Race, Report, probe};
use holdall_core::store::url::StoreUrl;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How often the progress is reported.
const PROGRESS_EVERY: Duration = Duration::from_millis(200);

/// Clocks that differ by less count as equal: answers are not more exact.
const CLOCKS_AGREE: Duration = Duration::from_secs(2);
/// Servers refuse signatures that differ by more (S3's RequestTimeTooSkewed).
const CLOCK_REFUSED: Duration = Duration::from_mins(15);

/// Tries the store at `url`, reporting the progress if `work` is given; `meter` counts the requests.
pub async fn of(
    stores: &Stores,
    url: &StoreUrl,
    (credentials, meter): (&Credentials, &Meter),
    effort: Effort,
    work: Option<&Work>,
) -> Result<Report, Failure> {
    // Two connections that share nothing: each must see what the other stores.
    let connections = [stores.reach(url, credentials, meter)?, stores.reach(url, credentials, meter)?];
    let before = meter.requests().total();
    let tell = async {
        loop {
            if let Some(work) = work {
                work.progress("Testing the store", meter.requests().total() - before, 0, Unit::Items);
            }
            tokio::time::sleep(PROGRESS_EVERY).await;
        }
    };
    let probed = tokio::select! { biased;
        probed = probe([&*connections[0], &*connections[1]], effort, &now_ms) => probed,
        () = tell => unreachable!("reporting progress never ends"),
    };
    probed.map_err(|error| failure::at_new_store(failure::new_store(&error), url))
}

/// The results, for people.
pub fn findings(report: &Report, url: &StoreUrl) -> Vec<StoreFinding> {
    let mut findings = vec![rights(report)];
    if !(report.rights.read && report.rights.write && report.rights.list) {
        return findings;
    }
    let mut found = |subject: &str, ok: bool, yes: &str, no: &str| {
        let detail = if ok { yes } else { no }.to_owned();
        findings.push(StoreFinding { subject: subject.to_owned(), ok, detail });
    };
    let seen = report.seen;
    let current = seen.created && seen.replaced && (seen.deleted || !report.rights.delete);
    found("other computers see changes", current, "at once", "late");
    found("listings", seen.listed, "always current", "late");
    if let Some(names) = report.names {
        let (all, some) = (
            format!("all of {} names are shown", names.put),
            format!("{} of {} names are shown, and the rest is left out silently", names.shown, names.put),
        );
        found("long listings", report.lists_whole(), &all, &some);
    }
    found("parts of objects", report.ranges_exact, "exact", "wrong data is returned");
    let races = &report.races;
    let mut raced = |subject: &str, refused: bool, race: &Option<Race>| {
        if let Some(race) = race {
            let ok = refused && !race.overwritten && race.winners.iter().all(|winners| *winners <= 1);
            findings.push(StoreFinding { subject: subject.to_owned(), ok, detail: outcome(race, refused) });
        }
    };
    raced("a new name has one winner", report.refused.absent, &races.absent);
    raced("a version has one successor", report.refused.matches, &races.matches);
    raced("a claim has one owner", report.refused.claim, &races.claim);
    let (ok, way) = way(url, report.tls.as_deref());
    let round_trip = Duration::from_micros(report.latency_us).as_secs_f64() * 1000.0;
    let detail = format!("{round_trip:.1} ms round trip{way}");
    findings.push(StoreFinding { subject: "connection".to_owned(), ok, detail });
    if let Some(ahead_ms) = report.clock_ahead_ms {
        let (ok, detail) = clock(ahead_ms);
        findings.push(StoreFinding { subject: "clock".to_owned(), ok, detail });
    }
    if let Some(bytes) = report.free_bytes {
        let detail = format!("{} free", crate::sizes::format_bytes(bytes));
        findings.push(StoreFinding { subject: "free space".to_owned(), ok: bytes > 0, detail });
    }
    findings
}

fn rights(report: &Report) -> StoreFinding {
    let rights = report.rights;
    let all =
        [(rights.read, "read"), (rights.write, "write"), (rights.list, "list"), (rights.delete, "delete")];
    let words = |allowed: bool| {
        let words: Vec<_> = all.iter().filter(|(may, _)| *may == allowed).map(|(_, word)| *word).collect();
        words.join(", ")
    };
    let ok = all.iter().all(|(may, _)| *may);
    let detail = match ok {
        true => format!("may {}", words(true)),
        false => format!("may not {}", words(false)),
    };
    StoreFinding { subject: "credentials".to_owned(), ok, detail }
}

/// Whether the connection to the store is private, and what to say about it.
fn way(url: &StoreUrl, tls: Option<&str>) -> (bool, String) {
    match (url, tls) {
        (StoreUrl::File(_), _) => (true, String::new()),
        (_, Some(tls)) => (true, format!(", {tls}")),
        (_, None) => (false, ", not encrypted in transit".to_owned()),
    }
}

/// Whether the store's clock and this computer's agree, and how they differ.
fn clock(ahead_ms: i64) -> (bool, String) {
    let apart = Duration::from_millis(ahead_ms.unsigned_abs());
    let which = if ahead_ms > 0 { "ahead of" } else { "behind" };
    match apart {
        // Stores report whole seconds.
        apart if apart <= CLOCKS_AGREE => (true, "the same time as this computer".to_owned()),
        apart => {
            let by = crate::sizes::format_duration(apart);
            (apart < CLOCK_REFUSED, format!("{by} {which} this computer's"))
        }
    }
}

fn outcome(race: &Race, refused: bool) -> String {
    let (rounds, ways) = (race.winners.len(), race.ways);
    let most = race.winners.iter().max().copied().unwrap_or_default();
    let how = match (refused, race.overwritten, most) {
        (false, ..) => format!("the condition is ignored, in {rounds} races of {ways}"),
        (true, true, _) => format!("the winner was overwritten in a race of {ways}"),
        (true, false, 0 | 1) => format!("in each of {rounds} races of {ways}"),
        (true, false, most) => format!("up to {most} of {ways} won a race"),
    };
    if race.winners.is_empty() { how } else { format!("{how}; winners: {}", winners(race)) }
}

/// The winners of each race, in the order of the races.
fn winners(race: &Race) -> String {
    race.winners.iter().map(u32::to_string).collect::<Vec<_>>().join(" ")
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::limits::Limits;
    use crate::daemon::secrets::SecretStore;

    #[tokio::test]
    async fn a_local_directory_passes_the_trial() {
        let dir = tempfile::tempdir().unwrap();
        let url = StoreUrl::File(dir.path().to_owned());
        let state = tempfile::tempdir().unwrap();
        let stores = Stores::new(SecretStore::new(state.path()), Limits::load(state.path()));
        let report =
            of(&stores, &url, (&Credentials::None, &Meter::default()), Effort::QUICK, None).await.unwrap();
        let findings = findings(&report, &url);
        assert!(findings.iter().all(|finding| finding.ok), "{findings:?}");
        assert!(findings.iter().any(|finding| finding.detail.contains("races of")), "{findings:?}");
    }

    #[test]
    fn a_race_is_reported_as_it_went() {
        let race = |winners: &[u32]| Race { ways: 12, winners: winners.to_vec(), overwritten: false };
        assert_eq!(outcome(&race(&[1, 1, 0]), true), "in each of 3 races of 12; winners: 1 1 0");
        assert_eq!(outcome(&race(&[1, 7, 1]), true), "up to 7 of 12 won a race; winners: 1 7 1");
        assert_eq!(
            outcome(&race(&[12, 12, 11]), false),
            "the condition is ignored, in 3 races of 12; winners: 12 12 11"
        );
        let overwritten = Race { overwritten: true, ..race(&[1, 1]) };
        assert_eq!(outcome(&overwritten, true), "the winner was overwritten in a race of 12; winners: 1 1");
    }

    #[test]
    fn an_unencrypted_connection_is_a_warning() {
        let url = |text: &str| StoreUrl::parse(text).unwrap();
        let plain = (false, ", not encrypted in transit".to_owned());
        assert_eq!(way(&url("http://nas.example.org/dav/"), None), plain);
        assert_eq!(way(&url("https://h/dav/"), Some("TLS 1.3")), (true, ", TLS 1.3".to_owned()));
        assert_eq!(way(&url("file:///media/disk"), None), (true, String::new()));
    }

    #[test]
    fn clock_differences_are_shown_and_large_ones_are_problems() {
        assert_eq!(clock(-1_900), (true, "the same time as this computer".to_owned()));
        assert_eq!(clock(-40_000), (true, "40 s behind this computer's".to_owned()));
        assert_eq!(clock(20 * 60_000), (false, "20 min ahead of this computer's".to_owned()));
    }
}
