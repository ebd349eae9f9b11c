use super::*;

#[test]
fn structures_survive_encoding() {
    let request = InfoRequest { name: "drive", block_size: true, canonical_name: true };
    assert_eq!(InfoRequest::decode(&request.encode()), Ok(request));
    let query = ContextQuery { name: "", queries: vec![CONTEXT_ALLOCATION, "x-none:"] };
    assert_eq!(ContextQuery::decode(&query.encode()), Ok(query.clone()));
    let sizes = BlockSizes { minimum: 4096, preferred: 65536, maximum: 1 << 25 };
    for info in [Info::Export { size: 1 << 40, flags: 7 }, Info::Name("x".into()), Info::BlockSize(sizes)] {
        assert_eq!(Info::decode(&info.encode()), Ok(info));
    }
}

#[test]
fn every_truncation_is_an_error_and_none_panics() {
    let whole = InfoRequest { name: "drive", block_size: true, canonical_name: false }.encode();
    for len in 0..whole.len() {
        assert_eq!(InfoRequest::decode(&whole[..len]), Err(Malformed::Truncated), "at {len}");
    }
    let whole = ContextQuery { name: "d", queries: vec!["base:"] }.encode();
    for len in 0..whole.len() {
        assert_eq!(ContextQuery::decode(&whole[..len]), Err(Malformed::Truncated), "at {len}");
    }
}

#[test]
fn lengths_are_capped_before_they_are_believed() {
    let mut data = counted("d");
    data.extend_from_slice(&u32::MAX.to_be_bytes());
    assert!(matches!(ContextQuery::decode(&data), Err(Malformed::TooLong { .. })));
    let data = u32::MAX.to_be_bytes();
    assert!(matches!(InfoRequest::decode(&data), Err(Malformed::TooLong { .. })));
}

#[test]
fn unknown_client_flags_and_bytes_left_over_are_refused() {
    assert_eq!(ClientFlags::decode([0, 0, 0, 4]), Err(Malformed::ClientFlags(4)));
    let mut data = InfoRequest { name: "", block_size: false, canonical_name: false }.encode();
    data.push(0);
    assert_eq!(InfoRequest::decode(&data), Err(Malformed::TrailingBytes));
}
