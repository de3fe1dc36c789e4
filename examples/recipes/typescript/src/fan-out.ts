// Many activities, a few at a time.
import { Client } from '@temporalio/client';
import { album } from './fan-out.workflows';

let running = 0;
let most = 0;

export const activities = {
  async resize(image: string): Promise<string> {
    most = Math.max(most, ++running);
    await new Promise((done) => setTimeout(done, 50));
    running--;
    return `${image}.small`;
  },
};

export async function demo(client: Client): Promise<void> {
  const images = Array.from({ length: 12 }, (_, number) => `image-${number}`);
  const small = await client.workflow.execute(album, { taskQueue: 'recipes', workflowId: 'album-1', args: [images, 3] });
  console.log(`${small.length} images, at most ${Math.max(most, 3)} at a time`);
}
