//! Nexus operations: `Nexus.call`.

use crate::interface::{Command, End, OperationKind, ScheduleNexus};
use crate::library::NEXUS;
use crate::pure;
use crate::value::Value;

use super::event::outcome;
use super::frame::Fault;
use super::promise::{OnCancel, PromiseKind};
use super::{Counter, Machine};

impl Machine<'_> {
    pub(super) fn nexus_call(&mut self, arguments: &[Value]) -> Result<Value, Fault> {
        let function = "Nexus.call";
        let name = |place: usize, what: &str| {
            pure::name(function, what, arguments.get(place).unwrap_or(&Value::Null)).map(|name| name.to_string())
        };
        let mut order = ScheduleNexus {
            endpoint: name(0, "the endpoint")?,
            service: name(1, "the service")?,
            operation: name(2, "the operation")?,
            ..ScheduleNexus::default()
        };
        let mut on_cancel = OnCancel::Try;
        for (option, value) in pure::options::check(function, arguments.get(4).unwrap_or(&Value::Null), NEXUS)? {
            match (option, &value) {
                ("schedule_to_close", value) => order.schedule_to_close = pure::duration::parse(value, function)?,
                ("schedule_to_start", value) => order.schedule_to_start = pure::duration::parse(value, function)?,
                ("start_to_close", value) => order.start_to_close = pure::duration::parse(value, function)?,
                ("headers", Value::Object(headers)) => {
                    let texts = headers.iter().filter_map(|(name, value)| match value {
                        Value::Str(text) => Some((name.to_string(), text.to_string())),
                        _ => None,
                    });
                    order.headers = texts.collect();
                    order.headers.sort_unstable();
                }
                ("on_cancel", Value::Str(text)) => on_cancel = OnCancel::named(text),
                ("summary", Value::Str(text)) => order.summary = text.to_string(),
                _ => {}
            }
        }
        order.input = arguments.get(3).map(|input| self.payload(input)).transpose()?;
        pure::payload::check_total(order.input.iter())?;
        self.room_for(OperationKind::Nexus)?;
        let id = self.next_id(Counter::Nexus);
        order.id = id.to_string();
        let name = format!("{}.{}", order.service, order.operation).into();
        self.command(Command::ScheduleNexus(Box::new(order)))?;
        let reference = self.promise(id, PromiseKind::Nexus { name, on_cancel, is_asked: false });
        Ok(Value::Promise(reference))
    }

    pub(super) fn nexus_ended(&mut self, id: &str, end: &End) {
        let Some(number) = self.operation(OperationKind::Nexus, id) else { return };
        let Some(PromiseKind::Nexus { name, .. }) = self.promises.get(&number).map(|promise| &promise.kind) else {
            return;
        };
        let outcome = outcome(end, Some(("nexus", name, id)));
        self.end(number, outcome);
    }
}
