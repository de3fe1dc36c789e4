//! What a start refuses, who may write, and what happens while the database is away.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    time::{Duration, Instant},
};

use crate::common::{World, blocking};
use segno_store::kit::run;
use segno_store::{Commit, CommitError, NamespaceKey, NamespaceRecord, ReadError, RunKey};
use segno_store_postgres::{OpenError, Options, PostgresStore};

fn commit(version: u64) -> [Commit; 1] {
    [Commit { runs: vec![run(1, version, "state")], ..Commit::default() }]
}

#[test]
fn settings_that_lose_commits_are_refused() {
    let world = World::new(&[("fsync", "off")]);
    let database = world.postgres.database();
    let refused = world.try_open(&world.postgres.url(&database)).unwrap_err();
    assert_eq!(refused, OpenError::Setting { name: "fsync", found: "off".to_owned(), wanted: "on" });
    let tables = world.postgres.psql(&database, "SELECT count(*) FROM pg_namespace WHERE nspname = 'segno'");
    assert_eq!(tables.as_deref(), Ok("0"), "a refused database is left as it is");
}

#[test]
fn a_start_refuses_what_it_cannot_use() {
    let world = World::new(&[("synchronous_commit", "off")]);
    let open = |url: &str| world.runtime.block_on(PostgresStore::open(url, Options::default()));
    assert!(matches!(open("postgres://host:port/x"), Err(OpenError::Url(_))));
    assert!(matches!(open("postgres://127.0.0.1/x?sslrootcert=nowhere"), Err(OpenError::Tls(_))));
    assert!(matches!(open("postgres://127.0.0.1:1/x"), Err(OpenError::Unreachable(_))));
    let database = world.postgres.database();
    let url = world.postgres.url(&database);
    // A lane sets what it needs, regardless of the default.
    let store = open(&url).unwrap();
    assert_eq!(blocking(&store).commit(&commit(0)), [Ok(())]);
    // Another one beside it.
    assert_eq!(open(&url).unwrap_err(), OpenError::OtherNode { name: "segno".to_owned() });
    assert_eq!(blocking(&store).commit(&commit(1)), [Ok(())]);
    world.close(store);
    // After a clean stop no start waits.
    let begun = Instant::now();
    world.close(open(&url).unwrap());
    assert!(begun.elapsed() < Duration::from_secs(2));
    world.postgres.psql(&database, "UPDATE segno.cluster SET schema = 99").unwrap();
    assert!(matches!(open(&url), Err(OpenError::NewerSchema { found: 99, .. })));
    let other = "CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'";
    world.postgres.psql("postgres", other).unwrap();
    assert!(matches!(open(&world.postgres.url("latin")), Err(OpenError::Setting { name: "server_encoding", .. })));
}

/// Speaks for a database that starts: so many connections are refused with 57P03, all later ones go to `target`.
fn starting(refusals: usize, target: u16) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let mut stream = stream.unwrap();
            if number >= refusals {
                let mut behind = TcpStream::connect(("127.0.0.1", target)).unwrap();
                let (mut from, mut to) = (stream.try_clone().unwrap(), behind.try_clone().unwrap());
                std::thread::spawn(move || std::io::copy(&mut from, &mut to));
                std::thread::spawn(move || std::io::copy(&mut behind, &mut stream));
                continue;
            }
            let mut packet = [0; 1024];
            // A request for TLS has eight bytes; then comes the packet that begins the session.
            if stream.read(&mut packet).unwrap() == 8 {
                stream.write_all(b"N").unwrap();
                let _ = stream.read(&mut packet).unwrap();
            }
            let fields = b"SFATAL\0VFATAL\0C57P03\0Mthe database system is starting up\0\0";
            stream.write_all(b"E").unwrap();
            stream.write_all(&(4 + fields.len() as u32).to_be_bytes()).unwrap();
            stream.write_all(fields).unwrap();
        }
    });
    port
}

/// Machines start in any order.
#[test]
fn a_database_that_starts_is_waited_for() {
    let world = World::new(&[]);
    let database = world.postgres.database();
    let port = starting(3, world.postgres.port);
    let store = world.try_open(&world.postgres.url_at(port, &database)).unwrap();
    assert_eq!(blocking(&store).commit(&commit(0)), [Ok(())]);
    world.close(store);
}

/// A primary that hangs, or a pooler whose server is gone, takes connections and says nothing.
#[test]
fn a_host_that_says_nothing_does_not_hide_the_next_one() {
    let world = World::new(&[]);
    let database = world.postgres.database();
    // Connections are made, and not accepted.
    let silent = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let hosts = format!("127.0.0.1:{},127.0.0.1:{}", silent.local_addr().unwrap().port(), world.postgres.port);
    let begun = Instant::now();
    let store = world.try_open(&format!("postgres://postgres@{hosts}/{database}")).unwrap();
    assert_eq!(blocking(&store).commit(&commit(0)), [Ok(())]);
    // Once, not for each connection.
    let took = begun.elapsed();
    assert!(took > Duration::from_secs(4) && took < Duration::from_secs(20), "{took:?}");
    world.close(store);
}

/// A node whose beat stands still loses its place, and from then on nothing of it is stored.
#[test]
fn whoever_takes_the_place_fences_the_other() {
    let world = World::new(&[]);
    let database = world.postgres.database();
    let other = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let url = world.postgres.url(&database);
    let old = other.block_on(PostgresStore::open(&url, Options::default())).unwrap();
    assert_eq!(blocking(&old).commit(&commit(0)), [Ok(())]);
    // It stands still: the only thread of its runtime waits.
    let (go, wait) = std::sync::mpsc::channel::<()>();
    other.spawn(async move { wait.recv() });
    let new = world.open(&database);
    assert_eq!(blocking(&new).commit(&commit(1)), [Ok(())]);
    go.send(()).unwrap();
    assert_eq!(blocking(&old).commit(&commit(2)), [Err(CommitError::Fenced)]);
    let namespace = NamespaceRecord { key: NamespaceKey(1), name: "n".to_owned(), detail: Vec::new().into() };
    assert_eq!(blocking(&old).put_namespace(&namespace), Err(CommitError::Fenced));
    assert_eq!(blocking(&old).reserve_run_keys(1), Err(CommitError::Fenced));
    assert_eq!(other.block_on(old.ended()), CommitError::Fenced);
    assert_eq!(blocking(&new).load(RunKey(1)).unwrap().unwrap().version, 2);
    world.close(new);
}

/// A database that knows less than it acknowledged.
#[test]
fn lost_groups_are_noticed() {
    let world = World::new(&[]);
    let database = world.postgres.database();
    let store = world.open(&database);
    for version in 0..3 {
        assert_eq!(blocking(&store).commit(&commit(version)), [Ok(())]);
    }
    // As after a failover to a standby that was behind.
    world.postgres.psql(&database, "UPDATE segno.lanes SET last_group = 1; UPDATE segno.runs SET version = 1").unwrap();
    world
        .postgres
        .psql(&database, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'segno/%'")
        .unwrap();
    let outcome = blocking(&store).commit(&commit(3)).remove(0);
    assert!(matches!(outcome, Err(CommitError::Lost(_))), "{outcome:?}");
    assert!(matches!(world.runtime.block_on(store.ended()), CommitError::Lost(_)));
}

/// The same for a node that commits nothing afterwards: its beat notices.
#[test]
fn lost_groups_are_noticed_without_another_commit() {
    let world = World::new(&[]);
    let database = world.postgres.database();
    let store = world.open(&database);
    assert_eq!(blocking(&store).commit(&commit(0)), [Ok(())]);
    world.postgres.psql(&database, "UPDATE segno.lanes SET last_group = 0").unwrap();
    let ended = async { tokio::time::timeout(Duration::from_secs(20), store.ended()).await };
    assert!(matches!(world.runtime.block_on(ended), Ok(CommitError::Lost(_))));
    assert!(matches!(blocking(&store).commit(&commit(1)).remove(0), Err(CommitError::Lost(_))));
}

/// While PostgreSQL restarts writes and reads wait; while it is away they fail after ten seconds, and nothing is lost.
#[test]
fn a_restart_is_waited_for_and_an_outage_is_bounded() {
    let mut world = World::new(&[]);
    let database = world.postgres.database();
    let store = world.open(&database);
    assert_eq!(blocking(&store).commit(&commit(0)), [Ok(())]);
    {
        let postgres = &mut std::sync::Arc::get_mut(&mut world).unwrap().postgres;
        postgres.stop("immediate");
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| blocking(&store).commit(&commit(1)));
            let reader = scope.spawn(|| blocking(&store).load(RunKey(1)));
            std::thread::sleep(Duration::from_millis(500));
            postgres.resume();
            assert_eq!(writer.join().unwrap(), [Ok(())]);
            assert!(reader.join().unwrap().is_ok());
        });
        postgres.stop("fast");
    }
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| blocking(&store).commit(&commit(2)));
        let reader = scope.spawn(|| blocking(&store).load(RunKey(1)));
        assert!(matches!(writer.join().unwrap()[..], [Err(CommitError::NotDone(_))]));
        assert!(matches!(reader.join().unwrap(), Err(ReadError::Failed(_))));
    });
    assert!(begun.elapsed() < Duration::from_secs(16), "{:?}", begun.elapsed());
    std::sync::Arc::get_mut(&mut world).unwrap().postgres.resume();
    assert_eq!(blocking(&store).commit(&commit(2)), [Ok(())]);
    assert_eq!(blocking(&store).load(RunKey(1)).unwrap().unwrap().version, 3);
    world.close(store);
}
