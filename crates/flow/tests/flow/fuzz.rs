//! Mutated source: nothing panics or hangs, and formatting changes no meaning and loses no comment.
//!
//! Seeded, so every run is the same. `FLOW_FUZZ=n` sets how many sources are tried, `FLOW_FUZZ_SEED` where to begin.

use std::time::{Duration, Instant};

use segno_flow::{check, check_test, format as format_source, types};

use crate::format::{examples, meaning};

/// xorshift64*.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() >> 33).unwrap() % limit.max(1)
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }
}

const PIECES: &[&str] = &[
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    ",",
    ";",
    ":",
    ".",
    "?.",
    "??",
    "??=",
    "?",
    "=",
    "==",
    "===",
    "!=",
    "<",
    ">=",
    "+",
    "-",
    "*",
    "/",
    "%",
    "!",
    "&&",
    "||",
    "=>",
    "...",
    "++",
    "--",
    "+=",
    "\n",
    " ",
    "\"",
    "'",
    "`",
    "${",
    "\\",
    "//",
    "/*",
    "*/",
    "#",
    "é",
    "👍",
    "\u{301}",
    "0",
    "1.5",
    "0x1F",
    "1e400",
    "9223372036854775808",
    "\"text\"",
    "'t'",
    "`a${1}b`",
    "async ",
    "await ",
    "break",
    "case 1:",
    "catch ",
    "const ",
    "continue",
    "default:",
    "delete ",
    "else ",
    "false",
    "finally ",
    "for (",
    "for (const x of xs) ",
    "function ",
    "if (",
    "in ",
    "let ",
    "new Error(\"x\")",
    "null",
    "return ",
    "switch (",
    "throw ",
    "true",
    "try {",
    "typeof ",
    "while (",
    "class ",
    "var ",
    "do ",
    "workflow w() {",
    "query q() {",
    "signal s(x) {",
    "update u(x) { validate {",
    "schedule(",
    "test \"t\" {",
    "use \"x\"",
    "of ",
    "x",
    "xs",
    "Task.run(\"x\")",
    "Task.all(",
    "wait_until(() => ",
    "x => ",
    "async (a, b) => {",
    "// comment\n",
    "/* c */",
    "/* a\n b */",
    "\r\n",
    "\u{feff}",
    "\0",
    "\t",
];

fn boundary(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

fn mutate(source: &mut String, random: &mut Random, others: &[(String, String)]) {
    let at = boundary(source, random.below(source.len() + 1));
    let end = boundary(source, (at + random.below(30)).min(source.len()));
    match random.below(9) {
        0 => source.replace_range(at..end, ""),
        1 | 2 => source.insert_str(at, random.one(PIECES)),
        3 => source.replace_range(at..end, random.one(PIECES)),
        4 => source.truncate(at),
        5 => {
            let copy = source[at..end].to_owned();
            let to = boundary(source, random.below(source.len() + 1));
            source.insert_str(to, &copy);
        }
        6 => {
            let other = &others[random.below(others.len())].1;
            let from = boundary(other, random.below(other.len()));
            let to = boundary(other, (from + random.below(200)).min(other.len()));
            source.insert_str(at, &other[from..to]);
        }
        7 => {
            let piece = random.one(PIECES).repeat(random.below(200));
            source.insert_str(at, &piece);
        }
        // Between words, where the source stays correct more often.
        _ => {
            let spaces: Vec<usize> = source.match_indices(' ').map(|(at, _)| at).collect();
            if !spaces.is_empty() {
                let at = spaces[random.below(spaces.len())];
                source.insert_str(at, random.one(&["\n", " // c\n", " /* c */ ", "\n// c\n", "\n\n", " /* a\nb */ "]));
            }
        }
    }
}

/// Comments that were put in. White space at the end of a line is not part of them.
fn comments(source: &str) -> usize {
    let source: String = source.lines().map(|line| format!("{}\n", line.trim_end())).collect();
    source.matches("/* c */").count() + source.matches("// c\n").count() + source.matches("/* a\n").count()
}

fn examine(source: &str) {
    let start = Instant::now();
    let checked = check(source.as_bytes());
    let as_test = check_test(source.as_bytes());
    for checked in [&checked, &as_test] {
        assert!(checked.diagnostics.len() <= 50);
        for found in &checked.diagnostics {
            assert!(
                found.start.line >= 1 && found.start.column >= 1 && found.start < found.end || found.start == found.end
            );
            assert!(!segno_flow::render(found, "f", source).is_empty());
        }
        if let Some(program) = &checked.program
            && let Err(errors) = segno_flow::compile(program, "f")
        {
            // Only options of `schedule` are computed when compiling.
            assert!(errors.iter().all(|error| error.code == "F0208"), "{errors:?}\n{source}");
        }
    }
    for (plain, typed) in
        [(&checked, types::check(source.as_bytes())), (&as_test, types::check_test(source.as_bytes()))]
    {
        assert!(typed.diagnostics.len() <= 50);
        if plain.program.is_none() {
            assert_eq!(typed.diagnostics, plain.diagnostics, "errors of types come alone");
        }
    }
    if let Ok(once) = format_source(source) {
        let before = meaning(source);
        assert_eq!(format_source(&once).as_deref(), Ok(once.as_str()), "not idempotent:\n{source}");
        assert_eq!(meaning(&once), before, "changed:\n{source}\n{once}");
        assert_eq!(comments(&once), comments(source), "lost a comment:\n{source}\n{once}");
    }
    assert!(start.elapsed() < Duration::from_secs(60), "slow:\n{source}");
}

#[test]
fn mutated_source() {
    let setting = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let count = setting("FLOW_FUZZ").unwrap_or(1_000);
    let seed = setting("FLOW_FUZZ_SEED").unwrap_or(1);
    let examples = examples();
    for round in 0..count {
        let mut random = Random((seed + round).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        random.next();
        let mut source = examples[random.below(examples.len())].1.clone();
        // Most keep their meaning with few changes; some get many.
        let changes = if random.below(4) == 0 { 1 + random.below(20) } else { 1 + random.below(3) };
        let only_space = random.below(3) == 0;
        for _ in 0..changes {
            if only_space {
                let spaces: Vec<usize> = source.match_indices(' ').map(|(at, _)| at).collect();
                let at = spaces[random.below(spaces.len())];
                source.insert_str(at, random.one(&["\n", " // c\n", " /* c */ ", "\n// c\n", "\n\n", " /* a\nb */ "]));
            } else {
                mutate(&mut source, &mut random, &examples);
            }
        }
        examine(&source);
    }
}

#[test]
fn random_bytes() {
    let mut random = Random(42);
    for _ in 0..2_000 {
        let length = random.below(200);
        #[expect(clippy::cast_possible_truncation, reason = "any byte will do")]
        let bytes: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
        let _ = check(&bytes);
        let text: String = (0..random.below(60)).map(|_| random.one(PIECES)).collect();
        examine(&text);
    }
}
