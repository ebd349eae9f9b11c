//! Tests of the proxies, in front of a server that records what reaches it.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use holdall_servers::delay::{Delay, Link};
use holdall_servers::faults::{self, Fault, FaultProxy};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// The requests that a server got.
type Seen = Arc<Mutex<Vec<String>>>;

/// Answers every request with its body, and records it. Runs until the test's process ends.
fn server() -> (SocketAddr, Seen) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, seen) = (listener.local_addr().unwrap(), Seen::default());
    let notes = seen.clone();
    thread::spawn(move || {
        for client in listener.incoming() {
            let notes = notes.clone();
            thread::spawn(move || serve(&client.unwrap(), &notes));
        }
    });
    (address, seen)
}

fn serve(client: &TcpStream, seen: &Seen) {
    let mut from = BufReader::new(client);
    loop {
        let (mut head, mut length) = (String::new(), 0);
        while !head.ends_with("\r\n\r\n") {
            let begin = head.len();
            if from.read_line(&mut head).unwrap_or(0) == 0 {
                return;
            }
            let line = head[begin..].to_ascii_lowercase();
            length = line.strip_prefix("content-length: ").map_or(length, |n| n.trim().parse().unwrap());
        }
        let mut body = vec![0; length];
        if from.read_exact(&mut body).is_err() {
            seen.lock().unwrap().push("half of a request".into());
            return;
        }
        let body = String::from_utf8(body).unwrap();
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}");
        seen.lock().unwrap().push(head + &body);
        if (&*client).write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

/// Sends a request and closes this direction of the connection. Returns everything that comes back.
fn exchange(address: SocketAddr, body: &str) -> String {
    let request = request(address, body);
    let mut client = TcpStream::connect(address).unwrap();
    client.write_all(request.as_bytes()).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut answer = Vec::new();
    // A cut may appear as an error or as an end.
    let _ = client.read_to_end(&mut answer);
    String::from_utf8(answer).unwrap()
}

fn request(address: SocketAddr, body: &str) -> String {
    format!("PUT /a?b HTTP/1.1\r\nHOST:  {address}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

/// Waits until the server has got this many requests.
fn wait_for(seen: &Seen, count: usize) -> Vec<String> {
    let deadline = Instant::now() + Duration::from_secs(30);
    while seen.lock().unwrap().len() < count && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(1));
    }
    seen.lock().unwrap().clone()
}

#[test]
fn forwards_requests_byte_for_byte() {
    let (upstream, seen) = server();
    let proxy = FaultProxy::start(upstream);
    assert!(exchange(proxy.address(), "hello").ends_with("\r\n\r\nhello"));
    assert_eq!(*seen.lock().unwrap(), [request(proxy.address(), "hello")]);
    let log = proxy.log();
    assert_eq!((log[0].asked.target.as_str(), log[0].status, log[0].body_bytes), ("/a?b", Some(200), 5));
}

#[test]
fn each_fault_does_what_it_says() {
    let (upstream, seen) = server();
    let proxy = FaultProxy::start(upstream);
    let mut expected = 0;
    let mut one = |fault: Fault, reaches: usize, answer: &str| {
        proxy.plan(faults::at(0, fault.clone()));
        let found = exchange(proxy.address(), "hello");
        assert!(found.starts_with(answer) && found.is_empty() == answer.is_empty(), "{fault:?}: {found}");
        expected += reaches;
        assert_eq!(wait_for(&seen, expected).len(), expected, "{fault:?}");
        let log = proxy.log();
        assert_eq!(log[0].fault, Some(fault));
        found
    };
    one(Fault::CutBeforeBody, 0, "");
    one(Fault::CutInBody, 1, "");
    one(Fault::CutAfterBody, 1, "");
    one(Fault::LostAnswer, 1, "");
    assert!(one(Fault::ShortAnswer, 1, "HTTP/1.1 200").ends_with("\r\n\r\nhe"));
    let drip = Fault::Drip { pieces: 4, pause: Duration::from_millis(1) };
    assert!(one(drip, 1, "HTTP/1.1 200").ends_with("\r\n\r\nhello"));
    one(Fault::Silence, 0, "");
    assert!(one(Fault::come_back(503, 7), 0, "HTTP/1.1 503").contains("\r\nRetry-After: 7\r\n"));
    one(Fault::DENIED, 0, "HTTP/1.1 403");
    assert!(one(Fault::Disguised("x"), 1, "HTTP/1.1 200").contains("\r\nServer: x\r\n\r\nhello"));
    one(Fault::Replayed, 2, "HTTP/1.1 200");
    assert!(one(Fault::Portal, 0, "HTTP/1.1 200").contains("<html>"));
    let halves = seen.lock().unwrap().iter().filter(|seen| *seen == "half of a request").count();
    assert_eq!(halves, 1);
}

#[test]
fn a_zombie_arrives_after_the_requests_that_overtook_it() {
    let (upstream, seen) = server();
    let proxy = FaultProxy::start(upstream);
    proxy.plan(faults::at(0, Fault::Zombie { later: 2 }));
    assert_eq!(exchange(proxy.address(), "one"), "");
    for body in ["two", "three", "four"] {
        assert!(exchange(proxy.address(), body).ends_with(body));
    }
    let order: Vec<_> =
        seen.lock().unwrap().iter().map(|s| s.rsplit('\n').next().unwrap().to_owned()).collect();
    assert_eq!(order, ["two", "one", "three", "four"]);
    proxy.plan(faults::at(0, Fault::Zombie { later: 1000 }));
    exchange(proxy.address(), "five");
    assert_eq!(seen.lock().unwrap().len(), 4);
    proxy.release();
    assert_eq!(seen.lock().unwrap().len(), 5);
}

#[test]
fn a_seed_determines_a_plan() {
    let drawn = |seed| {
        let mut plan = faults::seeded(seed, 300, vec![Fault::LostAnswer, Fault::BUSY]);
        let asked = |number| faults::Asked { number, method: "PUT".into(), target: "/".into() };
        (0..1000).map(|number| plan(&asked(number))).collect::<Vec<_>>()
    };
    assert_eq!(drawn(1), drawn(1));
    assert_ne!(drawn(1), drawn(2));
    let hits = drawn(3).iter().flatten().count();
    assert!((200..400).contains(&hits), "{hits} of 1000");
}

#[test]
fn a_link_delays_data_and_supports_half_closed_connections() {
    let (upstream, _) = server();
    let rtt = Duration::from_millis(40);
    let link = Link { rtt, up_mbit: None, down_mbit: Some(8.0) };
    let delay = Delay::start(upstream, link);
    let begun = Instant::now();
    assert!(exchange(delay.address(), "hello").ends_with("hello"));
    // One round trip to connect, and one for the answer.
    assert!(begun.elapsed() >= 2 * rtt, "{:?}", begun.elapsed());
    // And 100 kB at 1 MB/s.
    let begun = Instant::now();
    let body = "x".repeat(100_000);
    assert!(exchange(delay.address(), &body).ends_with(&body));
    assert!(begun.elapsed() >= 2 * rtt + Duration::from_millis(100), "{:?}", begun.elapsed());
    let counted = delay.received_bytes();
    assert!((100_000..101_000).contains(&counted), "{counted}");
}

#[test]
fn connections_share_a_link() {
    let (upstream, _) = server();
    let link = Link { rtt: Duration::ZERO, up_mbit: Some(8.0), down_mbit: None };
    let delay = Delay::start(upstream, link);
    let begun = Instant::now();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert!(exchange(delay.address(), &"x".repeat(25_000)).ends_with('x')));
        }
    });
    // 100 kB at 1 MB/s, whichever connections carry them.
    assert!(begun.elapsed() >= Duration::from_millis(100), "{:?}", begun.elapsed());
}
