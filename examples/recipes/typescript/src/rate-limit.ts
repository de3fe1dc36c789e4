// At most five calls a second to a service, from all workers together.
import { Client } from '@temporalio/client';
import { NativeConnection, Worker } from '@temporalio/worker';
import { campaign } from './rate-limit.workflows';

const calls: number[] = [];

export const activities = {
  async sendSms(_number: string): Promise<void> {
    calls.push(performance.now());
  },
};

export async function demo(client: Client, connection: NativeConnection): Promise<void> {
  // The server enforces the limit for the whole queue, however many workers poll it.
  const sender = await Worker.create({ connection, taskQueue: 'sms', activities, maxTaskQueueActivitiesPerSecond: 5 });
  const numbers = Array.from({ length: 11 }, (_, number) => `+49 30 555 ${number}`);
  const sent = await sender.runUntil(
    client.workflow.execute(campaign, { taskQueue: 'recipes', workflowId: 'campaign-1', args: [numbers] })
  );
  console.log(`${sent} messages, ${calls[calls.length - 1] - calls[0] > 1500 ? 'at most' : 'more than'} 5 a second`);
}
