from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpmon.tui.secrets import MASK, shown


@pytest.mark.parametrize(
    "name",
    [
        "AWS_SECRET_ACCESS_KEY", "HF_TOKEN", "WANDB_API_KEY", "DB_PASSWORD", "PGPASSFILE", "mysql_pwd", "GOOGLE_CREDENTIALS",
        "BASIC_AUTH", "COOKIE", "SENTRY_DSN", "JWT", "SLACK_WEBHOOK", "SSH_AUTH_SOCK", "SESSION_ID", "PASSPHRASE",
    ],
)  # fmt: skip
def test_names_that_tell(name: str) -> None:
    assert shown(name, "hunter2") == MASK


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PWD", "/home/ada"), ("OLDPWD", "/"), ("PATH", "/usr/bin:/bin"), ("RANK", "3"), ("MASTER_ADDR", "10.0.0.1"),
        ("NCCL_SOCKET_IFNAME", "eth0"), ("URL", "http://host:8080/a?b=c"), ("GIT", "git@github.com:a/b.git"), ("HF_TOKEN", ""),
    ],
)  # fmt: skip
def test_what_is_no_secret_is_shown_as_it_is(name: str, value: str) -> None:
    assert shown(name, value) == value


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("postgres://ann:hunter2@db:5432/x", f"postgres://ann:{MASK}@db:5432/x"),
        ("http://:hunter2@proxy", f"http://:{MASK}@proxy"),
        ("https://host/a?user=ann&token=hunter2&b=1", f"https://host/a?user=ann&token={MASK}&b=1"),
        ("Server=db;User=ann;Password=hunter2;Port=1", f"Server=db;User=ann;Password={MASK};Port=1"),
    ],
)
def test_only_what_is_secret_of_a_value_is_masked(value: str, said: str) -> None:
    assert shown("SOURCE", value) == said


@pytest.mark.parametrize(
    "value",
    ["ghp_0123456789abcdef", "hf_abcdef", "sk-proj-1", "AKIAIOSFODNN7EXAMPLE", "eyJhbGciOi.eyJzdWIi.x", "glpat-1",
     "-----BEGIN OPENSSH PRIVATE KEY-----\nabc"],
)  # fmt: skip
def test_tokens_are_known_by_their_form(value: str) -> None:
    assert shown("NOTE", value) == MASK


@given(st.sampled_from(["MY_TOKEN", "key", "Auth"]), st.text(min_size=1))
def test_nothing_of_a_secret_is_left(name: str, value: str) -> None:
    assert shown(name, value) == MASK


@given(st.text(), st.text())
def test_any_name_and_value_are_said(name: str, value: str) -> None:
    assert bool(shown(name, value)) == bool(value)
