/**
 * A Worker process of its own, for scenarios that kill it: node liveness-worker.js OPTIONS, which are JSON.
 *
 * It says what happens, one line each: `ready`, `start ATTEMPT`, `cancelled`, `end ATTEMPT`, `stopped`. SIGTERM makes it
 * shut down, with half a minute for what it is at.
 */
import { activityInfo, CancelledFailure, sleep } from '@temporalio/activity';
import { DefaultLogger, NativeConnection, Runtime, Worker } from '@temporalio/worker';

export interface Options {
  address: string;
  namespace: string;
  taskQueue: string;
  name: string;
  identity: string;
  slots: number;
  /** File with the Workflow bundle; without one it only runs activities. */
  codePath?: string;
}

const options: Options = JSON.parse(process.argv[2]);
const { name } = options;

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}

/** Takes its time and never heartbeats; attempts after the first take `laterMs`. */
async function job(ms: number, laterMs: number): Promise<string> {
  const { attempt } = activityInfo();
  say(`start ${attempt}`);
  try {
    await sleep(attempt === 1 ? ms : laterMs);
  } catch (err) {
    if (err instanceof CancelledFailure) say('cancelled');
    throw err;
  }
  say(`end ${attempt}`);
  return `${name}: attempt ${attempt}`;
}

/** Takes forever on one worker; any other answers at once. */
async function stuckOn(stuck: string): Promise<string> {
  say(`start ${activityInfo().attempt}`);
  if (name === stuck) await sleep('10 minutes');
  return name;
}

async function main(): Promise<void> {
  const { address, namespace, taskQueue, identity, slots, codePath } = options;
  Runtime.install({ logger: new DefaultLogger('ERROR'), shutdownSignals: ['SIGTERM'] });
  const connection = await NativeConnection.connect({ address });
  const worker = await Worker.create({
    connection,
    namespace,
    taskQueue,
    identity,
    workflowBundle: codePath ? { codePath } : undefined,
    activities: { job, stuckOn },
    maxConcurrentActivityTaskExecutions: slots,
    // Longer than any scenario: nothing may be moved by this time-out.
    stickyQueueScheduleToStartTimeout: '2 minutes',
    shutdownGraceTime: '30s',
  });
  const run = worker.run();
  say('ready');
  await run;
  say('stopped');
  await connection.close();
}

main().then(
  () => process.exit(0),
  (err) => {
    console.error(err);
    process.exit(1);
  }
);
