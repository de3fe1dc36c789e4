import { condition, defineUpdate, proxyActivities, setHandler } from '@temporalio/workflow';
import type { activityFunctions } from './versioning';

const { step } = proxyActivities<typeof activityFunctions>({ startToCloseTimeout: '10s' });

export const pay = defineUpdate('pay');

export async function order(): Promise<string[]> {
  let paid = false;
  setHandler(pay, () => {
    paid = true;
  });
  const steps = [await step('reserved')];
  await condition(() => paid);
  return [...steps, await step('shipped')];
}
