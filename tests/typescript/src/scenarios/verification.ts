/** Rollouts that are tried before they are made: Workers with other code replay open runs. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { describe } from 'node:test';
import { bundleWorkflowCode, DefaultLogger } from '@temporalio/worker';
import { address, client, eventTypes, eventually, NAMESPACE, scenario, serverBinary, unique, withWorker } from '../harness';

function bundled(workflowsPath: string) {
  return bundleWorkflowCode({ workflowsPath, logger: new DefaultLogger('ERROR') });
}

/** Exit code and output of a command. */
async function runs(words: string[]): Promise<{ code: number | null; found: any }> {
  const child = spawn(serverBinary(), words, { stdio: ['ignore', 'pipe', 'inherit'] });
  let output = '';
  child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
  const code = await new Promise<number | null>((done) => child.on('close', done));
  return { code, found: JSON.parse(output || '{}') };
}

describe('verification', () => {
  scenario('a reordered activity is found with its event, and the run does not change', async (t) => {
    if (!existsSync(serverBinary())) return t.skip('needs the binary');
    const taskQueue = unique('verified');
    const candidate = `${taskQueue}-candidate`;
    const [deployed, reordered] = await Promise.all([
      bundled(require.resolve('../verified/deployed')),
      bundled(require.resolve('../verified/reordered')),
    ]);
    const verifyBeside = async (workflowBundle: typeof deployed) =>
      await withWorker({ taskQueue: candidate, workflowBundle }, async () => {
        const words = ['workflow', 'verify', '--task-queue', taskQueue, '--on', candidate, '-o', 'json'];
        return await runs([...words, '--address', address, '--namespace', NAMESPACE]);
      });
    await withWorker({ taskQueue, workflowBundle: deployed }, async () => {
      const handle = await client.workflow.start('verified', { taskQueue, workflowId: unique('verified') });
      const types = () => handle.fetchHistory().then(eventTypes);
      await eventually('both activities', async () => (await types()).length === 16);
      const passed = await verifyBeside(deployed);
      assert.equal(passed.code, 0, JSON.stringify(passed));
      assert.equal(passed.found.replayed, '1');
      const failed = await verifyBeside(reordered);
      assert.equal(failed.code, 1, JSON.stringify(failed));
      assert.equal(failed.found.failures[0].failure.eventId, '5');
      assert.equal(failed.found.failures[0].failure.cause, 'NON_DETERMINISTIC_ERROR');
      assert.equal((await types()).length, 16);
      await handle.terminate();
    });
  });
});
