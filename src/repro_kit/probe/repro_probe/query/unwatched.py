"""The results of a compiled program whose values are not watched."""

from __future__ import annotations

from repro_probe.judge import compare_outputs
from repro_probe.judge.compare_outputs import OF_CONTENT, Evidence
from repro_probe.judge.comparison_tolerance import Tolerance
from repro_probe.protocol.failure_data import DifferenceData
from repro_probe.run import outputs, process_group
from repro_probe.run.load_program import LoadedProgram
from repro_probe.run.outputs import Outcome

_SLIGHT = 0.1  # share of the program's own difference from eager: by so much, other fusions may round differently


class Unwatched:
    """The results of `program` in eager and compiled, to which those of a run with watched values are compared.

    Watching values changes what the compiler sees, and may cause another bug than the program's own. So watched
    values count only if the program returns the same as unwatched.

    Left out is what two runs of the same compiled code do not share. Programs that draw random numbers may draw others
    when they are watched, and several ranks must all make the same runs: their results are not compared.
    """

    def __init__(self, program: LoadedProgram) -> None:
        self._tolerance = Tolerance({**program.recipe, "rtol": None, "atol": None})
        self._comparable = not process_group.is_real(program.recipe["group"])
        if not self._comparable:
            return
        self._eager = outputs.run(program, program.graph)
        self._comparable = not self._eager.random
        if not self._comparable:
            return
        compiled = program.compiled()
        with program.compiled_autograd():
            self._results, again = (outputs.run(program, compiled) for _ in range(2))
        unsteady = compare_outputs.places_that_differ(self._results, again, self._tolerance)
        self._evidence = Evidence(ignore=unsteady)
        self._slight = 0.0
        self._slight = _SLIGHT * max(
            (each["max_abs"] for each in self._between(self._eager, self._results)), default=0.0
        )

    def is_unlike(self, watched: Outcome) -> bool:
        """Whether a compiled run with watched values, which come before the outputs, is wrong in another way.

        Where its own results are right, the failure is gone, and no value is wrong.
        """
        if not self._comparable:
            return False
        own = _last_outputs(watched, self._results)
        return all(self._between(other, own) for other in (self._results, self._eager))

    def _between(self, one: Outcome, other: Outcome) -> list[DifferenceData]:
        """Return the differences of two runs in their values that are more than slight."""
        found = compare_outputs.differences(one, other, self._tolerance, self._evidence)
        return [
            each
            for each in found
            if each["kind"] in OF_CONTENT and (each["kind"] != "value" or each["max_abs"] > self._slight)
        ]


def _last_outputs(watched: Outcome, unwatched: Outcome) -> Outcome:
    """Return `watched` with as many outputs of each call as `unwatched` has, the last ones."""
    own = Outcome()
    own.grads, own.after = watched.grads, watched.after
    for (leaves, _), (fewer, structure) in zip(watched.outputs, unwatched.outputs):
        own.outputs.append((leaves[len(leaves) - len(fewer) :], structure))
    return own
