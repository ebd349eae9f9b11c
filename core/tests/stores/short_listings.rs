//! Servers that stop listing after a number of names and do not say so. The listings of a drive that uses claims stay so short
//! that this does no harm.

use crate::place::{self, Place, close, push, read, write};
use holdall_servers::{odd_dav, odd_s3};

const MACHINES: u128 = 3;
/// The names in one listing.
const LISTED: usize = 45;

async fn outlives(place: Place, openings: u128) {
    let drive = place.drive().await;
    for opening in 0..openings {
        let volume =
            drive.open(opening % MACHINES).await.unwrap_or_else(|error| panic!("opening {opening}: {error}"));
        if let Some(before) = opening.checked_sub(1) {
            assert_eq!(read(&volume, 1).await, [before as u8 + 1], "opening {opening}: an older version");
        }
        write(&volume, 0, opening as u8 + 1).await;
        push(&volume).await;
        close(volume).await;
    }
    let claims = place.connect().list("claim/").await.unwrap();
    assert!(claims.len() < 10, "{claims:?}");
}

#[test]
fn a_drive_survives_more_openings_than_an_s3_server_lists() {
    place::run(outlives(
        place::odd_s3(odd_s3::Habits { lists_at_most: Some(LISTED), ..Default::default() }),
        100,
    ));
}

#[test]
fn a_drive_survives_more_openings_than_a_webdav_server_lists() {
    place::run(outlives(
        place::odd_dav(odd_dav::Habits { lists_at_most: Some(LISTED), ..Default::default() }),
        100,
    ));
}
