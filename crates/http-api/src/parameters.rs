//! Fields of a request from its path and its query.

use prost_types::{Timestamp, field_descriptor_proto::Type};

use super::{
    decode,
    dynamic::{Content, Dynamic, seconds_and_nanos},
    scalars,
    schema::{Field, Message, Schema},
};

/// Sets a field by its path, such as `execution.workflow_id`. A field that there is not is ignored; the gateway of Temporal's
/// server does so, too.
pub(super) fn set(request: &mut Dynamic, message: &Message, path: &str, values: &[String]) -> Result<(), String> {
    let (first, rest) = match path.split_once('.') {
        Some((first, rest)) => (first, Some(rest)),
        None => (path, None),
    };
    let Some(field) = message.named_in_json(first) else { return Ok(()) };
    if let Some(oneof) = field.oneof
        && let Some(set) = request.has_oneof(message, oneof)
        && (set != field.number || field.kind != Type::Message)
    {
        return Err(format!("field already set for oneof {:?}", message.oneofs[oneof]));
    }
    if let Some(rest) = rest {
        return match Schema::get().message_of(field).filter(|_| !field.is_repeated) {
            Some(inner) => set(request.message(field.number), inner, rest, values),
            None => Err(format!("invalid path: {first:?} is not a message")),
        };
    }
    if let Some((key, value)) = Schema::get().map_entry(field) {
        let [name, content] = values else {
            return Err(format!("more than one value provided for key {:?} in map {:?}", "", field.name));
        };
        let mut entry = Dynamic::default();
        entry.set(1, parse(key, name)?);
        entry.set(2, parse(value, content)?);
        request.push(field.number, Content::Message(entry));
        return Ok(());
    }
    if field.is_repeated {
        for value in values {
            request.push(
                field.number,
                parse(field, value).map_err(|error| format!("parsing list {:?}: {error}", field.name))?,
            );
        }
        return Ok(());
    }
    let [value] = values else {
        return Err(format!("too many values for field {:?}: {}", field.name, values.join(", ")));
    };
    let content = parse(field, value).map_err(|error| format!("parsing field {:?}: {error}", field.name))?;
    request.set(field.number, content);
    Ok(())
}

fn parse(field: &Field, text: &str) -> Result<Content, String> {
    let Some(message) = Schema::get().message_of(field) else {
        return scalars::from_text(field, text).map(Content::Scalar);
    };
    match message.name.as_str() {
        ".google.protobuf.Timestamp" => {
            let time: Timestamp = text.parse().map_err(|_| {
                let layout = "2006-01-02T15:04:05.999999999Z07:00";
                format!("parsing time {text:?} as {layout:?}: cannot parse {text:?} as \"2006\"")
            })?;
            Ok(Content::Message(seconds_and_nanos(time.seconds, time.nanos)))
        }
        ".google.protobuf.Duration" => {
            let (seconds, nanos) = decode::span(text).ok_or_else(|| format!("time: invalid duration {text:?}"))?;
            Ok(Content::Message(seconds_and_nanos(seconds, nanos)))
        }
        ".google.protobuf.FieldMask" => {
            let mut mask = Dynamic::default();
            text.split(',').for_each(|path| mask.push(1, Content::text(path)));
            Ok(Content::Message(mask))
        }
        name => Err(format!("unsupported message type: {:?}", &name[1..])),
    }
}

/// A path with the names that the protocol has.
pub(super) fn normalized(message: &Message, path: &str) -> String {
    let mut message = Some(message);
    let names = path.split('.').map(|name| {
        let field = message.and_then(|message| message.named_in_json(name));
        message = field.and_then(|field| Schema::get().message_of(field));
        field.map_or(name, |field| field.name.as_str()).to_owned()
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
        match fields.iter_mut().find(|(known, _)| *known == name) {
            Some((_, values)) => values.push(value),
            None => fields.push((name, vec![value])),
        }
    }
    fields
}

/// Resolves percent-encoding; in a query a plus sign is a space. `None` if it is malformed.
pub(super) fn unescape(text: &str, plus: bool) -> Option<String> {
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
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use prost::Message as _;
    use segno_proto::workflowservice::GetWorkflowExecutionHistoryRequest;

    use super::*;

    fn read(given: &str) -> Result<GetWorkflowExecutionHistoryRequest, String> {
        let name = ".temporal.api.workflowservice.v1.GetWorkflowExecutionHistoryRequest";
        let message = Schema::get().message(name).expect("it is there");
        let mut request = Dynamic::default();
        for (path, values) in query(given) {
            set(&mut request, message, &path, &values)?;
        }
        Ok(GetWorkflowExecutionHistoryRequest::decode(request.encode().as_slice()).expect("a message"))
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
