//! What a step costs, for each function and operation whose work depends on its input: nanoseconds per step with large
//! inputs, beside the average of ordinary code. No row should be above ten times that average: a step limit bounds time only
//! if no step is much longer than another. Run with `cargo run --release -p segno-harness --example flow_prices`.

use std::sync::LazyLock;
use std::time::Instant;

use segno_flow::interface::{Event, EventKind, Limits, Start, Unpaced};
use segno_flow::{check, compile, turn};

/// Executed once, before the measured part.
const PREPARED: &str = "const text = \"abcdefgh \".repeat(40000)
  const unicode = \"äöü€ \".repeat(20000)
  const words = text.split(\" \")
  const numbers = List.range(100000)
  const doubles = numbers.map(n => n / 7)
  const other = numbers.map(n => n)
  const object = Object.fromEntries(numbers.slice(0, 30000).map(n => [`key${n}`, n]))
  const same = Object.fromEntries(numbers.slice(0, 30000).map(n => [`key${n}`, n]))
  const objects = numbers.slice(0, 20000).map(n => ({ id: n, name: `n${n}` }))
  const objects2 = numbers.slice(0, 20000).map(n => ({ id: n, name: `n${n}` }))
  const shuffled = numbers.map(n => n * 7919 % 100003)
  const names = shuffled.map(n => `name ${n}`)
  const json = JSON.stringify(objects)
  const json_doubles = JSON.stringify(doubles)
  const long = \"k\".repeat(20000)
  const keyed = { [long]: 1 }
  let copy = object, list = numbers, n = 0, s = \"\"";

/// Name, and what is repeated.
const ROWS: &[(&str, &str)] = &[
    ("split(\"\")", "n += text.split(\"\").length"),
    ("split(\" \")", "n += text.split(\" \").length"),
    ("toUpperCase", "n += unicode.toUpperCase().length"),
    ("replaceAll", "n += text.replaceAll(\"a\", \"bb\").length"),
    ("includes", "if (text.includes(\"z\")) n++"),
    ("slice of text", "n += text.slice(100, 300000).length"),
    ("indexOf", "n += text.indexOf(\"z\")"),
    ("padStart", "n += \"a\".padStart(300000, \"xy\").length"),
    ("repeat", "n += \"abc\".repeat(100000).length"),
    ("text +", "s = text + \"x\""),
    ("template", "s = `${text}x`"),
    ("text building", "s = s + \"abcdefghijklmnop\""),
    ("join numbers", "n += numbers.join(\",\").length"),
    ("join doubles", "n += doubles.join(\",\").length"),
    ("join texts", "n += words.join(\",\").length"),
    ("list ==", "if (numbers == other) n++"),
    ("object ==", "if (object == same) n++"),
    ("objects ==", "if (objects == objects2) n++"),
    ("copy of object", "copy = object\n    copy.key1 = n"),
    ("{...object}", "copy = { ...object, n }"),
    ("copy of list", "list = numbers\n    list[0] = n"),
    ("concat", "n += numbers.concat(numbers).length"),
    ("[...list]", "n += [...numbers].length"),
    ("reverse", "n += numbers.reverse().length"),
    ("flat", "n += [numbers, numbers].flat().length"),
    ("includes in list", "if (numbers.includes(-1)) n++"),
    ("shift", "list = numbers\n    list.shift()"),
    ("sort numbers", "n += shuffled.sort().length"),
    ("sort texts", "n += names.sort().length"),
    ("sort by function", "n += shuffled.slice(0, 3000).sort((a, b) => a - b).length"),
    ("JSON.stringify objects", "n += JSON.stringify(objects).length"),
    ("JSON.stringify doubles", "n += JSON.stringify(doubles).length"),
    ("JSON.stringify numbers", "n += JSON.stringify(numbers).length"),
    ("JSON.parse objects", "n += JSON.parse(json).length"),
    ("JSON.parse doubles", "n += JSON.parse(json_doubles).length"),
    ("Object.keys", "n += Object.keys(object).length"),
    ("Object.entries", "n += Object.entries(object).length"),
    ("Object.fromEntries", "n += Object.keys(Object.fromEntries(Object.entries(object))).length"),
    ("Object.omit", "n += Object.keys(Object.omit(object, [\"key1\"])).length"),
    ("delete", "copy = object\n    delete copy.key1"),
    ("List.range", "n += List.range(100000).length"),
    ("map", "n += numbers.map(x => x).length"),
    ("long keys", "n += keyed[long]"),
    ("String(double)", "s = String(n / 7)\n    n++"),
    ("toFixed", "s = (n / 7).toFixed(2)\n    n++"),
    ("Time.add", "s = Time.add(\"2026-01-01T00:00:00.000Z\", { days: 1 }, \"Europe/Berlin\")\n    n++"),
    ("Time.parts", "n += Time.parts(\"2026-01-01T00:00:00.000Z\", \"Europe/Berlin\").day"),
    ("uuid", "s = uuid()"),
    ("throw", "try { throw \"x\" } catch (e) { n++ }"),
    ("Task.run", "Task.cancel(Task.run(\"a\", n))"),
    ("log", "log(\"a line of the log\", n)"),
];

/// Seconds and steps of a script with this body, as far as it comes before the step limit.
fn measure(body: &str) -> (f64, u64) {
    let source =
        format!("workflow w() {{\n  {PREPARED}\n  {body}\n  return [n, s.length, copy.key1 ?? 0, list.length]\n}}\n");
    let checked = check(source.as_bytes());
    let program = checked.program.unwrap_or_else(|| panic!("{source}\n{:?}", checked.diagnostics));
    let code = compile(&program, "prices.flow").expect("it compiles");
    let start = Event { time: 0, kind: EventKind::Started(Box::<Start>::default()) };
    let limits = Limits { steps: 60_000_000, pending: usize::MAX, ..Limits::default() };
    let begin = cpu_time();
    let turned = turn(&code, None, &[start], &limits, &mut Unpaced).expect("the turn ends");
    (cpu_time() - begin, turned.steps)
}

/// Seconds for which this thread had a core, so that other programs do not matter; without Linux, seconds of the clock.
fn cpu_time() -> f64 {
    static BEGIN: LazyLock<Instant> = LazyLock::new(Instant::now);
    let known = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanos = known.and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
    nanos.map_or_else(|| BEGIN.elapsed().as_secs_f64(), |nanos| nanos / 1e9)
}

fn main() {
    let empty = (0..5).map(|_| measure("").0).fold(f64::MAX, f64::min);
    let empty_steps = measure("").1;
    let row = |name: &str, body: &str| {
        // As often as takes a tenth of a second or so.
        let mut times = 1;
        loop {
            let (time, steps) = measure(&format!("for (let i = 0; i < {times}; i++) {{\n    {body}\n  }}"));
            let (time, steps) = (time - empty, steps.saturating_sub(empty_steps));
            if time > 0.2 || times >= 1_000_000 || steps > 40_000_000 {
                let per_step = time * 1e9 / steps.max(1) as f64;
                println!("{per_step:8.1} ns per step, {:10.1} us each  {name}", time * 1e6 / f64::from(times));
                return per_step;
            }
            times *= 4;
        }
    };
    let ordinary = row("ordinary code", "n = n + i * 2\n    if (n % 3 == 0) s = \"a\"");
    let slowest = ROWS.iter().map(|(name, body)| (row(name, body), *name)).max_by(|a, b| a.0.total_cmp(&b.0));
    if let Some((time, name)) = slowest {
        println!("slowest: {name}, {:.1} times ordinary code", time / ordinary);
    }
}
