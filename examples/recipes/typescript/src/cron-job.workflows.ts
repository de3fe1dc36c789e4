import { proxyActivities } from '@temporalio/workflow';
import type { activities } from './cron-job';

const { countOrders } = proxyActivities<typeof activities>({ startToCloseTimeout: '5m' });

export async function report(region: string): Promise<string> {
  return `${region}: ${await countOrders(region)} orders`;
}
