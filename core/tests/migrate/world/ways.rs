//! The store and the link, where requests and messages get lost.

use super::*;

impl World {
    /// Sends a request; `answer` comes whatever happens to the request.
    pub(super) fn request(&mut self, device: usize, request: Item, answer: Item) {
        let life = self.devices[device].life;
        let fault = self.faults.next(&mut self.rng, self.now, Point::Request);
        if let Some(fault) = fault {
            self.tell(|| format!("{device}   FAULT {fault:?} at the store"));
        }
        match fault {
            Some(Fault::KillBefore) => return self.kill(device, false),
            Some(Fault::PowerBefore) => return self.kill(device, true),
            Some(Fault::StoreAway) => {}
            Some(Fault::Zombie) => {
                let late = self.rng.random_range(1000..25_000);
                self.later(late, request);
            }
            _ => self.later(20, request),
        }
        match fault {
            Some(Fault::KillAfter) => self.kill(device, false),
            Some(Fault::PowerAfter) => self.kill(device, true),
            Some(Fault::StoreAway | Fault::Unanswered | Fault::Zombie) => {
                // Its answer says nothing: an engine hears so, a push looks again.
                match answer {
                    Item::Answer { device, .. } => {
                        let event = match device {
                            0 => Event::Seeder(seeder::Event::Swapped(Swap::Unknown("no answer".to_owned()))),
                            _ => Event::Leecher(leecher::Event::Head(HeadSeen::Unknown(
                                "no answer".to_owned(),
                            ))),
                        };
                        self.later(900, Item::Told(device, life, event));
                    }
                    other => self.later(900, other),
                }
            }
            Some(fault) => {
                self.person(fault);
                self.later(40, answer);
            }
            None => self.later(40, answer),
        }
    }

    /// The grant follows only the seeder's HEAD of the version that it was made for.
    pub(super) fn swap_in_store(&mut self, grant: Head) {
        let head = self.store.head;
        if (head.device, head.epoch + 1, head.root) == (0, grant.epoch, grant.root) {
            self.store.swap(head.nonce, grant);
        }
    }

    pub(super) fn answer(&mut self, device: usize, grant: Option<Head>) {
        let head = self.store.head;
        let record = self.devices[device].disk.record();
        let Some(end) = record.and_then(|record| record.end) else { return };
        let grant = grant.unwrap_or_else(|| Head::decode(&end.head));
        let is_grant = head.nonce == grant.nonce || (head.device == 1 && self.store.has(0, end.cut));
        let is_before = head.device == 0 && head.epoch < grant.epoch;
        if device == 0 && head.device == 0 && head.epoch >= grant.epoch {
            // It was, and the record did not say so yet.
            self.event(0, Event::Seeder(seeder::Event::TakenBack));
        } else if device == 0 {
            let outcome = match (is_grant, is_before) {
                (true, _) => Swap::Applied,
                (_, true) => Swap::Unknown("not yet".to_owned()),
                // It opened the drive and has not committed, or it is another version of it.
                _ if head.device == 1 => Swap::Unknown("it may be the grant".to_owned()),
                _ => Swap::Overtaken("somebody".to_owned()),
            };
            self.event(0, Event::Seeder(seeder::Event::Swapped(outcome)));
        } else {
            let seen = match (is_grant || head.device == 1, is_before) {
                (true, _) => HeadSeen::Grant,
                (_, true) => HeadSeen::Seeder,
                _ => HeadSeen::Other("somebody".to_owned()),
            };
            self.event(1, Event::Leecher(leecher::Event::Head(seen)));
        }
    }

    // -- The link

    pub(super) fn connect(&mut self) {
        self.later(1000, Item::Connect);
        let wants = self.devices.iter().any(|device| match &device.engine {
            Some(Engine::Seeder(seeder)) => seeder.wants_link(),
            Some(Engine::Leecher(leecher)) => leecher.wants_link(),
            None => false,
        });
        let free = self.devices.iter().all(|device| device.is_up && !device.is_linked);
        if !wants || !free {
            return;
        }
        self.link += 1;
        for device in 0..2 {
            self.devices[device].is_linked = true;
            match self.devices[device].engine {
                Some(Engine::Seeder(_)) => self.event(device, Event::Seeder(seeder::Event::Linked)),
                Some(Engine::Leecher(_)) => self.event(device, Event::Leecher(leecher::Event::Linked)),
                None => {}
            }
        }
    }

    pub(super) fn unlink(&mut self, device: usize) {
        if !std::mem::take(&mut self.devices[device].is_linked) {
            return;
        }
        match self.devices[device].engine {
            Some(Engine::Seeder(_)) => self.event(device, Event::Seeder(seeder::Event::Unlinked)),
            Some(Engine::Leecher(_)) => self.event(device, Event::Leecher(leecher::Event::Unlinked)),
            None => {}
        }
    }

    pub(super) fn send(&mut self, from: usize, message: &Message) {
        if !self.devices[from].is_linked {
            return;
        }
        self.frame += 1;
        let (link, to, bytes) = (self.link, 1 - from, wire::encode(self.frame, message));
        let fault = self.faults.next(&mut self.rng, self.now, Point::Message);
        if let Some(fault) = fault {
            self.tell(|| format!("{from}   FAULT {fault:?} of {:.60}", format!("{message:?}")));
        }
        match fault {
            Some(Fault::Lost) => return,
            Some(Fault::Cut) => {
                self.link += 1;
                let (one, other) = (self.rng.random_range(1..2000), self.rng.random_range(1..2000));
                self.later(one, Item::Unlink(0, self.link));
                self.later(other, Item::Unlink(1, self.link));
                return;
            }
            Some(Fault::Late) => {
                let late = self.rng.random_range(50..15_000);
                return self.later(late, Item::Message { link, to, bytes });
            }
            Some(Fault::Doubled) => {
                let most = [200, 12_000][self.rng.random_range(0..2)];
                let late = self.rng.random_range(10..most);
                self.later(late, Item::Message { link, to, bytes: bytes.clone() });
            }
            Some(fault) => self.person(fault),
            None => {}
        }
        self.later(10, Item::Message { link, to, bytes });
    }

    pub(super) fn arrive(&mut self, to: usize, bytes: Vec<u8>) {
        let bytes = Bytes::from(bytes);
        let header = wire::Header::decode(bytes[..wire::HEADER_BYTES].try_into().unwrap()).unwrap();
        let message = wire::decode(header.kind, &bytes.slice(wire::HEADER_BYTES..)).unwrap();
        match (&self.devices[to].engine, message) {
            (Some(Engine::Seeder(_)), message) => {
                self.event(to, Event::Seeder(seeder::Event::Received(message)))
            }
            (Some(Engine::Leecher(_)), message) => {
                self.event(to, Event::Leecher(leecher::Event::Received(message)))
            }
            (None, Message::Hello(greeting)) => {
                let role = if greeting.role == Role::Seeder { Role::Leecher } else { Role::Seeder };
                let answer = Greeting { role, phase: None, position: Position::default(), ..greeting };
                self.send(to, &Message::Welcome(answer));
            }
            (None, Message::Offer(offer)) => {
                let record = Record::new(Role::Leecher, [2; 32], "a".to_owned(), *offer, self.now);
                let (mut leecher, mut actions) =
                    Leecher::begin(self.time(), record, Uuid::from_u128(2), "b".to_owned());
                actions.extend(leecher.apply(self.time(), leecher::Event::Linked));
                self.devices[to].engine = Some(Engine::Leecher(Box::new(leecher)));
                self.act(to, actions.into_iter().map(Action::Leecher).collect());
            }
            _ => {}
        }
    }
}
