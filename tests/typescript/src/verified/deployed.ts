/** The code that has the runs. */
import { condition, scheduleActivity } from '@temporalio/workflow';

export async function verified(): Promise<void> {
  await scheduleActivity('echo', ['first'], { startToCloseTimeout: '10s' });
  await scheduleActivity('describeSelf', [], { startToCloseTimeout: '10s' });
  await condition(() => false);
}
