"""`EvaluationCalls`: what experiments came to, from the files of a folder that the operator has named."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from agentrail.api.bodies import EvaluationQuery
from agentrail.api.views import EvaluationsView
from agentrail.errors import UsageError
from agentrail.host.operations.call import Answer, OperationCall
from agentrail.lazy import LazyModule

if TYPE_CHECKING:
    from agentrail.evals import results_folder
    from agentrail.host.operations import evaluation_views
else:  # most hosts have no experiments
    results_folder = LazyModule("agentrail.evals.results_folder")
    evaluation_views = LazyModule("agentrail.host.operations.evaluation_views")


class EvaluationCalls:
    """Carries out the calls about experiments."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = None if folder is None else results_folder.ResultsFolder(folder)
        """Where the results are; `None` if no folder was named."""
        self._lock = trio.Lock()
        """Held while the folder is read: one thread at a time."""

    async def evaluations(self, call: OperationCall) -> Answer:
        """List the experiments, newest first."""
        items = await trio.to_thread.run_sync(evaluation_views.experiment_views, await self._results())
        return call.view_answer(EvaluationsView(items, self._folder is not None))

    async def evaluation(self, call: OperationCall) -> Answer:
        """Show one experiment beside its baseline, and the runs of a case if one is named."""
        query = call.query(EvaluationQuery)
        results = await self._results()
        stored = _named(results, query.file)
        if stored is None:
            raise UsageError("bad-query", call.row.name, "its `file`", "names no experiment of the folder")
        baseline = next((other for other in results if other.results.name == stored.results.baseline), None)
        if query.baseline is not None:
            baseline = _named(results, query.baseline)
            if baseline is None:
                raise UsageError("bad-query", call.row.name, "its `baseline`", "names no experiment of the folder")
        evaluation = await trio.to_thread.run_sync(evaluation_views.evaluation_view, stored, baseline, query.case)
        return call.view_answer(evaluation)

    async def _results(self) -> tuple[results_folder.StoredResults, ...]:
        """Return the results in the folder; none if there is no folder."""
        if self._folder is None:
            await trio.lowlevel.checkpoint()
            return ()
        async with self._lock:
            return await trio.to_thread.run_sync(self._folder.results)


def _named(results: Sequence[results_folder.StoredResults], file: str) -> results_folder.StoredResults | None:
    return next((stored for stored in results if stored.file == file), None)
