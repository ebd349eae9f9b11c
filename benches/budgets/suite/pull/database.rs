//! Point queries by an index in a database of which nothing is here: one program asks for 20 rows, one after another.

use super::super::links::{link, rotated, row};
use super::super::record::Row;
use super::super::{Failure, Plan};
use super::ROUND_TRIPS_MS;
use super::side::{Cold, Side, unless_failed};
use super::world::{DATABASE, World, run};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

const QUERIES: u64 = 20;
const PAGE_BYTES: u64 = 4096;
/// Links by their names in keys, in Mbit/s.
const LINKS: [(&str, Option<f64>); 2] = [("free", None), ("100", Some(100.0))];

/// The queries, and how many pages they touch.
struct Queries {
    sql: String,
    pages: u64,
}

pub fn measure(plan: &Plan, world: &World) -> Result<Vec<Row>, Failure> {
    let queries = Queries::of(&world.local().join(DATABASE), plan)?;
    eprintln!("  {QUERIES} queries touch {} pages", queries.pages);
    let mut rows = Vec::new();
    for (name, mbit) in LINKS {
        for rtt_ms in ROUND_TRIPS_MS {
            rows.extend(behind(plan, world, &queries, (name, mbit), rtt_ms)?);
        }
    }
    Ok(rows)
}

impl Queries {
    /// Queries for rows all over the table, no two pairs of them at one distance: those would be predicted.
    fn of(database: &Path, plan: &Plan) -> Result<Self, Failure> {
        let scattered = |query: u64| (query * query * 7_368_787 + query * 104_729) % plan.database_rows + 1;
        let ids: Vec<_> = (0..QUERIES).map(|query| scattered(query).to_string()).collect();
        let mut sql = String::new();
        for id in ids {
            let key = ask(database, &format!("select hex(key) from thing where id = {id};"))?;
            sql.push_str(&format!("select length(value) from thing where key = x'{}';\n", key.trim()));
        }
        // Pages that SQLite reads into an empty cache that holds all of it. Its counters start again with each query.
        let said =
            run(Command::new("sqlite3").args(["-readonly", "-cmd", ".stats on"]).arg(database).arg(&sql))?;
        let misses = said.lines().filter_map(|line| line.trim().strip_prefix("Page cache misses:"));
        let pages = misses.filter_map(|count| count.trim().parse::<u64>().ok()).sum();
        if pages < 3 {
            return Err(format!("sqlite3 does not tell how many pages it reads: {said}").into());
        }
        Ok(Self { sql, pages })
    }
}

fn behind(
    plan: &Plan,
    world: &World,
    queries: &Queries,
    (link_name, mbit): (&str, Option<f64>),
    rtt_ms: u64,
) -> Result<Vec<Row>, Failure> {
    let mut figures = [const { Vec::new() }; Side::ALL.len()];
    for round in 0..plan.link_rounds {
        for (at, side) in rotated(&Side::ALL, round) {
            let name = format!("database-{link_name}-{rtt_ms}-{round}");
            let cold = || {
                let cold = Cold::mount(world, *side, &name, link(plan, rtt_ms, mbit))?;
                let asked = ask_cold(&cold, queries)?;
                cold.end()?;
                Ok(asked)
            };
            let Some(asked) = unless_failed(*side, cold())? else { continue };
            eprintln!("  {name} {side:?}: {:.2} s, {:.2} bytes for each", asked.seconds, asked.received);
            figures[at].push(asked);
        }
    }
    let [ours, peers @ ..] = figures;
    let key = format!("{link_name}-{rtt_ms}");
    let all = |side: &[Asked], what: fn(&Asked) -> f64| side.iter().map(what).collect::<Vec<_>>();
    let mut rows = vec![row(format!("query-bytes-{key}"), all(&ours, |asked| asked.fetched), Vec::new())];
    for (peer, theirs) in Side::PEERS.iter().zip(peers) {
        let beside = |name: String, what| row(name, all(&ours, what), all(&theirs, what));
        rows.push(beside(format!("query-{key}-{}", peer.name()), |asked| asked.seconds));
        rows.push(beside(format!("query-bytes-{key}-{}", peer.name()), |asked| asked.received));
    }
    Ok(rows)
}

/// The cost of 20 queries. Bytes are per byte of the pages that are touched.
struct Asked {
    seconds: f64,
    /// Bytes of objects, without HTTP headers; for a peer, which does not report this, all bytes received.
    fetched: f64,
    /// All bytes received over the link.
    received: f64,
}

fn ask_cold(cold: &Cold, queries: &Queries) -> Result<Asked, Failure> {
    let database = cold.root().join(DATABASE);
    database.metadata()?;
    cold.settle()?;
    let (before, told) = (cold.received_bytes(), cold.fetched()?);
    let begun = Instant::now();
    let said = ask(&database, &queries.sql)?;
    let seconds = begun.elapsed().as_secs_f64();
    if said.lines().filter(|line| *line == "400").count() as u64 != QUERIES {
        return Err(format!("the queries find something else: {said}").into());
    }
    // Bytes that are fetched in vain come later.
    cold.settle()?;
    let received = cold.received_bytes() - before;
    let mut fetched = received;
    if let Some(((bytes, gets), (bytes_before, gets_before))) = cold.fetched()?.zip(told) {
        fetched = bytes - bytes_before;
        eprintln!("  {} requests, {fetched} bytes of objects, {received} over the link", gets - gets_before);
    }
    let each = |bytes: u64| bytes as f64 / (queries.pages * PAGE_BYTES) as f64;
    Ok(Asked { seconds, fetched: each(fetched), received: each(received) })
}

fn ask(database: &Path, sql: &str) -> Result<String, Failure> {
    run(Command::new("sqlite3").arg("-readonly").arg(database).arg(sql))
}
