//! Failures of the protocol as error objects, and back.

use segno_flow::hir::Access;
use segno_flow::interface::{Failure, FailureInfo, Payload, TimeoutKind};
use segno_flow::pure::{self, Cost, error, json, payload};
use segno_flow::value::Value;

fn json_payload(text: &str) -> Payload {
    payload::encoded("json/plain", text.as_bytes().to_vec())
}

fn failure(message: &str, info: FailureInfo, cause: Option<Failure>) -> Failure {
    Failure { message: message.to_owned(), info, cause: cause.map(Box::new), ..Failure::default() }
}

fn application(kind: &str, details: &[&str]) -> FailureInfo {
    let details = details.iter().map(|text| json_payload(text)).collect();
    FailureInfo::Application { kind: kind.to_owned(), non_retryable: false, details }
}

fn activity(name: &str, id: &str) -> FailureInfo {
    FailureInfo::Activity {
        id: id.to_owned(),
        name: name.to_owned(),
        scheduled_event_id: 5,
        started_event_id: 6,
        identity: "worker".to_owned(),
        retry_state: 3,
    }
}

fn child(name: &str, id: &str) -> FailureInfo {
    FailureInfo::Child {
        namespace: "default".to_owned(),
        workflow_id: id.to_owned(),
        run_id: "r".to_owned(),
        name: name.to_owned(),
        initiated_event_id: 5,
        started_event_id: 6,
        retry_state: 3,
    }
}

fn operation(service: &str, name: &str) -> FailureInfo {
    FailureInfo::Nexus {
        scheduled_event_id: 5,
        endpoint: "e".to_owned(),
        service: service.to_owned(),
        operation: name.to_owned(),
        token: "t".to_owned(),
    }
}

/// The fields but `stack`, as JSON.
fn fields(error: &Value) -> String {
    let keys = ["type", "message", "details", "retryable", "cause", "source"];
    let values = keys.map(|key| pure::field(error, key, Access::Plain).unwrap().unwrap());
    json::write(&Value::list(values.to_vec()), &mut Cost::default()).unwrap()
}

fn from(failure: &Failure) -> String {
    fields(&error::from_failure(failure, None))
}

#[test]
fn each_kind_of_failure() {
    let timeout = |kind, heartbeat: &[&str]| FailureInfo::Timeout {
        kind,
        last_heartbeat: heartbeat.iter().map(|text| json_payload(text)).collect(),
    };
    let cases = [
        (application("X", &[]), "[\"X\",\"m\",null,true,null,null]"),
        (application("", &["1"]), "[\"Error\",\"m\",1,true,null,null]"),
        (application("X", &["1", "{}"]), "[\"X\",\"m\",[1,{}],true,null,null]"),
        (
            FailureInfo::Application { kind: "X".to_owned(), non_retryable: true, details: Vec::new() },
            "[\"X\",\"m\",null,false,null,null]",
        ),
        (
            timeout(TimeoutKind::StartToClose, &["7"]),
            "[\"Timeout\",\"m\",{\"kind\":\"start_to_close\",\"last_heartbeat\":7},true,null,null]",
        ),
        (
            timeout(TimeoutKind::ScheduleToStart, &[]),
            "[\"Timeout\",\"m\",{\"kind\":\"schedule_to_start\",\"last_heartbeat\":null},true,null,null]",
        ),
        (
            timeout(TimeoutKind::ScheduleToClose, &[]),
            "[\"Timeout\",\"m\",{\"kind\":\"schedule_to_close\",\"last_heartbeat\":null},true,null,null]",
        ),
        (
            timeout(TimeoutKind::Heartbeat, &[]),
            "[\"Timeout\",\"m\",{\"kind\":\"heartbeat\",\"last_heartbeat\":null},true,null,null]",
        ),
        (FailureInfo::Canceled { details: vec![json_payload("2")] }, "[\"Canceled\",\"canceled\",2,true,null,null]"),
        (FailureInfo::Terminated, "[\"Terminated\",\"m\",null,false,null,null]"),
        (FailureInfo::Server { non_retryable: true }, "[\"ServerError\",\"m\",null,false,null,null]"),
        (FailureInfo::Reset { last_heartbeat: Vec::new() }, "[\"Reset\",\"m\",null,true,null,null]"),
        (FailureInfo::None, "[\"Error\",\"m\",null,true,null,null]"),
        (
            activity("ship", "task-1"),
            "[\"TaskFailed\",\"m\",null,true,null,{\"kind\":\"task\",\"name\":\"ship\",\"item_id\":\"task-1\"}]",
        ),
        (
            child("c", "id"),
            "[\"WorkflowFailed\",\"m\",null,true,null,{\"kind\":\"workflow\",\"name\":\"c\",\"item_id\":\"id\"}]",
        ),
        (
            operation("s", "o"),
            "[\"OperationFailed\",\"m\",null,true,null,{\"kind\":\"nexus\",\"name\":\"s.o\",\"item_id\":\"\"}]",
        ),
        (
            FailureInfo::NexusHandler { kind: "NOT_FOUND".to_owned(), retry_behavior: 0 },
            "[\"NOT_FOUND\",\"m\",null,false,null,null]",
        ),
    ];
    for (info, want) in cases {
        assert_eq!(from(&failure("m", info, None)), want);
    }
}

#[test]
fn wrappers_and_causes() {
    let root = failure("root", application("R", &[]), None);
    let cause = failure("no stock", application("OutOfStock", &["{\"sku\":7}"]), Some(root));
    let wrapped = failure("Activity task failed", activity("ship", "task-1"), Some(cause));
    assert_eq!(
        from(&wrapped),
        "[\"OutOfStock\",\"no stock\",{\"sku\":7},true,\
         {\"type\":\"R\",\"message\":\"root\",\"details\":null,\"retryable\":true,\"cause\":null,\"source\":null,\"stack\":\"\"},\
         {\"kind\":\"task\",\"name\":\"ship\",\"item_id\":\"task-1\"}]"
    );
    // Of a child that failed because of a task, the error is that of the task and the source is the child.
    let outer = failure("child error", child("c", "c-1"), Some(wrapped.clone()));
    let error = error::from_failure(&outer, Some(("workflow", "c", "c-1")));
    assert!(fields(&error).starts_with("[\"OutOfStock\",\"no stock\""));
    assert!(fields(&error).ends_with("{\"kind\":\"workflow\",\"name\":\"c\",\"item_id\":\"c-1\"}]"));
    // Unchanged it leaves as it came, with the place in the script.
    let left = |stack: &str| Failure { source: "segno-flow".into(), stack_trace: stack.into(), ..outer.clone() };
    assert_eq!(error::to_failure(&error), left(""));
    assert_eq!(error::to_failure(&error::with_stack(error, "at w (w.flow:1:1)")), left("at w (w.flow:1:1)"));
    // At most 20 causes.
    let mut chain = failure("m", application("X", &[]), None);
    for _ in 0..100 {
        chain = failure("m", application("X", &[]), Some(chain));
    }
    let error = error::from_failure(&chain, None);
    let mut count = 0;
    let mut at = pure::field(&error, "cause", Access::Plain).unwrap().unwrap();
    while let Value::Object(_) = at {
        count += 1;
        at = pure::field(&at, "cause", Access::Plain).unwrap().unwrap();
    }
    assert_eq!(count, 20);
    assert_eq!(error::to_failure(&error), chain);
}

/// The error with one field set.
fn with(error: &Value, key: &str, value: Value) -> Value {
    let mut error = error.clone();
    if let Value::Object(object) = &mut error {
        std::rc::Rc::make_mut(object).insert(key.into(), value);
    }
    error
}

#[test]
fn back_to_failures() {
    let own = error::make("T", "m", Value::list(vec![Value::Int(1)]), false, Value::Null, Value::Null, "at w (f:1:2)");
    let made = error::to_failure(&own);
    assert_eq!(made.message, "m");
    assert_eq!(made.source, "segno-flow");
    assert_eq!(made.stack_trace, "at w (f:1:2)");
    assert_eq!(
        made.info,
        FailureInfo::Application { kind: "T".to_owned(), non_retryable: true, details: vec![json_payload("[1]")] }
    );
    // A time-out of the language has no source and stays an application failure.
    let timeout = error::make("Timeout", "m", Value::Null, true, own, Value::Null, "");
    let made = error::to_failure(&timeout);
    assert_eq!(made.info, application("Timeout", &[]));
    assert_eq!(made.cause.unwrap().message, "m");

    // Changed errors of tasks and children are wrapped again.
    let canceled = failure("canceled", FailureInfo::Canceled { details: vec![json_payload("3")] }, None);
    let came = error::from_failure(&failure("a", activity("t", "task-1"), Some(canceled)), None);
    let made = error::to_failure(&with(&came, "message", Value::text("other")));
    assert!(matches!(&made.info, FailureInfo::Activity { id, name, .. } if id == "task-1" && name == "t"));
    let inner = made.cause.unwrap();
    assert_eq!(inner.message, "other");
    assert_eq!(inner.info, FailureInfo::Canceled { details: vec![json_payload("3")] });

    let info = FailureInfo::Timeout { kind: TimeoutKind::Heartbeat, last_heartbeat: vec![json_payload("4")] };
    let came = error::from_failure(&failure("c", child("n", "id"), Some(failure("late", info.clone(), None))), None);
    let made = error::to_failure(&with(&came, "extra", Value::Null));
    assert!(matches!(&made.info, FailureInfo::Child { workflow_id, name, .. } if workflow_id == "id" && name == "n"));
    assert_eq!(made.cause.unwrap().info, info);

    let refused = failure(
        "",
        FailureInfo::NexusHandler { kind: "CONFLICT".to_owned(), retry_behavior: 1 },
        Some(failure("inner", FailureInfo::None, None)),
    );
    let came = error::from_failure(&failure("n", operation("a.b", "o"), Some(refused)), None);
    assert!(fields(&came).starts_with("[\"CONFLICT\",\"inner\",null,false"), "{}", fields(&came));
    let made = error::to_failure(&with(&came, "extra", Value::Null));
    assert!(
        matches!(&made.info, FailureInfo::Nexus { service, operation, .. } if service == "a.b" && operation == "o")
    );
    let inner = made.cause.unwrap();
    assert_eq!(
        inner.info,
        FailureInfo::Application { kind: "CONFLICT".to_owned(), non_retryable: true, details: Vec::new() }
    );
    assert_eq!(inner.cause.unwrap().message, "inner");

    let terminated = failure("killed", FailureInfo::Terminated, None);
    let came = error::from_failure(&failure("c", child("n", "id"), Some(terminated)), None);
    assert_eq!(error::to_failure(&with(&came, "extra", Value::Null)).cause.unwrap().info, FailureInfo::Terminated);

    // Something that was sent is not wrapped.
    let source = Value::object([("kind", Value::text("send"))]);
    let sent = error::make("NotFound", "m", Value::Null, true, Value::Null, source, "");
    assert_eq!(error::to_failure(&sent).info, application("NotFound", &[]));
    // From every object a failure can be made.
    for text in
        ["{\"message\":\"m\",\"type\":1,\"retryable\":2,\"cause\":3,\"source\":4,\"stack\":5}", "{}", "[]", "null"]
    {
        let _ = error::to_failure(&json::parse(text.as_bytes()).unwrap());
    }
}

#[test]
fn payloads_of_unchanged_failures_are_kept() {
    let opaque = payload::encoded("binary/encrypted", vec![1, 2]);
    let info = FailureInfo::Application {
        kind: "X".to_owned(),
        non_retryable: false,
        details: vec![opaque, json_payload(" 1 ")],
    };
    let came = failure("m", info, None);
    let error = error::from_failure(&came, None);
    assert_eq!(error::to_failure(&error::thrown(error.clone())), came);
    // As the cause of another error as well.
    let outer = error::from_options(&[Value::text("o"), Value::object([("cause", error)])], "").unwrap();
    assert_eq!(error::to_failure(&outer).cause.as_deref(), Some(&came));
}
