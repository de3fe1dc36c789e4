//! A proxy between a worker and a server that loses what it is told to lose.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

/// Forwards connections to a server.
#[derive(Clone)]
pub struct Proxy {
    pub address: String,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    connections: Mutex<Vec<TcpStream>>,
    /// Bytes to the client are thrown away.
    deaf: AtomicBool,
    /// Bytes to the server are thrown away.
    mute: AtomicBool,
    /// Bytes in both directions wait.
    stalled: AtomicBool,
}

impl Proxy {
    pub fn start(target: &str) -> Self {
        let target = target.trim_start_matches("http://").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(State::default());
        let shared = state.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect(&target) else { continue };
                let mut connections = shared.connections.lock().unwrap();
                for stream in [&client, &server] {
                    stream.set_nodelay(true).unwrap();
                    connections.push(stream.try_clone().unwrap());
                }
                let up = (client.try_clone().unwrap(), server.try_clone().unwrap());
                let (state, other) = (shared.clone(), shared.clone());
                thread::spawn(move || forward(up.0, up.1, &state, false));
                thread::spawn(move || forward(server, client, &other, true));
            }
        });
        Self { address, state }
    }

    /// Breaks all connections. New ones are made as before.
    pub fn cut(&self) {
        for connection in self.state.connections.lock().unwrap().drain(..) {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }

    /// From now on what the server says is lost, until this is taken back.
    pub fn lose_answers(&self, lose: bool) {
        self.state.deaf.store(lose, Ordering::SeqCst);
    }

    /// From now on what the client says is lost, until this is taken back.
    pub fn lose_requests(&self, lose: bool) {
        self.state.mute.store(lose, Ordering::SeqCst);
    }

    /// From now on nothing passes, until this is taken back. Connections stay.
    pub fn stall(&self, stall: bool) {
        self.state.stalled.store(stall, Ordering::SeqCst);
    }
}

fn forward(mut from: TcpStream, mut to: TcpStream, state: &State, to_client: bool) {
    let mut buffer = [0; 16 * 1024];
    loop {
        let Ok(count @ 1..) = from.read(&mut buffer) else { break };
        while state.stalled.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(5));
        }
        let lossy = if to_client { &state.deaf } else { &state.mute };
        if lossy.load(Ordering::SeqCst) {
            continue;
        }
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
