//! Interceptors of workflows that change arguments.

use segno_sdk::{
    InboundCall, InboundKind, InterceptedRun, OutboundCall, OutboundKind, interceptor::WorkflowInterceptor, prelude::*,
    testing::WorkflowTest,
};

define_task!(Charge = "charge": (String, u32) => String);
define_task!(Weigh = "weigh": u32 => u32);
define_workflow!(Ship = "ship": u32 => u32);

const PAID: Signal<u32> = Signal::named("paid");

/// Adds 1 to every number that comes, 10 to every one that goes.
struct Adds;

impl WorkflowInterceptor for Adds {
    fn inbound(&self, _: &InterceptedRun, call: &mut InboundCall) {
        let last = call.arguments.len().saturating_sub(1);
        if let Ok(number) = call.arguments.get::<u32>(last) {
            call.arguments.set(last, &(number + 1)).unwrap();
        }
        // Arguments can be added and left out, too.
        if call.kind == InboundKind::Signal && call.name == "nothing" {
            call.arguments.0 = segno_sdk::converter::encode(&5u32, 1).unwrap();
        }
    }

    fn outbound(&self, _: &InterceptedRun, call: &mut OutboundCall) {
        let last = call.arguments.len().saturating_sub(1);
        if let Ok(number) = call.arguments.get::<u32>(last) {
            call.arguments.set(last, &(number + 10)).unwrap();
        }
        if call.kind == OutboundKind::Task && call.name == "charge" {
            call.arguments.set(0, &"Bob").unwrap();
        }
    }
}

struct Totals {
    from: u32,
    sum: u32,
}

#[workflow]
impl Totals {
    #[init]
    fn new(round: &u32, from: &u32) -> Self {
        let _ = round;
        Self { from: *from, sum: 0 }
    }

    #[run]
    async fn run(ctx: Context<Self>, round: u32, from: u32) -> Result<Vec<String>> {
        if round == 0 {
            return Err(ctx.continue_as_new::<Self>((1, from)));
        }
        let init = ctx.this().from;
        let mut all = vec![format!("from {from}, init {init}")];
        all.push(ctx.schedule::<Charge>(("Ann".to_owned(), 1)).await?);
        all.push(format!("weigh {}", ctx.schedule_local::<Weigh>(1).await?));
        let child = ctx.schedule_workflow::<Ship>("ship", 1);
        all.push(format!("ship {}", child.await?));
        all.push(format!("paid {}", ctx.receive(PAID).await?));
        ctx.wait_condition(|totals| totals.sum > 0).await?;
        let sum = ctx.this().sum;
        all.push(format!("sum {sum}"));
        Ok(all)
    }

    #[signal]
    fn nothing(&mut self, number: u32) {
        self.from += number;
    }

    #[query]
    fn plus(&self, number: u32) -> u32 {
        self.from + number
    }

    #[update]
    fn add(&mut self, number: u32) -> Result<u32> {
        self.sum += number;
        Ok(self.sum)
    }

    #[validate(add)]
    fn check(&self, number: &u32) -> Result<()> {
        if *number == 3 { Err("not 3".into()) } else { Ok(()) }
    }
}

#[tokio::test]
async fn arguments_that_come_and_go_are_changed() {
    let seconds = Duration::from_secs;
    let run = WorkflowTest::<Totals>::new((0, 100))
        .workflow_interceptor(Adds)
        .strict()
        .mock::<Charge>(|(who, number)| Ok(format!("{who} {number}")))
        .mock::<Weigh>(Ok)
        .mock_child::<Ship>(Ok)
        .signal(seconds(1), Totals::NOTHING, 0)
        .query(seconds(2), Totals::PLUS, 1, |answer| assert_eq!(answer.unwrap(), 119))
        .signal(seconds(3), PAID, 7)
        // The validator sees what the handler sees.
        .update(seconds(4), Totals::ADD, 2)
        .update(seconds(4), Totals::ADD, 3)
        .run()
        .await;
    // 1 for each of two starts, 10 for continuing as new; then 5 for the signal that gets an argument.
    let expected = ["from 112, init 112", "Bob 11", "weigh 11", "ship 11", "paid 8", "sum 4"];
    assert_eq!(run.output.unwrap(), expected);
    assert_eq!(run.updates[0].as_ref().unwrap_err().message(), "not 3");
    assert_eq!(run.updates[1].as_ref().unwrap(), 4);
}
