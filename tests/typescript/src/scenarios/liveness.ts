/**
 * Workers that die, lose their connection or leave. Their activities run in processes of their own.
 *
 * Only Segno moves activities of dead workers, so against a server that is given by address these are skipped unless
 * SEGNO_TEST_GRACE_MS tells its grace period.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { describe, type TestContext } from 'node:test';
import type { WorkflowHandle } from '@temporalio/client';
import { ActivityFailure, ApplicationFailure } from '@temporalio/common';
import { ActivityCancellationType, type ActivityOptions } from '@temporalio/workflow';
import { address, delay, eventually, graceMs, NAMESPACE, rejection, scenario, start, unique } from '../harness';
import * as wf from '../workflows';

/** A Worker process. */
class Process {
  readonly lines: string[] = [];
  readonly exited: Promise<number | null>;
  private readonly child: ChildProcess;
  private errors = '';

  constructor(readonly name: string, taskQueue: string, { at = address, slots = 10 } = {}) {
    const script = resolve(__dirname, '../liveness-worker.js');
    this.child = spawn(process.execPath, [script, at, NAMESPACE, taskQueue, name, String(slots)], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    createInterface({ input: this.child.stdout! }).on('line', (line) => this.lines.push(line));
    this.child.stderr!.on('data', (chunk: Buffer) => (this.errors += chunk.toString()));
    this.exited = new Promise((done) => this.child.once('exit', (code) => done(code)));
    // A scenario that runs out of time does not get to its end.
    process.on('exit', () => this.child.kill('SIGKILL'));
  }

  async says(line: string, timeoutMs = 20_000): Promise<void> {
    await eventually(`${this.name} says ${line}`, () => this.lines.includes(line), timeoutMs).catch((err) => {
      throw new Error(`${err.message}; it said ${JSON.stringify(this.lines)} ${this.errors}`);
    });
  }

  kill(signal: NodeJS.Signals): void {
    this.child.kill(signal);
  }

  async end(): Promise<void> {
    this.child.kill('SIGKILL');
    await this.exited;
  }
}

/** A way to the server that can be cut. */
class Proxy {
  accepted = 0;
  open = true;
  private readonly sockets = new Set<Socket>();
  private readonly server: Server;

  constructor() {
    const [host, port] = address.split(':');
    this.server = createServer((near) => {
      near.on('error', () => undefined);
      if (!this.open) {
        near.resetAndDestroy();
        return;
      }
      this.accepted += 1;
      const far = connect(Number(port), host);
      for (const [one, other] of [[near, far], [far, near]]) {
        this.sockets.add(one);
        one.on('error', () => undefined).on('close', () => {
          this.sockets.delete(one);
          other.destroy();
        });
        one.pipe(other);
      }
    });
  }

  async listen(): Promise<string> {
    await new Promise<void>((done) => this.server.listen(0, '127.0.0.1', done));
    return `127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  /** Drops all connections; new ones are taken or not. */
  cut(open: boolean): void {
    this.open = open;
    for (const socket of this.sockets) socket.resetAndDestroy();
  }

  close(): void {
    this.cut(false);
    this.server.close();
  }
}

/** A scenario with processes and ways that end with it. */
class Scene {
  readonly taskQueue = unique('liveness');
  private readonly cleanup: (() => unknown)[] = [];

  worker(name: string, options: { at?: string; slots?: number } = {}): Process {
    const made = new Process(name, this.taskQueue, options);
    this.cleanup.push(() => made.end());
    return made;
  }

  async proxy(): Promise<Proxy & { at: string }> {
    const made = new Proxy();
    this.cleanup.push(() => made.close());
    return Object.assign(made, { at: await made.listen() });
  }

  /** Starts a Workflow whose activity takes so long, and a while when it is tried again. */
  begin(ms: number, laterMs = 0, options: ActivityOptions = {}): Promise<WorkflowHandle<typeof wf.callActivity>> {
    const activity = { taskQueue: this.taskQueue, startToCloseTimeout: '10 minutes', ...options } as ActivityOptions;
    return start(wf.callActivity, ['job', [ms, laterMs], activity]);
  }

  async end(): Promise<void> {
    await Promise.all(this.cleanup.map((clean) => clean()));
  }
}

function liveness(name: string, body: (scene: Scene, t: TestContext) => Promise<void>): void {
  scenario(name, async (t) => {
    if (graceMs === undefined) return t.skip('needs a server that moves activities, with a known grace period');
    const scene = new Scene();
    try {
      await body(scene, t);
    } finally {
      await scene.end();
    }
  });
}

/** The attempt that completed the only activity; fails if not exactly one did. */
async function completedBy(handle: WorkflowHandle): Promise<number> {
  const events = (await handle.fetchHistory()).events ?? [];
  assert.equal(events.filter((e) => e.activityTaskCompletedEventAttributes).length, 1, 'completed once');
  const begun = events.flatMap((e) => e.activityTaskStartedEventAttributes ?? []);
  assert.equal(begun.length, 1);
  return begun[0].attempt!;
}

describe('liveness', { concurrency: 3 }, () => {
  liveness('killed: its activity moves within the grace period and two seconds', async (scene, t) => {
    const first = scene.worker('first');
    await first.says('ready');
    const handle = await scene.begin(300_000);
    await first.says('start 1');
    const second = scene.worker('second');
    await second.says('ready');
    first.kill('SIGKILL');
    const begin = Date.now();
    assert.equal(await handle.result(), 'second: attempt 2');
    t.diagnostic(`moved in ${Date.now() - begin} ms`);
    assert.ok(Date.now() - begin < graceMs! + 2_000, `${Date.now() - begin} ms`);
    assert.equal(await completedBy(handle), 2);
    assert.deepEqual(second.lines, ['ready', 'start 2', 'end 2']);
  });

  liveness('killed, with one attempt: the activity fails and names the worker', async (scene) => {
    const first = scene.worker('the-first');
    const handle = await scene.begin(300_000, 0, { retry: { maximumAttempts: 1 } });
    await first.says('start 1');
    const second = scene.worker('second');
    await second.says('ready');
    first.kill('SIGKILL');
    const { cause } = await rejection(handle.result());
    assert.ok(cause instanceof ActivityFailure, String(cause));
    assert.ok(cause.cause instanceof ApplicationFailure && cause.cause.type === 'WorkerLost', String(cause.cause));
    assert.match(cause.cause.message, /the-first/);
    assert.deepEqual(second.lines, ['ready']);
  });

  liveness('dropped connections: a worker that comes back in time keeps its activity', async (scene) => {
    const proxy = await scene.proxy();
    // Without a free slot it has no poll for activities.
    const first = scene.worker('first', { at: proxy.at, slots: 1 });
    const handle = await scene.begin(3 * graceMs! + 1_000);
    await first.says('start 1');
    const other = scene.worker('other');
    await other.says('ready');
    for (let i = 0; i < 3; i++) {
      const before = proxy.accepted;
      proxy.cut(true);
      await delay(graceMs!);
      assert.ok(proxy.accepted > before, 'it came back by itself');
    }
    assert.equal(await handle.result(), 'first: attempt 1');
    assert.equal(await completedBy(handle), 1);
    assert.deepEqual(other.lines, ['ready']);
  });

  liveness('cut off for too long: the activity moves, and the first worker is told to stop', async (scene) => {
    const proxy = await scene.proxy();
    const first = scene.worker('first', { at: proxy.at });
    const handle = await scene.begin(300_000, 10_000);
    await first.says('start 1');
    const second = scene.worker('second');
    await second.says('ready');
    proxy.cut(false);
    const begin = Date.now();
    await second.says('start 2');
    assert.ok(Date.now() - begin < graceMs! + 2_000, `${Date.now() - begin} ms`);
    proxy.open = true;
    await first.says('cancelled');
    assert.equal(await handle.result(), 'second: attempt 2');
    assert.equal(await completedBy(handle), 2);
  });

  liveness('graceful shutdown: a worker keeps what it finishes', async (scene) => {
    const first = scene.worker('first');
    const handle = await scene.begin(graceMs! + 3_000);
    await first.says('start 1');
    const other = scene.worker('other');
    await other.says('ready');
    first.kill('SIGTERM');
    assert.equal(await handle.result(), 'first: attempt 1');
    assert.equal(await completedBy(handle), 1);
    await first.says('stopped');
    assert.equal(await first.exited, 0);
    assert.deepEqual(other.lines, ['ready']);
  });

  liveness('killed while it shuts down: its activity moves all the same', async (scene) => {
    const first = scene.worker('first');
    const handle = await scene.begin(300_000);
    await first.says('start 1');
    const second = scene.worker('second');
    await second.says('ready');
    first.kill('SIGTERM');
    await delay(1_000);
    first.kill('SIGKILL');
    const begin = Date.now();
    assert.equal(await handle.result(), 'second: attempt 2');
    assert.ok(Date.now() - begin < graceMs! + 2_000, `${Date.now() - begin} ms`);
    assert.equal(await completedBy(handle), 2);
  });

  liveness('cancellation reaches an activity that does not heartbeat', async (scene) => {
    const first = scene.worker('first');
    const handle = await scene.begin(300_000, 0, {
      cancellationType: ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
    });
    await first.says('start 1');
    await handle.cancel();
    await first.says('cancelled', 5_000);
    await rejection(handle.result());
  });

  liveness('termination of the workflow stops its activity', async (scene) => {
    const first = scene.worker('first');
    const handle = await scene.begin(300_000);
    await first.says('start 1');
    await handle.terminate();
    await first.says('cancelled', 5_000);
  });
});
