"""python -m dispatcher submit | run | status."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from pathlib import Path

from plimsoll import AsyncClient

from .jobs import Job, Jobs
from .provider import Provider
from .steps import Dispatcher
from .words import where


def main(argv: list[str] | None = None) -> int:
    """Do what the command line says."""
    args = parse(argv)
    jobs = Jobs(args.db)
    try:
        match args.verb:
            case "submit":
                for name in args.names:
                    if not jobs.submit(name, args.class_, round(args.seconds * 1000)):
                        print(f"{name} was submitted before")
            case "status":
                table(jobs)
            case "run":
                asyncio.run(run(args, jobs))
    finally:
        jobs.close()
    return 0


def parse(argv: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    top = argparse.ArgumentParser(prog="dispatcher", description="Queues builds at the gate.")
    top.add_argument("--db", type=Path, default=Path("ci.db"), help="the file of builds")
    verbs = top.add_subparsers(dest="verb", required=True)
    submit = verbs.add_parser("submit", help="note builds that are to be done")
    submit.add_argument("names", nargs="+")
    submit.add_argument("--class", dest="class_", default="ci-browser")
    submit.add_argument("--seconds", type=float, default=20, help="how long each runs")
    run_ = verbs.add_parser("run", help="lead them on, until Ctrl-C")
    run_.add_argument("--server", default="http://127.0.0.1:7070", help="replicas, with commas between them")
    run_.add_argument("--token-file", type=Path, default=Path("two-services-data/ci.token"))
    run_.add_argument("--provider", default="http://127.0.0.1:7080")
    run_.add_argument("--until-idle", action="store_true", help="end when all are over")
    verbs.add_parser("status", help="say where each stands")
    return top.parse_args(argv)


def table(jobs: Jobs) -> None:
    """Print where each build stands."""
    all_ = jobs.all()
    for job in all_:
        print(f"{job.id:16} {job.state:16} {where(job, all_)}".rstrip())


async def run(args: argparse.Namespace, jobs: Jobs) -> None:
    """Lead builds on until a signal comes. They wait and run on without us."""
    said: dict[str, str] = {}

    def told(job: Job) -> None:
        line = f"{job.id}: {job.state} {where(job, jobs.all())}".rstrip()
        if said.get(job.id) != line:
            print(line, flush=True)
        said[job.id] = line

    task = asyncio.current_task()
    assert task is not None  # noqa: S101 - it is what runs this
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    token = args.token_file.read_text().strip()
    try:
        async with AsyncClient(args.server, token) as gate, Provider(args.provider) as provider:
            await Dispatcher(jobs, gate, provider, told).run(until_idle=args.until_idle)
    except asyncio.CancelledError:
        print("stopped; the places are kept", flush=True)


if __name__ == "__main__":
    sys.exit(main())
