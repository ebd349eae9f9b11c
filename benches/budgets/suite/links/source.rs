//! The capacity of a link: bytes as fast as it takes them, from a server that only sends.

use super::super::Failure;
use holdall_servers::delay::{Delay, Link};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

/// The server, behind its own link.
pub struct Source {
    ended: Arc<AtomicBool>,
    address: SocketAddr,
    sending: Option<JoinHandle<()>>,
    delay: Delay,
}

impl Source {
    /// Starts one.
    pub fn start(link: Link) -> Result<Self, Failure> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let (address, ended) = (listener.local_addr()?, Arc::new(AtomicBool::new(false)));
        let stop = ended.clone();
        let sending = std::thread::spawn(move || {
            for mut client in listener.incoming().flatten() {
                if stop.load(Ordering::Acquire) {
                    return;
                }
                // Sends until the client closes. A request comes first, as everywhere.
                let piece = vec![0; 256 << 10];
                if client.read_exact(&mut [0]).is_ok() {
                    while client.write_all(&piece).is_ok() {}
                }
            }
        });
        Ok(Self { ended, address, sending: Some(sending), delay: Delay::start(address, link) })
    }

    /// Fetches `bytes`; returns Mbit/s.
    pub fn fetch(&self, bytes: u64) -> Result<f64, Failure> {
        let mut server = TcpStream::connect(self.delay.address())?;
        let begun = Instant::now();
        server.write_all(&[0])?;
        let received = std::io::copy(&mut Read::by_ref(&mut server).take(bytes), &mut std::io::sink())?;
        if received < bytes {
            return Err("the link broke".into());
        }
        Ok(bytes as f64 * 8.0 / 1e6 / begun.elapsed().as_secs_f64())
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
        // Wakes the server if it waits for a client.
        let _ = TcpStream::connect(self.address);
        if let Some(sending) = self.sending.take() {
            let _ = sending.join();
        }
    }
}
