//! Nexus operations: results, failures, time-outs, cancellation of each type, drops, and changed code.

use segno_sdk::{
    ViolationKind,
    raw::enums::{CommandType, EventType},
    replay::{History, Replayer},
    testing::WorkflowTest,
    *,
};
use serde_json::{Value, json};

use super::common::*;

/// A service that other programs handle.
#[nexus_service(name = "shop.Orders")]
#[allow(dead_code)]
trait Orders {
    #[operation]
    async fn price(&self, item: String) -> Result<u32>;
    #[operation(name = "Ship")]
    async fn ship(&self, ctx: NexusContext, item: String) -> Result<StartedOperation<String>, HandlerError>;
    #[operation]
    async fn ping(&self) -> Result<()>;
}

fn orders<S: Send + Sync + 'static>(ctx: &Context<S>) -> OrdersClient {
    ctx.nexus("orders")
}

#[workflow]
async fn buy(ctx: Context, item: String) -> Result<String> {
    let orders = orders(&ctx);
    orders.ping().await?;
    let cents = orders.price(item.clone()).await?;
    let shipped = orders.ship(item);
    let token = shipped.started().await?;
    Ok(format!("{cents} {} {}", token.is_some(), shipped.await?))
}

#[tokio::test]
async fn operations_complete_at_once_or_later() {
    let test = || {
        WorkflowTest::<Buy>::new("tea".to_owned())
            .mock_operation(OrdersClient::PING, |()| Ok(()))
            .mock_operation(OrdersClient::PRICE, |item| Ok(item.len() as u32))
            .mock_operation(OrdersClient::SHIP, |item| Ok(format!("{item} is there")))
    };
    let run = both(test).await;
    assert_eq!(run.output.as_ref().unwrap(), "3 false tea is there");
    assert_eq!(commands(&run)[..3], [CommandType::ScheduleNexusOperation; 3]);
    assert_eq!(count(&run, EventType::NexusOperationStarted), 0);
    let later = both(|| test().latency("shop.Orders.Ship", seconds(60))).await;
    assert_eq!(later.output.as_ref().unwrap(), "3 true tea is there");
    assert_eq!(later.elapsed, seconds(60));
    assert_eq!(count(&later, EventType::NexusOperationStarted), 1);
    assert_eq!(count(&later, EventType::NexusOperationCompleted), 3);
}

#[tokio::test]
async fn an_operation_without_a_mock_is_named() {
    let run = WorkflowTest::<Buy>::new("tea".to_owned()).run().await;
    let failure = run.output.unwrap_err();
    assert_eq!(failure.application_kind(), Some("NotRegistered"));
    assert!(failure.message().contains("shop.Orders.ping"), "{failure}");
}

#[workflow]
async fn with_options(ctx: Context) -> Result<Value> {
    let options = NexusOptions {
        schedule_to_close: Some(seconds(30)),
        schedule_to_start: Some(seconds(10)),
        start_to_close: Some(seconds(20)),
        headers: vec![("customer".to_owned(), "Ann".to_owned())],
        summary: Some("asks for tea".to_owned()),
        ..NexusOptions::default()
    };
    let client: NexusClient = ctx.nexus("any");
    let answer = client.with_options(options).start_raw("Any", "call", json!({"a": 1})).await?;
    let nothing = ctx.nexus::<NexusClient>("any").start_raw("Any", "call", Value::Null).await?;
    Ok(json!([answer, nothing]))
}

#[tokio::test]
async fn options_and_names_are_sent() {
    let run = both(|| WorkflowTest::<WithOptions>::new(()).mock_operation_raw("Any", "call", Ok)).await;
    assert_eq!(run.output.as_ref().unwrap(), &json!([{"a": 1}, null]));
    let command = &run.commands[0];
    let Some(raw::CommandAttributes::ScheduleNexusOperationCommandAttributes(sent)) = &command.attributes else {
        panic!("{command:?}")
    };
    assert_eq!((&*sent.endpoint, &*sent.service, &*sent.operation), ("any", "Any", "call"));
    let times = [sent.schedule_to_close_timeout, sent.schedule_to_start_timeout, sent.start_to_close_timeout];
    assert_eq!(times.map(|time| time.unwrap().seconds), [30, 10, 20]);
    assert_eq!(sent.nexus_header.get("customer").map(String::as_str), Some("Ann"));
    assert!(command.user_metadata.as_ref().unwrap().summary.is_some());
    let Some(raw::CommandAttributes::ScheduleNexusOperationCommandAttributes(empty)) = &run.commands[1].attributes
    else {
        panic!()
    };
    assert_eq!(empty.input, None);
}

#[workflow]
async fn price_of(ctx: Context, item: String) -> Result<u32> {
    Ok(orders(&ctx).price(item).await?)
}

#[tokio::test]
async fn a_failure_names_the_operation_and_has_a_cause() {
    let sold_out = || Failure::application("SoldOut", "no tea").non_retryable();
    let run = both(|| {
        WorkflowTest::<PriceOf>::new(String::new()).mock_operation(OrdersClient::PRICE, move |_| Err(sold_out().into()))
    })
    .await;
    let failure = run.output.unwrap_err();
    assert!(
        matches!(failure.kind(), FailureKind::Nexus { endpoint, service, operation, token }
            if endpoint == "orders" && service == "shop.Orders" && operation == "price" && token.is_empty()),
        "{failure:?}"
    );
    assert_eq!(failure.to_string(), "Nexus operation shop.Orders.price failed: no tea");
    assert_eq!(failure.application_kind(), Some("SoldOut"));
    let refused = HandlerError::new(HandlerErrorType::Unauthorized, "not for you");
    let run = both(|| {
        let refused = refused.clone();
        WorkflowTest::<PriceOf>::new(String::new())
            .mock_operation(OrdersClient::PRICE, move |_| Err(refused.clone().into()))
    })
    .await;
    let cause = run.output.unwrap_err().cause().cloned().unwrap();
    assert_eq!(
        cause.kind(),
        &FailureKind::NexusHandler { r#type: HandlerErrorType::Unauthorized, retryable: false },
        "{cause:?}"
    );
}

#[workflow]
async fn ship_in_time(ctx: Context) -> Result<String> {
    let options = NexusOptions { start_to_close: Some(seconds(5)), ..NexusOptions::default() };
    Ok(orders(&ctx).with_options(options).ship("tea".to_owned()).await?)
}

#[tokio::test]
async fn an_operation_that_takes_too_long() {
    let run = both(|| {
        WorkflowTest::<ShipInTime>::new(())
            .mock_operation(OrdersClient::SHIP, Ok)
            .latency("shop.Orders.Ship", seconds(60))
    })
    .await;
    let failure = run.output.unwrap_err();
    assert_eq!(failure.cause().map(Failure::kind), Some(&FailureKind::Timeout { r#type: TimeoutType::StartToClose }));
    assert_eq!(run.elapsed, seconds(5));
}

/// The operation is cancelled after 10 s; it would take 60 s.
#[workflow]
async fn ship_and_cancel(ctx: Context, kind: u32) -> Result<String> {
    let cancellation = match kind {
        0 => NexusCancellationType::TryCancel,
        1 => NexusCancellationType::WaitRequested,
        2 => NexusCancellationType::WaitCompleted,
        _ => NexusCancellationType::Abandon,
    };
    let shipped = orders(&ctx).with_options(NexusOptions { cancellation, ..Default::default() }).ship("tea".to_owned());
    shipped.started().await?;
    ctx.sleep(seconds(10)).await?;
    shipped.cancel();
    shipped.cancel();
    let failure = shipped.await.unwrap_err();
    // What comes later must not disturb.
    ctx.sleep(seconds(100)).await?;
    Ok(format!("{} {}", failure.is_cancelled(), matches!(failure.kind(), FailureKind::Nexus { .. })))
}

#[tokio::test]
async fn cancellation_of_each_type() {
    // Whether the failure is that of the server's event, and how many requests there are.
    for (kind, of_event, requests) in [(0, false, 1), (1, false, 1), (2, true, 1), (3, false, 0)] {
        let run = both(|| {
            WorkflowTest::<ShipAndCancel>::new(kind)
                .mock_operation(OrdersClient::SHIP, Ok)
                .latency("shop.Orders.Ship", seconds(60))
        })
        .await;
        assert_eq!(run.output.as_ref().unwrap(), &format!("true {of_event}"), "type {kind}");
        assert_eq!(count(&run, EventType::NexusOperationCancelRequested), requests, "type {kind}");
        let completed = count(&run, EventType::NexusOperationCompleted);
        assert_eq!(completed, usize::from(requests == 0), "type {kind}");
        assert_eq!(run.elapsed, seconds(110));
    }
}

#[workflow]
async fn cancel_at_once(ctx: Context) -> Result<bool> {
    let shipped = orders(&ctx).ship("tea".to_owned());
    let started = shipped.started();
    shipped.cancel();
    let (shipped, started) = tokio::join!(shipped, started);
    Ok(shipped.unwrap_err().is_cancelled() && started.unwrap_err().is_cancelled())
}

#[tokio::test]
async fn what_was_not_sent_is_withdrawn() {
    let run = both(|| WorkflowTest::<CancelAtOnce>::new(())).await;
    assert!(run.output.as_ref().unwrap());
    assert_eq!(commands(&run), [CommandType::CompleteWorkflowExecution]);
}

#[workflow]
async fn race(ctx: Context) -> Result<String> {
    select! {
        shipped = orders(&ctx).ship("tea".to_owned()) => Ok(shipped?),
        _ = ctx.sleep(seconds(10)) => Ok("too late".to_owned()),
    }
}

#[workflow]
async fn whole_race(ctx: Context) -> Result<String> {
    let outcome = select! {
        shipped = orders(&ctx).ship("tea".to_owned()) => shipped?,
        _ = ctx.sleep(seconds(10)) => "too late".to_owned(),
    };
    ctx.sleep(seconds(100)).await?;
    Ok(outcome)
}

#[tokio::test]
async fn the_loser_of_a_race_is_cancelled() {
    let run = both(|| {
        WorkflowTest::<WholeRace>::new(())
            .mock_operation(OrdersClient::SHIP, Ok)
            .latency("shop.Orders.Ship", seconds(60))
    })
    .await;
    assert_eq!(run.output.as_ref().unwrap(), "too late");
    assert_eq!(count(&run, EventType::NexusOperationCanceled), 1);
    let run = both(|| {
        WorkflowTest::<Race>::new(()).mock_operation(OrdersClient::SHIP, Ok).latency("shop.Orders.Ship", seconds(3))
    })
    .await;
    assert_eq!(run.output.as_ref().unwrap(), "tea");
}

/// A workflow that is cancelled cancels what it waits for.
#[tokio::test]
async fn a_cancelled_workflow_cancels_its_operations() {
    let run = both(|| {
        WorkflowTest::<Race>::new(())
            .mock_operation(OrdersClient::SHIP, Ok)
            .latency("shop.Orders.Ship", seconds(60))
            .cancel(seconds(2))
    })
    .await;
    assert!(run.output.unwrap_err().is_cancelled());
    assert_eq!(run.elapsed, seconds(2));
}

/// The timer and the end of the operation come in one workflow task, in this order.
#[workflow]
async fn crossing(ctx: Context) -> Result<bool> {
    let shipped = orders(&ctx).ship("tea".to_owned());
    shipped.started().await?;
    ctx.sleep(seconds(10)).await?;
    shipped.cancel();
    Ok(shipped.await.unwrap_err().is_cancelled())
}

#[tokio::test]
async fn a_request_to_cancel_what_has_ended_is_withdrawn() {
    let run = both(|| {
        WorkflowTest::<Crossing>::new(())
            .mock_operation(OrdersClient::SHIP, Ok)
            .latency("shop.Orders.Ship", std::time::Duration::from_millis(11_500))
            .batch(seconds(1))
    })
    .await;
    assert!(run.output.as_ref().unwrap());
    assert_eq!(count(&run, EventType::NexusOperationCompleted), 1);
    assert_eq!(count(&run, EventType::NexusOperationCancelRequested), 0);
}

struct Shout;

impl segno_sdk::interceptor::WorkflowInterceptor for Shout {
    fn outbound(&self, _: &InterceptedRun, call: &mut OutboundCall) {
        if call.kind == OutboundKind::Nexus && call.name == "shop.Orders.price" {
            call.arguments.set(0, &"louder").unwrap();
            call.headers.insert("tenant".to_owned(), converter::encode_json("t1").unwrap());
        }
    }
}

#[tokio::test]
async fn interceptors_see_operations() {
    let run = both(|| {
        WorkflowTest::<PriceOf>::new("tea".to_owned())
            .workflow_interceptor(Shout)
            .mock_operation(OrdersClient::PRICE, |item| Ok(item.len() as u32))
    })
    .await;
    assert_eq!(run.output.unwrap(), 6);
    let Some(raw::CommandAttributes::ScheduleNexusOperationCommandAttributes(sent)) = &run.commands[0].attributes
    else {
        panic!()
    };
    assert_eq!(sent.nexus_header.get("tenant").map(String::as_str), Some("t1"));
}

/// Histories of one program, replayed by another.
mod changed {
    use super::*;

    #[workflow(name = "Changed")]
    pub async fn before(ctx: Context) -> Result<()> {
        let shipped = orders(&ctx).ship("tea".to_owned());
        shipped.started().await?;
        shipped.cancel();
        let _ = shipped.await;
        Ok(ctx.sleep(seconds(1)).await?)
    }

    pub const OTHER_OPERATION: u32 = line!() + 4;

    #[workflow(name = "Changed")]
    pub async fn other_operation(ctx: Context) -> Result<()> {
        let price = orders(&ctx).price("tea".to_owned());
        price.started().await?;
        price.cancel();
        let _ = price.await;
        Ok(ctx.sleep(seconds(1)).await?)
    }

    #[workflow(name = "Changed")]
    pub async fn other_endpoint(ctx: Context) -> Result<()> {
        let shipped = ctx.nexus::<OrdersClient>("elsewhere").ship("tea".to_owned());
        shipped.started().await?;
        shipped.cancel();
        let _ = shipped.await;
        Ok(ctx.sleep(seconds(1)).await?)
    }

    #[workflow(name = "Changed")]
    pub async fn no_operation(ctx: Context) -> Result<()> {
        Ok(ctx.sleep(seconds(1)).await?)
    }

    #[workflow(name = "Changed")]
    pub async fn not_cancelled(ctx: Context) -> Result<()> {
        let shipped = orders(&ctx).ship("tea".to_owned());
        shipped.started().await?;
        shipped.detach();
        Ok(ctx.sleep(seconds(1)).await?)
    }
}

#[tokio::test]
async fn changed_code_is_a_violation() {
    let run = WorkflowTest::<changed::Before>::new(())
        .mock_operation(OrdersClient::SHIP, Ok)
        .latency("shop.Orders.Ship", seconds(60))
        .run()
        .await;
    run.output.unwrap();
    let history = || History::from_events(run.history.clone());
    Replayer::new().workflow::<changed::Before>().replay(history()).unwrap();
    let kinds = [
        Replayer::new().workflow::<changed::OtherOperation>().replay(history()),
        Replayer::new().workflow::<changed::OtherEndpoint>().replay(history()),
        Replayer::new().workflow::<changed::NoOperation>().replay(history()),
        Replayer::new().workflow::<changed::NotCancelled>().replay(history()),
    ]
    .map(|replayed| replayed.unwrap_err().violation().unwrap().clone());
    assert_eq!(
        kinds.each_ref().map(|violation| violation.kind),
        [
            ViolationKind::NexusOperationMismatch,
            ViolationKind::NexusOperationMismatch,
            ViolationKind::CommandTypeMismatch,
            ViolationKind::CommandTypeMismatch,
        ]
    );
    let text = kinds[0].to_string();
    let (text, place) = text.split_once(" at ").unwrap();
    assert_eq!(
        text,
        "Nexus operation #1: event 5 scheduled Nexus operation \"shop.Orders.Ship\" of endpoint \"orders\", the code asks \
         for Nexus operation \"shop.Orders.price\" of endpoint \"orders\""
    );
    assert!(place.contains(&format!("workflows/nexus.rs:{}:", changed::OTHER_OPERATION)), "{place}");
}
