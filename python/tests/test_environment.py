"""What the user says to all programs at once."""

from __future__ import annotations

import lanesum
import pytest


@pytest.mark.parametrize(
    ("value", "expected"), [(None, True), ("", True), ("1", True), ("Yes", True), ("0", False), ("off", False)]
)
def test_the_switch_is_read_by_value(monkeypatch: pytest.MonkeyPatch, value: str | None, expected: bool) -> None:
    monkeypatch.delenv("LANESUM", raising=False)
    if value is not None:
        monkeypatch.setenv("LANESUM", value)
    assert lanesum.enabled() is expected


def test_nothing_joins_where_it_is_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANESUM", "0")
    for join in (lambda: lanesum.Communicator(0, 1, "off"), lanesum.Communicator.from_env):
        with pytest.raises(lanesum.EnvironmentVariableError, match="turns lanesum off") as raised:
            join()
        assert raised.value.kind == "off" and "LANESUM" in str(raised.value.hint)


def test_nonsense_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANESUM", "2")
    for ask in (lanesum.enabled, lambda: lanesum.Communicator(0, 1, "nonsense")):
        with pytest.raises(lanesum.EnvironmentVariableError, match='LANESUM is set to "2"'):
            ask()
    monkeypatch.setenv("LANESUM_POLICY", "nccl")
    with pytest.raises(lanesum.EnvironmentVariableError, match="LANESUM_POLICY"):
        lanesum.policy()


def test_the_policy_is_one_of_two_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LANESUM_POLICY", raising=False)
    assert lanesum.policy() is None
    for word in ("exact", "fastest"):
        monkeypatch.setenv("LANESUM_POLICY", word)
        assert lanesum.policy() == word


def test_without_gpus_nothing_is_handed_over() -> None:
    with lanesum.Communicator(0, 1, "alone") as communicator:
        assert communicator.delegate_from() is None
        assert communicator.delegate_from(dtype="float32", op="max") is None
        with pytest.raises(lanesum.TensorTypeError, match="float64"):
            communicator.delegate_from(dtype="float64")
