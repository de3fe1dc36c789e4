/**
 * A Worker process of its own, for scenarios that kill it: node liveness-worker.js ADDRESS NAMESPACE QUEUE NAME SLOTS.
 *
 * It says what happens, one line each: `ready`, `start ATTEMPT`, `cancelled`, `end ATTEMPT`, `stopped`. SIGTERM makes it
 * shut down, with half a minute for what it is at.
 */
import { activityInfo, CancelledFailure, sleep } from '@temporalio/activity';
import { DefaultLogger, NativeConnection, Runtime, Worker } from '@temporalio/worker';

const [address, namespace, taskQueue, name, slots] = process.argv.slice(2);

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

async function main(): Promise<void> {
  Runtime.install({ logger: new DefaultLogger('ERROR'), shutdownSignals: ['SIGTERM'] });
  const connection = await NativeConnection.connect({ address });
  const worker = await Worker.create({
    connection,
    namespace,
    taskQueue,
    identity: name,
    activities: { job },
    maxConcurrentActivityTaskExecutions: Number(slots),
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
