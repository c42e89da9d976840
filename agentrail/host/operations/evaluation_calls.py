"""`EvaluationCalls`: what experiments came to, from the files of a folder that the operator has named."""

from __future__ import annotations

from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio

from agentrail.api.bodies import EvaluationQuery
from agentrail.api.views import EvaluationsView, ExperimentView
from agentrail.errors import UsageError, WrongType
from agentrail.host.operations.call import Answer, OperationCall
from agentrail.lazy import LazyModule

if TYPE_CHECKING:
    from agentrail.evals import results_folder
    from agentrail.host.operations import evaluation_views
else:  # most hosts have no experiments
    results_folder = LazyModule("agentrail.evals.results_folder")
    evaluation_views = LazyModule("agentrail.host.operations.evaluation_views")


NO_EXPERIMENT: Final = "names no experiment of the folder"


def check_folder(folder: object) -> None:
    """Raise an error unless *folder* is the path of results, or `None`."""
    if folder is not None and not isinstance(folder, str | PathLike):
        raise WrongType.of("evaluations", folder, "the path of a folder")


class EvaluationCalls:
    """Carries out the calls about experiments."""

    def __init__(self, folder: Path | None) -> None:
        self._folder: results_folder.ResultsFolder[ExperimentView] | None = None
        """Where the results are; `None` if no folder was named."""
        if folder is not None:
            self._folder = results_folder.ResultsFolder(folder, evaluation_views.experiment_view)
        self._lock = trio.Lock()
        """Held while the folder is read: one thread at a time."""

    async def evaluations(self, call: OperationCall) -> Answer:
        """List the experiments, newest first."""
        return call.view_answer(EvaluationsView(await self._experiments(), self._folder is not None))

    async def evaluation(self, call: OperationCall) -> Answer:
        """Show one experiment beside its baseline, and the runs of a case if one is named."""
        query = call.query(EvaluationQuery)
        experiments = await self._experiments()
        by_file = {experiment.file: experiment for experiment in experiments}
        if self._folder is None or query.file not in by_file:
            raise UsageError("bad-query", call.row.name, "its `file`", NO_EXPERIMENT)
        experiment = by_file[query.file]
        baseline = next((other for other in experiments if other.name == experiment.baseline), None)
        if query.baseline is not None:
            if query.baseline not in by_file:
                raise UsageError("bad-query", call.row.name, "its `baseline`", NO_EXPERIMENT)
            baseline = by_file[query.baseline]
        show = partial(evaluation_views.evaluation_view, self._folder, experiment, baseline, query.case)
        return call.view_answer(await trio.to_thread.run_sync(show))

    async def _experiments(self) -> tuple[ExperimentView, ...]:
        """Return what is in the folder, newest first; nothing if there is no folder."""
        if self._folder is None:
            await trio.lowlevel.checkpoint()
            return ()
        async with self._lock:
            return await trio.to_thread.run_sync(self._folder.summaries)
