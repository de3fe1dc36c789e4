/** The SDK's time-skipping environment, with Segno as its test server. */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { describe } from 'node:test';
import { TestWorkflowEnvironment } from '@temporalio/testing';
import { Worker } from '@temporalio/worker';
import { serverBinary, bundle, scenario } from '../harness';
import * as activities from '../activities';
import * as wf from '../workflows';

const DAY_MS = 86_400_000;
/** Far less than anything that is skipped here, far more than a busy machine needs. */
const SOON_MS = 30_000;

describe('time skipping', { skip: existsSync(serverBinary()) ? false : 'there is no binary to start: SEGNO_BIN' }, () => {
  scenario('a workflow that sleeps for a month is over at once', async () => {
    const env = await TestWorkflowEnvironment.createTimeSkipping({
      server: { executable: { type: 'existing-path', path: serverBinary() } },
    });
    try {
      const worker = await Worker.create({
        connection: env.nativeConnection,
        taskQueue: 'skipping',
        workflowBundle: bundle,
        activities,
      });
      await worker.runUntil(async () => {
        const [begun, real] = [await env.currentTimeMs(), Date.now()];
        const options = { workflowId: 'sleeps', taskQueue: 'skipping', args: [30 * DAY_MS] as [number] };
        assert.equal(await env.client.workflow.execute(wf.sleeper, options), `slept ${30 * DAY_MS}`);
        const after = await env.currentTimeMs();
        assert.ok(after - begun >= 30 * DAY_MS, `${after - begun} ms passed on the server`);
        await env.sleep('1 day');
        assert.ok((await env.currentTimeMs()) - after >= DAY_MS);
        assert.ok(Date.now() - real < SOON_MS, `it took ${Date.now() - real} ms`);
      });
    } finally {
      await env.teardown();
    }
  });
});
