//! A film whose index is at its end: its first frame, and a frame after each of ten seeks, each by a new player. Times are
//! beyond what the same takes from the local disk at the same moment.

use super::super::links::{link, rotated, row};
use super::super::record::{Row, median};
use super::super::{Failure, Plan};
use super::ROUND_TRIPS_MS;
use super::side::{Cold, Side, unless_failed};
use super::world::{FILM, World, run};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// Where frames are wanted, as fractions of the film.
const SEEKS: [f64; 10] = [0.5, 0.1, 0.8, 0.3, 0.95, 0.2, 0.65, 0.4, 0.75, 0.05];
/// A time that is no longer than the local disk's counts as this many ms.
const LEAST_MS: f64 = 0.1;

/// Times in ms: the first frame, and each of the ten seeks.
type Played = (f64, Vec<f64>);

pub fn measure(plan: &Plan, world: &World) -> Result<Vec<Row>, Failure> {
    ROUND_TRIPS_MS.iter().try_fold(Vec::new(), |mut rows, rtt_ms| {
        rows.extend(behind(plan, world, *rtt_ms)?);
        Ok(rows)
    })
}

fn behind(plan: &Plan, world: &World, rtt_ms: u64) -> Result<Vec<Row>, Failure> {
    let local = world.local().join(FILM);
    let mut figures = [const { (Vec::new(), Vec::new()) }; Side::ALL.len()];
    let mut worst = Vec::new();
    for round in 0..plan.link_rounds {
        for (at, side) in rotated(&Side::ALL, round) {
            let name = format!("film-{rtt_ms}-{round}");
            let played = unless_failed(*side, play_cold(plan, world, *side, &name, rtt_ms))?;
            let Some((first, seeks)) = played else { continue };
            // The best of three, with its pages in memory.
            let (mut local_first, mut local_seeks) = play(&local, plan)?;
            for _ in 0..2 {
                let (first, seeks) = play(&local, plan)?;
                local_first = local_first.min(first);
                local_seeks.iter_mut().zip(seeks).for_each(|(least, seek)| *least = least.min(seek));
            }
            let beyond: Vec<_> = seeks.iter().zip(&local_seeks).map(|(cold, local)| cold - local).collect();
            eprintln!("  {name} {side:?}: {first:.0} ms, local {local_first:.0}; seeks {beyond:.0?}");
            if *side == Side::Holdall {
                worst.push(beyond.iter().copied().fold(LEAST_MS, f64::max));
            }
            figures[at].0.push((first - local_first).max(LEAST_MS));
            figures[at].1.push(median(&beyond).max(LEAST_MS));
        }
    }
    let [ours, peers @ ..] = figures;
    let (first, seek) = (format!("film-first-{rtt_ms}"), format!("film-seek-{rtt_ms}"));
    let mut rows = vec![
        row(first.clone(), ours.0.clone(), Vec::new()),
        row(seek.clone(), ours.1.clone(), Vec::new()),
        row(format!("film-worst-{rtt_ms}"), worst, Vec::new()),
    ];
    for (peer, (of_first, of_seeks)) in Side::PEERS.iter().zip(peers) {
        rows.push(row(format!("{first}-{}", peer.name()), ours.0.clone(), of_first));
        rows.push(row(format!("{seek}-{}", peer.name()), ours.1.clone(), of_seeks));
    }
    Ok(rows)
}

fn play_cold(plan: &Plan, world: &World, side: Side, name: &str, rtt_ms: u64) -> Result<Played, Failure> {
    let cold = Cold::mount(world, side, name, link(plan, rtt_ms, None))?;
    let film = cold.root().join(FILM);
    // Makes its name known, and opens a connection.
    film.metadata()?;
    let before = cold.received_bytes();
    let played = play(&film, plan)?;
    eprintln!("  {name} {side:?}: {} KiB received", (cold.received_bytes() - before) >> 10);
    cold.end()?;
    Ok(played)
}

fn play(film: &Path, plan: &Plan) -> Result<Played, Failure> {
    let first = frame_ms(film, None)?;
    let seeks = SEEKS.iter().map(|part| frame_ms(film, Some(part * plan.film_seconds as f64)));
    Ok((first, seeks.collect::<Result<_, _>>()?))
}

/// The time until one frame is decoded, in ms.
fn frame_ms(film: &Path, at_second: Option<f64>) -> Result<f64, Failure> {
    let mut command = Command::new("ffmpeg");
    command.args(["-v", "error", "-nostdin"]);
    if let Some(second) = at_second {
        command.args(["-ss", &format!("{second:.2}")]);
    }
    command.arg("-i").arg(film).args(["-frames:v", "1", "-f", "null", "-"]);
    let begun = Instant::now();
    run(&mut command)?;
    Ok(begun.elapsed().as_secs_f64() * 1000.0)
}
