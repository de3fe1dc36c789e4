//! Interceptors of clients and tasks that change arguments.

use futures::future::BoxFuture;
use segno_sdk::{
    Arguments, Client, ClientCall, ClientCallKind, ClientError, ClientInterceptor, TaskFn, TaskInterceptor, prelude::*,
    raw::Payload,
};

use super::{queue, server};

/// Adds 1 to what a client sends, 10 to what tasks get; 100 to the arguments of a start beside something else.
struct Adds;

fn add(arguments: &mut Arguments, more: u32) -> Result<(), ClientError> {
    let number: u32 = arguments.get(0)?;
    Ok(arguments.set(0, &(number + more))?)
}

impl ClientInterceptor for Adds {
    fn before(&self, call: &mut ClientCall) -> Result<(), ClientError> {
        if matches!(call.kind, ClientCallKind::SignalWithStart | ClientCallKind::UpdateWithStart) {
            add(&mut call.start_arguments, 100)?;
        }
        add(&mut call.arguments, 1)
    }
}

impl TaskInterceptor for Adds {
    fn execute(
        &self,
        ctx: TaskContext,
        input: Vec<Payload>,
        next: TaskFn,
    ) -> BoxFuture<'static, Result<Vec<Payload>, Failure>> {
        let mut arguments = Arguments(input);
        add(&mut arguments, 10).unwrap();
        next(ctx, arguments.0)
    }
}

#[task]
async fn same(number: u32) -> Result<u32> {
    Ok(number)
}

#[derive(Default)]
struct Sums {
    signals: u32,
    updates: u32,
}

#[workflow]
impl Sums {
    #[run]
    async fn run(ctx: Context<Self>, number: u32) -> Result<(u32, u32, u32)> {
        let task = ctx.schedule::<Same>(number).await?;
        ctx.wait_condition(|sums| sums.signals > 0 && sums.updates > 0).await?;
        let sums = ctx.this();
        Ok((task, sums.signals, sums.updates))
    }
    #[signal]
    fn signalled(&mut self, number: u32) {
        self.signals += number;
    }
    #[query]
    fn plus(&self, number: u32) -> u32 {
        self.signals + number
    }
    #[update]
    fn updated(&mut self, number: u32) -> Result<u32> {
        self.updates += number;
        Ok(self.updates)
    }
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn what_clients_send_and_tasks_get_is_changed() {
    let server = server().await;
    // Interceptors see arguments before the codec does.
    let builder = Client::builder().target(server.address()).interceptor(Adds).codec(super::client::Inverted);
    let queue = queue(&builder.connect().await.unwrap());
    let worker = queue.worker().workflow::<Sums>().task::<Same>().interceptor(Adds).build().unwrap();
    let body = async {
        let handle = queue.start::<Sums>("sums", 1000).await?;
        handle.signal(Sums::SIGNALLED, 3).await?;
        assert_eq!(handle.query(Sums::PLUS, 5).await?, 10);
        assert_eq!(handle.update(Sums::UPDATED, 7).await?, 8);
        assert_eq!(handle.result().await?, (1011, 4, 8));
        let handle = queue.signal_with_start::<Sums, _>("signalled", 1000, Sums::SIGNALLED, 3).await?;
        handle.update(Sums::UPDATED, 1).await?;
        assert_eq!(handle.result().await?, (1110, 4, 2));
        let (handle, update) = queue.update_with_start::<Sums, _, _>("updated", 1000, Sums::UPDATED, 3).await?;
        assert_eq!(update.result().await?, 4);
        handle.signal(Sums::SIGNALLED, 1).await?;
        assert_eq!(handle.result().await?, (1110, 2, 4));
        Ok::<_, ClientError>(())
    };
    worker.run_until(body).await.unwrap();
}
