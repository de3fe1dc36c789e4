//! The revision of documents: what counts in it, and what nodes learn of it.

use std::time::Duration;

use bytes::Bytes;
use segno_store::{
    Commit, DocumentWrite, NamespaceKey, NamespaceRecord, Store, Wait,
    cluster::{Membership, Revisions},
};
use segno_store_postgres::{Options, PostgresStore};
use tokio::time::Instant;

use crate::common::World;

fn document(content: Option<&'static str>, documents_of_one_node: bool) -> Vec<Commit> {
    let content = content.map(|content| Bytes::from_static(content.as_bytes()));
    let write = DocumentWrite { namespace: NamespaceKey(0), name: "access-key/a".to_owned(), content };
    vec![Commit { documents: vec![write], documents_of_one_node, ..Commit::default() }]
}

#[test]
fn changes_count_and_nodes_say_what_they_have() {
    let world = World::new(&[]);
    let database = world.postgres.database();
    let options = |name: &str| Options { node_name: name.to_owned(), may_lose_commits: true, ..Options::default() };
    let open = |name: &str| {
        let store = world.runtime.block_on(PostgresStore::open(&world.postgres.url(&database), options(name))).unwrap();
        let members = store.membership().unwrap();
        (store, members)
    };
    let ((one, here), (other, there)) = (open("one"), open("other"));
    let read = |members: &dyn Membership| -> Revisions { members.revisions().wait().unwrap() };
    let mut known = read(&*here).stored;
    assert_eq!((here.loaded_revision(), there.loaded_revision()), (known, known));

    // What does not count.
    assert_eq!(one.commit(document(Some("x"), true)).wait(), [Ok(())]);
    assert_eq!(read(&*here).stored, known);
    // What counts.
    let mut grows = |what: &str| {
        let stored = read(&*here).stored;
        assert!(stored > known, "{what}");
        known = stored;
    };
    assert_eq!(one.commit(document(Some("y"), false)).wait(), [Ok(())]);
    grows("a document was written");
    assert_eq!(one.commit(document(None, false)).wait(), [Ok(())]);
    grows("a document was removed");
    let mut record = NamespaceRecord { key: NamespaceKey(7), name: "seven".to_owned(), detail: Bytes::new() };
    one.create_namespace(&record).wait().unwrap();
    grows("a namespace was made");
    record.detail = Bytes::from_static(b"changed");
    one.put_namespace(&record).wait().unwrap();
    grows("a namespace was changed");
    one.delete_namespace(NamespaceKey(7)).wait().unwrap();
    grows("a namespace was deleted");

    // The other node learns of it with a beat, and says what it has.
    let until = Instant::now() + Duration::from_secs(10);
    while there.map().1.revision != known {
        assert!(Instant::now() < until, "no beat shows the revision");
        std::thread::sleep(Duration::from_millis(10));
    }
    let has = |revisions: &Revisions, name: &str| {
        revisions.members.iter().find(|(_, known, _)| known == name).and_then(|(.., revision)| *revision)
    };
    assert!(has(&read(&*here), "other").is_some_and(|revision| revision < known));
    let before = there.compared_at();
    std::thread::sleep(Duration::from_millis(1_200));
    assert_eq!(there.compared_at(), before, "beats do not count while it has something older");
    let asked = Instant::now();
    there.set_loaded(known, asked);
    // A beat may have come since.
    let compared = there.compared_at();
    assert!(compared >= asked);
    while has(&read(&*here), "other") != Some(known) || there.compared_at() == compared {
        assert!(Instant::now() < until + Duration::from_secs(10), "the revision is not published");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(there.compared_at() > compared);
    world.close(one);
    world.close(other);
}
