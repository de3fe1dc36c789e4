"""Runs a recipe: `python run.py saga`. Starts a worker with the recipe's workflows and activities, then the recipe's client.

`python run.py` runs all of them. `python run.py worker` starts workers with the activities alone, for scripts.
"""

import asyncio
import importlib
import os
import sys

import rate_limit
from temporalio.client import Client
from temporalio.worker import Worker

RECIPES = [
    "human_approval",
    "saga",
    "cron_job",
    "fan_out",
    "rate_limit",
    "production_worker",
    "versioning",
    "polling",
    "webhook",
    "large_payloads",
]


async def main(names: list[str]) -> None:
    client = await Client.connect(os.environ.get("TEMPORAL_ADDRESS", "127.0.0.1:7233"))
    if names == ["worker"]:
        activities = [activity for name in RECIPES for activity in importlib.import_module(name).ACTIVITIES]
        worker = Worker(client, task_queue="default", activities=activities, identity="recipes-worker")
        await asyncio.gather(worker.run(), rate_limit.sender(client).run())
    for name in names or RECIPES:
        recipe = importlib.import_module(name.replace("-", "_"))
        print(f"== {name.replace('_', '-')}", flush=True)
        # A recipe without workflows here starts its workers itself.
        if recipe.WORKFLOWS:
            async with Worker(client, task_queue="recipes", workflows=recipe.WORKFLOWS, activities=recipe.ACTIVITIES):
                await recipe.demo(client)
        else:
            await recipe.demo(client)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
