// A worker for production: it says whether it is healthy, and ends what it has begun before it stops.
import { createServer } from 'node:http';
import { activityInfo, heartbeat } from '@temporalio/activity';
import { Client } from '@temporalio/client';
import { NativeConnection, Worker } from '@temporalio/worker';
import { rows } from './production-worker.workflows';

export const activityFunctions = {
  async importRows(count: number): Promise<string> {
    for (let row = 0; row < count; row++) {
      heartbeat(row); // Without one for 10 s the attempt times out, and the next one begins.
      await new Promise((done) => setTimeout(done, 300));
    }
    return `${count} rows in attempt ${activityInfo().attempt}`;
  },
};

async function create(connection: NativeConnection): Promise<Worker> {
  return await Worker.create({
    connection,
    taskQueue: 'imports',
    workflowsPath: require.resolve('./production-worker.workflows'),
    activities: activityFunctions,
    shutdownGraceTime: '30s',
  });
}

/** Runs until SIGTERM or SIGINT, then gives activities under way 30 s. */
async function work(connection: NativeConnection, healthPort: number): Promise<void> {
  const worker = await create(connection);
  const health = createServer((_, response) => response.writeHead(worker.getState() === 'RUNNING' ? 200 : 503).end());
  health.listen(healthPort);
  const stop = () => {
    console.log('stopping');
    worker.shutdown();
  };
  process.once('SIGTERM', stop).once('SIGINT', stop);
  await worker.run();
  health.close();
  console.log('stopped');
}

export async function demo(client: Client, connection: NativeConnection): Promise<void> {
  const worker = work(connection, 18082);
  const handle = await client.workflow.start(rows, { taskQueue: 'imports', workflowId: 'import-1', args: [3] });
  while (!(await handle.describe()).raw.pendingActivities?.length) await new Promise((done) => setTimeout(done, 100));
  console.log('health:', (await fetch('http://127.0.0.1:18082')).status);
  process.kill(process.pid, 'SIGTERM'); // As `docker stop` and Kubernetes do.
  await worker;
  console.log(await (await create(connection)).runUntil(handle.result()));
}
