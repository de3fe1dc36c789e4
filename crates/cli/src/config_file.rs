//! `segno.toml`: settings of `segno serve` in a file. Every flag of the command is a key of the table `[serve]`.
//!
//! A setting of the file becomes a flag of the command line, unless the user gave that flag or its variable, or one
//! that excludes it. So this module knows only the names of settings: types, ranges and dependencies are checked where
//! flags are. Profiles of clients may be in the same file.

use std::{
    collections::HashMap,
    ffi::{OsStr, OsString},
    fmt::Write,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use clap::{Arg, ArgAction, ArgMatches, Command, parser::ValueSource};
use toml::de::{DeTable, DeValue};

use crate::{client, exit::Usage};

/// The command whose settings these are, and the table that has them.
const SERVE: &str = "serve";
/// Flags that are about the file and not in it.
const NOT_IN_FILE: [&str; 4] = ["config", "print_config", "help", "version"];
/// Where a setting comes from that was not set.
const DEFAULT: &str = "default";
/// The system's place, after the user's.
const SYSTEM_PLACE: &str = "/etc/segno/segno.toml";

/// Settings of a file.
#[derive(Debug, Default)]
pub struct ConfigFile {
    path: PathBuf,
    /// By the name of the flag: the words of the command line, and the line of the file.
    settings: Vec<(String, Vec<OsString>, usize)>,
}

/// The command line with the settings of the file, if there is one and the command is `serve`.
pub fn complete(words: Vec<OsString>, command: &Command) -> anyhow::Result<(Vec<OsString>, ConfigFile)> {
    let serve = command.find_subcommand(SERVE).filter(|_| words.get(1).is_some_and(|word| word == SERVE));
    let Some(serve) = serve else { return Ok((words, ConfigFile::default())) };
    let Some((path, text)) = read(&words)? else { return Ok((words, ConfigFile::default())) };
    let given = |arg: &Arg| is_given(arg, &words, &|name| std::env::var_os(name));
    let file = parse(&path, &text, serve, &given).with_context(|| format!("{}", path.display()))?;
    let mut words = words;
    words.extend(file.settings.iter().flat_map(|(_, setting, _)| setting.iter().cloned()));
    Ok((words, file))
}

impl ConfigFile {
    /// Where the flags that an error is about come from, if it is this file.
    pub fn explain(&self, error: &clap::Error) -> Option<String> {
        let text = error.to_string();
        let named = |name: &str| {
            let flag = format!("--{name}");
            text.match_indices(&flag).any(|(start, _)| {
                !text[start + flag.len()..].starts_with(|next: char| next == '-' || next.is_ascii_alphanumeric())
            })
        };
        let from: Vec<_> = self
            .settings
            .iter()
            .filter(|(name, ..)| named(name))
            .map(|(name, _, line)| format!("--{name} is line {line} of {}", self.path.display()))
            .collect();
        (!from.is_empty()).then(|| from.join("\n"))
    }

    /// All settings that are in effect, as a file that has the same effect, with where each comes from.
    pub fn print(&self, command: &Command, matches: &ArgMatches) -> String {
        let lines: HashMap<_, _> = self.settings.iter().map(|(name, _, line)| (name.as_str(), *line)).collect();
        let mut text = format!("[{SERVE}]\n");
        for arg in settings(command) {
            let (Some(name), id) = (arg.get_long(), arg.get_id().as_str()) else { continue };
            let source = match (matches.value_source(id), lines.get(name)) {
                (Some(ValueSource::CommandLine), Some(line)) => format!("{}, line {line}", self.path.display()),
                (Some(ValueSource::CommandLine), None) => "the command line".to_owned(),
                (Some(ValueSource::EnvVariable), _) => {
                    arg.get_env().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
                }
                _ => DEFAULT.to_owned(),
            };
            let value = match arg.get_action() {
                ArgAction::SetTrue => Some(matches.get_flag(id).to_string()),
                action => {
                    let raw = matches.get_raw(id).into_iter().flatten().map(|raw| literal(&raw.to_string_lossy()));
                    let all: Vec<_> = raw.collect();
                    match (action, all.as_slice()) {
                        (_, []) => None,
                        (ArgAction::Append, all) => Some(format!("[{}]", all.join(", "))),
                        (_, all) => Some(all.join(", ")),
                    }
                }
            };
            let _ = match value {
                // What was not set need not be: some settings only make sense beside others.
                Some(value) if source == DEFAULT => writeln!(text, "# {name} = {value}  # {source}"),
                Some(value) => writeln!(text, "{name} = {value}  # {source}"),
                None => writeln!(text, "# {name} is not set"),
            };
        }
        text
    }
}

/// A value as TOML has it. Numbers stay numbers.
fn literal(value: &str) -> String {
    if value.parse::<i64>().is_ok() && !value.starts_with(['0', '+']) || value == "0" {
        return value.to_owned();
    }
    // A string of JSON is one of TOML.
    serde_json::Value::from(value).to_string()
}

/// Flags that are settings.
fn settings(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|arg| !NOT_IN_FILE.contains(&arg.get_id().as_str()) && arg.get_long().is_some())
}

/// The file that the user named, or the first that is in a usual place.
fn read(words: &[OsString]) -> anyhow::Result<Option<(PathBuf, String)>> {
    let named = flag(words, "config")
        .map(OsStr::to_owned)
        .or_else(|| std::env::var_os("SEGNO_CONFIG").filter(|path| !path.is_empty()));
    let path = match named {
        Some(path) => PathBuf::from(path),
        None => {
            let usual = client::config_dir().map(|config| config.join("segno/segno.toml"));
            let usual = usual.into_iter().chain([PathBuf::from(SYSTEM_PLACE)]).find(|path| path.is_file());
            let Some(usual) = usual else { return Ok(None) };
            usual
        }
    };
    let text = std::fs::read_to_string(&path).with_context(|| format!("{} cannot be read", path.display()))?;
    Ok(Some((path, text)))
}

/// The value of a flag that the user gave.
fn flag<'a>(words: &'a [OsString], name: &str) -> Option<&'a OsStr> {
    let flag = format!("--{name}");
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if *word == *flag {
            return words.next().map(OsString::as_os_str);
        }
        if let Some(value) = word.to_str().and_then(|word| word.strip_prefix(&flag)?.strip_prefix('=')) {
            return Some(OsStr::new(value));
        }
    }
    None
}

/// Whether the user gave a flag or its variable.
fn is_given(arg: &Arg, words: &[OsString], variable: &dyn Fn(&OsStr) -> Option<OsString>) -> bool {
    let on_line = arg.get_long().is_some_and(|name| {
        let flag = format!("--{name}");
        let is = |word: &str| word.strip_prefix(&flag).is_some_and(|rest| rest.is_empty() || rest.starts_with('='));
        words.iter().filter_map(|word| word.to_str()).any(is)
    });
    on_line || arg.get_env().is_some_and(|name| variable(name).is_some())
}

fn parse(path: &Path, text: &str, serve: &Command, given: &dyn Fn(&Arg) -> bool) -> anyhow::Result<ConfigFile> {
    let line = |span: std::ops::Range<usize>| text[..span.start.min(text.len())].matches('\n').count() + 1;
    let table = DeTable::parse(text).map_err(|error| {
        let place = error.span().map(|span| format!("line {}: ", line(span))).unwrap_or_default();
        Usage(format!("{place}{}", error.message()))
    })?;
    let mut file = ConfigFile { path: path.to_owned(), settings: Vec::new() };
    for (key, value) in table.get_ref() {
        match (&**key.get_ref(), value.get_ref()) {
            ("profile", _) => {}
            (SERVE, DeValue::Table(settings)) => {
                for (key, value) in settings {
                    let at = line(key.span());
                    let arg = known(serve, key.get_ref()).with_context(|| format!("line {at}"))?;
                    let words = words_of(arg, value.get_ref()).with_context(|| format!("line {at}"))?;
                    let mut rivals = serve.get_arguments().filter(|other| excludes(serve, arg, other));
                    if !given(arg) && !rivals.any(given) {
                        file.settings.push((key.get_ref().to_string(), words, at));
                    }
                }
            }
            (SERVE, _) => bail!(Usage(format!("line {}: serve is not a table; write [{SERVE}]", line(key.span())))),
            (other, _) => {
                let hint = match settings(serve).any(|arg| arg.get_long() == Some(other)) {
                    true => format!("it belongs below [{SERVE}]"),
                    false => format!("there are [{SERVE}] and [profile.NAME]"),
                };
                bail!(Usage(format!("line {}: {other:?} is not understood; {hint}", line(key.span()))))
            }
        }
    }
    Ok(file)
}

/// Whether one of two flags may not be given together with the other.
fn excludes(command: &Command, one: &Arg, other: &Arg) -> bool {
    let names =
        |arg: &Arg, wanted: &Arg| command.get_arg_conflicts_with(arg).iter().any(|a| a.get_id() == wanted.get_id());
    one.get_id() != other.get_id() && (names(one, other) || names(other, one))
}

/// The flag that a key names.
fn known<'a>(serve: &'a Command, key: &str) -> anyhow::Result<&'a Arg> {
    if let Some(arg) = settings(serve).find(|arg| arg.get_long() == Some(key)) {
        return Ok(arg);
    }
    let nearest = settings(serve).filter_map(Arg::get_long).min_by_key(|name| distance(name, key));
    let hint = match nearest {
        Some(name) => format!("; did you mean {name:?}? `segno serve --help` has them all"),
        None => String::new(),
    };
    bail!(Usage(format!("{key:?} is not a setting{hint}")))
}

/// How many letters must be added, removed or replaced to make one word of another (Levenshtein).
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, letter) in one.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, wanted) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != *wanted);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[other.len()]
}

/// What the command line would say.
fn words_of(arg: &Arg, value: &DeValue<'_>) -> anyhow::Result<Vec<OsString>> {
    let name = arg.get_long().unwrap_or_default();
    let word = |value: &DeValue<'_>| {
        let text = match value {
            DeValue::String(text) => text.to_string(),
            DeValue::Integer(number) if number.radix() == 10 => number.as_str().to_owned(),
            other => bail!(Usage(format!("{name} is a {}, and a text or a number is needed", other.type_str()))),
        };
        Ok(OsString::from(format!("--{name}={text}")))
    };
    match (arg.get_action(), value) {
        (ArgAction::SetTrue, DeValue::Boolean(true)) => Ok(vec![format!("--{name}").into()]),
        (ArgAction::SetTrue, DeValue::Boolean(false)) => Ok(Vec::new()),
        (ArgAction::SetTrue, _) => bail!(Usage(format!("{name} is true or false"))),
        (ArgAction::Append, DeValue::Array(values)) => values.iter().map(|value| word(value.get_ref())).collect(),
        (_, value) => Ok(vec![word(value)?]),
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, FromArgMatches};

    use super::*;
    use crate::Arguments;

    fn file(text: &str, given: &[&str]) -> anyhow::Result<ConfigFile> {
        let command = Arguments::command();
        let serve = command.find_subcommand(SERVE).expect("there is one");
        let words: Vec<OsString> = given.iter().map(OsString::from).collect();
        let variable = |name: &OsStr| (name == "SEGNO_CACHE_MIB").then(|| OsString::from("1"));
        parse(Path::new("segno.toml"), text, serve, &|arg| is_given(arg, &words, &variable))
    }

    fn words(text: &str, given: &[&str]) -> Vec<String> {
        let file = file(text, given).expect(text);
        file.settings.iter().flat_map(|(_, words, _)| words).map(|word| word.to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn settings_become_flags() {
        let text =
            "[serve]\nport = 7300\nauth = true\ninsecure = false\nnode-name = \"a\"\n[profile.x]\naddress = \"a:1\"\n";
        assert_eq!(words(text, &[]), ["--auth", "--node-name=a", "--port=7300"], "in the order of their names");
    }

    #[test]
    fn flags_and_variables_go_before_the_file() {
        let text = "[serve]\nport = 7300\ncache-mib = 9\n";
        assert_eq!(words(text, &[]), ["--port=7300"], "the variable of cache-mib is set");
        assert_eq!(words(text, &["--port", "7400"]), [""; 0]);
        assert_eq!(words(text, &["--port=7400"]), [""; 0]);
        let text = "[serve]\ndata-dir = \"d\"\n";
        assert_eq!(words(text, &["--in-memory"]), [""; 0], "a flag that excludes the setting goes before it as well");
        assert_eq!(words("[serve]\nstore = \"s\"\n", &["--data-dir=d"]), [""; 0]);
    }

    #[test]
    fn what_is_not_understood_is_refused_with_its_line() {
        for (text, why) in [
            ("[serve]\n\nprot = 1\n", "line 3: \"prot\" is not a setting; did you mean \"port\"?"),
            ("[serve]\ntls_cert = \"c\"\n", "did you mean \"tls-cert\"?"),
            ("[serve]\nconfig = \"c\"\n", "line 2: \"config\" is not a setting"),
            ("[serve]\nauth = 1\n", "line 2: auth is true or false"),
            ("[serve]\nport = [1]\n", "line 2: port is a array"),
            ("port = 1\n", "line 1: \"port\" is not understood; it belongs below [serve]"),
            ("[server]\nport = 1\n", "there are [serve] and [profile.NAME]"),
            ("serve = 1\n", "line 1: serve is not a table"),
            ("[serve]\nport = \n", "line 2: "),
            ("[serve]\nport = 1\nport = 2\n", "line 3: "),
        ] {
            let refused = format!("{:#}", file(text, &[]).expect_err(text));
            assert!(refused.contains(why), "{refused}");
        }
    }

    /// What is printed has the same effect as what it was printed from, for every flag.
    #[test]
    fn printed_settings_can_be_read_again() {
        let command = Arguments::command();
        let given = ["segno", "serve", "--port=7300", "--auth", "--admin-key-file=a \"b\"", "--cache-mib=9"];
        let print = |words: &[String]| {
            let matches = Arguments::command().try_get_matches_from(words).expect("understood");
            let serve = matches.subcommand_matches(SERVE).expect("that command");
            assert!(Arguments::from_arg_matches(&matches).is_ok());
            let text = ConfigFile::default().print(command.find_subcommand(SERVE).expect("there is one"), serve);
            text.lines().map(|line| line.split("  #").next().unwrap_or_default().to_owned() + "\n").collect::<String>()
        };
        let first = print(&given.map(str::to_owned));
        assert!(first.contains("port = 7300\n") && first.contains("auth = true\n"), "{first}");
        let mut again = vec!["segno".to_owned(), SERVE.to_owned()];
        let file =
            parse(Path::new("f"), &first, command.find_subcommand(SERVE).expect("it"), &|_| false).expect("read");
        // What excludes each other is printed only where it is set, or false.
        again.extend(
            file.settings.iter().flat_map(|(_, words, _)| words).map(|word| word.to_string_lossy().into_owned()),
        );
        assert_eq!(print(&again), first);
    }

    #[test]
    fn errors_name_the_line_that_a_flag_comes_from() {
        let file = file("[serve]\nport = \"x\"\nhttp-port = 1\n", &[]).expect("read");
        let words = ["segno", "serve", "--port=x", "--http-port=1"];
        let error = Arguments::command().try_get_matches_from(words).expect_err("no number");
        assert_eq!(file.explain(&error).as_deref(), Some("--port is line 2 of segno.toml"));
    }
}
