// One-activity workflows as a user of the TypeScript SDK runs them: client and worker in one process.
// Run by `cargo xtask bench`: node main.js ADDRESS COUNT CONCURRENCY SECONDS_MAX; prints one line of JSON.
const { Client, Connection } = require("@temporalio/client");
const { NativeConnection, Runtime, DefaultLogger, Worker } = require("@temporalio/worker");

const [address, count, concurrency, secondsMax] = [process.argv[2], ...process.argv.slice(3).map(Number)];
const taskQueue = `typescript-${process.pid}`;

async function measure(client, name, count, secondsMax) {
  const latencies = [];
  const started = performance.now();
  let next = 0;
  const caller = async () => {
    while (next < count && performance.now() - started < secondsMax * 1000) {
      const begun = performance.now();
      const workflowId = `${taskQueue}-${name}-${next++}`;
      const result = await client.workflow.execute("oneActivity", { taskQueue, workflowId, args: ["hello"] });
      if (result !== "hello") throw new Error(`came to ${result}`);
      latencies.push(performance.now() - begun);
    }
  };
  await Promise.all(Array.from({ length: concurrency }, caller));
  return { latencies, seconds: (performance.now() - started) / 1000 };
}

async function main() {
  Runtime.install({ logger: new DefaultLogger("ERROR") });
  const worker = await Worker.create({
    connection: await NativeConnection.connect({ address }),
    taskQueue,
    workflowsPath: require.resolve("./workflows.js"),
    activities: { echo: async (input) => input },
  });
  const client = new Client({ connection: await Connection.connect({ address }) });
  await worker.runUntil(async () => {
    await measure(client, "warm", Math.ceil(count / 20), secondsMax);
    // The line before measuring tells the benchmark to read the server's counters.
    console.log("ready");
    const { latencies, seconds } = await measure(client, "run", count, secondsMax);
    latencies.sort((a, b) => a - b);
    const at = (share) => latencies[Math.round((latencies.length - 1) * share)];
    console.log(JSON.stringify({ count: latencies.length, seconds, p50_ms: at(0.5), p99_ms: at(0.99) }));
  });
}

main().then(
  () => process.exit(0),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
