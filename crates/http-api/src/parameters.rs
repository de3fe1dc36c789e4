//! Fields of a request from its path and its query.

use prost_types::Timestamp;
use segno_proto_json::{
    from_base64,
    prost_reflect::{DynamicMessage, EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor, ReflectMessage, Value},
    span, whole,
};

fn field(message: &MessageDescriptor, name: &str) -> Option<FieldDescriptor> {
    message.get_field_by_json_name(name).or_else(|| message.get_field_by_name(name))
}

/// Sets a field by its path, such as `execution.workflow_id`. A field that there is not is ignored; the gateway of Temporal's
/// server does so, too.
pub(super) fn set(request: &mut DynamicMessage, path: &str, values: &[String]) -> Result<(), String> {
    let (first, rest) = match path.split_once('.') {
        Some((first, rest)) => (first, Some(rest)),
        None => (path, None),
    };
    let Some(field) = field(&request.descriptor(), first) else { return Ok(()) };
    if let Some(oneof) = field.containing_oneof().filter(|oneof| !oneof.is_synthetic())
        && let Some(set) = oneof.fields().find(|other| request.has_field(other))
        && (set != field || field.kind().as_message().is_none())
    {
        return Err(format!("field already set for oneof {:?}", oneof.name()));
    }
    if let Some(rest) = rest {
        return match request.get_field_mut(&field) {
            Value::Message(inner) => set(inner, rest, values),
            _ => Err(format!("invalid path: {first:?} is not a message")),
        };
    }
    if let (true, Kind::Message(entry)) = (field.is_map(), field.kind()) {
        let [name, content] = values else {
            return Err(format!("more than one value provided for key {:?} in map {:?}", "", field.name()));
        };
        let key = parse(&entry.map_entry_key_field().kind(), name)?.into_map_key();
        let content = parse(&entry.map_entry_value_field().kind(), content)?;
        if let (Some(entries), Some(key)) = (request.get_field_mut(&field).as_map_mut(), key) {
            entries.insert(key, content);
        }
        return Ok(());
    }
    if let (true, Some(list)) = (field.is_list(), request.get_field_mut(&field).as_list_mut()) {
        for value in values {
            list.push(
                parse(&field.kind(), value).map_err(|error| format!("parsing list {:?}: {error}", field.name()))?,
            );
        }
        return Ok(());
    }
    let [value] = values else {
        return Err(format!("too many values for field {:?}: {}", field.name(), values.join(", ")));
    };
    let content = parse(&field.kind(), value).map_err(|error| format!("parsing field {:?}: {error}", field.name()))?;
    request.try_set_field(&field, content).map_err(|error| error.to_string())
}

/// The value of a field from a path or a query; the error is Go's.
fn parse(kind: &Kind, text: &str) -> Result<Value, String> {
    let go = |function: &str, is_number: bool| {
        let why = if is_number { "value out of range" } else { "invalid syntax" };
        format!("strconv.{function}: parsing {text:?}: {why}")
    };
    match kind {
        Kind::Message(message) => parse_message(message, text).map(Value::Message),
        Kind::String => Ok(Value::String(text.to_owned())),
        Kind::Bytes => {
            let bytes = from_base64(text).ok_or_else(|| "illegal base64 data at input byte 0".to_owned())?;
            Ok(Value::Bytes(bytes.into()))
        }
        Kind::Bool => match text {
            "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(Value::Bool(true)),
            "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(Value::Bool(false)),
            _ => Err(go("ParseBool", false)),
        },
        Kind::Enum(kind) => {
            let number = known(kind, text).ok_or_else(|| format!("{text:?} is not a valid value"))?;
            Ok(Value::EnumNumber(number))
        }
        Kind::Float => text.parse().map(Value::F32).map_err(|_| go("ParseFloat", false)),
        Kind::Double => text.parse().map(Value::F64).map_err(|_| go("ParseFloat", false)),
        kind => {
            let is_unsigned = matches!(kind, Kind::Uint32 | Kind::Uint64 | Kind::Fixed32 | Kind::Fixed64);
            let function = if is_unsigned { "ParseUint" } else { "ParseInt" };
            // Here `1e2` is no number.
            let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
            let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            let number = is_number.then(|| whole(kind, text.strip_prefix('+').unwrap_or(text))).flatten();
            number.ok_or_else(|| go(function, is_number))
        }
    }
}

fn known(kind: &EnumDescriptor, text: &str) -> Option<i32> {
    let by_number = || kind.get_value(text.parse().ok()?);
    kind.get_value_by_name(text).or_else(by_number).map(|value| value.number())
}

fn parse_message(message: &MessageDescriptor, text: &str) -> Result<DynamicMessage, String> {
    let mut read = DynamicMessage::new(message.clone());
    let merged = match message.full_name() {
        "google.protobuf.Timestamp" => {
            let time: Timestamp = text.parse().map_err(|_| {
                let layout = "2006-01-02T15:04:05.999999999Z07:00";
                format!("parsing time {text:?} as {layout:?}: cannot parse {text:?} as \"2006\"")
            })?;
            read.transcode_from(&time)
        }
        "google.protobuf.Duration" => {
            read.transcode_from(&span(text).ok_or_else(|| format!("time: invalid duration {text:?}"))?)
        }
        "google.protobuf.FieldMask" => {
            read.transcode_from(&prost_types::FieldMask { paths: text.split(',').map(str::to_owned).collect() })
        }
        name => return Err(format!("unsupported message type: {name:?}")),
    };
    merged.map(|()| read).map_err(|error| error.to_string())
}

/// A path with the names that the protocol has.
pub(super) fn normalized(message: &MessageDescriptor, path: &str) -> String {
    let mut message = Some(message.clone());
    let names = path.split('.').map(|name| {
        let field = message.as_ref().and_then(|message| field(message, name));
        message = field.as_ref().and_then(|field| field.kind().as_message().cloned());
        field.map_or(name.to_owned(), |field| field.name().to_owned())
    });
    names.collect::<Vec<_>>().join(".")
}

/// `fields[name]=value` is an entry of a map: its name comes before its value.
pub(super) fn of_map(path: String, mut values: Vec<String>) -> (String, Vec<String>) {
    match path.strip_suffix(']').and_then(|path| path.rsplit_once('[')) {
        Some((map, name)) => {
            values.insert(0, name.to_owned());
            (map.to_owned(), values)
        }
        None => (path, values),
    }
}

/// The fields of a query or a form, in the order in which they first appear, each with all of its values.
pub(super) fn query(text: &str) -> Vec<(String, Vec<String>)> {
    let mut fields: Vec<(String, Vec<String>)> = Vec::new();
    for part in text.split('&').filter(|part| !part.is_empty()) {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        // Go leaves out what it cannot read.
        let (Some(name), Some(value)) = (unescape(name, true), unescape(value, true)) else { continue };
        let [name, value] = [name, value].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        match fields.iter_mut().find(|(known, _)| *known == name) {
            Some((_, values)) => values.push(value),
            None => fields.push((name, vec![value])),
        }
    }
    fields
}

/// Resolves percent-encoding; in a query a plus sign is a space. `None` if it is malformed.
pub(super) fn unescape(text: &str, plus: bool) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'%' => {
                let high = char::from(rest.next()?).to_digit(16)?;
                let low = char::from(rest.next()?).to_digit(16)?;
                bytes.push((high * 16 + low) as u8);
            }
            b'+' if plus => bytes.push(b' '),
            byte => bytes.push(byte),
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use segno_proto::workflowservice::GetWorkflowExecutionHistoryRequest;
    use segno_proto_json::descriptor;

    use super::*;

    fn read(given: &str) -> Result<GetWorkflowExecutionHistoryRequest, String> {
        let name = "temporal.api.workflowservice.v1.GetWorkflowExecutionHistoryRequest";
        let mut request = DynamicMessage::new(descriptor(name).expect("it is there"));
        for (path, values) in query(given) {
            set(&mut request, &path, &values)?;
        }
        Ok(request.transcode_to().expect("a message"))
    }

    #[test]
    fn fields_have_either_name() {
        let request =
            read("execution.runId=r&execution.workflow_id=a+b%2Fc&maximumPageSize=3&pretty&waitNewEvent=true");
        let request = request.expect("a request");
        assert_eq!(request.maximum_page_size, 3);
        assert!(request.wait_new_event);
        let execution = request.execution.expect("an execution");
        assert_eq!((execution.workflow_id.as_str(), execution.run_id.as_str()), ("a b/c", "r"));
    }

    #[test]
    fn what_does_not_fit_is_refused_as_go_does() {
        let error = |given: &str| read(given).expect_err(given);
        assert_eq!(
            error("maximumPageSize=x"),
            "parsing field \"maximum_page_size\": strconv.ParseInt: parsing \"x\": invalid syntax"
        );
        assert_eq!(
            error("maximumPageSize=99999999999"),
            "parsing field \"maximum_page_size\": strconv.ParseInt: parsing \"99999999999\": value out of range"
        );
        assert_eq!(error("namespace=a&namespace=b"), "too many values for field \"namespace\": a, b");
        assert_eq!(
            error("historyEventFilterType=x"),
            "parsing field \"history_event_filter_type\": \"x\" is not a valid value"
        );
        assert_eq!(error("namespace.x=1"), "invalid path: \"namespace\" is not a message");
    }
}
