// A person decides, or the time runs out.
import { Client } from '@temporalio/client';
import { approval, decide } from './human-approval.workflows';

export const activities = {
  async ask(_document: string): Promise<void> {
    // Send the approver a link to the page with the two buttons.
  },
};

export async function demo(client: Client): Promise<void> {
  const start = (document: string, patienceSeconds: number) =>
    client.workflow.start(approval, {
      taskQueue: 'recipes',
      workflowId: `approval-${document}`,
      args: [document, patienceSeconds],
    });
  const budget = await start('budget', 7 * 86_400);
  await budget.executeUpdate(decide, { args: ['Ada', true] });
  console.log(await budget.result());
  console.log(await (await start('travel', 1)).result());
}
