use super::*;
use crate::frame::HEAD_BYTES;
use tokio::io::{DuplexStream, duplex};
use uuid::Uuid;

const T: PublicKey = PublicKey::of_test(1);
const S: PublicKey = PublicKey::of_test(2);
const M: PublicKey = PublicKey::of_test(3);

fn ends(ours: PublicKey, theirs: PublicKey, connection: u8) -> Ends {
    Ends { ours, theirs, exporter: [connection; EXPORTED_BYTES] }
}

fn who(name: &str) -> Who {
    Who { uuid: Uuid::from_u128(u128::from(name.as_bytes()[0])), name: name.to_owned(), port: 0 }
}

fn typed(shows: &Pairing) -> Arc<Pairing> {
    Pairing::with(Code::parse(&shows.shown_code().unwrap()).unwrap())
}

fn guessed(shows: &Pairing) -> Arc<Pairing> {
    let wrong = if shows.code.digits() == b"000000000" { "111111111" } else { "000000000" };
    Pairing::with(Code::parse(wrong).unwrap())
}

/// One exchange of proofs on a connection of its own.
async fn prove(types: &Pairing, shows: &Pairing) -> (Result<()>, Result<()>) {
    let (mut here, mut there) = duplex(4096);
    let (of_types, of_shows) = (ends(T, S, 7), ends(S, T, 7));
    tokio::join!(types.prove(&mut here, &of_types), shows.prove(&mut there, &of_shows))
}

#[tokio::test(start_paused = true)]
async fn both_sides_learn_each_other_once_both_have_confirmed() {
    let shows = Pairing::show();
    let types = typed(&shows);
    let (mut here, mut there) = duplex(4096);
    let side = async |pairing: &Pairing, stream: &mut DuplexStream, ends: Ends, name: &str| {
        pairing.prove(stream, &ends).await?;
        pairing.agree(stream, &ends, &who(name), |_| Ok(())).await
    };
    let asked = async |pairing: &Pairing| {
        pairing.stages().wait_for(|stage| matches!(stage, Stage::Confirm { .. })).await.unwrap();
        pairing.decide(true);
    };
    let (one, other, (), ()) = tokio::join!(
        side(&types, &mut here, ends(T, S, 7), "lap"),
        side(&shows, &mut there, ends(S, T, 7), "desk"),
        asked(&types),
        asked(&shows),
    );
    assert_eq!((one.unwrap(), other.unwrap()), (who("desk"), who("lap")));
}

#[tokio::test(start_paused = true)]
async fn a_person_who_refuses_ends_it_on_both_sides() {
    let shows = Pairing::show();
    let types = typed(&shows);
    let (mut here, mut there) = duplex(4096);
    let side = async |pairing: &Pairing, stream: &mut DuplexStream, ends: Ends, yes: bool| {
        pairing.prove(stream, &ends).await.unwrap();
        let me = who(if yes { "lap" } else { "desk" });
        let agreeing = pairing.agree(stream, &ends, &me, |_| Ok(()));
        let deciding = async {
            pairing.stages().wait_for(|stage| matches!(stage, Stage::Confirm { .. })).await.unwrap();
            pairing.decide(yes);
        };
        tokio::join!(agreeing, deciding).0
    };
    let (one, other) = tokio::join!(
        side(&types, &mut here, ends(T, S, 7), true),
        side(&shows, &mut there, ends(S, T, 7), false),
    );
    assert!(matches!(one, Err(PeerError::Cancelled)) && matches!(other, Err(PeerError::Cancelled)));
}

#[tokio::test(start_paused = true)]
async fn a_wrong_code_is_refused_on_both_sides() {
    let shows = Pairing::show();
    let (one, other) = prove(&guessed(&shows), &shows).await;
    assert!(matches!(one, Err(PeerError::WrongCode)) && matches!(other, Err(PeerError::WrongCode)));
    assert!(matches!(shows.stage(), Stage::Showing { tries_left: 2 }));
}

#[tokio::test(start_paused = true)]
async fn a_fourth_guess_is_refused_even_if_it_is_right() {
    let shows = Pairing::show();
    for left in [2, 1, 0] {
        assert!(prove(&guessed(&shows), &shows).await.0.is_err());
        assert_eq!(shows.tries_left(), left);
    }
    let (one, other) = prove(&typed(&shows), &shows).await;
    assert!(one.is_err() && matches!(other, Err(PeerError::NoTriesLeft)));
}

#[tokio::test(start_paused = true)]
async fn guesses_on_many_connections_at_once_share_three_tries() {
    let shows = Pairing::show();
    let guesses = [(); 8].map(|()| guessed(&shows));
    let exchanges = guesses.iter().map(|guess| {
        let (guess, shows) = (guess.clone(), shows.clone());
        tokio::spawn(async move { prove(&guess, &shows).await.1 })
    });
    let mut compared = 0;
    for exchange in exchanges.collect::<Vec<_>>() {
        if let Err(PeerError::WrongCode) = exchange.await.unwrap() {
            compared += 1;
        }
    }
    // The third one is told that none is left.
    assert_eq!((compared, shows.tries_left()), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn a_code_is_good_for_one_pairing() {
    let shows = Pairing::show();
    assert!(prove(&typed(&shows), &shows).await.1.is_ok());
    assert!(prove(&typed(&shows), &shows).await.1.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_code_is_not_valid_after_two_minutes() {
    let shows = Pairing::show();
    let types = typed(&shows);
    tokio::time::advance(LIFETIME + Duration::from_secs(1)).await;
    assert!(matches!(prove(&types, &shows).await.1, Err(PeerError::TimedOut)));
    shows.expire().await;
    assert!(matches!(shows.stage(), Stage::Failed(why) if matches!(*why, PeerError::TimedOut)));
}

#[tokio::test(start_paused = true)]
async fn somebody_in_the_middle_is_noticed() {
    let shows = Pairing::show();
    let types = typed(&shows);
    let (mut one, mut middle_one) = duplex(4096);
    let (mut middle_other, mut other) = duplex(4096);
    // It has a connection of its own with each side, and passes all messages on.
    let passing = async { tokio::io::copy_bidirectional(&mut middle_one, &mut middle_other).await.map(drop) };
    let (of_types, of_shows) = (ends(T, M, 7), ends(S, M, 8));
    let outcome = async {
        let sides =
            async { tokio::join!(types.prove(&mut one, &of_types), shows.prove(&mut other, &of_shows)) };
        tokio::select! { sides = sides => sides, _ = passing => panic!("the sides end first") }
    };
    let (one, other) = outcome.await;
    assert!(matches!(one, Err(PeerError::WrongCode)) && matches!(other, Err(PeerError::WrongCode)));
}

#[test]
fn a_proof_fits_one_connection_and_one_role() {
    let code = Code::parse("123456789").unwrap();
    let (exchange, _) = Exchange::start(Side::Types, &code, &T, &S);
    let (_, element) = Exchange::start(Side::Shows, &code, &T, &S);
    let shared = exchange.finish(&element).unwrap();
    let proved = proof(&shared, Side::Types, &[7; 32], &T, &S);
    assert_eq!(proved, proof(&shared, Side::Types, &[7; 32], &T, &S));
    assert_ne!(proved, proof(&shared, Side::Types, &[8; 32], &T, &S), "another connection");
    assert_ne!(proved, proof(&shared, Side::Shows, &[7; 32], &T, &S), "reflected");
    assert_ne!(proved, proof(&shared, Side::Types, &[7; 32], &M, &S), "another key");
}

#[tokio::test(start_paused = true)]
async fn a_message_that_is_too_long_ends_the_exchange() {
    use tokio::io::AsyncWriteExt;
    let shows = Pairing::show();
    let (mut here, mut there) = duplex(4096);
    let mut head = [0; HEAD_BYTES];
    head[..4].copy_from_slice(&(UNPAIRED_FRAME_MAX + 1).to_le_bytes());
    here.write_all(&head).await.unwrap();
    let ends = ends(S, T, 7);
    assert!(matches!(shows.prove(&mut there, &ends).await, Err(PeerError::Protocol(_))));
    assert_eq!(shows.tries_left(), TRIES);
}

#[tokio::test(start_paused = true)]
async fn a_silent_side_is_not_waited_for() {
    let shows = Pairing::show();
    let (_here, mut there) = duplex(4096);
    assert!(matches!(shows.prove(&mut there, &ends(S, T, 7)).await, Err(PeerError::TimedOut)));
}
