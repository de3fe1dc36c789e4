//! A worker for production: it says whether it is healthy, and ends what it has begun before it stops.

use segno_sdk::prelude::*;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    signal::unix::{SignalKind, signal},
};

#[task(timeout = "1h", heartbeat_timeout = "10s")]
async fn import_rows(ctx: TaskContext, count: u32) -> Result<String> {
    for row in 0..count {
        ctx.heartbeat(row).await?; // Without one for 10 s the attempt times out, and the next one begins.
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    Ok(format!("{count} rows in attempt {}", ctx.info().attempt))
}

#[workflow]
async fn import(ctx: Context, count: u32) -> Result<String> {
    Ok(ctx.schedule::<ImportRows>(count).await?)
}

fn worker(client: &Client) -> Result<Worker, ClientError> {
    let grace = Duration::from_secs(30);
    client.queue("imports").worker().workflow::<Import>().task::<ImportRows>().shutdown_grace(grace).build()
}

/// Runs until SIGTERM or SIGINT, then gives tasks under way 30 s.
async fn work(client: &Client, health: TcpListener) -> Result<()> {
    let worker = worker(client)?;
    let shutdown = worker.shutdown_handle();
    let (mut terminated, mut interrupted) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let stop = async {
        tokio::select! { _ = terminated.recv() => {}, _ = interrupted.recv() => {} }
        println!("stopping");
        shutdown.shutdown();
    };
    tokio::select! {
        (ended, ()) = async { join!(worker.run(), stop) } => ended?,
        ended = answer(health) => ended?,
    }
    println!("stopped");
    Ok(())
}

/// Answers health checks. Once the worker has stopped nothing listens here.
async fn answer(health: TcpListener) -> Result<()> {
    loop {
        let (mut connection, _) = health.accept().await?;
        if connection.read(&mut [0; 1024]).await? > 0 {
            connection.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await?;
        }
    }
}

pub async fn demo(client: &Client) -> Result<()> {
    let health = TcpListener::bind("127.0.0.1:0").await?;
    let address = health.local_addr()?;
    let begun = client.queue("imports").start::<Import>("import-1", 3).await?;
    let stop = async {
        while begun.describe().await?.raw().pending_activities.is_empty() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let mut probe = TcpStream::connect(address).await?;
        probe.write_all(b"GET / HTTP/1.1\r\nHost: worker\r\n\r\n").await?;
        let mut status = [0; 12];
        probe.read_exact(&mut status).await?;
        println!("health: {}", String::from_utf8_lossy(&status[9..]));
        // As `docker stop` and Kubernetes do.
        std::process::Command::new("kill").arg(std::process::id().to_string()).status()?;
        Ok(())
    };
    try_join!(work(client, health), stop)?;
    println!("{}", worker(client)?.run_until(begun.result()).await?);
    Ok(())
}
