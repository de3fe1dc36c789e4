//! A proxy between a store and PostgreSQL that cuts connections of lanes after so many bytes.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// Which bytes are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the store to PostgreSQL.
    Request,
    /// From PostgreSQL to the store.
    Answer,
}

/// Cuts a connection after so many more bytes were passed on. What follows is swallowed.
#[derive(Clone, Copy, Debug)]
pub struct Cut {
    pub direction: Direction,
    pub after: usize,
}

#[derive(Default)]
struct Plan {
    cuts: VecDeque<Cut>,
    fired: usize,
    /// What the store is told where an answer is cut.
    last_words: Vec<u8>,
}

/// See the module.
pub struct Proxy {
    pub port: u16,
    plan: Arc<Mutex<Plan>>,
    /// No connection gets through.
    pub closed: Arc<AtomicBool>,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl Proxy {
    pub fn start(target: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let plan: Arc<Mutex<Plan>> = Arc::default();
        let (closed, open) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let proxy = Self { port, plan: plan.clone(), closed: closed.clone(), open: open.clone() };
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if closed.load(Ordering::Acquire) {
                    continue;
                }
                let Ok(server) = TcpStream::connect(("127.0.0.1", target)) else { continue };
                let _ = client.set_nodelay(true);
                let _ = server.set_nodelay(true);
                open.lock().unwrap().extend([client.try_clone().unwrap(), server.try_clone().unwrap()]);
                let is_lane = Arc::new(AtomicBool::new(false));
                for direction in [Direction::Request, Direction::Answer] {
                    let (from, to) = match direction {
                        Direction::Request => (client.try_clone().unwrap(), server.try_clone().unwrap()),
                        Direction::Answer => (server.try_clone().unwrap(), client.try_clone().unwrap()),
                    };
                    let (plan, is_lane) = (plan.clone(), is_lane.clone());
                    thread::spawn(move || pass(from, to, direction, &plan, &is_lane));
                }
            }
        });
        proxy
    }

    /// The next bytes of lanes are cut like this, one cut after the other.
    pub fn arm(&self, cuts: &[Cut]) {
        *self.plan.lock().unwrap() = Plan { cuts: cuts.iter().copied().collect(), ..Plan::default() };
    }

    /// The next answer to a lane is replaced by an error, as a pooler does whose connection broke.
    pub fn arm_error(&self, code: &str) {
        let fields = format!("SERROR\0VERROR\0C{code}\0Mserver conn crashed?\0\0");
        let mut last_words = vec![b'E'];
        last_words.extend((4 + fields.len() as u32).to_be_bytes());
        last_words.extend(fields.as_bytes());
        // The server is ready for the next statement.
        last_words.extend([b'Z', 0, 0, 0, 5, b'I']);
        let cuts = VecDeque::from([Cut { direction: Direction::Answer, after: 0 }]);
        *self.plan.lock().unwrap() = Plan { cuts, fired: 0, last_words };
    }

    /// How many of the cuts happened; the others are forgotten.
    pub fn disarm(&self) -> usize {
        std::mem::take(&mut *self.plan.lock().unwrap()).fired
    }

    /// Cuts everything, and lets no connection through until [`Proxy::heal`].
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        for stream in self.open.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    pub fn heal(&self) {
        self.closed.store(false, Ordering::Release);
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, direction: Direction, plan: &Mutex<Plan>, is_lane: &AtomicBool) {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let length = match from.read(&mut buffer) {
            Ok(0) | Err(_) => break,
            Ok(length) => length,
        };
        let bytes = &buffer[..length];
        let names = |text: &str| bytes.windows(text.len()).any(|part| part == text.as_bytes());
        if direction == Direction::Request && (names("segno.lanes SET") || names("last_group, voided")) {
            is_lane.store(true, Ordering::Release);
        }
        let mut passed = length;
        let mut cut = false;
        if is_lane.load(Ordering::Acquire) {
            let mut plan = plan.lock().unwrap();
            if let Some(next) = plan.cuts.front_mut().filter(|next| next.direction == direction) {
                if next.after <= length {
                    (passed, cut) = (next.after, true);
                    plan.cuts.pop_front();
                    plan.fired += 1;
                    let _ = to.write_all(&plan.last_words);
                } else {
                    next.after -= length;
                }
            }
        }
        if to.write_all(&bytes[..passed]).is_err() || cut {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
