//! Names that are like another one, for hints.

/// The name among these that is most like this one, if one is.
pub(crate) fn similar<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let length = name.chars().count();
    let most = match length {
        0..=1 => return None,
        2..=4 => 1,
        5..=8 => 2,
        _ => 3,
    };
    let mut best: Option<(usize, &str)> = None;
    for candidate in names {
        let longer = candidate.chars().count().abs_diff(length);
        if candidate == name || longer > most.max(3) {
            continue;
        }
        let distance = if candidate.eq_ignore_ascii_case(name) {
            0
        } else if length > 2 && (candidate.starts_with(name) || name.starts_with(candidate)) {
            1
        } else {
            distance(name, candidate)
        };
        // Of names equally like it the first in alphabetical order, regardless of the order of the candidates.
        if distance <= most && best.is_none_or(|best| (distance, candidate) < best) {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// How many characters to insert, remove, replace or swap with their neighbour.
fn distance(left: &str, right: &str) -> usize {
    let left: Vec<char> = left.chars().collect();
    let right: Vec<char> = right.chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in right.iter().enumerate() {
            let mut least = (last[j] + usize::from(a != b)).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *a == right[j - 1] && left[i - 1] == *b {
                least = least.min(before[j - 1] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[right.len()]
}

/// The hint that names it.
pub(crate) fn did_you_mean(name: &str) -> String {
    format!("did you mean \"{name}\"?")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_names() {
        let names = ["result", "results", "status", "id"];
        assert_eq!(similar("reslt", names.into_iter()), Some("result"));
        assert_eq!(similar("Status", names.into_iter()), Some("status"));
        assert_eq!(similar("stauts", names.into_iter()), Some("status"));
        assert_eq!(similar("x", names.into_iter()), None);
        assert_eq!(similar("payment", names.into_iter()), None);
    }
}
