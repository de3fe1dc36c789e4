//! `segno key ...`: who may call the server, and what for.

mod create;
mod list;
mod revoke;
mod whoami;

noun!(Key {
    /// Makes a key and prints its secret, once.
    Create(create::Create),
    /// Lists the keys.
    List(list::List),
    /// Revokes a key at once.
    Revoke(revoke::Revoke),
    /// Shows who the server takes you for.
    Whoami(whoami::WhoAmI),
});
