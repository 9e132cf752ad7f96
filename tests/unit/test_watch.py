"""`genericjob watch` on a terminal, while its server is away."""

from types import SimpleNamespace

from genericjob.cli import following
from genericjob.cli.watch import _Watching
from genericjob.reconcile.errors import ApiError


def test_a_table_shows_that_the_server_is_away(monkeypatch, capsys):
    """What was printed above it would be painted over."""
    monkeypatch.setattr(following, "REPORT_AFTER_S", 0.0)
    job = {"metadata": {"name": "train"}, "spec": {}, "status": {"phase": "Running"}}
    watching = _Watching(SimpleNamespace(), job, [], "")
    watching._live = SimpleNamespace()
    watching._contact.failed(ApiError(0, "Unreachable", "refused"))
    assert "cannot reach the server, trying again: refused" in "\n".join(watching._table([]))
    watching._contact.answered()
    assert "server" not in "\n".join(watching._table([]))
    assert capsys.readouterr().err == ""
