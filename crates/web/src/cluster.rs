//! The nodes on a shared database: shards and links.

use maud::html;

use super::{
    Web,
    layout::{Page, facts},
};

impl Web {
    pub(super) fn cluster_page(&self) -> Page {
        let content = match &self.node.cluster {
            None => html! {
                h1 { "Cluster" }
                div.empty { p { "This server does not share a database with other nodes: it is the only node." } }
            },
            Some(cluster) => {
                let (map, links) = (cluster.topology.map(), cluster.peers.links());
                let free = map.owners.iter().filter(|owner| owner.is_none()).count();
                html! {
                    h1 { "Cluster" }
                    div #cluster data-live {
                        (facts(&[
                            ("Shards", html! { (map.owners.len()) }),
                            ("Without owner", html! { @if free > 0 { strong.bad { (free) } } @else { "0" } }),
                            ("Served here", html! { (cluster.topology.served().len()) }),
                            ("Within lease", html! { @if cluster.topology.is_within_lease() { "yes" } @else { strong.bad { "no" } } }),
                            ("Map version", html! { (map.version) }),
                        ]))
                        table.list {
                            caption.hidden { "Nodes" }
                            thead { tr { th scope="col" { "Node" } th scope="col" { "Address" } th scope="col" { "Version" } th scope="col" { "Link" } th.number scope="col" { "Shards" } } }
                            tbody { @for member in &map.members {
                                @let linked = links.iter().find(|(id, _)| *id == member.id).map(|(_, is_open)| *is_open);
                                @let shards = map.shards_of(member.id).len();
                                tr {
                                    th scope="row" { (member.name) @if cluster.topology.is_me(member.id) { " " span.badge.running { "this node" } } @if member.leaving { " " span.badge.warn { "leaving" } } }
                                    td data-label="Address" { (member.address) }
                                    td data-label="Version" { (member.version) }
                                    td data-label="Link" { @match linked { Some(true) => span.badge.good { "open" }, Some(false) => span.badge.bad { "closed" }, None => span.faint { "–" } } }
                                    td.number data-label="Shards" { progress max=(map.owners.len().max(1)) value=(shards) aria-label={ "Shards of " (member.name) } {} " " (shards) }
                                }
                            } }
                        }
                    }
                }
            }
        };
        Page { title: "Cluster".to_owned(), area: "cluster", content, is_live: true }
    }
}
