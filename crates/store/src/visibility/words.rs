//! Searches texts by words and by patterns.
//!
//! Words are sequences of letters and digits. They are compared without regard to case and to diacritics of Latin
//! letters, as in the full text search of SQLite.

/// Latin letters with marks, by the letter below them.
const MARKED: [(char, &str); 26] = [
    ('a', "àáâãäåāăąǎǟǻȁȃȧḁạảấầẩẫậắằẳẵặ"),
    ('b', "ḃḅḇ"),
    ('c', "çćĉċčḉ"),
    ('d', "ďḋḍḏḑḓ"),
    ('e', "èéêëēĕėęěȅȇȩḕḗḙḛḝẹẻẽếềểễệ"),
    ('f', "ḟ"),
    ('g', "ĝğġģǧǵḡ"),
    ('h', "ĥȟḣḥḧḩḫẖ"),
    ('i', "ìíîïĩīĭįǐȉȋḭḯỉị"),
    ('j', "ĵǰ"),
    ('k', "ķǩḱḳḵ"),
    ('l', "ĺļľḷḹḻḽ"),
    ('m', "ḿṁṃ"),
    ('n', "ñńņňǹṅṇṉṋ"),
    ('o', "òóôõöōŏőơǒǫǭȍȏȫȭȯȱṍṏṑṓọỏốồổỗộớờởỡợ"),
    ('p', "ṕṗ"),
    ('r', "ŕŗřȑȓṙṛṝṟ"),
    ('s', "śŝşšſșṡṣṥṧṩẛ"),
    ('t', "ţťțṫṭṯṱẗ"),
    ('u', "ùúûüũūŭůűųưǔǖǘǚǜȕȗṳṵṷṹṻụủứừửữự"),
    ('v', "ṽṿ"),
    ('w', "ŵẁẃẅẇẉẘ"),
    ('x', "ẋẍ"),
    ('y', "ýÿŷȳẏẙỳỵỷỹ"),
    ('z', "źżžẑẓẕ"),
    // The two forms of sigma.
    ('σ', "ς"),
];

/// Whether one of the blank-separated parts of `wanted` occurs in `text`. A part of several words, such as `well-known`,
/// occurs if its words do, one after the other.
pub fn contains_word(text: &str, wanted: &str) -> bool {
    let text = words(text);
    wanted.split(' ').any(|part| {
        let part = words(part);
        !part.is_empty() && text.windows(part.len()).any(|place| place == part)
    })
}

/// Whether a text fits a pattern; see [`super::Filter::Like`].
pub fn fits(text: &str, pattern: &str) -> bool {
    let pattern = pattern_parts(pattern);
    let text: Vec<char> = text.chars().collect();
    let (mut at, mut part) = (0, 0);
    // Where to go on if what follows the last `%` does not fit: it takes one character more.
    let mut retry: Option<(usize, usize)> = None;
    loop {
        match pattern.get(part) {
            Some(Part::Any) => {
                part += 1;
                retry = Some((at, part));
                continue;
            }
            Some(Part::One) if at < text.len() => {}
            Some(Part::Plain(wanted)) if text.get(at) == Some(wanted) => {}
            None if at == text.len() => return true,
            _ => {
                let Some((begin, after)) = retry.filter(|(begin, _)| *begin < text.len()) else { return false };
                retry = Some((begin + 1, after));
                (at, part) = (begin + 1, after);
                continue;
            }
        }
        at += 1;
        part += 1;
    }
}

/// The text that everything begins with that fits a pattern.
pub fn pattern_prefix(pattern: &str) -> String {
    let plain = |part: &Part| if let Part::Plain(plain) = part { Some(*plain) } else { None };
    pattern_parts(pattern).iter().map_while(plain).collect()
}

/// The smallest text that is greater than all that begin with `prefix`; `None` if there is none.
pub fn after_prefix(prefix: &str) -> Option<String> {
    let mut chars: Vec<char> = prefix.chars().collect();
    while let Some(last) = chars.pop() {
        // Code points between these are no characters.
        let next = if last == '\u{d7ff}' { Some('\u{e000}') } else { char::from_u32(u32::from(last) + 1) };
        if let Some(next) = next {
            chars.push(next);
            return Some(chars.into_iter().collect());
        }
    }
    None
}

enum Part {
    Any,
    One,
    Plain(char),
}

fn pattern_parts(pattern: &str) -> Vec<Part> {
    let mut chars = pattern.chars();
    let mut parts = Vec::new();
    while let Some(found) = chars.next() {
        parts.push(match found {
            '%' => Part::Any,
            '_' => Part::One,
            '\\' => Part::Plain(chars.next().unwrap_or('\\')),
            plain => Part::Plain(plain),
        });
    }
    parts
}

/// The words of a text, in the form in which they are compared.
pub(super) fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    for found in text.chars() {
        if found.is_ascii_alphanumeric() {
            word.push(found.to_ascii_lowercase());
        } else if is_mark(found) {
            // Belongs to the letter before it.
        } else if found.is_alphanumeric() {
            word.extend(found.to_lowercase().filter(|letter| !is_mark(*letter)).map(unmarked));
        } else if !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

fn is_mark(found: char) -> bool {
    ('\u{300}'..='\u{36f}').contains(&found)
}

fn unmarked(letter: char) -> char {
    MARKED.iter().find(|(_, marked)| marked.contains(letter)).map_or(letter, |(plain, _)| *plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_have_words() {
        assert_eq!(words("The quick-brown fox_7!"), ["the", "quick", "brown", "fox", "7"]);
        assert_eq!(
            words("Café CAFE\u{301} İstanbul ΣΊΣΥΦΟΣ ... 東京"),
            ["cafe", "cafe", "istanbul", "σίσυφοσ", "東京"]
        );
        assert_eq!(words(" -- "), [""; 0]);
        assert!(contains_word("a well-known fact", "well-known"));
        assert!(contains_word("a well known fact", "nothing well-known"));
        assert!(!contains_word("known well", "well-known"));
        assert!(!contains_word("fox", "fo"));
        assert!(!contains_word("fox", "!!"));
    }

    #[test]
    fn patterns() {
        let cases = [
            ("abc", "abc", true),
            ("abc", "ABC", false),
            ("abc", "a%", true),
            ("abc", "%c", true),
            ("abc", "%b%", true),
            ("abc", "%d%", false),
            ("abc", "a_c", true),
            ("abc", "a_", false),
            ("abc", "____", false),
            ("aXbXc", "%X%X%", true),
            ("aXbXc", "%X%X%X%", false),
            ("aab", "%ab", true),
            ("mississippi", "m%iss%ip_i", true),
            ("", "", true),
            ("", "%", true),
            ("", "_", false),
            ("é", "_", true),
            ("100%", "100\\%", true),
            ("1000", "100\\%", false),
            ("a_b", "a\\_b", true),
            ("axb", "a\\_b", false),
            ("a\\b", "a\\\\b", true),
            ("a\\", "a\\", true),
            ("line\nbreak", "line%", true),
        ];
        for (text, pattern, wanted) in cases {
            assert_eq!(fits(text, pattern), wanted, "{text:?} LIKE {pattern:?}");
        }
        // Many `%` do not make it slow.
        assert!(!fits(&"a".repeat(2_000), &"%a".repeat(500).replace("%a%a", "%aa%b")));
    }

    #[test]
    fn prefixes() {
        assert_eq!(pattern_prefix("ab\\%c%d"), "ab%c");
        assert_eq!(pattern_prefix("_b"), "");
        assert_eq!(after_prefix("ab").as_deref(), Some("ac"));
        assert_eq!(after_prefix("a\u{d7ff}").as_deref(), Some("a\u{e000}"));
        assert_eq!(after_prefix("a\u{10ffff}").as_deref(), Some("b"));
        assert_eq!(after_prefix("\u{10ffff}"), None);
        assert_eq!(after_prefix(""), None);
    }
}
