//! The functions of the standard library: names, numbers of arguments and static properties. The checker and the
//! interpreter read the same tables, and so do types and documentation.

use std::fmt::{self, Display, Formatter};

/// What calling a function does besides giving a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing: dropping the result is an error (F0216).
    Pure,
    /// Nothing that lasts, but the result differs from call to call (`Time.now`). Allowed in queries and validators, not in
    /// conditions. Dropping the result is an error.
    Time,
    /// It changes something: not allowed in queries, validators and conditions (F0212).
    Effect,
}

/// Whether a function of the library takes a function of the script, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallbackPosition {
    /// It takes values only.
    Values,
    /// The argument at this place is a function that must not be async.
    Function(usize),
    /// The argument at this place is a function, async or not.
    AsyncFunction(usize),
    /// The argument at this place may be left out, and is a function that must not be async otherwise.
    OptionalFunction(usize),
    /// The argument at this place is an arrow without parameters and effects (`wait_until`).
    Condition(usize),
}

/// The type of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionType {
    /// Seconds or text such as `"1h30m"`.
    Duration,
    /// A duration of at least a millisecond: for the server 0 would mean not given.
    Timeout,
    /// A string.
    Text,
    /// A whole number in this range.
    Integer(i64, i64),
    /// `true` or `false`.
    Bool,
    /// A list of anything.
    List,
    /// An object of anything.
    Object,
    /// Anything.
    Any,
    /// One of these strings.
    OneOf(&'static [&'static str]),
    /// `false`, a number of attempts, or an object of [`RETRY`].
    Retry,
    /// A list of strings.
    Texts,
    /// Headers of a Nexus operation: an object of strings.
    Headers,
    /// A number of at least 1.
    Factor,
    /// An IANA time zone.
    Zone,
    /// Temporal's cron text.
    Cron,
}

/// Options by name.
pub type Options = &'static [(&'static str, OptionType)];

const ON_CANCEL: OptionType = OptionType::OneOf(&["try", "wait", "ignore"]);

/// Options of `Task.run`.
pub const TASK: Options = &[
    ("args", OptionType::List),
    ("queue", OptionType::Text),
    ("start_to_close", OptionType::Timeout),
    ("schedule_to_close", OptionType::Timeout),
    ("schedule_to_start", OptionType::Timeout),
    ("heartbeat", OptionType::Timeout),
    ("retry", OptionType::Retry),
    ("priority", OptionType::Integer(1, 5)),
    ("id", OptionType::Text),
    ("on_cancel", ON_CANCEL),
    ("summary", OptionType::Text),
];

/// Options of `Task.defaults`.
pub const TASK_DEFAULTS: Options = &[
    ("queue", OptionType::Text),
    ("start_to_close", OptionType::Timeout),
    ("schedule_to_close", OptionType::Timeout),
    ("schedule_to_start", OptionType::Timeout),
    ("heartbeat", OptionType::Timeout),
    ("retry", OptionType::Retry),
    ("priority", OptionType::Integer(1, 5)),
    ("on_cancel", ON_CANCEL),
];

/// Options of `Nexus.call`.
pub const NEXUS: Options = &[
    ("schedule_to_close", OptionType::Timeout),
    ("schedule_to_start", OptionType::Timeout),
    ("start_to_close", OptionType::Timeout),
    ("headers", OptionType::Headers),
    ("on_cancel", ON_CANCEL),
    ("summary", OptionType::Text),
];

/// Fields of the option `retry`.
pub const RETRY: Options = &[
    ("initial_interval", OptionType::Timeout),
    ("backoff", OptionType::Factor),
    ("max_interval", OptionType::Timeout),
    ("max_attempts", OptionType::Integer(0, i32::MAX as i64)),
    ("non_retryable", OptionType::Texts),
];

/// Options of `Task.any` and `Task.race`.
pub const DECIDE: Options = &[("cancel", OptionType::Bool)];

/// Options of `Task.map`.
pub const MAP: Options = &[("concurrency", OptionType::Integer(1, i32::MAX as i64))];

/// Options of `wait_for_signal`.
pub const SIGNAL_WAIT: Options = &[("timeout", OptionType::Duration)];

/// Options of `Workflow.run` and `Workflow.start`.
pub const CHILD: Options = &[
    ("id", OptionType::Text),
    ("args", OptionType::List),
    ("queue", OptionType::Text),
    ("execution_timeout", OptionType::Timeout),
    ("run_timeout", OptionType::Timeout),
    ("retry", OptionType::Retry),
    ("parent_close", OptionType::OneOf(&["terminate", "abandon", "cancel"])),
    ("id_reuse", OptionType::OneOf(&["allow", "allow_failed", "reject"])),
    ("cron", OptionType::Cron),
    ("memo", OptionType::Object),
    ("search_attributes", OptionType::Object),
    ("priority", OptionType::Integer(1, 5)),
    ("on_cancel", ON_CANCEL),
    ("summary", OptionType::Text),
];

/// Options of `Workflow.signal`.
pub const SEND_SIGNAL: Options = &[("run_id", OptionType::Text)];

/// Options of `Workflow.cancel`.
pub const SEND_CANCEL: Options = &[("run_id", OptionType::Text), ("reason", OptionType::Text)];

/// Options of `Workflow.continueAsNew`.
pub const CONTINUE: Options = &[
    ("args", OptionType::List),
    ("queue", OptionType::Text),
    ("run_timeout", OptionType::Timeout),
    ("version", OptionType::OneOf(&["current", "same"])),
];

/// Options of `Error`.
pub const ERROR: Options = &[
    ("type", OptionType::Text),
    ("details", OptionType::Any),
    ("retryable", OptionType::Bool),
    ("cause", OptionType::Any),
];

/// Options of `schedule`.
pub const SCHEDULE: Options = &[("zone", OptionType::Zone), ("input", OptionType::Any), ("queue", OptionType::Text)];

/// What an argument must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// Anything.
    Any,
    /// What can be sent: no promise.
    Sent,
    /// What can become text: no promise and no payload.
    Printed,
    /// A condition: a boolean, an object or null.
    Condition,
    /// A string.
    Text,
    /// A number.
    Number,
    /// A list.
    List,
    /// A list of strings.
    Texts,
    /// An object.
    Object,
    /// A promise.
    Promise,
    /// A list or an object of promises.
    Promises,
    /// A payload in an encoding that the server does not read.
    Payload,
    /// Seconds or text such as `"1h30m"`.
    Duration,
    /// A time.
    Time,
    /// An IANA time zone.
    Zone,
    /// A duration, or an object of calendar units.
    Span,
    /// Anything if the receiver is a list, a string if it is a string.
    Part,
    /// Numbers, or one list.
    Numbers,
    /// An object of options.
    Options(Options),
    /// A function that must not be async.
    Function,
    /// The same, whose result is a condition.
    Predicate,
    /// A function, async or not.
    AsyncFunction,
    /// An arrow without parameters and effects, whose result is a condition.
    ConditionFunction,
}

/// A parameter of a function of the library.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Its name, as documentation shows it.
    pub name: &'static str,
    /// What it must be. One that may be left out may also be null.
    pub takes: Takes,
    /// How often it is there.
    pub count: ParameterCount,
}

/// How often a parameter is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterCount {
    /// Once.
    Required,
    /// Once or not at all.
    Optional,
    /// Any number of times, also never. The last one.
    Repeated,
}

const fn required(name: &'static str, takes: Takes) -> Parameter {
    Parameter { name, takes, count: ParameterCount::Required }
}

const fn optional(name: &'static str, takes: Takes) -> Parameter {
    Parameter { name, takes, count: ParameterCount::Optional }
}

const fn repeated(name: &'static str, takes: Takes) -> Parameter {
    Parameter { name, takes, count: ParameterCount::Repeated }
}

/// What a function of the library gives.
#[derive(Clone, Copy, Debug)]
pub enum Gives {
    /// It is not known before running.
    Any,
    /// Null.
    Null,
    /// `true` or `false`.
    Bool,
    /// A number.
    Number,
    /// A string.
    Text,
    /// A payload.
    Payload,
    /// An object; fields that are always there may be named.
    Object(&'static [(&'static str, Gives)]),
    /// A list.
    List(&'static Gives),
    /// A promise.
    Promise(&'static Gives),
    /// This or null.
    OrNull(&'static Gives),
    /// What its first argument is.
    Argument,
    /// A value of the object that is its first argument.
    ArgumentField,
    /// The results of the promises in its first argument, which is a list or an object.
    ArgumentResults,
    /// What its receiver is.
    Receiver,
    /// An element of the list, or a character of the string.
    Element,
    /// What the given function returns.
    Returned,
    /// The last argument, or what the given function returns.
    Folded,
}

/// Types of receivers of functions of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receiver {
    /// A function that has none.
    None,
    /// Lists.
    List,
    /// Strings.
    Text,
    /// Lists and strings.
    ListOrText,
    /// Numbers.
    Number,
}

/// What is known about a function of the library.
#[derive(Clone, Copy, Debug)]
pub struct Signature {
    /// The name as scripts write it: `Task.run`, `push`.
    pub name: &'static str,
    /// The least number of arguments.
    pub least: usize,
    /// The greatest number of arguments.
    pub most: usize,
    /// What calling it does.
    pub effect: Effect,
    /// Whether it takes a function.
    pub takes: CallbackPosition,
    /// The place of the argument with options, and these.
    pub options: Option<(usize, Options)>,
    /// Whether only test files have it.
    pub test_only: bool,
    /// The values that have it.
    pub receiver: Receiver,
    /// Its parameters.
    pub params: &'static [Parameter],
    /// What it gives.
    pub gives: Gives,
    /// What it does, in one line.
    pub doc: &'static str,
}

impl Signature {
    const fn new(
        name: &'static str,
        effect: Effect,
        receiver: Receiver,
        params: &'static [Parameter],
        gives: Gives,
        doc: &'static str,
    ) -> Self {
        let mut signature = Self {
            name,
            least: 0,
            most: params.len(),
            effect,
            takes: CallbackPosition::Values,
            options: None,
            test_only: false,
            receiver,
            params,
            gives,
            doc,
        };
        let mut place = 0;
        while place < params.len() {
            let is_optional = matches!(params[place].count, ParameterCount::Optional);
            match params[place].count {
                ParameterCount::Required => signature.least = place + 1,
                ParameterCount::Optional => {}
                ParameterCount::Repeated => signature.most = ANY,
            }
            match params[place].takes {
                Takes::Options(options) => signature.options = Some((place, options)),
                Takes::Function if is_optional => signature.takes = CallbackPosition::OptionalFunction(place),
                Takes::Function | Takes::Predicate => signature.takes = CallbackPosition::Function(place),
                Takes::AsyncFunction => signature.takes = CallbackPosition::AsyncFunction(place),
                Takes::ConditionFunction => signature.takes = CallbackPosition::Condition(place),
                _ => {}
            }
            place += 1;
        }
        signature
    }

    const fn of_tests(mut self) -> Self {
        self.test_only = true;
        self
    }
}

/// As documentation shows it: `Task.run(name: string, input?, options?: object) → promise`.
impl Display for Signature {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "{}(", self.name)?;
        for (place, parameter) in self.params.iter().enumerate() {
            let separator = if place == 0 { "" } else { ", " };
            let (before, after) = match parameter.count {
                ParameterCount::Required => ("", ""),
                ParameterCount::Optional => ("", "?"),
                ParameterCount::Repeated => ("...", ""),
            };
            write!(out, "{separator}{before}{}{after}", parameter.name)?;
            match parameter.takes.word() {
                "" => {}
                word => write!(out, ": {word}")?,
            }
        }
        match self.gives.words() {
            words if words.is_empty() => out.write_str(")"),
            words => write!(out, ") → {words}"),
        }
    }
}

impl Takes {
    /// What documentation says; empty for anything.
    const fn word(self) -> &'static str {
        match self {
            Self::Any | Self::Sent | Self::Printed | Self::Part => "",
            Self::Condition => "condition",
            Self::Text => "string",
            Self::Number => "number",
            Self::Numbers => "numbers",
            Self::List => "list",
            Self::Texts => "list of strings",
            Self::Object | Self::Options(_) => "object",
            Self::Promise => "promise",
            Self::Promises => "list or object of promises",
            Self::Payload => "payload",
            Self::Duration => "duration",
            Self::Time => "time",
            Self::Zone => "time zone",
            Self::Span => "duration or object",
            Self::Function | Self::Predicate | Self::ConditionFunction => "function",
            Self::AsyncFunction => "function or async function",
        }
    }
}

impl Gives {
    /// What documentation says; empty if it is not known.
    fn words(self) -> String {
        let of = |word: &str, part: &Self| match part.words() {
            words if words.is_empty() => word.to_owned(),
            words => format!("{word} of {words}"),
        };
        match self {
            Self::Any | Self::Returned | Self::Folded | Self::ArgumentField => String::new(),
            Self::Null => "null".to_owned(),
            Self::Bool => "boolean".to_owned(),
            Self::Number => "number".to_owned(),
            Self::Text => "string".to_owned(),
            Self::Payload => "payload".to_owned(),
            Self::Object([]) => "object".to_owned(),
            Self::Object(fields) => {
                let names: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
                format!("object with {}", names.join(", "))
            }
            Self::List(Self::Text) => "list of strings".to_owned(),
            Self::List(Self::Number) => "list of numbers".to_owned(),
            Self::List(Self::List(_)) => "list of lists".to_owned(),
            Self::List(_) => "list".to_owned(),
            Self::Promise(result) => of("promise", result),
            Self::OrNull(Self::Element) => "element or null".to_owned(),
            Self::OrNull(value) => format!("{} or null", value.words()),
            Self::Argument => "promise".to_owned(),
            Self::ArgumentResults => "the results".to_owned(),
            Self::Receiver => "the same type".to_owned(),
            Self::Element => "element".to_owned(),
        }
    }
}

macro_rules! functions {
    ($(#[$doc:meta])* $enum:ident { $($variant:ident = $name:literal, $effect:ident, $receiver:ident,
        [$($param:expr),*], $gives:expr, $(test $test:ident,)? $about:literal;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[expect(missing_docs, reason = "the names of the language")]
        #[repr(u8)]
        pub enum $enum { $($variant),* }

        impl $enum {
            /// All of them. The place in this list is the number in compiled code: append only.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// What is known about it.
            #[must_use]
            pub const fn signature(self) -> &'static Signature {
                match self {
                    $(Self::$variant => {
                        const SIGNATURE: Signature = Signature::new(
                            $name, Effect::$effect, Receiver::$receiver, &[$($param),*], $gives, $about,
                        )$(.$test())?;
                        &SIGNATURE
                    })*
                }
            }

            /// The one of this name.
            #[must_use]
            pub fn named(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|function| function.signature().name == name)
            }
        }
    };
}

/// Any number of arguments.
pub const ANY: usize = usize::MAX;

const ANY_PROMISE: Gives = Gives::Promise(&Gives::Any);
const NULL_PROMISE: Gives = Gives::Promise(&Gives::Null);
const TEXTS: Gives = Gives::List(&Gives::Text);

/// What `Task.race` and `Task.settle` say about an item.
const ENDED: Gives = Gives::Object(&[("item_id", Gives::Text), ("status", Gives::Text)]);

const RUN: &[(&str, Gives)] = &[("workflow_id", Gives::Text), ("run_id", Gives::Text)];

const INFO: &[(&str, Gives)] = &[
    ("workflow_id", Gives::Text),
    ("run_id", Gives::Text),
    ("name", Gives::Text),
    ("version", Gives::Text),
    ("namespace", Gives::Text),
    ("task_queue", Gives::Text),
    ("attempt", Gives::Number),
    ("started_at", Gives::Text),
    ("parent", Gives::OrNull(&Gives::Object(RUN))),
    ("continued_from", Gives::OrNull(&Gives::Text)),
    ("cron", Gives::OrNull(&Gives::Text)),
    ("memo", Gives::Object(&[])),
    ("search_attributes", Gives::Object(&[])),
];

const PARTS: &[(&str, Gives)] = &[
    ("year", Gives::Number),
    ("month", Gives::Number),
    ("day", Gives::Number),
    ("hour", Gives::Number),
    ("minute", Gives::Number),
    ("second", Gives::Number),
    ("millisecond", Gives::Number),
    ("weekday", Gives::Number),
    ("offset", Gives::Number),
];

/// What an error object has for certain; scripts may throw objects whose other fields are of their own types.
pub const ERROR_FIELDS: &[(&str, Gives)] = &[("message", Gives::Text)];

functions! {
    /// Functions of the library that are called by their own name.
    Function {
        TaskRun = "Task.run", Effect, None,
            [required("name", Takes::Text), optional("input", Takes::Sent), optional("options", Takes::Options(TASK))], ANY_PROMISE,
            "Starts a task on a worker. The promise is its result.";
        TaskDefaults = "Task.defaults", Effect, None, [required("options", Takes::Options(TASK_DEFAULTS))], Gives::Null,
            "Sets options of all later tasks of this run.";
        TaskDelay = "Task.delay", Effect, None, [required("duration", Takes::Duration)], NULL_PROMISE,
            "Ends after a duration: seconds, or text such as \"1h30m\".";
        TaskDelayUntil = "Task.delayUntil", Effect, None, [required("time", Takes::Time)], NULL_PROMISE,
            "Ends at a time; at once if it has passed.";
        TaskCancel = "Task.cancel", Effect, None, [required("promise", Takes::Promise), optional("reason", Takes::Text)], Gives::Null,
            "Cancels the work behind a promise.";
        TaskTimeout = "Task.timeout", Effect, None, [required("promise", Takes::Promise), required("duration", Takes::Duration)],
            Gives::Argument, "Fails with type Timeout, and cancels the promise, if it has not ended in time.";
        TaskAll = "Task.all", Effect, None, [required("items", Takes::Promises)], Gives::Promise(&Gives::ArgumentResults),
            "Ends when all items have completed, with their results; fails with the first failure.";
        TaskAny = "Task.any", Effect, None, [required("items", Takes::Promises), optional("options", Takes::Options(DECIDE))],
            Gives::Promise(&Gives::Object(&[("item_id", Gives::Text), ("result", Gives::Any)])),
            "Ends with the first item that completes; fails if all fail.";
        TaskRace = "Task.race", Effect, None, [required("items", Takes::Promises), optional("options", Takes::Options(DECIDE))],
            Gives::Promise(&ENDED), "Ends with the first item that completes or fails; does not throw for it.";
        TaskSettle = "Task.settle", Effect, None, [required("items", Takes::Promises)], ANY_PROMISE,
            "Ends when all items have ended, and says for each how.";
        TaskMap = "Task.map", Effect, None,
            [required("list", Takes::List), required("fn", Takes::AsyncFunction), optional("options", Takes::Options(MAP))],
            Gives::Promise(&Gives::List(&Gives::Any)), "Calls an async function for each element, at most `concurrency` at a time.";
        WaitForSignal = "wait_for_signal", Effect, None,
            [required("name", Takes::Text), optional("options", Takes::Options(SIGNAL_WAIT))], ANY_PROMISE,
            "Ends with the value of the next signal of this name.";
        WaitUntil = "wait_until", Effect, None,
            [required("condition", Takes::ConditionFunction), optional("timeout", Takes::Duration)], Gives::Promise(&Gives::Bool),
            "Ends with true when the condition holds, or with false when the time is over.";
        WorkflowRun = "Workflow.run", Effect, None,
            [required("name", Takes::Text), optional("input", Takes::Sent), optional("options", Takes::Options(CHILD))], ANY_PROMISE,
            "Starts a child workflow. The promise is its result.";
        WorkflowStart = "Workflow.start", Effect, None,
            [required("name", Takes::Text), optional("input", Takes::Sent), optional("options", Takes::Options(CHILD))],
            Gives::Promise(&Gives::Object(RUN)), "Starts a child workflow. The promise ends once it has started.";
        WorkflowSignal = "Workflow.signal", Effect, None,
            [required("workflow_id", Takes::Text), required("name", Takes::Text), optional("input", Takes::Sent),
             optional("options", Takes::Options(SEND_SIGNAL))], NULL_PROMISE, "Sends a signal to another workflow.";
        WorkflowCancel = "Workflow.cancel", Effect, None,
            [required("workflow_id", Takes::Text), optional("options", Takes::Options(SEND_CANCEL))], NULL_PROMISE,
            "Asks another workflow to cancel.";
        WorkflowContinueAsNew = "Workflow.continueAsNew", Effect, None,
            [optional("input", Takes::Sent), optional("options", Takes::Options(CONTINUE))], Gives::Any,
            "Returned by the workflow: ends this run and begins a new one of the same workflow id.";
        WorkflowInfo = "Workflow.info", Pure, None, [], Gives::Object(INFO), "What is known about this run.";
        WorkflowSetMemo = "Workflow.setMemo", Effect, None, [required("changes", Takes::Object)], Gives::Null,
            "Merges fields into the memo; null removes one.";
        WorkflowSetSearchAttributes = "Workflow.setSearchAttributes", Effect, None, [required("changes", Takes::Object)], Gives::Null,
            "Merges search attributes; null removes one.";
        WorkflowSetDetails = "Workflow.setDetails", Effect, None, [required("text", Takes::Text)], Gives::Null,
            "Sets the Markdown text that user interfaces show for this run.";
        WorkflowCancelRequested = "Workflow.cancelRequested", Pure, None, [], Gives::Bool, "Whether this run was asked to cancel.";
        TimeNow = "Time.now", Time, None, [], Gives::Text, "The time of the event that is being handled.";
        TimeParse = "Time.parse", Pure, None, [required("text", Takes::Time)], Gives::Text, "Reads an RFC 3339 time with any offset.";
        TimeAdd = "Time.add", Pure, None,
            [required("time", Takes::Time), required("span", Takes::Span), optional("zone", Takes::Zone)], Gives::Text,
            "Adds a duration, or calendar units such as { months: 1 }, to a time.";
        TimeDiff = "Time.diff", Pure, None, [required("a", Takes::Time), required("b", Takes::Time)], Gives::Number,
            "Seconds from b to a.";
        TimeParts = "Time.parts", Pure, None, [required("time", Takes::Time), optional("zone", Takes::Zone)], Gives::Object(PARTS),
            "Year, month, day, hour, minute, second, millisecond, weekday and offset of a time.";
        TimeFrom = "Time.from", Pure, None, [required("parts", Takes::Object), optional("zone", Takes::Zone)], Gives::Text,
            "The time that has these parts.";
        TimeSeconds = "Time.seconds", Pure, None, [required("time", Takes::Time)], Gives::Number, "Unix seconds of a time.";
        TimeFromSeconds = "Time.fromSeconds", Pure, None, [required("seconds", Takes::Number)], Gives::Text,
            "The time of these Unix seconds.";
        MathAbs = "Math.abs", Pure, None, [required("x", Takes::Number)], Gives::Number, "The number without its sign.";
        MathCeil = "Math.ceil", Pure, None, [required("x", Takes::Number)], Gives::Number, "Rounds up.";
        MathFloor = "Math.floor", Pure, None, [required("x", Takes::Number)], Gives::Number, "Rounds down.";
        MathTrunc = "Math.trunc", Pure, None, [required("x", Takes::Number)], Gives::Number, "Cuts the fraction off.";
        MathSign = "Math.sign", Pure, None, [required("x", Takes::Number)], Gives::Number, "-1, 0 or 1.";
        MathSqrt = "Math.sqrt", Pure, None, [required("x", Takes::Number)], Gives::Number, "The square root.";
        MathPow = "Math.pow", Pure, None, [required("x", Takes::Number), required("y", Takes::Number)], Gives::Number,
            "x to the power of y.";
        MathMin = "Math.min", Pure, None, [repeated("numbers", Takes::Numbers)], Gives::Number,
            "The least of the arguments, or of the elements of one list.";
        MathMax = "Math.max", Pure, None, [repeated("numbers", Takes::Numbers)], Gives::Number,
            "The greatest of the arguments, or of the elements of one list.";
        MathRound = "Math.round", Pure, None, [required("x", Takes::Number), optional("digits", Takes::Number)], Gives::Number,
            "Rounds to this many digits after the point, halves away from zero.";
        MathRandom = "Math.random", Effect, None, [], Gives::Number, "A random number from 0 up to 1, without 1.";
        Uuid = "uuid", Effect, None, [], Gives::Text, "A random UUID of version 4.";
        JsonParse = "JSON.parse", Pure, None, [required("text", Takes::Text)], Gives::Any, "The value of a JSON text.";
        JsonStringify = "JSON.stringify", Pure, None, [required("value", Takes::Printed), optional("indent", Takes::Number)], Gives::Text,
            "The JSON text of a value.";
        Number = "Number", Pure, None, [required("text", Takes::Text)], Gives::Number, "The number that a text contains.";
        String = "String", Pure, None, [required("value", Takes::Printed)], Gives::Text, "The text of a value; lists and objects as JSON.";
        ObjectKeys = "Object.keys", Pure, None, [required("object", Takes::Object)], TEXTS, "The keys of an object.";
        ObjectValues = "Object.values", Pure, None, [required("object", Takes::Object)], Gives::List(&Gives::ArgumentField),
            "The values of an object.";
        ObjectEntries = "Object.entries", Pure, None, [required("object", Takes::Object)], Gives::List(&Gives::List(&Gives::Any)),
            "The fields of an object as lists of key and value.";
        ObjectFromEntries = "Object.fromEntries", Pure, None, [required("entries", Takes::List)], Gives::Object(&[]),
            "The object of lists of key and value.";
        ObjectPick = "Object.pick", Pure, None, [required("object", Takes::Object), required("keys", Takes::Texts)], Gives::Object(&[]),
            "The fields of these keys, as far as they are there.";
        ObjectOmit = "Object.omit", Pure, None, [required("object", Takes::Object), required("keys", Takes::Texts)], Gives::Object(&[]),
            "The fields of all other keys.";
        ListRange = "List.range", Pure, None, [required("n", Takes::Number), optional("to", Takes::Number)], Gives::List(&Gives::Number),
            "The integers from 0, or from the first argument, up to the last one, without it.";
        PayloadEncoding = "Payload.encoding", Pure, None, [required("payload", Takes::Payload)], Gives::Text, "The encoding of a payload.";
        PayloadJson = "Payload.json", Pure, None, [required("payload", Takes::Payload)], Gives::Any, "The bytes of a payload, read as JSON.";
        PayloadText = "Payload.text", Pure, None, [required("payload", Takes::Payload)], Gives::Text, "The bytes of a payload as text.";
        PayloadBase64 = "Payload.base64", Pure, None, [required("payload", Takes::Payload)], Gives::Text,
            "The bytes of a payload in base 64.";
        PayloadBytes = "Payload.bytes", Pure, None, [required("base64", Takes::Text)], Gives::Payload,
            "A payload of these bytes, given in base 64.";
        Error = "Error", Pure, None, [required("message", Takes::Text), optional("options", Takes::Options(ERROR))],
            Gives::Object(ERROR_FIELDS), "An error to throw.";
        Log = "log", Effect, None, [required("message", Takes::Printed), optional("data", Takes::Printed)], Gives::Null,
            "Writes a line to the server's log and to that of the run.";
        Mock = "mock", Effect, None, [required("task", Takes::Text), required("fn", Takes::AsyncFunction)], Gives::Null, test of_tests,
            "Plays a task: the function is called once per attempt.";
        MockWorkflow = "mockWorkflow", Effect, None, [required("name", Takes::Text), required("fn", Takes::AsyncFunction)], Gives::Null,
            test of_tests, "Plays a child workflow.";
        TestStart = "Test.start", Effect, None, [repeated("inputs", Takes::Sent)], Gives::Null, test of_tests, "Starts the run, once per test.";
        TestResult = "Test.result", Effect, None, [], ANY_PROMISE, test of_tests, "The result of the run; throws its error.";
        TestSignal = "Test.signal", Effect, None, [required("name", Takes::Text), repeated("inputs", Takes::Sent)], Gives::Null,
            test of_tests, "Sends a signal to the run.";
        TestQuery = "Test.query", Effect, None, [required("name", Takes::Text), repeated("inputs", Takes::Sent)], Gives::Any, test of_tests,
            "The answer of a query.";
        TestUpdate = "Test.update", Effect, None, [required("name", Takes::Text), repeated("inputs", Takes::Sent)], ANY_PROMISE,
            test of_tests, "The result of an update.";
        TestCancel = "Test.cancel", Effect, None, [optional("reason", Takes::Text)], Gives::Null, test of_tests, "Asks the run to cancel.";
        TestTerminate = "Test.terminate", Effect, None, [], Gives::Null, test of_tests, "Terminates the run.";
        TestStatus = "Test.status", Pure, None, [], Gives::Text, test of_tests, "The status of the run, such as \"RUNNING\".";
        TestCalls = "Test.calls", Pure, None, [required("task", Takes::Text)], Gives::List(&Gives::Any), test of_tests,
            "The inputs of all attempts of a task.";
        TestTurns = "Test.turns", Pure, None, [], Gives::Number, test of_tests, "How many turns the run has taken.";
        TestLog = "Test.log", Pure, None, [], Gives::List(&Gives::Object(&[("message", Gives::Text)])), test of_tests, "The log of the run.";
        TestState = "Test.state", Pure, None, [], Gives::Object(&[]), test of_tests, "The state of the run.";
        Assert = "assert", Effect, None, [required("condition", Takes::Condition), optional("message", Takes::Any)], Gives::Null,
            test of_tests, "Fails the test unless the condition holds.";
        AssertEqual = "assertEqual", Effect, None, [required("actual", Takes::Any), required("expected", Takes::Any)], Gives::Null,
            test of_tests, "Fails the test unless both are equal.";
        AssertFails = "assertFails", Effect, None, [required("promise", Takes::Any), optional("type", Takes::Text)],
            Gives::Promise(&Gives::Object(&[])), test of_tests, "The error of a promise; fails the test if there is none.";
        NexusCall = "Nexus.call", Effect, None,
            [required("endpoint", Takes::Text), required("service", Takes::Text), required("operation", Takes::Text),
             optional("input", Takes::Sent), optional("options", Takes::Options(NEXUS))], ANY_PROMISE,
            "Starts a Nexus operation. The promise is its result.";
        MockNexus = "mockNexus", Effect, None, [required("name", Takes::Text), required("fn", Takes::AsyncFunction)], Gives::Null,
            test of_tests, "Plays the handler of a Nexus operation.";
    }
}

functions! {
    /// Functions of values: `xs.map(…)`. Those with the same name on lists and strings are one.
    Method {
        Push = "push", Effect, List, [required("value", Takes::Any), repeated("values", Takes::Any)], Gives::Number,
            "Adds values at the end of the list in the variable. Gives the new length.";
        Unshift = "unshift", Effect, List, [required("value", Takes::Any), repeated("values", Takes::Any)], Gives::Number,
            "Adds values at the beginning of the list in the variable. Gives the new length.";
        Pop = "pop", Effect, List, [], Gives::OrNull(&Gives::Element), "Takes the last element off the list in the variable; null if it is empty.";
        Shift = "shift", Effect, List, [], Gives::OrNull(&Gives::Element),
            "Takes the first element off the list in the variable; null if it is empty.";
        At = "at", Pure, ListOrText, [required("index", Takes::Number)], Gives::OrNull(&Gives::Element),
            "The element or character at an index, counted from the end if it is negative; null outside.";
        Concat = "concat", Pure, List, [required("list", Takes::List)], Gives::List(&Gives::Any), "The elements of both lists.";
        Slice = "slice", Pure, ListOrText, [optional("from", Takes::Number), optional("to", Takes::Number)], Gives::Receiver,
            "The part between two indexes; negative ones count from the end.";
        Includes = "includes", Pure, ListOrText, [required("part", Takes::Part)], Gives::Bool, "Whether an element, or a text, is in it.";
        IndexOf = "indexOf", Pure, ListOrText, [required("part", Takes::Part)], Gives::Number,
            "The first index of an element, or of a text; -1 if it is not there.";
        Join = "join", Pure, List, [optional("separator", Takes::Text)], Gives::Text,
            "The text of all elements, with a separator between them (\",\").";
        Reverse = "reverse", Pure, List, [], Gives::Receiver, "The elements in reverse order.";
        Flat = "flat", Pure, List, [optional("depth", Takes::Number)], Gives::List(&Gives::Any),
            "Puts the elements of inner lists in their place, this many levels deep (1).";
        Sort = "sort", Pure, List, [optional("fn", Takes::Function)], Gives::Receiver,
            "The elements in order: numbers, strings, or by a function (a, b) that gives a number.";
        Map = "map", Pure, List, [required("fn", Takes::AsyncFunction)], Gives::List(&Gives::Returned),
            "What the function (element, index) gives for each element.";
        Filter = "filter", Pure, List, [required("fn", Takes::Predicate)], Gives::Receiver,
            "The elements for which the function (element, index) gives true.";
        Find = "find", Pure, List, [required("fn", Takes::Predicate)], Gives::OrNull(&Gives::Element),
            "The first element for which the function gives true, else null.";
        FindIndex = "findIndex", Pure, List, [required("fn", Takes::Predicate)], Gives::Number,
            "The index of the first element for which the function gives true, else -1.";
        Some = "some", Pure, List, [required("fn", Takes::Predicate)], Gives::Bool,
            "Whether the function gives true for at least one element.";
        Every = "every", Pure, List, [required("fn", Takes::Predicate)], Gives::Bool, "Whether the function gives true for all elements.";
        FlatMap = "flatMap", Pure, List, [required("fn", Takes::Function)], Gives::List(&Gives::Any),
            "As map; lists that the function gives are put in with their elements.";
        Reduce = "reduce", Pure, List, [required("fn", Takes::Function), required("start", Takes::Any)], Gives::Folded,
            "Calls the function (sum, element, index) for each element, beginning with start.";
        StartsWith = "startsWith", Pure, Text, [required("text", Takes::Text)], Gives::Bool, "Whether the string begins with a text.";
        EndsWith = "endsWith", Pure, Text, [required("text", Takes::Text)], Gives::Bool, "Whether the string ends with a text.";
        Split = "split", Pure, Text, [required("separator", Takes::Text)], TEXTS,
            "The parts between separators; with \"\" the characters.";
        Trim = "trim", Pure, Text, [], Gives::Text, "The string without white space around it.";
        ToUpperCase = "toUpperCase", Pure, Text, [], Gives::Text, "The string in upper case.";
        ToLowerCase = "toLowerCase", Pure, Text, [], Gives::Text, "The string in lower case.";
        Replace = "replace", Pure, Text, [required("text", Takes::Text), required("by", Takes::Text)], Gives::Text,
            "The string with the first occurrence of a text replaced.";
        ReplaceAll = "replaceAll", Pure, Text, [required("text", Takes::Text), required("by", Takes::Text)], Gives::Text,
            "The string with each occurrence of a text replaced.";
        PadStart = "padStart", Pure, Text, [required("length", Takes::Number), optional("fill", Takes::Text)], Gives::Text,
            "The string, filled at the beginning up to a length.";
        PadEnd = "padEnd", Pure, Text, [required("length", Takes::Number), optional("fill", Takes::Text)], Gives::Text,
            "The string, filled at the end up to a length.";
        Repeat = "repeat", Pure, Text, [required("times", Takes::Number)], Gives::Text, "The string this many times.";
        ToFixed = "toFixed", Pure, Number, [optional("digits", Takes::Number)], Gives::Text,
            "The number as text with this many digits after the point (0).";
    }
}

impl Method {
    /// Whether it changes its receiver, which must be a variable path then.
    #[must_use]
    pub const fn changes_receiver(self) -> bool {
        matches!(self, Self::Push | Self::Unshift | Self::Pop | Self::Shift)
    }
}

/// Names that cannot be declared or assigned (F0204): the first words of the functions above.
#[must_use]
pub fn is_reserved(name: &str) -> bool {
    Function::ALL.iter().any(|function| {
        let signature = function.signature();
        !signature.test_only && signature.name.split('.').next() == Some(name)
    })
}
