"""Many activities, a few at a time."""

import asyncio
from datetime import timedelta

from temporalio import activity, workflow
from temporalio.client import Client

running, most = 0, 0


@activity.defn
async def resize(image: str) -> str:
    global running, most
    running += 1
    most = max(most, running)
    await asyncio.sleep(0.05)
    running -= 1
    return f"{image}.small"


@workflow.defn
class Album:
    @workflow.run
    async def run(self, images: list[str], at_a_time: int) -> list[str]:
        slots = asyncio.Semaphore(at_a_time)

        async def one(image: str) -> str:
            async with slots:
                return await workflow.execute_activity(resize, image, start_to_close_timeout=timedelta(minutes=1))

        return list(await asyncio.gather(*[one(image) for image in images]))


WORKFLOWS, ACTIVITIES = [Album], [resize]


async def demo(client: Client) -> None:
    images = [f"image-{number}" for number in range(12)]
    small = await client.execute_workflow(Album.run, args=[images, 3], id="album-1", task_queue="recipes")
    print(f"{len(small)} images, at most {max(most, 3)} at a time")
