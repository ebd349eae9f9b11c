//! How often a client may try a password: pure.

use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

/// This many tries may be wrong before a client has to wait.
const FREE: u32 = 5;
/// The first wait; each further one is twice as long.
const FIRST_WAIT: Duration = Duration::from_secs(2);
const LONGEST_WAIT: Duration = Duration::from_secs(15 * 60);
/// A client that has not tried for this long starts over.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(3600);
/// The most clients to remember; beyond that, the one that has been silent for longest starts over. Each try costs work, one after another,
/// so many addresses cannot try faster than one.
const CLIENTS_MAX: usize = 1024;

/// The tries of clients.
#[derive(Default)]
pub struct Tries {
    /// The one that has been silent for longest first.
    clients: Vec<Client>,
}

struct Client {
    network: IpAddr,
    tries: u32,
    last: Instant,
}

/// Whether a try is allowed.
#[derive(Debug, PartialEq, Eq)]
pub enum Try {
    /// It is allowed.
    Allowed {
        /// Whether it is the client's last before it has to wait.
        is_last: bool,
    },
    /// Not before this time has passed.
    Wait(Duration),
}

impl Tries {
    /// Counts a try as wrong from the start, so that many parallel tries gain nothing over consecutive ones.
    pub fn begin(&mut self, from: IpAddr, now: Instant) -> Try {
        self.clients.retain(|client| now.saturating_duration_since(client.last) < FORGOTTEN_AFTER);
        let network = network(from);
        let at = self.clients.iter().position(|client| client.network == network);
        let mut client = at.map_or(Client { network, tries: 0, last: now }, |at| self.clients.remove(at));
        let waited = now.saturating_duration_since(client.last);
        let left = wait(client.tries).saturating_sub(waited);
        let verdict = if left.is_zero() {
            (client.tries, client.last) = (client.tries + 1, now);
            Try::Allowed { is_last: client.tries == FREE }
        } else {
            Try::Wait(left)
        };
        if self.clients.len() == CLIENTS_MAX {
            self.clients.remove(0);
        }
        self.clients.push(client);
        verdict
    }

    /// The password was right.
    pub fn was_right(&mut self, from: IpAddr) {
        let network = network(from);
        self.clients.retain(|client| client.network != network);
    }
}

/// How long a client waits after its last try.
fn wait(tries: u32) -> Duration {
    match tries.checked_sub(FREE) {
        None => Duration::ZERO,
        Some(more) => FIRST_WAIT.saturating_mul(1 << more.min(20)).min(LONGEST_WAIT),
    }
}

/// The network that counts as one client: with IPv6, a person has a whole network. Link-local addresses are one for each computer.
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) if address.is_unicast_link_local() => address.into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

    fn allowed(tries: &mut Tries, from: IpAddr, now: Instant) -> bool {
        matches!(tries.begin(from, now), Try::Allowed { .. })
    }

    #[test]
    fn after_five_tries_a_client_waits_twice_as_long_each_time() {
        let (mut tries, mut now) = (Tries::default(), Instant::now());
        for number in 1..=FREE {
            assert_eq!(tries.begin(HERE, now), Try::Allowed { is_last: number == FREE });
        }
        for seconds in [2, 4, 8, 16] {
            assert_eq!(tries.begin(HERE, now), Try::Wait(Duration::from_secs(seconds)));
            now += Duration::from_secs(seconds);
            assert!(allowed(&mut tries, HERE, now), "after {seconds} s");
        }
        for _ in 0..100 {
            now += LONGEST_WAIT;
            assert!(allowed(&mut tries, HERE, now), "nobody is locked out permanently");
        }
        now += FORGOTTEN_AFTER;
        assert!((0..FREE).all(|_| allowed(&mut tries, HERE, now)), "it starts again");
    }

    #[test]
    fn tries_during_a_wait_do_not_prolong_it() {
        let (mut tries, now) = (Tries::default(), Instant::now());
        assert!((0..FREE).all(|_| allowed(&mut tries, HERE, now)));
        for _ in 0..10 {
            assert_eq!(tries.begin(HERE, now), Try::Wait(FIRST_WAIT));
        }
        assert!(allowed(&mut tries, HERE, now + FIRST_WAIT));
    }

    #[test]
    fn clients_delay_no_others_and_a_network_is_one_client() {
        let (mut tries, now) = (Tries::default(), Instant::now());
        assert!((0..FREE).all(|_| allowed(&mut tries, HERE, now)));
        assert!(!allowed(&mut tries, "::ffff:192.0.2.1".parse().unwrap(), now));
        assert!(allowed(&mut tries, "192.0.2.2".parse().unwrap(), now));
        for host in 1..=FREE {
            assert!(allowed(&mut tries, format!("2001:db8::{host}").parse().unwrap(), now));
        }
        assert!(!allowed(&mut tries, "2001:db8::ffff:ffff".parse().unwrap(), now));
        assert!(allowed(&mut tries, "2001:db8:0:1::1".parse().unwrap(), now));
    }

    #[test]
    fn the_right_password_ends_the_count() {
        let (mut tries, now) = (Tries::default(), Instant::now());
        assert!((1..FREE).all(|_| allowed(&mut tries, HERE, now)));
        tries.was_right(HERE);
        assert!((0..FREE).all(|_| allowed(&mut tries, HERE, now)));
    }

    #[test]
    fn the_number_of_remembered_clients_is_limited() {
        let (mut tries, now) = (Tries::default(), Instant::now());
        for host in 0..2 * CLIENTS_MAX as u32 {
            tries.begin(std::net::Ipv4Addr::from_bits(host).into(), now);
        }
        assert_eq!(tries.clients.len(), CLIENTS_MAX);
    }
}
