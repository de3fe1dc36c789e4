// Runs a recipe: `npm start saga`. Starts a worker with the recipe's activities and all workflows, then the recipe's client.
// `npm start` runs all of them.
import { Client, Connection } from '@temporalio/client';
import { bundleWorkflowCode, DefaultLogger, NativeConnection, Runtime, Worker } from '@temporalio/worker';
import * as cronJob from './cron-job';
import * as fanOut from './fan-out';
import * as humanApproval from './human-approval';
import * as largePayloads from './large-payloads';
import * as polling from './polling';
import * as productionWorker from './production-worker';
import * as rateLimit from './rate-limit';
import * as saga from './saga';
import * as versioning from './versioning';
import * as webhook from './webhook';

interface Recipe {
  activities?: object;
  demo(client: Client, connection: NativeConnection): Promise<void>;
}

const recipes: Record<string, Recipe> = {
  'human-approval': humanApproval,
  saga,
  'cron-job': cronJob,
  'fan-out': fanOut,
  'rate-limit': rateLimit,
  'production-worker': productionWorker,
  versioning,
  polling,
  webhook,
  'large-payloads': largePayloads,
};

async function main(names: string[]): Promise<void> {
  // Signals are handled by the recipes that show it.
  Runtime.install({ logger: new DefaultLogger('ERROR'), shutdownSignals: [] });
  const address = process.env.TEMPORAL_ADDRESS ?? '127.0.0.1:7233';
  const connection = await NativeConnection.connect({ address });
  const client = new Client({ connection: await Connection.connect({ address }) });
  const workflowBundle = await bundleWorkflowCode({
    workflowsPath: require.resolve('./workflows'),
    logger: new DefaultLogger('ERROR'),
  });
  for (const name of names.length ? names : Object.keys(recipes)) {
    const { activities, demo } = recipes[name];
    console.log(`== ${name}`);
    if (!activities) {
      await demo(client, connection); // It starts its workers itself.
      continue;
    }
    const worker = await Worker.create({ connection, taskQueue: 'recipes', workflowBundle, activities });
    await worker.runUntil(demo(client, connection));
  }
}

main(process.argv.slice(2)).then(
  () => process.exit(0),
  (error) => {
    console.error(error);
    process.exit(1);
  }
);
