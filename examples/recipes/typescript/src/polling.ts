// Waits for a job of another company, whose API can only be asked.
import { activityInfo } from '@temporalio/activity';
import { ApplicationFailure, Client } from '@temporalio/client';
import { fetchFile } from './polling.workflows';

export const activities = {
  async fetchExport(job: string): Promise<string> {
    const { attempt } = activityInfo();
    // Ask the API here; below is its answer "not yet".
    if (attempt < 3) throw ApplicationFailure.retryable(`${job} is not ready`, 'NotReady');
    return `${job}.csv after ${attempt} attempts`;
  },
};

export async function demo(client: Client): Promise<void> {
  console.log(
    await client.workflow.execute(fetchFile, { taskQueue: 'recipes', workflowId: 'export-7', args: ['export-7', 1] })
  );
}
