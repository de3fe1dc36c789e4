import { proxyActivities } from '@temporalio/workflow';
import type { activities } from './fan-out';

const { resize } = proxyActivities<typeof activities>({ startToCloseTimeout: '1m' });

export async function album(images: string[], atATime: number): Promise<string[]> {
  const small: string[] = new Array(images.length);
  let next = 0;
  const lane = async () => {
    while (next < images.length) {
      const index = next++;
      small[index] = await resize(images[index]);
    }
  };
  await Promise.all(Array.from({ length: atATime }, lane));
  return small;
}
