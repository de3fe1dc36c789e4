//! How serious a reason is, with a sign, a word and a colour: no reader has to tell colours apart.

use maud::{Markup, html};
use segno_proto::segno_workflow::Reason;

/// Class, sign and word of a severity, the most serious first.
const SEVERITIES: [(&str, &str, &str, &str); 3] = [
    ("STUCK", "stuck", "\u{25a0}", "Stuck"),
    ("DELAYED", "delayed", "\u{25b2}", "Delayed"),
    ("WAITING", "waiting-well", "\u{25cf}", "Waiting"),
];

/// The sign and the word; nothing for what is no reason to wait.
pub(super) fn mark(severity: &str) -> Markup {
    let found = SEVERITIES.iter().find(|(name, ..)| *name == severity);
    html! {
        @if let Some((_, class, sign, word)) = found {
            span class={ "severity " (class) } { span aria-hidden="true" { (sign) } " " (word) }
        }
    }
}

/// The class of the most serious reason.
pub(super) fn worst(reasons: &[Reason]) -> &'static str {
    let found = SEVERITIES.iter().find(|(name, ..)| reasons.iter().any(|reason| reason.severity == *name));
    found.map_or("", |(_, class, ..)| *class)
}

/// The most serious reason to wait, in a few words.
pub(super) fn brief(reasons: &[Reason]) -> Markup {
    let of = |severity: &str| reasons.iter().find(|reason| reason.severity == severity);
    let found = SEVERITIES.iter().find_map(|(name, ..)| of(name));
    html! {
        @match found {
            Some(reason) => { (mark(&reason.severity)) " " (reason.brief) }
            None => span.faint { "–" },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_serious_reason_is_shown() {
        let reason = |severity: &str, brief: &str| Reason {
            severity: severity.to_owned(),
            brief: brief.to_owned(),
            ..Default::default()
        };
        let all = [reason("WAITING", "a timer"), reason("STUCK", "an operator"), reason("", "")];
        assert_eq!(worst(&all), "stuck");
        let shown = brief(&all).0;
        assert!(shown.contains("Stuck") && shown.contains("an operator") && !shown.contains("timer"), "{shown}");
        assert_eq!(worst(&all[2..]), "");
        assert!(brief(&all[2..]).0.contains('–'));
    }
}
