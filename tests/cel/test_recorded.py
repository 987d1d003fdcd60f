"""What the API server and the evaluator of kube-scheduler 1.36 said, case by case."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from scheduler.cel import CelCompileError, CelRuntimeError, CelSelector, compile_selector
from scheduler.cel.parser import MAX_LENGTH
from tests.cel.devices import costs, device

_DATA = Path(__file__).parents[1] / "data" / "dra"


def _lines(name: str) -> list[dict[str, Any]]:
    with gzip.open(_DATA / name, "rt") as lines:
        return [json.loads(line) for line in lines]


def _results(selector: CelSelector, devices: list[dict[str, Any]]) -> list[Any]:
    results: list[Any] = []
    for case in devices:
        try:
            results.append(selector.evaluate(device(case)))
        except CelRuntimeError as error:
            results.append({"error": str(error)})
    return results


def _outcomes(results: list[Any]) -> list[Any]:
    """Without the texts of errors."""
    return ["error" if isinstance(result, dict) else result for result in results]


def _differs(case: dict[str, Any], want: dict[str, Any], texts: bool = False) -> str | None:
    expression = case["expression"]
    try:
        selector = compile_selector(expression)
    except CelCompileError as error:
        return None if "compile" in want else f"refused: {error}"
    if "compile" in want:
        return f"compiles, wanted {want['compile']}"
    if "estimate" in want and selector.estimated_cost != want["estimate"]:
        return f"estimated at {selector.estimated_cost}, wanted {want['estimate']}"
    if "tooComplex" in want and selector.too_complex != want["tooComplex"]:
        return f"estimated at {selector.estimated_cost}"
    results, wanted = _results(selector, case["devices"]), want["results"]
    if (results if texts else _outcomes(results)) != (wanted if texts else _outcomes(wanted)):
        return f"{results}, wanted {wanted}"
    return None


def _all_equal(found: dict[str, str | None]) -> bool:
    different = {text: message for text, message in found.items() if message is not None}
    assert different == {}
    return True


def test_the_given_cases_are_equal_to_the_texts_of_errors() -> None:
    lines = _lines("cel.jsonl.gz")
    assert len(lines) == 900
    assert _all_equal(
        {
            line["case"]["expression"]: _differs(
                line["case"], {"tooComplex": False, **line["want"]}, texts=True
            )
            for line in lines
        }
    )


def test_the_cases_by_area_are_equal() -> None:
    # The evaluator takes longer expressions than the API server stores.
    lines = [
        line
        for line in _lines("cel-more.jsonl.gz")
        if len(line["case"]["expression"].encode()) <= MAX_LENGTH
    ]
    assert len(lines) > 4500
    assert _all_equal(
        {line["case"]["expression"]: _differs(line["case"], line["want"]) for line in lines}
    )


def test_random_expressions_are_equal_in_refusals_estimates_and_outcomes() -> None:
    head, *lines = _lines("cel-fuzz.jsonl.gz")
    assert len(lines) == 5000
    assert _all_equal(
        {
            line["expression"]: _differs({**head, "expression": line["expression"]}, line["want"])
            for line in lines
        }
    )


def test_random_expressions_cost_the_same_at_run_time() -> None:
    head, *lines = _lines("cel-fuzz.jsonl.gz")
    different = {}
    for line in lines:
        # Where the evaluator itself fails, what it had counted until then is its own affair.
        if "costs" not in line["want"] or "internal error" in json.dumps(line["want"]):
            continue
        found = costs(line["expression"], *head["devices"])
        if found != line["want"]["costs"]:
            different[line["expression"]] = (found, line["want"]["costs"])
    assert different == {}
