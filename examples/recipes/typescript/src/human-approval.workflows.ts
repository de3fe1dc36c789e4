import { condition, defineUpdate, proxyActivities, setHandler } from '@temporalio/workflow';
import type { activities } from './human-approval';

const { ask } = proxyActivities<typeof activities>({ startToCloseTimeout: '30s' });

export const decide = defineUpdate<string, [by: string, approved: boolean]>('decide');

export async function approval(document: string, patienceSeconds: number): Promise<string> {
  let decision: string | undefined;
  const record = (by: string, approved: boolean) => (decision = `${approved ? 'approved' : 'rejected'} by ${by}`);
  const validator = (_by: string, _approved: boolean) => {
    if (decision) throw new Error(`already ${decision}`);
  };
  setHandler(decide, record, { validator });
  await ask(document);
  await condition(() => decision !== undefined, patienceSeconds * 1000);
  return decision ?? 'no answer';
}
