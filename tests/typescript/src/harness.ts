/**
 * Everything the scenarios share: the server under test, one client, one Workflow bundle and one Worker.
 *
 * `setup` uses the server at SEGNO_ADDRESS, or starts SEGNO_BIN when that is not set.
 */
import { ChildProcess, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { existsSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { test, type TestContext } from 'node:test';
import { Client, Connection, type WorkflowHandle, type WorkflowStartOptions } from '@temporalio/client';
import type { Workflow } from '@temporalio/common';
import { temporal } from '@temporalio/proto';
import {
  bundleWorkflowCode,
  DefaultLogger,
  type LogLevel,
  makeTelemetryFilterString,
  NativeConnection,
  Runtime,
  Worker,
  type WorkerOptions,
  type WorkflowBundleWithSourceMap,
} from '@temporalio/worker';
import * as activities from './activities';

export const NAMESPACE = process.env.SEGNO_NAMESPACE ?? 'default';
const LOG_LEVEL = (process.env.SEGNO_TEST_LOG ?? 'OFF') as LogLevel | 'OFF';
const RUN = randomUUID().slice(0, 8);

/** The task queue of the shared Worker. */
export const TASK_QUEUE = `ts-${RUN}`;

export let address: string;
/** Where scripts are deployed; `undefined` if it is not known. */
export let httpAddress: string | undefined = process.env.SEGNO_HTTP_ADDRESS;
export let connection: Connection;
export let client: Client;
export let nativeConnection: NativeConnection;
export let bundle: WorkflowBundleWithSourceMap;

/** Grace period of the server for workers without a connection; `undefined` if it is not known or there is none. */
export let graceMs: number | undefined;

let server: ChildProcess | undefined;
let serverOutput = '';
let sharedWorker: RunningWorker | undefined;

export type History = temporal.api.history.v1.IHistory;
export const EventType = temporal.api.enums.v1.EventType;

// ---------------------------------------------------------------------------------------------------------------
// Lifecycle

export async function setup(): Promise<void> {
  const given = process.env.SEGNO_TEST_GRACE_MS;
  graceMs = given ? Number(given) : process.env.SEGNO_ADDRESS ? undefined : 2_000;
  address = process.env.SEGNO_ADDRESS ?? (await startServer());
  connection = await connectWithRetry();
  client = new Client({ connection, namespace: NAMESPACE });

  Runtime.install({
    logger: new DefaultLogger(LOG_LEVEL === 'OFF' ? 'ERROR' : LOG_LEVEL, (entry) => {
      if (LOG_LEVEL !== 'OFF') process.stderr.write(`[${entry.level}] ${entry.message} ${JSON.stringify(entry.meta)}\n`);
    }),
    telemetryOptions: {
      logging: {
        forward: {},
        filter: makeTelemetryFilterString({ core: LOG_LEVEL === 'OFF' ? 'ERROR' : LOG_LEVEL, other: 'ERROR' }),
      },
    },
    shutdownSignals: [],
  });
  bundle = await bundleWorkflowCode({
    workflowsPath: require.resolve('./workflows'),
    logger: new DefaultLogger('ERROR'),
  });
  nativeConnection = await NativeConnection.connect({ address });
  sharedWorker = await startWorker({ taskQueue: TASK_QUEUE });
}

export async function teardown(): Promise<void> {
  // A server that never answers the pending polls must not make the run hang.
  setTimeout(() => {
    console.error('teardown did not finish in 20 s; exiting');
    server?.kill('SIGKILL');
    process.exit(1);
  }, 20_000).unref();
  try {
    await sharedWorker?.stop();
    await nativeConnection?.close();
    await connection?.close();
  } finally {
    await stopServer();
  }
}

/** The server to start. */
export function serverBinary(): string {
  return resolve(process.env.SEGNO_BIN ?? resolve(__dirname, '../../../target/debug/segno'));
}

async function startServer(): Promise<string> {
  const binary = serverBinary();
  if (!existsSync(binary)) {
    throw new Error(`no server: SEGNO_ADDRESS is not set and ${binary} does not exist (set SEGNO_BIN)`);
  }
  const [port, httpPort] = await Promise.all([freePort(), freePort()]);
  const args = ['serve', '--in-memory', '--port', String(port), '--http-port', String(httpPort)];
  args.push('--worker-grace', `${graceMs}ms`);
  server = spawn(binary, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  const keep = (chunk: Buffer) => {
    serverOutput = (serverOutput + chunk.toString()).slice(-20_000);
    if (process.env.SEGNO_TEST_SERVER_LOG) process.stderr.write(chunk);
  };
  server.stdout!.on('data', keep);
  server.stderr!.on('data', keep);
  server.on('exit', (code, signal) => {
    if (server) console.error(`the server exited early (code ${code}, signal ${signal}):\n${serverOutput}`);
  });
  process.on('exit', () => server?.kill('SIGKILL'));
  httpAddress = `127.0.0.1:${httpPort}`;
  return `127.0.0.1:${port}`;
}

async function stopServer(): Promise<void> {
  const child = server;
  server = undefined;
  if (!child || child.exitCode !== null || child.signalCode !== null) return;
  const exited = new Promise((done) => child.once('exit', done));
  child.kill('SIGTERM');
  await Promise.race([exited, delay(5_000)]);
  if (child.exitCode === null && child.signalCode === null) {
    child.kill('SIGKILL');
    await exited;
  }
}

async function connectWithRetry(): Promise<Connection> {
  const deadline = Date.now() + 20_000;
  for (;;) {
    try {
      const c = await Connection.connect({ address, connectTimeout: '1s' });
      await c.workflowService.describeNamespace({ namespace: NAMESPACE });
      return c;
    } catch (err) {
      if (server && server.exitCode !== null) throw new Error(`the server exited:\n${serverOutput}`);
      if (Date.now() > deadline) throw new Error(`no server ready at ${address}\n${serverOutput}`, { cause: err });
      await delay(100);
    }
  }
}

export function freePort(): Promise<number> {
  return new Promise((done, fail) => {
    const probe = createServer();
    probe.on('error', fail);
    probe.listen(0, '127.0.0.1', () => {
      const { port } = probe.address() as { port: number };
      probe.close(() => done(port));
    });
  });
}

// ---------------------------------------------------------------------------------------------------------------
// Workers

export interface RunningWorker {
  worker: Worker;
  /** Shuts the Worker down and waits until it has stopped. */
  stop(): Promise<void>;
}

let bundleFile: string | undefined;

/** The shared bundle as a file, for Workers in processes of their own. */
export function bundlePath(): string {
  if (!bundleFile) {
    bundleFile = resolve(__dirname, 'workflow-bundle.js');
    writeFileSync(bundleFile, bundle.code);
  }
  return bundleFile;
}

/** Starts a Worker with the shared bundle and activities. */
export async function startWorker(options: Partial<WorkerOptions> & { taskQueue: string }): Promise<RunningWorker> {
  const worker = await Worker.create({
    connection: nativeConnection,
    namespace: NAMESPACE,
    workflowBundle: bundle,
    activities,
    workflowThreadPoolSize: 1,
    maxHeartbeatThrottleInterval: '200ms',
    stickyQueueScheduleToStartTimeout: '2s',
    ...options,
  });
  const run = worker.run();
  run.catch(() => undefined);
  return {
    worker,
    async stop() {
      if (worker.getState() === 'RUNNING') worker.shutdown();
      await run;
    },
  };
}

/** Runs `body` while a Worker of its own serves `taskQueue`. */
export async function withWorker<T>(
  options: Partial<WorkerOptions> & { taskQueue: string },
  body: (w: RunningWorker) => Promise<T>
): Promise<T> {
  const w = await startWorker(options);
  try {
    return await body(w);
  } finally {
    await w.stop();
  }
}

// ---------------------------------------------------------------------------------------------------------------
// Scenario helpers

/** Deploys a script. */
export async function deploy(source: string): Promise<void> {
  // The shared Worker polls its queue for workflows, too: without this they would be its own.
  const url = `http://${httpAddress}/api/v1/namespaces/${NAMESPACE}/flows?take_over=true`;
  const answer = await fetch(url, { method: 'POST', body: source });
  if (!answer.ok) throw new Error(`not deployed: ${await answer.text()}`);
}

/** A test with a time limit. */
export function scenario(name: string, fn: (t: TestContext) => Promise<void>, timeout = 60_000): void {
  void test(name, { timeout }, fn);
}

let sequence = 0;

/** A name no other test or run uses. */
export function unique(name: string): string {
  return `ts-${RUN}-${name}-${++sequence}`;
}

type StartOptions<T extends Workflow> = Partial<WorkflowStartOptions<T>>;

/** Starts a Workflow on the shared Worker under a unique id, unless the options say otherwise. */
export async function start<T extends Workflow>(
  workflow: T,
  args: Parameters<T>,
  options: StartOptions<T> = {}
): Promise<WorkflowHandle<T> & { firstExecutionRunId: string }> {
  const handle = await client.workflow.start(workflow, {
    taskQueue: TASK_QUEUE,
    workflowId: unique(workflow.name),
    ...options,
    args,
  } as unknown as WorkflowStartOptions<T>);
  started.push({ workflowId: handle.workflowId, runId: handle.firstExecutionRunId });
  return handle as never;
}

/** Every execution that `start` began, for the scenario that replays them all. */
export const started: { workflowId: string; runId: string }[] = [];

/** Starts a Workflow and waits for its result. */
export async function execute<T extends Workflow>(
  workflow: T,
  args: Parameters<T>,
  options: StartOptions<T> = {}
): Promise<Awaited<ReturnType<T>>> {
  const handle = await start(workflow, args, options);
  return (await handle.result()) as Awaited<ReturnType<T>>;
}

/** The error that `promise` rejects with; fails if it does not reject. */
export async function rejection(promise: Promise<unknown>): Promise<any> {
  let value: unknown;
  try {
    value = await promise;
  } catch (err) {
    return err;
  }
  throw new Error(`expected a rejection, got ${JSON.stringify(value)}`);
}

/** Polls until `probe` gives something truthy. */
export async function eventually<T>(
  what: string,
  probe: () => Promise<T | undefined | false | null> | T | undefined | false | null,
  timeoutMs = 20_000
): Promise<T> {
  const deadline = Date.now() + timeoutMs;
  for (;;) {
    const value = await probe();
    if (value) return value;
    if (Date.now() > deadline) throw new Error(`timed out waiting for: ${what}`);
    await delay(50);
  }
}

/** Names of the history's event types, in order. */
export function eventTypes(history: History): string[] {
  return (history.events ?? []).map((e) => EventType[e.eventType!].replace(/^EVENT_TYPE_/, ''));
}

/** Whether the execution's history has an event of the type by now. */
export async function hasEvent(handle: WorkflowHandle, type: string): Promise<boolean> {
  return eventTypes(await handle.fetchHistory()).includes(type);
}

export async function statusOf(handle: WorkflowHandle): Promise<string> {
  return (await handle.describe()).status.name;
}

export { delay };
