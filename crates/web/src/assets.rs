//! Style sheet, scripts and the logo, which are parts of the binary.
//!
//! Their addresses carry no version; browsers ask whether what they have is still current (`If-None-Match`).

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::OnceLock,
};

use http::{HeaderMap, HeaderValue, Response, StatusCode, header};

use super::{WebBody, plain, respond};

struct Asset {
    name: &'static str,
    kind: &'static str,
    content: &'static str,
}

const SCRIPT: &str = "text/javascript; charset=utf-8";

const ASSETS: &[Asset] = &[
    Asset { name: "actions.js", kind: SCRIPT, content: include_str!("assets/actions.js") },
    Asset { name: "codec.js", kind: SCRIPT, content: include_str!("assets/codec.js") },
    Asset { name: "figures.js", kind: SCRIPT, content: include_str!("assets/figures.js") },
    Asset { name: "filter.js", kind: SCRIPT, content: include_str!("assets/filter.js") },
    Asset { name: "live.js", kind: SCRIPT, content: include_str!("assets/live.js") },
    Asset { name: "logo.svg", kind: "image/svg+xml", content: include_str!("assets/logo.svg") },
    Asset { name: "main.js", kind: SCRIPT, content: include_str!("assets/main.js") },
    Asset { name: "names.js", kind: SCRIPT, content: include_str!("assets/names.js") },
    Asset { name: "script.js", kind: SCRIPT, content: include_str!("assets/script.js") },
    Asset { name: "style.css", kind: "text/css; charset=utf-8", content: include_str!("assets/style.css") },
    Asset { name: "theme.js", kind: SCRIPT, content: include_str!("assets/theme.js") },
    Asset { name: "timeline.js", kind: SCRIPT, content: include_str!("assets/timeline.js") },
    Asset { name: "times.js", kind: SCRIPT, content: include_str!("assets/times.js") },
];

/// One tag for all: they change together, with the binary.
fn tag() -> &'static str {
    static TAG: OnceLock<String> = OnceLock::new();
    TAG.get_or_init(|| {
        let mut hasher = DefaultHasher::new();
        ASSETS.iter().for_each(|asset| asset.content.hash(&mut hasher));
        format!("\"{:016x}\"", hasher.finish())
    })
}

/// The file of this name.
pub(super) fn answer(name: &str, headers: &HeaderMap) -> Response<WebBody> {
    let Some(asset) = ASSETS.iter().find(|asset| asset.name == name) else {
        return plain(StatusCode::NOT_FOUND, "there is no such file\n");
    };
    let is_current = headers.get(header::IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag().as_bytes());
    let mut response = match is_current {
        true => respond(StatusCode::NOT_MODIFIED, asset.kind, ""),
        false => respond(StatusCode::OK, asset.kind, asset.content),
    };
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    if let Ok(tag) = HeaderValue::from_str(tag()) {
        headers.insert(header::ETAG, tag);
    }
    response
}
