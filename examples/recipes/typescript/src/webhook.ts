// A webhook whose sender repeats events: each is handled once.
import { Client, WorkflowExecutionAlreadyStartedError } from '@temporalio/client';
import { payment } from './webhook.workflows';

export interface PaymentEvent {
  id: string;
  amount: number;
}

export const activities = {
  async bookPayment(event: PaymentEvent): Promise<void> {
    console.log(`booked ${event.amount}`);
  },
};

/** The handler of `POST /webhook`; gives the HTTP status. */
async function receive(client: Client, event: PaymentEvent): Promise<number> {
  try {
    await client.workflow.start(payment, {
      taskQueue: 'recipes',
      workflowId: `payment-${event.id}`, // Chosen by the sender, the same in every repeat.
      args: [event],
      workflowIdConflictPolicy: 'FAIL', // while the workflow runs
      workflowIdReusePolicy: 'REJECT_DUPLICATE', // after its end
    });
    return 202;
  } catch (error) {
    if (error instanceof WorkflowExecutionAlreadyStartedError) return 200;
    throw error; // The sender repeats the event.
  }
}

export async function demo(client: Client): Promise<void> {
  const event = { id: 'evt-1', amount: 450 };
  const statuses = [await receive(client, event), await receive(client, event)];
  await client.workflow.getHandle('payment-evt-1').result();
  statuses.push(await receive(client, event));
  console.log(statuses.join(' '));
}
