//! An HTTP proxy for tunnels (CONNECT). It leads to one server, whatever name a client asks for, and needs a login.

use crate::acceptor::{Acceptor, Open};
use crate::process::any_port;
use data_encoding::BASE64;
use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};

/// The user that it knows.
pub const USER: &str = "proxy-user";
/// That user's password.
pub const PASSWORD: &str = "umbrella-teapot-window";

/// A proxy that runs until it is dropped.
pub struct ConnectProxy {
    acceptor: Acceptor,
    asked: Arc<Mutex<Vec<String>>>,
}

impl ConnectProxy {
    /// Starts in front of the server at `upstream`.
    pub fn start(upstream: SocketAddr) -> Self {
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let noted = asked.clone();
        let serve = move |client: TcpStream, open: &Open| {
            // The clients of a test may disconnect.
            let _ = tunnel(&client, upstream, &noted, open);
        };
        Self { acceptor: Acceptor::start(any_port(), serve), asked }
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        self.acceptor.address()
    }

    /// The host and port of each tunnel so far.
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

fn tunnel(
    client: &TcpStream,
    upstream: SocketAddr,
    asked: &Mutex<Vec<String>>,
    open: &Open,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(client);
    let mut writer = client;
    let (mut first, mut is_known) = (String::new(), false);
    reader.read_line(&mut first)?;
    let wanted = format!("basic {}", BASE64.encode(format!("{USER}:{PASSWORD}").as_bytes()));
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim().split_once(':') else { break };
        let is_login = name.eq_ignore_ascii_case("proxy-authorization");
        is_known |= is_login && value.trim().eq_ignore_ascii_case(&wanted);
    }
    let Some(target) = first.strip_prefix("CONNECT ").and_then(|rest| rest.split(' ').next()) else {
        return writer.write_all(b"HTTP/1.1 405 Tunnels Only\r\ncontent-length: 0\r\n\r\n");
    };
    if !is_known {
        let refused =
            b"HTTP/1.1 407 Who Asks\r\nproxy-authenticate: Basic realm=\"x\"\r\ncontent-length: 0\r\n\r\n";
        return writer.write_all(refused);
    }
    asked.lock().unwrap().push(target.to_owned());
    let server = TcpStream::connect(upstream)?;
    let _watched = open.watch(&server);
    writer.write_all(b"HTTP/1.1 200 Connected\r\n\r\n")?;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _ = std::io::copy(&mut &server, &mut &*client);
            let _ = client.shutdown(Shutdown::Both);
        });
        let _ = std::io::copy(&mut reader, &mut &server);
        let _ = server.shutdown(Shutdown::Both);
    });
    Ok(())
}
