//! `segno cluster status`.

use clap::Args;
use segno_proto::segno_cluster::{DescribeRequest, DescribeResponse, Node, NodeLink};

use crate::{
    client::Client,
    output::{
        dynamic::decoded,
        table::{Cell, Table},
    },
};

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  segno cluster status")]
pub struct ClusterStatus {}

impl ClusterStatus {
    /// Prints all nodes.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let answer = client.call("describe the cluster", DescribeRequest {}).await?;
        client.print(|| text(&answer, client.colors), || decoded("segno.cluster.v1.DescribeResponse", &answer))
    }
}

fn text(cluster: &DescribeResponse, colors: bool) -> String {
    let headers = ["Node", "State", "Shards", "Link", "Address", "Version"];
    let mut text = Table::new(&headers, colors).render(&cluster.nodes.iter().map(row).collect::<Vec<_>>());
    if cluster.shards_without_owner > 0 {
        text += &format!("{} of {} shards have no owner right now\n", cluster.shards_without_owner, cluster.shards);
    }
    text
}

fn row(node: &Node) -> Vec<Cell> {
    let link = match node.link() {
        NodeLink::Self_ => "this node",
        NodeLink::Open => "open",
        NodeLink::Broken | NodeLink::Unspecified => "broken",
    };
    vec![
        (&node.name).into(),
        if node.leaving { "leaving" } else { "member" }.into(),
        node.shards.to_string().into(),
        link.into(),
        (&node.address).into(),
        (&node.version).into(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_shown() {
        let node = |name: &str, leaving: bool, link: NodeLink| Node {
            name: name.to_owned(),
            address: "10.0.0.1:7234".to_owned(),
            version: "0.1.0".to_owned(),
            leaving,
            shards: 512,
            link: link as i32,
            ..Default::default()
        };
        let nodes = vec![node("a", false, NodeLink::Self_), node("b", true, NodeLink::Broken)];
        let cluster = DescribeResponse { nodes, shards: 1024, shards_without_owner: 3, ..Default::default() };
        let expected = "\
Node  State    Shards  Link       Address        Version
a     member   512     this node  10.0.0.1:7234  0.1.0
b     leaving  512     broken     10.0.0.1:7234  0.1.0
3 of 1024 shards have no owner right now
";
        assert_eq!(text(&cluster, false), expected);
    }
}
