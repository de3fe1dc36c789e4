import { CancellationScope, proxyActivities, workflowInfo } from '@temporalio/workflow';
import type { activities } from './large-payloads';

const { download, measure, remove } = proxyActivities<typeof activities>({ startToCloseTimeout: '1m' });

export async function digest(): Promise<string> {
  const key = await download(workflowInfo().workflowId);
  try {
    return await measure(key);
  } finally {
    await CancellationScope.nonCancellable(() => remove(key));
  }
}
