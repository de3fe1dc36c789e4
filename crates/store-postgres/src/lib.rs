//! The store contract on PostgreSQL 15 and newer.
//!
//! A group of commits is one statement ([`statement`](crate)), numbered by the row of the commit sequence that makes it, so that a
//! group whose answer was lost can be settled. Reads that arrive together share a statement. Connections are few and
//! fixed: one for commits, two for reads, two for lists, one for the beat.
//!
//! What holds: a commit is acknowledged only once PostgreSQL has acknowledged it with settings that make it durable,
//! which every new connection checks. No call waits for the database longer than ten seconds, except a commit that was
//! sent: it waits until its outcome is known.

mod commit_sequence;
mod connect;
mod facts;
mod filter;
mod gather;
mod group;
mod layout;
mod list;
mod membership;
mod normal;
mod read;
mod schema;
mod statement;
mod storage;
#[cfg(feature = "test-support")]
pub mod testing;
mod text;
mod tls;

pub use storage::{LEASE, Options, PostgresStore, Statistics};

/// Why a database cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The URL cannot be read.
    #[error("the URL of the database cannot be read: {0}. It looks like postgres://user:password@host:5432/database")]
    Url(String),
    /// Certificates or keys of the URL cannot be used.
    #[error("TLS to the database: {0}")]
    Tls(String),
    /// It does not answer, or not as a database that works.
    #[error("the database cannot be reached: {0}")]
    Unreachable(String),
    /// It starts, or recovers from a crash.
    #[error("the database does not take connections yet: {0}")]
    Starting(String),
    /// PostgreSQL is too old.
    #[error("this is PostgreSQL {found}; Segno needs 15 or newer")]
    Version {
        /// The value that was found.
        found: String,
    },
    /// It is a standby.
    #[error("this is a standby (pg_is_in_recovery() is true); Segno writes and reads the primary only")]
    InRecovery,
    /// A setting with which acknowledged changes could be lost or garbled.
    #[error("the database has {name} = {found}, and Segno needs {wanted}: what it acknowledges must survive a crash")]
    Setting {
        /// Its name.
        name: &'static str,
        /// Its value.
        found: String,
        /// The value that it must have.
        wanted: &'static str,
    },
    /// Statements of one connection are executed by several sessions of the database.
    #[error(
        "a pooler before the database is not in session mode: what is set for a connection is lost again, or holds for others. Set \
         pool_mode = session, or connect without it"
    )]
    Pooler,
    /// A newer Segno was here.
    #[error("the database has schema {found}, and this binary knows {known}: start a newer Segno")]
    NewerSchema {
        /// The schema of the database.
        found: i32,
        /// The newest this binary knows.
        known: i32,
    },
    /// A newer Segno was here and stores what this one cannot read.
    #[error("the database has format {found}, and this binary knows {known}: start a newer Segno")]
    NewerFormat {
        /// The format of the database.
        found: i32,
        /// The newest this binary knows.
        known: i32,
    },
    /// The tables could not be made.
    #[error("the tables could not be brought up to date: {0}")]
    Migration(String),
    /// Another server is running.
    #[error(
        "another node is called {name:?} and is alive on this database. Give this one another name with --node-name, or \
         stop the other"
    )]
    OtherNode {
        /// Its name.
        name: String,
    },
}
