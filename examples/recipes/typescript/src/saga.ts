// Three bookings that belong together: if one fails, those before it are undone, the last one first.
import { ActivityFailure, ApplicationFailure, Client, WorkflowFailedError } from '@temporalio/client';
import { trip } from './saga.workflows';

export const activities = {
  async book(what: string): Promise<void> {
    if (what === 'tour') throw ApplicationFailure.nonRetryable('the tour is sold out', 'SoldOut');
    console.log(`booked ${what}`);
  },
  async cancelBooking(what: string): Promise<void> {
    console.log(`cancelled ${what}`); // Must succeed for what was never booked, too.
  },
};

export async function demo(client: Client): Promise<void> {
  try {
    await client.workflow.execute(trip, {
      taskQueue: 'recipes',
      workflowId: 'trip-1',
      args: [['flight', 'hotel', 'tour']],
    });
  } catch (error) {
    if (!(error instanceof WorkflowFailedError && error.cause instanceof ActivityFailure)) throw error;
    console.log(`failed: ${error.cause.cause?.message}`);
  }
}
