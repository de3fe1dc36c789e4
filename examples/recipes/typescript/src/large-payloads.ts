// Data that is too large for history: workflows pass the name of a file, activities read and write it.
import { readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from '@temporalio/client';
import { digest } from './large-payloads.workflows';

const STORE = tmpdir(); // Use an object store that all workers reach, such as S3.

export const activities = {
  async download(workflowId: string): Promise<string> {
    const key = `${workflowId}.bin`; // The same in every attempt: a repeat overwrites the file.
    await writeFile(join(STORE, key), 'x'.repeat(5_000_000));
    return key;
  },
  async measure(key: string): Promise<string> {
    return `${(await readFile(join(STORE, key))).length} bytes`;
  },
  async remove(key: string): Promise<void> {
    await rm(join(STORE, key), { force: true });
  },
};

export async function demo(client: Client): Promise<void> {
  console.log(await client.workflow.execute(digest, { taskQueue: 'recipes', workflowId: 'digest-typescript' }));
}
