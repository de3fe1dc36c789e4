import { proxyActivities } from '@temporalio/workflow';
import type { activities } from './rate-limit';

const { sendSms } = proxyActivities<typeof activities>({ taskQueue: 'sms', startToCloseTimeout: '10s' });

export async function campaign(numbers: string[]): Promise<number> {
  return (await Promise.all(numbers.map((number) => sendSms(number)))).length;
}
