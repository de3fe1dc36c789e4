// A report at six o'clock on working days.
import { Client, ScheduleOverlapPolicy } from '@temporalio/client';
import { report } from './cron-job.workflows';

export const activities = {
  async countOrders(_region: string): Promise<number> {
    return 42;
  },
};

export async function demo(client: Client): Promise<void> {
  const schedule = await client.schedule.create({
    scheduleId: 'daily-report',
    action: { type: 'startWorkflow', workflowType: report, args: ['north'], taskQueue: 'recipes', workflowId: 'report' },
    spec: { cronExpressions: ['0 6 * * MON-FRI'], timezone: 'Europe/Berlin' },
    // A report that is still running skips the next one.
    policies: { overlap: ScheduleOverlapPolicy.SKIP, catchupWindow: '1h' },
  });
  await schedule.trigger(); // To see it work before tomorrow morning.
  let started;
  while (!(started = (await schedule.describe()).info.recentActions[0])) await new Promise((done) => setTimeout(done, 100));
  console.log(await client.workflow.getHandle(started.action.workflow.workflowId).result());
  await schedule.delete();
}
