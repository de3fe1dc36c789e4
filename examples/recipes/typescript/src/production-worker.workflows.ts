import { proxyActivities } from '@temporalio/workflow';
import type { activityFunctions } from './production-worker';

const { importRows } = proxyActivities<typeof activityFunctions>({ startToCloseTimeout: '1h', heartbeatTimeout: '10s' });

export async function rows(count: number): Promise<string> {
  return await importRows(count);
}
