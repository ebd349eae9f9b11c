//! What another device sends before and after it is known: frames, greetings and their answers.

use holdall_peer::Purpose;
use holdall_peer::frame::{FRAME_MAX, Frame, UNPAIRED_FRAME_MAX};
use holdall_peer::hello::{Answer, Hello, PROTOCOLS, Who};

/// Frames one after another, as of a device that is not paired and of one that is. What is decoded encodes to the same bytes.
pub fn frames(input: &[u8]) {
    for limit in [UNPAIRED_FRAME_MAX, FRAME_MAX] {
        let mut rest = input;
        while let Ok(Some((frame, after))) = Frame::decode(rest, limit) {
            let bytes = frame.encode();
            assert_eq!(bytes, rest[..rest.len() - after.len()]);
            assert!(bytes.len() <= limit as usize + 4);
            if let Ok(hello) = Hello::decode(&frame) {
                assert_eq!(hello.frame().body, frame.body);
                assert!(hello.agreed().is_none_or(|protocol| protocol <= PROTOCOLS.1));
            }
            if let Ok(answer) = Answer::decode(&frame) {
                assert_eq!(answer.frame().body, frame.body);
            }
            rest = after;
        }
    }
    if let Ok(who) = Who::decode(input) {
        assert_eq!(who.encode(), input);
    }
}

/// A greeting for each purpose, both answers, and an identity alone.
pub fn frame_seeds() -> Vec<Vec<u8>> {
    let who = Who { uuid: uuid::Uuid::from_u128(7), name: "desk".to_owned(), port: 47_113 };
    let greeting = |purpose| Hello { protocols: PROTOCOLS, purpose, who: who.clone() }.frame().encode();
    let mut seeds: Vec<_> = Purpose::ALL.into_iter().map(greeting).collect();
    seeds.push(Answer::Welcome { protocol: 1, who: who.clone() }.frame().encode());
    seeds.push(Frame { kind: 3, seq: 0, body: vec![2] }.encode());
    seeds.push(who.encode());
    seeds
}
