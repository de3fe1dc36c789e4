/** Code that does not fit them: its activities are in another order. */
import { condition, scheduleActivity } from '@temporalio/workflow';

export async function verified(): Promise<void> {
  await scheduleActivity('describeSelf', [], { startToCloseTimeout: '10s' });
  await scheduleActivity('echo', ['first'], { startToCloseTimeout: '10s' });
  await condition(() => false);
}
