//! The header `Nexus-Link`: links in the form of RFC 8288, several joined by commas.

use segno_proto::nexus;

use crate::content::unquote;

/// The name of the header, in lower case.
pub const LINK_HEADER: &str = "nexus-link";

/// A header that is not a list of links.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid \"nexus-link\" header")]
pub struct NotLinks;

/// The header of some links. A link that has no form there is left out.
pub fn links_to_header(links: &[nexus::Link]) -> String {
    let is_plain = |text: &str| text.bytes().all(|byte| (b'!'..=b'~').contains(&byte) && !b"<>\"\\".contains(&byte));
    let links = links.iter().filter(|link| is_plain(&link.url) && is_plain(&link.r#type));
    let links: Vec<String> = links.map(|link| format!("<{}>; type=\"{}\"", link.url, link.r#type)).collect();
    links.join(", ")
}

/// The links of a header.
pub fn links_from_header(text: &str) -> Result<Vec<nexus::Link>, NotLinks> {
    let mut links = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let (url, parameters) = rest.strip_prefix('<').and_then(|rest| rest.split_once('>')).ok_or(NotLinks)?;
        let (kind, behind) = link_type(parameters).ok_or(NotLinks)?;
        links.push(nexus::Link { url: url.to_owned(), r#type: kind.ok_or(NotLinks)? });
        rest = behind;
    }
    Ok(links)
}

/// The parameter `type` of a link, and the text of the next one.
fn link_type(mut text: &str) -> Option<(Option<String>, &str)> {
    let mut kind = None;
    loop {
        text = text.trim_start();
        if text.is_empty() {
            return Some((kind, text));
        }
        if let Some(next) = text.strip_prefix(',') {
            let next = next.trim_start();
            return (!next.is_empty()).then_some((kind, next));
        }
        let parameter = text.strip_prefix(';')?.trim_start();
        let name_end = parameter.find(['=', ';', ',']).unwrap_or(parameter.len());
        let (name, behind) = (parameter[..name_end].trim(), &parameter[name_end..]);
        let (value, behind) = match behind.strip_prefix('=').map(str::trim_start) {
            None => (String::new(), behind),
            Some(value) => match value.strip_prefix('"') {
                Some(quoted) => unquote(quoted)?,
                None => {
                    let end = value.find([';', ',']).unwrap_or(value.len());
                    (value[..end].trim_end().to_owned(), &value[end..])
                }
            },
        };
        if name.eq_ignore_ascii_case("type") {
            kind.get_or_insert(value);
        }
        text = behind;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(url: &str, kind: &str) -> nexus::Link {
        nexus::Link { url: url.into(), r#type: kind.into() }
    }

    #[test]
    fn links_are_written_and_read() {
        let links = [link("temporal:///x?a=1,2", "T"), link("http://b/;c", "a.b.C")];
        let header = links_to_header(&links);
        assert_eq!(header, "<temporal:///x?a=1,2>; type=\"T\", <http://b/;c>; type=\"a.b.C\"");
        assert_eq!(links_from_header(&header), Ok(links.to_vec()));
        let spelled = links_from_header("<a>;rel = next ;Type=\"T\\\"1\" ; x,<b>; type=U");
        assert_eq!(spelled, Ok(vec![link("a", "T\"1"), link("b", "U")]));
        assert_eq!(links_from_header(""), Ok(Vec::new()));
        assert_eq!(links_to_header(&[link("a\r\nb: c", "T"), link("a", "T>")]), "");
    }

    #[test]
    fn other_texts_are_no_links() {
        for text in [
            "x",
            "<",
            "<a",
            "<a>",
            "<a>; rel=x",
            "<a>; type=\"T",
            "<a> type=T",
            "<a>; type=T,",
            ",",
            "<a>; type=T b, <c",
        ] {
            assert_eq!(links_from_header(text), Err(NotLinks), "{text}");
        }
    }
}
