//! The functions of the standard library: names, numbers of arguments and static properties. The checker and the
//! interpreter read the same tables.

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
}

macro_rules! functions {
    ($(#[$doc:meta])* $enum:ident { $($variant:ident = $name:literal, $least:literal ..= $most:expr, $effect:ident
        $(, takes $takes:expr)? $(, options $place:literal $options:ident)? $(, test $test:literal)?;)* }) => {
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
                        const SIGNATURE: Signature = {
                            #[allow(unused_mut, reason = "some have nothing more")]
                            let mut signature = Signature {
                                name: $name, least: $least, most: $most, effect: Effect::$effect,
                                takes: CallbackPosition::Values, options: None, test_only: false,
                            };
                            $(signature.takes = $takes;)?
                            $(signature.options = Some(($place, $options));)?
                            $(signature.test_only = $test;)?
                            signature
                        };
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

functions! {
    /// Functions of the library that are called by their own name.
    Function {
        TaskRun = "Task.run", 1..=3, Effect, options 2 TASK;
        TaskDefaults = "Task.defaults", 1..=1, Effect, options 0 TASK_DEFAULTS;
        TaskDelay = "Task.delay", 1..=1, Effect;
        TaskDelayUntil = "Task.delayUntil", 1..=1, Effect;
        TaskCancel = "Task.cancel", 1..=2, Effect;
        TaskTimeout = "Task.timeout", 2..=2, Effect;
        TaskAll = "Task.all", 1..=1, Effect;
        TaskAny = "Task.any", 1..=2, Effect, options 1 DECIDE;
        TaskRace = "Task.race", 1..=2, Effect, options 1 DECIDE;
        TaskSettle = "Task.settle", 1..=1, Effect;
        TaskMap = "Task.map", 2..=3, Effect, takes CallbackPosition::AsyncFunction(1), options 2 MAP;
        WaitForSignal = "wait_for_signal", 1..=2, Effect, options 1 SIGNAL_WAIT;
        WaitUntil = "wait_until", 1..=2, Effect, takes CallbackPosition::Condition(0);
        WorkflowRun = "Workflow.run", 1..=3, Effect, options 2 CHILD;
        WorkflowStart = "Workflow.start", 1..=3, Effect, options 2 CHILD;
        WorkflowSignal = "Workflow.signal", 2..=4, Effect, options 3 SEND_SIGNAL;
        WorkflowCancel = "Workflow.cancel", 1..=2, Effect, options 1 SEND_CANCEL;
        WorkflowContinueAsNew = "Workflow.continueAsNew", 0..=2, Effect, options 1 CONTINUE;
        WorkflowInfo = "Workflow.info", 0..=0, Pure;
        WorkflowSetMemo = "Workflow.setMemo", 1..=1, Effect;
        WorkflowSetSearchAttributes = "Workflow.setSearchAttributes", 1..=1, Effect;
        WorkflowSetDetails = "Workflow.setDetails", 1..=1, Effect;
        WorkflowCancelRequested = "Workflow.cancelRequested", 0..=0, Pure;
        TimeNow = "Time.now", 0..=0, Time;
        TimeParse = "Time.parse", 1..=1, Pure;
        TimeAdd = "Time.add", 2..=3, Pure;
        TimeDiff = "Time.diff", 2..=2, Pure;
        TimeParts = "Time.parts", 1..=2, Pure;
        TimeFrom = "Time.from", 1..=2, Pure;
        TimeSeconds = "Time.seconds", 1..=1, Pure;
        TimeFromSeconds = "Time.fromSeconds", 1..=1, Pure;
        MathAbs = "Math.abs", 1..=1, Pure;
        MathCeil = "Math.ceil", 1..=1, Pure;
        MathFloor = "Math.floor", 1..=1, Pure;
        MathTrunc = "Math.trunc", 1..=1, Pure;
        MathSign = "Math.sign", 1..=1, Pure;
        MathSqrt = "Math.sqrt", 1..=1, Pure;
        MathPow = "Math.pow", 2..=2, Pure;
        MathMin = "Math.min", 0..=ANY, Pure;
        MathMax = "Math.max", 0..=ANY, Pure;
        MathRound = "Math.round", 1..=2, Pure;
        MathRandom = "Math.random", 0..=0, Effect;
        Uuid = "uuid", 0..=0, Effect;
        JsonParse = "JSON.parse", 1..=1, Pure;
        JsonStringify = "JSON.stringify", 1..=2, Pure;
        Number = "Number", 1..=1, Pure;
        String = "String", 1..=1, Pure;
        ObjectKeys = "Object.keys", 1..=1, Pure;
        ObjectValues = "Object.values", 1..=1, Pure;
        ObjectEntries = "Object.entries", 1..=1, Pure;
        ObjectFromEntries = "Object.fromEntries", 1..=1, Pure;
        ObjectPick = "Object.pick", 2..=2, Pure;
        ObjectOmit = "Object.omit", 2..=2, Pure;
        ListRange = "List.range", 1..=2, Pure;
        PayloadEncoding = "Payload.encoding", 1..=1, Pure;
        PayloadJson = "Payload.json", 1..=1, Pure;
        PayloadText = "Payload.text", 1..=1, Pure;
        PayloadBase64 = "Payload.base64", 1..=1, Pure;
        PayloadBytes = "Payload.bytes", 1..=1, Pure;
        Error = "Error", 1..=2, Pure, options 1 ERROR;
        Log = "log", 1..=2, Effect;
        Mock = "mock", 2..=2, Effect, takes CallbackPosition::AsyncFunction(1), test true;
        MockWorkflow = "mockWorkflow", 2..=2, Effect, takes CallbackPosition::AsyncFunction(1), test true;
        TestStart = "Test.start", 0..=ANY, Effect, test true;
        TestResult = "Test.result", 0..=0, Effect, test true;
        TestSignal = "Test.signal", 1..=ANY, Effect, test true;
        TestQuery = "Test.query", 1..=ANY, Effect, test true;
        TestUpdate = "Test.update", 1..=ANY, Effect, test true;
        TestCancel = "Test.cancel", 0..=1, Effect, test true;
        TestTerminate = "Test.terminate", 0..=0, Effect, test true;
        TestStatus = "Test.status", 0..=0, Pure, test true;
        TestCalls = "Test.calls", 1..=1, Pure, test true;
        TestTurns = "Test.turns", 0..=0, Pure, test true;
        TestLog = "Test.log", 0..=0, Pure, test true;
        TestState = "Test.state", 0..=0, Pure, test true;
        Assert = "assert", 1..=2, Effect, test true;
        AssertEqual = "assertEqual", 2..=2, Effect, test true;
        AssertFails = "assertFails", 1..=2, Effect, test true;
        NexusCall = "Nexus.call", 3..=5, Effect, options 4 NEXUS;
        MockNexus = "mockNexus", 2..=2, Effect, takes CallbackPosition::AsyncFunction(1), test true;
    }
}

functions! {
    /// Functions of values: `xs.map(…)`. Those with the same name on lists and strings are one.
    Method {
        Push = "push", 1..=ANY, Effect;
        Unshift = "unshift", 1..=ANY, Effect;
        Pop = "pop", 0..=0, Effect;
        Shift = "shift", 0..=0, Effect;
        At = "at", 1..=1, Pure;
        Concat = "concat", 1..=1, Pure;
        Slice = "slice", 0..=2, Pure;
        Includes = "includes", 1..=1, Pure;
        IndexOf = "indexOf", 1..=1, Pure;
        Join = "join", 0..=1, Pure;
        Reverse = "reverse", 0..=0, Pure;
        Flat = "flat", 0..=1, Pure;
        Sort = "sort", 0..=1, Pure, takes CallbackPosition::OptionalFunction(0);
        Map = "map", 1..=1, Pure, takes CallbackPosition::AsyncFunction(0);
        Filter = "filter", 1..=1, Pure, takes CallbackPosition::Function(0);
        Find = "find", 1..=1, Pure, takes CallbackPosition::Function(0);
        FindIndex = "findIndex", 1..=1, Pure, takes CallbackPosition::Function(0);
        Some = "some", 1..=1, Pure, takes CallbackPosition::Function(0);
        Every = "every", 1..=1, Pure, takes CallbackPosition::Function(0);
        FlatMap = "flatMap", 1..=1, Pure, takes CallbackPosition::Function(0);
        Reduce = "reduce", 2..=2, Pure, takes CallbackPosition::Function(0);
        StartsWith = "startsWith", 1..=1, Pure;
        EndsWith = "endsWith", 1..=1, Pure;
        Split = "split", 1..=1, Pure;
        Trim = "trim", 0..=0, Pure;
        ToUpperCase = "toUpperCase", 0..=0, Pure;
        ToLowerCase = "toLowerCase", 0..=0, Pure;
        Replace = "replace", 2..=2, Pure;
        ReplaceAll = "replaceAll", 2..=2, Pure;
        PadStart = "padStart", 1..=2, Pure;
        PadEnd = "padEnd", 1..=2, Pure;
        Repeat = "repeat", 1..=1, Pure;
        ToFixed = "toFixed", 0..=1, Pure;
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
