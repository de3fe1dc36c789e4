// New code for a workflow while runs of the old code are open.
import { Client } from '@temporalio/client';
import { NativeConnection, Worker } from '@temporalio/worker';
import { order, pay } from './versioning.workflows';

export const activityFunctions = {
  async step(name: string): Promise<string> {
    return name;
  },
};

export async function demo(client: Client, connection: NativeConnection): Promise<void> {
  const worker = (workflows: string) =>
    Worker.create({
      connection,
      taskQueue: 'orders',
      workflowsPath: require.resolve(workflows),
      activities: activityFunctions,
    });
  const start = async (workflowId: string) => {
    const handle = await client.workflow.start(order, { taskQueue: 'orders', workflowId });
    await handle.executeUpdate(pay);
    return handle;
  };
  const old = await (await worker('./versioning.before')).runUntil(start('order-old'));
  await (await worker('./versioning.workflows')).runUntil(async () => {
    const fresh = await start('order-new');
    console.log('old run:', (await old.result()).join(', '));
    console.log('new run:', (await fresh.result()).join(', '));
  });
}
