"""A task list with FastMCP. `main.rs` in this directory is the same server with Thruway.

pip install fastmcp
python3 server.py
"""

from typing import Annotated

from fastmcp import Context, FastMCP
from pydantic import BaseModel, Field

mcp = FastMCP("tasks", version="1.0.0", instructions="A task list.")
tasks: list["Task"] = []


class Task(BaseModel):
    """A task."""

    title: str
    is_done: bool = False


@mcp.tool(annotations={"destructiveHint": False})
def add_task(title: Annotated[str, Field(description="The title of the task.")]) -> str:
    """Adds a task, and returns its number."""
    tasks.append(Task(title=title))
    return str(len(tasks) - 1)


@mcp.tool(annotations={"readOnlyHint": True})
def count_tasks() -> str:
    """Returns the number of open tasks."""
    return str(sum(not task.is_done for task in tasks))


@mcp.tool(annotations={"destructiveHint": True, "idempotentHint": True})
async def finish_task(
    number: Annotated[int, Field(description="The number of the task.")], context: Context
) -> str:
    """Marks a task as done."""
    if not 0 <= number < len(tasks):
        raise ValueError(f"there is no task {number}")
    tasks[number].is_done = True
    await context.info(f"finished {tasks[number].title}")
    return "done"


if __name__ == "__main__":
    mcp.run(transport="http", host="127.0.0.1", port=8080)
