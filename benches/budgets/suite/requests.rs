//! The cost of random 4 KiB writes on S3: requests and bytes, counted by a proxy in front of the server. s3backer and s3fs
//! get less to write, because they send a whole block or part for each write.

use super::fio::{self, Figure, Target};
use super::holdall::{Computer, Store};
use super::peers::s3backer::{DISK_BYTES, S3backer};
use super::peers::s3fs::S3fs;
use super::peers::write_file;
use super::record::Row;
use super::remote::upload_scattered;
use super::{Failure, Plan};
use holdall_servers::faults::{Entry, FaultProxy, none};
use holdall_servers::s3::{self, S3Server};
use std::path::Path;

/// Where the product tests the store's abilities, at each opening.
const TRIALS: &str = "/probe/";

pub fn measure(plan: &Plan, dir: &Path) -> Result<Vec<Row>, Failure> {
    let server = S3Server::start_in(dir);
    let proxy = FaultProxy::start(server.address());
    let credentials = dir.join("credentials.json");
    std::fs::write(&credentials, s3::credentials())?;
    let ours = {
        let computer = Computer::new(&dir.join("computer"))?;
        computer.create(Store::s3(proxy.address(), "scattered", &credentials), plan.dirtied_drive_bytes)?;
        proxy.plan(none());
        upload_scattered(&computer, plan)?;
        Sent::through(&proxy, plan.dirtied_bytes)
    };
    let of_s3backer = {
        let backer = S3backer::attach(proxy.address(), &dir.join("s3backer"))?;
        proxy.plan(none());
        scatter(backer.device(), DISK_BYTES, plan, &["--ioengine=libaio", "--iodepth=16", "--direct=1"])?;
        backer.end()?;
        Sent::through(&proxy, plan.peers_dirtied_bytes)
    };
    let of_s3fs = {
        let bucket = S3fs::mount(proxy.address(), &dir.join("s3fs"))?;
        let file = bucket.mountpoint().join("scattered.img");
        write_file(&file, plan.warm_bytes)?;
        proxy.plan(none());
        scatter(&file, plan.warm_bytes, plan, &["--ioengine=psync"])?;
        bucket.end()?;
        Sent::through(&proxy, plan.peers_dirtied_bytes)
    };
    let row = |key: &str, ours: f64, peer: Option<f64>| Row {
        key: key.to_owned(),
        ours: vec![ours],
        peer: peer.into_iter().collect(),
    };
    Ok(vec![
        row("s3-amplification", ours.amplification, None),
        row("s3-puts", ours.puts_of_a_gibibyte, None),
        row("s3-amplification-s3backer", ours.amplification, Some(of_s3backer.amplification)),
        row("s3-amplification-s3fs", ours.amplification, Some(of_s3fs.amplification)),
        row("s3-puts-s3backer", ours.puts_of_a_gibibyte, Some(of_s3backer.puts_of_a_gibibyte)),
        row("s3-puts-s3fs", ours.puts_of_a_gibibyte, Some(of_s3fs.puts_of_a_gibibyte)),
    ])
}

/// The amounts sent, relative to the bytes that were dirtied.
struct Sent {
    amplification: f64,
    puts_of_a_gibibyte: f64,
}

impl Sent {
    fn through(proxy: &FaultProxy, dirtied_bytes: u64) -> Self {
        let log = proxy.log();
        let counts = |entry: &&Entry| !entry.asked.target.contains(TRIALS);
        let bytes: u64 = log.iter().filter(counts).map(|entry| entry.body_bytes).sum();
        // An upload in parts begins and ends with a POST, which is charged like a PUT.
        let writes = |entry: &&Entry| matches!(entry.asked.method.as_str(), "PUT" | "POST");
        let puts = log.iter().filter(counts).filter(writes).count();
        Self {
            amplification: bytes as f64 / dirtied_bytes as f64,
            puts_of_a_gibibyte: puts as f64 * f64::from(1 << 30) / dirtied_bytes as f64,
        }
    }
}

fn scatter(target: &Path, bytes: u64, plan: &Plan, how: &[&str]) -> Result<(), Failure> {
    let amount = format!("--io_size={}", plan.peers_dirtied_bytes);
    let job = ["--rw=randwrite", "--bs=4k", "--refill_buffers", "--end_fsync=1", &amount];
    fio::run(&Target::File(target), bytes, &[&job[..], how].concat(), Figure::Iops).map(drop)
}
