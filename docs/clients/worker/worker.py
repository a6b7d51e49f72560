# python3 docs/clients/worker/worker.py, with temporalio.
import asyncio

from temporalio import activity
from temporalio.client import Client
from temporalio.envconfig import ClientConfig
from temporalio.worker import Worker


@activity.defn
async def SendMail(to: str) -> str:
    return "sent to " + to


async def main():
    client = await Client.connect(**ClientConfig.load_client_connect_config())
    await Worker(client, task_queue="mails", activities=[SendMail]).run()


asyncio.run(main())
