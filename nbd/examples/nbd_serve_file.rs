//! Serves one plain file over a Unix socket, to be measured beside `nbdkit file`.
//!
//!     cargo run --release -p holdall-nbd --example nbd_serve_file -- FILE SOCKET

use holdall_nbd::server::Server;
use holdall_nbd::testing::FileDevice;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(file), Some(socket)) = (arguments.next(), arguments.next()) else {
        return Err("usage: nbd_serve_file FILE SOCKET".into());
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build()?;
    let server = Server::new(runtime.handle().clone());
    server.export("file", FileDevice::open(&file)?)?;
    server.listen_unix(UnixListener::bind(socket)?)?;
    loop {
        std::thread::park();
    }
}
