//! `segno key ...`: access keys.

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
    /// Shows the name and the grants under which the server knows you.
    Whoami(whoami::WhoAmI),
});
