import { CancellationScope, proxyActivities } from '@temporalio/workflow';
import type { activities } from './saga';

const { book, cancelBooking } = proxyActivities<typeof activities>({ startToCloseTimeout: '30s' });

export async function trip(parts: string[]): Promise<void> {
  const undo: string[] = [];
  try {
    for (const part of parts) {
      undo.push(part); // Before the booking: it may take place although its answer is lost.
      await book(part);
    }
  } catch (error) {
    await CancellationScope.nonCancellable(async () => {
      for (const part of undo.reverse()) await cancelBooking(part);
    });
    throw error;
  }
}
