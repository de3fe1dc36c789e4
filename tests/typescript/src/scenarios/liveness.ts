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
import {
  address,
  bundlePath,
  delay,
  eventually,
  graceMs,
  hasEvent,
  NAMESPACE,
  rejection,
  scenario,
  start,
  unique,
} from '../harness';
import type { Options } from '../liveness-worker';
import * as wf from '../workflows';

/** HTTP/2 pings of the server: how often, and how long it waits for the answer. */
const PING_MS = 15_000;
const PONG_MS = 20_000;

interface ProcessOptions {
  at?: string;
  identity?: string;
  slots?: number;
  workflows?: boolean;
}

// A scenario that runs out of time does not get to its end.
const children = new Set<ChildProcess>();
process.on('exit', () => children.forEach((child) => child.kill('SIGKILL')));

/** A Worker process. */
class Process {
  readonly lines: string[] = [];
  readonly exited: Promise<number | null>;
  private readonly child: ChildProcess;
  private errors = '';

  constructor(
    readonly name: string,
    taskQueue: string,
    { at = address, identity = name, slots = 10, workflows = false }: ProcessOptions = {}
  ) {
    const script = resolve(__dirname, '../liveness-worker.js');
    const codePath = workflows ? bundlePath() : undefined;
    const options: Options = { address: at, namespace: NAMESPACE, taskQueue, name, identity, slots, codePath };
    this.child = spawn(process.execPath, [script, JSON.stringify(options)], { stdio: ['ignore', 'pipe', 'pipe'] });
    createInterface({ input: this.child.stdout! }).on('line', (line) => this.lines.push(line));
    this.child.stderr!.on('data', (chunk: Buffer) => (this.errors += chunk.toString()));
    this.exited = new Promise((done) => this.child.once('exit', (code) => done(code)));
    children.add(this.child);
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
    children.delete(this.child);
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

  worker(name: string, options: ProcessOptions = {}): Process {
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

function liveness(name: string, body: (scene: Scene, t: TestContext) => Promise<void>, timeout?: number): void {
  const whole = async (t: TestContext) => {
    if (graceMs === undefined) return t.skip('needs a server that moves activities, with a known grace period');
    const scene = new Scene();
    try {
      await body(scene, t);
    } finally {
      await scene.end();
    }
  };
  scenario(name, whole, timeout);
}

/** The attempt that completed the only activity; fails if not exactly one did. */
async function completedBy(handle: WorkflowHandle): Promise<number> {
  const events = (await handle.fetchHistory()).events ?? [];
  assert.equal(events.filter((e) => e.activityTaskCompletedEventAttributes).length, 1, 'completed once');
  const begun = events.flatMap((e) => e.activityTaskStartedEventAttributes ?? []);
  assert.equal(begun.length, 1);
  return begun[0].attempt!;
}

/** Who answered each Workflow Task. */
async function tasksOf(handle: WorkflowHandle): Promise<(string | null | undefined)[]> {
  const events = (await handle.fetchHistory()).events ?? [];
  return events.flatMap((e) => e.workflowTaskCompletedEventAttributes ?? []).map((task) => task.identity);
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

  liveness(
    'stopped: its activity moves when it answers no pings, and it is fenced when it goes on',
    async (scene, t) => {
      const first = scene.worker('first');
      const handle = await scene.begin(3_000, 8_000);
      await first.says('start 1');
      first.kill('SIGSTOP');
      const begin = Date.now();
      const second = scene.worker('second');
      await second.says('ready', PING_MS + PONG_MS);
      await second.says('start 2', PING_MS + PONG_MS + graceMs! + 2_000);
      t.diagnostic(`moved in ${Date.now() - begin} ms`);
      // Its time is over by now: it completes what it has, while the second is at work.
      first.kill('SIGCONT');
      await first.says('end 1');
      assert.ok(!second.lines.includes('end 2'), 'the second is still at it');
      assert.equal(await handle.result(), 'second: attempt 2');
      assert.equal(await completedBy(handle), 2);
      assert.deepEqual(second.lines, ['ready', 'start 2', 'end 2']);
    },
    120_000
  );

  liveness('killed and started again under the same identity: another worker, which has nothing', async (scene) => {
    const first = scene.worker('first', { identity: 'me' });
    const handle = await scene.begin(300_000);
    await first.says('start 1');
    first.kill('SIGKILL');
    const begin = Date.now();
    const again = scene.worker('again', { identity: 'me' });
    await again.says('ready');
    assert.equal(await handle.result(), 'again: attempt 2');
    assert.ok(Date.now() - begin > graceMs! - 500, 'its namesake is no sign of life');
    assert.equal(await completedBy(handle), 2);
    assert.deepEqual(again.lines, ['ready', 'start 2', 'end 2']);
  });

  liveness('killed with a workflow task: another worker gets it, long before its time-out', async (scene, t) => {
    const first = scene.worker('first', { workflows: true });
    await first.says('ready');
    const options = { taskQueue: scene.taskQueue, workflowTaskTimeout: '2 minutes' } as const;
    const handle = await start(wf.stuckTask, ['first'], options);
    await first.says('start 1');
    const second = scene.worker('second', { workflows: true });
    await second.says('ready');
    first.kill('SIGKILL');
    const begin = Date.now();
    assert.equal(await handle.result(), 'second');
    t.diagnostic(`moved in ${Date.now() - begin} ms`);
    assert.ok(Date.now() - begin < graceMs! + 2_000, `${Date.now() - begin} ms`);
    assert.deepEqual(await tasksOf(handle), ['second']);
  });

  for (const when of ['at once', 'later'] as const) {
    liveness(`killed, with a sticky queue: a task that comes ${when} goes elsewhere`, async (scene, t) => {
      const first = scene.worker('first', { workflows: true });
      await first.says('ready');
      const handle = await start(wf.counter, [], { taskQueue: scene.taskQueue });
      await eventually('the first task', () => hasEvent(handle, 'WORKFLOW_TASK_COMPLETED'));
      const second = scene.worker('second', { workflows: true });
      await second.says('ready');
      first.kill('SIGKILL');
      if (when === 'later') await delay(graceMs! + 500);
      const begin = Date.now();
      await handle.signal(wf.addSignal, 7);
      await handle.signal(wf.finishSignal);
      assert.deepEqual(await handle.result(), { total: 7, seen: [7] });
      t.diagnostic(`went elsewhere in ${Date.now() - begin} ms`);
      const limit = when === 'later' ? 2_000 : graceMs! + 2_000;
      assert.ok(Date.now() - begin < limit, `${Date.now() - begin} ms`);
      const tasks = await tasksOf(handle);
      assert.deepEqual([tasks[0], ...new Set(tasks.slice(1))], ['first', 'second']);
    });
  }

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
