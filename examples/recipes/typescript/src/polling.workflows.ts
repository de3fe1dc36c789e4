import { proxyActivities } from '@temporalio/workflow';
import type { activities } from './polling';

export async function fetchFile(job: string, everySeconds: number): Promise<string> {
  const { fetchExport } = proxyActivities<typeof activities>({
    startToCloseTimeout: '20s', // one question
    scheduleToCloseTimeout: '2d', // all of them
    retry: { initialInterval: everySeconds * 1000, backoffCoefficient: 1 },
  });
  return await fetchExport(job);
}
