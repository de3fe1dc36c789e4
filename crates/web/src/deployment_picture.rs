//! A deployment as a picture: where workflows go that are not pinned, and how many are pinned to each version.

use std::collections::BTreeMap;

use maud::{Markup, html};
use segno_proto::{
    deployment::{RoutingConfig, worker_deployment_info::WorkerDeploymentVersionSummary},
    enums::WorkerDeploymentVersionStatus as Status,
};

use super::{
    deployment_routing::{Target, build_of, share, status_words},
    deployments::version_address,
    payloads::short,
    workflows::grouped,
};

/// Versions in the picture; the table below has all of them.
const VERSIONS_MAX: usize = 10;
const WIDTH: f64 = 760.0;
/// Height of a version with the gap below it.
const ROW: f64 = 52.0;
const BOX_HEIGHT: f64 = 40.0;
const BOX_LEFT: f64 = 300.0;
const BOX_WIDTH: f64 = 200.0;
/// Where the bars of pinned workflows begin, and how long the longest is.
const BAR_LEFT: f64 = 530.0;
const BAR_WIDTH: f64 = 120.0;
/// Height of the source of all workflows: the whole of 100 percent.
const SOURCE_HEIGHT: f64 = 40.0;
const SOURCE_RIGHT: f64 = 130.0;
/// Characters of a build id in a box.
const BUILD_CHARS: usize = 22;

/// Workers in the picture.
struct Row {
    target: Target,
    status: Option<Status>,
    pinned: i64,
    share: f32,
}

/// The versions that are drawn: those with a share or pinned workflows first, then the newest.
fn rows(
    routing: &RoutingConfig,
    versions: &[WorkerDeploymentVersionSummary],
    pinned: &BTreeMap<String, i64>,
) -> Vec<Row> {
    let mut rows: Vec<Row> = versions
        .iter()
        .map(|summary| {
            let target = Target::Build(build_of(summary).to_owned());
            let share = share(routing, &target);
            let pinned = pinned.get(build_of(summary)).copied().unwrap_or(0);
            Row { target, status: Some(summary.status()), pinned, share }
        })
        .collect();
    let unversioned = share(routing, &Target::Unversioned);
    if unversioned > 0.0 {
        rows.push(Row { target: Target::Unversioned, status: None, pinned: 0, share: unversioned });
    }
    // The sort is stable: among equals the newest first, as the server has them.
    rows.sort_by_key(|row| (row.share <= 0.0, row.pinned == 0));
    rows.truncate(VERSIONS_MAX);
    rows
}

/// The picture.
pub(super) fn picture(
    namespace: &str,
    name: &str,
    routing: &RoutingConfig,
    versions: &[WorkerDeploymentVersionSummary],
    pinned: &BTreeMap<String, i64>,
) -> Markup {
    let rows = rows(routing, versions, pinned);
    let height = (rows.len().max(2) as f64).mul_add(ROW, 24.0);
    let most = rows.iter().map(|row| row.pinned).max().unwrap_or(0).max(1);
    let source_top = (height - SOURCE_HEIGHT) / 2.0;
    // Shares leave the source one below the other.
    let mut leaves = source_top;
    let places: Vec<_> = rows
        .iter()
        .enumerate()
        .map(|(place, row)| {
            let top = (place as f64).mul_add(ROW, 18.0);
            let thickness = SOURCE_HEIGHT * f64::from(row.share) / 100.0;
            let from = leaves + thickness / 2.0;
            leaves += thickness;
            (row, top, from, thickness)
        })
        .collect();
    html! {
        div.scroll tabindex="0" role="region" aria-label="Picture of the deployment" {
            svg.routes viewBox={ "0 0 " (WIDTH) " " (height) } role="group" aria-label=(described(&rows)) {
                text.head x=(BAR_LEFT) y="11" { "Pinned workflows" }
                text.head x="0" y=(source_top - 22.0) { "New workflows" }
                text.head x="0" y=(source_top - 8.0) { "and auto-upgrade" }
                rect.source x="1" y=(source_top) width=(SOURCE_RIGHT - 1.0) height=(SOURCE_HEIGHT) rx="6" {}
                text.share x="12" y=(source_top + SOURCE_HEIGHT / 2.0 + 4.0) { "100 %" }
                @for (row, top, from, thickness) in &places {
                    @if row.share > 0.0 { (flow(*from, top + BOX_HEIGHT / 2.0, *thickness, row)) }
                }
                @for (row, top, ..) in &places { (version(namespace, name, row, *top, most)) }
            }
        }
    }
}

/// The share of a version on its way.
fn flow(from: f64, to: f64, thickness: f64, row: &Row) -> Markup {
    let middle = (SOURCE_RIGHT + BOX_LEFT) / 2.0;
    let class = if row.status == Some(Status::Ramping) { "flow ramping" } else { "flow" };
    let path = format!("M{SOURCE_RIGHT} {from:.1} C{middle} {from:.1} {middle} {to:.1} {BOX_LEFT} {to:.1}");
    html! {
        path class=(class) d=(path) stroke-width=(format!("{:.1}", thickness.max(1.5))) {}
        text.share x=(BOX_LEFT - 8.0) y=(format!("{:.1}", to - thickness / 2.0 - 4.0)) text-anchor="end" { (row.share) " %" }
    }
}

fn version(namespace: &str, name: &str, row: &Row, top: f64, most: i64) -> Markup {
    let (status, class) = row.status.map_or_else(|| (String::new(), "plain"), status_words);
    let width = BAR_WIDTH * row.pinned as f64 / most as f64;
    let middle = top + BOX_HEIGHT / 2.0;
    html! {
        @match &row.target {
            Target::Build(build) => {
                a href=(version_address(namespace, name, build)) {
                    title { (build) }
                    rect class={ "version " (class) } x=(BOX_LEFT) y=(top) width=(BOX_WIDTH) height=(BOX_HEIGHT) rx="8" {}
                    text.build x=(BOX_LEFT + 12.0) y=(top + 17.0) { (short(build, BUILD_CHARS)) }
                    text class={ "status " (class) } x=(BOX_LEFT + 12.0) y=(top + 32.0) { (status) }
                }
                rect class={ "pinned " (class) } x=(BAR_LEFT) y=(middle - 7.0) width=(format!("{:.1}", width.max(2.0))) height="14" rx="2" {}
                text.share x=(format!("{:.1}", BAR_LEFT + width.max(2.0) + 8.0)) y=(middle + 4.0) { (grouped(row.pinned)) }
            }
            Target::Unversioned => {
                rect.version.none x=(BOX_LEFT) y=(top) width=(BOX_WIDTH) height=(BOX_HEIGHT) rx="8" {}
                text.build x=(BOX_LEFT + 12.0) y=(top + 24.0) { "unversioned workers" }
            }
        }
    }
}

/// The picture in words.
fn described(rows: &[Row]) -> String {
    let name = |row: &Row| match &row.target {
        Target::Build(build) => build.clone(),
        Target::Unversioned => "unversioned workers".to_owned(),
    };
    let row = |row: &Row| format!("{}: {} % of the routing, {} pinned workflows", name(row), row.share, row.pinned);
    rows.iter().map(row).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use segno_proto::deployment::WorkerDeploymentVersion;

    use super::*;

    #[test]
    fn shares_and_pinned_workflows_are_drawn() {
        let version = |build: &str| {
            Some(WorkerDeploymentVersion { deployment_name: "orders".to_owned(), build_id: build.to_owned() })
        };
        let summary = |build: &str, status: Status| WorkerDeploymentVersionSummary {
            deployment_version: version(build),
            status: status as i32,
            ..Default::default()
        };
        let routing = RoutingConfig {
            current_deployment_version: version("b2"),
            ramping_deployment_version: version("b3"),
            ramping_version_percentage: 25.0,
            ..Default::default()
        };
        let versions = [
            summary("b4", Status::Inactive),
            summary("b3", Status::Ramping),
            summary("b2", Status::Current),
            summary("b1", Status::Draining),
        ];
        let pinned = [("b1".to_owned(), 1200)].into();
        let drawn = rows(&routing, &versions, &pinned);
        let order: Vec<_> = drawn.iter().map(|row| row.target.clone()).collect();
        assert_eq!(order, ["b3", "b2", "b1", "b4"].map(|build| Target::Build(build.to_owned())));
        let text = picture("default", "orders", &routing, &versions, &pinned).0;
        assert!(text.contains("b3: 25 % of the routing, 0 pinned workflows; b2: 75 % of the routing"), "{text}");
        assert_eq!(text.matches("<path").count(), 2, "{text}");
        assert!(text.contains("/ui/default/deployments/orders/b1"), "{text}");
    }

    #[test]
    fn without_a_current_version_all_goes_to_unversioned_workers() {
        let text = picture("default", "orders", &RoutingConfig::default(), &[], &BTreeMap::new()).0;
        assert!(text.contains("unversioned workers: 100 % of the routing"), "{text}");
    }
}
