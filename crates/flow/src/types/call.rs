//! Calls: of functions of the script, of the library and of values.

use crate::diagnostic::Position;
use crate::hir::{Access, Argument, Callee, Expr, ExprKind, FunctionId, FunctionKind, StatementKind};
use crate::library::{Gives, Method, Parameter, ParameterCount, Receiver, Signature, Takes};

use super::kind::Kinds;
use super::pass::Pass;
use super::report::{ACCESS, ARGUMENT, CONDITION, PROMISE, words};
use super::value_type::{Fields, Type};

/// A call under way.
struct Call {
    signature: &'static Signature,
    receiver: Type,
    /// Types of the arguments; a function is unknown.
    values: Vec<Type>,
    /// What the given function returns.
    returned: Type,
    at: Position,
}

/// An object of which these fields are known.
pub(super) fn known_fields(fields: &'static [(&'static str, Gives)]) -> Fields {
    let nothing = |_: &Gives| Type::UNKNOWN;
    let known = fields.iter().map(|(key, gives)| ((*key).into(), plain(*gives, &nothing))).collect();
    Fields { known, is_complete: false }
}

/// The type of what a function gives; `computed` finds that of what depends on the call.
fn plain(gives: Gives, computed: &dyn Fn(&Gives) -> Type) -> Type {
    match gives {
        Gives::Any => Type::UNKNOWN,
        Gives::Null => Type::NULL,
        Gives::Bool => Type::BOOLEAN,
        Gives::Number => Type::NUMBER,
        Gives::Text => Type::STRING,
        Gives::Payload => Type::of(Kinds::PAYLOAD),
        Gives::Object(fields) => Type::object(known_fields(fields)),
        Gives::List(element) => Type::list(plain(*element, computed)),
        Gives::Promise(result) => Type::promise(plain(*result, computed)),
        Gives::OrNull(value) => plain(*value, computed).or_null(),
        computed_gives => computed(&computed_gives),
    }
}

impl Call {
    fn result(&self) -> Type {
        plain(self.signature.gives, &|gives| self.computed(gives))
    }

    fn computed(&self, gives: &Gives) -> Type {
        let first = self.values.first().cloned().unwrap_or(Type::UNKNOWN);
        match gives {
            Gives::Argument => first.only(Kinds::PROMISE),
            Gives::ArgumentField => match first.fields() {
                Some(fields) if fields.is_complete => {
                    fields.known.iter().fold(Type::NEVER, |all, (_, value)| all.join(value))
                }
                _ => Type::UNKNOWN,
            },
            Gives::ArgumentResults => results(&first),
            Gives::Receiver => self.receiver.clone(),
            Gives::Element => {
                let character = if self.receiver.kinds().has(Kinds::STRING) { Type::STRING } else { Type::NEVER };
                let is_list = self.receiver.kinds().has(Kinds::LIST);
                if is_list { self.receiver.element().join(&character) } else { character }
            }
            Gives::Returned => self.returned.clone(),
            Gives::Folded => self.values.last().cloned().unwrap_or(Type::UNKNOWN).join(&self.returned),
            _ => Type::UNKNOWN,
        }
    }

    /// What the given function gets.
    fn callback_arguments(&self) -> Vec<Type> {
        let list = if self.signature.receiver == Receiver::None {
            self.values.first().cloned().unwrap_or(Type::UNKNOWN)
        } else {
            self.receiver.clone()
        };
        let element = list.element();
        match (self.signature.gives, self.signature.name) {
            (Gives::Folded, _) => vec![Type::UNKNOWN, element, Type::NUMBER],
            (_, "sort") => vec![element.clone(), element],
            // Mocks get what the script sends, conditions nothing.
            (_, name) if self.signature.receiver == Receiver::None && name != "Task.map" => Vec::new(),
            _ => vec![element, Type::NUMBER],
        }
    }
}

/// Results of the promises in a list or an object.
fn results(items: &Type) -> Type {
    match items.kinds().and(Kinds::LIST.or(Kinds::OBJECT)) {
        Kinds::LIST => Type::list(items.element().only(Kinds::PROMISE).result()),
        Kinds::OBJECT => match items.fields() {
            Some(fields) => {
                let mut ended = Fields { known: Vec::new(), is_complete: fields.is_complete };
                fields.known.iter().for_each(|(key, item)| ended.set(key, item.only(Kinds::PROMISE).result()));
                Type::object(ended)
            }
            None => Type::of(Kinds::OBJECT),
        },
        kinds => Type::of(kinds),
    }
}

/// The kinds that an argument may be of, and what it must be in words. Null is allowed where it may be left out.
fn wanted(takes: Takes, receiver: &Type) -> (Kinds, &'static str) {
    match takes {
        Takes::Sent => (Kinds::ALL.without(Kinds::PROMISE), "a value"),
        Takes::Printed => (Kinds::ALL.without(Kinds::PROMISE.or(Kinds::PAYLOAD)), "a value"),
        Takes::Condition => (Kinds::CONDITION, "a condition"),
        Takes::Text | Takes::Time | Takes::Zone => (Kinds::STRING, "a string"),
        Takes::Number => (Kinds::NUMBER, "a number"),
        Takes::Numbers => (Kinds::NUMBER.or(Kinds::LIST), "a number, or a list of numbers"),
        Takes::List => (Kinds::LIST, "a list"),
        Takes::Texts => (Kinds::LIST, "a list of strings"),
        Takes::Object => (Kinds::OBJECT, "an object"),
        Takes::Options(_) => (Kinds::OBJECT.or(Kinds::NULL), "an object"),
        Takes::Promise => (Kinds::PROMISE, "a promise"),
        Takes::Promises => (Kinds::LIST.or(Kinds::OBJECT), "a list or an object of promises"),
        Takes::Payload => (Kinds::PAYLOAD, "a payload"),
        Takes::Duration => (Kinds::NUMBER.or(Kinds::STRING), "a number of seconds or a string"),
        Takes::Span => (Kinds::NUMBER.or(Kinds::STRING).or(Kinds::OBJECT), "a duration, or an object of units"),
        Takes::Part if receiver.kinds() == Kinds::STRING => (Kinds::STRING, "a string"),
        Takes::Any
        | Takes::Part
        | Takes::Function
        | Takes::Predicate
        | Takes::AsyncFunction
        | Takes::ConditionFunction => (Kinds::ALL, "a value"),
    }
}

/// The kinds of values that have a function.
fn receivers(receiver: Receiver) -> Kinds {
    match receiver {
        Receiver::None => Kinds::ALL,
        Receiver::List => Kinds::LIST,
        Receiver::Text => Kinds::STRING,
        Receiver::ListOrText => Kinds::LIST.or(Kinds::STRING),
        Receiver::Number => Kinds::NUMBER,
    }
}

impl Pass<'_> {
    /// A call that is made on no value.
    pub fn call(&mut self, callee: &Callee, arguments: &[Argument], at: Position) -> Type {
        let result = match callee {
            Callee::Function(number) => {
                for argument in arguments {
                    self.argument(argument);
                }
                self.result_of(*number)
            }
            Callee::Library(function) => self.library(function.signature(), Type::UNKNOWN, arguments, at),
            Callee::Changing { target, method } => {
                self.target_indexes(target);
                let list = self.read_target(target, Access::Plain);
                self.change_inside(target.variable);
                self.method(*method, &list, Access::Plain, arguments, at)
            }
            Callee::Method { .. } => Type::UNKNOWN,
        };
        self.note(at, &result);
        result
    }

    fn argument(&mut self, argument: &Argument) -> Type {
        match argument {
            Argument::Value(value) => self.expr(value),
            Argument::Function(_) => Type::UNKNOWN,
        }
    }

    /// A call of a function of a value.
    pub fn method(
        &mut self,
        method: Method,
        receiver: &Type,
        access: Access,
        arguments: &[Argument],
        at: Position,
    ) -> Type {
        let signature = method.signature();
        let receivers = receivers(signature.receiver);
        let is_null = access == Access::Optional && receiver.kinds() == Kinds::NULL;
        let of = receiver.only(receivers);
        let result = self.library(signature, of, arguments, at);
        if is_null || receiver.is_never() {
            return Type::NEVER;
        }
        if !self.is_wrong(receiver, receivers) {
            return result;
        }
        let name = signature.name;
        match receiver.kinds() {
            Kinds::NULL => self.error(ACCESS, format!("cannot read \"{name}\" of null"), at, None),
            Kinds::PROMISE => self.error(ACCESS, "this is a promise; await it first", at, None),
            _ => self.error(ACCESS, format!("a {} has no function \"{name}\"", words(receiver)), at, None),
        }
    }

    fn library(&mut self, signature: &'static Signature, receiver: Type, arguments: &[Argument], at: Position) -> Type {
        let values = arguments.iter().map(|argument| self.argument(argument)).collect();
        let mut call = Call { signature, receiver, values, returned: Type::UNKNOWN, at };
        for (place, argument) in arguments.iter().enumerate() {
            let Some(parameter) = signature.params.get(place).or(signature.params.last()) else { continue };
            match argument {
                Argument::Value(value) => {
                    let given = call.values.get(place).cloned().unwrap_or(Type::UNKNOWN);
                    self.check_argument(&call, parameter, &given, value);
                }
                Argument::Function(number) => call.returned = self.given_function(&call, parameter, *number),
            }
        }
        call.result()
    }

    fn check_argument(&mut self, call: &Call, parameter: &Parameter, given: &Type, value: &Expr) {
        let (mut kinds, words_wanted) = wanted(parameter.takes, &call.receiver);
        if parameter.count == ParameterCount::Optional {
            kinds = kinds.or(Kinds::NULL);
        }
        let name = call.signature.name;
        if !self.is_wrong(given, kinds) {
            if parameter.takes == Takes::Promises {
                self.check_items(name, given, value);
            }
            return;
        }
        match parameter.takes {
            Takes::Condition => {
                self.check_condition(given.clone(), value.at);
            }
            Takes::Sent | Takes::Printed => self.check_printed(given, value.at),
            _ => {
                let message = format!("{name}: {} must be {words_wanted}, not {}", parameter.name, words(given));
                let hint = (given.kinds() == Kinds::PROMISE).then_some("await it first");
                self.error(ARGUMENT, message, value.at, hint);
            }
        }
    }

    /// Items of `Task.all` and its kin that are no promises.
    fn check_items(&mut self, name: &str, given: &Type, value: &Expr) {
        let wrong = given.fields().into_iter().flat_map(|fields| &fields.known);
        let wrong = wrong.filter(|(_, item)| self.is_wrong(item, Kinds::PROMISE));
        let wrong: Vec<String> =
            wrong.map(|(key, item)| format!("{name}: item \"{key}\" is a {}, not a promise", words(item))).collect();
        for message in wrong.into_iter().take(1).filter(|_| given.kinds() == Kinds::OBJECT) {
            self.error(ARGUMENT, message, value.at, None);
        }
        let ExprKind::List(items) = &value.kind else { return };
        let element = given.element();
        if !items.is_empty() && self.is_wrong(&element, Kinds::PROMISE) {
            let message = format!("{name}: an item is a {}, not a promise", words(&element));
            self.error(ARGUMENT, message, value.at, None);
        }
    }

    /// A value that becomes text or is sent.
    pub fn check_printed(&mut self, value: &Type, at: Position) {
        let allowed = Kinds::ALL.without(Kinds::PROMISE.or(Kinds::PAYLOAD));
        if self.is_wrong(value, allowed) {
            let message = if value.kinds().has(Kinds::PROMISE) {
                "a promise cannot be sent; await it first"
            } else {
                "a payload cannot become text"
            };
            self.error(PROMISE, message, at, None);
        }
    }

    /// A function given to the library. Gives what it returns.
    fn given_function(&mut self, call: &Call, parameter: &Parameter, number: FunctionId) -> Type {
        let program = self.program;
        let Some(function) = program.functions.get(number) else { return Type::UNKNOWN };
        let returned = if function.kind == FunctionKind::Arrow {
            let arguments = call.callback_arguments();
            let was_dead = self.is_dead;
            // It is not called for the elements of an empty list.
            self.is_dead |= arguments.iter().any(Type::is_never);
            let (_, returned) = self.body(number, &arguments);
            self.is_dead = was_dead;
            returned
        } else {
            self.result_of(number)
        };
        let at = match function.body.statements.last().map(|last| &last.kind) {
            Some(StatementKind::Return(Some(value))) if function.kind == FunctionKind::Arrow => value.at,
            _ => call.at,
        };
        match parameter.takes {
            Takes::Predicate | Takes::ConditionFunction if self.is_wrong(&returned, Kinds::CONDITION) => {
                let hint = format!("{} needs a condition; this gives {}", call.signature.name, words(&returned));
                self.error(CONDITION, "this can never be a condition", at, Some(&hint))
            }
            Takes::Function if call.signature.name == "sort" && self.is_wrong(&returned, Kinds::NUMBER) => {
                let message = format!("sort: the function must give a number, not {}", words(&returned));
                self.error(ARGUMENT, message, at, Some("write a - b, or a < b ? -1 : 1"))
            }
            _ => returned,
        }
    }
}
