import { proxyActivities } from '@temporalio/workflow';
import type { activities, PaymentEvent } from './webhook';

const { bookPayment } = proxyActivities<typeof activities>({ startToCloseTimeout: '30s' });

export async function payment(event: PaymentEvent): Promise<void> {
  await bookPayment(event);
}
