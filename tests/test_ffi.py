"""The binding: its table of codes, its defaults, its errors."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from hardfetch import _config, _ffi, errors
from hardfetch.options import Options
from hardfetch.summary import TYPE_NAMES, Stats

CSRC = Path(__file__).parents[1] / "csrc"


def codes_of_the_core() -> dict[str, int]:
    found = re.findall(r"(HF_(?:OK|E[A-Z]+)) = (-?\d+)", (CSRC / "err.h").read_text())
    return {name: int(value) for name, value in found}


def test_every_code_of_the_core_is_in_the_table() -> None:
    codes = codes_of_the_core()
    assert len(codes) > 10
    assert set(codes.values()) == set(_ffi.CODES)
    for name in ("FULL", "AGAIN", "END", "INTR", "PIPE", "IO"):
        ours = {"INTR": "INTERRUPTED"}.get(name, name)
        assert codes[f"HF_E{name}"] == getattr(_ffi, ours)


@pytest.mark.parametrize("code", sorted(_ffi.CODES))
def test_a_code_is_an_answer_or_raises_its_class(code: int) -> None:
    kind = _ffi.CODES[code]
    if kind is None:
        assert _ffi.check(code) == code
        return
    with pytest.raises(kind) as caught:
        _ffi.check(code)
    assert str(caught.value)
    err = _ffi.ffi.new("char[]", b"timeout: must be above 0")
    with pytest.raises(kind, match="^timeout: must be above 0$"):
        _ffi.check(code, err)


def test_a_code_of_a_later_core_is_an_engine_error() -> None:
    with pytest.raises(errors.EngineError):
        _ffi.check(-99)
    assert _ffi.check(17) == 17


def test_the_cores_names_are_ours() -> None:
    lib, ffi = _ffi.lib, _ffi.ffi
    for number, name in enumerate(TYPE_NAMES):
        assert ffi.string(lib.hf_name_type(number)).decode() == name
    assert lib.hf_name_type(len(TYPE_NAMES)) == ffi.NULL


def test_defaults_of_python_and_core_are_the_same() -> None:
    config = _ffi.ffi.new("hf_config *")
    _ffi.lib.hf_config_default(config)
    options = Options.build()
    for name in ("max_concurrency", "max_per_host", "max_body", "max_headers"):
        assert getattr(config, name) == getattr(options, name), name
    for name in ("timeout", "hard_timeout", "connect_timeout"):
        assert getattr(config, name) == getattr(options, name) * 1e6, name
    for name in ("first_byte_timeout", "idle_timeout", "deadline"):
        assert getattr(config, name) == 0, name
    assert config.max_redirects == options.max_redirects
    assert config.max_ratio == options.max_ratio
    assert config.ring_bytes == options.ring_bytes


def test_options_arrive_in_the_config(tmp_path: Path) -> None:
    bundle = tmp_path / "ca.pem"
    bundle.write_text("-----BEGIN CERTIFICATE-----")
    options = Options.build(
        timeout=1.5,
        headers={"A": "b"},
        data=b"a\0b",
        impersonate="chrome131",
        proxy="http://u:p@h:1",
        no_redirects=True,
        body="base64",
        ech="off",
        fields="url",
        cacert=bundle,
        insecure=True,
    )
    config = _config.Config(options, output=_config.OUTPUT_FRAMES, window=5)
    c, text = config.c, _ffi.ffi.string
    assert c.timeout == 1_500_000
    assert c.hard_timeout == 6_500_000
    assert text(c.headers_list[0]) == b"A: b"
    assert c.headers_list[1] == _ffi.ffi.NULL
    assert bytes(_ffi.ffi.buffer(c.body, c.body_len)) == b"a\0b"
    assert text(c.impersonate) == b"chrome131"
    assert text(c.proxy) == b"http://u:p@h:1"
    assert text(c.method) == b"POST"
    assert (c.max_redirects, c.body_mode, c.ech, c.output) == (-1, 2, 2, 1)
    assert (c.window_requests, c.verify, c.headers) == (5, 0, 1)
    assert text(c.fields[0]) == b"url"
    assert text(c.cainfo).decode() == str(bundle)
    assert text(c.sensitive[0]) == b"Authorization"


def test_every_counter_of_the_core_is_in_stats() -> None:
    raw = _ffi.ffi.new("hf_stats *")
    raw.overrun_max, raw.stalled_us = 1500, 250_000
    names = {name for name, _ in _ffi.ffi.typeof("hf_stats").fields}
    ours = {field.name for field in dataclasses.fields(Stats)}
    assert names - {"stalled_us"} == ours - {"stalled"}
    stats = Stats.of(raw)
    assert (stats.overrun_max, stats.stalled) == (0.0015, 0.25)


def test_the_library_is_curl_cffis_own_and_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HARDFETCH_LIBCURL", raising=False)
    path = _config.library_path()
    assert "curl_cffi" in path
    library = _config.probe(path)
    assert library.impersonates
    assert library.version_num >= 0x080000
    assert "IMPERSONATE" in library.version.upper()


def test_a_library_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARDFETCH_LIBCURL", "/no/such/libcurl.so")
    with pytest.raises(errors.EngineError, match="/no/such/libcurl.so"):
        _config.library_path()


def test_a_library_that_is_none_is_one_clear_error(tmp_path: Path) -> None:
    fake = tmp_path / "libcurl.so"
    fake.write_text("not an object")
    with pytest.raises(errors.EngineError, match=r"libcurl\.so"):
        _config.probe(str(fake))


def test_an_old_curl_cffi_is_refused_naming_both_versions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("HARDFETCH_LIBCURL", raising=False)
    monkeypatch.setattr(_config, "curl_cffi_version", lambda: "0.13.0")
    with pytest.raises(errors.EngineError, match=r"0\.13\.0.*0\.17"):
        _config.library_path()


def test_the_ca_bundle_follows_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    assert Path(_config.ca_bundle()).is_file()
    bundle = tmp_path / "ca.pem"
    bundle.write_text("x")
    monkeypatch.setenv("SSL_CERT_FILE", str(bundle))
    assert _config.ca_bundle() == str(bundle)
    monkeypatch.setenv("SSL_CERT_FILE", "/no/such/bundle.pem")
    with pytest.raises(errors.EngineError, match="SSL_CERT_FILE"):
        _config.ca_bundle()
